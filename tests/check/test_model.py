"""Models of the real classes of transformers, tiny and with random weights."""

import time
from collections.abc import Callable
from functools import partial, wraps
from typing import Any

import pytest
import torch
from torch import nn

from alibi_viz import check
from tests.check.faulty import names

transformers = pytest.importorskip("transformers")
pytestmark = pytest.mark.filterwarnings("error:`past_key_values` is deprecated")
CACHE = {"past_key_values", "cache"}  # the argument's name before transformers 5.24, and since
# {family: its configuration, and the names of width, heads and layers in it}
USUAL = ("hidden_size", "num_attention_heads", "num_hidden_layers")
FAMILIES = {
    "bloom": ("BloomConfig", ("hidden_size", "n_head", "n_layer"), {}),
    "mpt": ("MptConfig", ("d_model", "n_heads", "n_layers"), {"max_seq_len": 64}),
    "falcon": (
        "FalconConfig",
        USUAL,
        {"alibi": True, "multi_query": False, "parallel_attn": False},
    ),
    "gpt_neox": (
        "GPTNeoXConfig",
        USUAL,
        {"intermediate_size": 64},
    ),  # the default is that of 20 billion parameters
}


def build(family: str, heads: int = 4, implementation: str = "eager", **options: Any) -> Any:
    config, sizes, further = FAMILIES[family]
    further |= {
        "vocab_size": 5,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "attn_implementation": implementation,
    }
    torch.manual_seed(0)
    settings = dict(zip(sizes, (16 * heads, heads, 2), strict=True)) | further | options
    return transformers.AutoModelForCausalLM.from_config(getattr(transformers, config)(**settings))


@pytest.mark.parametrize("heads", [4, 12])
@pytest.mark.parametrize(
    ("family", "implementation"), [("bloom", "eager"), ("mpt", "eager"), ("falcon", "sdpa")]
)
def test_alibi_models_are_right(family: str, implementation: str, heads: int) -> None:
    report = check.model(build(family, heads, implementation), layer=1)
    report.raise_for_faults()
    assert f"ALiBi is on, with the official slopes ({family}, {heads} heads of size 16)" in str(
        report
    )


def test_falcon_with_eager_attention_adds_its_bias_twice() -> None:
    assert names(check.model(build("falcon", 12, "eager"))) == {"added twice"}


@pytest.mark.parametrize("implementation", ["eager", "sdpa"])
def test_model_with_rotary_positions_has_no_alibi(implementation: str) -> None:
    report = check.model(build("gpt_neox", implementation=implementation))
    assert names(report) == {"no bias", "content depends on position"} and "ALiBi is off" in str(
        report
    )


def test_only_the_layer_asked_for_is_checked() -> None:
    model = build("bloom")
    model.transformer.h[1].self_attention.beta = 0.0  # the factor of its bias
    check.model(model, length=16).raise_for_faults()
    assert "BloomForCausalLM, layer 1: 1 fault\nno bias:" in str(
        check.model(model, layer=1, length=16)
    )


def test_padding_and_the_cache_are_tried() -> None:
    for ignored, fault in (
        ({"attention_mask"}, "padding not masked"),
        (CACHE, "cache not read"),
    ):
        model = build("mpt").transformer

        def skip(*without, keep=model.forward, **given):
            return keep(**given | dict.fromkeys({*given} & {*without}))

        model.forward = wraps(model.forward)(partial(skip, *ignored))
        assert fault in names(check.model(model, length=16))
    model.forward = lambda **_: time.sleep(1)
    assert "Calls of the layer failed" in str(check.model(model, seconds=0.01))


DIFFERS = "Differs from the paper; right for these weights: "


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16], ids=str)
def test_what_a_family_was_trained_with_differs_from_the_paper_but_is_no_fault(
    dtype: torch.dtype,
) -> None:
    falcon = check.model(build("falcon", implementation="sdpa").to(dtype))
    assert falcon.ok and falcon.comparison is None
    assert [DIFFERS in note for note in falcon.notes] == [False, True, True]
    assert f"{DIFFERS}the bias is divided by sqrt(head_dim)" in str(
        falcon
    ) and f"{DIFFERS}m j in bf" in str(falcon)
    bloom = check.model(build("bloom").to(dtype))
    assert bloom.ok and ("judged by 16 tokens" in str(bloom)) == (dtype != torch.float32)
    if dtype != torch.float16:  # which is exact enough for 300 tokens
        assert ("right for BLOOM-176B; smaller ones had float16: m j" in str(bloom)) == (
            dtype == torch.bfloat16
        )
    assert DIFFERS not in str(check.model(build("mpt").to(dtype)))


def test_falcon_with_the_bias_of_the_paper_is_wrong_for_its_weights(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    module = transformers.models.falcon.modeling_falcon
    build_bias = module.build_alibi_tensor
    monkeypatch.setattr(
        module, "build_alibi_tensor", lambda *sizes, **options: 4 * build_bias(*sizes, **options)
    )
    assert names(check.model(build("falcon", 12, "sdpa"))) == {"bias multiplied"}


def test_model_without_its_head_is_right_and_its_modes_are_restored() -> None:
    model = build("bloom", attention_dropout=0.5).transformer.train()
    model.h[1].eval()
    check.model(model, length=8).raise_for_faults()
    assert model.training and not model.h[1].training
    short = str(check.model(build("mpt", max_seq_len=16)))
    assert short.endswith("with the official slopes (mpt, 4 heads of size 16).")
    ignored = check.model(build("mpt", attn_config={"alibi_bias_max": 16}), length=16)
    assert (
        "The config asks for alibi_bias_max=16, which transformers ignores: it computes as with "
        "alibi_bias_max=8" in str(ignored)
    )
    assert not any(module._forward_hooks or module._forward_pre_hooks for module in model.modules())


class Layer(nn.Module):
    """Projections as MPT names them, in a model without a configuration."""

    def __init__(self) -> None:
        super().__init__()
        self.Wqkv = nn.Linear(4, 12)
        self.out_proj = nn.Linear(4, 4)


@pytest.mark.parametrize(
    ("make", "options", "message"),
    [
        pytest.param(
            partial(build, "bloom"),
            {"layer": 2},
            "layer must be between 0 and 1, got 2",
            id="a layer too many",
        ),
        pytest.param(
            partial(build, "mpt", max_seq_len=15),
            {},
            "the model must allow 16 tokens, got 15",
            id="too few tokens",
        ),
        pytest.param(
            partial(nn.Linear, 4, 4),
            {},
            "Linear has no attention layer with one of these projections",
            id="no attention",
        ),
        pytest.param(
            Layer, {}, "config must have one of num_attention_heads", id="no configuration"
        ),
        pytest.param(
            partial(build, "falcon", multi_query=True, new_decoder_architecture=False),
            {},
            "the projection must return 192 numbers, as keys aren't shared by heads, got",
            id="shared keys",
        ),
    ],
)
def test_model_that_cannot_be_checked_is_refused(
    make: Callable[[], nn.Module], options: dict[str, int], message: str
) -> None:
    with pytest.raises(ValueError, match=message):
        check.model(make(), **options)
