"""Token positions and the distances between them, as integers.

Only the Euclidean distance is a float. Rounded positions are the most common ALiBi bug in half precision: bfloat16
cannot represent 257.
"""

import torch
from torch import Tensor

__all__ = ["causal_mask", "check_lengths", "grid_distance", "is_integer", "right_aligned"]


def right_aligned(
    query_length: int, key_length: int | None = None, *, device: torch.device | str | None = None
) -> tuple[Tensor, Tensor]:
    """Positions of queries [query] and keys [key], int64; the queries are at the last key positions.

    This is what decoding with a cache needs: a single new query with ten keys has position 9, not 0.

    Raises:
        TypeError: a length is not an integer.
        ValueError: a length is negative, or there are more queries than keys.

    >>> right_aligned(2, 5)
    (tensor([3, 4]), tensor([0, 1, 2, 3, 4]))
    """
    key_length = check_lengths(query_length, key_length)
    keys = torch.arange(key_length, device=device)
    return keys[key_length - query_length :], keys


def check_lengths(query_length: int, key_length: int | None = None) -> int:
    """Return the key length, which defaults to the query length. Raises as `right_aligned` does."""
    key_length = query_length if key_length is None else key_length
    _check_length("query_length", query_length)
    _check_length("key_length", key_length)
    if query_length > key_length:
        raise ValueError(
            f"queries are the last positions of the keys, so query_length must be at most key_length={key_length}, "
            f"got {query_length}"
        )
    return key_length


def causal_mask(
    query_length: int, key_length: int | None = None, *, device: torch.device | str | None = None
) -> Tensor:
    """True where query i may attend to key j, that is j <= i; bool [query, key]. The queries are at the last positions.

    >>> causal_mask(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    queries, keys = right_aligned(query_length, key_length, device=device)
    return keys[None, :] <= queries[:, None]


def grid_distance(height: int, width: int, metric: str = "manhattan") -> Tensor:
    """Pairwise distances of the patches of an image: float32 [height * width, height * width], in row-major order.

    `metric` is "manhattan" (rows plus columns) or "euclidean". data2vec 2.0 uses `-m * distance` with both for images.

    Raises:
        TypeError: height or width is not an integer.
        ValueError: height or width is negative, or the metric is unknown.

    >>> grid_distance(2, 2)
    tensor([[0., 1., 1., 2.],
            [1., 0., 2., 1.],
            [1., 2., 0., 1.],
            [2., 1., 1., 0.]])
    """
    if metric not in ("manhattan", "euclidean"):
        raise ValueError(f"metric must be 'manhattan' or 'euclidean', got {metric!r}")
    _check_length("height", height)
    _check_length("width", width)
    patches = torch.cartesian_prod(torch.arange(height), torch.arange(width)).reshape(height * width, 2)
    offset = (patches[:, None, :] - patches[None, :, :]).float()
    return torch.linalg.vector_norm(offset, 1 if metric == "manhattan" else 2, dim=-1)


def is_integer(dtype: torch.dtype) -> bool:
    """True for integer dtypes, signed or unsigned; not for bool."""
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)


def _check_length(name: str, value: int) -> None:
    if isinstance(value, bool) or not isinstance(value, int | torch.SymInt):
        raise TypeError(f"{name} must be an integer, got {value!r}")
    if value < 0:
        raise ValueError(f"{name} must be 0 or more, got {value}")
