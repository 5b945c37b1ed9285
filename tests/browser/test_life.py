"""The life of an app: restarted kernels, two tabs, sliders moved during a race, races cut off."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from tests.browser.notebook_page import NotebookPage

# Press the right and the left arrow in turn, 200 times, and in the end go ten steps to the right.
MOVE_200_TIMES = """async handle => {
    const keys = [...Array(95).fill(['Right', 'Left']).flat(), ...Array(10).fill('Right')];
    for (const key of keys) {
        const press = { key: `Arrow${key}`, bubbles: true, cancelable: true };
        handle.dispatchEvent(new KeyboardEvent('keydown', press));
        await new Promise(requestAnimationFrame);
    }
}"""
# Load plotly again for the next app. Its script, a large blob, waits until a test lets it go on.
HOLD_PLOTLY = """() => {
    delete window.alibiPlotly;
    window.isHeld = new Promise(done => { window.letGo = done; });
    window.createObjectURL = URL.createObjectURL;
    URL.createObjectURL = blob =>
        createObjectURL(blob.size > 1e6 ? new Blob(['await isHeld;', blob], blob) : blob);
}"""
# A race that trains so slowly that it ends only when a test stops it.
RACE = """import time
import torch
from alibi_viz.models import Position

class Slow(Position):
    def bias(self, query_length, key_length, x=None):
        if self.training:
            time.sleep(0.4)
        return torch.zeros(query_length, key_length)

