"""What readers write for each exercise: what is right, and each mistake that has a hint."""

import math
from collections.abc import Callable
from typing import Any

import torch

import alibi_viz as av
from alibi_viz import gallery
from alibi_viz.lessons.grading import window
from tests.check.faulty import attend, with_faults

Try = Callable[..., Any]


# Slopes: num_heads -> slopes [heads]


def slopes(heads):
    return av.alibi_slopes(heads)


def geometric_slopes(heads):
    return av.alibi_slopes(heads, "geometric")


def halving_slopes(heads):
    return av.alibi_slopes(heads, "halving")


def counted_from_0(heads):
    return 2.0 ** (-8 * torch.arange(heads) / heads)


def in_reverse(heads):
    return slopes(heads).flip(0)


def only_up_to_a_power_of_two(heads):
    power = 2 ** int(math.log2(heads))
    return torch.cat((slopes(power), torch.zeros(heads - power)))


def with_the_next_ones_in_order(heads):
    power = 2 ** int(math.log2(heads))
    return torch.cat((slopes(power), slopes(2 * power)[: heads - power]))


def in_half_precision(heads):
    return slopes(heads).half().float()


def negative_slopes(heads):
    return -slopes(heads)


def with_integer_powers(heads):
    # In PyTorch, an integer to a negative power is 0.
    return 2 ** -torch.arange(1, heads + 1)


def three_times_the_slopes(heads):
    return 3 * slopes(heads)


def reciprocals(heads):
    return [1 / head for head in range(1, heads + 1)]


def as_a_column(heads):
    return slopes(heads)[:, None]


def as_a_word(heads):
    return "slopes"


def out_of_range(heads):
    return slopes(heads)[heads]


def nan_slopes(heads):
    return slopes(heads) * math.nan


# Bias: num_heads, query_length, key_length -> bias [heads, query, key]


def bias(heads, queries, keys):
    return av.alibi_bias(slopes(heads), queries, keys, form="key")


def positive_bias(heads, queries, keys):
    return -av.alibi_bias(slopes(heads), queries, keys)


def divided_by_0(heads, queries, keys):
    return av.alibi_bias(slopes(heads), queries, keys) / 0


# Attention: query, key, value -> output


def attention(query, key, value):
    return av.alibi_attention(query, key, value, slopes(query.shape[1]))


def scaled_for_64_channels(query, key, value):
    head_dim = query.shape[-1]
    return attend(query * head_dim**0.5 / 8, key, value)


def times_the_mask(query, key, value):
    trace = av.attention_trace(query, key, slopes(query.shape[1]), causal=False)
    mask = av.causal_mask(query.shape[2], key.shape[2])
    return (trace.logits * mask).softmax(-1) @ value


def without_visible_keys(query, key, value):
    trace = av.attention_trace(query, key, slopes(query.shape[1]), causal=False)
    visible = av.causal_mask(query.shape[2], key.shape[2])
    return trace.logits.masked_fill(visible, -math.inf).softmax(-1) @ value


def without_bias(query, key, value):
    return attend(query, key, value, factor=0)


def future_not_hidden(query, key, value):
    return attend(query, key, value, hidden=0)


def twice_the_average(query, key, value):
    return 2 * attend(query, key, value)


# Fold: query, key, slopes -> wider query and key


def fold_with(content=None, extra=1.0, *, vary=True):
    """A fold of one channel, slope times position.

    Args:
        content: the factor of the content, by default 1 / sqrt(head_dim).
        extra: a factor of the channel.
        vary: whether the position varies along the keys.
    """

    def fold(query, key, slopes):
        position = torch.arange(float(key.shape[2]))
        if not vary:
            position = torch.ones(key.shape[2])
        for_query = extra * slopes[:, None, None].expand(*query.shape[:3], 1)
        for_key = position[:, None].expand(*key.shape[:3], 1)
        scale = query.shape[-1] ** -0.5 if content is None else content
        return torch.cat((query * scale, for_query), dim=-1), torch.cat((key, for_key), dim=-1)

    return fold


def only_the_query(query, key, slopes):
    return query


def of_one_head(query, key, slopes):
    return query[:, :1], key


# Window: slope, share -> steps back


def four_by_slope(slope, share):
    return math.ceil(4 / slope)


def of_a_tensor(slope, share):
    return slope.log()


RIGHT = {
    "slopes": slopes,
    "bias": bias,
    "attention": attention,
    "fold": fold_with(),
    "window": window,
}

# {exercise: {mistake: a function that makes it}}
WRONG = {
    "slopes": {
        "no bias": with_integer_powers,
        "first slope is 1": counted_from_0,
        "geometric slopes": geometric_slopes,
        "halving slopes": halving_slopes,
        "negative slopes": negative_slopes,
        "bias multiplied": three_times_the_slopes,
        "heads in another order": in_reverse,
        "heads without a bias": only_up_to_a_power_of_two,
        "heads share a slope": with_the_next_ones_in_order,
        "other slopes": reciprocals,
        "imprecise slopes": in_half_precision,
        "wrong shape": as_a_column,
        "wrong type": as_a_word,
        "raises an error": out_of_range,
        "returns NaN": nan_slopes,
    },
    "bias": {
        "sign reversed": positive_bias,
        "wrong corner of the cache": gallery.biases.x_transformers_2022,
        "no bias while decoding": gallery.biases.keras_hub_falcon,
        "colliding positions": gallery.biases.bloom_in_bfloat16,
        "returns NaN": divided_by_0,
    },
    "attention": {
        "sign reversed": with_faults("sign reversed"),
        "no bias": without_bias,
        "bias before scaling": with_faults("bias before scaling"),
        "content not scaled": with_faults("content not scaled"),
        "content too weak": with_faults("content too weak"),
        "content multiplied": scaled_for_64_channels,
        "content depends on position": times_the_mask,
        "future not masked": with_faults("future not masked"),
        "rewarded future": future_not_hidden,
        "causal mask in the wrong corner": with_faults("causal mask in the wrong corner"),
        "query can't see itself": with_faults("query can't see itself"),
        "one key ahead": with_faults("one key ahead"),
        "wrong corner of the cache": with_faults("wrong corner of the cache"),
        "not a weighted average": twice_the_average,
        "returns NaN": without_visible_keys,
        "geometric slopes": with_faults("geometric slopes"),
    },
    "fold": {
        "wrong type": only_the_query,
        "wrong shape": of_one_head,
        "no bias": fold_with(vary=False),
        "sign reversed": fold_with(extra=-1.0),
        "content not scaled": fold_with(content=1.0),
        "bias before scaling": fold_with(extra=32**-0.5),
        "content multiplied": fold_with(content=1 / 8),  # right for 64 channels only
        "bias multiplied": fold_with(extra=3.0),
    },
    "window": {
        "raises an error": of_a_tensor,
        "unknown fault": four_by_slope,
    },
}
