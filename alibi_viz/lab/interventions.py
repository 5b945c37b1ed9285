"""Interventions on a trained model: scale or drop its bias, limit its attention to a window, change its rotary rule.

Each returns a modified copy that shares every weight with the original, which stays as it is. Copies can be modified
again: `impose_window(multiply_slopes(model, 2), 64)`.
"""

import copy
import math
from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from alibi_viz.arguments import check_instance, check_integer, check_positive_integers, factors_per_head
from alibi_viz.bias import right_aligned
from alibi_viz.lab.attention_stats import SINKS
from alibi_viz.models import LanguageModel, Position, SelfAttention
from alibi_viz.models.positions.rotary import ScaledRotary

__all__ = [
    "VARIANTS",
    "change_rotary_rule",
    "combine_windows",
    "drop_bias",
    "evaluation_variants",
    "has_sinks",
    "impose_window",
    "interpolate_slopes",
    "multiply_slopes",
]

VARIANTS = {  # the names in `evaluation_variants`, and how a caption says them
    "window": "with attention limited to a window of the training length",
    "window and sinks": f"with attention limited to a window of the training length and the first {SINKS} tokens",
    "pi": "with rotary positions interpolated (PI)",
    "ntk": "with rotary frequencies scaled (NTK)",
    "yarn": "with rotary frequencies scaled by parts (YaRN)",
    "slopes interpolated": "with ALiBi's slopes multiplied by L/L' on windows of L' > L",
}


