"""The page on a phone: by touch, in a narrow window, and in Safari as far as Chromium can tell."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

from tests.browser.chromium import DEADLINE

STYLES = Path(__file__).parents[2] / "docs" / "page" / "page.css"
DRAWN_UP = 96  # pixels
# For each case of the quiz, how far its answers are from the top of the section
PLACES = """() => {
    const section = document.getElementById("bugs");
    const fromTop = answer => answer.offsetTop - section.offsetTop;
    const answersOf = question => [...question.querySelectorAll(".answers button")];
    return [...document.querySelectorAll(".case")].map(each => answersOf(each).map(fromTop));
}"""


@pytest.fixture(scope="module")
def phone(browser: Browser, site: Path) -> Iterator[Page]:
    context = browser.new_context(viewport={"width": 390, "height": 844}, has_touch=True)
    context.set_default_timeout(DEADLINE * 1000)
    page = context.new_page()
    page.goto(site.as_uri())
    written = page.locator("#live-writing")
    expect(written).to_contain_text("Sinusoidal", timeout=DEADLINE * 1000)
    yield page
    context.close()


def test_a_finger_draws_a_guess_and_does_not_scroll_the_page(phone: Page) -> None:
    handle = phone.locator(".handle.sinusoidal").first
    handle.evaluate("handle => handle.scrollIntoView({ block: 'center' })")
    scrolled = phone.evaluate("scrollY")
    assert handle.get_attribute("aria-valuenow") == "1"
    box = handle.bounding_box()
    assert box is not None
    x, y = box["x"] + box["width"] / 2, box["y"] + box["height"] / 2
    fingers = phone.context.new_cdp_session(phone)

    def touch(kind: str, *points: dict[str, float]) -> None:
        fingers.send("Input.dispatchTouchEvent", {"type": kind, "touchPoints": list(points)})

    touch("touchStart", {"x": x, "y": y})
    for moved in range(8, DRAWN_UP + 1, 8):
        touch("touchMove", {"x": x, "y": y - moved})
    touch("touchEnd")
    # The plot is 240 pixels high, from 0 to 8 bits.
    expect(handle).to_have_attribute("aria-valuenow", "4.2")
    assert phone.evaluate("scrollY") == scrolled


def test_words_that_do_not_exist_are_wavy(phone: Page) -> None:
    style = phone.evaluate("""() => {
        const text = document.body.appendChild(document.createElement("p"));
        text.className = "beyond";
        text.innerHTML = "<s>thole</s>";
        const style = getComputedStyle(text.firstChild);
        const lines = [style.textDecorationLine, style.textDecorationStyle];
        text.remove();
        return lines;
    }""")
    assert style == ["underline", "wavy"]


def test_no_line_under_text_is_styled_in_a_way_that_safari_ignores() -> None:
    lines = re.findall(r"text-decoration:\s*([^;}]*)", STYLES.read_text(encoding="utf-8"))
    assert set(lines) <= {"none", "underline"}


def test_the_page_has_at_most_nine_screens(phone: Page) -> None:
    assert phone.evaluate("document.documentElement.scrollHeight") <= 9 * 844
    claims = phone.locator("#all-claims")
    expect(claims.locator("table")).to_be_hidden()
    claims.locator("summary").tap()
    expect(claims.locator("table")).to_be_visible()
    claims.locator("summary").tap()


def test_the_number_of_a_lesson_stands_beside_its_title(phone: Page) -> None:
    for card in phone.locator(".lessons a").all():
        number = card.locator(".number").bounding_box()
        title = card.locator("strong").bounding_box()
        assert number is not None
        assert title is not None
        assert number["x"] + number["width"] <= title["x"]
        assert number["y"] == pytest.approx(title["y"], abs=2)


def test_an_answer_is_judged_below_its_case_and_moves_nothing_above(phone: Page) -> None:
    second, third = (phone.locator(".case").nth(place) for place in (1, 2))
    before = phone.evaluate(PLACES)[:2]  # of the first two cases
    for answer in second.locator(".answers button").all():
        answer.tap()
        expect(answer).to_have_attribute("aria-pressed", "true")
        expect(second.locator(".verdict")).to_contain_text("Seen in")
        assert phone.evaluate(PLACES)[:2] == before

    last = second.locator(".answers button").last.bounding_box()
    verdict = second.locator(".verdict").bounding_box()
    next_case = third.bounding_box()
    assert last is not None
    assert verdict is not None
    assert next_case is not None
    assert last["y"] + last["height"] <= verdict["y"]
    assert verdict["y"] + verdict["height"] <= next_case["y"]
    expect(phone.locator("#verdict")).to_be_hidden()
