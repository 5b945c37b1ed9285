"""Your own position methods: a plain function of the distance, or a subclass of `Position`."""

import dis
import hashlib
import inspect
import textwrap
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from alibi_viz.arguments import as_list
from alibi_viz.models.config import POSITIONS
from alibi_viz.models.positions.base import Position
from alibi_viz.models.positions.relative import Relative

LawFunction = Callable[[Tensor, int, int], Tensor]
Method = str | LawFunction | type[Position]
_TRIED = 64  # distances at which a law is evaluated when a model is created, to find mistakes early
_LONGEST = 200  # characters of a value in the source of a method; longer ones are given by a hash
_CUSTOM: dict[str, LawFunction | type[Position]] = {}  # registered by `register_method`


def register_method(method: Method) -> str:
    """Register your own position method and return its name, which models, the lab and the apps then know.

    It is the name of the function or class. A later definition of the same name replaces it; existing models keep
    theirs. The name of a known method is returned as it is.

    Args:
        method: a name in `POSITIONS`; or a function law(distance, head, num_heads) -> bias, where distance is int64
            [n], all at least 0, head counts from 1, and the bias is floating point [n]; or a subclass of `Position`.

    Raises:
        TypeError: it is none of these.
        ValueError: there is no method of this name, or a function or class has no usable name.

    >>> def root(distance, head, num_heads):
    ...     return -0.5 * distance.float().sqrt() / head
    >>> av.models.register_method(root)
    'root'
    >>> lab.make_model(root).transformer.position.bias(1, 5)[0, 0, :4]
    tensor([-1.0000, -0.8660, -0.7071, -0.5000])
    """
    if isinstance(method, str):
        if method not in POSITIONS:
            raise ValueError(f"position must be one of {', '.join(POSITIONS)}, or a function, got {method!r}")
        return method
    is_class = isinstance(method, type)
    if not (issubclass(method, Position) if is_class else callable(method)):  # type: ignore[arg-type]
        raise TypeError(f"a position method must be a name, a function or a subclass of Position, got {method!r}")
    if method in POSITIONS.values():
        return str(method.name)  # type: ignore[union-attr]  # a class
    name = str(getattr(method, "__name__", ""))
    if not name.isidentifier():
        raise ValueError(f"a function used as a position method needs a name, given by `def`, got {method!r}")
    if name in _CUSTOM and _is_same(_CUSTOM[name], method):
        return name
    if name in POSITIONS and name not in _CUSTOM:
        raise ValueError(f"{name!r} is the name of a position method of alibi_viz; choose another name")
    POSITIONS.pop(name, None)  # the last one in menus
    _CUSTOM[name] = method
    POSITIONS[name] = method if is_class else law_class(name, method)  # type: ignore[assignment, arg-type]
    POSITIONS[name].name = name
    return name


def register_methods(methods: Iterable[Method]) -> list[str]:
    """`register_method` for each. Raises TypeError for what isn't a list, such as a single name or function."""
    return [register_method(method) for method in as_list("methods", methods, "position methods")]


def custom_method(name: str) -> LawFunction | type[Position] | None:
    """The function or class that `register_method` registered under this name; None for the methods of alibi_viz."""
    return _CUSTOM.get(name)


def _is_same(registered: Any, method: Any) -> bool:
    """Whether a method equals the registered one of its name, also if a cell of a notebook has defined it again.

    Functions and classes that are defined inside a function may share their text but not the values around it.
    """
    if registered == method:  # also the same method of the same object
        return True
    is_local = "<locals>" in getattr(method, "__qualname__", "<locals>") or inspect.ismethod(method)
    return not is_local and provenance(registered) == provenance(method)


