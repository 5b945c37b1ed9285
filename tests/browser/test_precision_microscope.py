"""PrecisionMicroscope in JupyterLab: from colliding keys to the right form, and back."""

from alibi_viz.widgets.precision.caption import FORMULAS
from tests.browser.notebook_page import NotebookPage


def test_another_form_separates_the_keys_and_reset_returns(notebook: NotebookPage) -> None:
    notebook.show("widgets.PrecisionMicroscope()")
    notebook.wait_for_caption("Its 64 nearest keys have 9 different biases")
    before = notebook.picture()
    app = notebook.app()
    app.locator(".s-form select").select_option(label=f"relative, {FORMULAS['relative']}")
    notebook.wait_for_caption("Its 64 nearest keys have 64 different biases")
    changed = notebook.wait_for_new_picture(before)
    app.locator(".s-head select").select_option(label="8")
    notebook.wait_for_caption("Head 8 of 8, slope 1/256")
    notebook.wait_for_new_picture(changed)
    app.locator("button.s-reset").click()
    notebook.wait_for_caption("Its 64 nearest keys have 9 different biases")
