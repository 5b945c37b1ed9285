"""The master notebook for otter-grader has every exercise as a question, and solutions nowhere else."""

from tests.notebooks.assignment import LESSON, POINTS, master
from tests.notebooks.lessons import code_cells, read


def test_every_exercise_becomes_a_question_with_a_blank_a_solution_and_a_test() -> None:
    cells = master(read(LESSON)).cells
    questions = [cell.source for cell in cells if cell.source.startswith("# BEGIN QUESTION")]
    graded = [cell for cell in code_cells(read(LESSON)) if "lessons.grade_" in cell.source]
    assert len(questions) == len(graded) == len(POINTS)
    assert sum(cell.source.startswith("assert lessons.grade_") for cell in cells) == len(questions)
    assert all("Solution</b>" not in cell.source for cell in cells if cell.cell_type == "markdown")
