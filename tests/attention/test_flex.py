"""FlexAttention. Calls are compiled in the weekly run only, because each kind takes seconds."""

import os
import shutil

import pytest
import torch
from torch.nn.attention.flex_attention import flex_attention

from alibi_viz import alibi_attention, alibi_slopes
from alibi_viz.attention import flex
from alibi_viz.attention.flex import BLOCK, _shared_block_mask, block_mask_within
from tests.attention.cases import largest_error, normal
from tests.rows import each_case

UNEVEN = torch.tensor([4.0, 1e-4, 0.0, -0.01])

COMPILER = os.environ.get("CXX", "g++")  # as torch.compile chooses it
needs_a_compiler = pytest.mark.skipif(
    shutil.which(COMPILER) is None,
    reason=f"torch.compile needs {COMPILER}: `apt-get install g++`, or set CXX",
)


@pytest.fixture
def uncompiled(monkeypatch):
    """Our functions of scores and masks as they are, which takes no compiler."""
    monkeypatch.setattr(flex, "_compiled", lambda on_cpu: flex_attention)


@pytest.mark.usefixtures("uncompiled")
@pytest.mark.filterwarnings("ignore:flex_attention called without torch.compile")
@each_case(
    ("rows", "columns", "key_heads", "causal", "padded", "slopes"),
    {
        "causal": (150, 400, 2, True, False, alibi_slopes(4)),
        "causal and padded": (20, 130, 4, True, True, UNEVEN),
        "both directions": (300, 300, 2, False, False, UNEVEN),
        "both directions and padded": (20, 130, 4, False, True, alibi_slopes(4)),
    },
)
def test_flex_equals_minimal(*, rows, columns, key_heads, causal, padded, slopes):
    q = normal(2, 4, rows, 16, dtype=torch.float32)
    k, v = normal(2, 2, key_heads, columns, 16, seed=1, dtype=torch.float32)
    is_real = torch.arange(columns) >= torch.tensor([[0], [columns - 10]]) if padded else None
    error = largest_error(q, k, v, slopes, causal=causal, key_padding_mask=is_real, backend="flex")
    assert error < 5e-6


@pytest.mark.weekly
@needs_a_compiler
def test_compiled_flex_equals_minimal():
    q = normal(2, 4, 20, 16, dtype=torch.float32)
    k, v = normal(2, 2, 2, 130, 16, seed=1, dtype=torch.float32)
    is_real = torch.arange(130) >= torch.tensor([[0], [120]])
    for slopes in (alibi_slopes(4), UNEVEN):
        error = largest_error(q, k, v, slopes, key_padding_mask=is_real, backend="flex")
        assert error < 2e-6


@pytest.mark.weekly
@needs_a_compiler
def test_keys_beyond_the_spans_make_no_difference(monkeypatch):
    monkeypatch.setattr(flex, "_SPANS_FROM", 512)
    q, k, v = normal(3, 1, 2, 600, 16, dtype=torch.float32)
    slopes = torch.tensor([1.0, 0.25])
    assert largest_error(q, k, v, slopes, backend="flex") < 2e-6


# The blocks within the spans


@each_case(
    ("queries", "keys", "causal"),
    {
        "whole blocks": (512, 512, True),
        "a part of a block": (300, 300, True),
        "keys before the queries": (200, 650, True),
        "both directions": (200, 650, False),
    },
)
def test_blocks_with_a_key_within_the_span_are_in_the_mask(queries, keys, *, causal):
    spans = [0, 1, 127, 128, 300, 650]
    mask = block_mask_within(torch.tensor(spans), queries=queries, keys=keys, causal=causal)
    in_mask = mask.to_dense()[0].bool()  # [heads, query blocks, key blocks]

    query = torch.arange(keys - queries, keys)[:, None]
    distance = query - torch.arange(keys)
    if causal:
        distance = distance.where(distance >= 0, 9999)  # later keys are beyond every span
    for head, span in enumerate(spans):
        within = (distance.abs() <= span).float()
        # The largest value of each block: 1 if a key is within the span
        padded = torch.nn.functional.pad(within, (0, -keys % BLOCK, 0, -queries % BLOCK))
        expected = torch.nn.functional.max_pool2d(padded[None], BLOCK)[0].bool()
        assert torch.equal(in_mask[head], expected), span


def test_only_blocks_of_the_past_need_no_mask():
    mask = block_mask_within(torch.tensor([512]), queries=256, keys=512, causal=True)
    assert mask.full_kv_num_blocks.flatten().tolist() == [2, 3]
    assert mask.kv_num_blocks.flatten().tolist() == [1, 1]


def test_a_mask_made_in_inference_mode_is_shared_with_training():
    with torch.inference_mode():
        offset, blocks = _shared_block_mask(40, 50, True, torch.device("cpu"), None)
    _, shared = _shared_block_mask(40, 50, True, torch.device("cpu"), None)
    assert not offset.is_inference()
    assert blocks is shared


@pytest.mark.skipif(
    torch.__version__ < "2.13", reason="attention stays uncompiled before torch 2.13"
)
def test_flex_within_a_larger_compiled_graph_is_refused_on_the_cpu():
    q, k, v = normal(3, 1, 2, 8, 4).float()
    compiled = torch.compile(alibi_attention, backend="eager")
    with pytest.raises(ValueError, match=r"does not compile within torch\.compile on the CPU"):
        compiled(q, k, v, alibi_slopes(2), backend="flex")
