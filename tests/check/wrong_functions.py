"""Wrong functions, each made once, with what the checker should say about it.

Some were reported in public; others were written to try the checker. Functions of other systems
that are quoted with their source are in the gallery.
"""

import math
from functools import partial
from typing import Any, NamedTuple

import torch
from torch import Tensor

from alibi_viz import alibi_bias, alibi_slopes
from alibi_viz.bias import mask_future
from tests.check import faulty
from tests.check.faulty import bias_of, raises
from tests.check.plain_alibi import as_if_contiguous, attend, linear, steps

OUTSIDE = "outside of what this checker knows"
EIGHT_HEADS = {"num_heads": [8], "length": 16}


class Wrong(NamedTuple):
    """A wrong function: the kind of check, the only fault that is named, words of its evidence,
    and options of the check."""

    kind: str
    fault: str
    function: Any
    words: str
    options: dict[str, Any]


SHORT = {"length": 16}
right_bias = bias_of(alibi_slopes)
SMALL = {"num_heads": [8], "head_dim": 64, "length": 16}
LONG = {"num_heads": [8], "length": 140}
NEIGHBORS = [0, 0, 0, 0, 4, 4, 4, 4]
IN_TURN = [0, 4, 0, 4, 0, 4, 0, 4]
REVERSED = [4, 4, 4, 4, 0, 0, 0, 0]


def all_equal(heads):
    return [0.125] * heads


def random_slopes(heads):
    return torch.rand(heads, generator=torch.Generator().manual_seed(0))


def doubled(heads):
    return 2 * alibi_slopes(heads)


def times_1_001(heads):
    return 1.001 * alibi_slopes(heads)


def negative(heads):
    return -alibi_slopes(heads)


def both_parts_from_one(heads):
    """Powers of 1/2 from 1 on, for the first 8 heads and for the others."""
    return [2.0**-head for head in (*range(8), *range(heads - 8))]


