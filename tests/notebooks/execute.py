"""Run the notebooks from top to bottom and store their outputs, with a picture of each app (see
pictures.py).

    make notebooks                 every notebook
    make notebooks ONLY=01_the_line  one of them

Widget state, widget views, times and the Python version are left out, because they differ from run
to run or become stale.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

from tests.notebooks import pictures
from tests.notebooks.lessons import FIGURE, named

KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}
PLOTLY = "application/vnd.plotly.v1+json"  # the kind of an output that is a figure
KEPT = (
    "tags",
    "jupyter",
)  # metadata of a cell; "jupyter" says whether its source and its outputs are hidden


def execute(path: Path) -> None:
    """Run a notebook with the kernel of this environment and write it back."""
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata = NotebookNode(kernelspec=KERNEL, language_info={"name": "python"})
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=600,
        coalesce_streams=True,  # else the timing of a print decides how many outputs there are
        resources={"metadata": {"path": str(path.parent)}},
        store_widget_state=False,
        record_timing=False,
    )
    client.execute()
    tidy(notebook)
    nbformat.validate(notebook)
    nbformat.write(notebook, path)


def tidy(notebook: NotebookNode) -> None:
    """Remove from the outputs and the metadata what should not be committed.

    Of a figure, the picture is kept: other sites than JupyterLab don't draw its data.
    """
    notebook.metadata = NotebookNode(kernelspec=KERNEL, language_info={"name": "python"})
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"  # random ids would change in every run
        cell.metadata = NotebookNode(
            {key: cell.metadata[key] for key in KEPT if key in cell.metadata}
        )
        for output in cell.get("outputs", []):
            if PLOTLY in output.get("data", {}):
                output.data = NotebookNode({"text/plain": FIGURE})
                output.metadata = NotebookNode()
            for kind in [kind for kind in output.get("data", {}) if "widget" in kind]:
                del output.data[kind]
                output.metadata.pop(kind, None)


def main(names: list[str]) -> None:
    """Execute the named notebooks, or all, and renew their pictures."""
    paths = named(names)
    for path in paths:
        print(f"executing {path.stem}", flush=True)
        execute(path)
    pictures.renew(paths)


if __name__ == "__main__":
    main(sys.argv[1:])
