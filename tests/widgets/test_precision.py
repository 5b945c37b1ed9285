"""PrecisionMicroscope, driven through its traits."""

import math

import numpy as np
import pytest

from alibi_viz.widgets import PrecisionMicroscope
from alibi_viz.widgets.core.traits import BadValue


def test_key_form_in_bfloat16_collides_near_the_query():
    app = PrecisionMicroscope()
    assert app.caption == (
        "Head 1 of 8, slope 1/2, 2,048 tokens, key form, m j, in bfloat16. The 64 nearest keys of query 2,047 have 9 "
        "different biases, because bfloat16 has only multiples of 4 just below 1,024, while neighboring biases differ "
        "by 1/2. The largest error of a weight is 0.491, for query 1,036 and key 1,036: 88% instead of 39%; a cell "
        "shows the largest of 32 x 32."
    )
    exact, steps, distinct, shared, cells = app.figure.data
    assert (exact.x[0], exact.x[-1], exact.y[-1], steps.y[-1]) == (1984, 2047, 1023.5, 1024)
    assert (len(distinct.x), len(shared.x), len(cells.z)) == (0, 64, 64)


def test_relative_form_is_exact_near_the_query():
    app = PrecisionMicroscope(form="relative", head=8)
    assert "query 2,047 have 64 different biases. The largest error of a weight is 8.79 x 10^" in app.caption
    assert len(app.figure.data[3].x) == 0
    assert "No weight is wrong by more than 10^" in PrecisionMicroscope(form="relative").caption


def test_positions_rounded_first_collide_as_positions():
    caption = PrecisionMicroscope(form="positions").caption
    assert "only multiples of 8 just below 2,047, while neighboring positions differ by 1." in caption


def test_query_with_the_largest_error_is_early_in_the_end_form():
    app = PrecisionMicroscope(form="end")
    assert "The 64 nearest keys of query 2,047 have 64 different biases." in app.caption
    app.query = "largest error"
    assert "The 5 nearest keys of query 4 have 2 different biases" in app.caption
    assert list(app.figure.data[0].y) == [(key - 2047) / 2 for key in range(5)]


@pytest.mark.parametrize("form", ["key", "end", "positions", "relative"])
def test_exact_line_stays_close_to_the_rounded_steps(form):
    app = PrecisionMicroscope(form=form, length=700, query="largest error")
    exact, steps = (np.array(app.figure.data[trace].y) for trace in (0, 1))
    assert np.abs(exact - steps).max() <= (2 if form == "positions" else 1)


@pytest.mark.parametrize("length", [1, 2, 65, 4096])
def test_every_length_is_drawn(length):
    app = PrecisionMicroscope(length=length, dtype="float32", content="random")
    assert len(app.figure.data[0].x) == min(length, 64)
    assert len(app.figure.data[4].z) == math.ceil(length / math.ceil(length / 64))
    assert ("sees only itself" in app.caption) == (length == 1)


def test_head_follows_when_heads_are_removed_and_others_raise():
    app = PrecisionMicroscope(num_heads=12, head=12, length=64)
    app.num_heads = 4
    assert app.head == 4
    with pytest.raises(BadValue, match="head must be an integer from 1 to num_heads=4, got 5"):
        app.head = 5
    assert repr(app) == (
        "PrecisionMicroscope(num_heads=4, head=4, length=64, dtype='bfloat16', form='key', content='equal', "
        "query='last')"
    )
