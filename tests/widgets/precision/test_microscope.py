"""PrecisionMicroscope, driven through its traits."""

import math

import numpy as np
import pytest

from alibi_viz.widgets import PrecisionMicroscope
from alibi_viz.widgets.core.traits import BadValue


def test_key_form_in_bfloat16_collides_near_the_query():
    app = PrecisionMicroscope()
    assert app.caption == (
        "Head 1 of 8, slope 1/2, 2,048 tokens, key form, m j, in bfloat16. On the left is query 2,047. Its 64 nearest "
        "keys have 9 different biases; all of them share theirs with a neighbor. Just below 1,024, bfloat16 has "
        "only multiples of 4, while neighboring biases differ by 1/2. The nearest keys with equal biases are 0 to 3 "
        "tokens back. On the right, with equal content the largest error of a weight is 0.49, for query 1,036 and key "
        "1,036: 88% instead of 39%. A cell shows the largest error of 32 x 32 weights."
    )
    exact, steps, distinct, shared, cells = app.figure.data
    assert (exact.x[0], exact.x[-1], exact.y[-1], steps.y[-1]) == (1984, 2047, 1023.5, 1024)
    assert (len(distinct.x), len(shared.x), len(cells.z)) == (0, 64, 64)


def test_relative_form_collides_only_far_away():
    app = PrecisionMicroscope(form="relative", head=8)
    assert "64 nearest keys have 64 different biases." in app.caption
    assert "equal biases are 256 and 257 tokens back, where a key has 37% of the weight" in app.caption
    assert f"the largest error of a weight is 8.8 x 10^{chr(0x2212)}6" in app.caption
    assert "has only multiples" not in app.caption
    assert len(app.figure.data[3].x) == 0
    assert "no weight is wrong by more than 10^" in PrecisionMicroscope(form="relative").caption


def test_positions_rounded_first_collide_as_positions():
    caption = PrecisionMicroscope(form="positions").caption
    assert "Just below 2,047, bfloat16 has only multiples of 8, while neighboring positions differ by 1." in caption


def test_query_with_the_largest_error_is_early_in_the_end_form():
    app = PrecisionMicroscope(form="end")
    assert "On the left is query 2,047. Its 64 nearest keys have 64 different biases." in app.caption
    app.query = "largest error"
    assert "On the left is query 4. Its 5 nearest keys have 2 different biases; 4 of them share" in app.caption
    assert app.figure.layout.annotations[0].text == "<b>bias of query 4</b>"
    assert list(app.figure.data[0].y) == [(key - 2047) / 2 for key in range(5)]


@pytest.mark.parametrize("form", ["key", "end", "positions", "relative"])
def test_exact_line_stays_close_to_the_rounded_steps(form):
    app = PrecisionMicroscope(form=form, length=700, query="largest error")
    exact, steps = (np.array(app.figure.data[trace].y) for trace in (0, 1))
    assert np.abs(exact - steps).max() <= (2 if form == "positions" else 1)


def test_float32_has_errors_with_random_content_only():
    app = PrecisionMicroscope(dtype="float32")
    assert "with equal content no weight is wrong" in app.caption
    app.content = "random"
    assert "with random content the largest error of a weight is 1." in app.caption


@pytest.mark.parametrize("length", [1, 2, 64, 65, 4096])
def test_every_length_is_drawn(length):
    app = PrecisionMicroscope(length=length)
    assert len(app.figure.data[0].x) == min(length, 64)
    cells = len(app.figure.data[4].z)
    assert cells == math.ceil(length / math.ceil(length / 64))
    assert ("sees only itself" in app.caption) == (length == 1)


def test_head_follows_when_heads_are_removed_and_others_raise():
    app = PrecisionMicroscope(num_heads=12, head=12, length=64)
    app.num_heads = 4
    assert app.head == 4
    with pytest.raises(BadValue, match="head must be an integer from 1 to num_heads=4, got 5"):
        app.head = 5
    with pytest.raises(BadValue, match="length must be an integer from 1 to 4096, got 4097"):
        app.length = 4097
    assert repr(app) == (
        "PrecisionMicroscope(num_heads=4, head=4, length=64, dtype='bfloat16', form='key', content='equal', "
        "query='last')"
    )
