"""Position methods by name: the built-in ones of `POSITIONS`, and your own."""

import inspect
from collections.abc import Iterable
from functools import partial
from types import FunctionType
from typing import Any

from alibi_viz.arguments import as_list
from alibi_viz.models.positions import POSITIONS
from alibi_viz.models.positions.base import Position
from alibi_viz.models.positions.custom import CustomLaw, LawFunction, Method, law_class

# Your own methods, in the order in which they were registered. `register_method` adds to it, for a
# function the class that `law_class` makes of it.
_OWN_METHODS: dict[str, type[Position]] = {}


def method_names() -> list[str]:
    """The names of all position methods, in the order of menus: your own are the last."""
    return [*POSITIONS, *_OWN_METHODS]


def position_class(name: str) -> type[Position]:
    """The class of a position method. Raises KeyError for an unknown name."""
    if name in _OWN_METHODS:
        return _OWN_METHODS[name]
    return POSITIONS[name]


def custom_method(name: str) -> LawFunction | type[Position] | None:
    """The function or class that was registered under this name.

    None for the methods of alibi_viz.
    """
    if name not in _OWN_METHODS:
        return None
    own_class = _OWN_METHODS[name]
    if issubclass(own_class, CustomLaw):
        return own_class.law
    return own_class


def register_method(method: Method) -> str:
    """Register your own position method and return its name.

    The name is that of the function or class. Models, the lab and the apps then know it. A later
    definition of the same name replaces it; existing models keep theirs. The name of a known method
    is returned as it is.

    Args:
        method: a name; or a function law(distance, head, num_heads) -> bias, where distance is
            int64 [n], all at least 0, head counts from 1, and the bias is floating point [n]; or a
            subclass of `Position`.

    Raises TypeError if it is none of these, and ValueError for an unknown name or one that can't be
    used.

    >>> import alibi_viz as av
    >>> from alibi_viz import lab
    >>> def root(distance, head, num_heads):
    ...     return -0.5 * distance.float().sqrt() / head
    >>> av.models.register_method(root)
    'root'
    >>> lab.make_model(root).transformer.position.bias(1, 5)[0, 0, :4]
    tensor([-1.0000, -0.8660, -0.7071, -0.5000])
    """
    if isinstance(method, str):
        names = method_names()
        if method not in names:
            raise ValueError(
                f"a position method must be one of {', '.join(names)}, or a function, got "
                f"{method!r}"
            )
        return method
    if not _is_function(method) and not _is_position_class(method):
        raise TypeError(
            "a position method must be a name, a function or a subclass of Position, got "
            f"{method!r}"
        )
    for name in method_names():
        if position_class(name) is method:
            return name

    name = method.__name__
    if not name.isidentifier():
        raise ValueError(
            f"a function used as a position method needs a name, given by `def`, got {method!r}"
        )
    if name in POSITIONS:
        raise ValueError(
            f"{name!r} is the name of a position method of alibi_viz; choose another name"
        )
    if custom_method(name) is not method:
        _OWN_METHODS.pop(name, None)  # so that it becomes the last one in menus
        _OWN_METHODS[name] = method if isinstance(method, type) else law_class(name, method)
    return name


def register_methods(methods: Iterable[Method]) -> list[str]:
    """Register each of these methods, and return their names.

    Raises TypeError for what isn't a list, and ValueError for none or repeated ones.
    """
    names = [register_method(method) for method in as_list("methods", methods, "position methods")]
    if not names or len(set(names)) != len(names):
        raise ValueError(f"methods must be one or more different names, got {names!r}")
    return names


def _is_function(method: object) -> bool:
    """Whether it is a function, perhaps decorated. A `partial` has no name."""

    def is_partial(inner: Any) -> bool:
        return isinstance(inner, partial)

    unwrapped = inspect.unwrap(method, stop=is_partial)  # type: ignore[arg-type]
    return isinstance(unwrapped, FunctionType)


def _is_position_class(method: object) -> bool:
    return isinstance(method, type) and issubclass(method, Position)
