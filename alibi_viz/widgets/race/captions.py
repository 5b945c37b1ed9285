"""What LengthLab says: the outcome of a race, its progress, and what its models write."""

import html
import math

import pandas as pd

from alibi_viz import lab
from alibi_viz.data.tales import Mention, mentions
from alibi_viz.measure import sentences as say
from alibi_viz.measure.continuations import Continuation
from alibi_viz.measure.questions import Question
from alibi_viz.measure.sentences import join, outcome, outcomes, rises
from alibi_viz.widgets.race.state import RaceState

REPEATED = 0.1  # share of the validation part: from here on, repeats are told
LEGEND = (
    "Names, animals, places and things are <b>&nbsp;from the first {} bytes&nbsp;</b> or "
    "<u>&nbsp;new&nbsp;</u>."
)
OUTCOMES = (
    "holds",
    "degrades",
    "fails",
)  # of a method on longer sequences, as `sentences.outcome` classifies


def caption(
    race: RaceState, question: Question, results: pd.DataFrame, note: str, measuring: bool
) -> tuple[str, str]:
    """What `results`, the rows of one question, show: in at most two sentences, and the details.

    `note` comes first, unless it is empty. `measuring` says whether the trained models are being
    measured.
    """
    head = note or _status(race)
    if race.state == "ready":
        findings = [question.summary]
    elif race.failed:
        findings = ["Training did not finish, so the methods cannot be compared."]
    elif race.unmeasured(question):
        later = "The models are being measured." if measuring else "The models were not measured."
        findings = [
            "The models will be measured when the race is over."
            if race.state == "running"
            else later
        ]
    else:
        findings = say.sentences(question.say(results, race.length))
        if question is race.main and race.task == "text":
            guesses, clauses = _judge_guesses(race, results), outcomes(rises(results))
            if (
                clauses
            ):  # the first of `findings`, with the length and the unit that it leaves to the figure
                seeds = "in every seed " * (len(race.counted) > 1)
                ending = (
                    f"Up to {results['x'].max():,} bytes, {seeds}{'; '.join(clauses)}, in "
                    "bits per byte."
                )
                findings = [ending, *findings[1:]]
            head, findings = head or guesses, [guesses if head else "", *findings]
    sentences = [sentence for sentence in (head, *findings) if sentence]
    if (
        race.state == "running" or not race.complete
    ):  # open details would close whenever their text changes
        return " ".join(sentences[:2]), ""
    trained = (
        f"Trained {race.steps:,} steps on {race.source_name}, seeds: "
        f"{join(list(map(str, race.complete)))}."
    )
    if isinstance(race.source, lab.Text) and race.source.repeats >= REPEATED:
        trained += (
            f" {race.source.repeats:.0%} of its validation part also stands in its training part."
        )
    return " ".join(sentences[:2]), " ".join([*sentences[2:], trained])


def lanes(race: RaceState) -> str:
    """One line per method, HTML: its progress bar and its steps."""
    lines, done = [], race.losses["method"].value_counts()
    for method in race.methods:
        step, color, name = done.get(method, 0), race.color(method), html.escape(method)
        style = f"--color: {color}; --done: {step / race.steps:.1%}"
        lines.append(
            f'<span style="border-left: 4px solid {color}; padding-left: 8px">{name}</span>'
            f'<div class="progress-bar" role="progressbar" aria-label="{name}" '
            f'aria-valuenow="{step}" '
            f'aria-valuemin="0" aria-valuemax="{race.steps}" style="{style}"></div>'
            f"<span>step {step:,} of {race.steps:,}</span>"
        )
    return f'<div class="alibi-lanes">{"".join(lines)}</div>'


def written_html(race: RaceState) -> str:
    """The first text of each method, with everything beyond the training length shaded; empty if
    there is none.

    Names, animals, places and things of the tales are bold if they occur up to the training length,
    others underlined.
    """
    blocks = []
    for method, (texts, known) in dict(race.written).items():  # a copy: a running race adds to it
        note = (
            f": {known:.0%} of the shaded words, in {len(texts)} such texts, occur in the "
            "training text"
        )
        note = "" if math.isnan(known) else note
        note = note if texts[0].beyond else f" (not defined beyond {race.length})"
        text = (
            '<pre tabindex="0" style="border-left: 4px solid '
            f'{race.color(method)}">{_marked(texts[0])}</pre>'
        )
        blocks.append(f"<div>{html.escape(method)}{note}</div>{text}")
    body = "".join(blocks)
    legend = LEGEND.format(race.length) if "</b>" in body or "</u>" in body else ""
    return bool(blocks) * (
        '<details open class="alibi-written"><summary>What they write</summary>'
        f"<p>All continue the same {race.length // 2} bytes (paler); text beyond the training "
        f"length of {race.length} "
        f'is <span class="beyond">shaded</span>. {legend}</p>{body}</details>'
    )


def _status(race: RaceState) -> str:
    """What is to be done, being done, or was ended early; empty for a race that has finished."""
    seeds = f", seed {max(1, len(race.models))} of {race.seeds}" * (race.seeds > 1)
    match race.state:
        case "ready" if not race.methods:
            return "No method is chosen: select at least one."
        case "ready":
            train, are = ("trains", "is") if len(race.methods) == 1 else ("train", "are")
            return (
                f"Press Train: {join(race.methods)} {train} on {race.source_name}, and {are} "
                "tested on longer ones."
            )
        case "running":  # without the step, which screen readers would announce
            seed, name = max(race.models, default=None), race.main.name
            step = max(
                (
                    row["step"]
                    for row in race.rows
                    if (row["seed"], row["question"]) == (seed, name)
                ),
                default=0,
            )
            tested = f"last tested after step {step}" if step else "not tested yet"
            return f"Training on {race.source_name}{seeds}, {tested}."
        case "finished":
            return ""
    end = "Stopped" if race.state == "stopped" else "Ended by an error"
    return f"{end} after step {max(race.losses['x'], default=0):,} of {race.steps:,}{seeds}."


def _judge_guesses(race: RaceState, results: pd.DataFrame) -> str:
    """Which guesses were right; empty before the race is over, because what has learned little
    can't fail."""
    judged: dict[str, list[str]] = {"right": [], "wrong": []}
    for method, each in rises(results).items():
        guess, actual = race.guesses.get(method), outcome(each)
        if guess and race.complete and actual != "mixed":
            judged["right" if guess == actual else "wrong"].append(f"{method} ({guess})")
    clauses = [f"{verdict} about {join(methods)}" for verdict, methods in judged.items() if methods]
    return f"You guessed {join(clauses)}." if clauses else ""


def _marked(text: Continuation) -> str:
    """The three parts of a text, with the mentions in each of them marked."""
    end = len(text.prompt) + len(text.within)
    opening = [mention for mention in mentions("".join(text)) if mention.start < end]
    return "".join(
        f'<span class="{css}">{_mark(part, opening)}</span>' for css, part in text._asdict().items()
    )


def _mark(part: str, opening: list[Mention]) -> str:
    """A part of a text, with its mentions marked: those of the opening, and new ones."""
    values, shown, end = {mention.value for mention in opening}, "", 0
    for mention in mentions(part):
        tag = "b" if mention.value in values else "u"
        shown += (
            f"{_printable(part[end : mention.start])}<{tag}>{_printable(mention.value)}</{tag}>"
        )
        end = mention.stop
    return shown + _printable(part[end:])


def _printable(text: str) -> str:
    """Escaped text, with control characters replaced, some of which would reverse the text or end
    the page."""
    return html.escape(
        "".join(letter if letter.isprintable() or letter == "\n" else "\ufffd" for letter in text)
    )
