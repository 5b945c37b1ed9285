"""The transforms of torch.func, forward-mode derivatives and torch.compile: no lost tangents, no
graph per length."""

from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._dynamo.testing import CompileCounter
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual
from torch.func import jvp, vmap

from alibi_viz import AlibiBias, AlibiSelfAttention, alibi_attention, alibi_slopes, lab
from tests.attention import cases
from tests.attention.cases import MASKING, expected

IS_REAL = (torch.arange(700) > 2).expand(2, -1)
qkv = partial(cases.qkv, heads=2, dim=8, batch=2, dtype=torch.float32)


@pytest.mark.parametrize("backend", MASKING)
@pytest.mark.parametrize("length", [1, 40, 800])
def test_vmap_over_slopes_equals_a_loop(length: int, backend: str) -> None:
    q, k, v = qkv(length)
    slopes = torch.stack((alibi_slopes(2), 3 * alibi_slopes(2)), dim=1)  # [heads, mapped]
    outputs = vmap(lambda each: alibi_attention(q, k, v, each, backend=backend), in_dims=1)(slopes)
    for output, each in zip(outputs, slopes.mT, strict=True):
        assert torch.allclose(output.double(), expected(q, k, v, each), atol=1e-5)


@pytest.mark.parametrize("length", [16, 700])
def test_gradients_of_mapped_slopes_are_those_of_a_loop(length: int) -> None:
    q, k, v = qkv(length)
    slopes = torch.stack((alibi_slopes(2), 3 * alibi_slopes(2))).requires_grad_()
    positions = torch.arange(length) * torch.tensor([[1], [2]])

    def total(slopes: Tensor, **options: Any) -> Tensor:
        return vmap(lambda each, at: alibi_attention(q, k, v, each, positions=at, **options))(
            slopes, positions
        ).sum()

    each = zip(slopes, positions, strict=True)
    alone = [alibi_attention(q, k, v, row, positions=at, backend="eager").sum() for row, at in each]
    (expected,) = torch.autograd.grad(sum(alone), slopes)
    for got in (
        torch.autograd.grad(total(slopes), slopes)[0],
        torch.func.grad(total)(slopes.detach()),
    ):
        torch.testing.assert_close(got, expected, rtol=1e-3, atol=1e-3)


def test_torch_func_does_not_round_the_gradient_of_slopes_either() -> None:
    q, k, v = (each.bfloat16() for each in qkv(700))

    def loss(slopes):
        return alibi_attention(q, k, v, slopes, key_padding_mask=IS_REAL).float().square().sum()

    learned = alibi_slopes(2).requires_grad_()
    assert torch.equal(
        torch.func.grad(loss)(alibi_slopes(2)), torch.autograd.grad(loss(learned), learned)[0]
    )


