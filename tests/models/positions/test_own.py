"""A function or a class of the reader's is used like a built-in position method."""

import math
from typing import Any

import pytest
import torch
from alibi_viz.models.positions.own import evaluate_law
from torch import Tensor

from alibi_viz import LanguageModel, TransformerConfig, alibi_slopes, lab, laws
from alibi_viz.models import POSITIONS, Position, WindowWithSinks, method_name, own_method, provenance
from tests.custom_laws import root

pytestmark = pytest.mark.usefixtures("forget_custom_methods")


class Learned(Position):
    """A learned slope per head."""

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.slopes = torch.nn.Parameter(torch.ones(num_heads))

    @classmethod
    def from_config(cls, config: TransformerConfig) -> "Learned":
        return cls(config.num_heads)

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        keys = torch.arange(key_length)
        return self.slopes[:, None, None] * (keys - keys[key_length - query_length :, None]).float()


def test_law_gives_the_bias_of_every_pair() -> None:
    position = lab.make_model(root).transformer.position
    bias = position.bias(3, 5)  # type: ignore[operator]
    for head in range(4):
        for i in range(3):
            for j in range(5):
                assert bias[head, i, j].item() == pytest.approx(-0.5 * math.sqrt(abs(i + 2 - j)) / (head + 1))


def test_law_is_known_by_its_name_afterwards() -> None:
    assert method_name(root) == "root"
    assert POSITIONS["root"].summary == "Bias -sqrt(d) / 2h."
    assert own_method("root") is root
    assert own_method("alibi") is None
    assert LanguageModel(TransformerConfig(position="root", num_layers=1)).config.position == "root"
    assert list(POSITIONS)[-1] == "root"


def test_linear_law_trains_exactly_as_alibi() -> None:
    losses = {}
    for method in ("alibi", laws.linear):
        model = lab.make_model(method)
        losses[str(method)] = [step.loss for step in lab.train(model, lab.load_text(), steps=5)]
    alibi, linear = losses.values()
    assert linear == pytest.approx(alibi, abs=1e-5)


@pytest.mark.parametrize("name", laws.__all__)
def test_laws_are_defined_at_any_length_and_generate(name: str) -> None:
    model = lab.make_model(getattr(laws, name))
    assert bool(model(torch.zeros(1, 300, dtype=torch.long)).isfinite().all())
    prompt = torch.zeros(1, 4, dtype=torch.long)
    cached = model.generate(prompt, 12, temperature=0)
    assert torch.equal(cached[:, :8], model.generate(prompt, 4, temperature=0))


def test_laws_have_the_values_of_their_formulas() -> None:
    distance, slopes = torch.arange(9), alibi_slopes(8)
    assert torch.allclose(laws.linear(distance, 3, 8), -slopes[2] * distance)
    assert torch.allclose(laws.square_root(distance, 3, 8), -slopes[2] * distance.sqrt())
    assert torch.allclose(laws.logarithmic(distance, 4, 8), -torch.log1p(distance.float()))
    assert torch.allclose(laws.power(distance, 8, 8), laws.linear(distance, 8, 8))
    assert laws.window(distance, 1, 8).tolist() == [0.0] * 8 + [-math.inf]


def test_window_law_is_defined_for_the_widest_of_many_heads() -> None:
    assert not evaluate_law(laws.window, 128, 64)[-70:].any()


def test_position_class_is_used_like_a_law() -> None:
    model = lab.make_model(Learned)
    before = model.transformer.position.slopes.detach().clone()  # type: ignore[union-attr, operator]
    list(lab.train(model, lab.load_text(), steps=3))
    assert not torch.equal(model.transformer.position.slopes, before)  # type: ignore[arg-type]


def test_window_with_sinks_sees_the_first_and_the_last_tokens() -> None:
    model = lab.make_model(WindowWithSinks, max_length=8)
    bias = model.transformer.position.bias(2, 20)  # type: ignore[operator]
    for i, row in enumerate(bias[0]):
        assert [j for j in range(20) if row[j] == 0] == [0, 1, 2, 3, *range(i + 11, 20)]
    hidden = torch.randint(256, (1, 40), generator=torch.Generator().manual_seed(0))
    changed = hidden.clone()
    changed[0, 6] = (changed[0, 6] + 1) % 256  # two layers of windows reach back 14 tokens at most
    assert torch.equal(model(hidden)[0, -1], model(changed)[0, -1])


