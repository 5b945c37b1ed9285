"""Run a pretrained BLOOM, MPT or Falcon model one layer at a time."""

import math
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from alibi_viz.adapters import attention_layers, fused_projection, shared_copy, split_projection

__all__ = ["layer_inputs"]

_BLOCK = 256  # queries at a time, so that the bias of all heads stays small


def layer_inputs(model: nn.Module, input_ids: Tensor) -> Iterator[Tensor]:
    """Yield what each layer's projection to queries, keys and values receives, [batch, length, hidden].

    Each step runs one layer of a copy that shares the weights and has dropout disabled, so that the model itself can be
    used, and trained, in between. BLOOM's and MPT's eager attention is replaced with the fused one of torch, which
    computes the same: with 4,096 tokens it needs far less memory and time.

    Args:
        model: a BLOOM, MPT or Falcon model, with or without a language-modeling head, also from `change_attention`.
        input_ids: int64 [batch, length], without padding.

    Raises ValueError as `adapters.attention_layers`.
    """
    model = shared_copy(model).eval()
    family, layers = attention_layers(model)
    base: Any = getattr(model, "transformer", model)
    blocks = base.blocks if family == "mpt" else base.h
    if family != "falcon":  # Falcon uses fused attention already, unless its configuration says otherwise
        for attention in layers:
            _use_fused_attention(family, attention)
    # The model calls all layers with the same masks and biases.
    (hidden, *args), kwargs = _arguments(blocks[0], lambda: base(input_ids, use_cache=False))
    for block, attention in zip(blocks, layers, strict=True):
        run = partial(block, hidden, *args, **kwargs)
        yield _arguments(fused_projection(attention), run)[0][0]
        hidden = run()[0]


class _CallError(Exception):
    """Carries the arguments of a module out of a model's forward pass."""


def _arguments(module: nn.Module, run: Callable[[], object]) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments with which a module is called by `run`, which ends there."""

    def stop(_module: nn.Module, args: Any, kwargs: Any) -> None:
        raise _CallError(args, kwargs)

    hook = module.register_forward_pre_hook(stop, with_kwargs=True)
    try:
        run()
    except _CallError as call:
        return call.args[0], call.args[1]
    finally:
        hook.remove()
    raise RuntimeError(f"{type(module).__name__} was not called")


def _use_fused_attention(family: str, attention: Any) -> None:
    """Replace the computation of an attention module. Hooks, such as those of `change_attention`, still apply."""

    def forward(hidden: Tensor, residual: Tensor | None = None, **inputs: Any) -> tuple[Tensor, None]:
        query, key, value = split_projection(family, attention, fused_projection(attention)(hidden))
        bias: Tensor = inputs["position_bias" if family == "mpt" else "alibi"]  # [batch * heads or heads, ..., key]
        bias = bias[..., -key.shape[2] :].unflatten(0, (-1, query.shape[1]))
        outputs = []
        for rows in torch.arange(query.shape[2]).split(_BLOCK):
            seen = slice(0, int(rows[-1]) + 1)  # the mask excludes later keys
            mask = inputs["attention_mask"][:, :, rows, seen]  # [batch, 1, rows, key]
            if mask.dtype == torch.bool:
                mask = torch.zeros_like(mask, dtype=bias.dtype).masked_fill(mask, -math.inf)
            logits = (mask + (bias if bias.shape[2] == 1 else bias[:, :, rows])[..., seen]).to(query.dtype)
            outputs.append(scaled_dot_product_attention(query[:, :, rows], key[:, :, seen], value[:, :, seen], logits))
        mixed = torch.cat(outputs, dim=2).transpose(1, 2).flatten(2)
        if family == "mpt":
            return attention.out_proj(mixed), None
        return attention.dense(mixed) + residual, None

    attention.forward = forward
