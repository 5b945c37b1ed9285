"""Compare the adapters with transformers and x-transformers, which only tests and benchmarks need."""

import os

import pytest
import torch

from alibi_viz import alibi_bias, alibi_slopes
from alibi_viz.adapters import (
    flash_attention_slopes,
    huggingface_alibi,
    pretrained_heads,
    pretrained_trace,
    x_transformers_bias,
)

if os.environ.get("CI") != "true":
    pytest.importorskip("transformers")
    pytest.importorskip("x_transformers")

from transformers import (
    BloomConfig,
    BloomForCausalLM,
    BloomModel,
    FalconConfig,
    FalconModel,
    GPT2Config,
    GPT2Model,
    MptConfig,
    MptModel,
)
from transformers.models.bloom.modeling_bloom import build_alibi_tensor
from transformers.models.falcon.modeling_falcon import build_alibi_tensor as build_falcon_alibi
from transformers.models.mpt.modeling_mpt import build_mpt_alibi_tensor
from x_transformers.x_transformers import AlibiPositionalBias

IDS = torch.randint(0, 100, (2, 20), generator=torch.Generator().manual_seed(0))
PADDED = torch.ones(2, 20, dtype=torch.long)
PADDED[0, :6] = 0


def bloom(heads: int = 4) -> BloomModel:
    torch.manual_seed(0)
    return BloomModel(BloomConfig(vocab_size=100, hidden_size=16 * heads, n_layer=2, n_head=heads)).eval()


def mpt(heads: int = 4, **attention: float) -> MptModel:
    torch.manual_seed(0)
    sizes = {"vocab_size": 100, "d_model": 16 * heads, "n_layers": 2, "n_heads": heads, "max_seq_len": 64}
    return MptModel(MptConfig(**sizes, attn_config=attention)).eval()


def falcon(attn_implementation: str = "sdpa", *, multi_query: bool = False, alibi: bool = True) -> FalconModel:
    torch.manual_seed(0)
    config = FalconConfig(
        vocab_size=100, hidden_size=64, num_hidden_layers=2, num_attention_heads=4, alibi=alibi, multi_query=multi_query
    )
    return FalconModel._from_config(config, attn_implementation=attn_implementation).eval()


@pytest.mark.parametrize("heads", range(1, 65))
def test_slopes_equal_those_of_the_packages(heads: int) -> None:
    ours = alibi_slopes(heads)
    one, two = torch.ones(1, 2, dtype=torch.long), torch.arange(2)
    for theirs in (
        build_alibi_tensor(one, heads, torch.float32)[:, 0, 1],
        AlibiPositionalBias(heads).slopes[:, 0, 0],
        -build_mpt_alibi_tensor(heads, len(two))[:, 0, 0],
    ):
        assert torch.allclose(ours, theirs, rtol=1e-6, atol=0)
    assert torch.equal(ours.bfloat16().float(), build_falcon_alibi(one, heads, torch.float32)[:, 0, 1])


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_huggingface_alibi_equals_build_alibi_tensor(dtype: torch.dtype) -> None:
    for heads in (4, 12):
        ours = huggingface_alibi(alibi_slopes(heads), PADDED, dtype)
        theirs = build_alibi_tensor(PADDED, heads, dtype)
        assert ours.shape == (2 * heads, 1, 20)
        assert torch.allclose(ours, theirs, rtol=1e-6 if dtype == torch.float32 else 8e-3)
    with pytest.raises(TypeError, match=r"attention_mask must be an integer or bool tensor .*, got torch\.float32"):
        huggingface_alibi(alibi_slopes(4), PADDED.float())


def test_x_transformers_bias_equals_alibi_positional_bias() -> None:
    for lengths in ((5, 9), (1, 9), (9, 9), (12, 12)):
        theirs = AlibiPositionalBias(6, total_heads=8)(*lengths)
        assert torch.allclose(x_transformers_bias(alibi_slopes(6), *lengths, total_heads=8), theirs, atol=1e-6)
    with pytest.raises(ValueError, match="total_heads must be at least the number of slopes, 6, got 4"):
        x_transformers_bias(alibi_slopes(6), 3, 3, total_heads=4)
    with pytest.raises(TypeError, match="total_heads must be an integer, got '8'"):
        x_transformers_bias(alibi_slopes(6), 3, 3, total_heads="8")


def test_flash_attention_slopes_are_contiguous_float32_without_gradient() -> None:
    slopes = flash_attention_slopes(alibi_slopes(6).double().requires_grad_(), batch=3)
    assert slopes.shape == (3, 6)
    assert slopes.dtype == torch.float32
    assert slopes.is_contiguous()
    assert not slopes.requires_grad
    assert torch.equal(flash_attention_slopes(alibi_slopes(6)), alibi_slopes(6))
    with pytest.raises(TypeError, match=r"batch must be an integer, got 2\.0"):
        flash_attention_slopes(alibi_slopes(6), batch=2.0)


@pytest.mark.parametrize("padded", [False, True])
@pytest.mark.parametrize(
    "make", [bloom, lambda: bloom(6), mpt, lambda: mpt(6), lambda: mpt(softmax_scale=0.3, clip_qkv=0.2)]
)
def test_trace_equals_the_weights_of_bloom_and_mpt(make: type, padded: bool) -> None:
    model, mask = make(), PADDED if padded else None
    with torch.no_grad():
        attentions = model(IDS, attention_mask=mask, output_attentions=True).attentions
    for layer in range(2):
        weights = pretrained_trace(model, IDS, layer, mask).weights
        is_real = PADDED[:, None, :, None].bool() if padded else torch.ones(1, 1, 1, 1, dtype=torch.bool)
        assert torch.allclose(weights.where(is_real, 0), attentions[layer].where(is_real, 0), atol=1e-6)


