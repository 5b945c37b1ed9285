"""What the page of a lesson shows in place of what needs a kernel."""

import base64
import io
from types import SimpleNamespace

import nbformat
from PIL import Image

from alibi_viz.files import lesson_files
from docs.lesson_pages import (
    jupyter_anchor,
    link_pages,
    page_cells,
    question_html,
    without_mark,
    write_pages,
)
from tests.notebooks import lessons

CHOICE = {
    "kind": "choice",
    "question": "7 is?",
    "options": [["even", "an even one"], ["odd", "an odd one"]],
    "answer": ["odd"],
    "why": "It is 6 + 1.",
}
ORDER = {
    "kind": "order",
    "question": "Sort.",
    "options": [["b", "head b"], ["a", "head a"]],
    "answer": ["a", "b"],
    "why": "By name.",
}


def code_cell(source, metadata=None, **jupyter):
    """A cell of code with an output."""
    data = {"text/plain": "some text"}
    output = nbformat.v4.new_output("execute_result", data, metadata=metadata or {})
    return nbformat.v4.new_code_cell(source, outputs=[output], metadata={"jupyter": jupyter})


def guess(*guesses):
    """A cell that asks for some guesses."""
    return code_cell("lessons.guess_choice()", {"guesses": [*guesses]}, source_hidden=True)


def question(data, **changes):
    """A guess in HTML."""
    return question_html(nbformat.from_dict(data | changes), "name")


def app_picture(alternative, app="SlopeExplorer()"):
    """A cell with the stored picture of an app."""
    file = io.BytesIO()
    Image.new("RGB", (40, 40), "white").save(file, "PNG")
    data = {"image/png": base64.b64encode(file.getvalue()).decode(), "text/plain": app}
    metadata = {"image/png": {"alt": alternative}}
    output = nbformat.v4.new_output("execute_result", data, metadata=metadata)
    return nbformat.v4.new_code_cell(f"widgets.{app}", outputs=[output])


def page(*cells):
    """The cells of the page of a lesson."""
    return list(page_cells(nbformat.v4.new_notebook(cells=[*cells]), "01_the_line.ipynb"))


def tags(cell):
    return cell.metadata.get("tags", [])


# Questions


def test_a_choice_has_a_radio_button_for_each_option_and_marks_the_right_one():
    text = question(CHOICE)
    assert "<legend><b>Your guess.</b> 7 is?</legend>" in text
    assert '<label><input type="radio" name="name"> an even one</label>' in text
    assert '<label><input type="radio" name="name" data-place="1"> an odd one</label>' in text


def test_an_order_has_a_number_for_each_item_and_its_right_place():
    text = question(ORDER)
    assert '<label><input type="number" min="1" max="2" data-place="2"> head b</label>' in text
    assert '<label><input type="number" min="1" max="2" data-place="1"> head a</label>' in text


def test_the_answer_is_folded_with_its_reason():
    fold = '<details class="answer"><summary>Answer</summary><p>It is'
    assert f"{fold} “an odd one”. It is 6 + 1.</p></details>" in question(CHOICE)
    assert f"{fold} head a, head b. By name.</p></details>" in question(ORDER)


def test_signs_of_html_in_a_question_are_text():
    text = question(CHOICE, question="Is a < b?", options=[["odd", "a & b"]], why="<b>")
    assert "a &lt; b" in text
    assert "a &amp; b" in text
    assert "&lt;b&gt;" in text


# Cells


def test_a_guess_becomes_a_question_and_its_code_is_folded():
    text, code = page(guess(CHOICE))
    assert text.cell_type == "markdown"
    assert "7 is?" in text.source
    assert code.source == "lessons.guess_choice()"
    assert tags(code) == ["hide-input"]
    assert code.outputs == []


def test_the_questions_of_a_grid_have_groups_of_their_own():
    text, _code = page(guess(CHOICE, CHOICE))
    assert text.source.count("<fieldset") == 2
    for number in (0, 1):
        assert text.source.count(f'name="{text.id.removesuffix("question")}{number}"') == 2


