"""Change a trained model without training it: slopes, window, sinks, rotary rule, far keys.

`modify` checks its arguments, makes a `Change` of them, and puts that into a copy that shares every
weight. In our models, a `ChangedPosition` takes the place of the position method; in those of
transformers, a hook changes what attention receives.
"""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from alibi_viz.arguments import check_integer, check_number, check_positive_integers
from alibi_viz.bias import right_aligned
from alibi_viz.models import LanguageModel, Position, SelfAttention, TransformerConfig
from alibi_viz.models.positions.rotary import rotary_with_rule
from alibi_viz.models.pretrained import Family, family_of, shared_copy, training_length
from alibi_viz.surgery.far_line import draw_far_line
from alibi_viz.surgery.far_share import copy_far_share, limit_far_share
from alibi_viz.surgery.sinks import has_sinks, move_sinks, visible_keys

Model = TypeVar("Model", bound=nn.Module)

# The models of `evaluation_variants`, {id: what a reader sees}. L is the training length, and far
# keys are at least L back. Interpolated slopes are multiplied by L / L' on sequences of L' > L.
VARIANTS = {
    "window": "with a window of L",
    "far share": "with at most 5% for far keys",
    "window and sinks": "with a window of L and 4 sinks",
    "pi": "with interpolated positions (PI)",
    "ntk": "with NTK-aware angles",
    "yarn": "with YaRN",
    "slopes interpolated": "with interpolated slopes",
    "flat beyond L": "with a line that is flat from L on",
}
FAR_SHARE = 0.05