def test_window_that_hides_every_token_raises() -> None:
    with pytest.raises(ValueError, match="window must be at least 1, got 0"):
        WindowWithSinks(0)
    with pytest.raises(ValueError, match="sinks must be at least 0, got -1"):
        WindowWithSinks(8, sinks=-1)


def test_equal_seeds_give_equal_weights_outside_the_position_method() -> None:
    alibi, mine = lab.make_model("alibi", seed=3), lab.make_model(root, seed=3)
    assert torch.equal(alibi.head.weight, mine.head.weight)


def test_equal_definition_keeps_the_registered_one_and_another_replaces_it() -> None:
    method_name(root)
    known = POSITIONS["root"]
    assert method_name(root) == "root"
    assert POSITIONS["root"] is known

    def other(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -distance.float()

    other.__name__ = "root"
    model = lab.make_model(root)
    method_name(other)
    assert POSITIONS["root"] is not known
    assert lab.make_model("root").transformer.position.bias(1, 3)[0, 0].tolist() == [-2, -1, 0]  # type: ignore[operator]
    assert model.transformer.position.bias(1, 2)[0, 0, 0].item() == -0.5  # type: ignore[operator]


def test_provenance_is_the_source_text() -> None:
    kept = provenance(root)
    assert kept["source"].startswith("def root(distance")
    assert kept == provenance(root)
    assert kept["fingerprint"] != provenance(laws.linear)["fingerprint"]


def returning(value: Any) -> Any:
    def law(distance: Tensor, head: int, num_heads: int) -> Any:
        return value(distance) if callable(value) else value

    return law


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (returning(torch.zeros(3)), r"must return a tensor \[64\], got shape \[3\]"),
        (returning(None), "got NoneType"),
        (lambda d, h, n: d < 4, r"it must return numbers, got torch\.bool"),
        (lambda d, h, n: -1j * d, r"it must return numbers, got torch\.complex64"),
        (lambda d, h, n: -torch.nn.Parameter(torch.ones(())) * d, "a function trains no parameters.* Position"),
        (returning(lambda d: d.float().log() * 0), "the bias at distance 0 is nan"),
        (returning(lambda d: 1.0 / d), "the bias at distance 0 is inf"),
        (returning(lambda d: d.float().log()), "the bias at distance 0 is -inf"),
        (returning(lambda d: torch.zeros(len(d)).masked_fill(d > 40, torch.nan)), "the bias at distance 41 is nan"),
        (lambda distance, head: distance, "takes 2 positional arguments but 3 were given"),
        (lambda distance, head, num_heads: -torch.tensor([0.5, 0.25])[head - 1] * distance, "head 3 of 8: IndexError"),
    ],
)
def test_bad_laws_are_named_with_the_value(law: Any, message: str) -> None:
    law.__name__ = "bad"
    with pytest.raises(ValueError, match=message) as error:
        lab.make_model(law)
    assert "law 'bad', head" in str(error.value)


def test_law_that_differs_between_calls_raises() -> None:
    def random(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -torch.rand(len(distance))

    with pytest.raises(ValueError, match=r"law 'random' gives -0\.\d+ and then -0\.\d+ for distance 0 in head 1"):
        lab.make_model(random)


def test_position_class_that_looks_ahead_raises() -> None:
    class Ahead(Position):
        """Lets every query see every key."""

        def attend(self, query: Tensor, key: Tensor, value: Tensor, **_: Any) -> Tensor:
            return (query @ key.mT).softmax(-1) @ value

    with pytest.raises(ValueError, match="position method 'Ahead' looks ahead: another token at position 15 changes"):
        lab.make_model(Ahead)


@pytest.mark.parametrize(
    ("method", "error", "message"),
    [
        ("nothing", ValueError, "position must be one of alibi, .*, or a function, got 'nothing'"),
        (lambda d, h, n: d, ValueError, "needs a name, given by `def`"),
        (3, TypeError, "must be a name, a function or a subclass of Position, got 3"),
        (dict, TypeError, "must be a name, a function or a subclass of Position"),
    ],
)
def test_other_objects_are_not_accepted_as_a_method(method: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        method_name(method)


def test_name_of_a_built_in_method_raises() -> None:
    def alibi(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return distance

    with pytest.raises(ValueError, match="'alibi' is the name of a position method of alibi_viz; choose another name"):
        method_name(alibi)


def test_evaluate_law_covers_every_head() -> None:
    assert torch.equal(evaluate_law(laws.linear, 8, 5)[:, 1], -alibi_slopes(8))
