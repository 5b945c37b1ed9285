"""Biases that depend on the distance, compared with their formulas in a plain loop."""

import math
from collections.abc import Callable

import pytest
import torch
from torch import Tensor

from alibi_viz import alibi_slopes, lab
from alibi_viz.models.positions import Alibi, Bam, Decay, Fire, KerpleLog, Position, Sandwich, T5Buckets
from alibi_viz.models.positions.relative import retention_slopes
from tests.reference import reference_attention

HEADS, DIM = 3, 4
LENGTHS = [(0, 0), (0, 4), (1, 1), (5, 5), (1, 6), (3, 40), (70, 70)]
Formula = Callable[[int, int, int], float]  # (head 0.., query i, key j) to the bias


def sandwich(h: int, i: int, j: int) -> float:
    total = sum(math.cos((i - j) * 10000 ** (-2 * k / 128)) for k in range(1, 65))
    return (total - 64) / (8 * (h + 1) / HEADS)


def kerple(position: KerpleLog) -> Formula:
    p, a = position.p.tolist(), position.a.tolist()
    return lambda h, i, j: -max(p[h], 0.01) * math.log(1 + max(a[h], 0.01) * abs(i - j))


def t5(position: T5Buckets, max_distance: int = 32) -> Formula:
    table = position.values.weight.tolist()

    def bias(h: int, i: int, j: int) -> float:
        d = abs(i - j)
        bucket = d if d < 16 else min(31, 16 + math.floor(16 * math.log(d / 16) / math.log(max_distance / 16) + 1e-9))
        return table[bucket][h]

    return bias


def fire(position: Fire, tau: float) -> Formula:
    first, second = position.network[0], position.network[2]

    def bias(h: int, i: int, j: int) -> float:
        ratio = math.log(1 + 0.1 * abs(i - j)) / math.log(1 + 0.1 * max(i, tau))
        hidden = [max(0.0, w * ratio + b) for (w,), b in zip(first.weight.tolist(), first.bias.tolist(), strict=True)]
        return sum(w * x for w, x in zip(second.weight[h].tolist(), hidden, strict=True)) + second.bias[h].item()

    return bias


def bam(position: Bam) -> Formula:
    alpha, beta = position.log_scale.tolist(), position.shape.tolist()
    return lambda h, i, j: -math.exp(alpha[h]) * (abs(i - j) + 1e-5) ** beta[h]


def cases() -> list[tuple[str, Position, Formula]]:
    torch.manual_seed(0)
    kerple_log, buckets, network = KerpleLog(HEADS), T5Buckets(HEADS, 32), Fire(HEADS, threshold=8)
    slopes, gaussian = alibi_slopes(HEADS), Bam(HEADS)
    with torch.no_grad():
        gaussian.log_scale.copy_(torch.tensor([-2.0, 0.5, 0.0]))
        gaussian.shape.copy_(torch.tensor([1.3, 0.4, -0.2]))
    return [
        ("learned alibi", Alibi(HEADS, causal=False, learned=True), lambda h, i, j: -slopes[h].item() * abs(i - j)),
        ("decay", Decay(HEADS), lambda h, i, j: abs(i - j) * math.log(1 - 2 ** (-5 - h))),
        ("sandwich", Sandwich(HEADS), sandwich),
        ("kerple-log", kerple_log, kerple(kerple_log)),
        ("bam", gaussian, bam(gaussian)),
        ("t5", buckets, t5(buckets)),
        ("fire", network, fire(network, 8)),
    ]


def bias_from_formula(formula: Formula, rows: int, columns: int) -> Tensor:
    out = torch.zeros(HEADS, rows, columns, dtype=torch.float64)
    for h in range(HEADS):
        for row in range(rows):
            for j in range(columns):
                out[h, row, j] = formula(h, columns - rows + row, j)
    return out


