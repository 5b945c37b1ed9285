"""Faulty biases of other systems, reproduced in a few lines each.

A wrong bias raises no error: the model still trains, only worse. The tests measure the effect of every fault.
"""

import torch
from torch import Tensor

from alibi_viz.bias import alibi_bias, mask_future
from alibi_viz.gallery.exhibit import exhibit


@exhibit(
    "bias before scaling",
    system="labml, 28 August 2021 to 17 July 2022",
    github="labmlai/annotated_deep_learning_paper_implementations/blob/e06a89e2/labml_nn/transformers/alibi/__init__.py",
    fault="the bias is divided by sqrt(head_dim) with the content, so slope 1/2 acts as 0.088 at head_dim 32",
)
def labml_2021(slopes: Tensor, length: int, head_dim: int) -> Tensor:
    """m j / sqrt(head_dim), float32 [heads, 1, length].

    `get_scores` added the bias, and then the base class multiplied by 1/sqrt(d_k). Fixed in commit 72669d05.
    """
    return alibi_bias(slopes, length, form="key") / head_dim**0.5


@exhibit(
    "inverted recency",
    system="zeta, November 2025",
    github="kyegomez/zeta/blob/fe82c50/zeta/nn/biases/alibi.py",
    fault="-m j prefers the oldest key, and the class cannot be constructed",
)
def zeta(slopes: Tensor, length: int) -> Tensor:
    """-m j, float32 [heads, 1, length].

    The minus sign belongs to a distance, but j counts from the start. The constructor calls `__get_slopes`, which fails
    because of name mangling; its documented argument `total_heads` is called `num_heads`.
    """
    return -alibi_bias(slopes, length, form="key")


@exhibit(
    "rewarded future",
    system="jaketae/alibi, December 2021",
    github="jaketae/alibi/blob/021acae/alibi/attention.py",
    fault="as an encoder it prefers the keys furthest ahead",
)
def jaketae_encoder(slopes: Tensor, length: int) -> Tensor:
    """m (j - i) without a causal mask (`causal=False`), float32 [heads, length, length]."""
    return alibi_bias(slopes, length, form="relative")


@exhibit(
    "content too weak",
    system="jaketae/alibi, December 2021",
    github="jaketae/alibi/blob/021acae/alibi/attention.py",
    fault="q . k is divided by sqrt(d_model), so with 8 heads content counts 2.8 times too little against the bias",
)
def jaketae_content(query: Tensor, key: Tensor) -> Tensor:
    """q . k / sqrt(d_model) instead of q . k / sqrt(head_dim), in the decoder and the encoder.

    `query` and `key` are [batch, heads, length, head_dim]; returns [batch, heads, query, key].
    """
    return query @ key.mT / (query.shape[1] * query.shape[-1]) ** 0.5


@exhibit(
    "rewarded distance",
    system="attention-gym until 2 December 2024",
    github="meta-pytorch/attention-gym/pull/86",
    fault="the sign is inverted, so under the causal mask distant keys are preferred",
)
def attention_gym_2024(slopes: Tensor, length: int) -> Tensor:
    """m (i - j), float32 [heads, length, length]."""
    return -alibi_bias(slopes, length, form="relative")


@exhibit(
    "a mask that does not fit",
    system="the authors' fairseq, October 2023",
    github="ofirpress/attention_with_linear_biases/blob/4b92f28/fairseq/models/transformer.py",
    fault="slices beyond the built size are silently shorter; right for the fixed sizes that the paper trained with",
)
def fairseq_mask(slopes: Tensor, batch: int, length: int, *, tokens_per_sample: int, max_tokens: int) -> Tensor:
    """m j plus the causal mask, row b * heads + h: float32 [up to batch * heads, up to length, up to length].

    `buffered_future_mask` builds it once for `tokens_per_sample` positions and max_tokens // tokens_per_sample
    sequences, and slices it to [batch * heads, length, length]. A slice beyond the end is silently shorter, so the mask
    doesn't fit a longer text or a larger batch.
    """
    bias = alibi_bias(slopes, tokens_per_sample, form="key").expand(-1, tokens_per_sample, -1)
    built = mask_future(bias).repeat(max_tokens // tokens_per_sample, 1, 1)
    return built[: batch * len(slopes), :length, :length]


@exhibit(
    "colliding positions",
    system="BLOOM and Falcon, transformers 5.23.0",
    github="huggingface/transformers/blob/v5.23.0/src/transformers/models/bloom/modeling_bloom.py",
    fault="m j in bfloat16: at 2048 tokens, the 64 nearest keys have 9 different biases instead of 64",
)
def bloom_in_bfloat16(slopes: Tensor, length: int) -> Tensor:
    """m j rounded to the eight significant bits of bfloat16, [heads, 1, length].

    `build_alibi_tensor` returns the bias in the model's dtype; Falcon's multiplies in bfloat16 for every dtype. In
    the form -m (i - j), the keys with the largest weights would have small biases, which bfloat16 represents exactly.
    """
    return alibi_bias(slopes, length, form="key", dtype=torch.bfloat16)


@exhibit(
    "the wrong corner of the cache",
    system="x-transformers, June 2023",
    github="lucidrains/x-transformers/blob/f71f3279de539ddb0f58bd50f22b84b6920e0ef6/x_transformers/x_transformers.py",
    fault="a cached bias sliced [:i, :j] gives a decoded token the row of the first query",
)
def cache_from_the_wrong_corner(slopes: Tensor, query_length: int, key_length: int) -> Tensor:
    """A cached -m |i - j| sliced [:i, :j], float32 [heads, query, key].

    For one query that is 0, -m, -2m, ...: the newest key gets the largest penalty. Fixed by 2.31.10, which slices
    [-i:, -j:]; copies of the old lines are in other code.
    """
    return alibi_bias(slopes, key_length, form="symmetric")[:, :query_length, :key_length]


@exhibit(
    "no bias while decoding",
    system="keras-hub's Falcon until August 2026",
    github="keras-team/keras-hub/pull/2977",
    fault="a bias as long as the query broadcasts over the cache: slope * 0 for every key",
)
def decoding_by_query_length(slopes: Tensor, query_length: int, key_length: int) -> Tensor:
    """m j for as many positions as there are queries, broadcast over the keys: float32 [heads, query, key].

    With a cache, every step of `generate` added slope * 0 to all keys; [heads, 1, 1] broadcasts without an error. Query
    lengths other than 1 and the key length raise RuntimeError, as in keras-hub.
    """
    return alibi_bias(slopes, query_length, form="key").expand(len(slopes), query_length, key_length)


@exhibit(
    "added twice",
    system="Falcon with eager attention, transformers 5.23.0",
    github="huggingface/transformers/issues/29946",
    fault="the mask already holds the bias, so eager attention adds it a second time",
)
def falcon_eager(slopes: Tensor, length: int, head_dim: int) -> Tensor:
    """2 m j / sqrt(head_dim), float32 [heads, 1, length].

    The `sdpa` implementation adds the bias once, so requesting the weights changes them. Falcon always divides its bias
    by sqrt(head_dim).
    """
    return 2 * alibi_bias(slopes, length, form="key") / head_dim**0.5
