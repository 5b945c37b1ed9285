"""ALiBi as two more coordinates of q . k.

    -m (i - j)  =  (-m i) . 1  +  m . j

The right side is a dot product of (-m i, m), which depends only on query i, and (1, j), which
depends only on key j. Prepended to the channels of q and k, these coordinates make plain causal
attention compute ALiBi, with torch's fastest kernel and without a [query, key] tensor. Padded keys
get one more channel, which makes their weights 0.

Near the diagonal, where the weights are large, -m i and m j cancel, but what was rounded before
they did remains. A sum of n channels is rounded n times, so in any order a logit is off by at most

    n / 2 * eps * (|m| p + content),    content = scale * sum of |q_c k_c|

where p is the largest of |i|, |j| and |i - j|, and eps is that of the dtype in which the kernel
adds. To keep p small, positions are counted from the last key: only their differences matter.

Adding the channels in order is far more exact, because -m i comes first: its rounding shifts a
whole row, which cancels in the softmax, and the next sum m j - m i is small near the diagonal.
MKL, with which torch's flash attention multiplies matrices on x86, adds in this order, unless there
are fewer than 16 queries. Only the last block of queries has so few, and there p is small. So the
error of an output in float32 is 7e-7 at 16,384 tokens; in the reverse order, or with m j first, it
is 9e-4. The products m j must be exact, too: by a fused multiply-add, as on x86 since 2013, or
because m is a power of two, as for 8 heads. Kernels of a GPU add in another order, so there this
backend is for half precision only.

FlashBias (Wu et al. 2025, arXiv 2505.12044, NeurIPS 2025) factorizes ALiBi and other biases in this
way. GRAPE (Zhang et al. 2025, arXiv 2512.07805, ICLR 2026) derives ALiBi and the forget gate as
exact actions of matrices on extra coordinates. New here are this order, and the split into coarse
and fine parts that keeps half precision as exact as a mask (see `coordinates`).
"""

import math

import torch
from torch import Tensor
from torch.nn.functional import pad

from alibi_viz.arguments import can_be_read, check_slopes
from alibi_viz.attention.inputs import AttentionInputs, Backend
from alibi_viz.bias import exact_dtype

# float16 stores -m i in this unit, so as not to overflow. A power of two loses no digits.
_UNIT = 64.0
# Positions up to here are the exact sum of two float16 or two bfloat16 numbers.
_LARGEST_IN_HALF = 65_503
# The logits of padded keys are lower by the product of these two: far below all others, and
# 2.7e8 * scale in float16.
_PADDING_UNIT = 4096.0
_PADDING_PENALTY = 1e26


def coordinates(
    slopes: Tensor, positions: Tensor, dtype: torch.dtype, scale: float = 1.0
) -> tuple[Tensor, Tensor]:
    """The coordinates that ALiBi adds to queries and keys.

    Their dot product, times `scale`, is -m (i - j). float32 and float64 need two coordinates.
    bfloat16 and float16 don't represent all positions above 256 or 2048, so position and slope are
    each split into a coarse and a fine part that they do represent, which makes five.

    For slopes [heads] and positions [..., length], the queries get [..., heads, length, 2 or 5],
    and the keys [..., 1, length, 2 or 5].

    >>> import torch
    >>> from alibi_viz.attention.folded import coordinates
    >>> query, key = coordinates(torch.tensor([0.5]), torch.arange(3), torch.float32)
    >>> query @ key.mT
    tensor([[[ 0.0000,  0.5000,  1.0000],
             [-0.5000,  0.0000,  0.5000],
             [-1.0000, -0.5000,  0.0000]]])
    """
    compute_dtype = exact_dtype(dtype)
    slope = slopes.to(compute_dtype)[:, None] / scale  # [heads, 1]
    position = positions[..., None, :].to(compute_dtype)  # [..., 1, length]
    row = -slope * position  # [..., heads, length]
    if dtype == compute_dtype:
        for_query = torch.stack((row, slope.expand_as(row)), dim=-1)
        for_key = torch.stack((torch.ones_like(position), position), dim=-1)
        return for_query, for_key

    # The dtype has all integers up to this number.
    largest_fine = 256 if dtype == torch.bfloat16 else 2048
    fine = position.fmod(largest_fine)
    coarse = position - fine

    high = slope.to(dtype)
    remainder = slope.detach() - high.detach().to(
        compute_dtype
    )  # the gradient flows through `high`
    low = remainder.to(dtype).expand_as(row)
    high = slope.expand_as(row).to(dtype)  # expanded first, so gradients are summed in float32

    query_parts = ((row / _UNIT).to(dtype), high, high, low, low)
    key_parts = (torch.full_like(position, _UNIT), coarse, fine, coarse, fine)
    return torch.stack(query_parts, dim=-1), torch.stack(key_parts, dim=-1).to(dtype)


