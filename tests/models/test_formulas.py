"""Position methods compared with the formulas of their papers, as plain Python loops in float64."""

import math
from collections.abc import Callable, Sequence
from itertools import product

import pytest
import torch
from scipy.special import expit as sigmoid
from torch import Tensor

from alibi_viz import alibi_slopes
from alibi_viz.models.positions.absolute import Learned, Sinusoidal
from alibi_viz.models.positions.base import Position
from alibi_viz.models.positions.forget_gate import Forget
from alibi_viz.models.positions.relative import (
    Alibi,
    Decay,
    Fire,
    KerpleLog,
    T5Buckets,
)
from alibi_viz.models.positions.rotary import (
    ROTARY_RULES,
    Rotary,
    ScaledRotary,
    Xpos,
    yarn_frequencies,
)
from tests.attention.cases import normal

HEADS, DIM = 3, 6
Formula = Callable[[int, int, int], float]  # (head 0.., query i, key j) to the bias


def kerple(position: KerpleLog) -> Formula:
    p, a = position.p.tolist(), position.a.tolist()
    return lambda h, i, j: -max(p[h], 0.01) * math.log(1 + max(a[h], 0.01) * abs(i - j))


def t5(position: T5Buckets, max_distance: int) -> Formula:
    table = position.values.weight.tolist()

    def bias(h: int, i: int, j: int) -> float:
        d = abs(i - j)
        bucket = (
            d
            if d < 16
            else min(
                31, 16 + math.floor(16 * math.log(d / 16) / math.log(max_distance / 16) + 1e-9)
            )
        )
        return table[bucket][h]

    return bias


def fire(position: Fire, tau: float) -> Formula:
    first, second = position.network[0], position.network[2]

    def bias(h: int, i: int, j: int) -> float:
        ratio = math.log(1 + 0.1 * abs(i - j)) / math.log(1 + 0.1 * max(i, j, tau))
        hidden = [
            max(0.0, w * ratio + b)
            for (w,), b in zip(first.weight.tolist(), first.bias.tolist(), strict=True)
        ]
        return (
            sum(w * x for w, x in zip(second.weight[h].tolist(), hidden, strict=True))
            + second.bias[h].item()
        )

    return bias


def cases() -> dict[str, tuple[Position, Formula]]:
    torch.manual_seed(0)
    kerple_log = KerpleLog(HEADS)
    network = Fire(HEADS, 32)
    original = T5Buckets(HEADS, 512)
    buckets = T5Buckets(HEADS, 128)
    learned = Alibi(HEADS, learned=True)
    slopes = alibi_slopes(HEADS).tolist()
    with torch.no_grad():
        learned.learned.log_slopes += math.log(2)  # type: ignore[union-attr]
        kerple_log.p[0] = kerple_log.a[1] = -5  # clamped
    return {
        "alibi": (Alibi(HEADS), lambda h, i, j: -slopes[h] * abs(i - j)),
        "learned alibi": (learned, lambda h, i, j: -2 * slopes[h] * abs(i - j)),
        "decay": (
            Decay(HEADS).bfloat16(),
            lambda h, i, j: abs(i - j) * math.log(1 - 2 ** (-5 - h)),
        ),
        "decay in 64 tokens": (
            Decay(HEADS, 64),
            lambda h, i, j: 32 * abs(i - j) * math.log(1 - 2 ** (-5 - h)),
        ),
        "kerple-log": (kerple_log, kerple(kerple_log)),
        "t5 of its paper": (original, t5(original, 128)),
        "t5": (buckets, t5(buckets, 32)),
        "fire": (network, fire(network, 8)),
    }


@pytest.mark.parametrize("name", cases())
def test_bias_equals_its_formula(name: str) -> None:
    position, formula = cases()[name]
    for rows, columns in ((0, 0), (1, 1), (5, 5), (1, 140), (70, 70)):
        bias = position.bias(rows, columns)
        assert bias.shape == (HEADS, rows, columns)
        for h, row in product(range(HEADS), range(rows)):
            expected = [formula(h, columns - rows + row, j) for j in range(columns)]
            assert bias[h, row].tolist() == pytest.approx(expected, abs=2e-5, rel=1e-5)


@pytest.mark.parametrize("length", [1, 2, 3, 8, 16, 31, 32, 64, 1000])
def test_no_distance_falls_into_an_untrained_t5_bucket(length: int) -> None:
    position = T5Buckets(1, 4 * length)
    buckets = position.bucket(torch.arange(5000))
    assert bool((buckets.diff() >= 0).all()) and set(buckets.tolist()) == set(
        buckets[: max(length, 2)].tolist()
    )
    assert int(buckets.max()) == position.num_buckets - 1
    assert T5Buckets(300, 512).values.weight.std().item() == pytest.approx(0.02, rel=0.05)


