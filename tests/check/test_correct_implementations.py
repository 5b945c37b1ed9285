"""Correct implementations get no finding, whatever form they have."""

from collections.abc import Callable

import numpy as np
import pytest
import torch
from torch import Tensor

from alibi_viz import alibi_attention, alibi_bias, alibi_slopes, causal_mask, check
from alibi_viz.check.gallery.published_slopes import bloom, fairseq, mpt
from tests.check.faulty import attend


def masked(heads: int, queries: int, keys: int, value: float, further: int = 0) -> Tensor:
    slopes = torch.cat([alibi_slopes(heads), torch.zeros(further)])
    return alibi_bias(slopes, queries, keys).masked_fill(~causal_mask(queries, keys), value)


FORMS: dict[str, Callable[[int, int, int], object]] = {
    "relative": lambda h, q, k: alibi_bias(alibi_slopes(h), q, k),
    "key form": lambda h, q, k: alibi_bias(alibi_slopes(h), q, k, form="key"),
    "symmetric": lambda h, q, k: alibi_bias(alibi_slopes(h), q, k, form="symmetric"),
    "constant per row": lambda h, q, k: (
        alibi_bias(alibi_slopes(h), q, k) + torch.arange(q)[:, None]
    ),
    "mask of the lowest number": lambda h, q, k: masked(h, q, k, torch.finfo(torch.float32).min),
    "cut off where float32 shows no weight": lambda h, q, k: alibi_bias(
        alibi_slopes(h), q, k
    ).clamp(min=-70),
    "mask of -1e4": lambda h, q, k: masked(h, q, k, -1e4),
    "slopes rounded to bfloat16": lambda h, q, k: alibi_bias(
        alibi_slopes(h).bfloat16(), q, k, dtype=torch.bfloat16
    ),
    "float64": lambda h, q, k: alibi_bias(alibi_slopes(h), q, k, dtype=torch.float64),
    "further heads without a bias": lambda h, q, k: alibi_bias(
        torch.cat([alibi_slopes(h), torch.zeros(4)]), q, k
    ),
    "masked heads without a bias": lambda h, q, k: masked(h, q, k, -1e9, further=4),
    "extended precision": lambda h, q, k: (
        alibi_bias(alibi_slopes(h), q, k).numpy().astype(np.longdouble)
    ),
    "sparse": lambda h, q, k: alibi_bias(alibi_slopes(h), q, k).to_sparse(),
    "batch axis": lambda h, q, k: alibi_bias(alibi_slopes(h), q, k)[None],
    "tuples": lambda h, q, k: tuple(alibi_bias(alibi_slopes(h), q, k).tolist()),
}


@pytest.mark.parametrize(
    ("form", "causal"), [*((form, True) for form in FORMS), ("symmetric", False)]
)
def test_bias(form: str, causal: bool) -> None:
    length = 16_384 if form == "key form" else 512
    check.bias(FORMS[form], [12, 8], causal=causal, length=length).raise_for_faults()


@pytest.mark.parametrize("rule", [fairseq, bloom, mpt])
def test_slopes(rule: Callable[[int], list[float]]) -> None:
    tried: list[int] = []
    check.slopes(lambda heads: tried.append(heads) or rule(heads)).raise_for_faults()
    assert {*range(1, 33), 40, 64, 71, 112, 128} <= {*tried}, "head counts of published models"
    check.slopes(lambda heads: np.array(rule(heads), dtype=np.float16)).raise_for_faults()
    check.slopes(
        lambda heads: torch.tensor(rule(heads)).bfloat16()[:, None, None]
    ).raise_for_faults()


def test_slopes_that_the_caller_expects_are_correct() -> None:
    check.slopes(
        lambda heads: alibi_slopes(heads, "geometric"), slopes="geometric"
    ).raise_for_faults()
    steeper = lambda heads: alibi_slopes(heads, bias_max=16)  # noqa: E731
    check.slopes(steeper, slopes=steeper).raise_for_faults()
    flipped = lambda heads: alibi_slopes(heads).flip(0)  # noqa: E731
    check.bias(lambda h, q, k: alibi_bias(flipped(h), q, k), slopes=flipped).raise_for_faults()
    trained = {12: flipped(12)}  # known for one number of heads
    check.slopes(trained.get, [12], slopes=trained.__getitem__, seconds=1e12).raise_for_faults()


