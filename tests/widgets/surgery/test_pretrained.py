"""SlopeSurgery with models of transformers: the curves are those of `lab.length_curve`."""

import os
from typing import Any

import numpy as np
import pandas as pd
import pytest

from alibi_viz import lab
from alibi_viz.lab.length_curve import encode, evaluated_bytes
from alibi_viz.lab.pretrained import pretrained_stats
from alibi_viz.widgets import ComparisonExplorer, SlopeSurgery
from alibi_viz.widgets.core.traits import BadValue
from tests.widgets.race.small_race import control

if os.environ.get("CI") != "true":
    pytest.importorskip("transformers")

from transformers import GPT2Config, GPT2LMHeadModel

from tests.pretrained_models import ByteTokenizer, small_model

LENGTHS = [32, 64, 128]
TEXT = "to be or not to be, that is the question. " * 60


@pytest.fixture(scope="module")
def app(trained_bloom: Any) -> SlopeSurgery:
    return SlopeSurgery(trained_bloom, tokenizer=ByteTokenizer(), length=32, lengths=LENGTHS)


@pytest.fixture(autouse=True)
def as_trained(app: SlopeSurgery) -> None:
    with app.hold_trait_notifications():
        app.factor, app.dropped, app.window, app.sinks, app.rule = 1.0, "none", None, 0, "plain"


def losses(model: Any) -> dict[int, float]:
    table = lab.length_curve(model, ByteTokenizer(), None, LENGTHS, targets=2048, stride=16)
    return dict(zip(table["x"], table["value"], strict=True))


def test_app_opens_with_the_model_as_trained(app: SlopeSurgery, trained_bloom: Any) -> None:
    assert app.subject == "yours"
    assert app.before == app.after == pytest.approx(losses(trained_bloom))
    assert app.caption.startswith("bloom, trained on windows of 32 tokens, tested on 2,048 bytes of tales, as it")
    assert "On longer windows it holds: at worst" in app.caption
    assert "tokens" in app.figure.layout.xaxis2.title.text
    ids = encode(trained_bloom, ByteTokenizer(), evaluated_bytes(None)[1])[None, -128:]
    stats = pretrained_stats(trained_bloom, ids, trained=32, queries=128)
    assert np.allclose(app.figure.data[-2].y, stats.distance.flatten())


def test_slopes_heads_window_and_sinks_are_changed_together(app: SlopeSurgery, trained_bloom: Any) -> None:
    app.factor, app.dropped, app.window, app.sinks = 0.5, "3", 40, 4
    changed = lab.change_attention(trained_bloom, [0.5, 0.5, 0.0, 0.5], window=40, sinks=4)
    assert app.after == pytest.approx(losses(changed))
    assert app.figure.data[1].y.tolist() == list(app.after.values())
    assert "the bias of head 3 dropped in every layer and a window of 40 keys and the first 4 imposed." in app.caption
    app.window, app.sinks, app.factor, app.dropped = None, 0, 1.0, "all"
    assert app.after[128] > app.before[128] + 0.5
    assert "the bias of every head dropped" in app.caption
    assert f"{app.after[128] - app.before[128]:.2f} more than before" in app.caption


def test_controls_that_do_not_apply_are_disabled_and_named(app: SlopeSurgery) -> None:
    assert control(app, "s-rule").disabled
    assert not control(app, "s-sinks").disabled
    assert not control(app, "s-factor").disabled
    app.sinks, app.rule = 4, "pi"
    assert "rotary positions only, so it does not apply to bloom" in app.caption.lower()
    assert "without a window every token is visible, so sinks change nothing" in app.caption
    assert app.after == app.before
    app.subject = "alibi"
    assert not control(app, "s-sinks").disabled
    app.subject = "rotary"
    assert control(app, "s-sinks").disabled
    assert "the positions of rotary are not all in a bias, so the first tokens are not kept" in app.caption.lower()
    app.subject = "yours"


