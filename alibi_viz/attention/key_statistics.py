"""What the windows of attention depend on besides the queries: a ball that contains all keys."""

import math
from typing import NamedTuple

import torch
from torch import Tensor

from alibi_viz.bias import exact_dtype

__all__ = ["ROUNDING", "KeyStatistics"]

ROUNDING = 1e-5  # all bounds are widened by this share, which exceeds the rounding error of float32 here


class KeyStatistics(NamedTuple):
    """A ball that contains all keys. `KeyValueCache.statistics` updates it as the cache grows.

    Attributes:
        center: [batch, key_heads, 1, head_dim], float32, or float64 for keys in float64.
        radius: [batch, key_heads], the largest distance of a key from the center; inf if a key or value is not finite.
    """

    center: Tensor
    radius: Tensor

    @classmethod
    def of(cls, key: Tensor, value: Tensor, center: Tensor | None = None) -> "KeyStatistics":
        """The statistics of keys and values, each [batch, key_heads, key, head_dim].

        Any center is valid. The default is the mean of every 16th key.

        >>> key = torch.tensor([0.0, 2.0]).reshape(1, 1, 2, 1)
        >>> av.KeyStatistics.of(key, key, center=torch.ones(1, 1, 1, 1)).radius
        tensor([[1.0000]])
        """
        dtype = exact_dtype(key.dtype)
        if center is None:
            center = key[:, :, ::16].mean(2, keepdim=True, dtype=dtype)
        radii = [_radius(head.to(dtype), center[:, index]) for index, head in enumerate(key.unbind(1))]
        radius = torch.stack(radii, dim=1)
        return cls(center, radius.masked_fill(~(radius + value.sum((2, 3), dtype=dtype)).isfinite(), math.inf))

    def including(self, key: Tensor, value: Tensor) -> "KeyStatistics":
        """The statistics with more keys and values, each [batch, key_heads, new, head_dim]."""
        return KeyStatistics(self.center, self.radius.maximum(KeyStatistics.of(key, value, self.center).radius))


def _radius(key: Tensor, center: Tensor) -> Tensor:
    """[batch]: at least the largest distance of the keys [batch, key, head_dim] from the center [batch, 1, head_dim].

    The second term is the rounding error of keys far from zero.
    """
    return (key - center).norm(dim=-1).amax(-1) + ROUNDING * center.norm(dim=-1)[:, 0]
