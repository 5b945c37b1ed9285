"""The solutions of "Build it yourself" are right, and its hints don't contain them."""

import math
import re

import pytest
import torch

import alibi_viz as av
from alibi_viz import lab, lessons, study
from tests.notebooks.lessons import FOLDER, code_cells, read

NOTEBOOK = read(FOLDER / "08_build_it_yourself.ipynb")
PROSE = "\n".join(cell.source for cell in NOTEBOOK.cells if cell.cell_type == "markdown")
SOLUTIONS = re.findall(
    r"<summary><b>Solution</b></summary>\n\n```python\n(.*?)```", PROSE, re.DOTALL
)
CHECKS = re.findall(
    r"lessons\.(grade_\w+)\((my_\w+)\)", "\n".join(cell.source for cell in code_cells(NOTEBOOK))
)


def test_every_exercise_has_a_blank_a_check_and_a_solution() -> None:
    assert [function for _, function in CHECKS] == re.findall(
        r"^def (my_\w+)", "\n".join(SOLUTIONS), re.MULTILINE
    )
    assert {name for name, _ in CHECKS} == {
        name for name in lessons.__all__ if name.startswith("grade_")
    }


@pytest.mark.parametrize(
    ("solution", "check"), [*zip(SOLUTIONS, CHECKS, strict=True)], ids=[*dict(CHECKS)]
)
def test_solution_is_right(solution: str, check: tuple[str, str]) -> None:
    namespace = {"math": math, "torch": torch, "av": av}
    exec(solution, namespace)
    name, function = check
    answer = getattr(lessons, name)(namespace[function])
    assert answer.ok, answer


def test_untouched_exercises_get_a_note() -> None:
    cells = [cell for cell in code_cells(NOTEBOOK) if "grade_" in cell.source]
    outputs = [output.data["text/plain"] for cell in cells for output in cell.outputs]
    assert len(outputs) == len(CHECKS)
    for text in outputs:
        assert "isn't written yet" in text


def only_itself(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> torch.Tensor:
    """Each query hears only itself."""
    return value[:, :, -query.shape[2] :]


def test_the_tale_is_told_with_the_code_of_the_reader(capsys: pytest.CaptureFixture[str]) -> None:
    """It once was told with the model's own attention, whatever the reader had written."""
    namespace = {
        "torch": torch,
        "av": av,
        "lab": lab,
        "lessons": lessons,
        "study": study,
        "my_attention": only_itself,
    }
    for cell in code_cells(NOTEBOOK):
        if "my_model" in cell.source:
            exec(cell.source, namespace)
    assert "when it uses its own attention: False" in capsys.readouterr().out
