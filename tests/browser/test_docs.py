"""Every page of the site: accessible, readable on a phone, with links that lead somewhere."""

import re
from html import unescape
from importlib import import_module
from itertools import pairwise
from pathlib import Path
from typing import Literal
from urllib.parse import unquote

import pytest
from playwright.sync_api import Page, expect

from alibi_viz import lab
from alibi_viz.lessons.copies import lessons_folder
from tests.browser.accessibility import FOCUS, findings

LESSONS = [path.stem for path in sorted(lessons_folder().glob("*.ipynb"))]
PARTS = ("check", "figures", "lab", "laws", "lessons", "models", "study", "widgets")
MODULES = ["alibi_viz", *(f"alibi_viz.{part}" for part in PARTS)]
GUIDES = (
    "check",
    "code",
    "contribute",
    "install",
    "pretrained",
    "race",
    "release",
    "speed",
    "study",
    "teach",
)
# index.html, the page that writes and trains, has a file of tests of its own.
PAGES = [
    "lessons.html",
    *(f"lessons/{name}.html" for name in LESSONS),
    "lessons/report.html",
    "guides.html",
    *(f"guides/{name}.html" for name in GUIDES),
    "api.html",
    *(f"api/{name.replace('.', '/')}.html" for name in MODULES),
    "search.html",
]
# Theme, and width in pixels. Colors don't depend on widths.
VIEWS: list[tuple[Literal["light", "dark"], int]] = [("light", 1024), ("dark", 390)]
OPEN_FOUR_DETAILS = """[...document.querySelectorAll('main details')].slice(0, 4)
    .forEach(details => { details.open = true; })"""
PROSE = "article :is(p, li, td, th, h1, h2, h3):not(.cell *, code *)"
LINK = re.compile(r'<a\b[^>]*?\bhref="(?!https?:|mailto:)([^"]+)"')


@pytest.mark.parametrize("name", PAGES)
def test_page_is_accessible_and_fits_in_both_themes_and_on_a_phone(
    page: Page, docs: Path, name: str
) -> None:
    for theme, width in VIEWS:
        page.emulate_media(color_scheme=theme)
        page.set_viewport_size({"width": width, "height": 800})
        page.goto((docs / name).as_uri())
        page.evaluate(OPEN_FOUR_DETAILS)
        expect(page.locator("html")).to_have_attribute("data-theme", theme)
        assert findings(page) == [], f"{theme}, {width} pixels"
        assert page.evaluate("document.documentElement.scrollWidth") <= width


@pytest.mark.parametrize("lesson", LESSONS)
def test_lesson_page_has_formulas_and_described_pictures(
    page: Page, docs: Path, lesson: str
) -> None:
    page.goto((docs / f"lessons/{lesson}.html").as_uri())
    text = " ".join(page.locator(PROSE).all_inner_texts())
    assert len(text) > 500
    assert not re.search(r"\$|\\[a-z]", text), "TeX is left"
    source = (lessons_folder() / f"{lesson}.ipynb").read_text(encoding="utf-8")
    has_formulas = page.locator("math").count() > 0
    assert has_formulas == ("$" in source)
    for figure in page.locator("figure:has(.caption-text)").all():
        description = figure.locator("img").first.get_attribute("alt") or ""
        assert len(description) > 40
        assert f"make lab LESSON={lesson}.ipynb" in (figure.text_content() or "")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_a_picture_is_as_light_or_dark_as_its_page(
    page: Page, docs: Path, theme: Literal["light", "dark"]
) -> None:
    page.emulate_media(color_scheme=theme)
    page.goto((docs / "lessons/00_start_here.html").as_uri())
    pictures = page.locator("figure img")
    expect(pictures).to_have_count(2)
    for picture in pictures.all():
        is_dark = "/00_start_here-0" in (picture.get_attribute("src") or "")
        expect(picture).to_be_visible(visible=is_dark == (theme == "dark"))


def test_a_picture_leads_to_itself_in_its_own_size(page: Page, docs: Path) -> None:
    page.set_viewport_size({"width": 390, "height": 800})
    page.goto((docs / "lessons/00_start_here.html").as_uri())
    page.locator("figure a:visible").click()
    picture = page.locator("img")
    expect(picture).to_be_visible()
    assert picture.evaluate("image => image.naturalWidth") > 800


def test_a_guess_shows_its_answer_when_it_is_opened(page: Page, docs: Path) -> None:
    page.goto((docs / "lessons/01_the_line.html").as_uri())
    page.get_by_label("only under the straight line").check()
    reason = page.get_by_text("so the logit must fall by the same amount").first
    expect(reason).not_to_be_visible()
    page.get_by_text("Answer", exact=True).first.click()
    expect(reason).to_be_visible()


def test_code_that_contains_the_answer_of_a_guess_is_folded(page: Page, docs: Path) -> None:
    page.goto((docs / "lessons/01_the_line.html").as_uri())
    code = page.locator("pre", has_text='"line: half-life"')
    expect(code).not_to_be_visible()
    page.locator("details", has=code).locator("summary").click()
    expect(code).to_be_visible()


