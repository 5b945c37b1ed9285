"""ALiBi as other libraries want it, and their models as this library wants them.

Nothing is imported from those libraries: the functions make and take plain tensors and modules. FlexAttention's
`score_mod` is in `flex`.
"""

import math
from typing import Any

import torch
from torch import Tensor, nn

from alibi_viz.attention import AttentionTrace, attention_trace
from alibi_viz.bias import alibi_bias, bias_from_positions, check_slopes
from alibi_viz.slopes import alibi_slopes

__all__ = ["flash_attention_slopes", "huggingface_alibi", "pretrained_heads", "pretrained_trace", "x_transformers_bias"]

_FAMILIES = ("bloom", "falcon", "mpt")


def huggingface_alibi(slopes: Tensor, attention_mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """The bias as `build_alibi_tensor` of transformers' BLOOM lays it out: m j, counting real tokens only.

    Args:
        slopes: [heads].
        attention_mask: integers or bool [batch, key], 1 for a real token.
        dtype: the model's. Below float32 far positions collide, there as here.

    Returns:
        [batch * heads, 1, key], row b * heads + h; 0 for padding.

    >>> huggingface_alibi(torch.tensor([0.5]), torch.tensor([[0, 1, 1, 1]]))
    tensor([[[0.0000, 0.0000, 0.5000, 1.0000]]])
    """
    check_slopes("slopes", slopes)
    positions = _counted(attention_mask)
    bias = bias_from_positions(slopes, positions, positions, form="key", dtype=dtype)  # [batch, heads, 1, key]
    return bias.flatten(0, 1)


def flash_attention_slopes(slopes: Tensor, batch: int | None = None) -> Tensor:
    """The `alibi_slopes` of flash-attention: float32 [heads], or [batch, heads] when a batch size is given.

    Its kernels add -m |i + key_length - query_length - j|, the right-aligned symmetric form.
    """
    check_slopes("slopes", slopes)
    flat = slopes.detach().to(torch.float32).contiguous()
    return flat if batch is None else flat.expand(batch, -1).contiguous()


def x_transformers_bias(slopes: Tensor, query_length: int, key_length: int, total_heads: int | None = None) -> Tensor:
    """What x-transformers' `AlibiPositionalBias(heads, total_heads)(i, j)` gives: -m |i - j|.

    Returns float32 [total_heads, query, key]. Heads beyond the slopes get zero.
    """
    bias = alibi_bias(slopes, query_length, key_length, form="symmetric")
    total_heads = len(bias) if total_heads is None else total_heads
    if total_heads < len(bias):
        raise ValueError(f"total_heads must be at least the number of slopes, {len(bias)}, got {total_heads}")
    return torch.cat((bias, bias.new_zeros(total_heads - len(bias), *bias.shape[1:])))


@torch.no_grad()
def pretrained_heads(
    model: nn.Module, input_ids: Tensor, layer: int, attention_mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and slopes of a layer of a BLOOM, MPT or Falcon model of the transformers library.

    `attention_trace(query, key, slopes)` then shows what the model computes, peculiarities included (transformers
    5.23.0): MPT has ALiBi with flattest slope 1/256 whatever its `attn_config` says. Falcon divides its bias by
    sqrt(head_dim), so its slopes come out that much flatter; it rounds slopes (rounded here too) and biases (not
    rounded here) to bfloat16; and its eager attention adds the bias twice, so compare with `sdpa`.

    Args:
        model: a model with or without a head, such as `BloomModel` or `BloomForCausalLM`.
        input_ids: int64 [batch, length].
        layer: counted from 0.
        attention_mask: [batch, length], 1 for a real token.

    Returns:
        query [batch, heads, length, head_dim], scaled so that the usual 1 / sqrt(head_dim) applies; key [batch, heads,
        length, head_dim]; slopes, float32 [heads].

    Raises ValueError when the model is of another family or without ALiBi, and when layer, ids or mask do not fit.
    """
    config: Any = getattr(model, "config", None)
    family = str(getattr(config, "model_type", type(model).__name__))
    if family not in _FAMILIES:
        raise ValueError(f"model must be one of {', '.join(_FAMILIES)}, got {family!r}")
    if family == "falcon" and not config.alibi:
        raise ValueError("this falcon model was configured without ALiBi")
    if not isinstance(input_ids, Tensor) or input_ids.ndim != 2:
        raise ValueError(f"input_ids must be [batch, length], got {_said(input_ids)}")
    if attention_mask is not None and _counted(attention_mask).shape != input_ids.shape:
        raise ValueError(f"attention_mask must be {list(input_ids.shape)}, as input_ids, got {_said(attention_mask)}")
    base: Any = getattr(model, "transformer", model)
    blocks = base.blocks if family == "mpt" else base.h
    if isinstance(layer, bool) or not isinstance(layer, int):
        raise TypeError(f"layer must be an integer, got {layer!r}")
    if not 0 <= layer < len(blocks):
        raise ValueError(f"layer must be between 0 and {len(blocks) - 1}, got {layer}")
    attention = blocks[layer].attn if family == "mpt" else blocks[layer].self_attention
    projection = attention.Wqkv if family == "mpt" else attention.query_key_value

    caught: list[Tensor] = []
    hook = projection.register_forward_hook(lambda _module, _inputs, output: caught.append(output))
    modes = {module: module.training for module in base.modules()}
    try:
        base.eval()(input_ids, attention_mask=attention_mask, use_cache=False)
    finally:
        hook.remove()
        for module, training in modes.items():
            module.training = training
    return _read(family, config, attention, caught[0])


def pretrained_trace(
    model: nn.Module, input_ids: Tensor, layer: int, attention_mask: Tensor | None = None
) -> AttentionTrace:
    """The `AttentionTrace` of a layer of a pretrained model; arguments and errors as in `pretrained_heads`."""
    query, key, slopes = pretrained_heads(model, input_ids, layer, attention_mask)
    if attention_mask is None:
        return attention_trace(query, key, slopes)
    config: Any = model.config
    positions = None if config.model_type == "mpt" else _counted(attention_mask)  # BLOOM and Falcon count what is real
    return attention_trace(query, key, slopes, key_padding_mask=attention_mask.bool(), positions=positions)


def _counted(attention_mask: Tensor) -> Tensor:
    """The position of each real token among the real ones, int64 [batch, key]; 0 for padding."""
    counts = isinstance(attention_mask, Tensor) and not attention_mask.is_floating_point()
    if not counts or attention_mask.ndim != 2:
        raise ValueError(f"attention_mask must be integers or bool [batch, key], got {_said(attention_mask)}")
    mask = attention_mask.long()
    return (mask.cumsum(-1) - 1) * mask


def _said(given: object) -> str:
    return f"{given.dtype} {list(given.shape)}" if isinstance(given, Tensor) else type(given).__name__


def _read(family: str, config: Any, attention: Any, fused: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Split the fused projection as each family does, and make the slopes it uses."""
    heads = config.n_heads if family == "mpt" else attention.num_heads
    if family == "mpt":
        if attention.clip_qkv:
            fused = fused.clamp(-attention.clip_qkv, attention.clip_qkv)
        query, key, _ = (part.unflatten(-1, (heads, -1)).transpose(1, 2) for part in fused.chunk(3, dim=-1))
        query = query * (attention.softmax_scale * math.sqrt(query.shape[-1]))
        return query, key, alibi_slopes(heads).to(query.device)
    slopes = alibi_slopes(heads).to(fused.device)
    if family == "bloom":
        query, key, _ = (part.transpose(1, 2) for part in fused.unflatten(-1, (heads, 3, -1)).unbind(3))
        return query, key, slopes
    query, key, _ = (part.transpose(1, 2) for part in attention._split_heads(fused))
    key = key.expand(-1, heads, -1, -1)  # one key head may serve all
    return query, key, slopes.to(torch.bfloat16).float() / math.sqrt(query.shape[-1])
