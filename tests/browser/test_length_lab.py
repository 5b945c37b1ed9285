"""A race in a real JupyterLab: trained and stopped by its buttons, while the rest of the page still answers."""

import time

import pytest
from playwright.sync_api import expect

from tests.browser.notebook_page import SECOND, NotebookPage
from tests.widgets.race.small_race import ENGLISH

LONG = 'race = widgets.LengthLab(methods=["alibi", "sinusoidal"], length=8, steps=2000); race'


@pytest.fixture
def page(notebook: NotebookPage) -> NotebookPage:
    """Two apps: a long race, and sliders of another kind."""
    notebook.show(LONG, "widgets.SlopeExplorer()")
    return notebook


def test_train_moves_bars_and_curves_and_stop_keeps_them(page: NotebookPage) -> None:
    app, before = page.app(0), page.picture(0)
    app.locator(".s-train").click()
    page.wait_for_caption("Training on windows of 8 bytes", timeout=30)
    running = page.wait_for_new_picture(before)
    page.wait_for_caption("last tested after step", timeout=60)
    page.wait_for_new_picture(running)
    expect(app.locator(".s-lanes .progress-bar")).to_have_count(2)
    expect(app.locator(".s-lanes")).to_contain_text("tokens/s")
    expect(app.locator(".s-lanes")).to_contain_text("s left")
    expect(app.locator(".s-train")).to_be_disabled()

    pressed = time.monotonic()
    app.locator(".s-stop").click()
    page.wait_for_caption("Stopped after step", timeout=20)
    assert time.monotonic() - pressed < 5, "Stop takes a fraction of a second; a busy machine may need more"
    stopped = page.picture(0)
    assert stopped != before
    time.sleep(1)
    assert page.picture(0) == stopped, "nothing is drawn anymore"
    assert "Up to 128 bytes, " in page.caption(0)
    expect(app.locator(".alibi-caption")).to_have_attribute("aria-live", "polite")

    app.locator(".s-train").click()
    page.wait_for_caption("not tested yet", timeout=30)
    page.wait_for_new_picture(stopped)
    app.locator(".s-stop").click()
    page.wait_for_caption("Stopped after step", timeout=20)


def test_other_sliders_answer_while_it_trains(page: NotebookPage) -> None:
    page.app(0).locator(".s-train").click()
    page.wait_for_caption("Training on windows", timeout=30)
    before = page.picture(1)
    page.press_slider("s-heads", "ArrowRight", number=1)
    page.wait_for_caption("9 heads", number=1, timeout=10)
    page.wait_for_new_picture(before, number=1)
    assert page.caption(0).startswith("Training on windows"), "and the race goes on"
    page.app(0).locator(".s-stop").click()
    page.wait_for_caption("Stopped after step", timeout=20)


def test_bad_input_is_shown_in_the_app_and_corrected_there(page: NotebookPage) -> None:
    app = page.app(0)
    app.get_by_role("button", name="More settings").click()
    app.locator(".s-text select").select_option(label="a file")
    app.locator(".s-path input").fill("/nowhere/<script>alert(1)</script>")
    app.locator(".s-path input").press("Enter")
    expect(app.locator(".alibi-error")).to_contain_text("there is no file '/nowhere/<script>alert(1)</script>'")
    app.locator(".s-text select").select_option(label="your own")
    app.locator(".s-own-text textarea").fill("tiny")
    app.locator(".s-train").click()
    expect(app.locator(".alibi-error")).to_contain_text("your text is too short")
    app.locator(".s-own-text textarea").fill("<b>shalom</b> שלום 🐢 " * 200)
    app.locator(".s-train").click()
    expect(app.locator(".alibi-error")).to_contain_text("your text has nothing but repeats")
    app.locator(".s-own-text textarea").fill("<b>shalom</b> שלום 🐢 ".join(ENGLISH.split()[:500]))
    app.locator(".s-train").click()
    page.wait_for_caption("Training on windows of 8 bytes of your text", timeout=30)
    expect(app.locator(".alibi-error")).to_have_count(0)
    app.locator(".s-stop").click()
    page.wait_for_caption("Stopped after step", timeout=20)


@pytest.mark.parametrize("cell", ["await race.train()", "1 + 1"], ids=["awaited", "idle"])
def test_an_interrupted_kernel_ends_the_race(notebook: NotebookPage, cell: str) -> None:
    notebook.write(LONG, cell)
    notebook.start_all()
    if cell == "1 + 1":
        notebook.wait_until_run()
        notebook.app(0).locator(".s-train").click()
    notebook.wait_for_caption("last tested after step", timeout=60)
    notebook.server.interrupt_kernels()
    notebook.wait_for_caption("Stopped after step", timeout=20)
    notebook.page.wait_for_timeout(1 * SECOND)
    assert ["CancelledError" in error for error in notebook.errors()] == ([True] if cell != "1 + 1" else [])


def test_guesses_are_compared_and_every_question_can_be_opened(notebook: NotebookPage) -> None:
    small = 'race = widgets.LengthLab(methods=["alibi", "none"], length=8, steps=20, seeds=2); race'
    notebook.show(small)
    app = notebook.app(0)
    app.locator(".s-guess input").click()
    expect(app.locator(".s-guess-none")).to_be_visible()
    expect(app.locator(".s-guess-rotary")).to_have_count(0)
    notebook.choose("s-guess-none", "fails")
    app.locator(".s-train").click()
    expect(app.locator(".alibi-error")).to_contain_text("Make your guess first, for alibi.")
    notebook.choose("s-guess-alibi", "holds")
    app.locator(".s-train").click()
    notebook.wait_for_caption("about alibi (holds)", timeout=60)
    app.locator(".alibi-details summary").click()
    expect(app.locator(".alibi-details")).to_contain_text("Thin lines are the 2 seeds")
    for tab, words in (
        ("gap", "the loss on windows of 32 minus that on windows of 8, at the last checkpoint"),
        ("by position", "Bits per byte in one long window"),
        ("same targets", "The same bytes each time"),
        ("facts", "Having been told a fact around 23 and around 91 bytes before saves"),
        ("needle", "The model must recall one value hidden in noise"),
        ("copy", "The model must repeat a sequence of symbols"),
        ("longer windows", "about alibi (holds)"),
    ):
        before = notebook.picture(0)
        notebook.choose("s-question", tab)
        notebook.wait_for_caption(words, timeout=60)
        notebook.wait_for_new_picture(before)
    assert notebook.errors() == []


def test_simple_mode_shows_the_outcome_and_the_texts(notebook: NotebookPage) -> None:
    small = (
        'race = widgets.LengthLab(methods=["alibi"], length=8, steps=10, guesses={"alibi": None}, simple=True); race'
    )
    notebook.show(small)
    app = notebook.app(0)
    expect(app.locator(".alibi-controls :is(button, input, select):visible")).to_have_count(5)
    notebook.choose("s-guess-alibi", "fails")
    app.locator(".s-train").click()
    notebook.wait_for_caption("about alibi (fails). Up to 128 bytes, alibi", timeout=60)
    expect(app.locator(".s-written pre")).to_be_visible()
    assert notebook.errors() == []
