"""ALiBi by plain causal attention, on queries and keys that `fold` gives two more coordinates.

There is no [query, key] tensor, and the kernel is torch's fastest. Padded keys get one more channel, which makes their
weights 0. FlashBias (arXiv 2505.12044) folds biases in the same way; `coordinates` says what is new here.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import pad

from alibi_viz.attention.coordinates import fold, inexact_reason
from alibi_viz.attention.inputs import AttentionInputs, Backend
from alibi_viz.bias import exact_dtype

__all__ = ["FOLDED"]

_PADDING_MARGIN = 200.0  # a padded key's logit is this far below all others, so its weight is exactly 0
_PADDING_UNIT = 4096.0  # the penalty in this unit fits into float16 for |q| |k| up to 1e8
_CHUNK_BYTES = 8 * 2**20  # approximate size of the query in each chunk, if no gradient is needed


def _attend(inputs: AttentionInputs) -> Tensor:
    """Attend to chunks of batch and heads in turn, so that only their folded copies are in memory.

    Autograd would keep all copies anyway, and a compiler plans memory by itself, so both get one chunk.
    """
    if inputs.needs_gradients or torch.compiler.is_compiling():
        return _attend_chunk(inputs)
    chunks = list(_chunks(inputs))
    if len(chunks) == 1:
        return _attend_chunk(inputs)
    output = torch.empty_like(inputs.query, memory_format=torch.contiguous_format)
    for batch_slice, head_slice, chunk in chunks:
        output[batch_slice, head_slice] = _attend_chunk(chunk)
    return output


def _attend_chunk(inputs: AttentionInputs) -> Tensor:
    query, key, slopes, positions = inputs.query, inputs.key, inputs.slopes, inputs.positions
    head_dim, is_real = query.shape[-1], inputs.key_padding_mask
    if is_real is not None:
        query, key = _hide_padding(inputs, is_real)
    if slopes is not None:
        if positions is not None and inputs.key_length:
            positions = positions.long()  # only differences matter, and small numbers are exact
            positions = positions - positions.amin(-1, keepdim=True)
        query, key = fold(query, key, slopes, positions=positions, scale=inputs.scaling)
    value = pad(inputs.value, (0, key.shape[-1] - head_dim))  # the kernel needs as many channels
    output = inputs.fused_attention(query, key, value, is_causal=True)[..., :head_dim]
    if is_real is not None:
        # [batch, key]: whether there is a real key at or before this position
        has_visible_key = is_real.cumsum(dim=1) > 0
        output = output.masked_fill(~has_visible_key[:, None, :, None], 0.0)
    return output


def _hide_padding(inputs: AttentionInputs, is_real: Tensor) -> tuple[Tensor, Tensor]:
    """Add a channel to query and key that lowers the logits of padded keys so far that their weights are 0.

    is_real: bool [batch, key].
    """
    is_padding = ~is_real[:, None, :, None]  # [batch, 1, key, 1]
    query, key = inputs.query, inputs.key.masked_fill(is_padding, 0.0)
    penalty = torch.where(is_padding, -_padding_penalty(query, key, inputs), 0.0).to(key.dtype)
    return pad(query, (0, 1), value=_PADDING_UNIT), torch.cat((key, penalty.expand(*key.shape[:3], 1)), dim=-1)


@torch.no_grad()
def _padding_penalty(query: Tensor, key: Tensor, inputs: AttentionInputs) -> Tensor:
    """How much lower a padded key's logit must be to lie below those of all real keys, / (_PADDING_UNIT * scale)."""
    if not query.numel() or not key.numel():
        return query.new_zeros(())
    compute_dtype = exact_dtype(query.dtype)
    # an upper bound of |q . k|
    content = query.to(compute_dtype).norm(dim=-1).amax() * key.to(compute_dtype).norm(dim=-1).amax()
    penalty = content + _PADDING_MARGIN / inputs.scaling
    if inputs.slopes is not None:
        # padding may be nearer than all real keys, or further away, which counts if the slope is negative
        positions = inputs.key_positions()
        span = (positions.amax(-1) - positions.amin(-1)).amax()
        penalty = penalty + inputs.slopes.to(compute_dtype).abs().amax() * span / inputs.scaling
    limit = min(torch.finfo(query.dtype).max, 1e30)
    penalty = 2 * penalty / _PADDING_UNIT  # twice, because it is rounded to the dtype of the query
    return penalty.nan_to_num(nan=limit, posinf=limit).clamp(max=limit)


def _chunks(inputs: AttentionInputs) -> Iterator[tuple[slice, slice, AttentionInputs]]:
    """Yield slices of the batch and of the query heads, and the inputs restricted to them."""
    query, key, value, slopes = inputs.query, inputs.key, inputs.value, inputs.slopes
    padding, positions = inputs.key_padding_mask, inputs.positions
    (batch, key_heads), group = key.shape[:2], inputs.group_size
    bytes_per_key_head = group * inputs.query_length * query.shape[-1] * query.element_size()
    heads_per_chunk = max(1, _CHUNK_BYTES // max(bytes_per_key_head, 1))  # key heads, of one or more batch rows
    batch_rows = max(1, heads_per_chunk // key_heads)
    for row in range(0, batch, batch_rows):
        rows = slice(row, row + batch_rows)
        for head in range(0, key_heads, heads_per_chunk):
            key_head_slice = slice(head, head + heads_per_chunk)
            heads = slice(head * group, (head + heads_per_chunk) * group)
            chunk = inputs._replace(
                query=query[rows, heads],
                key=key[rows, key_head_slice],
                value=value[rows, key_head_slice],
                slopes=None if slopes is None else slopes[heads],
                key_padding_mask=None if padding is None else padding[rows],
                positions=positions[rows] if positions is not None and positions.ndim == 2 else positions,
            )
            yield rows, heads, chunk


def _unsupported_reason(inputs: AttentionInputs) -> str | None:
    if not inputs.causal:
        return "without a causal mask the bias is -m |i - j|, which is not a dot product of a few coordinates"
    if inputs.attn_mask is not None:
        return "attn_mask needs a [query, key] tensor, which this backend avoids"
    if inputs.query_length != inputs.key_length:
        return "torch's is_causal aligns the first query with the first key, so there must be as many queries as keys"
    if inputs.query.element_size() == 2 and inputs.positions is not None:
        return "explicit positions may be too large for half precision"
    positions = inputs.positions
    if positions is not None and positions.is_cpu and positions.numel():  # `fold` gets them starting at 0
        positions = positions.long()
        inputs = inputs._replace(positions=positions - positions.amin(-1, keepdim=True))
    return inexact_reason(inputs)


FOLDED = Backend("folded", _attend, _unsupported_reason)
