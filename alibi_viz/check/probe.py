"""Learn the attention weights of a function by calling it with chosen inputs.

A call has three sizes, a `Probe`. What it shows is an `Observation`: the weights at equal content,
where only the bias counts. A bias function returns its logits. An attention function returns only
its output, but with zero queries all content is equal, and with one-hot values the output is the
weights themselves.
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from alibi_viz.bias import causal_mask
from alibi_viz.check.call import Unusable, call, count, to_tensor
from alibi_viz.memory import check_memory

SHORT = 16  # keys of the small calls
_MAX_SQUARE = 512
_BATCH = 3
_BIAS_FLOOR = -60.0  # of the log weights of a bias; e^-60 is far below what float32 can add to 1


class Probe(NamedTuple):
    """The sizes of one call. The queries are the last positions of the keys."""

    num_heads: int
    query_length: int
    key_length: int

    def __str__(self) -> str:
        return ", ".join(map(count, self, ("head", "query", "key")))


def probes(num_heads: Sequence[int], decoding: bool, length: int) -> list[Probe]:
    """The calls of a check: a short one per head count; with the first, also some with few queries,
    and a long one."""
    first = num_heads[0]
    calls = [Probe(heads, SHORT, SHORT) for heads in num_heads]
    if decoding:
        calls += [Probe(first, 1, SHORT), Probe(first, 5, SHORT)]
        calls += [Probe(first, 1, length)] * (length > SHORT)
    if length > SHORT:
        # With many keys a few queries are enough, and save memory: positions that collide do so for
        # every query.
        calls.append(Probe(first, SHORT if decoding and length > _MAX_SQUARE else length, length))
    queries = calls[-1].query_length
    check_memory(
        "length", length, lambda keys: 32 * first * keys * (keys if queries == length else queries)
    )
    return calls


class Precision(NamedTuple):
    """How exactly logarithms of weights can be read in a dtype: `absolute + relative * size`, above
    `floor`."""

    absolute: float
    relative: float
    floor: float


def precision(dtype: torch.dtype) -> Precision:
    """How exactly correct implementations in `dtype` reproduce log weights: to a few units in the
    last place."""
    half = {
        torch.bfloat16: Precision(2**-5, 2**-7, -8.0),
        torch.float16: Precision(2**-7, 2**-9, -8.0),
    }
    return half.get(dtype, Precision(2e-4, 5e-5, -16.0))


@dataclass(frozen=True, eq=False)
class Observation:
    """The attention weights of a function at equal content, for one call."""

    probe: Probe
    logits: (
        Tensor  # float64 [heads, query, key], up to a constant per row; -inf where a key is masked
    )
    precision: Precision

    @cached_property
    def log_weights(self) -> Tensor:
        """The logarithm of the weights, float64 [heads, query, key], at least the floor of the
        precision."""
        return self.normalize(self.logits)

    @property
    def weights(self) -> Tensor:
        return self.log_weights.exp()

    @property
    def visible(self) -> Tensor:
        """The keys that the last query sees, bool [heads, key]."""
        return self.log_weights[:, -1] > self.precision.floor

    @property
    def last_key(self) -> Tensor:
        """How many keys there are up to the last one that the last query sees, int64 [heads]."""
        return (self.visible * torch.arange(1, self.probe.key_length + 1)).amax(-1)

    @property
    def cap(self) -> int | None:
        """The distance from which on the bias of the last query is constant, if there is one."""
        step = self.log_weights[:, -1].flip(-1).diff(dim=-1).abs().amax(0)
        moving = (step > self.precision.absolute / 10).nonzero()
        cap = int(moving.max()) + 1 if len(moving) else 0
        return cap if 0 < cap < self.probe.key_length - 1 else None

    def normalize(self, bias: Tensor) -> Tensor:
        """The log weights of a bias [heads, query, key]: here rows that differ by a constant become
        equal."""
        floor = self.precision.floor
        return bias.double().log_softmax(-1).nan_to_num(nan=floor).clamp(min=floor)

    def agrees(self, bias: Tensor, rows: slice | list[int] = slice(None)) -> bool:
        """Whether the weights in these rows are those of `bias` [heads, rows, key], where a query
        sees any key."""
        expected = self.normalize(bias)
        size = torch.maximum(
            expected.abs(), bias.nan_to_num(neginf=0.0).abs()
        )  # large before softmax: rounded by more
        rounded = 2.0**-22 * bias.nan_to_num(neginf=0.0).abs().amax(
            (-2, -1), keepdim=True
        )  # m j, for any form
        tolerance = self.precision.absolute + self.precision.relative * size + rounded
        is_close = (self.log_weights[:, rows] - expected).abs() <= tolerance
        return bool((is_close | bias.isneginf().all(-1, keepdim=True)).all())

    def largest_difference(self, bias: Tensor) -> tuple[float, tuple[int, int, int]]:
        """The largest difference of a weight from those of `bias`, or else of its logarithm; its
        (head, query, key)."""
        difference = (self.weights - self.normalize(bias).exp()).abs()
        if float(difference.max()) < 1e-3:
            difference = (self.log_weights - self.normalize(bias)).abs()
        head, query, key = map(int, np.unravel_index(int(difference.argmax()), difference.shape))
        return float(difference.max()), (head, query, key)


def read_bias(
    function: Callable[..., Any],
    probe: Probe,
    causal: bool,
    seconds: float,
    read_dtype: torch.dtype = torch.float32,
) -> Observation:
    """What a bias function gives for these sizes, read as exactly as its dtype and `read_dtype`
    are.

    Raises Unusable if the function fails, or returns something that isn't a bias of these sizes.
    """
    value, dtype = to_tensor(
        call(function, *probe, seconds=seconds, description=str(probe)), str(probe)
    )
    visible = causal_mask(probe.query_length, probe.key_length)
    visible = visible if causal else torch.ones_like(visible)
    logits = _to_heads(value, probe, visible).masked_fill(~visible, -math.inf)
    return Observation(
        probe, logits, precision(_coarser(dtype, read_dtype))._replace(floor=_BIAS_FLOOR)
    )


def _coarser(*dtypes: torch.dtype) -> torch.dtype:
    return max(dtypes, key=lambda dtype: torch.finfo(dtype).eps)


def _to_heads(bias: Tensor, probe: Probe, visible: Tensor) -> Tensor:
    """Expand a bias to [heads, query, key]. Further heads must be without a bias where it counts,
    and are dropped."""
    shape = list(bias.shape)
    while bias.ndim > 3 and bias.shape[0] == 1:
        bias = bias[0]
    try:
        if bias.ndim == 3 and len(bias) > probe.num_heads:
            further = bias[probe.num_heads :].expand(-1, probe.query_length, probe.key_length)
            highest = further.masked_fill(~visible, -math.inf).amax(-1)
            if bool((highest == further.masked_fill(~visible, math.inf).amin(-1)).all()):
                bias = bias[: probe.num_heads]
        return bias.expand(probe)
    except RuntimeError:
        raise Unusable(
            "wrong shape", f"{probe}: returned {shape}, expected {list(probe)}"
        ) from None


@dataclass
class AttentionReader:
    """An attention function (query, key, value) -> output whose weights can be read.

    Its arguments are those of `check.attention`. `read_dtype` is the coarsest dtype in which the
    function may round: that of its arguments or of an output, unless a coarser one is given.
    """

    function: Callable[..., Any]
    layout: str = "bhld"
    head_dim: int = 64
    dtype: torch.dtype = torch.float32
    convert: Callable[[Tensor], Any] = Tensor.detach
    seconds: float = 60.0
    read_dtype: torch.dtype = torch.float32

    def __post_init__(self) -> None:
        self._coarsen(self.dtype)

    def _coarsen(self, dtype: torch.dtype) -> None:
        self.read_dtype = _coarser(self.read_dtype, dtype)
        self.precision = precision(self.read_dtype)  # with which weights can be read

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, *mask: Tensor) -> Tensor:
        """The output for inputs [batch, heads, length, head_dim], in float64; a mask is bool
        [batch, key]."""
        inputs = query, key, value, *mask
        if "b" in self.layout:
            return self._call("bhld", *inputs)
        return torch.stack([self._call("hld", *sequence) for sequence in zip(*inputs, strict=True)])

    def _call(self, axes: str, query: Tensor, key: Tensor, value: Tensor, *mask: Tensor) -> Tensor:
        probe = Probe(query.shape[-3], query.shape[-2], key.shape[-2])
        inputs = [  # clones, because the function may change its arguments
            torch.einsum(f"{axes}->{self.layout}", tensor.to(self.dtype)).clone(
                memory_format=torch.contiguous_format
            )
            for tensor in (query, key, value)
        ]
        shape = inputs[0].shape
        inputs += [each.clone() for each in mask]
        run = lambda *given: self.function(*map(self.convert, given))  # noqa: E731  # what `convert` raises is a finding
        result = call(run, *inputs, seconds=self.seconds, description=str(probe))
        output, dtype = to_tensor(result, str(probe), nan=bool(mask))
        if output.shape != shape:
            expected = f"{list(shape)} ({', '.join(self.layout)})"
            raise Unusable(
                "wrong shape", f"{probe}: returned {list(output.shape)}, expected {expected}"
            )
        self._coarsen(dtype)
        return torch.einsum(f"{self.layout}->{axes}", output)

    def output(
        self, probe: Probe, *mask: Tensor, query: Tensor | None = None, key: Tensor | None = None
    ) -> Tensor:
        """The output for one-hot values, which is the weights in equal sequences: float32 [3,
        heads, query, key]."""
        heads, query_length, key_length = probe
        # All positions and heads share one query [head_dim]. Zeros make all content equal, whatever
        # the keys are.
        query = torch.zeros(self.head_dim) if query is None else query
        key = (
            torch.randn(key_length, self.head_dim, generator=torch.Generator().manual_seed(0))
            if key is None
            else key
        )
        # One-hot values for as many keys as fit into head_dim; further keys need further calls.
        one_hot, starts = torch.eye(key_length, self.head_dim), range(0, key_length, self.head_dim)
        inputs = query.expand(_BATCH, heads, query_length, -1), key.expand(_BATCH, heads, -1, -1)
        blocks = (one_hot.roll(start, dims=0).expand(_BATCH, heads, -1, -1) for start in starts)
        return torch.cat([self(*inputs, block, *mask).float() for block in blocks], dim=-1)[
            ..., :key_length
        ]

    def weights(
        self, probe: Probe, query: Tensor | None = None, key: Tensor | None = None
    ) -> Tensor:
        """`output` without a mask. Raises Unusable if a row is not a weighted average."""
        weights = self.output(probe, query=query, key=key)
        total = weights.sum(-1)
        worst = float(total.flatten()[(total - 1).abs().argmax()])
        tolerance = max(self.precision.absolute, 4e-3)  # sums of weights that were rounded inside
        if float(weights.min()) < -tolerance or abs(worst - 1) > tolerance:
            found = (
                f"the weights of a query add up to {worst:.4g}, and the smallest is "
                f"{float(weights.min()):.3g}"
            )
            message = (
                f"{probe}: with one-hot values, {found}; expected a sum of 1 and no negative weight"
            )
            raise Unusable("not a weighted average", message)
        return weights

    def observe(self, probe: Probe) -> Observation:
        """The weights at equal content. Raises Unusable if they cannot be read, or differ within a
        batch."""
        weights = self.weights(probe)
        if (difference := float((weights - weights[0]).abs().max())) > self.precision.absolute:
            raise Unusable(
                "batch rows mixed", f"{probe}: equal sequences differ by {difference:.3g}"
            )
        return Observation(probe, weights[0].clamp(min=0).log(), self.precision)

    def content_factor(self, probe: Probe) -> float:
        """The factor of q . k, relative to 1 / sqrt(head_dim). Every third key gets a content, the
        others none.

        The log weight of a key changes by its content, and by a constant of the row, which the
        other keys show. Raises Unusable if the factor depends on the position.
        """
        base, smallest = self.weights(probe), math.exp(max(self.precision.floor, -15.0))
        direction = torch.randn(self.head_dim, generator=torch.Generator().manual_seed(0))
        matching = torch.arange(probe.key_length) % 3 == 1
        for content in (1.0, 0.1):  # a small one for functions that don't scale it
            query = content * direction * self.head_dim**0.5 / direction.square().sum()
            changed = self.weights(
                probe, query, matching[:, None] * direction
            )  # [sequence, heads, query, key]
            readable = (changed > smallest) & (base > smallest)
            change = (changed / base).log().where(readable, torch.nan).transpose(0, 1) / content
            others = change.where(~matching, torch.nan).nanmean(-1, keepdim=True)
            factors = (change - others)[..., matching].flatten(
                1
            )  # [heads, all], NaN where it can't be read
            heads = factors.nanmedian(-1).values
            if not bool(heads.isnan().all()):
                break
        else:
            return 1.0  # no query sees two keys
        largest = max(1.0, float(heads.abs().nan_to_num(0.0).max()))
        tolerance = max(8 * self.precision.absolute / content, 0.03) * largest
        if (
            float((factors - heads[:, None]).abs().flatten().nanquantile(0.75)) > tolerance
        ):  # not one odd query
            low, high = (float(each) for each in factors[~factors.isnan()].aminmax())
            message = (
                f"{probe}: equal queries and keys score between {low:.3g} and {high:.3g}, "
                "expected 1"
            )
            raise Unusable("content depends on position", message)
        return float(heads.nanmedian())
