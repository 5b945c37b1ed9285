"""Describe your own position method by its source text and the values that it reads, to recognize it in old results."""

import dis
import hashlib
import inspect
import re
from collections.abc import Iterator
from functools import partial
from types import CodeType, FunctionType, MethodType
from typing import Any

from torch import Tensor

__all__ = ["has_own_state", "provenance"]

_REGISTERED = {"name", "summary"}  # the attributes of a class that `register` sets
_LONGEST = 200  # characters of a value; longer ones, such as large tables, are given by a hash


def provenance(method: Any) -> dict[str, str]:
    """The "source" text of your own method and its "fingerprint", to be kept with results.

    Values that the method takes from outside its text follow as comments: defaults, variables of a function or module
    around it, and attributes of its object, if they are numbers, strings, tensors, or lists, tuples and dicts of these.
    Functions and base classes of the same module follow with their source. Where Python has no source text, as in
    some consoles, the source is empty and the fingerprint is that of the name, the bytecode and the values.

    >>> SLOPE = 0.5
    >>> def steep(distance, head, num_heads):
    ...     return -SLOPE * distance
    >>> from alibi_viz.models import provenance
    >>> before = provenance(steep)
    >>> SLOPE = 0.25
    >>> provenance(steep)["fingerprint"] == before["fingerprint"]
    False
    """
    target = _target(method)
    parts = _parts(method, str(getattr(target, "__module__", "")), set())
    # the text alone where nothing follows it, as in results of earlier versions
    source = ("\n".join(parts) if len(parts) > 1 else _source(target)) if _source(target) else ""
    text = source or "\n".join([str(method.__name__), *parts])
    return {"source": source, "fingerprint": _digest(text)}


def has_own_state(method: Any) -> bool:
    """Whether a method with the same text can act differently, because of a closure or of the object it belongs to."""
    if not isinstance(method, FunctionType | type):
        return True
    free = {name for each in _functions(method) for name in each.__code__.co_freevars} - {"__class__"}  # by super()
    return bool(free) or any(_text(value) is None for each in _functions(method) for value in _defaults(each).values())


def _target(method: Any) -> Any:
    """The function or class that has the source text of a method."""
    while isinstance(method, partial):
        method = method.func
    method = inspect.unwrap(method)
    if isinstance(method, MethodType):
        return method.__func__
    return method if isinstance(method, FunctionType | type) else type(method)


def _parts(method: Any, module: str, seen: set[int]) -> list[str]:
    """The source text of a method, its values, and the same for what it uses of its module."""
    target = _target(method)
    if id(target) in seen:
        return []
    seen.add(id(target))
    source, values = _source(target), _values(method, target)
    parts = [source.rstrip()] if source else [_code_text(each.__code__) for each in _functions(target)]
    for name, value in sorted(values.items()):
        text = _text(value)
        if text is not None and not _is_written(name, text, source):
            parts.append(f"# {name} = {text}")
    for each in (*(values[name] for name in sorted(values)), *getattr(target, "__bases__", ())):
        if isinstance(each, FunctionType | type) and each.__module__ == module:
            parts += _parts(each, module, seen)
    return parts


def _values(method: Any, target: Any) -> dict[str, Any]:
    """What a method takes from outside its text, by name."""
    values: dict[str, Any] = {}
    while isinstance(method, partial):
        values |= {f"argument {place}": value for place, value in enumerate(method.args)} | method.keywords
        method = method.func
    owner = getattr(method, "__self__", None if isinstance(method, FunctionType | type) else method)
    values |= {f"self.{name}": value for name, value in getattr(owner, "__dict__", {}).items()}
    # attributes may depend on a function around the class, and the text of a class in a notebook can be unknown
    if isinstance(target, type) and ("<locals>" in target.__qualname__ or target.__module__ == "__main__"):
        values |= {
            name: value
            for name, value in vars(target).items()
            if not (name.startswith("_") or name in _REGISTERED or isinstance(value, FunctionType))
        }
    for function in _functions(target):
        values |= _variables(function)
    return values


def _functions(target: Any) -> Iterator[FunctionType]:
    """A function itself, or the functions that a class defines."""
    members = vars(target).values() if isinstance(target, type) else [target]
    for member in members:
        function = member.fget if isinstance(member, property) else getattr(member, "__func__", member)
        if isinstance(function, FunctionType):
            yield function


def _variables(function: FunctionType) -> dict[str, Any]:
    """What a function reads besides its arguments: defaults, variables around it, and globals it doesn't assign."""
    values = _defaults(function)
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        try:
            values[name] = cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    known = function.__globals__
    return values | {name: known[name] for name in _global_names(function.__code__) if name in known}


def _defaults(function: FunctionType) -> dict[str, Any]:
    parameters = inspect.signature(function).parameters.values()
    defaults = {each.name: each.default for each in parameters}
    return {
        name: value for name, value in defaults.items() if value is not None and value is not inspect.Parameter.empty
    }


def _global_names(code: CodeType) -> set[str]:
    instructions = list(dis.get_instructions(code))
    read = {str(each.argval) for each in instructions if each.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            read |= _global_names(constant)
    return read - {str(each.argval) for each in instructions if each.opname == "STORE_GLOBAL"}  # a counter


def _is_written(name: str, text: str, source: str) -> bool:
    """Whether the source text itself gives a name this value, as in `def law(..., slope=0.5)`."""
    return re.search(rf"\b{re.escape(name)}\b[^=,()]*=\s*{re.escape(text)}(?![\w.])", source) is not None


def _text(value: Any) -> str | None:
    """A value as text, the same in every process; None for one that isn't plain data."""
    data = _plain(value)
    text = None if data is _Opaque else repr(data)
    return f"a value with hash {_digest(text)}" if text is not None and len(text) > _LONGEST else text


class _Opaque:
    """In place of a value that isn't plain data."""


def _plain(value: Any) -> Any:
    if value is None or isinstance(value, bool | int | float | complex | str | bytes):
        return value
    if isinstance(value, Tensor) or type(value).__module__ == "numpy":
        return _plain(value.tolist()) if hasattr(value, "tolist") else _Opaque
    if isinstance(value, list | tuple):
        items = [_plain(each) for each in value]
        return _Opaque if _Opaque in items else items
    if isinstance(value, dict) and all(isinstance(key, str) for key in value):  # with other keys it may be a cache
        entries = [(key, _plain(value[key])) for key in sorted(value)]
        return _Opaque if any(each is _Opaque for _, each in entries) else dict(entries)
    return _Opaque


def _source(target: Any) -> str:
    try:
        return inspect.getsource(target)
    except (OSError, TypeError):
        if not isinstance(target, type):
            return ""
    try:  # Python before 3.13 finds no class of a notebook, but its functions
        return "\n".join(inspect.getsource(each) for each in _functions(target))
    except (OSError, TypeError):
        return ""


def _code_text(code: CodeType) -> str:
    constants = [_code_text(each) if isinstance(each, CodeType) else repr(each) for each in code.co_consts]
    return f"{code.co_code.hex()} {constants} {code.co_names}"


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()[:16]
