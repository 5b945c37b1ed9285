"""The interface of position methods.

A method can act at three points; most methods use only one:

    embed      adds to the token vectors, once, before the first layer     sinusoidal, learned
    transform  changes the queries and keys of every layer                 rotary, xpos
    bias       adds to the attention logits of every layer                 all others, except none
"""

from copy import deepcopy
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from alibi_viz.arguments import check_flag
from alibi_viz.attention import attention_trace
from alibi_viz.bias import causal_mask

# A `TransformerConfig`, whose module imports this one to check the name of its position method.
Config = Any


class Position(nn.Module):
    """Base class of position methods; on its own it adds nothing.

    A subclass overrides `embed`, `transform` or `bias`, and sets those of these attributes that
    differ.

    Attributes:
        config_fields: the fields of `TransformerConfig` that the constructor takes, as arguments of
            the same names.
        is_absolute: True for a method that adds absolute positions to token vectors.
        is_per_layer: whether each layer has its own parameters.
        reads_input: whether `bias` needs `x`; a cache then stores `x`, too.
        max_length: the largest number of tokens for which it is defined; None for no limit.
        num_heads: the number of query heads for which it was made; None if it fits any number.
        decoder_only: whether it needs a causal mask.
        supports_cache: False if a new token changes the positions of earlier ones.
        is_random: whether it draws random numbers during training.
    """

    config_fields: ClassVar[tuple[str, ...]] = ()
    is_absolute = False
    is_per_layer = False
    reads_input = False
    max_length: int | None = None
    num_heads: int | None = None
    decoder_only = False
    supports_cache = True
    is_random = False

    @classmethod
    def from_config(cls, config: Config) -> "Position":
        """The method for a transformer with these settings.

        Override it if `config_fields` don't say enough.
        """
        arguments = {field: getattr(config, field) for field in cls.config_fields}
        return cls(**arguments)

    @property
    def has_bias(self) -> bool:
        return type(self).bias is not Position.bias

    @property
    def has_transform(self) -> bool:
        return type(self).transform is not Position.transform

    @property
    def has_logits(self) -> bool:
        """Whether it has `logits` of its own, which no kernel of torch computes."""
        return type(self).logits is not Position.logits

    @classmethod
    def summary(cls) -> str:
        """The first line of the docstring, for menus and help texts."""
        return (cls.__doc__ or "").partition("\n")[0]

    @property
    def takes_alibi_options(self) -> bool:
        """Whether `attend` takes the options of `alibi_attention`, such as a cache's `key_ball`."""
        return False

    def is_defined_at(self, length: int) -> bool:
        """Whether there are positions for so many tokens."""
        return self.max_length is None or length <= self.max_length

    def check_causal(self, causal: bool) -> None:
        """Raise TypeError if `causal` is no bool, and ValueError if the method needs it to be
        True."""
        check_flag("causal", causal)
        if self.decoder_only and not causal:
            raise ValueError(
                f"{type(self).__name__} is for decoders only: causal must be True, got False"
            )

    def for_layer(self, layer: int) -> "Position":
        """The module for layer 0, 1, ....

        All layers share this one, unless each has its own parameters.
        """
        is_shared = layer == 0 or not self.is_per_layer
        return self if is_shared else deepcopy(self)

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Token vectors [batch, length, d_model] with positions start, start + 1, ... added."""
        return tokens

    def transform(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
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

    def attend(
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *,
        causal: bool,
        dropout: float = 0.0,
        x: Tensor | None = None,
    ) -> Tensor:
        """Attention with this method: [batch, heads, query, head_dim]. `x` is as in `bias`.

        Raises ValueError if the method is for decoders only and `causal` is False.
        """
        self.check_causal(causal)
        if self.has_logits:
            weights = self.weights(query, key, causal=causal, x=x).to(value.dtype)
            queries_per_key = query.shape[1] // key.shape[1]
            value = value.repeat_interleave(queries_per_key, dim=1)
            return nn.functional.dropout(weights, dropout) @ value

        query, key = self.transform(query, key)
        query_length = query.shape[-2]
        key_length = key.shape[-2]
        mask = self.bias(query_length, key_length, x)
        is_causal = False
        if causal and mask is None and query_length == key_length:
            # torch aligns the first query with the first key, so it needs equal lengths.
            is_causal = True
        elif causal:
            visible = causal_mask(query_length, key_length, device=query.device)
            mask = visible if mask is None else mask.masked_fill(~visible, float("-inf"))
        if mask is not None and mask.is_floating_point():
            # torch's blockwise kernel on CPUs needs a mask with 4 axes. With 3, torch uses one that
            # stores all weights.
            if mask.ndim == 3:
                mask = mask[None]
            mask = mask.to(query.dtype)
        return scaled_dot_product_attention(
            query,
            key,
            value,
            attn_mask=mask,
            dropout_p=dropout,
            is_causal=is_causal,
            enable_gqa=query.shape[1] != key.shape[1],
        )

    def logits(self, query: Tensor, key: Tensor, *, causal: bool = True) -> Tensor:
        """The logits before the bias: float32 [batch, heads, query, key].

        They are q . k / sqrt(head_dim) after `transform`, and -inf where the mask hides a key.
        Override it only for what `transform` can't express: all weights are then stored.
        """
        query, key = self.transform(query, key)
        return attention_trace(query, key, None, causal=causal).logits.float()

    def weights(
        self, query: Tensor, key: Tensor, *, causal: bool = True, x: Tensor | None = None
    ) -> Tensor:
        """The attention weights that `attend` applies to the values.

        Returns float32 [batch, heads, query, key].

        >>> import torch
        >>> from alibi_viz.models.positions.relative import Alibi
        >>> query = key = torch.zeros(1, 2, 3, 8)  # equal content: the weights show the bias alone
        >>> Alibi(2, slopes=torch.tensor([1.0, 0.0])).weights(query, key)[0, :, -1]
        tensor([[0.0900, 0.2447, 0.6652],
                [0.3333, 0.3333, 0.3333]])
        """
        self.check_causal(causal)
        logits = self.logits(query, key, causal=causal)
        bias = self.bias(query.shape[-2], key.shape[-2], x)
        if bias is not None:
            logits = logits + bias
        return logits.softmax(-1).float()


class NoPosition(Position):
    """No positions at all (NoPE, Kazemnejad et al. 2023).

    A decoder can infer the order of its tokens from the causal mask, because token i averages over
    i + 1 values.
    """
