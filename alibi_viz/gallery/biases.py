"""Other systems' biases with the mistakes that were once in them, each a few lines of our own.

A wrong bias raises no error: the model trains, a little worse or a lot. Every function here computes what the named
code computed; its docstring says where, when, and what is wrong. The tests state each fault as a number.
"""

import torch
from torch import Tensor

from alibi_viz.bias import alibi_bias
from alibi_viz.distance import causal_mask

__all__ = [
    "attention_gym_2024",
    "bloom_in_bfloat16",
    "cache_from_the_wrong_corner",
    "decoding_by_query_length",
    "fairseq_mask",
    "falcon_eager",
    "jaketae_content",
    "jaketae_encoder",
    "labml_2021",
    "zeta",
]


def labml_2021(slopes: Tensor, length: int, head_dim: int) -> Tensor:
    """What reaches the softmax when the bias is added before the logits are scaled: m j / sqrt(head_dim).

    labml's annotated module of 28 August 2021 (commit e06a89e2) added the bias in `get_scores`, and its base class then
    multiplied by 1/sqrt(d_k). Every head looks much further than its slope says. Corrected on 17 July 2022 (72669d05).

    Returns float32 [heads, 1, length].
    """
    return alibi_bias(slopes, length, form="key") / head_dim**0.5


def zeta(slopes: Tensor, length: int) -> Tensor:
    """-m j: the sign belongs to a distance, but j counts from the beginning, so the *oldest* key is preferred.

    zeta's `AlibiPositionalBias.get_bias` (kyegomez/zeta, commit fe82c50 of November 2025). The class cannot be built as
    published: it calls `__get_slopes`, which Python's name mangling does not find, and its documented argument
    `total_heads` is called `num_heads`.

    Returns float32 [heads, 1, length].
    """
    return -alibi_bias(slopes, length, form="key")


def jaketae_encoder(slopes: Tensor, length: int) -> Tensor:
    """m (j - i) without a causal mask: right behind the query, a reward for the future ahead of it.

    jaketae/alibi (commit 021acae of December 2021) with `causal=False`.

    Returns float32 [heads, length, length].
    """
    return alibi_bias(slopes, length, form="relative")


def jaketae_content(query: Tensor, key: Tensor) -> Tensor:
    """q . k / sqrt(d_model), where sqrt(head_dim) is meant: content sqrt(heads) times too weak against the bias.

    jaketae/alibi (commit 021acae of December 2021), decoder and encoder alike. With 8 heads a good match outweighs a
    distance only if it is 2.8 times as good as ALiBi asks for.

    `query` and `key` are [batch, heads, length, head_dim]; returns [batch, heads, query, key].
    """
    return query @ key.mT / (query.shape[1] * query.shape[-1]) ** 0.5


def attention_gym_2024(slopes: Tensor, length: int) -> Tensor:
    """m (i - j): the sign the wrong way round under a causal mask, so distance is rewarded.

    The ALiBi examples of meta-pytorch/attention-gym until pull request 86 of 2 December 2024.

    Returns float32 [heads, length, length].
    """
    return -alibi_bias(slopes, length, form="relative")


def fairseq_mask(slopes: Tensor, batch: int, length: int, *, tokens_per_sample: int, max_tokens: int) -> Tensor:
    """The authors' mask for a batch: m j plus the causal triangle, row index b * heads + h.

    It is built once for `tokens_per_sample` positions and max_tokens // tokens_per_sample sequences, and then *sliced*
    to [batch * heads, length, length] (fairseq `transformer.py`, `buffered_future_mask`, repository of October 2023).
    A slice beyond the end is silently shorter, so a longer text or a larger batch gets a mask that does not fit it.

    Returns float32 [at most batch * heads, at most length, at most length].
    """
    hidden = torch.zeros(tokens_per_sample, tokens_per_sample).masked_fill(
        ~causal_mask(tokens_per_sample), float("-inf")
    )
    one = hidden + alibi_bias(slopes, tokens_per_sample, form="key")  # [heads, tokens_per_sample, tokens_per_sample]
    built = one.repeat(max_tokens // tokens_per_sample, 1, 1)
    return built[: batch * len(slopes), :length, :length]


def bloom_in_bfloat16(slopes: Tensor, length: int) -> Tensor:
    """m j rounded to bfloat16, which has eight significant bits: neighbouring keys share a bias.

    `build_alibi_tensor` returns the bias in the model's dtype (transformers 5.23.0, BLOOM; Falcon multiplies in
    bfloat16 whatever the model's dtype). As a distance, -m (i - j), it would be small where the weight is, and exact.

    Returns bfloat16 [heads, 1, length].
    """
    return alibi_bias(slopes, length, form="key", dtype=torch.bfloat16)


def cache_from_the_wrong_corner(slopes: Tensor, query_length: int, key_length: int) -> Tensor:
    """A cached -m |i - j| sliced [:i, :j]: while decoding, the last query gets the row of the first.

    x-transformers' `AlibiPositionalBias` in June 2023 (commit f71f327); since corrected to [-i:, -j:] (2.31.10), while
    copies of the old lines are in other code. With one query the slice is 0, -m, -2m, ...: the newest key is punished
    most.

    Returns float32 [heads, query_length, key_length].
    """
    return alibi_bias(slopes, key_length, form="symmetric")[:, :query_length, :key_length]


def decoding_by_query_length(slopes: Tensor, query_length: int, key_length: int) -> Tensor:
    """m j for as many positions as there are *queries*, broadcast over the keys: with one query, no bias at all.

    keras-hub's Falcon until pull request 2977 of August 2026: with a cache, every step of `generate` added slope * 0 to
    all keys. Nothing raised, because [heads, 1, 1] broadcasts. Other query lengths raise RuntimeError here as there.

    Returns float32 [heads, query_length, key_length].
    """
    return alibi_bias(slopes, query_length, form="key").expand(len(slopes), query_length, key_length)


def falcon_eager(slopes: Tensor, length: int, head_dim: int) -> Tensor:
    """2 m j / sqrt(head_dim): added to the logits, and once more inside the mask.

    Falcon in transformers 5.23.0 with eager attention; its `sdpa` path has it once, so asking for the weights changes
    them (issue 29946 of March 2024 reports it). Both divide the bias by sqrt(head_dim), as Falcon always has.

    Returns float32 [heads, 1, length].
    """
    return 2 * alibi_bias(slopes, length, form="key") / head_dim**0.5
