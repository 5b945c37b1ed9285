"""The microscope's figure reads back: the steps of the bias and the map of errors."""

import numpy as np

from alibi_viz.figures import precision as picture


def test_figure_shows_steps_shared_keys_and_powers_of_ten() -> None:
    figure, fresh = (picture.blank() for _ in range(2))
    errors = np.array([[0.01, np.nan], [0.0, 1.0]])
    picture.draw(figure, [4, 5, 6], [4.0, 5.0, 6.0], [4.0, 6.0, 6.0], [False, True, True], errors=errors, size=4)
    exact, steps, distinct, shared, cells = figure.data
    assert (list(exact.y), list(steps.y)) == ([4, 5, 6], [4, 6, 6])
    assert (list(distinct.x), list(shared.x), list(shared.y)) == ([4], [5, 6], [6, 6])
    assert distinct.marker.symbol != shared.marker.symbol
    assert [list(row) for row in cells.z] == [[-2.0, None], [np.log10(picture.SMALLEST), 0.0]], "a gap where masked"
    assert cells.hovertemplate.startswith("4 queries around %{y}")
    assert figure.layout.coloraxis == fresh.layout.coloraxis, "the range stays, so that two maps can be compared"
