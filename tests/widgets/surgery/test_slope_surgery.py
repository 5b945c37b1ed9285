"""SlopeSurgery, driven through its traits: every number it shows is a result of the lab's own functions."""

import json
from pathlib import Path

import numpy as np
import pytest
from torch import Tensor

from alibi_viz import lab, study
from alibi_viz.widgets import SlopeSurgery
from alibi_viz.widgets.core.traits import BadValue
from alibi_viz.widgets.surgery.intervention import Intervention
from alibi_viz.widgets.surgery.subject import TrainedHere
from tests.widgets.race.small_race import control


@pytest.fixture(scope="module")
def app() -> SlopeSurgery:
    return SlopeSurgery()


@pytest.fixture(autouse=True)
def as_new(app: SlopeSurgery) -> None:
    with app.hold_trait_notifications():
        app.subject, app.factor, app.dropped, app.window = "alibi", 1.0, "none", None
        app.sinks, app.rule = 0, "plain"


def losses(model: lab.SavedRun | object) -> dict[int, float]:
    return lab.loss_by_length(model, lab.load_text(), lab.evaluation_lengths(64))


def test_app_opens_with_a_model_as_trained(app: SlopeSurgery) -> None:
    assert app.before == app.after == losses(study.published_model("alibi").model)
    assert list(app.before) == [64, 128, 256, 512, 1024]
    assert "as it was trained. On windows of 64 it needs" in app.caption
    assert len(app.figure.data[-1].y) == 0


def test_slopes_heads_and_window_are_changed_together(app: SlopeSurgery) -> None:
    model = study.published_model("alibi").model
    app.factor, app.dropped, app.window = 0.5, "3", 100
    factors = [0.5, 0.5, 0.0, 0.5, 0.5, 0.5, 0.5, 0.5]
    expected = losses(lab.impose_window(lab.multiply_slopes(model, factors), 100))
    assert app.after == pytest.approx(expected)
    assert app.before == pytest.approx(losses(model)), "the model itself is untouched"
    assert (
        "slopes times 0.5, the bias of head 3 dropped in every layer and a window of 100 keys imposed." in app.caption
    )
    assert app.figure.data[1].y.tolist() == pytest.approx(list(expected.values()))
    reach = lab.attention_stats(
        lab.impose_window(lab.multiply_slopes(model, factors), 100),
        lab.load_text(),
        512,
        trained=64,
        windows=4,
    )
    assert np.allclose(app.figure.data[-1].y, reach.distance.flatten(), atol=1e-3)
    app.dropped = "all"
    assert app.after == pytest.approx(losses(lab.impose_window(lab.drop_bias(model), 100)))
    assert "times" not in app.caption, "a factor on no bias is no change"


def test_the_caption_compares_with_the_model_as_trained(app: SlopeSurgery) -> None:
    app.factor = 0.25
    worse = app.after[1024] - app.before[1024]
    assert (
        f"on windows of 1,024 it needs {app.after[1024]:.2f} bits per byte, {worse:.2f} more than before" in app.caption
    )
    rise = max(list(app.after.values())[1:]) - app.after[64]
    assert f"at worst {rise:+.2f} beyond 64" in app.caption
    app.subject, app.window = "rotary", 64
    assert "a window of 64 keys imposed" in app.caption
    assert "On longer windows it holds: at worst" in app.caption
    assert "with 0% of their weight on keys at least 64 back, the training length" in app.caption


def test_rotary_has_a_rule_to_change_and_no_bias_to_multiply(app: SlopeSurgery) -> None:
    app.subject = "rotary"
    plain = app.before
    for rule in ("pi", "ntk", "yarn"):
        app.rule = rule
        model = lab.change_rotary_rule(study.published_model("rotary").model, rule)
        assert app.after == pytest.approx(losses(model))
    assert app.before == plain
    app.factor = 2.0
    assert "Rotary adds no bias, so there is nothing to multiply or drop." in app.caption
    assert app.after == pytest.approx(losses(model))