@pytest.mark.parametrize(
    "name",
    [
        "guides/install.html",
        "lessons/09_the_study.html",
        "api/alibi_viz.html",
    ],
)
def test_focus_is_visible_wherever_the_tab_key_leads(page: Page, docs: Path, name: str) -> None:
    page.goto((docs / name).as_uri())
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


# Files, without a browser


@pytest.fixture(scope="module")
def texts(docs: Path) -> dict[Path, str]:
    """The text of each page."""
    pages = [path for path in docs.rglob("*.html") if "_static" not in path.parts]
    return {path: path.read_text(encoding="utf-8") for path in pages}


def test_site_is_small(docs: Path) -> None:
    size = sum(path.stat().st_size for path in docs.rglob("*") if path.is_file())
    assert size < 25_000_000


def test_site_has_these_pages_and_the_sources_of_the_reference(
    docs: Path, texts: dict[Path, str]
) -> None:
    names = {path.relative_to(docs).as_posix() for path in texts}
    names_without_sources = {name for name in names if not name.startswith("_modules/")}
    assert names_without_sources == {"index.html", *PAGES}


def test_every_link_within_the_site_leads_to_a_page_and_a_heading(texts: dict[Path, str]) -> None:
    broken = []
    for path, text in texts.items():
        for link in LINK.findall(text):
            target, _, heading = unescape(unquote(link)).partition("#")
            file = (path.parent / target).resolve() if target else path
            if file.suffix != ".html":
                is_right = file.exists()
            else:
                reached = texts.get(file, "")
                is_right = f'id="{heading}"' in reached if heading else bool(reached)
            if not is_right:
                broken.append(f"{path.name}: {link}")
    assert broken == []


def test_first_page_is_the_page_that_writes_and_trains(docs: Path) -> None:
    assert 'id="data"' in (docs / "index.html").read_text(encoding="utf-8")


def test_each_lesson_links_the_one_before_and_the_one_after(docs: Path) -> None:
    for before, after in pairwise(LESSONS):
        page_before = (docs / f"lessons/{before}.html").read_text(encoding="utf-8")
        page_after = (docs / f"lessons/{after}.html").read_text(encoding="utf-8")
        assert re.search(rf'class="right-next"\s+href="{after}.html"', page_before)
        assert re.search(rf'class="left-prev"\s+href="{before}.html"', page_after)


def test_the_list_of_lessons_is_on_every_page_of_a_lesson(docs: Path) -> None:
    text = (docs / "lessons/05_why_it_extrapolates.html").read_text(encoding="utf-8")
    sidebar = text.split('id="pst-primary-sidebar"')[1].split("<main")[0]
    for lesson in LESSONS:
        is_current = lesson.startswith("05")
        assert f'href="{"#" if is_current else lesson + ".html"}"' in sidebar


def test_lessons_link_pages_and_not_notebooks(docs: Path) -> None:
    for lesson in LESSONS:
        text = (docs / f"lessons/{lesson}.html").read_text(encoding="utf-8")
        assert '.ipynb"' not in text, lesson


def test_tags_in_a_lesson_are_kept(docs: Path) -> None:
    text = (docs / "lessons/01_the_line.html").read_text(encoding="utf-8")
    assert "<details><summary><b>Questions to try</b></summary>" in text


def test_formulas_have_a_name(docs: Path) -> None:
    text = (docs / "lessons/01_the_line.html").read_text(encoding="utf-8")
    assert re.search(r'<div aria-label="Formula"[^>]*>\s*<math [^>]*display="block"', text)


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_is_in_the_reference(docs: Path, name: str) -> None:
    text = (docs / f"api/{name.replace('.', '/')}.html").read_text(encoding="utf-8")
    module = import_module(name)
    for member in module.__all__:
        assert f">{member}<" in text or f'id="{name}.{member}"' in text, member


def test_reference_has_a_function_with_its_signature_docstring_and_source(
    page: Page, docs: Path
) -> None:
    page.goto((docs / "api/alibi_viz/lab.html").as_uri())
    function = page.locator("dl", has=page.locator('dt[id="alibi_viz.lab.race"]')).last
    signature = function.locator("dt").first.inner_text()
    assert signature.startswith("race(")
    assert "learning_rate: float" in signature
    assert "Raises" in function.inner_text()
    function.get_by_text("[source]").first.click()
    expect(page.locator("pre").first).to_contain_text("def race(")


def test_reference_of_the_lab_has_all_names(page: Page, docs: Path) -> None:
    page.goto((docs / "api/alibi_viz/lab.html").as_uri())
    ids = page.evaluate("[...document.querySelectorAll('article dt[id]')].map(dt => dt.id)")
    assert {f"alibi_viz.lab.{name}" for name in lab.__all__} - set(ids) == set()


def test_reference_names_the_traits_of_an_app_in_one_list(page: Page, docs: Path) -> None:
    page.goto((docs / "api/alibi_viz/widgets.html").as_uri())
    app = page.locator("dl.class", has=page.locator('dt[id="alibi_viz.widgets.BiasExplorer"]'))
    expect(app.get_by_text("Traits:")).to_have_count(1)
    expect(app.get_by_text(re.compile(r"^num_heads\W+1 to 32"))).to_be_visible()