class ModifiedPosition(Position):
    """A position method with its bias multiplied per head, and attention limited to the last `window` keys.

    The first `sinks` keys stay visible too, with the bias of the keys before the window.
    """

    def __init__(self, original: Position, factors: Tensor | None, window: int | None, sinks: int = 0) -> None:
        super().__init__()
        self.original, self.factors, self.window, self.sinks = original, factors, window, sinks
        self.max_length, self.is_relative = original.max_length, original.is_relative
        self.reads_input, self.is_additive = original.reads_input, original.is_additive
        self.decoder_only = original.decoder_only
        self.supports_cache, self.is_random = original.supports_cache, original.is_random

    @property
    def has_bias(self) -> bool:
        return self.original.has_bias

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        return self.original.embed(tokens, start)

    def transform(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return self.original.transform(query, key)

    def weigh(self, query: Tensor, key: Tensor, bias: Tensor | None, *, causal: bool) -> Tensor:
        return self.original.weigh(query, key, bias, causal=causal)

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor | None:
        bias = self.original.bias(query_length, key_length, x)
        if bias is not None and self.factors is not None:
            factors = self.factors.to(bias.device)[:, None, None]
            bias = torch.where(bias.isinf(), bias, bias * factors + 0.0)  # 0 times -inf would be NaN
        if self.window is not None:
            device = bias.device if bias is not None else x.device if x is not None else None
            queries, keys = right_aligned(query_length, key_length, device=device)
            outside = (queries[:, None] - keys).abs() >= self.window
            bias = torch.zeros(1, *outside.shape, device=device) if bias is None else bias
            if self.sinks:
                skipped = (queries[:, None] - self.window - self.sinks + 1).clamp(min=0)
                nearer = keys + skipped * (keys < self.sinks)  # [query, key]
                bias = bias.expand(-1, *outside.shape).gather(2, nearer.expand(len(bias), -1, -1))
            bias = bias.masked_fill(outside & (keys >= self.sinks), -math.inf)
        return bias


def _modified(position: Position, factors: Tensor | None, window: int | None, sinks: int = 0) -> Position:
    """Modify a position method. If it is modified already, the changes are combined into one `ModifiedPosition`."""
    if type(position) is ModifiedPosition:
        if position.factors is not None:
            factors = position.factors if factors is None else position.factors * factors
        window, sinks = combine_windows((position.window, position.sinks), (window, sinks))
        position = position.original
    return ModifiedPosition(position, factors, window, sinks)


def combine_windows(first: tuple[int | None, int], second: tuple[int | None, int]) -> tuple[int | None, int]:
    """The window and the sinks that are left when two windows, each with its sinks, are imposed; None for no window.

    Raises ValueError if the keys that both leave visible are not a window with sinks.
    """
    if first[0] is None or second[0] is None:
        return second if first[0] is None else first
    if (first[0] - second[0]) * (first[1] - second[1]) < 0:
        raise ValueError(
            f"the model has a window of {first[0]} with {first[1]} sinks already, which cannot be combined with one of "
            f"{second[0]} with {second[1]}: change the original model instead"
        )
    return min(first[0], second[0]), min(first[1], second[1])


class InterpolatedSlopes(ModifiedPosition):
    """A position method whose bias is divided by s when there are s > 1 times as many keys as in training."""

    def __init__(self, original: Position, trained_length: int) -> None:
        super().__init__(original, None, None)
        self.trained_length = trained_length

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor | None:
        bias = self.original.bias(query_length, key_length, x)
        return None if bias is None else bias * min(1.0, self.trained_length / key_length)


def multiply_slopes(model: LanguageModel, factors: float | Sequence[float]) -> LanguageModel:
    """Multiply the bias by a number, or by one number per head; for ALiBi, this multiplies the slopes.

    Raises ValueError for a method without a bias, and for factors that are negative, not finite, or not one per head.

    >>> lab.multiply_slopes(lab.make_model("alibi"), 2.0).transformer.position.bias(1, 3)[0]
    tensor([[-2., -1.,  0.]])
    """
    check_instance("model", model, LanguageModel)
    per_head = factors_per_head(factors, model.config.num_heads)
    if not model.transformer.position.has_bias:
        raise ValueError(f"position method {model.config.position!r} has no bias to multiply")
    return _with_position(model, lambda position: _modified(position, torch.tensor(per_head), None))


def drop_bias(model: LanguageModel, head: int | None = None) -> LanguageModel:
    """Set the bias to zero, in every head or in one (0, 1, ...).

    Raises ValueError for a method without a bias, and TypeError or ValueError for a head that does not exist.

    >>> lab.drop_bias(lab.make_model("alibi"), head=0).transformer.position.bias(1, 3)[:2, 0]
    tensor([[ 0.0000,  0.0000,  0.0000],
            [-0.5000, -0.2500,  0.0000]])
    """
    check_instance("model", model, LanguageModel)
    num_heads = model.config.num_heads
    if head is not None:
        check_integer("head", head, 0, num_heads - 1)
    return multiply_slopes(model, [float(head is not None and head != other) for other in range(num_heads)])


def impose_window(model: LanguageModel, window: int, sinks: int = 0) -> LanguageModel:
    """Limit the attention of each query to itself and the `window` - 1 keys before it.

    With a window of the training length, a method that depends only on distances never sees one that did not occur in
    training. This is the control to compare every method with.

    The first `sinks` tokens can stay visible. As in StreamingLLM (Xiao et al. 2023, arXiv 2309.17453, section 3.2),
    distances skip the tokens between them and the window.

    Raises ValueError for a window below 1, for sinks with a method whose distances are not all in a bias (see
    `has_sinks`), and for a second window that is smaller but keeps more sinks, or the other way round.

    >>> lab.impose_window(lab.make_model("rotary"), 2).transformer.position.bias(1, 4)
    tensor([[[-inf, -inf, 0., 0.]]])
    >>> lab.impose_window(lab.make_model("alibi"), 2, sinks=1).transformer.position.bias(1, 5)[0]
    tensor([[-1.0000,    -inf,    -inf, -0.5000,  0.0000]])
    """
    check_instance("model", model, LanguageModel)
    check_positive_integers(window=window)
    check_integer("sinks", sinks, 0)
    if sinks and not has_sinks(model):
        raise ValueError(
            f"sinks must be 0 for position method {model.config.position!r}, whose distances are not all in a bias, "
            f"got {sinks}"
        )
    return _with_position(model, lambda position: _modified(position, None, window, sinks))


def has_sinks(model: LanguageModel) -> bool:
    """Whether `impose_window` can keep the first tokens: positions act only through a bias that doesn't read the input.

    >>> from alibi_viz.lab.interventions import has_sinks
    >>> [has_sinks(lab.make_model(name)) for name in ("alibi", "none", "rotary", "sinusoidal")]
    [True, True, False, False]
    """
    position = model.transformer.position
    while isinstance(position, ModifiedPosition):
        position = position.original
    rotates = type(position).transform is not Position.transform
    return position.is_relative and position.is_additive and not rotates and not position.reads_input


def interpolate_slopes(model: LanguageModel, trained_length: int | None = None) -> LanguageModel:
    """Multiply ALiBi's slopes by L / L' on inputs of L' > L tokens, where L is the training length.

    This is position interpolation for ALiBi (Al-Khateeb et al. 2023, arXiv 2310.13017): the largest penalty is never
    larger than in training. `trained_length` defaults to the model's `max_length`, which `race` and `Run` set to the
    training length. Raises ValueError for another position method than ALiBi, and for a length below 1.

    >>> interpolated = lab.interpolate_slopes(lab.make_model("alibi"), trained_length=2)
    >>> interpolated.transformer.position.bias(1, 4)[0]
    tensor([[-0.7500, -0.5000, -0.2500,  0.0000]])
    """
    check_instance("model", model, LanguageModel)
    if model.config.position != "alibi":
        raise ValueError(f"only ALiBi has slopes to interpolate, got position method {model.config.position!r}")
    length = model.config.max_length if trained_length is None else trained_length
    check_positive_integers(trained_length=length)
    return _with_position(model, lambda position: InterpolatedSlopes(position, length))


def change_rotary_rule(model: LanguageModel, rule: str, trained_length: int | None = None) -> LanguageModel:
    """Scale rotary positions beyond the training length by the rule "plain", "pi", "ntk" or "yarn".

    The rules are described in `models.positions.rotary`. `trained_length` defaults to the model's `max_length`, which
    `race` and `Run` set to the training length. Raises ValueError for another position method and for an unknown rule.

    >>> lab.change_rotary_rule(lab.make_model("rotary"), "pi").transformer.position.rule
    'pi'
    """
    check_instance("model", model, LanguageModel)
    if model.config.position != "rotary":
        raise ValueError(f"only rotary positions have a rule to change, got position method {model.config.position!r}")
    length = model.config.max_length if trained_length is None else trained_length

    def scaled(position: Position) -> Position:
        if isinstance(position, ModifiedPosition):  # keeps its window
            return ModifiedPosition(scaled(position.original), position.factors, position.window, position.sinks)
        return ScaledRotary(model.config.d_model // model.config.num_heads, rule, length)

    return _with_position(model, scaled)


def evaluation_variants(model: LanguageModel, length: int) -> dict[str, LanguageModel]:
    """Modified copies of a model trained at `length`, for evaluation beyond it, see `VARIANTS`.

    Methods that add absolute positions to the token vectors have no "window", because a window does not keep their
    positions in the trained range. Methods with `has_sinks` have a "window and sinks".
    """
    variants = {"window": impose_window(model, length)} if model.transformer.position.is_relative else {}
    if has_sinks(model):
        variants["window and sinks"] = impose_window(model, length, SINKS)
    if model.config.position == "rotary":
        variants |= {rule: change_rotary_rule(model, rule, length) for rule in ("pi", "ntk", "yarn")}
    if model.config.position == "alibi":
        variants["slopes interpolated"] = interpolate_slopes(model, length)
    return variants


def _with_position(model: LanguageModel, modify: Callable[[Position], Position]) -> LanguageModel:
    """A copy with each position module modified, and the same parameter and buffer objects."""
    copies: dict[int, object] = {id(tensor): tensor for tensor in (*model.parameters(), *model.buffers())}
    attentions = (module for module in model.modules() if isinstance(module, SelfAttention))
    positions = {model.transformer.position, *(attention.position for attention in attentions)}
    copies.update((id(position), modify(position)) for position in positions)
    return copy.deepcopy(model, copies)  # deepcopy reuses the objects in its memo
