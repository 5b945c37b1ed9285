"""Change a trained model without training it: its slopes, what its attention sees, its rotary
rule."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from alibi_viz.arguments import check_integer, check_positive_integers
from alibi_viz.bias import right_aligned
from alibi_viz.models import LanguageModel, Position, TransformerConfig
from alibi_viz.models.positions.relative import Alibi
from alibi_viz.models.positions.rotary import ScaledRotary
from alibi_viz.models.pretrained import Family, family_of, shared_copy, training_length

Model = TypeVar("Model", bound=nn.Module)

# The names in `evaluation_variants`: attention limited to a window of the training length L, or to
# that and the first tokens; three rotary rules; ALiBi's slopes multiplied by L / L' on sequences of
# L' > L.
VARIANTS = ("window", "window and sinks", "pi", "ntk", "yarn", "slopes interpolated")


def modify(
    model: Model,
    slopes: float | Sequence[float] | str | None = None,
    window: int | None = None,
    sinks: int = 0,
    rotary: str | None = None,
    *,
    trained_length: int | None = None,
) -> Model:
    """A changed copy that shares every weight with the model, which stays as it is.

        lab.modify(model, 0.5)                      # every slope halved
        lab.modify(model, [0, 1, 1, 1])             # no bias in the first of four heads
        lab.modify(model, window=512, sinks=4)      # each query sees the first 4 tokens and the last 512
        lab.modify(model, rotary="yarn")

    A pretrained model still works with a padding mask, a cache, eager and SDPA attention. A changed
    model can be changed again: the later change acts on the earlier one, so slopes halved twice are
    a quarter. `rotary` and "interpolate" change earlier tokens as the text grows: our models then
    refuse a cache, pretrained ones don't. Save the model itself, which has the same weights, and
    change it again after loading. The copy of a compiled pretrained model isn't compiled. Call
    `torch.compiler.reset()` before you compile it, or torch runs the code of the original.

    Args:
        model: a `LanguageModel`, or a BLOOM, MPT or Falcon model of transformers with or without
            its head.
        slopes: what the slopes (for other methods, the bias) are multiplied by: a number, or one
            per head; 0 drops the bias. "interpolate" multiplies ALiBi's slopes by L / L' on inputs
            of L' > L tokens, where L is the training length (Al-Khateeb et al. 2023, arXiv
            2310.13017), so that no penalty reaches m L.
        window: how many keys a query sees, including itself; in an encoder on each side; padding
            doesn't count.
        sinks: how many tokens at the start stay visible beside the window. As in StreamingLLM (Xiao
            et al. 2023, arXiv 2309.17453, section 3.2), distances skip the tokens between sinks and
            window.
        rotary: how rotary positions are scaled: "plain", "pi", "ntk" or "yarn", see
            `models.positions.rotary`.
        trained_length: the training length L, for "interpolate" and `rotary`; by default the
            model's `max_length`, to which `race` and `Run` set it, or what a pretrained model's
            configuration says (raise MPT's limit later).

    Raises TypeError for another object, and ValueError for another family of models, a value out of
    range, and a change that doesn't apply to the position method. A changed MPT model refuses
    padded batches with sinks or "interpolate".

    >>> alibi = lab.make_model("alibi")
    >>> lab.modify(alibi, window=2, sinks=1).transformer.position.bias(1, 5)[0]
    tensor([[-1.0000,    -inf,    -inf, -0.5000,  0.0000]])
    """
    if not isinstance(model, nn.Module):
        got = type(model).__name__
        raise TypeError(
            "model must be a LanguageModel, or a BLOOM, MPT or Falcon model of transformers, got "
            f"{got}"
        )
    # A compiled model contains ours.
    family = (
        None if isinstance(getattr(model, "_orig_mod", model), LanguageModel) else family_of(model)
    )
    config: Any = model.config
    num_heads = config.num_heads if family is None else len(family.slopes(family.layers(model)[0]))
    check_integer("sinks", sinks, 0)
    if window is not None:
        check_positive_integers(window=window)
    elif sinks:
        raise ValueError(
            f"sinks must be 0 without a window, because every token is visible, got {sinks}"
        )
    interpolate = isinstance(slopes, str) and slopes == "interpolate"
    if family is None:
        _check_method(model, slopes is not None, interpolate, sinks, rotary)
    elif rotary is not None:
        raise ValueError(f"rotary must be None for a model with ALiBi, got {rotary!r}")
    if trained_length is None:
        trained_length = config.max_length if family is None else training_length(model)
    if trained_length is not None or interpolate or rotary is not None:
        check_positive_integers(trained_length=trained_length)
    change = Change(
        factors=(1.0,) if slopes is None or interpolate else _factors_per_head(slopes, num_heads),
        interpolated=trained_length or 0 if interpolate else math.inf,
        window=math.inf if window is None else window,
        sinks=sinks,
        rotary=None if rotary is None else (rotary, trained_length or 0),
    )
    if family is None:
        positions = {module for module in model.modules() if isinstance(module, Position)}
        return shared_copy(
            model, {each: ChangedPosition(each, change, config) for each in positions}
        )
    changed = shared_copy(
        getattr(model, "_orig_mod", model)
    )  # torch.compile doesn't notice hooks that are added
    if change != Change():
        for attention in family.layers(changed):
            for number, hook in [*attention._forward_pre_hooks.items()]:
                if isinstance(hook, _Hook):
                    del attention._forward_pre_hooks[number]
            attention.register_forward_pre_hook(
                _Hook(family, (*changes_of(model), change)), with_kwargs=True
            )
    return changed


def evaluation_variants(model: LanguageModel, length: int) -> dict[str, LanguageModel]:
    """Modified copies of a model trained at `length`, for evaluation beyond it, see `VARIANTS`.

    Methods that add absolute positions to the token vectors have no "window", because a window does
    not keep their positions in the trained range. Methods that can keep sinks have a "window and
    sinks".
    """
    if not _uses_common_attention(model):
        return {}
    variants = (
        {"window": modify(model, window=length)} if model.transformer.position.is_relative else {}
    )
    if has_sinks(model):
        variants["window and sinks"] = modify(
            model, window=length, sinks=4
        )  # as in StreamingLLM (arXiv 2309.17453)
    if model.config.position == "rotary":
        rules = ("pi", "ntk", "yarn") if model.config.head_dim > 2 else ("pi", "yarn")
        variants |= {rule: modify(model, rotary=rule, trained_length=length) for rule in rules}
    if model.config.position == "alibi":
        variants["slopes interpolated"] = modify(model, "interpolate", trained_length=length)
    return variants


def _uses_common_attention(model: Any) -> bool:
    """Whether attention is that of all methods with this bias, so that a changed bias changes
    it."""
    return type(model.transformer.position).attend in (Position.attend, Alibi.attend)


def has_sinks(model: Any) -> bool:
    """Whether a window can keep the first tokens: positions act only through a bias that doesn't
    read the input."""
    position = model.transformer.position
    rotates = position.transform.__func__ is not Position.transform
    return position.is_relative and not rotates and not position.reads_input


@dataclass(frozen=True)
class Change:
    """What `modify` changes; by default nothing."""

    factors: tuple[float, ...] = (1.0,)  # of the bias, one per head or one for all
    interpolated: float = math.inf  # the number of keys beyond which slopes are interpolated
    window: float = math.inf
    sinks: int = 0
    rotary: tuple[str, int] | None = None  # the rule and the training length

    def apply(
        self, bias: Tensor | None, queries: Tensor, keys: Tensor
    ) -> tuple[Tensor | None, Tensor | None]:
        """Change a bias [..., heads, 1 or query, key] between the positions [..., query] and [...,
        key].

        Returns the bias, and which keys the window keeps, bool [..., 1, query, key]; None for all.
        """
        if bias is not None and ({*self.factors} != {1.0} or self.interpolated < bias.shape[-1]):
            factors = torch.tensor(self.factors, dtype=bias.dtype, device=bias.device)[
                :, None, None
            ]
            if self.interpolated < bias.shape[-1]:
                tokens = keys[..., -1, None, None, None] + 1  # padding doesn't count
                factors = factors * (self.interpolated / tokens).clamp(max=1).to(bias)
            bias = torch.where(
                bias.isinf(), bias, bias * factors + 0.0
            )  # 0 times -inf would be NaN
        if self.window == math.inf:
            return bias, None
        near = (queries[..., :, None] - keys[..., None, :]).abs() < self.window
        kept = (near | (keys < self.sinks)[..., None, :]).unsqueeze(-3)
        if bias is not None and self.sinks:
            bias = self._move_sinks(
                bias.expand(torch.broadcast_shapes(bias.shape, kept.shape)), queries, keys
            )
        return bias, kept

    def _move_sinks(self, bias: Tensor, queries: Tensor, keys: Tensor) -> Tensor:
        """Place the sinks right before the window: each gets the bias of the token that stands
        there."""
        sinks = torch.arange(min(self.sinks, keys.shape[-1]), device=keys.device)
        skipped = (queries - int(self.window + self.sinks) + 1).clamp(
            min=0
        )  # tokens between sinks and window
        places = sinks + skipped[..., None]  # [..., query, sink]

        def columns(positions: Tensor) -> Tensor:
            """The index of the token at each position: padding is no position, so the two can
            differ."""
            found = torch.searchsorted(keys, positions.flatten(-2).contiguous()).view(
                positions.shape
            )
            return found.clamp(max=keys.shape[-1] - 1).unsqueeze(-3).expand(*bias.shape[:-1], -1)

        return bias.scatter(
            -1, columns(sinks.expand(places.shape)), bias.gather(-1, columns(places))
        )

    def __str__(self) -> str:
        """Such as "slopes times 0.5, window of 64"; empty without a change."""
        factors = [
            f"{factor:g}"
            for factor in (self.factors if len({*self.factors}) > 1 else self.factors[:1])
        ]
        words = {
            f"slopes times {', '.join(factors)}": any(self.factors) and {*self.factors} != {1.0},
            "bias dropped": not any(self.factors),
            f"slopes interpolated beyond {self.interpolated}": self.interpolated < math.inf,
            f"window of {self.window}": self.window < math.inf,
            f"sinks of {self.sinks}": self.sinks > 0,
            f"rotary rule {self.rotary and self.rotary[0]}": self.rotary is not None,
        }
        return ", ".join(text for text, is_changed in words.items() if is_changed)


class ChangedPosition(Position):
    """A position method with a change. Where the change says nothing, it is the method itself."""

    _KEPT = "max_length is_relative reads_input decoder_only supports_cache is_random embed "
    _KEPT += "is_defined_at check_causal"

    def __init__(self, original: Position, change: Change, config: TransformerConfig) -> None:
        super().__init__()
        original = shared_copy(original)  # with a mode of its own
        self.original, self.change = original, change
        for name in self._KEPT.split():
            setattr(self, name, getattr(original, name))
        self.rotated = (
            ScaledRotary(config.d_model // config.num_heads, *change.rotary)
            if change.rotary
            else original
        )
        self.transform = self.rotated.transform  # type: ignore[method-assign]
        if (
            change.interpolated < math.inf or change.rotary
        ):  # does a new token change the scale of earlier ones?
            self.supports_cache = change.rotary is not None and change.rotary[0] == "plain"

    @property
    def has_bias(self) -> bool:
        return self.original.has_bias

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor | None:
        source, changes = self.original, changes_of(self)
        while isinstance(
            source, ChangedPosition
        ):  # what an earlier window hides, a later sink may need
            source = source.original
        bias = source.bias(query_length, key_length, x)
        device = bias.device if bias is not None else x.device if x is not None else None
        positions, hidden = right_aligned(query_length, key_length, device=device), None
        for change in changes:
            bias, kept = change.apply(bias, *positions)
            if kept is not None:
                hidden = ~kept if hidden is None else hidden | ~kept
        if hidden is None:
            return bias
        bias = torch.zeros(1, query_length, key_length, device=device) if bias is None else bias
        return bias.masked_fill(hidden, -math.inf)


@dataclass(frozen=True)
class _Hook:
    """A forward pre-hook that changes what an attention module of a pretrained model receives."""

    family: Family
    changes: tuple[Change, ...]  # all, because later ones no longer see which tokens are real

    def __call__(
        self, attention: nn.Module, args: Any, inputs: dict[str, Any]
    ) -> tuple[Any, dict[str, Any]]:
        bias, visible = self.family.read(attention, inputs)
        keys = (
            visible[:, 0].any(-2).cumsum(-1) - 1
        )  # real tokens: each is seen by some query, last by itself
        queries = keys[:, None].masked_fill(~visible[:, 0], -1).amax(-1)
        for change in self.changes:
            changed, kept = change.apply(bias, queries, keys)
            assert changed is not None
            bias, visible = changed, visible if kept is None else visible & kept
        return args, self.family.write(attention, inputs, bias, visible)


def changes_of(model: nn.Module) -> list[Change]:
    """How `modify` changed a model, earliest first; empty if it didn't."""
    for module in model.modules():
        if isinstance(module, ChangedPosition):
            return [*changes_of(module.original), module.change]
        for hook in module._forward_pre_hooks.values():
            if isinstance(hook, _Hook):
                return [*hook.changes]
    return []


def _check_method(
    model: Any, changes_bias: bool, interpolate: bool, sinks: int, rotary: str | None
) -> None:
    """Raise ValueError for a change that doesn't apply to the position method."""
    name = model.config.position
    problems = {
        "methods with an `attend` of their own can't be modified": not _uses_common_attention(
            model
        ),
        'slopes="interpolate" is for ALiBi only': interpolate and name != "alibi",
        "slopes must be None without a bias to multiply": changes_bias
        and not model.transformer.position.has_bias,
        "only rotary positions have a rule to change": rotary is not None and name != "rotary",
        "sinks must be 0 where distances are not all in a bias": sinks and not has_sinks(model),
    }
    for problem, found in problems.items():
        if found:
            raise ValueError(f"{problem}, got position method {name!r}")


def _factors_per_head(slopes: Any, heads: int) -> tuple[float, ...]:
    """The factors, one per head, from a number or a sequence."""
    try:
        factors = torch.as_tensor(slopes, dtype=torch.float64)
    except (TypeError, ValueError):  # not numbers
        factors = torch.tensor(math.nan)
    if factors.shape not in ((), (heads,)) or not bool((factors.isfinite() & (factors >= 0)).all()):
        expected = f'"interpolate", a number of at least 0, or one for each of {heads} heads'
        raise ValueError(f"slopes must be {expected}, got {slopes!r}")
    return tuple(factors.expand(heads).tolist())
