"""Measure backends on a GPU: their errors, their time compared with no bias, and a race.

Without a GPU nothing is measured, and what was measured before stays.
"""

from collections.abc import Callable
from functools import partial
from statistics import median

import torch
from torch import Tensor
from torch.nn.functional import scaled_dot_product_attention

from alibi_viz import alibi_attention, alibi_slopes, lab
from benchmarks.attention import HEADS, qkv, rows
from benchmarks.row import Row
from benchmarks.timing import relative_times

DEVICE = "cuda"
BACKENDS = ("auto", "eager", "mask", "folded")
# The largest errors allowed, relative to the largest element
ERRORS = {torch.float32: 1e-5, torch.bfloat16: 3e-2, torch.float16: 4e-3}


def inputs(length: int, head_dim: int, dtype: torch.dtype, *, batch: int = 1) -> list[Tensor]:
    """Query, key, value and slopes on the GPU, which take gradients."""
    tensors = [tensor.to(DEVICE, dtype) for tensor in qkv(length, head_dim, batch=batch)]
    slopes = alibi_slopes(HEADS).to(DEVICE)
    return [tensor.requires_grad_() for tensor in (*tensors, slopes)]


def step(attend: Callable[..., Tensor], tensors: list[Tensor], weight: Tensor) -> list[Tensor]:
    """The output, and the gradients of the tensors."""
    output = attend(*tensors)
    return [output.detach(), *torch.autograd.grad(output, tensors, weight.to(output.dtype))]


def errors(dtype: torch.dtype, length: int = 4096) -> list[Row]:
    """The largest difference from float64 in an output and all gradients.

    It is relative to the largest element of each.
    """
    tensors = inputs(length, 64, dtype)
    in_float64 = [tensor.double() for tensor in tensors]
    weight = torch.randn_like(tensors[0])
    exact = step(partial(alibi_attention, backend="eager"), in_float64, weight)
    result = []
    for backend in backends(dtype):
        computed = step(partial(alibi_attention, backend=backend), tensors, weight)
        relative_errors = []
        for tensor, expected in zip(computed, exact, strict=True):
            difference = (tensor - expected).abs().max() / expected.abs().max()
            relative_errors.append(float(difference))
        row = Row(
            name=f"{name_of(dtype)}, L={length} d=64: largest error of {backend}",
            figure=max(relative_errors),
            target=ERRORS[dtype],
            unit="x largest element",
        )
        result.append(row)
    return result


def backends(dtype: torch.dtype) -> list[str]:
    """The backends that work on a GPU in this dtype: "folded" only in half precision."""
    is_half_precision = dtype.itemsize == 2
    return [name for name in BACKENDS if name != "folded" or is_half_precision]


def name_of(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def speed(length: int, dtype: torch.dtype, *, backward: bool) -> list[Row]:
    """The time of every backend but "eager", with 16,384 tokens in the batch."""
    *tensors, slopes = inputs(length, 64, dtype, batch=max(1, 16_384 // length))
    weight = torch.randn_like(tensors[0])

    def run(attend: Callable[..., Tensor]) -> None:
        with torch.set_grad_enabled(backward):
            if backward:
                step(attend, tensors, weight)
            else:
                attend(*tensors)
        torch.cuda.synchronize()

    runs = {"no bias": partial(run, partial(scaled_dot_product_attention, is_causal=True))}
    for backend in backends(dtype):
        if backend != "eager":
            attend = partial(alibi_attention, slopes=slopes.detach(), backend=backend)
            runs[backend] = partial(run, attend)
    what = "forward and backward" if backward else "forward"
    measured = relative_times(runs, "no bias", fewest=5)
    return rows(measured, f"{what}, {name_of(dtype)}, L={length} d=64", None)


def race(steps: int = 100) -> list[Row]:
    """A race on the GPU: losses, which are finite, and the speed."""
    methods = ["alibi", "rotary", "forget"]
    losses = {}
    speeds = []
    for row in lab.race(methods, lab.load_text(), steps=steps, checkpoints=1):
        if row["question"] == "longer sequences":
            losses[row["method"]] = row["value"]  # the last is that of the longest test
        if "tokens_per_second" in row:
            speeds.append(row["tokens_per_second"])
    result = []
    for method, loss in losses.items():
        name = f"a race of {steps} steps: {method}, longest test"
        result.append(Row(name=name, figure=loss, target=8.0, unit="bits per byte"))
    result.append(Row(name="a race: training", figure=median(speeds), unit="bytes/s"))
    return result


def main(*, smallest: bool = False) -> list[Row]:
    if not torch.cuda.is_available():
        return []
    if smallest:
        dtype = torch.bfloat16
        return [
            *errors(dtype, length=256),
            *speed(256, dtype, backward=True),
            *race(steps=10),
        ]
    result = []
    for dtype in ERRORS:
        result += errors(dtype)
    cases = [(length, torch.bfloat16) for length in (256, 1024, 4096, 16_384)]
    for length, dtype in [*cases, (4096, torch.float32)]:
        result += speed(length, dtype, backward=False)
        result += speed(length, dtype, backward=True)
    return result + race()
