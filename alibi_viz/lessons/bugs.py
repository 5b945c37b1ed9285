"""Faulty implementations to recognize by their attention weights and to repair.

They are ordered from easy to hard. Each has one fault that was in a public project. Its code is
that of the gallery; `bugs.toml` leaves out second faults.
"""

import ast
import inspect
import math
import re
import tomllib
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial, wraps
from importlib.resources import files
from typing import Any

import torch
from torch import Tensor

import alibi_viz
from alibi_viz import check
from alibi_viz.arguments import check_choice, check_instance, check_positive
from alibi_viz.bias import alibi_bias
from alibi_viz.check.call import Unusable, call, to_tensor
from alibi_viz.check.gallery import EXHIBITS, Exhibit
from alibi_viz.check.plan import Call, Probe
from alibi_viz.check.probe import AttentionReader, read_bias
from alibi_viz.slopes import alibi_slopes

HEAD_DIM = 64
MATCH = 4.0  # the content, q . k / sqrt(head_dim), of two equal words; that of different words is 0
SECONDS = 10.0  # time limit of a call of the reader's function
_FILE = "<your code>"


@dataclass(frozen=True)
class CaseView:
    """The sizes of a call, and which of its weights to show.

    Attributes:
        head: the head to show, counted from 1, with one row per query. None shows the last query of
            every head.
        num_heads: how many heads the call has.
        query_length: the queries are the last positions of the keys.
        key_length: at most 64 for an attention function, whose weights are read with one-hot
            values.
        shown: how many of the last keys to show.
        words: the tokens are this many words, repeated in order; by default 0, and all content is
            equal.
    """

    head: int | None = None
    num_heads: int = 8
    query_length: int = 16
    key_length: int = 16
    shown: int = 16
    words: int = 0

    @property
    def rows(self) -> range:
        """The number of each row: the positions of the queries, or the heads."""
        queries = range(self.key_length - self.query_length, self.key_length)
        return range(1, self.num_heads + 1) if self.head is None else queries

    @property
    def keys(self) -> range:
        """The positions of the keys shown."""
        return range(self.key_length - self.shown, self.key_length)

    def weights(
        self, kind: str, function: Callable[..., Any], causal: bool, seconds: float = SECONDS
    ) -> Tensor:
        """The weights that a function leads to, each relative to the largest of its row.

        Args:
            kind: what the function computes: "slopes", "bias" or "attention", with the signature
                that `check` expects.
            function: the function.
            causal: whether keys after the query should be masked.
            seconds: the time limit of a call.

        Returns:
            float64 [rows, keys], 0 where a key is masked.

        Raises:
            Unusable: the function fails, takes longer than `seconds`, or returns the wrong shape.
        """
        if kind == "attention":
            weights = self._weights_of_attention(function, seconds)
        elif kind == "slopes":
            bias_function = partial(_bias_from_slopes, function)
            weights = self._weights_from_bias(bias_function, causal, seconds)
        else:
            weights = self._weights_from_bias(function, causal, seconds)

        rows = weights[:, -1] if self.head is None else weights[self.head - 1]
        relative = rows / rows.amax(-1, keepdim=True)
        return relative.nan_to_num(0.0)[:, -self.shown :]

    def correct(self, causal: bool) -> Tensor:
        """The same for a correct implementation."""
        slopes = alibi_slopes(self.num_heads)
        form = "relative" if causal else "symmetric"

        def correct_bias(_: int, *lengths: int) -> Tensor:
            return alibi_bias(slopes, *lengths, form=form)

        return self.weights("bias", correct_bias, causal)

    def _weights_of_attention(self, function: Callable[..., Any], seconds: float) -> Tensor:
        """The weights that an attention function gives to its values: [heads, query, key]."""
        query, key = self._query_and_key()
        one_hot_values = torch.eye(self.key_length, HEAD_DIM)

        def of_all_heads(matrix: Tensor) -> Tensor:
            return matrix.expand(1, self.num_heads, -1, -1)

        reader = AttentionReader(function, seconds=seconds)
        outputs = reader(of_all_heads(query), of_all_heads(key), of_all_heads(one_hot_values))
        return outputs[0, ..., : self.key_length]

    def _weights_from_bias(
        self, function: Callable[..., Any], causal: bool, seconds: float
    ) -> Tensor:
        """The weights that follow from the bias of a function: [heads, query, key]."""
        query, key = self._query_and_key()
        sizes = Probe(self.num_heads, self.query_length, self.key_length)
        bias = read_bias(function, Call(sizes), causal, seconds).logits
        return (query @ key.T / HEAD_DIM**0.5 + bias).softmax(-1)

    def _query_and_key(self) -> tuple[Tensor, Tensor]:
        """Query and key, [length, head_dim], whose content is `MATCH` for two equal words."""
        if self.words == 0:
            key = torch.zeros(self.key_length, HEAD_DIM)
        else:
            word = torch.arange(self.key_length) % self.words
            one_hot = word[:, None] == torch.arange(HEAD_DIM)
            key = one_hot * (MATCH * HEAD_DIM**0.5) ** 0.5
        return key[-self.query_length :], key


def _bias_from_slopes(function: Callable[[int], Any], num_heads: int, *lengths: int) -> Tensor:
    """The bias, [heads, query, key], of slopes that a function computes."""
    slopes, _ = to_tensor(function(num_heads), "the slopes")
    return slopes.reshape(num_heads, 1, 1) * alibi_bias(torch.ones(1), *lengths)