def modify(
    model: Model,
    slopes: float | Sequence[float] | str | None = None,
    window: int | None = None,
    sinks: int = 0,
    rotary: str | None = None,
    *,
    far_slope: float | Sequence[float] | None = None,
    far_share: float | LanguageModel | None = None,
    trained_length: int | None = None,
) -> Model:
    """A changed copy that shares every weight with the model, which stays as it is.

        lab.modify(model, 0.5)                  # every slope halved
        lab.modify(model, [0, 1, 1, 1])         # no bias in the first of four heads
        lab.modify(model, window=512, sinks=4)  # the first 4 tokens and the last 512 are seen
        lab.modify(model, rotary="yarn")
        lab.modify(model, far_slope=0)          # ALiBi's line flat beyond the training length
        lab.modify(model, far_share=0.05)       # keys beyond it get at most 5% of the attention

    A pretrained model still works with a padding mask, a cache, eager and SDPA attention. A changed
    model can be changed again: the later change acts on the earlier one, so slopes halved twice are
    a quarter. "interpolate" and the rules "pi", "ntk" and "yarn" change earlier tokens as the text
    grows: our models then refuse a cache, pretrained ones don't. Save the model itself, which has
    the same weights, and change it again after loading. The copy of a compiled pretrained model
    isn't compiled. Call `torch.compiler.reset()` before you compile it, or torch runs the code of
    the original.

    Args:
        model: a `LanguageModel`, or a BLOOM, MPT or Falcon model of transformers with or without
            its head.
        slopes: factors by which ALiBi's slopes (for other methods, the bias) are multiplied: one
            number, or one per head; 0 drops the bias. "interpolate" multiplies ALiBi's slopes by
            L / L' on inputs of L' > L tokens, where L is the training length (Al-Khateeb et al.
            2023, arXiv 2310.13017), so that no penalty reaches m L.
        window: how many keys a query sees, including itself; in an encoder on each side; padding
            doesn't count.
        sinks: how many tokens at the start stay visible beside the window. As in StreamingLLM (Xiao
            et al. 2023, arXiv 2309.17453, section 3.2), distances skip the tokens between sinks and
            window.
        rotary: how rotary positions change beyond the training length: "plain", "pi", "ntk", "yarn"
            or "rerope", see `models.positions.rotary`. The first four scale all angles. "rerope"
            lets relative angles grow up to the largest of training, that of distance L - 1, and
            no further (ReRoPE, Su 2023, https://kexue.fm/archives/9708).
        far_slope: how much the bias falls per token beyond a distance of L - 1, the largest in
            training: one number, or one per head. The line starts where the bias is at L - 1, and
            `slopes` doesn't change how it falls. 0 makes ALiBi's line flat there; 1/16 brakes far
            keys in methods without a bias. See `surgery.far_line`.
        far_share: the largest share of its attention, from 0 to 1, that a query gives to all keys
            at a distance of L or more together, in each head and layer. Where they would get more,
            their weights shrink by one factor and those of the other keys grow by another. 0 is a
            window of L, and 1 changes nothing. Or another changed copy of the model: far keys then
            get together exactly what they would get in that copy from the same queries and keys.
            Only for a `LanguageModel`, which then stores all weights. See `surgery.far_share`.
        trained_length: the training length L, for "interpolate", `rotary`, `far_slope` and
            `far_share`; by default the model's `max_length`, to which `race` and `Run` set it, or
            what a pretrained model's configuration says (raise MPT's limit later); required if that
            says nothing.

    Raises TypeError for another object, and ValueError for another family of models, a value out of
    range, and a change that doesn't apply to the position method. A changed MPT model refuses
    padded batches with sinks, "interpolate" or a `far_slope`.

    >>> from alibi_viz import lab
    >>> alibi = lab.make_model("alibi")
    >>> lab.modify(alibi, window=2, sinks=1).transformer.position.bias(1, 5)[0]
    tensor([[-0.5000,    -inf,    -inf, -0.2500,  0.0000]])
    """
    if not isinstance(model, nn.Module):
        got = type(model).__name__
        raise TypeError(
            "model must be a LanguageModel, or a BLOOM, MPT or Falcon model of transformers, got "
            f"{got}"
        )
    _check_window(window, sinks)
    original: Any = getattr(model, "_orig_mod", model)  # of a compiled model
    is_ours = isinstance(original, LanguageModel)

    # What the model allows, and what it says of itself
    configured_length: int | None
    if is_ours:
        _check_method(original, slopes, sinks, rotary)
        far_share = _checked_share(original, far_share)
        num_heads = original.config.num_heads
        configured_length = original.config.max_length
    else:
        family = family_of(original)
        num_heads = len(family.slopes(family.layers(original)[0]))
        if rotary is not None:
            raise ValueError(f"rotary must be None for a model with ALiBi, got {rotary!r}")
        if far_share is not None:
            raise ValueError(f"far_share must be None for a pretrained model, got {far_share!r}")
        configured_length = training_length(original)

    length: Any = trained_length
    if length is None:
        length = configured_length
    interpolates = _asks_to_interpolate(slopes)
    beyond_training = (rotary, far_slope, far_share)
    needs_length = interpolates or any(value is not None for value in beyond_training)
    if needs_length and length is None:
        raise ValueError(
            "trained_length must be given: the model doesn't say for which it was trained"
        )
    if length is not None:
        check_positive_integers(trained_length=length)

    factors: tuple[float, ...] = (1.0,)
    if slopes is not None and not interpolates:
        expected = '"interpolate", a number of at least 0'
        factors = _numbers_per_head("slopes", slopes, num_heads, expected)
    far_line = None
    if far_slope is not None:
        far_slopes = _numbers_per_head("far_slope", far_slope, num_heads, "a number of at least 0")
        far_line = (far_slopes, length)
    change = Change(
        factors=factors,
        interpolated_beyond=length if interpolates else None,
        window=window,
        sinks=sinks,
        rotary=None if rotary is None else (rotary, length),
        far_line=far_line,
        far_share=None if far_share is None else (far_share, length),
    )
    if is_ours:
        return _with_changed_positions(model, change)
    # torch.compile doesn't notice hooks that are added, so the copy isn't compiled.
    return _with_hooks(original, change)


def _with_changed_positions(model: Model, change: "Change") -> Model:
    """A copy of one of our models in which every position method has the change."""
    config: Any = model.config
    others: dict[Position, Position] = {}
    share, trained_length = change.far_share or (None, 0)
    if isinstance(share, LanguageModel):
        for attention, of_other in zip(_attentions(model), _attentions(share), strict=True):
            others[attention.position] = of_other.position

    changed_positions: dict[nn.Module, nn.Module] = {}
    for module in model.modules():
        if isinstance(module, Position):
            if module in others:
                change = replace(change, far_share=(others[module], trained_length))
            changed_positions[module] = ChangedPosition(module, change, config)
    return shared_copy(model, changed_positions)


def _attentions(model: nn.Module) -> list[SelfAttention]:
    """The attention of each layer."""
    return [module for module in model.modules() if isinstance(module, SelfAttention)]


