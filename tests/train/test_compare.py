"""A comparison over seeds: its table, verdicts and curves, what it resumes and refuses."""

import math
import re
import sys

import pandas as pd
import pytest

from alibi_viz import figures, lab, laws
from alibi_viz.models.positions.rotary import ScaledRotary
from alibi_viz.train.compare import MethodComparison
from alibi_viz.train.run import measure
from tests.tables import AS_TRAINED, table

TINY = {"length": 16, "steps": 3, "longest": 2, "progress": False}


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    """A short text, because every test of a model takes time."""
    path = tmp_path_factory.mktemp("text") / "mine.txt"
    path.write_bytes(lab.load_text().train.numpy().tobytes()[:30_000])
    return path


@pytest.fixture(scope="module")
def comparison(text):
    out = text.parent / "deep" / "results"
    return lab.compare(["rotary", "alibi", laws.square_root], text=text, out=out, **TINY)


def compared(values):
    """A comparison with these values: {label: {x: one per seed}}."""
    seeds = {
        name: [{x: v[n] for x, v in xs.items() if n < len(v)} for n in range(4)]
        for name, xs in values.items()
    }
    return MethodComparison(
        table("longer sequences", seeds, length=64), tuple(values), lab.Run("alibi"), "a text"
    )


def test_table_has_every_method_seed_and_length(comparison):
    rows = comparison.rows
    assert set(rows["label"]) == {"rotary", "alibi", "square_root"}
    assert set(rows["seed"]) == {0, 1, 2}
    assert set(rows["x"]) == {16, 32}


def test_summary_has_the_mean_over_seeds(comparison):
    rows = comparison.rows
    of_rotary = rows[(rows["label"] == "rotary") & (rows["x"] == 32)]
    mean = of_rotary["value"].mean()
    assert comparison.summary.loc["rotary", 32].startswith(f"{mean:.3f} ± ")


def test_there_is_one_verdict_for_each_pair_in_the_order_of_the_methods(
    comparison,
):
    pairs = [verdict.partition(": ")[0] for verdict in comparison.verdicts]
    assert pairs == [
        "rotary against alibi",
        "rotary against square_root",
        "alibi against square_root",
    ]


def test_axes_say_what_is_drawn(
    comparison,
):
    axes = comparison.axes
    assert axes.title.endswith(": mean of 3 seeds, 95% t interval (bars), each seed (thin)")
    assert axes.ticks == {16: "16<br>L", 32: "32<br>2 L"}


def test_axes_have_the_yardsticks_of_the_text(comparison, text):
    assert comparison.axes.yardsticks == lab.load_text(text).yardsticks


def test_the_vertical_axis_includes_nothing_but_the_values():
    of_one_value = compared({"alibi": {64: [5.0]}})
    figure = figures.curve_figure(of_one_value.rows, of_one_value.axes)
    assert figure.layout.yaxis.range == (4.5, 5.5)


def test_differences_are_paired_by_seed_and_decided_by_their_interval():
    first, second = (
        {64: [2.0, 2.1, 2.3], 128: [2.0, 2.0, 2.1]},
        {64: [2.1, 2.0, 2.4], 128: [3.0, 3.1, 3.3]},
    )
    both = compared({"a": first, "b": second})
    # Half the interval is t = 4.3027 times the standard deviation of the differences, 0.11547 and
    # 0.1, over sqrt(3).
    assert (
        both.verdicts[0]
        == "a against b: undecided at 64 (-0.033 ± 0.287); lower at 128 (-1.100 ± 0.248)."
    )


@pytest.mark.parametrize(
    ("first", "second", "verdict"),
    [
        ([1.0, 1.1, 1.2], [2.0, 2.1, 2.2], "lower"),
        ([2.0, 2.1, 2.2], [1.0, 1.1, 1.2], "higher"),
        ([2.0, 2.0, 2.0], [2.0, 2.0, 2.0], "undecided"),
        (
            [2.0, 1.0, 1.9],
            [2.1, 3.0, 2.0],
            "undecided",
        ),  # lower in every seed, but how much differs
        (
            [1.0, 1.1, 1.2, math.nan],
            [2.0, 2.1, 2.2],
            "lower",
        ),  # the seed that is not defined is left out
    ],
)
def test_three_seeds_and_an_interval_without_zero_decide(first, second, verdict):
    both = compared({"a": {64: first}, "b": {64: second}, "c": {64: [math.nan] * 3}})
    assert both.differences[["second", "verdict", "seeds"]].values.tolist() == [
        ["b", verdict, min(3, len(first))]
    ]
    (sentence,) = both.verdicts
    assert re.match(rf"a against b: {verdict} at 64 \([+-]\d\.\d\d\d", sentence)


