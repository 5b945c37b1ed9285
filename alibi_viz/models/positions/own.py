"""Your own position methods: a plain function of the distance, or a subclass of `Position`."""

import inspect
from collections.abc import Callable, Iterable
from typing import Any, ClassVar

import torch
from torch import Tensor

from alibi_viz.arguments import as_list
from alibi_viz.models.config import POSITIONS
from alibi_viz.models.positions.base import Position, register
from alibi_viz.models.positions.provenance import has_own_state, provenance
from alibi_viz.models.positions.relative import Relative

__all__ = ["Law", "LawFunction", "Method", "evaluate_law", "law_class", "method_name", "method_names", "own_method"]

LawFunction = Callable[[Tensor, int, int], Tensor]
Method = str | LawFunction | type[Position]
_TRIED = 64  # distances at which a law is evaluated when a model is created, to find mistakes early
_OWN: dict[str, LawFunction | type[Position]] = {}  # registered by `method_name`


def method_name(method: Method) -> str:
    """The name of a position method, which is registered first if it is your own.

    Afterwards models, the lab, the apps and the command line know it by this name, the function's or the class's own.
    A later definition of the same name replaces it; existing models keep theirs.

    Args:
        method: a name in `POSITIONS`; or a function law(distance, head, num_heads) -> bias, where distance is int64
            [n], all at least 0, head counts from 1, and the bias is floating point [n]; or a subclass of `Position`.

    Raises:
        TypeError: it is none of these.
        ValueError: there is no method of this name, or a function or class has no usable name.

    >>> def root(distance, head, num_heads):
    ...     return -0.5 * distance.float().sqrt() / head
    >>> av.models.method_name(root)
    'root'
    >>> lab.make_model(root).transformer.position.bias(1, 5)[0, 0, :4]
    tensor([-1.0000, -0.8660, -0.7071, -0.5000])
    """
    if isinstance(method, str):
        if method not in POSITIONS:
            raise ValueError(f"position must be one of {', '.join(POSITIONS)}, or a function, got {method!r}")
        return method
    is_class = isinstance(method, type) and issubclass(method, Position)
    if not is_class and (isinstance(method, type) or not callable(method)):
        raise TypeError(f"a position method must be a name, a function or a subclass of Position, got {method!r}")
    name = str(getattr(method, "__name__", ""))
    if not name.isidentifier():
        raise ValueError(f"a function used as a position method needs a name, given by `def`, got {method!r}")
    if name in _OWN and _is_same(_OWN[name], method):
        return name
    if name in POSITIONS and name not in _OWN:
        raise ValueError(f"{name!r} is the name of a position method of alibi_viz; choose another name")
    POSITIONS.pop(name, None)
    _OWN[name] = method
    own: type[Any] = method if is_class else law_class(name, method)  # type: ignore[assignment, arg-type]
    register(name)(own)
    return name


def method_names(methods: Iterable[Method]) -> list[str]:
    """The `method_name` of each. Raises TypeError for what isn't a list, such as a single name or function."""
    return [method_name(method) for method in as_list("methods", methods, "position methods")]


def own_method(name: str) -> LawFunction | type[Position] | None:
    """The function or class that `method_name` registered under this name; None for the methods of alibi_viz."""
    return _OWN.get(name)


def _is_same(registered: Any, method: Any) -> bool:
    """Whether a method is defined like the registered one of its name, as when a cell of a notebook runs again."""
    if registered == method:  # also the same method of the same object
        return True
    if has_own_state(registered) or has_own_state(method) or registered.__module__ != method.__module__:
        return False
    one, other = provenance(registered), provenance(method)
    return one == other and one["source"] != ""


class Law(Relative):
    """A bias given by a plain function of the distance; see `method_name`."""

    law: ClassVar[LawFunction]
    table: Tensor

    def __init__(self, num_heads: int) -> None:
        super().__init__(num_heads)
        self.register_buffer("table", self._evaluate(_TRIED), persistent=False)
        self._grow(2 * _TRIED)  # a second evaluation, because a law that is random or counts its calls shows only then

    def curve(self, distance: Tensor) -> Tensor:
        if len(distance):
            self._grow(int(distance.amax()) + 1)
        return self.table[:, distance]

    def _grow(self, size: int) -> None:
        """Extend the table to `size` distances. Raises ValueError if the law gives other values than before."""
        old_size = self.table.shape[1]
        if size <= old_size:
            return
        table = self._evaluate(max(size, 2 * old_size)).to(self.table.device)
        same = table[:, :old_size].isclose(self.table, rtol=1e-4, atol=1e-6)
        if not bool(same.all()):
            head, distance = (int(axis) for axis in (~same).nonzero()[0])
            before, now = float(self.table[head, distance]), float(table[head, distance])
            raise ValueError(
                f"law {self.name!r} gives {before:g} and then {now:g} for distance {distance} in head {head + 1}; it "
                "must depend on nothing but its arguments"
            )
        self.table = table

    def _evaluate(self, size: int) -> Tensor:
        return evaluate_law(type(self).law, self.num_heads, size)


def evaluate_law(law: LawFunction, num_heads: int, size: int) -> Tensor:
    """The biases of a law for distances 0 to size - 1, float32 [heads, size].

    Raises ValueError, naming the law and the value, if it fails, returns another shape or dtype, parameters, NaN, inf,
    or -inf at distance 0 (which would leave a token without any key).

    >>> from alibi_viz.models.positions.own import evaluate_law
    >>> evaluate_law(lambda distance, head, num_heads: -distance / head, 2, 4)
    tensor([[ 0.0000, -1.0000, -2.0000, -3.0000],
            [ 0.0000, -0.5000, -1.0000, -1.5000]])
    """
    name = getattr(law, "__name__", repr(law))
    rows = []
    for head in range(1, num_heads + 1):
        where = f"law {name!r}, head {head} of {num_heads}"
        distance = torch.arange(size)
        try:
            row: Any = law(distance, head, num_heads)
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
