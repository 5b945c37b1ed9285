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
from alibi_viz.check.call import Unusable, call, to_tensor
from alibi_viz.check.words import count

SHORT = 16  # keys of the small calls
_MAX_SQUARE = 512  # keys of the largest call that has as many queries
_BATCH = 3  # sequences in each call
_BIAS_FLOOR = -60.0  # of the log weights of a bias; e^-60 is far below what float32 can add to 1


class Probe(NamedTuple):
    """The sizes of one call. The queries are the last positions of the keys."""

    num_heads: int
    query_length: int
    key_length: int

    def __str__(self) -> str:
        return ", ".join(map(count, self, ("head", "query", "key")))


def probes(num_heads: Sequence[int], decoding: bool, length: int) -> list[Probe]:
    """The calls of a check.

    There is a short one per head count. With the first head count, there are also some with few
    queries, as in decoding, and a long one.
    """
    first = num_heads[0]
    is_long = length > SHORT
    calls = [Probe(heads, SHORT, SHORT) for heads in num_heads]
    if decoding:
        calls += [Probe(first, 1, SHORT), Probe(first, 5, SHORT)]
        if is_long:
            calls.append(Probe(first, 1, length))
    if is_long:
        queries = length
        if decoding and length > _MAX_SQUARE:
            # A few queries are enough, and save memory: positions that collide do so for every
            # query.
            queries = SHORT
        calls.append(Probe(first, queries, length))
    return calls


class Precision(NamedTuple):
    """How exactly logarithms of weights can be read in a dtype.

    The error is up to `absolute + relative * size`. Nothing can be read below the `floor`.
    """

    absolute: float
    relative: float
    floor: float


def precision(dtype: torch.dtype) -> Precision:
    """How exactly correct implementations in `dtype` reproduce log weights.

    They do so to a few units in the last place.
    """
    if dtype == torch.bfloat16:
        return Precision(absolute=2**-5, relative=2**-7, floor=-8.0)
    if dtype == torch.float16:
        return Precision(absolute=2**-7, relative=2**-9, floor=-8.0)
    return Precision(absolute=2e-4, relative=5e-5, floor=-16.0)


@dataclass(frozen=True, eq=False)
class Observation:
    """The attention weights of a function at equal content, for one call.

    Attributes:
        probe: the sizes of the call.
        logits: float64 [heads, query, key], up to a constant per row; -inf where a key is masked.
        precision: how exactly they could be read.
    """

    probe: Probe
    logits: Tensor
    precision: Precision

    @cached_property
    def log_weights(self) -> Tensor:
        """The logarithm of the weights, float64 [heads, query, key], at least the floor."""
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
        by_distance = self.log_weights[:, -1].flip(-1)
        largest_step = by_distance.diff(dim=-1).abs().amax(0)  # of all heads
        changes = (largest_step > self.precision.absolute / 10).nonzero()
        if len(changes) == 0:
            return None
        cap = int(changes.max()) + 1
        largest_distance = self.probe.key_length - 1
        return cap if cap < largest_distance else None

    def normalize(self, bias: Tensor) -> Tensor:
        """The log weights of a bias [heads, query, key].

        Rows that differ by a constant become equal.
        """
        floor = self.precision.floor
        return bias.double().log_softmax(-1).nan_to_num(nan=floor).clamp(min=floor)

    def agrees(self, bias: Tensor, rows: slice | list[int] = slice(None)) -> bool:
        """Whether the weights in these rows are those of `bias` [heads, rows, key].

        Rows in which a query sees no key don't count.
        """
        expected = self.normalize(bias)
        bias_size = bias.nan_to_num(neginf=0.0).abs()
        # A logit that is large before the softmax is rounded by more.
        size = torch.maximum(expected.abs(), bias_size)
        # Some forms of the bias have its largest size in every row.
        rounding = 2.0**-22 * bias_size.amax((-2, -1), keepdim=True)
        tolerance = self.precision.absolute + self.precision.relative * size + rounding
        is_close = (self.log_weights[:, rows] - expected).abs() <= tolerance
        sees_no_key = bias.isneginf().all(-1, keepdim=True)
        return bool((is_close | sees_no_key).all())

    def largest_difference(self, bias: Tensor) -> tuple[float, tuple[int, int, int]]:
        """The largest difference of a weight from those of `bias`, and its (head, query, key).

        If all weights are close, it is that of a logarithm.
        """
        expected = self.normalize(bias)
        difference = (self.weights - expected.exp()).abs()
        if float(difference.max()) < 1e-3:
            difference = (self.log_weights - expected).abs()
        head, query, key = map(int, np.unravel_index(int(difference.argmax()), difference.shape))
        return float(difference.max()), (head, query, key)