@pytest.mark.parametrize("make", [bloom, mpt])
def test_positions_with_gaps_in_the_mask_equal_those_of_the_model(make: type) -> None:
    """BLOOM counts only real tokens, MPT counts all."""
    model = make()
    for parameter in model.parameters():
        parameter.data *= 4  # sharper attention, so that a wrong distance changes the weights
    mask = torch.ones(2, 20, dtype=torch.long)
    mask[0, 3:7] = mask[1, 10] = mask[1, 15:18] = 0
    with torch.no_grad():
        attentions = model(IDS, attention_mask=mask, output_attentions=True).attentions
    weights = pretrained_trace(model, IDS, 0, mask).weights
    is_real = mask[:, None, :, None].bool()
    assert torch.allclose(weights.where(is_real, 0), attentions[0].where(is_real, 0), atol=1e-5)


@pytest.mark.parametrize("gaps", [False, True])
@pytest.mark.parametrize("multi_query", [False, True])
def test_trace_times_value_equals_the_output_of_falcon(multi_query: bool, gaps: bool) -> None:
    """`sdpa` returns no weights, so the output of the layer is compared."""
    mask = None
    if gaps:
        mask = torch.ones(2, 20, dtype=torch.long)
        mask[0, 3:7] = mask[1, 10] = 0
    model = falcon(multi_query=multi_query)
    captured = {}
    for layer, block in enumerate(model.h):
        dense = block.self_attention.dense
        dense.register_forward_hook(lambda _m, inputs, _o, layer=layer: captured.update({layer: inputs[0].detach()}))
        block.self_attention.query_key_value.register_forward_hook(
            lambda _m, _i, output, layer=layer: captured.update({("fused", layer): output.detach()})
        )
    with torch.no_grad():
        model(IDS, attention_mask=mask)
    for layer, block in enumerate(model.h):
        _, _, value = block.self_attention._split_heads(captured["fused", layer])
        output = pretrained_trace(model, IDS, layer, mask).weights @ value.transpose(1, 2)
        is_real = torch.ones(2, 20, 1, dtype=torch.bool) if mask is None else mask[:, :, None].bool()
        output = output.transpose(1, 2).flatten(2)
        assert torch.allclose(output.where(is_real, 0), captured[layer].where(is_real, 0), atol=1e-6)


def test_falcon_eager_attention_adds_the_bias_twice() -> None:
    once, twice = falcon("sdpa"), falcon("eager")
    twice.load_state_dict(once.state_dict())
    with torch.no_grad():
        eager_weights = twice(IDS, output_attentions=True).attentions[0]
    trace = pretrained_trace(once, IDS, 0)
    assert float((trace.weights - eager_weights).abs().max()) > 0.01
    assert torch.allclose((trace.logits + trace.bias).softmax(-1), eager_weights, atol=1e-6)


def test_mpt_in_transformers_ignores_alibi_bias_max() -> None:
    one, other = mpt(alibi_bias_max=8), mpt(alibi_bias_max=4)
    with torch.no_grad():
        assert torch.equal(one(IDS).last_hidden_state, other(IDS).last_hidden_state)


def test_falcon_rounds_its_bias_to_bfloat16() -> None:
    theirs = build_falcon_alibi(torch.ones(1, 600, dtype=torch.long), 4, torch.float32)[:, 0]
    ours = alibi_bias(alibi_slopes(4), 600, form="key")[:, 0]
    assert torch.equal(theirs[:, :257], ours[:, :257])
    assert float((theirs - ours).abs().max()) == 0.5  # at slope 1/4: half the spacing of bfloat16 there


def test_pretrained_heads_restores_the_training_mode_of_every_module() -> None:
    model = BloomForCausalLM(BloomConfig(vocab_size=100, hidden_size=64, n_layer=1, n_head=4)).train()
    query, key, slopes = pretrained_heads(model, IDS, 0)
    assert query.shape == key.shape == (2, 4, 20, 16)
    assert slopes.shape == (4,)
    assert model.transformer.training
    model.transformer.h[0].eval()
    pretrained_heads(model, IDS, 0)
    assert [model.transformer.training, model.transformer.h[0].training] == [True, False]


def test_unsupported_models_and_arguments_raise_with_their_name() -> None:
    gpt2 = GPT2Model(GPT2Config(vocab_size=100, n_embd=16, n_layer=1, n_head=2))
    with pytest.raises(ValueError, match="model must be one of bloom, falcon, mpt, got 'gpt2'"):
        pretrained_trace(gpt2, IDS, 0)
    with pytest.raises(ValueError, match="configured without ALiBi"):
        pretrained_trace(falcon(alibi=False), IDS, 0)
    with pytest.raises(ValueError, match="layer must be between 0 and 1, got 2"):
        pretrained_trace(bloom(), IDS, 2)
    with pytest.raises(TypeError, match="layer must be an integer, got '0'"):
        pretrained_trace(bloom(), IDS, "0")
    with pytest.raises(ValueError, match=r"input_ids must be \[batch, length\], got shape \[20\]"):
        pretrained_trace(bloom(), IDS[0], 0)
    with pytest.raises(ValueError, match=r"attention_mask must have the shape of input_ids, \[2, 20\], got \[2, 19\]"):
        pretrained_trace(bloom(), IDS, 0, PADDED[:, 1:])
    with pytest.raises(ValueError, match="model must be one of bloom, falcon, mpt, got 'Linear'"):
        pretrained_trace(torch.nn.Linear(1, 1), IDS, 0)
