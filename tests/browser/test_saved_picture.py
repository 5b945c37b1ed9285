"""A saved notebook shows its apps to those who have no kernel; the notebook on the page stays as it
was."""

import base64
import html
import io
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import nbconvert
import pytest
from nbformat import NotebookNode
from PIL import Image, ImageColor
from playwright.sync_api import Browser, expect

from alibi_viz.figures import theme
from alibi_viz.lessons.guesses import UNFINISHED
from tests.browser.jupyter import Server
from tests.browser.notebook_page import SECOND, NotebookPage, new_tab
from tests.browser.test_guesses import CURVE, SCORE
from tests.browser.test_life import RACE, start_race
from tests.notebooks.lessons import read

CELLS = ("app = widgets.SlopeExplorer(); app", "app", "display(app); print('below the app')")
SIZES = """[...document.querySelectorAll('.jp-OutputArea')]
    .map(area => [area.clientHeight, area.childElementCount])"""
VISIBLE_IMAGES = ".jp-OutputArea img:visible"
# Count the pictures that plotly makes, and the images that come into outputs, if only for a moment.
COUNT = """() => {
    window.made = 0;
    window.shown = 0;
    const toImage = Plotly.toImage;
    const countedToImage = (...given) => {
        window.made += 1;
        return toImage(...given);
    };
    window.Plotly = { ...Plotly, toImage: countedToImage };
    const count = change => {
        if (!change.target.closest('.jp-OutputArea')) return;
        for (const node of change.addedNodes) {
            const inside = node.querySelectorAll?.('img').length ?? 0;
            window.shown += inside + (node.nodeName === 'IMG');
        }
    };
    new MutationObserver(changes => changes.forEach(count))
        .observe(document.body, { childList: true, subtree: true });
}"""


@dataclass
class Saved:
    """A notebook with an app in three cells, saved after its slider was moved to nine heads."""

    page: NotebookPage
    path: Path
    file: NotebookNode
    early_file: NotebookNode  # saved before there was a picture of nine heads
    caption: str  # on the page
    plot_size: tuple[int, int]  # on the page, in pixels
    made_while_held: int  # pictures that were made while a mouse button was held
    shown: int  # images that came into outputs on the page
    page_before: list[list[int]]  # the height of each output area and its number of outputs
    page_after: list[list[int]]

    @property
    def images(self) -> list[NotebookNode]:
        """The outputs with a picture in the file."""
        return images_in(self.file)

    @property
    def picture(self) -> Image.Image:
        """The first picture in the file."""
        png = base64.b64decode(self.images[0].data["image/png"])
        return Image.open(io.BytesIO(png), formats=["PNG"])


def images_in(file: NotebookNode) -> list[NotebookNode]:
    """The outputs with a picture."""
    outputs = []
    for cell in file.cells:
        outputs += [output for output in cell.outputs if "image/png" in output.get("data", {})]
    return outputs


def kinds_of_outputs(file: NotebookNode) -> list[list[list[str]]]:
    """For each cell and each of its outputs, the kinds of data that it has."""
    return [[sorted(output.get("data", ())) for output in cell.outputs] for cell in file.cells]


def save(page: NotebookPage) -> None:
    page.page.keyboard.press("Control+s")
    page.page.locator(".jp-mod-dirty").wait_for(state="detached", timeout=30 * SECOND)


def hold_button(page: NotebookPage, css: str = ".alibi-app") -> None:
    """Hold the mouse button on an app or a guess: no picture is made, a save comes too early."""
    page.app(0, css).locator(".alibi-caption").first.hover()
    page.page.mouse.down()


def save_once_there_is_a_picture(page: NotebookPage) -> None:
    """Release the mouse button. The picture comes after an earlier save, and JupyterLab says that
    there is something to save."""
    page.page.mouse.up()
    page.page.locator(".jp-mod-dirty").first.wait_for(timeout=30 * SECOND)
    save(page)


@pytest.fixture(scope="module")
def saved(browser: Browser, server: Server) -> Iterator[Saved]:
    path = server.folder / "test.ipynb"
    with new_tab(browser, server) as page:
        page.page.clock.install()
        page.show(*CELLS)
        page.settle(0)
        hold_button(page)
        page.page.evaluate(COUNT)
        page.press_slider("s-heads")
        page.wait_for_caption("9 heads")
        page.wait_until_quiet()
        page.page.clock.fast_forward(10 * SECOND)
        made_while_held = page.page.evaluate("made")
        page_before = page.page.evaluate(SIZES)
        save(page)
        early_file = read(path)

        save_once_there_is_a_picture(page)
        plot = page.settle(0).locator(".js-plotly-plot .main-svg").first.bounding_box()
        assert plot is not None
        yield Saved(
            page=page,
            path=path,
            file=read(path),
            early_file=early_file,
            caption=page.caption(0).strip(),
            plot_size=(round(plot["width"]), round(plot["height"])),
            made_while_held=made_while_held,
            shown=page.page.evaluate("shown"),
            page_before=page_before,
            page_after=page.page.evaluate(SIZES),
        )
        assert page.problems == []


# The file


