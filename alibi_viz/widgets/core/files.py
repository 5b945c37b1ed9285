"""Write a figure to a file."""

import html
from importlib.metadata import version
from pathlib import Path

import plotly.graph_objects as go

from alibi_viz.figures import theme

__all__ = ["save"]

_PAGE = """<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title}</title></head>
<body style="font-family: system-ui, sans-serif; color: {ink}; background: white; margin: 16px; max-width: 1100px">
<h1 style="font-size: 1.3em">{title}</h1>
{figure}
<p style="line-height: 1.5; max-width: 60em">{caption}</p>
</body></html>
"""


def save(figure: go.Figure, path: Path, title: str, caption: str) -> Path:
    """Write a figure to `.html`, with title and caption, or to `.png`, as `App.save` describes it."""
    match path.suffix.lower():
        case ".html":
            plot = figure.to_html(full_html=False, include_plotlyjs=True, config={"displaylogo": False})
            page = _PAGE.format(title=title, ink=theme.INK, figure=plot, caption=html.escape(caption))
            path.write_text(page, encoding="utf-8")
        case ".png":
            path.write_bytes(_png(figure, path.name))
        case _:
            raise ValueError(f"save writes .html or .png, got {path.suffix or 'no suffix'!r} in {str(path)!r}")
    return path


def _png(figure: go.Figure, name: str) -> bytes:
    from kaleido.errors import ChromeNotFoundError  # noqa: PLC0415  # slow to import, rarely needed

    try:
        png = figure.to_image("png", width=figure.layout.width or 1000, height=figure.layout.height, scale=2)
    except ChromeNotFoundError as error:
        message = f"{name} needs Chrome or Chromium, and none was found: install it, or save as .html"
        raise RuntimeError(message) from error
    if not png:
        versions = " with ".join(f"{library} {version(library)}" for library in ("plotly", "kaleido"))
        raise RuntimeError(f"{versions} drew nothing for {name}: upgrade them, or save as .html")
    return bytes(png)
