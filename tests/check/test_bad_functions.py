"""Functions that raise, hang or return nonsense are findings; invalid arguments of the checker
raise."""

import math
import time
from typing import Any

import pytest
import torch
from torch import Tensor

from alibi_viz import alibi_attention, alibi_slopes, check
from tests.check.faulty import attend, names
from tests.largest_tensor import LargestTensor


def test_function_that_hangs_does_not_hang_the_checker() -> None:
    start = time.monotonic()
    assert names(check.attention(lambda q, k, v: time.sleep(5), seconds=0.1)) == {"does not finish"}
    assert time.monotonic() - start < 4


def test_functions_run_on_the_cpu_in_full_precision_whatever_the_caller_has_set() -> None:
    with torch.device("meta"), torch.autocast("cpu"):
        assert check.slopes(
            lambda heads: None if torch.is_autocast_enabled("cpu") else alibi_slopes(heads).cpu()
        ).ok


@pytest.mark.parametrize(
    "value",
    [torch.zeros(8, device="meta"), "text", [[1], [1, 2]], torch.zeros(8) > 0, torch.ones(8) * 1j],
    ids=type,
)
def test_results_that_are_no_array_are_findings(value: object) -> None:
    assert names(check.slopes(lambda heads: value, num_heads=[8])) == {"wrong type"}


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"num_heads": []}, "num_heads must have at least one integer"),
        ({"seconds": math.nan}, "seconds must be a positive, finite number"),
        ({"dtype": torch.int64}, "dtype must be a floating-point torch.dtype, got torch.int64"),
        ({"head_dim": 2**16 + 1, "length": 16}, "head_dim must be between 1 and 65536, got 65537"),
        ({"layout": "bhl"}, "layout must contain each of b, h, l and d once"),
        ({"slopes": "other"}, "slopes must be one of official, geometric, halving"),
        ({"slopes": lambda heads: [1.0]}, r"slopes\(8\) must return \[8\], got shape \[1\]"),
    ],
)
def test_invalid_argument_of_the_checker_raises(arguments: dict[str, Any], message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        check.attention(**{"function": attend} | arguments)


def test_a_check_of_many_keys_makes_no_matrix_of_all_pairs() -> None:
    with LargestTensor() as largest:
        check.attention(attend, num_heads=[1], length=3000).raise_for_faults()
    assert largest.numel < 3000**2 / 4


def test_a_fault_that_only_the_first_call_shows_is_no_wrong_layout() -> None:
    factors = iter([0.0])
    found = check.attention(
        lambda *qkv: attend(*qkv, factor=next(factors, 1.0)), num_heads=[8], head_dim=64
    ).findings
    assert [finding.name for finding in found] == ["no bias"]


def test_two_faults_in_the_right_layout_are_no_wrong_layout() -> None:
    def equal_heads(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        if len(query) > 8:
            raise ValueError("at most 8 heads")
        return alibi_attention(query[None], key[None], value[None], torch.full((len(query),), 0.1))[
            0
        ]

    error, slopes = check.attention(equal_heads, "hld").findings
    assert error.name == "raises an error"
    assert error.evidence.endswith("ValueError: at most 8 heads (only with 12 heads)")
    assert slopes.name == "heads share a slope"


RIGHT = [
    ("bhld", "blhd"),
    ("blhd", "bhld"),
    ("hbld", "lbhd"),
    ("blhd", "lbhd"),
    ("lhd", "hld"),
    ("hld", "lhd"),
]


@pytest.mark.parametrize(("layout", "right"), RIGHT)
def test_a_function_is_right_with_its_layout_and_told_which_with_another(
    layout: str, right: str
) -> None:
    standard = "bhld" if "b" in right else "hld"

    def attention(*tensors: Tensor) -> Tensor:
        query, key, value = (torch.einsum(f"{right}->{standard}", tensor) for tensor in tensors)
        output = attend(*(tensor.reshape(-1, *tensor.shape[-3:]) for tensor in (query, key, value)))
        return torch.einsum(f"{standard}->{right}", output.reshape(query.shape))

    (finding,) = check.attention(attention, layout=layout).findings
    assert (
        finding.name == "wrong layout"
        and f"with layout {right} instead of {layout}" in finding.evidence
    )
    assert check.attention(attention, layout=right).ok
    found = check.attention(lambda q, k, v: attention(-q, k, v), layout=layout).findings
    assert [each.name for each in found] == ["wrong layout", "content multiplied"]
