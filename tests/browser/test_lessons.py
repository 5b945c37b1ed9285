"""A lesson in JupyterLab: `make lab` opens it, and its cells replace stored pictures by apps."""

import os
import signal
import subprocess
import sys
from pathlib import Path
from urllib.error import HTTPError
from urllib.request import urlopen

import pytest
from playwright.sync_api import expect

from tests.browser.chromium import DEADLINE
from tests.browser.jupyter import NOTEBOOKS, address, environment
from tests.browser.notebook_page import NotebookPage
from tests.notebooks.lessons import picture_outputs, read


def test_make_lab_serves_the_first_lesson_on_this_machine_and_requires_its_token(
    tmp_path: Path,
) -> None:
    first_lesson = min(path.name for path in NOTEBOOKS.glob("*.ipynb"))
    make = [
        "make",
        f"--file={NOTEBOOKS.parent / 'Makefile'}",
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
            cwd=tmp_path,  # where the copies of the lessons go
            env=environment(tmp_path),
            stdout=output,
            stderr=output,
            start_new_session=True,
        )
    try:
        url, token = address(process, tmp_path / "runtime", log)
        assert url.startswith("http://127.0.0.1:")
        assert len(token) >= 32
        with pytest.raises(HTTPError, match="403"):
            urlopen(f"{url}api/contents", timeout=DEADLINE)
        with urlopen(f"{url}?token={token}", timeout=DEADLINE) as answer:
            redirected_to = answer.url
            settings = answer.read().decode()
        assert f"/doc/tree/{first_lesson}" in redirected_to
        # It doesn't ask for news.
        assert "@jupyterlab/apputils-extension:announcements" in settings
    finally:
        # To the group: make does not forward signals.
        os.killpg(process.pid, signal.SIGTERM)
        try:
            process.wait(DEADLINE)
        finally:
            process.kill()  # does nothing to a process that has ended


def test_stored_pictures_are_replaced_by_apps(notebook: NotebookPage) -> None:
    notebook.open("01_the_line")
    pictures = notebook.page.locator(".jp-OutputArea img")
    apps = notebook.page.locator(".alibi-app")
    expect(pictures.first).to_be_visible()
    expect(apps).to_have_count(0)
    stored_apps = list(picture_outputs(read(NOTEBOOKS / "01_the_line.ipynb")))
    notebook.run_all()
    expect(apps).to_have_count(len(stored_apps))
    expect(notebook.app().locator(".js-plotly-plot .main-svg").first).to_be_visible()
    assert notebook.errors() == []
