"""The page without a kernel: its arithmetic is that of the library, and it works from a file."""

import math
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
import torch
from playwright.sync_api import Browser, Page, ViewportSize, expect
from torch.nn.functional import cross_entropy

from alibi_viz import lab, laws, study, widgets
from alibi_viz.figures.theme import WEIGHT_SCALE
from alibi_viz.models import LanguageModel
from alibi_viz.train.training import _optimizers, _training_rows, batches
from docs.page.build import (
    BEGINNING,
    BYTES,
    MODELS,
    RACE,
    RACE_MODEL,
    _packed,
    page_data,
    script,
)
from tests.browser.accessibility import findings

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


@pytest.fixture
def written_page(page: Page, site: Path) -> Page:
    """The page on a laptop, after all three models have written."""
    page.set_viewport_size(LAPTOP)
    page.goto(site.as_uri())
    expect(page.locator("#live-writing")).to_contain_text("Sinusoidal")
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
# Drag a slider to its end and back, and count the places at which it was seen.
DRAG = """async id => {
    const slider = document.getElementById(id);
    const places = new Set();
    const frame = () => new Promise(requestAnimationFrame);
    const { min, max, step } = slider;
    for (const direction of [-1, 1]) {
        for (let n = 0; n <= (max - min) / (step || 1); n++) {
            slider.value = Number(slider.value) + direction * (step || 1);
            slider.dispatchEvent(new Event("input"));
            await frame();
            await frame();
            places.add(slider.getBoundingClientRect().top);
        }
    }
    return places.size;
}"""
# Let another text begin, and find how short the texts become meanwhile.
SHORTEST_TEXT_AFTER_A_CLICK = """async () => {
    const cards = [...document.querySelectorAll("#cards pre")];
    let shortest = Infinity;
    document.getElementById("again").click();
    for (let n = 0; n < 20; n++) {
        shortest = Math.min(shortest, ...cards.map(card => card.textContent.length));
        await new Promise(requestAnimationFrame);
    }
    return shortest;
}"""
# The colors of three cells of the first matrix
CORNERS = """() => {
    const canvas = document.querySelector("#grid canvas");
    const copy = new OffscreenCanvas(32, 32).getContext("2d", { willReadFrequently: true });
    copy.drawImage(canvas, 0, 0);
    const at = (x, y) => [...copy.getImageData(x, y, 1, 1).data];
    return { far: at(0, 31), near: at(31, 31), masked: at(31, 0) };
}"""
ONLY_ALIBI = re.compile(r"Real words past the limit\. ALiBi: \d+%\.")
TIMES = "\N{MULTIPLICATION SIGN}"
LAPTOP: ViewportSize = {"width": 1366, "height": 768}
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
    expect(page.locator("#share-alibi")).to_contain_text("%")
    assert page.evaluate("document.documentElement.scrollWidth") <= 390


def test_first_screen_of_a_laptop_holds_question_controls_and_all_three_texts(
    written_page: Page,
) -> None:
    for name in MODELS:
        end = written_page.locator(f"#written-{name} .beyond").bounding_box()
        assert end is not None
        assert end["y"] + end["height"] <= LAPTOP["height"]


def test_at_448_letters_only_alibi_still_writes_words(written_page: Page) -> None:
    shares = {
        name: int(written_page.locator(f"#share-{name}").inner_text().removesuffix("%"))
        for name in MODELS
    }
    assert shares["alibi"] > 90
    assert shares["rotary"] < 50
    assert shares["sinusoidal"] < 10


def test_the_share_of_real_words_has_a_bar_of_its_length(written_page: Page) -> None:
    for name in MODELS:
        share = written_page.locator(f"#share-{name}").inner_text()
        width = written_page.locator(f"#meter-{name}").evaluate("bar => bar.style.width")
        assert width == share


def test_only_alibi_is_rewritten_when_its_slopes_change(written_page: Page) -> None:
    before = {name: written_page.locator(f"#written-{name}").inner_text() for name in MODELS}
    written_page.locator("#scale").press("ArrowRight")
    expect(written_page.locator("#live-writing")).to_have_text(ONLY_ALIBI)
    after = {name: written_page.locator(f"#written-{name}").inner_text() for name in MODELS}
    changed = [name for name in MODELS if before[name] != after[name]]
    assert changed == ["alibi"]


@pytest.mark.parametrize("slider", ["scale", "count"])
def test_a_slider_stays_under_the_hand_while_it_is_dragged(page: Page, slider: str) -> None:
    page.evaluate("id => document.getElementById(id).scrollIntoView({ block: 'center' })", slider)
    assert page.evaluate(DRAG, slider) == 1


