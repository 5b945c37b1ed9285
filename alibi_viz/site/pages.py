"""The lessons, the report and the API reference as pages of the site: no network, no kernel, no
JavaScript."""

import re
from collections.abc import Iterable
from importlib import import_module
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import jinja2
import nbformat
import pdoc
from latex2mathml.converter import convert
from markupsafe import Markup
from nbconvert.filters import Highlight2HTML, ansi2html
from nbconvert.filters.markdown_mistune import IPythonRenderer, MarkdownWithMath

from alibi_viz.files import write

_PARTS = ("", ".check", ".lab", ".models", ".figures", ".lessons", ".widgets", ".laws", ".study")
MODULES = tuple(f"alibi_viz{name}" for name in _PARTS)


class _Renderer(IPythonRenderer):
    """Markdown as HTML: formulas as MathML, wide tables in a box that scrolls, links to the pages
    of other files."""

    def block_math(self, body: str) -> str:
        return _box("Formula", convert(body, display="block"))

    def inline_math(self, body: str) -> str:
        return convert(body)

    def table(self, text: str) -> str:
        return _box("Table", f"<table>{text}</table>")

    def heading(self, text: str, level: int, **attributes: Any) -> str:
        attributes["id"] = re.sub(r'<.*?>|"', "", text).replace(" ", "-")  # as Jupyter does
        return super().heading(text, level, **attributes)

    def link(self, text: str, url: str, title: str | None = None) -> str:
        return super().link(
            text, re.sub(r"^(?:\.\./.+/)?(\w+)\.(?:ipynb|md)", r"\1.html", url), title
        )


def _box(name: str, content: str) -> str:
    """What may be wider than a phone, in a box that scrolls, also by keyboard."""
    return f'<div class="scroll" tabindex="0" role="group" aria-label="{name}">{content}</div>'


def markdown(text: str) -> Markup:
    """Markdown, as in a notebook, as HTML."""
    return Markup(MarkdownWithMath(_Renderer(escape=False, exclude_anchor_links=True)).render(text))


def code(text: str) -> Markup:
    """Python code with colors."""
    return Markup(Highlight2HTML()(text, language="python"))


def template(name: str) -> jinja2.Template:
    """A template of this folder."""
    environment = jinja2.Environment(
        autoescape=True, loader=jinja2.PackageLoader("alibi_viz", "site")
    )
    environment.filters.update(
        markdown=markdown, code=code, ansi=lambda text: Markup(ansi2html(text))
    )
    return environment.get_template(name)


def write_lessons(paths: Iterable[Path], folder: Path) -> list[dict[str, str]]:
    """Write lessons with their stored outputs and pictures into a folder, and return their file
    names and titles."""
    notebooks = {path.stem: nbformat.read(path, as_version=4).cells for path in paths}
    lessons = []
    for name, cells in notebooks.items():
        title = re.search(r"^# (?:\d+\. )?(.+)", cells[0].source if cells else "")
        lessons.append({"name": name, "title": title[1] if title else name})
    for n, lesson in enumerate(lessons):
        neighbors = {
            "previous": lessons[n - 1] if n else None,
            "next": lessons[n + 1] if lessons[n + 1 :] else None,
        }
        page = template("lesson.html.j2").render(
            **lesson, **neighbors, cells=notebooks[lesson["name"]]
        )
        write(folder / f"{lesson['name']}.html", page)
    return lessons


def write_report(folder: Path) -> None:
    """Write the report about the study, to which the page links, into a folder."""
    report = (files("alibi_viz.study") / "published" / "report.md").read_text(encoding="utf-8")
    cells = [nbformat.v4.new_markdown_cell(report)]
    page = template("lesson.html.j2").render(
        name="report", title="Results of the study", cells=cells
    )
    write(folder / "report.html", page)


def write_reference(folder: Path) -> None:
    """Write the reference of all public names, from their docstrings and signatures, into a
    folder."""
    modules = {}
    for name in MODULES:
        module = import_module(name)
        vars(module).update(
            {member: getattr(module, member) for member in module.__all__}
        )  # pdoc looks no further
        modules[name] = pdoc.doc.Module(module)
    with as_file(files("alibi_viz.site")) as templates:
        pdoc.render.configure(docformat="google", template_directory=templates)
        for name, documented in modules.items():
            page = folder / f"{name.replace('.', '/')}.html"
            page.parent.mkdir(parents=True, exist_ok=True)
            write(page, pdoc.render.html_module(documented, modules))
