"""Your own position methods: a plain function of the distance, or a subclass of `Position`.

`registry` gives them their names.
"""

import inspect
import textwrap
from collections.abc import Callable
from typing import Any, ClassVar

import torch
from torch import Tensor

from alibi_viz.models.positions.base import Position
from alibi_viz.models.positions.relative import Relative

LawFunction = Callable[[Tensor, int, int], Tensor]
Method = str | LawFunction | type[Position]

# A law is evaluated at so many distances when a model is created, so that most mistakes show then,
# and not in the middle of a race.
_FIRST_DISTANCES = 64


def source_text(method: LawFunction | type[Position]) -> str:
    """The source of your own method, for reading; empty if Python has none, as in some consoles."""
    try:
        return textwrap.dedent(inspect.getsource(inspect.unwrap(method)))
    except (OSError, TypeError):
        return ""


class CustomLaw(Relative):
    """A bias given by a plain function of the distance, see `register_method`."""

    law: ClassVar[LawFunction]

    def __init__(self, num_heads: int) -> None:
        super().__init__(num_heads)
        # No buffer, so it stays float32.
        self.table = evaluate_law(type(self).law, num_heads, _FIRST_DISTANCES)
        # A law that is random, or counts its calls, shows only when it is evaluated again.
        self._grow(2 * _FIRST_DISTANCES)

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
                f"law {type(self).__name__!r} gives {before:g} and then {now:g} for distance "
                f"{distance} in head {head + 1}; it must depend on nothing but its arguments"
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


def law_class(name: str, law: LawFunction) -> type[CustomLaw]:
    """The position method of a law, not registered."""
    summary = inspect.getdoc(law) or f"Bias computed by the function {name}."
    return type(name, (CustomLaw,), {"law": staticmethod(law), "__doc__": summary})
