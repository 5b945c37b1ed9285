"""All apps on one page of JupyterLab, operated by mouse and keyboard.

Every test leaves its app as it was.
"""

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Locator, expect

from alibi_viz import widgets
from tests.browser.accessibility import FOCUS, findings
from tests.browser.jupyter import Server
from tests.browser.notebook_page import NotebookPage, new_tab

APPS = [name for name in widgets.__all__ if name != "App"]
# In an accessibility snapshot, a line of a control without a name in quotation marks
UNNAMED = re.compile(
    r'^ *- (?:button|checkbox|combobox|slider|spinbutton|tab|textbox)\b(?! "[^"]*\w).*', re.M
)
FOCUSABLE = "select, input, textarea, button, summary, .noUi-handle"
# Focus one control after the other, and say which element has the focus and how it shows that.
FOCUS_EACH = f"""(app, selector) => {{
    const controls = [...app.querySelectorAll(selector)];
    const usable = controls.filter(control => control.checkVisibility() && !control.disabled);
    return usable.map(control => {{
        control.focus();
        return ({FOCUS})();
    }});
}}"""
# Hidden controls are checked as well: they have the same names once they are shown.
SHOW_ALL = ".alibi-controls .jupyter-widgets { display: flex !important; }"
CLOSE_CLIPBOARD = """() => {
    navigator.clipboard.writeText = () => Promise.reject(new Error("not allowed"));
}"""
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
    problems = shared.problems
    shared.problems = []
    assert not problems, "\n".join(problems)
    assert shared.errors() == []


def at(name: str) -> int:
    """The place of an app on the page."""
    return APPS.index(name)


def move_controls(app: Locator) -> None:
    """Move every visible control to both of its ends.

    Sliders come last, because they change what menus offer.
    """
    for menu in app.locator(".alibi-controls select:visible").all():
        last_option = menu.locator("option").count() - 1
        for index in (last_option, 0):
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
def test_app_shows_a_figure_and_a_caption_that_is_announced(page: NotebookPage, name: str) -> None:
    app = page.settle(at(name))
    assert app.locator(".js-plotly-plot .main-svg").first.is_visible()
    assert len(page.caption(at(name))) > 30
    expect(app.locator(".alibi-caption")).to_have_attribute("aria-live", "polite")


@pytest.mark.parametrize("name", APPS)
def test_reset_undoes_all_moves_of_the_controls(page: NotebookPage, name: str) -> None:
    app = page.settle(at(name))
    caption = page.caption(at(name))
    move_controls(app)
    # At once: a reset waits for the values that ipywidgets holds back.
    app.locator(".alibi-controls .s-reset").click()
    page.wait_until_quiet()
    expect(app.locator(".alibi-caption")).to_have_text(caption)


@pytest.mark.parametrize("name", APPS)
def test_every_control_has_a_name(page: NotebookPage, name: str) -> None:
    controls = page.settle(at(name)).locator(".alibi-controls")
    style = page.page.add_style_tag(content=SHOW_ALL)
    snapshot = controls.aria_snapshot()
    style.evaluate("style => style.remove()")
    assert len(snapshot.splitlines()) > 2, "no controls found"
    assert UNNAMED.findall(snapshot) == []


def test_arrow_key_on_a_slider_changes_caption_and_picture(page: NotebookPage) -> None:
    number = at("SlopeExplorer")
    app = page.app(number)
    before = page.picture(number)
    caption = app.locator(".alibi-caption").element_handle()
    page.press_slider("s-heads", "ArrowRight", number=number)
    page.wait_for_caption("9 heads", number=number)
    # A screen reader announces changes only in an element that stays.
    assert caption.evaluate("caption => caption.isConnected")
    assert caption.evaluate("caption => caption.textContent").startswith("9 heads")
    changed = page.wait_for_new_picture(before, number=number)

    app.locator(".s-reset").click()
    page.wait_for_caption("8 heads", number=number)
    page.wait_for_new_picture(changed, number=number)


