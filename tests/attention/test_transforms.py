"""The transforms of torch.func and forward-mode derivatives: mapped slopes and positions, and no lost tangents."""

import pytest
import torch
from torch import Tensor
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual
from torch.func import functional_call, grad, jacfwd, jvp, stack_module_state, vmap

from alibi_viz import AlibiSelfAttention, alibi_attention, alibi_slopes

BACKENDS = ("auto", "eager", "mask", "strip", "folded")


def qkv(length: int) -> Tensor:
    return torch.randn(3, 2, 2, length, 8, generator=torch.Generator().manual_seed(length))


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("length", [1, 40, 800])
def test_vmap_over_slopes_equals_a_loop(length: int, backend: str) -> None:
    q, k, v = qkv(length)
    slopes = torch.stack((alibi_slopes(2), 3 * alibi_slopes(2)), dim=1)  # [heads, mapped]
    outputs = vmap(lambda each: alibi_attention(q, k, v, each, backend=backend), in_dims=1)(slopes)
    for output, each in zip(outputs, slopes.mT, strict=True):
        assert torch.allclose(output, alibi_attention(q, k, v, each, backend="eager"), atol=1e-5)


@pytest.mark.parametrize("backend", ["auto", "eager", "mask", "folded"])
@pytest.mark.parametrize("length", [40, 800])
def test_vmap_over_positions_equals_a_batch(length: int, backend: str) -> None:
    q, k, v = qkv(length)
    positions = torch.stack((torch.arange(length), 2 * torch.arange(length) + 9))

    def attention(q: Tensor, k: Tensor, v: Tensor, positions: Tensor) -> Tensor:
        return alibi_attention(q[None], k[None], v[None], alibi_slopes(2), positions=positions, backend=backend)[0]

    expected = alibi_attention(q, k, v, alibi_slopes(2), positions=positions, backend="eager")
    assert torch.allclose(vmap(attention)(q, k, v, positions), expected, atol=1e-5)


def test_an_ensemble_of_modules_with_learned_slopes_runs_and_trains_under_vmap() -> None:
    modules = [AlibiSelfAttention(16, 2, learned_slopes=True) for _ in range(3)]
    parameters, buffers = stack_module_state(modules)
    parameters = {name: parameter.detach() for name, parameter in parameters.items()}
    x = torch.randn(2, 30, 16)

    def loss(parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> Tensor:
        output: Tensor = functional_call(modules[0], (parameters, buffers), (x,))
        return output.square().sum()

    losses, gradients = vmap(loss)(parameters, buffers), vmap(grad(loss))(parameters, buffers)
    for index, module in enumerate(modules):
        expected = module(x).square().sum()
        expected.backward()
        assert torch.allclose(losses[index], expected, atol=1e-4)
        for name, parameter in module.named_parameters():
            assert parameter.grad is not None
            assert torch.allclose(gradients[name][index], parameter.grad, atol=1e-4), name


def test_slopes_that_are_not_finite_raise_under_transforms_too() -> None:
    q, k, v = qkv(5)
    slopes = torch.tensor([[0.5, 0.5], [0.5, float("nan")]])
    with pytest.raises(ValueError, match=r"slopes must be finite, got \[\[0.5, 0.5\], \[0.5, nan\]\]"):
        vmap(grad(lambda each: alibi_attention(q, k, v, each).sum()))(slopes)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("rows", [1, 40])
@pytest.mark.parametrize("causal", [True, False])
def test_the_forward_derivative_of_slopes_is_exact_or_refused(backend: str, rows: int, causal: bool) -> None:
    """The cached bias has no tangent, so a backend that used it would return a derivative of 0."""
    q, k, v = qkv(40)
    slopes, tangent = alibi_slopes(2), torch.ones(2)

    def attention(slopes: Tensor, backend: str) -> Tensor:
        return alibi_attention(q[:, :, -rows:], k, v, slopes, causal=causal, backend=backend)

    expected = jvp(lambda slopes: attention(slopes, "eager"), (slopes,), (tangent,))[1]
    for uses_transform in (True, False):
        try:
            if uses_transform:
                result = jvp(lambda slopes: attention(slopes, backend), (slopes,), (tangent,))[1]
            else:
                with dual_level():
                    result = unpack_dual(attention(make_dual(slopes, tangent), backend)).tangent
        except (NotImplementedError, ValueError) as error:  # torch's kernel, or a backend that needs equal lengths
            assert "forward AD" in str(error) or "does not support this call" in str(error)
        else:
            assert result is not None
            assert torch.allclose(result, expected, atol=1e-5)


def test_the_jacobian_of_slopes_in_forward_mode_equals_finite_differences() -> None:
    q, k, v = qkv(20).double()
    slopes = alibi_slopes(2).double()
    jacobian = jacfwd(lambda slopes: alibi_attention(q, k, v, slopes, backend="eager").sum((0, 2, 3)))(slopes)
    for head in range(2):
        step = 1e-6 * torch.eye(2, dtype=torch.float64)[head]
        ahead, behind = (
            alibi_attention(q, k, v, m, backend="eager").sum((0, 2, 3)) for m in (slopes + step, slopes - step)
        )
        assert torch.allclose(jacobian[:, head], (ahead - behind) / 2e-6, atol=1e-5)
