"""SlopeSurgery, driven through its traits: every number it shows is a result of the lab's own
functions."""

from typing import Any

import numpy as np
import pytest
from torch import Tensor

from alibi_viz import lab, study
from alibi_viz.measure.attention_statistics import attention_stats, pretrained_stats
from alibi_viz.measure.length_curve import encode, evaluated_bytes
from alibi_viz.widgets import SlopeSurgery
from alibi_viz.widgets.core.formatting import format_number, format_percent
from alibi_viz.widgets.core.traits import BadValue
from tests.pretrained_models import ByteTokenizer, small_model
from tests.widgets.race.small_race import control, visible_controls

TEXT = "to be or not to be, that is the question. " * 60
LENGTHS = [32, 64, 128]
SMALL: dict[str, Any] = {"num_heads": 4, "d_model": 32, "max_length": 16}


def small_app(position: str = "alibi", **state: Any) -> SlopeSurgery:
    return SlopeSurgery(lab.make_model(position, **SMALL), lengths=[16, 64], **state)


def losses(model: Any) -> dict[int, float]:
    return lab.loss_by_length(model, lab.load_text(), [16, 64])


def test_app_opens_with_a_published_model_as_trained() -> None:
    app = SlopeSurgery(sinks=4)  # which have no effect without a window
    expected = lab.loss_by_length(
        study.published_model("alibi").model, lab.load_text(), lab.evaluation_lengths(64)
    )
    assert app.before == app.after == expected
    assert (
        "alibi as it was trained: " in app.caption
        and "trained on sequences of 64 bytes" in app.details
    )
    assert (
        "At the end of sequences of 512, its heads" in app.details and app.caption.count(". ") == 0
    ), "one sentence"
    with pytest.raises(
        BadValue, match="subject must be one of alibi, rotary, sinusoidal, got 'yours'"
    ):
        app.subject = "yours"


@pytest.mark.parametrize(
    ("position", "traits", "change", "words"),
    [
        (
            "alibi",
            {"factor": 0.5, "dropped": "3", "window": 10},
            {"slopes": [0.5, 0.5, 0.0, 0.5], "window": 10},
            "slopes times 0.5, the bias of head 3 dropped in every layer, a window of 10 keys "
            "imposed",
        ),
        (
            "alibi",
            {"dropped": "all", "factor": 2.0},
            {"slopes": 0},
            "alibi with the bias of every head dropped",
        ),
        (
            "alibi",
            {"window": 6, "sinks": 4},
            {"window": 6, "sinks": 4},
            "a window of 6 keys imposed, the first 4 kept",
        ),
        (
            "rotary",
            {"window": 10, "factor": 2.0, "sinks": 4},
            {"window": 10},
            "with a window of 10 keys imposed",
        ),
        ("sinusoidal", {"window": 1, "sinks": 4}, {"window": 1}, "a window of 1 key imposed"),
    ],
)
def test_what_is_shown_is_the_model_with_these_changes(
    position: str, traits: Any, change: Any, words: str
) -> None:
    model, app = lab.make_model(position, **SMALL), small_app(position)
    for name, value in traits.items():
        setattr(app, name, value)
    changed = lab.modify(model, **change)
    assert losses(app.models["changed"]) == app.after == pytest.approx(losses(changed))
    assert app.before == pytest.approx(losses(model)), "the model itself is untouched"
    disabled = [
        control(app, css).disabled for css in ("s-factor", "s-dropped", "s-sinks", "s-window")
    ]
    assert disabled == [*[position != "alibi"] * 3, False], "what does not apply"
    assert words in app.caption
    for length, end in ((16, ";"), (64, ".")):
        gap = app.after[length] - app.before[length]
        told = f", {abs(gap):.2f} {'more' if gap > 0 else 'less'} than before" * (abs(gap) >= 0.005)
        assert (
            f" {app.after[length]:.2f} bits per byte on sequences of {length}{told}{end}"
            in app.caption
        )
    stats, trained = (
        attention_stats(each, lab.load_text(), 64, trained=16, windows=4)
        for each in (changed, model)
    )
    assert np.allclose(app.figure.data[-1].y, stats.distance.flatten().clamp(min=0.1), atol=1e-3)
    back, before = (format_number(each.distance.mean()) for each in (stats, trained))
    look = (
        f"its heads look {back} tokens back on "
        f"average{f' (as trained {before})' * (back != before)}, with"
    )
    assert (
        f"{look} {format_percent(stats.beyond.mean())} of their weight on keys at least 16 back."
        in app.details
    )
    assert app.figure.data[1].y.tolist() == list(app.after.values())