@pytest.mark.parametrize(
    ("seeds", "verdict"),
    [
        (2, "no verdict with 2 seeds (3 are needed) at 64 (-1.000 ± 0.000)"),
        (1, "no verdict with 1 seed (3 are needed) at 64 (-1.000)"),
    ],
)
def test_with_fewer_than_three_seeds_there_is_no_verdict(seeds, verdict):
    both = compared({"a": {64: [1.0, 1.5][:seeds]}, "b": {64: [2.0, 2.5][:seeds]}})
    assert both.differences["verdict"].tolist() == ["no verdict"]
    assert both.verdicts == [f"a against b: {verdict}."]


def test_what_is_saved_is_read_back(comparison, tmp_path):
    comparison.save(tmp_path)
    read = pd.read_csv(tmp_path / "results.csv", keep_default_na=False, na_values={"value": [""]})
    pd.testing.assert_frame_equal(read.astype(lab.COLUMNS), comparison.table.reset_index(drop=True))
    assert (tmp_path / "verdicts.txt").read_text().splitlines() == comparison.verdicts


def test_a_second_call_trains_only_what_is_missing(comparison, text, monkeypatch):
    out = text.parent / "deep" / "results"
    monkeypatch.setattr(
        sys.modules["alibi_viz.train.results"], "measure", lambda run: pytest.fail(f"{run} again")
    )
    again = lab.compare(["rotary", "alibi", laws.square_root], seeds=3, text=text, out=out, **TINY)
    pd.testing.assert_frame_equal(again.table, comparison.table)
    fewer = lab.compare(["rotary"], seeds=2, text=text, out=out, **TINY)
    assert (set(fewer.table["label"]), fewer.seeds) == ({"rotary"}, 2)
    assert fewer.axes.title.endswith(": mean of 2 seeds, each seed (thin)")


def test_a_seed_that_diverges_is_named_and_left_out(text, monkeypatch):
    def diverging(runs, *_, **__):
        first, second, third = map(measure, runs)
        return [third, second, {**first, "rows": [], "error": "the loss became nan"}]

    monkeypatch.setattr(
        sys.modules["alibi_viz.train.compare"], "sweep", diverging
    )  # lab.compare is a function
    failed = lab.compare(["alibi", "none", "t5"], seeds=1, text=text, **TINY)
    assert failed.verdicts[0] == "alibi, seed 0, is left out: the loss became nan."
    assert failed.axes.title.endswith(": one seed")
    assert failed.summary.index.tolist() == ["none", "t5"], "in the order of the methods"


@pytest.fixture(scope="module")
def without_a_result(text):
    """A comparison in which every run diverged."""

    def diverging(runs, *_, **__):
        return [{"run": run.settings(), "rows": [], "error": "the loss became nan"} for run in runs]

    with pytest.MonkeyPatch.context() as patch:
        # `lab.compare` is a function, so the module is found by its name.
        patch.setattr(sys.modules["alibi_viz.train.compare"], "sweep", diverging)
        return lab.compare(["alibi", "none"], seeds=2, text=text, **TINY)


def test_without_a_result_every_failure_is_named(without_a_result):
    assert without_a_result.verdicts == [
        "alibi, seed 0, is left out: the loss became nan.",
        "none, seed 0, is left out: the loss became nan.",
        "alibi, seed 1, is left out: the loss became nan.",
        "none, seed 1, is left out: the loss became nan.",
    ]


def test_the_figure_without_a_result_says_so(without_a_result):
    figure = figures.curve_figure(without_a_result.rows, without_a_result.axes)
    title = figure.layout.annotations[0].text
    assert title == "Loss on longer sequences: every run failed"


def test_the_axis_without_a_result_is_left_to_plotly(without_a_result):
    figure = figures.curve_figure(without_a_result.rows, without_a_result.axes)
    assert figure.layout.yaxis.range == (None, None)


