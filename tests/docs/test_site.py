"""The built site: its pages, links, lessons and reference. It is skipped without --site."""

import re
from html import unescape
from importlib import import_module
from itertools import pairwise
from urllib.parse import unquote

import pytest

from alibi_viz import lab
from alibi_viz.files import lesson_files

LESSONS = [path.stem for path in lesson_files()]
PARTS = ("check", "figures", "lab", "laws", "lessons", "models", "study", "widgets")
MODULES = ["alibi_viz", *(f"alibi_viz.{part}" for part in PARTS)]
GUIDES = (
    "check",
    "code",
    "contribute",
    "install",
    "pretrained",
    "race",
    "pictures",
    "release",
    "speed",
    "study",
    "teach",
)
# Pages without the sources of the reference
PAGES = [
    "index.html",
    "lessons.html",
    *(f"lessons/{name}.html" for name in LESSONS),
    "lessons/methods.html",
    "lessons/report.html",
    "guides.html",
    *(f"guides/{name}.html" for name in GUIDES),
    "api.html",
    *(f"api/{name.replace('.', '/')}.html" for name in MODULES),
    "search.html",
]
LINK = re.compile(r'<a\b[^>]*?\bhref="(?!https?:|mailto:)([^"]+)"')


@pytest.fixture(scope="module")
def texts(docs):
    """The text of each page."""
    pages = [path for path in docs.rglob("*.html") if "_static" not in path.parts]
    return {path: path.read_text(encoding="utf-8") for path in pages}


def test_site_has_these_pages_and_the_sources_of_the_reference(docs, texts):
    names = {path.relative_to(docs).as_posix() for path in texts}
    names_without_sources = {name for name in names if not name.startswith("_modules/")}
    assert names_without_sources == set(PAGES)


def test_every_link_within_the_site_leads_to_a_page_and_a_heading(texts):
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


def test_first_page_is_the_page_that_writes_and_trains(docs):
    page = (docs / "index.html").read_text(encoding="utf-8")
    assert 'id="data"' in page
    assert len(page) < 1.85e6  # the guide to installing says 1.8 MB


def test_each_lesson_links_the_one_before_and_the_one_after(docs):
    for before, after in pairwise(LESSONS):
        page_before = (docs / f"lessons/{before}.html").read_text(encoding="utf-8")
        page_after = (docs / f"lessons/{after}.html").read_text(encoding="utf-8")
        assert re.search(rf'class="right-next"\s+href="{after}.html"', page_before)
        assert re.search(rf'class="left-prev"\s+href="{before}.html"', page_after)


def test_the_list_of_lessons_is_on_every_page_of_a_lesson(docs):
    text = (docs / "lessons/05_why_it_extrapolates.html").read_text(encoding="utf-8")
    sidebar = text.split('id="pst-primary-sidebar"')[1].split("<main")[0]
    for lesson in LESSONS:
        is_current = lesson.startswith("05")
        assert f'href="{"#" if is_current else lesson + ".html"}"' in sidebar


def test_lessons_link_pages_and_not_notebooks(docs):
    for lesson in LESSONS:
        text = (docs / f"lessons/{lesson}.html").read_text(encoding="utf-8")
        assert '.ipynb"' not in text, lesson


def test_reports_of_the_checker_are_text(docs):
    text = (docs / "guides/check.html").read_text(encoding="utf-8")
    assert "<b>ALiBi check of reversed_bias: 1 fault</b>" in text
    assert "check.png" not in text


def test_tags_in_a_lesson_are_kept(docs):
    text = (docs / "lessons/01_the_line.html").read_text(encoding="utf-8")
    assert "<details><summary><b>Questions to try</b></summary>" in text


def test_formulas_have_a_name(docs):
    text = (docs / "lessons/01_the_line.html").read_text(encoding="utf-8")
    assert re.search(r'<div aria-label="Formula"[^>]*>\s*<math [^>]*display="block"', text)


@pytest.mark.parametrize("name", MODULES)
def test_every_public_name_is_in_the_reference(docs, name):
    text = (docs / f"api/{name.replace('.', '/')}.html").read_text(encoding="utf-8")
    module = import_module(name)
    for member in module.__all__:
        assert f">{member}<" in text or f'id="{name}.{member}"' in text, member


def without_tags(html):
    return unescape(re.sub("<[^>]+>", "", html))


def entry(docs, page, name):
    """The HTML of what the reference says about a name, up to the next function or class."""
    text = (docs / page).read_text(encoding="utf-8")
    return re.split(r'<dl class="py (?:function|class)"', text.split(f'id="{name}"')[1])[0]


def test_reference_of_the_lab_has_all_names(docs):
    text = (docs / "api/alibi_viz/lab.html").read_text(encoding="utf-8")
    missing = [name for name in lab.__all__ if f'id="alibi_viz.lab.{name}"' not in text]
    assert missing == []


def test_reference_has_a_function_with_its_signature_docstring_and_source(docs):
    html = entry(docs, "api/alibi_viz/lab.html", "alibi_viz.lab.race")
    text = without_tags(html)
    assert re.match(r"\W*race\(", text)
    assert "learning_rate: float" in text
    assert "Raises" in text
    source = re.search(r'href="../../(_modules/\S+)#race"><.*?>\[source\]', html)[1]
    assert "def race(" in without_tags((docs / source).read_text(encoding="utf-8"))


def test_reference_names_the_traits_of_an_app_in_one_list(docs):
    text = without_tags(entry(docs, "api/alibi_viz/widgets.html", "alibi_viz.widgets.BiasExplorer"))
    assert text.count("Traits:") == 1
    assert re.search(r"^num_heads\W+1 to 32", text, re.MULTILINE)
