"""Golden vectors: what the file has, and what is said about the results of an implementation."""

import json

import pytest
import torch

from alibi_viz import alibi_slopes, attention_trace
from alibi_viz.check import check_vectors, write_vectors
from tests.rows import each_case

FORMAT = {"format": "alibi-vectors", "version": 2}


@pytest.fixture(scope="module")
def golden(tmp_path_factory):
    """A file as it is written."""
    file = tmp_path_factory.mktemp("vectors") / "golden.json"
    write_vectors(file)
    return file


@pytest.fixture
def document(golden):
    """The object in that file, to be changed."""
    return json.loads(golden.read_text())


@pytest.fixture
def biases(document):
    """A file with nothing but biases, in which null stands for -inf."""
    return json.dumps(FORMAT | {"bias": document["bias"]})


@pytest.fixture
def attention(document):
    """A file with nothing but attention."""
    return json.dumps(FORMAT | {"attention": document["attention"]})


def judge(document, folder):
    file = folder / "theirs.json"
    file.write_text(json.dumps(document))
    return check_vectors(file)


# The file


def test_file_is_small(golden):
    assert golden.stat().st_size < 1_000_000


def test_file_is_json_that_any_language_reads(golden):
    json.loads(golden.read_text(), parse_constant=pytest.fail)  # fails for NaN and Infinity


# Implementations keep their files, so neither the version nor the cases may change unnoticed.


def test_file_names_its_format(document):
    assert document["format"] == "alibi-vectors"
    assert document["version"] == 2
    assert document["dtype"] == "float32"


def test_file_has_the_slopes_of_up_to_128_heads(document):
    assert [case["num_heads"] for case in document["slopes"]] == list(range(1, 129))
    assert document["slopes"][7]["result"] == alibi_slopes(8).tolist()


@pytest.mark.parametrize("causal", [True, False], ids=["decoder", "encoder"])
def test_file_has_biases_of_these_sizes(causal, document):
    sizes = []
    for case in document["bias"]:
        if case["causal"] is causal:
            sizes.append((case["num_heads"], case["query_length"], case["key_length"]))
    assert sizes == [(8, 16, 16), (12, 16, 16), (8, 1, 16), (8, 5, 16)]


@pytest.mark.parametrize("causal", [True, False], ids=["decoder", "encoder"])
def test_file_has_attention_of_these_sizes(causal, document):
    sizes = set()
    for case in document["attention"]:
        if case["causal"] is causal:
            _, heads, query_length, head_dim = torch.tensor(case["query"]).shape
            key_length = torch.tensor(case["key"]).shape[2]
            sizes.add((heads, query_length, key_length, head_dim))
    assert sizes == {(4, 8, 8, 8), (6, 8, 8, 8), (4, 1, 8, 8), (4, 3, 8, 8)}


# Right results


def test_its_own_results_are_right_and_said_to_check_nothing(golden):
    report = check_vectors(golden)
    report.raise_for_faults()
    assert "nothing was checked" in str(report), "nobody filled in others"


def test_a_file_with_results_of_its_own_has_no_such_note(document, tmp_path):
    document["attention"][0]["result"][0][0][0][0] += 1e-7
    report = judge(FORMAT | {"attention": document["attention"]}, tmp_path)
    assert report.ok
    assert report.notes == []


@pytest.mark.parametrize("encoding", ["utf-8-sig", "utf-16"])
def test_file_may_be_written_in_the_encodings_of_windows(encoding, biases, tmp_path):
    (tmp_path / "theirs.json").write_bytes(biases.encode(encoding))
    assert check_vectors(tmp_path / "theirs.json").ok


def test_half_precision_is_right_if_the_file_says_so(document, tmp_path):
    for case in document["attention"]:
        case["result"] = torch.tensor(case["result"]).bfloat16().tolist()
    attention = FORMAT | {"attention": document["attention"]}
    assert judge(attention | {"dtype": "bfloat16"}, tmp_path).ok


def test_lists_may_be_left_out(document, tmp_path):
    assert judge(FORMAT | {"slopes": document["slopes"]}, tmp_path).ok


# Faults


def finding(folder, **lists):
    """The name and the evidence of the only finding in a file with these lists."""
    (one,) = judge(FORMAT | lists, folder).findings
    return one.name, one.evidence


