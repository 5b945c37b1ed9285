"""All apps on one page of JupyterLab, operated by mouse and keyboard. Every test leaves its app as
it was."""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from alibi_viz import widgets
from tests.browser.accessibility import FOCUS, findings
from tests.browser.jupyter import Server
from tests.browser.notebook_page import NotebookPage, new_tab

APPS = [name for name in widgets.__all__ if name != "App"]
UNNAMED = re.compile(
    r'^ *- (?:button|checkbox|combobox|slider|spinbutton|tab|textbox)\b(?! "[^"]*\w).*', re.M
)
FOCUSABLE = "select, input, textarea, button, summary, .noUi-handle"
# Focus one control after the other.
VISIT = f"""(app, controls) => [...app.querySelectorAll(controls)]
    .filter(control => control.checkVisibility() && !control.disabled)
    .map(control => (control.focus(), ({FOCUS})()))"""
# Hidden controls are checked as well: they have the same names once they are shown.
SHOW_ALL = ".alibi-controls .jupyter-widgets { display: flex !important; }"
SCRIPT = "<script>window.hurt=1</script> <img/src=x/onerror=window.hurt=1> $x$ and AT&T"


@pytest.fixture(scope="module")
def shared(browser: Browser, server: Server) -> Iterator[NotebookPage]:
    with new_tab(browser, server) as page:
        page.show(*(f"widgets.{name}()" for name in APPS))
        yield page


@pytest.fixture
def page(shared: NotebookPage) -> Iterator[NotebookPage]:
    """The page with all apps. A problem fails the test in which it happens."""
    yield shared
    problems, shared.problems = shared.problems, []
    assert not problems, "\n".join(problems)
    assert shared.errors() == []


def at(name: str) -> int:
    return APPS.index(name)


def move(app: Locator) -> None:
    """Move every visible control to both of its ends; sliders last, because they change what menus
    offer."""
    for menu in app.locator(".alibi-controls select:visible").all():
        for index in (menu.locator("option").count() - 1, 0):
            if menu.is_enabled():
                menu.select_option(index=index)
    for buttons in app.locator(".alibi-controls .widget-toggle-buttons:visible").all():
        buttons.locator("button").last.click()
        buttons.locator("button").first.click()
    for box in app.locator(".alibi-controls input[type=checkbox]:visible").all():
        box.click()
        box.click()
    for slider in app.locator(".noUi-handle:visible").all():
        slider.press("End")
        slider.press("Home")


@pytest.mark.parametrize("name", APPS)
def test_controls_have_names_move_to_both_ends_and_are_reset(page: NotebookPage, name: str) -> None:
    app = page.settle(at(name))
    caption, controls = page.caption(at(name)), app.locator(".alibi-controls")
    expect(app.locator(".alibi-caption")).to_have_attribute("aria-live", "polite")
    assert app.locator(".js-plotly-plot .main-svg").first.is_visible() and len(caption) > 30
    move(app)
    controls.locator(
        ".s-reset"
    ).click()  # at once: it waits for the values that ipywidgets holds back
    page.wait_until_quiet()
    expect(app.locator(".alibi-caption")).to_have_text(caption)
    style, snapshot = page.page.add_style_tag(content=SHOW_ALL), controls.aria_snapshot()
    style.evaluate("style => style.remove()")
    assert len(snapshot.splitlines()) > 2, "no controls found"
    assert UNNAMED.findall(snapshot) == [], "controls without a name"


def test_key_changes_caption_and_picture_and_a_bad_number_is_a_message(page: NotebookPage) -> None:
    number = at("SlopeExplorer")
    app, before = page.app(number), page.picture(number)
    region = app.locator(".alibi-caption").element_handle()
    page.press_slider("s-heads", "ArrowRight", number=number)
    page.wait_for_caption("9 heads", number=number)
    assert region.evaluate("region => region.isConnected && region.textContent").startswith(
        "9 heads"
    )
    expect(app.locator(".alibi-figure")).to_have_attribute("role", "img")
    expect(app.locator(".alibi-figure")).to_have_attribute("aria-label", re.compile("^9 heads"))
    changed = page.wait_for_new_picture(before, number=number)
    field = app.get_by_role("textbox", name="heads", exact=True)
    field.fill("<b>65</b>")
    field.press("Enter")
    expect(app.locator(".alibi-error")).to_contain_text(
        "num_heads must be an integer from 1 to 64, got '<b>65</b>'"
    )
    expect(field).to_have_value("9")
    app.locator(".s-reset").click()
    page.wait_for_caption("8 heads", number=number)
    expect(app.locator(".alibi-error")).to_have_count(0)
    page.wait_for_new_picture(changed, number=number)