def test_a_slider_is_played_by_keyboard_to_its_end_and_stops(page: NotebookPage) -> None:
    app = page.app(at("BiasExplorer"))
    length = app.locator(".s-length-field input")
    length.fill("253")
    length.press("Enter")
    page.wait_for_caption("253 x 253", at("BiasExplorer"))
    app.get_by_role("button", name="play length").press("Enter")
    page.wait_for_caption("256 x 256", at("BiasExplorer"))
    expect(app.get_by_role("button", name="play length")).to_be_focused()
    app.locator(".s-reset").click()
    page.wait_for_caption("64 x 64", at("BiasExplorer"))


def test_a_slider_that_plays_can_be_paused(page: NotebookPage) -> None:
    app = page.app(at("BiasExplorer"))
    app.get_by_role("button", name="play length").click()
    app.get_by_role("button", name="pause length").click()
    expect(app.get_by_role("button", name="play length")).to_be_visible()
    app.locator(".s-reset").click()
    page.wait_for_caption("64 x 64", at("BiasExplorer"))


def test_less_motion_leaves_the_slider_without_a_button_to_play_it(page: NotebookPage) -> None:
    app = page.app(at("BiasExplorer"))
    page.page.emulate_media(reduced_motion="reduce")
    expect(app.locator(".s-length-play")).to_be_hidden()
    expect(app.locator(".s-length")).to_be_visible()
    page.page.emulate_media(reduced_motion="no-preference")
    expect(app.locator(".s-length-play")).to_be_visible()


def test_figure_is_an_image_described_by_the_caption(page: NotebookPage) -> None:
    figure = page.app(at("SlopeExplorer")).locator(".alibi-figure")
    expect(figure).to_have_attribute("role", "img")
    expect(figure).to_have_attribute("aria-label", re.compile("^8 heads"))


def test_bad_number_is_a_message_in_the_app_and_the_old_value_stays(page: NotebookPage) -> None:
    app = page.app(at("SlopeExplorer"))
    field = app.get_by_role("textbox", name="heads", exact=True)
    field.fill("<b>65</b>")
    field.press("Enter")
    message = app.locator(".alibi-error")
    expect(message).to_contain_text("num_heads must be an integer from 1 to 64, got '<b>65</b>'")
    expect(field).to_have_value("8")

    app.locator(".s-reset").click()
    expect(message).to_have_count(0)


# The second theme is the one that the other tests see.
@pytest.mark.parametrize("theme", ["Dark", "Light"])
def test_apps_are_accessible_in_both_themes(page: NotebookPage, theme: str) -> None:
    page.choose_theme(f"JupyterLab {theme}")
    problems = []
    for name in APPS:
        app = page.settle(at(name))
        app.evaluate("app => (app.id = 'checked')")
        problems += [f"{name}: {finding}" for finding in findings(page.page, "#checked")]
        app.evaluate("app => app.removeAttribute('id')")
    assert problems == [], "\n".join(problems)


@pytest.mark.parametrize("theme", ["Dark", "Light"])
def test_focus_is_visible_on_every_control_in_both_themes(page: NotebookPage, theme: str) -> None:
    page.choose_theme(f"JupyterLab {theme}")
    page.page.keyboard.press("Shift")  # now the browser knows that somebody uses the keyboard
    problems = []
    for name in APPS:
        app = page.settle(at(name))
        focused = app.evaluate(FOCUS_EACH, f".alibi-controls :is({FOCUSABLE})")
        assert len(focused) > 1, f"{name}: no controls found"
        for element, outline_width in focused:
            if outline_width < 2:
                problems.append(f"{name}: {element}")
    assert problems == [], "\n".join(problems)


def test_figure_takes_the_colors_of_the_theme(page: NotebookPage) -> None:
    app = page.settle(at("SlopeExplorer"))
    body = page.page.locator("body")
    body.evaluate("body => body.style.setProperty('--jp-content-font-color1', 'rgb(1, 2, 3)')")
    expect(app.locator(".xtick text").first).to_have_css("fill", "rgb(1, 2, 3)")
    body.evaluate("body => body.style.removeProperty('--jp-content-font-color1')")


