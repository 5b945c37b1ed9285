"""Convert ALiBi to the format of flash-attention, which is not imported.

For FlexAttention, see `alibi_viz.attention.flex.alibi_score_mod`; for whole models of transformers, `pretrained.py`.
"""

import torch
from torch import Tensor

from alibi_viz.arguments import check_integer, check_slopes


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
