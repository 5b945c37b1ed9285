"""A JupyterLab of one's own: free port, token, a copy of the notebooks, and a home that leaves the user's alone."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO
from urllib.request import Request, urlopen

import nbformat

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
START = 60  # seconds that a server may take


@dataclass(frozen=True)
class Server:
    """A running JupyterLab."""

    url: str  # http://127.0.0.1:PORT/
    token: str
    folder: Path  # what it serves: a copy of notebooks/

    def write(self, name: str, *cells: str) -> None:
        """Put a notebook with these code cells beside the copied ones."""
        code = [nbformat.v4.new_code_cell(cell) for cell in cells]
        kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}  # else JupyterLab asks for one
        notebook = nbformat.v4.new_notebook(cells=code, metadata={"kernelspec": kernel})
        nbformat.write(notebook, self.folder / f"{name}.ipynb")

    def stop_kernels(self) -> None:
        """End every kernel, so that one test's training does not slow the next one down."""
        for session in json.load(self._ask("GET", "api/sessions")):
            self._ask("DELETE", f"api/sessions/{session['id']}")

    def interrupt_kernels(self) -> None:
        """What the menu's "Interrupt Kernel" does, for every kernel."""
        for session in json.load(self._ask("GET", "api/sessions")):
            self._ask("POST", f"api/kernels/{session['kernel']['id']}/interrupt")

    def _ask(self, method: str, path: str) -> IO[bytes]:
        request = Request(self.url + path, method=method, headers={"Authorization": f"token {self.token}"})
        return urlopen(request, timeout=30)


@contextmanager
def serve() -> Iterator[Server]:
    """Serve a copy of notebooks/ until the block ends. Raises RuntimeError with its log if it does not start."""
    with tempfile.TemporaryDirectory(prefix="alibi-viz-", ignore_cleanup_errors=True) as folder:
        home, log = Path(folder), Path(folder) / "server.log"
        notebooks = home / "notebooks"
        silence(home / "config" / "labconfig")
        shutil.copytree(NOTEBOOKS, notebooks, ignore=shutil.ignore_patterns("*.py", "__pycache__", ".*"))
        with log.open("w") as output:
            process = subprocess.Popen(command(notebooks), env=environment(home), stdout=output, stderr=output)
        try:
            url, token = address(process, home / "runtime", log)
            yield Server(url, token, notebooks)
        finally:
            process.terminate()  # ends its kernels as well
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


def silence(config: Path) -> None:
    """No pop-up that asks for Jupyter news, and no look-up of newer versions; `make install` does the same."""
    config.mkdir(parents=True)
    disabled = {"disabledExtensions": {"@jupyterlab/apputils-extension:announcements": True}}
    (config / "page_config.json").write_text(json.dumps(disabled))


def command(notebooks: Path) -> list[str]:
    options = ["--no-browser", "--ip=127.0.0.1", "--port=0"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--allow-root")
    return [sys.executable, "-m", "jupyterlab", str(notebooks), *options]


def environment(home: Path) -> dict[str, str]:
    """This process's variables less Jupyter's, with every folder that Jupyter or IPython writes to under `home`."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("JUPYTER", "IPYTHON"))}
    folders = {"JUPYTER_CONFIG_DIR": "config", "JUPYTER_DATA_DIR": "data", "JUPYTER_RUNTIME_DIR": "runtime"}
    return (
        kept | {"HOME": str(home), "IPYTHONDIR": str(home)} | {key: str(home / name) for key, name in folders.items()}
    )


def address(process: subprocess.Popen[bytes], runtime: Path, log: Path) -> tuple[str, str]:
    """The server's URL and token, which it writes down when it listens."""
    for _ in range(START * 10):
        for path in runtime.glob("jpserver-*.json"):
            try:
                found = json.loads(path.read_text())
            except json.JSONDecodeError:
                continue  # half written
            return found["url"], found["token"]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab did not start within {START} s:\n{log.read_text()}")
