"""Your own position methods: a plain function of the distance, or a subclass of `Position`."""

import inspect
import textwrap
from collections.abc import Callable, Iterable
from functools import partial
from types import FunctionType
from typing import Any, ClassVar

import torch
from torch import Tensor

from alibi_viz.arguments import as_list
from alibi_viz.models.configuration import POSITIONS
from alibi_viz.models.positions.base import Position
from alibi_viz.models.positions.relative import Relative

LawFunction = Callable[[Tensor, int, int], Tensor]
Method = str | LawFunction | type[Position]
_TRIED = 64  # distances at which a law is evaluated when a model is created, to find mistakes early
_CUSTOM: dict[str, LawFunction | type[Position]] = {}  # registered by `register_method`


def register_method(method: Method) -> str:
    """Register your own position method and return its name.

    The name is that of the function or class. Models, the lab and the apps then know it, and it is
    in `POSITIONS`. A later definition of the same name replaces it; existing models keep theirs.
    The name of a known method is returned as it is.

    Args:
        method: a name in `POSITIONS`; or a function law(distance, head, num_heads) -> bias, where
            distance is int64 [n], all at least 0, head counts from 1, and the bias is floating
            point [n]; or a subclass of `Position`.

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
        if method not in POSITIONS:
            raise ValueError(
                f"position must be one of {', '.join(POSITIONS)}, or a function, got {method!r}"
            )
        return method
    if not _is_function(method) and not _is_position_class(method):
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
    if _CUSTOM.get(name) is not method:
        position: type[Any] = method if isinstance(method, type) else law_class(name, method)
        position.name = name
        POSITIONS.pop(name, None)  # so that it becomes the last one in menus
        POSITIONS[name] = position
        _CUSTOM[name] = method
    return name


def _is_function(method: object) -> bool:
    """Whether it is a function, perhaps decorated. A `partial` has no name."""
    unwrapped = inspect.unwrap(method, stop=lambda inner: isinstance(inner, partial))  # type: ignore[arg-type]
    return isinstance(unwrapped, FunctionType)


def _is_position_class(method: object) -> bool:
    return isinstance(method, type) and issubclass(method, Position)


def register_methods(methods: Iterable[Method]) -> list[str]:
    """Register each of these methods, and return their names.

    Raises TypeError for what isn't a list, and ValueError for none or repeated ones.
    """
    names = [register_method(method) for method in as_list("methods", methods, "position methods")]
    if not names or len(set(names)) != len(names):
        raise ValueError(f"methods must be one or more different names, got {names!r}")
    return names


def custom_method(name: str) -> LawFunction | type[Position] | None:
    """The function or class that was registered under this name.

    None for the methods of alibi_viz.
    """
    return _CUSTOM.get(name)


def source_text(method: LawFunction | type[Position]) -> str:
    """The source of your own method, for reading; empty if Python has none, as in some consoles."""
    try:
        return textwrap.dedent(inspect.getsource(inspect.unwrap(method)))
    except (OSError, TypeError):
        return ""


class Law(Relative):
    """A bias given by a plain function of the distance, see `register_method`."""

    law: ClassVar[LawFunction]

    def __init__(self, num_heads: int) -> None:
        super().__init__(num_heads)
        self.table = evaluate_law(type(self).law, num_heads, _TRIED)  # no buffer: stays float32
        # A law that is random, or counts its calls, shows only when it is evaluated again.
        self._grow(2 * _TRIED)

    def curve(self, distance: Tensor) -> Tensor:
        size = int(distance.amax()) + 1 if len(distance) else 0
        if size > self.table.shape[1]:
            self._grow(size)
        self.table = self.table.to(distance.device)
        return self.table[:, distance]

    def _grow(self, size: int) -> None:
        """Extend the table to at least `size` distances.

        Raises ValueError if the law gives other values than before.
        """
        old_size = self.table.shape[1]
        try:
            table = evaluate_law(type(self).law, self.num_heads, max(size, 2 * old_size))
        except ValueError:  # perhaps the law is a table that has no more distances
            table = evaluate_law(type(self).law, self.num_heads, size)
        table = table.to(self.table.device)
        differs = ~table[:, :old_size].isclose(self.table, rtol=1e-4, atol=1e-6)
        if bool(differs.any()):
            head, distance = differs.nonzero()[0].tolist()
            before = float(self.table[head, distance])
            now = float(table[head, distance])
            raise ValueError(
                f"law {self.name!r} gives {before:g} and then {now:g} for distance {distance} in "
                f"head {head + 1}; it must depend on nothing but its arguments"
            )
        self.table = table


def evaluate_law(law: LawFunction, num_heads: int, size: int) -> Tensor:
    """The biases of a law for distances 0 to size - 1, float32 [heads, size].

    Raises ValueError for a law that raises an error or returns something else.
    """
    rows = []
    for head in range(1, num_heads + 1):
        where = f"law {law.__name__!r}, head {head} of {num_heads}"
        try:
            with torch.device("cpu"):  # values, also while a model is created on "meta"
                row = law(torch.arange(size), head, num_heads)
        except Exception as error:
            raise ValueError(f"{where}: {type(error).__name__}: {error}") from error
        rows.append(_checked_row(row, size, where))
    return torch.stack(rows)


def _checked_row(row: Any, size: int, where: str) -> Tensor:
    """What a law has returned for one head, float32 [size]; ValueError if it is no bias."""
    is_tensor = isinstance(row, Tensor)
    if not is_tensor or row.shape != (size,) or row.dtype == torch.bool or row.is_complex():
        got = f"{row.dtype} {list(row.shape)}" if is_tensor else type(row).__name__
        expected = f"a tensor of numbers [{size}]"
        raise ValueError(f"{where}: for distances [{size}] it must return {expected}, got {got}")
    if row.requires_grad:
        advice = "detach them, or write a subclass of Position"
        raise ValueError(f"{where}: a function trains no parameters; {advice}")
    row = row.float().cpu()
    bad = row.isnan() | row.isposinf()
    bad[0] |= row[0].isneginf()
    if bool(bad.any()):
        distance = int(bad.nonzero()[0, 0])
        # At distance 0, -inf could leave a token without any key.
        allowed = "a number" if distance == 0 else "a number or -inf"
        bias = float(row[distance])
        raise ValueError(f"{where}: the bias at distance {distance} is {bias}, expected {allowed}")
    return row


def law_class(name: str, law: LawFunction) -> type[Law]:
    """The position method of a law, not registered."""
    summary = inspect.getdoc(law) or f"Bias computed by the function {name}."
    return type(name, (Law,), {"law": staticmethod(law), "name": name, "__doc__": summary})
