"""The page on a phone: by touch, in a narrow window, and in Safari as far as Chromium can tell."""

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Page, expect

DEADLINE = 600  # seconds until a test gives up waiting for the page: no result depends on them
STYLES = Path(__file__).parents[2] / "docs" / "page" / "page.css"
DRAWN_UP = 96  # pixels


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
