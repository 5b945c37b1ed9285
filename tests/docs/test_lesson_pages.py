"""What the page of a lesson shows in place of what needs a kernel."""

import base64
import io
from types import SimpleNamespace

import nbformat
from PIL import Image

from alibi_viz.files import lesson_files
from docs.lesson_pages import (
    Answer,
    jupyter_anchor,
    link_pages,
    page_cells,
    question_html,
    stated_answer,
    without_mark,
    write_pages,
)
from tests.notebooks import lessons
from tests.rows import each_case

CHOICE = 'lessons.guess_choice("key", "7 is?", ["even", "odd"], "odd", why="It is 6 + 1.")'
CHOICE_TEXT = "Your guess. 7 is?\n  ( ) even\n  ( ) odd"


def code_cell(source, text="", **jupyter):
    """A cell that has printed a text."""
    output = nbformat.v4.new_output("execute_result", {"text/plain": text})
    return nbformat.v4.new_code_cell(source, outputs=[output], metadata={"jupyter": jupyter})


def guess(source=CHOICE, text=CHOICE_TEXT):
    return code_cell(source, text, source_hidden=True)


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


def test_a_choice_is_a_question_with_a_radio_button_for_each_option():
    question = question_html(CHOICE_TEXT, "name", is_order=False)
    assert "<legend><b>Your guess.</b> 7 is?</legend>" in question
    assert '<label><input type="radio" name="name-0"> even</label>' in question
    assert question.count("<input") == 2
    assert "data-judged" not in question


def test_what_the_code_states_as_right_is_marked_for_the_script():
    choice = question_html(CHOICE_TEXT, "name", is_order=False, answer=Answer(["odd"], "Why."))
    assert '<input type="radio" name="name-0" data-place="1"> odd</label>' in choice
    assert choice.count("data-place") == choice.count("data-judged") == 1
    text = "Your guess. Sort.\n  ( ) b\n  ( ) a"
    order = question_html(text, "name", is_order=True, answer=Answer(["a", "b"], "Why."))
    assert '<input type="number" min="1" max="2" data-place="2"> b</label>' in order


def test_an_order_has_a_number_for_each_item():
    question = question_html("Your guess. Sort.\n  ( ) a\n  ( ) b", "name", is_order=True)
    assert question.count('<input type="number" min="1" max="2">') == 2


def test_lines_that_were_broken_for_a_terminal_are_joined():
    text = "Your guess. What is\ntrue?\n  ( ) this,\n      which is long\n  ( ) that"
    question = question_html(text, "name", is_order=False)
    assert "What is true?" in question
    assert "this, which is long" in question


def test_the_questions_of_a_grid_have_groups_of_their_own():
    question = question_html(f"{CHOICE_TEXT}\n{CHOICE_TEXT}", "name", is_order=False)
    assert question.count("<fieldset") == 2
    assert question.count('name="name-0"') == question.count('name="name-1"') == 2


def test_signs_of_html_in_a_question_are_text():
    question = question_html("Your guess. Is a < b?\n  ( ) a & b", "name", is_order=False)
    assert "a &lt; b" in question
    assert "a &amp; b" in question


# Answers


def test_the_answer_and_its_reason_are_read_from_the_code():
    assert str(stated_answer(CHOICE)) == "It is “odd”. It is 6 + 1."


def test_the_answer_of_an_order_is_a_list():
    source = 'lessons.guess_order("key", "Sort.", ["b", "a"], ["a", "b"], why="By name.")'
    assert str(stated_answer(source)) == "It is a, b. By name."


def test_a_constant_may_have_a_name():
    source = 'odd = "odd"\nlessons.guess_choice("key", "7 is?", ["even", odd], odd, "Count.")'
    assert str(stated_answer(source)) == "It is “odd”. Count."


@each_case(
    "source",
    {
        "answer": 'lessons.guess_choice("key", "?", options, best(), "Why.")',
        "reason": 'lessons.guess_choice("key", "?", options, "a", f"{x}")',
        "grid": "lessons.guess_grid(guesses)",
    },
)
def test_what_is_computed_is_not_read_from_the_code(source):
    assert stated_answer(source) is None


# Cells


def test_a_guess_becomes_a_question_with_its_answer_folded_and_its_code_folded():
    question, code = page(guess())
    assert '<details class="answer"><summary>Answer</summary><p>It is “odd”.' in question.source
    assert question.cell_type == "markdown"
    assert code.source == CHOICE
    assert tags(code) == ["hide-input"]
    assert code.outputs == []


def test_a_computed_answer_is_the_next_output_that_the_notebook_hides():
    computed = guess("lessons.guess_choice('key', '7 is?', options, best(), '')")
    *_, truth, more = page(
        computed, code_cell("print(1)", outputs_hidden=True), code_cell("1", outputs_hidden=True)
    )
    assert tags(truth) == tags(more) == ["hide-output"]
    assert truth.metadata["mystnb"]["code_prompt_show"] == "Answer"
    assert more.metadata["mystnb"]["code_prompt_show"] == "Output"


def test_without_a_guess_before_it_an_output_is_open():
    (cell,) = page(code_cell("widgets.LengthLab()", outputs_hidden=True))
    assert tags(cell) == []


def test_hidden_code_is_folded():
    (cell,) = page(code_cell("x = 1", "1", source_hidden=True))
    assert tags(cell) == ["hide-input"]


def test_the_score_which_needs_a_kernel_is_left_out():
    assert page(code_cell("lessons.score()", "Your score so far.")) == []


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


def test_every_guess_of_the_lessons_has_an_answer_on_its_page():
    for path in lesson_files():
        awaits_answer = False
        for cell in page_cells(nbformat.read(path, as_version=4), path.name):
            summary = cell.metadata.get("mystnb", {}).get("code_prompt_show")
            if "<fieldset" in cell.source:
                assert not awaits_answer, path.name
                awaits_answer = True
            if summary == "Answer" or "<summary>Answer<" in cell.source:
                awaits_answer = False
        assert not awaits_answer, path.name


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
