"""The small pictures show what the library computes."""

import math

import numpy as np
import pytest
import torch

import alibi_viz as av
from alibi_viz.models.positions.relative import KerpleLog
from alibi_viz.models.positions.rotary import Rotary
from alibi_viz.widgets import AddConstant, Forgetting, PositionZoo, TugOfWar
from alibi_viz.widgets.core.traits import BadValue


def test_weights_halve_after_the_half_life():
    for half_life in (1, 7, 32):
        bars = Forgetting(half_life=half_life, text="word " * 40).figure.data[0].y[::-1]
        np.testing.assert_allclose(bars, 0.5 ** (np.arange(40) / half_life))
    app = Forgetting(half_life=1, text='an "unbelievably_long" <word>')
    assert app.figure.layout.xaxis.ticktext == ("an", '"unbelievably_l…', "&lt;word&gt;")
    assert (
        " 1 word back" in app.caption
        and "keeps under 0.1%" in Forgetting(half_life=1, text="word " * 40).caption
    )
    with pytest.raises(BadValue, match="a text of 2 to 40 words, got 'one'"):
        Forgetting(text="two words").text = "one"


def test_a_constant_in_a_row_changes_no_weight_and_in_a_column_all_rows_that_see_it():
    before = np.nan_to_num(AddConstant(constant=0).figure.data[1].z.astype(float))
    for index in range(6):
        row, column = (
            AddConstant(where=where, index=index, constant=5) for where in ("row", "column")
        )
        np.testing.assert_allclose(
            np.nan_to_num(row.figure.data[1].z.astype(float)), before, atol=1e-6
        )
        changed = (
            np.abs(np.nan_to_num(column.figure.data[1].z.astype(float)) - before).max(1) > 1e-3
        )
        assert list(changed) == [query >= max(index, 1) for query in range(6)], (
            "row 0 has one key: always 1"
        )
        assert f"in {changed.sum()} of 6 rows" in column.caption and "cancels" in row.caption
    assert AddConstant(where="column", constant=0).caption.endswith("Nothing is added.")


@pytest.mark.parametrize(
    ("head", "content", "distance"), [(1, 4, 8), (3, 4, 16), (8, 12, 255), (1, 0, 255)]
)
def test_the_match_gets_the_weight_that_a_softmax_gives_it(head, content, distance):
    app = TugOfWar(head=head, content=content, distance=distance)
    logits = av.alibi_bias(av.alibi_slopes(8)[head - 1 : head], 1, 256)[0, 0]
    logits[255 - distance] += content
    assert app.figure.data[2].y[0] == pytest.approx(
        logits.softmax(-1)[255 - distance].item(), abs=1e-6
    )
    cost = distance / 2**head
    assert app.figure.layout.shapes[0].visible == (1 <= content * 2**head < 256), (
        "where the two tie"
    )
    assert app.caption.startswith(
        "Content" if content > cost else "Distance" if content < cost else "A tie"
    )


def test_the_zoo_draws_the_logits_of_the_methods():
    def curve(method: str) -> np.ndarray:
        return PositionZoo(method=method).figure.data[0].y

    distance = torch.arange(256)
    np.testing.assert_allclose(
        curve("alibi")[::-1], av.alibi_bias(av.alibi_slopes(8)[3:4], 1, 256)[0, 0], atol=1e-6
    )
    kerple = KerpleLog(1)
    torch.nn.init.ones_(kerple.p), torch.nn.init.ones_(kerple.a)
    np.testing.assert_allclose(curve("kerple-log"), kerple.curve(distance)[0].detach(), rtol=1e-6)
    query, key = Rotary(8).transform(torch.ones(1, 1, 1, 8), torch.ones(1, 1, 256, 8))
    np.testing.assert_allclose(curve("rotary")[::-1], (key @ query.mT)[0, 0, :, 0] - 8, atol=1e-5)
    waves = np.cos(
        np.arange(256)[:, None] * 10_000.0 ** (-np.arange(32) / 32)
    )  # of the cosines, 32 of 64 channels
    np.testing.assert_allclose(curve("sinusoidal"), 8 * waves.mean(1) - 8, atol=1e-5)
    assert (
        not curve("none").any()
        and "logit 0.0." in PositionZoo(method="kerple-log", distance=0).caption
    )
    np.testing.assert_array_equal(
        curve("t5"), -distance.clamp(max=15) / 16, "as in a model trained on 64 tokens"
    )


@pytest.mark.parametrize(
    ("method", "count", "of"), [("rotary", 4, "the four hands"), ("sinusoidal", 32, "32 waves")]
)
def test_a_hand_or_wave_is_new_where_no_distance_of_training_has_turned_it(method, count, of):
    seen, app = torch.arange(0, 63.001, 0.001, dtype=torch.float64), PositionZoo(method=method)
    for app.distance in (0, 30, 63, 64, 100, 255):
        new = 0
        for speed in 10_000.0 ** (-np.arange(count) / count):
            gap = (seen * speed - app.distance * speed).remainder(2 * math.pi)
            new += int(torch.minimum(gap, 2 * math.pi - gap).min() > 1e-3 * speed)
        assert f" {new} of {of}" in app.caption
        assert method == "sinusoidal" or ("is a new distance" in app.caption) == (app.distance > 63)
    app = PositionZoo(
        method="rotary", distance=63
    )  # the last of training: what was seen ends at the slow hands
    seen, hands = (app.figure.data[trace].y.reshape(4, -1)[2:, -2] for trace in (4, 5))
    np.testing.assert_allclose(seen / 0.4, hands / 0.36, atol=1e-6)