class Law(Relative):
    """A bias given by a plain function of the distance; see `register_method`."""

    law: ClassVar[LawFunction]
    table: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__(num_heads)
        self.register_buffer("table", evaluate_law(type(self).law, num_heads, _TRIED), persistent=False)
        self._grow(2 * _TRIED)  # a second evaluation, because a law that is random or counts its calls shows only then

    def curve(self, distance: Tensor) -> Tensor:
        size = int(distance.amax()) + 1 if len(distance) else 0
        if size > self.table.shape[1]:
            self._grow(size)
        return self.table[:, distance]

    def _grow(self, size: int) -> None:
        """Extend the table to at least `size` distances, of which those before must have the same values as before."""
        old_size = self.table.shape[1]
        table = evaluate_law(type(self).law, self.num_heads, max(size, 2 * old_size)).to(self.table.device)
        same = table[:, :old_size].isclose(self.table, rtol=1e-4, atol=1e-6)
        if not bool(same.all()):
            head, distance = (int(axis) for axis in (~same).nonzero()[0])
            before, now = float(self.table[head, distance]), float(table[head, distance])
            raise ValueError(
                f"law {self.name!r} gives {before:g} and then {now:g} for distance {distance} in head {head + 1}; it "
                "must depend on nothing but its arguments"
            )
        self.table = table


def evaluate_law(law: LawFunction, num_heads: int, size: int) -> Tensor:
    """The biases of a law for distances 0 to size - 1, float32 [heads, size].

    Raises ValueError, naming the law and the value, if it fails, returns another shape or dtype, parameters, NaN, inf,
    or -inf at distance 0 (which would leave a token without any key).

    >>> from alibi_viz.models.positions.custom import evaluate_law
    >>> evaluate_law(lambda distance, head, num_heads: -distance / head, 2, 4)
    tensor([[ 0.0000, -1.0000, -2.0000, -3.0000],
            [ 0.0000, -0.5000, -1.0000, -1.5000]])
    """
    rows = []
    for head in range(1, num_heads + 1):
        where = f"law {getattr(law, '__name__', repr(law))!r}, head {head} of {num_heads}"
        try:
            row: Any = law(torch.arange(size), head, num_heads)
        except Exception as error:
            raise ValueError(f"{where}: {type(error).__name__}: {error}") from error
        if not isinstance(row, Tensor) or row.shape != (size,):
            got = f"shape {list(row.shape)}" if isinstance(row, Tensor) else type(row).__name__
            raise ValueError(f"{where}: for distances [{size}] it must return a tensor [{size}], got {got}")
        if row.dtype == torch.bool or row.is_complex():
            raise ValueError(f"{where}: it must return numbers, got {row.dtype}")
        if row.requires_grad:
            raise ValueError(f"{where}: a function trains no parameters; detach them, or write a subclass of Position")
        row = row.float().cpu()
        bad = row.isnan() | row.isposinf()
        bad[0] |= row[0].isneginf()
        if bool(bad.any()):
            at = int(bad.nonzero()[0, 0])
            raise ValueError(f"{where}: the bias at distance {at} is {float(row[at])}, expected a number or -inf")
        rows.append(row)
    return torch.stack(rows)


def law_class(name: str, law: LawFunction) -> type[Law]:
    """The position method of a law, not registered."""
    summary = inspect.getdoc(law) or f"Bias computed by the function {name}."
    return type(name, (Law,), {"law": staticmethod(law), "name": name, "__doc__": summary})


