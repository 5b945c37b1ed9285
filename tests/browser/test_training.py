"""Live training in JupyterLab: guessed, interrupted, the same in a second view."""

from playwright.sync_api import Browser, expect

from tests.browser.jupyter import Server
from tests.browser.notebook_page import NotebookPage
from tests.notebooks.pictures import capture

LONG = 'race = widgets.LengthLab(methods=["alibi", "sinusoidal"], length=8, steps=2000); race'


def test_an_interrupted_kernel_ends_the_race(notebook: NotebookPage) -> None:
    notebook.write(LONG, "await race.train()")
    notebook.start_all()
    expect(notebook.app(0).locator(".s-lanes .progress-bar")).to_have_count(2, timeout=60_000)
    notebook.server.interrupt_kernels()
    expect(notebook.app(0).locator(".s-train")).to_be_enabled(timeout=20_000)
    notebook.wait_until_run()
    assert ["CancelledError" in error for error in notebook.errors()] == [True]


def test_a_view_opened_later_shows_the_same(notebook: NotebookPage) -> None:
    small = "app = widgets.LengthLab(methods=['alibi', 'learned'], length=8, steps=20); app"
    notebook.show(small, "await app.train()", "app")
    notebook.page.wait_for_timeout(500)
    views = [notebook.settle(number).locator(".js-plotly-plot") for number in range(2)]
    legends = [view.locator(".legendtext").all_text_contents() for view in views]
    points = [view.locator(".scatterlayer .points path").count() for view in views]
    assert len(legends[0]) == 2 and legends[0] == legends[1]
    assert points[0] == points[1] > 0


def test_the_reader_guesses_trains_and_reads(notebook: NotebookPage) -> None:
    notebook.show('widgets.LengthLab(methods=["alibi"], length=8, steps=10, guesses={"alibi": None}, simple=True)')
    app = notebook.app()
    expect(app.locator(".alibi-controls :is(button, input, select):visible")).to_have_count(5)
    app.locator(".s-train").click()
    expect(app.locator(".alibi-error")).to_contain_text("Make your guess first, for alibi.")
    notebook.choose("s-guess-alibi", "fails")
    app.locator(".s-train").click()
    notebook.wait_for_caption("alibi (fails)", timeout=60)
    expect(app.locator(".alibi-error")).to_have_count(0)
    expect(app.locator(".s-written pre")).to_be_visible()


def test_picture_of_a_race_that_asks_for_guesses_shows_its_end(browser: Browser, server: Server) -> None:
    code = 'from alibi_viz import widgets\nwidgets.LengthLab(methods=["alibi"], steps=10, guesses={"alibi": None})'
    shot, caption = capture("guess", [code], browser, server)
    assert caption.startswith("You guessed")
    assert 10_000 < len(shot) < 300_000
