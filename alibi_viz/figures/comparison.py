"""The published comparison: one panel over the whole width, for whichever methods are asked for, at most seven.

A method that is also raced in the laboratory keeps its colour there; the others take the slots that are left.
"""

from collections.abc import Sequence

import plotly.graph_objects as go

from alibi_viz.figures import theme
from alibi_viz.figures.panel import Panel, add_panel, draw_panel

__all__ = ["SLOTS", "blank", "draw", "in_slots"]

SLOTS = len(theme.COLORS)  # a colour, a dash and a symbol each
_NONE, _ALL = (0.0, 0.001), (0.005, 1.0)  # the panel lives on the second axes; the first are empty


def blank() -> go.Figure:
    """The sheet: an empty panel with a slot for each colour."""
    figure = theme.blank(430, hovermode="closest", margin={"l": 60, "r": 20, "t": 66, "b": 70})
    place = {"xref": "paper", "x": 0, "xanchor": "left", "yref": "paper", "y": 1, "yanchor": "bottom"}
    figure.add_annotation(text="", showarrow=False, yshift=4, font_size=13, **place)
    figure.update_layout(
        showlegend=True,
        legend={"yref": "container", "y": 1, "yanchor": "top"},
        xaxis={"domain": _NONE, "visible": False},
        yaxis={"visible": False},
    )
    add_panel(figure, [f"slot {number}" for number in range(1, SLOTS + 1)])
    figure.layout.xaxis2.domain = _ALL
    return figure


def draw(figure: go.Figure, slots: Sequence[str], panel: Panel) -> None:
    """Put a panel into the sheet, plain or live; `slots` is what `in_slots` says."""
    with figure.batch_update():
        for number, trace in enumerate(figure.data):
            trace.name = slots[number % SLOTS]  # the sheet was made before anybody chose a method
        draw_panel(figure, slots, panel, before=0, title=0)


def in_slots(methods: Sequence[str], fixed: Sequence[str]) -> list[str]:
    """Which method has which slot, "" for none: the `fixed` ones their own, the others what is left.

    Raises ValueError for more methods than slots.

    >>> from alibi_viz.figures.comparison import in_slots
    >>> in_slots(["t5", "rotary"], fixed=["alibi", "rotary"])
    ['', 'rotary', 't5', '', '', '', '']
    """
    if len(methods) > SLOTS:
        raise ValueError(f"there is room for {SLOTS} methods, got {len(methods)}")
    slots = [name if name in methods else "" for name in fixed] + [""] * (SLOTS - len(fixed))
    free = [*range(len(fixed), SLOTS), *(number for number in reversed(range(len(fixed))) if not slots[number])]
    others = [name for name in methods if name not in fixed]
    for number, name in zip(free, others, strict=False):
        slots[number] = name
    return slots
