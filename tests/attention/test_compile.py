"""torch.compile captures attention as a single graph and does not recompile for every length."""

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from alibi_viz import AlibiBias, AlibiSelfAttention, alibi_attention, alibi_slopes


@pytest.mark.parametrize("backend", ["eager", "mask", "folded", "auto"])
def test_attention_is_not_recompiled_for_every_length(backend: str) -> None:
    torch._dynamo.reset()
    counter = CompileCounter()
    slopes = alibi_slopes(4)
    compiled = torch.compile(
        lambda q: alibi_attention(q, q, q, slopes, backend=backend), backend=counter, fullgraph=True
    )
    for length in (800, 801, 900, 1000, 1101):
        q = torch.randn(1, 4, length, 8)
        assert torch.allclose(compiled(q), alibi_attention(q, q, q, slopes, backend="eager"), atol=1e-5)
    assert counter.frame_count == 2  # one for the first length, then one for all others


def test_module_is_not_recompiled_for_every_length() -> None:
    torch._dynamo.reset()
    counter = CompileCounter()
    module = AlibiSelfAttention(32, 4)
    compiled = torch.compile(module, backend=counter, fullgraph=True)
    for length in (800, 801, 900, 1000, 1101):
        x = torch.randn(1, length, 32)
        assert torch.allclose(compiled(x), module(x), atol=1e-5)
    assert counter.frame_count == 2


@pytest.mark.parametrize("form", ["relative", "key", "symmetric", "split"])
def test_bias_is_not_recompiled_for_every_length(form: str) -> None:
    torch._dynamo.reset()
    counter = CompileCounter()
    module = AlibiBias(3, 4, form=form)
    compiled = torch.compile(module, backend=counter, fullgraph=True)
    for length in (20, 21, 30, 45, 77):
        assert torch.equal(compiled(length), module(length))
    assert counter.frame_count == 2
