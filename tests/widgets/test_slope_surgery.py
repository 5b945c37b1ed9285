"""SlopeSurgery, driven through its traits and its controls: every number it shows is a result of
the lab's own functions."""

import numpy as np
import pandas as pd
import pytest
import torch

from alibi_viz import lab, study
from alibi_viz.formatting import format_percent
from alibi_viz.measure.attention_statistics import (
    AttentionStats,
    attention_stats,
    pretrained_stats,
)
from alibi_viz.measure.continuations import Continuation
from alibi_viz.measure.length_curve import encode, evaluated_bytes
from alibi_viz.study.records import PublishedModel
from alibi_viz.widgets import SlopeSurgery, slope_surgery
from alibi_viz.widgets.core.traits import BadValue
from alibi_viz.widgets.slope_surgery import texts_html
from tests.pretrained_models import ByteTokenizer, small_model
from tests.rows import each_case
from tests.tables import same_weights
from tests.widgets.race.small_race import control, message, visible, visible_controls

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


# The published models


@pytest.fixture(scope="module")
def published():
    """The app as it opens, with sinks, which have no effect without a window."""
    return SlopeSurgery(sinks=4)


def test_app_opens_with_the_losses_of_a_published_model(published):
    model = study.published_model("alibi").model
    lengths = [64, 128, 256, 512, 1024]
    assert published.before == lab.loss_by_length(model, lab.load_text(), lengths)


def test_app_opens_without_a_change(published):
    assert published.after == published.before
    assert published.caption.startswith("ALiBi as it was trained: ")


def test_the_caption_is_one_sentence(published):
    assert published.caption.count(". ") == 0


def test_the_details_give_the_training_length(published):
    assert "The model was trained on sequences of 64 bytes." in published.details


def test_attention_is_measured_at_eight_times_the_training_length(published):
    assert "At the end of sequences of 512, its heads look" in published.details


def test_there_is_no_model_of_yours_unless_you_give_one(published):
    expected = "subject must be one of alibi, rotary, sinusoidal, alibi-large, got 'yours'"
    with pytest.raises(BadValue, match=expected):
        published.subject = "yours"


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


def test_the_figure_shows_losses_and_attention_of_the_changed_model(alibi):
    app = small_app(alibi, window=6, sinks=4)
    changed = lab.modify(alibi, window=6, sinks=4)
    stats = attention_stats(changed, lab.load_text(TEXT), 64, trained=TRAINED, windows=4)
    distance = stats.distance.flatten().clamp(min=0.1)  # the axis is logarithmic
    shown_losses, shown_distances = shown(app, "changed")
    assert list(shown_losses) == list(app.after.values())
    np.testing.assert_allclose(shown_distances, distance, rtol=1e-5, atol=1e-3)


def test_the_changed_model_is_at_hand(alibi):
    app = small_app(alibi, window=10)
    assert losses(app.models["changed"]) == app.after


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


def told(within, beyond=""):
    return Continuation(TOLD, within, beyond)


def test_the_texts_before_and_after_stand_below_the_caption(monkeypatch, alibi):
    monkeypatch.setattr(lab, "continuations", continuations)
    app = small_app(alibi, window=10)
    text = lab.load_text(TEXT)
    before = lab.continuations(alibi, text, TRAINED)[0]
    after = lab.continuations(app.models["changed"], text, TRAINED)[0]
    expected = texts_html(before, after, is_changed=True)
    assert control(app, "s-texts").value == expected
    texts_at = app.children.index(control(app, "s-texts"))
    assert texts_at == app.children.index(app.caption_line) + 1


def test_words_that_differ_are_tinted():
    page = texts_html(told(" A fox ran", " home."), told(" A cat ran", " home."), is_changed=True)
    assert " A<mark> cat</mark> ran home." in page


def test_words_that_are_the_same_have_no_tint():
    page = texts_html(told(" A fox"), told(" A fox"), is_changed=True)
    assert "<mark>" not in page


def test_without_a_change_the_second_column_invites_to_one():
    page = texts_html(told(" A fox"), told(" A fox"), is_changed=False)
    assert page.count(" A fox") == 1
    assert "Move a control" in page


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


def test_after_a_change_that_fails_the_old_caption_is_there_again(monkeypatch, alibi):
    app = small_app(alibi)
    caption = app.caption_line.value
    monkeypatch.setattr(lab, "loss_by_length", out_of_memory)
    control(app, "s-window").value = "8"
    assert app.caption_line.value == caption
    assert "alibi-busy" not in app._dom_classes


