"""Settings of a transformer."""

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from alibi_viz.arguments import (
    check_choice,
    check_dropout,
    check_flag,
    check_number,
    check_positive,
    check_positive_integers,
)
from alibi_viz.models.positions.methods import Method, check_method, method_name
from alibi_viz.models.positions.rotary import BASE
from alibi_viz.slopes import SCHEMES, alibi_slopes


@dataclass(frozen=True)
class TransformerConfig:
    """Settings of a `Transformer`.

    Attributes:
        num_layers, d_model, num_heads: sizes; `d_model` is a multiple of `num_heads`.
        dropout: probability, applied to attention weights, residual branches and token vectors.
        causal: True for a decoder, False for an encoder.
        position: a position method: a name in `POSITIONS`, or your own law or class, see
            `models.positions.methods`.
        scheme, slope_scale: the slopes of ALiBi, as in `alibi_slopes`, and their factor, such as
            2, 4 or 8 to try on short sequences; "forget" starts at them.
        learned_slopes: make the slopes of ALiBi trainable.
        rotary_base: of "rotary", whose pairs of channels turn by base^(-2k / head_dim) per token; a
            small base makes all of them fast.
        max_length: the training length: the table size of "learned" and the scale of other methods
            that have one.
        expansion_factor: hidden width of the feed-forward layers, as a multiple of `d_model`.
        vocabulary: number of token ids, for a `LanguageModel` (256: bytes).

    Raises TypeError or ValueError for a value that is of another type, out of range or does not fit
    the others. What only a position method asks for, such as the even `head_dim` of "rotary", is
    checked when the model is made.
    """

    num_layers: int = 6
    d_model: int = 256
    num_heads: int = 8
    dropout: float = 0.1
    causal: bool = True
    position: Method = "alibi"
    scheme: str = "official"
    slope_scale: float = 1.0
    learned_slopes: bool = False
    rotary_base: float = BASE
    max_length: int = 256
    expansion_factor: int = 4
    vocabulary: int = 256

    def __post_init__(self) -> None:
        check_positive_integers(
            num_layers=self.num_layers,
            d_model=self.d_model,
            num_heads=self.num_heads,
            max_length=self.max_length,
            expansion_factor=self.expansion_factor,
            vocabulary=self.vocabulary,
        )
        if self.d_model % self.num_heads:
            raise ValueError(
                f"d_model={self.d_model} must be a multiple of num_heads={self.num_heads}"
            )
        check_dropout(self.dropout)
        check_positive("slope_scale", self.slope_scale)
        # Slopes are below 1 before they are multiplied.
        largest_scale = torch.finfo(torch.float32).max
        if self.slope_scale > largest_scale:
            raise ValueError(
                f"slope_scale must be at most {largest_scale:.5g}, beyond which slopes are "
                f"infinite in float32, got {self.slope_scale!r}"
            )
        check_number(
            "rotary_base",
            self.rotary_base,
            "a finite number above 1",
            lambda base: 1 < base < math.inf,
        )
        check_method("position", self.position)
        check_choice("scheme", self.scheme, SCHEMES)
        check_flag("causal", self.causal)
        check_flag("learned_slopes", self.learned_slopes)

    @property
    def head_dim(self) -> int:
        return self.d_model // self.num_heads

    @property
    def method(self) -> str:
        """The name of the position method."""
        return method_name(self.position)

    @property
    def slopes(self) -> Tensor:
        """The slopes of the scheme times `slope_scale`: float32 [heads].

        They are on the CPU, also for a model on "meta".
        """
        with torch.device("cpu"):
            return self.slope_scale * alibi_slopes(self.num_heads, self.scheme)