def read_bias(
    function: Callable[..., Any],
    probe: Probe,
    causal: bool,
    seconds: float,
    read_dtype: torch.dtype = torch.float32,
) -> Observation:
    """What a bias function gives for these sizes.

    It is read as exactly as its dtype and `read_dtype` are. Raises Unusable if the function fails,
    or returns something that isn't a bias of these sizes.
    """
    returned = call(function, *probe, seconds=seconds, description=str(probe))
    value, dtype = to_tensor(returned, str(probe))
    visible = causal_mask(probe.query_length, probe.key_length)
    if not causal:
        visible = torch.ones_like(visible)
    logits = _to_heads(value, probe, visible).masked_fill(~visible, -math.inf)
    of_dtype = precision(_coarser(dtype, read_dtype))
    return Observation(probe, logits, of_dtype._replace(floor=_BIAS_FLOOR))


def _coarser(*dtypes: torch.dtype) -> torch.dtype:
    return max(dtypes, key=lambda dtype: torch.finfo(dtype).eps)


def _to_heads(bias: Tensor, probe: Probe, visible: Tensor) -> Tensor:
    """Expand a bias to [heads, query, key].

    Further heads are dropped if they have no bias, that is if each of their rows is constant.
    """
    shape = list(bias.shape)
    while bias.ndim > 3 and bias.shape[0] == 1:
        bias = bias[0]
    try:
        if bias.ndim == 3 and len(bias) > probe.num_heads:
            further = bias[probe.num_heads :].expand(-1, probe.query_length, probe.key_length)
            highest = further.masked_fill(~visible, -math.inf).amax(-1)
            lowest = further.masked_fill(~visible, math.inf).amin(-1)
            if torch.equal(highest, lowest):
                bias = bias[: probe.num_heads]
        return bias.expand(probe)
    except RuntimeError:
        message = f"{probe}: returned {shape}, expected {list(probe)}"
        raise Unusable("wrong shape", message) from None


