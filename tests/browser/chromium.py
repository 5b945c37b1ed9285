"""Find and start the browser installed on this machine. None is downloaded."""

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
MACOS = Path("/Applications/Google Chrome.app/Contents/MacOS/Google Chrome")
MISSING = (
    f"no Chromium on this machine (looked for $CHROMIUM, {', '.join(NAMES)}): install one "
    "to run browser tests"
)
# root cannot use the sandbox; the rest disables Chromium's background requests.
ARGUMENTS = ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run"]
ARGUMENTS += ["--disable-background-networking", "--disable-component-update", "--disable-sync"]


def find() -> str | None:
    """The path of Chromium or Chrome: $CHROMIUM, or on the PATH, or macOS's default; None if there
    is none."""
    candidates = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES), str(MACOS)]
    return next((path for path in candidates if path and Path(path).exists()), None)


@contextmanager
def launch() -> Iterator[Browser]:
    """A headless browser. Raises FileNotFoundError if none is installed."""
    path = find()
    if path is None:
        raise FileNotFoundError(MISSING)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, headless=True, args=ARGUMENTS)
        yield browser
        browser.close()
