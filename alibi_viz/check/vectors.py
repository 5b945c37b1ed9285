"""Golden vectors: inputs and correct outputs in a JSON file, for implementations in any language.

`write_vectors` writes them. An implementation replaces every result by its own, and `check_vectors`
judges the file and names the faults. The cases are the calls that `check.bias` and
`check.attention` make, so the diagnosis is the same.

The file is an object with

- "format": "alibi-vectors", and "version": 1
- "dtype": "float32"; change it to "float16" or "bfloat16" if the results are rounded to it
- "slopes": a list of {"num_heads", "result": [heads]}, for 1 to 128 heads
- "bias": a list of {"num_heads", "query_length", "key_length", "causal", "result":
  [heads][query][key]}; null stands for a key that the causal mask hides. The queries are the last
  positions of the keys.
- "attention": a list of {"causal", "query", "key", "value", "result"}; all but "causal" are
  [batch][heads][length][head_dim]

An implementation may leave out whole lists, but no case of a list. It may write numbers as C++ does
("-inf", "nan"), and the file in UTF-16, as Windows does.
"""

import json
import math
import re
from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alibi_viz.arguments import as_path
from alibi_viz.check.call import Unusable, on_the_cpu
from alibi_viz.check.checks import examine_bias, slopes
from alibi_viz.check.detect import Answer, Sample, Sweep
from alibi_viz.check.expected import Expected
from alibi_viz.check.plan import Call, Probe
from alibi_viz.check.probe import AttentionReader, Observation, read_bias
from alibi_viz.check.report import Report
from alibi_viz.files import decode, write
from alibi_viz.slopes import alibi_slopes

_FORMAT = {"format": "alibi-vectors", "version": 1}
_HEADS = range(1, 129)
_HEAD_DIM = 8
_BIAS_CALLS = [Call(Probe(*sizes)) for sizes in ((8, 16, 16), (12, 16, 16), (8, 1, 16), (8, 5, 16))]
_ATTENTION_CALLS = [
    Call(Probe(*sizes), _HEAD_DIM) for sizes in ((4, 8, 8), (6, 8, 8), (4, 1, 8), (4, 3, 8))
]
_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
# The inputs of the cases of each list, in the order of the checker's arguments
_INPUTS = {
    "slopes": ("num_heads",),
    "bias": ("num_heads", "query_length", "key_length", "causal"),
    "attention": ("query", "key", "value", "causal"),
}
# Numbers that JSON doesn't have, as C, C++ and Windows print them: inf, -nan(ind), 1.#QNAN
_INFINITY = re.compile(r"\b(?:inf|infinity|1\.#INF)\b", re.IGNORECASE)
_NAN = re.compile(r"-?\b(?:nan(?:\(\w*\))?|1\.#(?:IND|QNAN|SNAN))", re.IGNORECASE)
_UNCHANGED = (
    "Every result is exactly as `write_vectors` writes it. If these are not the results of your "
    "implementation yet, nothing was checked."
)
Table = dict[tuple[Hashable, ...], Tensor]  # {inputs: result}


def write_vectors(path: str | Path) -> None:
    """Write golden vectors to a JSON file of less than 1 MB.

    The docstring of the module `alibi_viz.check.vectors` describes the file.
    """
    path = as_path("path", path)
    write(path, json.dumps(_golden_vectors(), separators=(",", ":"), allow_nan=False) + "\n")


def _golden_vectors() -> dict[str, Any]:
    slope_cases = []
    for heads in _HEADS:
        slope_cases.append({"num_heads": heads, "result": _to_lists(alibi_slopes(heads))})
    bias_cases = []
    attention_cases: list[dict[str, Any]] = []
    for causal in (True, False):
        expected = Expected(_reference, causal)
        for call in _BIAS_CALLS:
            result = _to_lists(expected.bias(call.probe))
            bias_cases.append({**call.probe._asdict(), "causal": causal, "result": result})

        def record(*inputs: Tensor, causal: bool = causal, expected: Expected = expected) -> Tensor:
            output = expected.output(*[tensor.double() for tensor in inputs])
            case = dict(zip(("query", "key", "value"), map(_to_lists, inputs), strict=True))
            attention_cases.append({"causal": causal, **case, "result": _to_lists(output)})
            return output.float()

        for call in _ATTENTION_CALLS:
            for ask in _ways_to_ask(AttentionReader(record)):
                ask(call)
    return {
        **_FORMAT,
        "dtype": "float32",
        "slopes": slope_cases,
        "bias": bias_cases,
        "attention": attention_cases,
    }


def _ways_to_ask(reader: AttentionReader) -> list[Callable[[Call], Answer]]:
    """For the weights at equal content, and for the output for random content."""
    return [lambda call: reader.observe(call)[0], partial(Sample.of, reader)]