@pytest.mark.parametrize("backend", MASKING)
@pytest.mark.parametrize("length", [40, 800])
def test_vmap_over_positions_equals_a_batch(length: int, backend: str) -> None:
    q, k, v = qkv(length)
    positions = torch.stack((torch.arange(length), 2 * torch.arange(length) + 9))

    def attention(q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> Tensor:
        return alibi_attention(
            q[None], k[None], v[None], alibi_slopes(2), positions=positions, backend=backend
        )[0]

    exact = expected(q, k, v, alibi_slopes(2), positions=positions)
    assert torch.allclose(vmap(attention)(q, k, v, positions).double(), exact, atol=1e-5)


def test_the_gradient_by_torch_func_needs_another_backend_than_windowed() -> None:
    q, k, v = qkv(1100)

    def loss(query: Tensor, backend: str = "auto") -> Tensor:
        return alibi_attention(query, k, v, alibi_slopes(2), backend=backend).square().sum()

    leaf = q.clone().requires_grad_()
    loss(leaf, "windowed").backward()
    assert torch.allclose(torch.func.grad(loss)(q), leaf.grad, atol=1e-4)
    with pytest.raises(
        ValueError, match=r"'windowed' does not support this call: .* the transforms of torch\.func"
    ):
        torch.func.grad(lambda query: loss(query, "windowed"))(q)


@pytest.mark.parametrize("backend", MASKING)
@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("causal", [True, False])
def test_the_forward_derivative_of_slopes_is_exact_or_refused(
    backend: str, rows: int, causal: bool
) -> None:
    """The cached bias has no tangent, so a backend that used it would return a derivative of 0."""
    q, k, v = qkv(40)
    slopes, tangent = alibi_slopes(2), torch.ones(2)

    def attention(slopes: Tensor, backend: str) -> Tensor:
        return alibi_attention(q[:, :, -rows:], k, v, slopes, causal=causal, backend=backend)

    exact = jvp(lambda slopes: attention(slopes, "eager"), (slopes,), (tangent,))[1]
    for uses_transform in (True, False):
        try:
            if uses_transform:
                result = jvp(lambda slopes: attention(slopes, backend), (slopes,), (tangent,))[1]
            else:
                with dual_level():
                    result = unpack_dual(attention(make_dual(slopes, tangent), backend)).tangent
        except (
            NotImplementedError,
            ValueError,
        ) as error:  # torch's kernel, or a backend that needs equal lengths
            assert "forward AD" in str(error) or "does not support this call" in str(error)
            assert backend != "eager"
        else:
            assert torch.allclose(result, exact, atol=1e-5)


def compiles_one_graph_for_all_lengths(
    function: Callable[..., Tensor], inputs: list[Any], exact: Any
) -> bool:
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(function, backend=counter, fullgraph=True)
    for each in inputs:
        assert torch.allclose(compiled(each), exact(each), atol=1e-5)
    return bool(counter.frame_count == 2)  # one for the first length, then one for all others


@pytest.mark.parametrize("backend", MASKING)
def test_attention_is_not_recompiled_for_every_length(backend: str) -> None:
    slopes = alibi_slopes(4)
    assert compiles_one_graph_for_all_lengths(
        lambda q: alibi_attention(q, q, q, slopes, backend=backend),
        [torch.randn(1, 4, length, 8) for length in (800, 801, 900, 1000, 1101)],
        lambda q: alibi_attention(q, q, q, slopes, backend="eager"),
    )


def test_attention_compiles_for_any_number_of_heads() -> None:
    compiled = torch.compile(
        alibi_attention, backend=CompileCounter(), fullgraph=True, dynamic=True
    )
    for heads in (4, 6):
        inputs = *torch.randn(3, 1, heads, 20, 8), alibi_slopes(heads)
        assert torch.allclose(compiled(*inputs), alibi_attention(*inputs), atol=1e-5)


def test_a_first_mask_is_compiled_after_other_lengths() -> None:
    torch._dynamo.reset()
    compiled = torch.compile(alibi_attention, backend=CompileCounter(), fullgraph=True)
    for length, mask in (
        (20, None),
        (33, None),
        (50, torch.arange(50)[None] > 9),
    ):  # from 33 on: any length
        q = torch.randn(1, 4, length, 8)
        exact = alibi_attention(q, q, q, alibi_slopes(4), key_padding_mask=mask)
        assert torch.allclose(
            compiled(q, q, q, alibi_slopes(4), key_padding_mask=mask), exact, atol=1e-5
        )


@pytest.mark.parametrize("causal", [True, False])
def test_attention_is_exported_for_any_length(causal: bool) -> None:
    layer, lengths = (
        AlibiSelfAttention(32, 4, causal=causal).eval(),
        {1: torch.export.Dim("length", min=2, max=4096)},
    )
    program = torch.export.export(layer, (torch.randn(1, 80, 32),), dynamic_shapes=(lengths,))
    longer = torch.randn(1, 733, 32)
    assert torch.allclose(program.module()(longer), layer(longer), atol=1e-5)


def test_modules_are_not_recompiled_for_every_length() -> None:
    layer = AlibiSelfAttention(32, 4)
    assert compiles_one_graph_for_all_lengths(
        layer, [torch.randn(1, n, 32) for n in (800, 801, 900, 1000)], layer
    )
    for form in ("relative", "key", "symmetric", "split"):
        bias = AlibiBias(3, form=form)
        assert compiles_one_graph_for_all_lengths(bias, [20, 21, 30, 45, 77], bias)
    for name in ("none", "rotary"):
        model = lab.make_model(name, num_layers=1)
        assert compiles_one_graph_for_all_lengths(
            model, [torch.arange(n)[None] for n in (8, 12, 20)], model
        )
