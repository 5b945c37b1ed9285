"""Positions of tokens, causal masks, and distances between the patches of an image.

Positions are integers, because rounded ones are the most common ALiBi bug in half precision: bfloat16 cannot represent
257.
"""

import torch
from torch import Tensor

from alibi_viz.arguments import check_integer

__all__ = ["causal_mask", "check_lengths", "grid_distance", "right_aligned"]


def right_aligned(
    query_length: int, key_length: int | None = None, *, device: torch.device | str | None = None
) -> tuple[Tensor, Tensor]:
    """Positions of queries [query] and keys [key], int64. The queries are the last positions of the keys.

    This is what decoding with a cache needs: a single new query with ten keys has position 9, not 0. Raises TypeError
    for a length that is not an integer, and ValueError for a negative one or more queries than keys.

    >>> right_aligned(2, 5)
    (tensor([3, 4]), tensor([0, 1, 2, 3, 4]))
    """
    key_length = check_lengths(query_length, key_length)
    keys = torch.arange(key_length, device=device)
    return keys[key_length - query_length :], keys


def check_lengths(query_length: int, key_length: int | None = None) -> int:
    """Return the key length, which defaults to the query length. Raises as `right_aligned` does."""
    key_length = query_length if key_length is None else key_length
    check_integer("query_length", query_length, 0)
    check_integer("key_length", key_length, 0)
    if query_length > key_length:
        raise ValueError(
            f"queries are the last positions of the keys, so query_length must be at most key_length={key_length}, "
            f"got {query_length}"
        )
    return key_length


def causal_mask(
    query_length: int, key_length: int | None = None, *, device: torch.device | str | None = None
) -> Tensor:
    """True where query i may attend to key j, that is j <= i: bool [query, key]. The queries are the last keys.

    >>> causal_mask(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    queries, keys = right_aligned(query_length, key_length, device=device)
    return keys[None, :] <= queries[:, None]


def grid_distance(height: int, width: int, metric: str = "manhattan") -> Tensor:
    """Pairwise distances of the patches of an image: float32 [height * width, height * width], in row-major order.

    `metric` is "manhattan" (rows plus columns) or "euclidean"; data2vec 2.0 uses both for images. Raises TypeError for
    a size that is not an integer, and ValueError for a negative one or another metric.

    >>> grid_distance(2, 2)
    tensor([[0., 1., 1., 2.],
            [1., 0., 2., 1.],
            [1., 2., 0., 1.],
            [2., 1., 1., 0.]])
    """
    if metric not in ("manhattan", "euclidean"):
        raise ValueError(f"metric must be 'manhattan' or 'euclidean', got {metric!r}")
    check_integer("height", height, 0)
    check_integer("width", width, 0)
    patches = torch.cartesian_prod(torch.arange(height), torch.arange(width)).reshape(height * width, 2)
    offset = (patches[:, None, :] - patches[None, :, :]).float()
    return torch.linalg.vector_norm(offset, 1 if metric == "manhattan" else 2, dim=-1)