@pytest.mark.parametrize(
    ("methods", "settings", "message"),
    [
        (["alibi", "alibi"], {}, "methods must be one or more with different names"),
        (["alibi"], {"longest": 0}, "longest must be at least 1, got 0"),
        (["alibi"], {"seeds": 1001}, "seeds must be between 1 and 1000, got 1001"),
        (["alibi"], {"text": "mine.txt"}, "text must be a pathlib.Path, .*, got 'mine.txt'"),
        (["alibi", ScaledRotary], {}, "missing 2 required positional arguments"),
        (["alibi", lab.load_text], {}, "law 'load_text', head 1 of 4: TypeError"),
        (["alibi"], {"longest": 4096}, "is too short to test at length 65,552"),
    ],
)
def test_what_can_not_be_compared_is_refused_before_anything_is_written(
    methods, settings, message, text, tmp_path
):
    with pytest.raises((TypeError, ValueError), match=message):
        lab.compare(methods, **{"text": text, "out": tmp_path / "out", **TINY, **settings})
    assert not (tmp_path / "out").exists()


def test_a_text_that_was_learned_by_heart_is_said_before_the_verdicts():
    losses = {"alibi": [{64: 8.0, 128: 8.0}], "none": [{64: 4.7, 128: 4.7}]}
    longer = table("longer sequences", losses, length=64)
    training_losses = {"alibi": [{800: 2.0}], "none": [{800: 4.6}]}
    training = table("longer sequences", training_losses).assign(question="training loss")
    comparison = MethodComparison(
        pd.concat([training, longer]), ("alibi", "none"), lab.Run("alibi"), "a text"
    )
    by_heart, verdict = comparison.verdicts
    assert by_heart.startswith("alibi (2.00 bits there, 8.00 on unseen text) has learned")
    assert verdict.startswith("alibi against none: ")


def results(
    label,
    values,
    variant=AS_TRAINED,
    question="longer sequences",
):
    seeds = [{x: each[n] for x, each in values.items()} for n in range(len(values[64]))]
    return table(question, {label: seeds}, length=64, variant=variant, task="text")


RESULTS = pd.concat(
    [
        results("alibi", {64: [2.0, 2.1, 2.2], 128: [2.0, 2.0, 2.0]}),
        results("alibi", {64: [2.0, 2.1, 2.2], 128: [1.0, 1.0, 1.0]}, variant="window"),
        results("learned", {64: [2.5], 128: [math.nan]}),
        results("alibi", {64: [0.5, 0.5, 0.5]}, question="needle"),
    ]
)


def test_summary_has_means_with_intervals_and_the_number_of_seeds():
    table = lab.summary(RESULTS, "longer sequences")
    assert table.columns.tolist() == [64, 128, "seeds"]
    assert table.loc["alibi"].tolist() == ["2.100 ± 0.248", "2.000 ± 0.000", 3]
    assert table.loc["alibi, window"].tolist() == ["", "1.000 ± 0.000", 3], (
        "up to L, a change makes no difference"
    )
    assert table.loc["learned"].tolist() == ["2.500", "not defined", 1]
    assert lab.summary(RESULTS, "needle").loc["alibi", 64] == "0.500 (0.500 to 0.500)", (
        "a share has limits"
    )


@pytest.mark.parametrize("column", ["task", "text", "length", "step"])
def test_texts_and_settings_are_not_mixed(column):
    other = RESULTS.assign(seed=9, **{column: 5 if column in ("length", "step") else "another"})
    cure = ", or label the models apart" if column in ("length", "step") else ""
    with pytest.raises(
        ValueError, match=f"^results must have one '{column}': choose by that column{cure}$"
    ):
        lab.summary(pd.concat([RESULTS, other]), "longer sequences")
    with pytest.raises(ValueError, match="one row for a label, seed and x"):
        lab.summary(pd.concat([RESULTS, RESULTS]), "longer sequences")
    for question, many in (("gap", "step"), ("sliding windows", "length")):
        curve = results("alibi", {64: [2.0, 2.1], 128: [2.0, 2.0]}, question=question)
        lab.summary(curve.assign(**{many: curve["x"]}), question)
