"""All apps on one page of JupyterLab, on the screen of a laptop, operated by mouse and keyboard."""

import re
from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, FloatRect, Locator, ViewportSize, expect

from alibi_viz import widgets
from tests.browser.accessibility import FOCUS, findings
from tests.browser.jupyter import Server
from tests.browser.notebook_page import LAPTOP, LINE, NotebookPage, new_tab

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
SCRIPT = "<script>window.hurt=1</script> <img/src=x/onerror=window.hurt=1> $x$ and AT&T"
# Pixels from the top of an app to the end of its caption or verdict: a screen without the browser's
# and JupyterLab's own bars, and room for a line more with the fonts of another machine
SCREEN = 500 + LINE

Take = Callable[[str], Locator]


@pytest.fixture(scope="module")
def shared(browser: Browser, server: Server) -> Iterator[NotebookPage]:
    with new_tab(browser, server) as page:
        page.show(*(f"widgets.{name}()" for name in APPS))
        yield page


@pytest.fixture
def page(shared: NotebookPage) -> Iterator[NotebookPage]:
    """The page with all apps. A problem fails the test in which it happens."""
    shared.problems = []
    yield shared
    shared.page.mouse.up()
    shared.page.mouse.move(0, 0)
    if shared.page.viewport_size != LAPTOP:
        shared.page.set_viewport_size(LAPTOP)
    assert not shared.problems, "\n".join(shared.problems)
    assert shared.errors() == []


@pytest.fixture
def take(page: NotebookPage) -> Iterator[Take]:
    """Scrolls to the app of a name. After the test a click on Reset makes it what it was."""
    captions: dict[str, str] = {}

    def scroll_to(name: str) -> Locator:
        app = page.settle(APPS.index(name))
        captions.setdefault(name, text_of(app))
        return app

    yield scroll_to
    page.page.mouse.up()
    for name, caption in captions.items():
        app = page.app(APPS.index(name))
        app.locator(".s-reset").click()
        expect(app.locator(".alibi-caption")).to_have_text(caption)


def text_of(app: Locator) -> str:
    """The caption of an app."""
    return str(app.locator(".alibi-caption").text_content()).strip()


def wait_for_caption(app: Locator, part: str) -> None:
    expect(app.locator(".alibi-caption")).to_contain_text(part)


def box_of(element: Locator) -> FloatRect:
    """Where a visible element is, in pixels."""
    box = element.bounding_box()
    assert box is not None
    return box


def bottom_within(app: Locator, part: Locator) -> float:
    """Pixels from the top of an app to the bottom of a part of it."""
    box = box_of(part)
    return box["y"] + box["height"] - box_of(app)["y"]


# What holds for each app. Each function is a step of one visit, and yields the problems it finds.


def figure_and_caption(app: Locator) -> Iterator[str]:
    """A figure is shown, and a screen reader gets its caption and hears it change."""
    caption = text_of(app)
    if len(caption) <= 30:
        yield f"the caption is {caption!r}"
    if app.locator(".alibi-caption").get_attribute("aria-live") != "polite":
        yield "a changed caption is not announced"
    if not app.locator(".js-plotly-plot .main-svg").first.is_visible():
        yield "no figure is visible"
    for figure in app.locator(".alibi-figure").all():
        role, label = (figure.get_attribute(name) for name in ("role", "aria-label"))
        if (role, label) != ("img", caption):
            yield f"to a screen reader, the figure is {role}, {label}"


def names_of_controls(app: Locator) -> Iterator[str]:
    style = app.page.add_style_tag(content=SHOW_ALL)
    snapshot = app.locator(".alibi-controls").aria_snapshot()
    style.evaluate("style => style.remove()")
    if len(snapshot.splitlines()) <= 2:
        yield "there are no controls"
    for line in UNNAMED.findall(snapshot):
        yield f"no name: {line.strip()}"


def size(app: Locator) -> Iterator[str]:
    """Controls, picture and caption are on one screen."""
    bottom = bottom_within(app, app.locator(".alibi-caption"))
    if bottom > SCREEN:
        yield f"the caption ends after {bottom:.0f} pixels"


