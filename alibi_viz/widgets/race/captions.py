"""What LengthLab says: the outcome of a race, its progress, and what its models write.

In sentences a method has the name that prose gives it, such as ALiBi; beside its bar and its text
stands the name of the method in the code, such as alibi.
"""

import html
import math
from typing import NamedTuple

import pandas as pd

from alibi_viz import lab
from alibi_viz.data.tales import mentions
from alibi_viz.formatting import format_percent, in_prose
from alibi_viz.measure.continuations import Continuation
from alibi_viz.measure.questions import Question
from alibi_viz.measure.sentences import (
    compared_with_counting,
    findings,
    join,
    learned_by_heart,
    outcome,
    rises,
)
from alibi_viz.measure.table import TRAINING_LOSS
from alibi_viz.widgets.race.state import HERO, RaceState

# A text of which at least this share of the validation part is in the training part, too, is said
# to repeat itself.
REPEATED = 0.1
LEGEND = (
    "Names, animals, places and things are <b>&nbsp;from the first {} bytes&nbsp;</b> or "
    "<u>&nbsp;new&nbsp;</u>."
)
# Of a method on longer sequences, as `sentences.outcome` classifies.
OUTCOMES = ("holds", "degrades", "fails")
# Whether a text names its hero again.
YES_OR_NO = ("yes", "no")


class Verdict(NamedTuple):
    """A guess of the reader, and what turned out."""

    guess: str
    answer: str

    @property
    def is_right(self) -> bool:
        """Whether the reader guessed right."""
        return self.guess == self.answer


def caption(
    race: RaceState, question: Question, results: pd.DataFrame, note: str, measuring: bool
) -> tuple[str, str]:
    """What a race says about a question, in at most two sentences, and the details.

    Args:
        race: the race that is shown.
        question: the open question.
        results: the rows of that question.
        note: comes first, unless it is empty.
        measuring: whether the trained models are being measured.
    """
    results = _labeled_in_prose(results)
    lines = [note or _status(race)]
    if race.state == "ready":
        lines.append(question.summary)
    elif race.failed:
        lines.append("Training did not finish, so the methods cannot be compared.")
    elif race.unmeasured(question):
        lines.append(_reason_unmeasured(race, measuring))
    else:
        lines += _findings(race, question, results)

    lines = [line for line in lines if line]
    summary = " ".join(lines[:2])

    # Open details would close whenever their text changes, so a running race has none.
    if race.state == "running" or not race.complete:
        return summary, ""
    details = [*lines[2:], *_yardsticks(race, question, results), *_training_facts(race)]
    return summary, " ".join(details)


def simple_caption(race: RaceState, results: pd.DataFrame, note: str) -> tuple[str, str]:
    """As `caption`, in the words of a first race, of which nobody has read a lesson yet."""
    results = _labeled_in_prose(results)
    if race.complete and race.state != "running":
        told = _findings(race, race.main, results, unit="letters")
        lines = [line for line in (note, *told) if line]
        details = [*lines[2:], *_yardsticks(race, race.main, results), *_training_facts(race)]
        return " ".join(lines[:2]), " ".join(details)
    if race.state == "ready":
        return _simple_invitation(race), ""
    if race.state == "running":
        return note or _simple_progress(race), ""
    return note or _status(race), ""


def caption_at(race: RaceState, step: int, results: pd.DataFrame) -> str:
    """What a race that is over shows when the reader goes back to one of its tests.

    `results` are those of its main question after this step.
    """
    results = _labeled_in_prose(results)
    longest = results["x"].max()
    means = results[results["x"] == longest].groupby("label", sort=False)["value"].mean()
    values = [f"{label} {_value_in_words(race.main, mean)}" for label, mean in means.items()]
    unit = "bytes" if race.task == "text" else "tokens"
    return (
        f"After step {step:,} of {race.steps:,}, on sequences of {longest:,} {unit}: "
        f"{join(values)}."
    )


