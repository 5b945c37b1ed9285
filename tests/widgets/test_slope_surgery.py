"""SlopeSurgery, driven through its traits and its controls: every number it shows is a result of
the lab's own functions."""

import html
import re

import numpy as np
import pandas as pd
import pytest
import torch

from alibi_viz import lab, study
from alibi_viz.formatting import format_percent
from alibi_viz.measure.attention_statistics import (
    attention_stats,
    pretrained_stats,
)
from alibi_viz.measure.continuations import Continuation
from alibi_viz.measure.length_curve import encode, evaluated_bytes
from alibi_viz.study.records import PublishedModel
from alibi_viz.widgets import SlopeSurgery
from alibi_viz.widgets.core.traits import BadValue
from alibi_viz.widgets.slope_surgery import Evaluation, texts_html
from tests.pretrained_models import ByteTokenizer, small_model
from tests.rows import each_case
from tests.tables import same_weights
from tests.widgets.race.small_race import control, message, visible

pytestmark = pytest.mark.usefixtures("quick_writing")

TEXT = "to be or not to be, that is the question. " * 200
TRAINED = 16  # the training length of the small models
LENGTHS = [16, 64]


def make_small(method, **sizes):
    """An untrained model whose weights are so large that its positions matter."""
    model = lab.make_model(
        method, **{"num_heads": 4, "d_model": 32, "max_length": TRAINED, **sizes}
    )
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.mul_(3)
    return model


def small_app(model, **options):
    return SlopeSurgery(model, **{"lengths": LENGTHS, "text": TEXT, **options})


@pytest.fixture(scope="module")
def alibi():
    return make_small("alibi")


continuations = lab.continuations  # what the models write, in place of `quick_writing`


def losses(model):
    return lab.loss_by_length(model, lab.load_text(TEXT), LENGTHS)


def shown(app, name):
    """The losses and the distances that are drawn of the model "as trained" or "changed"."""
    losses, distances = app.figure.select_traces({"name": name})
    return losses.y, distances.y


def test_there_is_no_model_of_yours_unless_you_give_one():
    expected = "subject must be one of alibi, rotary, sinusoidal, alibi-large, got 'yours'"
    with pytest.raises(BadValue, match=expected):
        SlopeSurgery(subject="yours")


# Changes


@each_case(
    ("method", "traits", "change"),
    {
        "slopes, a head and a window": (
            "alibi",
            {"factor": 0.5, "dropped": "3", "window": 10},
            {"slopes": [0.5, 0.5, 0.0, 0.5], "window": 10},
        ),
        "no bias at all": ("alibi", {"dropped": "all", "factor": 2.0}, {"slopes": 0}),
        "a window with sinks": (
            "alibi",
            {"window": 6, "sinks": 4},
            {"window": 6, "sinks": 4},
        ),
        "rotary takes only the window": (
            "rotary",
            {"window": 10, "factor": 2.0, "sinks": 4},
            {"window": 10},
        ),
    },
)
def test_losses_are_those_of_the_changed_model(method, traits, change):
    model = make_small(method)
    app = small_app(model, **traits)
    changed = lab.modify(model, **change)
    assert app.before == losses(model)
    assert app.after == pytest.approx(losses(changed))
    assert app.after != pytest.approx(app.before)
    assert losses(app.models["changed"]) == app.after


def test_the_figure_shows_losses_and_attention_of_the_changed_model(alibi):
    app = small_app(alibi, window=6, sinks=4)
    changed = lab.modify(alibi, window=6, sinks=4)
    stats = attention_stats(changed, lab.load_text(TEXT), 64, trained=TRAINED, windows=4)
    distance = stats.distance.flatten().clamp(min=0.1)  # the axis is logarithmic
    shown_losses, shown_distances = shown(app, "changed")
    assert list(shown_losses) == list(app.after.values())
    np.testing.assert_allclose(shown_distances, distance, rtol=1e-5, atol=1e-3)


def test_the_model_itself_is_left_as_it_was():
    model = make_small("alibi")
    small_app(model, window=10, factor=2.0, dropped="1")
    assert same_weights(model, make_small("alibi"))


@each_case(
    ("method", "disabled"),
    {
        "all apply to alibi": ("alibi", []),
        "rotary has no slopes": ("rotary", ["s-factor", "s-dropped", "s-sinks"]),
    },
)
def test_what_does_not_apply_to_a_model_is_disabled(method, disabled):
    app = small_app(make_small(method))
    changes = ["s-factor", "s-dropped", "s-window", "s-sinks"]
    assert [css for css in changes if control(app, css).disabled] == disabled


# What is written

TOLD = "This is the story of Emma."


def told(within, beyond="", **words):
    """An evaluation of a model that writes this."""
    return Evaluation({}, torch.zeros(1, 1), 0.0, 8, Continuation(TOLD, within, beyond), **words)


