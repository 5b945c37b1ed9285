"""PrecisionMicroscope, driven through its traits."""

import pytest

from alibi_viz.measure.rounding import DTYPES, FORMS, rounded_bias, weight_errors
from alibi_viz.widgets import PrecisionMicroscope
from alibi_viz.widgets.core.formatting import format_number, format_percent


def test_other_forms_collide_elsewhere_or_not_at_all() -> None:
    app = PrecisionMicroscope(form="relative")
    cells, colors = app.figure.data[4], app.figure.layout.coloraxis.to_plotly_json()
    assert (cells.z[0][-1], app.figure.layout.xaxis2.range) == (None, (-0.5, 2047.5)), (
        "a gap where masked"
    )
    assert cells.hovertemplate.startswith("32 queries around %{y}, 32 keys around %{x}")
    app.form, app.query = "end", "largest error"
    assert "the 5 nearest keys of query 4 have 2 different biases." in app.caption
    assert app.figure.layout.coloraxis.to_plotly_json() == colors, (
        "the range stays, so that two maps can be compared"
    )


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_figure_and_caption_give_the_rounded_biases_of_a_query_and_the_largest_error(
    form: str, dtype: str
) -> None:
    app = PrecisionMicroscope(
        form=form, dtype=dtype, query="last" if dtype == "float16" else "largest error"
    )
    errors = weight_errors(1 / 2, 2048, dtype=DTYPES[dtype], form=form)
    query = 2047 if dtype == "float16" or errors.negligible else errors.query
    rounded = rounded_bias(1 / 2, 2048, dtype=DTYPES[dtype], form=form)[query, : query + 1].tolist()
    exact = [(key - {"key": 0, "end": 2047}.get(form, query)) / 2 for key in range(query + 1)]
    shared = [
        rounded[key] in rounded[max(0, key - 1) : key] + rounded[key + 1 : key + 2]
        for key in range(query + 1)
    ]
    shown = [*zip(range(query + 1), exact, rounded, shared, strict=True)][-64:]
    curves = [[*zip(trace.x, trace.y, strict=True)] for trace in app.figure.data[:4]]
    assert curves[:2] == [
        [(key, line) for key, line, *_ in shown],
        [(key, step) for key, _, step, _ in shown],
    ]
    assert curves[2:] == [
        [(key, step) for key, _, step, same in shown if same == square] for square in (False, True)
    ]
    nearest = (
        f"the {len(shown)} nearest keys of query {query:,} have {len(set(rounded[-64:]))} "
        "different biases"
    )
    wrong, right = format_percent(errors.weight), format_percent(errors.exact)
    place = f"query {errors.query:,} and key {errors.key:,}" + f": {wrong} instead of {right}" * (
        wrong != right
    )
    largest = f"The largest error is {format_number(errors.largest)}, for {place}."
    largest = (
        "No weight is wrong by more than 10^\N{MINUS SIGN}12." if errors.negligible else largest
    )
    assert app.caption == f"Head 1 of 8, {form} form in {dtype}: {nearest}. {largest}"
