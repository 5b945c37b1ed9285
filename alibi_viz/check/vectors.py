"""Golden vectors: inputs and correct outputs in a JSON file, for implementations in any language.

`write_vectors` writes them. An implementation replaces every result by its own, and `check_vectors`
judges the file and names the faults.

The file is an object with

- "format": "alibi-vectors", and "version": 1
- "dtype": "float32"; change it to "float16" or "bfloat16" if the results are rounded to it
- "slopes": a list of {"num_heads", "result": [heads]}, for 1 to 128 heads
- "bias": a list of {"num_heads", "query_length", "key_length", "causal", "result":
  [heads][query][key]}; null stands for a key that the causal mask hides. The queries are the last
  positions of the keys.
- "attention": a list of {"causal", "query", "key", "value", "result"}; all but "causal" are
  [batch][heads][length][head_dim]

An implementation may leave out whole lists. Of a list it keeps all cases, in their order. It may
write numbers as C++ does ("-inf", "nan"), and the file in UTF-16, as Windows does.
"""

import json
import math
import re
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from alibi_viz.arguments import as_path
from alibi_viz.check.call import on_the_cpu
from alibi_viz.check.checks import examine_bias, slopes
from alibi_viz.check.detect import Answer, Sample, Sweep
from alibi_viz.check.expected import Expected
from alibi_viz.check.plan import Call, Probe
from alibi_viz.check.probe import AttentionReader, read_bias
from alibi_viz.check.report import Finding, Report
from alibi_viz.check.words import alternatives
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
_LISTS = ("slopes", "bias", "attention")
# Numbers that JSON doesn't have, as C, C++ and Windows print them: inf, -nan(ind), 1.#QNAN
_INFINITY = re.compile(r"\b(?:inf|infinity|1\.#INF)\b", re.IGNORECASE)
_NAN = re.compile(r"-?\b(?:nan(?:\(\w*\))?|1\.#(?:IND|QNAN|SNAN))", re.IGNORECASE)
_UNCHANGED = (
    "Every result is exactly as `write_vectors` writes it. If these are not the results of your "
    "implementation yet, nothing was checked."
)


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
    golden = _golden_vectors()
    results = {name: _results(path, document, name) for name in _LISTS if name in document}
    missing = [name for name in results if len(results[name]) != len(golden[name])]
    if missing:
        evidence = f"{alternatives(missing, 'and')} must have all cases, in their order"
        return Report(str(path), [Finding("missing case", evidence)])
    reports = []
    with on_the_cpu():
        if "slopes" in results:
            of_heads = dict(zip(_HEADS, results["slopes"], strict=True))
            reports.append(slopes(of_heads.__getitem__, num_heads=_HEADS))
        for n, causal in enumerate((True, False)):
            expected = Expected(_reference, causal)
            if "bias" in results:
                half = results["bias"][n * len(_BIAS_CALLS) :]
                reports.append(_examine_bias(half, expected))
            if "attention" in results:
                half = results["attention"][n * 2 * len(_ATTENTION_CALLS) :]
                reports += [_examine_attention(half[way::2], way, expected) for way in (0, 1)]

    findings = {}
    comparison = None
    for report in reversed(reports):  # so that the first report with a fault is kept
        for finding in report.findings:
            findings[finding.name] = finding
        comparison = report.comparison or comparison
    if len(findings) > 1:
        findings.pop("unknown fault", None)  # which the others explain
    is_unchanged = all(document[name] == golden[name] for name in results)
    notes = [_UNCHANGED] if is_unchanged else []
    return Report(str(path), list(findings.values()), notes, comparison)


def _examine_bias(results: Sequence[Tensor], expected: Expected) -> Report:
    of_call = dict(zip(_BIAS_CALLS, results, strict=False))

    def ask(call: Call) -> Answer:
        return read_bias(lambda *_: of_call[call], call, expected.causal, seconds=60.0)

    return examine_bias("bias", Sweep(ask, _BIAS_CALLS), expected)


def _examine_attention(results: Sequence[Tensor], way: int, expected: Expected) -> Report:
    of_call = dict(zip(_ATTENTION_CALLS, results, strict=False))

    def ask(call: Call) -> Answer:
        reader = AttentionReader(lambda *_: of_call[call])
        return _ways_to_ask(reader)[way](call)

    return examine_bias("attention", Sweep(ask, _ATTENTION_CALLS), expected)


def _reference(num_heads: int) -> Tensor:
    return alibi_slopes(num_heads).double()


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
    if not set(_LISTS) & document.keys():
        raise ValueError(f"{path} has none of the lists {', '.join(_LISTS)}")
    dtype = document.get("dtype", "float32")
    if dtype not in list(_DTYPES):
        raise ValueError(f"{path}: dtype must be one of {', '.join(_DTYPES)}, got {dtype!r}")
    return document


def _results(path: str | Path, document: dict[str, Any], name: str) -> list[Tensor]:
    """The results of the cases of a list."""
    dtype = _DTYPES[document.get("dtype", "float32")]
    try:
        cases = [_without_none(case["result"]) for case in document[name]]
        return [torch.tensor(result, dtype=dtype) for result in cases]
    except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
        raise ValueError(
            f"{path}: {name} must be a list of cases with a result of numbers: {error!r}"
        ) from error
