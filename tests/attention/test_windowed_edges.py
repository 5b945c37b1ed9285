"""Windowed attention with any memory layout, empty inputs, autocast, NaN and inf, and what it refuses."""

import math
import subprocess
import sys

import pytest
import torch
from torch import Tensor

from alibi_viz import alibi_attention, alibi_slopes, choose_backend
from alibi_viz.attention import choose
from tests.attention.test_windowed import HALF, assert_equal, qkv

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
def test_any_memory_layout_gives_the_output_and_the_gradients_of_eager(layout: str, dim: int) -> None:
    slopes = torch.tensor([0.9, 0.01], dtype=torch.float64)
    gradients = []
    for backend in ("windowed", "eager"):
        leaves = [tensor.requires_grad_() for tensor in qkv(150, heads=2, dim=dim, batch=2)]
        output = alibi_attention(*map(LAYOUTS[layout], leaves), slopes, backend=backend)
        gradients.append([output.detach(), *torch.autograd.grad(output.square().sum(), leaves)])
    assert_equal(*gradients, tolerance=1e-8)


@pytest.mark.parametrize(("batch", "rows", "columns"), [(0, 70, 70), (2, 0, 70), (2, 0, 0), (0, 0, 0)])
def test_empty_inputs_give_empty_outputs_and_zero_gradients(batch: int, rows: int, columns: int) -> None:
    leaves = [torch.zeros(batch, 2, length, 4, requires_grad=True) for length in (rows, columns, columns)]
    slopes = torch.tensor([0.5, 0.0], requires_grad=True)
    output = alibi_attention(*leaves, slopes, backend="windowed")
    assert output.shape == (batch, 2, rows, 4)
    output.sum().backward()
    assert all(leaf.grad is not None and not leaf.grad.any() for leaf in (*leaves, slopes))


@pytest.mark.parametrize("dtype", HALF)
def test_autocast_casts_as_the_mask_does(dtype: torch.dtype, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(choose, "TRAINING", (512, 1))
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


def test_inference_mode_gives_the_output_of_eager() -> None:
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
