"""Every control of every app has a name that a screen reader can announce."""

import re

from playwright.sync_api import expect

from alibi_viz import widgets
from tests.browser.notebook_page import NotebookPage

APPS = [name for name in widgets.__all__ if name != "App"]
UNNAMED = re.compile(r'^ *- (?:button|checkbox|combobox|slider|spinbutton|tab|textbox)\b(?! "[^"]*\w).*', re.M)
# Hidden controls are checked as well: they have the same names once they are shown.
SHOW_ALL = ".alibi-controls .jupyter-widgets { display: flex !important; }"


def test_every_control_has_an_accessible_name(notebook: NotebookPage) -> None:
    # One cell each: anywidget reports an error if a widget isn't ready after two seconds.
    notebook.show(*(f"widgets.{name}()" for name in APPS))
    notebook.page.add_style_tag(content=SHOW_ALL)
    for number, name in enumerate(APPS):
        controls = notebook.app(number).locator(".alibi-controls")
        slider_or_menu = controls.get_by_role("slider").or_(controls.get_by_role("combobox")).first
        expect(slider_or_menu).to_have_accessible_name(re.compile(r"\w"))
        snapshot = controls.aria_snapshot()
        assert len(snapshot.splitlines()) > 2, f"{name}: no controls found"
        assert UNNAMED.findall(snapshot) == [], f"{name}: controls without a name"


def test_a_name_is_the_visible_label(notebook: NotebookPage) -> None:
    notebook.show("widgets.SlopeExplorer()")
    controls = notebook.app().locator(".alibi-controls")
    for role in ("slider", "textbox"):
        expect(controls.get_by_role(role, name="heads", exact=True)).to_be_visible()
    expect(controls.get_by_role("combobox", name="compare with", exact=True)).to_be_visible()
