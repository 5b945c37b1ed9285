"""Attention weights of slopes, of a bias or of an attention function, in the call that shows a bug best."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from alibi_viz.bias import alibi_bias, causal_mask
from alibi_viz.check.call import Unusable, call, to_tensor
from alibi_viz.slopes import alibi_slopes

__all__ = ["HEAD_DIM", "MATCH", "View"]

HEAD_DIM = 64
MATCH = 4.0  # the content, q . k / sqrt(head_dim), of two equal words; that of different words is 0


@dataclass(frozen=True)
class View:
    """The sizes of a call, and which of its weights to show.

    Attributes:
        head: the head to show, counted from 1, with one row per query. None shows the last query of every head.
        num_heads: how many heads the call has.
        query_length: the queries are the last positions of the keys.
        key_length: at most 64 for an attention function, whose weights are read with one-hot values.
        shown: how many of the last keys to show.
        words: the tokens are this many words, repeated in order; by default 0, and all content is equal.
    """

    head: int | None = None
    num_heads: int = 8
    query_length: int = 16
    key_length: int = 16
    shown: int = 16
    words: int = 0

    @property
    def rows(self) -> list[int]:
        """The number of each row: the positions of the queries, or the heads."""
        if self.head is None:
            return list(range(1, self.num_heads + 1))
        return list(range(self.key_length - self.query_length, self.key_length))

    @property
    def keys(self) -> list[int]:
        """The positions of the keys shown."""
        return list(range(self.key_length - self.shown, self.key_length))

    def weights(self, kind: str, function: Callable[..., Any], causal: bool, seconds: float) -> Tensor:
        """The weights, each relative to the largest of its row: float64 [rows, keys], 0 where a key is masked.

        Args:
            kind: what the function computes, "slopes", "bias" or "attention".
            function: the function, with the signature that the checker of this kind expects.
            causal: whether keys after the query are masked.
            seconds: the time limit of the call.

        Raises Unusable if the function fails, or if its result has the wrong shape.
        """
        if kind == "attention":
            weights = self._from_output(function, seconds)
        else:
            weights = self._softmax(self._bias(kind, function, seconds), causal)
        rows = weights[:, -1] if self.head is None else weights[self.head - 1]
        return (rows / rows.amax(-1, keepdim=True)).nan_to_num(0.0)[:, -self.shown :]

    def correct(self, causal: bool) -> Tensor:
        """The same for a correct implementation."""
        slopes, form = alibi_slopes(self.num_heads), "relative" if causal else "symmetric"

        def bias(_: int, query_length: int, key_length: int) -> Tensor:
            return alibi_bias(slopes, query_length, key_length, form=form)

        return self.weights("bias", bias, causal, 60.0)

    def _bias(self, kind: str, function: Callable[..., Any], seconds: float) -> Tensor:
        """The bias of the call, float64 [heads, query, key]."""
        sizes = self.num_heads, self.query_length, self.key_length
        if kind == "slopes":
            slopes = self._call(function, self.num_heads, seconds=seconds)
            if slopes.numel() != self.num_heads:
                raise Unusable("wrong shape", f"returned {list(slopes.shape)}, expected [{self.num_heads}]")
            return slopes.view(-1, 1, 1) * alibi_bias(torch.ones(1), *sizes[1:])
        bias = self._call(function, *sizes, seconds=seconds)
        try:
            return bias.expand(sizes)
        except RuntimeError as error:
            raise Unusable("wrong shape", f"returned {list(bias.shape)}, expected {list(sizes)}") from error

    def _softmax(self, bias: Tensor, causal: bool) -> Tensor:
        """The weights of a bias, with the content of the tokens."""
        query, key, _ = self._inputs()
        logits = (query @ key.mT)[0] / HEAD_DIM**0.5 + bias
        visible = causal_mask(self.query_length, self.key_length)
        return (logits.masked_fill(~visible, -torch.inf) if causal else logits).softmax(-1)

    def _from_output(self, function: Callable[..., Any], seconds: float) -> Tensor:
        """The weights of an attention function: its output for one-hot values."""
        inputs = self._inputs()
        output = self._call(function, *inputs, seconds=seconds)
        if output.shape != inputs[0].shape:
            raise Unusable("wrong shape", f"returned {list(output.shape)}, expected {list(inputs[0].shape)}")
        return output[0, :, :, : self.key_length]

    def _call(self, function: Callable[..., Any], *arguments: object, seconds: float) -> Tensor:
        description = f"{self.num_heads} heads, {self.query_length} queries, {self.key_length} keys"
        return to_tensor(call(function, *arguments, seconds=seconds, description=description), description)[0]

    def _inputs(self) -> tuple[Tensor, Tensor, Tensor]:
        """Query, key and one-hot value, each [1, heads, length, HEAD_DIM]."""
        content = torch.zeros(self.key_length, HEAD_DIM)
        if self.words:
            positions = torch.arange(self.key_length)
            content[positions, positions % self.words] = (MATCH * HEAD_DIM**0.5) ** 0.5
        one_hot = torch.eye(max(HEAD_DIM, self.key_length))[: self.key_length, :HEAD_DIM]

        def in_all_heads(tensor: Tensor) -> Tensor:
            return tensor.expand(1, self.num_heads, -1, -1).clone()

        query = content[self.key_length - self.query_length :]
        return in_all_heads(query), in_all_heads(content), in_all_heads(one_hot)
