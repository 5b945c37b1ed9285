"""Faulty implementations to recognize by their attention weights and to repair, ordered from easy to hard.

Each has one fault that was in a public project. Its code is that of the gallery's function, unless the project had a
second fault, which is left out in a short version here.
"""

import ast
import inspect
import math
import re
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor

from alibi_viz.bias import alibi_bias, causal_mask
from alibi_viz.check.call import Unusable, call, to_tensor
from alibi_viz.check.probe import Probe
from alibi_viz.gallery import EXHIBITS, Exhibit
from alibi_viz.slopes import alibi_slopes

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
        sizes = Probe(self.num_heads, self.query_length, self.key_length)
        query, key, value = self._inputs()
        arguments = {"slopes": sizes[:1], "bias": sizes, "attention": (query, key, value)}[kind]
        expected = {"slopes": [self.num_heads], "bias": list(sizes), "attention": list(query.shape)}[kind]
        result, _ = to_tensor(call(function, *arguments, seconds=seconds, description=str(sizes)), str(sizes))
        try:
            result = result.expand(expected) if kind == "bias" else result.reshape(expected)
        except RuntimeError as error:
            raise Unusable("wrong shape", f"returned {list(result.shape)}, expected {expected}") from error
        if kind == "attention":
            weights = result[0, :, :, : self.key_length]
        else:
            bias = result if kind == "bias" else result[:, None, None] * alibi_bias(torch.ones(1), *sizes[1:])
            logits = (query @ key.mT)[0] / HEAD_DIM**0.5 + bias
            visible = causal_mask(*sizes[1:])
            weights = (logits.masked_fill(~visible, -torch.inf) if causal else logits).softmax(-1)
        rows = weights[:, -1] if self.head is None else weights[self.head - 1]
        return (rows / rows.amax(-1, keepdim=True)).nan_to_num(0.0)[:, -self.shown :]

    def correct(self, causal: bool) -> Tensor:
        """The same for a correct implementation."""
        slopes, form = alibi_slopes(self.num_heads), "relative" if causal else "symmetric"
        return self.weights("bias", lambda _, *lengths: alibi_bias(slopes, *lengths, form=form), causal, 60.0)

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


@dataclass(frozen=True)
class Bug:
    """A faulty function, four possible answers to what is wrong with it, and a call that shows it.

    Attributes:
        name: "case 1", "case 2", ..., which does not give the fault away.
        code: the source text of the function; it uses `torch`, `math` and `av` without importing them.
        exhibit: the public project with this fault.
        answers: names of four faults, keys of `alibi_viz.check.FAULTS`, in the order of the buttons. One is right.
        view: the call whose weights show the fault.
    """

    name: str
    code: str
    exhibit: Exhibit
    answers: tuple[str, str, str, str]
    view: View

    @property
    def fault(self) -> str:
        """The name of the fault: the right answer."""
        return self.exhibit.fault

    @property
    def kind(self) -> str:
        """What the function computes: "slopes", "bias" or "attention"."""
        return self.exhibit.kind

    @property
    def causal(self) -> bool:
        """Whether keys after the query should be masked."""
        return bool(self.exhibit.options.get("causal", True))


def falcon_eager(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    """Without the division of the bias by sqrt(head_dim)."""
    query_length, key_length = query.shape[2], key.shape[2]
    bias = alibi_bias(alibi_slopes(query.shape[1]), query_length, key_length)
    mask = bias.masked_fill(~causal_mask(query_length, key_length), -math.inf)
    logits = query @ key.mT / math.sqrt(query.shape[-1]) + bias
    return (logits + mask).softmax(-1) @ value


def keras_hub_falcon(num_heads: int, query_length: int, key_length: int) -> Tensor:
    """Without an error for a few queries with a cache."""
    slopes = alibi_slopes(num_heads)[:, None, None]
    position = torch.arange(key_length if query_length > 1 else query_length)
    return slopes * position


_SHORT = {each.__name__: each for each in (falcon_eager, keras_hub_falcon)}


def _source(function: Callable[..., Any], name: str) -> str:
    """The source text of a function under another name, without annotations, and with the library as `av`."""
    definition = ast.parse(inspect.getsource(function)).body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.name, definition.returns, definition.body = name, None, definition.body[1:]  # without the docstring
    for argument in definition.args.args:
        argument.annotation = None
    return re.sub(r"\b(?=(alibi_slopes|alibi_bias|causal_mask)\()", "av.", ast.unparse(definition))


def _load() -> dict[str, Bug]:
    by_rule = {exhibit.rule.__name__: exhibit for exhibit in EXHIBITS}
    bugs = {}
    for number, case in enumerate(tomllib.loads((files("alibi_viz.lessons") / "bugs.toml").read_text("utf-8"))["case"]):
        exhibit, name = by_rule[case["rule"]], f"case {number + 1}"
        code = _source(_SHORT.get(case["rule"], exhibit.rule), exhibit.kind)
        bugs[name] = Bug(name, code, exhibit, tuple(case["answers"]), View(**case["view"]))
    return bugs


BUGS = _load()