def _with_hooks(model: Model, change: "Change") -> Model:
    """A copy of a model of transformers with one hook per layer for all of its changes."""
    changed = shared_copy(model)
    if change == Change():
        return changed
    family = family_of(model)
    hook = _Hook(family, (*changes_of(model), change))
    for attention in family.layers(changed):
        # The new hook includes the changes of an earlier one.
        for number, earlier in list(attention._forward_pre_hooks.items()):
            if isinstance(earlier, _Hook):
                del attention._forward_pre_hooks[number]
        attention.register_forward_pre_hook(hook, with_kwargs=True)
    return changed


def evaluation_variants(model: LanguageModel, length: int) -> dict[str, LanguageModel]:
    """Modified copies of a model trained at `length`, for evaluation beyond it, see `VARIANTS`.

    Methods that add absolute positions to the token vectors have no "window", because a window does
    not keep their positions in the trained range. Methods that can keep sinks have a "window and
    sinks".
    """
    variants: dict[str, LanguageModel] = {}
    position = model.transformer.position
    if not position.uses("embed"):
        variants["window"] = modify(model, window=length)
        variants["far share"] = modify(model, far_share=FAR_SHARE, trained_length=length)
    if has_sinks(model):
        # Four sinks, as in StreamingLLM (arXiv 2309.17453)
        variants["window and sinks"] = modify(model, window=length, sinks=4)
    if model.config.method == "rotary":
        # "ntk" divides by head_dim - 2.
        rules = ("pi", "ntk", "yarn") if model.config.head_dim > 2 else ("pi", "yarn")
        for rule in rules:
            variants[rule] = modify(model, rotary=rule, trained_length=length)
    if model.config.method == "alibi":
        variants["slopes interpolated"] = modify(model, "interpolate", trained_length=length)
        variants["flat beyond L"] = modify(model, far_slope=0, trained_length=length)
    return variants


