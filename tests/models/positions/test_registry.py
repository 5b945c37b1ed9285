"""A registered position method is available by name in the models, the lab and the command line."""

from collections.abc import Iterator

import pytest
import torch
from torch import Tensor

from alibi_viz import LanguageModel, TransformerConfig, lab
from alibi_viz.cli import main
from alibi_viz.models import POSITIONS, register
from alibi_viz.models.positions import Relative


@pytest.fixture
def toy() -> Iterator[type[Relative]]:
    @register("toy")
    class Toy(Relative):
        """Bias -ln(1 + d) in every head.

        Further lines are not part of the summary.
        """

        def curve(self, distance: Tensor) -> Tensor:
            return -torch.log1p(distance.float()).expand(self.num_heads, -1)

    yield Toy
    del POSITIONS["toy"]


def test_methods_have_names_and_summaries_and_are_in_menu_order() -> None:
    assert ", ".join(POSITIONS) == (
        "alibi, sinusoidal, rotary, learned, none, t5, kerple-log, sandwich, fire, decay, forget, "
        "xpos, bam, stick-breaking, cope, randomized"
    )
    for name, method in POSITIONS.items():
        assert method.name == name
        assert 20 < len(method.summary) < 120


def test_a_registered_method_works_by_name(toy: type[Relative], capsys: pytest.CaptureFixture[str]) -> None:
    assert (toy.name, toy.summary) == ("toy", "Bias -ln(1 + d) in every head.")
    model = LanguageModel(TransformerConfig(num_layers=1, d_model=16, num_heads=2, position="toy"))
    assert model.transformer.position.bias(1, 3)[1, 0].tolist() == pytest.approx([-1.0986, -0.6931, 0.0], abs=1e-4)
    assert isinstance(lab.make_model("toy").transformer.position, toy)
    *_, last = lab.race(["toy", "alibi"], lab.load_text(), length=8, steps=2, checkpoints=1)
    assert isinstance(last.model, LanguageModel)
    with pytest.raises(SystemExit):
        main(["race", "--help"])
    assert "toy" in capsys.readouterr().out


def test_a_name_can_be_registered_only_once(toy: type[Relative]) -> None:
    with pytest.raises(ValueError, match="position method 'toy' is already registered, as Toy"):
        register("toy")(toy)


def test_an_unregistered_name_raises() -> None:
    with pytest.raises(ValueError, match=r"position must be one of alibi, .*, randomized, got 'toy'"):
        TransformerConfig(position="toy")