race = widgets.LengthLab(methods=["alibi", Slow], length=8, steps=2000)
race"""
# As the system ends it when there is too little memory
END_KERNEL = """() => {
    const { kernel } = jupyterapp.shell.currentWidget.sessionContext.session;
    kernel.requestExecute({ code: 'import os; os.abort()' });
}"""
RESTARTED = "The kernel was restarted: run this cell again."
# The broken links with which ipywidgets marks each part of a lost app
RED_ICONS = """[...document.querySelectorAll('.jupyter-widgets-disconnected')]
    .filter(part => getComputedStyle(part, '::before').display !== 'none').length"""
# anywidget waits two seconds for a part of an app: let it wait for none.
GIVE_UP_AT_ONCE = """() => {
    window.patient = AbortSignal.timeout;
    AbortSignal.timeout = () => {
        const controller = new AbortController();
        queueMicrotask(() => controller.abort());
        return controller.signal;
    };
}"""
GIVEN_UP = "[anywidget] Failed to initialize model."
TOO_BUSY = "This page was too busy to start the app: run the cell again."
# As in a browser that is too old
TOO_OLD = """() => {
    delete window.alibiPlotly;
    window.Unpacking = DecompressionStream;
    delete window.DecompressionStream;
}"""
NOT_LOADED = "The picture could not be loaded: use a browser of 2023 or newer"
CURVES = """[...document.querySelectorAll('.scatterlayer .js-line')].map(({ attributes }) =>
    attributes.d.value).join()"""


def start_race(notebook: NotebookPage) -> None:
    """Press Train, and wait until the models have begun to train."""
    notebook.app(0).locator(".s-train").click()
    expect(notebook.app(0).locator(".s-stop")).to_be_enabled()
    begun = notebook.app(0).locator(".progress-bar:not([aria-valuenow='0'])")
    begun.first.wait_for(state="attached")


def stop_race(notebook: NotebookPage) -> None:
    """Press Stop, and wait until another race could start."""
    notebook.app(0).locator(".s-stop").click()
    expect(notebook.app(0).locator(".s-train")).to_be_enabled()


def test_two_tabs_on_one_notebook_show_the_same_app(notebook: NotebookPage) -> None:
    notebook.show("widgets.SlopeExplorer()")
    notebook.save()
    other = NotebookPage(notebook.page.context.new_page(), notebook.server)
    other.open("test")
    other.wait_for_caption("8 heads")
    notebook.page.bring_to_front()
    notebook.press_slider("s-heads", "ArrowRight")
    for tab in (notebook, other):
        tab.page.bring_to_front()
        tab.wait_for_caption("9 heads")

    other.press_slider("s-heads", "End")
    for tab in (other, notebook):
        tab.page.bring_to_front()
        tab.wait_for_caption("64 heads")
    assert other.problems == []


@pytest.mark.parametrize("how", ["by the user", "because it died"])
def test_apps_of_a_kernel_that_was_restarted_say_so_until_their_cells_run_again(
    notebook: NotebookPage, how: str
) -> None:
    notebook.show(RACE, "widgets.SlopeExplorer()")
    start_race(notebook)
    if how == "by the user":
        notebook.command("Kernel", "kernelmenu:restart")
        notebook.page.locator(".jp-Dialog button.jp-mod-warn").click()
    else:
        notebook.page.evaluate(END_KERNEL)
        notebook.page.locator(".jp-Dialog button.jp-mod-accept").click()
    for number in (0, 1):
        app = notebook.app(number)
        expect(app.get_by_role("alert")).to_have_text(RESTARTED)
        expect(app.locator("> :not([inert])")).to_have_count(1)  # the message
    assert notebook.page.evaluate(RED_ICONS) == 0

    notebook.run_all()
    assert notebook.errors() == []
    notebook.press_slider("s-heads", "ArrowRight", number=1)
    notebook.wait_for_caption("9 heads", number=1)
    expect(notebook.page.get_by_text(RESTARTED)).to_have_count(0)


def test_an_app_whose_figure_starts_too_late_says_so(notebook: NotebookPage) -> None:
    notebook.write("widgets.SlopeExplorer()")
    notebook.page.evaluate(GIVE_UP_AT_ONCE)
    notebook.run_all()
    expect(notebook.app().get_by_role("alert")).to_have_text(TOO_BUSY)
    notebook.page.evaluate("() => { AbortSignal.timeout = patient; }")
    notebook.problems = [problem for problem in notebook.problems if GIVEN_UP not in problem]


def test_a_race_is_drawn_while_it_runs_and_its_curves_stay(notebook: NotebookPage) -> None:
    notebook.show(RACE)
    app = notebook.settle()
    assert notebook.page.evaluate(CURVES) == ""
    start_race(notebook)
    expect(app.locator(".progress-bar")).to_have_count(2)
    notebook.page.wait_for_function(f"{CURVES} !== ''")

    stop_race(notebook)
    notebook.settle()
    assert notebook.page.evaluate(CURVES) != ""
    assert notebook.errors() == []


def test_another_app_shows_the_last_of_200_moves_made_during_a_race(notebook: NotebookPage) -> None:
    notebook.show(RACE, "widgets.BiasExplorer()")
    start_race(notebook)
    handle = notebook.app(1).locator(".s-heads .noUi-handle").first
    handle.focus()
    handle.evaluate(MOVE_200_TIMES)
    notebook.wait_for_caption("18 heads", number=1)

    stop_race(notebook)
    assert notebook.errors() == []


def test_a_page_that_is_reloaded_during_a_race_shows_it_go_on_and_stops_it(
    notebook: NotebookPage,
) -> None:
    notebook.show(RACE)
    notebook.save()
    start_race(notebook)
    notebook.reload()
    bar = notebook.app(0).locator(".progress-bar").first
    step = str(bar.get_attribute("aria-valuenow"))
    expect(bar).not_to_have_attribute("aria-valuenow", step)
    notebook.page.wait_for_function(f"{CURVES} !== ''")
    stop_race(notebook)
    assert notebook.errors() == []


def test_a_cell_whose_output_was_cleared_during_a_race_runs_again(notebook: NotebookPage) -> None:
    notebook.show(RACE)
    start_race(notebook)
    notebook.run_all()  # clears the outputs first
    start_race(notebook)
    stop_race(notebook)
    assert notebook.errors() == []


def test_an_interrupted_kernel_ends_the_race(notebook: NotebookPage) -> None:
    notebook.write(RACE, "await race.train()")
    notebook.start_all()
    expect(notebook.app(0).locator(".progress-bar")).to_have_count(2)
    notebook.server.interrupt_kernels()
    expect(notebook.app(0).locator(".s-train")).to_be_enabled()
    notebook.wait_until_run()
    (error,) = notebook.errors()
    assert "CancelledError" in error


@pytest.fixture
def held_plotly(notebook: NotebookPage) -> Iterator[None]:
    """The script of plotly is not loaded before `letGo()` on the page."""
    notebook.write("widgets.SlopeExplorer()")
    notebook.page.evaluate(HOLD_PLOTLY)
    yield
    notebook.page.evaluate("() => { letGo(); URL.createObjectURL = createObjectURL; }")


@pytest.mark.usefixtures("held_plotly")
def test_a_figure_whose_script_takes_long_gets_the_changes_in_between(
    notebook: NotebookPage,
) -> None:
    notebook.run_all()
    notebook.press_slider("s-heads", "End")
    notebook.wait_for_caption("64 heads")
    points = notebook.app().locator(".scatterlayer .trace").first.locator(".point")
    assert points.count() == 0
    notebook.page.evaluate("letGo()")
    expect(points).to_have_count(64)
    notebook.press_slider("s-heads", "Home")
    expect(points).to_have_count(1)


def test_a_picture_whose_script_cannot_be_loaded_says_so(notebook: NotebookPage) -> None:
    notebook.write("widgets.SlopeExplorer()")
    notebook.page.evaluate(TOO_OLD)
    notebook.run_all()
    expect(notebook.app().get_by_role("alert")).to_contain_text(NOT_LOADED)
    notebook.page.evaluate("() => { window.DecompressionStream = Unpacking; }")
    # The error is logged as well.
    notebook.problems = [each for each in notebook.problems if "DecompressionStream" not in each]
