"""The browser of this machine: found, never downloaded."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
ON_A_MAC = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
MISSING = f"no Chromium on this machine (looked for $CHROMIUM, {', '.join(NAMES)}): install one to run browser tests"
# No sandbox, because root has none; the rest keeps Chromium from calling home.
ARGUMENTS = [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


def find() -> str | None:
    """The path of a Chromium or Chrome: $CHROMIUM, or one on the PATH, or a Mac's; None where there is none."""
    candidates = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES), str(ON_A_MAC)]
    return next((path for path in candidates if path and Path(path).exists()), None)


@contextmanager
def launch() -> Iterator[Browser]:
    """A headless browser. Raises FileNotFoundError where the machine has none."""
    path = find()
    if path is None:
        raise FileNotFoundError(MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=ARGUMENTS)
        yield browser
        browser.close()
