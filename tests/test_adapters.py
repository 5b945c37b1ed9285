"""Compare the slopes with transformers and x-transformers, which only tests and benchmarks need."""

import os

import pytest
import torch

from alibi_viz import alibi_slopes

if os.environ.get("CI") != "true":
    pytest.importorskip("transformers")
    pytest.importorskip("x_transformers")

from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.falcon.modeling_falcon import build_alibi_tensor as build_falcon_alibi
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from x_transformers.x_transformers import AlibiPositionalBias


@pytest.mark.parametrize("heads", [*range(1, 34), 48, 64])
def test_slopes_equal_those_of_the_packages(heads: int) -> None:
    ours, one = alibi_slopes(heads), torch.ones(1, 2, dtype=torch.long)
    for theirs in (
        build_alibi_tensor(one, heads, torch.float32)[:, 0, 1],
        AlibiPositionalBias(heads).slopes[:, 0, 0],
        -build_mpt_alibi_tensor(heads, 2)[:, 0, 0],
    ):
        assert torch.allclose(ours, theirs, rtol=1e-6, atol=0)
    assert torch.equal(ours.bfloat16().float(), build_falcon_alibi(one, heads, torch.float32)[:, 0, 1])
