"""A button that copies the state of an app as code."""

from pathlib import Path

import anywidget
from traitlets import Unicode


class CopyButton(anywidget.AnyWidget):
    """Puts code on the clipboard, or shows it where the page may not; see copy.js."""

    code = Unicode(help="what is copied").tag(sync=True)
    tip = Unicode("Copy as code: Python that opens this app as it is now").tag(sync=True)
    _esm = Path(__file__).with_name("copy.js").read_text(encoding="utf-8")
