"""Position methods compared with the formulas of their papers, as plain Python loops in float64."""

import cmath
import math
from collections.abc import Callable

import pytest
import torch
from scipy.special import expit as sigmoid

from alibi_viz import alibi_slopes
from alibi_viz.models.positions.absolute import Learned, Sinusoidal
from alibi_viz.models.positions.base import Position
from alibi_viz.models.positions.biases import (
    Alibi,
    Decay,
    Fire,
    Forget,
    KerpleLog,
    T5Buckets,
)
from alibi_viz.models.positions.rotary import (
    SCALING_RULES,
    RectifiedRotary,
    Rotary,
    ScaledRotary,
    Xpos,
    rotary_with_rule,
    yarn_frequencies,
)
from alibi_viz.models.self_attention import attend
from tests.attention.cases import normal
from tests.rows import each_case

HEADS = 3
DIM = 6  # of a head with rotary positions: three pairs of channels
SLOPES = alibi_slopes(HEADS).tolist()

# From head (0, 1, ...), query i and key j to the bias
Formula = Callable[[int, int, int], float]
Case = tuple[Position, Formula]


# Biases


def alibi():
    def bias(head, i, j):
        return -SLOPES[head] * abs(i - j)

    return Alibi(HEADS), bias


def learned_alibi():
    """After training has doubled all slopes."""
    position = Alibi(HEADS, learned_slopes=True)
    (log_slopes,) = position.parameters()
    log_slopes.data += math.log(2)

    def bias(head, i, j):
        return -2 * SLOPES[head] * abs(i - j)

    return position, bias


def decay_in_bfloat16():
    """At the training length of RetNet; the slopes are not rounded."""

    def bias(head, i, j):
        return abs(i - j) * math.log(1 - 2 ** (-5 - head))

    return Decay(HEADS).bfloat16(), bias


def decay_in_64_tokens():
    """A 32nd of RetNet's 2,048, so the distance counts 32 times."""

    def bias(head, i, j):
        return 32 * abs(i - j) * math.log(1 - 2 ** (-5 - head))

    return Decay(HEADS, 64), bias


def kerple_log():
    """With two parameters below 0.01, where they are clamped."""
    torch.manual_seed(0)
    position = KerpleLog(HEADS)
    position.p.data[0] = -5
    position.a.data[1] = -5
    p = [0.01, position.p[1].item(), position.p[2].item()]
    a = [position.a[0].item(), 0.01, position.a[2].item()]

    def bias(head, i, j):
        return -p[head] * math.log(1 + a[head] * abs(i - j))

    return position, bias


def t5_with(trained_length, max_distance):
    """The buckets of T5's code, whose last one begins below `max_distance`."""
    torch.manual_seed(0)
    position = T5Buckets(HEADS, trained_length)
    values = position.values.weight.tolist()  # [bucket, head]

    def bias(head, i, j):
        distance = abs(i - j)
        if distance < 16:
            return values[distance][head]
        share = math.log(distance / 16) / math.log(max_distance / 16)
        bucket = 16 + math.floor(16 * share + 1e-9)  # 1e-9 against rounding
        return values[min(bucket, 31)][head]

    return position, bias


def t5_of_its_paper():
    return t5_with(trained_length=512, max_distance=128)


def t5_in_128_tokens():
    return t5_with(trained_length=128, max_distance=32)


def fire():
    """Trained on 32 tokens, so tau starts at 8, and c at 0.1."""
    torch.manual_seed(0)
    position = Fire(HEADS, 32)
    first_layer = position.network[0]
    second_layer = position.network[2]
    weights_in = first_layer.weight[:, 0].tolist()
    biases_in = first_layer.bias.tolist()
    weights_out = second_layer.weight.tolist()
    biases_out = second_layer.bias.tolist()

    def bias(head, i, j):
        ratio = math.log(1 + 0.1 * abs(i - j)) / math.log(1 + 0.1 * max(i, j, 8))
        output = biases_out[head]
        for weight_in, bias_in, weight_out in zip(
            weights_in, biases_in, weights_out[head], strict=True
        ):
            hidden = max(0.0, weight_in * ratio + bias_in)
            output += weight_out * hidden
        return output

    return position, bias


