"""PrecisionMicroscope, driven through its traits."""

# ruff: noqa: RUF001  (captions have minus signs)

from functools import cache

import numpy as np
import pytest

from alibi_viz.figures.precision_plot import PrecisionTraces
from alibi_viz.measure.rounding import DTYPES, rounded_bias
from alibi_viz.widgets import PrecisionMicroscope
from tests.rows import each_case


@cache
def opened(form, dtype, query="last"):
    """An app that no test changes."""
    return PrecisionMicroscope(form=form, dtype=dtype, query=query)


def traces(form, dtype, query="last"):
    return PrecisionTraces(*opened(form, dtype, query).figure.data)


# The caption

EVERY_BIAS_DIFFERS = "the 64 nearest keys of query 2,047 have 64 different biases."
NO_ERROR = "No weight is wrong by more than 10^−12."


@each_case(
    ("form", "dtype", "nearest", "largest_error"),
    {
        # Numbers from 512 to 1,024 are 4 apart in bfloat16, so 8 keys share a bias of half
        # their position.
        "key, bfloat16": (
            "key",
            "bfloat16",
            "the 64 nearest keys of query 2,047 have 9 different biases.",
            "The largest error is 0.491, for query 1,036 and key 1,036: 88% instead of 39%.",
        ),
        # The biases of the last keys are small, those of the first keys large.
        "end, bfloat16": (
            "end",
            "bfloat16",
            EVERY_BIAS_DIFFERS,
            "The largest error is 0.503, for query 4 and key 4: 93% instead of 43%.",
        ),
        "relative, float32": ("relative", "float32", EVERY_BIAS_DIFFERS, NO_ERROR),
    },
)
def test_the_caption_gives_the_different_biases_and_the_largest_error(
    form, dtype, nearest, largest_error
):
    subject = f"Head 1 of 8, {form} form in {dtype}"
    assert opened(form, dtype).caption == f"{subject}: {nearest} {largest_error}"


@each_case(
    ("form", "dtype", "nearest"),
    {
        "in the middle": (
            "key",
            "bfloat16",
            "the 64 nearest keys of query 1,036 have 16 different biases.",
        ),
        "near the start": (
            "end",
            "bfloat16",
            "the 5 nearest keys of query 4 have 2 different biases.",
        ),
        "no error: the last query": ("relative", "float32", EVERY_BIAS_DIFFERS),
    },
)
def test_the_query_may_be_that_of_the_largest_error(form, dtype, nearest):
    assert nearest in opened(form, dtype, "largest error").caption


# The bias of one query, on the left


@each_case(
    ("form", "query", "first_exact", "last_exact"),
    {
        "key": ("key", "last", 1984 / 2, 2047 / 2),
        "end, last query": ("end", "last", -63 / 2, 0),
        "end, query 4": ("end", "largest error", -2047 / 2, -2043 / 2),
        "positions": ("positions", "last", -63 / 2, 0),
        "relative": ("relative", "last", -63 / 2, 0),
    },
)
def test_the_exact_bias_is_a_line_of_slope_one_half(form, query, first_exact, last_exact):
    exact = traces(form, "bfloat16", query).exact
    assert exact.y[0] == first_exact
    assert exact.y[-1] == last_exact
    assert set(np.diff(exact.y)) == {0.5}


@pytest.mark.parametrize(
    ("form", "dtype"),
    [("key", "bfloat16"), ("end", "bfloat16"), ("positions", "bfloat16"), ("relative", "float32")],
)
def test_the_steps_are_the_rounded_biases_of_the_nearest_keys(form, dtype):
    last_queries = slice(1984, 2048)
    rounded = rounded_bias(1 / 2, 2048, last_queries, dtype=DTYPES[dtype], form=form)
    steps = traces(form, dtype).rounded
    assert list(steps.x) == list(range(1984, 2048))
    assert list(steps.y) == rounded[-1, 1984:].tolist()


@each_case(
    ("form", "query"),
    {
        "most are shared": ("key", "last"),
        "few keys": ("end", "largest error"),
        "none is shared": ("relative", "last"),
    },
)
def test_biases_that_neighbors_share_are_marked(form, query):
    drawn = traces(form, "bfloat16", query)
    biases = list(drawn.rounded.y)
    shared = {
        key for key, bias in zip(drawn.rounded.x, biases, strict=True) if biases.count(bias) > 1
    }
    assert set(drawn.shared.x) == shared
    assert set(drawn.distinct.x) == set(drawn.rounded.x) - shared


def test_a_bias_that_is_shared_with_a_key_left_of_the_picture_is_marked():
    drawn = traces("key", "bfloat16", "largest error")
    first_bias = drawn.rounded.y[0]
    assert list(drawn.rounded.y).count(first_bias) == 1
    assert drawn.rounded.x[0] in drawn.shared.x


# The map of errors, on the right


def test_the_map_has_gaps_where_keys_are_masked():
    first_query = traces("relative", "bfloat16").errors.z[0]
    assert first_query[0] is not None
    assert first_query[-1] is None


def test_the_map_covers_all_tokens():
    figure = opened("relative", "bfloat16").figure
    assert figure.layout.xaxis2.range == (-0.5, 2047.5)


def test_a_cell_of_the_map_says_how_many_tokens_it_covers():
    hover = traces("relative", "bfloat16").errors.hovertemplate
    assert hover.startswith("32 queries around %{y}, 32 keys around %{x}")


def test_two_maps_have_the_same_colors():
    app = PrecisionMicroscope(form="relative")
    colors = app.figure.layout.coloraxis.to_plotly_json()
    app.form = "end"
    assert app.figure.layout.coloraxis.to_plotly_json() == colors
