"""The life of an app: restarted kernels, two tabs, sliders moved during a race, races cut off."""

from playwright.sync_api import expect

from tests.browser.notebook_page import SECOND, NotebookPage

# Press the right and the left arrow in turn, 200 times, and in the end go ten steps to the right.
MOVE_200_TIMES = """async handle => {
    const keys = [...Array(95).fill(['Right', 'Left']).flat(), ...Array(10).fill('Right')];
    for (const key of keys) {
        const press = { key: `Arrow${key}`, bubbles: true, cancelable: true };
        handle.dispatchEvent(new KeyboardEvent('keydown', press));
        await new Promise(done => setTimeout(done, 25));
    }
}"""
# Blobs as large as plotly's code are loaded only after four seconds.
SLOW_SCRIPTS = """
const createObjectURL = URL.createObjectURL;
const wait = "await new Promise(done => setTimeout(done, 4000));";
URL.createObjectURL = blob =>
    createObjectURL(blob.size > 1e6 ? new Blob([wait, blob], blob) : blob);
"""
RACE = 'race = widgets.LengthLab(methods=["alibi", "sinusoidal"], length=8, steps=2000); race'


def save(notebook: NotebookPage) -> None:
    notebook.command("File", "docmanager:save")
    notebook.page.locator(".jp-mod-dirty").wait_for(state="detached", timeout=30 * SECOND)


def start_race(notebook: NotebookPage) -> None:
    """Press Train, and wait until the first losses are drawn."""
    notebook.app(0).locator(".s-train").click()
    expect(notebook.app(0).locator(".s-stop")).to_be_enabled()
    notebook.page.wait_for_function(
        "document.querySelector('.s-lanes').innerText.match(/step [1-9]/)"
    )


def test_two_tabs_on_one_notebook_show_the_same_app(notebook: NotebookPage) -> None:
    notebook.show("widgets.SlopeExplorer()")
    save(notebook)
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


def test_a_restarted_kernel_runs_the_cell_again(notebook: NotebookPage) -> None:
    notebook.write("widgets.SlopeExplorer()")
    notebook.run_all()
    notebook.command("Kernel", "kernelmenu:restart-and-clear")
    notebook.page.locator(".jp-Dialog button.jp-mod-warn").click()
    notebook.run_all()
    assert notebook.errors() == []
    notebook.press_slider("s-heads", "ArrowRight")
    notebook.wait_for_caption("9 heads")


def test_a_race_is_drawn_while_it_runs_and_its_curves_stay(notebook: NotebookPage) -> None:
    notebook.show(RACE)
    app = notebook.app()
    lines = app.locator(".scatterlayer .js-line")
    expect(lines).to_have_count(0)
    empty = notebook.picture()
    start_race(notebook)
    expect(app.locator(".s-lanes .progress-bar")).to_have_count(2)
    first = notebook.wait_for_new_picture(empty, timeout=60)
    notebook.wait_for_new_picture(first, timeout=60)

    app.locator(".s-stop").click()
    expect(app.locator(".s-train")).to_be_enabled()
    notebook.settle()
    expect(lines).not_to_have_count(0)
    assert notebook.errors() == []


def test_another_app_shows_the_last_of_200_moves_made_during_a_race(notebook: NotebookPage) -> None:
    notebook.show(RACE, "widgets.BiasExplorer()")
    start_race(notebook)
    handle = notebook.app(1).locator(".s-heads .noUi-handle").first
    handle.focus()
    handle.evaluate(MOVE_200_TIMES)
    notebook.wait_for_caption("18 heads", number=1)

    notebook.app(0).locator(".s-stop").click()
    expect(notebook.app(0).locator(".s-train")).to_be_enabled()
    assert notebook.errors() == []


def test_a_page_that_is_reloaded_during_a_race_shows_it_go_on_and_stops_it(
    notebook: NotebookPage,
) -> None:
    notebook.show(RACE)
    save(notebook)
    start_race(notebook)
    notebook.reload()
    lanes = notebook.app(0).locator(".s-lanes")
    expect(lanes).not_to_have_text(lanes.inner_text(), timeout=60 * SECOND)
    expect(notebook.app(0).locator(".scatterlayer .js-line")).not_to_have_count(0)
    notebook.app(0).locator(".s-stop").click()
    expect(notebook.app(0).locator(".s-train")).to_be_enabled()
    assert notebook.errors() == []


def test_a_cell_whose_output_was_cleared_during_a_race_runs_again(notebook: NotebookPage) -> None:
    notebook.show(RACE)
    start_race(notebook)
    notebook.run_all()  # clears the outputs first
    start_race(notebook)
    notebook.app(0).locator(".s-stop").click()
    expect(notebook.app(0).locator(".s-train")).to_be_enabled()
    assert notebook.errors() == []


def test_an_interrupted_kernel_ends_the_race(notebook: NotebookPage) -> None:
    notebook.write(RACE, "await race.train()")
    notebook.start_all()
    expect(notebook.app(0).locator(".s-lanes .progress-bar")).to_have_count(2, timeout=60 * SECOND)
    notebook.server.interrupt_kernels()
    expect(notebook.app(0).locator(".s-train")).to_be_enabled()
    notebook.wait_until_run()
    (error,) = notebook.errors()
    assert "CancelledError" in error


def test_a_figure_whose_script_takes_long_gets_the_changes_in_between(
    notebook: NotebookPage,
) -> None:
    notebook.page.add_init_script(SLOW_SCRIPTS)
    notebook.show("widgets.SlopeExplorer()")
    notebook.press_slider("s-heads", "End")
    notebook.wait_for_caption("64 heads")
    points = notebook.app().locator(".scatterlayer .trace").first.locator(".point")
    expect(points).to_have_count(64)
    notebook.press_slider("s-heads", "Home")
    expect(points).to_have_count(1)
