"""ComparisonExplorer in JupyterLab: opens with curves, answers its controls, and refuses an eighth method."""

import pytest
from playwright.sync_api import expect

from tests.browser.notebook_page import NotebookPage


def test_controls_update_legend_figure_and_caption(notebook: NotebookPage) -> None:
    notebook.show("widgets.ComparisonExplorer()")
    app = notebook.app()
    notebook.wait_for_caption("In every seed alibi")
    legend = app.locator(".legend .legendtext")
    expect(legend).to_have_text(["alibi", "sinusoidal", "rotary", "none", "kerple-log", "rotary, window"])
    expect(app.get_by_label("rotary trained at 16L", exact=True)).to_be_hidden()
    app.locator(".s-more").click()
    expect(app.get_by_label("rotary trained at 16L", exact=True)).to_be_visible()

    before = notebook.picture()
    app.get_by_label("t5", exact=True).check()
    expect(legend).to_have_text(["alibi", "sinusoidal", "rotary", "rotary, window", "none", "t5", "kerple-log"])
    before = notebook.wait_for_new_picture(before)
    app.get_by_label("forget", exact=True).click()
    expect(app.locator(".alibi-error")).to_contain_text("methods must be at most 7 different names")
    expect(app.get_by_label("forget", exact=True)).not_to_be_checked()
    app.get_by_label("kerple-log", exact=True).uncheck()
    expect(legend).to_have_text(["alibi", "sinusoidal", "rotary", "none", "t5", "rotary, window"])
    expect(app.locator(".alibi-error")).to_have_count(0)

    before = notebook.picture()
    app.locator(".s-evaluated select").select_option(label="window")
    notebook.wait_for_caption("with attention limited to a window of the training length")
    before = notebook.wait_for_new_picture(before)
    notebook.choose("s-question", "needle")
    notebook.wait_for_caption("Shown as trained, because this question is not asked of models changed by window.")
    expect(app.locator(".s-evaluated select")).to_be_disabled()
    notebook.wait_for_new_picture(before)
    assert notebook.errors() == []


ALL_QUESTIONS = """import pandas as pd
from alibi_viz import lab, study
rows = study.published_results().query("question == 'same targets'")
app = widgets.ComparisonExplorer(pd.concat([rows.assign(question=question.name) for question in lab.QUESTIONS]))
app"""


@pytest.mark.parametrize("width", [1024, 1600])
def test_all_questions_fit_on_the_page(notebook: NotebookPage, width: int) -> None:
    notebook.page.set_viewport_size({"width": width, "height": 900})
    notebook.show(ALL_QUESTIONS)
    notebook.wait_for_caption("The loss on longer windows than in training")
    before = notebook.picture()
    notebook.choose("s-question", "softmax denominator")
    notebook.wait_for_caption("The softmax's denominator relative to the largest logit")
    notebook.wait_for_new_picture(before)
    box = notebook.app().bounding_box()
    for control in ("s-question", "s-evaluated"):
        own = notebook.app().locator(f".{control}").bounding_box()
        assert own is not None
        assert box is not None
        assert own["x"] + own["width"] <= box["x"] + box["width"]
    assert notebook.errors() == []
