"""AttentionExplorer in JupyterLab: keyboard, click, typed text, and markup that must stay text."""

from tests.browser.notebook_page import NotebookPage

SCRIPT = "<script>window.hurt=1</script> <img/src=x/onerror=window.hurt=1> $x$ and AT&T"


def test_key_click_and_typed_text_change_the_figure_and_markup_is_not_executed(notebook: NotebookPage) -> None:
    notebook.show("widgets.AttentionExplorer()")

    before = notebook.picture()
    notebook.press_slider("s-head", "ArrowRight")
    notebook.wait_for_caption("Head 4 of 8, slope 1/16, bias on")
    before = notebook.wait_for_new_picture(before)
    notebook.app().locator(".s-bias input").click()
    notebook.wait_for_caption("bias off")
    before = notebook.wait_for_new_picture(before)

    row = notebook.app().locator(".js-plotly-plot .nsewdrag").first.bounding_box()
    assert row is not None
    notebook.page.mouse.click(row["x"] + 3, row["y"] + 8.5 * row["height"] / 18)  # the ninth of 18 rows
    notebook.wait_for_caption("Query 8 “dog”")
    before = notebook.wait_for_new_picture(before)

    box = notebook.app().locator(".s-text textarea")
    box.fill("")
    notebook.wait_for_text("text must have at least one word, got ''")
    box.press_sequentially(SCRIPT)
    notebook.wait_for_caption("“T”")
    notebook.wait_for_new_picture(before)
    labels = notebook.app().locator(".x4tick text").all_text_contents()
    assert labels[:6] == ["<script>w…", ".", "hurt=1<", "/", "script>", "<img"]
    assert labels[-5:] == ["$x$", "and", "AT", "&", "T"]
    assert notebook.page.evaluate("window.hurt") is None
    assert notebook.app().locator("img, script").count() == 0
    assert notebook.errors() == []


def test_heads_are_linked_and_shuffle_and_reset_work(notebook: NotebookPage) -> None:
    notebook.show("widgets.AttentionExplorer()")
    before = notebook.picture()
    app = notebook.app()
    titles = app.locator(".scatterlayer .textpoint text")
    assert titles.all_text_contents() == [f"head {head}" for head in range(1, 9)]
    assert all(title.is_visible() for title in titles.all())

    app.locator(".js-plotly-plot .nsewdrag").last.scroll_into_view_if_needed()
    title = titles.nth(6).bounding_box()
    assert title is not None
    x, y = title["x"] + 10, title["y"] + title["height"] + 30
    notebook.page.mouse.move(x, y)
    hover = app.locator(".hoverlayer .hovertext")
    hover.wait_for()
    text = hover.text_content() or ""
    assert text.startswith("head 7query ")
    assert "content " in text and " + bias " in text and " = logit " in text and " → weight " in text
    notebook.page.mouse.click(x, y)
    notebook.wait_for_caption("Head 7 of 8")
    before = notebook.wait_for_new_picture(before)

    app.locator(".s-bias input").click()
    app.locator(".s-causal input").click()
    app.locator(".s-shuffle").click()
    notebook.wait_for_caption("the largest difference is 0.000")
    before = notebook.wait_for_new_picture(before)
    assert app.locator(".x4tick text").all_text_contents() != app.locator(".s-text textarea").input_value().split()
    app.locator(".s-reset").click()
    notebook.wait_for_caption("Head 3 of 8, slope 1/8, bias on. Query 17")
    notebook.wait_for_new_picture(before)
    assert app.locator(".s-bias input").is_checked()
    assert notebook.errors() == []
