"""Faulty implementations to recognize by their attention weights and to repair, ordered from easy
to hard.

Each has one fault that was in a public project. Its code is that of the gallery; `bugs.toml` leaves
out second faults.
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
from alibi_viz.check.probe import AttentionReader, Probe, read_bias
from alibi_viz.slopes import alibi_slopes

HEAD_DIM = 64
MATCH = 4.0  # the content, q . k / sqrt(head_dim), of two equal words; that of different words is 0
SECONDS = 10.0  # time limit of a call of the reader's function
_FILE = "<your code>"


@dataclass(frozen=True)
class View:
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
        """The weights, each relative to the largest of its row: float64 [rows, keys], 0 where a key
        is masked.

        The function computes the "slopes", "bias" or "attention", with the signature that `check`
        expects. Raises Unusable if it fails, takes longer than `seconds`, or returns the wrong
        shape.
        """

        def bias_of_slopes(num_heads: int, *lengths: int) -> Tensor:
            slopes, _ = to_tensor(function(num_heads), "the slopes")
            return slopes.reshape(num_heads, 1, 1) * alibi_bias(torch.ones(1), *lengths)

        word = torch.arange(self.key_length)[:, None] % max(1, self.words) == torch.arange(HEAD_DIM)
        key = word * (MATCH * HEAD_DIM**0.5) ** 0.5 * bool(self.words)
        query = key[-self.query_length :]
        if kind == "attention":
            inputs = (
                each.expand(1, self.num_heads, -1, -1)
                for each in (query, key, torch.eye(len(key), HEAD_DIM))
            )
            weights = AttentionReader(function, seconds=seconds)(*inputs)[0, ..., : len(key)]
        else:
            sizes = Probe(self.num_heads, self.query_length, self.key_length)
            bias = read_bias(
                bias_of_slopes if kind == "slopes" else function, sizes, causal, seconds
            ).logits
            weights = (query @ key.T / HEAD_DIM**0.5 + bias).softmax(-1)
        rows = weights[:, -1] if self.head is None else weights[self.head - 1]
        return (rows / rows.amax(-1, keepdim=True)).nan_to_num(0.0)[:, -self.shown :]

    def correct(self, causal: bool) -> Tensor:
        """The same for a correct implementation."""
        slopes, form = alibi_slopes(self.num_heads), "relative" if causal else "symmetric"
        return self.weights(
            "bias", lambda _, *lengths: alibi_bias(slopes, *lengths, form=form), causal
        )


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
    view: View

    @property
    def fault(self) -> str:
        """The name of the fault: the right answer."""
        return self.exhibit.fault

    @property
    def causal(self) -> bool:
        """Whether keys after the query should be masked."""
        return bool(self.exhibit.options.get("causal", True))

    def weights(self, code: str | None = None, seconds: float = SECONDS) -> Tensor:
        """The weights that the view shows, of the faulty code or of another. Raises Unusable if the
        code fails."""
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
    """Execute source text, and return the function of that name, or else the last function that it
    defines.

    The text can use `torch`, `math` and `av` without importing them. Errors raised by the function
    say in which line of the text they happened. Raises Unusable if the text cannot be executed
    within `seconds`, or has no function.

    >>> double = load_code("def double(x):\\n    return 2 * torch.as_tensor(x)")
    >>> double(4)
    tensor(8)
    """
    namespace: dict[str, Any] = {"torch": torch, "math": math, "av": alibi_viz}

    @_naming_lines()
    def execute() -> Any:
        tree = ast.parse(code, _FILE)
        exec(compile(tree, _FILE, "exec"), namespace)
        names = [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]
        return (
            named
            if callable(named := namespace.get(name)) or not names
            else namespace.get(names[-1])
        )

    if not callable(function := call(execute, seconds=seconds, description="running the code")):
        raise Unusable("raises an error", "the code defines no function")
    return _naming_lines()(function)


@contextmanager
def _naming_lines() -> Iterator[None]:
    """Turn an exception into Unusable, with the line of the text in which it happened."""
    try:
        yield
    except Exception as error:
        lines = [
            frame.lineno
            for frame in traceback.extract_tb(error.__traceback__)
            if frame.filename == _FILE
        ]
        message: object = error
        if isinstance(error, SyntaxError) and not lines:  # the text itself cannot be read
            lines, message = [error.lineno], error.msg
        place = f"line {lines[-1]}: " if lines else ""
        raise Unusable("raises an error", f"{place}{type(error).__name__}: {message}") from error


def _source(function: Callable[..., Any], name: str) -> str:
    """The source text of a function under another name, without annotations, and with the library
    as `av`."""
    definition = ast.parse(inspect.getsource(function)).body[0]
    assert isinstance(definition, ast.FunctionDef)
    definition.name, definition.returns, definition.body = (
        name,
        None,
        definition.body[1:],
    )  # without the docstring
    for argument in definition.args.args:
        argument.annotation = None
    return re.sub(r"\b(?=(alibi_slopes|alibi_bias|causal_mask)\()", "av.", ast.unparse(definition))


def _load() -> dict[str, Bug]:
    exhibits = {exhibit.rule.__name__: exhibit for exhibit in EXHIBITS}
    tiers = tomllib.loads((files("alibi_viz.lessons") / "bugs.toml").read_text("utf-8"))
    bugs: dict[str, Bug] = {}
    for tier, case in ((tier, case) for tier, cases in tiers.items() for case in cases):
        exhibit, name = exhibits[case["rule"]], f"case {len(bugs) + 1}"
        old, new = case.get("replace", ("", ""))
        code = _source(exhibit.rule, exhibit.kind).replace(old, new, 1)
        bugs[name] = Bug(name, tier, code, exhibit, tuple(case["answers"]), View(**case["view"]))
    return bugs


BUGS = _load()
