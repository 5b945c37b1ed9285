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
TWO_ROWS = torch.stack((SLOPES, 3 * SLOPES))  # [mapped, heads]


# torch.func


@pytest.mark.parametrize(
    ("backend", "length"),
    [("auto", 1), ("auto", 800), ("eager", 40), ("mask", 40), ("folded", 800)],
)
def test_vmap_over_slopes_equals_a_loop(length, backend):
    q, k, v = qkv(length)

    def attention(slopes):
        return alibi_attention(q, k, v, slopes, backend=backend)

    mapped_over_the_last_axis = vmap(attention, in_dims=1)
    outputs = mapped_over_the_last_axis(TWO_ROWS.mT)
    for output, slopes in zip(outputs, TWO_ROWS, strict=True):
        assert torch.allclose(output.double(), expected(q, k, v, slopes), atol=1e-5)


@pytest.mark.parametrize(
    ("transform", "length"), [("autograd", 16), ("autograd", 700), ("torch.func", 700)]
)
def test_gradients_of_mapped_slopes_are_those_of_a_loop(length, transform):
    q, k, v = qkv(length)
    positions = torch.arange(length) * torch.tensor([[1], [2]])  # [mapped, key]

    def total(slopes):
        def attention(slopes, positions):
            return alibi_attention(q, k, v, slopes, positions=positions)

        return vmap(attention)(slopes, positions).sum()

    def total_of_a_loop(slopes):
        result = torch.zeros(())
        for row, row_positions in zip(slopes, positions, strict=True):
            output = alibi_attention(q, k, v, row, positions=row_positions, backend="eager")
            result = result + output.sum()
        return result

    leaf = TWO_ROWS.clone().requires_grad_()
    (exact,) = torch.autograd.grad(total_of_a_loop(leaf), leaf)
    if transform == "autograd":
        (gradient,) = torch.autograd.grad(total(leaf), leaf)
    else:
        gradient = torch.func.grad(total)(TWO_ROWS)
    torch.testing.assert_close(gradient, exact, rtol=1e-3, atol=1e-3)


def test_torch_func_does_not_round_the_gradient_of_slopes_either():
    q, k, v = (tensor.bfloat16() for tensor in qkv(700))
    is_real = (torch.arange(700) > 2).expand(2, -1)

    def loss(slopes):
        output = alibi_attention(q, k, v, slopes, key_padding_mask=is_real)
        return output.float().square().sum()

    leaf = SLOPES.clone().requires_grad_()
    (exact,) = torch.autograd.grad(loss(leaf), leaf)
    assert torch.equal(torch.func.grad(loss)(SLOPES), exact)


@pytest.mark.parametrize(
    ("backend", "length"), [("auto", 800), ("eager", 40), ("mask", 40), ("folded", 800)]
)
def test_vmap_over_positions_equals_a_batch(length, backend):
    q, k, v = qkv(length)
    positions = torch.stack((torch.arange(length), 2 * torch.arange(length) + 9))

    def attention(q, k, v, positions):
        batch_of_one = (q[None], k[None], v[None])
        return alibi_attention(*batch_of_one, SLOPES, positions=positions, backend=backend)[0]

    exact = expected(q, k, v, SLOPES, positions=positions)
    assert torch.allclose(vmap(attention)(q, k, v, positions).double(), exact, atol=1e-5)


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

    message = r"'windowed' does not support this call: .* the transforms of torch\.func"
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
