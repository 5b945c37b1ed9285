"""Read the weights, and the factor of the content, of an attention function that returns only its output.

With zero queries, all content is equal and the softmax shows the bias alone. With one-hot values, the output is the
weights themselves.
"""

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from alibi_viz.check.call import Unusable, call, to_tensor
from alibi_viz.check.observation import Observation, Precision, Probe, precision

__all__ = ["AttentionReader"]

_BATCH = 3


@dataclass
class AttentionReader:
    """An attention function q, k, v -> output whose weights can be read.

    Attributes:
        function: the function.
        layout: the axes of its arguments and its output: b(atch), h(eads), l(ength), d (size of a head), in any order;
            without "b" it is called once per sequence.
        head_dim: the size of one head.
        dtype: the dtype of the arguments.
        convert: turns a torch tensor into the type that the function takes, such as `numpy.asarray`.
        seconds: the time limit of a call.
        key_heads: how many heads the keys and values have, each shared by neighboring heads of the query; by default as
            many as the query.
        rounding: the dtype in which the function may round; by default that of its output.
    """

    function: Callable[..., Any]
    layout: str = "bhld"
    head_dim: int = 64
    dtype: torch.dtype = torch.float32
    convert: Callable[[Tensor], Any] = Tensor.detach
    seconds: float = 60.0
    key_heads: int | None = None
    rounding: torch.dtype | None = None
    output_dtype: torch.dtype = field(default=torch.float32, init=False)

    def __post_init__(self) -> None:
        if not isinstance(self.layout, str) or sorted(self.layout) not in (sorted("bhld"), sorted("hld")):
            raise ValueError(f"layout must contain each of b, h, l and d once (b is optional), got {self.layout!r}")

    @property
    def precision(self) -> Precision:
        """How exactly weights can be read."""
        return precision(self.read_dtype)

    @property
    def read_dtype(self) -> torch.dtype:
        """The coarsest of the dtypes in which the function may round."""
        dtypes = [dtype for dtype in (self.rounding, self.dtype, self.output_dtype) if dtype is not None]
        return max(dtypes, key=lambda dtype: torch.finfo(dtype).eps)

    def __call__(self, query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        """The output of the function for inputs [batch, heads, length, head_dim]; it has this layout too, in float64.

        `mask` is bool [batch, key], True for a real token, and passed on as a fourth argument if given.
        """
        masks = [] if mask is None else [mask]
        if "b" in self.layout:
            return self._call((query, key, value), masks)
        sequences = range(len(query))
        return torch.stack([self._call((query[b], key[b], value[b]), [m[b] for m in masks]) for b in sequences])

    def _call(self, tensors: tuple[Tensor, ...], masks: list[Tensor]) -> Tensor:
        axes = "bhld" if "b" in self.layout else "hld"
        probe = Probe(tensors[0].shape[-3], tensors[0].shape[-2], tensors[1].shape[-2])
        group = probe.num_heads // (self.key_heads or probe.num_heads)
        tensors = (tensors[0], *(tensor[..., ::group, :, :] for tensor in tensors[1:]))
        # clones, because the function may change its arguments
        inputs = [
            torch.einsum(f"{axes}->{self.layout}", tensor.to(self.dtype)).clone(memory_format=torch.contiguous_format)
            for tensor in tensors
        ]
        arguments = [self.convert(tensor) for tensor in (*inputs, *masks)]
        result = call(self.function, *arguments, seconds=self.seconds, description=str(probe))
        output, self.output_dtype = to_tensor(result, str(probe), nan=bool(masks))
        if output.shape != inputs[0].shape:
            expected = f"{list(inputs[0].shape)} ({', '.join(self.layout)})"
            raise Unusable("wrong shape", f"{probe}: returned {list(output.shape)}, expected {expected}")
        return torch.einsum(f"{self.layout}->{axes}", output)

    def output(
        self, probe: Probe, query: Tensor | None = None, key: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """The output for one-hot values, float32 [3, heads, query, key]: the attention weights, in equal sequences.

        Args:
            probe: the sizes.
            query: [head_dim], the same for all positions and heads; zeros by default, so that all content is equal.
            key: [key, head_dim], the same for all heads; random by default, which zero queries make irrelevant.
            mask: bool [3, key], True for a real token.
        """
        heads, query_length, key_length = probe
        query = torch.zeros(self.head_dim) if query is None else query
        key = torch.randn(key_length, self.head_dim, generator=_generator()) if key is None else key
        # One-hot values for as many keys as fit into head_dim; further keys need further calls.
        one_hot = torch.eye(-(-key_length // self.head_dim) * self.head_dim)[:key_length]
        inputs = query.expand(_BATCH, heads, query_length, -1), key.expand(_BATCH, heads, -1, -1)
        outputs = [
            self(*inputs, block.expand(_BATCH, heads, -1, -1), mask).float()
            for block in one_hot.split(self.head_dim, dim=-1)
        ]
        return torch.cat(outputs, dim=-1)[..., :key_length]

    def weights(
        self, probe: Probe, query: Tensor | None = None, key: Tensor | None = None, mask: Tensor | None = None
    ) -> Tensor:
        """`output`, with the same arguments. Without a mask, raises Unusable if a row is not a weighted average."""
        weights = self.output(probe, query, key, mask)
        return weights if mask is not None else self._check_average(weights, probe)

    def observe(self, probe: Probe) -> Observation:
        """The weights at equal content. Raises Unusable if they cannot be read, or differ within a batch."""
        weights = self.weights(probe)
        difference = max(float((other - weights[0]).abs().max()) for other in weights)
        if difference > self.precision.absolute:
            raise Unusable("batch rows mixed", f"{probe}: equal sequences differ by {difference:.3g}")
        return Observation(probe, weights[0].clamp(min=0).log(), self.read_dtype, self.precision.floor)

    def content_factor(self, probe: Probe) -> float:
        """The factor of q . k, relative to 1 / sqrt(head_dim). Every third key gets a content, the others none.

        Raises Unusable if the factor depends on the position or on the head.
        """
        base = self.weights(probe)
        for content in (1.0, 0.1):  # a small one for functions that don't scale it
            factors = self._content_factors(probe, base, content)  # [heads, ...], NaN where nothing can be read
            heads = factors.flatten(1).nanmedian(-1).values
            if not bool(heads.isnan().all()):
                break
        else:
            return 1.0  # no query sees two keys
        largest = max(1.0, float(heads.abs().nan_to_num(0.0).max()))
        tolerance = max(8 * self.precision.absolute / content, 0.03) * largest
        for name, values in (
            ("content depends on position", factors - heads[:, None, None, None]),
            ("content depends on the head", heads - heads.nanmedian()),
        ):
            if float(values.abs().flatten().nanquantile(0.75)) > tolerance:  # most of them, not a single odd query
                low, high = float(factors.nan_to_num(torch.inf).min()), float(factors.nan_to_num(-torch.inf).max())
                message = f"{probe}: equal queries and keys score between {low:.3g} and {high:.3g}, expected 1"
                raise Unusable(name, message)
        return float(heads.nanmedian())

    def _content_factors(self, probe: Probe, base: Tensor, content: float) -> Tensor:
        """The factor that each matching key shows, [heads, sequence, query, key]; NaN where it can't be read."""
        direction = torch.randn(self.head_dim, generator=_generator())
        query = content * direction * self.head_dim**0.5 / direction.square().sum()
        matching = torch.arange(probe.key_length) % 3 == 1
        changed = self.weights(probe, query, matching[:, None] * direction)
        smallest = math.exp(max(self.precision.floor, -15.0))
        readable = (changed > smallest) & (base > smallest)  # [sequence, heads, query, key]
        others = readable & ~matching
        change = torch.where(readable, (changed / base).log(), 0.0)
        offset = (change * others).sum(-1, keepdim=True) / others.sum(-1, keepdim=True).clamp(min=1)
        is_known = readable & matching & others.any(-1, keepdim=True)
        return torch.where(is_known, (change - offset) / content, torch.nan).transpose(0, 1)

    def _check_average(self, weights: Tensor, probe: Probe) -> Tensor:
        total = weights.sum(-1)
        worst = float(total.flatten()[(total - 1).abs().argmax()])
        tolerance = max(self.precision.absolute, 4e-3)  # sums of weights that were rounded inside
        if float(weights.min()) < -tolerance or abs(worst - 1) > tolerance:
            raise Unusable(
                "not a weighted average",
                f"{probe}: with one-hot values, the weights of a query add up to {worst:.4g}, and the smallest is "
                f"{float(weights.min()):.3g}; expected a sum of 1 and no negative weight",
            )
        return weights


def _generator() -> torch.Generator:
    return torch.Generator().manual_seed(0)
