"""Golden vectors: what the file has, and what is said about the results of an implementation."""

import json

import pytest
import torch

from alibi_viz import alibi_slopes, attention_trace
from alibi_viz.check import check_vectors, write_vectors
from tests.rows import each_case

FORMAT = {"format": "alibi-vectors", "version": 1}


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


def faults(folder, **lists):
    """The faults that are named in a file with these lists."""
    return {finding.name for finding in judge(FORMAT | lists, folder).findings}


# The file


def test_file_is_small(golden):
    assert golden.stat().st_size < 1_000_000


def test_file_is_json_that_any_language_reads(golden):
    json.loads(golden.read_text(), parse_constant=pytest.fail)  # fails for NaN and Infinity


# Implementations keep their files, so neither the version nor the cases may change unnoticed.


def test_file_names_its_format(document):
    assert document["format"] == "alibi-vectors"
    assert document["version"] == 1
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


def test_negative_zeros_may_be_written_as_zero(biases, tmp_path):
    unsigned = biases.replace("-0.0,", "0,")  # as JavaScript writes it
    assert unsigned != biases
    assert judge(json.loads(unsigned), tmp_path).ok


def written_by_c(text):
    return text.replace("null", "-inf").encode()


def written_by_old_windows_c(text):
    return text.replace("null", "-1.#INF").encode()


def written_by_notepad(text):
    return text.encode("utf-8-sig")


def written_by_powershell(text):
    return text.encode("utf-16")


@pytest.mark.parametrize(
    "written", [written_by_c, written_by_old_windows_c, written_by_notepad, written_by_powershell]
)
def test_file_may_be_written_in_the_way_of_other_systems(written, biases, tmp_path):
    (tmp_path / "theirs.json").write_bytes(written(biases))
    assert check_vectors(tmp_path / "theirs.json").ok


def test_half_precision_is_right_if_the_file_says_so(document, tmp_path):
    for case in document["attention"]:
        case["result"] = torch.tensor(case["result"]).bfloat16().tolist()
    attention = FORMAT | {"attention": document["attention"]}
    assert judge(attention | {"dtype": "bfloat16"}, tmp_path).ok


def test_lists_may_be_left_out(document, tmp_path):
    assert judge(FORMAT | {"slopes": document["slopes"]}, tmp_path).ok


# Faults


def test_wrong_slopes_are_named(document, tmp_path):
    document["slopes"][11]["result"] = alibi_slopes(12, "geometric").tolist()
    assert faults(tmp_path, slopes=document["slopes"]) == {"geometric slopes"}


def test_rounded_slopes_are_named(document, tmp_path):
    for case in document["slopes"]:
        case["result"] = torch.tensor(case["result"]).bfloat16().tolist()
    assert faults(tmp_path, slopes=document["slopes"]) == {"imprecise slopes"}


def reversed_sign(rows):
    """The negative of nested lists, whose null stays."""
    if isinstance(rows, list):
        return [reversed_sign(row) for row in rows]
    return None if rows is None else -rows


def test_a_wrong_bias_is_named(document, tmp_path):
    for case in document["bias"]:
        if case["causal"]:
            case["result"] = reversed_sign(case["result"])
    assert faults(tmp_path, bias=document["bias"]) == {"sign reversed"}


def test_wrong_attention_is_named(document, tmp_path):
    for case in document["attention"]:
        if not case["causal"]:
            query = torch.tensor(case["query"])
            key = torch.tensor(case["key"])
            slopes = 2 * alibi_slopes(query.shape[1])
            trace = attention_trace(query, key, slopes, causal=False)
            case["result"] = (trace.weights @ torch.tensor(case["value"])).tolist()
    assert faults(tmp_path, attention=document["attention"]) == {"added twice"}


def test_nan_is_named(biases, tmp_path):
    as_windows_prints_it = biases.replace("null", "-nan(ind)")
    (tmp_path / "theirs.json").write_text(as_windows_prints_it)
    names = {finding.name for finding in check_vectors(tmp_path / "theirs.json").findings}
    assert names == {"returns NaN"}


def test_a_missing_case_is_named(document, tmp_path):
    del document["slopes"][4]
    assert faults(tmp_path, slopes=document["slopes"]) == {"missing case"}


# Files that cannot be written or read


def test_a_path_of_a_wrong_type_is_named():
    with pytest.raises(TypeError, match=r"path must be a path, .*, got 3"):
        write_vectors(3)


@each_case(
    ("changes", "message"),
    {
        "another format": ({"format": "other"}, "must be a JSON object with"),
        "another version": ({"version": 9}, '.*"version": 1'),
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
