"""Change the attention of a pretrained BLOOM, MPT or Falcon model, and measure how far back its heads look.

    changed = lab.change_attention(model, 0.5)                  # every slope halved
    changed = lab.change_attention(model, window=512, sinks=4)  # the first 4 tokens and the last 512

The changed model is a copy that shares every weight with the original, which stays as it is.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from alibi_viz.adapters import (
    attention_layers,
    evaluation_mode,
    fused_projection,
    pretrained_slopes,
    shared_copy,
    split_projection,
)
from alibi_viz.arguments import check_integer, check_positive_integers, factors_per_head
from alibi_viz.lab.attention_stats import AttentionStats, weight_stats
from alibi_viz.lab.interventions import combine_windows

__all__ = ["change_attention", "describe_change", "pretrained_stats"]

Model = TypeVar("Model", bound=nn.Module)


def change_attention(
    model: Model, factors: float | Sequence[float] = 1.0, *, window: int | None = None, sinks: int = 0
) -> Model:
    """Multiply the slopes of a pretrained model, drop biases, or limit its attention to a window with sinks.

    The copy works as the model does: with a padding mask, with a cache while generating, with eager or SDPA attention.
    A changed model can be changed again: factors multiply, and of two windows the smaller one holds.

    Args:
        model: a BLOOM, MPT or Falcon model of the transformers library, with or without its language-modeling head.
        factors: what the slopes are multiplied by: a number, or one per head. Below 1 it interpolates positions
            (Al-Khateeb et al. 2023, arXiv 2310.13017: L / length); 0 drops the bias.
        window: how many keys a query sees, including itself; None for all. Padding doesn't count.
        sinks: how many tokens at the start stay visible to every query, in addition to the window. As in StreamingLLM
            (Xiao et al. 2023, arXiv 2309.17453, section 3.2), distances skip the tokens between sinks and window.

    Raises ValueError for a model of another family or without ALiBi, factors that are negative, not finite or not one
    per head, a window below 1, sinks without a window, and a second window that is smaller but keeps more sinks, or the
    other way round. A changed MPT model raises ValueError for sinks with sequences of different lengths in one batch,
    because it adds the same bias to all.

    For example, with a model and a tokenizer of transformers:

        model = BloomForCausalLM.from_pretrained("bigscience/bloom-560m")
        lab.length_curve(lab.change_attention(model, 0.5), tokenizer, Path("book.txt"), [2048, 4096])
    """
    family, layers = attention_layers(model)
    slopes = pretrained_slopes(family, layers[0])
    per_head = factors_per_head(factors, len(slopes))
    check_integer("sinks", sinks, 0)
    if window is not None:
        check_positive_integers(window=window)
    elif sinks:
        raise ValueError(f"sinks must be 0 without a window, because every token is visible, got {sinks}")
    changed = shared_copy(model)
    change = _Change(family, tuple(per_head), slopes, window, sinks)
    for earlier in _changes(layers[0]):
        change = earlier.then(change)
    for attention in attention_layers(changed)[1]:
        for key in [key for key, hook in attention._forward_pre_hooks.items() if isinstance(hook, _Change)]:
            del attention._forward_pre_hooks[key]
        attention.register_forward_pre_hook(change, with_kwargs=True)
    return changed


def describe_change(model: nn.Module) -> str:
    """How `change_attention` changed a model, such as "slopes times 0.5, window of 64"; empty if it didn't."""
    changes = [change for module in model.modules() for change in _changes(module)]
    return str(changes[0]) if changes else ""


