"""ALiBi as two more coordinates of q . k.

    -m (i - j)  =  (-m i) . 1  +  m . j

The right side is a dot product of (-m i, m), which depends only on query i, and (1, j), which depends only on key j.
Prepended to the channels of q and k, these coordinates make plain causal attention compute ALiBi, with torch's fastest
kernel and without a [query, key] tensor.

The order of the coordinates matters, because a matrix product adds its terms in order and rounds each sum. -m i comes
first: its rounding shifts a whole row, which cancels in the softmax, and the next sum m j - m i is small near the
diagonal, where the weights are large, so its rounding error is small too. Starting with m j, which may be in the
thousands, makes the error of the output 1e-4 instead of 6e-7 at 4096 tokens.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import pad

from alibi_viz.attention.inputs import AttentionInputs, Backend

__all__ = ["FLOAT16_MAX", "FOLDED", "coordinates", "fold"]

FLOAT16_MAX = 65_504  # positions below it are the exact sum of two float16 or two bfloat16 numbers
_EXACT_IN_FLOAT32 = 2**24  # float32 represents every integer up to here
_PADDING_MARGIN = 200.0  # a padded key's logit is this far below all others, so its weight is exactly 0
_CHUNK_BYTES = 8 * 2**20  # approximate size of the query in each chunk, if no gradient is needed
_ROW_UNIT = 64.0  # -m i is stored in units of 64 to stay within float16; a power of two loses no digits
_HALF = (torch.float16, torch.bfloat16)


def coordinates(slopes: Tensor, positions: Tensor, dtype: torch.dtype, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """Compute the coordinates that ALiBi adds to queries and keys: their dot product, times `scale`, is -m (i - j).

    float32 and float64 need two. bfloat16 and float16 don't represent all positions above 256 or 2048, so position and
    slope are each split into a coarse and a fine part that they do represent, which makes five.

    Args:
        slopes: [heads].
        positions: integers [length] or [batch, length]; below 65504 in half precision.
        dtype: dtype of the result.
        scale: the factor by which attention will multiply q . k.

    Returns the coordinates of the queries [..., heads, length, 2 or 5] and of the keys [..., 1, length, 2 or 5].

    >>> query, key = coordinates(torch.tensor([0.5]), torch.arange(3), torch.float32)
    >>> query @ key.mT
    tensor([[[ 0.0000,  0.5000,  1.0000],
             [-0.5000,  0.0000,  0.5000],
             [-1.0000, -0.5000,  0.0000]]])
    """
    compute_dtype = torch.float64 if dtype == torch.float64 else torch.float32
    slope = slopes.to(compute_dtype)[:, None] / scale  # [heads, 1]
    position = positions[..., None, :].to(compute_dtype)  # [..., 1, length]
    row = -slope * position  # [..., heads, length]
    if dtype == compute_dtype:
        query, key = (row, slope.expand_as(row)), (torch.ones_like(position), position)
        return torch.stack(query, dim=-1), torch.stack(key, dim=-1)

    exact = 256 if dtype == torch.bfloat16 else 2048  # the dtype represents every integer up to here
    fine = position.remainder(exact)
    coarse = position - fine
    high = slope.to(dtype)
    # detached: the gradient of the sum flows through `high`
    low = (slope.detach() - high.detach().to(compute_dtype)).to(dtype)
    high, low = high.expand_as(row), low.expand_as(row)
    for_query = torch.stack(((row / _ROW_UNIT).to(dtype), high, high, low, low), dim=-1)
    for_key = torch.stack((torch.full_like(position, _ROW_UNIT), coarse, fine, coarse, fine), dim=-1).to(dtype)
    return for_query, for_key


def fold(inputs: AttentionInputs) -> tuple[Tensor, Tensor, Tensor]:
    """Prepend the coordinates to query, key and value: [batch, heads, length, extra + head_dim].

    Padded keys get one more coordinate, a penalty. The value is padded with zeros, because the kernel needs the same
    head_dim for all three.
    """
    query, key, value, slopes, is_real = inputs.query, inputs.key, inputs.value, inputs.slopes, inputs.key_padding_mask
    if slopes is None:
        if is_real is None:
            return query, key, value
        slopes = query.new_zeros(query.shape[1], dtype=torch.float32)
    positions = inputs.key_positions()
    if inputs.positions is not None and inputs.key_length:
        positions = positions - positions.amin(-1, keepdim=True)  # only differences matter, and small numbers are exact
    for_query, for_key = coordinates(slopes, positions, query.dtype, inputs.scaling)
    if is_real is not None:
        is_real = is_real[:, None, :, None]  # [batch, 1, key, 1]
        key = key.masked_fill(~is_real, 0.0)
        penalty = (~is_real).to(query.dtype) * -_padding_penalty(query, key, slopes, inputs)
        # Padded keys get position 0, or a nearby one could outweigh a distant real key in spite of the penalty.
        masked = for_key * is_real
        masked[..., 0] = for_key[..., 0]
        for_key = torch.cat((masked, penalty), dim=-1)
        for_query = pad(for_query, (0, 1), value=1.0)
    extra = for_key.shape[-1]
    folded_query = torch.cat((for_query.expand(*query.shape[:3], extra), query), dim=-1)
    folded_key = torch.cat((for_key.expand(*key.shape[:3], extra), key), dim=-1)
    return folded_query, folded_key, pad(value, (extra, 0))


@torch.no_grad()
def _padding_penalty(query: Tensor, key: Tensor, slopes: Tensor, inputs: AttentionInputs) -> Tensor:
    """How much to lower a padded key's logit, before scaling, so that it lies below the logits of all real keys."""
    if not query.numel() or not key.numel():
        return query.new_zeros(())
    compute_dtype = torch.float64 if query.dtype == torch.float64 else torch.float32
    # an upper bound of |q . k|
    content = query.to(compute_dtype).norm(dim=-1).amax() * key.to(compute_dtype).norm(dim=-1).amax()
    # the bias of a key at position 0 is positive if a slope is negative
    largest_bias = (-slopes.to(compute_dtype)).clamp(min=0).amax() * inputs.key_length
    penalty = 3 * content + (largest_bias + _PADDING_MARGIN) / inputs.scaling
    return penalty.clamp(max=torch.finfo(query.dtype).max).to(query.dtype)


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
    output = inputs.fused_attention(*fold(inputs), is_causal=True)[..., -inputs.query.shape[-1] :]
    if inputs.key_padding_mask is not None:
        # [batch, key]: whether there is a real key at or before this position
        has_visible_key = inputs.key_padding_mask.cumsum(dim=1) > 0
        output = output.masked_fill(~has_visible_key[:, None, :, None], 0.0)
    return output


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
    if inputs.scaling <= 0:
        return "the coordinates are divided by the scale, which must be positive"
    return _inexact_reason(inputs)