@dataclass
class AttentionReader:
    """An attention function (query, key, value) -> output whose weights can be read.

    Its arguments are those of `check.attention`. `read_dtype` is the coarsest dtype in which the
    function may round: that of its arguments, unless a coarser one is given. An output in a coarser
    dtype makes it coarser.
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
        """The output for inputs [batch, heads, length, head_dim], in float64.

        A mask is bool [batch, key].
        """
        inputs = (query, key, value, *mask)
        if "b" in self.layout:
            return self._call("bhld", *inputs)
        sequences = zip(*inputs, strict=True)
        return torch.stack([self._call("hld", *sequence) for sequence in sequences])

    def _call(self, axes: str, query: Tensor, key: Tensor, value: Tensor, *mask: Tensor) -> Tensor:
        probe = Probe(query.shape[-3], query.shape[-2], key.shape[-2])
        inputs = []
        for tensor in (query, key, value):
            in_layout = torch.einsum(f"{axes}->{self.layout}", tensor.to(self.dtype))
            inputs.append(in_layout)
        shape = inputs[0].shape
        # The function may change its arguments, so it gets clones.
        clones = [tensor.clone(memory_format=torch.contiguous_format) for tensor in inputs]
        clones += [tensor.clone() for tensor in mask]

        def run(*arguments: Tensor) -> Any:
            # Here, so that what `convert` raises becomes a finding
            return self.function(*map(self.convert, arguments))

        result = call(run, *clones, seconds=self.seconds, description=str(probe))
        output, dtype = to_tensor(result, str(probe), nan=bool(mask))
        if output.shape != shape:
            expected = f"{list(shape)} ({', '.join(self.layout)})"
            raise Unusable(
                "wrong shape", f"{probe}: returned {list(output.shape)}, expected {expected}"
            )
        self._coarsen(dtype)  # nothing can be read more exactly than the output is
        return torch.einsum(f"{self.layout}->{axes}", output)

    def output(
        self, probe: Probe, *mask: Tensor, query: Tensor | None = None, key: Tensor | None = None
    ) -> Tensor:
        """The output for one-hot values, which is the weights: float32 [3, heads, query, key].

        The three sequences are equal. All positions and heads share one `query` [head_dim]; by
        default it is 0, which makes all content equal, whatever the keys are. All heads share the
        `key` [key, head_dim], by default random.
        """
        heads, query_length, key_length = probe
        if query is None:
            query = torch.zeros(self.head_dim)
        if key is None:
            generator = torch.Generator().manual_seed(0)
            key = torch.randn(key_length, self.head_dim, generator=generator)
        queries = query.expand(_BATCH, heads, query_length, -1)
        keys = key.expand(_BATCH, heads, -1, -1)

        # One-hot values for as many keys as fit into head_dim; further keys need further calls.
        one_hot = torch.eye(key_length, self.head_dim)
        outputs = []
        for first_key in range(0, key_length, self.head_dim):
            values = one_hot.roll(first_key, dims=0).expand(_BATCH, heads, -1, -1)
            outputs.append(self(queries, keys, values, *mask).float())
        return torch.cat(outputs, dim=-1)[..., :key_length]

    def weights(
        self, probe: Probe, query: Tensor | None = None, key: Tensor | None = None
    ) -> Tensor:
        """`output` without a mask. Raises Unusable if a row is not a weighted average."""
        weights = self.output(probe, query=query, key=key)
        total = weights.sum(-1)
        worst_total = float(total.flatten()[(total - 1).abs().argmax()])
        smallest = float(weights.min())
        # Weights may have been rounded inside the function before they were added.
        tolerance = max(self.precision.absolute, 4e-3)
        if smallest >= -tolerance and abs(worst_total - 1) <= tolerance:
            return weights
        sums = f"the weights of a query add up to {worst_total:.4g}"
        raise Unusable(
            "not a weighted average",
            f"{probe}: with one-hot values, {sums}, and the smallest is {smallest:.3g}; "
            "expected a sum of 1 and no negative weight",
        )

    def observe(self, probe: Probe) -> Observation:
        """The weights at equal content. Raises Unusable if they cannot be read, or differ within a
        batch."""
        weights = self.weights(probe)
        difference = float((weights - weights[0]).abs().max())
        if difference > self.precision.absolute:
            message = f"{probe}: equal sequences differ by {difference:.3g}"
            raise Unusable("batch rows mixed", message)
        return Observation(probe, weights[0].clamp(min=0).log(), self.precision)

    def content_factor(self, probe: Probe) -> float:
        """The factor of q . k, relative to 1 / sqrt(head_dim); 1 if no query sees two keys.

        Raises Unusable if the factor depends on the position.
        """
        without_content = self.weights(probe)
        # A small content is for functions that don't scale it.
        for content in (1.0, 0.1):
            factors = self._factors_of_keys(probe, content, without_content)
            of_head = factors.nanmedian(-1).values
            if not bool(of_head.isnan().all()):
                self._check_equal_factors(probe, content, factors)
                return float(of_head.nanmedian())
        return 1.0

    def _factors_of_keys(self, probe: Probe, content: float, without_content: Tensor) -> Tensor:
        """By which factor each query counts the content of each key: [heads, pairs], NaN where the
        weights are too small to tell.

        Every third key gets a content, and the others none. The log weight of a key changes by its
        content, and by a constant of the row, which the other keys show. `without_content` are the
        weights without any.
        """
        generator = torch.Generator().manual_seed(0)
        direction = torch.randn(self.head_dim, generator=generator)
        has_content = torch.arange(probe.key_length) % 3 == 1
        keys = has_content[:, None] * direction
        query = content * direction * self.head_dim**0.5 / direction.square().sum()
        with_content = self.weights(probe, query, keys)  # [batch, heads, query, key]

        smallest = math.exp(max(self.precision.floor, -15.0))
        is_readable = (with_content > smallest) & (without_content > smallest)
        log_ratio = (with_content / without_content).log()
        change = log_ratio.where(is_readable, torch.nan).transpose(0, 1) / content
        of_row = change.where(~has_content, torch.nan).nanmean(-1, keepdim=True)
        return (change - of_row)[..., has_content].flatten(1)

    def _check_equal_factors(self, probe: Probe, content: float, factors: Tensor) -> None:
        """Check that the factors [heads, pairs] of each head are equal. Raises Unusable."""
        of_head = factors.nanmedian(-1, keepdim=True).values
        largest = max(1.0, float(of_head.abs().nan_to_num(0.0).max()))
        tolerance = max(8 * self.precision.absolute / content, 0.03) * largest
        deviations = (factors - of_head).abs().flatten()
        # Three quarters of the pairs decide, because one odd query doesn't count.
        if float(deviations.nanquantile(0.75)) <= tolerance:
            return
        low, high = factors[~factors.isnan()].aminmax()
        scores = f"between {float(low):.3g} and {float(high):.3g}"
        message = f"{probe}: equal queries and keys score {scores}, expected 1"
        raise Unusable("content depends on position", message)
