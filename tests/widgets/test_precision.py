"""PrecisionMicroscope, driven through its traits."""

import numpy as np
import pytest

from alibi_viz.precision import DTYPES, FORMS
from alibi_viz.widgets import PrecisionMicroscope


def test_other_forms_collide_elsewhere_or_not_at_all() -> None:
    app = PrecisionMicroscope(form="relative")
    assert "query 2,047 have 64 different biases. No weight is wrong by more than 10^" in app.caption
    cells, colors = app.figure.data[4], app.figure.layout.coloraxis.to_plotly_json()
    assert len(app.figure.data[3].x) == 0 and cells.z[0][-1] is None, "a gap where masked"
    assert cells.hovertemplate.startswith("32 queries around %{y}, 32 keys around %{x}")
    app.form, app.query = "end", "largest error"
    assert "the 5 nearest keys of query 4 have 2 different biases." in app.caption
    assert list(app.figure.data[0].y) == [(key - 2047) / 2 for key in range(5)]
    assert app.figure.layout.coloraxis.to_plotly_json() == colors, "the range stays, so that two maps can be compared"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_exact_line_stays_close_to_the_rounded_steps(form: str, dtype: str) -> None:
    app = PrecisionMicroscope(form=form, dtype=dtype, query="largest error")
    exact, steps = (np.array(app.figure.data[trace].y) for trace in (0, 1))
    assert np.abs(exact - steps).max() <= 4