def fold(
    query: Tensor,
    key: Tensor,
    slopes: Tensor,
    *,
    positions: Tensor | None = None,
    scale: float | None = None,
) -> tuple[Tensor, Tensor]:
    """Add channels to query and key that make any plain causal attention compute ALiBi.

    Use it with kernels that have no ALiBi, such as those of flash-attention 3 and 4; with torch,
    use `alibi_attention`.

    Args:
        query, key, slopes: as in `alibi_attention`.
        positions: integers [key] or [batch, key], for a cache or gaps; by default counted from
            the last key: ..., -2, -1, 0. How large they may be is said below.
        scale: factor of q . k, above 0; 1 / sqrt(head_dim) by default.

    Returns query [batch, heads, query, extra + head_dim] and key [batch, key_heads, key, extra +
    head_dim] in the dtype of the inputs, or that of autocast; extra is 2 in float32 and float64, 5
    in half precision. Slopes get gradients.

    The kernel must multiply by the same scale as without the channels, so pass it on: the default
    of most kernels depends on the number of channels. Pad the value with zeros if the kernel needs
    equal channels, and all three to a multiple of 8 for most kernels on a GPU. Then drop the same
    channels of the output:

    >>> import torch
    >>> import alibi_viz as av
    >>> from torch.nn.functional import pad, scaled_dot_product_attention
    >>> q, k, v = torch.randn(3, 2, 8, 100, 64)
    >>> slopes = av.alibi_slopes(8)
    >>> scale = 64**-0.5
    >>> folded_q, folded_k = av.fold(q, k, slopes, scale=scale)
    >>> # 66 channels, rounded up to 72
    >>> tensors = [pad(tensor, (0, 72 - tensor.shape[-1])) for tensor in (folded_q, folded_k, v)]
    >>> output = scaled_dot_product_attention(*tensors, is_causal=True, scale=scale)[..., :64]
    >>> torch.allclose(output, av.alibi_attention(q, k, v, slopes), atol=1e-5)
    True

    The order suits torch's kernels. XLA adds the channels in another: put the new ones last (tried
    with jax 0.10 on a CPU; the error of 1.5e-5 becomes 5e-7). FlashAttention-3 and -4 need no
    change but equal channels (untested):

        # JAX: q, k, v as above, [batch, length, heads, channels] for the kernel
        tensors = [folded_q.roll(-2, -1), folded_k.roll(-2, -1), pad(v, (0, 2))]
        arrays = [jax.numpy.asarray(t.numpy()).swapaxes(1, 2) for t in tensors]
        output = jax.nn.dot_product_attention(*arrays, scale=scale, is_causal=True)[..., :64]

        # FlashAttention-3: from flash_attn_interface import flash_attn_func
        # FlashAttention-4: from flash_attn.cute import flash_attn_func
        # In bfloat16 there are 64 + 5 channels. Both may return (output, lse).
        tensors = [pad(tensor, (0, 72 - tensor.shape[-1])) for tensor in (folded_q, folded_k, v)]
        arguments = [tensor.transpose(1, 2).contiguous() for tensor in tensors]
        output = flash_attn_func(*arguments, softmax_scale=scale, causal=True)

    Folded keys depend on neither slopes nor scale, so they can be cached. Then give all of them
    their positions, because the default would count from the last key of each call: fold the first
    100 tokens with `positions=torch.arange(100)` and the next with `positions=torch.tensor([100])`,
    and append its key to the cache.

    Rounding acts as if keys were nearer or farther. In whatever order a kernel adds the channels,
    it moves a key by at most

        channels / 2 * eps * p

    steps, where channels are head_dim + extra, eps is that of the dtype in which the kernel adds
    (float32 for half precision), and p is the largest of the two positions and their distance.
    Where this could exceed half a step, a key could pass for its neighbor. So `positions` above
    1 / (channels * eps) raise an error: 127,100 in float32 and 6.8e13 in float64 for 64 + 2
    channels. Half precision represents positions up to 65,503.

    Without `positions`, torch's flash attention for the CPU is about as exact as with a float mask
    if it uses MKL, as on x86: for unit normal inputs, the largest error of an output against
    float64 is about 8 eps in float32 and 1 eps in half precision, for up to 16,384 tokens and also
    for a single query. (On a processor without fused multiply-add, slopes must be powers of two for
    that.) On a GPU (an H200 with torch 2.11), half precision has these errors too, but float32 up
    to 1.5e-4.

    Raises as `alibi_attention`, and ValueError if the scale is not above 0, or if positions or
    slopes (not read on a GPU, nor inside `torch.func`) are too large for the dtype.
    """
    check_slopes("slopes", slopes)
    inputs = AttentionInputs.checked(query, key, key, slopes, positions=positions, scale=scale)
    inputs = inputs.cast().saveable()
    reason = _inexact_reason(inputs)
    if reason is not None:
        raise ValueError(f"query and key cannot be folded: {reason}")
    if positions is None:
        inputs = _from_last_key(inputs)
    return _folded(inputs, slopes)