@dataclass(frozen=True)
class Change:
    """What `modify` changes; by default nothing."""

    factors: tuple[float, ...] = (1.0,)  # of the bias, one per head or one for all
    interpolated_beyond: int | None = None  # the number of keys that needs no interpolated slopes
    window: int | None = None
    sinks: int = 0
    rotary: tuple[str, int] | None = None  # the rule and the training length
    # The slopes, one per head, and the training length
    far_line: tuple[tuple[float, ...], int] | None = None
    # The largest share, or the model or its position method whose share is copied; and the
    # training length
    far_share: tuple[float | LanguageModel | Position, int] | None = None

    def visible(self, queries: Tensor, keys: Tensor) -> Tensor | None:
        """Which keys the window keeps, bool [..., 1, query, key]; None for all.

        Args:
            queries: their positions, int64 [..., query].
            keys: their positions, int64 [..., key].
        """
        if self.window is None:
            return None
        return visible_keys(queries, keys, self.window, self.sinks)

    def apply(self, bias: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        """Change a bias [..., heads, 1 or query, key] between the positions of `visible`."""
        bias = self._multiply(bias, keys)
        if self.far_line is not None:
            far_slopes, trained_length = self.far_line
            bias = draw_far_line(bias, queries, keys, far_slopes, trained_length)
        # Last, because sinks have the bias of tokens that may be on the line
        if self.window is not None and self.sinks:
            bias = move_sinks(bias, queries, keys, self.window, self.sinks)
        return bias

    def _multiply(self, bias: Tensor, keys: Tensor) -> Tensor:
        """The bias times the factors, and interpolated if there are more keys than in training."""
        ratio = self._length_ratio(keys)
        if set(self.factors) == {1.0} and ratio is None:
            return bias

        factors = torch.tensor(self.factors, dtype=bias.dtype, device=bias.device)[:, None, None]
        if ratio is not None:
            factors = factors * ratio.to(bias)
        # 0 times -inf would be NaN.
        return torch.where(bias.isinf(), bias, bias * factors + 0.0)

    def _length_ratio(self, keys: Tensor) -> Tensor | None:
        """L / L' for each text, [..., 1, 1, 1]; None where nothing is interpolated."""
        trained_length = self.interpolated_beyond
        if trained_length is None or keys.shape[-1] <= trained_length:
            return None
        tokens = keys[..., -1, None, None, None] + 1  # padding doesn't count
        return (trained_length / tokens).clamp(max=1)

    def __str__(self) -> str:
        """Such as "slopes times 0.5, window of 64"; empty without a change."""
        changes = []
        if not any(self.factors):
            changes.append("bias dropped")
        elif set(self.factors) != {1.0}:
            changes.append(f"slopes times {_joined(self.factors)}")
        if self.interpolated_beyond is not None:
            changes.append(f"slopes interpolated beyond {self.interpolated_beyond}")
        if self.window is not None:
            changes.append(f"window of {self.window}")
        if self.sinks > 0:
            changes.append(f"sinks of {self.sinks}")
        if self.rotary is not None:
            rule, _ = self.rotary
            changes.append(f"rotary rule {rule}")
        if self.far_line is not None:
            far_slopes, trained_length = self.far_line
            words = _joined(far_slopes)
            changes.append(f"far slope {words} beyond a distance of {trained_length - 1}")
        if self.far_share is not None:
            share, trained_length = self.far_share
            words = f"{share:g}" if isinstance(share, float) else "of another copy"
            changes.append(f"far share {words} beyond a distance of {trained_length - 1}")
        return ", ".join(changes)


def _joined(numbers: tuple[float, ...]) -> str:
    """Such as "1, 0.5"; a single number if all are equal."""
    if len(set(numbers)) == 1:
        numbers = numbers[:1]
    return ", ".join(f"{number:g}" for number in numbers)


class ChangedPosition(Position):
    """A position method with a change. Where the change says nothing, it is the method itself."""

    def __init__(self, original: Position, change: Change, config: TransformerConfig) -> None:
        super().__init__()
        self.original = shared_copy(original)  # with a training mode of its own
        self.change = change

        self.longest = original.longest
        self.reads_input = original.reads_input
        self.is_causal_only = original.is_causal_only
        self.is_random = original.is_random
        self.supports_cache = original.supports_cache

        self.rotated: Position = self.original
        # A cache would keep earlier tokens at a scale that a new token changes.
        if change.rotary is not None:
            rule, trained_length = change.rotary
            self.rotated = rotary_with_rule(
                config.head_dim, rule, trained_length, config.rotary_base
            )
            self.supports_cache = rule in ("plain", "rerope")
        elif change.interpolated_beyond is not None:
            self.supports_cache = False

    def uses(self, hook: str) -> bool:
        if hook == "bias" and self.change.far_line is not None:
            return True
        if hook == "logits" and any(change.far_share is not None for change in changes_of(self)):
            return True  # the limit needs all logits
        owner = self.original if hook in ("embed", "bias") else self.rotated
        return owner.uses(hook)

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        return self.original.embed(tokens, start)

    def rotate(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        return self.rotated.rotate(query, key)

    def logits(self, query: Tensor, key: Tensor, *, causal: bool = True) -> Tensor:
        return self.rotated.logits(query, key, causal=causal)

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor | None:
        # All changes act on the bias of the unchanged method: what an earlier window hides, a later
        # sink may need.
        source = self.original
        while isinstance(source, ChangedPosition):
            source = source.original
        bias = source.bias(query_length, key_length, x)

        device = None
        if bias is not None:
            device = bias.device
        elif x is not None:
            device = x.device
        queries, keys = right_aligned(query_length, key_length, device=device)

        changes = changes_of(self)
        if bias is None and any(change.far_line is not None for change in changes):
            bias = torch.zeros(1, query_length, key_length, device=device)
        if bias is not None:
            for change in changes:
                bias = change.apply(bias, queries, keys)

        visible = _visible_after_all(changes, queries, keys)
        if visible is None:
            return bias
        if bias is None:
            bias = torch.zeros(1, query_length, key_length, device=device)
        return bias.masked_fill(~visible, -math.inf)

    def weights(
        self, query: Tensor, key: Tensor, *, causal: bool = True, x: Tensor | None = None
    ) -> Tensor:
        return _changed_logits(self, query, key, causal, x).softmax(-1).float()


def _changed_logits(
    position: Position, query: Tensor, key: Tensor, causal: bool, x: Tensor | None
) -> Tensor:
    """The logits of a position method after all of its changes, [batch, heads, query, key]."""
    query_length = query.shape[-2]
    key_length = key.shape[-2]
    logits = position.logits(query, key, causal=causal)
    bias = position.bias(query_length, key_length, x)
    if bias is not None:
        logits = logits + bias

    # After all other changes: it is about what far keys get in the end.
    queries, keys = right_aligned(query_length, key_length, device=query.device)
    for change in changes_of(position):
        if change.far_share is None:
            continue
        share, trained_length = change.far_share
        if isinstance(share, Position):
            others = _changed_logits(share, query, key, causal, x)
            logits = copy_far_share(logits, others, queries, keys, trained_length)
        elif isinstance(share, float):
            logits = limit_far_share(logits, queries, keys, share, trained_length)
    return logits


@dataclass(frozen=True)
class _Hook:
    """A forward pre-hook that changes what an attention module of a pretrained model receives."""

    family: Family
    changes: tuple[Change, ...]  # all, because later ones no longer see which tokens are real

    def __call__(
        self, attention: nn.Module, args: Any, inputs: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        bias, visible = self.family.read(attention, inputs)

        # Positions count real tokens only: a real token is seen by some query, the last by itself.
        is_real = visible[:, 0].any(-2)
        keys = is_real.cumsum(-1) - 1
        queries = keys[:, None].masked_fill(~visible[:, 0], -1).amax(-1)

        for change in self.changes:
            bias = change.apply(bias, queries, keys)
        kept = _visible_after_all(self.changes, queries, keys)
        if kept is not None:
            visible = visible & kept
        return args, self.family.write(attention, inputs, bias, visible)


def _visible_after_all(changes: Iterable[Change], queries: Tensor, keys: Tensor) -> Tensor | None:
    """Which keys the windows of all changes keep, as `Change.visible`."""
    visible = None  # all keys
    for change in changes:
        kept = change.visible(queries, keys)
        if visible is None:
            visible = kept
        elif kept is not None:
            visible = visible & kept
    return visible


def changes_of(model: nn.Module) -> list[Change]:
    """How `modify` changed a model, earliest first; empty if it didn't."""
    for module in model.modules():
        if isinstance(module, ChangedPosition):
            return [*changes_of(module.original), module.change]
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, _Hook):
                return [*hook.changes]
    return []


def _check_window(window: int | None, sinks: int) -> None:
    """Raise ValueError for wrong numbers, and for sinks where there is no window."""
    check_integer("sinks", sinks, 0)
    if window is not None:
        check_positive_integers(window=window)
    elif sinks:
        raise ValueError(
            f"sinks must be 0 without a window, because every token is visible, got {sinks}"
        )


def _check_method(model: LanguageModel, slopes: object, sinks: int, rotary: str | None) -> None:
    """Raise ValueError for a change that doesn't apply to the position method."""
    method = model.config.method
    problem = None
    if _asks_to_interpolate(slopes) and method != "alibi":
        problem = 'slopes="interpolate" is for ALiBi only'
    elif slopes is not None and not model.transformer.position.uses("bias"):
        problem = "slopes must be None without a bias to multiply"
    elif rotary is not None and method != "rotary":
        problem = "only rotary positions have a rule to change"
    elif sinks and not has_sinks(model):
        problem = "sinks must be 0 where distances are not all in a bias"
    if problem is not None:
        raise ValueError(f"{problem}, got position method {method!r}")


def _checked_share(model: LanguageModel, far_share: Any) -> float | LanguageModel | None:
    """A `far_share` that fits the model. Raises TypeError or ValueError for another one."""
    if far_share is None:
        return None
    if isinstance(far_share, LanguageModel):
        if far_share.config != model.config:
            raise ValueError(
                f"far_share must be a copy of the model, whose settings are {model.config}, got "
                f"{far_share.config}"
            )
        return far_share
    share = check_number(
        "far_share", far_share, "a number from 0 to 1", lambda share: 0 <= share <= 1
    )
    return float(share)


def _asks_to_interpolate(slopes: object) -> bool:
    # An array would be compared number by number.
    return isinstance(slopes, str) and slopes == "interpolate"


def _numbers_per_head(name: str, value: Any, heads: int, expected: str) -> tuple[float, ...]:
    """One number per head, from one for all or one for each.

    Raises TypeError for True and False, and ValueError for other shapes, and if a number is
    negative or not finite.
    """
    if isinstance(value, bool):
        raise TypeError(f"{name} must be {expected}, got {value}")
    try:
        numbers = torch.as_tensor(value, dtype=torch.float64)
    except (TypeError, ValueError, OverflowError):  # not numbers, or an integer beyond floats
        numbers = torch.tensor(math.nan)
    has_right_shape = numbers.shape in ((), (heads,))
    has_right_values = bool((numbers.isfinite() & (numbers >= 0)).all())
    if not (has_right_shape and has_right_values):
        raise ValueError(
            f"{name} must be {expected}, or one for each of {heads} heads, got {value!r}"
        )
    return tuple(numbers.expand(heads).tolist())
