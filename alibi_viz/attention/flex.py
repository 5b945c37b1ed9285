"""ALiBi through FlexAttention: the bias as a small function that torch compiles into its own kernel.

The first call compiles for several seconds. Compiled, the CPU has a forward pass only; a GPU has both. On the CPU each
shape has a kernel of its own, since the C++ that torch 2.13 writes for shapes that change does not always compile;
beyond eight shapes torch computes without one.
"""

from collections.abc import Callable
from functools import lru_cache

import torch
from torch import Tensor
from torch.nn.attention.flex_attention import BlockMask, create_block_mask, flex_attention

from alibi_viz.attention.inputs import Inputs

__all__ = ["alibi_score_mod", "flex"]

ScoreMod = Callable[[Tensor, Tensor, Tensor, Tensor, Tensor], Tensor]


def alibi_score_mod(slopes: Tensor, *, offset: Tensor | int = 0, symmetric: bool = False) -> ScoreMod:
    """The bias as FlexAttention's `score_mod(score, batch, head, query, key)`.

    Args:
        slopes: float32 [heads], on the device of the attention.
        offset: position of the first query among the keys, key length - query length when decoding.
        symmetric: -m |i - j|, for encoders, instead of -m (i - j).

    >>> score_mod = alibi_score_mod(alibi_slopes(8))
    >>> score_mod(torch.tensor(0.0), *torch.tensor([0, 0, 7, 4]))  # batch 0, head 0, query 7, key 4
    tensor(-1.5000)
    """

    def score_mod(score: Tensor, batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        distance = query + offset - key
        return score - slopes[head] * (distance.abs() if symmetric else distance)

    return score_mod


def flex(inputs: Inputs) -> Tensor:
    """[batch, heads, query, head_dim] by the compiled kernel."""
    offset = inputs.key_length - inputs.query_length
    score_mod = None
    if inputs.slopes is not None:
        slopes = inputs.slopes.to(torch.float32)
        score_mod = alibi_score_mod(slopes, offset=_constant(offset, slopes), symmetric=not inputs.causal)
    return _compiled(inputs.query.device.type == "cpu")(
        inputs.query,
        inputs.key,
        inputs.value,
        score_mod=score_mod,
        block_mask=_block_mask(inputs, offset),
        scale=inputs.scaling,
        enable_gqa=inputs.group > 1,
    )


def _block_mask(inputs: Inputs, offset: int) -> BlockMask | None:
    real, device = inputs.key_padding_mask, str(inputs.query.device)
    if real is None:
        return _causal_block_mask(inputs.query_length, inputs.key_length, device) if inputs.causal else None
    first = _constant(offset, real)

    def visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
        return real[batch, key] & (key <= query + first) if inputs.causal else real[batch, key]

    return create_block_mask(visible, len(real), None, inputs.query_length, inputs.key_length, device=device)


@lru_cache(maxsize=8)
def _causal_block_mask(query_length: int, key_length: int, device: str) -> BlockMask:
    with torch.inference_mode(False):  # what is kept must serve a later call that trains
        first = _constant(key_length - query_length, torch.empty(0, device=device))

        def visible(batch: Tensor, head: Tensor, query: Tensor, key: Tensor) -> Tensor:
            return key <= query + first

        return create_block_mask(visible, None, None, query_length, key_length, device=device)


def _constant(offset: int, like: Tensor) -> Tensor:
    """A tensor, since torch 2.13 writes C++ that does not compile when such a number is an int and changes."""
    return torch.tensor(offset, device=like.device)


@lru_cache(maxsize=2)
def _compiled(on_cpu: bool) -> Callable[..., Tensor]:
    return torch.compile(flex_attention, dynamic=False if on_cpu else None)
