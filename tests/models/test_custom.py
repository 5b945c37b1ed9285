"""Your own functions and classes as position methods: registered, checked, and told apart by what
they compute."""

import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import Tensor

from alibi_viz import KeyValueCache, LanguageModel, TransformerConfig, alibi_slopes, lab, laws
from alibi_viz.models import POSITIONS, Position, SelfAttention, register_method
from alibi_viz.models.positions.custom import custom_method, source_text
from alibi_viz.models.positions.relative import Alibi
from tests.custom_laws import root


class PerHead(Position):
    """A learned slope per head."""

    config_fields = ("num_heads",)

    def __init__(self, num_heads: int) -> None:
        super().__init__()
        self.slopes = torch.nn.Parameter(torch.ones(num_heads))

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        keys = torch.arange(key_length)
        return self.slopes[:, None, None] * (keys - keys[key_length - query_length :, None]).float()


def bias_of(method: Any, head: int = 0) -> list[float]:
    return lab.make_model(method).transformer.position.bias(1, 3)[head, 0].tolist()  # type: ignore[no-any-return, operator]


def test_function_is_registered_with_its_name_and_gives_the_bias_of_every_pair() -> None:
    assert register_method(root) == "root" == list(POSITIONS)[-1]
    assert POSITIONS["root"].summary() == "Bias -sqrt(d) / 2h."
    assert custom_method("root") is root and custom_method("alibi") is None
    assert register_method(POSITIONS["alibi"]) == "alibi" == POSITIONS["alibi"].name
    model = LanguageModel(TransformerConfig(position="root", num_layers=1, num_heads=4))
    distance = (torch.arange(2, 5)[:, None] - torch.arange(5)).abs()
    expected = torch.stack([root(distance, head, 4) for head in range(1, 5)])
    torch.testing.assert_close(model.transformer.position.bias(3, 5), expected)


def test_class_is_registered_and_trained() -> None:
    model = lab.make_model(PerHead)
    model(torch.arange(20)[None]).logsumexp(-1).sum().backward()
    assert bool(model.transformer.position.slopes.grad.any())  # type: ignore[union-attr]
    assert torch.equal(model.head.weight, lab.make_model("alibi").head.weight)


class Steeper(Alibi):
    """Changes the bias itself."""

    def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
        return 2 * super().bias(query_length, key_length)


class Gentler(Alibi):
    """Changes the slopes only."""

    @property
    def slopes(self) -> Tensor:
        return super().slopes / 2


@pytest.mark.parametrize(("method", "factor"), [(Steeper, 2.0), (Gentler, 0.5)])
def test_a_subclass_of_alibi_attends_with_its_own_bias(method: type[Alibi], factor: float) -> None:
    query, key, value = torch.randn(3, 1, 2, 9, 4, generator=torch.Generator().manual_seed(0))
    position = method(2)
    expected = Alibi(2, slopes=factor * alibi_slopes(2))
    assert torch.equal(position.bias(9, 9), expected.bias(9, 9))
    torch.testing.assert_close(
        position.attend(query, key, value, causal=True),
        expected.attend(query, key, value, causal=True),
    )


def test_a_subclass_of_alibi_with_other_slopes_takes_padding() -> None:
    x = torch.ones(1, 2, 8)
    mask = torch.tensor([[True, True]])
    assert SelfAttention(Gentler(2), 8, 2)(x, key_padding_mask=mask).shape == x.shape


def test_a_subclass_of_alibi_with_another_bias_takes_no_padding() -> None:
    x = torch.ones(1, 2, 8)
    mask = torch.tensor([[True, True]])
    with pytest.raises(TypeError, match="only ALiBi takes one, not Steeper"):
        SelfAttention(Steeper(2), 8, 2)(x, key_padding_mask=mask)