def focus(app: Locator) -> Iterator[str]:
    """Each control shows that it has the focus."""
    app.page.keyboard.press("Shift")  # now the browser knows that somebody uses the keyboard
    focused = app.evaluate(FOCUS_EACH, f".alibi-controls :is({FOCUSABLE})")
    if len(focused) <= 1:
        yield "there are no controls"
    for element, outline_width in focused:
        if outline_width < 2:
            yield f"the focus is invisible on {element}"


def accessibility(app: Locator) -> Iterator[str]:
    """What axe finds."""
    app.evaluate("app => (app.id = 'checked')")
    yield from findings(app.page, "#checked")
    app.evaluate("app => app.removeAttribute('id')")


def move_controls(page: NotebookPage, app: Locator) -> None:
    """Move every visible control to its end, or to its start if it is at the end.

    Sliders come last, because they change what menus offer.
    """
    for menu in app.locator(".alibi-controls select:visible").all():
        page.wait_until_quiet()  # a menu may disable the next one
        if menu.is_enabled():
            last = menu.locator("option").count() - 1
            is_last = menu.evaluate("menu => menu.selectedIndex") == last
            menu.select_option(index=0 if is_last else last)
    for buttons in app.locator(".alibi-controls .widget-toggle-buttons:visible").all():
        unpressed = buttons.locator("button:not(.mod-active)")
        unpressed.last.click()
    for box in app.locator(".alibi-controls input[type=checkbox]:visible").all():
        box.click()
    for slider in app.locator(".noUi-handle:visible").all():
        ends = (slider.get_attribute(f"aria-value{end}") for end in ("now", "max"))
        slider.press("Home" if len(set(ends)) == 1 else "End")


@pytest.mark.parametrize("name", APPS)
def test_app_is_complete_named_visible_and_undone_by_reset(page: NotebookPage, name: str) -> None:
    app = page.settle(APPS.index(name))
    steps = [figure_and_caption, names_of_controls, focus, accessibility]
    if name != "SpotTheBug":  # has its own test: its verdict has a place beside the picture
        steps.append(size)
    problems = [f"{step.__name__}: {problem}" for step in steps for problem in step(app)]

    caption = text_of(app)
    move_controls(page, app)
    if name == "SpotTheBug":  # a reset forgets the answer to a case, and stays at the case
        page.wait_until_quiet()
        move_controls(page, app)
    # At once: a reset waits for the values that ipywidgets holds back.
    app.locator(".alibi-controls .s-reset").click()
    page.wait_until_quiet()
    if text_of(app) != caption:
        problems.append(f"reset: the caption was {caption!r}, and is {text_of(app)!r}")
    assert problems == [], "\n".join(problems)


@pytest.fixture
def dark(page: NotebookPage) -> Iterator[None]:
    page.choose_theme("JupyterLab Dark")
    yield
    page.choose_theme("JupyterLab Light")


# One app is enough: all take their colors from the same rules.
@pytest.mark.usefixtures("dark")
def test_an_app_is_accessible_on_a_dark_page(take: Take) -> None:
    app = take("BiasExplorer")
    assert [*accessibility(app), *focus(app)] == []


def test_arrow_key_on_a_slider_changes_caption_and_picture(take: Take) -> None:
    app = take("SlopeExplorer")
    plot = app.locator(".js-plotly-plot").first
    before = plot.screenshot()
    caption = app.locator(".alibi-caption").element_handle()
    app.locator(".s-heads .noUi-handle").press("ArrowRight")
    wait_for_caption(app, "9 heads")
    # A screen reader announces changes only in an element that stays.
    assert caption.evaluate("caption => caption.isConnected")
    assert caption.evaluate("caption => caption.textContent").startswith("9 heads")
    take("SlopeExplorer")
    assert plot.screenshot() != before


