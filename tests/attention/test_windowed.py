"""Attention without the keys that the slopes silence gives the output and the gradients of full attention."""

import math
import subprocess
import sys
from collections.abc import Iterator

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from alibi_viz import alibi_attention, alibi_slopes, choose_backend
from alibi_viz.attention.inputs import AttentionInputs
from alibi_viz.attention.windows import key_windows

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
def test_wide_windows_with_bands_and_neighbors(rows: int, columns: int, causal: bool, threads: int) -> None:
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
def test_gradcheck(heads: tuple[int, int]) -> None:
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
def test_gradients_only_where_needed(needed: tuple[int, ...]) -> None:
    tensors = [*qkv(200, heads=2), torch.tensor([0.5, 0.01], dtype=torch.float64)]
    gradients = []
    for backend in ("windowed", "eager"):
        leaves = [t.detach().clone().requires_grad_(index in needed) for index, t in enumerate(tensors)]
        alibi_attention(*leaves, backend=backend).square().sum().backward()
        assert [leaf.grad is not None for leaf in leaves] == [index in needed for index in range(4)]
        gradients.append([leaf.grad for leaf in leaves if leaf.grad is not None])
    assert_equal(*gradients, tolerance=1e-10)


@pytest.mark.parametrize("learned", [True, False])
def test_the_gradient_of_a_sum_and_of_a_few_rows(learned: bool) -> None:
    tensors = (*qkv(200, heads=2), torch.tensor([0.5, 0.01], dtype=torch.float64))
    weight = normal(1, 2, 16, 200)
    for reduce in (Tensor.sum, lambda output: output[:, :, 3, 1].sum(), lambda output: (output.mT * weight).sum()):
        gradients = []
        for backend in ("windowed", "eager"):
            leaves = [tensor.detach().clone().requires_grad_() for tensor in tensors[: 3 + learned]]
            output = alibi_attention(*[*leaves, *tensors[3 + learned :]], backend=backend)
            gradients.append(torch.autograd.grad(reduce(output), leaves))
        assert_equal(*gradients, tolerance=1e-10)


LAYOUTS = {
    "heads joined": lambda t: t.transpose(1, 2).contiguous().transpose(1, 2),
    "channels strided": lambda t: t.transpose(2, 3).contiguous().transpose(2, 3),
    "part of a larger tensor": lambda t: torch.cat((t, t, t), dim=-1)[..., t.shape[-1] : 2 * t.shape[-1]],
    "every second token": lambda t: t.repeat_interleave(2, dim=2)[:, :, ::2],
    "one head for all": lambda t: t[:, :1].expand_as(t),
    "one batch row for all": lambda t: t[:1].expand_as(t),
    "one token for all": lambda t: t[:, :, :1].expand_as(t),
}


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dim", [1, 5])
def test_any_memory_layout(layout: str, dim: int) -> None:
    slopes = torch.tensor([0.9, 0.01], dtype=torch.float64)
    gradients = []
    for backend in ("windowed", "eager"):
        leaves = [tensor.requires_grad_() for tensor in qkv(150, heads=2, dim=dim, batch=2)]
        output = alibi_attention(*map(LAYOUTS[layout], leaves), slopes, backend=backend)
        gradients.append([output.detach(), *torch.autograd.grad(output.square().sum(), leaves)])
    assert_equal(*gradients, tolerance=1e-8)


@pytest.mark.parametrize(("batch", "rows", "columns"), [(0, 70, 70), (2, 0, 70), (2, 0, 0), (0, 0, 0)])
def test_empty_inputs(batch: int, rows: int, columns: int) -> None:
    leaves = [torch.zeros(batch, 2, length, 4, requires_grad=True) for length in (rows, columns, columns)]
    slopes = torch.tensor([0.5, 0.0], requires_grad=True)
    output = alibi_attention(*leaves, slopes, backend="windowed")
    assert output.shape == (batch, 2, rows, 4)
    output.sum().backward()
    assert all(leaf.grad is not None and not leaf.grad.any() for leaf in (*leaves, slopes))


