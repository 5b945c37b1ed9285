"""Every page of the site in a browser: accessible, readable on a phone, usable with a keyboard.

What needs no browser is in tests/docs/test_site.py.
"""

import re
from pathlib import Path
from typing import Any

import pytest
from playwright.sync_api import Page, ViewportSize, expect

from tests.browser.accessibility import FOCUS, findings
from tests.browser.jupyter import NOTEBOOKS

DESK: ViewportSize = {"width": 1024, "height": 800}
PHONE: ViewportSize = {"width": 390, "height": 800}
# One page of each kind: a list, a lesson, a guide, and a part of the reference
KINDS = ("lessons.html", "lessons/01_the_line.html", "guides/install.html", "api/alibi_viz.html")
OPEN_FOUR_DETAILS = """[...document.querySelectorAll('main details')].slice(0, 4)
    .forEach(details => { details.open = true; })"""
PROSE = "article :is(p, li, td, th, h1, h2, h3):not(.cell *, code *)"


def pages_of(docs: Path) -> list[str]:
    """All pages but the first, which has a file of tests of its own, and the sources."""
    paths = [path.relative_to(docs) for path in sorted(docs.rglob("*.html"))]
    others = {"index.html", "_modules", "_static"}
    return [path.as_posix() for path in paths if path.parts[0] not in others]


def lesson_problems(page: Page, lesson: str) -> list[str]:
    """What is wrong with the formulas and pictures of the page of a lesson."""
    problems = []
    text = " ".join(page.locator(PROSE).all_inner_texts())
    if len(text) <= 500:
        problems.append("it has no text")
    if re.search(r"\$|\\[a-z]", text):
        problems.append("TeX is left")
    source = (NOTEBOOKS / f"{lesson}.ipynb").read_text(encoding="utf-8")
    if (page.locator("math").count() > 0) != ("$" in source):
        problems.append("formulas are missing")
    for figure in page.locator("figure:has(.caption-text)").all():
        if len(figure.locator("img").first.get_attribute("alt") or "") <= 40:
            problems.append("a picture has no description")
        if f"make lab LESSON={lesson}.ipynb" not in (figure.text_content() or ""):
            problems.append("a picture doesn't say how it becomes live")
    return problems


def test_every_page_is_accessible_and_fits_a_phone(page: Page, docs: Path) -> None:
    page.emulate_media(color_scheme="light")
    problems = []
    for name in pages_of(docs):
        page.set_viewport_size(DESK)
        page.goto((docs / name).as_uri())
        page.evaluate(OPEN_FOUR_DETAILS)
        # The longest pages have thousands of elements in the colors of shorter ones.
        is_long = name == "lessons/report.html" or name.startswith("api/alibi_viz/")
        found = findings(page, contrast=not is_long)
        if re.match(r"lessons/\d", name):
            found += lesson_problems(page, Path(name).stem)
        for viewport in (DESK, PHONE):
            page.set_viewport_size(viewport)
            width = page.evaluate("document.documentElement.scrollWidth")
            if width > viewport["width"]:
                found.append(f"too wide for {viewport['width']} pixels")
        problems += [f"{name}: {problem}" for problem in found]
    assert problems == []


@pytest.mark.parametrize("name", KINDS)
def test_page_is_accessible_in_the_dark_and_on_a_phone(page: Page, docs: Path, name: str) -> None:
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(PHONE)
    page.goto((docs / name).as_uri())
    page.evaluate(OPEN_FOUR_DETAILS)
    assert page.get_attribute("html", "data-theme") == "dark"
    assert findings(page) == []


