"""What an app, or a guess, needs on its page besides its widgets."""

from pathlib import Path

import anywidget
from traitlets import Bool, Float, Int, Unicode


class PageWidget(anywidget.AnyWidget):
    """An invisible widget of an app or a guess, see page.js: reports its size in pixels, tends its
    controls, brings a new one into view and opens what a guess has kept folded."""

    width = Int(0).tag(sync=True)
    pixel_ratio = Float(0).tag(sync=True)  # pixels of the screen per pixel of the page; 0: unknown
    app = Unicode(help="the id of the app or the guess").tag(sync=True)
    is_new = Bool(True, help="whether no page has shown the app yet").tag(sync=True)
    answered = Bool(False, help="whether the reader has guessed: the page opens what follows").tag(
        sync=True
    )
    # As text, because anywidget keeps every widget whose script is a file, to reload it.
    _esm = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
