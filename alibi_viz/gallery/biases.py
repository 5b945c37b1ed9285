"""Faulty biases of other systems, reproduced in a few lines each.

A wrong bias raises no error: the model still trains, only worse. Every function takes a number of heads, queries and
keys, and returns a bias that is added to the logits, broadcastable to [heads, query, key].
"""

import torch
from torch import Tensor

from alibi_viz.bias import alibi_bias, mask_future
from alibi_viz.gallery.exhibit import exhibit
from alibi_viz.slopes import alibi_slopes


@exhibit(
    "no bias",
    "bias",
    system="ggml, 28 April to 12 May 2023",
    github="ggml-org/ggml/pull/143",
    fault="the slope is multiplied by the index of the query instead of the key, which the softmax cancels",
)
def ggml_2023(num_heads: int, query_length: int, key_length: int) -> Tensor:
    """m (i + 1), the same for all keys, [heads, query, 1]. Sequence Toy (July 2025) does this too."""
    return (alibi_slopes(num_heads)[:, None] * torch.arange(1, query_length + 1))[:, :, None]


@exhibit(
    "sign reversed",
    "bias",
    system="attention-gym, 31 July to 3 December 2024",
    github="meta-pytorch/attention-gym/pull/86",
    fault="m (i - j): under the causal mask, distant keys are preferred",
)
def attention_gym_2024(num_heads: int, query_length: int, key_length: int) -> Tensor:
    """m (i - j), [heads, query, key]."""
    return -alibi_bias(alibi_slopes(num_heads), query_length, key_length)


@exhibit(
    "sign reversed",
    "bias",
    system="zeta, November 2025",
    github="kyegomez/zeta/blob/fe82c50/zeta/nn/biases/alibi.py",
    fault="-m j prefers the oldest key, and the class cannot be constructed",
)
def zeta(num_heads: int, query_length: int, key_length: int) -> Tensor:
    """-m j, [heads, 1, key].

    The minus sign belongs to a distance, but j counts from the start. The constructor calls `__get_slopes`, which fails
    because of name mangling; its documented argument `total_heads` is called `num_heads`.
    """
    return -alibi_bias(alibi_slopes(num_heads), query_length, key_length, form="key")


@exhibit(
    "bias multiplied",
    "bias",
    system="Megatron-DeepSpeed, 24 September 2021 to 6 January 2022",
    github="bigscience-workshop/Megatron-DeepSpeed/pull/222",
    fault="with query-key layer scaling, the slopes of layer 24 were 24 times too steep",
)
def megatron_layer_scaling(num_heads: int, query_length: int, key_length: int, layer: int = 24) -> Tensor:
    """layer * m j, [heads, 1, key].

    For numerical range, the layer's content was divided by the layer's number and the sum multiplied by it again.
    """
    return layer * alibi_bias(alibi_slopes(num_heads), query_length, key_length, form="key")


@exhibit(
    "length cap",
    "bias",
    system="the authors' fairseq, October 2023",
    github="ofirpress/attention_with_linear_biases/blob/4b92f28/fairseq/models/transformer.py",
    fault="slices beyond the built size are silently shorter; right for the fixed sizes that the paper trained with",
    decoding=False,
)
def fairseq_mask(num_heads: int, query_length: int, key_length: int, tokens_per_sample: int = 256) -> Tensor:
    """m j plus the causal mask for `tokens_per_sample` tokens, sliced: up to [heads, query, key].

    `buffered_future_mask` builds it once, also for a fixed batch size. A slice beyond the end is silently shorter, so
    the mask doesn't fit a longer text or a larger batch.
    """
    bias = alibi_bias(alibi_slopes(num_heads), tokens_per_sample, form="key").expand(-1, tokens_per_sample, -1)
    return mask_future(bias)[:, :query_length, :key_length]


@exhibit(
    "colliding positions",
    "bias",
    system="BLOOM and Falcon, transformers 5.23.0",
    github="huggingface/transformers/blob/v5.23.0/src/transformers/models/bloom/modeling_bloom.py",
    fault="m j in bfloat16: at 2048 tokens, the 64 nearest keys have 9 different biases instead of 64",
)
def bloom_in_bfloat16(num_heads: int, query_length: int, key_length: int) -> Tensor:
    """m j rounded to the eight significant bits of bfloat16, [heads, 1, key].

    `build_alibi_tensor` returns the bias in the model's dtype; Falcon's multiplies in bfloat16 for every dtype. In
    the form -m (i - j), the keys with the largest weights would have small biases, which bfloat16 represents exactly.
    """
    return alibi_bias(alibi_slopes(num_heads), query_length, key_length, form="key", dtype=torch.bfloat16)


@exhibit(
    "wrong corner of the cache",
    "bias",
    system="x-transformers, 18 May 2022 to 25 September 2023",
    github="lucidrains/x-transformers/issues/153",
    fault="a cached bias sliced [:i, :j] gives a decoded token the row of the first query",
)
def x_transformers_2022(num_heads: int, query_length: int, key_length: int) -> Tensor:
    """A cached -m |i - j| sliced [:i, :j], [heads, query, key].

    For one query that is 0, -m, -2m, ...: the newest key gets the largest penalty. Fixed by slicing [-i:, -j:] in
    version 1.22.19; copies of the old lines are in other code.
    """
    return alibi_bias(alibi_slopes(num_heads), key_length, form="symmetric")[:, :query_length, :key_length]


@exhibit(
    "no bias while decoding",
    "bias",
    system="keras-hub's Falcon, 23 May 2024 to August 2026",
    github="keras-team/keras-hub/pull/2977",
    fault="a bias as long as the query broadcasts over the cache: slope * 0 for every key",
)
def keras_hub_falcon(num_heads: int, query_length: int, key_length: int) -> Tensor:
    """m j for as many positions as there are queries, broadcast over the keys: [heads, query, key].

    With a cache, every step of `generate` added slope * 0 to all keys; [heads, 1, 1] broadcasts without an error. Query
    lengths other than 1 and the key length raise RuntimeError, as in keras-hub.
    """
    bias = alibi_bias(alibi_slopes(num_heads), query_length, form="key")
    return bias.expand(num_heads, query_length, key_length)


@exhibit(
    "square root of the distance",
    "bias",
    system="Step-Audio, February 2025",
    github="NVIDIA/TensorRT-LLM/issues/5392",
    fault="-m sqrt(i - j), a deliberate variant under ALiBi's name: one more step costs ever less",
)
def step_audio(num_heads: int, query_length: int, key_length: int) -> Tensor:
    """-m sqrt(i - j), [heads, query, key]; its authors set the future to -inf."""
    offset = alibi_bias(torch.ones(1), query_length, key_length).clamp(max=0)  # -(i - j)
    return -alibi_slopes(num_heads)[:, None, None] * offset.neg().sqrt()
