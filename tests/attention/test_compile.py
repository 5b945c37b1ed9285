"""torch.compile sees attention as one graph, and not as a new one for every length."""

import pytest
import torch
from torch._dynamo.testing import CompileCounter

from alibi_viz import AlibiBias, AlibiSelfAttention, alibi_attention, alibi_slopes


@pytest.mark.parametrize("backend", ["eager", "mask", "folded", "auto"])
def test_attention_compiles_without_a_graph_per_length(backend: str) -> None:
    torch._dynamo.reset()
    counter = CompileCounter()
    slopes = alibi_slopes(4)
    compiled = torch.compile(
        lambda q: alibi_attention(q, q, q, slopes, backend=backend), backend=counter, fullgraph=True
    )
    for length in (800, 801, 900, 1000, 1101):
        q = torch.randn(1, 4, length, 8)
        assert torch.allclose(compiled(q), alibi_attention(q, q, q, slopes, backend="eager"), atol=1e-5)
    assert counter.frame_count == 2  # the first length for itself, then one graph for all


def test_the_module_compiles_without_a_graph_per_length() -> None:
    torch._dynamo.reset()
    counter = CompileCounter()
    module = AlibiSelfAttention(32, 4)
    compiled = torch.compile(module, backend=counter, fullgraph=True)
    for length in (800, 801, 900, 1000, 1101):
        x = torch.randn(1, length, 32)
        assert torch.allclose(compiled(x), module(x), atol=1e-5)
    assert counter.frame_count == 2


@pytest.mark.parametrize("form", ["relative", "key", "symmetric", "split"])
def test_the_bias_compiles_without_a_graph_per_length(form: str) -> None:
    torch._dynamo.reset()
    counter = CompileCounter()
    module = AlibiBias(3, 4, form=form)
    compiled = torch.compile(module, backend=counter, fullgraph=True)
    for length in (20, 21, 30, 45, 77):
        assert torch.equal(compiled(length), module(length))
    assert counter.frame_count == 2
