import json
from itertools import filterfalse
from operator import itemgetter
from pathlib import Path
from typing import Any

import pytest
import torch

from alibi_viz import alibi_slopes, attention_trace
from alibi_viz.check import check_vectors, write_vectors


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("vectors") / "golden.json"
    write_vectors(file)
    return file


@pytest.fixture
def document(path: Path) -> Any:
    return json.loads(path.read_text(), parse_constant=pytest.fail)


def judge(document: object, folder: Path) -> Any:
    file = folder / "theirs.json"
    file.write_text(json.dumps(document))
    return check_vectors(file)


def test_file_is_small_and_its_own_results_are_right(path: Path) -> None:
    assert path.stat().st_size < 1_000_000
    check_vectors(path).raise_for_faults()
    document = json.loads(path.read_text())
    unsigned = path.read_text().replace("-0.0,", "0,")  # as JavaScript writes it
    assert unsigned != path.read_text() and judge(json.loads(unsigned), path.parent).ok
    assert [case["num_heads"] for case in document["slopes"]] == list(range(1, 129))
    assert document["slopes"][7]["result"] == alibi_slopes(8).tolist()
    # implementations keep their files, so neither the version nor the cases change unnoticed
    assert [document[name] for name in ("format", "version", "dtype")] == [
        "alibi-vectors",
        1,
        "float32",
    ]
    sizes = [
        tuple(case[name] for name in ("num_heads", "query_length", "key_length"))
        for case in document["bias"]
    ]
    assert sizes == 2 * [(8, 16, 16), (12, 16, 16), (8, 1, 16), (8, 5, 16)]
    shapes = {
        (*torch.tensor(case["query"]).shape[1:], len(case["key"][0][0]))
        for case in document["attention"]
    }
    assert shapes == {(4, 8, 8, 8), (6, 8, 8, 8), (4, 1, 8, 8), (4, 3, 8, 8)}


def test_faults_are_named(document: Any, tmp_path: Path) -> None:
    document["slopes"][11]["result"] = alibi_slopes(12, "geometric").tolist()
    for case in filter(itemgetter("causal"), document["bias"]):
        case["result"] = [
            [[None if x is None else -x for x in row] for row in rows] for rows in case["result"]
        ]
    for case in filterfalse(itemgetter("causal"), document["attention"]):
        query, key, value = (torch.tensor(case[name]).float() for name in ("query", "key", "value"))
        trace = attention_trace(query, key, 2 * alibi_slopes(query.shape[1]), causal=False)
        case["result"] = (trace.weights @ value).tolist()
    names = {finding.name for finding in judge(document, tmp_path).findings}
    assert names == {"geometric slopes", "sign reversed", "added twice"}


def test_half_precision_results_are_right_if_the_file_says_so(
    document: Any, tmp_path: Path
) -> None:
    slopes = {name: document.pop(name) for name in ("format", "version", "slopes")}
    for case in [*document["attention"], *slopes["slopes"]]:
        case["result"] = torch.tensor(case["result"]).bfloat16().tolist()
    assert [finding.name for finding in judge(slopes, tmp_path).findings] == ["imprecise slopes"]
    assert judge(slopes | {"attention": document["attention"], "dtype": "bfloat16"}, tmp_path).ok


def test_lists_may_be_left_out_but_not_cases(document: Any, tmp_path: Path) -> None:
    slopes = {name: document[name] for name in ("format", "version", "slopes")}
    assert judge(slopes, tmp_path).ok
    del slopes["slopes"][4]
    assert [finding.name for finding in judge(slopes, tmp_path).findings] == ["missing case"]


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"format": "other"}, "must be a JSON object with"),
        ({"version": 9}, 'must be a JSON object with .*"version": 1'),
        ({"slopes": 3}, "slopes must be a list of cases"),
        ({"slopes": [{"heads": 3}]}, "with num_heads, result as numbers: KeyError"),
        ({"slopes": [{"num_heads": 1, "result": [["a"]]}]}, "slopes must be a list of cases with"),
        ({"slopes": [], "dtype": "int4"}, "dtype must be one of float32, float16, bfloat16"),
        ({}, "has none of the lists slopes, bias, attention"),
    ],
)
def test_bad_file_raises_with_the_reason(
    changes: dict[str, object], message: str, tmp_path: Path
) -> None:
    with pytest.raises(ValueError, match=message):
        judge({"format": "alibi-vectors", "version": 1} | changes, tmp_path)


def test_file_that_is_not_json_raises(tmp_path: Path) -> None:
    for text in ("[1, 2", "[" * 100_000):
        (tmp_path / "bad.json").write_text(text)
        with pytest.raises(ValueError, match="is not JSON"):
            check_vectors(tmp_path / "bad.json")
