"""`make lab` serves notebooks/ on this machine only, requires the token, and opens the first lesson."""

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest

from tests.browser.jupyter import NOTEBOOKS, address, environment


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """URL and token of a server started by make in the environment that runs this test."""
    home: Path = tmp_path_factory.mktemp("home")
    log = home / "server.log"
    make = ["make", "--old-file=install", "lab", f"PY={sys.executable}", "PORT=0", "ARGS=--no-browser"]
    with log.open("w") as output:
        process = subprocess.Popen(
            make, cwd=NOTEBOOKS.parent, env=environment(home), stdout=output, stderr=output, start_new_session=True
        )
    try:
        yield address(process, home / "runtime", log)
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # to the group: make does not forward signals
        process.wait(20)


def test_server_listens_on_this_machine_only(lab: tuple[str, str]) -> None:
    assert lab[0].startswith("http://127.0.0.1:")


def test_server_requires_its_token(lab: tuple[str, str]) -> None:
    url, token = lab
    assert len(token) >= 32
    with pytest.raises(HTTPError, match="403"):
        urlopen(f"{url}api/contents", timeout=30)


def test_server_serves_the_lessons(lab: tuple[str, str]) -> None:
    url, token = lab
    with urlopen(f"{url}api/contents?token={token}", timeout=30) as answer:
        names = {entry["name"] for entry in json.load(answer)["content"]}
    assert {path.name for path in NOTEBOOKS.glob("*.ipynb")} <= names


def test_server_opens_the_first_lesson(lab: tuple[str, str]) -> None:
    url, token = lab
    with urlopen(f"{url}?token={token}", timeout=30) as answer:  # redirected to the default page
        lesson = re.search(r"/lab/tree/([^/?]+\.ipynb)", answer.url)
    assert lesson, f"{answer.url} is not a lesson"
    assert lesson[1] == min(path.name for path in NOTEBOOKS.glob("*.ipynb"))
