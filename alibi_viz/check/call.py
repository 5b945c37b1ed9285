"""Call somebody else's function with a time limit, and turn whatever it returns into a tensor."""

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from alibi_viz.check.report import Finding

__all__ = ["Unusable", "call", "check_repeatable", "to_tensor", "try_each"]

Argument = TypeVar("Argument")
Result = TypeVar("Result")


class Unusable(Exception):
    """The function under test raised, hung, or returned something that cannot be read.

    `fault` is the name of the fault; the message says what happened.
    """

    def __init__(self, fault: str, message: str) -> None:
        super().__init__(message)
        self.fault = fault


def call(function: Callable[..., Any], *arguments: object, seconds: float, description: str) -> Any:
    """Return `function(*arguments)`, computed without gradients.

    Raises Unusable if it raises, or takes longer than `seconds`. Python cannot stop a running function, so one that
    hangs continues in a daemon thread until the process exits.
    """
    results: list[Any] = []
    errors: list[BaseException] = []

    def run() -> None:
        try:
            with torch.no_grad():  # the grad mode belongs to a thread
                results.append(function(*arguments))
        except BaseException as error:  # SystemExit too: the checker must outlive the function
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(seconds)
    if errors:
        raise Unusable("raises an error", f"{description}: {type(errors[0]).__name__}: {errors[0]}") from errors[0]
    if not results:
        raise Unusable("does not finish", f"{description}: no result after {seconds:g} seconds")
    return results[0]


def try_each(
    read: Callable[[Argument], Result], arguments: Iterable[Argument]
) -> tuple[dict[Argument, Result], list[Finding]]:
    """Apply `read` to each argument: the results, and a finding for every kind of fault that made it raise Unusable."""
    results: dict[Argument, Result] = {}
    failures: dict[str, list[str]] = {}
    for argument in arguments:
        try:
            results[argument] = read(argument)
        except Unusable as error:
            failures.setdefault(error.fault, []).append(str(error))
            if error.fault == "does not finish":
                break
    findings = [
        Finding(fault, messages[0] + (f" (and {len(messages) - 1} more calls)" if len(messages) > 1 else ""))
        for fault, messages in failures.items()
    ]
    return results, findings


def check_repeatable(read: Callable[[Argument], Tensor], arguments: Iterable[Argument]) -> list[Finding]:
    """Call `read` twice with each argument, and compare. Calls that are unusable are left to `try_each`."""
    for argument in arguments:
        try:
            difference = float((read(argument) - read(argument)).abs().max())
        except Unusable:
            continue
        if difference > 0:
            return [Finding("not deterministic", f"{argument}: two equal calls differ by up to {difference:.3g}")]
    return []


def to_tensor(value: Any, description: str, *, nan: bool = False) -> tuple[Tensor, torch.dtype]:
    """Convert a tensor, an array or nested lists to float64 on the CPU; also return the dtype that it had.

    Raises Unusable if it is not an array of numbers, or contains NaN; `nan` allows it.
    """
    if isinstance(value, tuple) and any(getattr(part, "ndim", 0) for part in value):
        raise Unusable("wrong type", f"{description}: expected an array, got a tuple of {len(value)}")
    if isinstance(value, Tensor):
        tensor = value.detach().cpu()
    else:
        try:
            array = np.asarray(value)
            is_bfloat16 = array.dtype.name == "bfloat16"  # JAX's type, which torch cannot convert
            tensor = torch.from_numpy(np.array(array, dtype=np.float32) if is_bfloat16 else np.array(array))
            tensor = tensor.bfloat16() if is_bfloat16 else tensor
        except (TypeError, ValueError, RuntimeError) as error:
            raise Unusable("wrong type", f"{description}: expected an array, got {type(value).__name__}") from error
    if tensor.is_complex() or tensor.dtype == torch.bool:
        raise Unusable("wrong type", f"{description}: expected real numbers, got {tensor.dtype}")
    if not nan and bool(tensor.isnan().any()):
        raise Unusable("returns NaN", f"{description}: {int(tensor.isnan().sum())} of {tensor.numel()} values are NaN")
    return tensor.double(), tensor.dtype
