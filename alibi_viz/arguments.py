"""Check arguments at public doors, and load modules and functions by name.

A wrong type raises TypeError, a wrong value ValueError. Both messages name the argument, what was
expected and what was given.
"""

import importlib
import math
import operator
import sys
from collections.abc import Callable, Iterable, Mapping
from difflib import get_close_matches
from numbers import Integral, Real
from pathlib import Path
from types import ModuleType, UnionType
from typing import Any

import torch
from torch import Tensor

LARGEST_INTEGER = 2**63 - 1  # of an int64 tensor
# Also NumPy's, and those of a compiled graph for any length
_INTEGERS: Any = (Integral, torch.SymInt)
_PYTHONS_INTEGERS: Any = (int, torch.SymInt)
_NUMBERS: Any = (Real, torch.SymFloat)
# Installs everything beyond torch and NumPy.
INSTALL = "pip install 'alibi-viz[lab]', which needs torch 2.13 or newer"


def check_tensor(name: str, value: object, dtype: str, axes: str, ndim: int | None = None) -> None:
    """Check the kind of dtype and the number of axes of a tensor.

    dtype: kinds joined by " or ", such as "integer or bool"; the kinds are "floating-point",
        "integer", "bool" and "complex".
    axes: the axes in words, such as "[heads]", for the message.
    """
    if not isinstance(value, Tensor):
        got = type(value).__name__
    elif value.layout != torch.strided or value.is_nested:
        got = "a sparse or nested one"
    elif _kind(value) not in dtype.split(" or "):
        got = str(value.dtype)
    elif ndim is not None and value.ndim != ndim:
        raise ValueError(f"{name} must be {axes}, got shape {list(value.shape)}")
    else:
        return
    article = "an" if dtype.startswith("integer") else "a"
    raise TypeError(f"{name} must be {article} {dtype} tensor {axes}, got {got}")


def _kind(tensor: Tensor) -> str:
    if tensor.is_floating_point():
        return "floating-point"
    if tensor.is_complex():
        return "complex"
    if tensor.dtype == torch.bool:
        return "bool"
    return "integer"


def check_slopes(name: str, slopes: Tensor) -> None:
    """Check for a floating-point tensor [heads] of finite numbers, where these can be read."""
    check_tensor(name, slopes, "floating-point", "[heads]", ndim=1)
    if not can_be_read(slopes):
        return
    values = slopes.tolist()
    # For so few numbers, this is faster than torch.
    if not all(map(math.isfinite, values)):
        raise ValueError(f"{name} must be finite, got {values}")


def can_be_read(tensor: Tensor) -> bool:
    """Whether reading values neither waits for a GPU nor breaks a compiled graph or a transform."""
    return tensor.is_cpu and not torch.compiler.is_compiling() and not is_transformed(tensor)


def is_transformed(tensor: Tensor) -> bool:
    """Whether a transform of `torch.func`, such as `vmap` or `grad`, has wrapped this tensor.

    `requires_grad` of such a tensor tells only of the innermost transform, so it may hide that an
    outer one needs a gradient.
    """
    if torch.compiler.is_compiling():
        return False
    try:
        tensor.data_ptr()
    except RuntimeError:  # a wrapper has no memory of its own
        return True
    return False


def check_integer(name: str, value: Any, low: int, high: int | None = None) -> int:
    """Check for an integer from `low` to `high`, by default to the largest that torch can store.

    Returns it as Python's: one of NumPy has other methods.
    """
    if isinstance(value, bool) or not isinstance(value, _INTEGERS):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if high is not None and not low <= value <= high:
        raise ValueError(f"{name} must be between {low} and {high}, got {value}")
    if value < low:
        raise ValueError(f"{name} must be at least {low}, got {value}")
    if value > LARGEST_INTEGER:
        raise ValueError(f"{name} must be at most {LARGEST_INTEGER}, got {value}")
    return value if isinstance(value, _PYTHONS_INTEGERS) else int(value)


def check_positive_integers(**values: object) -> None:
    """Check that each of the values is an integer of at least 1."""
    for name, value in values.items():
        message = f"{name} must be an integer of at least 1, got {value!r}"
        if isinstance(value, bool) or not isinstance(value, Integral):
            raise TypeError(message)
        if int(value) < 1:
            raise ValueError(message)
        check_integer(name, value, 1)  # is not too large


def check_seed(value: object) -> int:
    """An integer of at least 0 that torch can store."""
    return check_integer("seed", value, 0)


def check_number(
    name: str,
    value: Any,
    expected: str = "a finite number",
    is_valid: Callable[[Any], bool] = math.isfinite,
) -> Any:
    """Check for a real number that is valid; `expected` says in words which ones are.

    Returns it as Python's: with one of NumPy, arithmetic could be in float32.
    """
    if isinstance(value, bool) or not isinstance(value, _NUMBERS):
        raise TypeError(f"{name} must be a number, got {value!r}")
    # Code that turns such an integer into a float would raise OverflowError.
    is_too_large = type(value) is int and abs(value) > sys.float_info.max
    if is_too_large or not is_valid(value):
        raise ValueError(f"{name} must be {expected}, got {value!r}")
    return value if isinstance(value, (int, float, torch.SymFloat)) else float(value)


def check_positive(name: str, value: object) -> Any:
    """Check for a positive, finite number, and return it as `check_number` does."""
    return check_number(
        name, value, "a positive, finite number", lambda number: 0 < number < math.inf
    )


