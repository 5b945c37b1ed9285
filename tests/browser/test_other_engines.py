"""The page and a lesson in Firefox and in WebKit, the engine of Safari.

`make browsers` runs this file: it needs Selenium and browsers that the other tests don't need. What
only a finger can do is in test_phone.py, because Chromium alone has a touch screen for tests.
"""

import json
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from selenium import webdriver
from selenium.webdriver import ActionChains, FirefoxOptions, Keys, Remote
from selenium.webdriver.common.by import By
from selenium.webdriver.remote.command import Command
from selenium.webdriver.remote.webelement import WebElement
from selenium.webdriver.support.ui import WebDriverWait

from tests.browser import jupyter
from tests.browser.chromium import DEADLINE
from tests.browser.notebook_page import DRAWN, NO_TIME_LIMIT
from tests.notebooks.lessons import picture_outputs, read

# Stands before all scripts of the page, so that it also sees one that an engine can't read
LISTEN = """<head><script>
window.problems = [];
addEventListener("error", (event) => problems.push(event.message));
addEventListener("unhandledrejection", (event) => problems.push(String(event.reason)));
console.error = (...words) => problems.push(words.join(" "));
</script>"""
# Safari allows 100 changes of the address in ten seconds.
MOVE_130_TIMES = """const slider = document.getElementById("scale");
for (let n = 0; n < 130; n++) {
    slider.value = n % 2 ? -4 : 4;
    slider.dispatchEvent(new Event("input"));
}"""
WAVE = """const style = getComputedStyle(document.querySelector("#written-sinusoidal .beyond s"));
return [style.textDecorationLine, style.textDecorationStyle];"""
MIDDLE = """const { x, y, width, height } = arguments[0].getBoundingClientRect();
return [x + width / 2, y + height / 2];"""
KERNEL = "window.jupyterapp?.shell.currentWidget?.sessionContext?.session?.kernel"
RUN_ALL = """jupyterapp.commands.execute("notebook:run-all-cells").then(() => {
    window.hasRun = true;
});"""
ERRORS = """return [...document.querySelectorAll(
    "[data-mime-type='application/vnd.jupyter.error'], "
    + "[data-mime-type='application/vnd.jupyter.stderr'], .jupyter-widgets-error-widget"
)].map((error) => error.textContent);"""

# Selenium's commands in Firefox's own protocol
MARIONETTE = {
    Command.NEW_SESSION: "NewSession",
    Command.QUIT: "DeleteSession",
    Command.GET: "Navigate",
    Command.FIND_ELEMENT: "FindElement",
    Command.CLICK_ELEMENT: "ElementClick",
    Command.CLEAR_ELEMENT: "ElementClear",
    Command.SEND_KEYS_TO_ELEMENT: "ElementSendKeys",
    Command.GET_ELEMENT_ATTRIBUTE: "GetElementAttribute",
    Command.GET_ELEMENT_PROPERTY: "GetElementProperty",
    Command.W3C_EXECUTE_SCRIPT: "ExecuteScript",
    Command.W3C_ACTIONS: "PerformActions",
}


class Marionette:
    """Selenium's connection to a Firefox that speaks its own protocol.

    The usual way leads through geckodriver, which neither Debian nor PyPI has.
    """

    def __init__(self, port: int) -> None:
        self._stream = socket.create_connection(("127.0.0.1", port)).makefile("rwb")
        self._read()  # the greeting

    def execute(self, command: str, parameters: dict[str, Any]) -> dict[str, Any]:
        """Send a command and return its answer, as Selenium expects it of geckodriver."""
        parameters.pop("sessionId", None)  # for geckodriver, which has several
        message = json.dumps([0, 0, f"WebDriver:{MARIONETTE[command]}", parameters]).encode()
        self._stream.write(b"%d:%b" % (len(message), message))
        self._stream.flush()
        _, _, error, result = self._read()
        if error:
            return {"status": 500, "value": json.dumps({"value": error})}
        is_wrapped = isinstance(result, dict) and result.keys() == {"value"}
        return {"value": result["value"] if is_wrapped else result}

    def _read(self) -> Any:
        """The next message, behind its length and a colon."""
        length = b""
        while not length.endswith(b":"):
            byte = self._stream.read(1)
            assert byte, "Firefox has ended"
            length += byte
        return json.loads(self._stream.read(int(length[:-1])))


def start_firefox(folder: Path) -> Iterator[Remote]:
    """Firefox, with a profile in an empty folder."""
    path = shutil.which("firefox-esr") or shutil.which("firefox")
    assert path, "no Firefox on this machine: apt-get install firefox-esr"
    # It writes the port that it has chosen into its profile.
    (folder / "user.js").write_text('user_pref("marionette.port", 0);')
    process = subprocess.Popen([path, "--headless", "--marionette", "--profile", str(folder)])
    port = folder / "MarionetteActivePort"
    try:
        while not (port.exists() and port.read_text()):
            assert process.poll() is None, "Firefox ended"
            time.sleep(0.1)
        yield Remote(Marionette(int(port.read_text())), options=FirefoxOptions())
    finally:
        process.terminate()
        process.wait()


