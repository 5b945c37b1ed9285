"""The interface of position methods.

A method can act at three points; most methods use only one:

    embed   adds to the token vectors, once, before the first layer     sinusoidal, learned
    rotate  changes the queries and keys of every layer                 rotary, xpos
    bias    adds to the attention logits of every layer                 all others, except none
"""

import inspect
import math
from typing import Any

from torch import Tensor, nn

from alibi_viz.bias import causal_mask

# A `TransformerConfig`, whose module imports this one to check the position method.
Config = Any


class Position(nn.Module):
    """Base class of position methods; on its own it adds nothing.

    A subclass overrides `embed`, `rotate` or `bias`. Its constructor asks for any fields of
    `TransformerConfig` by their names, such as `num_heads`, `head_dim` or `max_length`. The guide
    "Race your own bias" has an example.

    Attributes:
        is_causal_only: whether it needs a causal mask.
        longest: the largest number of tokens for which it is defined; None for no limit.
        reads_input: whether `bias` reads `x`, the input of its layer. Each layer then has a copy of
            its own, and a cache stores `x`, too.
        supports_cache: False if a new token changes the positions of earlier ones.
        is_random: whether it draws random numbers during training.

    Few methods need the last three.
    """

    is_causal_only = False
    longest: int | None = None
    reads_input = False
    supports_cache = True
    is_random = False

    @classmethod
    def from_config(cls, config: Config) -> "Position":
        """The method for a transformer with these settings, which its constructor may ask for."""
        fields = {
            name: getattr(config, name)
            for name in inspect.signature(cls).parameters
            if hasattr(config, name)
        }
        return cls(**fields)

    def uses(self, hook: str) -> bool:
        """Whether it overrides "embed", "rotate", "bias" or "logits"."""
        return getattr(type(self), hook) is not getattr(Position, hook)

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Token vectors [batch, length, d_model] with positions start, start + 1, ... added."""
        return tokens

    def rotate(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys [batch, heads, length, head_dim].

        The queries are the last positions of the keys.
        """
        return query, key

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor | None:
        """Added to the logits before masking: float32 [heads, query, key], or None for no bias.

        `x` is the input of the layer, [batch, key, d_model]. A bias that reads it is [batch, heads,
        query, key].
        """
        return None

    def logits(self, query: Tensor, key: Tensor, *, causal: bool = True) -> Tensor:
        """The logits before the bias: float32 [batch, heads, query, key].

        They are q . k / sqrt(head_dim) after `rotate`, and -inf where the mask hides a key.
        Override it only for what `rotate` can't express: all weights are then stored.
        """
        query, key = self.rotate(query, key)
        logits = scaled_products(query, key)
        if not causal:
            return logits
        visible = causal_mask(query.shape[-2], key.shape[-2], device=query.device)
        return logits.masked_fill(~visible, -math.inf)

    def weights(
        self, query: Tensor, key: Tensor, *, causal: bool = True, x: Tensor | None = None
    ) -> Tensor:
        """The attention weights with this method: float32 [batch, heads, query, key].

        >>> import torch
        >>> from alibi_viz.models.positions.biases import Alibi
        >>> query = key = torch.zeros(1, 2, 3, 8)  # equal content: the weights show the bias alone
        >>> Alibi(2, slopes=torch.tensor([1.0, 0.0])).weights(query, key)[0, :, -1]
        tensor([[0.0900, 0.2447, 0.6652],
                [0.3333, 0.3333, 0.3333]])
        """
        logits = self.logits(query, key, causal=causal)
        bias = self.bias(query.shape[-2], key.shape[-2], x)
        if bias is not None:
            logits = logits + bias
        return logits.softmax(-1).float()


def scaled_products(query: Tensor, key: Tensor) -> Tensor:
    """q . k / sqrt(head_dim): float32 [batch, heads, query, key].

    Neighboring heads of queries may share one of keys.
    """
    queries_per_key = query.shape[1] // key.shape[1]
    key = key.float().repeat_interleave(queries_per_key, dim=1)
    scale = query.shape[-1] ** -0.5
    return (query.float() * scale) @ key.transpose(-2, -1)


class NoPosition(Position):
    """No positions at all (NoPE, Kazemnejad et al. 2023).

    A decoder can infer the order of its tokens from the causal mask, because token i averages over
    i + 1 values.
    """