@pytest.mark.parametrize(
    "case",
    [
        alibi,
        learned_alibi,
        decay_in_bfloat16,
        decay_in_64_tokens,
        kerple_log,
        t5_of_its_paper,
        t5_in_128_tokens,
        fire,
    ],
)
@pytest.mark.parametrize(("queries", "keys"), [(0, 0), (1, 1), (5, 5), (1, 140), (40, 40)])
def test_bias_equals_its_formula(case, queries, keys):
    position, formula = case()
    bias = position.bias(queries, keys)
    assert bias is not None
    assert bias.shape == (HEADS, queries, keys)
    for head in range(HEADS):
        for row in range(queries):
            query = keys - queries + row  # the queries are the last keys
            expected = [formula(head, query, key) for key in range(keys)]
            assert bias[head, row].tolist() == pytest.approx(expected, abs=2e-5, rel=1e-5)


# Around 16 and 32, where distances begin to share buckets, and far beyond
some_lengths = pytest.mark.parametrize("length", [1, 16, 31, 32, 1000])


@some_lengths
def test_a_t5_bucket_holds_neighboring_distances(length):
    buckets = T5Buckets(1, 4 * length).bucket(torch.arange(5000))
    assert bool((buckets.diff() >= 0).all())


@some_lengths
def test_no_distance_falls_into_an_untrained_t5_bucket(length):
    """A quarter of the training length is enough to meet them all."""
    buckets = T5Buckets(1, 4 * length).bucket(torch.arange(5000)).tolist()
    in_training = buckets[: max(length, 2)]
    assert set(buckets) == set(in_training)


@some_lengths
def test_far_distances_fall_into_the_last_t5_bucket(length):
    position = T5Buckets(1, 4 * length)
    assert position.bucket(torch.tensor([5000])).tolist() == [position.num_buckets - 1]


def test_t5_biases_start_small():
    torch.manual_seed(0)
    values = T5Buckets(300, 512).values.weight
    assert values.std().item() == pytest.approx(0.02, rel=0.05)


def test_parameters_of_kerple_start_below_2_and_1():
    torch.manual_seed(0)
    position = KerpleLog(3000)
    for parameter, largest in ((position.p, 2), (position.a, 1)):
        assert parameter.min().item() == pytest.approx(0, abs=0.02)
        assert parameter.max().item() == pytest.approx(largest, abs=0.02)


def test_parameters_of_kerple_go_on_learning_where_they_are_clamped():
    position = KerpleLog(HEADS)
    position.a.data[:] = -1
    position.p.data[:] = -1
    position.curve(torch.arange(4)).sum().backward()
    assert position.a.grad is not None
    assert position.p.grad is not None
    assert bool((position.a.grad < 0).all()), "a larger one makes the biases smaller"
    assert bool((position.p.grad < 0).all()), "a larger one makes the biases smaller"


# The forget gate


def forget_gate():
    forget = Forget(5, alibi_slopes(HEADS))
    torch.nn.init.normal_(forget.gate.weight, generator=torch.Generator().manual_seed(0))
    return forget


@pytest.mark.parametrize(("queries", "keys"), [(4, 4), (1, 6), (3, 7)])
def test_forget_bias_is_the_sum_of_log_gates_after_the_key(queries, keys):
    forget = forget_gate()
    x = normal(2, keys, 5, dtype=torch.float32)
    bias = forget.bias(queries, keys, x)
    log_gates = torch.from_numpy(sigmoid(forget.gate(x).double().detach().numpy())).log()
    for row in range(queries):
        query = keys - queries + row
        for key in range(query + 1):
            expected = log_gates[:, key + 1 : query + 1].sum(1)  # [batch, heads]
            torch.testing.assert_close(
                bias[:, :, row, key].double(), expected, atol=1e-5, rtol=1e-6
            )


def test_forget_needs_the_input_of_the_layer():
    with pytest.raises(ValueError, match=r"a forget gate reads the layer's input, .* got None"):
        forget_gate().bias(3, 7, None)


def test_forget_needs_the_input_at_every_key():
    with pytest.raises(ValueError, match=r"reads the layer's input, .* got shape \[2, 6, 5\]"):
        forget_gate().bias(3, 7, torch.zeros(2, 6, 5))


def test_forget_starts_as_alibi():
    forget = Forget(5, alibi_slopes(HEADS))
    x = normal(1, 20, 5, dtype=torch.float32)
    expected = Alibi(HEADS).bias(20, 20)
    torch.testing.assert_close(forget.bias(20, 20, x)[0], expected, atol=1e-5, rtol=1e-5)


