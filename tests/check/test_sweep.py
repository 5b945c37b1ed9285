"""The sweep finds what is wrong between the usual sizes, and accuses nothing that is right."""

import math

import pytest
import torch

from alibi_viz import alibi_slopes, check
from tests.check.faulty import names
from tests.check.plain_alibi import attend, linear, steps
from tests.rows import each_case

# Wrong functions, each right with 16, 17, 128 and 300 keys and 1, 5, 130 or all queries


def last_page_lost(query, key, value, page=64):
    queries, keys = query.shape[2], key.shape[2]
    if queries == 1 and keys % page == 0 and keys > page:
        key, value = key[:, :, :-page], value[:, :, :-page]
    return attend(query, key, value)


def chunks_in_the_wrong_corner(query, key, value):
    queries, keys = query.shape[2], key.shape[2]
    if not 8 <= queries < min(keys, 128):
        return attend(query, key, value)
    ahead = torch.arange(keys) - torch.arange(queries)[:, None]
    bias = (alibi_slopes(query.shape[1])[:, None, None] * ahead).masked_fill(ahead > 0, -math.inf)
    return attend(query, key, value, bias=bias, causal=False)


def padded_to_eight_keys(query, key, value):
    keys = key.shape[2]
    if keys >= 8:
        return attend(query, key, value)
    key, value = (torch.nn.functional.pad(tensor, (0, 0, 0, 8 - keys)) for tensor in (key, value))
    bias = alibi_slopes(query.shape[1])[:, None, None] * (torch.arange(8) - keys)
    return attend(query, key, value, bias=bias, causal=False)


def last_key_twice(query, key, value):
    if query.shape[2] == 1 and key.shape[2] in (32, 64, 128, 256):
        key, value = (
            tensor[:, :, [*range(tensor.shape[2] - 2), -1, -1]] for tensor in (key, value)
        )
    return attend(query, key, value)


def logits_up_to_20(query, key, value):
    _, heads, queries, head_dim = query.shape
    keys = key.shape[2]
    scores = query @ key.mT * head_dim**-0.5 + linear(heads, queries, keys)
    scores = scores.masked_fill(steps(queries, keys) > 0, -math.inf)
    weights = scores.clamp(max=20).exp()
    return weights / weights.sum(-1, keepdim=True) @ value


def wrong_for_40_heads(query, key, value):
    heads, queries, keys = query.shape[1], query.shape[2], key.shape[2]
    factor = 2 if heads == 40 else 1
    return attend(query, key, value, bias=factor * linear(heads, queries, keys))


@pytest.mark.parametrize(
    "function",
    [
        last_page_lost,
        chunks_in_the_wrong_corner,
        padded_to_eight_keys,
        last_key_twice,
        logits_up_to_20,
        wrong_for_40_heads,
    ],
)
def test_a_fault_between_the_usual_sizes_is_found(function):
    report = check.attention(function)
    assert not report.ok
    assert "strides ignored" not in names(report), "the memory of these calls is no reason"


def test_slopes_of_every_number_of_heads_are_tried():
    def doubled_for_some(heads):
        return alibi_slopes(heads) * (2 if heads in (36, 52, 80) else 1)

    (finding,) = check.slopes(doubled_for_some).findings
    assert finding.name == "added twice"


class WithoutBiasBackwards(torch.autograd.Function):
    """Right attention, whose backward pass forgets the bias."""

    @staticmethod
    def forward(ctx, query, key, value):
        ctx.save_for_backward(query, key, value)
        return attend(query, key, value)

    @staticmethod
    def backward(ctx, gradient):
        with torch.enable_grad():
            inputs = [tensor.detach().requires_grad_() for tensor in ctx.saved_tensors]
            output = attend(*inputs, bias=torch.zeros(1, 1, 1))
            return torch.autograd.grad(output, inputs, gradient)


def test_a_wrong_gradient_is_named():
    (finding,) = check.attention(WithoutBiasBackwards.apply, length=16).findings
    assert finding.name == "wrong gradient"
    assert "the output is right" in finding.evidence


# Right functions


def in_tf32(query, key, value):
    def rounded(tensor):
        bits = tensor.contiguous().view(torch.int32)
        return ((bits + 0x1000) & ~0x1FFF).view(torch.float32)

    return attend(rounded(query), rounded(key), value)


def in_float16(query, key, value):
    return attend(query.half().float(), key.half().float(), value.half().float()).half().float()


@pytest.mark.parametrize("function", [in_tf32, in_float16])
def test_rounding_is_a_note(function):
    report = check.attention(function, length=64)
    assert report.ok
    assert "Right within the rounding of TF32 or float16" in str(report)


def only_eight_heads(query, key, value):
    assert query.shape[1] in (8, 12)
    return attend(query, key, value)


@each_case(
    ("function", "tried"),
    {
        "heads that need not work": (only_eight_heads, "8, 12 heads"),
        "any heads": (attend, "1, 3, 5, 8, 12, 16, 40 heads"),
        "gradients": (attend, "float32; the gradients of 3 calls"),
    },
)
def test_a_report_says_what_was_tried(function, tried):
    report = check.attention(function, length=64)
    assert report.ok
    assert tried in report.tried


def test_a_function_without_gradients_is_said_to_have_none():
    report = check.attention(lambda *inputs: attend(*inputs).detach(), length=16)
    assert report.ok
    assert "no gradients" in report.tried
