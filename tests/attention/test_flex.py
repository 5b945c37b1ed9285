"""FlexAttention. There are few tests, because each new kind of call takes seconds to compile."""

import os
import shutil

import pytest
import torch

from alibi_viz import alibi_attention, alibi_slopes
from alibi_viz.attention.flex import _shared_block_mask
from tests.attention.cases import largest_error, normal


@pytest.mark.skipif(
    shutil.which("g++") is None and not os.environ.get("CI"), reason="torch.compile needs g++ here"
)
@pytest.mark.parametrize(
    ("rows", "columns", "key_heads", "causal", "padded"),
    [(150, 400, 2, True, False), (20, 130, 4, True, True), (300, 300, 2, False, False)],
)
def test_flex_equals_minimal(
    *, rows: int, columns: int, key_heads: int, causal: bool, padded: bool
) -> None:
    q = normal(2, 4, rows, 16, dtype=torch.float32)
    k, v = normal(2, 2, key_heads, columns, 16, seed=1, dtype=torch.float32)
    is_real = torch.arange(columns) >= torch.tensor([[0], [columns - 10]]) if padded else None
    for slopes in (alibi_slopes(4), torch.tensor([4.0, 1e-4, 0.0, -0.01])):
        assert (
            largest_error(q, k, v, slopes, causal=causal, key_padding_mask=is_real, backend="flex")
            < 2e-6
        )


def test_a_mask_made_in_inference_mode_is_shared_with_training() -> None:
    with torch.inference_mode():
        offset, blocks = _shared_block_mask(40, 50, True, torch.device("cpu"), None)
    _, shared = _shared_block_mask(40, 50, True, torch.device("cpu"), None)
    assert not offset.is_inference()
    assert blocks is shared


@pytest.mark.skipif(
    torch.__version__ < "2.13", reason="attention stays uncompiled before torch 2.13"
)
def test_flex_within_a_larger_compiled_graph_is_refused_on_the_cpu() -> None:
    q, k, v = normal(3, 1, 2, 8, 4).float()
    compiled = torch.compile(alibi_attention, backend="eager")
    with pytest.raises(ValueError, match=r"does not compile within torch\.compile on the CPU"):
        compiled(q, k, v, alibi_slopes(2), backend="flex")
