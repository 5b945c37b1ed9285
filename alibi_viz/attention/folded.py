"""ALiBi as two more coordinates of q . k.

    -m (i - j)  =  (-m i) . 1  +  m . j

The right side is a dot product: of (-m i, m), which belongs to query i alone, and (1, j), which belongs to key j
alone. Written in front of the channels of q and k they make plain causal attention compute ALiBi, with torch's
fastest kernel and without a [query, key] tensor. It is also the shortest answer to what ALiBi is.

Which coordinate comes first matters. A matrix product adds its terms in order, each with one rounding (a fused
multiply-add). Starting from -m i, the second term gives fl(m j - m i): small near the diagonal, where the weights are,
so its rounding is small too. Starting from m j, which may be thousands, loses two digits (1e-4 instead of 6e-7 in
the output at 4096 tokens). That -m i was itself rounded is harmless: it shifts a whole row, and softmax does not see
that.
"""

from collections.abc import Iterator

import torch
from torch import Tensor
from torch.nn.functional import pad, scaled_dot_product_attention

from alibi_viz.attention.inputs import Inputs

__all__ = ["coordinates", "fold", "folded_attention", "out_of_range"]

HALF_LIMIT = 65_504  # the largest number of float16; positions below it split exactly into two parts
SINGLE_LIMIT = 2**24  # integers up to here exist in float32
_HIDDEN = 200.0  # by so much a padded key's logit lies below every other, so that its weight is exactly zero
_PIECE = 8 * 2**20  # bytes of a widened tensor that are made at once when no gradient is needed
_ROW_UNIT = 64.0  # -m i is stored in units of 64, to stay inside float16; a power of two costs no digit


def coordinates(slopes: Tensor, positions: Tensor, dtype: torch.dtype, scale: float = 1.0) -> tuple[Tensor, Tensor]:
    """The coordinates that ALiBi adds: their dot product, times `scale`, is -m (i - j).

    In float32 and float64 there are two. bfloat16 and float16 cannot hold a position above 256 or 2048, so position
    and slope are each split into a coarse and a fine part that the dtype does hold, which makes five.

    Args:
        slopes: [heads].
        positions: integers [length] or [batch, length]; below 65504 in half precision.
        dtype: of the result.
        scale: what the attention will multiply all dot products by.

    Returns:
        for queries [..., heads, length, 2 or 5], for keys [..., 1, length, 2 or 5].

    >>> query, key = coordinates(torch.tensor([0.5]), torch.arange(3), torch.float32)
    >>> query @ key.mT
    tensor([[[ 0.0000,  0.5000,  1.0000],
             [-0.5000,  0.0000,  0.5000],
             [-1.0000, -0.5000,  0.0000]]])
    """
    work = torch.float64 if dtype == torch.float64 else torch.float32
    steep = slopes.to(work)[:, None] / scale  # [heads, 1]
    where = positions[..., None, :].to(work)  # [..., 1, length]
    row = -steep * where  # [..., heads, length]
    if dtype == work:
        return _stack(row, steep.expand_as(row)), _stack(torch.ones_like(where), where)

    digit = 256 if dtype == torch.bfloat16 else 2048  # integers up to here exist in the dtype
    fine = where.remainder(digit)
    high = steep.to(dtype)
    low = (steep.detach() - high.detach().to(work)).to(dtype)  # detached: the gradient of the sum flows through `high`
    high, low = high.expand_as(row), low.expand_as(row)
    query = _stack((row / _ROW_UNIT).to(dtype), high, high, low, low)
    key = _stack(torch.full_like(where, _ROW_UNIT), where - fine, fine, where - fine, fine).to(dtype)
    return query, key


def out_of_range(inputs: Inputs) -> str | None:
    """Why the coordinates of these inputs would not be exact, or overflow; None where they fit.

    Values are looked at on the CPU only, and not while a compiler follows.
    """
    dtype = inputs.query.dtype
    if inputs.scaling <= 0:
        return "the coordinates are divided by the scale, which must be positive"
    if dtype in (torch.float16, torch.bfloat16):
        if inputs.positions is not None:
            return "positions of your own might not fit into half precision"
        if inputs.key_length > HALF_LIMIT:
            return f"half precision holds positions below {HALF_LIMIT} only"
    if _overflows(inputs):
        return f"with so small a scale, or slopes so steep, {str(dtype).removeprefix('torch.')} overflows"
    if dtype == torch.float32 and _span(inputs) > SINGLE_LIMIT:
        return f"float32 tells positions apart that lie at most {SINGLE_LIMIT} from each other"
    return None


def _overflows(inputs: Inputs) -> bool:
    slopes, limit = inputs.slopes, torch.finfo(inputs.query.dtype).max
    if slopes is None or not slopes.is_cpu or torch.compiler.is_compiling():
        return False
    steepest = max(map(abs, slopes.tolist())) / inputs.scaling
    unit = _ROW_UNIT if inputs.query.dtype == torch.float16 else 1.0
    return steepest * max(1.0, inputs.key_length / unit) > limit


def _span(inputs: Inputs) -> int:
    """From the first position to the last; 0 where it cannot be seen."""
    places = inputs.positions
    if places is None or not places.numel() or places.device.type != "cpu" or torch.compiler.is_compiling():
        return 0
    places = places.long()
    return int((places.amax(-1) - places.amin(-1)).max())


