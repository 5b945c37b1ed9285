"""The models that ship with the package are runs of the published comparison."""

import pytest
import torch

from alibi_viz import lab
from alibi_viz.lab.comparison import Part


@pytest.mark.parametrize("name", lab.PUBLISHED_MODELS)
def test_a_shipped_model_is_the_published_run(name: str) -> None:
    saved = lab.published_model(name)
    results = lab.published_results().query("label == @name and seed == 0 and question == 'longer windows'")
    bits = results[results["evaluated"] == "as trained"].set_index("x")["value"]
    own = saved.results.query("question == 'longer windows' and evaluated == 'as trained'").set_index("x")["value"]
    assert own.to_dict() == pytest.approx(bits.to_dict(), abs=1e-4)
    measured = lab.loss_by_length(saved.model, lab.load_text(), [64, 256, 1024])
    for length, loss in measured.items():
        assert loss == pytest.approx(bits[length], abs=1e-3), length


def test_an_unknown_name_lists_the_known_ones() -> None:
    with pytest.raises(ValueError, match="name must be one of alibi, rotary, sinusoidal, got 'elsewhere'"):
        lab.published_model("elsewhere")


def test_training_them_again_uses_the_settings_of_the_runs(tmp_path, monkeypatch) -> None:
    """Not for 600 steps here: five are enough to see that the settings reach the training."""
    short = Part("main", "", (lab.Run("rotary", length=64, steps=5, longest=2),))
    monkeypatch.setattr("alibi_viz.lab.published.PARTS", {"main": short})
    monkeypatch.setattr("alibi_viz.lab.published.published_rates", lambda: {("text", "rotary"): 4e-3})
    from alibi_viz.lab.__main__ import main  # noqa: PLC0415 - after the patch, as a user would call it

    threads = torch.get_num_threads()
    assert main(["models", "--out", str(tmp_path)]) == 0
    torch.set_num_threads(threads)
    saved, again = lab.load_run(tmp_path / "rotary"), lab.make_model("rotary", max_length=64)
    list(lab.train(again, lab.load_text(), length=64, steps=5, learning_rate=4e-3, device="cpu"))
    assert saved.settings["steps"] == 5
    assert saved.results.query("question == 'longer windows' and evaluated == 'as trained'")["x"].tolist() == [64, 128]
    assert torch.allclose(saved.model.head.weight, again.head.weight, atol=1e-5)
