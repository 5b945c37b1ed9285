"""Attention statistics and spans, where they can be computed by hand and where ALiBi's slopes
decide them."""

import math
from itertools import product

import pytest
import torch

from alibi_viz import attention_trace, lab
from alibi_viz.measure import attention_statistics
from alibi_viz.measure.attention_sources import Words
from alibi_viz.measure.attention_statistics import attention_stats, weight_stats
from tests.measure.test_questions import equal_content
from tests.rows import each_case


@pytest.fixture(scope="module")
def text():
    """A text of random bytes."""
    generator = torch.Generator().manual_seed(0)
    train, validation = torch.randint(256, (2, 4096), dtype=torch.uint8, generator=generator)
    return lab.Text("noise", train, validation)


# Uniform attention: with zero queries, every visible key has the same weight


def in_every_head(value):
    """The value in each head of two layers, [layers, heads]."""
    return torch.as_tensor(value).expand(2, 4)


def test_uniform_attention_has_known_statistics(text):
    stats = attention_stats(equal_content("none"), text, 64, trained=16)
    visible = torch.arange(33.0, 65)  # the number of keys that each of the last 32 queries sees
    mean_distance = (visible - 1) / 2
    share_beyond = (visible - 16) / visible
    torch.testing.assert_close(stats.distance, in_every_head(mean_distance.mean()))
    torch.testing.assert_close(stats.beyond, in_every_head(share_beyond.mean()))
    torch.testing.assert_close(stats.denominator_bits, in_every_head(visible.log2().mean()))


def test_in_both_directions_the_distance_counts_later_keys(text):
    encoder = equal_content("none")
    for block in encoder.transformer.blocks:
        block.attention.causal = False
    stats = attention_stats(encoder, text, 64, trained=16, windows=2, queries=64)
    mean_distance = (64**2 - 1) / (3 * 64)  # the mean of |i - j| over all i and j
    torch.testing.assert_close(stats.distance, in_every_head(mean_distance))


# Statistics of weights, row by row

FIRST_QUERY = 7  # the five queries are the last of twelve positions
TRAINED = 6


def distance(query, weights):
    return sum(weight * (query - key) for key, weight in enumerate(weights))


def beyond(query, weights):
    return sum(weight for key, weight in enumerate(weights) if query - key >= TRAINED)


def denominator_bits(_, weights):
    return math.log2(1 / max(weights))


@pytest.fixture(scope="module")
def weights():
    """Causal weights, [batch, heads, query, key]."""
    logits = torch.randn(2, 3, 5, 12, generator=torch.Generator().manual_seed(0))
    is_later = torch.ones(5, 12, dtype=torch.bool).triu(FIRST_QUERY + 1)
    return logits.masked_fill(is_later, -math.inf).softmax(-1)


@each_case(
    ("index", "of_row"),
    {
        "distance": (0, distance),
        "beyond": (1, beyond),
        "denominator bits": (2, denominator_bits),
    },
)
def test_a_weight_statistic_is_the_mean_over_the_queries(index, of_row, weights):
    for batch, head in product((0, 1), (0, 1, 2)):
        of_queries = []
        for row, row_weights in enumerate(weights[batch, head].tolist()):
            of_queries.append(of_row(FIRST_QUERY + row, row_weights))
        measured = weight_stats(weights, TRAINED)[batch, index, head]
        assert float(measured) == pytest.approx(sum(of_queries) / 5, abs=1e-5)


# Which bytes are read


def test_sequences_with_a_spacing_end_where_longer_sequences_do(text):
    model = lab.make_model("alibi")
    spaced = attention_stats(model, text, 16, trained=8, windows=3, queries=4, spacing=64)

    ends = [text.validation[end - 16 : end] for end in (64, 128, 192)]
    text_of_ends = lab.Text("ends", text.train, torch.cat(ends))
    expected = attention_stats(model, text_of_ends, 16, trained=8, windows=3, queries=4)
    torch.testing.assert_close(vars(spaced), vars(expected))


