"""Get arrays into figures: from tensors, and without updating what has not changed."""

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, DTypeLike, NDArray
from torch import Tensor


def as_array(values: ArrayLike | Tensor, dtype: DTypeLike = np.float64) -> NDArray[Any]:
    """`np.asarray`, also for tensors that require gradients, are on a GPU or have a dtype unknown to NumPy.

    >>> as_array(torch.ones(2, dtype=torch.bfloat16, requires_grad=True))
    array([1., 1.])
    """
    if isinstance(values, Tensor):
        values = values.detach().cpu()
        values = values.double() if values.is_floating_point() else values  # NumPy has no bfloat16
    return np.asarray(values, dtype=dtype)


def with_gaps(values: ArrayLike | Tensor, masked: ArrayLike | None = None) -> NDArray[np.object_]:
    """The z of a heatmap: None where a cell is masked, or NaN if there is no mask. plotly would send NaN as text."""
    cells = as_array(values)
    gaps: NDArray[np.object_] = cells.astype(object)
    gaps[np.isnan(cells) if masked is None else np.asarray(masked)] = None
    return gaps


def update_changed(target: Any, **properties: Any) -> None:
    """`target.update(**properties)` for a plotly object, without the properties that have these values already.

    plotly validates every value that it is given, equal or not: 0.2 ms each.
    """
    for name, value in properties.items():
        if not np.array_equal(target[name], value):
            target[name] = value