@pytest.mark.parametrize("width", [1024, 1280])
def test_figure_fills_the_width_of_the_page(page: NotebookPage, width: int) -> None:
    page.page.set_viewport_size({"width": width, "height": 900})
    app = page.app(at("SlopeExplorer")).element_handle()
    fills = "app => Math.abs(app.clientWidth - app.querySelector('.main-svg').clientWidth) < 20"
    page.page.wait_for_function(fills, arg=app)


@pytest.mark.parametrize("width", [1024, 1280])
def test_widest_app_fits_the_page(page: NotebookPage, width: int) -> None:
    page.page.set_viewport_size({"width": width, "height": 900})
    app = page.app(at("ComparisonExplorer")).element_handle()
    page.page.wait_for_function("app => app.scrollWidth <= app.clientWidth", arg=app)


# The subplots of AttentionExplorer, in which plotly takes the pointer
ALL_HEADS = ".nsewdrag[data-subplot=xy]"
CONTENT = ".nsewdrag[data-subplot=x2y2]"
BARS = ".nsewdrag[data-subplot=x6y6]"
WORDS = 18  # of the text


def point_at(app: Locator, subplot: str, column: int, row: int = 0) -> tuple[float, float]:
    """Move the pointer to the cell of a matrix, or to a bar, and return its place."""
    area = app.locator(subplot)
    area.scroll_into_view_if_needed()
    box = area.bounding_box()
    assert box is not None
    x = box["x"] + (column + 0.5) * box["width"] / WORDS
    y = box["y"] + (row + 0.5) * box["height"] / WORDS
    app.page.mouse.move(x, y)
    return x, y


def show_the_matrices(app: Locator) -> None:
    app.locator(".s-matrices input").check()
    expect(app.get_by_text("content, q · k / √d", exact=True)).to_be_visible()


def test_click_on_a_row_chooses_the_query(page: NotebookPage) -> None:
    app = page.app(at("AttentionExplorer"))
    show_the_matrices(app)
    page.page.mouse.click(*point_at(app, CONTENT, column=0, row=8))
    page.wait_for_caption("Query 8 “dog”", number=at("AttentionExplorer"))

    app.locator(".s-reset").click()
    page.wait_for_caption("Query 17 “cat”", number=at("AttentionExplorer"))


def test_click_on_a_bar_chooses_its_word_as_the_query(page: NotebookPage) -> None:
    app = page.app(at("AttentionExplorer"))
    page.page.mouse.click(*point_at(app, BARS, column=8))
    page.wait_for_caption("Query 8 “dog”", number=at("AttentionExplorer"))

    app.locator(".s-reset").click()
    page.wait_for_caption("Query 17 “cat”", number=at("AttentionExplorer"))


def test_pointing_at_a_cell_outlines_it_in_every_matrix_and_says_its_sum(
    page: NotebookPage,
) -> None:
    app = page.app(at("AttentionExplorer"))
    show_the_matrices(app)
    point_at(app, CONTENT, column=6, row=8)
    expect(app.locator(".alibi-sum")).to_contain_text("“dog” → “.”, 2 back: ")
    expect(app.locator(".alibi-cell")).to_have_count(4)
    expect(app.locator(".alibi-column")).to_have_count(1)
    expect(app.locator(".hoverlayer")).to_be_hidden()

    app.locator(".alibi-caption").hover()
    expect(app.locator(".alibi-outline")).to_have_count(0)
    app.locator(".s-reset").click()
    expect(app.get_by_text("content, q · k / √d", exact=True)).to_be_hidden()


def test_pointing_at_a_bar_says_its_sum(page: NotebookPage) -> None:
    app = page.app(at("AttentionExplorer"))
    point_at(app, BARS, column=1)
    expect(app.locator(".alibi-sum")).to_contain_text("“cat” → “cat”, 16 back: ")
    expect(app.locator(".alibi-column")).to_have_count(1)


def test_hover_names_a_head_and_a_click_chooses_it(page: NotebookPage) -> None:
    app = page.app(at("AttentionExplorer"))
    app.locator(ALL_HEADS).scroll_into_view_if_needed()
    title = app.locator(".scatterlayer .textpoint text").nth(6).bounding_box()
    assert title is not None
    inside_x = title["x"] + 10
    inside_y = title["y"] + title["height"] + 30
    page.page.mouse.move(inside_x, inside_y)
    expect(app.locator(".alibi-sum")).to_contain_text("head 7")
    page.page.mouse.click(inside_x, inside_y)
    page.wait_for_caption("Head 7 of 8", number=at("AttentionExplorer"))

    app.locator(".s-reset").click()
    page.wait_for_caption("Head 3 of 8", number=at("AttentionExplorer"))


