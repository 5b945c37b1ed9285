"""The transforms of torch.func, forward-mode derivatives and torch.compile: no lost tangents, no
graph per length."""

from functools import partial

import pytest
import torch
from torch._dynamo.testing import CompileCounter
from torch.autograd.forward_ad import dual_level, make_dual, unpack_dual
from torch.func import jvp, vmap

from alibi_viz import (
    AlibiBias,
    AlibiSelfAttention,
    LanguageModel,
    TransformerConfig,
    alibi_attention,
    alibi_slopes,
)
from tests.attention import cases
from tests.attention.cases import MASKING, expected
from tests.rows import each_case

qkv = partial(cases.qkv, heads=2, dim=8, batch=2, dtype=torch.float32)
SLOPES = alibi_slopes(2)


# torch.func


@pytest.mark.parametrize("length", [1, 300])
def test_vmap_over_slopes_equals_a_loop(length):
    q, k, v = qkv(length)
    rows = torch.stack((SLOPES, 3 * SLOPES))
    outputs = vmap(partial(alibi_attention, q, k, v))(rows)
    for output, slopes in zip(outputs, rows, strict=True):
        assert torch.allclose(output.double(), expected(q, k, v, slopes), atol=1e-5)


def of_the_slopes(loss, q):
    """The gradient of the slopes."""
    return torch.func.grad(loss)(SLOPES, q)


def of_slopes_that_the_loss_steepens(loss, q):
    return torch.func.grad(lambda slopes: loss(1.0 * slopes, q))(SLOPES)


def of_slopes_behind_another_transform(loss, q):
    """Inside, the slopes do not say that they require a gradient."""

    def value(slopes):
        transformed = torch.func.grad_and_value(
            lambda query: loss(1.0 * slopes + 0 * query[0, 0, 0, 0], query)
        )
        return transformed(q)[1]

    return torch.func.grad(value)(SLOPES)


def of_slopes_outside_of_torch_func(loss, q):
    leaf = SLOPES.clone().requires_grad_()
    transformed = torch.func.grad_and_value(lambda query: loss(leaf + 0 * query[0, 0, 0, 0], query))
    return torch.autograd.grad(transformed(q)[1], leaf)[0]


def of_slopes_with_mapped_positions(loss, q):
    positions = torch.stack((torch.arange(q.shape[2]),) * 2)

    def total(slopes):
        return vmap(lambda row: loss(slopes, q, positions=row))(positions).mean()

    return torch.func.grad(total)(SLOPES)