def _from_last_key(inputs: AttentionInputs) -> AttentionInputs:
    """The same inputs with positions counted from the last key: ..., -2, -1, 0.

    Integers lose no digits, however far away the positions were.
    """
    positions = inputs.key_positions()
    return inputs._replace(positions=positions - positions[..., -1:])


def _folded(inputs: AttentionInputs, slopes: Tensor) -> tuple[Tensor, Tensor]:
    """`fold` without checks."""
    query = inputs.query
    key = inputs.key
    for_query, for_key = coordinates(slopes, inputs.key_positions(), query.dtype, inputs.scaling)
    # The queries are the last of the keys.
    for_query = for_query[..., inputs.key_length - inputs.query_length :, :]
    for_query = for_query.expand(*query.shape[:3], -1)
    for_key = for_key.expand(*key.shape[:3], -1)
    return torch.cat((for_query, query), dim=-1), torch.cat((for_key, key), dim=-1)


def _inexact_reason(inputs: AttentionInputs) -> str | None:  # noqa: PLR0911 - one per reason
    """Why the coordinates would overflow or be inexact; None if they would not.

    Reads no values on a GPU or when compiling.
    """
    dtype = inputs.query.dtype
    name = str(dtype).removeprefix("torch.")
    scale = inputs.scaling
    if scale <= 0:
        return f"the coordinates are divided by the scale, which must be positive, got {scale}"
    smallest_scale = 1e-6 if dtype == torch.float16 else 1e-24
    if inputs.key_padding_mask is not None and scale < smallest_scale:
        return f"a scale of {scale:g} is too small to hide padded keys"

    largest_position = _largest_position(inputs)
    if dtype.itemsize == 2 and largest_position > _LARGEST_IN_HALF:
        return f"{name} represents positions only up to {_LARGEST_IN_HALF}"
    if inputs.positions is not None:
        head_dim = inputs.query.shape[-1]
        channels = head_dim + (5 if dtype.itemsize == 2 else 2)
        # Beyond, rounding may move a key by more than half a step.
        largest = int(1 / (channels * torch.finfo(exact_dtype(dtype)).eps))
        if largest_position > largest:
            return f"{name} tells positions apart only up to {largest} with {head_dim} channels"

    slopes = inputs.slopes
    if slopes is None or not can_be_read(slopes):
        return None
    steepest = max(map(abs, slopes.tolist()))
    unit = _UNIT if dtype == torch.float16 else 1.0
    largest_coordinate = steepest / scale * max(1.0, largest_position / unit)
    if largest_coordinate > torch.finfo(dtype).max:
        return f"{name} overflows with a scale of {scale:g} and slopes up to {steepest:g}"
    return None