def fold(inputs: Inputs) -> tuple[Tensor, Tensor, Tensor]:
    """Query, key and value with the coordinates in front: [batch, heads, length, extra + head_dim].

    Padded keys get one more coordinate, which sinks them; the values are filled up with zeros, because the kernel
    wants one size for all three.
    """
    query, key, value, slopes = inputs.query, inputs.key, inputs.value, inputs.slopes
    if slopes is None:
        if inputs.key_padding_mask is None:
            return query, key, value
        slopes = query.new_zeros(query.shape[1], dtype=torch.float32)
    places = inputs.key_positions()
    if inputs.positions is not None and inputs.key_length:
        places = places - places.amin(-1, keepdim=True)  # only differences count, and small numbers are exact
    for_query, for_key = coordinates(slopes, places, query.dtype, inputs.scaling)
    if inputs.key_padding_mask is not None:
        padded = inputs.key_padding_mask[:, None, :, None].logical_not()  # [batch, 1, key, 1]
        key = key.masked_fill(padded, 0.0)
        sink = padded.to(query.dtype) * -_depth(query, key, slopes, inputs)
        at_origin = for_key * inputs.key_padding_mask[:, None, :, None]  # ... or a pad nearby beats a token far away
        at_origin[..., 0] = for_key[..., 0]
        for_key = torch.cat((at_origin, sink), dim=-1)
        for_query = pad(for_query, (0, 1), value=1.0)
    extra = for_key.shape[-1]
    wide_query = torch.cat((for_query.expand(*query.shape[:3], extra), query), dim=-1)
    wide_key = torch.cat((for_key.expand(*key.shape[:3], extra), key), dim=-1)
    return wide_query, wide_key, pad(value, (extra, 0))


@torch.no_grad()
def _depth(query: Tensor, key: Tensor, slopes: Tensor, inputs: Inputs) -> Tensor:
    """How far a padded key is sunk, before the scale: below whatever q . k and the biases may be."""
    if not query.numel() or not key.numel():
        return query.new_zeros(())
    work = torch.float64 if query.dtype == torch.float64 else torch.float32
    content = query.to(work).norm(dim=-1).amax() * key.to(work).norm(dim=-1).amax()  # at least |q . k|
    reward = (-slopes.to(work)).clamp(min=0).amax() * inputs.key_length  # of the origin, were slopes negative
    depth = 3 * content + (reward + _HIDDEN) / inputs.scaling
    return depth.clamp(max=torch.finfo(query.dtype).max).to(query.dtype)


def folded_attention(inputs: Inputs) -> Tensor:
    """Causal attention by folding, [batch, heads, query, head_dim]; as many queries as keys.

    Beyond query, key, value and output it needs memory proportional to the length: without gradients, the wider
    copies of a few heads at a time.
    """
    pieces = list(_pieces(inputs))
    if len(pieces) == 1:
        return _attend(inputs)
    output = torch.empty_like(inputs.query, memory_format=torch.contiguous_format)
    for rows, heads, piece in pieces:
        output[rows, heads] = _attend(piece)
    return output


def _attend(inputs: Inputs) -> Tensor:
    query, key, value = fold(inputs)
    output = scaled_dot_product_attention(
        query,
        key,
        value,
        dropout_p=inputs.dropout,
        is_causal=True,
        scale=inputs.scaling,
        enable_gqa=inputs.group > 1,
    )[..., -inputs.query.shape[-1] :]
    if inputs.key_padding_mask is not None:
        seen = inputs.key_padding_mask.cumsum(dim=1) > 0  # [batch, key]: some real key at or before this position
        output = output.masked_fill(~seen[:, None, :, None], 0.0)
    return output


def _pieces(inputs: Inputs) -> Iterator[tuple[slice, slice, Inputs]]:
    """The inputs, whole where autograd or a compiler follows, else cut by batch and heads."""
    whole = slice(None)
    if inputs.needs_gradients or torch.compiler.is_compiling():
        yield whole, whole, inputs
        return
    query, group = inputs.query, inputs.group
    batch, key_heads = inputs.key.shape[:2]
    one_head = group * inputs.query_length * query.shape[-1] * query.element_size()
    at_once = max(1, _PIECE // max(one_head, 1))  # key heads
    if batch * key_heads <= at_once:
        yield whole, whole, inputs
        return
    rows = max(1, at_once // key_heads)
    for first in range(0, batch, rows):
        some = slice(first, first + rows)
        for head in range(0, key_heads, at_once):
            few = slice(head, head + at_once)
            yield some, slice(few.start * group, few.stop * group), _cut(inputs, some, few)


def _cut(inputs: Inputs, rows: slice, key_heads: slice) -> Inputs:
    heads = slice(key_heads.start * inputs.group, key_heads.stop * inputs.group)
    padding, positions, slopes = inputs.key_padding_mask, inputs.positions, inputs.slopes
    return Inputs(
        query=inputs.query[rows, heads],
        key=inputs.key[rows, key_heads],
        value=inputs.value[rows, key_heads],
        slopes=None if slopes is None else slopes[heads],
        key_padding_mask=None if padding is None else padding[rows],
        positions=positions[rows] if positions is not None and positions.ndim == 2 else positions,
        scale=inputs.scale,
        dropout=inputs.dropout,
    )


def _stack(*coordinate: Tensor) -> Tensor:
    return torch.stack(coordinate, dim=-1)
