"""The link of "Why this picture?": it scrolls to its section in the same lesson, and opens another lesson in a tab."""

from tests.browser.notebook_page import NotebookPage

ABOVE_THE_MIDDLE = """heading => {
    const { top } = heading.getBoundingClientRect();
    return top > 0 && top < innerHeight / 2;
}"""


def test_link_scrolls_to_the_section_of_the_same_lesson(notebook: NotebookPage) -> None:
    notebook.open("01_slopes")
    notebook.run_all()
    why = notebook.app().locator(".alibi-why")
    why.locator("summary").click()
    heading = notebook.page.get_by_role("heading", name="The rule")
    notebook.app().locator(".alibi-why").scroll_into_view_if_needed()
    assert heading.evaluate(ABOVE_THE_MIDDLE) is False
    why.locator("a").click()
    notebook.page.wait_for_function(ABOVE_THE_MIDDLE, arg=heading.element_handle())
    assert len(notebook.page.context.pages) == 1


def test_link_opens_the_lesson_from_a_notebook_of_your_own(notebook: NotebookPage) -> None:
    notebook.show("widgets.SlopeExplorer()")
    why = notebook.app().locator(".alibi-why")
    why.locator("summary").click()
    with notebook.page.context.expect_page() as opened:
        why.locator("a").click()
    opened.value.get_by_role("heading", name="The rule").wait_for(timeout=60_000)
    opened.value.close()
