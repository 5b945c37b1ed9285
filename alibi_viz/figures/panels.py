"""Two plots of a figure: beside each other or, on a narrow page, one below the other.

They are the plots of the axes x and y, and x2 and y2. A title stays above its plot if it is placed
by the domains of its axes.
"""

from collections.abc import Sequence

import plotly.graph_objects as go

from alibi_viz.figures.theme import update_changed

NARROW = 560  # pixels: on a narrower page, two plots don't fit beside each other


def add_titles(figure: go.Figure, titles: Sequence[str]) -> None:
    """Put a title above the middle of each plot."""
    for axes, title in zip((("x", "y"), ("x2", "y2")), titles, strict=True):
        x, y = axes
        figure.add_annotation(
            text=title,
            xref=f"{x} domain",
            yref=f"{y} domain",
            x=0.5,
            y=1,
            yanchor="bottom",
            showarrow=False,
            font_size=13,
        )


def put_beside(
    figure: go.Figure, left: Sequence[float], right: Sequence[float], *, height: int
) -> None:
    """Put the plots beside each other, in these shares of the width."""
    update_changed(figure.layout, height=height)
    update_changed(figure.layout.xaxis, domain=tuple(left))
    update_changed(figure.layout.xaxis2, domain=tuple(right))
    update_changed(figure.layout.yaxis, domain=(0, 1))
    update_changed(figure.layout.yaxis2, domain=(0, 1))


def stack(figure: go.Figure, *, height: int, between: int = 84) -> None:
    """Put the second plot below the first, with so many pixels between them for the labels of an
    axis and a title."""
    upper, lower = stacked_domains(figure, height=height, between=between)
    update_changed(figure.layout, height=height)
    update_changed(figure.layout.xaxis, domain=(0, 1))
    update_changed(figure.layout.xaxis2, domain=(0, 1))
    update_changed(figure.layout.yaxis, domain=upper)
    update_changed(figure.layout.yaxis2, domain=lower)


def stacked_domains(
    figure: go.Figure, *, height: int, between: int
) -> tuple[tuple[float, float], tuple[float, float]]:
    """The shares of the height of two equally high plots, of the upper and of the lower one.

    >>> from alibi_viz.figures import theme
    >>> from alibi_viz.figures.panels import stacked_domains
    >>> figure = theme.blank(height=300, margin={"t": 50, "b": 50})
    >>> stacked_domains(figure, height=300, between=100)
    ((0.75, 1.0), (0.0, 0.25))
    """
    margin = figure.layout.margin
    inside = height - margin.t - margin.b
    half = 0.5 * (1 - between / inside)
    return (1 - half, 1.0), (0.0, half)
