"""Models of the real classes of transformers, tiny and with random weights."""

import inspect
import threading
from functools import cache, partial

import pytest
import torch
from torch import nn

from alibi_viz import check
from tests.check.faulty import names
from tests.rows import each_case

transformers = pytest.importorskip("transformers", reason="pip install transformers")
pytestmark = pytest.mark.filterwarnings("error:`past_key_values` is deprecated")

# {family: its configuration, the names of width, heads and layers in it, and further settings}
USUAL = ("hidden_size", "num_attention_heads", "num_hidden_layers")
FAMILIES = {
    "bloom": ("BloomConfig", ("hidden_size", "n_head", "n_layer"), {}),
    "mpt": ("MptConfig", ("d_model", "n_heads", "n_layers"), {"max_seq_len": 64}),
    "falcon": (
        "FalconConfig",
        USUAL,
        {"alibi": True, "multi_query": False, "parallel_attn": False},
    ),
}
# The transformers' code of each family that is right
IMPLEMENTATIONS = {"bloom": "eager", "mpt": "eager", "falcon": "sdpa"}


def build(family, heads=4, implementation="", **options):
    """A model of two layers with random weights."""
    config_class, size_names, further = FAMILIES[family]
    sizes = dict(zip(size_names, (16 * heads, heads, 2), strict=True))
    settings = {
        "vocab_size": 5,
        "bos_token_id": 1,
        "eos_token_id": 2,
        "attn_implementation": implementation or IMPLEMENTATIONS[family],
        **sizes,
        **further,
        **options,
    }
    config = getattr(transformers, config_class)(**settings)
    torch.manual_seed(0)
    return transformers.AutoModelForCausalLM.from_config(config)


@cache  # whose keys tell an argument that is left out from its default
def report_of(family, dtype):
    """What is said of a right model with four heads.

    The rounded positions of Falcon, and of BLOOM in bfloat16, show from 256 tokens on.
    """
    is_rounded = family == "falcon" or (family, dtype) == ("bloom", torch.bfloat16)
    return check.model(build(family).to(dtype), length=300 if is_rounded else 64)


# Right models


@pytest.mark.parametrize("family", ["bloom", "mpt", "falcon"])
def test_alibi_models_are_right(family):
    report = report_of(family, torch.float32)
    report.raise_for_faults()
    said = f"ALiBi is on in all 2 layers, with the official slopes ({family}, 4 heads of size 16)"
    assert said in str(report)


@pytest.mark.parametrize("family", ["bloom", "mpt", "falcon"])
def test_alibi_models_with_twelve_heads_are_right(family):
    check.model(build(family, heads=12), length=16).raise_for_faults()


def test_a_model_without_its_head_is_right():
    check.model(build("bloom").transformer, length=16).raise_for_faults()


def test_a_model_that_allows_few_tokens_is_tried_with_these():
    report = check.model(build("mpt", max_seq_len=16))
    said = "with the official slopes (mpt, 4 heads of size 16)."
    assert said in str(report)
    assert "1 to 16 keys" in report.tried


def test_the_model_is_as_before():
    model = build("bloom", attention_dropout=0.5).train()
    second_layer = model.transformer.h[1].eval()
    check.model(model, length=16)
    assert model.training
    assert not second_layer.training
    hooks = [module._forward_hooks or module._forward_pre_hooks for module in model.modules()]
    assert not any(hooks)


# What a family was trained with differs from the paper, but is right for its weights.

DIFFERS = "Differs from the paper; right for these weights: "


@pytest.mark.parametrize(
    "dtype",
    [torch.float32, pytest.param(torch.bfloat16, marks=pytest.mark.weekly)],
    ids=str,
)
def test_what_falcon_was_trained_with_is_a_note(dtype):
    report = report_of("falcon", dtype)
    assert report.ok
    assert report.comparison is None
    _, scaled, rounded = report.notes
    assert scaled.startswith(f"{DIFFERS}the bias is divided by sqrt(head_dim)")
    assert rounded.startswith(f"{DIFFERS}m j in bf")


def test_the_rounding_of_large_bloom_is_a_note():
    report = report_of("bloom", torch.bfloat16)
    assert report.ok
    assert "right for BLOOM-176B; smaller ones had float16: m j" in str(report)


