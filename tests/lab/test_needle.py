"""The margin of a needle: compared with loops over keys, and with the needle's weight."""

import math

import pytest
import torch

from alibi_viz import lab
from alibi_viz.attention import attention_trace
from alibi_viz.lab.attention_stats import has_slopes, needle_margins
from alibi_viz.models import POSITIONS

NEEDLE = lab.TASKS["needle"]


def needle_model(position="alibi", **sizes):
    return lab.make_model(position, vocabulary=NEEDLE.vocabulary, **sizes)


def last_content(model, inputs):
    """The content logits of the last query in the first layer: [batch, heads, key]."""
    block = model.transformer.blocks[0]
    query, key, _ = block.attention.heads(block.norm_attention(model.embedding(inputs)))
    return attention_trace(query[:, :, -1:], key, None).content[:, :, 0]


@pytest.mark.parametrize("distance", [1, 2, 17])
@pytest.mark.parametrize("position", ["alibi", "decay"])
def test_margins_equal_a_loop_over_the_keys(position, distance):
    model, samples = needle_model(position), 3
    table = needle_margins(model, [distance], samples=samples, seed=5)
    inputs, _ = NEEDLE.make(samples, distance, distance + 1, torch.Generator().manual_seed(5))
    with torch.no_grad():
        content = last_content(model, inputs).double().tolist()
    slopes = model.transformer.position.slopes.tolist()
    for head, slope in enumerate(slopes):
        others = range(1, distance + 1)  # the needle is key 0
        s = sum(math.exp(-slope * (distance - j)) for j in others)
        found, weights = [], []
        for logits in (content[sample][head] for sample in range(samples)):
            mean = sum(math.exp(-slope * (distance - j)) / s * math.exp(logits[j]) for j in others)
            found.append(logits[0] - math.log(mean))
            terms = [math.exp(logit - slope * (distance - j)) for j, logit in enumerate(logits)]
            weights.append(terms[0] / sum(terms))
        (row,) = table.query("layer == 1 and head == @head + 1").to_dict("records")
        assert row["slope"] == pytest.approx(slope)
        assert row["distance"] == distance
        assert row["needed"] == pytest.approx(slope * distance + math.log(s), abs=1e-5)
        assert row["found"] == pytest.approx(sum(found) / samples, abs=1e-4)
        assert row["weight"] == pytest.approx(sum(weights) / samples, abs=1e-5)


def test_margins_in_every_layer_are_those_of_the_trained_attention():
    """The weights that the second layer applies have the log odds found - needed."""
    model = needle_model()
    inputs, _ = NEEDLE.make(1, 9, 10, torch.Generator().manual_seed(0))
    seen = []
    attention = model.transformer.blocks[1].attention
    hook = attention.register_forward_pre_hook(lambda module, arguments: seen.append(arguments[0]))
    with torch.no_grad():
        model(inputs)
        hook.remove()
        query, key, _ = attention.heads(seen[0])
        weights = attention.position.weights(query[:, :, -1:], key)[0, :, 0, 0]
    table = needle_margins(model, [9], samples=1).query("layer == 2")
    assert table["weight"].tolist() == pytest.approx(weights.tolist(), abs=1e-6)


def test_learned_slopes_count_and_other_methods_are_refused():
    assert {name for name in POSITIONS if has_slopes(lab.make_model(name))} == {"alibi", "decay"}
    learned = needle_model(learned_slopes=True)
    with torch.no_grad():
        learned.transformer.position.learned.log_slopes += math.log(2)
    slopes = needle_margins(learned, [4], samples=2)["slope"][:8]
    assert slopes.tolist() == pytest.approx([2.0**-head for head in range(8)])
    for model, method in ((needle_model("none"), "NoPosition"), (lab.modify(needle_model(), 0), "ChangedPosition")):
        with pytest.raises(ValueError, match=rf"must have fixed or learned slopes, unchanged, got .* \({method}\)"):
            needle_margins(model, [4])
    for distances, problem in (([], "have at least one integer"), ([0], "be an integer of at least 1, got 0")):
        with pytest.raises(ValueError, match=f"distances must {problem}"):
            needle_margins(needle_model(), distances)
