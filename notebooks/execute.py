"""Run the notebooks from top to bottom and store what they show, so that it can be compared and read without a kernel.

    make notebooks                 every notebook
    make notebooks ONLY=01_slopes  one of them

Left out, because it differs from run to run or goes stale: widget state, widget views (the app's text stays, and is
what is shown without a kernel), times, and the version of Python.
"""

import sys
from pathlib import Path

import nbformat
from nbclient import NotebookClient
from nbformat import NotebookNode

HERE = Path(__file__).parent
KERNEL = {"display_name": "Python 3 (ipykernel)", "language": "python", "name": "python3"}


def execute(path: Path) -> None:
    """Run one notebook with the kernel of this environment and write it back, tidied."""
    notebook = nbformat.read(path, as_version=4)
    notebook.metadata = NotebookNode(kernelspec=KERNEL, language_info={"name": "python"})
    client = NotebookClient(
        notebook,
        kernel_name="python3",
        timeout=600,
        resources={"metadata": {"path": str(path.parent)}},
        store_widget_state=False,
        record_timing=False,
    )
    client.execute()
    tidy(notebook)
    nbformat.validate(notebook)
    nbformat.write(notebook, path)


def tidy(notebook: NotebookNode) -> None:
    """Take out of the outputs and the metadata what is not to be committed."""
    notebook.metadata = NotebookNode(kernelspec=KERNEL, language_info={"name": "python"})
    for number, cell in enumerate(notebook.cells):
        cell.id = f"cell-{number}"  # random ids would change with every edit of the order
        cell.metadata = NotebookNode({key: cell.metadata[key] for key in ("tags",) if key in cell.metadata})
        for output in cell.get("outputs", []):
            for kind in [kind for kind in output.get("data", {}) if "widget" in kind]:
                del output.data[kind]
                output.metadata.pop(kind, None)


def main(names: list[str]) -> None:
    """Execute the named notebooks, or all."""
    known = {path.stem: path for path in sorted(HERE.glob("*.ipynb"))}
    if unknown := [name for name in names if name not in known]:
        sys.exit(f"no notebook {', '.join(unknown)}; there are: {', '.join(known)}")
    for name in names or known:
        print(f"executing {name}", flush=True)
        execute(known[name])


if __name__ == "__main__":
    main(sys.argv[1:])
