"""Half precision and autocast round the inputs and the output, but not the bias."""

import pytest
import torch
from torch.nn.functional import scaled_dot_product_attention

from alibi_viz import alibi_attention, alibi_bias, alibi_slopes, choose_backend
from alibi_viz.attention.inputs import AttentionInputs
from alibi_viz.bias import mask_future
from tests.attention.cases import BACKENDS, HALF, expected, normal, qkv
from tests.rows import each_case

SLOPES = alibi_slopes(8)


@pytest.mark.parametrize("dtype", HALF, ids=str)
@pytest.mark.parametrize("backend", ["eager", "mask"])
def test_far_keys_are_as_exact_as_near_ones(dtype, backend, monkeypatch):
    # On a GPU, the mask is rounded to half precision.
    monkeypatch.setattr(AttentionInputs, "on_gpu", property(lambda self: True))
    query = normal(1, 8, 1, 64)
    key, value = normal(2, 1, 8, 2048, 64, seed=1)
    is_far = (torch.arange(2048) < 64)[None, None, None]
    exact = expected(query, key, value, SLOPES, attn_mask=is_far)
    rounded = [tensor.to(dtype) for tensor in (query, key, value)]
    output = alibi_attention(*rounded, SLOPES, attn_mask=is_far, backend=backend)
    assert float((output - exact).abs().max()) < 4 * torch.finfo(dtype).eps


@pytest.mark.parametrize("autocast", [False, True])
def test_logits_beyond_the_range_of_float16_do_not_overflow(*, autocast):
    q = torch.full((1, 1, 3, 64), 100.0).half()  # logits of 80,000
    with torch.autocast("cpu", torch.float16, enabled=autocast):
        output = alibi_attention(q, q, q, torch.tensor([0.5]), backend="eager")
    assert bool((output == 100).all())


@each_case(
    ("dtype", "queries", "autocast"),
    {
        "all queries": (torch.bfloat16, 600, False),
        "one query": (torch.float16, 1, False),
        "autocast": (torch.float16, 600, True),
    },
)
def test_a_mask_is_not_rounded_to_half_precision(dtype, queries, *, autocast):
    length = 600
    slopes = torch.tensor([0.0101])
    # Without content, and with a value in the first key only, the output is the weight of that key.
    v = torch.zeros(1, 1, length, 4, dtype=dtype)
    v[:, :, 0] = 100
    k = torch.zeros_like(v)
    q = k[:, :, -queries:]
    exact = expected(q, k, v, slopes)

    if autocast:
        q, k, v = (tensor.float() for tensor in (q, k, v))
    with torch.autocast("cpu", dtype, enabled=autocast):
        output = alibi_attention(q, k, v, slopes, backend="mask")
    assert output.dtype == dtype

    rounded_mask = mask_future(alibi_bias(slopes, queries, length, dtype=dtype))[None]
    rounded = scaled_dot_product_attention(
        q.to(dtype), k.to(dtype), v.to(dtype), attn_mask=rounded_mask
    )
    error = (output / exact - 1).abs().max()
    error_of_rounding = (rounded / exact - 1).abs().max()
    assert error < 0.5 * error_of_rounding


@pytest.mark.parametrize(
    ("backend", "dtype"),
    [*((backend, torch.bfloat16) for backend in BACKENDS), ("folded", torch.float16)],
)
def test_autocast_gives_its_dtype_to_the_output(backend, dtype):
    q, k, v = qkv(300, heads=8, dim=32, dtype=torch.float32)
    with torch.autocast("cpu", dtype):
        output = alibi_attention(q, k, v, SLOPES, backend=backend)
    assert output.dtype == dtype
    assert float((output.float() - expected(q, k, v, SLOPES)).abs().max()) < 0.04


@pytest.mark.parametrize("backend", BACKENDS)
def test_autocast_leaves_float64_as_it_is(backend):
    with torch.autocast("cpu", torch.bfloat16):
        output = alibi_attention(*qkv(20), alibi_slopes(4), backend=backend)
    assert output.dtype == torch.float64


@pytest.mark.parametrize("dtype", HALF, ids=str)
def test_long_trained_queries_are_windowed_under_autocast(dtype):
    q, k, _ = qkv(2100, heads=8, dim=32, dtype=torch.float32)
    with torch.autocast("cpu", dtype):
        assert choose_backend(q.requires_grad_(), k, SLOPES).name == "windowed"


def test_the_choice_is_for_the_dtype_of_autocast():
    q, k, _ = qkv(900, heads=8, dim=32, dtype=torch.float32)
    positions = 2 * torch.arange(900)
    assert choose_backend(q, k, SLOPES, positions=positions).name == "folded"
    # Folding in float16 supports no positions.
    with torch.autocast("cpu", torch.float16):
        assert choose_backend(q, k, SLOPES, positions=positions).name == "mask"
