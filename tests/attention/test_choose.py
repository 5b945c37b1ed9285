"""The order by which "auto" selects a backend."""

import pytest
import torch

from alibi_viz import alibi_attention, alibi_slopes, choose_backend
from alibi_viz.attention.inputs import AttentionInputs
from tests.attention.cases import qkv
from tests.rows import each_case

FIXED = alibi_slopes(2)
LEARNED = alibi_slopes(2).requires_grad_()


def chosen(
    rows,
    columns=None,
    dim=32,
    *,
    batch=1,
    slopes=FIXED,
    dtype=torch.float32,
    trained=False,
    padded=False,
    causal=True,
):
    """The backend for `rows` queries and `columns` keys of two heads."""
    columns = rows if columns is None else columns
    query = torch.zeros(batch, 2, rows, dim, dtype=dtype, requires_grad=trained)
    key = torch.zeros(batch, 2, columns, dim, dtype=dtype, requires_grad=trained)
    is_real = torch.ones(batch, columns, dtype=torch.bool) if padded else None
    return choose_backend(query, key, slopes, causal=causal, key_padding_mask=is_real).name


@each_case(
    ("call", "name"),
    {
        "short": ({"rows": 1000}, "mask"),
        "long": ({"rows": 3000}, "windowed"),
        "too little work for a call per head": ({"rows": 3000, "dim": 16}, "mask"),
        "long, without slopes": ({"rows": 3000, "slopes": None, "trained": True}, "folded"),
        "training": ({"rows": 1000, "batch": 8, "dim": 64, "trained": True}, "windowed"),
        "training, learned slopes": (
            {"rows": 1000, "batch": 8, "dim": 64, "slopes": LEARNED},
            "windowed",
        ),
        "padding": ({"rows": 384, "padded": True}, "folded"),
        "learned slopes": ({"rows": 192, "slopes": LEARNED}, "folded"),
        "learned slopes, half precision": (
            {"rows": 2000, "slopes": LEARNED, "dtype": torch.float16},
            "mask",
        ),
        "encoder": ({"rows": 2048, "causal": False}, "windowed"),
        "encoder, few queries": (
            {"rows": 64, "columns": 80_000, "dim": 1, "causal": False},
            "windowed",
        ),
        "too few queries to look for spans": (
            {"rows": 63, "columns": 80_000, "dim": 1, "causal": False},
            "mask",
        ),
    },
)
def test_auto_selects_the_fastest_backend_for_the_call(call, name):
    assert chosen(**call) == name


def test_content_whose_spans_leave_out_little_gets_a_mask():
    query, key, _ = qkv(3000, heads=2, dim=32, dtype=torch.float32)
    assert choose_backend(query, key, FIXED).name == "windowed"
    assert choose_backend(100 * query, key, FIXED).name == "mask"


@pytest.fixture
def pretended_gpu(monkeypatch):
    """Attention decides as if its tensors were on a GPU."""
    monkeypatch.setattr(AttentionInputs, "on_gpu", property(lambda self: True))


@pytest.mark.usefixtures("pretended_gpu")
@each_case(
    ("dtype", "length", "has_slopes", "name"),
    {
        "half precision": (torch.bfloat16, 2048, True, "folded"),
        "half precision, short": (torch.bfloat16, 383, True, "mask"),
        "float32": (torch.float32, 2048, True, "mask"),
        "float32 without slopes": (torch.float32, 2048, False, "folded"),
    },
)
def test_on_a_gpu_auto_selects_folded_or_a_mask(dtype, length, has_slopes, name):
    query = torch.zeros(1, 2, length, 32, dtype=dtype, device="meta")
    slopes = torch.ones(2, device="meta") if has_slopes else None
    assert choose_backend(query, query, slopes).name == name


@pytest.fixture
def kernel_queries(monkeypatch):
    """The queries that torch's kernel gets, instead of a call."""
    queries = []

    def record(self, query, *_, **options):
        queries.append(query)
        return query

    monkeypatch.setattr(AttentionInputs, "fused_attention", record)
    return queries


@pytest.mark.usefixtures("pretended_gpu")
def test_a_kernel_of_a_gpu_gets_channels_in_eights(kernel_queries):
    tensors = qkv(50, heads=2, dim=32, dtype=torch.bfloat16)
    alibi_attention(*tensors, FIXED, backend="folded")
    assert kernel_queries[0].shape[-1] == 40, "32 channels and 5 coordinates, rounded up"


@pytest.mark.usefixtures("pretended_gpu")
def test_a_kernel_of_a_gpu_gets_a_query_with_a_gradient_where_only_slopes_have_one(
    kernel_queries,
):
    tensors = qkv(50, heads=2, dim=32, dtype=torch.bfloat16)
    alibi_attention(*tensors, LEARNED, backend="mask")
    assert kernel_queries[0].requires_grad


def test_the_reason_says_why_the_fastest_backend_was_not_possible():
    query = torch.zeros(1, 2, 2049, 8)
    mask = torch.ones(1, 1, 1, 2049, dtype=torch.bool)
    reason = choose_backend(query, query, FIXED, attn_mask=mask).reason
    assert reason.startswith("'folded' does not support this call: attn_mask needs")


def test_the_reason_says_that_half_precision_would_round_the_gradient_of_slopes():
    query = torch.zeros(1, 2, 2049, 8).half()
    reason = choose_backend(query, query, LEARNED).reason
    assert reason.startswith("'folded' would round the gradient")


@torch.no_grad()
def test_slopes_that_could_get_a_gradient_are_fixed_without_autograd():
    tensors = qkv(300, heads=2, dim=8, dtype=torch.float32)
    assert chosen(300, slopes=LEARNED) == "mask"
    assert torch.equal(
        alibi_attention(*tensors, LEARNED), alibi_attention(*tensors, LEARNED.detach())
    )