@pytest.mark.parametrize("dtype", HALF)
def test_autocast_casts_as_the_mask_does(dtype: torch.dtype) -> None:
    query, key, value = (tensor.float().requires_grad_() for tensor in qkv(1100, heads=4))
    with torch.autocast("cpu", dtype):
        assert choose_backend(query, key, alibi_slopes(4)).name == "windowed"
        output = alibi_attention(query, key, value, alibi_slopes(4))
    assert output.dtype == dtype
    output.float().sum().backward()
    expected = alibi_attention(query, key, value, alibi_slopes(4), backend="eager")
    assert float((output.float() - expected).abs().max()) < 0.03
    assert query.grad is not None
    assert query.grad.dtype == torch.float32


def test_inference_mode_and_a_graph_recorded_later() -> None:
    query, key, value = qkv(300, heads=2)
    slopes = torch.tensor([0.5, 0.1])
    with torch.inference_mode():
        output = alibi_attention(query, key, value, slopes, backend="windowed")
        assert output.is_inference()
    assert torch.allclose(output, alibi_attention(query, key, value, slopes, backend="eager"))


def test_the_transforms_of_torch_func_get_another_backend() -> None:
    query, key, value = (tensor.float() for tensor in qkv(1100, heads=2, dim=4))
    slopes = alibi_slopes(2)

    def loss(query: Tensor, backend: str = "auto") -> Tensor:
        return alibi_attention(query, key, value, slopes, backend=backend).square().sum()

    gradient = torch.func.grad(loss)(query)
    leaf = query.clone().requires_grad_()
    loss(leaf, "windowed").backward()
    assert torch.allclose(gradient, leaf.grad, atol=1e-4)
    with pytest.raises(ValueError, match=r"'windowed' does not support this call: .* the transforms of torch\.func"):
        torch.func.grad(lambda query: loss(query, "windowed"))(query)


def full_rows(query: Tensor, key: Tensor, value: Tensor, slope: float, causal: bool) -> Tensor:
    """float32 [query, head_dim], each row with only the keys it sees, so NaN behind a query cannot reach it."""
    rows = []
    for row, position in enumerate(range(len(key) - len(query), len(key))):
        end = position + 1 if causal else len(key)
        bias = -slope * (position - torch.arange(end)).abs()
        logits = key[:end] @ query[row] / math.sqrt(query.shape[-1]) + bias
        is_masked = bool((logits == -math.inf).all())
        rows.append(torch.zeros_like(value[0]) if is_masked else logits.softmax(0) @ value[:end])
    return torch.stack(rows)


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("tensor", [0, 1, 2])
@pytest.mark.parametrize("causal", [True, False])
@pytest.mark.parametrize("slope", [0.7, 0.001])
def test_nan_and_inf_reach_the_rows_that_full_attention_gives_them(
    slope: float, causal: bool, tensor: int, bad: float
) -> None:
    for first, last, channels in ((70, 71, slice(None)), (0, 1, slice(0, 1)), (130, 280, slice(0, 1)), (1, 300, [1])):
        tensors = [t[0, 0].float() for t in qkv(300, heads=1, dim=4)]
        tensors[0], tensors[1] = tensors[0].abs(), tensors[1].abs()  # so inf in one of them has logits of one sign
        tensors[tensor][first:last, channels] = bad
        query, key, value = (t[None, None] for t in tensors)
        case = {"slopes": torch.tensor([slope]), "causal": causal}
        output, eager, mask = (
            alibi_attention(query, key, value, **case, backend=backend)[0, 0]
            for backend in ("windowed", "eager", "mask")
        )
        expected = full_rows(*tensors, slope, causal)
        # inf * 0 is NaN, so the backends differ where a weight rounds to 0, or a key behind the query has inf
        equal = [torch.isclose(output, other, atol=1e-5, equal_nan=True) for other in (expected, eager, mask)]
        neither_is_finite = ~(expected.isfinite() | output.isfinite())
        assert bool((equal[0] | equal[1] | equal[2] | neither_is_finite).all()), (first, last)
        assert not bool(output[~expected.isfinite()].isfinite().any())
        if tensor == 0:
            assert bool(equal[0].all())


