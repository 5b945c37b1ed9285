"""Live training in JupyterLab: guesses, and the end of a race as a picture."""

from playwright.sync_api import Browser, expect

from tests.browser.jupyter import Server
from tests.browser.notebook_page import NotebookPage
from tests.notebooks.pictures import capture


def test_the_reader_guesses_trains_and_reads(notebook: NotebookPage) -> None:
    settings = 'methods=["alibi"], length=8, steps=10, guesses={"alibi": None}, simple=True'
    notebook.show(f"widgets.LengthLab({settings})")
    app = notebook.app()
    expect(app.locator(".alibi-controls :is(button, input, select):visible")).to_have_count(5)
    app.locator(".s-train").click()
    expect(app.locator(".alibi-error")).to_contain_text("Make your guess first, for alibi.")
    app.locator(".s-guess-alibi button", has_text="fails").click()
    app.locator(".s-train").click()
    notebook.wait_for_caption("alibi (fails)", timeout=60)
    expect(app.locator(".alibi-error")).to_have_count(0)
    expect(app.locator(".s-written pre")).to_be_visible()


def test_picture_of_a_race_that_asks_for_guesses_does_not_answer_them(
    browser: Browser, server: Server
) -> None:
    code = 'widgets.LengthLab(methods=["alibi"], length=8, steps=30, guesses={"alibi": None})'
    cells = ["from alibi_viz import widgets", code]
    server.share_kernel("guess")
    (untrained_picture, caption), trained_picture = capture("guess", cells, browser, server)
    assert "guessed" not in caption
    assert 10_000 < len(untrained_picture) < len(trained_picture) < 300_000  # bytes
