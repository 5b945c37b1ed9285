"""Your own functions and classes as position methods: registered, checked, and told apart by what
they compute."""

import functools
import json
import linecache
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor

from alibi_viz import KeyValueCache, LanguageModel, TransformerConfig, alibi_slopes, lab, laws
from alibi_viz.models import POSITIONS, Position, SelfAttention, register_method
from alibi_viz.models.positions.custom import custom_method, provenance
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
    assert POSITIONS["root"].summary == "Bias -sqrt(d) / 2h."
    assert custom_method("root") is root and custom_method("alibi") is None
    assert register_method(POSITIONS["alibi"]) == "alibi" == POSITIONS["alibi"].name
    assert provenance(root)["source"].startswith("def root(distance")
    model = LanguageModel(TransformerConfig(position="root", num_layers=1, num_heads=4))
    distance = (torch.arange(2, 5)[:, None] - torch.arange(5)).abs()
    expected = torch.stack([root(distance, head, 4) for head in range(1, 5)])
    torch.testing.assert_close(model.transformer.position.bias(3, 5), expected)


def test_class_is_registered_and_trained() -> None:
    model = lab.make_model(PerHead)
    model(torch.arange(20)[None]).logsumexp(-1).sum().backward()
    assert bool(model.transformer.position.slopes.grad.any())  # type: ignore[union-attr]
    assert torch.equal(model.head.weight, lab.make_model("alibi").head.weight)


def test_what_a_class_overrides_says_what_it_does() -> None:
    class Halves:
        def weigh(self, query: Tensor, key: Tensor, bias: Tensor | None, *, causal: bool) -> Tensor:
            return 0 * query @ key.mT + 0.5

    class Even(Halves, Position):
        def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
            return tokens + start

    vectors, even = torch.randn(3, 1, 2, 9, 4, generator=torch.Generator().manual_seed(0)), Even()
    torch.testing.assert_close(
        even.attend(*vectors, causal=True), even.weights(*vectors[:2]) @ vectors[2]
    )
    assert type(
        "Child", (type("Said", (Even,), {"is_relative": True}),), {"embed": Even.embed}
    ).is_relative
    assert not even.is_relative and not POSITIONS["learned"].is_relative and Position.is_relative


def test_a_subclass_of_alibi_attends_with_its_own_bias() -> None:
    class Steeper(Alibi):
        def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
            return 2 * super().bias(query_length, key_length)

    class Gentler(Alibi):
        @property
        def slopes(self) -> Tensor:
            return super().slopes / 2

    vectors = torch.randn(3, 1, 2, 9, 4, generator=torch.Generator().manual_seed(0))
    for position, factor in ((Steeper(2), 2.0), (Gentler(2), 0.5)):
        expected = Alibi(2, slopes=factor * alibi_slopes(2))
        torch.testing.assert_close(
            position.attend(*vectors, causal=True), expected.attend(*vectors, causal=True)
        )
        assert torch.equal(position.bias(9, 9), expected.bias(9, 9)) and not [
            *position.parameters()
        ]
    x, mask = torch.ones(1, 2, 8), torch.ones(1, 2) > 0
    assert (
        SelfAttention(Gentler(2), 8, 2)(x, key_padding_mask=mask).shape == x.shape
    )  # it changes the slopes only
    with pytest.raises(TypeError, match="only ALiBi takes one, not Steeper"):
        SelfAttention(Steeper(2), 8, 2)(x, key_padding_mask=mask)


def test_equal_definition_keeps_the_registered_one_and_another_replaces_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # as Python 3.13 does for `python -c`, under which pytest-xdist runs
    monkeypatch.setitem(linecache.cache, "<string>", (9, None, ["import sys\n"] * 3, "<string>"))
    cell = "def root(distance, head, num_heads):\n    return {} * distance.float()\n"
    first, again, other = ({"__name__": "__main__"} for _ in range(3))
    for names, slope in ((first, -1), (again, -1), (other, -2)):
        exec(cell.format(slope), names)
    model = lab.make_model(first["root"])  # type: ignore[arg-type]
    known = POSITIONS["root"]
    register_method(again["root"])  # type: ignore[arg-type]
    assert POSITIONS["root"] is known
    register_method(type("Later", (Position,), {}))
    assert bias_of(other["root"]) == bias_of("root") == [-4, -2, 0]
    assert [*POSITIONS][-2:] == ["Later", "root"]  # in menus
    assert model.transformer.position.bias(1, 2)[0, 0].tolist() == [-1, 0]  # type: ignore[operator]


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


