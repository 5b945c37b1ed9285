"""Call somebody else's function with a time limit, and turn whatever it returns into a tensor."""

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from alibi_viz.check.report import Finding

A = TypeVar("A")
R = TypeVar("R")
_SHOWN = 300  # characters of an error message


class Unusable(Exception):
    """The function under test raised, hung, or returned something unreadable. `fault` is the name
    of the fault."""

    def __init__(self, fault: str, message: str) -> None:
        super().__init__(message)
        self.fault = fault


def call(function: Callable[..., Any], *arguments: object, seconds: float, description: str) -> Any:
    """Return `function(*arguments)`, called in a thread.

    Raises Unusable if it raises, or takes longer than `seconds`. Python cannot stop it: its daemon
    thread goes on.
    """
    results: list[Any] = []
    errors: list[BaseException] = []
    grad, inference = torch.is_grad_enabled(), torch.is_inference_mode_enabled()  # of this thread

    def run() -> None:
        try:
            with torch.inference_mode(inference), torch.set_grad_enabled(grad):
                results.append(function(*arguments))
        except BaseException as error:  # SystemExit too: the checker must outlive the function
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(min(seconds, threading.TIMEOUT_MAX))
    if errors and isinstance(errors[0], Unusable):
        raise Unusable(errors[0].fault, f"{description}: {errors[0]}")
    if errors:
        raise Unusable("raises an error", f"{description}: {_message(errors[0])}") from errors[0]
    if not results:
        raise Unusable("does not finish", f"{description}: no result after {seconds:g} seconds")
    return results[0]


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 query", "2 queries"."""
    return (
        f"1 {noun}" if number == 1 else f"{number} {'queries' if noun == 'query' else noun + 's'}"
    )


def try_each(read: Callable[[A], R], arguments: Iterable[A]) -> tuple[dict[A, R], list[Finding]]:
    """Apply `read` to each argument: the results, and a finding for every kind of fault that made
    it raise Unusable."""
    results: dict[A, R] = {}
    failures: dict[str, list[str]] = {}
    for argument in arguments:
        try:
            results[argument] = read(argument)
        except Unusable as error:
            failures.setdefault(error.fault, []).append(str(error))
            if error.fault == "does not finish":
                break
    return results, [
        Finding(fault, f"{message} (and {count(len(more), 'more call')})" if more else message)
        for fault, (message, *more) in failures.items()
    ]


def to_tensor(value: Any, description: str, *, nan: bool = False) -> tuple[Tensor, torch.dtype]:
    """A float64 tensor on the CPU, and its own dtype. Raises Unusable unless all are real numbers,
    or NaN if `nan`."""
    try:
        tensor = (
            value.detach().to_dense().cpu() if isinstance(value, Tensor) else _from_array(value)
        )
        if tensor.is_complex() or tensor.dtype == torch.bool:
            raise TypeError(f"expected real numbers, got {tensor.dtype}")
        numbers = tensor.double()
        missing = int(numbers.isnan().sum())
    except Exception as error:
        message = (
            f"{description}: a result of type {type(value).__name__} is not an array of "
            "real numbers"
        )
        raise Unusable("wrong type", f"{message} ({_message(error)})") from error
    if missing and not nan:
        raise Unusable(
            "returns NaN", f"{description}: {missing} of {numbers.numel()} values are NaN"
        )
    return numbers, tensor.dtype if tensor.is_floating_point() else torch.float64


def _from_array(value: Any) -> Tensor:
    """The array in its dtype if torch has it and it is at most float32 (JAX's bfloat16 too),
    otherwise in float64."""
    if isinstance(value, tuple) and any(getattr(part, "ndim", 0) for part in value):
        raise TypeError("expected an array, got a tuple of arrays")
    array = np.asarray(value)
    if array.dtype.kind not in "fiuV":  # bfloat16 is a V
        raise TypeError(f"expected real numbers, got {array.dtype}")
    name = array.dtype.name
    dtype = getattr(torch, name) if name in ("float32", "float16", "bfloat16") else torch.float64
    return torch.from_numpy(array.astype(np.float64)).to(dtype)


def _message(error: BaseException) -> str:
    """The type and the text of an error, shortened."""
    text = str(error)
    return f"{type(error).__name__}: {text[:_SHOWN]}{'…' if len(text) > _SHOWN else ''}"
