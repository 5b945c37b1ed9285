"""What LengthLab says: how a race goes on, how it ended, and what its models write.

In sentences a method has the name that prose gives it, such as ALiBi; beside its text stands the
name of the method in the code, such as alibi.
"""

import html
import math
from collections.abc import Sequence
from typing import NamedTuple

import pandas as pd

from alibi_viz.data.tales import mentions
from alibi_viz.formatting import format_percent, in_prose
from alibi_viz.measure.sentences import (
    compared_with_counting,
    findings,
    join,
    learned_by_heart,
    outcome,
    rises,
)
from alibi_viz.measure.table import TRAINING_LOSS, results_table
from alibi_viz.widgets.race.state import HERO, IN_LETTERS, RaceState, Written

# A text of which at least this share of the validation part is in the training part, too, is said
# to repeat itself.
REPEATED = 0.1
# Of a method on longer sequences, as `sentences.outcome` classifies.
OUTCOMES = ("holds", "degrades", "fails")
# Whether a text names its hero again.
YES_OR_NO = ("yes", "no")
CHANGED = "The settings have changed since this race: train again to apply them."


class Verdict(NamedTuple):
    """A guess of the reader, and what turned out."""

    guess: str
    answer: str

    @property
    def is_right(self) -> bool:
        """Whether the reader guessed right."""
        return self.guess == self.answer


def caption(
    race: RaceState, results: pd.DataFrame, step: int | None, *, is_outdated: bool
) -> tuple[str, str]:
    """What a race says in at most two sentences, and its details.

    Args:
        race: the race that is shown.
        results: the losses that are shown.
        step: after which they were measured, if the reader has gone back to it; None for the last.
        is_outdated: whether Train would start another race than this one.
    """
    results = _labeled_in_prose(results)
    if race.state == "ready":
        return _invitation(race), ""
    if race.state == "running":
        return _progress(race), ""  # open details would close whenever their text changes
    if step is not None:
        return _losses_then(race, step, results), ""
    if race.state == "finished":
        sentences = [CHANGED] if is_outdated else []
        sentences += _findings(race, results)
        return " ".join(sentences[:2]), " ".join([*sentences[2:], *_training_facts(race, results)])
    if is_outdated:
        return CHANGED, ""
    end = "Stopped" if race.state == "stopped" else "Ended by an error"
    return f"{end} after step {max(race.steps_done.values()):,} of {race.steps:,}.", ""


def verdicts(race: RaceState) -> dict[str, Verdict]:
    """{method, or the hero of the tale: the guess about it, and the answer}.

    Empty before the race is over: models that have learned little can't fail.
    """
    if race.state != "finished":
        return {}
    judged = {}
    for method, rises_of_method in rises(race.results()).items():
        guess = race.guesses.get(method)
        answer = outcome(rises_of_method)
        if guess is not None and answer in OUTCOMES:
            judged[method] = Verdict(guess, answer)

    if race.emma is not None and "alibi" in race.methods:
        answer = "yes" if race.written["alibi"].names_hero else "no"
        judged[HERO] = Verdict(race.emma, answer)
    return judged


def progress_bar(race: RaceState, method: str, step: int) -> str:
    """How far the training of a method is, as HTML."""
    return (
        f'<div class="progress-bar" role="progressbar" aria-label="{html.escape(method)}" '
        f'aria-valuenow="{step}" aria-valuemin="0" aria-valuemax="{race.steps}" '
        f'style="--color: {race.color(method)}; --done: {step / race.steps:.1%}"></div>'
    )


def text_of(method: str, written: Written | None, length: int) -> str:
    """The first text of a method for its column, as HTML, with the share of its known words.

    The hero of the tale is marked, and every word beyond the training length that isn't known.
    Without a text, it says what will stand here.
    """
    if written is None:
        share = "&nbsp;"
        page = '<span class="prompt">What it writes appears here while it trains.</span>'
    else:
        share = _share_of_known_words(written, length)
        page = ""
        for css_class, part in written.texts[0]._asdict().items():
            unknown = written.unknown if css_class == "beyond" else []
            page += f'<span class="{css_class}">{_marked(part, unknown)}</span>'
    label = f"what {html.escape(in_prose(method))} writes"
    return f'<p>{share}</p><pre tabindex="0" role="region" aria-label="{label}">{page}</pre>'


# The sentences of a caption.


