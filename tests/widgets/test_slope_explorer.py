"""SlopeExplorer, driven through its traits."""

import numpy as np
import pytest

from alibi_viz import alibi_slopes
from alibi_viz.slopes import SCHEMES
from alibi_viz.widgets import SlopeExplorer
from alibi_viz.widgets.core.formatting import format_number


@pytest.mark.parametrize("compare", [None, *SCHEMES])
@pytest.mark.parametrize("scheme", SCHEMES)
@pytest.mark.parametrize("heads", [1, 6, 8, 63, 64])
def test_figure_and_caption_give_the_slopes_for_the_traits(
    heads: int, scheme: str, compare: str | None
) -> None:
    traces = (app := SlopeExplorer()).figure.data
    app.num_heads, app.scheme, app.compare = heads, scheme, compare
    slopes, other = alibi_slopes(heads, scheme), alibi_slopes(heads, compare or scheme)
    assert all(new is old for new, old in zip(app.figure.data, traces, strict=True)), (
        "changed in place"
    )
    assert np.array_equal(app.figure.data[0].y, slopes) and app.figure.data[0].name == scheme
    assert app.figure.data[1].visible is bool(compare) and (
        not compare or np.array_equal(app.figure.data[1].y, other)
    )
    assert app.caption.startswith(f"{heads} head{'s' * (heads > 1)}, ") and app.caption.count(
        "(head "
    ) == min(heads, 2)
    for head, then in ((slopes.argmax(), "half-life"), (slopes.argmin(), "")):
        assert f"(head {head + 1}, {then}" in app.caption
    differ, factor = (
        int((slopes != other).sum()),
        (slopes.double() / other.double()).log().abs().max().exp(),
    )
    assert ("agree exactly" in app.caption) == (compare is not None and not differ)
    told = f" differ in {differ} of {heads}, by up to a factor of {format_number(factor)}."
    assert app.caption.endswith(told) == (differ > 0)
