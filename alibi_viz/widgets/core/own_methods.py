"""Your own position methods and laws that an app has been given: all apps then offer them."""

from alibi_viz.models.positions.methods import (
    POSITIONS,
    Method,
    evaluate_law,
    named_methods,
)

# {name: method}, the latest last
_own_methods: dict[str, Method] = {}


def known_methods() -> dict[str, Method]:
    """{name: method} of the library's methods, and of your own."""
    return {name: name for name in POSITIONS} | _own_methods


def remember_method(method: Method, num_heads: int = 4) -> str:
    """The name of a method, which all apps then offer; a later one of the same name replaces it.

    Raises TypeError or ValueError for what is no method, and for a law that fails.
    """
    ((name, _),) = named_methods([method]).items()
    if name in POSITIONS or method is _own_methods.get(name):
        return name
    if not isinstance(method, str | type):
        evaluate_law(method, num_heads, size=2)
    _own_methods.pop(name, None)  # so that it becomes the last one in menus
    _own_methods[name] = method
    return name
