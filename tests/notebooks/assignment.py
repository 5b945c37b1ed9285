"""Write lesson 10 as the master notebook of an otter-grader assignment.

    make assignment        writes build/assignment: student/ without solutions, autograder/ with them

An exercise becomes a question with its blank, the lesson's solution, and one test: the lesson's own check finds no
mistake. The check itself stays below it, so that students read what is wrong.
"""

import re
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbformat import NotebookNode
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook, new_raw_cell

from tests.notebooks.execute import KERNEL
from tests.notebooks.lessons import FOLDER, read

LESSON = FOLDER / "10_build_it_yourself.ipynb"
SOLUTION = re.compile(r"<details><summary><b>Solution</b></summary>\n\n```python\n(.*?)```\n\n</details>", re.DOTALL)
EXERCISE = re.compile(r"(?P<blank>.*)\n\n\n(?P<check>lessons\.grade_(?P<name>\w+)\(\w+\))", re.DOTALL)
POINTS = {"slopes": 3, "bias": 2, "attention": 3, "fold": 3, "window": 2}
CONFIG = "# ASSIGNMENT CONFIG\nsolutions_pdf: false\nexport_cell: false\ngenerate: true"


def question(blank: str, check: str, name: str, solution: str) -> Iterator[NotebookNode]:
    """The cells of one exercise, in the format that `otter assign` reads."""
    prompt = f'""" # BEGIN PROMPT\n{blank}\n""" # END PROMPT\n# BEGIN SOLUTION NO PROMPT\n{solution}# END SOLUTION'
    yield new_raw_cell(f"# BEGIN QUESTION\nname: {name}\npoints: {POINTS[name]}")
    yield new_raw_cell("# BEGIN SOLUTION")
    yield new_code_cell(prompt)
    yield new_raw_cell("# END SOLUTION")
    yield new_raw_cell("# BEGIN TESTS")
    yield new_code_cell(f"assert {check}.ok")
    yield new_raw_cell("# END TESTS")
    yield new_raw_cell("# END QUESTION")
    yield new_code_cell(check)


def master(lesson: NotebookNode) -> NotebookNode:
    """The lesson with its exercises as questions."""
    cells = [new_raw_cell(CONFIG)]
    for cell, following in zip(lesson.cells, [*lesson.cells[1:], new_markdown_cell()], strict=True):
        if exercise := EXERCISE.fullmatch(cell.source):
            (solution,) = SOLUTION.findall(following.source)
            cells += question(**exercise.groupdict(), solution=solution)
        elif cell.cell_type == "code":
            cells.append(new_code_cell(cell.source, metadata=cell.metadata))
        else:
            cells.append(new_markdown_cell(SOLUTION.sub("", cell.source)))
    return new_notebook(cells=cells, metadata={"kernelspec": KERNEL})


if __name__ == "__main__":
    path = Path(sys.argv[1])
    path.parent.mkdir(parents=True, exist_ok=True)
    nbformat.write(master(read(LESSON)), path)
    print(f"wrote {path}")
