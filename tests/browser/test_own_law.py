"""Your own law in BiasExplorer and AttentionExplorer in JupyterLab, and a text of 4,096 tokens."""

import time

from tests.browser.notebook_page import NotebookPage

LAW = """import torch

def steps(distance, head, num_heads):
    return -torch.tensor([0.5, 0.25, 0.125, 0.1])[head - 1] * distance.float().sqrt()
"""


def test_law_is_drawn_offered_in_the_menu_and_its_error_is_a_message(notebook: NotebookPage) -> None:
    notebook.show(LAW, "widgets.BiasExplorer(law=steps, num_heads=4)", "widgets.AttentionExplorer()")
    notebook.wait_for_caption("4 heads, 64 x 64, the bias is steps(d)")
    before = notebook.picture()
    notebook.press_slider("s-heads", "ArrowRight")
    notebook.wait_for_text("law 'steps', head 5 of 5: IndexError")
    notebook.app().locator(".s-law select").select_option("power")
    notebook.wait_for_caption("the bias is power(d)")
    notebook.wait_for_new_picture(before)

    before = notebook.picture(1)
    notebook.app(1).locator(".s-heads-field input").fill("4")
    notebook.app(1).locator(".s-heads-field input").press("Enter")
    notebook.app(1).locator(".s-law select").select_option("steps")
    notebook.wait_for_caption("law steps, bias on", number=1)
    notebook.wait_for_caption("with ALiBi", number=1)
    notebook.wait_for_new_picture(before, number=1)


def test_text_of_4096_tokens_answers_within_seconds(notebook: NotebookPage) -> None:
    text = "' '.join(f'w{number % 97}' for number in range(4096))"
    notebook.show(LAW, f"widgets.AttentionExplorer(text={text}, query=2000)")
    notebook.wait_for_caption("Query 2,000")
    before, started = notebook.picture(), time.monotonic()
    notebook.press_slider("s-query", "ArrowRight")
    notebook.wait_for_caption("Query 2,001")
    assert time.monotonic() - started < 3, "0.4 s on an idle machine"
    notebook.wait_for_new_picture(before)
    assert notebook.app().locator(".x6tick text").all_text_contents()[:2] == ["0", "1,000"]
