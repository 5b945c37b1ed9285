"""A saved notebook shows its apps to those who have no kernel; the notebook on the page stays as it
was."""

import base64
import html
import io
from collections.abc import Iterator
from dataclasses import dataclass

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
from tests.browser.test_life import RACE, start_race, stop_race
from tests.notebooks.lessons import read

CELLS = ("app = widgets.SlopeExplorer(); app", "app", "display(app); print('below the app')")
SIZES = """[...document.querySelectorAll('.jp-OutputArea')]
    .map(area => [area.clientHeight, area.childElementCount])"""
VISIBLE_IMAGES = ".jp-OutputArea img:visible"
# Count the pictures that plotly makes, and the images that come into outputs, if only for a moment.
COUNT = """() => {
    window.made = 0;
    window.finished = 0;
    window.shown = 0;
    const toImage = Plotly.toImage;
    const countedToImage = async (...given) => {
        window.made += 1;
        const image = await toImage(...given);
        window.finished += 1;
        return image;
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
# Put an image into an output and take it away. Returns how many have come into outputs by then.
SHOW_BY_HAND = """async () => {
    const image = document.querySelector('.jp-OutputArea').appendChild(new Image());
    image.remove();
    await new Promise(requestAnimationFrame);
    return shown;
}"""


@dataclass
class Saved:
    """What became of a notebook with an app in three cells: its slider was moved to nine heads and
    the notebook saved, then the page was reloaded, the slider moved to ten, and the app closed."""

    early_file: NotebookNode  # saved before there was a picture of nine heads
    file: NotebookNode
    file_of_ten: NotebookNode  # saved by the reloaded page
    last_file: NotebookNode  # saved after the app was closed
    caption: str  # on the page
    plot_size: tuple[int, int]  # on the page, in pixels
    made_while_held: int  # pictures that were made while a mouse button was held
    made: int  # pictures that were made until the page was reloaded
    shown: int  # images that came into outputs on the page until then
    shown_by_hand: int  # the same, after the test put one there
    page_before: list[list[int]]  # the height of each output area and its number of outputs
    page_after: list[list[int]]
    shown_after_reload: int  # images on the reloaded page
    unsaved_after_reload: int  # signs on the reloaded page that there is something to save

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


def hold_button(page: NotebookPage, css: str = ".alibi-app") -> None:
    """Hold the mouse button on an app or a guess: no picture is made, a save comes too early."""
    page.app(0, css).locator(".alibi-caption").first.hover()
    page.page.mouse.down()
    expect(page.page.locator(f"{css}:active")).to_be_visible()


def save_once_there_is_a_picture(page: NotebookPage) -> None:
    """Release the mouse button. The picture comes after an earlier save, and JupyterLab says that
    there is something to save."""
    page.page.mouse.up()
    page.page.locator(".jp-mod-dirty").first.wait_for()
    page.save()


@pytest.fixture(scope="module")
def clock(browser: Browser, server: Server) -> Iterator[NotebookPage]:
    """A tab whose clock can be put forward."""
    with new_tab(browser, server) as page:
        page.page.clock.install()
        yield page


@pytest.fixture(scope="module")
def saved(clock: NotebookPage) -> Saved:
    page = clock
    path = clock.server.folder / "test.ipynb"
    page.show(*CELLS)
    page.settle()
    hold_button(page)
    page.page.evaluate(COUNT)
    page.press_slider("s-heads")
    page.wait_for_caption("9 heads")
    page.wait_until_quiet()
    page.page.clock.fast_forward(10 * SECOND)
    made_while_held = page.page.evaluate("made")
    page_before = page.page.evaluate(SIZES)
    page.save()
    early_file = read(path)

    save_once_there_is_a_picture(page)
    plot = page.settle().locator(".js-plotly-plot .main-svg").first.bounding_box()
    assert plot is not None
    file = read(path)
    caption = page.caption().strip()
    page_after = page.page.evaluate(SIZES)
    made, shown = page.page.evaluate("[made, shown]")
    shown_by_hand = page.page.evaluate(SHOW_BY_HAND)

    page.reload()
    for number in range(len(CELLS)):
        page.wait_for_caption("9 heads", number=number)
    shown_after_reload = page.page.locator(VISIBLE_IMAGES).count()
    unsaved_after_reload = page.page.locator(".jp-mod-dirty").count()
    hold_button(page)
    page.press_slider("s-heads")
    page.wait_for_caption("10 heads")
    page.save()
    save_once_there_is_a_picture(page)
    file_of_ten = read(path)

    page.page.locator(".jp-CodeCell .cm-content").last.click()
    page.page.keyboard.press("Control+a")
    page.page.keyboard.insert_text("app.close()")
    page.page.keyboard.press("Control+Enter")
    expect(page.page.locator(".alibi-app")).to_have_count(0)
    page.save()
    last_file = read(path)
    page.close()
    page.server.clean_kernels()
    assert page.problems == []
    return Saved(
        early_file=early_file,
        file=file,
        file_of_ten=file_of_ten,
        last_file=last_file,
        caption=caption,
        plot_size=(round(plot["width"]), round(plot["height"])),
        made_while_held=made_while_held,
        made=made,
        shown=shown,
        shown_by_hand=shown_by_hand,
        page_before=page_before,
        page_after=page_after,
        shown_after_reload=shown_after_reload,
        unsaved_after_reload=unsaved_after_reload,
    )


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
    page, _ = nbconvert.HTMLExporter().from_notebook_node(saved.file)
    picture = saved.images[0].data["image/png"].strip()
    assert page.count(picture) == len(CELLS)
    assert page.count(f">{html.escape(saved.caption, quote=False)}</p>") == len(CELLS)


def test_a_save_that_comes_before_the_picture_has_none_of_the_new_state(saved: Saved) -> None:
    for image in images_in(saved.early_file):
        assert not image.metadata["image/png"]["alt"].startswith("9 heads")


# The page


def test_no_picture_is_made_while_a_slider_may_be_dragged(saved: Saved) -> None:
    assert saved.made_while_held == 0
    assert saved.made > 0  # once the button was released


def test_saving_changes_no_output_on_the_page(saved: Saved) -> None:
    assert saved.page_after == saved.page_before


def test_saving_shows_no_picture_on_the_page_even_for_a_moment(saved: Saved) -> None:
    assert saved.shown == 0
    assert saved.shown_by_hand > 0  # one would have been noticed


# The page that is reloaded, and gets app and picture from the file


def test_a_reloaded_page_shows_no_picture_beside_the_app(saved: Saved) -> None:
    assert saved.shown_after_reload == 0


def test_a_reloaded_page_has_nothing_to_save(saved: Saved) -> None:
    assert saved.unsaved_after_reload == 0


def test_a_reloaded_page_replaces_the_picture(saved: Saved) -> None:
    assert kinds_of_outputs(saved.file_of_ten) == kinds_of_outputs(saved.file)
    for image in images_in(saved.file_of_ten):
        assert image.metadata["image/png"]["alt"].startswith("10 heads")


def test_a_closed_app_leaves_no_picture(saved: Saved) -> None:
    assert images_in(saved.last_file) == []


def test_no_picture_is_made_during_a_race(clock: NotebookPage) -> None:
    clock.show(RACE)
    clock.settle()
    start_race(clock)
    clock.page.evaluate(COUNT)
    clock.page.clock.fast_forward(10 * SECOND)
    assert clock.page.evaluate("made") == 0
    stop_race(clock)
    clock.page.wait_for_function("made > 0")
    clock.close()
    clock.server.clean_kernels()
    assert clock.problems == []


EMPTY = """from alibi_viz.figures import theme
from alibi_viz.widgets.core.app import Drawn

