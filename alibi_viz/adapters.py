"""Convert ALiBi to the formats of other libraries, none of which is imported.

For FlexAttention, see `alibi_viz.attention.flex.alibi_score_mod`; for whole models of transformers, `pretrained.py`.
"""

import torch
from torch import Tensor

from alibi_viz.arguments import check_integer, check_slopes, check_tensor
from alibi_viz.bias import bias_from_positions


def huggingface_alibi(slopes: Tensor, attention_mask: Tensor, dtype: torch.dtype = torch.float32) -> Tensor:
    """Compute the bias of transformers' BLOOM (`build_alibi_tensor`): m j, where j counts only real tokens.

    Args:
        slopes: [heads].
        attention_mask: integers or bool [batch, key], 1 for a real token.
        dtype: dtype of the model. In half precision distant positions collide, as they do in transformers.

    Returns [batch * heads, 1, key], in row b * heads + h; 0 for padding. Raises TypeError or ValueError if the slopes
    or the mask do not fit.

    >>> from alibi_viz.adapters import huggingface_alibi
    >>> huggingface_alibi(torch.tensor([0.5]), torch.tensor([[0, 1, 1, 1]]))
    tensor([[[0.0000, 0.0000, 0.5000, 1.0000]]])
    """
    check_slopes("slopes", slopes)
    check_tensor("attention_mask", attention_mask, "integer or bool", "[batch, key]", ndim=2)
    mask = attention_mask.long()
    positions = (mask.cumsum(-1) - 1) * mask
    bias = bias_from_positions(slopes, positions, positions, form="key", dtype=dtype)  # [batch, heads, 1, key]
    return bias.flatten(0, 1)


def flash_attention_slopes(slopes: Tensor, batch: int | None = None) -> Tensor:
    """Convert slopes to flash-attention's `alibi_slopes`: float32 [heads], or [batch, heads] for a batch size.

    Its kernels add -m |i + key_length - query_length - j|, the right-aligned symmetric form. Raises TypeError or
    ValueError if the slopes are not floating point [heads], or the batch size is not an integer of at least 0.

    >>> from alibi_viz.adapters import flash_attention_slopes
    >>> flash_attention_slopes(alibi_slopes(8), batch=4).shape
    torch.Size([4, 8])
    """
    check_slopes("slopes", slopes)
    slopes = slopes.detach().to(torch.float32)
    if batch is None:
        return slopes.contiguous()
    check_integer("batch", batch, 0)
    return slopes.expand(batch, -1).contiguous()
