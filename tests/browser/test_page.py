"""The page without a kernel: its arithmetic is that of the library, and it works from a file."""

import math
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser, Page, expect
from torch.nn.functional import cross_entropy

from alibi_viz import lab, laws, study, widgets
from alibi_viz.models import LanguageModel
from alibi_viz.train.training import _optimizers, _training_rows, batches
from docs.page.build import BEGINNING, MODELS, RACE, RACE_MODEL, _packed, page_data, script

SIZES = {
    "num_layers": RACE_MODEL["layers"],
    "d_model": RACE_MODEL["width"],
    "num_heads": RACE_MODEL["heads"],
}


@pytest.fixture(scope="module")
def data() -> dict[str, Any]:
    return page_data()


@pytest.fixture
def arithmetic(browser: Browser) -> Iterator[Page]:
    """An empty page with the functions and classes of model.js and worker.js."""
    page = browser.new_page()
    page.add_script_tag(content=script("model.js", "worker.js"))
    yield page
    page.close()


@pytest.fixture
def page(page: Page, site: Path) -> Page:
    """The page, opened from its file on a phone."""
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto(site.as_uri())
    return page


# Functions of the page, called with a configuration and the weights of a model
LOSS_AND_GRADIENTS = """([config, weights, inputs, targets]) => {
    const model = new Model(config);
    model.weights.set(weights);
    const logits = model.forward(inputs, 3, 24, true);
    const { bits, gradient } = crossEntropy(logits, targets, config.vocabulary);
    model.backward(gradient);
    return [bits, [...model.gradients]];
}"""
TRAIN = """([config, weights, windows, settings]) => {
    const model = new Model(config);
    model.weights.set(weights);
    const batches = windows.map(window => ({
        inputs: window.flatMap(row => row.slice(0, -1)),
        targets: window.flatMap(row => row.slice(1)),
    }));
    return [...train(model, batches.values(), settings)];
}"""
READ = """([config, weights, tokens]) => {
    const model = new Model(config);
    model.weights.set(weights);
    const atOnce = [...model.forward(tokens, 1, tokens.length)];
    const writer = new Writer(model);
    const oneByOne = tokens.map(token => [...writer.read(token)]);
    return [atOnce, oneByOne];
}"""
LAW = """law => Array.from({ length: 12 }, (_, head) =>
    Array.from({ length: 100 }, (_, distance) => LAWS[law](distance, head + 1, 12)))"""
# Move the slider of the query quickly, and count the announcements of the caption.
MOVE_QUERY = """() => {
    window.region = document.getElementById("heads-caption");
    window.announced = [];
    const count = () => announced.push(region.textContent);
    new MutationObserver(count).observe(region, { childList: true });
    const query = document.getElementById("query");
    for (const value of [31, 30, 29, 28, 27, 8]) {
        query.value = value;
        query.dispatchEvent(new Event("input"));
    }
}"""
# Collect every text that the page shows while it writes.
COLLECT_TEXTS = """window.texts = new Set();
new MutationObserver(() => {
    const text = document.querySelector("#written-alibi .beyond");
    if (text) texts.add(text.textContent);
}).observe(document, { subtree: true, childList: true });"""


def tokens_of(data: dict[str, Any]) -> torch.Tensor:
    """The training text of the race as token ids, int64 [bytes]."""
    characters = data["race"]["characters"]
    return torch.tensor([characters.index(character) for character in data["race"]["training"]])


def race_model(data: dict[str, Any], position: str, **sizes: int) -> LanguageModel:
    vocabulary = len(data["race"]["characters"])
    sizes = {**SIZES, "max_length": RACE["length"], "vocabulary": vocabulary, **sizes}
    return lab.make_model(position, **sizes)


def flat(tensors: Any) -> list[float]:
    return torch.cat([tensor.detach().flatten() for tensor in tensors]).tolist()


@pytest.mark.parametrize("position", ["alibi", "sinusoidal", "rotary", "none"])
def test_loss_and_gradients_equal_those_of_torch(
    arithmetic: Page, data: dict[str, Any], position: str
) -> None:
    model = race_model(data, position, num_layers=2)
    windows = tokens_of(data)[: 3 * 25].view(3, 25)
    inputs = windows[:, :-1]
    targets = windows[:, 1:]
    loss = cross_entropy(model(inputs).flatten(0, 1), targets.flatten())
    loss.backward()
    expected = torch.tensor(flat(parameter.grad for parameter in model.parameters()))

    config = _packed(model)["config"]
    weights = flat(model.parameters())
    bits, gradients = arithmetic.evaluate(
        LOSS_AND_GRADIENTS,
        [config, weights, inputs.flatten().tolist(), targets.flatten().tolist()],
    )
    assert bits == pytest.approx(loss.item() / math.log(2), abs=1e-5)
    torch.testing.assert_close(torch.tensor(gradients), expected, atol=1e-6, rtol=1e-4)


