"""Your own position methods: a plain function of the distance, or a subclass of `Position`."""

import dis
import hashlib
import inspect
import re
import textwrap
from collections.abc import Callable, Iterable
from functools import cached_property, partial
from types import CodeType, FunctionType, ModuleType
from typing import Any, ClassVar

import numpy as np
import torch
from torch import Tensor

from alibi_viz.arguments import as_list
from alibi_viz.models.configuration import POSITIONS
from alibi_viz.models.positions.base import Position
from alibi_viz.models.positions.relative import Relative

LawFunction = Callable[[Tensor, int, int], Tensor]
Method = str | LawFunction | type[Position]
_TRIED = 64  # distances at which a law is evaluated when a model is created, to find mistakes early
_LONGEST = 200  # characters of a value in the source of a method; longer ones are given by a hash
_TEXTS: dict[
    int, tuple[CodeType, str]
] = {}  # by the identity of code, because equal code may have other defaults
_CUSTOM: dict[str, LawFunction | type[Position]] = {}  # registered by `register_method`


def register_method(method: Method) -> str:
    """Register your own position method and return its name, which models, the lab and the apps
    then know.

    It is the name of the function or class. A later definition of the same name replaces it;
    existing models keep theirs. The name of a known method is returned as it is.

    Args:
        method: a name in `POSITIONS`; or a function law(distance, head, num_heads) -> bias, where
            distance is int64 [n], all at least 0, head counts from 1, and the bias is floating
            point [n]; or a subclass of `Position`.

    Raises TypeError if it is none of these, and ValueError for an unknown name or one that can't be
    used.

    >>> def root(distance, head, num_heads):
    ...     return -0.5 * distance.float().sqrt() / head
    >>> av.models.register_method(root)
    'root'
    >>> lab.make_model(root).transformer.position.bias(1, 5)[0, 0, :4]
    tensor([-1.0000, -0.8660, -0.7071, -0.5000])
    """
    if isinstance(method, str):
        if method not in POSITIONS:
            raise ValueError(
                f"position must be one of {', '.join(POSITIONS)}, or a function, got {method!r}"
            )
        return method
    unwrapped = inspect.unwrap(
        method, stop=lambda each: isinstance(each, partial)
    )  # whose arguments have no text
    is_function = isinstance(unwrapped, FunctionType)
    if not (issubclass(method, Position) if isinstance(method, type) else is_function):
        raise TypeError(
            "a position method must be a name, a function or a subclass of Position, got "
            f"{method!r}"
        )
    if method in POSITIONS.values():
        return str(method.name)  # type: ignore[union-attr]  # a class
    name = method.__name__
    if not name.isidentifier():
        raise ValueError(
            f"a function used as a position method needs a name, given by `def`, got {method!r}"
        )
    if name in POSITIONS and name not in _CUSTOM:
        raise ValueError(
            f"{name!r} is the name of a position method of alibi_viz; choose another name"
        )
    if name not in _CUSTOM or not _is_same(_CUSTOM[name], method):
        POSITIONS.pop(name, None)  # the last one in menus
        _CUSTOM[name] = method
        POSITIONS[name] = method if isinstance(method, type) else law_class(name, method)
        POSITIONS[name].name = name
    return name


def register_methods(methods: Iterable[Method]) -> list[str]:
    """`register_method` for each. Raises TypeError for what isn't a list, ValueError for none or
    repeated ones."""
    names = [register_method(method) for method in as_list("methods", methods, "position methods")]
    if not names or len(set(names)) != len(names):
        raise ValueError(f"methods must be one or more different names, got {names!r}")
    return names


def custom_method(name: str) -> LawFunction | type[Position] | None:
    """The function or class that `register_method` registered under this name; None for the methods
    of alibi_viz."""
    return _CUSTOM.get(name)


def _is_same(registered: Any, method: Any) -> bool:
    """Whether a method equals the registered one of its name, also if a cell of a notebook has
    defined it again."""
    is_local = (
        "<locals>" in method.__qualname__
    )  # then equal text may stand for other values around it
    return registered == method or (not is_local and provenance(registered) == provenance(method))