@pytest.mark.parametrize(
    ("subject", "bias", "rule"), [("alibi", True, False), ("rotary", False, True), ("sinusoidal", False, False)]
)
def test_controls_that_do_not_apply_are_disabled(app: SlopeSurgery, subject: str, bias: bool, rule: bool) -> None:
    app.subject = subject
    for css in ("s-factor", "s-factor-field", "s-dropped"):
        assert control(app, css).disabled is not bias
    assert control(app, "s-rule").disabled is not rule
    assert not control(app, "s-window").disabled


def test_your_own_model_with_another_bias() -> None:
    app = SlopeSurgery(lab.make_model("t5", max_length=16), factor=2.0, text="to be or not to be, " * 400)
    assert app.subject == "yours"
    assert list(app.after) == [16, 32, 64, 128, 256]
    assert "t5, trained on windows of 16 bytes, tested on 768 bytes of your text: slopes times 2." in app.caption


@pytest.mark.usefixtures("forget_custom_methods")
def test_the_caption_keeps_the_spelling_of_a_method_of_your_own() -> None:
    def MyLaw(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -0.1 * distance

    app = SlopeSurgery(lab.make_model(MyLaw), length=16, lengths=[16, 32], rule="pi")
    assert "The rule is for rotary positions only, so it does not apply to MyLaw." in app.caption


def test_the_caption_says_where_learned_positions_end() -> None:
    app = SlopeSurgery(lab.make_model("learned", max_length=32))
    assert "on windows of 512 its positions are not defined" in app.caption
    assert (app.figure.data[0].x.tolist(), app.figure.data[0].name) == ([32], "as trained (to 32 only)")
    assert "nan" not in app.caption


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        ("factor", 0, "factor must be a number from 0.0625 to 16, got 0"),
        ("factor", float("nan"), "factor must be a number from 0.0625 to 16, got nan"),
        ("factor", True, "factor must be a number"),
        ("dropped", "9", "dropped must be none, all or a head from 1 to 8, got 9"),
        ("dropped", 1, "dropped must be one of none, all, 1"),
        ("window", 0, "window must be an integer from 1 to 4096 or None, got 0"),
        ("window", 1.5, "window must be an integer"),
        ("rule", "linear", "rule must be one of plain, pi, ntk, yarn, got 'linear'"),
        ("sinks", -1, "sinks must be an integer from 0 to 64, got -1"),
        ("subject", "yours", "there is no model of yours yet"),
        ("subject", "t5", "subject must be one of alibi, rotary, sinusoidal, yours, got 't5'"),
    ],
)
def test_a_bad_value_is_named_and_changes_nothing(app: SlopeSurgery, name: str, value: object, message: str) -> None:
    before = (repr(app), app.caption, app.after)
    with pytest.raises(BadValue, match=message):
        setattr(app, name, value)
    assert (repr(app), app.caption, app.after) == before


def test_a_text_that_is_too_short_is_refused() -> None:
    with pytest.raises(ValueError, match="too long: your text has 80 bytes of validation text"):
        SlopeSurgery(text="x" * 800)


def test_a_saved_run_is_opened_from_its_folder(app: SlopeSurgery, tmp_path: Path) -> None:
    model = lab.make_model("kerple-log", seed=3, max_length=16)
    folder = lab.save_run(tmp_path / "mine", model, settings={"length": 16})
    field = control(app, "s-folder")
    field.value = f"  {folder} "
    assert app.subject == "yours"
    assert "kerple-log, trained on windows of 16 bytes" in app.caption
    assert app.before == pytest.approx(lab.loss_by_length(model, lab.load_text(), lab.evaluation_lengths(16)))
    assert control(app, "s-subject").label == "yours (below)"


