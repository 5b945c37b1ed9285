"""PrecisionMicroscope, driven through its traits."""

import numpy as np
import pytest

from alibi_viz.precision import DTYPES, FORMS
from alibi_viz.widgets import PrecisionMicroscope


def test_key_form_in_bfloat16_collides_near_the_query() -> None:
    app = PrecisionMicroscope()
    assert "the 64 nearest keys of query 2,047 have 9 different biases." in app.caption
    assert "is 0.491, for query 1,036 and key 1,036: 88% instead of 39%." in app.caption
    exact, steps, distinct, shared, cells = app.figure.data
    assert (exact.x[0], exact.x[-1], exact.y[-1], steps.y[-1]) == (1984, 2047, 1023.5, 1024)
    assert (len(distinct.x), len(shared.x), len(cells.z)) == (0, 64, 64)


def test_other_forms_collide_elsewhere_or_not_at_all() -> None:
    app = PrecisionMicroscope(form="relative")
    assert "query 2,047 have 64 different biases. No weight is wrong by more than 10^" in app.caption
    assert len(app.figure.data[3].x) == 0
    app.form, app.query = "end", "largest error"
    assert "the 5 nearest keys of query 4 have 2 different biases." in app.caption
    assert list(app.figure.data[0].y) == [(key - 2047) / 2 for key in range(5)]


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("form", FORMS)
def test_exact_line_stays_close_to_the_rounded_steps(form: str, dtype: str) -> None:
    app = PrecisionMicroscope(form=form, dtype=dtype, query="largest error")
    exact, steps = (np.array(app.figure.data[trace].y) for trace in (0, 1))
    assert np.abs(exact - steps).max() <= 4