def test_bloom_in_float32_rounds_nothing():
    assert "right for BLOOM-176B" not in str(report_of("bloom", torch.float32))


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16], ids=str)
def test_mpt_was_trained_as_in_the_paper(dtype):
    assert DIFFERS not in str(report_of("mpt", dtype))


@pytest.mark.parametrize("family", ["bloom", "falcon"])
def test_half_precision_is_judged_by_short_texts(family):
    report = check.model(build(family).half(), length=20)
    assert report.ok
    assert "judged by 16 tokens" in str(report)


def test_float32_is_judged_by_all_texts():
    assert "judged by" not in str(report_of("bloom", torch.float32))


def test_an_option_that_transformers_ignores_is_a_note():
    report = check.model(build("mpt", attn_config={"alibi_bias_max": 16}), length=16)
    said = (
        "The config asks for alibi_bias_max=16, which transformers ignores: it computes as with "
        "alibi_bias_max=8"
    )
    assert said in str(report)


# Faults


def test_falcon_with_eager_attention_adds_its_bias_twice():
    report = check.model(build("falcon", heads=12, implementation="eager"), length=16)
    assert names(report) == {"added twice"}


def test_falcon_with_the_bias_of_the_paper_is_wrong_for_its_weights(
    monkeypatch,
):
    module = transformers.models.falcon.modeling_falcon
    build_bias = module.build_alibi_tensor

    def without_scaling(*sizes, **options):
        return 4 * build_bias(*sizes, **options)  # the head size is 16

    monkeypatch.setattr(module, "build_alibi_tensor", without_scaling)
    assert names(check.model(build("falcon", heads=12), length=16)) == {"bias multiplied"}


def test_a_layer_that_computes_something_else_is_found_and_examined():
    model = build("bloom")
    model.transformer.h[1].self_attention.beta = 0.0  # the factor of its bias
    report = check.model(model, length=16)
    (finding,) = report.findings
    assert finding.name == "no bias"
    assert finding.evidence.startswith("in layer 1: ")
    assert "ALiBi is on in layer 0, with the official slopes" in str(report)
    assert "layer 1 computed something else" in str(report)


@each_case(
    ("ignored", "fault"),
    {
        "padding": ({"attention_mask"}, "padding not masked"),
        # The argument's name before transformers 5.24, and since
        "cache": ({"past_key_values", "cache"}, "cache not read"),
    },
)
def test_what_a_model_ignores_is_noticed(ignored, fault):
    model = build("mpt").transformer
    forward = model.forward

    def forgetful(**arguments):
        kept = {name: None if name in ignored else value for name, value in arguments.items()}
        return forward(**kept)

    forgetful.__signature__ = inspect.signature(forward)  # which tells what can be ignored
    model.forward = forgetful
    assert fault in names(check.model(model, length=16))


def test_a_model_that_does_not_finish_is_said_to_fail():
    model = build("mpt").transformer
    end_of_test = threading.Event()

    def wait(**_):
        end_of_test.wait()

    model.forward = wait
    report = check.model(model, length=16, seconds=0.01)
    end_of_test.set()
    assert "Calls of all 2 layers failed" in str(report)


# Models that can't be checked


@each_case(
    ("make", "options", "message"),
    {
        "a layer too many": (
            partial(build, "bloom"),
            {"layer": 2},
            "layer must be between 0 and 1, got 2",
        ),
        "too few tokens": (
            partial(build, "mpt", max_seq_len=15),
            {},
            "the model must allow 16 tokens, got 15",
        ),
        "another model": (
            partial(nn.Linear, 4, 4),
            {},
            "model must be one of bloom, falcon, mpt, got 'Linear'",
        ),
        "a falcon without ALiBi": (
            partial(build, "falcon", alibi=False),
            {},
            "this falcon model was configured without ALiBi",
        ),
        "shared keys": (
            partial(build, "falcon", multi_query=True, new_decoder_architecture=False),
            {},
            "keys that heads share, as with `multi_query`, can't be checked yet",
        ),
    },
)
def test_model_that_cannot_be_checked_is_refused(make, options, message):
    with pytest.raises(ValueError, match=message):
        check.model(make(), **options)