def _value_in_words(question: Question, value: float) -> str:
    if math.isnan(value):
        return "isn't defined"
    if question.is_loss:
        return f"needs {value:.2f} bits per byte"
    return f"has {format_percent(value)} right"


def verdicts(race: RaceState, results: pd.DataFrame) -> dict[str, Verdict]:
    """{method, or the hero of the tale: the guess about it, and the answer}.

    Empty without guesses, and before the race is over. The guess about a method on which the seeds
    disagree is left out.

    Args:
        race: of which the guesses are.
        results: the rows of its main question, labeled with the methods.
    """
    if not race.complete or race.task != "text":
        return {}  # models that have learned little can't fail

    judged = {}
    for method, rises_of_method in rises(results).items():
        guess = race.guesses.get(method)
        answer = outcome(rises_of_method)
        if guess is not None and answer in OUTCOMES:
            judged[method] = Verdict(guess, answer)

    if race.emma is not None and "alibi" in race.written:
        answer = "yes" if race.written["alibi"].names_hero else "no"
        judged[HERO] = Verdict(race.emma, answer)
    return judged


def lanes(race: RaceState, step: int | None = None) -> str:
    """One line per method, as HTML: its progress bar and its steps, now or at an earlier step."""
    steps = steps_done(race, step)
    lines = []
    for method in race.methods:
        color = race.color(method)
        name = html.escape(method)
        lines.append(
            f'<span style="border-left: 4px solid {color}; padding-left: 8px">{name}</span>'
            f"{progress_bar(race, method, steps[method])}"
            f"<span>step {steps[method]:,} of {race.steps:,}</span>"
        )
    return f'<div class="alibi-lanes">{"".join(lines)}</div>'


def steps_done(race: RaceState, step: int | None = None) -> dict[str, int]:
    """How many steps of the latest seed each method has trained, now or at an earlier step."""
    if step is not None:
        return dict.fromkeys(race.methods, step)
    counts = race.losses["method"].value_counts()
    return {method: int(counts.get(method, 0)) for method in race.methods}


def progress_bar(race: RaceState, method: str, step: int) -> str:
    """How far the training of a method is, as HTML."""
    return (
        f'<div class="progress-bar" role="progressbar" aria-label="{html.escape(method)}" '
        f'aria-valuenow="{step}" aria-valuemin="0" aria-valuemax="{race.steps}" '
        f'style="--color: {race.color(method)}; --done: {step / race.steps:.1%}"></div>'
    )


def text_beside_others(race: RaceState, method: str, step: int | None = None) -> str:
    """The first text of a method for its column, as HTML, with the share of its known words; the
    latest one, or the one from the test after a step.

    The hero of the tale is marked. Before the first test, it says what will stand here.
    """
    texts_of_methods = race.written if step is None else race.written_at.get(step, {})
    written = texts_of_methods.get(method)
    if written is None:
        share = "&nbsp;"
        page = '<span class="prompt">What it writes appears here while it trains.</span>'
    else:
        share = _share_of_known_words(race, written.texts, written.known_words)
        parts = written.texts[0]._asdict()
        page = "".join(
            f'<span class="{css_class}">{_mark_hero(part)}</span>'
            for css_class, part in parts.items()
        )
    label = f"what {html.escape(in_prose(method))} writes"
    return f'<p>{share}</p><pre tabindex="0" role="region" aria-label="{label}">{page}</pre>'


def written_html(race: RaceState) -> str:
    """The first text of each method, as HTML; empty if there is none.

    Everything beyond the training length is shaded. Names, animals, places and things of the tales
    are bold if they occur up to the training length, others underlined.
    """
    written = dict(race.written)  # a copy: a running race adds to it
    if not written:
        return ""

    blocks = []
    for method, (texts, known_words) in written.items():
        note = _note_on_words(race, texts, known_words)
        blocks.append(
            f"<div>{html.escape(method)}{note}</div>"
            f'<pre tabindex="0" style="border-left: 4px solid {race.color(method)}">'
            f"{_marked(texts[0])}</pre>"
        )
    body = "".join(blocks)

    has_mentions = "</b>" in body or "</u>" in body
    legend = LEGEND.format(race.length) if has_mentions else ""
    return (
        '<details open class="alibi-written"><summary>What they write</summary>'
        f"<p>All continue the same {race.length // 2} bytes (paler); text beyond the training "
        f'length of {race.length} is <span class="beyond">shaded</span>. {legend}</p>'
        f"{body}</details>"
    )