@pytest.mark.parametrize(("rows", "columns"), LENGTHS)
@pytest.mark.parametrize("case", cases(), ids=lambda case: case[0])
def test_bias_matches_its_formula(case: tuple[str, Position, Formula], rows: int, columns: int) -> None:
    _, position, formula = case
    bias = position.bias(rows, columns)
    assert bias is not None
    assert bias.shape == (HEADS, rows, columns)
    torch.testing.assert_close(bias.double(), bias_from_formula(formula, rows, columns), atol=2e-5, rtol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("case", cases(), ids=lambda case: case[0])
def test_attend_matches_reference_attention_with_the_bias(case: tuple[str, Position, Formula], causal: bool) -> None:
    _, position, formula = case
    q, k, v = torch.randn(3, 2, HEADS, 7, DIM, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    expected, _ = reference_attention(q[:, :, -3:], k, v, bias_from_formula(formula, 3, 7), causal=causal)
    output = position.attend(q[:, :, -3:], k, v, causal=causal)
    torch.testing.assert_close(output, expected, atol=1e-5, rtol=1e-5)


def test_bam_starts_without_positions_and_equals_alibi_with_shape_one() -> None:
    position, slopes = Bam(4), alibi_slopes(4)
    assert bool((position.bias(3, 9) == -1).all())  # the softmax cancels a constant
    with torch.no_grad():
        position.log_scale.copy_(slopes.log())
        position.shape.fill_(1)
    expected = Alibi(4, causal=False).bias(3, 9)
    torch.testing.assert_close(position.bias(3, 9), expected, atol=1e-5, rtol=1e-5)


def test_bam_has_parameters_for_each_layer_and_all_get_gradients_after_one_step() -> None:
    model = lab.make_model("bam", max_length=32)
    priors = [block.attention.position for block in model.transformer.blocks]  # type: ignore[union-attr]
    assert priors[0] is not priors[1]
    list(lab.train(model, lab.load_text(), steps=2))
    parameters = [parameter for prior in priors for parameter in (prior.log_scale, prior.shape)]  # type: ignore[union-attr]
    assert all(parameter.grad is not None and bool((parameter.grad != 0).all()) for parameter in parameters)


def test_kerple_clamps_negative_parameters() -> None:
    position = KerpleLog(1)
    with torch.no_grad():
        position.p.fill_(-5)
        position.a.fill_(-5)
    torch.testing.assert_close(position.curve(torch.tensor([9])), torch.tensor([[-0.01 * math.log(1.09)]]))


@pytest.mark.parametrize(
    ("distance", "bucket"), [(0, 0), (15, 15), (16, 16), (30, 20), (32, 21), (64, 26), (127, 31), (128, 31), (9999, 31)]
)
def test_t5_buckets_at_the_original_size(distance: int, bucket: int) -> None:
    """As in T5: 32 buckets, the last from 128 on; bucket 16 + floor(16 ln(d/16) / ln(8)) from d = 16."""
    assert int(T5Buckets(1, 128).bucket(torch.tensor(distance))) == bucket


@pytest.mark.parametrize("length", [1, 2, 3, 8, 16, 31, 32, 64, 1000])
def test_no_distance_falls_into_an_untrained_t5_bucket(length: int) -> None:
    position = T5Buckets(1, length)
    buckets = position.bucket(torch.arange(5000))
    assert bool((buckets.diff() >= 0).all())
    assert set(buckets.tolist()) == set(buckets[: max(length, 2)].tolist())
    assert int(buckets.max()) == position.num_buckets - 1


def test_decay_is_alibi_with_the_slopes_of_retention() -> None:
    torch.testing.assert_close(Decay(4).bias(5, 9), Alibi(4, causal=False, slopes=retention_slopes(4)).bias(5, 9))


def test_fire_bias_of_the_first_key_is_the_same_at_any_length_beyond_the_threshold() -> None:
    """The network sees ln(1 + c d) / ln(1 + c i), which is 1 for the first key."""
    network = Fire(2, threshold=16)
    first, *others = [network.bias(1, length)[:, 0, 0] for length in (17, 64, 500)]
    for other in others:
        torch.testing.assert_close(other, first)


def test_learned_slopes_start_at_the_slopes_of_alibi_and_get_gradients() -> None:
    position = Alibi(4, learned=True)
    torch.testing.assert_close(position.bias(6, 6), Alibi(4).bias(6, 6))
    position.bias(6, 6).tril().sum().backward()
    assert position.learned is not None
    assert position.learned.log_slopes.grad is not None
    assert bool((position.learned.log_slopes.grad != 0).all())


@pytest.mark.parametrize("position", [Decay(2), Fire(2, 8), Sandwich(2)], ids=lambda position: type(position).__name__)
def test_more_queries_than_keys_raises(position: Position) -> None:
    with pytest.raises(ValueError, match="query_length must be at most key_length=3, got 4"):
        position.bias(4, 3)