def test_a_slider_is_played_by_keyboard_to_its_end_and_stops(take: Take) -> None:
    app = take("BiasExplorer")
    length = app.locator(".s-length-field input")
    length.fill("253")
    length.press("Enter")
    wait_for_caption(app, "253 x 253")
    app.get_by_role("button", name="play length").press("Enter")
    wait_for_caption(app, "256 x 256")
    expect(app.get_by_role("button", name="play length")).to_be_focused()


def test_a_slider_that_plays_can_be_paused(take: Take) -> None:
    app = take("BiasExplorer")
    app.get_by_role("button", name="play length").click()
    app.get_by_role("button", name="pause length").click()
    expect(app.get_by_role("button", name="play length")).to_be_visible()


@pytest.fixture
def less_motion(page: NotebookPage) -> Iterator[None]:
    """As for a reader who has asked the system for less motion."""
    page.page.emulate_media(reduced_motion="reduce")
    yield
    page.page.emulate_media(reduced_motion="no-preference")


def test_with_motion_a_slider_has_a_button_to_play_it(take: Take) -> None:
    expect(take("BiasExplorer").locator(".s-length-play")).to_be_visible()


@pytest.mark.usefixtures("less_motion")
def test_less_motion_leaves_the_slider_without_a_button_to_play_it(take: Take) -> None:
    app = take("BiasExplorer")
    expect(app.locator(".s-length-play")).to_be_hidden()
    expect(app.locator(".s-length")).to_be_visible()


def test_bad_number_is_a_message_in_the_app_and_the_old_value_stays(take: Take) -> None:
    app = take("SlopeExplorer")
    field = app.get_by_role("textbox", name="heads", exact=True)
    field.fill("<b>65</b>")
    field.press("Enter")
    message = app.locator(".alibi-error")
    expect(message).to_contain_text("num_heads must be an integer from 1 to 64, got '<b>65</b>'")
    expect(field).to_have_value("8")

    app.locator(".s-reset").click()
    expect(message).to_have_count(0)


@pytest.fixture
def own_ink(page: NotebookPage) -> Iterator[None]:
    """A theme whose texts have the color rgb(1, 2, 3)."""
    style = page.page.add_style_tag(
        content="body { --jp-content-font-color1: rgb(1, 2, 3) !important; }"
    )
    yield
    style.evaluate("style => style.remove()")


@pytest.mark.usefixtures("own_ink")
def test_figure_takes_the_colors_of_the_theme(take: Take) -> None:
    app = take("SlopeExplorer")
    expect(app.locator(".xtick text").first).to_have_css("fill", "rgb(1, 2, 3)")


# The width of a laptop at a zoom of 150%, of a narrow window, and of the laptop
WIDTHS = {
    911: ["AttentionExplorer", "LengthLab", "SlopeSurgery", "TugOfWar", "FarShare"],
    1024: ["SlopeExplorer", "ComparisonExplorer"],
    1366: ["SlopeExplorer", "ComparisonExplorer"],
}


def test_no_app_is_cut_and_figures_fill_the_width(page: NotebookPage) -> None:
    problems = []
    for width, names in WIDTHS.items():
        page.page.set_viewport_size(ViewportSize(width=width, height=768))
        for name in names:
            app = page.settle(APPS.index(name))
            for part in (app, app.locator(".alibi-figure")):
                cut = part.evaluate("part => part.scrollWidth - part.clientWidth")
                if cut > 0:
                    problems.append(f"{name} at {width}: {cut} pixels are cut")
            if name == "SlopeExplorer":
                figure = box_of(app.locator(".main-svg").first)
                unused = box_of(app)["width"] - figure["width"]
                if abs(unused) >= 20:
                    problems.append(f"{name} at {width}: {unused} pixels are unused")
    assert problems == [], "\n".join(problems)


# The subplots of AttentionExplorer, in which plotly takes the pointer
ALL_HEADS = ".nsewdrag[data-subplot=xy]"
CONTENT = ".nsewdrag[data-subplot=x2y2]"
BARS = ".nsewdrag[data-subplot=x6y6]"
WORDS = 18  # of the text


