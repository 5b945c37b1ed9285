"""The table by which "auto" selects a backend."""

from typing import Any

import pytest
import torch
from torch import Tensor
from torch.func import vmap

from alibi_viz import AlibiBias, alibi_attention, alibi_slopes, choose_backend
from alibi_viz.attention.dispatch import RULES, Call
from alibi_viz.attention.inputs import AttentionInputs
from alibi_viz.bias import shared_bias
from tests.attention.cases import qkv

FIXED, LEARNED = alibi_slopes(2), alibi_slopes(2).requires_grad_()


def chosen(
    rows: int, columns: int, dim: int = 32, *, batch: int = 1, slopes: Any = FIXED, **options: Any
) -> str:
    dtype, gradient = options.pop("dtype", torch.float32), options.pop("gradient", False)
    q, k = (
        torch.zeros(batch, 2, length, dim, dtype=dtype, requires_grad=gradient)
        for length in (rows, columns)
    )
    if options.pop("padded", False):
        options["key_padding_mask"] = torch.ones(batch, columns, dtype=torch.bool)
    return choose_backend(q, k, slopes, **options).name


@pytest.mark.parametrize(
    ("call", "name"),
    [
        ({"rows": 1000}, "mask"),
        ({"rows": 3000, "slopes": None, "gradient": True}, "folded"),
        ({"rows": 3000}, "windowed"),
        ({"rows": 3000, "dim": 16}, "mask"),  # too little work for a call per head
        (
            {"rows": 600, "batch": 8, "dim": 64, "gradient": True},
            "windowed",
        ),  # in training from shorter inputs on
        ({"rows": 600, "batch": 8, "dim": 64, "slopes": LEARNED}, "windowed"),
        ({"rows": 384, "padded": True}, "folded"),
        ({"rows": 192, "slopes": LEARNED}, "folded"),
        ({"rows": 2000, "slopes": LEARNED, "dtype": torch.float16}, "mask"),
        ({"rows": 2048, "causal": False}, "windowed"),
        ({"rows": 64, "columns": 80_000, "dim": 1, "causal": False}, "windowed"),
        (
            {"rows": 63, "columns": 80_000, "dim": 1, "causal": False},
            "mask",
        ),  # too few queries to look for spans
    ],
)
def test_auto_selects_the_fastest_backend_for_the_call(call: dict[str, Any], name: str) -> None:
    assert chosen(**({"columns": call["rows"]} | call)) == name


BIG = 2**23
EDGES: list[
    tuple[dict[str, Any], dict[str, Any]]
] = [  # of each row: a call at its edges, and what lies beyond
    ({"slopes": "mapped"}, {"slopes": "learned"}),
    (
        {"kind": "decoding", "keys": 4096, "key_elements": BIG},
        {"kind": "", "keys": 4095, "key_elements": BIG - 1},
    ),
    (
        {"kind": "encoder", "keys": 1025, "mask_elements": BIG},
        {"kind": "", "keys": 1024, "mask_elements": BIG - 1},
    ),
    (
        {"kind": "training", "keys": 512, "products": 2**27},
        {"kind": "", "keys": 511, "products": 2**27 - 1},
    ),
    (
        {"kind": "inference", "keys": 1024, "products": 2**28},
        {"kind": "", "keys": 1023, "products": 2**28 - 1},
    ),
    ({"queries": 1}, {"queries": 2}),
    ({"shares_blocks": True, "slopes": "fixed"}, {"shares_blocks": False, "slopes": "none"}),
    ({"shares_blocks": True, "keys": 2048}, {"shares_blocks": False, "keys": 2049}),
    ({"slopes": "learned, rounded"}, {"slopes": "learned"}),
    ({"slopes": "learned", "queries": 192}, {"slopes": "fixed", "queries": 191}),
    ({"kind": "inference", "queries": 384}, {"kind": "training", "queries": 383}),
    ({"slopes": "none", "queries": 640}, {"slopes": "learned", "queries": 639}),
]


@pytest.mark.parametrize(
    ("row", "edge", "beyond"), [(row, *case) for row, case in enumerate(EDGES)]
)
def test_a_row_of_the_table_holds_up_to_its_edges(
    row: int, edge: dict[str, Any], beyond: dict[str, Any]
) -> None:
    holds, call = (
        RULES[row].condition,
        Call("", 0, 0, 0, 0, 0, "", shares_blocks=False)._replace(**edge),
    )
    assert len(RULES) == len(EDGES) and holds(call)
    assert not any(holds(call._replace(**{name: value})) for name, value in beyond.items())


def test_on_a_gpu_auto_selects_folded_or_a_mask(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(AttentionInputs, "on_gpu", property(lambda self: True))
    with torch.device("meta"):
        q, slopes = torch.zeros(1, 2, 2048, 32, dtype=torch.bfloat16), torch.ones(2)
        assert (
            choose_backend(q, q, slopes).name
            == choose_backend(q.float(), q.float(), None).name
            == "folded"
        )
        for each in (q.float(), q[:, :, :383]):
            assert choose_backend(each, each, slopes).name == "mask"
    q = torch.zeros(1, 2, 700, 32)
    assert vmap(lambda each: each * (choose_backend(q, q, each).name == "eager"))(FIXED[None]).all()


def test_a_kernel_of_a_gpu_gets_channels_in_eights_and_a_query_that_takes_a_gradient(
    monkeypatch: Any,
) -> None:
    queries: list[Tensor] = []
    monkeypatch.setattr(AttentionInputs, "on_gpu", property(lambda self: True))
    monkeypatch.setattr(
        AttentionInputs, "fused_attention", lambda self, q, *_, **__: queries.append(q) or q
    )
    tensors = qkv(50, heads=2, dim=32, dtype=torch.bfloat16)
    for backend, slopes in (("folded", FIXED), ("mask", LEARNED)):
        alibi_attention(*tensors, slopes, backend=backend)
    assert [each.shape[-1] for each in queries] == [40, 32] and queries[1].requires_grad


def test_the_reason_says_why_the_fastest_backend_was_not_possible() -> None:
    q = torch.zeros(1, 2, 2049, 8)
    reason = choose_backend(
        q, q, FIXED, attn_mask=torch.ones(1, 1, 1, 2049, dtype=torch.bool)
    ).reason
    assert reason.startswith("'folded' does not support this call: attn_mask needs")
    assert choose_backend(q.half(), q.half(), LEARNED).reason.startswith(
        "'folded' would round the gradient"
    )


def test_a_mask_for_both_directions_is_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    q, k, v = qkv(1024, heads=8, dim=4, dtype=torch.float32)
    alibi_attention(q, k, v, alibi_slopes(8), causal=False)
    monkeypatch.setattr(AlibiBias, "_build", None)  # the second call uses the bias of the first
    monkeypatch.setattr(AttentionInputs, "bias", None)
    alibi_attention(q, k, v, alibi_slopes(8), causal=False)


@torch.no_grad()
def test_slopes_that_could_get_a_gradient_are_fixed_without_autograd() -> None:
    tensors = qkv(300, heads=2, dim=8, dtype=torch.float32)
    assert chosen(300, 300, slopes=LEARNED) == "mask"
    assert shared_bias(LEARNED, causal=True) is shared_bias(LEARNED.detach(), causal=True)
    assert torch.equal(
        alibi_attention(*tensors, LEARNED), alibi_attention(*tensors, LEARNED.detach())
    )