class Empty(widgets.SlopeExplorer):
    def draw(self):
        return Drawn(theme.picture([], height=100), "Nothing")

Empty()"""


def test_a_picture_without_traces_is_not_saved(clock: NotebookPage) -> None:
    clock.show(EMPTY, "widgets.SlopeExplorer()")
    clock.settle(0)
    clock.settle(1)
    clock.page.evaluate(COUNT)
    clock.page.clock.fast_forward(10 * SECOND)
    clock.page.wait_for_function("finished > 0")
    clock.save()
    _, empty_cell, cell = read(clock.server.folder / "test.ipynb").cells
    assert [len(images_in(NotebookNode(cells=[each]))) for each in (empty_cell, cell)] == [0, 1]
    clock.close()
    clock.server.clean_kernels()
    assert clock.problems == []


def test_a_guess_with_a_figure_has_a_picture_described_by_its_texts(
    notebook: NotebookPage,
) -> None:
    notebook.show(SCORE, CURVE)
    guess = notebook.settle(0, ".alibi-guess")
    hold_button(notebook, ".alibi-guess")
    guess.get_by_role("button", name="Show the answer").press("Enter")
    expect(guess).to_contain_text(UNFINISHED)
    notebook.save()
    save_once_there_is_a_picture(notebook)
    (image,) = images_in(read(notebook.server.folder / "test.ipynb"))
    assert image.metadata["image/png"]["alt"] == f"Your guess. How high? {UNFINISHED}"
