"""The life of an app: its page is reloaded, its output cleared, its kernel restarted, and two tabs show it at once."""

import time

from playwright.sync_api import expect

from tests.browser.notebook_page import SECOND, NotebookPage

RACE = 'race = widgets.LengthLab(methods=["alibi", "sinusoidal"], length=8, steps=2000); race'
THREADS = "import threading; print('threads:', sum(t.name == 'alibi_viz' for t in threading.enumerate()))"


def save(notebook: NotebookPage) -> None:
    notebook.command("File", "docmanager:save")
    notebook.page.locator(".jp-mod-dirty").wait_for(state="detached", timeout=30 * SECOND)


def test_a_reloaded_page_finds_the_race_that_goes_on_and_stops_it(notebook: NotebookPage) -> None:
    notebook.show(RACE)
    notebook.app().locator(".s-train").click()
    expect(notebook.app().locator(".s-lanes .progress-bar")).to_have_count(2, timeout=60 * SECOND)
    save(notebook)
    notebook.open("test")
    app = notebook.app()
    expect(app.locator(".s-stop")).to_be_enabled(timeout=30 * SECOND)
    app.locator(".s-stop").click()
    expect(app.locator(".s-train")).to_be_enabled(timeout=20 * SECOND)
    assert len(notebook.picture()) > 5000, "the curves are still there"


def test_two_tabs_on_one_notebook_show_the_same_app(notebook: NotebookPage) -> None:
    notebook.show("widgets.SlopeExplorer()")
    save(notebook)
    other = NotebookPage(notebook.page.context.new_page(), notebook.server)
    other.open("test")
    notebook.page.bring_to_front()
    notebook.press_slider("s-heads", "ArrowRight")
    notebook.wait_for_caption("9 heads")
    other.page.bring_to_front()
    other.wait_for_caption("9 heads")
    other.press_slider("s-heads", "ArrowRight")
    other.wait_for_caption("10 heads")
    notebook.page.bring_to_front()
    notebook.wait_for_caption("10 heads")
    assert not other.problems


def test_after_its_output_is_cleared_a_race_can_be_shown_again(notebook: NotebookPage) -> None:
    notebook.show(RACE)
    notebook.app().locator(".s-train").click()
    expect(notebook.app().locator(".s-stop")).to_be_enabled(timeout=30 * SECOND)
    notebook.command("Edit", "editmenu:clear-all")
    expect(notebook.page.locator(".alibi-app")).to_have_count(0)
    notebook.server.write("again", "race", "race.stop()", THREADS)
    notebook.page.wait_for_timeout(500)


def test_a_restarted_kernel_runs_the_cell_again(notebook: NotebookPage) -> None:
    notebook.open("01_slopes")
    notebook.run_all()
    notebook.command("Kernel", "kernelmenu:restart-and-clear")
    notebook.page.locator(".jp-Dialog button.jp-mod-warn").click()
    notebook.run_all()
    assert notebook.errors() == []
    before = notebook.picture()
    notebook.press_slider("s-heads", "ArrowRight")
    notebook.wait_for_new_picture(before)


def test_the_last_of_200_moves_during_a_race_is_shown(notebook: NotebookPage) -> None:
    notebook.show(RACE, "widgets.BiasExplorer()")
    notebook.app(0).locator(".s-train").click()
    expect(notebook.app(0).locator(".s-stop")).to_be_enabled(timeout=30 * SECOND)
    begin = time.monotonic()
    for key in ("ArrowRight", "ArrowLeft") * 95 + ("ArrowRight",) * 10:
        notebook.press_slider("s-heads", key, number=1)
    moved = time.monotonic() - begin
    notebook.wait_for_caption("18 heads", number=1, timeout=10)
    assert moved < 20, "200 moves"
    notebook.app(0).locator(".s-stop").click()
    expect(notebook.app(0).locator(".s-train")).to_be_enabled(timeout=20 * SECOND)
