"""SlopeSurgery in JupyterLab: opens with a trained model, responds to its controls, and says what is impossible."""

from playwright.sync_api import expect

from tests.browser.notebook_page import NotebookPage


def test_controls_change_the_model_and_invalid_choices_show_an_error(notebook: NotebookPage) -> None:
    notebook.show("widgets.SlopeSurgery()")
    app = notebook.app()
    notebook.wait_for_caption("as it was trained")

    before = notebook.picture()
    notebook.press_slider("s-factor", "ArrowRight")
    notebook.wait_for_caption("slopes times 1.41")
    before = notebook.wait_for_new_picture(before)
    app.locator(".s-dropped select").select_option(label="1")
    notebook.wait_for_caption("the bias of head 1 dropped in every layer")
    before = notebook.wait_for_new_picture(before)
    app.locator(".s-window select").select_option(label="64")
    notebook.wait_for_caption("a window of 64 keys imposed")
    before = notebook.wait_for_new_picture(before)

    app.locator(".s-subject select").select_option(label="rotary")
    notebook.wait_for_caption("rotary, trained on windows of 64 bytes")
    expect(app.locator(".alibi-details")).to_contain_text("There is no bias in rotary to multiply or drop.")
    expect(app.locator(".s-dropped select")).to_be_disabled()
    app.locator(".s-rule select").select_option(label="ntk")
    notebook.wait_for_caption("rotary frequencies scaled by the NTK rule")
    notebook.wait_for_new_picture(before)

    app.locator(".s-subject select").select_option(label="yours (below)")
    expect(app.locator(".alibi-error")).to_contain_text("there is no model of yours yet")
    app.locator(".s-folder input").fill("/nowhere/<b>run</b>")
    app.locator(".s-folder input").press("Enter")
    expect(app.locator(".alibi-error")).to_contain_text("there is no run '/nowhere/<b>run</b>'")
    app.locator(".s-subject select").select_option(label="sinusoidal")
    notebook.wait_for_caption("sinusoidal, trained on windows of 64 bytes")
    expect(app.locator(".alibi-error")).to_have_count(0)
    assert notebook.errors() == []