def test_the_texts_before_and_after_stand_below_the_caption(monkeypatch, alibi):
    monkeypatch.setattr(lab, "continuations", continuations)
    app = small_app(alibi, window=10)
    after = lab.continuations(app.models["changed"], lab.load_text(TEXT), TRAINED)[0]
    assert after.within in html.unescape(re.sub("<[^>]*>", "", control(app, "s-texts").value))
    texts_at = app.children.index(control(app, "s-texts"))
    assert texts_at == app.children.index(app.caption_line) + 1


def test_words_that_differ_are_tinted():
    page = texts_html(told(" A fox ran", " home."), told(" A cat ran", " home."), is_changed=True)
    assert " A<mark> cat</mark> ran home." in page


def test_unknown_words_and_the_share_of_the_known_ones_are_shown():
    after = told(" A fox grmbl", known_words=0.5, unknown_words=frozenset(["grmbl", "mark"]))
    page = texts_html(told(" A fox ran"), after, is_changed=True)
    assert "<mark> <s>grmbl</s></mark>" in page
    assert "<b>50%</b> real words" in page


def test_texts_are_escaped():
    page = texts_html(told(" <b>"), told(" <i>"), is_changed=True)
    assert "&lt;b&gt;" in page
    assert "&lt;i&gt;" in page


def test_a_model_of_transformers_writes_nothing(untouched):
    assert control(untouched, "s-texts") not in visible(untouched)


# While it is measured


def test_the_caption_says_what_is_measured_and_the_figure_is_dim_meanwhile(monkeypatch, alibi):
    app = small_app(alibi)
    seen = []

    def loss_by_length(*_, **options):
        seen.append((app.caption_line.value, "alibi-busy" in app._dom_classes))
        return {16: 2.0, 64: 2.5}

    monkeypatch.setattr(lab, "loss_by_length", loss_by_length)
    app.factor = 2**2.5
    measuring = "Measuring ALiBi with slopes times 5.66 \N{HORIZONTAL ELLIPSIS}"
    assert seen == [(measuring, True)]
    assert "alibi-busy" not in app._dom_classes
    assert app.caption_line.value.startswith("ALiBi with slopes times 5.66: ")


def test_a_new_width_of_the_page_measures_nothing_again(monkeypatch, alibi):
    app = small_app(alibi, window=10)
    monkeypatch.setattr(lab, "loss_by_length", out_of_memory)
    app.fit(468)
    assert app.figure.layout.width == 468


# A model of yours


def fixed_law(distance, head, num_heads):
    return -0.1 * distance


def test_a_model_with_a_law_of_your_own_can_be_changed():
    app = small_app(make_small(fixed_law), window=10)
    assert app.subject == "yours"
    assert app.caption.startswith("fixed_law with a window of 10 keys imposed: ")


def test_your_model_is_tested_up_to_16_times_its_training_length(alibi):
    app = SlopeSurgery(alibi, text=TEXT)
    assert list(app.after) == [16, 32, 64, 128, 256]


def test_refresh_measures_a_model_again_that_was_trained_further():
    model = make_small("alibi")
    app = small_app(model)
    before = app.before
    model.head.weight.data.mul_(2)
    app.refresh()
    assert app.before == losses(model)
    assert app.before != before


# Controls


def test_the_slider_goes_from_a_sixteenth_to_16(alibi):
    slider = control(small_app(alibi), "s-factor")
    names, factors = zip(*slider.options, strict=True)
    assert (factors[0], factors[-1]) == (1 / 16, 16)
    assert (names[0], names[-1]) == ("1/16", "16")
    assert not slider.continuous_update, "each value is measured"


def small_published_model(name):
    """In place of a published model: a small one, with eight heads."""
    model = make_small(name.removesuffix("-large"), num_heads=8)
    return PublishedModel(model, settings={"length": TRAINED}, results=pd.DataFrame())


def test_the_large_model_is_tested_up_to_8_times_its_length(monkeypatch):
    monkeypatch.setattr(study, "published_model", small_published_model)
    app = SlopeSurgery(subject="alibi-large", text=TEXT)
    assert list(app.before) == [16, 32, 64, 128]
    assert app.caption.startswith("ALiBi (large) as it was trained: ")


def test_a_head_that_another_model_lacks_is_no_longer_dropped(monkeypatch, alibi):
    monkeypatch.setattr(study, "published_model", small_published_model)
    app = small_app(alibi, factor=4, subject="alibi", dropped="8")
    control(app, "s-subject").value = "yours"  # which has four heads
    assert app.dropped == "none"
    assert control(app, "s-dropped").value == "none"
    assert "with slopes times 4: " in app.caption


def test_the_menu_offers_windows_that_are_powers_of_two_and_that_of_the_app(
    alibi,
):
    menu = control(small_app(alibi, window=100), "s-window")
    offered = ["none", "4", "8", "16", "32", "64", "100", "128", "256", "512", "1024", "2048"]
    assert list(dict(menu.options)) == offered
    assert menu.value == "100"


