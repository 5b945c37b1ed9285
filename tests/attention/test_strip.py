import pytest
import torch
from tests.attention.test_attention import unit_normal

from alibi_viz import alibi_attention, alibi_bias, alibi_slopes, causal_mask, choose_backend
from alibi_viz.attention.strip import FEW, ROWS, SHORT, make_strip


def test_the_strip_holds_the_bias_of_any_neighbours() -> None:
    slopes, length = alibi_slopes(4), 1000
    strip = make_strip(slopes, length)[0]
    whole = alibi_bias(slopes, length).masked_fill(~causal_mask(length), float("-inf"))
    for first, end in ((0, 1), (0, 64), (64, 192), (300, 492), (999, 1000)):
        assert torch.equal(strip[:, ROWS - (end - first) :, length - end :], whole[:, first:end, :end])


@pytest.mark.parametrize("keys", [1, FEW, FEW + 1, 2 * FEW, ROWS, SHORT, SHORT + 1, 4 * ROWS, 5 * ROWS - 1])
def test_cut_anywhere_it_is_the_same_attention(keys: int) -> None:
    q, k, v = unit_normal(2, 4, keys, keys, 8)
    k, v = k[:, :2], v[:, :2]  # grouped heads as well
    for rows in {1, keys // 2 + 1, keys}:
        for slopes in (alibi_slopes(4), alibi_slopes(4, "geometric", bias_max=1.0), None):
            few = q[:, :, keys - rows :]
            expected = alibi_attention(few, k, v, slopes, backend="eager")
            assert torch.allclose(alibi_attention(few, k, v, slopes, backend="strip"), expected, atol=1e-12)


def test_what_is_kept_for_one_width_dtype_or_slope_is_not_given_to_another() -> None:
    for length in (300, 20, 700, 300):
        for dtype in (torch.float32, torch.float64, torch.bfloat16):
            for slopes in (alibi_slopes(2), alibi_slopes(2) / 2):
                q, k, v = (t.to(dtype) for t in unit_normal(1, 2, length, length, 4, seed=length))
                exact = alibi_attention(q.double(), k.double(), v.double(), slopes, backend="eager")
                tolerance = {torch.float32: 2e-6, torch.float64: 1e-12, torch.bfloat16: 3e-2}[dtype]
                output = alibi_attention(q, k, v, slopes, backend="strip")
                assert torch.allclose(output.double(), exact, atol=tolerance)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_half_precision_reads_an_exact_bias(dtype: torch.dtype) -> None:
    """A mask in the dtype of the query rounds the bias; the strip stays float32."""
    length, slopes = 600, torch.tensor([0.0101])
    v = torch.zeros(1, 1, length, 4, dtype=dtype)
    v[:, :, 0] = 100  # the output is the weight of the first key, for which nothing but the bias decides
    q = k = torch.zeros_like(v)
    exact = alibi_attention(q.double(), k.double(), v.double(), slopes, backend="eager")
    strip, mask = (alibi_attention(q, k, v, slopes, backend=name).double() for name in ("strip", "mask"))
    assert float((strip / exact - 1).abs().max()) < 0.6 * float((mask / exact - 1).abs().max())


def test_gradients_are_those_of_the_mask() -> None:
    slopes = alibi_slopes(2).double()
    found = []
    for backend in ("strip", "eager"):
        tensors = [t.requires_grad_() for t in (*unit_normal(1, 2, 600, 600, 4), slopes.clone())]
        output = alibi_attention(*tensors, backend=backend)
        output.square().sum().backward()
        found.append([t.grad for t in tensors])
    for strip, eager in zip(*found, strict=True):
        assert strip is not None
        assert eager is not None
        assert torch.allclose(strip, eager, atol=1e-10 * float(eager.abs().max()))


def test_auto_takes_it_where_it_is_fastest_and_says_so() -> None:
    q, k, _ = unit_normal(1, 2, 2048, 2048, 4)
    slopes = alibi_slopes(2)
    assert choose_backend(q, k, slopes).name == "strip"
    assert choose_backend(q[:, :, -5:], k, slopes).name == "strip"
    assert choose_backend(q[:, :, -1:], k, slopes).name == "mask"
    assert choose_backend(q, k, slopes, key_padding_mask=torch.ones(1, 2048, dtype=torch.bool)).name == "folded"
    longer = torch.cat((k, k), dim=2)
    assert choose_backend(longer, longer, slopes).name == "folded"
    choice = choose_backend(q, longer, slopes)
    assert choice.name == "strip"
    assert "folding does not fit" in choice.reason
    assert choose_backend(q, k, slopes.clone().requires_grad_()).name == "folded"
    assert choose_backend(q.to("meta"), k.to("meta"), slopes.to("meta")).name == "folded"


def test_what_it_cannot_do_it_says() -> None:
    q, k, v = unit_normal(1, 2, 4, 4, 4)
    for case, reason in (
        ({"causal": False}, "without a causal mask"),
        ({"key_padding_mask": torch.ones(1, 4, dtype=torch.bool)}, "a mask of your own"),
        ({"positions": torch.arange(4)}, "positions of your own"),
    ):
        with pytest.raises(ValueError, match=f"backend 'strip' cannot compute this: .*{reason}"):
            alibi_attention(q, k, v, alibi_slopes(2), backend="strip", **case)  # type: ignore[arg-type]
