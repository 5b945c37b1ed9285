"""Faulty attention functions of other systems: where the bias is added, how often, and to which heads.

Every function takes query, key and value [batch, heads, length, head_dim] and returns the output in that shape.
"""

import torch
from torch import Tensor

from alibi_viz.bias import alibi_bias, mask_future
from alibi_viz.gallery.exhibit import exhibit
from alibi_viz.slopes import alibi_slopes


def _key_bias(query: Tensor, key: Tensor) -> Tensor:
    """m j, [heads, 1, key]."""
    return alibi_bias(alibi_slopes(query.shape[1]), query.shape[2], key.shape[2], form="key")


@exhibit(
    "bias before scaling",
    "attention",
    system="labml, 28 August 2021 to 17 July 2022",
    github="labmlai/annotated_deep_learning_paper_implementations/blob/e06a89e2/labml_nn/transformers/alibi/__init__.py",
    fault="the bias is divided by sqrt(head_dim) with the content, so slope 1/2 acts as 0.088 at head_dim 32",
)
def labml_2021(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """softmax((q . k + m j) / sqrt(head_dim)) v.

    `get_scores` added the bias, and then the base class multiplied by 1/sqrt(d_k). Fixed in commit 72669d05.
    """
    logits = (query @ key.mT + _key_bias(query, key)) / query.shape[-1] ** 0.5
    return mask_future(logits).softmax(-1) @ value


@exhibit(
    "content too weak",
    "attention",
    system="jaketae/alibi, December 2021",
    github="jaketae/alibi/blob/021acae/alibi/attention.py",
    fault="q . k is divided by sqrt(d_model), so with 8 heads the content counts 2.8 times less than it should",
)
def jaketae_content(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """softmax(q . k / sqrt(d_model) + m j) v, in the decoder and the encoder."""
    content = query @ key.mT / (query.shape[1] * query.shape[-1]) ** 0.5
    return mask_future(content + _key_bias(query, key)).softmax(-1) @ value


@exhibit(
    "rewarded future",
    "attention",
    system="jaketae/alibi, December 2021",
    github="jaketae/alibi/blob/021acae/alibi/attention.py",
    fault="as an encoder it prefers the keys furthest ahead",
    causal=False,
)
def jaketae_encoder(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """m (j - i) without a causal mask (`causal=False`), here with the content scaled correctly."""
    return (query @ key.mT / query.shape[-1] ** 0.5 + _key_bias(query, key)).softmax(-1) @ value


@exhibit(
    "rewarded future",
    "attention",
    system="Falcon with SDPA and no attention mask, transformers 4.36 to 4.39",
    github="huggingface/transformers/issues/29946",
    fault="the bias took the place of the causal mask, so every query preferred the last token",
)
def falcon_2024(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """softmax((q . k + m j) / sqrt(head_dim)) v without a causal mask. Falcon always divides its bias."""
    return ((query @ key.mT + _key_bias(query, key)) / query.shape[-1] ** 0.5).softmax(-1) @ value


@exhibit(
    "added twice",
    "attention",
    system="Falcon with eager attention, transformers 5.23.0",
    github="huggingface/transformers/blob/v5.23.0/src/transformers/models/falcon/modeling_falcon.py",
    fault="the mask already holds the bias, so eager attention adds it a second time",
)
def falcon_eager(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """softmax((q . k + 2 m j) / sqrt(head_dim)) v.

    The `sdpa` implementation adds the bias once, so requesting the weights changes them. Falcon always divides its bias
    by sqrt(head_dim).
    """
    logits = (query @ key.mT + 2 * _key_bias(query, key)) / query.shape[-1] ** 0.5
    return mask_future(logits).softmax(-1) @ value


@exhibit(
    "batch rows mixed",
    "attention",
    system="Megatron-DeepSpeed with tensor parallelism, until 1 February 2022",
    github="bigscience-workshop/Megatron-DeepSpeed/issues/227",
    fault="every device takes the first rows of a table of all sequences and heads, so sequences get different slopes",
)
def megatron_2022(query: Tensor, key: Tensor, value: Tensor, devices: int = 2) -> Tensor:
    """Local head l of sequence b gets slope (b * local_heads + l) mod heads, on every device."""
    batch, heads = query.shape[:2]
    local = heads // devices
    rows = torch.arange(batch * local).view(batch, local).repeat(1, devices) % heads  # [batch, heads]
    bias = _key_bias(query, key)[rows]  # [batch, heads, 1, key]
    return mask_future(query @ key.mT / query.shape[-1] ** 0.5 + bias).softmax(-1) @ value