@pytest.mark.parametrize(("rows", "columns"), [(4, 4), (1, 6), (3, 7)])
def test_forget_bias_is_the_sum_of_log_gates_after_the_key(rows: int, columns: int) -> None:
    forget, x = Forget(5, alibi_slopes(HEADS)), normal(2, columns, 5).float()
    torch.nn.init.normal_(forget.gate.weight, generator=torch.Generator().manual_seed(0))
    bias, gates = forget.bias(rows, columns, x), forget.gate(x).tolist()
    for wrong, got in ((None, "None"), (x[:, 1:], rf"shape \[2, {columns - 1}, 5\]")):
        with pytest.raises(
            ValueError, match=f"a forget gate reads the layer's input, .* got {got}"
        ):
            forget.bias(rows, columns, wrong)
    for b, h, row in product(range(2), range(HEADS), range(rows)):
        i = columns - rows + row
        expected = [
            sum(math.log(sigmoid(gates[b][t][h])) for t in range(j + 1, i + 1))
            for j in range(i + 1)
        ]
        assert bias[b, h, row, : i + 1].tolist() == pytest.approx(expected, abs=1e-5)


def test_forget_starts_as_alibi_and_keeps_differences_of_neighbors_after_20000_tokens() -> None:
    """The sum over 20,000 tokens is large; rounding it would lose the difference between two
    neighbors."""
    forget, slopes = Forget(5, alibi_slopes(8)), alibi_slopes(8)[:, None]
    steps = forget.bias(1, 20_000, normal(1, 20_000, 5).float())[0, :, 0].diff()
    torch.testing.assert_close(steps, slopes.expand_as(steps), atol=2e-3, rtol=0)
    torch.testing.assert_close(steps[:, -100:], slopes.expand(-1, 100), atol=1e-6, rtol=1e-4)


