"""xPos: rotary positions that decay with the distance."""

import torch
from torch import Tensor

from alibi_viz.bias import right_aligned
from alibi_viz.models.positions.rotary import Rotary

__all__ = ["Xpos"]

GAMMA, SCALE_BASE = 0.4, 512


class Xpos(Rotary):
    """Rotary positions whose pair k is also multiplied by z_k^((i - j) / 512), which decays (xPos, Sun et al. 2022).

    z_k = (2k / head_dim + 0.4) / 1.4 for the pairs k = 0, 1, ... of a head (arXiv 2212.10554, and the authors' code in
    torchscale): queries are multiplied by z_k^(i / 512) and keys by z_k^(-j / 512). Fast pairs decay most. Decoders
    only, because the factor of a key after the query would grow.

    The paper evaluates long texts with blockwise causal attention, which is not part of this class. To limit attention
    to a window of the training length, use `lab.impose_window`.

    The positions in the exponents are counted from the middle of the text, which leaves all products as they are. Up to
    32,768 tokens, the factors and the products of queries and keys of ordinary size, masked ones too, then stay within
    the range of float32 and bfloat16. Raises ValueError beyond, and when `head_dim` is odd.

    >>> Xpos(4).growth(torch.tensor([0, 512]))  # 0.4 / 1.4 for pair 0 and 0.9 / 1.4 for pair 1
    tensor([[1.0000, 1.0000, 1.0000, 1.0000],
            [0.2857, 0.6429, 0.2857, 0.6429]])
    """

    decoder_only = True
    max_length = 32_768

    def transform(self, query: Tensor, key: Tensor) -> tuple[Tensor, Tensor]:
        query_positions, key_positions = right_aligned(query.shape[-2], key.shape[-2], device=query.device)
        length = len(key_positions)
        if not self.is_defined_at(length):
            raise ValueError(f"xPos is not defined beyond {self.max_length} tokens, got {length}")
        rotated = self.rotate(query, query_positions), self.rotate(key, key_positions)
        growth = self.growth(query_positions - length // 2), self.growth(length // 2 - key_positions)
        return (rotated[0] * growth[0]).to(query.dtype), (rotated[1] * growth[1]).to(key.dtype)

    def growth(self, positions: Tensor) -> Tensor:
        """z_k^(position / 512) for both channels of each pair: float32 [positions, head_dim]."""
        pairs = torch.arange(0, self.head_dim, 2, device=positions.device, dtype=torch.float64)
        rate = ((pairs / self.head_dim + GAMMA) / (1 + GAMMA)).log() / SCALE_BASE  # [head_dim / 2]
        return (positions[:, None] * rate).exp().float().repeat(1, 2)