def test_clocks_keep_their_size_from_method_to_method(page: NotebookPage) -> None:
    number = at("PositionZoo")
    app = page.app(number)

    def width_after(*methods: str) -> float:
        for method in methods:
            app.get_by_role("button", name=method, exact=True).click()
            page.wait_until_quiet()
        clocks = page.settle(number).locator(".x2y3 .scatterlayer").first
        return float(clocks.evaluate("clocks => clocks.getBoundingClientRect().width"))

    first = width_after("rotary")
    again = width_after("sinusoidal", "rotary", "none", "rotary")
    assert abs(again - first) < 1
    app.locator(".s-reset").click()
    page.wait_for_caption("the logit −12.5", number=number)  # noqa: RUF001  # of ALiBi


def test_click_on_a_curve_chooses_the_distance(page: NotebookPage) -> None:
    number = at("PositionZoo")
    app = page.app(number)
    plot = app.locator(".js-plotly-plot .nsewdrag").first
    plot.scroll_into_view_if_needed()
    plot.click(position={"x": 3, "y": 40})  # near the first token
    page.wait_for_caption("was seen in training", number=number)
    app.locator(".s-reset").click()
    page.wait_for_caption("200 tokens back", number=number)


def drag_handle(page: NotebookPage, app: Locator, pixels: float) -> None:
    """Drag the handle in the picture of an app sideways."""
    handle = app.locator(".alibi-handle")
    handle.scroll_into_view_if_needed()
    box = handle.bounding_box()
    assert box is not None
    x = box["x"] + box["width"] / 2
    y = box["y"] + box["height"] / 2
    page.page.mouse.move(x, y)
    page.page.mouse.down()
    page.page.mouse.move(x + pixels, y, steps=5)
    page.page.mouse.up()


@pytest.mark.parametrize(
    ("name", "slider"),
    [("Forgetting", "s-half_life"), ("TugOfWar", "s-distance"), ("PositionZoo", "s-distance")],
)
def test_a_mark_in_the_picture_is_dragged_and_its_slider_follows(
    page: NotebookPage, name: str, slider: str
) -> None:
    number = at(name)
    app = page.settle(number)
    caption = page.caption(number)
    field = app.locator(f".{slider}-field input")
    before = field.input_value()
    handle = app.locator(".alibi-handle")
    place = handle.bounding_box()
    drag_handle(page, app, -60)
    expect(field).not_to_have_value(before)
    page.wait_until_quiet()
    moved_to = handle.bounding_box()
    assert place
    assert moved_to
    assert -75 < moved_to["x"] - place["x"] < -45, "the handle stays on its mark"

    app.locator(".s-reset").click()
    expect(app.locator(".alibi-caption")).to_have_text(caption)


def test_the_state_of_an_app_is_copied_as_code(page: NotebookPage) -> None:
    page.page.context.grant_permissions(["clipboard-read", "clipboard-write"])
    app = page.app(at("SlopeExplorer"))
    app.get_by_role("button", name="Copy as code").click()
    expect(app.locator(".alibi-copied")).to_have_text("Copied")
    copied = page.page.evaluate("navigator.clipboard.readText()")
    assert copied.endswith(repr(widgets.SlopeExplorer()))


def test_where_the_clipboard_is_closed_the_code_is_shown_and_selected(page: NotebookPage) -> None:
    page.page.evaluate(CLOSE_CLIPBOARD)
    app = page.app(at("SlopeExplorer"))
    app.get_by_role("button", name="Copy as code").click()
    field = app.locator(".s-code-to-copy")
    expect(field).to_be_focused()
    selected = "field => field.value.slice(field.selectionStart, field.selectionEnd)"
    assert "widgets.SlopeExplorer(num_heads=8" in field.evaluate(selected)
    field.blur()
    expect(field).to_be_hidden()