class Law(Relative):
    """A bias given by a plain function of the distance, see `register_method`."""

    law: ClassVar[LawFunction]

    def __init__(self, num_heads: int) -> None:
        super().__init__(num_heads)
        self.table = evaluate_law(
            type(self).law, num_heads, _TRIED
        )  # no buffer, so it stays float32 in any model
        self._grow(
            2 * _TRIED
        )  # a second evaluation, because a law that is random or counts its calls shows only then

    def curve(self, distance: Tensor) -> Tensor:
        size = int(distance.amax()) + 1 if len(distance) else 0
        if size > self.table.shape[1]:
            self._grow(size)
        self.table = self.table.to(distance.device)
        return self.table[:, distance]

    def _grow(self, size: int) -> None:
        """Extend the table to at least `size` distances, of which those before must have the same
        values as before."""
        old_size = self.table.shape[1]
        try:
            table = evaluate_law(type(self).law, self.num_heads, max(size, 2 * old_size))
        except ValueError:  # perhaps the law is a table that has no more distances
            table = evaluate_law(type(self).law, self.num_heads, size)
        table = table.to(self.table.device)
        differs = ~table[:, :old_size].isclose(self.table, rtol=1e-4, atol=1e-6)
        if bool(differs.any()):
            head, distance = differs.nonzero()[0].tolist()
            before, now = float(self.table[head, distance]), float(table[head, distance])
            where = (
                f"for distance {distance} in head {head + 1}; it must depend on nothing but "
                "its arguments"
            )
            raise ValueError(f"law {self.name!r} gives {before:g} and then {now:g} {where}")
        self.table = table


def evaluate_law(law: LawFunction, num_heads: int, size: int) -> Tensor:
    """The biases of a law for distances 0 to size - 1, float32 [heads, size]. Raises ValueError for
    a bad law."""
    rows = []
    for head in range(1, num_heads + 1):
        where = f"law {law.__name__!r}, head {head} of {num_heads}"
        try:
            with torch.device("cpu"):  # values, also while a model is created on "meta"
                row: Any = law(torch.arange(size), head, num_heads)
        except Exception as error:
            raise ValueError(f"{where}: {type(error).__name__}: {error}") from error
        is_tensor = isinstance(row, Tensor)
        if not is_tensor or row.shape != (size,) or row.dtype == torch.bool or row.is_complex():
            got = f"{row.dtype} {list(row.shape)}" if is_tensor else type(row).__name__
            raise ValueError(
                f"{where}: for distances [{size}] it must return a tensor of numbers [{size}], "
                f"got {got}"
            )
        if row.requires_grad:
            raise ValueError(
                f"{where}: a function trains no parameters; detach them, or write a subclass of "
                "Position"
            )
        row = row.float().cpu()
        bad = row.isnan() | row.isposinf()
        bad[0] |= row[0].isneginf()  # which would leave a token without any key
        if bool(bad.any()):
            or_inf = " or -inf" * bool(at := int(bad.nonzero()[0, 0]))
            raise ValueError(
                f"{where}: the bias at distance {at} is {float(row[at])}, expected a number{or_inf}"
            )
        rows.append(row)
    return torch.stack(rows)


def law_class(name: str, law: LawFunction) -> type[Law]:
    """The position method of a law, not registered."""
    summary = inspect.getdoc(law) or f"Bias computed by the function {name}."
    return type(name, (Law,), {"law": staticmethod(law), "name": name, "__doc__": summary})


def source_text(method: Any) -> str:
    """The dedented source text of your own method; "" if Python keeps none."""
    try:
        return textwrap.dedent(inspect.getsource(method))
    except (OSError, TypeError):
        return ""