def test_the_size_of_a_batch_does_not_change_the_result(text, monkeypatch):
    model = lab.make_model("forget")
    at_once = attention_stats(model, text, 32, trained=8, windows=5)
    # Batches of two, two and one sequences
    monkeypatch.setattr(attention_statistics, "MAX_BATCH_TOKENS", 64)
    in_parts = attention_stats(model, text, 32, trained=8, windows=5)
    torch.testing.assert_close(vars(in_parts), vars(at_once))


def test_sequences_must_not_overlap(text):
    with pytest.raises(ValueError, match="spacing must be at least the length 65, got 64"):
        attention_stats(lab.make_model(), text, 65, trained=8, spacing=64)


def test_a_text_that_is_too_short_is_named(text):
    message = "noise is too short for 8 sequences of 1,000 bytes: its validation part has 4,096"
    with pytest.raises(ValueError, match=message):
        attention_stats(lab.make_model(), text, 1000, trained=32)


# Spans

WORDS = "the cat saw the dog and the dog saw the cat " * 30
LENGTH = 330
NEGLIGIBLE = 2**-24


@pytest.fixture
def spans(monkeypatch):
    """The table of spans, one row per head."""
    # So that the queries are traced in several parts.
    monkeypatch.setattr(attention_statistics, "TRACED_WEIGHTS", 50_000)
    return lab.window_table(Words(), WORDS).set_index("head")


@pytest.fixture
def trace():
    reading = Words().read(WORDS, "random vectors", longest=LENGTH)
    return attention_trace(reading.query, reading.key, reading.slopes)


def steps_back():
    """How many steps each key is back from each query, [query, key]."""
    position = torch.arange(LENGTH)
    return position[:, None] - position


def share_beyond(trace, head, steps):
    """The largest share of a query's weight that is more than so many steps back."""
    weights = trace.weights[0, head - 1].double()
    return float((weights * (steps_back() > steps)).sum(-1).max())


def test_spans_are_those_of_the_whole_matrix_of_weights(spans, trace):
    assert tuple(spans["needed"]) == trace.spans()


def test_beyond_the_needed_span_the_weight_is_negligible(spans, trace):
    for head, needed in spans["needed"].items():
        assert share_beyond(trace, head, needed) <= NEGLIGIBLE


def test_one_step_less_than_needed_is_not_enough(spans, trace):
    for head, needed in spans["needed"].items():
        assert share_beyond(trace, head, needed - 1) > NEGLIGIBLE


def test_the_bound_is_not_below_what_is_needed(spans):
    assert (spans["needed"] <= spans["bound"]).all()


def test_the_bound_is_at_most_the_whole_text(spans):
    assert spans["bound"].max() == LENGTH - 1


def test_what_is_left_out_are_the_pairs_beyond_the_bound(spans):
    visible = int((steps_back() >= 0).sum())
    for _, row in spans.iterrows():
        beyond_the_bound = int((steps_back() > row["bound"]).sum())
        assert row["left_out"] == pytest.approx(beyond_the_bound / visible, abs=1e-9)


class Sloped(Words):
    """Words that three heads read, only one of which has a positive slope."""

    def heads(self, layer, hidden):
        query, key, _ = super().heads(layer, hidden)
        return query, key, torch.tensor([1.0, 0.0, -0.5])


def test_a_head_without_a_positive_slope_looks_at_everything():
    table = lab.window_table(Sloped(num_heads=3), WORDS)
    positive, *others = table.to_dict("records")
    assert positive["left_out"] > 0.5
    for head in others:
        assert head["bound"] == LENGTH - 1
        assert head["left_out"] == 0


def test_a_single_token_looks_at_itself():
    table = lab.window_table(Words(), "word")
    assert table["head"].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert not table[["bound", "needed", "left_out"]].any(axis=None)


def test_a_source_is_read_with_its_own_heads():
    four = lab.window_table(lab.make_model("alibi", num_layers=1, num_heads=4), "word")
    assert four["content"].tolist() == ["layer 1"] * 4
