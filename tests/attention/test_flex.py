"""FlexAttention. There are few tests, because each new kind of call takes seconds to compile."""

import os
import shutil

import pytest
import torch

from alibi_viz import alibi_attention, alibi_bias, alibi_slopes
from alibi_viz.attention.flex import _causal_block_mask, _compiled, alibi_score_mod

needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None and not os.environ.get("CI"), reason="torch.compile needs g++ here"
)


@pytest.mark.parametrize("symmetric", [False, True])
def test_score_mod_equals_the_bias(symmetric: bool) -> None:
    slopes, rows, columns = alibi_slopes(3), 4, 6
    score_mod = alibi_score_mod(slopes, offset=columns - rows, symmetric=symmetric)
    bias = alibi_bias(slopes, rows, columns, form="symmetric" if symmetric else "relative")
    for h in range(3):
        for i in range(rows):
            for j in range(columns):
                indices = [torch.tensor(index) for index in (0, h, i, j)]
                assert torch.equal(score_mod(torch.tensor(0.0), *indices), bias[h, i, j])


@needs_compiler
@pytest.mark.parametrize(
    ("rows", "columns", "key_heads", "causal", "padded"),
    [(70, 70, 4, True, False), (130, 130, 2, True, False), (20, 130, 4, True, True), (70, 70, 4, False, False)],
)
def test_flex_equals_eager(*, rows: int, columns: int, key_heads: int, causal: bool, padded: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, 4, rows, 16, generator=generator)
    k, v = (torch.randn(2, key_heads, columns, 16, generator=generator) for _ in range(2))
    is_real = torch.arange(columns) >= torch.tensor([[0], [columns - 10]]) if padded else None
    output, expected = (
        alibi_attention(q, k, v, alibi_slopes(4), causal=causal, key_padding_mask=is_real, backend=backend)
        for backend in ("flex", "eager")
    )
    assert torch.allclose(output, expected, atol=2e-6)


@needs_compiler
@pytest.mark.parametrize(
    "calls",
    [
        [(4, 20, 20, False), (4, 20, 1, False), (4, 33, 33, False)],
        [(2, 20, 20, False), (4, 30, 30, False)],
        [(4, 20, 20, True), (4, 30, 30, True)],
    ],
)
def test_calls_of_different_shapes_in_any_order_equal_eager(calls: list[tuple[int, int, int, bool]]) -> None:
    torch._dynamo.reset()
    _compiled.cache_clear()
    for heads, columns, rows, padded in calls:
        q, k = torch.randn(1, heads, rows, 16), torch.randn(1, heads, columns, 16)
        is_real = torch.arange(columns)[None] >= 3 if padded else None
        output, expected = (
            alibi_attention(q, k, k, alibi_slopes(heads), key_padding_mask=is_real, backend=backend)
            for backend in ("flex", "eager")
        )
        assert torch.allclose(output, expected, atol=2e-6)


def test_block_mask_cached_in_inference_mode_supports_autograd() -> None:
    _causal_block_mask.cache_clear()
    with torch.inference_mode():
        mask = _causal_block_mask(8, 8, "cpu")
    assert not mask.kv_indices.is_inference()


def test_unsupported_calls_raise_with_the_reason() -> None:
    q = torch.randn(1, 2, 8, 16)
    slopes = alibi_slopes(2)
    for case, reason in (
        ({"dropout": 0.1}, "no dropout"),
        ({"positions": torch.arange(8)}, "attn_mask and positions are not supported"),
    ):
        with pytest.raises(ValueError, match=f"backend 'flex' does not support this call: .*{reason}"):
            alibi_attention(q, q, q, slopes, backend="flex", **case)
    with pytest.raises(ValueError, match="computes in float32 at most"):
        alibi_attention(q.double(), q.double(), q.double(), slopes, backend="flex")
    with pytest.raises(ValueError, match="does not accept empty tensors"):
        alibi_attention(q[:, :, :0], q[:, :, :0], q[:, :, :0], slopes, backend="flex")
