"""Every page of the site: accessible, readable on a phone, with links that lead somewhere."""

import re
from pathlib import Path
from typing import Literal

import pytest
from playwright.sync_api import Page

from alibi_viz import lab
from alibi_viz.lessons.copies import lessons_folder
from tests.browser.accessibility import FOCUS, findings

LESSONS = [path.stem for path in sorted(lessons_folder().glob("*.ipynb"))]
REFERENCE = [f"api/{name.replace('.', '/')}.html" for name in MODULES]
PAGES = [
    "index.html",
    "lessons/report.html",
    *(f"lessons/{name}.html" for name in LESSONS),
    *REFERENCE,
]
# Theme, and width in pixels. Colors don't depend on widths.
VIEWS: list[tuple[Literal["light", "dark"], int]] = [("light", 1024), ("dark", 390)]
OPEN_FOUR_DETAILS = """[...document.querySelectorAll('details')].slice(0, 4)
    .forEach(details => { details.open = true; })"""
PROSE = "main :is(p, li, td, th, figcaption, h1, h2, h3):not(.output *, code *)"


@pytest.mark.parametrize("name", PAGES)
def test_page_is_accessible_and_fits_in_both_themes_and_on_a_phone(
    page: Page, site: Path, name: str
) -> None:
    page.goto((site.parent / name).as_uri())
    page.evaluate(OPEN_FOUR_DETAILS)
    for theme, width in VIEWS:
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": 800})
        assert findings(page) == [], f"{theme}, {width} pixels"
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("lesson", LESSONS)
def test_lesson_page_has_formulas_and_described_pictures(
    page: Page, site: Path, lesson: str
) -> None:
    page.goto((site.parent / f"lessons/{lesson}.html").as_uri())
    text = " ".join(page.locator(PROSE).all_inner_texts())
    assert len(text) > 500
    assert not re.search(r"\$|\\[a-z]", text), "TeX is left"
    source = (lessons_folder() / f"{lesson}.ipynb").read_text(encoding="utf-8")
    has_formulas = page.locator("math").count() > 0
    assert has_formulas == ("$" in source)
    for figure in page.locator("main > figure").all():
        description = figure.locator("img").get_attribute("alt") or ""
        assert len(description) > 40
        assert f"make lab LESSON={lesson}.ipynb" in figure.inner_text()


@pytest.mark.parametrize("name", ["index.html", "lessons/09_the_study.html", "api/alibi_viz.html"])
def test_focus_is_visible_wherever_the_tab_key_leads(page: Page, site: Path, name: str) -> None:
    page.goto((site.parent / name).as_uri())
    seen = set()
    for _ in range(150):
        page.keyboard.press("Tab")
        element, width = page.evaluate(FOCUS)
        if element.startswith("<body"):  # once around
            break
        seen.add(element)
        assert width >= 2, f"no visible focus: {element}"
    assert len(seen) > 8


def test_every_link_within_the_site_leads_to_a_page_and_a_heading(site: Path) -> None:
    texts = {path: path.read_text(encoding="utf-8") for path in site.parent.rglob("*.html")}
    assert {str(path.relative_to(site.parent)) for path in texts} == set(PAGES)
    for path, text in texts.items():
        for link in re.findall(r'href="(?!https?:)([^"]+)"', text):
            target, _, heading = link.partition("#")
            reached = texts.get((path.parent / target).resolve() if target else path)
            assert reached, f"{path.name}: {link}"
            assert not heading or f'id="{heading}"' in reached, f"{path.name}: {link}"


def test_reference_has_every_public_name_with_its_signature_docstring_and_source(
    page: Page, site: Path
) -> None:
    page.goto((site.parent / "api/alibi_viz/lab.html").as_uri())
    assert page.locator("main h2").all_inner_texts() == lab.__all__
    section = page.locator("section", has=page.locator("#race"))
    signature = section.locator(".signature").first.inner_text()
    assert signature.startswith("race(")
    assert "learning_rate: float" in signature
    assert "Raises" in section.inner_text()
    section.get_by_text("Source of race").click()
    assert "def race(" in section.locator(".source").first.inner_text()