def test_a_new_width_of_the_page_measures_nothing_again(monkeypatch, alibi):
    app = small_app(alibi, window=10)
    monkeypatch.setattr(lab, "loss_by_length", out_of_memory)
    app.fit(468)
    assert app.figure.layout.width == 468


# The large model


def test_the_large_model_is_tested_up_to_8_times_its_length(
    monkeypatch,
):
    monkeypatch.setattr(study, "published_model", small_published_model)
    app = SlopeSurgery(subject="alibi-large", text=TEXT)
    assert list(app.before) == [16, 32, 64, 128]


def test_the_large_model_has_a_name_of_its_own(monkeypatch):
    monkeypatch.setattr(study, "published_model", small_published_model)
    app = SlopeSurgery(subject="alibi-large", text=TEXT)
    assert app.caption.startswith("ALiBi (large) as it was trained: ")


# What is said


@each_case(
    ("method", "traits", "words"),
    {
        "as many digits as the slider shows": (
            "alibi",
            {"factor": 2**2.5},
            "ALiBi with slopes times 5.66: ",
        ),
        "slopes, a head and a window": (
            "alibi",
            {"factor": 0.5, "dropped": "3", "window": 10},
            "ALiBi with slopes times 0.5, the bias of head 3 dropped in every layer, a window of "
            "10 keys imposed: ",
        ),
        "no slopes are left to multiply": (
            "alibi",
            {"dropped": "all", "factor": 2.0},
            "ALiBi with the bias of every head dropped in every layer: ",
        ),
        "a window with sinks": (
            "alibi",
            {"window": 6, "sinks": 4},
            "ALiBi with a window of 6 keys imposed, the first 4 kept: ",
        ),
        "a single key": ("alibi", {"window": 1}, "ALiBi with a window of 1 key imposed: "),
    },
)
def test_the_caption_starts_with_the_change(method, traits, words):
    assert small_app(make_small(method), **traits).caption.startswith(words)


def stats_of(*, distance, beyond):
    """What would be measured if all heads attended alike."""
    heads = torch.ones(2, 4)
    return AttentionStats(
        distance=distance * heads,
        beyond=beyond * heads,
        denominator_bits=heads,
    )


def app_with_results(
    monkeypatch,
    model,
    *,
    losses,
    stats,
):
    """An app with stated results in place of measured ones: as trained, then with a window."""
    measured_losses = iter(losses)
    measured_stats = iter(stats)

    def loss_by_length(*arguments, **options):
        return next(measured_losses)

    def attention(*arguments, **options):
        return next(measured_stats)

    monkeypatch.setattr(lab, "loss_by_length", loss_by_length)
    monkeypatch.setattr(slope_surgery, "attention_stats", attention)
    return small_app(model, window=10)


@each_case(
    ("after", "told"),
    {
        "more on long sequences": (
            {16: 2.0, 64: 3.1},
            "2.00 bits per byte on sequences of 16; 3.10 bits per byte on sequences of 64, 0.60 "
            "more than before.",
        ),
        "less on all": (
            {16: 1.75, 64: 2.25},
            "1.75 bits per byte on sequences of 16, 0.25 less than before; 2.25 bits per byte on "
            "sequences of 64, 0.25 less than before.",
        ),
        "no difference in two decimals": (
            {16: 2.004, 64: 2.496},
            "2.00 bits per byte on sequences of 16; 2.50 bits per byte on sequences of 64.",
        ),
    },
)
def test_the_caption_compares_the_losses_with_those_before(monkeypatch, alibi, after, told):
    app = app_with_results(
        monkeypatch,
        alibi,
        losses=[{16: 2.0, 64: 2.5}, after],
        stats=2 * [stats_of(distance=5.0, beyond=0.1)],
    )
    assert app.caption == f"ALiBi with a window of 10 keys imposed: {told}"


@each_case(
    ("distance", "beyond", "told"),
    {
        "another distance": (
            4.5,
            0.02,
            "look 4.5 tokens back on average (as trained 5), with 2.0% of their weight on keys at "
            "least 16 back.",
        ),
        "the same distance": (
            5.0,
            0.1,
            "look 5 tokens back on average, with 10% of their weight on keys at least 16 back.",
        ),
    },
)
def test_the_details_say_how_far_the_heads_look(
    monkeypatch,
    alibi,
    distance,
    beyond,
    told,
):
    as_trained = stats_of(distance=5.0, beyond=0.1)
    app = app_with_results(
        monkeypatch,
        alibi,
        losses=2 * [{16: 2.0, 64: 2.5}],
        stats=[as_trained, stats_of(distance=distance, beyond=beyond)],
    )
    assert app.details == (
        "The model was trained on sequences of 16 bytes. At the end of sequences of 64, its heads "
        f"{told}"
    )


