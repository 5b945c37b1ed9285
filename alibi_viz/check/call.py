"""Call somebody else's function with a time limit, and turn whatever it returns into a tensor."""

import re
import threading
import traceback
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from alibi_viz.check.conditions import with_condition
from alibi_viz.check.plan import Call
from alibi_viz.check.report import Finding

R = TypeVar("R")
_SHOWN = 300  # characters of an error message
# Files of installed packages, of the checker, and of no file at all
_OTHERS = re.compile(
    r"[/\\](site|dist)-packages[/\\]|[/\\]alibi_viz[/\\](check[/\\]|cli)|^<(?!your)"
)
# Dtypes of arrays that are kept, by their names in NumPy
_KEPT_DTYPES = {
    "float32": torch.float32,
    "float16": torch.float16,
    "bfloat16": torch.bfloat16,
}


class CannotCheck(ValueError):
    """The checker cannot do its work: an error of ours, not a fault of the function."""


class Unusable(Exception):
    """The function under test raised, hung, or returned something unreadable.

    `fault` is the name of the fault.
    """

    def __init__(self, fault: str, message: str) -> None:
        super().__init__(message)
        self.fault = fault


def on_the_cpu() -> AbstractContextManager[Any]:
    """Within it, new tensors are on the CPU, whatever the caller has set.

    `torch.device` makes each call of torch slower, so it is entered only if another one is set.
    """
    if torch.get_default_device().type == "cpu":
        return nullcontext()
    return torch.device("cpu")


def call(function: Callable[..., Any], *arguments: object, seconds: float, description: str) -> Any:
    """Return `function(*arguments)`, called in a thread.

    Raises Unusable if it raises, or takes longer than `seconds`. Python cannot stop it: its daemon
    thread goes on.
    """
    results: list[Any] = []
    errors: list[BaseException] = []
    # A new thread has torch's defaults, not what the caller has chosen.
    grad_mode = torch.is_grad_enabled()
    inference_mode = torch.is_inference_mode_enabled()

    def run() -> None:
        try:
            with torch.inference_mode(inference_mode), torch.set_grad_enabled(grad_mode):
                results.append(function(*arguments))
        except BaseException as error:  # SystemExit too: the checker must outlive the function
            errors.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    thread.join(min(seconds, threading.TIMEOUT_MAX))
    if errors and isinstance(errors[0], CannotCheck):
        raise errors[0]
    if errors and isinstance(errors[0], Unusable):
        raise Unusable(errors[0].fault, f"{description}: {errors[0]}")
    if errors:
        message = f"{description}: {_message(errors[0])}{_place(errors[0])}"
        raise Unusable("raises an error", message) from errors[0]
    if not results:
        raise Unusable("does not finish", f"{description}: no result after {seconds:g} seconds")
    return results[0]


class Failures:
    """The calls without a result, by fault, with the message of each."""

    def __init__(self) -> None:
        self.by_fault: dict[str, dict[Call, str]] = {}
        self.causes: dict[str, BaseException] = {}  # the first error of a fault

    def add(self, call: Call, error: Unusable) -> None:
        self.by_fault.setdefault(error.fault, {})[call] = str(error)
        if error.__cause__ is not None:
            self.causes.setdefault(error.fault, error.__cause__)

    def drop(self, calls: Collection[Call]) -> None:
        """Forget that these calls failed."""
        for fault, messages in list(self.by_fault.items()):
            kept = {call: text for call, text in messages.items() if call not in calls}
            self.by_fault[fault] = kept
            if not kept:
                del self.by_fault[fault]

    @property
    def calls(self) -> list[Call]:
        return [call for messages in self.by_fault.values() for call in messages]

    def findings(self, right: Collection[Call]) -> list[Finding]:
        """A finding for each fault, with the condition under which calls fail and others don't."""
        findings = []
        for fault, messages in self.by_fault.items():
            first_message = next(iter(messages.values()))
            evidence = with_condition(first_message, list(messages), right)
            findings.append(Finding(fault, evidence, self.causes.get(fault)))
        return findings


def try_each(read: Callable[[Call], R], calls: Sequence[Call]) -> tuple[dict[Call, R], Failures]:
    """Make each call with `read`, up to one that does not finish.

    Returns what it returned, and the calls for which it raised Unusable.
    """
    results: dict[Call, R] = {}
    failures = Failures()
    for made in calls:
        try:
            results[made] = read(made)
        except Unusable as error:
            failures.add(made, error)
            if error.fault == "does not finish":
                break
    return results, failures


def to_tensor(value: Any, description: str, *, nan: bool = False) -> tuple[Tensor, torch.dtype]:
    """A float64 tensor on the CPU, and its own dtype.

    Raises Unusable unless all elements are real numbers; NaN is allowed if `nan`.
    """
    try:
        if isinstance(value, Tensor):
            tensor = value.detach().to_dense().cpu()
        else:
            tensor = _from_array(value)
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
    infinite = int(numbers.isposinf().sum())
    if infinite and not nan:
        raise Unusable(
            "returns NaN", f"{description}: {infinite} of {numbers.numel()} values are infinite"
        )
    return numbers, tensor.dtype if tensor.is_floating_point() else torch.float64


def _from_array(value: Any) -> Tensor:
    """The array as a tensor of the same dtype, if that is float32 or less; otherwise in float64.

    JAX's bfloat16 is kept, too.
    """
    if isinstance(value, tuple) and any(getattr(part, "ndim", 0) for part in value):
        raise TypeError("expected an array, got a tuple of arrays")
    array = np.asarray(value)
    if array.dtype.kind not in "fiuV":  # bfloat16 is a V
        raise TypeError(f"expected real numbers, got {array.dtype}")
    dtype = _KEPT_DTYPES.get(array.dtype.name, torch.float64)
    return torch.from_numpy(array.astype(np.float64)).to(dtype)


def _place(error: BaseException) -> str:
    """Where the caller's own code raised an error, in words: its deepest line."""
    frames = traceback.extract_tb(error.__traceback__)
    own = [frame for frame in frames if not _OTHERS.search(frame.filename)]
    if not own:
        return ""
    return f", in {own[-1].name} ({Path(own[-1].filename).name}, line {own[-1].lineno})"


def _message(error: BaseException) -> str:
    """The type and the text of an error, in one line and shortened."""
    name = type(error).__name__
    try:
        text = " ".join(str(error).split())
    except Exception:  # the error is somebody else's, too
        return name
    if len(text) > _SHOWN:
        text = text[:_SHOWN] + "…"
    return f"{name}: {text}" if text else name
