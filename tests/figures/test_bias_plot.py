"""The figure of the biases reads back: colors, hover texts, color bar, titles and size."""

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from alibi_viz import alibi_bias, alibi_slopes, causal_mask
from alibi_viz.bias import FORMS
from alibi_viz.figures import bias_plot as picture
from alibi_viz.figures import theme
from alibi_viz.figures.matrices import Grid, named_trace
from alibi_viz.figures.theme import WEIGHT_SCALE, ColorScale
from tests.figures.reading import cell_colors, hovered


def grid_of(tiles: int, page_width: int = 880) -> Grid:
    return Grid(tiles, page_width - 56 - 20 - 2 * 4)  # without margins


def case(
    heads: int, length: int, form: str = "relative", causal: bool = True
) -> tuple[torch.Tensor, torch.Tensor]:
    """Bias and mask, both [heads, length, length]."""
    bias = alibi_bias(alibi_slopes(heads), length, form=form).expand(-1, length, -1)
    return bias, bias.isinf() | (
        ~causal_mask(length) if causal else torch.zeros(length, length, dtype=torch.bool)
    )


def relative_weights(bias: torch.Tensor, masked: torch.Tensor) -> np.ndarray:
    softmax = bias.masked_fill(masked, float("-inf")).softmax(-1)
    return (softmax / softmax.amax(-1, keepdim=True)).numpy()


@settings(max_examples=15)
@given(
    st.integers(1, 6),
    st.integers(2, 20),
    st.sampled_from(FORMS),
    st.booleans(),
    st.sampled_from([*picture.SHOWS]),
)
def test_each_cell_has_the_color_of_its_value(
    heads: int, length: int, form: str, causal: bool, show: str
) -> None:
    bias, masked = case(heads, length, form, causal)
    figure = picture.bias_figure(
        alibi_bias(alibi_slopes(heads), length, form=form), masked, show=show
    )  # not expanded
    seen, hidden = (
        cell_colors(figure.layout.images[0].source, grid_of(heads), length, length),
        masked.numpy(),
    )
    visible = bias[~masked].numpy()
    assert (seen[hidden] == theme.MASKED_RGBA).all()
    colors = seen[~hidden][:, :3].astype(int)
    scale, values = ColorScale.around_zero(float(visible.min()), float(visible.max())), visible
    if show == "weight":
        scale, values = WEIGHT_SCALE, relative_weights(bias, masked)[~hidden]
    wrong = np.abs(colors - scale.palette[scale.indices(values)].astype(int)).max()
    assert wrong <= 3 * (show == "weight"), "rounding may differ by one of 253 colors"
    bar = figure.layout.coloraxis.colorbar
    assert ([*bar.tickvals], [*bar.ticktext]) == (
        scale.axis["colorbar_tickvals"],
        scale.axis["colorbar_ticktext"],
    )


@pytest.mark.parametrize(
    ("heads", "length", "form"),
    [(1, 1, "relative"), (3, 5, "split"), (8, 64, "relative"), (1, 100, "end")],
)
def test_hover_texts_give_bias_and_relative_weight(heads: int, length: int, form: str) -> None:
    bias, masked = case(heads, length, form)
    weights = relative_weights(bias, masked)
    found = hovered(picture.bias_figure(bias, masked), length, length, grid_of(heads))
    assert len(found) == heads * length**2
    for (head, row, column), (query, key, distance, value, weight) in found.items():
        step = length / len(grid_of(heads).hover_cells(length, 65536 if heads == 1 else 2048))
        assert abs(query - row) < step and abs(key - column) < step, (
            "if there are many, neighbors share a text"
        )
        assert distance == abs(query - key)
        assert weight == pytest.approx(weights[head - 1, query, key].item(), rel=1e-4, abs=1e-12)
        expected = "masked" if masked[head - 1, query, key] else bias[head - 1, query, key].item()
        assert (value if isinstance(value, str) else np.float32(value)) == expected


@pytest.mark.parametrize(
    ("heads", "length"), [(1, 1), (1, 256), (2, 3), (5, 64), (12, 128), (32, 256)]
)
@pytest.mark.parametrize("page", [560, 880, 1150])
def test_tiles_are_square_and_the_figure_fits_the_page(heads: int, length: int, page: int) -> None:
    layout = picture.bias_figure(*case(heads, length), page_width=page).layout
    assert layout.width - 56 - 20 == layout.xaxis.range[1] - layout.xaxis.range[0], (
        "one unit is one pixel"
    )
    assert layout.height - 58 - 46 == layout.yaxis.range[0] - layout.yaxis.range[1], (
        "query 0 is at the top"
    )
    assert layout.width <= page and layout.height <= 640


def test_ticks_label_the_first_and_last_position_of_the_first_tile_also_if_tiles_are_small() -> (
    None
):
    layout, grid = picture.bias_figure(*case(16, 64)).layout, grid_of(16)
    for axis, start in zip((layout.xaxis, layout.yaxis), grid.corners[0], strict=True):
        named = dict(zip(axis.tickvals, axis.ticktext, strict=True))
        assert (named[start + grid.side / 128], named[start + 63.5 * grid.side / 64]) == ("0", "63")


def test_titles_omit_the_slope_in_small_tiles_and_give_the_number_of_an_enlarged_head() -> None:
    def titles(count: int, **options: object) -> list[str]:
        return list(named_trace(picture.bias_figure(*case(count, 8), **options), "titles").text)

    assert titles(32, slopes=["0.00390625"] * 32) == [f"head {head}" for head in range(1, 33)]
    assert titles(1, heads=[7]) == ["head 7"] and titles(2, heads=np.array([7, 2])) == [
        "head 7",
        "head 2",
    ]
    for options in ({"heads": [5]}, {"heads": [5, 6, 7]}, {"slopes": ["1/2"]}, {"show": "weights"}):
        with pytest.raises(
            ValueError, match=r"heads and slopes must have 2 entries|show must be one of"
        ):
            titles(2, **options)
    for bias, masked in (
        (case(2, 8)[0], case(2, 9)[1]),
        (np.zeros((2, 0, 0)), False),
        (np.zeros((2, 3, 5)), False),
    ):
        with pytest.raises(
            ValueError,
            match=r"masked must fit .* = \[2, 8, 8\]|empty, got shape \[2, (0, 0|3, 5)\]",
        ):
            picture.bias_figure(bias, masked)


def test_drawing_again_changes_the_figure_in_place_and_hover_texts_can_follow_later() -> None:
    figure = picture.bias_figure(*case(8, 64), show="bias")
    traces, add_hover = list(figure.data), picture.draw(figure, *case(2, 3))
    assert (
        named_trace(figure, "tiles").visible is False
        and named_trace(figure, "tiles").customdata is None
    )
    add_hover(figure)
    assert all(new is old for new, old in zip(figure.data, traces, strict=True))
    assert figure.to_json() == picture.bias_figure(*case(2, 3)).to_json()