def test_no_card_is_empty_while_a_new_text_is_written(written_page: Page) -> None:
    assert written_page.evaluate(SHORTEST_TEXT_AFTER_A_CLICK) > 400


def test_other_cards_stay_where_they_are_when_a_text_begins(written_page: Page) -> None:
    heights = "[...document.querySelectorAll('#cards .card')].map(card => card.offsetHeight)"
    before = written_page.evaluate(heights)
    written_page.click("#again")
    assert written_page.evaluate(heights) == before


def test_typed_markup_is_written_as_text(page: Page) -> None:
    page.fill("#beginning", "<img src=x onerror=alert(1)> \u202e \U0001f600")
    expect(page.locator("#written-alibi")).to_contain_text("<img src=x")
    assert page.locator("pre img").count() == 0


def test_the_slider_of_the_slopes_says_their_factor_not_its_power(page: Page) -> None:
    slider = page.locator("#scale")
    slider.press("ArrowRight")
    expect(page.locator("#scale-value")).to_have_text(f"{TIMES} 2")
    expect(slider).to_have_attribute("aria-valuetext", f"{TIMES} 2")


def test_controls_are_set_to_the_address(page: Page, site: Path) -> None:
    page.goto(f"{site.as_uri()}#slopes=2&cut=1&seed=3&letters=128&text=A+fox")
    page.reload()
    expect(page.locator("#scale-value")).to_have_text(f"{TIMES} 2")
    expect(page.locator("#cut")).to_have_value("1")
    expect(page.locator("#count")).to_have_value("128")
    expect(page.locator("#beginning")).to_have_value("A fox")
    expect(page.locator("#written-rotary")).to_contain_text("A fox")
    expect(page.locator("#address-note")).to_be_hidden()


def test_changes_go_into_the_address_and_defaults_stay_out_of_it(page: Page) -> None:
    page.locator("#scale").press("ArrowRight")
    page.click("#again")
    assert page.url.endswith("index.html#slopes=2&seed=2")
    page.locator("#scale").press("ArrowLeft")
    assert page.url.endswith("index.html#seed=2")


@pytest.mark.parametrize(
    "nonsense", ["slopes=3", "slopes=0", "cut=9", "seed=-1", "letters=65", "law=x", "nowhere"]
)
def test_nonsense_in_the_address_shows_the_default_and_says_so(
    page: Page, site: Path, nonsense: str
) -> None:
    page.goto(f"{site.as_uri()}#{nonsense}")
    page.reload()
    expect(page.locator("#address-note")).to_be_visible()
    expect(page.locator("#address-note")).to_contain_text(nonsense)
    expect(page.locator("#scale-value")).to_have_text(f"{TIMES} 1")
    expect(page.locator("#count-value")).to_have_text(str(BYTES))


def test_a_section_in_the_address_is_no_nonsense(page: Page, site: Path) -> None:
    page.goto(f"{site.as_uri()}#train")
    page.reload()
    expect(page.locator("#address-note")).to_be_hidden()


def test_copy_link_copies_the_address_or_says_where_it_is(page: Page) -> None:
    page.locator("#scale").press("ArrowRight")
    page.click("#copy")
    expect(page.locator("#copied")).to_contain_text("Cop", ignore_case=True)


def test_one_head_and_one_token_have_one_full_weight(page: Page) -> None:
    page.locator("#heads").press("End")
    page.locator("#length").press("Home")
    page.locator("#heads").press("Home")
    expect(page.locator("#grid canvas")).to_have_count(1)
    expect(page.locator("#heads-caption")).to_contain_text("the head gives 100% of")


def test_a_click_on_a_row_of_a_matrix_chooses_its_query(page: Page) -> None:
    matrix = page.locator("#grid canvas").nth(2)
    box = matrix.bounding_box()
    assert box is not None
    matrix.click(position={"x": 4, "y": box["height"] * 9.5 / 32})  # the tenth row of 32
    expect(page.locator("#query-value")).to_have_text("10")


def test_the_slider_of_the_queries_plays_until_it_is_paused(page: Page) -> None:
    play = page.get_by_role("button", name="Play query")
    play.click()
    expect(page.locator("#query-value")).not_to_have_text("32")
    expect(play).to_have_attribute("aria-pressed", "true")
    play.click()
    stopped = page.locator("#query-value").inner_text()
    page.wait_for_timeout(400)
    expect(page.locator("#query-value")).to_have_text(stopped)


def test_nothing_plays_for_readers_who_want_less_motion(page: Page) -> None:
    page.emulate_media(reduced_motion="reduce")
    expect(page.get_by_role("button", name="Play query")).to_be_hidden()


