"""The picture of an app in a saved notebook, for those who read it without a kernel."""

from pathlib import Path

import anywidget
from traitlets import Unicode


class SavedPicture(anywidget.AnyWidget):
    """An invisible widget of an app, or of a guess with a figure: when JupyterLab saves the
    notebook, it adds a picture and the caption to the file, see saved_picture.js.

    The page does it alone, so no kernel that is busy keeps it waiting.
    """

    app = Unicode(help="the id of the app or the guess").tag(sync=True)
    # Text, because anywidget keeps every widget whose script is a file, to reload it
    _esm = Path(__file__).with_name("saved_picture.js").read_text(encoding="utf-8")