def point_at(app: Locator, subplot: str, column: int, row: int = 0) -> tuple[float, float]:
    """Move the pointer to the cell of a matrix, or to a bar, and return its place."""
    area = app.locator(subplot)
    area.scroll_into_view_if_needed()
    box = box_of(area)
    x = box["x"] + (column + 0.5) * box["width"] / WORDS
    y = box["y"] + (row + 0.5) * box["height"] / WORDS
    app.page.mouse.move(x, y)
    return x, y


def click_at(app: Locator, subplot: str, column: int, row: int = 0) -> None:
    """Click on a cell or a bar, once the app has noticed the pointer there: plotly clicks on what
    it hovers."""
    x, y = point_at(app, subplot, column, row)
    expect(app.locator(".alibi-column")).to_have_count(1)
    app.page.mouse.click(x, y)


def take_words(take: Take) -> Locator:
    """AttentionExplorer with random vectors, whose words are fewer than letters and so larger."""
    app = take("AttentionExplorer")
    app.locator(".s-content select").select_option("random vectors")
    wait_for_caption(app, "Query 17 “cat”")
    return take("AttentionExplorer")


def take_with_matrices(take: Take) -> Locator:
    """AttentionExplorer with words and its matrices."""
    app = take_words(take)
    app.locator(".s-matrices input").check()
    expect(app.get_by_text("content, q · k / √d", exact=True)).to_be_visible()
    return take("AttentionExplorer")


def test_click_on_a_row_chooses_the_query(take: Take) -> None:
    app = take_with_matrices(take)
    click_at(app, CONTENT, column=0, row=8)
    wait_for_caption(app, "Query 8 “dog”")


def test_click_on_a_bar_chooses_its_word_as_the_query(take: Take) -> None:
    app = take_words(take)
    click_at(app, BARS, column=8)
    wait_for_caption(app, "Query 8 “dog”")


def test_pointing_at_a_cell_outlines_it_in_every_matrix_and_says_its_sum(take: Take) -> None:
    app = take_with_matrices(take)
    point_at(app, CONTENT, column=6, row=8)
    expect(app.locator(".alibi-sum")).to_contain_text("“dog” → “.”, 2 back: ")
    expect(app.locator(".alibi-cell")).to_have_count(4)
    expect(app.locator(".alibi-column")).to_have_count(1)
    expect(app.locator(".hoverlayer")).to_be_hidden()

    app.locator(".alibi-caption").hover()
    expect(app.locator(".alibi-outline")).to_have_count(0)
    app.locator(".s-reset").click()
    expect(app.get_by_text("content, q · k / √d", exact=True)).to_be_hidden()


def test_pointing_at_a_bar_says_its_sum(take: Take) -> None:
    app = take_words(take)
    point_at(app, BARS, column=1)
    expect(app.locator(".alibi-sum")).to_contain_text("“cat” → “cat”, 16 back: ")
    expect(app.locator(".alibi-column")).to_have_count(1)


def test_hover_names_a_head_and_a_click_chooses_it(take: Take) -> None:
    app = take("AttentionExplorer")
    mouse = app.page.mouse
    app.locator(ALL_HEADS).scroll_into_view_if_needed()
    title = box_of(app.locator(".scatterlayer .textpoint text").nth(6))
    inside = (title["x"] + title["width"] / 2, title["y"] + title["height"] + 30)
    mouse.move(*inside)
    expect(app.locator(".alibi-sum")).to_contain_text("head 7")
    mouse.click(*inside)
    wait_for_caption(app, "Head 7, slope 1/128")


def test_clocks_keep_their_size_from_method_to_method(page: NotebookPage, take: Take) -> None:
    app = take("PositionZoo")

    def width_after(*methods: str) -> float:
        for method in methods:
            app.get_by_role("button", name=method, exact=True).click()
            page.wait_until_quiet()
        clocks = app.locator(".x2y2 .scatterlayer").first
        return float(clocks.evaluate("clocks => clocks.getBoundingClientRect().width"))

    first = width_after("rotary")
    again = width_after("sinusoidal", "rotary", "none", "rotary")
    assert abs(again - first) < 1


