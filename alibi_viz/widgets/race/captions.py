"""What LengthLab says: the outcome of a race, what it rests on, its progress, and what its models write."""

import html
import math

import pandas as pd

from alibi_viz import lab
from alibi_viz.lab import say
from alibi_viz.lab.evaluation import Continuation
from alibi_viz.lab.questions import Question
from alibi_viz.lab.say import join, outcome, outcomes, rises
from alibi_viz.lab.tales import Mention, mentions
from alibi_viz.table import LEVEL, SEEDS
from alibi_viz.widgets.race.state import RaceState

REPEATED = 0.1  # share of the validation part: from here on, repeats are told
LEGEND = "Names, animals, places and things are <b>&nbsp;from the opening&nbsp;</b> or <u>&nbsp;new&nbsp;</u>."
OUTCOMES = ("holds", "degrades", "fails")  # of a method on longer windows, as `lab.say.outcome` classifies


def caption(race: RaceState, question: Question, results: pd.DataFrame, note: str, measuring: bool) -> tuple[str, str]:
    """What `results`, the rows of one question, show: in at most two sentences, and the details.

    `note` comes first, unless it is empty. `measuring` says whether the trained models are being measured.
    """
    head = note or _status(race)
    if race.state == "ready":
        findings = [question.summary]
    elif race.failed:
        findings = ["Training did not finish, so the methods cannot be compared."]
    elif race.unmeasured(question):
        later = "The models are being measured." if measuring else "The models were not measured."
        findings = ["The models will be measured when the race is over." if race.state == "running" else later]
    else:
        findings = say.sentences(question.say(results, race.length))
        if question is race.main and race.task == "text":
            guesses = _judge_guesses(race, results)
            head, findings = head or guesses, [_outcome(results), guesses if head else "", *findings]
    sentences = [sentence for sentence in (head, *findings) if sentence]
    # The same during a race, because an open <details> closes when its text changes.
    is_open = race.state in ("ready", "running")
    details = [] if is_open else [*sentences[2:], *_evidence(race, question, results)]
    details = details or [f"All methods start from the same weights and train for {race.steps:,} steps per seed."]
    return " ".join(sentences[:2]), " ".join(details)


def lanes(race: RaceState) -> str:
    """One line per method, HTML: its progress bar and its steps."""
    lines, done = [], race.losses["method"].value_counts()
    for method in race.methods:
        step, color, name = done.get(method, 0), race.color(method), html.escape(method)
        style = f"--color: {color}; --done: {step / race.steps:.1%}"
        lines.append(
            f'<span style="border-left: 4px solid {color}; padding-left: 8px">{name}</span>'
            f'<div class="progress-bar" role="progressbar" aria-label="{name}" aria-valuenow="{step}" '
            f'aria-valuemin="0" aria-valuemax="{race.steps}" style="{style}"></div>'
            f"<span>step {step:,} of {race.steps:,}</span><span>{race.state}</span>"
        )
    return f'<div class="alibi-lanes">{"".join(lines)}</div>'


def _status(race: RaceState) -> str:
    """What is to be done, being done, or was ended early; empty for a race that has finished."""
    step, seeds = race.results(race.main)["step"].max(), f", seed {len(race.models)} of {race.seeds}" * (race.seeds > 1)
    tested = "not tested yet" if pd.isna(step) else f"last tested after step {step}"
    match race.state:
        case "ready" if not race.methods:
            return "No method is chosen: select at least one."
        case "ready":
            return f"Press Train: {join(race.methods)} train on {race.source_name}, and are tested on longer ones."
        case "running":  # without the step, which screen readers would announce
            return f"Training on {race.source_name}{seeds}, {tested}."
        case "finished":
            return ""
    end, done = "Stopped" if race.state == "stopped" else "Ended by an error", max(race.losses["x"], default=0)
    return f"{end} after step {done:,} of {race.steps:,}{seeds}, {tested}."