def test_a_picture_is_as_light_or_dark_as_its_page_and_leads_to_itself(
    page: Page, docs: Path
) -> None:
    page.set_viewport_size(PHONE)
    page.goto((docs / "lessons/00_start_here.html").as_uri())
    dark = page.locator("figure img[src*='/00_start_here-0']")
    light = page.locator("figure img:not([src*='/00_start_here-0'])")
    page.emulate_media(color_scheme="dark")
    expect(dark).to_be_visible()
    expect(light).to_be_hidden()
    page.emulate_media(color_scheme="light")
    expect(light).to_be_visible()
    expect(dark).to_be_hidden()

    page.locator("figure a.image-reference:visible").click()
    picture = page.locator("body > img")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") > 800


def test_a_guess_is_judged_and_opens_its_answer_but_not_its_code(page: Page, docs: Path) -> None:
    page.goto((docs / "lessons/01_the_line.html").as_uri())
    right = page.locator(".guess label", has_text="only under the straight line")
    wrong = page.locator(".guess label", has_text="under all three")
    reason = page.get_by_text("so the logit must fall by the same amount").first
    assert reason.is_hidden()
    wrong.locator("input").check()
    assert reason.is_visible()
    text = page.locator("details.after-guess", has_text="forgets at a constant rate")
    expect(text).to_have_attribute("open", "")
    expect(page.locator("details.after-guess[open]")).to_have_count(1)
    expect(wrong).to_have_class("is-wrong")
    expect(right).to_have_class("is-right")

    # The first answer counts, also after the page is loaded again.
    verdict = page.locator(".guess .verdict")
    expect(verdict).to_have_text(
        "Not right. At the first try, you have found 0 of 3 in this lesson."
    )
    page.reload()
    right.locator("input").check()
    expect(verdict).to_have_text("Right. At the first try, you have found 0 of 3 in this lesson.")
    page.get_by_label("only the column").check()
    expect(verdict.last).to_contain_text("you have found 1 of 3")

    code = page.locator("pre", has_text='"line: half-life"')
    assert code.is_hidden()
    page.locator("details", has=code).locator("summary").click()
    assert code.is_visible()


BRAND = """() => {
    const links = [...document.querySelectorAll("header nav a")].filter(link => link.offsetWidth);
    const brand = document.querySelector("header .brand, header .logo__title");
    return [
        links.map(link => link.textContent.trim()).filter(text => text !== "ALiBi").slice(0, 4),
        getComputedStyle(brand).color,
        getComputedStyle(document.body).backgroundColor,
    ];
}"""


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_first_page_and_docs_have_one_bar_and_one_color(
    page: Page, docs: Path, scheme: Any
) -> None:
    page.emulate_media(color_scheme=scheme)
    page.set_viewport_size(DESK)
    page.goto((docs / "guides.html").as_uri())
    in_docs = page.evaluate(BRAND)
    page.locator("header").get_by_role("link", name="Try it").click()
    page.locator("#cards").wait_for()
    assert page.evaluate(BRAND) == in_docs
    assert in_docs[0] == ["Try it", "Lessons", "Guides", "API"]


def test_focus_is_visible_wherever_the_tab_key_leads(page: Page, docs: Path) -> None:
    page.goto((docs / "lessons/09_the_study.html").as_uri())
    seen = set()
    for _ in range(150):
        page.keyboard.press("Tab")
        element, width = page.evaluate(FOCUS)
        if element.startswith("<body"):  # once around
            break
        seen.add(element)
        assert width >= 2, f"no visible focus: {element}"
    assert len(seen) > 8


def test_search_finds_a_page_without_a_server(page: Page, docs: Path) -> None:
    page.goto((docs / "guides.html").as_uri())
    page.keyboard.press("Control+k")
    page.keyboard.type("half-life")
    page.keyboard.press("Enter")
    results = page.locator("#search-results a")
    expect(results.filter(has_text="The line: how a head forgets").first).to_be_visible()


def test_code_can_be_copied(page: Page, docs: Path) -> None:
    page.goto((docs / "guides/install.html").as_uri())
    blocks = page.locator("article div.highlight")
    expect(blocks.locator("button.copybtn")).to_have_count(blocks.count())