def provenance(method: Any) -> dict[str, str]:
    """The "source" of your own method and its "fingerprint", to be kept with results.

    The source is the text of the function, or of the functions of the class, and as comments the values from outside:
    defaults, variables around it, attributes. Functions and classes of the same module that it uses follow with theirs.
    The fingerprint is a hash of the source: the same in every process, and another one if a value changes.

    Limits: what belongs to other modules is known by name, and objects are, except those of classes of the same module,
    numbers, strings, tensors, arrays, lists, tuples, sets and dicts; but dicts with keys other than strings may be
    caches. Where Python keeps no text, as in some consoles, bytecode takes its place, which depends on its version.

    >>> SLOPE = 0.5
    >>> def steep(distance, head, num_heads):
    ...     return -SLOPE * distance
    >>> from alibi_viz.models.positions.custom import provenance
    >>> before = provenance(steep)
    >>> SLOPE = 0.25
    >>> provenance(steep)["fingerprint"] == before["fingerprint"]
    False
    """
    parts: list[str] = []
    seen: set[int] = set()  # functions, classes and objects that are described already
    module = inspect.unwrap(method.func if isinstance(method, partial) else method).__module__

    def describe(value: Any) -> str:  # noqa: PLR0911 - one line per kind of value
        """A value as text, without addresses. The functions and classes that it uses are added to `parts`."""
        if value is None or isinstance(value, bool | int | float | complex | str | bytes | torch.dtype):
            return repr(value)
        if isinstance(value, Tensor | np.ndarray | np.generic):
            return f"{value.dtype} {value.tolist()}"
        if isinstance(value, list | tuple | set | frozenset):
            items = [describe(item) for item in value]
            return f"({', '.join(sorted(items) if isinstance(value, set | frozenset) else items)})"
        if isinstance(value, dict) and all(isinstance(key, str) for key in value):
            return f"({', '.join(f'{key}: {describe(value[key])}' for key in sorted(value))})"
        if isinstance(value, partial | MethodType):
            return describe(value.__reduce__())  # the function or object, and the arguments or the name
        value = inspect.unwrap(value)
        name = str(getattr(value, "__qualname__", type(value).__qualname__))
        origin = getattr(value, "__module__", None) or type(value).__module__
        if origin != module or id(value) in seen:
            return name if origin == module else f"{origin}.{name}"
        seen.add(id(value))
        if not isinstance(value, FunctionType | type):
            return f"{describe(type(value))} with {describe(getattr(value, '__dict__', {}))}"
        parts.append(f"# class {name}" if isinstance(value, type) else _source(value))
        for read, item in _reads(value):
            text = describe(item)
            parts.append(f"# {read} = {text if len(text) <= _LONGEST else 'a value with hash ' + _digest(text)}")
        return name

    described = describe(method)
    source = "\n".join(parts if isinstance(method, FunctionType | type) else [*parts, f"# {described}"])
    return {"source": source, "fingerprint": _digest(source)}


def _reads(definition: FunctionType | type) -> Iterator[tuple[str, Any]]:
    """The names and values that a function takes from outside its text, or that a class is made of."""
    if isinstance(definition, type):
        yield "bases", definition.__bases__
        for name, attribute in vars(definition).items():
            member = attribute.fget if isinstance(attribute, property) else getattr(attribute, "__func__", attribute)
            if isinstance(member, FunctionType) or not (name.startswith("__") or name in ("name", "summary")):
                yield name, member
        return
    parameters = inspect.signature(definition).parameters.values()
    yield from ((each.name, each.default) for each in parameters if each.default is not each.empty)
    for name, cell in zip(definition.__code__.co_freevars, definition.__closure__ or (), strict=True):
        with suppress(ValueError):  # not assigned yet
            yield name, cell.cell_contents
    known = definition.__globals__
    read = sorted(_global_names(definition.__code__) & known.keys())
    yield from ((name, known[name]) for name in read if not isinstance(known[name], ModuleType))


def _global_names(code: CodeType) -> set[str]:
    """The globals that a function reads, except those that it assigns itself, such as a counter of its calls."""
    names = {str(each.argval) for each in dis.get_instructions(code) if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    names.update(*(_global_names(inner) for inner in code.co_consts if isinstance(inner, CodeType)))
    return names - {str(each.argval) for each in dis.get_instructions(code) if each.opname == "STORE_GLOBAL"}


def _source(function: FunctionType) -> str:
    def bytecode(code: CodeType) -> tuple[Any, ...]:
        constants = [bytecode(each) if isinstance(each, CodeType) else each for each in code.co_consts]
        return code.co_code, constants, code.co_names

    try:
        return textwrap.dedent(inspect.getsource(function)).rstrip()
    except (OSError, TypeError):
        return f"# {function.__name__}: bytecode {_digest(repr(bytecode(function.__code__)))}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