# A model of yours


def fixed_law(distance, head, num_heads):
    return -0.1 * distance


def test_a_model_with_a_law_of_your_own_can_be_changed():
    app = small_app(make_small(fixed_law), window=10)
    assert app.subject == "yours"
    assert app.caption.startswith("fixed_law with a window of 10 keys imposed: ")


@pytest.mark.parametrize("lengths", [[16, 32], np.array([16, 32])], ids=["list", "array"])
def test_your_model_is_tested_at_your_lengths(alibi, lengths):
    assert list(small_app(alibi, lengths=lengths).after) == [16, 32]


def test_your_model_is_tested_up_to_16_times_its_training_length(alibi):
    app = SlopeSurgery(alibi, text=TEXT)
    assert list(app.after) == [16, 32, 64, 128, 256]


def test_a_single_length_is_said_once(alibi):
    assert small_app(alibi, lengths=[32]).caption.count("sequences of 32") == 1


def test_no_key_is_beyond_the_training_length_in_sequences_of_it(alibi):
    app = small_app(alibi, length=32, lengths=[16, 32])
    assert "At the end of sequences of 32, its heads look" in app.details
    assert "at least" not in app.details


def test_a_model_may_not_be_defined_on_long_sequences():
    app = small_app(make_small("learned", max_length=32), lengths=[32, 64])
    assert app.caption.endswith("; its positions are not defined on sequences of 64.")
    assert "nan" not in app.caption


def test_attention_is_measured_where_the_model_is_defined():
    app = small_app(make_small("learned", max_length=32), lengths=[32, 64])
    assert "At the end of sequences of 32, its heads" in app.details


def test_refresh_measures_a_model_again_that_was_trained_further():
    model = make_small("alibi")
    app = small_app(model)
    before = app.before
    model.head.weight.data.mul_(2)
    app.refresh()
    assert app.before == losses(model)
    assert app.before != before


# Controls


def test_the_slider_multiplies_the_slopes(alibi):
    app = small_app(alibi)
    control(app, "s-factor").value = 4
    assert app.factor == 4


def test_the_slider_goes_from_a_sixteenth_to_16(alibi):
    slider = control(small_app(alibi), "s-factor")
    assert slider.base**slider.min == 1 / 16
    assert slider.base**slider.max == 16


def test_a_slider_that_moves_measures_nothing_before_it_rests(alibi):
    assert not control(small_app(alibi), "s-factor").continuous_update


def small_published_model(name):
    """In place of a published model: a small one, with eight heads."""
    model = make_small(name.removesuffix("-large"), num_heads=8)
    return PublishedModel(model, settings={"length": TRAINED}, results=pd.DataFrame())


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


def test_the_menu_removes_the_window(alibi):
    app = small_app(alibi, window=100)
    control(app, "s-window").value = "none"
    assert app.window is None


def test_sinks_are_folded_at_first(alibi):
    assert visible_controls(small_app(alibi)) == [
        "s-subject",
        "s-factor",
        "s-dropped",
        "s-window",
        "s-more",
        "s-reset",
    ]


def out_of_memory(*arguments, **options):
    raise RuntimeError("no memory")


def test_a_change_that_fails_is_taken_back(monkeypatch, alibi):
    app = small_app(alibi)
    before = repr(app), app.after, app.models
    monkeypatch.setattr(lab, "loss_by_length", out_of_memory)
    control(app, "s-window").value = "8"
    assert (repr(app), app.after, app.models) == before
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


def test_the_caption_names_the_family_of_a_model_of_transformers(untouched):
    assert untouched.caption.startswith("bloom as it was trained: ")


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


@pytest.fixture(scope="module")
def mpt():
    """The app of an MPT with 64 positions, with a window and sinks."""
    return SlopeSurgery(
        small_model("mpt"),
        tokenizer=ByteTokenizer(),
        lengths=[64, 128],
        text=TEXT,
        window=8,
        sinks=2,
    )


def test_the_positions_of_mpt_are_its_training_length(mpt):
    assert "trained on sequences of 64 tokens" in mpt.details


def test_mpt_is_not_defined_beyond_its_positions(mpt):
    assert np.isnan(mpt.after[128])
    assert "its positions are not defined on sequences of 128" in mpt.caption


def test_a_window_changes_the_loss_of_mpt(mpt):
    assert mpt.after[64] != mpt.before[64]


def test_a_window_brings_the_attention_of_mpt_closer(mpt):
    _, before = shown(mpt, "as trained")
    _, after = shown(mpt, "changed")
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
