"""Real packages: the right ones get no finding, the wrong ones the name of their fault.

transformers (see test_model.py) and x-transformers are installed for the tests. The others would bring large
dependencies; where one is installed, for example with `pip install --no-deps`, its test runs too.
"""

import ast
import importlib.util
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor, nn

from alibi_viz import causal_mask, check

os.environ.setdefault("KERAS_BACKEND", "torch")


def names(report: check.Report) -> set[str]:
    return {finding.name for finding in report.findings}


def test_x_transformers() -> None:
    x_transformers = pytest.importorskip("x_transformers.x_transformers")
    attend = pytest.importorskip("x_transformers.attend").Attend

    def bias(heads: int, queries: int, keys: int) -> Tensor:
        module = x_transformers.AlibiPositionalBias(heads)
        module(keys, keys)  # fill its cache
        return module(queries, keys)

    def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        added = bias(query.shape[1], query.shape[2], key.shape[2])
        return attend(causal=True)(query, key, value, attn_bias=added)[0]

    check.slopes(x_transformers.AlibiPositionalBias._get_slopes).raise_for_faults()
    check.bias(bias).raise_for_faults()
    check.bias(bias, causal=False).raise_for_faults()
    check.attention(attention).raise_for_faults()


def test_labml() -> None:
    alibi = pytest.importorskip("labml_nn.transformers.alibi")

    def bias(heads: int, queries: int, keys: int) -> Tensor:
        return alibi.get_alibi_biases(heads, causal_mask(queries, keys)).permute(2, 0, 1)

    def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        batch, heads, length, head_dim = query.shape
        module = alibi.AlibiMultiHeadAttention(heads, heads * head_dim, dropout_prob=0.0).eval()
        for name, tensor in {"query": query, "key": key, "value": value}.items():
            getattr(module, name).register_forward_hook(lambda *_, new=tensor: new.permute(2, 0, 1, 3))
        outputs: list[Tensor] = []
        module.output.register_forward_pre_hook(lambda _, inputs: outputs.append(inputs[0]))
        x = torch.zeros(length, batch, heads * head_dim)
        module(query=x, key=x, value=x, mask=causal_mask(length)[:, :, None])
        return outputs[0].view(length, batch, heads, head_dim).permute(1, 2, 0, 3)

    check.slopes(alibi.get_slopes).raise_for_faults()
    check.bias(bias).raise_for_faults()
    check.attention(attention, decoding=False).raise_for_faults()  # it accepts square masks only


def test_keras_hub() -> None:
    keras_hub = pytest.importorskip("keras_hub")
    layer = keras_hub.layers.AlibiBias()
    check.slopes(layer._get_slopes).raise_for_faults()
    check.bias(lambda heads, queries, keys: layer(torch.zeros(1, heads, queries, keys))).raise_for_faults()


def test_curated_transformers() -> None:
    layers = pytest.importorskip("curated_transformers.layers.attention")

    def biases(heads: int, causal: bool = True, inverted: bool = False) -> Any:
        return layers.AttentionLinearBiases(n_attention_heads=heads, is_causal=causal, is_inverted=inverted)

    def attention(query: Tensor, key: Tensor, value: Tensor) -> Tensor:
        module = layers.ScaledDotProductAttention(dropout_prob=0.0, linear_biases=biases(query.shape[1])).eval()
        mask = layers.AttentionMask(torch.ones(query.shape[0], key.shape[2], dtype=torch.bool))
        return module(query=query, key=key, value=value, attention_mask=mask, use_causal_mask=True)

    check.slopes(lambda heads: biases(heads).slopes).raise_for_faults()
    for inverted in (False, True):  # the inverted form differs by a constant
        check.bias(lambda h, q, k: biases(h, True, inverted).calculate_biases(k)[0][:, -q:]).raise_for_faults()  # noqa: B023
    check.bias(lambda h, q, k: biases(h, False).calculate_biases(k)[0][:, -q:], causal=False).raise_for_faults()
    check.attention(attention).raise_for_faults()


def test_attn_gym_has_geometric_slopes() -> None:
    generate = pytest.importorskip("attn_gym.mods").generate_alibi_bias

    def bias(heads: int, queries: int, keys: int) -> Tensor:
        modify, zero = generate(heads), torch.zeros(())
        index = [torch.arange(size) for size in (heads, queries, keys)]
        head, query, key = torch.meshgrid(*index, indexing="ij")
        return modify(zero, zero.long(), head, query + keys - queries, key)

    assert names(check.bias(bias)) == {"geometric slopes"}


def test_zetascale_is_faulty() -> None:
    """Its class cannot be constructed; the one in `structs` slices its cache from the wrong corner."""
    published = classes_of("zeta/nn/biases/alibi.py", BaseBias=nn.Module).AlibiPositionalBias
    assert names(check.bias(lambda h, q, k: published(h, h)(q, k))) == {"raises an error"}

    structs = classes_of("zeta/structs/transformer.py").AlibiPositionalBias

    def cached(heads: int, queries: int, keys: int) -> Tensor:
        module = structs(heads, heads)
        module(keys, keys)
        return module(queries, keys)

    assert names(check.bias(cached)) == {"wrong corner of the cache"}


def classes_of(path: str, **scope: Any) -> SimpleNamespace:
    """AlibiPositionalBias and its helpers from a file of zetascale, without importing its many dependencies."""
    specification = importlib.util.find_spec(path.split("/", maxsplit=1)[0])
    einops = pytest.importorskip("einops")
    if specification is None or specification.origin is None:
        pytest.skip("zetascale is not installed")
    wanted = {"AlibiPositionalBias", "pad_at_dim", "exists"}
    tree = ast.parse((Path(specification.origin).parents[1] / path).read_text())
    tree.body = [node for node in tree.body if getattr(node, "name", None) in wanted]
    scope |= {"torch": torch, "nn": nn, "Tensor": Tensor, "F": nn.functional, "rearrange": einops.rearrange}
    exec(compile(f"from __future__ import annotations\nimport math\n{ast.unparse(tree)}", path, "exec"), scope)
    return SimpleNamespace(**{name: scope[name] for name in wanted if name in scope})