def test_wrong_slopes_are_told_by_their_case(document, tmp_path):
    document["slopes"][11]["result"] = alibi_slopes(12, "geometric").tolist()
    name, evidence = finding(tmp_path, slopes=document["slopes"])
    assert name == "wrong slopes"
    assert evidence.startswith("case 12 of 128 (num_heads=12), at [0]: 0.629961, expected 0.5")


def test_slopes_in_half_precision_are_wrong_unless_the_file_says_so(document, tmp_path):
    for case in document["slopes"]:
        case["result"] = torch.tensor(case["result"]).bfloat16().tolist()
    assert not judge(FORMAT | {"slopes": document["slopes"]}, tmp_path).ok
    half = FORMAT | {"slopes": document["slopes"], "dtype": "bfloat16"}
    assert judge(half, tmp_path).ok


def reversed_sign(rows):
    """The negative of nested lists, whose null stays."""
    if isinstance(rows, list):
        return [reversed_sign(row) for row in rows]
    return None if rows is None else -rows


def test_a_wrong_bias_is_told_with_its_sizes(document, tmp_path):
    case = document["bias"][6]
    case["result"] = reversed_sign(case["result"])
    name, evidence = finding(tmp_path, bias=document["bias"])
    assert name == "wrong bias"
    assert "num_heads=8, query_length=1, key_length=16, causal=False" in evidence


def test_a_key_that_should_be_hidden_is_told(document, tmp_path):
    document["bias"][0]["result"][0][0][15] = -15.0
    _, evidence = finding(tmp_path, bias=document["bias"])
    assert evidence.endswith("at [0, 0, 15]: -15, expected -inf")


def test_wrong_attention_is_told(document, tmp_path):
    for case in document["attention"]:
        if not case["causal"]:
            query = torch.tensor(case["query"])
            key = torch.tensor(case["key"])
            slopes = 2 * alibi_slopes(query.shape[1])
            trace = attention_trace(query, key, slopes, causal=False)
            case["result"] = (trace.weights @ torch.tensor(case["value"])).tolist()
    name, evidence = finding(tmp_path, attention=document["attention"])
    assert name == "wrong attention"
    assert evidence.startswith("case 5 of 8 (causal=False), at [0, 0, 0, 0]")


def test_a_missing_case_is_told(document, tmp_path):
    del document["slopes"][4]
    _, evidence = finding(tmp_path, slopes=document["slopes"])
    assert evidence == "127 cases instead of 128: keep all, in their order"


def test_a_result_of_another_shape_is_told(document, tmp_path):
    document["slopes"][4]["result"].pop()
    _, evidence = finding(tmp_path, slopes=document["slopes"])
    assert evidence.endswith("has shape [4], expected [5]")


# Files that cannot be written or read


def test_a_path_of_a_wrong_type_is_named():
    with pytest.raises(TypeError, match=r"path must be a path, .*, got 3"):
        write_vectors(3)


@each_case(
    ("changes", "message"),
    {
        "another format": ({"format": "other"}, "must be a JSON object with"),
        "another version": ({"version": 9}, '.*"version": 2'),
        "no list": ({"slopes": 3}, "slopes must be a list of cases"),
        "no key": ({"slopes": [{"heads": 3}]}, "with a result of numbers: KeyError"),
        "a word for a number": (
            {"slopes": [{"num_heads": 1, "result": [["a"]]}]},
            "slopes must be a list of cases with",
        ),
        "another dtype": ({"slopes": [], "dtype": "int4"}, "dtype must be one of float32"),
        "no lists": ({}, "has none of the lists slopes, bias, attention"),
    },
)
def test_bad_file_raises_with_the_reason(changes, message, tmp_path):
    with pytest.raises(ValueError, match=message):
        judge(FORMAT | changes, tmp_path)


@each_case(
    "content",
    {
        "cut off": b"[1, 2",
        "too deep": b"[" * 100_000,
        "in cp1252": b'{"format": "\xe9"}',
    },
)
def test_file_that_is_not_json_raises(content, tmp_path):
    (tmp_path / "bad.json").write_bytes(content)
    with pytest.raises(ValueError, match="is not JSON"):
        check_vectors(tmp_path / "bad.json")