def test_each_cell_with_the_app_has_a_picture_described_by_the_caption(saved: Saved) -> None:
    assert saved.caption.startswith("9 heads")
    descriptions = [image.metadata["image/png"]["alt"] for image in saved.images]
    assert descriptions == [saved.caption] * len(CELLS)


def test_the_picture_has_the_size_of_the_figure_on_the_page(saved: Saved) -> None:
    assert saved.picture.size == saved.plot_size


def test_the_picture_is_drawn_on_white(saved: Saved) -> None:
    assert saved.picture.convert("RGBA").getpixel((0, 0)) == (255, 255, 255, 255)


def test_the_picture_shows_the_slopes(saved: Saved) -> None:
    colors = {color for _, color in saved.picture.convert("RGB").getcolors(maxcolors=2**20) or []}
    assert ImageColor.getrgb(theme.BLUE) in colors


def test_the_app_itself_stays_in_the_file_above_its_picture_and_caption(saved: Saved) -> None:
    app = ["application/vnd.jupyter.widget-view+json", "text/plain"]
    printed: list[str] = []
    picture = ["image/png", "text/plain"]
    caption = ["text/html", "text/plain"]
    assert kinds_of_outputs(saved.file) == [
        [],
        [app, picture, caption],
        [app, picture, caption],
        [app, picture, caption, printed],
    ]


def test_nbconvert_shows_the_picture_and_the_caption(saved: Saved) -> None:
    page, _ = nbconvert.HTMLExporter().from_filename(str(saved.path))
    picture = saved.images[0].data["image/png"].strip()
    assert page.count(picture) == len(CELLS)
    assert page.count(f">{html.escape(saved.caption, quote=False)}</p>") == len(CELLS)


def test_a_save_that_comes_before_the_picture_has_none_of_the_new_state(saved: Saved) -> None:
    for image in images_in(saved.early_file):
        assert not image.metadata["image/png"]["alt"].startswith("9 heads")


# The page


def test_no_picture_is_made_while_a_slider_may_be_dragged(saved: Saved) -> None:
    assert saved.made_while_held == 0


def test_saving_changes_no_output_on_the_page(saved: Saved) -> None:
    assert saved.page_after == saved.page_before


def test_saving_shows_no_picture_on_the_page_even_for_a_moment(saved: Saved) -> None:
    assert saved.shown == 0


# The page that is reloaded, and gets app and picture from the file


@pytest.fixture(scope="module")
def reloaded(saved: Saved) -> NotebookPage:
    page = saved.page
    page.reload()
    for number in range(len(CELLS)):
        page.wait_for_caption("9 heads", number=number)
    return page


def test_a_reloaded_page_shows_no_picture_beside_the_app(reloaded: NotebookPage) -> None:
    expect(reloaded.page.locator(VISIBLE_IMAGES)).to_have_count(0)


def test_a_reloaded_page_has_nothing_to_save(reloaded: NotebookPage) -> None:
    expect(reloaded.page.locator(".jp-mod-dirty")).to_have_count(0)


def test_a_reloaded_page_replaces_the_picture(reloaded: NotebookPage, saved: Saved) -> None:
    hold_button(reloaded)
    reloaded.press_slider("s-heads")
    reloaded.wait_for_caption("10 heads")
    save(reloaded)
    save_once_there_is_a_picture(reloaded)
    file = read(saved.path)
    assert kinds_of_outputs(file) == kinds_of_outputs(saved.file)
    for image in images_in(file):
        assert image.metadata["image/png"]["alt"].startswith("10 heads")


def test_a_closed_app_leaves_no_picture(reloaded: NotebookPage, saved: Saved) -> None:
    page = reloaded
    page.page.locator(".jp-CodeCell .cm-content").last.click()
    page.page.keyboard.press("Control+a")
    page.page.keyboard.insert_text("app.close()")
    page.page.keyboard.press("Control+Enter")
    expect(page.page.locator(".alibi-app")).to_have_count(0)
    save(page)
    assert images_in(read(saved.path)) == []


def test_no_picture_is_made_during_a_race(notebook: NotebookPage) -> None:
    notebook.page.clock.install()
    notebook.show(RACE)
    notebook.settle()
    start_race(notebook)
    notebook.page.evaluate(COUNT)
    notebook.page.clock.fast_forward(10 * SECOND)
    assert notebook.page.evaluate("made") == 0
    notebook.app().locator(".s-stop").click()
    expect(notebook.app().locator(".s-train")).to_be_enabled()


def test_a_guess_with_a_figure_has_a_picture_described_by_its_texts(
    notebook: NotebookPage,
) -> None:
    notebook.show(SCORE, CURVE)
    guess = notebook.app(0, ".alibi-guess")
    hold_button(notebook, ".alibi-guess")
    guess.get_by_role("button", name="Show the answer").press("Enter")
    expect(guess).to_contain_text(UNFINISHED)
    save(notebook)
    save_once_there_is_a_picture(notebook)
    (image,) = images_in(read(notebook.server.folder / "test.ipynb"))
    assert image.metadata["image/png"]["alt"] == f"Your guess. How high? {UNFINISHED}"
