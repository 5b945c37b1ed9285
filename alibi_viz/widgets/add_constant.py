"""The app of lesson 1 on what a softmax ignores: `AddConstant`."""

import torch
from ipywidgets import Widget
from traitlets import Enum, Int

from alibi_viz.bias import alibi_bias, causal_mask
from alibi_viz.figures.softmax_plot import softmax_picture
from alibi_viz.formatting import format_fixed
from alibi_viz.widgets.core.app import App, Drawn, Why

TOKENS = 6


class AddConstant(App):
    """The weights of six tokens after a constant is added to one row or column of the logits.

    Traits:
        where: "row" or "column".
        index: 0 to 5, which one.
        constant: -9 to 9.
    """

    why = Why("Each row has its own softmax.", "01_the_line", "The matrix")
    where = Enum(("row", "column"), "row")
    index = Int(4, min=0, max=TOKENS - 1)
    constant = Int(3, min=-9, max=9)

    def controls(self) -> list[Widget]:
        return [
            self.menu(
                "where", "add a constant to a", "s-where", "A row is one query, a column is one key"
            ),
            self.slider("index", "number", "s-index", "Which row or column, counted from 0"),
            self.slider(
                "constant", "constant", "s-constant", "What is added to each of its logits"
            ),
            self.reset_button(),
        ]

    def draw(self) -> Drawn:
        masked = ~causal_mask(TOKENS)
        content = torch.randn(TOKENS, TOKENS, generator=torch.Generator().manual_seed(1))
        bias = alibi_bias(torch.tensor([0.25]), TOKENS)[0]
        logits_before = (content + bias).masked_fill(masked, -torch.inf)

        logits = logits_before.clone()
        if self.where == "row":
            logits[self.index] += self.constant
        else:
            logits[:, self.index] += self.constant

        weights = logits.softmax(-1)
        change = (weights - logits_before.softmax(-1)).abs()
        picture = softmax_picture(logits.numpy(), weights.numpy(), self.where, self.index)
        return Drawn(picture, self._describe(change))

    def _describe(self, change: torch.Tensor) -> str:
        """By how much the weights change, [query, key]."""
        constant = format_fixed(self.constant, 0, plus=True)
        added = f"{constant} on every logit of {self.where} {self.index}"
        if self.constant == 0:
            return f"{added}: no weight changes. Nothing is added."
        if self.where == "row":
            return f"{added}: no weight changes. A constant in a row cancels in its softmax."
        changed_rows = int((change.amax(-1) > 1e-6).sum())
        return (
            f"{added}: weights change by up to {change.max():.2f}, in {changed_rows} of "
            f"{TOKENS} rows."
        )
