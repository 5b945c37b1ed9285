"""A guess by mouse: the end of a curve is dragged, and its slider and the score follow. Once it is
made, the text below that tells its answer opens."""

from playwright.sync_api import expect

from tests.browser.notebook_page import NotebookPage

# A score of its own: the kernel, which tests share, runs in the folder of the tests.
SCORE = """import pathlib, tempfile
from alibi_viz import lessons
from alibi_viz.lessons import guesses
guesses.FILE = pathlib.Path(tempfile.mkdtemp(), "guesses.json")"""
# The kernel has answered: the last handle is over its circle again.
SETTLED = """() => {
    const lastBox = css =>
        [...document.querySelectorAll(`.alibi-guess ${css}`)].at(-1)?.getBoundingClientRect();
    const handle = lastBox('.alibi-handle');
    const circle = lastBox('.scatterlayer .point');
    if (!handle?.width || !circle) return false;
    const center = box => ({ x: box.x + box.width / 2, y: box.y + box.height / 2 });
    const isNear = axis => Math.abs(center(handle)[axis] - center(circle)[axis]) < 1;
    return isNear('x') && isNear('y');
}"""
CURVE = 'lessons.guess_curve("loss", "How high?", [64, 128, 256], [1.0, 4.0, 5.0], low=0, high=10)'


def test_the_end_of_a_curve_is_dragged_within_the_axes_and_counts(notebook: NotebookPage) -> None:
    notebook.show(SCORE, CURVE)
    guess = notebook.page.locator(".alibi-guess")
    mouse = notebook.page.mouse
    readouts = guess.locator(".widget-readout")
    expect(guess.locator(".alibi-handle")).to_have_count(2)

    def drag(pixels: float) -> None:
        """Drag the circle at the end of the curve down, and a little to the left."""
        notebook.page.wait_for_function(SETTLED)
        box = guess.locator(".alibi-handle").last.bounding_box()
        assert box is not None
        x = box["x"] + box["width"] / 2
        y = box["y"] + box["height"] / 2
        mouse.move(x, y)
        mouse.down()
        mouse.move(x - 20, y + pixels, steps=5)
        mouse.up()

    guess.locator(".js-plotly-plot").scroll_into_view_if_needed()
    drag(-1000)
    expect(readouts).to_have_text(["1.00", "10.00"])
    drag(-1000)  # from the edge, once more outside
    axes = guess.locator(".nsewdrag").bounding_box()
    assert axes is not None
    drag(axes["height"] / 2)
    expect(readouts.last).to_have_text("5.00")
    expect(guess.get_by_role("slider", name="at 256")).to_be_visible()
    notebook.page.wait_for_function(SETTLED)
    answer = guess.get_by_role("button", name="Show the answer")
    answer.click()
    expect(guess).to_contain_text("Finish your guess first")  # one of two points
    guess.get_by_role("slider", name="at 128").press("ArrowRight")
    expect(readouts.first).not_to_have_text("1.00")
    answer.click()
    expect(guess).to_contain_text(
        "Partly right. It is 4.00 at 128 and 5.00 at 256: 1 of your 2 points is close."
    )
    expect(guess).to_contain_text("Score: 0.5 of 1.")


def test_a_guess_opens_the_text_up_to_the_next_guess(notebook: NotebookPage) -> None:
    notebook.open("01_the_line")
    notebook.run_all()
    folds = notebook.page.locator("details.after-guess")
    opened = notebook.page.locator("details.after-guess[open]")
    expect(opened).to_have_count(0)
    guess = notebook.app(0, ".alibi-guess")
    guess.get_by_label("only under the straight line").check()
    guess.get_by_role("button", name="Show the answer").click()
    expect(folds.filter(has_text="forgets at a constant rate")).to_have_attribute("open", "")
    expect(opened).to_have_count(1)