STACKING = ["AttentionExplorer", "LengthLab", "SlopeSurgery", "TugOfWar", "TwoSwitches"]


@pytest.mark.parametrize("name", STACKING)
def test_at_150_percent_zoom_no_figure_is_cut(page: NotebookPage, name: str) -> None:
    page.page.set_viewport_size({"width": 911, "height": 512})
    app = page.app(at(name))
    figure = app.locator(".alibi-figure").element_handle()
    page.page.wait_for_function("figure => figure.scrollWidth <= figure.clientWidth", arg=figure)
    page.page.set_viewport_size({"width": 1280, "height": 900})


@pytest.mark.parametrize("name", [name for name in APPS if name != "SpotTheBug"])
def test_controls_picture_and_caption_are_on_the_screen_of_a_laptop(
    page: NotebookPage, name: str
) -> None:
    page.page.set_viewport_size({"width": 1366, "height": 768})
    app = page.settle(at(name))
    page.wait_until_quiet()
    top = app.bounding_box()
    caption = app.locator(".alibi-caption").bounding_box()
    assert top
    assert caption
    assert caption["y"] + caption["height"] - top["y"] <= 500
    page.page.set_viewport_size({"width": 1280, "height": 900})


def test_picture_answers_and_verdict_are_on_one_screen(page: NotebookPage) -> None:
    number = at("SpotTheBug")
    page.page.set_viewport_size({"width": 1366, "height": 768})
    app = page.settle(number)
    app.locator(".s-answer-0").click()
    expect(app.locator(".s-verdict")).to_contain_text("but it is")
    page.wait_until_quiet()
    page.settle(number)
    top = app.bounding_box()
    verdict = app.locator(".s-verdict").bounding_box()
    picture = app.locator(".alibi-figure").bounding_box()
    assert top
    assert verdict
    assert picture
    assert verdict["x"] > picture["x"] + picture["width"], "beside the picture"
    for part in (verdict, picture):
        assert part["y"] + part["height"] - top["y"] <= 500

    app.locator(".s-reset").click()
    expect(app.locator(".s-code")).to_be_hidden()
    page.page.set_viewport_size({"width": 1280, "height": 900})


def test_typed_markup_is_shown_as_text(page: NotebookPage) -> None:
    app = page.app(at("AttentionExplorer"))
    box = app.locator(".s-text textarea")
    box.fill("")
    expect(app.locator(".alibi-error")).to_contain_text("text must have at least one word, got ''")
    box.press_sequentially(SCRIPT)
    page.wait_for_caption("“T”", number=at("AttentionExplorer"))
    expect(app.get_by_text("AT", exact=True).first).to_be_visible()
    assert app.locator("img, script").count() == 0
    assert page.page.evaluate("window.hurt") is None

    app.locator(".s-reset").click()
    page.wait_for_caption("Head 3 of 8", number=at("AttentionExplorer"))


def test_guess_by_keyboard_reveals_the_code_and_keeps_the_focus(page: NotebookPage) -> None:
    app = page.app(at("SpotTheBug"))
    expect(app.locator(".s-code")).to_be_hidden()
    answer = app.get_by_role("button", name="sign reversed")
    answer.focus()
    answer.press("Enter")
    expect(app.locator(".s-verdict")).to_contain_text("Right: it is sign reversed")
    expect(app.locator(".s-code")).to_be_visible()
    expect(answer).to_be_focused()

    app.locator(".s-reset").click()
    expect(app.locator(".s-code")).to_be_hidden()


def test_error_in_a_repair_names_its_line(page: NotebookPage) -> None:
    app = page.app(at("SpotTheBug"))
    app.get_by_role("button", name="sign reversed").click()
    code = app.get_by_role("textbox", name="your repair", exact=True)
    code.fill("def bias(n, q, k):\n    return <b>undefined</b>")
    code.blur()
    app.get_by_role("button", name="Check").click()
    expect(app.locator(".s-report")).to_contain_text("line 2: SyntaxError")

    app.locator(".s-reset").click()
    expect(app.locator(".s-code")).to_be_hidden()
