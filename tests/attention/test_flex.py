"""FlexAttention. There are few tests, because each new kind of call takes seconds to compile."""

import os
import shutil

import pytest
import torch

from alibi_viz import alibi_attention, alibi_slopes


@pytest.mark.skipif(shutil.which("g++") is None and not os.environ.get("CI"), reason="torch.compile needs g++ here")
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