def test_forget_tells_neighbors_apart_after_20000_tokens():
    """The sum over 20,000 tokens is large. Rounding it would lose the difference between two
    neighbors; powers of two would not be rounded."""
    slopes = torch.tensor([0.3, 0.1, 0.01])
    forget = Forget(5, slopes)
    bias = forget.bias(1, 20_000, torch.zeros(1, 20_000, 5))
    last_steps = bias[0, :, 0, -100:].diff()
    expected = slopes[:, None].expand_as(last_steps)
    torch.testing.assert_close(last_steps, expected, atol=1e-6, rtol=1e-4)


# Absolute positions


@pytest.mark.parametrize("position", [0, 1, 7, 1999])
def test_sinusoidal_equals_the_formula_of_the_paper(position):
    width = 10
    row = Sinusoidal(width).table(torch.tensor([position]))[0]
    expected = []
    for pair in range(width // 2):
        angle = position / 10000 ** (2 * pair / width)
        expected += [math.sin(angle), math.cos(angle)]
    assert row.tolist() == pytest.approx(expected, abs=1e-6)


def test_sinusoidal_of_an_odd_width_ends_with_a_sine():
    row = Sinusoidal(5).table(torch.tensor([3]))[0]
    assert row[-1].item() == pytest.approx(math.sin(3 / 10000 ** (4 / 5)), abs=1e-6)


def test_sinusoidal_adds_its_table_to_the_token_vectors():
    position = Sinusoidal(6)
    tokens = normal(2, 3, 6, dtype=torch.float32)
    assert torch.equal(position.embed(tokens), tokens + position.table(torch.arange(3)))


def test_learned_adds_rows_of_its_table_from_the_start_position():
    position = Learned(4, 3)
    tokens = normal(2, 2, 4, dtype=torch.float32)
    table = position.table.weight
    assert torch.equal(position.embed(tokens), tokens + table[:2])
    assert torch.equal(position.embed(tokens, start=1), tokens + table[1:])


def test_learned_is_not_defined_beyond_its_table():
    position = Learned(4, 3)
    with pytest.raises(ValueError, match="not defined beyond max_length=3, got length 4"):
        position.embed(torch.zeros(1, 1, 4), start=3)


def test_learned_positions_start_small():
    torch.manual_seed(0)
    assert Learned(64, 512).table.weight.std().item() == pytest.approx(0.02, rel=0.02)


# Rotary positions


def rotated(
    vectors,
    first,
    *,
    base=10000.0,
    slower=(1.0, 1.0, 1.0),
    scale=1.0,
):
    """Vectors at the positions first, first + 1, ..., as complex numbers.

    `slower` says how many times slower each pair turns.
    """
    positions = torch.arange(first, first + vectors.shape[-2], dtype=torch.float64)
    angles = []
    for pair in range(DIM // 2):
        frequency = base ** (-2 * pair / DIM) / slower[pair]
        angles.append(positions * frequency)
    angle = torch.stack(angles, dim=-1)  # [length, pairs]
    first_half, second_half = vectors.double().chunk(2, dim=-1)
    turned = torch.complex(first_half, second_half) * torch.polar(torch.ones_like(angle), angle)
    return scale * torch.cat((turned.real, turned.imag), dim=-1)


@pytest.mark.parametrize("position", [0, 1, 100_000])
def test_rotary_turns_pairs_exactly_also_far_away(position):
    """An angle of 100,000 in float32 would be wrong by up to 0.004."""
    vectors = normal(1, 2, 1, DIM)
    at = torch.tensor([position])
    turned = Rotary(DIM).turn(vectors, at, end=position + 1)
    torch.testing.assert_close(turned, rotated(vectors, position), atol=1e-6, rtol=1e-6)


# Trained on 8 tokens, in which only the fastest pair turns once
S = 3.0  # at 24 tokens
RULES = {
    "plain": {},
    "pi": {"slower": (S, S, S)},
    "ntk": {"base": 10000 * S ** (DIM / (DIM - 2))},
    "yarn": {"slower": (1.0, S, S), "scale": 0.1 * math.log(S) + 1},
}


@pytest.mark.parametrize("rule", SCALING_RULES)
def test_angles_follow_the_rule_beyond_the_training_length(rule):
    query = normal(1, 2, 3, DIM)
    key = normal(1, 2, 24, DIM, seed=1)
    new_query, new_key = ScaledRotary(DIM, rule, 8).rotate(query, key)
    expected_query = rotated(query, 21, **RULES[rule])
    expected_key = rotated(key, 0, **RULES[rule])
    torch.testing.assert_close(new_query, expected_query, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(new_key, expected_key, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("rule", ["pi", "ntk", "yarn"])
def test_a_rule_acts_from_the_first_token_beyond_the_training_length_on(rule):
    key = normal(1, 2, 9, DIM)
    _, new_key = ScaledRotary(DIM, rule, 8).rotate(key, key)
    assert not torch.allclose(new_key, rotated(key, 0), atol=1e-3)


@pytest.mark.parametrize("length", [3, 8])
@pytest.mark.parametrize("rule", SCALING_RULES)
def test_no_rule_changes_angles_up_to_the_training_length(rule, length):
    key = normal(1, 2, length, DIM)
    _, new_key = ScaledRotary(DIM, rule, 8).rotate(key, key)
    _, plain_key = Rotary(DIM).rotate(key, key)
    assert torch.equal(new_key, plain_key)


def test_rotary_is_the_same_when_compiled(monkeypatch):
    """Then it keeps no table of cosines."""
    key = normal(1, 2, 9, DIM)
    _, expected = Rotary(DIM).rotate(key, key)
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)
    compiled = Rotary(DIM)
    _, new_key = compiled.rotate(key, key)
    assert torch.equal(new_key, expected)
    assert compiled._tables == {}


@pytest.mark.parametrize(
    ("head_dim", "trained_length", "s"), [(16, 64, 4.0), (64, 512, 1.5), (128, 4096, 16.0)]
)
def test_yarn_equals_transformers(head_dim, trained_length, s):
    transformers = pytest.importorskip("transformers", reason="pip install transformers")
    from transformers.modeling_rope_utils import ROPE_INIT_FUNCTIONS  # noqa: PLC0415  # after importorskip

    rope = {
        "rope_type": "yarn",
        "factor": s,
        "rope_theta": 10000.0,
        "original_max_position_embeddings": trained_length,
    }
    if trained_length == 64:  # no pair turns 32 times
        rope["beta_fast"] = math.sqrt(trained_length / math.tau)
    config = transformers.LlamaConfig(
        hidden_size=2 * head_dim, num_attention_heads=2, rope_parameters=rope
    )
    frequencies, scale = ROPE_INIT_FUNCTIONS["yarn"](config, "cpu")
    scaled = ScaledRotary(head_dim, "yarn", trained_length).for_length(round(s * trained_length))
    assert scaled.scale == pytest.approx(scale)
    torch.testing.assert_close(scaled.frequencies.float(), frequencies)


@pytest.mark.parametrize("trained_length", [1, 2, 7])
def test_yarn_at_very_short_lengths_keeps_only_the_fastest_pair(trained_length):
    scaled = yarn_frequencies(8, trained_length, s=4.0)
    unscaled = yarn_frequencies(8, trained_length, s=1.0)
    assert (scaled / unscaled).tolist() == pytest.approx([1.0, 0.25, 0.25, 0.25])


@each_case(
    ("head_dim", "rule", "trained_length", "message"),
    {
        "odd": (7, "pi", 8, "head_dim must be even, got 7"),
        "rule": (6, "linear", 8, "rule .* must be one of .*, got 'linear'"),
        "length": (6, "pi", 0, "trained_length must be .* at least 1, got 0"),
        "one pair": (2, "ntk", 8, "head_dim must be above 2, got 2"),
        "odd, rerope": (7, "rerope", 8, "head_dim must be even, got 7"),
        "length, rerope": (6, "rerope", 0, "trained_length must be .* 1, got 0"),
    },
)
def test_invalid_settings_of_rotary_positions_are_named(head_dim, rule, trained_length, message):
    with pytest.raises(ValueError, match=message):
        rotary_with_rule(head_dim, rule, trained_length)


def rectified_logit(query, key, distance, trained_length):
    """The logit of one query and key [DIM], by ReRoPE from a distance of L - 1 on."""
    farthest = trained_length - 1
    turning_distance = max(-farthest, min(distance, farthest))
    query = query.double()
    key = key.double()
    total = 0.0
    for pair in range(DIM // 2):
        first = pair
        second = pair + DIM // 2
        q = complex(query[first], query[second])
        k = complex(key[first], key[second])
        angle = turning_distance * 10000 ** (-2 * pair / DIM)
        total += (q * k.conjugate() * cmath.exp(1j * angle)).real
    return total / math.sqrt(DIM)


@pytest.mark.parametrize(
    ("trained_length", "query_length", "causal"),
    [(1, 5, True), (4, 1, True), (4, 12, True), (4, 12, False), (11, 5, False)],
)
def test_angles_of_rerope_stop_at_the_largest_distance_of_training(
    trained_length, query_length, causal
):
    length = 12
    query = normal(1, 2, query_length, DIM)
    key = normal(1, 2, length, DIM, seed=1)
    logits = RectifiedRotary(DIM, trained_length).logits(query, key, causal=causal)
    for head in range(2):
        for row in range(query_length):
            i = length - query_length + row
            for j in range(length):
                expected = rectified_logit(
                    query[0, head, row], key[0, head, j], i - j, trained_length
                )
                if causal and j > i:
                    expected = -math.inf
                assert logits[0, head, row, j] == pytest.approx(expected, abs=1e-5)


@pytest.mark.parametrize("length", [3, 8])
def test_rerope_attends_as_plain_rotary_up_to_the_training_length(length):
    query, key, value = normal(3, 2, 4, length, DIM)
    rectified = attend(RectifiedRotary(DIM, 8), query, key, value, causal=True)
    plain = attend(Rotary(DIM), query, key, value, causal=True)
    torch.testing.assert_close(rectified, plain, atol=1e-6, rtol=1e-5)


def test_rerope_attends_with_its_own_logits():
    """Four heads share two heads of keys and values."""
    query = normal(1, 4, 9, DIM)
    key, value = normal(2, 1, 2, 9, DIM, seed=1)
    position = RectifiedRotary(DIM, 4)
    attended = attend(position, query, key, value, causal=True)
    weights = position.logits(query, key).softmax(-1).to(value.dtype)
    for head in range(4):
        expected = weights[:, head] @ value[:, head // 2]
        torch.testing.assert_close(attended[:, head], expected, atol=1e-6, rtol=1e-5)


@pytest.mark.parametrize(("i", "j"), [(5, 5), (6, 2), (2048, 1), (4096, 4000), (4096, 0)])
def test_xpos_logits_are_rotary_logits_times_a_power(i, j):
    """z_k^((i - j) / 512), with z_k = (2k / DIM + 0.4) / 1.4 for pair k."""
    query = normal(1, 1, 4097, DIM)
    key = normal(1, 1, 4097, DIM, seed=1)
    new_query, new_key = Xpos(DIM).rotate(query, key)
    logit = new_query[0, 0, i] @ new_key[0, 0, j]

    rotary_query = rotated(query[0, 0, i : i + 1], i)[0]
    rotary_key = rotated(key[0, 0, j : j + 1], j)[0]
    expected = 0.0
    for pair in range(DIM // 2):
        z = (2 * pair / DIM + 0.4) / 1.4
        for channel in (pair, pair + DIM // 2):
            product = float(rotary_query[channel] * rotary_key[channel])
            expected += z ** ((i - j) / 512) * product
    assert float(logit) == pytest.approx(expected, abs=1e-4, rel=1e-4)


each_longest_text = each_case(
    ("dtype", "longest"),
    {
        "float32": (torch.float32, 32768),
        "bfloat16": (torch.bfloat16, 32768),
        "float16": (torch.float16, 2048),
    },
)


@each_longest_text
def test_xpos_is_finite_at_its_longest_text(dtype, longest):
    """Also the products of masked pairs, where the factor grows: -inf is added to them, and inf -
    inf is NaN."""
    vectors = normal(2, 1, 1, longest, 16).to(dtype)
    query, key = Xpos(16).rotate(vectors[0], vectors[1])
    assert bool(query.isfinite().all())
    assert bool(key.isfinite().all())
    some_queries = query[0, 0, [0, 1, longest // 2, longest - 1]]
    assert bool((some_queries @ key[0, 0].mT).isfinite().all())


def test_xpos_counts_positions_from_the_middle():
    """From the first token, the largest factor would be 3.5^64."""
    growth_at_the_ends = 3.5**32  # of pair 0: 1.4 / 0.4 for each 512 of 16,384 tokens
    ones = torch.ones(1, 1, 32768, 2)
    query, key = Xpos(2).rotate(ones, ones)
    for vectors in (query, key):
        largest = vectors.norm(dim=-1).max().item()
        assert largest == pytest.approx(math.sqrt(2) * growth_at_the_ends, rel=0.01)


@each_longest_text
def test_xpos_is_not_defined_for_longer_texts(dtype, longest):
    vectors = torch.zeros(1, 1, longest + 1, 16, dtype=dtype)
    message = f"xPos in {dtype} is not defined beyond {longest} tokens, got {longest + 1}"
    with pytest.raises(ValueError, match=message):
        Xpos(16).rotate(vectors, vectors)
