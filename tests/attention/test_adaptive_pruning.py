"""Our windows beside the threshold of adaptive computation pruning (Lin et al. 2025, arXiv 2504.06949)."""

import math

import pytest
import torch
from alibi_viz.attention.windows import key_windows

from alibi_viz import alibi_slopes
from alibi_viz.attention.inputs import AttentionInputs
from tests.attention.test_windows import assert_negligible, normal

TOLERANCE = torch.finfo(torch.float32).eps / 2


def pruning_windows(inputs: AttentionInputs) -> list[float]:
    """Pairs are pruned if their bias is below -(2U + ln L) + ln(tolerance), where U is at least any |q . k| scale."""
    largest = inputs.query.norm(dim=-1).amax(-1) * inputs.key.norm(dim=-1).amax(-1) * inputs.scaling  # [batch, heads]
    threshold = -(2 * largest + math.log(inputs.key_length)) + math.log(TOLERANCE)
    return (-threshold / inputs.slopes).amax(0).tolist()


def random_inputs(length: int, head_dim: int, seed: int) -> AttentionInputs:
    query, key = normal(2, 1, 8, length, head_dim, seed=seed).float()
    return AttentionInputs(query, key, key, alibi_slopes(8))


@pytest.mark.parametrize(("length", "head_dim", "seed"), [(400, 16, 0), (1024, 64, 1), (1024, 64, 2), (4096, 32, 3)])
def test_on_random_content_both_windows_are_safe_and_ours_never_wider(length: int, head_dim: int, seed: int) -> None:
    inputs = random_inputs(length, head_dim, seed)
    ours, pruning = key_windows(inputs), tuple(math.ceil(window) for window in pruning_windows(inputs))
    assert all(window <= min(other, length) for window, other in zip(ours, pruning, strict=True)), (ours, pruning)
    for windows in (ours, pruning):
        assert_negligible(inputs._replace(query=inputs.query[:, :, -128:]), windows)


@pytest.mark.parametrize("seed", range(2))
def test_on_random_content_of_16384_tokens_pruning_has_windows_about_two_thirds_wider(seed: int) -> None:
    inputs = random_inputs(16384, 64, seed)
    for ours, pruning in zip(key_windows(inputs), pruning_windows(inputs), strict=True):
        assert 1.55 < pruning / ours < 1.8
