"""Surgery on a trained model: what happens if its slopes are doubled, its bias dropped, its view cut to a window?

Each function gives a changed copy that shares every weight with the original, which stays as it is. No weight is
copied, so that costs nothing, and a copy can be changed again: `impose_window(multiply_slopes(model, 2), 64)`.
"""

import copy
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from alibi_viz.distance import right_aligned
from alibi_viz.models import LanguageModel
from alibi_viz.models.positions import Position
from alibi_viz.models.positions.rotary import ScaledRotary

__all__ = ["change_rotary_rule", "drop_bias", "evaluation_variants", "impose_window", "multiply_slopes"]


class Changed(Position):
    """A position method whose bias is multiplied head by head, and whose queries see `window` keys back at most."""

    def __init__(self, original: Position, factors: Tensor | None, window: int | None) -> None:
        super().__init__()
        self.original, self.factors, self.window = original, factors, window
        self.longest, self.is_relative = original.longest, original.is_relative

    @property
    def has_bias(self) -> bool:
        return self.original.has_bias

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        return self.original.embed(tokens, start)

    def transform(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return self.original.transform(query, key)

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor | None:
        bias = self.original.bias(query_length, key_length, x)
        if bias is not None and self.factors is not None:
            factors = self.factors.to(bias.device)[:, None, None]
            bias = torch.where(bias.isinf(), bias, bias * factors + 0.0)  # 0 times -inf would be NaN
        if self.window is not None:
            device = bias.device if bias is not None else x.device if x is not None else None
            queries, keys = right_aligned(query_length, key_length, device=device)
            far = (queries[:, None] - keys).abs() >= self.window
            bias = torch.zeros(1, *far.shape, device=device) if bias is None else bias
            bias = bias.masked_fill(far, -math.inf)
        return bias


def multiply_slopes(model: LanguageModel, factors: float | Sequence[float]) -> LanguageModel:
    """A copy whose bias is multiplied by a number, or by one number a head. For ALiBi that multiplies its slopes.

    Works for every method with a bias. Raises ValueError for a method without, for a wrong number of factors, and for
    factors that are negative or not finite.

    >>> lab.multiply_slopes(lab.make_model("alibi"), 2.0).transformer.position.bias(1, 3)[0]
    tensor([[-1.0000, -0.5000,  0.0000]])
    """
    heads = model.config.num_heads
    each = [float(factors)] * heads if isinstance(factors, int | float) else [float(factor) for factor in factors]
    if len(each) != heads or not all(math.isfinite(factor) and factor >= 0 for factor in each):
        raise ValueError(f"factors must be a number from 0 up, or one for each of the {heads} heads, got {factors!r}")
    if not model.transformer.position.has_bias:
        raise ValueError(f"position method {model.config.position!r} adds no bias that could be multiplied")
    return _with_position(model, lambda position: Changed(position, torch.tensor(each), None))


def drop_bias(model: LanguageModel, head: int | None = None) -> LanguageModel:
    """A copy without its bias, in every head or in one (0, 1, ...). Raises ValueError as `multiply_slopes`, or for a
    head that does not exist.

    >>> lab.drop_bias(lab.make_model("alibi"), head=0).transformer.position.bias(1, 3)[:2, 0]
    tensor([[ 0.0000,  0.0000,  0.0000],
            [-0.1250, -0.0625,  0.0000]])
    """
    heads = model.config.num_heads
    if head is None:
        return multiply_slopes(model, 0.0)
    if head not in range(heads):
        raise ValueError(f"head must be between 0 and {heads - 1}, got {head!r}")
    return multiply_slopes(model, [0.0 if one == head else 1.0 for one in range(heads)])


def impose_window(model: LanguageModel, window: int) -> LanguageModel:
    """A copy in which a query sees itself and the `window` - 1 keys before it, and nothing further back.

    The control that every method should be held against: with a window of the training length, a method that looks at
    distances only never meets one that it has not seen. Raises ValueError when the window is below 1.

    >>> lab.impose_window(lab.make_model("rotary"), 2).transformer.position.bias(1, 4)
    tensor([[[-inf, -inf, 0., 0.]]])
    """
    if isinstance(window, bool) or not isinstance(window, int) or window < 1:
        raise ValueError(f"window must be a whole number from 1 up, got {window!r}")
    return _with_position(model, lambda position: Changed(position, None, window))


def change_rotary_rule(model: LanguageModel, rule: str, trained_length: int | None = None) -> LanguageModel:
    """A copy whose rotary positions follow "plain", "pi" or "ntk" beyond the training length; see `rotary_rules`.

    `trained_length` is the model's `max_length` by default, which `race` and `Run` set to the training length.
    Raises ValueError for another method or an unknown rule.

    >>> lab.change_rotary_rule(lab.make_model("rotary"), "pi").transformer.position.rule
    'pi'
    """
    if model.config.position != "rotary":
        raise ValueError(f"only rotary positions have a rule to change, got position method {model.config.position!r}")
    length = model.config.max_length if trained_length is None else trained_length
    head_dim = model.config.d_model // model.config.num_heads

    def ruled(position: Position) -> Position:
        if isinstance(position, Changed):  # a window stays
            return Changed(ruled(position.original), position.factors, position.window)
        return ScaledRotary(head_dim, rule, length)

    return _with_position(model, ruled)


def evaluation_variants(model: LanguageModel, length: int) -> dict[str, LanguageModel]:
    """Copies of a model trained at `length`, to be evaluated beyond it under other rules than it was trained with.

    "window" limits attention to the last `length` keys; it is left out for methods that add absolute positions to the
    token vectors, which a window does not keep in range. "pi" and "ntk" rescale rotary positions.

    >>> from alibi_viz.lab.interventions import evaluation_variants
    >>> [list(evaluation_variants(lab.make_model(position), 32)) for position in ("rotary", "alibi", "learned")]
    [['window', 'pi', 'ntk'], ['window'], []]
    """
    variants = {"window": impose_window(model, length)} if model.transformer.position.is_relative else {}
    if model.config.position == "rotary":
        variants |= {rule: change_rotary_rule(model, rule, length) for rule in ("pi", "ntk")}
    return variants


def _with_position(model: LanguageModel, change: Callable[[Position], Position]) -> LanguageModel:
    """A copy with other position modules, one for each there was, and the very same parameters and buffers."""
    shared: list[object] = [*model.parameters(), *model.buffers()]
    replaced: dict[int, object] = {id(one): one for one in shared}
    positions = {id(one): one for one in [model.transformer.position, *_of_layers(model)]}
    replaced.update((key, change(position)) for key, position in positions.items())
    return copy.deepcopy(model, replaced)  # what is in `replaced` is not copied but taken as it is


def _of_layers(model: LanguageModel) -> list[Position]:
    found = [getattr(module, "position", None) for module in model.modules()]
    return [position for position in found if isinstance(position, Position)]