def test_a_whole_race_has_the_losses_of_torch(arithmetic: Page, data: dict[str, Any]) -> None:
    model = race_model(data, "alibi")
    config = _packed(model)["config"]
    weights = flat(model.parameters())
    steps = RACE["steps"]
    every_batch = batches(tokens_of(data), RACE["length"], RACE["batch"], seed=0)
    windows = list(islice(every_batch, steps))

    optimizers = _optimizers(model, "muon", RACE["rate"])
    pairs = ((window[:, :-1], window[:, 1:]) for window in windows)
    rows = _training_rows(
        model, pairs, optimizers, learning_rate=RACE["rate"], steps=steps, row={"seed": 0}
    )
    expected = torch.tensor([row["value"] for row in rows])

    as_lists = [window.tolist() for window in windows]
    losses = torch.tensor(arithmetic.evaluate(TRAIN, [config, weights, as_lists, RACE]))
    torch.testing.assert_close(losses, expected, atol=1e-2, rtol=0)


@pytest.mark.parametrize("name", MODELS)
def test_shipped_models_have_the_logits_of_python(
    arithmetic: Page, data: dict[str, Any], name: str
) -> None:
    model = study.published_model(name).model.eval()
    tokens = lab.load_text().validation[:64].long()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.copy_(parameter.half())  # as the page stores them
        expected = model(tokens[None])[0]

    config = data["models"][name]["config"]
    at_once, one_by_one = arithmetic.evaluate(
        READ, [config, flat(model.parameters()), tokens.tolist()]
    )
    at_once = torch.tensor(at_once).view_as(expected)
    torch.testing.assert_close(at_once, expected, atol=1e-3, rtol=0)
    torch.testing.assert_close(torch.tensor(one_by_one), expected, atol=1e-3, rtol=0)


@pytest.mark.parametrize("law", laws.__all__)
def test_laws_have_the_biases_of_python(arithmetic: Page, law: str) -> None:
    function = getattr(laws, law)
    distances = torch.arange(100)
    expected = torch.stack([function(distances, head, 12) for head in range(1, 13)]).float()
    values = arithmetic.evaluate(LAW, law)  # numbers, and "-Infinity"
    computed = torch.tensor([[float(value) for value in row] for row in values])
    torch.testing.assert_close(computed, expected, atol=1e-5, rtol=1e-5)


def test_the_page_writes_from_a_file_and_fits_a_phone(page: Page) -> None:
    expect(page.locator("#written-alibi")).to_contain_text("This is the story of Emma")
    expect(page.locator("#note-alibi")).to_contain_text(
        "% of the words after the line are words of the tales"
    )
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_typed_markup_is_written_as_text(page: Page) -> None:
    page.fill("#beginning", "<img src=x onerror=alert(1)> \u202e \U0001f600")
    expect(page.locator("#written-alibi")).to_contain_text("<img src=x")
    assert page.locator("pre img").count() == 0


def test_the_scale_of_the_slopes_follows_its_slider(page: Page) -> None:
    page.select_option("#cut", "4")
    page.locator("#scale").press("ArrowRight")
    expect(page.locator("#scale-value")).to_contain_text(" 2")


def test_one_head_and_one_token_have_one_full_weight(page: Page) -> None:
    page.locator("#heads").press("End")
    page.locator("#length").press("Home")
    page.locator("#heads").press("Home")
    expect(page.locator("#grid canvas")).to_have_count(1)
    expect(page.locator("#heads-caption")).to_contain_text("100%")


def test_a_settled_slider_is_announced_once_in_a_live_region_that_stays(page: Page) -> None:
    caption = page.locator("#heads-caption")
    expect(caption).to_contain_text("the framed query gives its 8 nearest tokens between 26%")
    page.evaluate(MOVE_QUERY)
    expect(page.locator("#query-value")).to_have_text("8")
    expect(caption).to_contain_text("between 100% and 100%")
    assert page.evaluate("announced.length") == 1
    assert page.evaluate("region.isConnected")
    assert page.evaluate("region.ariaLive") == "polite"


def test_a_switch_lights_up_its_cell_by_keyboard(page: Page) -> None:
    lit = page.locator(".switches .now")
    expect(lit).to_contain_text("both troubles")
    page.locator("#far-brake").press("Space")
    expect(lit).to_contain_text("only new angles")
    page.locator("#angles-stop").press("Space")
    expect(lit).to_contain_text("neither, like ALiBi")
    expect(page.locator("#switches-caption")).to_contain_text("Both: 0.71 bits per byte")


