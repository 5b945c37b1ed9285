"""The outputs that get a picture are those whose text is the repr of an app, or that show a figure
of plotly."""

from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_output

from tests.notebooks.execute import tidy
from tests.notebooks.lessons import picture_outputs


def result(text: str, **data: str) -> object:
    return new_output("execute_result", {"text/plain": text, **data}, execution_count=1)


def test_picture_outputs_come_with_the_code_up_to_their_cell() -> None:
    app = result("SlopeExplorer(num_heads=8)")
    cells = [
        new_code_cell("import this", outputs=[new_output("stream", text="SlopeExplorer(")]),
        new_markdown_cell("prose"),
        new_code_cell(""),
        new_code_cell("app", outputs=[app]),
        new_code_cell("42", outputs=[result("42")]),
    ]
    assert list(picture_outputs(new_notebook(cells=cells))) == [(["import this", "app"], app)]


def test_the_data_of_a_figure_are_left_to_its_picture() -> None:
    figure = new_output("display_data", {"application/vnd.plotly.v1+json": {"data": []}})
    notebook = new_notebook(cells=[new_code_cell("figure", outputs=[figure])])
    tidy(notebook)
    ((code, output),) = picture_outputs(notebook)
    assert code == ["figure"]
    assert output.data == {"text/plain": "Figure()"}


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
