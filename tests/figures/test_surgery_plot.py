"""The surgery figure shows a model before and after a change."""

import math

from alibi_viz.figures.surgery_plot import AFTER, BEFORE, blank, draw

LOSSES = {32: 2.5, 64: 2.6, 128: 3.5}
DISTANCE = [[3.0, 9.0], [4.0, 40.0]]


def test_a_redraw_replaces_what_was_shown_and_the_axes_include_it():
    figure = blank()
    draw(
        figure,
        32,
        "bytes",
        (LOSSES, DISTANCE),
        ({32: 2.4, 64: 7.7, 128: math.nan}, [[300.0, 0.0], [1.0, 1.0]]),
    )
    lines, heads = (
        dict(zip((BEFORE, AFTER), figure.data[part], strict=True))
        for part in (slice(2), slice(2, 4))
    )
    assert dict(zip(lines[BEFORE].x, lines[BEFORE].y.tolist(), strict=True)) == LOSSES
    assert (lines[AFTER].y.tolist(), heads[AFTER].y.tolist()) == (
        [2.4, 7.7],
        [300.0, 0.1, 1.0, 1.0],
    )
    assert [*heads[AFTER].customdata[1]] == [1, 2, 0.0], (
        "the hover text is exact where a logarithmic axis has no place"
    )
    assert lines[AFTER].line.color == heads[AFTER].marker.color != lines[BEFORE].line.color
    assert figure.layout.yaxis2.range == (2, 8)
    draw(figure, 64, "tokens", ({64: 5.3}, [[1.0]]))
    assert [lines[name].y.tolist() for name in (BEFORE, AFTER)] == [[5.3], []]
    assert [heads[name].y.tolist() for name in (BEFORE, AFTER)] == [[1.0], []]
    assert (figure.layout.xaxis.ticktext, figure.layout.yaxis2.range) == (
        ("1<br>layer 1",),
        (5, 6),
    ), "at least one bit"
    assert not lines[AFTER].showlegend and "tokens" in figure.layout.xaxis2.title.text
