"""The outputs that get a picture are those whose text is the repr of an app."""

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tests.notebooks.execute import tidy
from tests.notebooks.lessons import app_outputs


def result(text: str, **data: str) -> object:
    return new_output("execute_result", {"text/plain": text, **data}, execution_count=1)


def test_app_outputs_come_with_the_code_up_to_their_cell() -> None:
    app = result("SlopeExplorer(num_heads=8)")
    cells = [
        new_code_cell("import this", outputs=[new_output("stream", text="SlopeExplorer(")]),
        new_markdown_cell("prose"),
        new_code_cell(""),
        new_code_cell("app", outputs=[app]),
        new_code_cell("42", outputs=[result("42")]),
    ]
    assert list(app_outputs(new_notebook(cells=cells))) == [(["import this", "app"], app)]


def test_tidy_removes_widget_views_and_keeps_text_and_which_parts_are_hidden() -> None:
    view, hidden = "application/vnd.jupyter.widget-view+json", {"outputs_hidden": True}
    output = result("App()", **{view: "{}"})
    notebook = new_notebook(
        cells=[new_code_cell("app", outputs=[output], metadata={"jupyter": hidden, "other": 1})]
    )
    tidy(notebook)
    (cell,) = notebook.cells
    assert cell.outputs[0].data == {"text/plain": "App()"}
    assert (cell.id, cell.metadata) == ("cell-0", {"jupyter": hidden})