def first_half_twice(heads):
    return alibi_slopes(heads)[: heads // 2].repeat(2)


def geometric_above_eight_heads(heads):
    return alibi_slopes(heads, "geometric" if heads > 8 else "official")


def an_object(heads):
    return object()


def none_at_all(heads):
    return []


def reciprocal_slopes(heads):
    return 1 / torch.arange(1.0, heads + 1)


def shifted_slopes(heads):
    return alibi_slopes(heads) + 0.001


def flat_and_uneven_slopes(heads):
    """Two of the slopes of 12 heads: one that sees far, and one that is no power of two."""
    assert heads == 2
    return alibi_slopes(12)[[7, 11]]


def without_the_first(heads):
    """Correct slopes, but the first head has none."""
    return alibi_slopes(heads) * (torch.arange(heads) > 0)


def times(factor, heads, queries, keys):
    return factor * right_bias(heads, queries, keys)


def reversed_while_decoding(heads, queries, keys):
    sign = 1 if queries == keys else -1
    return sign * right_bias(heads, queries, keys)


def distances(queries, keys):
    """[query, key], where the queries are the last positions."""
    return (torch.arange(keys - queries, keys)[:, None] - torch.arange(keys)).abs()


def wrapping_index(heads, queries, keys):
    """A table of 128 distances, whose index wraps around."""
    return right_bias(heads, 1, 128).repeat(1, 1, 3)[..., :keys]


def wrapping_distance(heads, queries, keys):
    return -alibi_slopes(heads)[:, None, None] * (distances(queries, keys) % 64)


def in_steps_of_3(heads, queries, keys):
    return -alibi_slopes(heads)[:, None, None] * (distances(queries, keys) // 3)


def only_while_decoding(heads, queries, keys):
    return right_bias(heads, queries, keys) * (queries < keys)


def no_bias(*_):
    return 0.0


def twice_while_decoding(heads, queries, keys):
    factor = 2 if queries < keys else 1
    return factor * right_bias(heads, queries, keys)


def divided_by_keys(heads, queries, keys):
    """For 16 keys, this is 1 / sqrt(256)."""
    return right_bias(heads, queries, keys) / keys


def rounded_for_one_query(heads, queries, keys):
    if queries == 1:
        return faulty.colliding(0, torch.bfloat16, heads, queries, keys)
    return right_bias(heads, queries, keys)


def only_earlier_keys_count(heads, queries, keys):
    return right_bias(heads, queries, keys).clamp(max=0)


def error_for_one_query_and_many_keys(heads, queries, keys):
    if queries == 1 and keys > 100:
        raises()
    return right_bias(heads, queries, keys)


def all_nan(heads, queries, keys):
    return torch.full((heads, queries, keys), math.nan)


def twice_as_many_heads(heads, queries, keys):
    return alibi_bias(alibi_slopes(2 * heads), queries, keys)


def every_third_key_larger(heads, queries, keys):
    return right_bias(heads, queries, keys) * (1 + 0.1 * (torch.arange(keys) % 3))


def colliding(form, dtype, of=flat_and_uneven_slopes):
    """A bias that rounds positions, or their products with slopes, to a dtype."""
    return partial(faulty.colliding, form, dtype, of=of)


def no_bias_below_600_keys(query, key, value):
    has_bias = key.shape[2] < 600
    return faulty.attend(query, key, value, factor=float(has_bias))


def bias_divided_by_model_width(query, key, value):
    width = query.shape[1] * query.shape[3]
    return faulty.attend(query, key, value, factor=width**-0.5)


def bias_divided_by_keys(query, key, value):
    return faulty.attend(query, key, value, factor=1 / key.shape[2])


def weak_mask(query, key, value):
    return faulty.attend(query, key, value, hidden=-20)


def one_key_ahead(query, key, value):
    return faulty.attend(query, key, value, first=2)


def key_of_the_first_head(query, key, value):
    return faulty.attend(query, key[:, :1], value[:, :1])


def padding_ignored(query, key, value, mask=None):
    return faulty.attend(query, key, value)


def two_tensors(query, key, value):
    return query, key


def heads_joined(query, key, value):
    return value.flatten(2)


def mean_subtracted(query, key, value):
    return 2 * faulty.attend(query, key, value) - value.mean(2)[:, :, None]


def scaled_by_position(last, query, key, value):
    """The output of the first query is right, and that of the last is multiplied."""
    factors = torch.linspace(1, last, query.shape[2])[:, None]
    return faulty.attend(query, key, value) * factors


def queries_of_another_sequence(query, key, value):
    return faulty.attend(query.roll(1, 0), key, value)


def keys_of_another_head_while_decoding(query, key, value):
    is_decoding = query.shape[2] < key.shape[2]
    return faulty.attend(query, key.roll(1, 1) if is_decoding else key, value)


def larger_content_beyond_100_keys(query, key, value):
    factor = 8 if key.shape[2] > 100 else 1
    return faulty.attend(factor * query, key, value)


def values_of_another_sequence_beyond_100_keys(query, key, value):
    return faulty.attend(query, key, value.roll(1, 0) if key.shape[2] > 100 else value)


def scaled_and_without_mask(query, key, value):
    return faulty.attend(query, key, value, factor=2, hidden=0)


def neither_bias_nor_mask(query, key, value):
    return faulty.attend(query, key, value, factor=0, hidden=0)


def own_value(query, key, value):
    return value[:, :, -query.shape[2] :]


def right_in(dtype):
    """A bias that is rounded to this dtype, and returned in float32."""
    return lambda heads, queries, keys: right_bias(heads, queries, keys).to(dtype).float()


def without_the_largest_logits(query, key, value):
    """Content is cut off, so neither a factor nor a soft cap explains it."""
    logits = (query @ key.mT * query.shape[-1] ** -0.5).clamp(-1, 1)
    heads, queries, keys = logits.shape[1:]
    return (logits + mask_future(right_bias(heads, queries, keys))).softmax(-1).to(value) @ value


def masked(query, key, value, mask=None):
    return attend(query, key, value, mask=mask)


def encoder(query, key, value, mask=None):
    return attend(query, key, value, mask=mask, causal=False)


def mask_forgotten_for_one_query(query, key, value, mask=None):
    return attend(query, key, value, mask=None if query.shape[2] == 1 else mask)


def mask_forgotten_for_a_batch_of_one(query, key, value, mask=None):
    return attend(query, key, value, mask=None if len(query) == 1 else mask)


def strides_ignored(query, key, value):
    return attend(as_if_contiguous(query), as_if_contiguous(key), as_if_contiguous(value))


def strides_of_queries_ignored(query, key, value):
    return attend(as_if_contiguous(query), key, value)


def scale_of_64_channels(query, key, value):
    return attend(query, key, value, scale=0.125)


def first_64_channels(query, key, value):
    return attend(query[..., :64], key[..., :64], value, scale=query.shape[-1] ** -0.5)


def no_bias_for_a_batch_of_one(query, key, value):
    bias = torch.zeros(1, 1, 1) if len(query) == 1 else None
    return attend(query, key, value, bias=bias)


def no_bias_for_few_queries_and_many_keys(query, key, value):
    is_special = 1 < query.shape[2] < 8 and key.shape[2] > 100
    return attend(query, key, value, bias=torch.zeros(1, 1, 1) if is_special else None)


def reversed_beyond_a_block(query, key, value):
    _, heads, queries, _ = query.shape
    keys = key.shape[2]
    is_special = 128 < queries < keys
    return attend(query, key, value, bias=-linear(heads, queries, keys) if is_special else None)


def slopes_of_the_key_heads(query, key, value):
    """Four heads share a key head, and with one query also its slope."""
    _, heads, queries, _ = query.shape
    if queries > 1:
        return attend(query, key, value)
    slopes = alibi_slopes(heads // 4).repeat_interleave(4)
    return attend(query, key, value, bias=slopes[:, None, None] * steps(1, key.shape[2]))


def key_heads_in_turn(query, key, value):
    """Of the key heads of groups of four, neighbors take different ones."""
    return attend(query, key[:, ::4].repeat(1, 4, 1, 1), value[:, ::4].repeat(1, 4, 1, 1))


def additive_mask_of_20(query, key, value):
    """A mask that the bias of steep heads outweighs ahead."""
    _, heads, queries, head_dim = query.shape
    ahead = steps(queries, key.shape[2])
    bias = alibi_slopes(heads)[:, None, None] * ahead - 20.0 * (ahead > 0)
    return (query @ key.mT * head_dim**-0.5 + bias).softmax(-1) @ value


def in_steps_of_25(heads, queries, keys):
    """FaceFormer's bias, by design: the distance in periods, rounded down."""
    periods = steps(queries, keys).abs() // 25
    return -alibi_slopes(heads)[:, None, None] * periods


def wrapping_at_256(heads, queries, keys):
    """Distances in an unsigned integer of 8 bits."""
    distance = steps(queries, keys).abs().to(torch.uint8)
    return -alibi_slopes(heads)[:, None, None] * distance


class CutFromTheStart:
    """A cached bias: a larger one is cut from the start, a smaller one is built again."""

    def __init__(self):
        self.bias = torch.empty(0, 0, 0)

    def __call__(self, heads, queries, keys):
        is_too_small = self.bias.shape[-1] < keys
        if len(self.bias) != heads or is_too_small:
            self.bias = linear(heads, keys, keys)
            return self.bias[:, -queries:]
        return self.bias[:, :queries, :keys]


def learned(heads, queries, keys):
    """A table of a number for each distance."""
    generator = torch.Generator().manual_seed(heads)
    table = 0.3 * torch.randn(heads, 1000, generator=generator).cumsum(-1)
    return table[:, steps(queries, keys).abs()]


def one_slope(heads):
    return torch.full((heads,), 0.125)


def of_groups_of_four(heads):
    return alibi_slopes(heads // 4).repeat_interleave(4)


def soft_cap_of_50(query, key, value):
    _, heads, queries, head_dim = query.shape
    scores = query @ key.mT * head_dim**-0.5
    bias = linear(heads, queries, key.shape[2])
    capped = 50 * (scores / 50).tanh() + bias
    future = steps(queries, key.shape[2]) > 0
    return capped.masked_fill(future, -math.inf).softmax(-1) @ value


def window_of_32(query, key, value):
    _, heads, queries, _ = query.shape
    keys = key.shape[2]
    bias = linear(heads, queries, keys)
    too_far = steps(queries, keys) <= -32
    return attend(query, key, value, bias=bias.masked_fill(too_far, -math.inf))


def encoder_that_takes_lengths(query, key, value, mask=None):
    if mask is None:
        return encoder(query, key, value)
    lengths = mask.sum(-1, keepdim=True)
    is_real = torch.arange(key.shape[2]) < lengths
    return encoder(query, key, value, is_real)


def with_sinks(query, key, value):
    """Each head has a logit more in its softmax, whose value is 0."""
    _, heads, queries, head_dim = query.shape
    keys = key.shape[2]
    scores = query @ key.mT * head_dim**-0.5 + linear(heads, queries, keys)
    scores = scores.masked_fill(steps(queries, keys) > 0, -math.inf)
    sinks = torch.linspace(-1, 1, heads)[:, None, None].expand(len(query), -1, queries, 1)
    return torch.cat([scores, sinks], dim=-1).softmax(-1)[..., :-1] @ value


def not_normalized_for_one_query(query, key, value):
    """The bias multiplies weights that are not normalized again."""
    if query.shape[2] > 1:
        return attend(query, key, value)
    content = (query @ key.mT * query.shape[-1] ** -0.5).softmax(-1)
    return content * linear(query.shape[1], 1, key.shape[2]).exp() @ value


def values_as_if_contiguous(query, key, value):
    return attend(query, key, as_if_contiguous(value))


def with_dense_sequences(tensor):
    """The tensor as code reads it that takes one sequence to follow another."""
    _, heads, length, head_dim = tensor.shape
    strides = (heads * length * head_dim, *tensor.stride()[1:])
    return torch.as_strided(tensor, tensor.shape, strides)


def dense_sequences(query, key, value):
    return attend(*map(with_dense_sequences, (query, key, value)))


def with_dense_last_axis(tensor):
    strides = (*tensor.stride()[:3], 1)
    return torch.as_strided(tensor, tensor.shape, strides)


def dense_last_axis(query, key, value):
    return attend(*map(with_dense_last_axis, (query, key, value)))


def without_offset(tensor):
    return torch.as_strided(tensor, tensor.shape, tensor.stride(), 0)


def offset_of_a_slice_ignored(query, key, value):
    return attend(*map(without_offset, (query, key, value)))


def strides_of_the_query(query, key, value):
    """With as many queries as keys, the strides of the query stand for all."""
    if query.shape == key.shape:
        key = torch.as_strided(key, key.shape, query.stride())
        value = torch.as_strided(value, value.shape, query.stride())
    return attend(query, key, value)


def scales_a_flat_copy(query, key, value):
    """`reshape` gives a view of contiguous queries, but a copy of several transposed ones."""
    flat = query.reshape(-1, *query.shape[2:])
    flat *= query.shape[-1] ** -0.5
    return attend(query, key, value, scale=1.0)


def scale_of_a_multiple_of_32(query, key, value):
    """The size of a head is rounded up, as kernels do with their tiles, and so is the scale."""
    rounded = math.ceil(query.shape[-1] / 32) * 32
    return attend(query, key, value, scale=rounded**-0.5)


def scale_of_64_channels_for_many_keys(query, key, value):
    return attend(query, key, value, scale=0.125 if key.shape[2] > 128 else None)


def scaled_twice_beyond_a_block(query, key, value):
    is_long = query.shape[2] > 128
    return attend(query, key, value, scale=1 / query.shape[-1] if is_long else None)


def no_bias_for_whole_blocks(query, key, value):
    is_whole = key.shape[2] % 128 == 0
    return attend(query, key, value, bias=torch.zeros(1, 1, 1) if is_whole else None)


def forgets_whole_blocks(query, key, value, mask=None):
    """A block of 64 keys that has nothing but padding is not masked."""
    if mask is None:
        return attend(query, key, value)
    masked = mask.clone()
    for block in masked.split(64, dim=1):
        is_padding = ~block.any(-1)
        block[is_padding] = True
    return attend(query, key, value, mask=masked)


def steeper_with_padding(query, key, value, mask=None):
    """The bias is bent, so no formula gives it."""
    bias = linear(query.shape[1], query.shape[2], key.shape[2])
    bent = bias if mask is None else -bias.square() / 100 + bias
    return attend(query, key, value, bias=bent, mask=mask)


def mask_of_the_first_sequence(query, key, value, mask=None):
    return attend(query, key, value, mask=None if mask is None else mask[:1].expand_as(mask))


def forgets_the_mask_of_5_queries(query, key, value, mask=None):
    is_special = query.shape[2] == 5 and key.shape[2] == 140
    return attend(query, key, value, mask=None if is_special else mask)


def scaled_twice(query, key, value):
    return attend(query, key, value, scale=1 / query.shape[-1])


def within(query, key, value, visible, *, causal=True):
    """Attention to the visible keys only."""
    bias = linear(query.shape[1], query.shape[2], key.shape[2])
    return attend(query, key, value, bias=bias.masked_fill(~visible, -math.inf), causal=causal)


def in_chunks_of_8(query, key, value):
    positions = torch.arange(key.shape[2])
    own_chunk = positions[-query.shape[2] :, None] // 8
    return within(query, key, value, positions // 8 == own_chunk)


def every_other_key(query, key, value):
    return within(query, key, value, steps(query.shape[2], key.shape[2]) % 2 == 0)


def first_keys_of_a_cache_lost(query, key, value):
    """While decoding, the part of the cache that is no multiple of 8 is lost."""
    queries = query.shape[2]
    keys = key.shape[2]
    lost = keys % 8 if queries < keys else 0
    return within(query, key, value, torch.arange(keys) >= lost)


def window_behind_only(query, key, value):
    is_near = steps(query.shape[2], key.shape[2]) > -8
    return within(query, key, value, is_near, causal=False)


def window_and_first_keys(query, key, value):
    """A window with the first keys beside it, as StreamingLLM has."""
    is_near = steps(query.shape[2], key.shape[2]) > -8
    is_first = torch.arange(key.shape[2]) < 2
    return within(query, key, value, is_near | is_first)


def window_forgotten_while_decoding(query, key, value):
    queries = query.shape[2]
    keys = key.shape[2]
    is_near = steps(queries, keys) > -8
    return within(query, key, value, is_near | torch.tensor(queries < keys))


def steps_of_10_rounded_up(heads, queries, keys):
    return -alibi_slopes(heads)[:, None, None] * (steps(queries, keys).abs() / 10).ceil()


def steps_of_10_rounded(heads, queries, keys):
    return -alibi_slopes(heads)[:, None, None] * (steps(queries, keys).abs() / 10).round()


def keys_in_reverse_order(heads, queries, keys):
    return linear(heads, keys, keys).flip(-1)[:, -queries:]


def keys_of_pages_in_reverse(heads, queries, keys):
    """Pages of 8 keys, the last one first."""
    pages = torch.arange(keys).split(8)
    order = torch.cat(pages[::-1])
    distance = (torch.arange(keys - queries, keys)[:, None] - order).abs()
    return -alibi_slopes(heads)[:, None, None] * distance


def queries_that_restart(heads, queries, keys):
    """Each chunk of 32 queries counts from its own first one."""
    query = torch.arange(queries) % 32 + keys - queries
    distance = (query[:, None] - torch.arange(keys)).abs()
    return -alibi_slopes(heads)[:, None, None] * distance


def bent_by_tanh(heads, queries, keys):
    return 10 * (linear(heads, queries, keys) / 10).tanh()


def later_keys_count_twice(heads, queries, keys):
    bias = linear(heads, queries, keys)
    return torch.where(steps(queries, keys) > 0, 2 * bias, bias)


def earlier_keys_count_twice(heads, queries, keys):
    bias = linear(heads, queries, keys)
    return torch.where(steps(queries, keys) < 0, 2 * bias, bias)


def reading(heads_of_keys, heads_of_values):
    """Attention of 8 heads that read these heads' keys and values."""

    def attention(query, key, value):
        return attend(query, key[:, heads_of_keys], value[:, heads_of_values])

    return attention


def first_two_share(heads):
    slopes = alibi_slopes(heads).clone()
    slopes[1] = slopes[0]
    return slopes


def pairs_share_the_steeper_slope(heads):
    return alibi_slopes(heads)[::2].repeat_interleave(2)


def of_the_next_power_of_two(heads):
    return alibi_slopes(2 ** math.ceil(math.log2(heads)))[:heads]


def of_the_power_of_two_below(heads):
    return alibi_slopes(2 ** int(math.log2(heads))).repeat(2)[:heads]


def no_bias_beyond_16_heads(heads, queries, keys):
    return linear(heads, queries, keys) * (heads <= 16)


FLAT_AND_UNEVEN = {"num_heads": 2, "slopes": flat_and_uneven_slopes}
WRONG = {
    "slopes: all heads equal": Wrong(
        "slopes", "heads share a slope", all_equal, "", {"num_heads": 12}
    ),
    "slopes: random": Wrong("slopes", "other slopes", random_slopes, "", {"num_heads": 12}),
    "slopes: twice, with 8 heads": Wrong(
        "slopes", "first slope is 1", doubled, "", {"num_heads": 8}
    ),
    "slopes: both parts from 1": Wrong(
        "slopes", "first slope is 1", both_parts_from_one, "", {"num_heads": [8, 12]}
    ),
    "slopes: first half twice": Wrong(
        "slopes", "slopes of a head slice", first_half_twice, "", {"num_heads": [8, 12]}
    ),
    "slopes: above 8 heads": Wrong(
        "slopes", "geometric slopes", geometric_above_eight_heads, "", {}
    ),
    "slopes: times 1.001": Wrong("slopes", "bias multiplied", times_1_001, "", {}),
    "slopes: negative": Wrong("slopes", "negative slopes", negative, "", {}),
    "slopes: KeyError": Wrong("slopes", "raises an error", raises, "", {}),
    "slopes: an object": Wrong("slopes", "wrong type", an_object, "", {}),
    "slopes: an empty list": Wrong("slopes", "wrong shape", none_at_all, "", {}),
    "bias: 1 / head": Wrong("bias", "other slopes", bias_of(reciprocal_slopes), "", SHORT),
    "bias: 0.001 more": Wrong(
        "bias", "other slopes", bias_of(shifted_slopes), "", {**SHORT, "num_heads": 8}
    ),
    "bias: reversed while decoding": Wrong(
        "bias", "sign reversed in one branch", reversed_while_decoding, "", SHORT
    ),
    "bias: index wraps around": Wrong(
        "bias", "unknown fault", wrapping_index, "", {**SHORT, "num_heads": 4, "length": 140}
    ),
    "bias: jump at 64": Wrong(
        "bias",
        "unknown fault",
        wrapping_distance,
        "",
        {**SHORT, "num_heads": 4, "length": 140},
    ),
    "bias: steps of 3": Wrong("bias", "distance in steps", in_steps_of_3, "", SHORT),
    "bias: cap at 1": Wrong(
        "bias", "length cap", bias_of(alibi_slopes, cap=1), "", {**SHORT, "length": 3}
    ),
    "bias: cap at 255": Wrong(
        "bias", "length cap", bias_of(alibi_slopes, cap=255), "", {**SHORT, "length": 257}
    ),
    "bias: only while decoding": Wrong("bias", "no bias", only_while_decoding, "", SHORT),
    "bias: 0": Wrong("bias", "no bias", no_bias, "", SHORT),
    "bias: twice while decoding": Wrong("bias", "added twice", twice_while_decoding, "", SHORT),
    "bias: positions in bfloat16": Wrong(
        "bias",
        "colliding positions",
        colliding(1, torch.bfloat16),
        "",
        {**SHORT, **FLAT_AND_UNEVEN, "length": 300},
    ),
    "bias: products in bfloat16": Wrong(
        "bias",
        "colliding positions",
        colliding(3, torch.bfloat16),
        "",
        {**SHORT, **FLAT_AND_UNEVEN, "length": 300},
    ),
    "bias: slopes and positions in bfloat16": Wrong(
        "bias",
        "colliding positions",
        colliding(4, torch.bfloat16),
        "",
        {**SHORT, **FLAT_AND_UNEVEN, "length": 300},
    ),
    "bias: products in float16": Wrong(
        "bias",
        "colliding positions",
        colliding(2, torch.float16),
        "",
        {**SHORT, **FLAT_AND_UNEVEN, "length": 2500},
    ),
    "bias: rounded, in an encoder": Wrong(
        "bias",
        "colliding positions",
        colliding(0, torch.bfloat16, of=alibi_slopes),
        "",
        {**SHORT, "causal": False, "length": 300},
    ),
    "bias: rounded for one query": Wrong(
        "bias", "colliding positions", rounded_for_one_query, "", {**SHORT, "length": 300}
    ),
    "bias: rounded, with a slope of 0": Wrong(
        "bias",
        "colliding positions",
        colliding(5, torch.bfloat16, of=without_the_first),
        "",
        {**SHORT, "slopes": without_the_first},
    ),
    "bias: times 1.00006": Wrong(
        "bias", "bias multiplied", partial(times, 1 + 2 ** (-14)), "", {**SHORT, "length": 64}
    ),
    "bias: times 1.001": Wrong(
        "bias", "bias multiplied", partial(times, 1 + 2 ** (-10)), "", SHORT
    ),
    "bias: halved": Wrong("bias", "bias multiplied", partial(times, 1 / 2), "", SHORT),
    "bias: times 1 / 160": Wrong(
        "bias", "bias multiplied", partial(times, 1 / 160), "", {**SHORT, "num_heads": [8]}
    ),
    "bias: by the number of keys": Wrong(
        "bias",
        "bias divided by the length",
        divided_by_keys,
        "",
        {**SHORT, "num_heads": [8], "length": 20},
    ),
    "bias: later keys get 0": Wrong(
        "bias", "one direction only", only_earlier_keys_count, "", {**SHORT, "causal": False}
    ),
    "bias: error": Wrong("bias", "raises an error", raises, "", SHORT),
    "bias: error while decoding far": Wrong(
        "bias", "raises an error", error_for_one_query_and_many_keys, "", {**SHORT, "length": 140}
    ),
    "bias: NaN": Wrong("bias", "returns NaN", all_nan, "", SHORT),
    "bias: twice as many heads": Wrong("bias", "wrong shape", twice_as_many_heads, "", SHORT),
    "bias: every third key": Wrong("bias", "unknown fault", every_third_key_larger, "", SHORT),
    "attention: divided by sqrt(d_model)": Wrong(
        "attention", "bias before scaling", bias_divided_by_model_width, "", EIGHT_HEADS
    ),
    "attention: no bias below 600 keys": Wrong(
        "attention",
        "no bias",
        no_bias_below_600_keys,
        "",
        {**EIGHT_HEADS, "num_heads": [4], "head_dim": 64, "length": 640},
    ),
    "attention: bias divided by keys": Wrong(
        "attention", "bias divided by the length", bias_divided_by_keys, "", EIGHT_HEADS
    ),
    "attention: lower triangle, no mask": Wrong(
        "attention", "future not masked", faulty.lower_triangle_without_a_mask, "", EIGHT_HEADS
    ),
    "attention: weak mask": Wrong(
        "attention", "mask too weak for some heads", weak_mask, "", {**EIGHT_HEADS, "length": 64}
    ),
    "attention: one key ahead": Wrong("attention", "one key ahead", one_key_ahead, "", EIGHT_HEADS),
    "attention: only earlier keys": Wrong(
        "attention", "only earlier keys", faulty.attend, "", {**EIGHT_HEADS, "causal": False}
    ),
    "attention: key of the first head": Wrong(
        "attention", "wrong keys", key_of_the_first_head, "", EIGHT_HEADS
    ),
    "attention: padding ignored": Wrong(
        "attention", "padding not masked", padding_ignored, "", {**EIGHT_HEADS, "padding": True}
    ),
    "attention: queries count padding": Wrong(
        "attention",
        "queries at other positions",
        faulty.padded,
        "",
        {**EIGHT_HEADS, "padding": True, "causal": False},
    ),
    "attention: error": Wrong("attention", "raises an error", raises, "", EIGHT_HEADS),
    "attention: numpy has no bfloat16": Wrong(
        "attention",
        "raises an error",
        faulty.attend,
        "",
        {**EIGHT_HEADS, "dtype": torch.bfloat16, "convert": Tensor.numpy},
    ),
    "attention: two tensors": Wrong("attention", "wrong type", two_tensors, "", EIGHT_HEADS),
    "attention: heads joined": Wrong("attention", "wrong shape", heads_joined, "", EIGHT_HEADS),
    "attention: mean subtracted": Wrong(
        "attention", "not a weighted average", mean_subtracted, "", EIGHT_HEADS
    ),
    "attention: smaller by position": Wrong(
        "attention", "not a weighted average", partial(scaled_by_position, 0.5), "", EIGHT_HEADS
    ),
    "attention: larger by position": Wrong(
        "attention", "not a weighted average", partial(scaled_by_position, 1.5), "", EIGHT_HEADS
    ),
    "attention: queries of another sequence": Wrong(
        "attention", "batch rows mixed", queries_of_another_sequence, "", EIGHT_HEADS
    ),
    "attention: keys of another head": Wrong(
        "attention", "wrong keys", keys_of_another_head_while_decoding, "", EIGHT_HEADS
    ),
    "attention: larger content far": Wrong(
        "attention",
        "content multiplied",
        larger_content_beyond_100_keys,
        "",
        {**EIGHT_HEADS, "num_heads": [4], "head_dim": 32, "length": 140},
    ),
    "attention: values of another sequence far": Wrong(
        "attention",
        "batch rows mixed",
        values_of_another_sequence_beyond_100_keys,
        "",
        {**EIGHT_HEADS, "num_heads": [4], "head_dim": 64, "length": 140},
    ),
    "attention: of values": Wrong(
        "attention", "strides ignored", values_as_if_contiguous, "not contiguous", SMALL
    ),
    "attention: of sequences": Wrong(
        "attention", "strides ignored", dense_sequences, "slices of one array", SMALL
    ),
    "attention: of the last axis": Wrong(
        "attention", "strides ignored", dense_last_axis, "last axis is not dense", SMALL
    ),
    "attention: offset": Wrong(
        "attention", "strides ignored", offset_of_a_slice_ignored, "slices of one array", SMALL
    ),
    "attention: those of the query": Wrong(
        "attention", "strides ignored", strides_of_the_query, "slices of a cache", SMALL
    ),
    "attention: head_dim rounded up": Wrong(
        "attention",
        "content multiplied",
        scale_of_a_multiple_of_32,
        "only with head_dim 16 or 104",
        {"num_heads": [8], "length": 16},
    ),
    "attention: constant for many keys": Wrong(
        "attention",
        "content multiplied",
        scale_of_64_channels_for_many_keys,
        "only with 129 or more keys and head_dim 16 or 104",
        {**LONG},
    ),
    "attention: scaled twice beyond a block": Wrong(
        "attention",
        "content scaled twice",
        scaled_twice_beyond_a_block,
        "only with 129 or more queries",
        {**LONG},
    ),
    "attention: whole blocks": Wrong(
        "attention",
        "no bias",
        no_bias_for_whole_blocks,
        "only with 128 keys",
        {**LONG, "head_dim": 64},
    ),
    "attention: whole blocks (2)": Wrong(
        "attention",
        "padding not masked",
        forgets_whole_blocks,
        "128 or more keys",
        {**LONG, "padding": "left"},
    ),
    "attention: first sequence": Wrong(
        "attention",
        "padding not masked",
        mask_of_the_first_sequence,
        "several sequences",
        {**SMALL, "padding": True},
    ),
    "attention: 5 queries": Wrong(
        "attention",
        "padding not masked",
        forgets_the_mask_of_5_queries,
        "padding in front, 5 queries and 140 keys",
        {**LONG, "padding": "left"},
    ),
    "attention: chunks": Wrong(
        "attention",
        "wrong mask",
        in_chunks_of_8,
        "sees key 8, expected keys 0 to 8",
        {**SMALL, "length": 16},
    ),
    "attention: every other key": Wrong(
        "attention",
        "wrong mask",
        every_other_key,
        "sees 8 keys from 1 to 15",
        {**SMALL, "length": 16},
    ),
    "attention: cache": Wrong(
        "attention",
        "wrong mask",
        first_keys_of_a_cache_lost,
        "sees keys 1 to 12, expected keys 0 to 12",
        {**SMALL, "length": 17},
    ),
    "attention: behind only": Wrong(
        "attention",
        "window",
        window_behind_only,
        "expected keys 0 to 7",
        {**SMALL, "causal": False, "window": 8},
    ),
    "attention: first keys": Wrong(
        "attention",
        "window",
        window_and_first_keys,
        "expected keys",
        {**SMALL, "causal": True, "window": 8},
    ),
    "attention: decoding": Wrong(
        "attention",
        "window",
        window_forgotten_while_decoding,
        "fewer queries than keys",
        {**SMALL, "causal": True, "window": 8},
    ),
    "bias: rounded up": Wrong(
        "bias",
        "distance in steps",
        steps_of_10_rounded_up,
        "at distance 1 for the first time",
        {"num_heads": [8], "length": 140},
    ),
    "bias: rounded": Wrong(
        "bias",
        "distance in steps",
        steps_of_10_rounded,
        "at distance 6 for the first time",
        {"num_heads": [8], "length": 140},
    ),
    "bias: reverse order": Wrong(
        "bias", "mirrored keys", keys_in_reverse_order, "", {"num_heads": [8], "length": 140}
    ),
    "bias: pages": Wrong(
        "bias",
        "keys in another order",
        keys_of_pages_in_reverse,
        "",
        {"num_heads": [8], "length": 140},
    ),
    "bias: chunks of queries": Wrong(
        "bias",
        "queries at other positions",
        queries_that_restart,
        "",
        {"num_heads": [8], "length": 140},
    ),
    "bias: tanh": Wrong(
        "bias", "unknown fault", bent_by_tanh, "", {"num_heads": [8], "length": 140}
    ),
    "attention: reversed": Wrong(
        "attention",
        "key heads in another order",
        reading(REVERSED, REVERSED),
        "heads read the key heads 2 2 2 2 1 1 1 1",
        {**SMALL, "group_size": 4},
    ),
    "attention: values in turn": Wrong(
        "attention",
        "wrong keys",
        reading(NEIGHBORS, IN_TURN),
        "head 2 reads the keys of head 1, but the values of head 5",
        {**SMALL, "group_size": 4},
    ),
    "attention: keys in turn": Wrong(
        "attention",
        "wrong keys",
        reading(IN_TURN, NEIGHBORS),
        "head 2 reads the keys of head 5, but the values of head 1",
        {**SMALL, "group_size": 4},
    ),
    "slopes: two heads": Wrong(
        "slopes",
        "heads share a slope",
        first_two_share,
        "heads 1 and 2 of 8 both have slope 0.5",
        {"num_heads": [8, 12]},
    ),
    "slopes: pairs": Wrong(
        "slopes",
        "heads share a slope",
        pairs_share_the_steeper_slope,
        "heads 1 and 2 of 8 both have slope 0.5",
        {"num_heads": [8, 12]},
    ),
    "slopes: next power of two": Wrong(
        "slopes",
        "slopes of another number of heads",
        of_the_next_power_of_two,
        "of 12",
        {"num_heads": [8, 12]},
    ),
    "slopes: power of two below": Wrong(
        "slopes",
        "slopes of another number of heads",
        of_the_power_of_two_below,
        "of 12",
        {"num_heads": [8, 12]},
    ),
    "attention: mask forgotten for one query": Wrong(
        "attention",
        "padding not masked",
        mask_forgotten_for_one_query,
        "padding in front and 1 query",
        {**SHORT, "padding": True},
    ),
    "attention: mask forgotten for a batch of one": Wrong(
        "attention",
        "padding not masked",
        mask_forgotten_for_a_batch_of_one,
        "a batch of one",
        {**SHORT, "padding": True},
    ),
    "attention: strides ignored": Wrong(
        "attention", "strides ignored", strides_ignored, "not contiguous", SHORT
    ),
    "attention: strides of queries ignored": Wrong(
        "attention",
        "strides ignored",
        strides_of_queries_ignored,
        "transposed inputs, slices of one array or inputs whose last axis is not dense",
        SHORT,
    ),
    "attention: scale of 64 channels": Wrong(
        "attention", "content multiplied", scale_of_64_channels, "head_dim 16 or 104", SHORT
    ),
    "attention: first 64 channels": Wrong(
        "attention", "unknown fault", first_64_channels, "head_dim 104", SHORT
    ),
    "attention: no bias for a batch of one": Wrong(
        "attention", "no bias", no_bias_for_a_batch_of_one, "a batch of one", SHORT
    ),
    "attention: no bias for few queries of many keys": Wrong(
        "attention",
        "no bias",
        no_bias_for_few_queries_and_many_keys,
        "5 queries and 140 keys",
        {**LONG},
    ),
    "attention: reversed beyond a block": Wrong(
        "attention",
        "sign reversed in one branch",
        reversed_beyond_a_block,
        "130 queries",
        {**LONG},
    ),
    "attention: slopes of the key heads": Wrong(
        "attention",
        "slopes of the key heads while decoding",
        slopes_of_the_key_heads,
        "1 query",
        SHORT,
    ),
    "attention: key heads in turn": Wrong(
        "attention",
        "key heads in another order",
        key_heads_in_turn,
        "take turns on 2 key heads",
        {**SHORT, "group_size": 4},
    ),
    "attention: additive mask": Wrong(
        "attention",
        "mask too weak for some heads",
        additive_mask_of_20,
        "sees keys after the query",
        {"num_heads": [8], "length": 64},
    ),
    "bias: steps": Wrong(
        "bias",
        "distance in steps",
        in_steps_of_25,
        "at distance 25 for the first time",
        {"num_heads": [8], "length": 140},
    ),
    "bias: 8 bits": Wrong(
        "bias",
        "unknown fault",
        wrapping_at_256,
        "",
        {"num_heads": [8], "length": 300},
    ),
    "bias: learned": Wrong(
        "bias",
        "unknown fault",
        learned,
        "",
        {"num_heads": [8], "length": 16},
    ),
    "attention: scale": Wrong(
        "attention", "content multiplied", attend, "", {"scale": 1 / 64, **SHORT}
    ),
    "attention: a longer window": Wrong(
        "attention", "window", window_of_32, "", {"window": 25, "length": 64}
    ),
    "attention: a shorter window": Wrong(
        "attention", "window", window_of_32, "", {"window": 50, "length": 64}
    ),
    "attention: no window": Wrong("attention", "window", attend, "", {"window": 32, "length": 64}),
    "attention: soft cap": Wrong(
        "attention", "unknown fault", soft_cap_of_50, "", {"softcap": 30, **SHORT}
    ),
    "attention: side of padding": Wrong(
        "attention",
        "padding not masked",
        encoder_that_takes_lengths,
        "",
        {"padding": "left", "causal": False, **SHORT},
    ),
    "attention: several transposed sequences": Wrong(
        "attention",
        "content not scaled",
        scales_a_flat_copy,
        "queries and transposed inputs)",
        {"length": 16},
    ),
    "attention: scaled twice": Wrong(
        "attention", "content scaled twice", scaled_twice, "", {"num_heads": [8], "length": 16}
    ),
    "attention: bent with padding": Wrong(
        "attention",
        "padding changes the bias",
        steeper_with_padding,
        "right without padding",
        {**SMALL, "padding": "left"},
    ),
    "bias: later keys count twice": Wrong(
        "bias",
        "unknown fault",
        later_keys_count_twice,
        "",
        {"num_heads": [8], "causal": False, "decoding": False, "length": 17},
    ),
    "bias: earlier keys count twice": Wrong(
        "bias",
        "unknown fault",
        earlier_keys_count_twice,
        "",
        {"num_heads": [8], "causal": False, "decoding": False, "length": 17},
    ),
    "bias: none beyond 16 heads": Wrong(
        "bias", "no bias", no_bias_beyond_16_heads, "20 heads", {"num_heads": [8, 20], "length": 16}
    ),
    "attention: sinks": Wrong("attention", OUTSIDE, with_sinks, "attention sink", SHORT),
    "attention: not normalized for one query": Wrong(
        "attention",
        "not a weighted average",
        not_normalized_for_one_query,
        "(only with 1 query)",
        SHORT,
    ),
    "bias: cut from the start": Wrong(
        "bias", "wrong corner of the cache", CutFromTheStart(), "", {"length": 64}
    ),
    "slopes: one slope": Wrong(
        "slopes", "heads share a slope", one_slope, "", {"num_heads": [8, 12, 16]}
    ),
    "slopes: groups of four": Wrong(
        "slopes", "heads share a slope", of_groups_of_four, "", {"num_heads": [8, 12, 16]}
    ),
}