def start_webkit(folder: Path) -> Iterator[Remote]:
    """WebKit in GTK's MiniBrowser."""
    assert shutil.which("WebKitWebDriver"), (
        "no WebKit on this machine: apt-get install webkit2gtk-driver"
    )
    driver = webdriver.WebKitGTK()
    try:
        yield driver
    finally:
        driver.quit()


@pytest.fixture(scope="module", params=[start_firefox, start_webkit])
def engine(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Remote]:
    yield from request.param(tmp_path_factory.mktemp("profile"))


def wait_until(engine: Remote, condition: str) -> None:
    """Wait for a condition in JavaScript."""
    script = f"return Boolean({condition})"
    WebDriverWait(engine, DEADLINE).until(lambda engine: engine.execute_script(script))


def find(engine: Remote, css: str) -> WebElement:
    """An element in the middle of the window, where it can be clicked."""
    element = engine.find_element(By.CSS_SELECTOR, css)
    engine.execute_script("arguments[0].scrollIntoView({ block: 'center' })", element)
    return element


def text_of(engine: Remote, css: str) -> str:
    return engine.find_element(By.CSS_SELECTOR, css).get_property("textContent")


def drag(engine: Remote, element: WebElement, x: int, y: int) -> None:
    """Drag an element by its middle, which WebKit's driver doesn't find itself in SVG."""
    middle = [round(place) for place in engine.execute_script(MIDDLE, element)]
    actions = ActionChains(engine)
    actions.w3c_actions.pointer_action.move_to_location(*middle)
    actions.click_and_hold().move_by_offset(x, y).release().perform()


def press(engine: Remote, element: WebElement, key: str) -> None:
    """Press a key on an element that takes no text."""
    engine.execute_script("arguments[0].focus()", element)
    ActionChains(engine).send_keys(key).perform()


def test_the_page_writes_answers_and_trains(engine: Remote, site: Path, tmp_path: Path) -> None:
    page = site.read_text(encoding="utf-8")
    assert "<head>" in page
    copy = tmp_path / "index.html"
    copy.write_text(page.replace("<head>", LISTEN), encoding="utf-8")
    engine.get(f"{copy.as_uri()}#letters=128")
    wait_until(engine, "document.getElementById('live-writing').textContent.includes('Sinusoidal')")

    # It marks the words that don't exist.
    assert engine.execute_script(WAVE) == ["underline", "wavy"]

    # What is typed is continued.
    beginning = find(engine, "#beginning")
    beginning.clear()
    beginning.send_keys("A fox")
    wait_until(engine, "document.getElementById('written-alibi').textContent.startsWith('A fox')")

    # Sliders, by keyboard and by mouse
    slopes = find(engine, "#scale")
    press(engine, slopes, Keys.ARROW_RIGHT)
    assert text_of(engine, "#scale-value") == "\N{MULTIPLICATION SIGN} 2"
    query = find(engine, "#query")
    drag(engine, query, -40, 0)
    assert int(query.get_property("value")) < 16  # which is in the middle

    # Moves that come quicker than Safari lets the address change
    engine.execute_script(MOVE_130_TIMES)
    assert text_of(engine, "#scale-value") == "\N{MULTIPLICATION SIGN} 1/16"

    # A guess by mouse and by keyboard, and twenty steps of a race
    handle = find(engine, ".handle.sinusoidal")
    drag(engine, handle, 0, -60)
    assert float(handle.get_dom_attribute("aria-valuenow")) == pytest.approx(3, abs=0.1)
    press(engine, handle, Keys.END)
    assert handle.get_dom_attribute("aria-valuenow") == "8"
    find(engine, "#start").click()
    wait_until(engine, "document.getElementById('bar-alibi').value >= 20 / 500")
    wait_until(engine, "document.getElementById('bar-sinusoidal').value >= 20 / 500")
    find(engine, "#stop").click()
    assert text_of(engine, "#race-caption").startswith("Stopped: ALiBi was tested at step")

    # The quiz
    answer = find(engine, ".answers button")
    answer.click()
    assert answer.get_dom_attribute("aria-pressed") == "true"
    assert "Seen in" in text_of(engine, "#verdict-details")

    assert engine.execute_script("return problems") == []


def test_a_lesson_runs_and_draws_its_apps(engine: Remote) -> None:
    with jupyter.serve() as server:
        engine.get(f"{server.url}lab/tree/01_the_line.ipynb?reset&token={server.token}")
        engine.execute_script(NO_TIME_LIMIT)
        wait_until(engine, f"{KERNEL}?.status === 'idle'")
        engine.execute_script(RUN_ALL)
        wait_until(engine, "window.hasRun")
        assert engine.execute_script(ERRORS) == []
        stored_apps = list(picture_outputs(read(jupyter.NOTEBOOKS / "01_the_line.ipynb")))
        apps = "[...document.querySelectorAll('.alibi-app')]"
        wait_until(engine, f"{apps}.length === {len(stored_apps)} && {apps}.every({DRAWN})")
        engine.get("about:blank")  # before its server ends
