"""A GPU: how exact each backend is there, its time compared with no bias, and whether models train.

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
BACKENDS = ("auto", "eager", "mask", "flex", "folded")
ERRORS = {
    torch.float32: 1e-5,
    torch.bfloat16: 3e-2,
    torch.float16: 4e-3,
}  # at most, relative to the largest element
FLEX_ERROR = 1e-4  # in float32: it sums the gradient of the slopes in any order


def inputs(length: int, head_dim: int, dtype: torch.dtype, *, batch: int = 1) -> list[Tensor]:
    """Query, key, value and slopes on the GPU, which take gradients."""
    tensors = [*qkv(length, head_dim, batch=batch), alibi_slopes(HEADS)]
    return [
        tensor.to(DEVICE, dtype if tensor.ndim > 1 else None).requires_grad_() for tensor in tensors
    ]


def step(attend: Callable[..., Tensor], tensors: list[Tensor], weight: Tensor) -> list[Tensor]:
    """The output, and the gradients of the tensors."""
    output = attend(*tensors)
    return [output.detach(), *torch.autograd.grad(output, tensors, weight.to(output.dtype))]


def errors(dtype: torch.dtype, length: int = 4096) -> list[Row]:
    """The largest difference from float64 in an output and all gradients, relative to the largest
    element of each."""
    tensors, result = inputs(length, 64, dtype), list[Row]()
    weight = torch.randn_like(tensors[0])
    exact = step(
        partial(alibi_attention, backend="eager"), [tensor.double() for tensor in tensors], weight
    )
    for backend in (
        BACKENDS if dtype.itemsize == 2 else BACKENDS[:-1]
    ):  # "folded" is for half precision there
        got = step(partial(alibi_attention, backend=backend), tensors, weight)
        worst = max(
            float((a - b).abs().max() / b.abs().max()) for a, b in zip(got, exact, strict=True)
        )
        what = f"{str(dtype).removeprefix('torch.')}, L={length} d=64: largest error of {backend}"
        target = max(ERRORS[dtype], FLEX_ERROR if backend == "flex" else 0.0)
        result.append(Row(name=what, figure=worst, target=target, unit="x largest element"))
    return result


def speed(length: int, dtype: torch.dtype, *, backward: bool) -> list[Row]:
    """The time of every backend but "eager", with 16,384 tokens in the batch."""
    *tensors, slopes = inputs(length, 64, dtype, batch=max(1, 16_384 // length))
    weight = torch.randn_like(tensors[0])

    def timed(attend: Callable[..., Tensor]) -> Callable[[], None]:
        def run() -> None:
            with torch.set_grad_enabled(backward):
                step(attend, tensors, weight) if backward else attend(*tensors)
            torch.cuda.synchronize()

        return run

    ways = {"no bias": timed(partial(scaled_dot_product_attention, is_causal=True))}
    for backend in ("auto", "mask", "flex", "folded")[: 4 if dtype.itemsize == 2 else 3]:
        ways[backend] = timed(partial(alibi_attention, slopes=slopes.detach(), backend=backend))
    what = "forward and backward" if backward else "forward"
    measured = relative_times(ways, "no bias", fewest=5)
    return rows(measured, f"{what}, {str(dtype).removeprefix('torch.')}, L={length} d=64", None)


def race(steps: int = 100) -> list[Row]:
    """A race on the GPU: losses, which are finite, and the speed."""
    found = list(
        lab.race(["alibi", "rotary", "forget"], lab.load_text(), steps=steps, checkpoints=1)
    )
    losses = {
        row["method"]: row["value"] for row in found if row["question"] == lab.QUESTIONS[0].name
    }
    speeds = [row["tokens_per_second"] for row in found if "tokens_per_second" in row]
    result = [
        Row(
            name=f"a race of {steps} steps: {method}, longest test",
            figure=loss,
            target=8.0,
            unit="bits per byte",
        )
        for method, loss in losses.items()
    ]
    return [
        *result,
        Row(name="a race: training", figure=median(speeds), target=None, unit="bytes/s"),
    ]


def main() -> list[Row]:
    if not torch.cuda.is_available():
        return []
    result = [row for dtype in ERRORS for row in errors(dtype)]
    bfloat16 = [(length, torch.bfloat16) for length in (256, 1024, 4096, 16_384)]
    for call in [*bfloat16, (4096, torch.float32)]:
        result += speed(*call, backward=False) + speed(*call, backward=True)
    return result + race()
