"""Convert ALiBi to the formats of other libraries, and inspect their pretrained models.

The functions accept and return plain tensors and modules; none of those libraries is imported. For FlexAttention, see
`alibi_viz.attention.flex.alibi_score_mod`.
"""

import copy
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from alibi_viz.arguments import check_integer, check_slopes, check_tensor
from alibi_viz.attention import AttentionTrace, attention_trace
from alibi_viz.bias import alibi_bias, bias_from_positions
from alibi_viz.slopes import alibi_slopes

__all__ = ["flash_attention_slopes", "huggingface_alibi", "pretrained_heads", "pretrained_trace", "x_transformers_bias"]

_LENGTH_SETTINGS = ("max_seq_len", "n_positions", "max_position_embeddings")  # in the configs of transformers
_FAMILIES = ("bloom", "falcon", "mpt")
Model = TypeVar("Model", bound=nn.Module)


def huggingface_alibi(slopes: Tensor, attention_mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Compute the bias of transformers' BLOOM (`build_alibi_tensor`): m j, where j counts only real tokens.

    Args:
        slopes: [heads].
        attention_mask: integers or bool [batch, key], 1 for a real token.
        dtype: dtype of the model. In half precision distant positions collide, as they do in transformers.

    Returns [batch * heads, 1, key], in row b * heads + h; 0 for padding. Raises TypeError or ValueError if the slopes
    or the mask do not fit.

    >>> huggingface_alibi(torch.tensor([0.5]), torch.tensor([[0, 1, 1, 1]]))
    tensor([[[0.0000, 0.0000, 0.5000, 1.0000]]])
    """
    check_slopes("slopes", slopes)
    positions = _token_positions(attention_mask)
    bias = bias_from_positions(slopes, positions, positions, form="key", dtype=dtype)  # [batch, heads, 1, key]
    return bias.flatten(0, 1)


def flash_attention_slopes(slopes: Tensor, batch: int | None = None) -> Tensor:
    """Convert slopes to flash-attention's `alibi_slopes`: float32 [heads], or [batch, heads] for a batch size.

    Its kernels add -m |i + key_length - query_length - j|, the right-aligned symmetric form. Raises TypeError or
    ValueError if the slopes are not floating point [heads], or the batch size is not an integer of at least 0.

    >>> flash_attention_slopes(alibi_slopes(8), batch=4).shape
    torch.Size([4, 8])
    """
    check_slopes("slopes", slopes)
    slopes = slopes.detach().to(torch.float32)
    if batch is None:
        return slopes.contiguous()
    check_integer("batch", batch, 0)
    return slopes.expand(batch, -1).contiguous()


def x_transformers_bias(slopes: Tensor, query_length: int, key_length: int, total_heads: int | None = None) -> Tensor:
    """Compute the bias of x-transformers' `AlibiPositionalBias(heads, total_heads)(i, j)`: -m |i - j|.

    Returns float32 [total_heads, query, key]; heads beyond the slopes get zero. Raises as `alibi_bias` does, and
    TypeError or ValueError if `total_heads` is not an integer or less than the number of slopes.

    >>> x_transformers_bias(torch.tensor([0.5]), 1, 3, total_heads=2)
    tensor([[[-1.0000, -0.5000,  0.0000]],
    <BLANKLINE>
            [[ 0.0000,  0.0000,  0.0000]]])
    """
    bias = alibi_bias(slopes, query_length, key_length, form="symmetric")
    total_heads = len(bias) if total_heads is None else total_heads
    check_integer("total_heads", total_heads, 1)
    if total_heads < len(bias):
        raise ValueError(f"total_heads must be at least the number of slopes, {len(bias)}, got {total_heads}")
    return torch.cat((bias, bias.new_zeros(total_heads - len(bias), *bias.shape[1:])))


@torch.no_grad()
def pretrained_heads(
    model: nn.Module, input_ids: Tensor, layer: int, attention_mask: Tensor | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Read the queries, keys and slopes of one layer of a BLOOM, MPT or Falcon model of the transformers library.

    `attention_trace(query, key, slopes)` then reproduces what the model computes, with its quirks in transformers
    5.23.0: MPT always has a smallest slope of 1/256 and ignores `alibi_bias_max` in its `attn_config`. Falcon divides
    its bias by sqrt(head_dim), so the slopes returned here are smaller by that factor; it rounds slopes (as we do) and
    biases (we don't) to bfloat16; its eager attention adds the bias twice, so compare with `sdpa`.

    Args:
        model: a model with or without a language-modeling head, such as `BloomModel` or `BloomForCausalLM`.
        input_ids: int64 [batch, length].
        layer: index of the layer, from 0.
        attention_mask: integers or bool [batch, length], 1 for a real token.

    Returns query and key, [batch, heads, length, head_dim], scaled for the default factor 1 / sqrt(head_dim) of
    attention, and slopes, float32 [heads]. Raises TypeError for a layer, ids or mask of another type, and ValueError if
    one of them does not fit or the model is of another family or has no ALiBi.
    """
    family, layers = attention_layers(model)
    check_tensor("input_ids", input_ids, "integer", "[batch, length]", ndim=2)
    if attention_mask is not None and _token_positions(attention_mask).shape != input_ids.shape:
        shape = list(attention_mask.shape)
        raise ValueError(f"attention_mask must have the shape of input_ids, {list(input_ids.shape)}, got {shape}")
    check_integer("layer", layer, 0, len(layers) - 1)
    attention = layers[layer]
    base: Any = getattr(model, "transformer", model)

    def stop(_module: nn.Module, _inputs: object, output: Tensor) -> None:
        raise _CapturedError(output)  # the rest of the model isn't needed

    hook = fused_projection(attention).register_forward_hook(stop)
    try:
        with evaluation_mode(base):
            base(input_ids, attention_mask=attention_mask, use_cache=False)
    except _CapturedError as captured:
        query, key, _ = split_projection(family, attention, captured.output)
        return query, key, pretrained_slopes(family, attention).to(query.device)
    finally:
        hook.remove()
    raise RuntimeError(f"layer {layer} of {type(model).__name__} was not run")


class _CapturedError(Exception):
    """Carries the output of a layer's projection out of a model's forward pass."""

    def __init__(self, output: Tensor) -> None:
        super().__init__()
        self.output = output


def pretrained_trace(
    model: nn.Module, input_ids: Tensor, layer: int, attention_mask: Tensor | None = None
) -> AttentionTrace:
    """Compute the `AttentionTrace` of a layer of a pretrained model. Arguments and errors as in `pretrained_heads`."""
    query, key, slopes = pretrained_heads(model, input_ids, layer, attention_mask)
    if attention_mask is None:
        return attention_trace(query, key, slopes)
    config: Any = model.config
    # BLOOM and Falcon count only real tokens
    positions = None if config.model_type == "mpt" else _token_positions(attention_mask)
    return attention_trace(query, key, slopes, key_padding_mask=attention_mask.bool(), positions=positions)


def _token_positions(attention_mask: Tensor) -> Tensor:
    """The position of each token among the real tokens, int64 [batch, key]; 0 for padding."""
    check_tensor("attention_mask", attention_mask, "integer or bool", "[batch, key]", ndim=2)
    mask = attention_mask.long()
    return (mask.cumsum(-1) - 1) * mask


def attention_layers(model: nn.Module) -> tuple[str, list[nn.Module]]:
    """The family of a pretrained model, "bloom", "falcon" or "mpt", and its attention modules, first layer first.

    Raises ValueError for another family, and for a Falcon model without ALiBi.
    """
    family = check_alibi(getattr(model, "config", None), type(model).__name__)
    base: Any = getattr(model, "transformer", model)
    if family == "mpt":
        return family, [block.attn for block in base.blocks]
    return family, [block.self_attention for block in base.h]


def check_alibi(config: Any, default: str = "") -> str:
    """The family of a model with this configuration. Raises as `attention_layers`."""
    family = str(getattr(config, "model_type", default))
    if family not in _FAMILIES:
        raise ValueError(f"model must be one of {', '.join(_FAMILIES)}, got {family!r}")
    if family == "falcon" and not config.alibi:
        raise ValueError("this falcon model was configured without ALiBi")
    return family


def longest_context(model: nn.Module) -> int | None:
    """The number of positions that a model of transformers has; None if any length is defined.

    ALiBi and rotary positions are defined at any length, whatever `max_position_embeddings` says.
    """
    config: Any = model.config
    if getattr(config, "rope_parameters", None) or getattr(config, "alibi", False):
        return None
    return next((int(getattr(config, name)) for name in _LENGTH_SETTINGS if getattr(config, name, None)), None)


@contextmanager
def evaluation_mode(model: nn.Module) -> Iterator[None]:
    """Disable dropout inside a `with` block, and restore the mode of every module afterwards."""
    modes = {module: module.training for module in model.modules()}
    try:
        model.eval()
        yield
    finally:
        for module, training in modes.items():
            module.training = training


def shared_copy(model: Model) -> Model:
    """A copy of a model's modules, with the same parameters, buffers and configuration as the original."""
    shared = (*model.parameters(), *model.buffers(), getattr(model, "config", None))
    return copy.deepcopy(model, {id(part): part for part in shared})  # deepcopy reuses the objects in its memo


def fused_projection(attention: nn.Module) -> nn.Module:
    """The layer of an attention module that projects to queries, keys and values at once."""
    projection: Any = getattr(attention, "Wqkv", None) or attention.query_key_value
    return projection


def split_projection(family: str, attention: Any, fused: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Queries, keys and values from the output of the fused projection, [batch, heads, length, head_dim].

    They are scaled for a factor of q . k of 1 / sqrt(head_dim).
    """
    heads = attention.n_heads if family == "mpt" else attention.num_heads
    if family == "bloom":
        query, key, value = fused.unflatten(-1, (heads, 3, -1)).unbind(3)  # [batch, length, heads, head_dim]
    elif family == "mpt":
        fused = fused.clamp(-attention.clip_qkv, attention.clip_qkv) if attention.clip_qkv else fused
        query, key, value = fused.unflatten(-1, (3, heads, -1)).unbind(2)
        query = query * (attention.softmax_scale * math.sqrt(attention.head_dim))
    else:
        query, key, value = attention._split_heads(fused)
        key, value = (each.expand(-1, -1, heads, -1) for each in (key, value))  # multi-query attention has one
    return query.transpose(1, 2), key.transpose(1, 2), value.transpose(1, 2)


def pretrained_slopes(family: str, attention: Any) -> Tensor:
    """The slopes of an attention module, for the usual scale of q . k: float32 [heads], see `pretrained_heads`."""
    slopes = alibi_slopes(attention.n_heads if family == "mpt" else attention.num_heads)
    return slopes.to(torch.bfloat16).float() / math.sqrt(attention.head_dim) if family == "falcon" else slopes
