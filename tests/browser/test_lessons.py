"""A lesson in JupyterLab: `make lab` opens it, it shows a stored picture, and its cells replace
that by the app."""

import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from playwright.sync_api import expect

from tests.browser.jupyter import NOTEBOOKS, address, environment
from tests.browser.notebook_page import NotebookPage
from tests.notebooks.lessons import app_outputs, read


def test_make_lab_serves_the_first_lesson_on_this_machine_and_requires_its_token(
    tmp_path: Path,
) -> None:
    make = [
        "make",
        "--old-file=install",
        "lab",
        f"PY={sys.executable}",
        "PORT=0",
        "ARGS=--no-browser",
    ]
    log = tmp_path / "server.log"
    with log.open("w") as output:
        process = subprocess.Popen(
            make,
            cwd=NOTEBOOKS.parent,
            env=environment(tmp_path),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        url, token = address(process, tmp_path / "runtime", log)
        assert url.startswith("http://127.0.0.1:") and len(token) >= 32
        with pytest.raises(HTTPError, match="403"):
            urlopen(f"{url}api/contents", timeout=30)
        with urlopen(
            f"{url}?token={token}", timeout=30
        ) as answer:  # redirected to the default page
            lesson = re.search(r"/lab/tree/([^/?]+\.ipynb)", answer.url)
        assert lesson and lesson[1] == min(path.name for path in NOTEBOOKS.glob("*.ipynb"))
    finally:
        os.killpg(process.pid, signal.SIGTERM)  # to the group: make does not forward signals
        process.wait(20)


def test_stored_pictures_are_replaced_by_apps(notebook: NotebookPage) -> None:
    notebook.open("01_slopes")
    pictures, apps = (
        notebook.page.locator(".jp-OutputArea img"),
        notebook.page.locator(".alibi-app"),
    )
    expect(pictures.first).to_be_visible()
    expect(apps).to_have_count(0)
    stored = list(
        app_outputs(read(NOTEBOOKS / "01_slopes.ipynb"))
    )  # the page draws those in view only
    notebook.run_all()
    expect(apps).to_have_count(len(stored))
    assert (
        notebook.errors() == []
        and notebook.app().locator(".js-plotly-plot .main-svg").first.is_visible()
    )