def _invitation(race: RaceState) -> str:
    if not race.methods:
        return "No method is chosen: select at least one."
    methods = join([in_prose(method) for method in race.methods])
    learn = "learns" if len(race.methods) == 1 else "learn"
    are_tested = "is tested" if len(race.methods) == 1 else "are tested"
    return (
        f"Guess, then press Train. {methods} {learn} from texts of {race.length} letters and "
        f"{are_tested} on texts up to 16 times as long."
    )


def _progress(race: RaceState) -> str:
    """When the models were last tested; not the step, which screen readers would read out."""
    last_step = max(race.tested_steps, default=None)
    if last_step is None:
        return "They are tested before they train."
    if last_step == 0:
        return "Before training they write at random. Watch how their texts change."
    left = ""
    if race.seconds_left > 60:
        left = f", with about {math.ceil(race.seconds_left / 60)} minutes left,"
    tested = f"They train{left} and were last tested after step {last_step:,}."
    return f"{tested} Watch how their texts change."


def _losses_then(race: RaceState, step: int, results: pd.DataFrame) -> str:
    """The losses on the longest texts after an earlier step."""
    longest = results["x"].max()
    at_longest = results[results["x"] == longest]
    values = []
    for label, bits in zip(at_longest["label"], at_longest["value"], strict=True):
        needs = "isn't defined" if math.isnan(bits) else f"needs {bits:.2f} bits per letter"
        values.append(f"{in_prose(label)} {needs}")
    when = f"After step {step:,} of {race.steps:,}" if step else "Before training"
    return f"{when}, on texts of {longest:,} letters: {join(values)}."


def _labeled_in_prose(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, with the names of methods for sentences."""
    return rows.assign(label=rows["label"].map(in_prose))


def _findings(race: RaceState, results: pd.DataFrame) -> list[str]:
    """What was learned by heart, which guesses were right, and what the losses say."""
    training = [row for row in race.rows if row["question"] == TRAINING_LOSS]
    by_heart = learned_by_heart(_labeled_in_prose(results_table(training)), results)
    told = findings(IN_LETTERS, results, up_to=f"{results['x'].max():,} letters")
    return [*by_heart, *_judged_guesses(race), *told]


def _judged_guesses(race: RaceState) -> list[str]:
    """Which guesses were right, in one sentence; none without a guess."""
    right: list[str] = []
    wrong: list[str] = []
    for name, verdict in verdicts(race).items():
        judged = right if verdict.is_right else wrong
        judged.append(f"{in_prose(name)} ({verdict.guess})")

    clauses = []
    if right:
        clauses.append(f"right about {join(right)}")
    if wrong:
        clauses.append(f"wrong about {join(wrong)}")
    if not clauses:
        return []
    # A list that ends with "and" needs a comma before the next one.
    separator = ", and " if len(right) > 1 else " and "
    return [f"You guessed {separator.join(clauses)}."]


def _training_facts(race: RaceState, results: pd.DataFrame) -> list[str]:
    """What the losses can be compared with, what the models were trained on, and how much of it
    repeats itself."""
    text = race.source
    facts = compared_with_counting(IN_LETTERS, results, text.yardsticks)
    facts.append(
        f"Trained {race.steps:,} steps on sequences of {race.length} letters of {text.name}, "
        f"seed {race.seed}."
    )
    if text.repeats >= REPEATED:
        facts.append(
            f"{format_percent(text.repeats)} of its validation part also stands in its training "
            "part."
        )
    return facts


# What the models write.


def _share_of_known_words(written: Written, length: int) -> str:
    """How many of the words beyond the training length are known, or why there are none."""
    if not written.texts[0].beyond:
        return f"not defined beyond letter {length}"
    if math.isnan(written.known_words):
        return f"no words beyond letter {length}"
    return f"<b>{format_percent(written.known_words)}</b> real words beyond letter {length}"


def _marked(part: str, unknown: Sequence[tuple[int, int]]) -> str:
    """A part of a text, with the name of the tale's hero and the unknown words marked."""
    marks = [(start, end, "s") for start, end in unknown]
    for mention in mentions(part):
        if mention.value == HERO:
            marks.append((mention.start, mention.stop, "b"))

    marked = ""
    done = 0
    for start, end, tag in sorted(marks):
        if start < done:
            continue  # the name of the hero may be no word of another text
        word = f"<{tag}>{_printable(part[start:end])}</{tag}>"
        marked += _printable(part[done:start]) + word
        done = end
    return marked + _printable(part[done:])


def _printable(text: str) -> str:
    """Escaped text without control characters, some of which would reverse it or end the page."""
    printable = [
        character if character.isprintable() or character == "\n" else "\ufffd"
        for character in text
    ]
    return html.escape("".join(printable))
