"""What the checker learns from calling a function: the attention weights at equal content, for one set of sizes."""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

__all__ = ["SHORT", "Observation", "Precision", "Probe", "precision", "probes"]

SHORT = 16  # keys of the small calls
_MAX_SQUARE = 512
_SOME_ROWS = 8


class Probe(NamedTuple):
    """The sizes of one call. The queries are the last positions of the keys."""

    num_heads: int
    query_length: int
    key_length: int

    def __str__(self) -> str:
        heads = "1 head" if self.num_heads == 1 else f"{self.num_heads} heads"
        queries = "1 query" if self.query_length == 1 else f"{self.query_length} queries"
        keys = "1 key" if self.key_length == 1 else f"{self.key_length} keys"
        return f"{heads}, {queries}, {keys}"


def probes(num_heads: Sequence[int], decoding: bool, length: int) -> list[Probe]:
    """The calls of a check: a short one per head count; with the first, also two with few queries, and a long one."""
    first = num_heads[0]
    calls = [Probe(heads, SHORT, SHORT) for heads in num_heads]
    if decoding:
        calls += [Probe(first, 1, SHORT), Probe(first, 5, SHORT)]
    if length > SHORT:
        # With many keys a few queries are enough, and save memory: positions that collide do so for every query.
        calls.append(Probe(first, SHORT if decoding and length > _MAX_SQUARE else length, length))
    return calls


class Precision(NamedTuple):
    """How exactly logarithms of weights can be read in a dtype: `absolute + relative * size`, above `floor`."""

    absolute: float
    relative: float
    floor: float


def precision(dtype: torch.dtype) -> Precision:
    """The precision with which correct implementations in `dtype` reproduce log weights.

    A few units in the last place: half precision rounds the logits, -m (i - j) included, and then the weights. Weights
    that are too small to change an output of the dtype may be left out.
    """
    if dtype == torch.bfloat16:
        return Precision(2**-5, 2**-7, -8.0)
    if dtype == torch.float16:
        return Precision(2**-7, 2**-9, -8.0)  # much smaller weights are subnormal
    return Precision(2e-4, 5e-5, -16.0)


@dataclass(frozen=True, eq=False)
class Observation:
    """The attention weights of a function at equal content, for one call.

    Attributes:
        probe: the sizes of the call.
        logits: float64 [heads, query, key], up to a constant per row; -inf where a key is masked or its weight is too
            small for the dtype.
        dtype: the dtype of what the function returned.
        floor: log weights below this are not compared.
    """

    probe: Probe
    logits: Tensor
    dtype: torch.dtype
    floor: float

    @cached_property
    def log_weights(self) -> Tensor:
        """The logarithm of the weights, float64 [heads, query, key], at least `floor`."""
        return self.normalize(self.logits)

    @property
    def weights(self) -> Tensor:
        return self.log_weights.exp()

    def normalize(self, bias: Tensor) -> Tensor:
        """The log weights of a bias [heads, query, key] at equal content, at least `floor`.

        Rows that differ by a constant become equal here, and so do a mask of -inf and one of the lowest number.
        """
        return bias.double().log_softmax(-1).nan_to_num(nan=self.floor).clamp(min=self.floor)

    @property
    def some_rows(self) -> list[int]:
        """A few rows from the first to the last: most wrong explanations can be rejected by these."""
        last = self.probe.query_length - 1
        return sorted({round(last * part / (_SOME_ROWS - 1)) for part in range(_SOME_ROWS)})

    def agrees(self, bias: Tensor, rows: slice | list[int] = slice(None)) -> bool:
        """Whether the weights in these rows are those of `bias` [heads, rows, key], within the precision of the dtype.

        Queries that see no key are not compared: their weights are undefined.
        """
        expected = self.normalize(bias)
        absolute, relative, _ = precision(self.dtype)
        size = torch.maximum(expected.abs(), bias.nan_to_num(neginf=0.0).abs())  # large before softmax: rounded by more
        is_close = (self.log_weights[:, rows] - expected).abs() <= absolute + relative * size
        return bool((is_close | bias.isneginf().all(-1, keepdim=True)).all())

    def largest_difference(self, bias: Tensor) -> tuple[float, tuple[int, int, int]]:
        """The largest difference of a weight from those of `bias`, and its (head, query, key).

        If no weight differs visibly, it is the largest difference of their logarithms.
        """
        difference = (self.weights - self.normalize(bias).exp()).abs()
        if float(difference.max()) < 1e-3:
            difference = (self.log_weights - self.normalize(bias)).abs()
        head, query, key = (int(axis) for axis in np.unravel_index(int(difference.argmax()), difference.shape))
        return float(difference[head, query, key]), (head, query, key)