def test_click_on_a_curve_chooses_the_distance(take: Take) -> None:
    app = take("PositionZoo")
    plot = app.locator(".js-plotly-plot .nsewdrag").first
    plot.scroll_into_view_if_needed()
    plot.click(position={"x": 3, "y": 40})  # near the first token
    wait_for_caption(app, "was seen in training")


def drag_handle(app: Locator, pixels: float) -> None:
    """Drag the handle in the picture of an app sideways."""
    mouse = app.page.mouse
    handle = app.locator(".alibi-handle")
    handle.scroll_into_view_if_needed()
    box = box_of(handle)
    x = box["x"] + box["width"] / 2
    y = box["y"] + box["height"] / 2
    mouse.move(x, y)
    mouse.down()
    mouse.move(x + pixels, y, steps=5)
    mouse.up()


@pytest.mark.parametrize(
    ("name", "slider"),
    [("Forgetting", "s-half_life"), ("TugOfWar", "s-distance"), ("PositionZoo", "s-distance")],
)
def test_a_mark_in_the_picture_is_dragged_and_its_slider_follows(
    page: NotebookPage, take: Take, name: str, slider: str
) -> None:
    app = take(name)
    field = app.locator(f".{slider}-field input")
    handle = app.locator(".alibi-handle")
    value = field.input_value()
    start = box_of(handle)["x"]
    drag_handle(app, -60)
    expect(field).not_to_have_value(value)
    page.wait_until_quiet()
    end = box_of(handle)["x"]

    app.locator(f".{slider} .noUi-handle").press("ArrowLeft")
    page.wait_until_quiet()
    step = abs(box_of(handle)["x"] - end)
    assert abs(end - (start - 60)) <= step / 2 + 1, "the handle is at the value next to the pointer"


def test_picture_answers_and_verdict_are_on_one_screen(take: Take) -> None:
    app = take("SpotTheBug")
    app.locator(".s-answer-0").click()
    verdict = app.locator(".s-verdict")
    picture = app.locator(".alibi-figure")
    expect(verdict).to_contain_text("but it is")
    take("SpotTheBug")
    right_edge = box_of(picture)["x"] + box_of(picture)["width"]
    assert box_of(verdict)["x"] > right_edge, "beside the picture"
    assert bottom_within(app, verdict) <= SCREEN
    assert bottom_within(app, picture) <= SCREEN


def test_typed_markup_is_shown_as_text(take: Take) -> None:
    app = take_words(take)
    box = app.locator(".s-text textarea")
    box.fill("")
    expect(app.locator(".alibi-error")).to_contain_text("text must have at least one word, got ''")
    box.press_sequentially(SCRIPT)
    wait_for_caption(app, "“T”")
    expect(app.get_by_text("AT", exact=True).first).to_be_visible()
    assert app.locator("img, script").count() == 0
    assert app.page.evaluate("window.hurt") is None


def test_guess_by_keyboard_reveals_the_code_and_keeps_the_focus(take: Take) -> None:
    app = take("SpotTheBug")
    expect(app.locator(".s-code")).to_be_hidden()
    answer = app.get_by_role("button", name="sign reversed")
    answer.focus()
    answer.press("Enter")
    expect(app.locator(".s-verdict")).to_contain_text("Right: it is sign reversed")
    expect(app.locator(".s-code")).to_be_visible()
    expect(answer).to_be_focused()

    app.locator(".s-reset").click()
    expect(app.locator(".s-code")).to_be_hidden()


def test_error_in_a_repair_names_its_line(take: Take) -> None:
    app = take("SpotTheBug")
    app.get_by_role("button", name="sign reversed").click()
    code = app.get_by_role("textbox", name="your repair", exact=True)
    code.fill("def bias(n, q, k):\n    return <b>undefined</b>")
    code.blur()
    app.get_by_role("button", name="Check").click()
    expect(app.locator(".s-report")).to_contain_text("line 2: SyntaxError")
