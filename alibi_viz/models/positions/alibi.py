"""ALiBi, with fixed or learned slopes."""

from typing import Any

from torch import Tensor

from alibi_viz.attention import alibi_attention
from alibi_viz.bias import AlibiBias, alibi_bias
from alibi_viz.models.config import TransformerConfig
from alibi_viz.models.positions.base import Position
from alibi_viz.slopes import LearnedSlopes

__all__ = ["Alibi"]


class Alibi(Position):
    """Bias -m (i - j) with one slope m per head (Press et al. 2021); encoders use -m |i - j|.

    Args:
        num_heads: number of heads.
        causal: False for an encoder.
        scheme: slopes, as in `alibi_slopes`.
        slopes: [heads], instead of a scheme.
        learned: make the slopes trainable, starting at these values.
    """

    uses_key_ball = True

    def __init__(
        self,
        num_heads: int,
        *,
        causal: bool = True,
        scheme: str = "official",
        slopes: Tensor | None = None,
        learned: bool = False,
    ) -> None:
        super().__init__()
        form = "relative" if causal else "symmetric"
        self.cached_bias = AlibiBias(num_heads, scheme=scheme, form=form, slopes=slopes)
        self.learned = LearnedSlopes(self.cached_bias.slopes) if learned else None

    @classmethod
    def from_config(cls, config: TransformerConfig) -> "Alibi":
        return cls(config.num_heads, causal=config.causal, slopes=config.slopes(), learned=config.learned_slopes)

    @property
    def slopes(self) -> Tensor:
        """float32 [heads]"""
        return self.cached_bias.slopes if self.learned is None else self.learned()

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        if self.learned is None:
            return self.cached_bias(query_length, key_length)
        return alibi_bias(self.slopes, query_length, key_length, form=self.cached_bias.form)

    def attend(self, query: Tensor, key: Tensor, value: Tensor, *, x: Tensor | None = None, **options: Any) -> Tensor:
        """As `Position.attend`; `options` are those of `alibi_attention`, such as `key_padding_mask`."""
        return alibi_attention(query, key, value, self.slopes, **options)
