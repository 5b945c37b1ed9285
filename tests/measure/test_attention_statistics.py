"""Attention statistics and spans, where they can be computed by hand and where ALiBi's slopes
decide them."""

import math
from unittest.mock import Mock

import pytest
import torch

from alibi_viz import attention_trace, lab
from alibi_viz.measure import attention_statistics as module
from alibi_viz.measure.attention_sources import Reading, Words
from alibi_viz.measure.attention_statistics import attention_stats, head_spans, weight_stats
from tests.measure.test_questions import equal_content

TEXT = "the cat saw the dog and the dog saw the cat " * 30


def test_uniform_attention_has_known_statistics():
    """With zero queries every visible key has the same weight."""
    stats, keys = (
        attention_stats(equal_content("none"), lab.load_text(), 64, trained=16),
        torch.arange(33.0, 65),
    )
    expected = (
        (keys - 1) / 2,
        (keys - 16) / keys,
        keys.log2(),
    )  # for the keys that each of the last 32 queries sees
    for measured, each in zip(vars(stats).values(), expected, strict=True):
        torch.testing.assert_close(measured, each.mean().expand(2, 8))
    encoder = equal_content("none")
    for block in encoder.transformer.blocks:
        block.attention.causal = False
    stats = attention_stats(encoder, lab.load_text(), 64, trained=16, windows=2, queries=64)
    torch.testing.assert_close(
        stats.distance, torch.full((2, 8), (64**2 - 1) / (3 * 64))
    )  # the mean of |i - j|


def test_weight_statistics_equal_a_loop():
    weights = (
        torch.randn(2, 3, 5, 12)
        .tril(7)
        .masked_fill(torch.ones(5, 12).triu(8).bool(), -math.inf)
        .softmax(-1)
    )
    distance, beyond, bits = weight_stats(weights, trained=6).mean(0).tolist()
    for head in range(3):
        rows = [
            (i, weights[batch, head, i - 7].tolist()) for batch in range(2) for i in range(7, 12)
        ]
        loops = [
            (distance, lambda i, row: sum(w * (i - j) for j, w in enumerate(row))),
            (beyond, lambda i, row: sum(w for j, w in enumerate(row) if i - j >= 6)),
            (bits, lambda i, row: math.log2(1 / max(row))),
        ]
        for measured, statistic in loops:
            assert measured[head] == pytest.approx(
                sum(statistic(i, row) for i, row in rows) / 10, abs=1e-5
            )


def test_windows_with_a_spacing_end_where_longer_windows_do_and_batches_of_any_size_agree(
    monkeypatch,
):
    model, text = lab.make_model("alibi"), lab.load_text()
    spaced = attention_stats(model, text, 16, trained=8, windows=3, queries=4, spacing=64)
    ends = torch.cat([text.validation[end - 16 : end] for end in (64, 128, 192)])
    expected = attention_stats(
        model, lab.Text("ends", text.train, ends), 16, trained=8, windows=3, queries=4
    )
    torch.testing.assert_close(spaced.distance, expected.distance)
    model = lab.make_model("forget")
    at_once = attention_stats(model, text, 32, trained=8, windows=5)
    monkeypatch.setattr(module, "MAX_BATCH_TOKENS", 64)
    in_parts = attention_stats(model, text, 32, trained=8, windows=5)  # 2, 2 and 1
    torch.testing.assert_close(vars(in_parts), vars(at_once))


def test_a_short_text_is_named():
    model, text = lab.make_model(), lab.load_text()
    with pytest.raises(ValueError, match="spacing must be at least the length 65, got 64"):
        attention_stats(model, text, 65, trained=8, spacing=64)
    with pytest.raises(ValueError, match="8 sequences of 100000 bytes need 800,000"):
        attention_stats(model, text, 100_000, trained=32)


@pytest.mark.parametrize("content", Words.contents)
def test_windows_are_those_of_the_whole_matrix_of_weights(
    content: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        module, "_TRACED", 50_000
    )  # so that the queries are traced in several parts
    reading = Words().read(TEXT, content, num_heads=4, longest=4096)
    table, trace = head_spans(reading), attention_trace(reading.query, reading.key, reading.slopes)
    assert tuple(table["needed"]) == trace.spans()
    length = len(reading.tokens)
    assert (table["needed"] <= table["bound"]).all() and table["bound"].max() == length - 1
    distance = torch.arange(length)[:, None] - torch.arange(length)
    for head, bound, needed, left_out in table[["head", "bound", "needed", "left_out"]].itertuples(
        index=False
    ):
        weights = trace.weights[0, head - 1].double()
        assert float((weights * (distance > bound)).sum(-1).max()) <= 2**-24
        assert float((weights * (distance >= needed)).sum(-1).max()) > 2**-24, (
            "one step less would not be enough"
        )
        assert left_out == pytest.approx(
            float((distance > bound).sum()) / float((distance >= 0).sum()), abs=1e-9
        )


def test_head_without_a_positive_slope_looks_at_everything_and_a_single_token_at_itself() -> None:
    query = key = torch.zeros(1, 3, 200, 4)
    table = head_spans(Reading(["a"] * 200, query, key, torch.tensor([1.0, 0.0, -0.5]), 200, ""))
    assert table["bound"].tolist()[1:] == [199, 199] and table["left_out"].tolist()[1:] == [0, 0]
    assert table["left_out"][0] > 0.5
    table = lab.window_table(Words(), "word")
    assert set(table["head"]) == {*range(1, 9)} and (
        table[["bound", "needed", "left_out"]] == 0
    ).all(axis=None)
    source = Mock(contents=["equal"], num_heads=None, read=Mock(wraps=Words().read))
    assert lab.window_table(source, "word")["content"].tolist() == ["equal"] * 8
    source.read.assert_called_once_with("word", "equal", 8, 4096)