def test_errors_appear_in_the_app_which_stays_usable(app: SlopeSurgery) -> None:
    before = (repr(app), app.caption)
    control(app, "s-dropped").index = 6  # head 5
    assert "dropped must be none, all or a head from 1 to 4, got 5" in app._message.value
    control(app, "s-sinks").value = "many"
    assert "sinks must be an integer from 0 to 64, got &#x27;many&#x27;" in app._message.value
    assert (repr(app), app.caption) == before
    control(app, "s-factor").value = 2
    assert "slopes times 2" in app.caption


@pytest.mark.parametrize("family", ["mpt", "falcon sdpa", "falcon eager"])
def test_other_families_and_an_undefined_length(family: str) -> None:
    model = small_model(family)
    options = {"tokenizer": ByteTokenizer(), "length": 16, "lengths": [16, 64, 128], "text": TEXT}
    app = SlopeSurgery(model, **options, window=8, sinks=2)
    assert f"{family.split(maxsplit=1)[0]}, trained on windows of 16 tokens" in app.caption
    assert np.isnan(app.after[128]) == (family == "mpt"), "MPT has 64 positions"
    assert ("on windows of 128 its positions are not defined" in app.caption) == (family == "mpt")
    assert app.after[64] != app.before[64]
    assert app.figure.data[-1].y.max() < app.figure.data[-2].y.max(), "a window brings attention closer"


def test_the_training_length_comes_from_the_configuration() -> None:
    app = SlopeSurgery(small_model("mpt"), tokenizer=ByteTokenizer(), text=TEXT, lengths=[16, 32])
    assert "trained on windows of 64 tokens" in app.caption
    with pytest.raises(BadValue, match=r"length must be an integer of at least 1, the training length .*, got None"):
        SlopeSurgery(small_model("bloom"), tokenizer=ByteTokenizer())


def test_unusable_models_tokenizers_and_texts_are_named() -> None:
    bloom = small_model("bloom")
    with pytest.raises(BadValue, match="a model of transformers needs its tokenizer: pass tokenizer, got Bloom"):
        SlopeSurgery(bloom, length=8)
    for option in ({"tokenizer": ByteTokenizer()}, {"length": 64}, {"lengths": [64]}):
        with pytest.raises(BadValue, match="tokenizer, length and lengths belong to a model of yours: pass the model"):
            SlopeSurgery(**option)
    gpt2 = GPT2LMHeadModel(GPT2Config(vocab_size=256, n_embd=16, n_layer=1, n_head=2))
    with pytest.raises(BadValue, match="model must be one of bloom, falcon, mpt, got 'gpt2'"):
        SlopeSurgery(gpt2, tokenizer=ByteTokenizer())
    with pytest.raises(ValueError, match="the tokenizer returned no tokens"):
        SlopeSurgery(bloom, tokenizer=lambda text, **_: {"input_ids": []}, length=8, text=TEXT)
    with pytest.raises(ValueError, match="the text is too short: windows of 4,096 tokens are needed"):
        SlopeSurgery(bloom, tokenizer=ByteTokenizer(), length=256, text=TEXT)
    with pytest.raises(ValueError, match=r"the model has 64 positions; lengths must be no longer, got \[128\]"):
        SlopeSurgery(small_model("mpt"), tokenizer=ByteTokenizer(), text=TEXT, lengths=[128])
    with pytest.raises(ValueError, match="lengths must be an integer of at least 1, got 0"):
        SlopeSurgery(bloom, tokenizer=ByteTokenizer(), length=8, text=TEXT, lengths=[0])


def test_curves_of_models_are_compared_in_comparison_explorer(trained_bloom: Any) -> None:
    models = [trained_bloom, lab.change_attention(trained_bloom, 0)]
    table = pd.concat([lab.length_curve(model, ByteTokenizer(), TEXT, [32, 64], targets=200) for model in models])
    app = ComparisonExplorer(table)
    assert (app.question, app.methods) == ("sliding windows", ("bloom", "bloom, bias dropped"))
    assert "bloom, bias dropped" in app.caption
    assert app.figure.layout.xaxis2.title.text == "length of the sliding windows, tokens"
    assert "bytes of context" not in app.figure.to_json() + app.caption