@pytest.mark.parametrize(
    "theme", ["Dark", "Light"]
)  # the second is the one that the other tests see
def test_apps_are_accessible_and_show_the_focus(page: NotebookPage, theme: str) -> None:
    page.choose_theme(f"JupyterLab {theme}")
    problems = []
    for name in APPS:
        app = page.settle(at(name))
        app.evaluate("app => (app.id = 'checked')")
        problems += [f"{name}: {finding}" for finding in findings(page.page, "#checked")]
        app.evaluate("app => app.removeAttribute('id')")
        page.page.keyboard.press("Shift")  # now the browser knows that somebody uses the keyboard
        focused = app.evaluate(VISIT, f".alibi-controls :is({FOCUSABLE})")
        assert len(focused) > 1, f"{name}: no controls found"
        problems += [
            f"{name}: no visible focus: {element}" for element, width in focused if width < 2
        ]
    assert problems == [], "\n".join(problems)


def test_figure_takes_the_theme_and_the_width_of_the_page(page: NotebookPage) -> None:
    app = page.settle(at("SlopeExplorer"))
    page.page.evaluate(
        "document.body.style.setProperty('--jp-content-font-color1', 'rgb(1, 2, 3)')"
    )
    expect(app.locator(".xtick text").first).to_have_css("fill", "rgb(1, 2, 3)")
    page.page.evaluate("document.body.style.removeProperty('--jp-content-font-color1')")
    for width in (1024, 1280):
        page.page.set_viewport_size({"width": width, "height": 900})
        fills = "app => Math.abs(app.clientWidth - app.querySelector('.main-svg').clientWidth) < 20"
        page.page.wait_for_function(fills, arg=page.app(at("SlopeExplorer")).element_handle())
        fits = "app => app.scrollWidth <= app.clientWidth"
        page.page.wait_for_function(fits, arg=page.app(at("ComparisonExplorer")).element_handle())


def test_click_hover_and_typed_markup_in_the_attention_explorer(page: NotebookPage) -> None:
    number = at("AttentionExplorer")
    app = page.app(number)
    app.locator(".js-plotly-plot .nsewdrag").first.scroll_into_view_if_needed()
    row = app.locator(".js-plotly-plot .nsewdrag").first.bounding_box()
    assert row is not None
    page.page.mouse.click(row["x"] + 3, row["y"] + 8.5 * row["height"] / 18)  # the ninth of 18 rows
    page.wait_for_caption("Query 8 “dog”", number=number)

    app.locator(".js-plotly-plot .nsewdrag").last.scroll_into_view_if_needed()
    title = app.locator(".scatterlayer .textpoint text").nth(6).bounding_box()
    assert title is not None
    x, y = title["x"] + 10, title["y"] + title["height"] + 30
    page.page.mouse.move(x, y)
    expect(app.locator(".hoverlayer .hovertext")).to_contain_text("head 7")
    page.page.mouse.click(x, y)
    page.wait_for_caption("Head 7 of 8", number=number)

    box = app.locator(".s-text textarea")
    box.fill("")
    expect(app.locator(".alibi-error")).to_contain_text("text must have at least one word, got ''")
    box.press_sequentially(SCRIPT)
    page.wait_for_caption("“T”", number=number)
    expect(app.get_by_text("AT", exact=True).first).to_be_visible()
    assert page.page.evaluate("window.hurt") is None and app.locator("img, script").count() == 0
    app.locator(".s-reset").click()
    page.wait_for_caption("Head 3 of 8", number=number)


def test_guess_by_keyboard_reveals_the_code_and_keeps_the_focus(page: NotebookPage) -> None:
    app = page.app(at("SpotTheBug"))
    expect(app.locator(".s-code")).to_be_hidden()
    answer = app.get_by_role("button", name="sign reversed")
    answer.focus()
    answer.press("Enter")
    expect(app.locator(".s-verdict")).to_contain_text("Right: it is sign reversed")
    expect(answer).to_be_focused()
    code = app.get_by_role("textbox", name="your repair", exact=True)
    code.fill("def bias(n, q, k):\n    return <b>undefined</b>")
    code.blur()
    app.get_by_role("button", name="Check").click()
    expect(app.locator(".s-report")).to_contain_text("line 2: SyntaxError")
    app.locator(".s-reset").click()
    expect(app.locator(".s-code")).to_be_hidden()