@pytest.mark.parametrize("fault", ["missing", "foreign", "damaged", "other version"])
def test_a_folder_without_a_usable_run_is_named_and_changes_nothing(
    app: SlopeSurgery, tmp_path: Path, fault: str
) -> None:
    folder = tmp_path / "run"
    if fault == "foreign":
        folder.mkdir()
    elif fault != "missing":
        lab.save_run(folder, lab.make_model("alibi", max_length=16))
    if fault == "damaged":
        (folder / "weights.safetensors").write_bytes(b"no weights")
    if fault == "other version":
        content = json.loads((folder / "run.json").read_text())
        (folder / "run.json").write_text(json.dumps(content | {"version": 99}))
    before = (repr(app), app.caption)
    control(app, "s-folder").value = str(folder)
    messages = {"missing": "there is no run", "foreign": "is not a saved run", "damaged": "is damaged"}
    assert messages.get(fault, "has format version 99") in app._message.value
    assert (repr(app), app.caption) == before
    control(app, "s-folder").value = ""
    app.factor = 2.0
    assert "slopes times 2" in app.caption


def test_controls_and_traits_agree(app: SlopeSurgery) -> None:
    control(app, "s-factor").value = 4
    assert app.factor == 4
    assert control(app, "s-factor-field").value == "4"
    control(app, "s-factor-field").value = "three"
    assert "factor must be a number from 0.0625 to 16, got &#x27;three&#x27;" in app._message.value
    assert control(app, "s-factor-field").value == "4"
    control(app, "s-window").value = 8
    assert app.window == 8
    app.window = 100
    assert control(app, "s-window").value == 100
    control(app, "s-window").value = 0
    assert app.window is None


def test_a_changed_model_shares_its_weights() -> None:
    model = study.published_model("alibi").model
    subject = TrainedHere(model, 64, lab.load_text(), [64])
    changed = Intervention(subject, 2.0, "1", 32, 0, "plain").apply()
    assert changed.head.weight is model.head.weight


@pytest.mark.parametrize("length", [None, [64], "abc", True, 0])
def test_a_saved_run_with_an_invalid_length_is_refused(app: SlopeSurgery, tmp_path: Path, length: object) -> None:
    folder = lab.save_run(tmp_path / "run", lab.make_model("alibi", max_length=16), settings={"length": length})
    before = repr(app)
    control(app, "s-folder").value = str(folder)
    assert "length must be an integer of at least 1" in app._message.value
    assert repr(app) == before


def test_the_rotary_rule_uses_the_training_length() -> None:
    model = lab.make_model("rotary")  # whose max_length says 256
    app = SlopeSurgery(model, length=16, rule="pi")
    changed = lab.change_rotary_rule(model, "pi", 16)
    assert app.after == lab.loss_by_length(changed, lab.load_text(), lab.evaluation_lengths(16))
    assert app.after[32] != app.before[32]


def test_a_length_that_is_not_an_integer_is_named() -> None:
    with pytest.raises(BadValue, match=r"length must be an integer of at least 1, .*, got '8'"):
        SlopeSurgery(lab.make_model("learned", max_length=16), length="8")


def test_sinks_beside_a_window_of_a_byte_model(app: SlopeSurgery) -> None:
    app.window, app.sinks = 16, 4
    assert "a window of 16 keys and the first 4 imposed" in app.caption
    saved = study.published_model("alibi")
    changed = lab.impose_window(saved.model, 16, sinks=4)
    lengths = lab.evaluation_lengths(saved.settings["length"])
    expected = lab.loss_by_length(changed, lab.load_text(), lengths)
    assert app.after == pytest.approx(expected)
    app.sinks = 0
    assert app.after != pytest.approx(expected)


def test_refresh_evaluates_a_model_whose_weights_have_changed() -> None:
    model = lab.make_model("alibi")
    app = SlopeSurgery(model, length=8, lengths=[8])
    before = app.before[8]
    model.head.weight.data.mul_(3)
    app.fit(700)
    assert app.before[8] == before
    app.refresh()
    assert app.before[8] != before
