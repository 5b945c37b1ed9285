"""Live training in JupyterLab: guesses, and the end of a race as a picture."""

import re

from playwright.sync_api import Browser, expect

from tests.browser.jupyter import Server
from tests.browser.notebook_page import NotebookPage
from tests.notebooks.pictures import capture


def test_the_reader_guesses_trains_and_reads(notebook: NotebookPage) -> None:
    settings = 'methods=["alibi"], length=8, steps=10, guesses={"alibi": None}'
    notebook.show(f"widgets.LengthLab({settings})")
    app = notebook.app()
    expect(app.locator(".alibi-controls :is(button, input, select):visible")).to_have_count(7)
    app.locator(".s-train").click()
    expect(app.locator(".alibi-request")).to_contain_text("Make your guess first, for ALiBi.")
    app.get_by_role("button", name="alibi fails").click()
    expect(app.get_by_role("button", name="alibi fails", pressed=True)).to_be_visible()
    app.locator(".s-train").click()
    notebook.wait_for_caption("ALiBi (fails)")
    expect(app.locator(".alibi-request")).to_have_count(0)
    expect(app.locator(".s-columns pre")).to_contain_text("This")
    marked = app.locator(".s-guess-alibi").get_by_role("button", name=re.compile("right|wrong"))
    expect(marked.first).to_be_visible()


def test_after_a_race_a_slider_goes_back_to_each_test(notebook: NotebookPage) -> None:
    settings = 'methods=["alibi"], length=8, steps=10'
    notebook.write(f"app = widgets.LengthLab({settings}); app", "await app.train()")
    notebook.start_all()
    notebook.wait_until_run()
    app = notebook.app()
    text = app.locator(".s-columns pre")
    at_end = text.inner_text()
    app.locator(".s-moment .noUi-handle").press("Home")
    notebook.wait_for_caption("Before training")
    expect(text).not_to_have_text(at_end)
    expect(app.get_by_role("button", name="play go back")).to_be_visible()
    notebook.wait_until_quiet()
    app.locator(".s-moment .noUi-handle").press("End")
    notebook.wait_until_quiet()
    expect(text).to_have_text(at_end)


def test_a_race_of_three_fits_a_laptop(notebook: NotebookPage) -> None:
    notebook.show("widgets.LengthLab()")
    app = notebook.settle()
    box = app.bounding_box()
    figure = app.locator(".alibi-figure").bounding_box()
    assert box is not None
    assert figure is not None
    assert figure["y"] + figure["height"] - box["y"] <= 500


def test_picture_of_a_race_that_asks_for_guesses_tells_no_verdict(
    browser: Browser, server: Server
) -> None:
    code = 'widgets.LengthLab(methods=["alibi"], length=8, steps=30, guesses={"alibi": None})'
    cells = ["from alibi_viz import widgets", code]
    server.share_kernel("guess")
    picture = capture("guess", cells, browser, server)
    assert "After step 9 of 30, on texts of 128 letters" in picture.alternative
    assert "You guessed" not in picture.alternative
    pictures = {picture.plain, picture.light, picture.dark}
    assert len(pictures) == 3
    for png in pictures:
        assert 10_000 < len(png) < 300_000  # bytes