@dataclass(frozen=True)
class Bug:
    """A faulty function, four possible answers to what is wrong with it, and a call that shows it.

    Attributes:
        name: "case 1", "case 2", ..., which does not give the fault away.
        tier: "easy", "medium" or "hard".
        code: the source text of the function; it uses `torch`, `math` and `av` without importing
            them.
        exhibit: the public project with this fault.
        answers: names of four faults, keys of `alibi_viz.check.FAULTS`, in the order of the
            buttons. One is right.
        view: the call whose weights show the fault.
    """

    name: str
    tier: str
    code: str
    exhibit: Exhibit
    answers: tuple[str, ...]
    view: CaseView

    @property
    def fault(self) -> str:
        """The name of the fault: the right answer."""
        return self.exhibit.fault

    @property
    def causal(self) -> bool:
        """Whether keys after the query should be masked."""
        return bool(self.exhibit.options.get("causal", True))

    def weights(self, code: str | None = None, seconds: float = SECONDS) -> Tensor:
        """The weights that the view shows, of the faulty code or of `code`.

        Raises Unusable if the code fails.
        """
        function = load_code(code or self.code, seconds, self.exhibit.kind)
        with torch.device("cpu"):
            return self.view.weights(self.exhibit.kind, function, self.causal, seconds)


def try_repair(name: str, repair: str, seconds: float = SECONDS) -> check.Report:
    """Check the repaired function of a bug, with the checker and the options that found the bug.

    Args:
        name: a key of `BUGS`.
        repair: the source text. Errors in it become findings.
        seconds: the time limit of a call.

    Raises ValueError if there is no such bug.

    >>> from alibi_viz import lessons
    >>> lessons.try_repair("case 1", lessons.BUGS["case 1"].code).ok
    False
    """
    check_choice("name", name, BUGS)
    check_instance("repair", repair, str)
    check_positive("seconds", seconds)
    exhibit = BUGS[name].exhibit
    try:
        function = load_code(repair, seconds, exhibit.kind)
    except Unusable as error:
        return check.Report(f"your {exhibit.kind}", [check.Finding(error.fault, str(error))])
    return getattr(check, exhibit.kind)(function, seconds=seconds, **exhibit.options)


def load_code(code: str, seconds: float = SECONDS, name: str = "") -> Callable[..., Any]:
    """Execute source text, and return a function that it defines.

    It is the function called `name` or, if there is none, the last one. The text can use `torch`,
    `math` and `av` without importing them. Errors raised by the function say in which line of the
    text they happened. Raises Unusable if the text cannot be executed within `seconds`, or has no
    function.

    >>> from alibi_viz.lessons.bugs import load_code
    >>> double = load_code("def double(x):\\n    return 2 * torch.as_tensor(x)")
    >>> double(4)
    tensor(8)
    """
    namespace: dict[str, Any] = {"torch": torch, "math": math, "av": alibi_viz}

    def execute() -> Any:
        with _naming_lines():
            tree = ast.parse(code, _FILE)
            exec(compile(tree, _FILE, "exec"), namespace)
        named = namespace.get(name)
        defined = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        if callable(named) or not defined:
            return named
        return namespace.get(defined[-1])

    function = call(execute, seconds=seconds, description="running the code")
    if not callable(function):
        raise Unusable("raises an error", "the code defines no function")

    @wraps(function)
    def defined_function(*args: Any, **kwargs: Any) -> Any:
        with _naming_lines():
            return function(*args, **kwargs)

    return defined_function


@contextmanager
def _naming_lines() -> Iterator[None]:
    """Turn an exception into Unusable, with the line of the text in which it happened."""
    try:
        yield
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        lines = [frame.lineno for frame in frames if frame.filename == _FILE]
        message: object = error
        if isinstance(error, SyntaxError) and not lines:  # the text itself cannot be read
            lines = [error.lineno]
            message = error.msg
        place = f"line {lines[-1]}: " if lines else ""
        raise Unusable("raises an error", f"{place}{type(error).__name__}: {message}") from error


def _source(function: Callable[..., Any], name: str) -> str:
    """The source text of a function under another name, with the library as `av`.

    Annotations and the docstring are left out.
    """
    definition = ast.parse(inspect.getsource(function)).body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.name = name
    definition.returns = None
    _docstring, *definition.body = definition.body
    for argument in definition.args.args:
        argument.annotation = None
    return re.sub(r"\b(?=(alibi_slopes|alibi_bias|causal_mask)\()", "av.", ast.unparse(definition))


def _load() -> dict[str, Bug]:
    exhibits = {exhibit.rule.__name__: exhibit for exhibit in EXHIBITS}
    text = (files("alibi_viz.lessons") / "bugs.toml").read_text("utf-8")
    bugs: dict[str, Bug] = {}
    for tier, cases in tomllib.loads(text).items():
        for case in cases:
            name = f"case {len(bugs) + 1}"
            exhibit = exhibits[case["rule"]]
            code = _source(exhibit.rule, exhibit.kind)
            if "replace" in case:
                old, new = case["replace"]
                code = code.replace(old, new, 1)
            bugs[name] = Bug(
                name=name,
                tier=tier,
                code=code,
                exhibit=exhibit,
                answers=tuple(case["answers"]),
                view=CaseView(**case["view"]),
            )
    return bugs


BUGS = _load()