def test_a_click_on_a_cell_sets_both_switches(page: Page) -> None:
    page.get_by_role("cell", name="only the crowd").click()
    expect(page.locator("#angles-stop")).to_be_checked()
    expect(page.locator("#far-brake")).not_to_be_checked()
    expect(page.locator(".switches .now")).to_contain_text("2.54")


def test_the_numbers_of_a_heatmap_stand_in_a_table(page: Page) -> None:
    page.locator("#heads").press("Home")
    query = page.locator("#query")
    query.press("Home")
    query.press("ArrowRight")
    query.press("ArrowRight")
    page.get_by_text("The numbers").first.click()
    weights = torch.tensor([0.0, -1, -2]).mul(2.0**-8).softmax(0)  # one head has the slope 1/256
    expected = [f"{100 * weight:.1f}%" for weight in weights.tolist()]
    assert page.locator("#heads-table tr").nth(1).locator("td").all_inner_texts() == expected


@pytest.fixture(params=["reduce", "no-preference"])
def motion(request: pytest.FixtureRequest) -> Any:
    """What a reader has chosen in the system: less motion, or nothing."""
    return request.param


@pytest.fixture
def writing_page(browser: Browser, site: Path, motion: Any) -> Iterator[Page]:
    """The page, with every text that it has shown in `texts`, after it has written the first."""
    page = browser.new_page(reduced_motion=motion)
    page.add_init_script(COLLECT_TEXTS)
    page.goto(site.as_uri())
    expect(page.locator("#live-writing")).to_contain_text("ALiBi")
    yield page
    page.close()


def test_text_appears_letter_by_letter_unless_motion_is_reduced(
    writing_page: Page, motion: Any
) -> None:
    appears_at_once = writing_page.evaluate("texts.size") == 1
    assert appears_at_once == (motion == "reduce")


def test_button_writes_another_text(writing_page: Page) -> None:
    writing_page.click("#again")
    writing_page.wait_for_function("texts.size > 1")


def test_texts_pictures_and_answers_remain_without_javascript(browser: Browser, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False, viewport={"width": 390, "height": 800})
    page = context.new_page()
    page.goto(site.as_uri())
    for name in MODELS:
        assert BEGINNING in page.locator(f"#written-{name}").inner_text()
    expect(page.get_by_alt_text("Weights of head 8 of 8")).to_be_visible()
    expect(page.get_by_role("cell", name="both troubles 5.96")).to_be_visible()
    expect(page.locator("#far-brake")).to_be_hidden()
    bug = page.locator(".bugs figure").first
    bug.get_by_text("the answer").click()
    expect(bug).to_contain_text("Seen in")
    expect(page.get_by_role("button", name="Train")).to_be_hidden()
    context.close()


def test_a_race_asks_for_a_guess(page: Page) -> None:
    page.click("#train")
    expect(page.locator("#race-caption")).to_contain_text("Guess first")


def test_a_race_that_is_stopped_at_once_says_so(page: Page) -> None:
    page.check('input[value="sinusoidal"]')
    page.click("#train")
    page.click("#stop")
    expect(page.locator("#race-caption")).to_contain_text("Stopped before both models were tested")


def test_a_browser_without_workers_is_told(page: Page) -> None:
    page.check('input[value="sinusoidal"]')
    page.evaluate("() => { Worker = null; }")
    page.click("#train")
    expect(page.locator("#race-caption")).to_contain_text("could not start a worker")
    expect(page.locator("#bar-note-alibi")).to_be_empty()


def test_stop_ends_both_workers_of_a_race(page: Page) -> None:
    page.check('input[value="sinusoidal"]')
    page.click("#train")
    written = page.locator("#race-sinusoidal .beyond")
    expect(written).not_to_be_empty(timeout=60_000)  # after the first checkpoint
    first, second = page.workers
    with first.expect_event("close"), second.expect_event("close"):
        page.click("#stop")
    expect(page.locator("#train")).to_be_enabled()
    expect(page.locator("#race-caption")).to_contain_text("Stopped")


def test_a_saved_app_runs_no_script_of_its_text(browser: Browser, tmp_path: Path) -> None:
    app = widgets.AttentionExplorer(
        text="<script>window.hurt=1</script> <img/src=x/onerror=window.hurt=1>"
    )
    app.save(tmp_path / "app.html")
    page = browser.new_page()
    page.goto((tmp_path / "app.html").as_uri())
    expect(page.locator(".textpoint text").first).to_be_visible()
    assert page.evaluate("window.hurt") is None
