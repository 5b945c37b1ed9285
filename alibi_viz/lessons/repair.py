"""Load the source text of a function, and check a reader's repair of a bug."""

import ast
import math
import traceback
from collections.abc import Callable
from functools import wraps
from types import CodeType
from typing import Any

import torch
from torch import Tensor

import alibi_viz
from alibi_viz import check
from alibi_viz.check.call import Unusable, call, on_cpu
from alibi_viz.lessons.bugs import BUGS, Bug

SECONDS = 10.0  # time limit of a call of the reader's function
_FILE = "<your code>"


def load_code(code: str, seconds: float = SECONDS) -> Callable[..., Any]:
    """Execute source text, and return the last function that it defines.

    The text can use `torch`, `math` and `av` without importing them. Errors raised by the function say in which line
    of the text they happened.

    Raises Unusable if the text cannot be executed within `seconds`, or defines no function.

    >>> double = load_code("def double(x):\\n    return 2 * torch.as_tensor(x)")
    >>> double(4)
    tensor(8)
    """
    namespace: dict[str, Any] = {"torch": torch, "math": math, "av": alibi_viz}
    compiled, names = _compile(code)
    call(_with_line(exec, code), compiled, namespace, seconds=seconds, description="running the code")
    if not names or not callable(namespace.get(names[-1])):
        raise Unusable("raises an error", "the code defines no function")
    return _with_line(namespace[names[-1]], code)


def try_repair(name: str, repair: str | Callable[..., Any], seconds: float = SECONDS) -> check.Report:
    """Check the repaired function of a bug, with the checker and the options that found the bug.

    Args:
        name: a key of `BUGS`.
        repair: the function, or its source text. Errors in the text become findings.
        seconds: the time limit of a call.

    Raises ValueError if there is no such bug, and TypeError if `repair` is neither text nor callable.

    >>> from alibi_viz import lessons
    >>> lessons.try_repair("case 1", lessons.BUGS["case 1"].code).ok
    False
    >>> lessons.try_repair("case 1", lambda heads, *lengths: alibi_bias(alibi_slopes(heads), *lengths)).ok
    True
    """
    if name not in BUGS:
        raise ValueError(f"there is no bug {name!r}; there are {', '.join(BUGS)}")
    bug = BUGS[name]
    if isinstance(repair, str):
        try:
            repair = load_code(repair, seconds)
        except Unusable as error:
            return check.Report(f"your {bug.kind}", [check.Finding(error.fault, str(error))])
    return getattr(check, bug.kind)(repair, seconds=seconds, **bug.exhibit.options)


def shown_weights(bug: Bug, code: str | None = None, seconds: float = SECONDS) -> Tensor:
    """The weights that show a bug, [rows, keys] as in `View.weights`, of its own code or of another.

    Raises Unusable if the code fails.
    """
    with on_cpu():
        return bug.view.weights(bug.kind, load_code(code or bug.code, seconds), bug.causal, seconds)


def _compile(code: str) -> tuple[CodeType, list[str]]:
    """The compiled text, and the names of the functions that it defines. Raises Unusable for a syntax error."""
    try:
        tree = ast.parse(code, _FILE)
        compiled = compile(tree, _FILE, "exec")
    except SyntaxError as error:
        raise Unusable("raises an error", f"line {error.lineno}: {type(error).__name__}: {error.msg}") from error
    except ValueError as error:  # such as a null character
        raise Unusable("raises an error", f"{type(error).__name__}: {error}") from error
    return compiled, [node.name for node in tree.body if isinstance(node, ast.FunctionDef)]


def _with_line(function: Callable[..., Any], code: str) -> Callable[..., Any]:
    """The function, whose exceptions become Unusable with the line of the text in which they happened."""

    @wraps(function)
    def run(*arguments: object) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            frames = traceback.extract_tb(error.__traceback__)
            numbers = [frame.lineno for frame in frames if frame.filename == _FILE and frame.lineno]
            line = f"line {numbers[-1]}, `{code.splitlines()[numbers[-1] - 1].strip()}`: " if numbers else ""
            raise Unusable("raises an error", f"{line}{type(error).__name__}: {error}") from error

    return run
