"""How a transformer learns where its tokens are: one small class a method, behind one protocol.

A method may act in three places, and most use only one:

    embed      adds to the token vectors, once, before the first layer      sinusoidal, learned
    transform  changes the queries and keys of every layer                  rotary
    bias       adds to the logits of every layer                            alibi; `relative`, `fire`, `forget`
"""

import torch
from torch import Tensor, nn
from torch.nn.functional import scaled_dot_product_attention

from alibi_viz.attention import alibi_attention
from alibi_viz.bias_cache import AlibiBias
from alibi_viz.distance import causal_mask, right_aligned

__all__ = ["POSITIONS", "Alibi", "Learned", "Position", "Rotary", "Sinusoidal"]


class Position(nn.Module):
    """No position method at all (NoPE); the base of the others.

    With a causal mask even this model can tell positions apart, because token i averages over i + 1 values
    (Kazemnejad et al. 2023).
    """

    longest: int | None = None  # the longest length at which the method is defined; None for any
    reads_input = False  # whether `bias` looks at x, which a cache must then keep too
    is_relative = True  # False for methods that add absolute positions to the token vectors

    @property
    def has_bias(self) -> bool:
        """Whether the method adds a bias to the logits."""
        return type(self).bias is not Position.bias

    def is_defined_at(self, length: int) -> bool:
        """Whether inputs of this many tokens have positions; only a table of learned positions ends."""
        return self.longest is None or length <= self.longest

    def for_layer(self, layer: int) -> "Position":
        """The module that layer 0, 1, ... uses: this one, shared, unless each layer needs parameters of its own."""
        return self

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        """Token vectors [batch, length, d_model] of positions start, start + 1, ..., with what is added to them."""
        return tokens

    def transform(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        """Queries and keys [batch, heads, length, head_dim]; the queries are the last positions of the keys."""
        return query, key

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor | None:
        """What is added to the logits, float32 [heads, query, key], or None for nothing. Without a causal mask.

        `x` is what the layer reads, [batch, key, d_model]. Only a bias that depends on the data looks at it, and is
        then [batch, heads, query, key].
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
        """Attention with this method: [batch, heads, query, head_dim]. `x` is as in `bias`."""
        query, key = self.transform(query, key)
        query_length, key_length = query.shape[-2], key.shape[-2]
        mask = self.bias(query_length, key_length, x)
        plain = mask is None and query_length == key_length  # torch aligns is_causal left, so lengths must agree
        if causal and not plain:
            visible = causal_mask(query_length, key_length, device=query.device)
            mask = visible if mask is None else mask.masked_fill(~visible, float("-inf"))
        if mask is not None and mask.is_floating_point():
            mask = mask.to(query.dtype)
        return scaled_dot_product_attention(
            query, key, value, attn_mask=mask, dropout_p=dropout, is_causal=causal and plain
        )


class Alibi(Position):
    """-m (i - j) on the logits, and nothing anywhere else (Press et al. 2021). An encoder gets -m |i - j|.

    The slopes m, [heads], are those of the scheme, or given.
    """

    def __init__(
        self, num_heads: int, *, causal: bool = True, scheme: str = "official", slopes: Tensor | None = None
    ) -> None:
        super().__init__()
        form = "relative" if causal else "symmetric"
        self.cached = AlibiBias(num_heads, scheme=scheme, form=form, slopes=slopes)

    @property
    def slopes(self) -> Tensor:
        """float32 [heads]"""
        return self.cached.slopes

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        return self.cached(query_length, key_length)

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
        return alibi_attention(query, key, value, self.slopes, causal=causal, dropout=dropout)


class Sinusoidal(Position):
    """sin and cos of i * 10000^(-2k / d_model), added to the token vectors (Vaswani et al. 2017, section 3.5).

    Even channels hold the sines and odd ones the cosines, as in the paper.
    """

    is_relative = False

    def __init__(self, d_model: int) -> None:
        super().__init__()
        self.d_model = d_model

    def table(self, positions: Tensor) -> Tensor:
        """float32 [length, d_model] for integer positions [length]."""
        even = torch.arange(0, self.d_model, 2, device=positions.device, dtype=torch.float64)
        angle = positions.double()[:, None] * 10000.0 ** (-even / self.d_model)  # [length, d_model / 2]
        return torch.stack((angle.sin(), angle.cos()), dim=-1).flatten(1)[:, : self.d_model].float()

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        positions = torch.arange(start, start + tokens.shape[1], device=tokens.device)
        return tokens + self.table(positions).to(tokens.dtype)


class Learned(Position):
    """One trained vector a position (Vaswani et al. 2017, table 3, row E; GPT-2).

    Beyond its table it is not defined. Clamping or wrapping would hide that, so it raises ValueError.
    """

    is_relative = False

    def __init__(self, d_model: int, max_length: int) -> None:
        super().__init__()
        self.longest = max_length
        self.table = nn.Embedding(max_length, d_model)
        nn.init.normal_(self.table.weight, std=0.02)

    def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
        end = start + tokens.shape[1]
        if end > self.table.num_embeddings:
            raise ValueError(
                f"learned positions are not defined beyond max_length={self.table.num_embeddings}, got length {end}"
            )
        return tokens + self.table.weight[start:end]


class Rotary(Position):
    """Turns pair k of each query and key by the angle i * 10000^(-2k / head_dim) (Su et al. 2021).

    q_i . k_j then depends on i - j only. The pairs are (k, k + head_dim / 2), as in GPT-NeoX and LLaMA. `base` is the
    10000, and positions are divided by `stretch`; `rotary_rules` changes them for longer texts.
    """

    def __init__(self, head_dim: int, *, base: float = 10000.0, stretch: float = 1.0) -> None:
        super().__init__()
        if head_dim % 2:
            raise ValueError(f"rotary positions turn pairs of channels, so head_dim must be even, got {head_dim}")
        self.head_dim, self.base, self.stretch = head_dim, base, stretch
        self._cache: dict[torch.device, tuple[Tensor, Tensor]] = {}

    def rotate(self, vectors: Tensor, positions: Tensor) -> Tensor:
        """[..., length, head_dim] turned by their integer positions [length]."""
        cos, sin = self._waves(positions)
        first, second = vectors.float().chunk(2, dim=-1)
        turned = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1)
        return turned.to(vectors.dtype)

    def transform(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        query_positions, key_positions = right_aligned(query.shape[-2], key.shape[-2], device=query.device)
        return self.rotate(query, query_positions), self.rotate(key, key_positions)

    def _waves(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Cosine and sine, float32 [length, head_dim / 2]; the angles are float64, for they grow with the position."""
        known = self._cache.get(positions.device)
        longest = int(positions[-1]) + 1 if len(positions) else 1
        if known is None or len(known[0]) < longest:
            pair = torch.arange(0, self.head_dim, 2, device=positions.device, dtype=torch.float64)
            grown = torch.arange(1 << (longest - 1).bit_length(), device=positions.device)
            angle = grown.double()[:, None] / self.stretch * self.base ** (-pair / self.head_dim)
            known = self._cache[positions.device] = angle.cos().float(), angle.sin().float()
        return known[0][positions], known[1][positions]


POSITIONS = (
    *("alibi", "sinusoidal", "rotary", "learned", "none"),
    *("t5", "kerple-log", "sandwich", "fire", "decay", "forget"),
)
