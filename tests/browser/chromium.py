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
    f"no Chromium on this machine (looked for $CHROMIUM, {', '.join(NAMES)}): "
    "`apt-get install chromium` installs one on Debian and Ubuntu"
)
# Seconds. A wait ends with the event that it waits for, on the busiest machine too. Only what never
# comes takes so long.
DEADLINE = 600
ARGUMENTS = [
    "--no-sandbox",  # root can't use it
    "--disable-gpu",
    # No requests in the background
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-quic",
    "--disable-sync",
    "--no-first-run",
]


def find() -> str | None:
    """The path of Chromium or Chrome, or None.

    It is looked for in $CHROMIUM, on the PATH, and where macOS has it.
    """
    candidates = [os.environ.get("CHROMIUM"), *map(shutil.which, NAMES), str(MACOS)]
    for path in candidates:
        if path and Path(path).exists():
            return path
    return None


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