def test_a_heatmap_is_bright_where_weight_is_and_transparent_where_masked(page: Page) -> None:
    corners = page.evaluate(CORNERS)
    weights = [WEIGHT_SCALE.palette[0], WEIGHT_SCALE.palette[-1]]
    assert corners["far"] == [*weights[0], 255]
    assert corners["near"] == [*weights[1], 255]
    assert corners["masked"][3] == 0


def test_a_settled_slider_is_announced_once_in_a_live_region_that_stays(page: Page) -> None:
    caption = page.locator("#heads-caption")
    expect(caption).to_contain_text("each head gives between 26%")
    page.evaluate(MOVE_QUERY)
    expect(page.locator("#query-value")).to_have_text("8")
    expect(caption).to_contain_text("each head gives 100% of")
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
    page.locator("#see summary").click()
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
    case = page.locator(".case").first
    case.get_by_text("The answer").click()
    expect(case).to_contain_text("Seen in")
    expect(case.get_by_role("button")).to_have_count(0)
    expect(page.get_by_role("button", name="Train")).to_be_hidden()
    context.close()


@pytest.mark.parametrize("case", [0, 1, 2])
def test_a_right_answer_is_confirmed_and_explained(page: Page, case: int) -> None:
    question = page.locator(".case").nth(case)
    fault = question.get_attribute("data-fault") or ""
    question.get_by_role("button", name=fault).click()
    expect(page.locator("#verdict")).to_have_text(f"Right: {fault}")
    expect(page.locator("#verdict-details")).to_contain_text("Seen in")


def test_a_wrong_answer_is_named_beside_the_right_one(page: Page) -> None:
    question = page.locator(".case").first
    question.get_by_role("button", name="no bias").click()
    expect(page.locator("#verdict")).to_have_text("Not “no bias”, but “sign reversed”")
    expect(page.locator("#verdict-details")).to_contain_text("You have found 0 of 1")


@pytest.mark.parametrize("width", [390, 1366])
def test_an_answer_moves_nothing(page: Page, width: int) -> None:
    page.set_viewport_size({"width": width, "height": 768})
    height = "document.querySelector('#bugs').offsetHeight"  # texts above are still being written
    before = page.evaluate(height)
    for answer in page.locator(".case button").all():
        answer.click()
        assert page.evaluate(height) == before


def draw_a_guess(page: Page) -> None:
    """That sinusoidal positions fall apart."""
    page.get_by_role("slider", name="sinusoidal at 512 letters").press("PageUp")


def test_a_race_asks_for_a_guess(page: Page) -> None:
    page.click("#start")
    expect(page.locator("#race-caption")).to_contain_text("Guess first")
    assert page.workers == []


def test_a_guess_is_drawn_with_the_keyboard(page: Page) -> None:
    handle = page.get_by_role("slider", name="ALiBi at 128 letters")
    handle.press("PageUp")
    handle.press("ArrowUp")
    expect(handle).to_have_attribute("aria-valuetext", "2.2 bits per byte")
    handle.press("End")
    expect(handle).to_have_attribute("aria-valuenow", "8")


def test_a_guess_is_drawn_with_the_pointer(page: Page) -> None:
    handle = page.get_by_role("slider", name="sinusoidal at 512 letters")
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    assert box is not None
    x = box["x"] + box["width"] / 2
    y = box["y"] + box["height"] / 2
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x, y - 120, steps=4)
    page.mouse.up()
    bits = float(handle.get_attribute("aria-valuenow") or "nan")
    assert bits == pytest.approx(1 + 8 * 120 / 240, abs=0.1)  # the axis has 8 bits on 240 pixels


def test_the_plot_names_its_axes_and_the_loss_of_knowing_nothing(page: Page) -> None:
    page.set_viewport_size(LAPTOP)
    plot = page.locator("#curve")
    expect(plot).to_contain_text("bits per byte")
    expect(plot).to_contain_text("letters of text")
    expect(plot).to_contain_text("knows nothing, 5.64")  # 50 letters are equally likely


def test_a_race_that_is_stopped_at_once_says_so(page: Page) -> None:
    draw_a_guess(page)
    page.click("#start")
    page.click("#stop")
    expect(page.locator("#race-caption")).to_contain_text("Stopped before both models were tested")


def test_a_browser_without_workers_is_told(page: Page) -> None:
    draw_a_guess(page)
    page.evaluate("() => { Worker = null; }")
    page.click("#start")
    expect(page.locator("#race-caption")).to_contain_text("could not start a worker")
    expect(page.locator("#bar-note-alibi")).to_be_empty()


def test_curves_and_texts_appear_before_the_first_step(page: Page) -> None:
    draw_a_guess(page)
    page.click("#start")
    expect(page.locator("#race-sinusoidal .beyond")).not_to_be_empty(timeout=60_000)
    expect(page.locator("#curve path.curve")).to_have_count(2, timeout=60_000)
    expect(page.locator("#bar-note-alibi")).to_contain_text("of 500")
    page.click("#stop")


