"""Golden vectors: inputs and correct outputs in a JSON file, for implementations in any language.

`write_vectors` writes them. An implementation replaces every result by its own, and `check_vectors`
compares the file with the correct one, case by case.

The file is an object with

- "format": "alibi-vectors", and "version": 2
- "dtype": "float32"; change it to "float16" or "bfloat16" if the results are rounded to it
- "slopes": a list of {"num_heads", "result": [heads]}, for 1 to 128 heads
- "bias": a list of {"num_heads", "query_length", "key_length", "causal", "result":
  [heads][query][key]}; null stands for a key that the causal mask hides. The queries are the last
  positions of the keys.
- "attention": a list of {"causal", "query", "key", "value", "result"}; all but "causal" are
  [batch][heads][length][head_dim]

An implementation may leave out whole lists. Of a list it keeps all cases, in their order.
"""

import json
import math
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from alibi_viz.arguments import as_path
from alibi_viz.attention import alibi_attention
from alibi_viz.bias import alibi_bias, mask_future
from alibi_viz.check.call import on_the_cpu
from alibi_viz.check.report import Finding, Report
from alibi_viz.files import decode, write
from alibi_viz.slopes import alibi_slopes

_FORMAT = {"format": "alibi-vectors", "version": 2}
# (heads, queries, keys)
_BIAS_SIZES = ((8, 16, 16), (12, 16, 16), (8, 1, 16), (8, 5, 16))
_ATTENTION_SIZES = ((4, 8, 8), (6, 8, 8), (4, 1, 8), (4, 3, 8))
_HEAD_DIM = 8
# How far a result may be from the correct one: of attention absolutely, of others relatively
_TOLERANCE = {"float32": 1e-4, "float16": 2**-7, "bfloat16": 2**-4}


def write_vectors(path: str | Path) -> None:
    """Write golden vectors to a JSON file of less than 1 MB.

    The docstring of the module `alibi_viz.check.vectors` describes the file.
    """
    path = as_path("path", path)
    write(path, json.dumps(_golden_vectors(), separators=(",", ":"), allow_nan=False) + "\n")


def _golden_vectors() -> dict[str, Any]:
    with on_the_cpu():
        slopes = [
            {"num_heads": heads, "result": _to_lists(alibi_slopes(heads))}
            for heads in range(1, 129)
        ]
        biases: list[dict[str, Any]] = []
        attention: list[dict[str, Any]] = []
        random = torch.Generator().manual_seed(0)
        for causal in (True, False):
            for heads, queries, keys in _BIAS_SIZES:
                form = "relative" if causal else "symmetric"
                bias = alibi_bias(alibi_slopes(heads), queries, keys, form=form)
                if causal:
                    bias = mask_future(bias)
                sizes = {"num_heads": heads, "query_length": queries, "key_length": keys}
                biases.append({**sizes, "causal": causal, "result": _to_lists(bias)})

            for heads, queries, keys in _ATTENTION_SIZES:
                query = torch.randn(2, heads, queries, _HEAD_DIM, generator=random)
                key, value = torch.randn(2, 2, heads, keys, _HEAD_DIM, generator=random)
                output = alibi_attention(
                    query.double(),
                    key.double(),
                    value.double(),
                    alibi_slopes(heads),
                    causal=causal,
                    backend="eager",
                )
                inputs = {"query": query, "key": key, "value": value}
                case = {name: _to_lists(tensor) for name, tensor in inputs.items()}
                attention.append({"causal": causal, **case, "result": _to_lists(output)})
    lists = {"slopes": slopes, "bias": biases, "attention": attention}
    return {**_FORMAT, "dtype": "float32", **lists}


def _to_lists(tensor: Tensor) -> Any:
    """Nested lists of the shortest numbers that identify each float32, and None for -inf."""
    numbers = tensor.float().numpy()
    lists = numbers.astype(str).astype(float).astype(object)
    lists[numbers == -math.inf] = None
    return lists.tolist()


def check_vectors(path: str | Path) -> Report:
    """Compare the results in a file of golden vectors, which an implementation has filled in.

    Returns a report with a finding for each list that has a wrong result, and a note if nobody has
    changed one. Raises OSError if the file cannot be read, and ValueError if it is not JSON, has
    another format or version, or if a case has no result of numbers.
    """
    path = as_path("path", path)
    try:
        document = json.loads(decode(path.read_bytes()))
    except (ValueError, RecursionError) as error:
        raise ValueError(f"{path} is not JSON, which has null for -inf: {error}") from error
    if not isinstance(document, dict) or not _FORMAT.items() <= document.items():
        raise ValueError(f"{path} must be a JSON object with {json.dumps(_FORMAT)[1:-1]}")
    golden = _golden_vectors()
    lists = [name for name in ("slopes", "bias", "attention") if name in document]
    if not lists:
        raise ValueError(f"{path} has none of the lists slopes, bias, attention")
    dtype = document.get("dtype", "float32")
    if dtype not in list(_TOLERANCE):
        raise ValueError(f"{path}: dtype must be one of {', '.join(_TOLERANCE)}, got {dtype!r}")

    findings = []
    for name in lists:
        try:
            results = [_to_tensor(case["result"]) for case in document[name]]
        except (KeyError, TypeError, ValueError, OverflowError) as error:
            raise ValueError(
                f"{path}: {name} must be a list of cases with a result of numbers: {error!r}"
            ) from error
        evidence = _difference(golden[name], results, name, _TOLERANCE[dtype])
        if evidence is not None:
            findings.append(Finding(f"wrong {name}", evidence))
    notes = []
    if all(document[name] == golden[name] for name in lists):
        notes.append(
            "Every result is exactly as `write_vectors` writes it. If these are not the results of "
            "your implementation yet, nothing was checked."
        )
    return Report(str(path), findings, notes)


def _to_tensor(result: Any) -> Tensor:
    """Nested lists of numbers in float64, with -inf for None."""

    def without_none(value: Any) -> Any:
        if isinstance(value, list):
            return [without_none(inner) for inner in value]
        return -math.inf if value is None else value

    return torch.tensor(without_none(result), dtype=torch.float64)


def _difference(
    cases: list[dict[str, Any]], results: list[Tensor], name: str, tolerance: float
) -> str | None:
    """The first case with a wrong result, in words; None if all are right."""
    if len(results) != len(cases):
        return f"{len(results)} cases instead of {len(cases)}: keep all, in their order"
    for number, (case, result) in enumerate(zip(cases, results, strict=True), start=1):
        correct = _to_tensor(case["result"])
        sizes = [f"{key}={value}" for key, value in case.items() if not isinstance(value, list)]
        where = f"case {number} of {len(cases)} ({', '.join(sizes)})"
        if result.shape != correct.shape:
            return f"{where} has shape {list(result.shape)}, expected {list(correct.shape)}"
        relative, absolute = (0.0, tolerance) if name == "attention" else (tolerance, 1e-12)
        is_wrong = ~result.isclose(correct, rtol=relative, atol=absolute)
        if bool(is_wrong.any()):
            place = is_wrong.nonzero()[0].tolist()
            got = float(result[tuple(place)])
            return f"{where}, at {place}: {got:.6g}, expected {float(correct[tuple(place)]):.6g}"
    return None
