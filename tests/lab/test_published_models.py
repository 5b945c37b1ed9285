"""The models that ship with the package."""

import pytest
import torch

from alibi_viz import lab
from alibi_viz.lab.continuations import continuations, known_words


@pytest.mark.parametrize("name", lab.PUBLISHED_MODELS)
def test_a_shipped_model_has_the_losses_that_are_saved_with_it(name: str) -> None:
    saved, text = lab.published_model(name), lab.load_text()
    bits = saved.results.query("question == 'longer windows' and evaluated == 'as trained'").set_index("x")["value"]
    length = saved.settings["length"]
    for x, loss in lab.loss_by_length(saved.model, text, [length, 4 * length]).items():
        assert loss == pytest.approx(bits[x], abs=1e-3), x


def test_only_alibi_writes_words_beyond_its_training_length() -> None:
    text = lab.load_text()
    known = {}
    for name in lab.PUBLISHED_MODELS:
        saved = lab.published_model(name)
        texts = continuations(saved.model, text, saved.settings["length"])
        known[name] = known_words([each.beyond for each in texts], text)
    assert known["alibi"] >= 0.95
    assert known["alibi-large"] >= 0.99
    assert known["sinusoidal"] < 0.15
    assert known["rotary"] < 0.95


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="name must be one of alibi, rotary, sinusoidal, alibi-large, got 'elsewhere'"):
        lab.published_model("elsewhere")


def test_training_them_again_uses_the_settings_of_the_runs(tmp_path, monkeypatch) -> None:
    """With five steps: enough to see that the settings reach the training."""
    monkeypatch.setattr("alibi_viz.lab.published.RUNS", (lab.Run("rotary", steps=5, longest=2),))
    from alibi_viz.lab.__main__ import main  # noqa: PLC0415 - after the patch, as a user would call it

    assert main(["models", "--out", str(tmp_path)]) == 0
    saved, again = lab.load_run(tmp_path / "rotary"), lab.make_model("rotary", max_length=64)
    list(lab.train(again, lab.load_text(), steps=5, device="cpu"))
    assert saved.settings["steps"] == 5
    assert saved.results.query("question == 'longer windows' and evaluated == 'as trained'")["x"].tolist() == [64, 128]
    assert torch.allclose(saved.model.head.weight, again.head.weight, atol=1e-5)