def provenance(method: Any) -> dict[str, str]:
    """The "source" of your own method and its "fingerprint", to be kept with results.

    The source is the text of the function, or of the functions of the class, and as comments the
    values from outside: defaults, variables around it, attributes. Functions and classes of the
    same module that it uses follow with theirs. The fingerprint is a hash of the source: the same
    in every process, and another one if a value changes.

    Limits: objects, and what belongs to other modules, are known by their `repr` without addresses.
        Where Python keeps
    no text, as in some consoles, bytecode takes its place, which depends on Python's version.
    """
    parts: dict[Any, str] = {}  # the functions and classes that are described already
    module = inspect.unwrap(method).__module__

    def describe(value: Any) -> str:
        """A value as text. The functions and classes of the module that it uses are added to
        `parts`."""
        if isinstance(value, property | cached_property):
            value = value.fget if isinstance(value, property) else value.func
        if isinstance(value, Tensor | np.ndarray):
            value = value.dtype, value.tolist()
        elif isinstance(value, dict):
            value = [*value.items()]
        if isinstance(value, list | tuple | set | frozenset):
            texts = [*map(describe, value)]
            return str(texts if isinstance(value, list | tuple) else sorted(texts))
        value = inspect.unwrap(
            value, stop=lambda each: isinstance(each, FunctionType)
        )  # not a decorated function
        if not isinstance(value, FunctionType | type) or value.__module__ != module:
            return _without_addresses(value)
        if value not in parts:
            parts[value] = ""  # it may use itself
            lines = [
                f"# class {value.__name__}" if isinstance(value, type) else _text(value.__code__)
            ]
            for name, item in _reads(value).items():
                text = describe(item)
                lines.append(
                    f"# {name} = "
                    f"{text if len(text) <= _LONGEST else 'a value with hash ' + _digest(text)}"
                )
            parts[value] = "\n".join(lines)
        return value.__qualname__

    describe(method)
    source = "\n".join(parts.values())
    return {"source": source, "fingerprint": _digest(source)}


def _reads(definition: Any) -> dict[str, Any]:
    """The names and values that a function takes from outside its text, or that a class is made
    of."""
    if isinstance(definition, type):
        members = {name: getattr(each, "__func__", each) for name, each in vars(definition).items()}
        texts = [name for name in members if name.startswith("__") or name in ("name", "summary")]
        own = {
            n: each
            for n, each in members.items()
            if isinstance(each, FunctionType) or n not in texts
        }
        return {"bases": definition.__bases__, **own}
    known, names = definition.__globals__, sorted(_global_names(definition.__code__))
    used = {
        name: known[name]
        for name in names
        if name in known and not isinstance(known[name], ModuleType)
    }
    parameters = inspect.signature(definition, follow_wrapped=False).parameters.values()
    defaults = {each.name: each.default for each in parameters if each.default is not each.empty}
    return {**defaults, **inspect.getclosurevars(definition).nonlocals, **used}


def _global_names(code: CodeType) -> set[str]:
    names = {
        str(each.argval) for each in dis.get_instructions(code) if each.opname == "LOAD_GLOBAL"
    }
    return names.union(
        *(_global_names(inner) for inner in code.co_consts if isinstance(inner, CodeType))
    )


def _text(code: CodeType) -> str:
    """The text that was read first, because a file may be edited while its functions stay as they
    are."""
    if id(code) not in _TEXTS:
        try:
            if code.co_filename == "<string>":
                raise OSError  # `exec` keeps no text: Python 3.13 would return that of `python -c`
            text = textwrap.dedent(inspect.getsource(code)).rstrip()
        except (OSError, TypeError):
            text = f"# {code.co_name}: bytecode {_digest(_without_addresses(_instructions(code)))}"
        _TEXTS[id(code)] = code, text
    return _TEXTS[id(code)][1]


def _instructions(code: CodeType) -> Any:
    """All that a function without text does, with the functions inside."""
    constants = [
        _instructions(each) if isinstance(each, CodeType) else each for each in code.co_consts
    ]
    in_order = [
        sorted(map(repr, each)) if isinstance(each, frozenset) else each for each in constants
    ]
    return code.co_code, code.co_names, in_order


def _without_addresses(value: object) -> str:
    return re.sub(" at 0x[0-9a-f]+", "", repr(value))


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
