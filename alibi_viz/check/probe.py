"""Learn the attention weights of a function by calling it with chosen inputs.

What a `Call` shows is an `Observation`: the weights at equal content, where only the bias counts. A
bias function returns its logits. An attention function returns only its output, but with zero
queries all content is equal, and with one-hot values the output is the weights themselves.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from alibi_viz.bias import causal_mask
from alibi_viz.check.call import Unusable, call, to_tensor
from alibi_viz.check.expected import Expected
from alibi_viz.check.plan import (
    CACHED,
    CONTIGUOUS,
    NO_PADDING,
    PACKED,
    STRIDED,
    TRANSPOSED,
    Call,
    Probe,
)
from alibi_viz.check.report import NOT_AVERAGED, OUTSIDE

_UNUSED = 7.0  # what stands in a place of a cache that has no key yet
_BIAS_FLOOR = -60.0  # of the log weights of a bias; e^-60 is far below what float32 can add to 1


class Precision(NamedTuple):
    """How exactly logarithms of weights can be read in a dtype.

    The error is up to `absolute + relative * size`. Nothing can be read below the `floor`.
    """

    absolute: float
    relative: float
    floor: float

    @property
    def is_of_float32(self) -> bool:
        return self == precision_of(torch.float32)


def precision_of(dtype: torch.dtype) -> Precision:
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
    """The attention weights of a function at equal content, for one sequence of a call.

    Attributes:
        call: its conditions.
        probe: the sizes of the sequence, without padding.
        logits: float64 [heads, query, key], up to a constant per row; -inf where a key is masked.
        precision: how exactly they could be read.
    """

    call: Call
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

    def normalize(self, bias: Tensor) -> Tensor:
        """The log weights of a bias [heads, query, key].

        Rows that differ by a constant become equal.
        """
        floor = self.precision.floor
        return bias.double().log_softmax(-1).nan_to_num(nan=floor).clamp(min=floor)

    def read_in(self, dtype: torch.dtype) -> "Observation":
        """The same, read no more exactly than this dtype is."""
        floor = self.precision.floor
        return replace(self, precision=precision_of(dtype)._replace(floor=floor))

    def is_right(self, expected: Expected) -> bool:
        return self.agrees(expected.bias(self.probe, self.call.head_dim))

    def is_explained(self, faulty: Expected, right: Expected) -> bool:
        """Whether a faulty function that computes this gives these weights."""
        return self.is_right(faulty)

    def error(self, expected: Expected) -> float:
        """The largest error of a weight."""
        correct = self.normalize(expected.bias(self.probe, self.call.head_dim)).exp()
        return float((self.weights - correct).abs().max())

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
        if float(difference.max()) < 1e-3:  # as in `worst_comparison`
            difference = (self.log_weights - expected).abs()
        head, query, key = map(int, np.unravel_index(int(difference.argmax()), difference.shape))
        return float(difference.max()), (head, query, key)


def read_bias(
    function: Callable[..., Any],
    conditions: Call,
    causal: bool,
    seconds: float,
) -> Observation:
    """What a bias function gives for these sizes.

    It is read as exactly as its dtype is. Raises Unusable if the function fails, or returns
    something that isn't a bias of these sizes.
    """
    probe = conditions.probe
    returned = call(function, *probe, seconds=seconds, description=str(probe))
    value, dtype = to_tensor(returned, str(probe))
    visible = causal_mask(probe.query_length, probe.key_length)
    if not causal:
        visible = torch.ones_like(visible)
    logits = _to_heads(value, probe, visible).masked_fill(~visible, -math.inf)
    precision = precision_of(dtype)._replace(floor=_BIAS_FLOOR)
    return Observation(conditions, probe, logits, precision)


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
    function may round: that of its arguments, or of an output.
    """

    function: Callable[..., Any]
    layout: str = "bhld"
    dtype: torch.dtype = torch.float32
    convert: Callable[[Tensor], Any] = Tensor.detach
    seconds: float = 60.0
    read_dtype: torch.dtype = field(init=False)
    changed: set[str] = field(default_factory=set)  # arguments that the function has changed

    def __post_init__(self) -> None:
        self.read_dtype = _coarser(torch.float32, self.dtype)

    @property
    def precision(self) -> Precision:
        """How exactly weights can be read."""
        return precision_of(self.read_dtype)

    def __call__(
        self, query: Tensor, key: Tensor, value: Tensor, conditions: Call | None = None
    ) -> Tensor:
        """The output for inputs [batch, heads, length, head_dim], in float64.

        `conditions` say how they lie in memory and which tokens are padding: by default none.
        """
        if conditions is None:
            sizes = Probe(query.shape[1], query.shape[2], key.shape[2])
            conditions = Call(sizes, head_dim=query.shape[3], batch=query.shape[0])
        inputs = [query, key, value]
        if conditions.padding != NO_PADDING:
            inputs.append(real_keys(conditions))
        if "b" in self.layout:
            return self._call("bhld", conditions, *inputs)
        sequences = zip(*inputs, strict=True)
        return torch.stack([self._call("hld", conditions, *sequence) for sequence in sequences])

    def _call(
        self,
        axes: str,
        conditions: Call,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        *mask: Tensor,
    ) -> Tensor:
        in_layout = []
        for tensor in (query, key, value):
            in_layout.append(torch.einsum(f"{axes}->{self.layout}", tensor.to(self.dtype)))
        arguments = self._in_memory(conditions.memory, in_layout)
        shape = arguments[0].shape
        arguments += [tensor.clone() for tensor in mask]

        def run(*arguments: Tensor) -> Any:
            # Here, so that what `convert` raises becomes a finding
            return self.function(*map(self.convert, arguments))

        result = call(run, *arguments, seconds=self.seconds, description=str(conditions))
        given = zip(("query", "key", "value", "mask"), arguments, [*in_layout, *mask], strict=False)
        self.changed |= {name for name, after, before in given if not torch.equal(after, before)}
        output, dtype = to_tensor(result, str(conditions), nan=bool(mask))
        if output.shape != shape:
            expected = f"{list(shape)} ({', '.join(self.layout)})"
            raise Unusable(
                "wrong shape", f"{conditions}: returned {list(output.shape)}, expected {expected}"
            )
        # Nothing can be read more exactly than the output is.
        self.read_dtype = _coarser(self.read_dtype, dtype)
        return torch.einsum(f"{self.layout}->{axes}", output)

    def gradients(
        self, query: Tensor, key: Tensor, value: Tensor, of_output: Tensor
    ) -> list[Tensor] | None:
        """The gradients with respect to query, key and value; None if the output has none.

        All are [batch, heads, length, head_dim] in float64, as is the gradient `of_output`. Raises
        Unusable if the function raises.
        """
        inputs = [tensor.to(self.dtype).requires_grad_() for tensor in (query, key, value)]
        sizes = Probe(query.shape[1], query.shape[2], key.shape[2])

        def run() -> list[Tensor] | None:
            # Copies, which a function may change
            in_layout = [torch.einsum(f"bhld->{self.layout}", x).clone() for x in inputs]
            output = self.function(*in_layout)
            if not isinstance(output, Tensor) or not output.requires_grad:
                return None
            of_result = torch.einsum(f"bhld->{self.layout}", of_output).to(output.dtype)
            return list(torch.autograd.grad(output, inputs, of_result))

        with torch.enable_grad():
            results = call(run, seconds=self.seconds, description=f"the gradient with {sizes}")
        return None if results is None else [gradient.double() for gradient in results]

    def _in_memory(self, memory: str, inputs: list[Tensor]) -> list[Tensor]:
        """Copies of query, key and value, which the function may change, in this kind of memory."""
        heads = self.layout.index("h")
        positions = self.layout.index("l")
        head_dim = self.layout.index("d")
        if memory == TRANSPOSED:
            return [_with_swapped_strides(tensor, heads, positions) for tensor in inputs]
        if memory == STRIDED:
            return [_with_swapped_strides(tensor, positions, head_dim) for tensor in inputs]
        if memory == PACKED:
            query, *others = inputs
            together = inputs if query.shape == others[0].shape else others
            packed = torch.stack(together, dim=positions + 1).unbind(positions + 1)
            return [*packed] if len(packed) == len(inputs) else [_contiguous_copy(query), *packed]
        contiguous = [_contiguous_copy(tensor) for tensor in inputs]
        if memory == CACHED:
            query, key, value = contiguous
            return [query, _with_free_places(key, positions), _with_free_places(value, positions)]
        assert memory == CONTIGUOUS
        return contiguous

    def output(
        self, conditions: Call, *, query: Tensor | None = None, key: Tensor | None = None
    ) -> Tensor:
        """The output for one-hot values, which is the weights: float32 [batch, heads, query, key].

        All sequences are equal but for their padding. All positions and heads share one `query`
        [head_dim]; by default it is 0, which makes all content equal, whatever the keys are. All
        heads share the `key` [key, head_dim], by default random.
        """
        heads, query_length, key_length = conditions.probe
        head_dim = conditions.head_dim
        batch = conditions.batch
        if query is None:
            query = torch.zeros(head_dim)
        if key is None:
            generator = torch.Generator().manual_seed(0)
            key = torch.randn(key_length, head_dim, generator=generator)
        queries = query.expand(batch, heads, query_length, -1)
        keys = key.expand(batch, heads, -1, -1)

        # One-hot values for as many keys as fit into head_dim; further keys need further calls.
        one_hot = torch.eye(key_length, head_dim)
        outputs = []
        for first_key in range(0, key_length, head_dim):
            values = one_hot.roll(first_key, dims=0).expand(batch, heads, -1, -1)
            outputs.append(self(queries, keys, values, conditions).float())
        return torch.cat(outputs, dim=-1)[..., :key_length]

    def weights(
        self, conditions: Call, query: Tensor | None = None, key: Tensor | None = None
    ) -> Tensor:
        """`output`, with NaN for queries that are padding: a function may return anything there.

        Raises Unusable if a row is not a weighted average.
        """
        weights = self.output(conditions, query=query, key=key)
        if conditions.padding != NO_PADDING:
            is_real = real_keys(conditions)[:, -conditions.probe.query_length :]
            return weights.masked_fill(~is_real[:, None, :, None], torch.nan)
        # A query that sees no key may get a 0.
        total = weights.sum(-1).where(weights.abs().amax(-1) > 0, 1.0)
        worst_total = float(total.flatten()[(total - 1).abs().argmax()])
        smallest = float(weights.min())
        # Weights may have been rounded inside the function before they were added.
        tolerance = max(self.precision.absolute, 4e-3)
        if smallest >= -tolerance and abs(worst_total - 1) <= tolerance:
            return weights
        if _have_sinks(weights, tolerance):
            sink = "weights add up to less than 1, as with an attention sink in the softmax"
            raise Unusable(OUTSIDE, f"{conditions}: {sink}")
        sums = f"the weights of a query add up to {worst_total:.4g}"
        raise Unusable(
            NOT_AVERAGED,
            f"{conditions}: with one-hot values, {sums}, and the smallest is {smallest:.3g}; "
            "expected a sum of 1 and no negative weight",
        )

    def observe(self, conditions: Call) -> list[Observation]:
        """The weights at equal content of each sequence, or of one if there is no padding.

        Raises Unusable if they cannot be read, or differ within a batch.
        """
        weights = self.weights(conditions)
        if conditions.padding != NO_PADDING:
            return self._observe_padded(conditions, weights)
        difference = float((weights - weights[0]).abs().max())
        if difference > self.precision.absolute:
            message = f"{conditions}: equal sequences differ by {difference:.3g}"
            raise Unusable("batch rows mixed", message)
        logits = weights[0].clamp(min=0).log()
        return [Observation(conditions, conditions.probe, logits, self.precision)]

    def _observe_padded(self, conditions: Call, weights: Tensor) -> list[Observation]:
        """The observations of the real tokens. Raises Unusable if they read padding, or NaN."""
        observations = []
        for sequence, is_real in zip(weights, real_keys(conditions), strict=True):
            of_real_queries = sequence[:, is_real[-conditions.probe.query_length :]]
            if of_real_queries.shape[1] == 0:
                continue
            on_real_keys = of_real_queries[..., is_real]
            on_padding = of_real_queries[..., ~is_real]
            if bool(on_real_keys.isnan().any()):
                message = f"{conditions}: weights of real tokens are NaN"
                raise Unusable("returns NaN", message)
            largest = float(on_padding.max()) if on_padding.numel() else 0.0
            if largest > 8 * self.precision.absolute:
                message = f"{conditions}: padding gets a weight of up to {largest:.3g}"
                raise Unusable("padding not masked", message)
            sizes = Probe(conditions.probe.num_heads, *on_real_keys.shape[1:])
            logits = on_real_keys.clamp(min=0).log()
            observations.append(Observation(conditions, sizes, logits, self.precision))
        return observations