@dataclass(frozen=True, eq=False)
class _Change:
    """Changes the bias and the mask that an attention module receives.

    BLOOM receives a bias and a mask to add; MPT a bias to add and a mask that is True for hidden keys; Falcon a mask
    that includes the bias, and the bias once more for eager attention.
    """

    family: str
    factors: tuple[float, ...]
    slopes: Tensor  # [heads]
    window: int | None
    sinks: int

    def __call__(self, attention: nn.Module, args: Any, kwargs: dict[str, Any]) -> tuple[Any, dict[str, Any]]:
        mask: Tensor = kwargs["attention_mask"]  # [batch, 1 or heads, query, key]
        name = "position_bias" if self.family == "mpt" else "alibi"
        bias: Tensor = kwargs[name]  # [..., 1, key]; MPT's is longer and ends with these keys
        factors = torch.tensor(self.factors, device=bias.device, dtype=bias.dtype)[:, None, None]
        bias = (bias.reshape(-1, len(factors), *bias.shape[-2:]) * factors).reshape(bias.shape)
        visible = ~mask if self.family == "mpt" else _is_visible(mask)
        if self.family == "falcon":
            mask = torch.where(visible, mask * factors, mask)
        if self.window is not None:
            kept, skipped = self._limit(visible[:, :1])
            mask = mask | ~kept if self.family == "mpt" else mask.masked_fill(~kept, torch.finfo(mask.dtype).min)
            if self.sinks:
                slopes = self.slopes.to(bias.device)[:, None, None] * factors
                extra = (slopes * skipped * (1 + _adds_twice(self.family, attention, kwargs))).to(bias.dtype)
                if self.family == "mpt":
                    bias = bias[..., -mask.shape[-1] :] + _same_for_all(extra)
                else:
                    mask = mask + extra
        return args, kwargs | {name: bias, "attention_mask": mask}

    def _limit(self, visible: Tensor) -> tuple[Tensor, Tensor]:
        """Which keys stay visible, and how many tokens lie between them and the window: [batch, 1, query, key].

        Positions count the real tokens, which are those that the last query sees.
        """
        assert self.window is not None
        keys = visible[:, :, -1:].cumsum(-1) - 1
        queries = visible.sum(-1, keepdim=True) - 1
        is_sink = keys < self.sinks
        kept = visible & (is_sink | (queries - keys < self.window))
        return kept, (queries - self.window - self.sinks + 1).clamp(min=0) * (is_sink & kept)

    def then(self, other: "_Change") -> "_Change":
        """Both changes in one."""
        factors = tuple(first * second for first, second in zip(self.factors, other.factors, strict=True))
        window, sinks = combine_windows((self.window, self.sinks), (other.window, other.sinks))
        return replace(self, factors=factors, window=window, sinks=sinks)

    def __str__(self) -> str:
        changes = []
        if not any(self.factors):
            changes.append("bias dropped")
        elif len(set(self.factors)) == 1:
            changes += [f"slopes times {self.factors[0]:g}"] if self.factors[0] != 1 else []
        else:
            changes.append(f"slopes times {', '.join(f'{factor:g}' for factor in self.factors)}")
        if self.window is not None:
            changes.append(f"window of {self.window}")
        if self.sinks:
            changes.append(f"sinks of {self.sinks}")
        return ", ".join(changes)


@torch.inference_mode()
def pretrained_stats(model: nn.Module, input_ids: Tensor, *, trained: int, queries: int = 32) -> AttentionStats:
    """Measure the attention of the last `queries` positions in every layer of a BLOOM, MPT or Falcon model.

    The counterpart of `attention_stats` for pretrained models, changed or not. `input_ids` is int64 [batch, length]
    without padding, and `trained` the training length in tokens. Raises ValueError for a model of another family.
    """
    family, layers = attention_layers(model)
    fused: list[Tensor] = []
    stats: list[Tensor] = []

    def measure(attention: nn.Module, args: Any, kwargs: dict[str, Any], _output: Any) -> None:
        query, key, _ = split_projection(family, attention, fused.pop())
        query, key = query[:, :, -queries:].float(), key.float()
        logits = query @ key.transpose(-2, -1) / math.sqrt(query.shape[-1])
        stats.append(weight_stats((logits + _total_bias(family, attention, kwargs, queries)).softmax(-1), trained))

    hooks = [attention.register_forward_hook(measure, with_kwargs=True) for attention in layers]
    hooks += [fused_projection(each).register_forward_hook(lambda _m, _i, out: fused.append(out)) for each in layers]
    base: Any = getattr(model, "transformer", model)
    try:
        with evaluation_mode(base):
            base(input_ids, use_cache=False)
    finally:
        for hook in hooks:
            hook.remove()
    return AttentionStats(*torch.stack(stats, dim=1).cpu())


def _total_bias(family: str, attention: nn.Module, kwargs: dict[str, Any], queries: int) -> Tensor:
    """All that the module adds to q . k / sqrt(head_dim) of the last queries: float32 [batch, heads, query, key]."""
    mask: Tensor = kwargs["attention_mask"][:, :, -queries:]
    if family == "mpt":
        bias: Tensor = kwargs["position_bias"][None, :, -queries:, -mask.shape[-1] :]
        return bias.float().masked_fill(mask, -math.inf)
    hidden, bias = ~_is_visible(mask), kwargs["alibi"]
    if family == "bloom":
        mask = mask + bias.reshape(mask.shape[0], -1, *bias.shape[-2:])
    elif _adds_twice(family, attention, kwargs):
        head_dim: Any = attention.head_dim
        mask = mask + bias / math.sqrt(head_dim)
    return mask.float().masked_fill(hidden, -math.inf)


def _changes(module: nn.Module) -> list[_Change]:
    return [hook for hook in module._forward_pre_hooks.values() if isinstance(hook, _Change)]


def _is_visible(mask: Tensor) -> Tensor:
    """Where an additive mask hides nothing: transformers adds the lowest number of the dtype, or -inf."""
    return mask > torch.finfo(mask.dtype).min


def _adds_twice(family: str, attention: Any, kwargs: dict[str, Any]) -> bool:
    """Whether this call is one of Falcon's eager attention, which adds the bias twice."""
    return family == "falcon" and (
        attention.config._attn_implementation != "sdpa" or bool(kwargs.get("output_attentions"))
    )


def _same_for_all(extra: Tensor) -> Tensor:
    """[heads, query, key] from [batch, heads, query, key] with equal sequences."""
    if bool((extra != extra[:1]).any()):
        raise ValueError(
            "an MPT model with sinks needs sequences of equal length in a batch, because it adds the same bias to all: "
            "run them one at a time"
        )
    return extra[0]
