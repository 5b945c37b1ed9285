"""What a position method can be, and the `Position` that a model makes of it.

A method is a name in `POSITIONS`; your own law, a function law(distance, head, num_heads) -> bias,
where distance is int64 [n], all at least 0, head counts from 1, and the bias is floating point [n];
or your own subclass of `Position`. All three can be used wherever a method is asked for.
"""

import inspect
import textwrap
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor

from alibi_viz.arguments import as_list, check_choice
from alibi_viz.models.positions.absolute import Learned, Sinusoidal
from alibi_viz.models.positions.base import Config, NoPosition, Position
from alibi_viz.models.positions.biases import (
    Alibi,
    Decay,
    Fire,
    Forget,
    KerpleLog,
    Relative,
    T5Buckets,
)
from alibi_viz.models.positions.rotary import Rotary, Xpos

LawFunction = Callable[[Tensor, int, int], Tensor]
Method = str | LawFunction | type[Position]

# The built-in methods, in the order of menus
POSITIONS: Mapping[str, type[Position]] = {
    "alibi": Alibi,
    "sinusoidal": Sinusoidal,
    "rotary": Rotary,
    "learned": Learned,
    "none": NoPosition,
    "t5": T5Buckets,
    "kerple-log": KerpleLog,
    "fire": Fire,
    "decay": Decay,
    "forget": Forget,
    "xpos": Xpos,
}
# A law is evaluated at so many distances when a model is created, so that most mistakes show then,
# and not in the middle of a race.
_FIRST_DISTANCES = 64


def check_method(argument: str, method: object) -> None:
    """Raise TypeError for what is no position method, and ValueError for an unknown name."""
    if isinstance(method, str):
        check_choice(argument, method, POSITIONS)
    elif not callable(method) or (isinstance(method, type) and not issubclass(method, Position)):
        raise TypeError(
            f"{argument} must be a name, a function or a subclass of Position, got {method!r}"
        )


def method_name(method: Method) -> str:
    """The name of a method: that of a function or class is its own."""
    if isinstance(method, str):
        return method
    for name, built_in in POSITIONS.items():
        if method is built_in:
            return name
    if isinstance(method, partial):
        return method_name(method.func)
    own_name: str = getattr(method, "__name__", type(method).__name__)
    return own_name


def named_methods(methods: Mapping[str, Method] | Iterable[Method]) -> dict[str, Method]:
    """The methods by name: {name: method}, or a list of methods, which have names of their own.

    Raises TypeError for something else, and ValueError for none, and for an unknown, a repeated or
    a missing name.
    """
    if isinstance(methods, Mapping):
        named = list(methods.items())
    else:
        listed = as_list("methods", methods, "position methods, or {name: method}")
        named = [(method_name(method), method) for method in listed]

    names = [name for name, _ in named]
    for name, method in named:
        check_method("methods", method)
        if not isinstance(name, str):
            raise TypeError(f"the name of a position method must be a string, got {name!r}")
        if name == "<lambda>":
            raise ValueError("a lambda has no name: give methods as {name: method}")
        # Tables and figures have nothing but the name.
        if name in POSITIONS and method not in (name, POSITIONS[name]):
            raise ValueError(
                f"{name!r} is the name of a position method of alibi_viz; choose another name"
            )
    if not names or len(set(names)) < len(names):
        raise ValueError(
            "methods must be one or more with different names, which {name: method} can give, "
            f"got {names!r}"
        )
    return dict(named)


def make_position(method: Method, config: Config) -> Position:
    """The position method of a transformer with these settings."""
    if isinstance(method, str):
        return POSITIONS[method].from_config(config)
    if isinstance(method, type):
        own_class: type[Position] = method
        position = own_class.from_config(config)
        if not any(position.uses(hook) for hook in ("embed", "rotate", "bias", "logits")):
            raise ValueError(
                f"{own_class.__name__} must override embed, rotate or bias of Position, or it adds "
                "nothing"
            )
        return position
    return Law(method, config.num_heads)


def summary(method: Method) -> str:
    """The first line of the docstring, for menus and help texts."""
    described = POSITIONS[method] if isinstance(method, str) else method
    docstring = inspect.getdoc(described) or "A position method of your own"
    return docstring.partition("\n")[0]


def source_text(method: Method) -> str:
    """The source of your own method, for reading; empty if Python has none, as in some consoles."""
    own: Any = method.func if isinstance(method, partial) else method
    try:
        return textwrap.dedent(inspect.getsource(inspect.unwrap(own)))
    except (OSError, TypeError):
        return ""


class Law(Relative):
    """A bias given by your own function of the distance."""

    def __init__(self, law: LawFunction, num_heads: int) -> None:
        super().__init__(num_heads)
        self.law = law
        # No buffer, so it stays float32.
        self.table = evaluate_law(law, num_heads, _FIRST_DISTANCES)
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
            table = evaluate_law(self.law, self.num_heads, max(size, 2 * old_size))
        except ValueError:  # perhaps the law is a table that has no more distances
            table = evaluate_law(self.law, self.num_heads, size)
        table = table.to(self.table.device)
        differs = ~table[:, :old_size].isclose(self.table, rtol=1e-4, atol=1e-6)
        if bool(differs.any()):
            head, distance = differs.nonzero()[0].tolist()
            before = float(self.table[head, distance])
            now = float(table[head, distance])
            raise ValueError(
                f"law {method_name(self.law)!r} gives {before:g} and then {now:g} for distance "
                f"{distance} in head {head + 1}; it must depend on nothing but its arguments"
            )
        self.table = table


def evaluate_law(law: LawFunction, num_heads: int, size: int) -> Tensor:
    """The biases of a law for distances 0 to size - 1, float32 [heads, size].

    Raises ValueError for a law that raises an error or returns something else.
    """
    rows = []
    for head in range(1, num_heads + 1):
        where = f"law {method_name(law)!r}, head {head} of {num_heads}"
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
