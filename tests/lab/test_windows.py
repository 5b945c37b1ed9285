"""How far the heads of a model look in a text: the table, and what it promises."""

import pytest
import torch

from alibi_viz import alibi_attention, attention_trace, lab
from alibi_viz.lab import attention_stats as module
from alibi_viz.lab.attention_sources import Reading, Words

TEXT = "the cat saw the dog and the dog saw the cat " * 30


@pytest.mark.parametrize("content", Words.contents)
def test_windows_are_those_of_the_whole_matrix_of_weights(content: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "_TRACED", 50_000)  # so that the queries are traced in several parts
    reading = Words().read(TEXT, content, num_heads=4, longest=4096)
    table = module.head_spans(reading)
    trace = attention_trace(reading.query, reading.key, reading.slopes)
    assert tuple(table["needed"]) == trace.spans()
    length = len(reading.tokens)
    assert (table["needed"] <= table["bound"]).all() and table["bound"].max() == length - 1
    distance = torch.arange(length)[:, None] - torch.arange(length)
    for head, bound, needed, left_out in table[["head", "bound", "needed", "left_out"]].itertuples(index=False):
        weights = trace.weights[0, head - 1].double()
        assert float((weights * (distance > bound)).sum(-1).max()) <= 2**-24
        assert float((weights * (distance >= needed)).sum(-1).max()) > 2**-24, "one step less would not be enough"
        pairs = float((distance > bound).sum()) / float((distance >= 0).sum())
        assert left_out == pytest.approx(pairs, abs=1e-9)


def test_steep_heads_of_a_long_text_leave_most_of_it_out_and_the_result_stays() -> None:
    reading = Words().read("word " * 2000, "random", num_heads=8, longest=4096)
    table = module.head_spans(reading)
    assert table["left_out"].is_monotonic_decreasing
    assert table["left_out"].iloc[0] > 0.9 and table["left_out"].iloc[-1] == 0
    arguments = reading.query, reading.key, reading.key, reading.slopes
    difference = alibi_attention(*arguments, backend="windowed") - alibi_attention(*arguments, backend="eager")
    assert float(difference.abs().max()) < 5e-6


def test_table_has_a_row_per_layer_and_head_of_a_model() -> None:
    model = lab.make_model("alibi")
    table = lab.window_table(model, TEXT, longest=300)
    assert list(table.columns) == ["content", "head", "slope", "bound", "needed", "left_out"]
    assert table["content"].tolist() == ["layer 1"] * 8 + ["layer 2"] * 8
    assert table["head"].tolist() == [*range(1, 9)] * 2
    assert table["slope"].tolist() == [2**-head for head in range(1, 9)] * 2
    assert table["bound"].max() == 299


def test_head_without_a_positive_slope_looks_at_everything_and_a_single_token_at_itself() -> None:
    query = key = torch.zeros(1, 3, 200, 4)
    reading = Reading(["a"] * 200, query, key, torch.tensor([1.0, 0.0, -0.5]), 200, "")
    table = module.head_spans(reading)
    assert table["bound"].tolist()[1:] == [199, 199] and table["left_out"].tolist()[1:] == [0, 0]
    assert table["left_out"][0] > 0.5
    table = lab.window_table(Words(), "word", num_heads=2)
    assert (table[["bound", "needed", "left_out"]] == 0).all(axis=None)


def test_bad_input_raises() -> None:
    with pytest.raises(ValueError, match="text must have at least one byte, got ''"):
        lab.window_table(lab.make_model("alibi"), "")
    with pytest.raises(ValueError, match="longest must be an integer of at least 1, got 0"):
        lab.window_table(Words(), TEXT, longest=0)
    with pytest.raises(ValueError, match="position 'alibi', got 'rotary'"):
        lab.window_table(lab.make_model("rotary"), TEXT)
