"""Attention that skips keys of negligible weight gives the output and the gradients of full attention."""

from collections.abc import Iterator

import pytest
import torch
from alibi_viz.attention.windows import key_windows
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from alibi_viz import alibi_attention, alibi_slopes
from alibi_viz.attention.inputs import AttentionInputs

HALF = (torch.bfloat16, torch.float16)
SLOPES = (0.0, -0.02, 1e-30, 1e-4, 0.004, 0.05, 0.3, 4.0, 1e4)


@pytest.fixture
def threads() -> Iterator[None]:
    """A test may change the number of threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def normal(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def qkv(length: int, heads: int = 4, dim: int = 16, *, batch: int = 1, seed: int = 0) -> tuple[Tensor, Tensor, Tensor]:
    query, key, value = normal(3, batch, heads, length, dim, seed=seed)
    return query, key, value


def output_and_gradients(
    tensors: tuple[Tensor, ...], backend: str, *, learned: bool = True, **options: object
) -> list[Tensor]:
    """The output, and the gradients of query, key, value and, if learned, slopes."""
    leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors[:3]]
    slopes = tensors[3].detach().clone().requires_grad_(learned)
    output = alibi_attention(*leaves, slopes, backend=backend, **options)
    weight = normal(*output.shape, seed=99).to(output.dtype)
    return [output.detach(), *torch.autograd.grad(output, [*leaves, slopes][: 3 + learned], weight)]


def assert_equal(results: list[Tensor], expected: list[Tensor], tolerance: float) -> None:
    """Equal relative to the largest element of each tensor."""
    for name, result, other in zip(("output", "query", "key", "value", "slopes"), results, expected, strict=False):
        largest = max(float(other.abs().max()), 1e-3) if other.numel() else 1.0
        difference = float((result.double() - other.double()).abs().max()) if other.numel() else 0.0
        assert difference <= tolerance * largest, (name, difference, largest)
    assert len(results) == len(expected)


@st.composite
def calls(draw: st.DrawFn) -> tuple[tuple[Tensor, ...], dict[str, object]]:
    key_length = draw(st.integers(1, 330))
    query_length = draw(st.sampled_from([key_length, min(key_length, draw(st.integers(0, 5))), key_length // 2 + 1]))
    batch, key_heads, group_size = draw(st.integers(1, 3)), draw(st.integers(1, 2)), draw(st.integers(1, 2))
    head_dim, heads, seed = draw(st.sampled_from([1, 3, 8])), key_heads * group_size, draw(st.integers(0, 999))
    content = draw(st.sampled_from([0.1, 1.0, 10.0]))
    query = content * normal(batch, heads, query_length, head_dim, seed=seed)
    key, value = normal(2, batch, key_heads, key_length, head_dim, seed=seed + 1)
    slopes = torch.tensor([draw(st.sampled_from(SLOPES)) for _ in range(heads)], dtype=torch.float64)
    return (query, key, value, slopes), {"causal": draw(st.booleans()), "scale": draw(st.sampled_from([None, 0.7, -1]))}


@pytest.mark.usefixtures("threads")
@settings(max_examples=60)
@given(call=calls(), threads=st.sampled_from([1, 2, 4]))
def test_output_and_gradients_equal_those_of_eager(
    call: tuple[tuple[Tensor, ...], dict[str, object]], threads: int
) -> None:
    tensors, options = call
    torch.set_num_threads(threads)
    results = [
        output_and_gradients(tensors, backend, learned=bool(options["causal"]), **options)
        for backend in ("windowed", "eager")
    ]
    assert_equal(*results, tolerance=1e-9)


@pytest.mark.usefixtures("threads")
@pytest.mark.parametrize("threads", [1, 2, 4])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize(("rows", "columns"), [(1700, 1700), (700, 1710), (5, 1700), (1, 1700)])
def test_wide_windows_with_bands_and_neighbors_equal_eager(rows: int, columns: int, causal: bool, threads: int) -> None:
    torch.set_num_threads(threads)
    _, key, value = qkv(columns, heads=1, dim=4)
    query = 0.3 * normal(1, 2, rows, 4, seed=5)
    slopes = torch.tensor([0.048, 0.001], dtype=torch.float64)
    tolerance = 1e-22  # more than 1024 steps for the first head
    windows = key_windows(AttentionInputs(query, key, value, slopes, causal, tolerance=tolerance))
    assert 1024 < windows[0] < 0.75 * columns
    assert windows[1] == columns
    tensors = (query, key, value, slopes)
    results = output_and_gradients(tensors, "windowed", learned=causal, causal=causal, tolerance=tolerance)
    assert_equal(results, output_and_gradients(tensors, "eager", learned=causal, causal=causal), tolerance=1e-9)


def test_float32_is_exact_to_rounding() -> None:
    tensors = (*qkv(777, dim=32), alibi_slopes(4).double())
    single = tuple(tensor.float() for tensor in tensors)
    exact = output_and_gradients(tuple(tensor.double() for tensor in single), "eager")
    results = output_and_gradients(single, "windowed")
    assert float((results[0] - exact[0]).abs().max()) <= 5e-6
    assert_equal(results[:4], exact[:4], tolerance=5e-6)
    assert_equal(results[4:], exact[4:], tolerance=1e-4)


@pytest.mark.parametrize("dtype", HALF)
@pytest.mark.parametrize("causal", [True, False])
def test_half_precision_is_as_exact_as_the_mask(dtype: torch.dtype, causal: bool) -> None:
    tensors = (*(tensor.to(dtype) for tensor in qkv(530, dim=32)), alibi_slopes(4))
    exact = output_and_gradients(tuple(tensor.double() for tensor in tensors), "eager", learned=False, causal=causal)
    windowed, mask = (
        output_and_gradients(tensors, backend, learned=False, causal=causal) for backend in ("windowed", "mask")
    )
    for name, result, other, expected in zip(("output", "query", "key", "value"), windowed, mask, exact, strict=True):
        assert result.dtype == dtype
        errors = [float((t.double() - expected).norm()) for t in (result, other)]
        assert errors[0] <= 1.2 * errors[1], (name, errors)
        assert name != "output" or float((result - expected).abs().max()) <= 1.5 * float((other - expected).abs().max())


def test_extreme_content_is_as_exact_as_the_mask() -> None:
    """Norms of 100: the softmax is almost a maximum, and logits are large."""
    query, key, value = qkv(900, heads=8)
    query, key = 100 * query / query.norm(dim=-1, keepdim=True), 100 * key / key.norm(dim=-1, keepdim=True)
    tensors = (query.float(), key.float(), value.float(), alibi_slopes(8))
    exact = alibi_attention(*(tensor.double() for tensor in tensors), backend="eager")
    errors = [
        float((alibi_attention(*tensors, backend=backend) - exact).abs().max()) for backend in ("windowed", "mask")
    ]
    assert errors[0] <= 1.5 * errors[1]


@pytest.mark.parametrize("heads", [(2, 2), (2, 1)])
def test_gradients_equal_finite_differences(heads: tuple[int, int]) -> None:
    slopes = torch.tensor([0.9, 0.01], dtype=torch.float64, requires_grad=True)
    query = normal(1, heads[0], 66, 2).requires_grad_()
    key, value = (normal(1, heads[1], 70, 2, seed=seed).requires_grad_() for seed in (1, 2))

    def attention(*tensors: Tensor) -> Tensor:
        return alibi_attention(*tensors, backend="windowed")

    assert torch.autograd.gradcheck(attention, (query, key, value, slopes), fast_mode=True)
    assert torch.autograd.gradcheck(
        lambda *tensors: alibi_attention(*tensors, slopes.detach(), causal=False, backend="windowed"),
        (query, key, value),
        fast_mode=True,
    )


def test_learned_slopes_train_towards_a_target() -> None:
    query, key, value = (tensor.float() for tensor in qkv(300, heads=2))
    target = alibi_attention(query, key, value, torch.tensor([0.3, 0.1]))
    slopes = torch.tensor([0.2, 0.2], requires_grad=True)
    optimizer = torch.optim.Adam([slopes], lr=0.02)
    for _ in range(60):
        optimizer.zero_grad()
        (alibi_attention(query, key, value, slopes, backend="windowed") - target).square().mean().backward()
        optimizer.step()
    assert torch.allclose(slopes, torch.tensor([0.3, 0.1]), atol=0.02)


def test_double_backward_raises() -> None:
    query, key, value = (tensor.requires_grad_() for tensor in qkv(600, heads=1))
    output = alibi_attention(query, key, value, torch.tensor([0.5]), backend="windowed")
    (gradient,) = torch.autograd.grad(output.square().sum(), query, create_graph=True)
    with pytest.raises(RuntimeError, match="once_differentiable"):
        gradient.sum().backward()


@pytest.mark.parametrize("needed", [(0,), (1,), (2,), (3,), (0, 3)])
def test_only_tensors_that_require_a_gradient_get_one(needed: tuple[int, ...]) -> None:
    tensors = [*qkv(200, heads=2), torch.tensor([0.5, 0.01], dtype=torch.float64)]
    gradients = []
    for backend in ("windowed", "eager"):
        leaves = [t.detach().clone().requires_grad_(index in needed) for index, t in enumerate(tensors)]
        alibi_attention(*leaves, backend=backend).square().sum().backward()
        assert [leaf.grad is not None for leaf in leaves] == [index in needed for index in range(4)]
        gradients.append([leaf.grad for leaf in leaves if leaf.grad is not None])
    assert_equal(*gradients, tolerance=1e-10)


@pytest.mark.parametrize("learned", [True, False])
def test_gradients_of_a_sum_and_of_a_few_rows_equal_those_of_eager(learned: bool) -> None:
    tensors = (*qkv(200, heads=2), torch.tensor([0.5, 0.01], dtype=torch.float64))
    weight = normal(1, 2, 16, 200)
    for reduce in (Tensor.sum, lambda output: output[:, :, 3, 1].sum(), lambda output: (output.mT * weight).sum()):
        gradients = []
        for backend in ("windowed", "eager"):
            leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors[: 3 + learned]]
            output = alibi_attention(*[*leaves, *tensors[3 + learned :]], backend=backend)
            gradients.append(torch.autograd.grad(reduce(output), leaves))
        assert_equal(*gradients, tolerance=1e-10)