@pytest.mark.parametrize("length", [40, 700])
@pytest.mark.parametrize(
    "gradient",
    [
        of_the_slopes,
        of_slopes_that_the_loss_steepens,
        of_slopes_behind_another_transform,
        of_slopes_outside_of_torch_func,
        of_slopes_with_mapped_positions,
    ],
)
def test_torch_func_gives_the_gradient_of_slopes(gradient, length):
    q, k, v = qkv(length)

    def loss(slopes, query, backend="auto", **options):
        return alibi_attention(query, k, v, slopes, backend=backend, **options).square().sum()

    leaf = SLOPES.clone().requires_grad_()
    (exact,) = torch.autograd.grad(loss(leaf, q, backend="eager"), leaf)
    torch.testing.assert_close(gradient(loss, q), exact, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("backend", ["mask", "windowed", "folded"])
def test_backends_refuse_slopes_that_torch_func_transforms(backend):
    q, k, v = qkv(40)

    def loss(slopes):
        return alibi_attention(q, k, v, slopes, backend=backend).sum()

    with pytest.raises(ValueError, match=f"'{backend}' does not support this call: torch.func"):
        torch.func.grad(loss)(SLOPES)


@pytest.mark.parametrize("backend", ["eager", "mask", "folded"])
def test_vmap_over_inputs_equals_a_batch(backend):
    q, k, v = qkv(300)

    def attention(q, k, v):
        return alibi_attention(q[None], k[None], v[None], SLOPES, backend=backend)[0]

    exact = expected(q, k, v, SLOPES)
    assert torch.allclose(vmap(attention)(q, k, v).double(), exact, atol=1e-5)


def test_torch_func_around_inputs_that_it_does_not_change_leaves_windowed():
    q, k, v = qkv(300)

    def loss(factor):
        return (factor * alibi_attention(q, k, v, SLOPES, backend="windowed")).sum()

    exact = alibi_attention(q, k, v, SLOPES).sum()
    torch.testing.assert_close(torch.func.grad(loss)(torch.ones(())), exact)


def test_torch_func_has_the_gradient_that_windowed_has_by_autograd():
    q, k, v = qkv(1100)

    def loss(query, backend="auto"):
        return alibi_attention(query, k, v, SLOPES, backend=backend).square().sum()

    leaf = q.clone().requires_grad_()
    loss(leaf, "windowed").backward()
    assert torch.allclose(torch.func.grad(loss)(q), leaf.grad, atol=1e-4)


def test_torch_func_is_refused_by_windowed_itself():
    q, k, v = qkv(100)

    def loss(query):
        return alibi_attention(query, k, v, SLOPES, backend="windowed").sum()

    message = r"'windowed' does not support this call: it reads values"
    with pytest.raises(ValueError, match=message):
        torch.func.grad(loss)(q)


def derivative_by_jvp(function, at):
    """The forward-mode derivative in the direction of ones."""
    _, tangent = jvp(function, (at,), (torch.ones_like(at),))
    return tangent


def derivative_by_dual_numbers(function, at):
    """The same by torch's older interface."""
    with dual_level():
        output = function(make_dual(at, torch.ones_like(at)))
        return unpack_dual(output).tangent


@pytest.mark.parametrize("backend", MASKING)
@each_case(
    ("derivative", "causal", "rows"),
    {
        "jvp": (derivative_by_jvp, True, 40),
        "jvp, one query, both directions": (derivative_by_jvp, False, 1),
        "dual numbers, one query": (derivative_by_dual_numbers, True, 1),
    },
)
def test_the_forward_derivative_of_slopes_is_exact_or_refused(derivative, *, causal, rows, backend):
    """The cached bias has no tangent, so a backend that used it would return a derivative of 0."""
    q, k, v = qkv(40)

    def attention(slopes, backend=backend):
        return alibi_attention(q[:, :, -rows:], k, v, slopes, causal=causal, backend=backend)

    exact = derivative_by_jvp(partial(attention, backend="eager"), SLOPES)
    try:
        result = derivative(attention, SLOPES)
    except NotImplementedError as error:  # of torch's kernel
        assert backend != "eager"
        assert "forward AD" in str(error)
    except ValueError as error:  # of a backend that needs equal lengths
        assert backend != "eager"
        assert "does not support this call" in str(error)
    else:
        assert torch.allclose(result, exact, atol=1e-5)


# torch.compile, with one case of each kind in every run

weekly = pytest.mark.weekly
traces_attention = pytest.mark.skipif(
    torch.__version__ < "2.13", reason="attention stays uncompiled before torch 2.13"
)


def assert_one_graph_for_all_lengths(
    function,
    inputs,
    exact=None,
):
    """The compiled function equals `exact`, by default itself, and isn't compiled per length."""
    torch._dynamo.reset()
    counter = CompileCounter()
    compiled = torch.compile(function, backend=counter, fullgraph=True)
    for of_one_length in inputs:
        output = (exact or function)(of_one_length)
        assert torch.allclose(compiled(of_one_length), output, atol=1e-5)
    assert counter.frame_count == 2, "one for the first length, then one for all others"


@traces_attention
@pytest.mark.parametrize(
    "backend",
    ["auto", *(pytest.param(name, marks=weekly) for name in MASKING if name != "auto")],
)
def test_attention_is_not_recompiled_for_every_length(backend):
    slopes = alibi_slopes(4)

    def attention(q, backend=backend):
        return alibi_attention(q, q, q, slopes, backend=backend)

    inputs = [torch.randn(1, 4, length, 8) for length in (800, 801, 900, 1101)]
    assert_one_graph_for_all_lengths(attention, inputs, partial(attention, backend="eager"))


@weekly
@traces_attention
def test_attention_compiles_for_any_number_of_heads():
    compiled = torch.compile(
        alibi_attention, backend=CompileCounter(), fullgraph=True, dynamic=True
    )
    for heads in (4, 6):
        q, k, v = torch.randn(3, 1, heads, 20, 8)
        slopes = alibi_slopes(heads)
        assert torch.allclose(
            compiled(q, k, v, slopes), alibi_attention(q, k, v, slopes), atol=1e-5
        )


@weekly
@traces_attention
def test_a_first_mask_is_compiled_after_other_lengths():
    torch._dynamo.reset()
    compiled = torch.compile(alibi_attention, backend=CompileCounter(), fullgraph=True)
    slopes = alibi_slopes(4)

    # From the second length on, the graph is for any length.
    for length in (20, 33):
        q = torch.randn(1, 4, length, 8)
        assert torch.allclose(
            compiled(q, q, q, slopes), alibi_attention(q, q, q, slopes), atol=1e-5
        )

    q = torch.randn(1, 4, 50, 8)
    is_real = torch.arange(50)[None] > 9
    exact = alibi_attention(q, q, q, slopes, key_padding_mask=is_real)
    assert torch.allclose(compiled(q, q, q, slopes, key_padding_mask=is_real), exact, atol=1e-5)


@traces_attention
@pytest.mark.parametrize("causal", [False, pytest.param(True, marks=weekly)])
def test_attention_is_exported_for_any_length(causal):
    layer = AlibiSelfAttention(32, 4, causal=causal).eval()
    any_length = {1: torch.export.Dim("length", min=2, max=4096)}
    program = torch.export.export(layer, (torch.randn(1, 80, 32),), dynamic_shapes=(any_length,))
    longer = torch.randn(1, 733, 32)
    assert torch.allclose(program.module()(longer), layer(longer), atol=1e-5)


@weekly
@traces_attention
def test_the_layer_is_not_recompiled_for_every_length():
    layer = AlibiSelfAttention(32, 4)
    inputs = [torch.randn(1, length, 32) for length in (800, 801, 900)]
    assert_one_graph_for_all_lengths(layer, inputs)


@pytest.mark.parametrize(
    "form",
    ["key", *(pytest.param(form, marks=weekly) for form in ("relative", "symmetric", "split"))],
)
def test_the_bias_is_not_recompiled_for_every_length(form):
    assert_one_graph_for_all_lengths(AlibiBias(3, form=form), inputs=[20, 21, 45, 77])


@weekly
@traces_attention
@pytest.mark.parametrize("position", ["none", "rotary"])
def test_a_model_is_not_recompiled_for_every_length(position):
    model = LanguageModel(
        TransformerConfig(position=position, num_layers=1, d_model=32, num_heads=4, dropout=0.0)
    )
    inputs = [torch.arange(length)[None] for length in (8, 12, 20)]
    assert_one_graph_for_all_lengths(model, inputs)


@pytest.mark.parametrize("position", ["rotary", pytest.param("alibi", marks=weekly)])
def test_a_model_may_be_compiled_in_several_graphs(position):
    model = LanguageModel(
        TransformerConfig(position=position, num_layers=1, d_model=32, num_heads=4, dropout=0.0)
    )
    model.eval()
    tokens = torch.arange(20)[None]
    compiled = torch.compile(model, backend="eager")
    assert torch.allclose(compiled(tokens), model(tokens), atol=1e-6)