def test_what_a_notebook_hides_after_a_guess_is_folded():
    *_, cell = page(guess(CHOICE), code_cell("print(1)", outputs_hidden=True))
    assert tags(cell) == ["hide-output"]
    assert cell.metadata["mystnb"]["code_prompt_show"] == "Output"


def test_without_a_guess_before_it_an_output_is_open():
    (cell,) = page(code_cell("widgets.LengthLab()", outputs_hidden=True))
    assert tags(cell) == []


def test_hidden_code_is_folded():
    (cell,) = page(code_cell("x = 1", source_hidden=True))
    assert tags(cell) == ["hide-input"]


def test_the_score_which_needs_a_kernel_is_left_out():
    assert page(code_cell("lessons.score()")) == []


def test_a_picture_has_its_alternative_text_and_says_how_to_make_it_live():
    (cell,) = page(app_picture("Screenshot. Its caption: 8 heads."))
    options = cell.metadata["mystnb"]
    assert options["image"]["alt"] == "Screenshot. Its caption: 8 heads."
    assert options["figure"]["caption"] == (
        "`make lab LESSON=01_the_line.ipynb` makes this picture live"
    )


def test_the_picture_of_an_app_leads_to_its_twin_that_is_live_without_a_kernel():
    (cell,) = page(app_picture("Screenshot.", "BiasExplorer()"))
    caption = cell.metadata["mystnb"]["figure"]["caption"]
    assert 'href="../index.html#see">Try it' in caption


def test_no_page_speaks_of_keys_that_run_a_cell():
    for path in lesson_files():
        for cell in page_cells(nbformat.read(path, as_version=4), path.name):
            assert "Shift+Enter" not in cell.source, path.name


def test_a_picture_loses_the_mark_that_speaks_of_a_cell():
    (_, output), *_ = lessons.picture_outputs(lessons.read(lessons.LESSONS[0]))
    marked = base64.b64decode(output.data["image/png"])
    bare = without_mark(marked)
    assert bare != marked
    assert without_mark(bare) == bare
    assert Image.open(io.BytesIO(bare)).size == Image.open(io.BytesIO(marked)).size


def test_prose_stays_as_it_is():
    prose = nbformat.v4.new_markdown_cell("# 1. The line")
    assert page(prose) == [prose]


# Links


def test_each_picture_of_the_lessons_has_a_dark_one():
    names = set()
    for path in lessons.LESSONS:
        for number, _ in enumerate(lessons.picture_outputs(lessons.read(path))):
            names.add(f"{path.stem}-{number}.png")
    assert {path.name for path in lessons.DARK_PICTURES.glob("*")} == names


def test_links_to_notebooks_and_to_the_report_lead_to_their_pages():
    source = [
        "[1](../../notebooks/01_the_line.ipynb) [2](../notebooks/02_content.ipynb#A-tug)"
        " [3](../../alibi_viz/study/published/report.md)"
    ]
    link_pages(None, "guides/study", source)  # type: ignore[arg-type]  # the app isn't used
    assert source == [
        "[1](/lessons/01_the_line.ipynb) [2](/lessons/02_content.ipynb#A-tug)"
        " [3](/lessons/report.md)"
    ]


def test_anchors_are_those_of_jupyter():
    assert jupyter_anchor("Put the queries last") == "Put-the-queries-last"


# Files


def test_pages_of_an_earlier_build_go(tmp_path, monkeypatch):
    lesson = tmp_path / "00_start_here.ipynb"
    empty = nbformat.writes(nbformat.v4.new_notebook())
    lesson.write_text(empty)
    monkeypatch.setattr("docs.lesson_pages.lesson_files", lambda: [lesson])

    pages = tmp_path / "docs" / "lessons"
    pages.mkdir(parents=True)
    (pages / "01_renamed.ipynb").write_text(empty)
    environment = SimpleNamespace(mystnb_config=SimpleNamespace())
    write_pages(SimpleNamespace(env=environment, srcdir=tmp_path / "docs", doctreedir=tmp_path))
    assert {path.name for path in pages.glob("*.*")} == {
        "00_start_here.ipynb",
        "methods.md",
        "report.md",
    }
