"""Golden vectors: inputs and correct outputs in a JSON file, for implementations in any language.

`write_vectors` writes them. An implementation replaces every result by its own, and `check_vectors`
judges the file and names the faults. The cases are the calls that `check.bias` and
`check.attention` make, so the diagnosis is the same.

The file is an object with - "format": "alibi-vectors", and "version": 1 - "dtype": "float32";
change it to "float16" or "bfloat16" if the results are rounded to it - "slopes": a list of
{"num_heads", "result": [heads]}, for 1 to 128 heads - "bias": a list of {"num_heads",
"query_length", "key_length", "causal", "result": [heads][query][key]}; null stands
  for a key that the causal mask hides. The queries are the last positions of the keys.
- "attention": a list of {"causal", "query", "key", "value", "result"}; all but "causal" are
  [batch][heads][length][head_dim]

An implementation may leave out whole lists, but no case of a list.
"""

import json
from collections.abc import Callable, Hashable
from functools import partial
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from alibi_viz.arguments import as_path
from alibi_viz.attention import attention_trace
from alibi_viz.check.call import Unusable
from alibi_viz.check.checks import examine_attention, examine_bias, slopes
from alibi_viz.check.probe import AttentionReader, Probe, read_bias
from alibi_viz.check.report import Report
from alibi_viz.check.rules import Expectation
from alibi_viz.files import write
from alibi_viz.slopes import alibi_slopes

_FORMAT = {"format": "alibi-vectors", "version": 1}
_HEADS = range(1, 129)
_BIAS_CALLS = [Probe(8, 16, 16), Probe(12, 16, 16), Probe(8, 1, 16), Probe(8, 5, 16)]
_ATTENTION_CALLS = [Probe(4, 8, 8), Probe(6, 8, 8), Probe(4, 1, 8), Probe(4, 3, 8)]
_HEAD_DIM = 8
_DTYPES = {"float32": torch.float32, "float16": torch.float16, "bfloat16": torch.bfloat16}
_INPUTS = {  # of the cases of each list, in the order of the checker's arguments
    "slopes": ("num_heads",),
    "bias": ("num_heads", "query_length", "key_length", "causal"),
    "attention": ("query", "key", "value", "causal"),
}
Table = dict[tuple[Hashable, ...], Tensor]  # {inputs: result}


def write_vectors(path: str | Path) -> None:
    """Write golden vectors to a JSON file of less than 1 MB; `alibi_viz.check.vectors` describes
    it."""
    document = {
        **_FORMAT,
        "dtype": "float32",
        "slopes": [
            {"num_heads": heads, "result": _to_lists(alibi_slopes(heads))} for heads in _HEADS
        ],
        "bias": [
            {
                **probe._asdict(),
                "causal": causal,
                "result": _to_lists(Expectation(_reference, causal).bias(probe)),
            }
            for causal in (True, False)
            for probe in _BIAS_CALLS
        ],
        "attention": [*_record_attention(True), *_record_attention(False)],
    }
    write(path, json.dumps(document, separators=(",", ":")).replace("-Infinity", "null") + "\n")


def check_vectors(path: str | Path) -> Report:
    """Judge the results in a file of golden vectors that an implementation has filled in.

    Returns one report for all lists in the file. Raises OSError if the file cannot be read, and
    ValueError if it is not JSON, has another format or version, or if a case lacks a key or holds
    something else than numbers.
    """
    tables, reports = _read(path), []
    with torch.device("cpu"):
        if "slopes" in tables:
            reports.append(slopes(_look_up(tables["slopes"]), num_heads=_HEADS))
        for causal in (True, False):
            expected = Expectation(_reference, causal)
            if "bias" in tables:
                read = partial(
                    read_bias, _look_up(tables["bias"], causal), causal=causal, seconds=60.0
                )
                reports.append(examine_bias(read, "bias", _BIAS_CALLS, expected))
            if "attention" in tables:
                reader = AttentionReader(_look_up(tables["attention"], causal), head_dim=_HEAD_DIM)
                reports.append(examine_attention(reader, "attention", _ATTENTION_CALLS, expected))
    findings = {
        finding.name: finding for report in reversed(reports) for finding in report.findings
    }
    comparison = next((report.comparison for report in reports if report.comparison), None)
    return Report(str(path), list(findings.values()), comparison=comparison)


def _record_attention(causal: bool) -> list[dict[str, Any]]:
    """The calls that a check makes, with the correct outputs."""
    cases: dict[tuple[Hashable, ...], dict[str, Any]] = {}

    def attention(*inputs: Tensor) -> Tensor:
        query, key, value = (tensor.double() for tensor in inputs)
        output = (
            attention_trace(query, key, _reference(query.shape[1]), causal=causal).weights @ value
        )
        named = {"query": query, "key": key, "value": value, "result": output}
        cases[_key(*inputs)] = {
            "causal": causal,
            **{name: _to_lists(tensor) for name, tensor in named.items()},
        }
        return output.float()

    reader = AttentionReader(attention, head_dim=_HEAD_DIM)
    examine_attention(
        reader, "", _ATTENTION_CALLS, Expectation(_reference, causal)
    ).raise_for_faults()
    return list(cases.values())


def _reference(num_heads: int) -> Tensor:
    return alibi_slopes(num_heads).double()


def _key(*inputs: Any) -> tuple[Hashable, ...]:
    """The inputs of a case as a key of a table: tensors and lists by their bytes in float32, -0.0
    as 0.0."""
    lists = (torch.tensor(each) if isinstance(each, list) else each for each in inputs)
    return tuple(
        (e.float() + 0.0).contiguous().numpy().tobytes() if isinstance(e, Tensor) else e
        for e in lists
    )


def _look_up(table: Table, *causal: bool) -> Callable[..., Tensor]:
    """The function whose results are in the table, in its causal or its symmetric cases."""

    def function(*inputs: Any) -> Tensor:
        if (key := _key(*inputs, *causal)) not in table:
            raise Unusable("missing case", "the file has no such case")
        return table[key]

    return function


def _to_lists(tensor: Tensor) -> Any:
    """Nested lists of the shortest numbers that identify each float32."""
    return tensor.float().numpy().astype(str).astype(float).tolist()


def _read(path: str | Path) -> dict[str, Table]:
    """The lists of a file, each as a table."""
    try:
        document = json.loads(
            as_path("path", path).read_text().replace("null", "-Infinity")
        )  # which JSON lacks
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON: {error}") from error
    if not isinstance(document, dict) or any(
        document.get(name) != value for name, value in _FORMAT.items()
    ):
        raise ValueError(f"{path} must be a JSON object with {json.dumps(_FORMAT)[1:-1]}")
    if not _INPUTS.keys() & document.keys():
        raise ValueError(f"{path} has none of the lists {', '.join(_INPUTS)}")
    if (dtype := document.get("dtype", "float32")) not in list(_DTYPES):
        raise ValueError(f"{path}: dtype must be one of {', '.join(_DTYPES)}, got {dtype!r}")
    tables = {}
    for name, keys in _INPUTS.items():
        try:
            tables[name] = {
                _key(*(case[key] for key in keys)): torch.tensor(
                    case["result"], dtype=_DTYPES[dtype]
                )
                for case in document.get(name, [])
            }
        except (KeyError, TypeError, ValueError, OverflowError, RuntimeError) as error:
            needed = ", ".join((*keys, "result"))
            raise ValueError(
                f"{path}: {name} must be a list of cases with {needed} as numbers: {error!r}"
            ) from error
    return {name: table for name, table in tables.items() if name in document}