def with_the_value(value: float) -> dict[str, Any]:
    """Methods of equal text that compute -value * distance, each with the value in another
    place."""

    def default(distance: Tensor, head: int, num_heads: int, slope: float = value) -> Tensor:
        return -slope * distance

    def closure(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -value * distance

    def called(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return closure(distance, head, num_heads) * 1

    class Attribute(Position):
        """A constant bias per key."""

        slope = value

        def bias(self, query_length: int, key_length: int, x: Tensor | None = None) -> Tensor:
            return -self.slope * torch.arange(key_length - 1.0, -1, -1).expand(8, query_length, -1)

    return {method.__name__: method for method in (default, closure, called, Attribute)}


@pytest.mark.parametrize("name", with_the_value(0))
def test_equal_text_with_another_value_is_another_method_with_another_fingerprint(
    name: str,
) -> None:
    kept = []
    for value in (1.5, 2.5):
        method = with_the_value(value)[name]
        kept.append(provenance(method))
        assert bias_of(method) == [-2 * value, -value, 0]
        assert kept[-1] == provenance(method) == provenance(with_the_value(value)[name])
        assert str(value) in kept[-1]["source"]
    assert kept[0]["fingerprint"] != kept[1]["fingerprint"]


CELL = """
import json, torch
from functools import lru_cache
from math import {function} as f
from alibi_viz.models import Position
from alibi_viz.models.positions.custom import provenance
VALUES = {values}
OTHER, head_start = object(), {unused}
@lru_cache
def helper(d):
    return -{factor} * d
def law(distance, head, num_heads):
    return sum([helper(distance).{name}() * f(VALUES["a"][0]) for _ in "x"]) * distance.shape[0] if OTHER else None
class Mine(Position):
    slope = {factor}
    def embed(self, tokens, start=0):
        return super().embed(tokens, start) * self.head_start
"""
SETTINGS = {"function": "sqrt", "factor": 1, "unused": 1, "name": "abs"}
SETTINGS |= {"values": "{'a': [1.0], 'b': torch.ones(300), 'c': {1.5, 'x'}}"}
CHANGES = [{"function": "log"}, {"factor": 2}, {"name": "neg"}] + [
    {"values": str(SETTINGS["values"]).replace(*change)}
    for change in (("1.0", "1.1"), ("torch.ones", "torch.arange"), ("(300)", "(300).half()"))
]


def fingerprints(**change: object) -> list[str]:
    """Of `law` and `Mine`, in a module without source text, as in a console."""
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(CELL.format(**SETTINGS | change), names)
    return [provenance(names[name])["fingerprint"] for name in ("law", "Mine")]


def test_fingerprint_depends_on_everything_that_the_method_reads_and_on_nothing_else() -> None:
    known = fingerprints()
    assert fingerprints(unused=2) == known
    assert len({known[0], *(fingerprints(**change)[0] for change in CHANGES)}) == len(CHANGES) + 1
    assert fingerprints(factor=2)[1] != known[1]


def test_decorated_laws_are_told_apart_by_what_surrounds_them() -> None:
    def times(factor: float) -> Any:
        return functools.wraps(root)(lambda *arguments, by=factor: by * root(*arguments))

    assert bias_of(times(2)) == [2 * value for value in bias_of(times(1))]


def test_fingerprint_is_the_same_in_another_process_and_in_another_line_of_another_file(
    tmp_path: Path,
) -> None:
    results = []
    for number in (1, 2):
        file, lines = tmp_path / f"law{number}.py", "\n" * number + CELL.format(**SETTINGS)
        file.write_text(lines + "print(json.dumps([provenance(law), provenance(Mine)]))")
        results.append(json.loads(subprocess.check_output([sys.executable, file])))
    assert results[0] == results[1]
    (law, mine), text = results[0], "return -1 * d"
    assert (
        text in law["source"]
        and "hash" in law["source"]
        and "# OTHER = <object object>" in law["source"]
    )
    assert (
        "super().embed" in mine["source"]
        and "slope = 1" in mine["source"]
        and "0x" not in str(results)
    )