def test_focus_stays_on_train_while_models_train(page: Page) -> None:
    draw_a_guess(page)
    page.locator("#start").press("Enter")
    expect(page.locator("#start")).to_have_attribute("aria-disabled", "true")
    expect(page.locator("#start")).to_be_focused()
    page.click("#stop")


def test_a_guess_cannot_be_changed_while_models_train(page: Page) -> None:
    draw_a_guess(page)
    page.click("#start")
    handle = page.get_by_role("slider", name="sinusoidal at 512 letters")
    handle.press("PageUp")
    expect(handle).to_have_attribute("aria-valuenow", "2")
    page.click("#stop")


def test_stop_ends_both_workers_of_a_race(page: Page) -> None:
    draw_a_guess(page)
    page.click("#start")
    expect(page.locator("#bar-note-sinusoidal")).to_contain_text("step", timeout=60_000)
    first, second = page.workers
    with first.expect_event("close"), second.expect_event("close"):
        page.click("#stop")
    expect(page.locator("#start")).to_have_attribute("aria-disabled", "false")
    expect(page.locator("#race-caption")).to_contain_text("Stopped")


# Losses of a finished race at 32, 64, 128, 256 and 512 letters
HOLDS = [1.0, 1.0, 1.0, 1.0, 1.1]
FALLS = [1.0, 3.0, 4.0, 5.0, 5.5]
WORKER = """losses => {
    let count = 0;
    Worker = class {
        constructor() {
            const texts = [Array(240).fill(5)];
            const row = { step: 500, seconds: 9, losses: losses[count++], texts };
            setTimeout(() => this.onmessage({ data: row }));
        }
        postMessage() {}
        terminate() {}
    };
}"""


@pytest.mark.parametrize(
    ("losses", "words"),
    [
        pytest.param([HOLDS, FALLS], "you guessed right.", id="as drawn"),
        pytest.param([HOLDS, HOLDS], "you guessed right about ALiBi only", id="both hold"),
        pytest.param([FALLS, FALLS], "right about sinusoidal positions only", id="both fall apart"),
        pytest.param([FALLS, HOLDS], "you guessed wrong", id="the other way round"),
    ],
)
def test_the_verdict_names_the_guess_and_judges_it(
    page: Page, losses: list[list[float]], words: str
) -> None:
    draw_a_guess(page)
    page.evaluate(WORKER, losses)
    page.click("#start")
    caption = page.locator("#race-caption")
    expect(caption).to_contain_text("You drew that ALiBi holds and sinusoidal positions fall apart")
    expect(caption).to_contain_text(words)


def test_a_fall_has_a_true_minus_sign(page: Page) -> None:
    draw_a_guess(page)
    page.evaluate(WORKER, [[2.0, 1.5, 1.5, 1.5, 1.5], FALLS])
    page.click("#start")
    caption = page.locator("#race-caption")
    expect(caption).to_contain_text("\N{MINUS SIGN}0.50 bits per byte")
    expect(caption).to_contain_text("+4.50")


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [390, 1024])
def test_the_page_is_accessible(page: Page, theme: Any, width: int) -> None:
    page.emulate_media(color_scheme=theme)
    page.set_viewport_size({"width": width, "height": 800})
    page.locator(".case button").first.click()
    for summary in page.locator("summary:visible").all():
        summary.click()
    assert findings(page) == []


def test_keyboard_reaches_no_box_that_does_not_scroll(page: Page) -> None:
    boxes = page.locator("main [tabindex='0']:not(.handle)").evaluate_all(
        "boxes => boxes.filter(box => box.scrollWidth <= box.clientWidth).length"
    )
    assert boxes == 0


def test_first_tab_skips_to_the_page(page: Page) -> None:
    page.keyboard.press("Tab")
    expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()


def test_everything_that_is_touched_on_a_phone_is_44_pixels_high(page: Page) -> None:
    controls = page.locator("main :is(button, select, input[type=range], input[type=text])")
    heights = controls.evaluate_all(
        "all => all.filter(x => x.offsetHeight).map(x => x.offsetHeight)"
    )
    assert min(heights) >= 44


def test_a_saved_app_runs_no_script_of_its_text(browser: Browser, tmp_path: Path) -> None:
    app = widgets.AttentionExplorer(
        text="<script>window.hurt=1</script> <img/src=x/onerror=window.hurt=1>"
    )
    app.save(tmp_path / "app.html")
    page = browser.new_page()
    page.goto((tmp_path / "app.html").as_uri())
    expect(page.locator(".textpoint text").first).to_be_visible()
    assert page.evaluate("window.hurt") is None
