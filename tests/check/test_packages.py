"""x-transformers, which is installed for the tests, gets no finding; see test_model.py for transformers."""

import pytest
from torch import Tensor

from alibi_viz import check


def test_x_transformers_is_right() -> None:
    x_transformers = pytest.importorskip("x_transformers.x_transformers")
    attend = pytest.importorskip("x_transformers.attend").Attend

    def bias(heads: int, queries: int, keys: int) -> Tensor:
        module = x_transformers.AlibiPositionalBias(heads)
        module(keys, keys)  # fill its cache
        return module(queries, keys)

    def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        return attend(causal=True)(query, key, value, attn_bias=bias(query.shape[1], query.shape[2], key.shape[2]))[0]

    check.slopes(x_transformers.AlibiPositionalBias._get_slopes).raise_for_faults()
    check.bias(bias).raise_for_faults()
    check.bias(bias, causal=False).raise_for_faults()
    check.attention(attention).raise_for_faults()
