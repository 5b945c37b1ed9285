"""Put the page that writes and trains in place of the site's first page."""

from sphinx.application import Sphinx
from sphinx.util.typing import ExtensionMetadata

from docs.page.build import build_page


def write_start_page(app: Sphinx, error: Exception | None) -> None:
    """Replace index.html, which Sphinx has made from index.md, once everything else is written."""
    if error is None and app.builder.format == "html":
        build_page(app.outdir)


def setup(app: Sphinx) -> ExtensionMetadata:
    """Call `write_start_page` at the end of a build."""
    app.connect("build-finished", write_start_page)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
