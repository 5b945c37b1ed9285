"""The interface of position methods.

A method can act at four points; most methods use only one:

    embed      adds to the token vectors, once, before the first layer     sinusoidal, learned
    transform  changes the queries and keys of every layer                 rotary, xpos
    bias       adds to the attention logits of every layer                 all others, except none
    weigh      computes the weights of every layer from queries and keys   cope, stick-breaking
"""

from copy import deepcopy
from typing import Any, ClassVar

from torch import Tensor, nn
from torch.nn.functional import dropout as drop
from torch.nn.functional import scaled_dot_product_attention

from alibi_viz.arguments import check_flag
from alibi_viz.attention import attention_trace
from alibi_viz.bias import causal_mask
from alibi_viz.models.configuration import TransformerConfig


class Position(nn.Module):
    """Base class of position methods; on its own it adds nothing. A subclass may set these
    attributes."""

    name: ClassVar[str]  # the name under which it is in `POSITIONS`
    summary: ClassVar[str]  # the first line of its docstring, for menus and help texts
    config_fields: ClassVar[
        tuple[str, ...]
    ] = ()  # the fields of `TransformerConfig` that the constructor takes
    # By default, False for a class that defines `embed`, which adds absolute positions to tokens
    is_relative = True
    is_per_layer = False  # whether each layer has its own parameters
    reads_input = False  # whether `bias` needs `x`; a cache then stores `x` too
    # Whether `attend` takes the options of `alibi_attention`, such as a cache's `key_ball`
    uses_key_ball = False
    max_length: int | None = (
        None  # the largest number of tokens for which it is defined; None for no limit
    )
    # Are the weights the softmax of content plus bias? By default, not if it defines `weigh`
    is_additive = True
    decoder_only = False  # whether it needs a causal mask
    supports_cache = True  # False if a new token changes the positions of earlier ones
    is_random = False  # whether it draws random numbers during training

    def __init_subclass__(cls) -> None:
        cls.summary = (cls.__doc__ or "").partition("\n")[0]
        own = {
            name for each in cls.__mro__[: cls.__mro__.index(Position)] for name in vars(each)
        }  # mixins too
        for method, flag in (("embed", "is_relative"), ("weigh", "is_additive")):
            if method in own and flag not in own:
                setattr(cls, flag, False)

    @classmethod
    def from_config(cls, config: TransformerConfig) -> "Position":
        """The method for a transformer with these settings. Override it if `config_fields` don't
        say enough."""
        return cls(*(getattr(config, field) for field in cls.config_fields))

    @property
    def has_bias(self) -> bool:
        return type(self).bias is not Position.bias

    def is_defined_at(self, length: int) -> bool:  # in tokens
        return self.max_length is None or length <= self.max_length

    def check_causal(self, causal: bool) -> None:
        """Raise TypeError if `causal` is no bool, ValueError if it is False and the method needs
        causal attention."""
        check_flag("causal", causal)
        if self.decoder_only and not causal:
            raise ValueError(
                f"{type(self).__name__} is for decoders only: causal must be True, got False"
            )

    def for_layer(self, layer: int) -> "Position":
        """The module for layer 0, 1, ...: this one, shared by all layers, unless each has its own
        parameters."""
        return deepcopy(self) if layer and self.is_per_layer else self

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Token vectors [batch, length, d_model] with positions start, start + 1, ... added."""
        return tokens

    def transform(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys [batch, heads, length, head_dim]; the queries are the last positions of
        the keys."""
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
        query, key = self.transform(query, key)
        query_length, key_length = query.shape[-2], key.shape[-2]
        mask = self.bias(query_length, key_length, x)
        if not self.is_additive:
            weights = drop(
                self.weigh(query, key, mask, causal=causal), dropout, training=dropout > 0
            )
            value = value.repeat_interleave(
                query.shape[1] // value.shape[1], dim=1
            )  # grouped-query attention
            return weights.to(value.dtype) @ value
        flags: dict[str, Any] = {"enable_gqa": query.shape[1] != key.shape[1]}
        if causal and mask is None and query_length == key_length:
            flags["is_causal"] = (
                True  # aligns the first query with the first key, so it needs equal lengths
            )
        elif causal:
            visible = causal_mask(query_length, key_length, device=query.device)
            mask = visible if mask is None else mask.masked_fill(~visible, float("-inf"))
        if mask is not None and mask.is_floating_point():
            # torch's blockwise kernel on CPUs needs a mask with 4 axes; with 3, torch uses one that
            # stores all weights
            mask = (mask if mask.ndim == 4 else mask[None]).to(query.dtype)
        return scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropout, **flags
        )

    def weigh(self, query: Tensor, key: Tensor, bias: Tensor | None, *, causal: bool) -> Tensor:
        """Weights [batch, heads, query, key] from the outputs of `transform` and `bias`; at least
        float32."""
        logits = attention_trace(query, key, None, causal=causal).logits.float()
        return (logits if bias is None else logits + bias).softmax(-1)

    def weights(
        self, query: Tensor, key: Tensor, *, causal: bool = True, x: Tensor | None = None
    ) -> Tensor:
        """The attention weights that `attend` applies to the values: float32 [batch, heads, query,
        key].

        >>> query = key = torch.zeros(1, 2, 3, 8)  # equal content: the weights show the bias alone
        >>> av.models.positions.Alibi(2, slopes=torch.tensor([1.0, 0.0])).weights(query, key)[0, :, -1]
        tensor([[0.0900, 0.2447, 0.6652],
                [0.3333, 0.3333, 0.3333]])
        """
        self.check_causal(causal)
        query, key = self.transform(query, key)
        return self.weigh(
            query, key, self.bias(query.shape[-2], key.shape[-2], x), causal=causal
        ).float()


class NoPosition(Position):
    """No positions at all (NoPE, Kazemnejad et al. 2023).

    A decoder can infer the order of its tokens from the causal mask, because token i averages over
    i + 1 values.
    """