@pytest.mark.parametrize("backend", ["eager", "mask", "folded", "auto"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_our_attention(backend: str, dtype: torch.dtype) -> None:
    for causal in (True, False) if backend != "folded" else (True,):

        def attention(*qkv: Tensor, causal: bool = causal) -> Tensor:
            return alibi_attention(
                *qkv, alibi_slopes(qkv[0].shape[1]), causal=causal, backend=backend
            )

        check.attention(
            attention, causal=causal, dtype=dtype, decoding=backend != "folded"
        ).raise_for_faults()


def test_numpy_attention() -> None:
    check.attention(
        lambda *qkv: attend(*map(torch.from_numpy, qkv)).numpy(), convert=np.asarray
    ).raise_for_faults()


@pytest.mark.parametrize("causal", [True, False], ids=["causal", "symmetric"])
def test_padding(causal: bool) -> None:
    def attention(query: Tensor, key: Tensor, value: Tensor, mask: Tensor | None = None) -> Tensor:
        is_real = None if mask is None else mask.clone()
        if mask is not None:
            mask.logical_not_()  # each call gets a mask of its own
        return alibi_attention(
            query, key, value, alibi_slopes(query.shape[1]), causal=causal, key_padding_mask=is_real
        )

    for head_dim in (8, 64):
        check.attention(
            attention, causal=causal, padding=True, head_dim=head_dim
        ).raise_for_faults()


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_function_runs_in_the_mode_of_its_caller(mode: type) -> None:
    slopes = alibi_slopes(8).requires_grad_()
    with mode():
        check.attention(
            lambda *qkv: alibi_attention(*qkv, slopes).numpy(), num_heads=[8], length=20
        ).raise_for_faults()


def scales_its_query_in_place(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    query *= query.shape[-1] ** -0.5
    return alibi_attention(query, key, value, alibi_slopes(query.shape[1]), scale=1.0)


def leaves_out_weights_below_float32(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    bias = alibi_bias(alibi_slopes(query.shape[1]), query.shape[2], key.shape[2])
    logits = (query @ key.mT / query.shape[-1] ** 0.5 + bias).masked_fill(
        (bias < -20) | (bias > 0), -torch.inf
    )
    return logits.softmax(-1) @ value


def differentiates(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
    query = query.clone().requires_grad_()
    torch.autograd.grad((query @ key.mT).sum(), query)
    return attend(query, key, value)


HABITS = [
    scales_its_query_in_place,
    leaves_out_weights_below_float32,
    differentiates,
    lambda *x: attend(*x).bfloat16(),
]


@pytest.mark.parametrize("function", HABITS)
def test_attention_with_habits(function: Callable[..., Tensor]) -> None:
    check.attention(function).raise_for_faults()
    check.attention(function, head_dim=4, length=16).raise_for_faults()  # fewer than the keys


def test_heads_share_keys_only_as_group_size_says() -> None:
    shares_keys = lambda q, k, v: alibi_attention(q, k[:, ::4], v[:, ::4], alibi_slopes(q.shape[1]))  # noqa: E731
    check.attention(shares_keys, group_size=4).raise_for_faults()
    for size in (1, 2):
        (finding,) = check.attention(shares_keys, group_size=size).findings
        assert finding.name == "wrong keys" and "in groups of 4" in finding.evidence
    with pytest.raises(
        ValueError, match=r"group_size must divide every head count of \[8, 12\], got 3"
    ):
        check.attention(shares_keys, group_size=3)


def test_x_transformers_is_right() -> None:
    positions = pytest.importorskip("x_transformers.x_transformers").AlibiPositionalBias
    attention = pytest.importorskip("x_transformers.attend").Attend(causal=True)

    def bias(heads: int, queries: int, keys: int) -> Tensor:
        module = positions(heads)
        module(keys, keys)  # fill its cache
        return module(queries, keys)

    check.slopes(positions._get_slopes).raise_for_faults()
    check.bias(bias).raise_for_faults()
    check.bias(bias, causal=False).raise_for_faults()
    check.attention(
        lambda q, k, v: attention(q, k, v, attn_bias=bias(*q.shape[1:3], k.shape[2]))[0]
    ).raise_for_faults()
