"""Start a private JupyterLab on a copy of the lessons."""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from socket import create_connection
from typing import Any
from urllib.request import Request, urlopen

import nbformat
from jupyter_client.blocking.client import BlockingKernelClient

from alibi_viz.files import copy_lessons
from tests.browser.chromium import DEADLINE

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
# Without a kernel in the metadata, JupyterLab asks for one.
METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
RESET = """
import ipywidgets
from alibi_viz.widgets.core import own_methods
ipywidgets.Widget.close_all()
own_methods._own_methods.clear()
%reset -f
"""


@dataclass
class Server:
    """A running JupyterLab."""

    url: str  # http://127.0.0.1:PORT/
    token: str
    home: Path  # holds the folder that it serves, and all that Jupyter and IPython write
    kernel: str = ""  # the id of the kernel that tests share; started when first needed

    @property
    def folder(self) -> Path:
        """What it serves: a copy of the lessons."""
        return self.home / "notebooks"

    def write(self, name: str, *cells: str) -> None:
        """Add a notebook with these code cells."""
        code_cells = [nbformat.v4.new_code_cell(cell) for cell in cells]
        notebook = nbformat.v4.new_notebook(cells=code_cells, metadata=METADATA)
        nbformat.write(notebook, self.folder / f"{name}.ipynb")

    def share_kernel(self, name: str) -> None:
        """Connect a notebook to the shared kernel, which has imported everything.

        A new kernel would take five seconds.
        """
        if not self.kernel:
            self.kernel = self._ask("POST", "api/kernels", {"name": "python3"})["id"]
            self._execute("")  # a page that connects before the kernel runs may wait for ever
        session = {
            "path": f"{name}.ipynb",
            "name": name,
            "type": "notebook",
            "kernel": {"id": self.kernel},
        }
        self._ask("POST", "api/sessions", session)

    def clean_kernels(self) -> None:
        """Close all apps of the shared kernel, delete its variables and forget its own position
        methods, and shut down the other kernels.

        Imported modules keep their state. The shared kernel is shut down too if it doesn't answer.
        """
        for kernel in self._kernels():
            if kernel != self.kernel or not self._execute(RESET):
                self._ask("DELETE", f"api/kernels/{kernel}")
        if self.kernel not in self._kernels():
            self.kernel = ""

    def interrupt_kernels(self) -> None:
        """Interrupt all kernels, as "Interrupt Kernel" in the menu does."""
        for kernel in self._kernels():
            self._ask("POST", f"api/kernels/{kernel}/interrupt")

    def _kernels(self) -> list[str]:
        return [kernel["id"] for kernel in self._ask("GET", "api/kernels")]

    def _execute(self, code: str) -> bool:
        """Execute code in the shared kernel. False if it fails, or if the kernel doesn't answer."""
        connection_file = self.home / "runtime" / f"kernel-{self.kernel}.json"
        client = BlockingKernelClient(connection_file=str(connection_file))
        client.load_connection_file()
        client.start_channels()
        try:
            return client.execute(code, reply=True, timeout=DEADLINE)["content"]["status"] == "ok"
        except TimeoutError:
            return False
        finally:
            client.stop_channels()

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"token {self.token}"}
        request = Request(self.url + path, data, headers, method=method)
        with urlopen(request, timeout=DEADLINE) as answer:
            return json.loads(answer.read() or "null")


@contextmanager
def serve() -> Iterator[Server]:
    """Serve a copy of the lessons, as `alibi-viz lab` does, until the block ends.

    Raises RuntimeError with the log if the server doesn't start.
    """
    with tempfile.TemporaryDirectory(prefix="alibi-viz-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        log = home / "server.log"
        notebooks = home / "notebooks"
        config = home / "config" / "labconfig"
        config.mkdir(parents=True)
        # No news, no look for updates, and no launcher, which opens where a notebook is closed
        disabled = {
            "@jupyterlab/apputils-extension:announcements": True,
            "@jupyterlab/launcher-extension": True,
        }
        (config / "page_config.json").write_text(json.dumps({"disabledExtensions": disabled}))
        # A notebook is saved only when a test saves it.
        settings = {"@jupyterlab/docmanager-extension:plugin": {"autosave": False}}
        (config / "default_setting_overrides.json").write_text(json.dumps(settings))
        copy_lessons(notebooks)
        options = ["--no-browser", "--ip=127.0.0.1", "--port=0", "--allow-root"]
        # `jupyterapp` on the page, with which tests open notebooks and see what the kernel does
        options.append("--LabApp.expose_app_in_browser=True")
        command = [sys.executable, "-m", "jupyterlab", str(notebooks), *options]
        with log.open("w") as output:
            process = subprocess.Popen(command, env=environment(home), stdout=output, stderr=output)
        try:
            url, token = address(process, home / "runtime", log)
            yield Server(url, token, home)
        finally:
            process.terminate()  # also ends its kernels
            try:
                process.wait(DEADLINE)
            finally:
                process.kill()  # does nothing to a process that has ended


def environment(home: Path) -> dict[str, str]:
    """This process's variables, with all folders of Jupyter and IPython inside `home`."""
    variables = {}
    for name, value in os.environ.items():
        if not name.startswith(("JUPYTER", "IPYTHON")):
            variables[name] = value
    return variables | {
        "HOME": str(home),
        "IPYTHONDIR": str(home),
        "JUPYTER_CONFIG_DIR": str(home / "config"),
        "JUPYTER_DATA_DIR": str(home / "data"),
        "JUPYTER_RUNTIME_DIR": str(home / "runtime"),
    }


def address(process: subprocess.Popen[bytes], runtime: Path, log: Path) -> tuple[str, str]:
    """The URL and token of the server, from the file that it writes once it listens."""
    end = time.monotonic() + DEADLINE
    while time.monotonic() < end:
        for path in runtime.glob("jpserver-*.json"):
            try:
                info = json.loads(path.read_text())
                create_connection(("127.0.0.1", info["port"])).close()
            except (json.JSONDecodeError, ConnectionError):
                continue  # not yet written completely, or not yet listening
            return info["url"], info["token"]
        if process.poll() is not None:
            break
        time.sleep(0.1)
    raise RuntimeError(f"JupyterLab ended or did not start:\n{log.read_text()}")
