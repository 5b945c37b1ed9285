"""SpotTheBug in JupyterLab: a guess, the reveal, a broken repair, a right one, the next case."""

from playwright.sync_api import expect

from tests.browser.notebook_page import NotebookPage
from tests.lessons.repairs import REPAIRS


def test_guess_reveals_the_fault_and_a_repair_is_checked(notebook: NotebookPage) -> None:
    notebook.show("widgets.SpotTheBug()")
    app = notebook.app()
    expect(app.locator(".s-code")).to_be_hidden()
    expect(app.get_by_text("attention-gym")).to_have_count(0)
    expect(app.get_by_role("combobox", name="case", exact=True)).to_be_visible()
    faulty = notebook.picture()

    answer = app.get_by_role("button", name="sign reversed")
    answer.focus()
    answer.press("Enter")
    expect(app.locator(".s-verdict")).to_contain_text("Right: it is sign reversed")
    expect(app.get_by_role("link", name="attention-gym, 31 July to 3 December 2024")).to_be_visible()
    expect(answer).to_be_focused()

    box = app.get_by_role("textbox", name="your repair", exact=True)
    box.fill("def bias(num_heads, query_length, key_length):\n    return <b>undefined</b>")
    app.get_by_role("button", name="Check").click()
    expect(app.locator(".s-report")).to_contain_text("line 2: SyntaxError")

    box.fill(REPAIRS["sign reversed"])
    app.get_by_role("button", name="Check").click()
    expect(app.locator(".s-report")).to_contain_text("no fault found")
    expect(app.locator(".s-progress")).to_have_text("1 of 14 solved")
    notebook.wait_for_caption("The two pictures are the same.")
    repaired = notebook.wait_for_new_picture(faulty)

    app.get_by_role("button", name="Next").click()
    notebook.wait_for_caption("Case 2 of 14")
    expect(app.locator(".s-code")).to_be_hidden()
    notebook.wait_for_new_picture(repaired)
    assert notebook.errors() == []