def _contiguous_copy(tensor: Tensor) -> Tensor:
    return tensor.clone(memory_format=torch.contiguous_format)


def _with_swapped_strides(tensor: Tensor, first: int, second: int) -> Tensor:
    """A copy that lies in memory as if these two axes were swapped."""
    return _contiguous_copy(tensor.transpose(first, second)).transpose(first, second)


def _with_free_places(tensor: Tensor, positions: int) -> Tensor:
    """A copy in the first half of an array, whose other half is not used yet."""
    unused = torch.full_like(tensor, _UNUSED)
    return torch.cat([tensor, unused], dim=positions).narrow(positions, 0, tensor.shape[positions])


def _have_sinks(weights: Tensor, tolerance: float) -> bool:
    """Whether what is missing from a sum of 1 is e^s for a logit s of each head, as with a sink.

    The weight of the query's own key is e^0, divided by the same sum.
    """
    own = weights.diagonal(weights.shape[3] - weights.shape[2], -2, -1)  # [batch, heads, query]
    missing = 1 - weights.sum(-1)
    sinks = missing / own
    mean = sinks.mean(-1, keepdim=True)
    is_constant = bool(((sinks - mean).abs() <= 0.02 * mean).all())
    return float(weights.min()) >= -tolerance and float(missing.min()) > 0 and is_constant


def real_keys(conditions: Call) -> Tensor:
    """The mask of a call, True for a real token: bool [batch, key]."""
    places = torch.arange(conditions.probe.key_length)
    padded = torch.tensor(conditions.padded_tokens)[:, None]
    if conditions.padding == "left":
        return places >= padded
    return places < conditions.probe.key_length - padded
