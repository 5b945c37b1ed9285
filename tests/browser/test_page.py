"""The page without a kernel: its arithmetic is that of the library, and it works from a file.

What leaves nothing behind is tested on one open page, which is put back after each test. A test
that needs to open the page in its own way, or that rewrites the texts, opens it for itself.
"""

import json
import math
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image, ImageChops
from playwright.sync_api import Browser, Locator, Page, ViewportSize, expect
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
    script,
)
from tests.browser.accessibility import findings
from tests.browser.conftest import empty_page

SIZES = {
    "num_layers": RACE_MODEL["layers"],
    "d_model": RACE_MODEL["width"],
    "num_heads": RACE_MODEL["heads"],
}
LAPTOP: ViewportSize = {"width": 1366, "height": 768}
PHONE: ViewportSize = {"width": 390, "height": 800}
SHORT = "#letters=64"  # texts that are soon written, for tests of something else
TIMES = "\N{MULTIPLICATION SIGN}"
# Every control outside of the texts as it was, nothing that plays or trains, and nothing open
PUT_BACK = """() => {
    document.getElementById("stop").click();
    Worker = RealWorker;
    document.querySelectorAll("[data-plays][aria-pressed=true]").forEach(play => play.click());
    for (const control of document.querySelectorAll("main :is(input, select):not(#write *)")) {
        const isBox = control.type === "checkbox";
        if (isBox) control.checked = control.defaultChecked;
        else control.value = control.defaultValue ?? control.options[0].value;
        control.dispatchEvent(new Event("input"));
    }
    document.querySelectorAll("details").forEach(details => { details.open = false; });
    document.activeElement.blur();
}"""
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
# The logits of a writer whose heads read all keys, and of one whose heads read those that matter,
# and how many keys its heads read of the last token
READ_WHAT_MATTERS = """([config, weights, tokens, scale]) => {
    const model = new Model(config);
    model.weights.set(weights);
    const all = new Writer(model, { scale });
    const near = new Writer(model, { scale, negligible: 1e-7 });
    const reaches = [];
    near.reach = (...given) => {
        const reach = Writer.prototype.reach.apply(near, given);
        reaches.push(reach);
        return reach;
    };
    const logits = tokens.map(token => [[...all.read(token)], [...near.read(token)]]);
    return [logits, reaches.slice(-config.layers * config.heads)];
}"""
# Write a token again and again, until the caches have been cut twice. Returns their sizes.
FILL_CACHES = """config => {
    const tiny = { ...config, layers: 1, width: 2, heads: 1, vocabulary: 2 };
    const writer = new Writer(new Model(tiny).initialize(1), { negligible: 1e-7, scale: 1e3 });
    const sizes = [];
    for (let n = 0; n < 4 * HELD + 1; n++) {
        writer.read(n % 2);
        if (n % HELD === 0) sizes.push(writer.caches[0].length);
    }
    return sizes;
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
# The rows of a race's lane; only arrays arrive, so typed ones are made here.
LANE = """([config, settings]) => {
    for (const name of ["training", "validation", "prompt"]) {
        settings[name] = Int32Array.from(settings[name]);
    }
    return [...lane(config, settings)];
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
# Collect every text that the page shows while it writes.
COLLECT_TEXTS = """window.texts = new Set();
new MutationObserver(() => {
    const text = document.querySelector("#written-alibi .beyond");
    if (text) texts.add(text.textContent);
}).observe(document, { subtree: true, childList: true });"""
# Give every answer, and collect the heights of the section; texts above it may still change theirs.
HEIGHTS_WITH_ANSWERS = """() => {
    const section = document.getElementById("bugs");
    const heights = new Set([section.offsetHeight]);
    for (const answer of section.querySelectorAll(".answers button")) {
        answer.click();
        heights.add(section.offsetHeight);
    }
    return [...heights];
}"""
# Copy the address, where a browser allows it or not. Returns what is copied, and what is said.
COPY = """async isAllowed => {
    let copied = null;
    navigator.clipboard.writeText = async text => {
        if (!isAllowed) throw new DOMException("not allowed", "NotAllowedError");
        copied = text;
    };
    document.getElementById("copy").click();
    await new Promise(resolve => setTimeout(resolve));
    return [copied, document.getElementById("copied").textContent];
}"""
# Change the address of an open page, as one who types it.
GO_TO = """hash => new Promise(resolve => {
    addEventListener("hashchange", resolve, { once: true });
    location.hash = hash;
})"""
# Workers that never answer
SILENT_WORKERS = """() => {
    Worker = class {
        postMessage() {}
        terminate() {}
    };
}"""
# Workers that have tested their models at a step: {step, losses of the one, of the other}
TESTED_WORKERS = """({ step, losses }) => {
    let count = 0;
    Worker = class {
        constructor() {
            const texts = [Array(240).fill(5)];
            const row = { step, seconds: 9, losses: losses[count++], texts };
            setTimeout(() => this.onmessage({ data: row }));
        }
        postMessage() {}
        terminate() {}
    };
}"""
# Stop as soon as both models are tested, and count the workers that are ended.
STOP_WHEN_TESTED = """() => {
    window.ended = 0;
    const terminate = Worker.prototype.terminate;
    Worker.prototype.terminate = function () {
        ended++;
        terminate.call(this);
    };
    const curves = document.getElementById("curve");
    new MutationObserver(() => {
        const isTested = curves.querySelectorAll("path.curve").length === 2;
        if (isTested) document.getElementById("stop").click();
    }).observe(curves, { subtree: true, childList: true });
}"""


@pytest.fixture(scope="module")
def data(site: Path) -> dict[str, Any]:
    """What the page computes with."""
    text = site.read_text(encoding="utf-8")
    return json.loads(text.split('id="data">')[1].split("</script>", maxsplit=1)[0])


@pytest.fixture(scope="module")
def arithmetic(browser: Browser) -> Iterator[Page]:
    """An empty page with the functions and classes of model.js and worker.js."""
    with empty_page(browser) as (page, _):
        page.add_script_tag(content=script("model.js", "worker.js"))
        yield page


@pytest.fixture(scope="module")
def open_page(browser: Browser, site: Path) -> Iterator[tuple[Page, list[str]]]:
    """The page, opened from its file, and its problems."""
    with empty_page(browser) as (page, problems):
        page.goto(site.as_uri() + SHORT)
        page.evaluate("() => { RealWorker = Worker; }")
        yield page, problems


@pytest.fixture
def shared_page(open_page: tuple[Page, list[str]]) -> Iterator[Page]:
    """The open page on a laptop, as a reader finds it: only guesses and answers stay."""
    page, problems = open_page
    page.emulate_media(color_scheme="light")
    page.set_viewport_size(LAPTOP)
    yield page
    page.evaluate(PUT_BACK)
    found = problems.copy()
    problems.clear()
    assert found == []


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


def test_a_race_of_50_steps_has_the_losses_of_torch(arithmetic: Page, data: dict[str, Any]) -> None:
    model = race_model(data, "alibi")
    config = _packed(model)["config"]
    weights = flat(model.parameters())
    steps = 50
    every_batch = batches(tokens_of(data), RACE["length"], RACE["batch"], seed=0)
    windows = list(islice(every_batch, steps))

    optimizers = _optimizers(model, "muon", RACE["rate"])
    pairs = ((window[:, :-1], window[:, 1:]) for window in windows)
    rows = _training_rows(
        model, pairs, optimizers, learning_rate=RACE["rate"], steps=steps, row={"seed": 0}
    )
    expected = torch.tensor([row["value"] for row in rows])

    settings = {**RACE, "steps": steps}
    as_lists = [window.tolist() for window in windows]
    losses = torch.tensor(arithmetic.evaluate(TRAIN, [config, weights, as_lists, settings]))
    torch.testing.assert_close(losses, expected, atol=1e-4, rtol=0)


def test_a_lane_is_tested_before_its_first_step_and_after_its_last(
    arithmetic: Page, data: dict[str, Any]
) -> None:
    config = _packed(race_model(data, "alibi"))["config"]
    tokens = tokens_of(data).tolist()
    texts = {"training": tokens[:2000], "validation": tokens[2000:4000], "prompt": tokens[:16]}
    settings = {**RACE, **texts, "steps": 10, "seed": 1, "count": 8}
    first, last = arithmetic.evaluate(LANE, [config, settings])
    assert (first["step"], last["step"]) == (0, 10)
    assert len(first["losses"]) == len(last["losses"]) == 5
    assert [len(text) for text in first["texts"]] == [8]
    assert [len(text) for text in last["texts"]] == [8] * 4
    assert last["losses"][0] < first["losses"][0]


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


def test_keys_that_do_not_matter_are_not_read_and_the_logits_stay(
    arithmetic: Page, data: dict[str, Any]
) -> None:
    model = study.published_model("alibi").model.eval()
    config = data["models"]["alibi"]["config"]
    length = 400
    tokens = lab.load_text().validation[:length].tolist()
    logits, reaches = arithmetic.evaluate(
        READ_WHAT_MATTERS, [config, flat(model.parameters()), tokens, 4.0]
    )
    all_keys, near_keys = torch.tensor(logits).unbind(1)
    torch.testing.assert_close(near_keys, all_keys, atol=1e-4, rtol=0)
    assert min(reaches) < length / 4
    assert reaches[0] < reaches[1] < length - 1


def test_the_memory_of_an_endless_text_does_not_grow(
    arithmetic: Page, data: dict[str, Any]
) -> None:
    _, _, third, *later = arithmetic.evaluate(FILL_CACHES, data["models"]["alibi"]["config"])
    assert set(later) == {third}


@pytest.mark.parametrize("law", laws.__all__)
def test_laws_have_the_biases_of_python(arithmetic: Page, law: str) -> None:
    function = getattr(laws, law)
    distances = torch.arange(100)
    expected = torch.stack([function(distances, head, 12) for head in range(1, 13)]).float()
    values = arithmetic.evaluate(LAW, law)  # numbers, and "-Infinity"
    computed = torch.tensor([[float(value) for value in row] for row in values])
    torch.testing.assert_close(computed, expected, atol=1e-5, rtol=1e-5)


# Writing


def text_of(page: Page, selector: str) -> str:
    """The text of an element that need not be waited for."""
    return page.locator(selector).inner_text()


def test_texts_follow_their_controls(page: Page, site: Path) -> None:
    """For a reader who wants less motion, so that they appear whole."""
    page.emulate_media(reduced_motion="reduce")
    page.set_viewport_size(LAPTOP)
    page.add_init_script(COLLECT_TEXTS)
    page.goto(site.as_uri())
    announced = page.locator("#live-writing")
    expect(announced).to_contain_text("Sinusoidal")
    assert page.evaluate("texts.size") == 1
    assert page.get_by_role("button", name="Play query").is_hidden()

    # The first screen holds the ends of all three texts, with two lines to spare for other fonts.
    # Only ALiBi's has real words.
    shares = {}
    for name in MODELS:
        end = page.locator(f"#written-{name} .beyond").bounding_box()
        assert end is not None
        assert end["y"] + end["height"] <= LAPTOP["height"], name
        share = text_of(page, f"#share-{name}")
        bar = page.locator(f"#meter-{name}").evaluate("bar => bar.style.width")
        assert bar == share, name
        shares[name] = int(share.removesuffix("%"))
    assert shares["alibi"] > 90
    assert shares["rotary"] < 50
    assert shares["sinusoidal"] < 10

    # Other slopes: ALiBi writes again, and the others don't.
    before = {name: text_of(page, f"#written-{name}") for name in MODELS}
    announced_before = text_of(page, "#live-writing")
    slopes = page.locator("#scale")
    slopes.press("ArrowRight")
    assert text_of(page, "#scale-value") == f"{TIMES} 2"
    assert slopes.get_attribute("aria-valuetext") == f"{TIMES} 2"
    expect(announced).not_to_have_text(announced_before)
    assert re.search(r"limit\. ALiBi: \d+%\.$", text_of(page, "#live-writing"))
    after = {name: text_of(page, f"#written-{name}") for name in MODELS}
    assert [name for name in MODELS if before[name] != after[name]] == ["alibi"]

    # What differs from the defaults is in the address, which can be copied.
    page.click("#again")
    assert page.evaluate("location.hash") == "#slopes=2&seed=2"
    address = f"{site.as_uri()}#slopes=2&seed=2"
    assert page.evaluate(COPY, True) == [address, "Copied."]
    copied, said = page.evaluate(COPY, False)
    assert copied is None
    assert "copy it from the address bar" in said
    slopes.press("ArrowLeft")
    assert page.evaluate("location.hash") == "#seed=2"


def test_another_text_appears_letter_by_letter_and_moves_nothing(page: Page, site: Path) -> None:
    page.set_viewport_size(LAPTOP)
    page.goto(f"{site.as_uri()}#letters=128")
    expect(page.locator("#live-writing")).to_contain_text("Sinusoidal")
    page.evaluate(COLLECT_TEXTS)
    heights = "[...document.querySelectorAll('#cards .card')].map(card => card.offsetHeight)"
    before = page.evaluate(heights)
    assert page.evaluate(SHORTEST_TEXT_AFTER_A_CLICK) > 130
    assert page.evaluate(heights) == before
    page.wait_for_function("texts.size > 1")


def test_controls_are_set_to_the_address(page: Page, site: Path) -> None:
    page.goto(f"{site.as_uri()}#slopes=2&cut=1&seed=3&letters=128&text=A+fox")
    assert text_of(page, "#scale-value") == f"{TIMES} 2"
    assert page.input_value("#cut") == "1"
    assert page.input_value("#count") == "128"
    assert page.input_value("#beginning") == "A fox"
    assert page.locator("#address-note").is_hidden()
    expect(page.locator("#written-rotary")).to_contain_text("A fox")

    # An address that means nothing shows the defaults, and says so.
    for nonsense in ("slopes=3", "slopes=0", "cut=9", "seed=-1", "letters=65", "law=x"):
        page.evaluate(GO_TO, nonsense)
        assert page.locator("#address-note").is_visible(), nonsense
        assert nonsense in text_of(page, "#address-note")
        assert text_of(page, "#scale-value") == f"{TIMES} 1", nonsense
        assert page.input_value("#cut") == "0", nonsense
        assert text_of(page, "#count-value") == str(BYTES), nonsense


def test_alibi_writes_on_until_it_is_stopped(page: Page, site: Path) -> None:
    page.goto(f"{site.as_uri()}#seed=3&letters=64")
    expect(page.locator("#live-writing")).to_contain_text("Sinusoidal")
    beginning = text_of(page, "#written-alibi")
    toggle = page.locator("#marathon-toggle")
    toggle.click()
    distance = page.locator("#marathon")
    expect(distance).to_have_text(re.compile(r"[1-9]\d\d letters past a limit of 64, \d+% real"))
    toggle.click()
    expect(toggle).to_have_text("Don't stop")
    stopped = distance.inner_text()
    written = text_of(page, "#written-alibi")
    assert written.startswith(beginning)
    assert page.evaluate("new Promise(requestAnimationFrame).then(() => 1)") == 1
    assert distance.inner_text() == stopped

    # Any control leads back to texts of the usual length, of all three.
    page.locator("#scale").press("ArrowRight")
    page.locator("#scale").press("ArrowLeft")
    expect(page.locator("#written-alibi")).to_have_text(beginning)
    expect(page.locator(".scrolls")).to_have_count(0)


def test_an_endless_word_is_no_real_word(page: Page, site: Path) -> None:
    page.goto(f"{site.as_uri()}#slopes=16&cut=1&letters=64")
    page.click("#marathon-toggle")
    expect(page.locator("#marathon")).to_contain_text("0% real words")


def test_texts_and_score_are_saved_as_a_picture(shared_page: Page) -> None:
    expect(shared_page.locator("#live-writing")).to_contain_text("Sinusoidal")
    pictures = []
    for case in (0, 1):
        shared_page.locator(".case").nth(case).locator("button").first.click()
        with shared_page.expect_download() as saved:
            shared_page.click("#save")
        picture = Image.open(saved.value.path()).convert("RGB")
        assert picture.size == (1200, 630)
        pictures.append(picture)

    # A red line below the first line of each text; only the number of guesses differs.
    first, second = pictures
    column = np.asarray(first)[:, 700].astype(int)
    is_red = (abs(column - (198, 40, 40)) < 8).all(axis=1)
    assert is_red.sum() == 3 * 3
    changed = ImageChops.difference(first, second).getbbox()
    assert changed is not None
    assert changed[1] > 560


def test_less_motion_shows_the_numbers_of_an_endless_text_only(page: Page, site: Path) -> None:
    page.emulate_media(reduced_motion="reduce")
    page.goto(site.as_uri() + SHORT)
    expect(page.locator("#live-writing")).to_contain_text("Sinusoidal")
    before = text_of(page, "#written-alibi")
    page.click("#marathon-toggle")
    expect(page.locator("#marathon")).to_contain_text("real words")
    assert text_of(page, "#written-alibi") == before


def test_a_section_that_does_not_exist_is_named(page: Page, site: Path) -> None:
    page.goto(f"{site.as_uri()}#nowhere")
    assert page.locator("#address-note").is_visible()
    assert "nowhere" in text_of(page, "#address-note")


def test_texts_pictures_and_answers_remain_without_javascript(browser: Browser, site: Path) -> None:
    context = browser.new_context(java_script_enabled=False, viewport=PHONE)
    page = context.new_page()
    page.goto(site.as_uri())
    for name in MODELS:
        assert BEGINNING in text_of(page, f"#written-{name}")
    assert page.get_by_alt_text("Weights of head 8 of 8").is_visible()
    assert page.locator("#far-share table").first.is_hidden()  # until the reader has guessed
    page.get_by_text("The numbers", exact=True).click()
    assert page.locator("#far-share table").first.is_visible()
    case = page.locator(".case").first
    case.get_by_text("The answer").click()
    assert "Seen in" in case.inner_text()
    context.close()


# A phone, the keyboard, and weak eyes


def test_the_page_works_on_a_phone(page: Page, site: Path) -> None:
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(PHONE)
    page.goto(site.as_uri() + SHORT)
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "Skip to the page"

    controls = page.locator("main :is(button, select, input[type=range], input[type=text])")
    heights = controls.evaluate_all(
        "all => all.filter(x => x.offsetHeight).map(x => x.offsetHeight)"
    )
    assert min(heights) >= 44, "too small to be touched"

    # A slider stays under the hand, although other texts begin.
    for slider in ("scale", "count"):
        page.evaluate(
            "id => document.getElementById(id).scrollIntoView({ block: 'center' })", slider
        )
        assert page.evaluate(DRAG, slider) == 1, slider

    page.fill("#beginning", "<img src=x onerror=alert(1)> \u202e \U0001f600")
    expect(page.locator("#written-alibi")).to_contain_text("<img src=x")
    assert page.locator("pre img").count() == 0
    expect(page.locator("#share-alibi")).to_contain_text("%")

    page.locator(".case button").first.click()
    page.click("#see summary")  # one table of numbers
    assert findings(page) == []
    for summary in page.locator("#train summary, #bugs summary:visible").all():
        summary.click()
    assert page.evaluate("document.documentElement.scrollWidth") <= PHONE["width"]


def test_the_page_is_accessible(shared_page: Page) -> None:
    shared_page.locator(".case button").first.click()
    for summary in shared_page.locator("summary:visible").all():
        summary.click()
    assert findings(shared_page) == []


def test_keyboard_reaches_no_box_that_does_not_scroll(shared_page: Page) -> None:
    boxes = shared_page.locator("main [tabindex='0']:not(.handle)").evaluate_all(
        "boxes => boxes.filter(box => box.scrollWidth <= box.clientWidth).length"
    )
    assert boxes == 0


# What each head sees


def test_one_head_and_one_token_have_one_full_weight(shared_page: Page) -> None:
    shared_page.locator("#heads").press("End")
    shared_page.locator("#length").press("Home")
    shared_page.locator("#heads").press("Home")
    assert shared_page.locator("#grid canvas").count() == 1
    expect(shared_page.locator("#heads-caption")).to_contain_text("the head gives 100% of")


def test_a_click_on_a_row_of_a_matrix_chooses_its_query(shared_page: Page) -> None:
    matrix = shared_page.locator("#grid canvas").nth(2)
    box = matrix.bounding_box()
    assert box is not None
    matrix.click(position={"x": 4, "y": box["height"] * 9.5 / 32})  # the tenth row of 32
    assert text_of(shared_page, "#query-value") == "10"


def test_the_slider_of_the_queries_plays_until_it_is_paused(page: Page, site: Path) -> None:
    page.clock.install()
    page.goto(site.as_uri() + SHORT)
    page.clock.pause_at("2100-01-01")
    play = page.get_by_role("button", name="Play query")
    play.click()
    page.clock.run_for(120)
    assert text_of(page, "#query-value") == "1"  # from its end back to its start
    page.clock.run_for(240)
    assert text_of(page, "#query-value") == "3"
    assert play.get_attribute("aria-pressed") == "true"
    play.click()
    page.clock.run_for(1200)
    assert text_of(page, "#query-value") == "3"
    assert play.get_attribute("aria-pressed") == "false"


def test_a_heatmap_is_bright_where_weight_is_and_transparent_where_masked(
    shared_page: Page,
) -> None:
    corners = shared_page.evaluate(CORNERS)
    weights = [WEIGHT_SCALE.palette[0], WEIGHT_SCALE.palette[-1]]
    assert corners["far"] == [*weights[0], 255]
    assert corners["near"] == [*weights[1], 255]
    assert corners["masked"][3] == 0


def test_a_settled_slider_is_announced_once_in_a_live_region_that_stays(shared_page: Page) -> None:
    caption = shared_page.locator("#heads-caption")
    expect(caption).to_contain_text("each head gives between 26%")
    shared_page.evaluate(MOVE_QUERY)
    assert text_of(shared_page, "#query-value") == "8"
    expect(caption).to_contain_text("each head gives 100% of")
    assert shared_page.evaluate("announced.length") == 1
    assert shared_page.evaluate("region.isConnected")
    assert shared_page.evaluate("region.ariaLive") == "polite"


def test_the_numbers_of_a_heatmap_stand_in_a_table(shared_page: Page) -> None:
    shared_page.locator("#heads").press("Home")
    query = shared_page.locator("#query")
    query.press("Home")
    query.press("ArrowRight")
    query.press("ArrowRight")
    shared_page.locator("#see summary").click()
    weights = torch.tensor([0.0, -1, -2]).mul(2.0**-8).softmax(0)  # one head has the slope 1/256
    expected = [f"{100 * weight:.1f}%" for weight in weights.tolist()]
    cells = shared_page.locator("#heads-table tr").nth(1).locator("td")
    expect(cells).to_have_text(expected)  # filled once the table has opened


# Three bugs


def test_answers_are_judged_and_explained_and_move_nothing(page: Page, site: Path) -> None:
    page.goto(f"{site.as_uri()}#bugs")
    assert page.locator("#address-note").is_hidden()  # a section is no nonsense
    questions = page.locator(".case").all()
    questions[0].get_by_role("button", name="no bias").click()
    assert text_of(page, "#verdict") == "Not “no bias”, but “sign reversed”"
    assert "At the first try, you have found 0 of 1" in text_of(page, "#verdict-details")

    # The first answer counts, so the first question stays lost.
    for found, question in enumerate(questions):
        fault = question.get_attribute("data-fault") or ""
        question.get_by_role("button", name=fault).click()
        assert text_of(page, "#verdict") == f"Right: {fault}"
        details = text_of(page, "#verdict-details")
        assert "Seen in" in details
        assert f"you have found {found} of {found + 1}" in details

    # On a phone the verdict stands below its case, as tests/browser/test_phone.py expects.
    page.set_viewport_size(LAPTOP)
    assert len(page.evaluate(HEIGHTS_WITH_ANSWERS)) == 1


# The race


def guess_bits(page: Page, place: str, bits: int) -> Locator:
    """The handle at a place such as "ALiBi at 128 letters", set to these bits per letter."""
    handle = page.get_by_role("slider", name=place)
    handle.press("Home")
    for _ in range(bits):
        handle.press("PageUp")
    return handle


def draw_a_guess(page: Page) -> None:
    """That ALiBi holds, and sinusoidal positions fall apart."""
    guess_bits(page, "ALiBi at 512 letters", 1)
    guess_bits(page, "sinusoidal at 512 letters", 2)


def test_a_race_begins_with_a_guess_and_stop_ends_both_workers(page: Page, site: Path) -> None:
    """The only test with real workers."""
    page.goto(site.as_uri() + SHORT)
    page.click("#start")
    assert "Guess first" in text_of(page, "#race-caption")
    assert page.get_attribute("#start", "aria-disabled") == "false"

    draw_a_guess(page)
    page.evaluate(STOP_WHEN_TESTED)
    page.click("#start")
    expect(page.locator("#race-caption")).to_contain_text("Stopped: ALiBi was tested at step")
    assert page.evaluate("ended") == 2
    assert page.get_attribute("#start", "aria-disabled") == "false"
    assert text_of(page, "#race-sinusoidal .beyond") != ""


def test_a_guess_is_drawn_with_the_keyboard(shared_page: Page) -> None:
    handle = guess_bits(shared_page, "ALiBi at 128 letters", 2)
    handle.press("ArrowUp")
    assert handle.get_attribute("aria-valuetext") == "2.2 bits per letter"
    handle.press("End")
    assert handle.get_attribute("aria-valuenow") == "8"


def test_a_guess_is_drawn_with_the_pointer(shared_page: Page) -> None:
    handle = guess_bits(shared_page, "sinusoidal at 512 letters", 1)
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    assert box is not None
    x = box["x"] + box["width"] / 2
    y = box["y"] + box["height"] / 2
    shared_page.mouse.move(x, y)
    shared_page.mouse.down()
    shared_page.mouse.move(x, y - 120, steps=4)
    shared_page.mouse.up()
    bits = float(handle.get_attribute("aria-valuenow") or "nan")
    assert bits == pytest.approx(1 + 8 * 120 / 240, abs=0.1)  # the axis has 8 bits on 240 pixels


def test_the_plot_names_its_axes_and_the_loss_of_knowing_nothing(shared_page: Page) -> None:
    plot = shared_page.locator("#curve").text_content() or ""
    assert "bits per letter" in plot
    assert "letters of text" in plot
    assert "knows nothing, 5.64" in plot  # 50 letters are equally likely


def test_a_race_that_is_stopped_at_once_says_so(shared_page: Page) -> None:
    draw_a_guess(shared_page)
    shared_page.evaluate(SILENT_WORKERS)
    shared_page.click("#start")
    assert text_of(shared_page, "#race-caption").startswith("Training.")
    shared_page.click("#stop")
    assert text_of(shared_page, "#race-caption") == "Stopped before both models were tested."


def test_while_models_train_focus_and_guess_stay(shared_page: Page) -> None:
    draw_a_guess(shared_page)
    shared_page.evaluate(SILENT_WORKERS)
    shared_page.locator("#start").press("Enter")
    assert shared_page.get_attribute("#start", "aria-disabled") == "true"
    assert shared_page.evaluate("document.activeElement.id") == "start"
    handle = shared_page.get_by_role("slider", name="sinusoidal at 512 letters")
    handle.press("PageUp")
    assert handle.get_attribute("aria-valuenow") == "2"


def test_a_browser_without_workers_is_told(shared_page: Page) -> None:
    draw_a_guess(shared_page)
    shared_page.evaluate("() => { Worker = null; }")
    shared_page.click("#start")
    assert "could not start a worker" in text_of(shared_page, "#race-caption")
    assert text_of(shared_page, "#bar-note-alibi") == ""


# Losses at 32, 64, 128, 256 and 512 letters
HOLDS = [1.0, 1.0, 1.0, 1.0, 1.1]
FALLS = [1.0, 3.0, 4.0, 5.0, 5.5]


def test_curves_and_texts_appear_when_models_are_tested(shared_page: Page) -> None:
    draw_a_guess(shared_page)
    shared_page.evaluate(TESTED_WORKERS, {"step": 0, "losses": [HOLDS, FALLS]})
    shared_page.click("#start")
    expect(shared_page.locator("#curve path.curve")).to_have_count(2)
    assert text_of(shared_page, "#race-sinusoidal .beyond") != ""
    assert text_of(shared_page, "#bar-note-alibi") == "step 0 of 500, 9 s"


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
    shared_page: Page, losses: list[list[float]], words: str
) -> None:
    draw_a_guess(shared_page)
    shared_page.evaluate(TESTED_WORKERS, {"step": RACE["steps"], "losses": losses})
    shared_page.click("#start")
    caption = shared_page.locator("#race-caption")
    expect(caption).to_contain_text("You drew that ALiBi holds and sinusoidal positions fall apart")
    assert words in caption.inner_text()

    # What is drawn afterwards changes neither the verdict nor its marks.
    marks = shared_page.locator("#curve text").filter(has_text=re.compile("[✓✗]"))
    before = marks.all_inner_texts()
    assert len(before) == 2
    shared_page.get_by_role("slider", name="sinusoidal at 512 letters").press("Home")
    shared_page.evaluate("() => dispatchEvent(new Event('resize'))")
    assert marks.all_inner_texts() == before
    assert words in caption.inner_text()


def test_a_fall_has_a_true_minus_sign(shared_page: Page) -> None:
    draw_a_guess(shared_page)
    losses = [[2.0, 1.5, 1.5, 1.5, 1.5], FALLS]
    shared_page.evaluate(TESTED_WORKERS, {"step": RACE["steps"], "losses": losses})
    shared_page.click("#start")
    caption = shared_page.locator("#race-caption")
    expect(caption).to_contain_text("\N{MINUS SIGN}0.50 bits per letter")
    assert "+4.50" in caption.inner_text()


def test_a_saved_app_runs_no_script_of_its_text(browser: Browser, tmp_path: Path) -> None:
    app = widgets.AttentionExplorer(
        text="<script>window.hurt=1</script> <img/src=x/onerror=window.hurt=1>"
    )
    app.save(tmp_path / "app.html")
    page = browser.new_page()
    page.goto((tmp_path / "app.html").as_uri())
    expect(page.locator(".textpoint text").first).to_be_visible()
    assert page.evaluate("window.hurt") is None