def check_dropout(value: object) -> Any:
    """Check for a probability below 1, and return it as `check_number` does."""
    return check_number("dropout", value, "at least 0 and below 1", lambda number: 0 <= number < 1)


def check_flag(name: str, value: object) -> None:
    """Check for True or False."""
    if not isinstance(value, bool):
        raise TypeError(f"{name} must be True or False, got {type(value).__name__}")


def check_choice(name: str, value: object, choices: Iterable[str]) -> None:
    """Check for one of these strings."""
    choices = list(choices)
    message = f"{name} must be one of {', '.join(choices)}, got {value!r}"
    if not isinstance(value, str):
        raise TypeError(message)
    if value not in choices:
        raise ValueError(message + near_miss(value, choices))


def near_miss(value: object, choices: Iterable[str]) -> str:
    """The end of a message about a name that isn't one of these: the one that may be meant.

    Empty if none is similar. Capitals don't count.

    >>> from alibi_viz.arguments import near_miss
    >>> near_miss("ALiBi", ["alibi", "rotary"])
    "; did you mean 'alibi'?"
    """
    names = {choice.lower(): choice for choice in choices}
    for similar in get_close_matches(str(value).lower(), names, n=1, cutoff=0.7):
        return f"; did you mean {names[similar]!r}?"
    return ""


def check_instance(name: str, value: object, *classes: type) -> None:
    """Check for an instance of one of these classes, or a compiled module of one of them."""
    # `torch.compile` wraps a module and keeps the original under this name.
    original = getattr(value, "_orig_mod", value)
    if not isinstance(original, classes):
        expected = " or ".join(cls.__name__ for cls in classes)
        raise TypeError(f"{name} must be an instance of {expected}, got {type(value).__name__}")


def as_path(name: str, value: object) -> Path:
    """A string or a pathlib.Path as a path."""
    if not isinstance(value, str | Path):
        raise TypeError(f"{name} must be a path, a str or a pathlib.Path, got {value!r}")
    return Path(value)


def check_known(name: str, values: Iterable[str], known: Iterable[str]) -> None:
    """Check that all values are among the known ones; the error names the first that isn't."""
    known = list(known)
    for value in values:
        if value not in known:
            raise ValueError(
                f"{name} must be among {', '.join(known)}, got {value!r}{near_miss(value, known)}"
            )


def as_list(name: str, values: object, items: str, kind: type | UnionType = object) -> list[Any]:
    """The values as a list of Python objects of one kind; `items` names them in the message.

    Values of an array become Python numbers. A string is refused, although it can be iterated.
    """
    message = f"{name} must be a list of {items}, got {values!r}"
    is_sparse = getattr(values, "layout", torch.strided) != torch.strided  # it has no `tolist`
    if is_sparse or isinstance(values, str):
        raise TypeError(message)
    try:
        elements = list(values)  # type: ignore[call-overload]
        elements = [item.tolist() if hasattr(item, "tolist") else item for item in elements]
    except TypeError:  # it cannot be iterated
        raise TypeError(message) from None
    if not all(isinstance(item, kind) for item in elements):
        raise TypeError(message)
    return elements


def positive_integers(name: str, values: object) -> list[int]:
    """The values as a list of one or more integers of at least 1."""
    numbers = as_list(name, values, "integers")
    if not numbers:
        raise ValueError(f"{name} must have at least one integer, got []")
    for number in numbers:
        check_positive_integers(**{name: number})
    return numbers


def load_module(name: str) -> ModuleType:
    """Import a module of alibi_viz; if a dependency is missing, the error says what to install."""
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError as error:
        message = f"{name} needs {error.name}: {INSTALL}"
        raise ModuleNotFoundError(message, name=error.name) from error


def lazy(
    package: str, modules: Mapping[str, str]
) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """The `__getattr__` and `__dir__` of a package whose names are imported on first use.

    modules: the module in which each public name is defined, {name: module}.
    """

    def get_attribute(name: str) -> Any:
        if name not in modules:
            raise AttributeError(
                f"module {package!r} has no attribute {name!r}; a lesson that uses it is of "
                "another version"
            )
        return getattr(load_module(modules[name]), name)

    def list_names() -> list[str]:
        return sorted(modules)

    return get_attribute, list_names


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
    try:
        if module_name.endswith(".py"):
            module = _import_file(module_name)
        else:
            _add_to_search_path(Path.cwd())
            module = importlib.import_module(module_name)
        value = operator.attrgetter(path)(module)
    except (Exception, SystemExit) as error:  # whatever the file does when it is imported
        raise ValueError(f"cannot load {name}: {type(error).__name__}: {error}") from error
    if not callable(value):
        raise ValueError(f"{name} is not a function but {type(value).__name__}")
    return value


def _import_file(name: str) -> ModuleType:
    file = Path(name).resolve()
    if not file.is_file():
        raise FileNotFoundError(f"there is no file {name}")
    _add_to_search_path(file.parent)
    module = importlib.import_module(file.stem)
    if Path(module.__file__ or "").resolve() != file:
        raise ImportError(f"another module is called {file.stem}; rename the file")
    return module


def _add_to_search_path(folder: Path) -> None:
    if str(folder) not in sys.path:
        sys.path.insert(0, str(folder))