def _inexact_reason(inputs: AttentionInputs) -> str | None:
    """Why the coordinates would overflow or be inexact. Reads no values on a GPU or when compiling."""
    dtype, positions = inputs.query.dtype, inputs.positions
    if dtype in _HALF and positions is not None:
        return "explicit positions may be too large for half precision"
    if dtype in _HALF and inputs.key_length > FLOAT16_MAX:
        return f"half precision represents only positions below {FLOAT16_MAX}"
    if torch.compiler.is_compiling():
        return None
    if inputs.slopes is not None and inputs.slopes.is_cpu:
        steepest = max(map(abs, inputs.slopes.tolist())) / inputs.scaling
        unit = _ROW_UNIT if dtype == torch.float16 else 1.0
        if steepest * max(1.0, inputs.key_length / unit) > torch.finfo(dtype).max:
            return f"{str(dtype).removeprefix('torch.')} overflows with a scale this small or slopes this large"
    if dtype == torch.float32 and positions is not None and positions.is_cpu and positions.numel():
        positions = positions.long()
        if int((positions.amax(-1) - positions.amin(-1)).max()) > _EXACT_IN_FLOAT32:
            return f"float32 distinguishes positions only if they are at most {_EXACT_IN_FLOAT32} apart"
    return None


FOLDED = Backend("folded", _attend, _unsupported_reason)
