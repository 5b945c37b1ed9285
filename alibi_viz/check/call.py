"""Call somebody else's function with a time limit, and turn whatever it returns into a tensor."""

import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack, contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

import numpy as np
import torch
from torch import Tensor

from alibi_viz.arguments import check_number
from alibi_viz.check.report import Finding

Argument = TypeVar("Argument")
Result = TypeVar("Result")
_RUNNING: set[threading.Thread] = set()  # not `is_alive`: after Ctrl-C in `join`, Python 3.11 calls a thread stopped
_CALLER: ContextVar[tuple[torch.device, list[tuple[str, torch.dtype]]]] = ContextVar("_CALLER")
_SHOWN = 300  # characters of an error message


class Unusable(Exception):
    """The function under test raised, hung, or returned something that cannot be read.

    `fault` is the name of the fault; the message says what happened.
    """

    def __init__(self, fault: str, message: str) -> None:
        super().__init__(message)
        self.fault = fault


@contextmanager
def on_cpu() -> Iterator[None]:
    """Compute on the CPU in full precision, and remember the caller's default device and autocast for `call`."""
    autocast = [
        (device, torch.get_autocast_dtype(device)) for device in ("cpu", "cuda") if torch.is_autocast_enabled(device)
    ]
    token = _CALLER.set((torch.get_default_device(), autocast))
    try:
        with torch.device("cpu"), torch.autocast("cpu", enabled=False):
            yield
    finally:
        _CALLER.reset(token)


def call(function: Callable[..., Any], *arguments: object, seconds: float, description: str) -> Any:
    """Return `function(*arguments)`, on the default device and with the autocast that the caller of the check has set.

    Raises Unusable if it raises, or takes longer than `seconds`. Python cannot stop a running function, so one that
    hangs continues in a daemon thread until the process exits.
    """
    results: list[Any] = []
    errors: list[BaseException] = []
    device, autocast = _CALLER.get((torch.get_default_device(), []))

    def run() -> None:
        try:
            with ExitStack() as stack:  # both belong to a thread
                if device.type != "cpu":
                    stack.enter_context(device)
                for kind, dtype in autocast:
                    stack.enter_context(torch.autocast(kind, dtype=dtype))
                results.append(function(*arguments))
        except BaseException as error:  # SystemExit too: the checker must outlive the function
            errors.append(error)
        finally:
            _RUNNING.remove(thread)

    thread = threading.Thread(target=run, daemon=True)
    _RUNNING.add(thread)
    thread.start()
    thread.join(seconds)
    if errors and isinstance(errors[0], Unusable):
        raise Unusable(errors[0].fault, f"{description}: {errors[0]}")
    if errors:
        raise Unusable("raises an error", f"{description}: {_message(errors[0])}") from errors[0]
    if not results:
        raise Unusable("does not finish", f"{description}: no result after {seconds:g} seconds")
    return results[0]


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 query", "2 queries"."""
    return f"1 {noun}" if number == 1 else f"{number} {'queries' if noun == 'query' else noun + 's'}"


def check_seconds(seconds: object) -> None:
    """Raise TypeError or ValueError unless `seconds` is a number above 0 that Python can wait for."""
    check_number("seconds", seconds)
    if not 0 < seconds <= threading.TIMEOUT_MAX:  # type: ignore[operator]  # a number, as was just checked
        raise ValueError(f"seconds must be positive and at most {threading.TIMEOUT_MAX:.0f}, got {seconds!r}")


def is_running() -> bool:
    """Whether a function that took too long, or was interrupted, is still running."""
    return bool(_RUNNING)


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
    findings = []
    for fault, (message, *more) in failures.items():
        findings.append(Finding(fault, f"{message} (and {count(len(more), 'more call')})" if more else message))
    return results, findings


def check_repeatable(read: Callable[[Argument], Tensor], argument: Argument, tolerance: float) -> list[Finding]:
    """Call `read` twice, and compare. A first call that is unusable is left to `try_each`, unless it hangs."""
    try:
        first = read(argument)
    except Unusable as error:
        return [Finding(error.fault, str(error))] if error.fault == "does not finish" else []
    try:
        difference = float((read(argument) - first).abs().nan_to_num(0.0).max())
    except Unusable as error:
        return [Finding("not deterministic", f"{error}, but only in the second of two equal calls")]
    if difference <= tolerance:
        return []
    return [Finding("not deterministic", f"{argument}: two equal calls differ by up to {difference:.3g}")]


def to_tensor(value: Any, description: str, *, nan: bool = False) -> tuple[Tensor, torch.dtype]:
    """Convert a tensor, an array or nested lists to float64 on the CPU; also return its floating-point dtype.

    Raises Unusable if it is not an array of real numbers, or contains NaN; `nan` allows it.
    """
    try:
        if isinstance(value, tuple) and any(getattr(part, "ndim", 0) for part in value):
            raise TypeError("expected an array, got a tuple of arrays")
        tensor = value.detach().to_dense().cpu() if isinstance(value, Tensor) else _from_array(value)
        if tensor.is_complex() or tensor.dtype == torch.bool:
            raise TypeError(f"expected real numbers, got {tensor.dtype}")
        numbers = tensor.double()
        missing = int(numbers.isnan().sum())
    except (Exception, SystemExit) as error:
        message = f"{description}: a result of type {type(value).__name__} is not an array of real numbers"
        raise Unusable("wrong type", f"{message} ({_message(error)})") from error
    if missing and not nan:
        raise Unusable("returns NaN", f"{description}: {missing} of {numbers.numel()} values are NaN")
    return numbers, tensor.dtype if tensor.is_floating_point() else torch.float64


def _from_array(value: Any) -> Tensor:
    array = np.asarray(value)
    if array.dtype == object and any(number is None for number in array.flat):  # numpy would make it NaN
        raise TypeError("None is not a number")
    if array.dtype.name == "bfloat16":  # JAX's type, which torch cannot convert
        return torch.from_numpy(array.astype(np.float32)).bfloat16()
    try:
        return torch.from_numpy(np.array(array))
    except (TypeError, ValueError):  # such as extended precision, another byte order, or Python's Decimal
        return torch.from_numpy(array.astype(np.float64))


def _message(error: BaseException) -> str:
    """The type and the text of an error, shortened, whatever it contains."""
    try:
        text = str(error).encode("utf-8", "replace").decode()
    except Exception:
        text = "(its text cannot be read)"
    return f"{type(error).__name__}: {text[:_SHOWN]}{'…' if len(text) > _SHOWN else ''}"
