"""Arguments that are slightly wrong raise at the call, with the argument's name, its value and what is expected."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from alibi_viz import lab, laws
from alibi_viz.lab.length_curve import token_ids

TEXT = lab.load_text()
NEEDLE = lab.TASKS["needle"]
NO_LISTS = {"number": 8, "string": "alibi", "function": laws.square_root, "tensor without an axis": torch.tensor(8)}
LISTS: list[tuple[str, Callable[[Any], object]]] = [
    ("methods", lambda value: lab.compare(value, seeds=1)),
    ("methods", lambda value: lab.race(value, TEXT)),
    ("methods", lambda value: lab.Scoreboard(value, steps=1, lengths=[8])),
    ("lengths", lambda value: lab.Scoreboard(["none"], steps=1, lengths=value)),
    ("lengths", lambda value: lab.race(["none"], TEXT, lengths=value)),
    ("lengths", lambda value: lab.length_curve(torch.nn.Linear(2, 2), str, TEXT, value)),
    ("lengths", lambda value: lab.loss_by_length(lab.make_model(), TEXT, value)),
    ("contexts", lambda value: lab.loss_by_context(lab.make_model(), TEXT, value)),
    ("distances", lambda value: lab.needle_margins(lab.make_model(vocabulary=NEEDLE.vocabulary), value)),
    ("runs", lab.sweep),
    ("passages", lambda value: lab.known_words(value, TEXT)),
    ("labels", lambda value: lab.summary(lab.published_results(), "gap", value)),
    ("xs", lambda value: lab.summary(lab.published_results(), "gap", None, value)),
]


@pytest.mark.parametrize(("name", "call"), LISTS)
@pytest.mark.parametrize("value", NO_LISTS.values(), ids=NO_LISTS)
def test_what_is_not_a_list_is_named(name: str, call: Callable[[Any], object], value: object) -> None:
    with pytest.raises(TypeError) as error:
        list(call(value))  # type: ignore[call-overload]
    assert str(error.value).startswith(f"{name} must be a list of ")
    assert str(error.value).endswith(f", got {value!r}")


def test_a_generator_is_a_list() -> None:
    laps = lab.race((name for name in ["none"]), TEXT, length=8, steps=1, lengths=(n for n in (8, 16)), checkpoints=1)
    assert list(laps)[-1].scores.keys() == {8, 16}


@pytest.mark.parametrize(
    ("call", "field"),
    [
        (lab.make_model, {"heads": 3}),
        (lab.make_model, {"causal": False}),
        (lambda **sizes: lab.race(["none"], TEXT, **sizes), {"device": "cpu"}),
        (lambda **sizes: lab.Run("none", model=sizes), {"heads": 3}),
        (lambda **sizes: lab.Run("none", model=sizes), {"position": "none"}),
    ],
)
def test_unknown_fields_of_a_model_are_named_with_the_known_ones(call: Any, field: dict[str, object]) -> None:
    (name,) = field
    expected = f"fields of a model must be some of num_layers, d_model, .*, vocabulary, got '{name}'"
    with pytest.raises(ValueError, match=expected):
        call(**field)


@pytest.mark.parametrize(
    ("settings", "error", "message"),
    [
        ({"device": "foo"}, ValueError, "device must be auto, cpu, cuda or another of torch's names, got 'foo'"),
        ({"device": None}, ValueError, "device must be .*, got None"),
        ({"path": TEXT}, TypeError, r"path must be the name of a file, a str or a pathlib\.Path, got Text\("),
        ({"path": 3}, TypeError, "path must be .*, got 3"),
        ({"model": None}, TypeError, "model must be an instance of dict, got NoneType"),
        ({"seed": 2**63}, ValueError, f"seed must be between -{2**63} and {2**63 - 1}, got {2**63}"),
        ({"seed": 1.0}, TypeError, r"seed must be an integer, got 1\.0"),
    ],
)
def test_a_run_that_would_fail_later_is_refused(settings: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        lab.Run("none", **settings)


def test_settings_of_a_run_are_strings_whatever_was_given() -> None:
    run = lab.Run("none", device=torch.device("cpu"), path=Path("mine.txt"), label=3)  # type: ignore[arg-type]
    assert (run.device, run.path, run.label) == ("cpu", "mine.txt", "3")
    assert lab.Run("none", device="cuda").device == "cuda", "another machine may execute it"


@pytest.mark.parametrize("text", [TEXT, b"bytes", 3])
def test_a_text_to_compare_on_is_a_file(text: Any) -> None:
    with pytest.raises(TypeError, match=r"text must be the name of a file, a str or a pathlib\.Path, got "):
        lab.compare(["none"], text=text)


@pytest.mark.parametrize("seed", [1.5, True, None, 2**63])
@pytest.mark.parametrize(
    "call",
    [
        lambda seed: lab.make_model(seed=seed),
        lambda seed: lab.train(lab.make_model(), TEXT, seed=seed),
        lambda seed: lab.race(["none"], TEXT, seed=seed),
        lambda seed: lab.accuracy(lab.make_model(), NEEDLE, 3, seed=seed),
        lambda seed: lab.needle_margins(lab.make_model(), [3], seed=seed),
        lambda seed: lab.continuations(lab.make_model(), TEXT, 8, seed=seed),
    ],
)
def test_seeds_are_integers(call: Callable[[Any], object], seed: object) -> None:
    with pytest.raises((TypeError, ValueError), match=f"seed must be .*, got {seed}"):
        call(seed)


@pytest.mark.parametrize("seed", [-1, 1.5, None])
def test_seeds_of_passages_are_not_negative(seed: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"seed must be .*, got {seed}"):
        lab.passages_text(seed=seed)


@pytest.mark.parametrize("number", [0, -1, 1.5, None, "64"])
@pytest.mark.parametrize(
    ("name", "call"),
    [
        ("targets", lambda number: lab.loss_by_length(lab.make_model(), TEXT, [8], targets=number)),
        ("targets", lambda number: lab.race(["none"], TEXT, targets=number)),
        ("checkpoints", lambda number: lab.race(["none"], TEXT, checkpoints=number)),
        ("length", lambda number: lab.race(["none"], TEXT, length=number)),
        ("length", lab.evaluation_lengths),
        ("length", lambda number: lab.evaluation_distances(NEEDLE, number)),
        ("workers", lab.process_pool),
    ],
)
def test_counts_are_positive_integers(name: str, call: Callable[[Any], object], number: object) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^{name} must be an integer of at least 1, got {number!r}$"):
        call(number)


@pytest.mark.parametrize("longest", [-4, 2.5, None])
def test_longest_is_not_negative(longest: Any) -> None:
    with pytest.raises((TypeError, ValueError), match=f"^longest must be .*, got {longest}$"):
        lab.evaluation_lengths(8, longest)


SAVED = lab.published_model("alibi")


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: lab.train(lab.make_model(), "mine.txt"), "source must be an instance of Text or Task, got str"),
        (lambda: lab.race(["none"], Path("mine.txt")), "source must be an instance of Text or Task, got PosixPath"),
        (lambda: lab.loss_by_length(lab.make_model(), "mine.txt", [8]), "text must be an instance of Text, got str"),
        (lambda: lab.loss_by_context(lab.make_model(), None, [8]), "text must be an instance of Text, got NoneType"),
        (lambda: lab.continuations(lab.make_model(), b"to be", 8), "text must be an instance of Text, got bytes"),
        (lambda: lab.known_words(["to"], "to be"), "text must be an instance of Text, got str"),
        (lambda: lab.attention_stats(SAVED, TEXT, 8, trained=8), "model must be an instance of .*, got SavedRun"),
        (lambda: lab.passages_text("to be"), "background must be an instance of Text, got str"),
        (lambda: lab.accuracy(lab.make_model(), "needle", 8), "task must be an instance of Task, got str"),
        (lambda: lab.train("alibi", TEXT), "model must be an instance of LanguageModel, got str"),
        (lambda: lab.loss_by_length(SAVED, TEXT, [8]), "model must be an instance of LanguageModel, got SavedRun"),
        (lambda: lab.drop_bias(SAVED), "model must be an instance of LanguageModel, got SavedRun"),
        (lambda: lab.impose_window(SAVED, 8), "model must be an instance of LanguageModel, got SavedRun"),
        (lambda: lab.measure("alibi"), "run must be an instance of Run, got str"),
        (lambda: lab.sweep([{"position": "none"}]), "each of runs must be an instance of Run, got dict"),
        (lambda: lab.sweep([lab.Run("none")], 4), "executor must be an instance of Executor, got int"),
        (lambda: lab.Text("mine", "to be", TEXT.validation), r"train must be a uint8 tensor \[bytes\], .*, got str"),
        (
            lambda: lab.Text("mine", TEXT.train, torch.arange(9)),
            r"validation must be a uint8 tensor \[bytes\], .*, got torch.int64 \[9\]",
        ),
        (lambda: lab.Text("mine", torch.zeros(2, 3, dtype=torch.uint8), TEXT.validation), r"got torch.uint8 \[2, 3\]"),
        (lambda: token_ids("bloom", "to be"), "tokenizer must be .*, got str"),
    ],
)
def test_objects_of_other_classes_are_named(call: Callable[[], object], message: str) -> None:
    with pytest.raises(TypeError, match=message):
        call()


def test_a_prompt_longer_than_the_validation_part_is_refused() -> None:
    with pytest.raises(ValueError, match=r"your text is too short for a prompt of 32 bytes: its .* part has 2$"):
        lab.continuations(lab.make_model(), lab.load_text("to be or not to be"), 64)


def test_a_compiled_model_is_a_model() -> None:
    model = torch.compile(lab.make_model(), backend="eager")
    assert len(list(lab.train(model, TEXT, length=8, steps=2))) == 2
    assert set(lab.loss_by_length(model, TEXT, [8], targets=64)) == {8}