# The sentences of a caption.


def _status(race: RaceState) -> str:
    """What is to be done, being done, or was ended early; empty for a race that has finished."""
    match race.state:
        case "ready":
            return _invitation(race)
        case "running":
            return _progress(race)
        case "finished":
            return ""
    end = "Stopped" if race.state == "stopped" else "Ended by an error"
    step = max(race.losses["x"], default=0)
    return f"{end} after step {step:,} of {race.steps:,}{_seed_of_seeds(race)}."


def _invitation(race: RaceState) -> str:
    if not race.methods:
        return "No method is chosen: select at least one."
    methods = join([in_prose(method) for method in race.methods])
    if len(race.methods) == 1:
        return f"Press Train: {methods} trains on {race.source_name}, and is tested on longer ones."
    return f"Press Train: {methods} train on {race.source_name}, and are tested on longer ones."


def _simple_invitation(race: RaceState) -> str:
    if not race.methods:
        return _invitation(race)
    methods = join([in_prose(method) for method in race.methods])
    learn = "learns" if len(race.methods) == 1 else "learn"
    is_tested = "is tested" if len(race.methods) == 1 else "are tested"
    start = "Guess, then press Train" if race.guesses else "Press Train"
    return (
        f"{start}. {methods} {learn} from texts of {race.length} letters and {is_tested} on texts "
        "up to 16 times as long."
    )


def _simple_progress(race: RaceState) -> str:
    last_step = _last_tested_step(race)
    if last_step == 0:
        return "They train, and will write as soon as they are tested."
    return (
        f"They train and were last tested after step {last_step:,}. Watch how their texts change."
    )


def _progress(race: RaceState) -> str:
    """What is trained, and when it was tested; without the step, which screen readers would read
    out."""
    last_step = _last_tested_step(race)
    tested = f"last tested after step {last_step}" if last_step else "not tested yet"
    return f"Training on {race.source_name}{_seed_of_seeds(race)}, {tested}."


def _last_tested_step(race: RaceState) -> int:
    """The last step of the latest seed after which a model was tested; 0 before the first test."""
    seed = max(race.models, default=None)
    tests = [
        row["step"]
        for row in race.rows
        if row["seed"] == seed and row["question"] == race.main.name
    ]
    return max(tests, default=0)


def _seed_of_seeds(race: RaceState) -> str:
    if race.seeds == 1:
        return ""
    number = max(1, len(race.models))
    return f", seed {number} of {race.seeds}"


def _reason_unmeasured(race: RaceState, measuring: bool) -> str:
    if race.state == "running":
        return "The models will be measured when the race is over."
    if measuring:
        return "The models are being measured."
    return "The models were not measured."


def _labeled_in_prose(rows: pd.DataFrame) -> pd.DataFrame:
    """The rows, with the names of methods for sentences."""
    return rows.assign(label=rows["label"].map(in_prose))


def _findings(
    race: RaceState, question: Question, results: pd.DataFrame, unit: str = "bytes"
) -> list[str]:
    """The answer to a question; on longer sequences of a text, also which guesses were right.

    The results are labeled in prose. `unit` is what lengths are counted in.
    """
    if question is not race.main or race.task != "text":
        return findings(question, results)

    table = race.table
    is_training = (table["question"] == TRAINING_LOSS) & table["seed"].isin(race.counted)
    training = _labeled_in_prose(table[is_training])
    by_heart = learned_by_heart(training, results)
    judged = _judge_guesses(race, results.assign(label=results["method"]))
    told = findings(question, results, up_to=f"{results['x'].max():,} {unit}")
    return [*by_heart, judged, *told]


