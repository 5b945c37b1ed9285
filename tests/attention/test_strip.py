import pytest
import torch
from alibi_viz.attention.strip import ROWS, SHORT_KEYS, SMALL_BLOCK, bias_strip

from alibi_viz import alibi_attention, alibi_bias, alibi_slopes, causal_mask, choose_backend
from tests.attention.test_attention import unit_normal


def test_slices_of_the_strip_equal_the_bias_of_any_block() -> None:
    slopes, length = alibi_slopes(4), 1000
    strip = bias_strip(slopes, length)[0]
    full_bias = alibi_bias(slopes, length).masked_fill(~causal_mask(length), float("-inf"))
    for first, end in ((0, 1), (0, 64), (64, 192), (300, 492), (999, 1000)):
        assert torch.equal(strip[:, ROWS - (end - first) :, length - end :], full_bias[:, first:end, :end])


def test_cached_strip_does_not_allocate_the_full_square() -> None:
    strip = bias_strip(alibi_slopes(8), 2048)
    assert strip.shape == (1, 8, ROWS, 2048)
    assert strip.untyped_storage().nbytes() == 8 * 256 * 2048 * 4  # lengths are rounded up to powers of two
    assert bias_strip(alibi_slopes(8), 1500).untyped_storage().data_ptr() == strip.untyped_storage().data_ptr()


@pytest.mark.parametrize(
    "keys", [1, SMALL_BLOCK, SMALL_BLOCK + 1, 2 * SMALL_BLOCK, ROWS, SHORT_KEYS, SHORT_KEYS + 1, 4 * ROWS, 5 * ROWS - 1]
)
def test_strip_equals_eager_for_any_number_of_blocks(keys: int) -> None:
    q, k, v = unit_normal(2, 4, keys, keys, 8)
    k, v = k[:, :2], v[:, :2]  # with grouped-query attention
    for rows in {1, keys // 2 + 1, keys}:
        for slopes in (alibi_slopes(4), alibi_slopes(4, "geometric", bias_max=1.0), None):
            last_queries = q[:, :, keys - rows :]
            expected = alibi_attention(last_queries, k, v, slopes, backend="eager")
            assert torch.allclose(alibi_attention(last_queries, k, v, slopes, backend="strip"), expected, atol=1e-12)


def test_cached_strip_is_not_used_for_another_length_dtype_or_slope() -> None:
    for length in (300, 20, 700, 300):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            for slopes in (alibi_slopes(2), alibi_slopes(2) / 2):
                q, k, v = (t.to(dtype) for t in unit_normal(1, 2, length, length, 4, seed=length))
                exact = alibi_attention(q.double(), k.double(), v.double(), slopes, backend="eager")
                tolerance = {torch.float32: 2e-6, torch.float64: 1e-12, torch.bfloat16: 3e-2}[dtype]
                output = alibi_attention(q, k, v, slopes, backend="strip")
                assert torch.allclose(output.double(), exact, atol=tolerance)


def test_gradients_equal_those_of_eager() -> None:
    slopes = alibi_slopes(2).double()
    gradients = []
    for backend in ("strip", "eager"):
        tensors = [t.requires_grad_() for t in (*unit_normal(1, 2, 600, 600, 4), slopes.clone())]
        output = alibi_attention(*tensors, backend=backend)
        output.square().sum().backward()
        gradients.append([t.grad for t in tensors])
    for strip, eager in zip(*gradients, strict=True):
        assert strip is not None
        assert eager is not None
        assert torch.allclose(strip, eager, atol=1e-10 * float(eager.abs().max()))


def test_auto_selects_the_strip_for_short_inputs_and_few_queries() -> None:
    q, k, _ = unit_normal(1, 2, 1000, 1000, 32)
    slopes = alibi_slopes(2)
    assert choose_backend(q, k, slopes).name == "strip"
    assert choose_backend(q, k, None).name == "strip"
    assert choose_backend(q[:, :, -1:], k, slopes).name == "mask"
    assert choose_backend(q, k, slopes, key_padding_mask=torch.ones(1, 1000, dtype=torch.bool)).name == "folded"
    assert choose_backend(q.to("meta"), k.to("meta"), slopes.to("meta")).name == "folded"
    longer = torch.cat((k, k, k), dim=2)
    assert choose_backend(longer, longer, slopes).name == "windowed"
    narrow = longer[..., :16]
    assert choose_backend(narrow, narrow, slopes).name == "strip", "too little work for a call per head"
    assert choose_backend(longer, longer, None).name == "folded"
    assert choose_backend(longer, longer, slopes, dropout=0.1).name == "strip"
    assert choose_backend(q[:, :, -5:], longer, slopes).name == "strip"


def test_training_leaves_keys_out_from_shorter_inputs_on() -> None:
    q, k, _ = unit_normal(8, 2, 600, 600, 64)
    slopes = alibi_slopes(2)
    assert choose_backend(q, k, slopes).name == "strip"
    for tensors in ((q.requires_grad_(), k, slopes), (q.detach(), k, slopes.clone().requires_grad_())):
        assert choose_backend(*tensors).name == "windowed"
        assert choose_backend(*(tensor[:4] for tensor in tensors)).name != "windowed", "too little work"
    half = q.detach().bfloat16()
    assert choose_backend(half, half, slopes.clone().requires_grad_()).name == "mask"


def test_unsupported_calls_raise_with_the_reason() -> None:
    q, k, v = unit_normal(1, 2, 4, 4, 4)
    for case, reason in (
        ({"causal": False}, "without a causal mask"),
        ({"key_padding_mask": torch.ones(1, 4, dtype=torch.bool)}, "a padding or attention mask differs"),
        ({"positions": torch.arange(4)}, "with explicit positions"),
    ):
        with pytest.raises(ValueError, match=f"backend 'strip' does not support this call: .*{reason}"):
            alibi_attention(q, k, v, alibi_slopes(2), backend="strip", **case)  # type: ignore[arg-type]