def out_of_memory(*arguments, **options):
    raise RuntimeError("no memory")


def test_a_change_that_fails_is_taken_back(monkeypatch, alibi):
    app = small_app(alibi)
    before = repr(app), app.after, app.models, app.caption_line.value, app._dom_classes
    monkeypatch.setattr(lab, "loss_by_length", out_of_memory)
    control(app, "s-window").value = "8"
    after = repr(app), app.after, app.models, app.caption_line.value, app._dom_classes
    assert after == before
    assert "no memory" in message(app)


# Models of transformers

BLOOM_LENGTHS = [64, 128]


def bloom_app(model, **options):
    """An app of a BLOOM whose training length is 8."""
    return SlopeSurgery(
        model,
        tokenizer=ByteTokenizer(),
        length=8,
        lengths=BLOOM_LENGTHS,
        text=TEXT,
        **options,
    )


@pytest.fixture(scope="module")
def bloom():
    return small_model("bloom")


@pytest.fixture(scope="module")
def untouched(bloom):
    """The app of a BLOOM without a change."""
    return bloom_app(bloom)


def bloom_losses(model):
    """On the last 2,048 bytes, in windows that move by half of the shortest length."""
    table = lab.length_curve(model, ByteTokenizer(), TEXT, BLOOM_LENGTHS, targets=2048, stride=32)
    return dict(zip(table["x"], table["value"], strict=True))


def test_a_model_of_transformers_is_measured_by_length_curve(bloom, untouched):
    assert untouched.before == pytest.approx(bloom_losses(bloom))
    assert untouched.after == untouched.before


def test_attention_of_a_model_of_transformers_is_measured_at_8_times_its_length(bloom, untouched):
    tokens = encode(bloom, ByteTokenizer(), evaluated_bytes(TEXT)[1])
    stats = pretrained_stats(bloom, tokens[None, -64:], trained=8, queries=128)
    share = format_percent(stats.beyond.mean())
    _, distances = shown(untouched, "as trained")
    np.testing.assert_allclose(distances, stats.distance.flatten(), rtol=1e-5)
    assert f"with {share} of their weight on keys at least 8 back." in untouched.details


def test_a_changed_model_of_transformers_is_measured_by_length_curve(bloom):
    app = bloom_app(bloom, factor=0.5, dropped="3", window=40, sinks=4)
    changed = lab.modify(bloom, [0.5, 0.5, 0.0, 0.5], window=40, sinks=4)
    assert app.after == pytest.approx(bloom_losses(changed))


def test_only_heads_of_the_model_can_be_dropped(bloom, untouched):
    expected = "dropped must be one of none, all, 1, 2, 3, 4, got '5'"
    with pytest.raises(BadValue, match=expected):
        untouched.dropped = "5"


def test_mpt_is_measured_within_its_positions():
    app = SlopeSurgery(
        small_model("mpt"), tokenizer=ByteTokenizer(), lengths=[64, 128], text=TEXT, window=8
    )
    assert "trained on sequences of 64 tokens" in app.details
    assert app.after[64] != app.before[64]
    assert np.isnan(app.after[128])
    assert "its positions are not defined on sequences of 128" in app.caption
    _, before = shown(app, "as trained")
    _, after = shown(app, "changed")
    assert after.max() < before.max()


@each_case(
    ("family", "options", "expected"),
    {
        "no tokenizer": (
            "bloom",
            {"tokenizer": None},
            "transformers together with its tokenizer, got only Bloom",
        ),
        "a model without ALiBi": (
            "gpt2",
            {},
            "model must be one of bloom, falcon, mpt, got 'gpt2'",
        ),
        "a short text": (
            "bloom",
            {"length": 1024},
            "the text is too short: sequences of 16,384 tokens are needed",
        ),
        "no training length": (
            "bloom",
            {"length": 0, "lengths": [8]},
            "length must be an integer of at least 1, got 0",
        ),
        "too few positions": (
            "mpt",
            {"lengths": [128]},
            r"the model has 64 positions; lengths must be no longer, got \[128\]",
        ),
    },
)
def test_unusable_model_tokenizer_or_text_is_named(family, options, expected):
    usable = {"tokenizer": ByteTokenizer(), "length": 8, "text": TEXT}
    with pytest.raises(ValueError, match=expected):
        SlopeSurgery(small_model(family), **{**usable, **options})


@each_case(
    "option",
    {
        "tokenizer": {"tokenizer": ByteTokenizer()},
        "length": {"length": 8},
        "lengths": {"lengths": [8]},
    },
)
def test_options_of_a_model_are_refused_without_one(option):
    expected = "tokenizer, length and lengths belong to a model of yours: pass the model"
    with pytest.raises(ValueError, match=expected):
        SlopeSurgery(**option)
