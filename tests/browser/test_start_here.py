"""The first lesson: the reader guesses, trains, sees whether the guess was right, and reads what the models write."""

from playwright.sync_api import expect

from tests.browser.notebook_page import NotebookPage


def test_the_reader_guesses_trains_and_reads(notebook: NotebookPage) -> None:
    notebook.open("00_start_here")
    notebook.run_all(timeout=300)
    app = notebook.app()
    written = app.locator(".s-written")
    expect(written.locator("pre")).to_have_count(0)
    assert "You guessed" not in notebook.caption(), "the last cell trains other models"
    app.locator(".s-train").click()
    expect(app.locator(".alibi-error")).to_contain_text("Make your guess first, for alibi and sinusoidal.")
    notebook.choose("s-guess-alibi", "fails")
    notebook.choose("s-guess-sinusoidal", "fails")
    app.locator(".s-train").click()
    notebook.wait_for_caption("You guessed right about sinusoidal (fails) and wrong about alibi (fails).", timeout=300)
    expect(app.locator(".alibi-error")).to_have_count(0)
    expect(written).to_contain_text("of its words occur in the training text")
    expect(written.locator("pre")).to_have_count(2)
    for text in written.locator("pre").all():
        expect(text.locator(".prompt")).not_to_be_empty()
        assert len(text.locator(".beyond").text_content() or "") > 170
    written.locator("summary").click()
    expect(written.locator("pre").first).not_to_be_visible()
    assert notebook.errors() == []
