"""The caption of LengthLab: two sentences in every state, and the outcome of a race in one."""

import pytest

from alibi_viz.widgets import LengthLab
from alibi_viz.widgets.race import captions
from tests.widgets.race.small_race import DEADLINE, open_tab, small, until


def assert_short(app: LengthLab, state: str) -> None:
    assert 1 <= len(captions.SENTENCE_END.split(app.caption)) <= 2, f"{state}: {app.caption}"
    assert app.details, state


def test_caption_has_at_most_two_sentences_in_every_state() -> None:
    app = small(methods=["alibi", "learned", "none"], steps=2000, guesses={"alibi": "holds"})
    assert_short(app, "ready")
    app.train()
    until(lambda: app.means.get("none"), "a checkpoint")
    assert_short(app, "running")
    app.stop()
    until(lambda: not app.running, "the end")
    assert_short(app, "stopped")
    app.steps = 10
    app.train().result(DEADLINE)
    for question in ("longer windows", "gap", "by position", "same targets", "facts", "needle"):
        open_tab(app, question)
        assert_short(app, question)
        app.seed = 1 - app.seed
        assert_short(app, f"{question}, with other settings")
        app.seed = 1 - app.seed


def test_details_stay_the_same_during_a_race(long_race: LengthLab) -> None:
    details, caption = long_race.details, long_race.caption
    until(lambda: long_race.caption != caption, "a checkpoint")
    assert long_race.details == details, "an open <details> closes when its text changes"


@pytest.mark.parametrize(
    ("rises", "sentence"),
    [
        (
            {"alibi": [0.01], "sinusoidal": [2.01], "rotary": [1.86]},
            "alibi is still as good as at 8 (+0.01 bits per byte), while sinusoidal (+2.01) and rotary (+1.86) fail.",
        ),
        (
            {"none": [2.0], "t5": [0.3], "a, b": [-0.02], "kerple": [0.08], "fire": [0.0, 0.6]},
            '"a, b" (-0.02 bits per byte) and kerple (+0.08) are still as good as at 8, '
            "while t5 degrades (+0.30), none fails (+2.00) and fire differs between seeds (+0.30).",
        ),
        ({"none": [2.0]}, "none fails (+2.00 bits per byte)."),
    ],
)
def test_outcome_is_one_sentence(
    trained: LengthLab, monkeypatch: pytest.MonkeyPatch, rises: dict[str, list[float]], sentence: str
) -> None:
    monkeypatch.setattr(captions, "rises", lambda curves: rises)
    trained.refresh()
    assert trained.caption.startswith(f"Up to 128 bytes, {sentence}")
