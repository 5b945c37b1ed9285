"""Put a picture of each app, figure and guessed curve into the lessons, beside its text, and renew
those of README and guides.

    make screenshots                 every lesson
    make screenshots ONLY=01_the_line  one of them

With a kernel a reader sees the app, without one the picture. For each output that shows one, the
code up to its cell runs in JupyterLab, and what is shown last is captured. An app with a Train
button is trained first: an empty chart says nothing. Where it asks for guesses, it then goes back
to an early test. The picture of a curve that is to be guessed has the answer, so the output has to
be folded until its cell runs.

README and guides may show notebooks/images/LESSON.png, the first app of a lesson. The pages of
the lessons show docs/dark_pictures/LESSON-NUMBER.png while they are dark. In a lesson and on its
page, a mark on the picture of an app says that it is one.
"""

import base64
import inspect
import io
import re
import sys
from importlib.resources import files
from pathlib import Path
from typing import NamedTuple

import nbformat
from PIL import Image
from playwright.sync_api import Browser, Locator, ViewportSize

from alibi_viz import figures
from alibi_viz.formatting import format_slope
from alibi_viz.study.far_keys import BRAKES, STOPS
from tests.browser import chromium, jupyter
from tests.browser.jupyter import Server
from tests.browser.notebook_page import new_tab
from tests.notebooks.lessons import DARK_PICTURES, FOLDER, named, picture_outputs, read

EARLY_TEST = 3  # of about ten: the models write words
MARK_AS_PICTURE = Path(__file__).with_name("mark_as_picture.js").read_text(encoding="utf-8")
COLORS_OF_PAGE = (
    files("alibi_viz.figures").joinpath("theme.css").read_text(encoding="utf-8")
    + ".alibi-app .main-svg { background: none !important; }"
)
# An app and its caption fit on the screen, beside JupyterLab's file browser.
SIZE = ViewportSize(width=1400, height=1600)
# What an answer to a guess says about the reader's points.
VERDICT = re.compile(
    r"""
    ^.*?\.[ ]                                 # the first sentence
    | :[ ](\d[ ]of[ ])?your[ ](\d[ ])?point[^:]*[ ]close
    | \n.*                                    # the second line
    """,
    re.VERBOSE,
)


class Picture(NamedTuple):
    """What a cell shows: PNGs of an app as it is, and of the same with its mark, on a light and a
    dark page; and what they show in words.

    The pictures of a figure and of a guessed curve have no mark.
    """

    plain: bytes
    light: bytes
    dark: bytes
    alternative: str


def renew(paths: list[Path]) -> None:
    """Renew the pictures in these lessons, and the files of those in notebooks/images and docs."""
    with chromium.launch() as browser, jupyter.serve() as server:
        for path in paths:
            notebook = read(path)
            for number, (code, output) in enumerate(picture_outputs(notebook)):
                name = f"{path.stem}-{number}"
                picture = capture(name, code, browser, server)
                output.data["image/png"] = base64.b64encode(picture.light).decode()
                output.metadata["image/png"] = {"alt": picture.alternative}
                (DARK_PICTURES / f"{name}.png").write_bytes(picture.dark)
                file = FOLDER / "images" / f"{path.stem}.png"
                if number == 0 and file.exists():
                    file.write_bytes(picture.plain)
            nbformat.write(notebook, path)


def capture(name: str, code: list[str], browser: Browser, server: Server) -> Picture:
    """Run the code in JupyterLab, and take pictures of what it shows last."""
    server.write(name, *code)
    with new_tab(browser, server, SIZE) as notebook:
        notebook.open(name)
        notebook.run_all()
        if "guess_curve(" in code[-1]:
            guess = notebook.app(-1, ".alibi-guess")
            alternative = f"Screenshot. Its caption: {answer(guess)}"
            shown = guess.locator(".js-plotly-plot")
            plain = png(shown)
        elif function := re.search(r"figures\.(\w+_figure)\(", code[-1]):
            about = str(inspect.getdoc(getattr(figures, function[1])))
            alternative = " ".join(about.partition("\n\n")[0].split())
            shown = notebook.app(-1, ".js-plotly-plot:has(.main-svg)")
            # On the pages of the lessons it has the colors of the page, as in an app.
            notebook.page.add_style_tag(content=COLORS_OF_PAGE)
            shown.evaluate("figure => figure.parentElement.classList.add('alibi-app')")
            plain = png(shown)
        else:
            app = notebook.app(-1)
            if app.locator(".s-train").count():
                train(app)
            if app.locator("[class*='s-guess-']:visible").count():
                go_back(app)
            if app.locator(".s-brake").count():
                visit_settings(app)
            shown = notebook.settle(-1)
            alternative = f"Screenshot. Its caption: {notebook.caption(-1)}"
            plain = png(shown)
            shown.evaluate(MARK_AS_PICTURE)

        light = png(shown)
        notebook.choose_theme("JupyterLab Dark")
        dark = png(shown)
        notebook.choose_theme("JupyterLab Light")
        errors = notebook.errors()
        if errors:
            sys.exit(f"{name} shows errors:\n{errors[0]}")
    print(f"{name}: {len(light) / 1000:.0f} kB", flush=True)
    return Picture(plain, light, dark, alternative)


def train(app: Locator) -> None:
    """Guess where the app asks (each method fails, and Emma is not named), press Train, and wait
    for the end of the race."""
    for guess in app.locator("[class*='s-guess-']:visible").all():
        guess.locator("button").last.click()
    app.locator(".s-train").click()
    app.locator(".s-stop:enabled").wait_for(timeout=300_000)  # the kernel has begun
    app.locator(".s-stop:disabled").wait_for(timeout=300_000)


def go_back(app: Locator) -> None:
    """Show an early test of a race, which doesn't answer what the app asks."""
    slider = app.locator(".s-moment .noUi-handle")
    slider.press("Home")
    for _ in range(EARLY_TEST):
        slider.press("ArrowRight")
    app.locator(".alibi-caption", has_text="After step").wait_for()


def visit_settings(app: Locator) -> None:
    """Move each slider of FarShare through all its values and back: the dots don't say which of
    them is which, so the picture answers no guess."""
    for slider, key, said in (
        *[("stop", "ArrowLeft", f"at {stop} letters") for stop in reversed(STOPS[:-1])],
        ("stop", "End", "As trained"),
        *[("brake", "ArrowRight", f"slope {format_slope(brake)}") for brake in BRAKES[1:]],
        ("brake", "Home", "As trained"),
    ):
        app.locator(f".s-{slider} .noUi-handle").press(key)
        app.locator(".alibi-caption", has_text=said).wait_for()


def answer(guess: Locator) -> str:
    """Move the points of a curve by one step, and show the answer. Returns it in words, without a
    verdict."""
    for handle in guess.locator(".noUi-handle").all():
        handle.press("ArrowRight")
    guess.locator(".s-answer").click()
    return VERDICT.sub("", guess.get_by_role("alert").inner_text())


def png(element: Locator) -> bytes:
    """A screenshot of an element."""
    picture = Image.open(io.BytesIO(element.screenshot())).convert("RGB")
    # An app that came into view touches the line below JupyterLab's toolbar, which has a shadow.
    picture = picture.crop((0, 3, picture.width, picture.height))
    file = io.BytesIO()
    picture.save(file, "PNG", optimize=True)
    return file.getvalue()


if __name__ == "__main__":
    renew(named(sys.argv[1:]))