def check_vectors(path: str | Path) -> Report:
    """Judge the results in a file of golden vectors that an implementation has filled in.

    Returns one report for all lists in the file, with a note if nobody has changed a result.

    Raises OSError if the file cannot be read, and ValueError if it is not JSON, has another format
    or version, or if a case lacks a key or holds something else than numbers.
    """
    document = _read(path)
    tables = _tables(path, document)
    reports = []
    with on_the_cpu():
        if "slopes" in tables:
            reports.append(slopes(_look_up(tables["slopes"]), num_heads=_HEADS))
        for causal in (True, False):
            expected = Expected(_reference, causal)
            if "bias" in tables:
                ask = partial(_read_bias, _look_up(tables["bias"], causal), causal)
                reports.append(examine_bias("bias", Sweep(ask, _BIAS_CALLS), expected))
            if "attention" in tables:
                reader = AttentionReader(_look_up(tables["attention"], causal))
                for way in _ways_to_ask(reader):
                    sweep = Sweep(way, _ATTENTION_CALLS)
                    reports.append(examine_bias("attention", sweep, expected))

    findings = {}
    comparison = None
    for report in reversed(reports):  # so that the first report with a fault is kept
        for finding in report.findings:
            findings[finding.name] = finding
        comparison = report.comparison or comparison
    if len(findings) > 1:
        findings.pop("unknown fault", None)  # which the others explain
    golden = _golden_vectors()
    is_unchanged = all(document[name] == golden[name] for name in tables)
    notes = [_UNCHANGED] if is_unchanged else []
    return Report(str(path), list(findings.values()), notes, comparison)


def _read_bias(function: Callable[..., Tensor], causal: bool, call: Call) -> Observation:
    return read_bias(function, call, causal, seconds=60.0)


def _reference(num_heads: int) -> Tensor:
    return alibi_slopes(num_heads).double()


def _key(*inputs: Any) -> tuple[Hashable, ...]:
    """The inputs of a case as a key of a table.

    Tensors and lists are compared by their bytes in float32, with -0.0 as 0.0.
    """
    parts: list[Hashable] = []
    for value in inputs:
        if isinstance(value, list):
            value = torch.tensor(value)  # noqa: PLW2901
        if isinstance(value, Tensor):
            without_negative_zero = value.float() + 0.0
            value = without_negative_zero.contiguous().numpy().tobytes()  # noqa: PLW2901
        parts.append(value)
    return tuple(parts)


def _look_up(table: Table, *causal: bool) -> Callable[..., Tensor]:
    """The function whose results are in the table, in its causal or its symmetric cases."""

    def function(*inputs: Any) -> Tensor:
        key = _key(*inputs, *causal)
        if key not in table:
            raise Unusable("missing case", "the file has no such case")
        return table[key]

    return function


def _to_lists(tensor: Tensor) -> Any:
    """Nested lists of the shortest numbers that identify each float32, and None for -inf."""
    numbers = tensor.float().numpy()
    lists = numbers.astype(str).astype(float).astype(object)
    lists[np.isneginf(numbers)] = None
    return lists.tolist()


def _without_none(result: Any) -> Any:
    """Nested lists with -inf in place of None, which JSON writes as null."""
    if isinstance(result, list):
        return [_without_none(value) for value in result]
    return -math.inf if result is None else result


def _read(path: str | Path) -> dict[str, Any]:
    """The object in a file. Raises ValueError if it isn't one of this format."""
    data = as_path("path", path).read_bytes()
    try:
        text = decode(data)
        text = _INFINITY.sub("Infinity", text)
        text = _NAN.sub("NaN", text)
        document = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    is_of_this_format = isinstance(document, dict) and _FORMAT.items() <= document.items()
    if not is_of_this_format:
        raise ValueError(f"{path} must be a JSON object with {json.dumps(_FORMAT)[1:-1]}")
    if not _INPUTS.keys() & document.keys():
        raise ValueError(f"{path} has none of the lists {', '.join(_INPUTS)}")
    dtype = document.get("dtype", "float32")
    if dtype not in list(_DTYPES):
        raise ValueError(f"{path}: dtype must be one of {', '.join(_DTYPES)}, got {dtype!r}")
    return document


def _tables(path: str | Path, document: dict[str, Any]) -> dict[str, Table]:
    """The lists of a file, each as a table."""
    dtype = _DTYPES[document.get("dtype", "float32")]
    tables = {}
    for name, inputs in _INPUTS.items():
        if name not in document:
            continue
        table = {}
        try:
            for case in document[name]:
                key = _key(*(case[field] for field in inputs))
                result = _without_none(case["result"])
                table[key] = torch.tensor(result, dtype=dtype)
        except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
            needed = ", ".join((*inputs, "result"))
            raise ValueError(
                f"{path}: {name} must be a list of cases with {needed} as numbers: {error!r}"
            ) from error
        tables[name] = table
    return tables
