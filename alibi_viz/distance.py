"""Where tokens are, and how far apart: the integers that a bias is made of.

Everything here is integer arithmetic (the Euclidean distance excepted), because rounding positions is the
commonest way to get ALiBi wrong in half precision.
"""

import torch
from torch import Tensor

__all__ = ["causal_mask", "fitting_lengths", "grid_distance", "is_integer", "right_aligned"]


def right_aligned(
    query_length: int, key_length: int | None = None, *, device: torch.device | str | None = None
) -> tuple[Tensor, Tensor]:
    """Positions of queries [query] and keys [key], int64: the queries are the last of the keys.

    This is what decoding with a cache needs: one new query against ten keys sits at position 9, not at 0.
    Raises TypeError or ValueError when a length is not an integer, is negative, or leaves a query without its key.

    >>> right_aligned(2, 5)
    (tensor([3, 4]), tensor([0, 1, 2, 3, 4]))
    """
    key_length = fitting_lengths(query_length, key_length)
    keys = torch.arange(key_length, device=device)
    return keys[key_length - query_length :], keys


def fitting_lengths(query_length: int, key_length: int | None = None) -> int:
    """The key length, the same as the query length by default; raises as `right_aligned` does."""
    key_length = query_length if key_length is None else key_length
    for name, value in (("query_length", query_length), ("key_length", key_length)):
        if isinstance(value, bool) or not isinstance(value, int | torch.SymInt):
            raise TypeError(f"{name} must be an integer, got {value!r}")
        if value < 0:
            raise ValueError(f"{name} must be 0 or more, got {value}")
    if query_length > key_length:
        raise ValueError(
            f"queries are the last positions of the keys, so query_length must be at most key_length={key_length}, "
            f"got {query_length}"
        )
    return key_length


def causal_mask(
    query_length: int, key_length: int | None = None, *, device: torch.device | str | None = None
) -> Tensor:
    """True where query i may see key j, that is j <= i, with right-aligned queries: bool [query, key].

    >>> causal_mask(2, 3)
    tensor([[ True,  True, False],
            [ True,  True,  True]])
    """
    queries, keys = right_aligned(query_length, key_length, device=device)
    return keys[None, :] <= queries[:, None]


def grid_distance(height: int, width: int, metric: str = "manhattan") -> Tensor:
    """Distance between every two patches of an image read row by row: float32 [height * width, height * width].

    `metric` is "manhattan" (rows plus columns) or "euclidean". data2vec 2.0 uses both as `-m * distance` for images.
    Raises ValueError for another metric or a negative size, TypeError for one that is no integer.

    >>> grid_distance(2, 2)
    tensor([[0., 1., 1., 2.],
            [1., 0., 2., 1.],
            [1., 2., 0., 1.],
            [2., 1., 1., 0.]])
    """
    if metric not in ("manhattan", "euclidean"):
        raise ValueError(f"metric must be 'manhattan' or 'euclidean', got {metric!r}")
    for name, value in (("height", height), ("width", width)):
        if isinstance(value, bool) or not isinstance(value, int):
            raise TypeError(f"{name} must be an integer, got {value!r}")
    if height < 0 or width < 0:
        raise ValueError(f"height and width must be 0 or more, got {height} and {width}")
    patches = torch.cartesian_prod(torch.arange(height), torch.arange(width)).reshape(height * width, 2)
    offset = (patches[:, None, :] - patches[None, :, :]).float()
    return torch.linalg.vector_norm(offset, 1 if metric == "manhattan" else 2, dim=-1)


def is_integer(dtype: torch.dtype) -> bool:
    """Whether a dtype counts: any width, signed or not, but neither bool nor complex."""
    return not (dtype.is_floating_point or dtype.is_complex or dtype == torch.bool)
