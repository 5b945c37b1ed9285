"""The app of lesson 1 on what a softmax ignores: `AddConstant`."""

import math

import numpy as np
import plotly.graph_objects as go
import torch
from ipywidgets import Widget
from traitlets import Enum, Int

from alibi_viz.bias import alibi_bias, causal_mask
from alibi_viz.figures import theme
from alibi_viz.formatting import format_fixed
from alibi_viz.widgets.core.app import App, Why

TOKENS = 6
EDGES = (-0.5, TOKENS - 0.5)  # of the matrix, in cells


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

    def blank(self) -> go.Figure:
        figure = theme.blank(height=330, margin_t=56)
        titles = ("logits (gray: masked, \N{MINUS SIGN}\N{INFINITY})", "weights")
        figure.set_subplots(1, 2, horizontal_spacing=0.1, subplot_titles=titles)

        figure.add_heatmap(
            name="logits",
            texttemplate="%{text}",  # with a real minus sign
            zmin=-9,
            zmax=9,
            colorscale=theme.DIVERGING,
            showscale=False,  # each cell says its number
            hoverinfo="skip",
            row=1,
            col=1,
        )
        figure.add_heatmap(
            name="weights",
            texttemplate="%{z:.2f}",
            zmin=0,
            zmax=1,
            colorscale=theme.SEQUENTIAL,
            showscale=False,
            hoverinfo="skip",
            row=1,
            col=2,
        )

        first, last = EDGES
        whole = {"x0": first, "x1": last, "y0": first, "y1": last}
        for column in (1, 2):
            figure.add_shape(
                fillcolor=theme.MASKED, layer="below", line_width=0, row=1, col=column, **whole
            )
            figure.add_shape(
                name="frame", line={"color": theme.ORANGE, "width": 4}, row=1, col=column, **whole
            )

        ticks = {"tickvals": np.arange(TOKENS), "ticktext": list("012345"), "showgrid": False}
        figure.update_annotations(font_size=12)
        figure.update_xaxes(title_text="key", **ticks)
        figure.update_yaxes(autorange="reversed", **ticks)
        figure.update_yaxes(title_text="query", col=1)
        return figure

    def draw(self) -> str:
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
        self._show(logits, weights, masked)

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

    def _show(self, logits: torch.Tensor, weights: torch.Tensor, masked: torch.Tensor) -> None:
        """Put both matrices into the figure and frame the changed row or column."""
        first, last = EDGES
        before = self.index - 0.5
        after = self.index + 0.5
        if self.where == "row":
            frame = {"x0": first, "x1": last, "y0": before, "y1": after}
        else:
            frame = {"x0": before, "x1": after, "y0": first, "y1": last}

        with self.figure.batch_update():
            self.figure.update_shapes(frame, {"name": "frame"})
            texts = []
            for row in logits.tolist():
                texts.append([_text(logit) for logit in row])
            self.figure.update_traces(
                {"z": theme.with_gaps(logits, masked), "text": texts}, {"name": "logits"}
            )
            self.figure.update_traces({"z": theme.with_gaps(weights, masked)}, {"name": "weights"})


def _text(logit: float) -> str:
    """What stands in the cell of a logit: nothing in a masked one."""
    return "" if math.isinf(logit) else format_fixed(logit, 1)
