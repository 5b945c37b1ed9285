"""FlexAttention. There are few tests, because each new kind of call takes seconds to compile."""

import os
import shutil

import pytest
import torch
from torch.nn.functional import pad

from alibi_viz import alibi_attention, alibi_bias, alibi_slopes
from alibi_viz.attention import KeyBall
from alibi_viz.attention.flex import BLOCK, _block_mask, _compiled, alibi_score_mod, span_block_mask
from alibi_viz.attention.inputs import AttentionInputs

needs_compiler = pytest.mark.skipif(
    shutil.which("g++") is None and not os.environ.get("CI"), reason="torch.compile needs g++ here"
)


@pytest.mark.parametrize("symmetric", [False, True])
def test_score_mod_equals_the_bias(symmetric: bool) -> None:
    slopes, rows, columns = alibi_slopes(3), 4, 6
    score_mod = alibi_score_mod(slopes, offset=columns - rows, symmetric=symmetric)
    bias = alibi_bias(slopes, rows, columns, form="symmetric" if symmetric else "relative")
    indices = torch.arange(3)[:, None, None], torch.arange(rows)[:, None], torch.arange(columns)
    assert torch.equal(score_mod(torch.zeros(3, rows, columns), torch.tensor(0), *indices), bias)


@needs_compiler
@pytest.mark.parametrize(
    ("rows", "columns", "key_heads", "causal", "padded"),
    [(150, 400, 2, True, False), (20, 130, 4, True, True), (300, 300, 2, False, False)],
)
def test_flex_equals_eager(*, rows: int, columns: int, key_heads: int, causal: bool, padded: bool) -> None:
    generator = torch.Generator().manual_seed(0)
    q = torch.randn(2, 4, rows, 16, generator=generator)
    k, v = (torch.randn(2, key_heads, columns, 16, generator=generator) for _ in range(2))
    is_real = torch.arange(columns) >= torch.tensor([[0], [columns - 10]]) if padded else None
    for slopes in (alibi_slopes(4), torch.tensor([4.0, 1e-4, 0.0, -0.01])):
        output, expected = (
            alibi_attention(q, k, v, slopes, causal=causal, key_padding_mask=is_real, backend=backend)
            for backend in ("flex", "eager")
        )
        assert torch.allclose(output, expected, atol=2e-6)
    if not padded:
        mask = _block_mask(AttentionInputs(q, k, v, alibi_slopes(4), causal), torch.tensor(columns - rows))
        assert mask is not None
        of_head = mask.to_dense()[0].sum((1, 2))
        assert of_head[0] < of_head[-1]  # blocks were left out


@needs_compiler
def test_flex_does_not_read_blocks_beyond_the_spans() -> None:
    q, k, v = torch.randn(3, 1, 2, 512, 16)
    k[:, 0, :128] = v[:, 0, :128] = torch.nan
    mask = span_block_mask(torch.tensor([128, 512]), 512, 512)
    output = _compiled(on_cpu=True)(q, k, v, block_mask=mask)
    assert output[:, :, :128].isnan().any()
    assert output[:, 0, 256:].isfinite().all()
    full = _compiled(on_cpu=True)(q, k, v, block_mask=span_block_mask(torch.tensor([512, 512]), 512, 512))
    assert not full[:, 0, 256:].isfinite().all()  # nothing else hides the NaNs


@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("rows", "columns"), [(1, 1), (1, 300), (70, 70), (128, 128), (200, 513), (512, 512)])
def test_block_mask_has_exactly_the_blocks_with_a_key_within_the_span(rows: int, columns: int, *, causal: bool) -> None:
    spans = torch.tensor([0, 1, 50, 127, 128, 129, 400, 10**6])
    mask = span_block_mask(spans, rows, columns, causal=causal)
    distance = torch.arange(columns - rows, columns)[:, None] - torch.arange(columns)
    within = distance.abs() <= spans[:, None, None]
    within = within & (distance >= 0) if causal else within
    padded = pad(within, (0, -columns % BLOCK, 0, -rows % BLOCK))
    blocks = padded.unflatten(1, (-1, BLOCK)).unflatten(3, (-1, BLOCK))  # [heads, blocks, rows, blocks, columns]
    assert torch.equal(mask.to_dense()[0].bool(), blocks.any(4).any(2))
    assert mask.full_kv_indices is not None
    # "full" blocks are computed without a mask, so all keys in them must be visible
    full = mask.full_kv_num_blocks[0, :, :, None] > torch.arange(mask.full_kv_indices.shape[-1])
    for head, row, index in full.nonzero().tolist():
        column = int(mask.full_kv_indices[0, head, row, index])
        block = distance[row * BLOCK : (row + 1) * BLOCK, column * BLOCK : (column + 1) * BLOCK]
        assert not causal or bool((block >= 0).all())


def test_a_few_queries_use_spans_only_with_key_ball() -> None:
    q, k = torch.randn(1, 2, 1, 16), torch.randn(1, 2, 2048, 16)
    inputs = AttentionInputs(q, k, k, torch.ones(2))
    for ball, most in ((None, 16), (KeyBall.of(k, k), 2)):
        mask = _block_mask(inputs._replace(key_ball=ball), torch.tensor(2047))
        assert mask is not None
        assert 1 <= mask.to_dense()[0, 0].sum() <= most
        assert ball is not None or mask.to_dense()[0, 0].sum() == most