def test_nan_in_one_row_of_the_batch_and_one_head_does_not_reach_others() -> None:
    query, key, value = (t.float() for t in qkv(300, heads=4, batch=2))
    slopes = torch.tensor([0.7, 0.3, 0.1, 0.0])
    expected = alibi_attention(query, key, value, slopes, backend="eager")
    key = key.clone()
    key[1, 2, 150, 3] = math.nan
    output = alibi_attention(query, key, value, slopes, backend="windowed")
    is_nan = output.isnan().any(-1)
    assert bool(is_nan[1, 2, 150:].all())
    assert int(is_nan.sum()) == 150
    assert torch.allclose(output[~is_nan], expected[~is_nan], atol=1e-5)


@pytest.mark.parametrize("causal", [True, False])
def test_zero_queries_and_values_do_not_change_the_weight_of_a_token(causal: bool) -> None:
    """Its logit and its output are 0, which is also what the kernel returns for a query without any key."""
    query, key, value = (t.float() for t in qkv(300, heads=1))
    query[:, :, 64:70], value[:, :, 60:70] = 0, 0
    for bad in (0.0, math.inf):
        value[:, :, 299, 0] = bad
        case = {"slopes": torch.tensor([0.0]), "causal": causal}
        output, eager = (
            alibi_attention(query, key, value, **case, backend=backend) for backend in ("windowed", "eager")
        )
        assert torch.allclose(output[..., 1:], eager[..., 1:], atol=1e-5)


def test_unsupported_calls_raise_with_the_reason() -> None:
    query, key, value = (t.float() for t in qkv(100, heads=2))
    learned = alibi_slopes(2).requires_grad_()
    real = torch.ones(1, 100, dtype=torch.bool)
    for case, reason in (
        ({"slopes": None}, "without slopes there are no windows"),
        ({"key_padding_mask": real}, "a mask may hide the near keys"),
        ({"attn_mask": real[:, None, None]}, "a mask may hide the near keys"),
        ({"positions": torch.arange(100)}, "with explicit positions"),
        ({"dropout": 0.1}, "has no dropout"),
        ({"slopes": learned, "causal": False}, "the gradient of the slopes needs a causal mask"),
        ({"slopes": learned, "scale": 0.0}, "the gradient of the slopes is divided by the scale"),
    ):
        options = {"slopes": alibi_slopes(2)} | case
        with pytest.raises(ValueError, match=f"backend 'windowed' does not support this call: .*{reason}"):
            alibi_attention(query, key, value, backend="windowed", **options)
    with pytest.raises(ValueError, match="gradient of the slopes to half precision"):
        alibi_attention(query.half(), key.half(), value.half(), learned, backend="windowed")


def test_a_larger_tolerance_changes_the_output_by_at_most_twice_its_share() -> None:
    query, key, value = qkv(500, heads=2)
    slopes = torch.tensor([0.2, 0.1], dtype=torch.float64)
    exact = alibi_attention(query, key, value, slopes, backend="eager")
    errors = []
    for tolerance in (1e-1, 1e-3, 1e-6):
        output = alibi_attention(query, key, value, slopes, backend="windowed", tolerance=tolerance)
        errors.append(float((output - exact).abs().max()))
        assert errors[-1] <= 2 * tolerance * float(value.abs().max())
    assert errors[0] > 1e-6 > errors[-1] > 0  # so the tolerance does leave something out


MEMORY = """
from pathlib import Path
import torch
from alibi_viz import alibi_attention, alibi_slopes

def peak():
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024

torch.set_num_threads(2)
q, k, v = (torch.randn(1, 8, LENGTH, 64) for _ in range(3))
alibi_attention(q[:, :, :2048], k[:, :, :2048], v[:, :, :2048], alibi_slopes(8), backend="windowed")
Path("/proc/self/clear_refs").write_text("5")  # Linux: reset the peak to what is held now
before = peak()
output = alibi_attention(q, k, v, alibi_slopes(8), backend="windowed")
print(peak() - before - output.numel() * output.element_size() / 2**20)
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads the peak memory of a process from /proc")
def test_no_query_by_key_tensor_is_held() -> None:
    """At 16384 tokens it would take 8 GiB."""
    code = MEMORY.replace("LENGTH", "16384")
    result = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert float(result.stdout) < 64  # MiB; it is 49 at 65536 tokens too