def _judge_guesses(race: RaceState, results: pd.DataFrame) -> str:
    """Which guesses were right; empty without any, and before the race is over."""
    right: list[str] = []
    wrong: list[str] = []
    for name, verdict in verdicts(race, results).items():
        judged = right if verdict.is_right else wrong
        judged.append(f"{in_prose(name)} ({verdict.guess})")

    clauses = []
    if right:
        clauses.append(f"right about {join(right)}")
    if wrong:
        clauses.append(f"wrong about {join(wrong)}")
    if not clauses:
        return ""
    # A list that ends with "and" needs a comma before the next one.
    separator = ", and " if len(right) > 1 else " and "
    return f"You guessed {separator.join(clauses)}."


def _yardsticks(race: RaceState, question: Question, results: pd.DataFrame) -> list[str]:
    """What losses can be compared with; nothing for values that are no losses."""
    if not question.is_loss or not isinstance(race.source, lab.Text):
        return []
    return compared_with_counting(question, results, race.source.yardsticks)


def _training_facts(race: RaceState) -> list[str]:
    """What the models were trained on, and how much of it repeats itself."""
    seeds = join([str(seed) for seed in race.complete])
    facts = [f"Trained {race.steps:,} steps on {race.source_name}, seeds: {seeds}."]
    text = race.source
    if isinstance(text, lab.Text) and text.repeats >= REPEATED:
        facts.append(
            f"{format_percent(text.repeats)} of its validation part also stands in its training "
            "part."
        )
    return facts


# What the models write.


def _note_on_words(race: RaceState, texts: list[Continuation], known_words: float) -> str:
    """How many of the words beyond the training length are known, or why there are none."""
    if not texts[0].beyond:
        return f" (not defined beyond {race.length})"
    if math.isnan(known_words):
        return ""
    return (
        f": {format_percent(known_words)} of the shaded words, in {len(texts)} such texts, occur "
        "in the training text"
    )


def _share_of_known_words(race: RaceState, texts: list[Continuation], known_words: float) -> str:
    """How many of the words beyond the training length are known, or why there are none."""
    if not texts[0].beyond:
        return f"not defined beyond letter {race.length}"
    if math.isnan(known_words):
        return f"no words beyond letter {race.length}"
    return f"<b>{format_percent(known_words)}</b> real words beyond letter {race.length}"


def _mark_hero(part: str) -> str:
    """A part of a text, with the name of the tale's hero marked."""
    marked = ""
    end = 0
    for mention in mentions(part):
        if mention.value == HERO:
            marked += f"{_printable(part[end : mention.start])}<b>{HERO}</b>"
            end = mention.stop
    return marked + _printable(part[end:])


def _marked(text: Continuation) -> str:
    """The three parts of a text, with the mentions in each of them marked."""
    opening_length = len(text.prompt) + len(text.within)
    opening = {
        mention.value for mention in mentions("".join(text)) if mention.start < opening_length
    }
    return "".join(
        f'<span class="{css_class}">{_mark(part, opening)}</span>'
        for css_class, part in text._asdict().items()
    )


def _mark(part: str, opening: set[str]) -> str:
    """A part of a text, with its mentions marked: those that the opening has, too, and new ones."""
    marked = ""
    end = 0
    for mention in mentions(part):
        tag = "b" if mention.value in opening else "u"
        marked += _printable(part[end : mention.start])
        marked += f"<{tag}>{_printable(mention.value)}</{tag}>"
        end = mention.stop
    return marked + _printable(part[end:])


def _printable(text: str) -> str:
    """Escaped text without control characters, some of which would reverse it or end the page."""
    printable = [
        character if character.isprintable() or character == "\n" else "\ufffd"
        for character in text
    ]
    return html.escape("".join(printable))
