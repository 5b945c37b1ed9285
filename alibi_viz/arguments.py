"""Check arguments at public doors: a wrong type raises TypeError, a wrong value ValueError, and
both name the argument.

Also how a function is loaded by its name, and what is said where a dependency is missing.
"""

import importlib
import math
import operator
import sys
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any

import torch
from torch import Tensor

INSTALL = "pip install 'alibi-viz[lab]'"  # what brings everything beyond torch and NumPy


def check_tensor(name: str, value: object, dtype: str, axes: str, ndim: int | None = None) -> None:
    """Check the kind of dtype ("floating-point", "integer", "bool" or "integer or bool") and the
    number of axes."""
    if not isinstance(value, Tensor) or _kind(value) not in dtype:
        got = type(value).__name__
        if isinstance(value, Tensor):
            got = "a sparse or nested one" if _kind(value) == "sparse" else str(value.dtype)
        article = "an" if dtype.startswith("integer") else "a"
        raise TypeError(f"{name} must be {article} {dtype} tensor {axes}, got {got}")
    if ndim is not None and value.ndim != ndim:
        raise ValueError(f"{name} must be {axes}, got shape {list(value.shape)}")


def _kind(tensor: Tensor) -> str:
    if tensor.layout != torch.strided or tensor.is_nested:
        return "sparse"
    if tensor.is_floating_point():
        return "floating-point"
    return "complex" if tensor.is_complex() else "bool" if tensor.dtype == torch.bool else "integer"


def check_slopes(name: str, slopes: Tensor) -> None:
    """Check for a floating-point tensor [heads] of numbers that are finite; they are read on the
    CPU only."""
    check_tensor(name, slopes, "floating-point", "[heads]", ndim=1)
    if (
        slopes.is_cpu and not torch.compiler.is_compiling()
    ):  # reading them would stall a GPU and break a graph
        values = unwrapped(slopes)
        if not all(map(math.isfinite, values.flatten().tolist())):
            raise ValueError(f"{name} must be finite, got {values.tolist()}")


def levels(tensor: Tensor) -> list[Tensor]:
    """The tensor, and what is inside the wrappers of `torch.func`, if there are any."""
    found = [tensor]
    while not torch.compiler.is_compiling() and torch._C._functorch.is_functorch_wrapped_tensor(
        found[-1]
    ):
        found.append(torch._C._functorch.get_unwrapped(found[-1]))
    return found


def unwrapped(tensor: Tensor) -> Tensor:
    """The innermost of its `levels`, whose values can be read; under `vmap`, with the mapped
    axis."""
    return levels(tensor)[-1]


def check_integer(name: str, value: object, low: int, high: int | None = None) -> None:
    """Check for an integer from `low` to `high`."""
    if isinstance(value, bool) or not isinstance(value, int | torch.SymInt):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < low or (high is not None and value > high):
        expected = f"at least {low}" if high is None else f"between {low} and {high}"
        raise ValueError(f"{name} must be {expected}, got {value}")


def check_positive_integers(**values: object) -> None:
    """Check that each of the values is an integer of at least 1."""
    for name, value in values.items():
        is_integer = isinstance(value, int) and not isinstance(value, bool)
        if not is_integer or value < 1:  # type: ignore[operator]
            raise (ValueError if is_integer else TypeError)(
                f"{name} must be an integer of at least 1, got {value!r}"
            )


def check_seed(value: object) -> None:
    """Check for an integer of the 64 bits that torch's seeds have."""
    check_integer("seed", value, -(2**63), 2**63 - 1)


def check_number(
    name: str, value: Any, expected: str = "a finite number", holds: Any = math.isfinite
) -> None:
    """Check for an int or a float for which a condition holds."""
    if isinstance(value, bool) or not isinstance(value, int | float | torch.SymFloat):
        raise TypeError(f"{name} must be a number, got {value!r}")
    if not holds(value):
        raise ValueError(f"{name} must be {expected}, got {value!r}")


def check_positive(name: str, value: object) -> None:
    """Check for a positive, finite number."""
    check_number(name, value, "a positive, finite number", lambda number: 0 < number < math.inf)