def _judge_guesses(race: RaceState, results: pd.DataFrame) -> str:
    """Which guesses were right; empty before the race is over, because what has learned little can't fail."""
    judged: dict[str, list[str]] = {"right": [], "wrong": []}
    for method, each in rises(results).items():
        guess, actual = race.guesses.get(method), outcome(each)
        if guess and race.complete and actual != "mixed":
            judged["right" if guess == actual else "wrong"].append(f"{method} ({guess})")
    clauses = [f"{verdict} about {join(methods)}" for verdict, methods in judged.items() if methods]
    return f"You guessed {join(clauses)}." if clauses else ""


def _outcome(results: pd.DataFrame) -> str:
    """How each method does on longer windows, in one sentence; empty if no method is defined there."""
    clauses = outcomes(rises(results))
    return f"Up to {results['x'].max():,} bytes, {'; '.join(clauses)}, in bits per byte." if clauses else ""


def _evidence(race: RaceState, question: Question, results: pd.DataFrame) -> list[str]:
    """What the findings rest on: the training, the samples and the seeds; nothing before a seed is complete."""
    seeds = len(race.complete)
    if not seeds:
        return []
    names = f"seed{'s' * (seeds > 1)} {join(list(map(str, race.complete)))}"
    sentences = [f"Trained {race.steps:,} steps on {race.source_name}, {names}."]
    if isinstance(race.source, lab.Text) and race.source.repeats >= REPEATED:
        sentences.append(f"{race.source.repeats:.0%} of its validation part also stands in its training part.")
    if question is race.main and race.marks:
        near, far = race.marks.values()
        sentences.append(
            f"In alibi's flattest head, a key {near:,.0f} tokens back (1/m) gets 37% of the weight of the current one "
            f"if their content is equal, and a key {far:,.0f} back (4/m) gets 2%: a flat curve doesn't mean that the "
            "model uses the whole text."
        )
    if question.unit == "bits per byte" and not results.empty:  # with other bytes, the same model has another loss
        sentences.append(f"Each point is the mean over up to {results['count'].max():,} predicted bytes.")
    bars = f", bars its {LEVEL:.0%} interval" * (seeds >= SEEDS)
    several = f"Thin lines are the {seeds} seeds, thick lines their mean{bars}."
    return [*sentences, several if seeds > 1 else "This is a single seed: train several to see how results vary."]


def written_html(race: RaceState) -> str:
    """The first text of each method, with everything beyond the training length shaded; empty if there is none.

    Names, animals, places and things of the tales are marked: in bold if they occur up to the training length,
    underlined if the text names another one later.
    """
    blocks = []
    for method, (texts, known) in dict(race.written).items():  # a copy: a running race adds to it
        note = "" if math.isnan(known) else f": {known:.0%} of its words occur in the training text"
        note = note if texts[0].beyond else f" (not defined beyond {race.length})"
        color = f"border-left: 4px solid {race.color(method)}"
        blocks.append(
            f'<div>{html.escape(method)}{note}</div><pre tabindex="0" style="{color}">{_marked(texts[0])}</pre>'
        )
    body = "".join(blocks)
    return body and (
        '<details open class="alibi-written"><summary>What they write</summary>'
        f"<p>All continue the same {race.length // 2} bytes (paler); text beyond the training length of {race.length} "
        f'is <span class="beyond">shaded</span>. {LEGEND if "</b>" in body else ""}</p>{body}</details>'
    )


def _marked(text: Continuation) -> str:
    """The three parts of a text, with the mentions in each of them marked."""
    end = len(text.prompt) + len(text.within)
    opening = [mention for mention in mentions("".join(text)) if mention.start < end]
    return "".join(
        f'<span class="{css}">{_mark(part, opening)}</span>' for css, part in zip(text._fields, text, strict=True)
    )


def _mark(part: str, opening: list[Mention]) -> str:
    """A part of a text, with its mentions marked that are of a kind that occurs in the opening."""
    values, kinds = {mention.value for mention in opening}, {mention.kind for mention in opening}
    shown, end = "", 0
    for mention in mentions(part):
        if mention.kind in kinds:
            tag = "b" if mention.value in values else "u"
            words = _printable(part[mention.start : mention.stop])
            shown += f"{_printable(part[end : mention.start])}<{tag}>{words}</{tag}>"
            end = mention.stop
    return shown + _printable(part[end:])


def _printable(text: str) -> str:
    """Escaped text, with control characters replaced, some of which would reverse the text or end the page."""
    return html.escape("".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text))