def law_with_slope(slope: float) -> Any:
    """A law named "constant_slope", defined again at each call."""

    def constant_slope(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -slope * distance

    return constant_slope


def test_a_later_definition_of_the_same_name_replaces_the_first() -> None:
    register_method(law_with_slope(1.0))
    assert bias_of(law_with_slope(2.0)) == [-4, -2, 0]
    assert bias_of("constant_slope") == [-4, -2, 0]


def test_a_replaced_law_stays_in_the_models_that_it_made() -> None:
    model = lab.make_model(law_with_slope(1.0))
    register_method(law_with_slope(2.0))
    bias = model.transformer.position.bias(1, 2)[0, 0]  # type: ignore[operator]
    assert bias.tolist() == [-1, 0]


def test_the_last_definition_is_the_last_in_menus() -> None:
    register_method(law_with_slope(1.0))
    register_method(type("Later", (Position,), {}))
    register_method(law_with_slope(2.0))
    assert list(POSITIONS)[-2:] == ["Later", "constant_slope"]


def test_source_text_of_a_law_is_that_of_its_definition() -> None:
    source = source_text(law_with_slope(1.0))
    assert source.startswith("def constant_slope(distance: Tensor")
    assert "return -slope * distance" in source


def test_a_law_from_a_console_has_no_source_text() -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec("def typed(distance, head, num_heads):\n    return -1.0 * distance\n", names)
    assert source_text(names["typed"]) == ""


FORMULAS: dict[str, Callable[[Tensor], Tensor]] = {  # of head 3 of 8, whose slope is 1 / 8
    "linear": lambda d: -d / 8,
    "square_root": lambda d: -d.sqrt() / 8,
    "logarithmic": lambda d: -0.75 * torch.log1p(d),
    "power": lambda d: -(d ** (3 / 8)) / 8,
    "window": lambda d: torch.where(d < 32, 0.0, -torch.inf),
}


@pytest.mark.parametrize("name", laws.__all__)
def test_built_in_laws_have_the_values_of_their_formulas_and_make_models(name: str) -> None:
    law, distance = getattr(laws, name), torch.arange(40)
    torch.testing.assert_close(law(distance, 3, 8), FORMULAS[name](distance.float()))
    assert bool(lab.make_model(law)(torch.zeros(1, 300, dtype=torch.long)).isfinite().all())
    assert bool(law(distance, 80, 80).isfinite().all()), "2^80 tokens fit into no window"
    for head in (0, 9, -1):
        with pytest.raises(ValueError, match=f"head must be between 1 and 8, got {head}"):
            law(distance, head, 8)


def test_a_table_of_biases_is_a_law_up_to_its_end() -> None:
    def tabled(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return torch.linspace(0, -5, 200)[distance]

    assert bool(lab.make_model(tabled)(torch.zeros(1, 200, dtype=torch.long)).isfinite().all())


def returning(value: Callable[[Tensor], Any]) -> Any:
    return lambda distance, head, num_heads: value(distance)


@pytest.mark.parametrize(
    ("law", "message"),
    [
        (
            returning(lambda d: d[:3]),
            r"must return a tensor of numbers \[64\], got torch\.int64 \[3\]",
        ),
        (returning(lambda d: None), "got NoneType"),
        (
            returning(lambda d: -torch.nn.Parameter(torch.ones(())) * d),
            "a function trains no parameters.* Position",
        ),
        (returning(lambda d: 1.0 / d), "the bias at distance 0 is inf, expected a number$"),
        (returning(lambda d: -1 / d.float()), "the bias at distance 0 is -inf, expected a number$"),
        (
            returning(lambda d: torch.where(d > 40, torch.nan, 0.0)),
            "distance 41 is nan, expected a number or -inf$",
        ),
        (
            returning(lambda d: -torch.rand(len(d))),
            r"gives -0\.\d+ and then -0\.\d+ for distance 0 in head 1",
        ),
        (lambda distance, head: distance, "takes 2 positional arguments but 3 were given"),
        (
            lambda distance, head, num_heads: -torch.tensor([0.5, 0.25])[head - 1] * distance,
            "head 3 of 8: IndexError",
        ),
    ],
)
def test_bad_law_is_named_with_the_value(law: Any, message: str) -> None:
    law.__name__ = "bad"
    with pytest.raises(ValueError, match=f"law 'bad'.*{message}"):
        lab.make_model(law)


def test_a_method_that_supports_no_cache_generates_without_one() -> None:
    class Changing(Position):
        supports_cache = False

    model, tokens = lab.make_model(Changing), torch.arange(9)[None]
    assert model.generate(tokens, 2).shape == (1, 11)
    caches = [KeyValueCache() for _ in model.transformer.blocks]
    for call in (lambda: model(tokens, caches), lambda: model.generate(tokens, 2, use_cache=True)):
        with pytest.raises(
            ValueError, match="'Changing' supports no cache, because new tokens move earlier ones"
        ):
            call()


def test_class_that_looks_ahead_raises() -> None:
    class Ahead(Position):
        """Lets every query see every key."""

        def attend(self, query: Tensor, key: Tensor, value: Tensor, **_: Any) -> Tensor:
            return (query @ key.mT).softmax(-1) @ value

    with pytest.raises(
        ValueError,
        match="position method 'Ahead' looks ahead: another token at position 15 changes",
    ):
        lab.make_model(Ahead)


@pytest.mark.parametrize(
    ("method", "message"),
    [
        ("nothing", "position must be one of alibi, .*, or a function, got 'nothing'"),
        (lambda d, h, n: d, "needs a name, given by `def`"),
        (3, "must be a name, a function or a subclass of Position, got 3"),
        (
            type(root)(root.__code__, {}, "alibi"),
            "'alibi' is the name of a position method of alibi_viz; choose another name",
        ),
    ],
)
def test_other_object_or_a_taken_name_is_not_accepted(method: Any, message: str) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        register_method(method)


def test_decorated_laws_are_told_apart_by_what_surrounds_them() -> None:
    def times(factor: float) -> Any:
        return functools.wraps(root)(lambda *arguments, by=factor: by * root(*arguments))

    assert bias_of(times(2)) == [2 * value for value in bias_of(times(1))]
