"""Start a private JupyterLab on a copy of the notebooks."""

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
from socket import create_connection
from typing import Any
from urllib.request import Request, urlopen

import nbformat
from jupyter_client.blocking.client import BlockingKernelClient

NOTEBOOKS = Path(__file__).parents[2] / "notebooks"
START = 120  # seconds that the server may take to start
# Without a kernel in the metadata, JupyterLab asks for one.
METADATA = {"kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"}}
RESET = "import ipywidgets\nipywidgets.Widget.close_all()\n%reset -f"


@dataclass
class Server:
    """A running JupyterLab."""

    url: str  # http://127.0.0.1:PORT/
    token: str
    home: Path  # holds the folder that it serves, and all that Jupyter and IPython write
    kernel: str = ""  # the id of the kernel that tests share; started when first needed

    @property
    def folder(self) -> Path:
        """What it serves: a copy of notebooks/."""
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
        session = {
            "path": f"{name}.ipynb",
            "name": name,
            "type": "notebook",
            "kernel": {"id": self.kernel},
        }
        self._ask("POST", "api/sessions", session)

    def clean_kernels(self) -> None:
        """Close all apps and delete all variables of the shared kernel, and shut down the others.

        Imported modules keep their state. The shared kernel is shut down too if it doesn't answer.
        """
        for kernel in self._kernels():
            if kernel != self.kernel or not self._reset():
                self._ask("DELETE", f"api/kernels/{kernel}")
        if self.kernel not in self._kernels():
            self.kernel = ""

    def interrupt_kernels(self) -> None:
        """Interrupt all kernels, as "Interrupt Kernel" in the menu does."""
        for kernel in self._kernels():
            self._ask("POST", f"api/kernels/{kernel}/interrupt")

    def _kernels(self) -> list[str]:
        return [kernel["id"] for kernel in self._ask("GET", "api/kernels")]

    def _reset(self) -> bool:
        """Reset the shared kernel. False if it does not answer."""
        connection_file = self.home / "runtime" / f"kernel-{self.kernel}.json"
        client = BlockingKernelClient(connection_file=str(connection_file))
        client.load_connection_file()
        client.start_channels()
        try:
            return client.execute(RESET, reply=True, timeout=10)["content"]["status"] == "ok"
        except TimeoutError:
            return False
        finally:
            client.stop_channels()

    def _ask(self, method: str, path: str, body: object = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        headers = {"Authorization": f"token {self.token}"}
        request = Request(self.url + path, data, headers, method=method)
        with urlopen(request, timeout=30) as answer:
            return json.loads(answer.read() or "null")


@contextmanager
def serve() -> Iterator[Server]:
    """Serve a copy of notebooks/ until the block ends.

    Raises RuntimeError with the log if the server doesn't start.
    """
    with tempfile.TemporaryDirectory(prefix="alibi-viz-", ignore_cleanup_errors=True) as folder:
        home = Path(folder)
        log = home / "server.log"
        notebooks = home / "notebooks"
        config = home / "config" / "labconfig"
        config.mkdir(parents=True)
        # No news, no look for updates
        disabled = {"@jupyterlab/apputils-extension:announcements": True}
        (config / "page_config.json").write_text(json.dumps({"disabledExtensions": disabled}))
        shutil.copytree(NOTEBOOKS, notebooks, ignore=shutil.ignore_patterns(".*"))
        options = ["--no-browser", "--ip=127.0.0.1", "--port=0", "--allow-root"]
        command = [sys.executable, "-m", "jupyterlab", str(notebooks), *options]
        with log.open("w") as output:
            process = subprocess.Popen(command, env=environment(home), stdout=output, stderr=output)
        try:
            url, token = address(process, home / "runtime", log)
            yield Server(url, token, home)
        finally:
            process.terminate()  # also ends its kernels
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()


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
    for _ in range(START * 10):
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
    raise RuntimeError(f"JupyterLab ended, or did not start within {START} s:\n{log.read_text()}")