def _largest_position(inputs: AttentionInputs) -> int:
    """The largest position in size; for positions that cannot be read, as if they had no gaps."""
    positions = inputs.positions
    if positions is None or not can_be_read(positions) or not positions.numel():
        return inputs.key_length - 1
    smallest, largest = positions.long().aminmax()
    # As Python's integers: int64 has no 2^63, the size of its smallest number.
    return max(-int(smallest), int(largest))


def _attend(inputs: AttentionInputs) -> Tensor:
    head_dim = inputs.query.shape[-1]
    is_real = inputs.key_padding_mask
    if is_real is not None:
        inputs = _hide_padding(inputs, is_real)

    query = inputs.query
    key = inputs.key
    slopes = inputs.slopes
    if slopes is not None:
        inputs = _scaled_by_a_power_of_two(inputs)
        query, key = _folded(_from_last_key(inputs), slopes)
        if inputs.on_gpu:  # whose fastest kernels take channels in multiples of 8
            new_channels = -query.shape[-1] % 8
            query = pad(query, (0, new_channels))
            key = pad(key, (0, new_channels))
    # The kernel needs as many channels in the value.
    value = pad(inputs.value, (0, key.shape[-1] - head_dim))
    output = inputs.fused_attention(query, key, value, is_causal=True)[..., :head_dim]

    if is_real is not None:
        has_visible_key = is_real.cumsum(dim=1) > 0  # [batch, key]
        output = output.masked_fill(~has_visible_key[:, None, :, None], 0.0)
    return output


def _scaled_by_a_power_of_two(inputs: AttentionInputs) -> AttentionInputs:
    """The same logits with a scale that rounds nothing.

    The backward pass of torch's kernel multiplies by the scale before -m i and m j cancel.
    """
    if inputs.query.element_size() == 2:
        return inputs
    scale = 2.0 ** round(math.log2(inputs.scaling))
    return inputs._replace(query=inputs.query * (inputs.scaling / scale), scale=scale)


def _hide_padding(inputs: AttentionInputs, is_real: Tensor) -> AttentionInputs:
    """Add a channel that is 0 in real keys and makes the weights of padded keys 0."""
    key = inputs.key
    is_padding = ~is_real[:, None, :, None]  # [batch, 1, key, 1]
    penalty = min(torch.finfo(key.dtype).max, _PADDING_PENALTY / max(inputs.scaling, 1.0))
    channel = torch.where(is_padding, -penalty, 0.0).to(key.dtype).expand(*key.shape[:3], 1)
    key = torch.cat((key.masked_fill(is_padding, 0.0), channel), dim=-1)
    query = pad(inputs.query, (0, 1), value=_PADDING_UNIT)
    # The default scale would count the new channel.
    return inputs._replace(query=query, key=key, scale=inputs.scaling)


def _unsupported_reason(inputs: AttentionInputs) -> str | None:
    if not inputs.causal:
        return (
            "without a causal mask the bias is -m |i - j|, which is not a dot product of a few "
            "coordinates"
        )
    if inputs.attn_mask is not None:
        return "attn_mask needs a [query, key] tensor, which this backend avoids"
    if inputs.query_length != inputs.key_length:
        return (
            "torch's is_causal aligns the first query with the first key, so there must be as "
            "many queries as keys"
        )
    if inputs.on_gpu and inputs.slopes is not None and inputs.query.element_size() > 2:
        return (
            "the kernels of a GPU add the channels in another order, which is not exact in float32"
        )
    if inputs.query.element_size() == 2 and inputs.positions is not None:
        return "explicit positions may be too large for half precision"
    if inputs.positions is not None:
        inputs = _from_last_key(inputs)
    return _inexact_reason(inputs)


FOLDED = Backend("folded", _attend, _unsupported_reason)
