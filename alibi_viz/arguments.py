"""Checks of arguments. The errors name the argument, what it must be and what it is."""

import math

import torch
from torch import Tensor

__all__ = ["check_integer", "check_number", "check_positive_integers", "check_slopes", "check_tensor"]


def check_tensor(name: str, value: object, dtype: str, axes: str, ndim: int | None = None) -> None:
    """Raise TypeError unless `value` is a tensor of this kind of dtype, and ValueError unless it has `ndim` axes.

    `dtype` is "floating-point", "integer", "bool" or "integer or bool".

    >>> from alibi_viz.arguments import check_tensor
    >>> check_tensor("tokens", torch.zeros(2, 5), "integer", "[batch, length]", ndim=2)
    Traceback (most recent call last):
    TypeError: tokens must be an integer tensor [batch, length], got torch.float32
    """
    if not isinstance(value, Tensor) or _kind(value) not in dtype:
        got = value.dtype if isinstance(value, Tensor) else type(value).__name__
        article = "an" if dtype.startswith("integer") else "a"
        raise TypeError(f"{name} must be {article} {dtype} tensor {axes}, got {got}")
    if ndim is not None and value.ndim != ndim:
        raise ValueError(f"{name} must be {axes}, got shape {list(value.shape)}")


def _kind(tensor: Tensor) -> str:
    if tensor.is_floating_point():
        return "floating-point"
    return "complex" if tensor.is_complex() else "bool" if tensor.dtype == torch.bool else "integer"


def check_slopes(name: str, slopes: Tensor) -> None:
    """Raise TypeError or ValueError unless `slopes` is a floating-point tensor [heads] of finite numbers.

    The numbers are checked on the CPU only: reading them would stall a GPU and break a compiled graph.
    """
    check_tensor(name, slopes, "floating-point", "[heads]", ndim=1)
    if slopes.is_cpu and not torch.compiler.is_compiling() and not all(map(math.isfinite, slopes.tolist())):
        raise ValueError(f"{name} must be finite, got {slopes.tolist()}")


def check_integer(name: str, value: object, low: int, high: int | None = None) -> None:
    """Raise TypeError unless `value` is an integer, and ValueError unless it is in the range."""
    if isinstance(value, bool) or not isinstance(value, int | torch.SymInt):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < low or (high is not None and value > high):
        expected = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ValueError(f"{name} must be {expected}, got {value}")


def check_number(name: str, value: object) -> None:
    """Raise TypeError unless `value` is an int or a float."""
    if isinstance(value, bool) or not isinstance(value, int | float | torch.SymFloat):
        raise TypeError(f"{name} must be a number, got {value!r}")


def check_positive_integers(**values: object) -> None:
    """Raise ValueError, naming the argument, for a value that is not an integer of at least 1."""
    for name, value in values.items():
        if isinstance(value, bool) or not isinstance(value, int) or value < 1:
            raise ValueError(f"{name} must be an integer of at least 1, got {value!r}")
