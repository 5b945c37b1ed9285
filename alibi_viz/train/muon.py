"""Muon, an optimizer that turns whole matrices.

AdamW scales each number of a gradient by itself. Muon (Jordan et al. 2024,
https://kellerjordan.github.io/posts/muon) treats the gradient of a matrix as one thing: it makes
all of its singular values about equal, so that a step goes equally far in every direction, not only
in the few that dominate the gradient. Small models then need about half as many steps.

PyTorch has `torch.optim.Muon` since version 2.9. It computes in bfloat16, which is slow on CPUs
without instructions for it: there a step of training took 2.7 times as long as with AdamW. This one
computes in the dtype of the parameters.
"""

import math
from collections.abc import Callable, Iterable
from typing import Any

import torch
from torch import Tensor

# Coefficients of the polynomial that is applied to the singular values, from Jordan et al. 2024.
# They need not become 1 exactly: between 0.5 and 1.2 is near enough.
LINEAR = 3.4445
CUBIC = -4.7750
QUINTIC = 2.0315
# How often it is applied. The authors use 5; here 4 gave the same losses.
ITERATIONS = 4


class Muon(torch.optim.Optimizer):
    """Momentum, then orthogonalization, with decoupled weight decay.

    A step changes a matrix by about as much as one of AdamW with the same learning rate (Liu et al.
    2025, arXiv 2502.16982, section 2.2).

    Args:
        groups: dictionaries with "params", matrices [rows, columns], and optionally "parts": how
            many matrices of equal size each of them holds, one below the other, by default 1.
        lr: the learning rate.
        momentum: of the gradients, as in Nesterov's method.
        weight_decay: as in AdamW.

    Raises ValueError for a parameter that is not a matrix, or that doesn't have so many parts.

    >>> import torch
    >>> from alibi_viz.train.muon import Muon
    >>> weight = torch.zeros(4, 8, requires_grad=True)
    >>> optimizer = Muon([{"params": [weight]}], lr=0.1)
    >>> (weight**2 - weight).sum().backward()
    >>> optimizer.step()
    >>> bool((weight > 0).all())
    True
    """

    def __init__(
        self,
        groups: Iterable[dict[str, Any]],
        lr: float,
        momentum: float = 0.8,
        weight_decay: float = 0.1,
    ) -> None:
        defaults = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "parts": 1}
        super().__init__(groups, defaults)
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.ndim != 2 or len(parameter) % group["parts"]:
                    raise ValueError(
                        f"params must be {group['parts']} matrices [rows, columns] below each "
                        f"other, got shape {list(parameter.shape)}"
                    )

    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> None:  # type: ignore[override]
        """Change all matrices by their gradients. A `closure` is not supported."""
        if closure is not None:
            raise ValueError("closure must be None: Muon reads the gradients once")
        for group in self.param_groups:
            shrink = 1 - group["lr"] * group["weight_decay"]
            trained = [matrix for matrix in group["params"] if matrix.grad is not None]
            for same_shape in _by_shape(trained):
                # Matrices of one shape are orthogonalized together, which is faster.
                gradients = [self._with_momentum(matrix, group) for matrix in same_shape]
                stacked = torch.stack(gradients).unflatten(1, (group["parts"], -1))
                updates = orthogonalized(stacked)
                # An orthogonal matrix has a root mean square of 1 / sqrt(the longer side).
                # AdamW's updates have one of 0.2 to 0.4.
                scale = 0.2 * math.sqrt(max(stacked.shape[-2:]))
                for matrix, update in zip(same_shape, updates.flatten(1, 2), strict=True):
                    matrix.mul_(shrink).add_(update, alpha=-group["lr"] * scale)

    def _with_momentum(self, matrix: Tensor, group: dict[str, Any]) -> Tensor:
        """The gradient of a matrix, mixed with the mean of the earlier ones."""
        gradient = matrix.grad
        assert gradient is not None
        state = self.state[matrix]
        if not state:
            state["mean"] = torch.zeros_like(gradient)
        mean = state["mean"].lerp_(gradient, 1 - group["momentum"])
        return gradient.lerp(mean, group["momentum"])


def _by_shape(matrices: Iterable[Tensor]) -> Iterable[list[Tensor]]:
    """The matrices, in lists of equal shape."""
    lists: dict[torch.Size, list[Tensor]] = {}
    for matrix in matrices:
        lists.setdefault(matrix.shape, []).append(matrix)
    return lists.values()


def orthogonalized(matrices: Tensor) -> Tensor:
    """Matrices with the same singular vectors, and singular values of about 1 instead.

    Float [..., rows, columns] to the same shape. It multiplies matrices only, which is faster than
    a singular value decomposition ("Newton-Schulz iteration"). Zeros stay zeros.

    >>> import torch
    >>> from alibi_viz.train.muon import orthogonalized
    >>> matrix = torch.tensor([[3.0, 0.0], [0.0, 0.3]])
    >>> print(orthogonalized(matrix).round(decimals=1))
    tensor([[1.1000, 0.0000],
            [0.0000, 1.1000]])
    """
    is_tall = matrices.shape[-2] > matrices.shape[-1]
    wide = matrices.mT if is_tall else matrices  # for the smaller product with its transpose
    x = wide.reshape(-1, *wide.shape[-2:])
    # The sum of squares bounds the largest singular value by 1.
    x = x / torch.linalg.matrix_norm(x, keepdim=True).clamp(min=1e-7)
    for _ in range(ITERATIONS):
        # LINEAR x + (CUBIC gram + QUINTIC gram gram) x
        gram = x @ x.mT
        factor = torch.baddbmm(gram, gram, gram, beta=CUBIC, alpha=QUINTIC)
        x = torch.baddbmm(x, factor, x, beta=LINEAR)
    x = x.reshape(wide.shape)
    return x.mT if is_tall else x