def test_your_own_models_are_tested_at_their_lengths() -> None:
    def MyLaw(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -0.1 * distance

    assert (
        SlopeSurgery(lab.make_model(MyLaw), length=16, lengths=[32]).caption.count(
            "sequences of 32"
        )
        == 1
    )
    app = SlopeSurgery(lab.make_model(MyLaw), length=16, lengths=np.array([16, 32]))
    assert (app.subject, list(app.after)) == ("yours", [16, 32])
    assert (
        "At the end of sequences of 32, its heads look" in app.details
        and "at least 16 back" in app.details
    )
    app = SlopeSurgery(lab.make_model(MyLaw), length=32, lengths=[16, 32])
    assert "At the end of sequences of 32, its" in app.details and "at least" not in app.details, (
        "no key is so far"
    )
    app = SlopeSurgery(
        lab.make_model("t5", max_length=16), factor=2.0, text="to be or not to be, " * 400
    )
    assert list(app.after) == [16, 32, 64, 128, 256] and "t5 with slopes times 2: " in app.caption
    app = SlopeSurgery(model := lab.make_model("learned", max_length=32))
    assert (
        app.caption.endswith("; its positions are not defined on sequences of 512.")
        and "nan" not in app.caption
    )
    assert "At the end of sequences of 32, its heads" in app.details, "the longest that it can read"
    model.head.weight.data.mul_(9)
    app.refresh()
    assert app.before[32] == pytest.approx(
        lab.loss_by_length(model, lab.load_text(), [32])[32], abs=0.2
    )


def test_controls_and_traits_agree_and_a_change_that_fails_is_taken_back(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    app = small_app()
    slider = control(app, "s-factor")
    slider.value = 4
    assert app.factor == 4 and (slider.base**slider.min, slider.base**slider.max) == (1 / 16, 16)
    with pytest.raises(BadValue, match=r"factor must be a number from 0\.0625 to 16, got 'three'"):
        app.factor = "three"
    control(app, "s-subject").value, control(app, "s-dropped").value = (
        "alibi",
        "8",
    )  # "yours" has four heads
    control(app, "s-subject").value = "yours"
    assert (app.dropped, control(app, "s-dropped").value) == (
        "none",
        "none",
    ) and "with slopes times 4: " in app.caption
    app.window = 100
    windows = ["none", "4", "8", "16", "32", "64", "100", "128", "256", "512", "1024", "2048"]
    assert (control(app, "s-window").value, [*dict(control(app, "s-window").options)]) == (
        "100",
        windows,
    )
    control(app, "s-window").value = "none"
    assert app.window is None and not slider.continuous_update
    assert visible_controls(app) == [
        "s-subject",
        "s-factor",
        "s-dropped",
        "s-window",
        "s-more",
        "s-reset",
    ]
    before = repr(app), app.after, app.models
    monkeypatch.setattr(
        lab, "loss_by_length", lambda *_, **__: (_ for _ in ()).throw(RuntimeError("no memory"))
    )
    control(app, "s-window").value = "8"
    assert (repr(app), app.after, app.models) == before and "no memory" in app._message.value


def pretrained_losses(model: Any) -> dict[int, float]:
    table = lab.length_curve(model, ByteTokenizer(), TEXT, LENGTHS, targets=2048, stride=16)
    return dict(zip(table["x"], table["value"], strict=True))


def test_a_model_of_transformers_is_measured_by_length_curve() -> None:
    bloom = small_model("bloom")
    app = SlopeSurgery(bloom, tokenizer=ByteTokenizer(), length=8, lengths=LENGTHS, text=TEXT)
    assert app.before == app.after == pytest.approx(pretrained_losses(bloom))
    assert app.caption.startswith("bloom as it was trained: ")
    ids = encode(bloom, ByteTokenizer(), evaluated_bytes(TEXT)[1])[
        None, -64:
    ]  # 8 times the training length
    stats = pretrained_stats(bloom, ids, trained=8, queries=128)
    assert np.allclose(app.figure.data[-2].y, stats.distance.flatten())
    assert (
        f"with {format_percent(stats.beyond.mean())} of their weight on keys at least 8 back."
        in app.details
    )
    app.factor, app.dropped, app.window, app.sinks = 0.5, "3", 40, 4
    assert app.after == pytest.approx(
        pretrained_losses(lab.modify(bloom, [0.5, 0.5, 0.0, 0.5], window=40, sinks=4))
    )
    with pytest.raises(BadValue, match="dropped must be one of none, all, 1, 2, 3, 4, got '5'"):
        app.dropped = "5"


def test_the_positions_of_mpt_are_its_training_length_and_limit_the_sequences() -> None:
    options = {"tokenizer": ByteTokenizer(), "lengths": [16, 64, 128], "text": TEXT}
    app = SlopeSurgery(small_model("mpt"), **options, window=8, sinks=2)
    assert (
        np.isnan(app.after[128])
        and "its positions are not defined on sequences of 128" in app.caption
    )
    assert "trained on sequences of 64 tokens" in app.details and app.after[64] != app.before[64]
    assert app.figure.data[-1].y.max() < app.figure.data[-2].y.max(), (
        "a window brings attention closer"
    )


@pytest.mark.parametrize(
    ("model", "options", "message"),
    [
        ("bloom", {"tokenizer": None}, "transformers together with its tokenizer, got only Bloom"),
        ("gpt2", {}, "model must be one of bloom, falcon, mpt, got 'gpt2'"),
        ("bloom", {"length": 256}, "the text is too short: sequences of 4,096 tokens are needed"),
        ("bloom", {"length": 0, "lengths": [8]}, "length must be an integer of at least 1, got 0"),
        (
            "mpt",
            {"lengths": [128]},
            r"the model has 64 positions; lengths must be no longer, got \[128\]",
        ),
        (None, {}, "tokenizer, length and lengths belong to a model of yours: pass the model"),
    ],
)
def test_unusable_models_tokenizers_and_texts_are_named(
    model: str | None, options: Any, message: str
) -> None:
    given: Any = None if model is None else small_model(model)
    with pytest.raises(ValueError, match=message):
        SlopeSurgery(given, **{"tokenizer": ByteTokenizer(), "length": 8, "text": TEXT} | options)