def test_sinusoidal_equals_the_formula_of_the_paper() -> None:
    width = 10
    table = Sinusoidal(width).table(torch.arange(2000))
    for i in (0, 1, 7, 1999):
        angles = [i / 10000 ** (2 * k / width) for k in range(width // 2)]
        assert table[i, 0::2].tolist() == pytest.approx(
            [math.sin(angle) for angle in angles], abs=1e-6
        )
        assert table[i, 1::2].tolist() == pytest.approx(
            [math.cos(angle) for angle in angles], abs=1e-6
        )
    assert torch.equal(
        Sinusoidal(5).embed(torch.zeros(1, 3, 5))[0], Sinusoidal(5).table(torch.arange(3))
    )


def test_learned_adds_rows_of_its_table_from_the_start_position_and_raises_beyond_it() -> None:
    assert Learned(64, 512).table.weight.std().item() == pytest.approx(0.02, rel=0.02)
    position, tokens = Learned(4, 3), normal(2, 3, 4).float()
    assert torch.equal(position.embed(tokens), tokens + position.table.weight)
    assert torch.equal(
        position.embed(tokens[:, :1], start=2), tokens[:, :1] + position.table.weight[2]
    )
    with pytest.raises(ValueError, match="not defined beyond max_length=3, got length 4"):
        position.embed(torch.zeros(1, 1, 4), start=3)


def rotated(
    vectors: Tensor, first: int, base: float = 10000.0, slower: Sequence[float] = (1.0, 1.0, 1.0)
) -> Tensor:
    """Vectors at the positions first, first + 1, ...; `slower` says how many times slower each pair
    turns."""
    places = torch.arange(first, first + vectors.shape[-2], dtype=torch.float64)[:, None]
    angle = places / torch.tensor(slower) * base ** (-2 * torch.arange(DIM // 2) / DIM).double()
    pairs = torch.complex(*vectors.double().chunk(2, dim=-1)) * torch.polar(
        torch.ones_like(angle), angle
    )
    return torch.cat((pairs.real, pairs.imag), dim=-1)


@pytest.mark.parametrize("length", [3, 8, 9, 24])
@pytest.mark.parametrize("rule", ROTARY_RULES)
def test_angles_follow_the_formula_of_the_rule_and_are_plain_up_to_the_training_length(
    rule: str, length: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    query, key = normal(1, 2, 3, DIM), normal(1, 2, length, DIM, seed=1)
    s = max(1.0, length / 8)
    slower = {"pi": [s] * 3, "yarn": [1.0, s, s]}.get(
        rule, [1.0] * 3
    )  # only the fastest pair turns once in 8 tokens
    base = 10000.0 * s ** (DIM / (DIM - 2)) if rule == "ntk" else 10000.0
    scale = 0.1 * math.log(s) + 1 if rule == "yarn" else 1.0
    expected = (
        rotated(query, length - 3, base, slower) * scale,
        rotated(key, 0, base, slower) * scale,
    )
    got = ScaledRotary(DIM, rule, 8).transform(query, key)
    torch.testing.assert_close(got, expected, atol=1e-5, rtol=1e-5)
    if s == 1:
        assert all(map(torch.equal, got, Rotary(DIM).transform(query, key)))
    monkeypatch.setattr(torch.compiler, "is_compiling", lambda: True)  # then no table is kept
    assert all(map(torch.equal, got, ScaledRotary(DIM, rule, 8).transform(query, key)))


@pytest.mark.parametrize("s", [1.5, 4.0, 16.0])
@pytest.mark.parametrize(("head_dim", "trained_length"), [(16, 64), (64, 512), (128, 4096)])
def test_yarn_equals_transformers(head_dim: int, trained_length: int, s: float) -> None:
    transformers = pytest.importorskip("transformers")
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


@pytest.mark.parametrize("trained_length", [1, 2, 6, 7])
def test_yarn_at_very_short_training_lengths_keeps_only_the_fastest_pair(
    trained_length: int,
) -> None:
    ratios = yarn_frequencies(8, trained_length, 4.0) / yarn_frequencies(8, trained_length, 1.0)
    assert ratios.tolist() == pytest.approx([1.0, 0.25, 0.25, 0.25])


@pytest.mark.parametrize("settings", [(7, "pi", 8), (6, "linear", 8), (6, "pi", 0), (2, "ntk", 8)])
def test_invalid_settings_of_rotary_positions_raise(settings: tuple[int, str, int]) -> None:
    with pytest.raises(ValueError, match=r"(head_dim|rule|trained_length).* must be .*, got "):
        ScaledRotary(*settings)


def test_parameters_of_kerple_start_below_2_and_1_and_go_on_learning_where_they_are_clamped() -> (
    None
):
    assert [each.max().item() for each in KerpleLog(3000).parameters()] == pytest.approx(
        [2, 1], abs=0.02
    )
    position = KerpleLog(HEADS)
    position.a.data[:] = position.p.data[:] = -1
    position.curve(torch.arange(4)).sum().backward()
    assert bool((position.a.grad < 0).all() and (position.p.grad < 0).all())


def test_xpos_logits_are_rotary_logits_times_a_power_for_near_and_far_tokens() -> None:
    query, key = normal(1, 1, 4097, DIM), normal(1, 1, 4097, DIM, seed=1)
    queries, keys = Xpos(DIM).transform(query, key)
    for i, j in ((5, 5), (6, 2), (4096, 0), (4096, 4000), (100, 0), (2048, 1)):
        products = rotated(query[0, 0, i : i + 1], i) * rotated(key[0, 0, j : j + 1], j)
        z = [(2 * pair / DIM + 0.4) / 1.4 for pair in range(DIM // 2)] * 2
        expected = sum(z[c] ** ((i - j) / 512) * float(products[0, c]) for c in range(DIM))
        assert float(queries[0, 0, i] @ keys[0, 0, j]) == pytest.approx(
            expected, abs=1e-4, rel=1e-4
        )


@pytest.mark.parametrize(
    ("dtype", "longest"), [(torch.float32, 32768), (torch.bfloat16, 32768), (torch.float16, 2048)]
)
def test_xpos_products_are_finite_at_the_largest_length_and_longer_ones_raise(
    dtype: torch.dtype, longest: int
) -> None:
    """Also the products of masked pairs, where the factor grows: -inf is added to them, and inf -
    inf is NaN."""
    xpos, vectors = Xpos(16), torch.randn(2, 1, 1, longest + 1, 16).to(dtype)
    query, key = xpos.transform(*vectors[..., 1:, :])
    ends = torch.tensor([0, 1, longest // 2, longest - 1])
    for products in (query[0, 0, ends] @ key[0, 0].mT, query, key):
        assert bool(products.isfinite().all())
    assert (
        float(torch.stack((query, key)).abs().max()) < 10 * 3.5**32
    )  # the positions count from the middle
    with pytest.raises(
        ValueError,
        match=f"xPos in {dtype} is not defined beyond {longest} tokens, got {longest + 1}",
    ):
        xpos.transform(*vectors)
