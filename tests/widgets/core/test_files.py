"""Figures as files: one HTML page that works offline, or a PNG."""

import html
import re
from importlib.metadata import version
from typing import Any

import plotly.graph_objects as go
import pytest
from choreographer.browsers.chromium import ChromeNotFoundError

from alibi_viz.figures import theme
from alibi_viz.widgets import SlopeExplorer
from alibi_viz.widgets.core.files import save
from tests.browser import chromium

FIGURE = theme.on_white(theme.blank(200).add_scatter(y=[1, 2]))


def test_html_file_is_self_contained(tmp_path):
    save(FIGURE, path := tmp_path / "x.html", "X", "</p><script>alert(1)</script>")
    page = path.read_text(encoding="utf-8")
    assert "&lt;/p&gt;&lt;script&gt;alert(1)" in page
    assert "<script>alert(1)" not in page
    assert "Plotly.newPlot" in page
    assert not re.search(r"<(script|link|img)[^>]*(src|href)=", page)  # nothing is fetched
    assert len(page) > 3_000_000  # plotly itself is inside


@pytest.mark.skipif(chromium.find() is None, reason=chromium.MISSING)
def test_png_file_is_a_png(tmp_path):
    save(FIGURE, path := tmp_path / "x.PNG", "X", "")
    assert path.read_bytes().startswith(b"\x89PNG")


def test_png_without_chromium_raises_and_suggests_html(tmp_path, monkeypatch):
    def fail(*_: Any, **__: Any) -> None:
        raise ChromeNotFoundError

    monkeypatch.setattr(go.Figure, "to_image", fail)
    with pytest.raises(RuntimeError, match=r"x.png needs Chrome or Chromium, and none was found: .* save as .html"):
        save(FIGURE, tmp_path / "x.png", "X", "")


def test_empty_png_raises_with_the_versions_and_leaves_the_old_file(tmp_path, monkeypatch):
    """plotly 6.1.0 with kaleido 1.0.0 drew nothing and reported success."""
    path = tmp_path / "x.png"
    path.write_bytes(b"old")
    monkeypatch.setattr(go.Figure, "to_image", lambda *_, **__: b"")
    versions = rf"plotly {re.escape(version('plotly'))} with kaleido {re.escape(version('kaleido'))}"
    with pytest.raises(RuntimeError, match=rf"{versions} drew nothing for x.png"):
        save(FIGURE, path, "X", "")
    assert path.read_bytes() == b"old"


@pytest.mark.parametrize("name", ["x.pdf", "x", "x.html.zip"])
def test_unknown_suffix_raises(tmp_path, name):
    with pytest.raises(ValueError, match=r"save writes .html or .png, got '(\.pdf|no suffix|\.zip)' in .*x"):
        save(FIGURE, tmp_path / name, "X", "")


def test_app_saves_its_figure_and_caption(tmp_path):
    app = SlopeExplorer()
    path = app.save(str(tmp_path / "x.html"))
    assert path == tmp_path / "x.html"
    assert html.escape(app.caption) in path.read_text(encoding="utf-8")
