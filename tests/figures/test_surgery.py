"""The surgery figure shows a model before and after a change."""

import math

from alibi_viz.figures.surgery import AFTER, BEFORE, blank, draw

LOSSES = {32: 2.5, 64: 2.6, 128: 3.5}
DISTANCE = [[3.0, 9.0], [4.0, 40.0]]


def traces(figure, mode):
    return {trace.name: trace for trace in figure.data if trace.mode == mode}


def test_a_redraw_replaces_what_was_shown_and_the_axes_include_it():
    figure = blank()
    draw(figure, 32, "bytes", (LOSSES, DISTANCE), ({32: 2.4, 64: 7.9, 128: math.nan}, [[300.0, 0.0], [1.0, 1.0]]))
    lines, heads = traces(figure, "lines+markers"), traces(figure, "markers")
    assert dict(zip(lines[BEFORE].x, lines[BEFORE].y.tolist(), strict=True)) == LOSSES
    assert (lines[AFTER].y.tolist(), heads[AFTER].y.tolist()) == ([2.4, 7.9], [300.0, 0.1, 1.0, 1.0])
    assert [*heads[AFTER].customdata[1]] == [1, 2, 0.0], "the hover text is exact where a logarithmic axis has no place"
    assert lines[AFTER].line.color == heads[AFTER].marker.color != lines[BEFORE].line.color
    assert figure.layout.yaxis2.range[0] <= 2.4 and figure.layout.yaxis2.range[1] >= 7.9
    draw(figure, 64, "tokens", ({64: 5.0}, [[1.0]]))
    assert [lines[name].y.tolist() for name in (BEFORE, AFTER)] == [[5.0], []]
    assert [heads[name].y.tolist() for name in (BEFORE, AFTER)] == [[1.0], []]
    assert list(figure.layout.xaxis.ticktext) == ["1<br>layer 1"]
    assert not lines[AFTER].showlegend and "tokens" in figure.layout.xaxis2.title.text