def check_dropout(value: object) -> None:
    """Check for a probability below 1."""
    check_number("dropout", value, "at least 0 and below 1", lambda share: 0 <= share < 1)


def check_flag(name: str, value: object) -> None:
    """Check for True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {type(value).__name__}")


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Check for one of these strings."""
    if not isinstance(value, str) or value not in [*choices]:
        raise ValueError(f"{name} must be one of {', '.join(choices)}, got {value!r}")


def check_instance(name: str, value: object, *classes: type) -> None:
    """Check for an instance of one of these classes, or a module of them that is compiled."""
    if not isinstance(
        getattr(value, "_orig_mod", value), classes
    ):  # the module inside the one of `torch.compile`
        expected = " or ".join(each.__name__ for each in classes)
        raise TypeError(f"{name} must be an instance of {expected}, got {type(value).__name__}")


def as_path(name: str, value: object) -> Path:
    """A string or a pathlib.Path as a path."""
    if not isinstance(value, str | Path):
        raise TypeError(f"{name} must be a path, a str or a pathlib.Path, got {value!r}")
    return Path(value)


def check_known(name: str, values: Iterable[str], known: Iterable[str]) -> None:
    """Check that all values are among the known ones; the error names the first that isn't."""
    known = [*known]
    if unknown := [value for value in values if value not in known]:
        raise ValueError(f"{name} must be among {', '.join(known)}, got {unknown[0]!r}")


def as_list(name: str, values: object, items: str, kind: type | UnionType = object) -> list[Any]:
    """The values as a list. A string, a list of letters, isn't one; nor are values of another
    kind."""
    is_dense = (
        getattr(values, "layout", torch.strided) == torch.strided
    )  # a sparse tensor has no `tolist`
    with suppress(TypeError):
        if is_dense and not isinstance(values, str):  # numbers of an array become Python's
            found = [each.tolist() if hasattr(each, "tolist") else each for each in iter(values)]  # type: ignore[call-overload]
            if all(isinstance(each, kind) for each in found):
                return found
    raise TypeError(f"{name} must be a list of {items}, got {values!r}")


def positive_integers(name: str, values: object) -> list[int]:
    """The values as a list of one or more integers of at least 1."""
    if not (numbers := as_list(name, values, "integers")):
        raise ValueError(f"{name} must have at least one integer, got []")
    for number in numbers:
        check_positive_integers(**{name: number})
    return numbers


def load_module(name: str) -> ModuleType:
    """Import a module of alibi_viz. Raises ModuleNotFoundError that says how to install what it
    needs."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError(
            f"{name} needs {error.name}: {INSTALL}", name=error.name
        ) from error


def lazy(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose names are imported on first use, {name:
    module}."""

    def load(name: str) -> Any:
        if name not in modules:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        return getattr(load_module(modules[name]), name)

    return load, lambda: sorted(modules)


def load_function(name: str) -> Callable[..., Any]:
    """Import what is named by `package.module:function` or `folder/file.py:function`.

    The folder of a file, or the working directory, is added to the module search path, so that
    worker processes can import the function too. Raises ValueError with the reason if it cannot be
    loaded or is not callable.
    """
    module_name, _, path = name.rpartition(":")
    if not module_name:
        raise ValueError(
            f"a function must be named package.module:function or file.py:function, got {name!r}"
        )
    file = Path(module_name).resolve() if module_name.endswith(".py") else None
    try:
        if file is not None and not file.is_file():
            raise FileNotFoundError(f"there is no file {module_name}")
        folder = str(Path.cwd() if file is None else file.parent)
        if folder not in sys.path:
            sys.path.insert(0, folder)
        value: Any = importlib.import_module(module_name if file is None else file.stem)
        if file is not None and Path(value.__file__ or "").resolve() != file:
            raise ImportError(f"another module is called {file.stem}; rename the file")
        value = operator.attrgetter(path)(value)
    except (Exception, SystemExit) as error:  # whatever the file does when it is imported
        raise ValueError(f"cannot load {name}: {type(error).__name__}: {error}") from error
    if not callable(value):
        raise ValueError(f"{name} is not a function but {type(value).__name__}")
    return value
