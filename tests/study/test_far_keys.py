"""Rotary with its far keys changed: the published table, and how it is measured."""

import sys

import pytest

from alibi_viz import lab, study
from alibi_viz.study import Setting
from alibi_viz.study.far_keys import BRAKES, COLUMNS, EXCHANGED, LIMITS, NEVER, STOPS, WINDOW
from tests.tables import SMALL

module = sys.modules["alibi_viz.study.far_keys"]


def test_every_model_has_every_change_once():
    table = study.far_keys()
    assert list(table) == list(COLUMNS)
    changes = ["stop", "brake", "share_stop", "limit"]
    expected = len(STOPS) * len(BRAKES) + 2 * len(EXCHANGED) + 2 * len(LIMITS) + 1
    assert table.groupby("seed").size().to_dict() == dict.fromkeys(range(8), expected)
    assert not table.duplicated(["seed", *changes]).any()


def test_a_window_hides_all_far_keys():
    window = study.far_keys().query("brake == inf")
    assert (window["far_share"] == 0).all()


def test_an_exchanged_share_is_that_of_the_other_stop():
    table = study.far_keys().dropna(subset="share_stop")
    table = table.set_index(["seed", "brake", "stop", "share_stop"])["far_share"]
    exchanged = table[table.index.get_level_values(2) != table.index.get_level_values(3)]
    for (seed, brake, _, share_stop), far_share in exchanged.items():
        # The second layer reads what the first has changed, so its share isn't quite the same.
        assert far_share == pytest.approx(table[seed, brake, share_stop, share_stop], abs=0.02)


def test_a_limited_share_is_at_most_the_limit():
    table = study.far_keys().dropna(subset="limit")
    assert (table["far_share"] < table["limit"] + 1e-6).all()


@pytest.fixture
def tiny_changes(monkeypatch):
    """A few changes of a tiny rotary model."""
    run = lab.Run("rotary", length=16, steps=3, longest=0, model=SMALL)
    monkeypatch.setattr(
        module, "SETTINGS", {"main": Setting("main", "main", "", "A test.", 2, (run,))}
    )
    monkeypatch.setattr(module, "STOPS", (15, NEVER))
    monkeypatch.setattr(module, "BRAKES", (0.0, 0.5))
    monkeypatch.setattr(module, "EXCHANGED", (0.0,))
    monkeypatch.setattr(module, "LIMITS", (0.05,))
    monkeypatch.setattr(module, "TARGETS", 1024)


@pytest.mark.parametrize("seed", [-1, "0", None])
def test_a_wrong_seed_is_refused_before_any_training(seed):
    with pytest.raises((TypeError, ValueError), match="seed must be"):
        study.measure_far_keys(seed)


@pytest.mark.usefixtures("tiny_changes")
def test_a_model_is_trained_and_measured_with_every_change():
    rows = study.measure_far_keys(1)
    assert all(list(row) == list(COLUMNS) and row["seed"] == 1 for row in rows)
    *others, at_limit_unseen, at_limit_seen = rows
    assert (at_limit_unseen["stop"], at_limit_seen["stop"]) == (NEVER, 15)
    assert at_limit_unseen["limit"] == 0.05
    assert at_limit_unseen["far_share"] == pytest.approx(0.05)
    changes = [(row["stop"], row["brake"], row["share_stop"]) for row in others]
    assert changes == [
        (NEVER, WINDOW, NEVER),
        (15, 0.0, 15),
        (15, 0.5, 15),
        (NEVER, 0.0, NEVER),
        (NEVER, 0.5, NEVER),
        (NEVER, 0.0, 15),
        (15, 0.0, NEVER),
    ]
    far_shares = dict(zip(changes, [row["far_share"] for row in others], strict=True))
    assert far_shares[NEVER, WINDOW, NEVER] == 0
    assert far_shares[NEVER, 0.5, NEVER] < 0.1 < far_shares[NEVER, 0.0, NEVER]
