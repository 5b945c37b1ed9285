"""The caption of LengthLab: the outcome of a race in two sentences, and in the details what it rests on."""

import html
import time

import pandas as pd

from alibi_viz import lab
from alibi_viz.lab import say
from alibi_viz.lab.questions import Question
from alibi_viz.lab.say import join, outcome, outcomes, rises
from alibi_viz.table import LEVEL, SEEDS
from alibi_viz.widgets.core.formatting import format_number
from alibi_viz.widgets.race.state import RaceState

FALLING = 0.02  # bits per byte: a larger fall between the last two checkpoints means that the models are under-trained
REPEATED = 0.1  # share of the validation part: from here on, repeats are told
VERBS = {
    "holds": ("is still as good as at {}", "are still as good as at {}"),
    "degrades": ("degrades", "degrade"),
    "fails": ("fails", "fail"),
    "mixed": ("differs between seeds", "differ between seeds"),
}


def caption(race: RaceState, question: Question, results: pd.DataFrame, note: str) -> tuple[str, str]:
    """What `results`, the rows of one question, show: in at most two sentences, and the details.

    `note` comes first, unless it is empty.
    """
    head, shown = note or _status(race), 2
    if race.state == "ready":
        findings = [question.summary]
    elif race.failed:
        findings = ["Training did not finish, so the methods cannot be compared."]
    elif race.unmeasured(question) and race.state == "running":
        findings = ["The models will be measured when the race is over."]
    elif race.unmeasured(question):
        findings = ["The models are being measured." if race.measuring else "Not every model was measured."]
    else:
        findings = say.sentences(question.say(results, race.length))
        if question is race.main and race.task == "text":
            guesses = _judge_guesses(race, results)
            head, findings = head or guesses, [_outcome(results), guesses if head else "", *findings]
            shown = 2 if head else 1
    sentences = [sentence for sentence in (head, *findings) if sentence]
    if race.state in ("ready", "running"):  # the same during a race: an open <details> closes when its text changes
        details = [_start(race)]
    else:
        details = [*sentences[shown:], *_evidence(race, question, results)]
    return " ".join(sentences[:shown]), " ".join(details)


def lanes(race: RaceState) -> str:
    """One line per method, HTML: its progress bar, steps, tokens per second and time left."""
    lines = []
    for method, done in race.done.items():
        left = (time.monotonic() - race.started) * (race.steps - done) / max(done, 1)
        running = f"{left:.0f} s left{' of this seed' if race.seeds > 1 else ''}" if done else "starting"
        end = {"ready": "", "running": running}.get(race.state, race.state)
        color, name, speed = race.color(method), html.escape(method), float(f"{race.speed(method):.3g}")
        bar = f'<div class="progress-bar" style="width: {100 * done / race.steps:.1f}%; background: {color}"></div>'
        lines.append(
            f'<span style="border-left: 4px solid {color}; padding-left: 8px">{name}</span>'
            f'<div class="progress" role="progressbar" aria-label="{name}" aria-valuenow="{done}" aria-valuemin="0" '
            f'aria-valuemax="{race.steps}">{bar}</div><span class="number">step {done:,} of {race.steps:,}</span>'
            f'<span class="number" style="min-width: 8.5em">{format_number(speed)} tokens/s</span>'
            f'<span class="number" style="min-width: 5em">{end}</span>'
        )
    return f'<div class="alibi-lanes">{"".join(lines)}</div>'


def _status(race: RaceState) -> str:
    """What is to be done, being done, or was ended early; empty for a race that has finished."""
    seeds, tested = len(race.models), race.checkpoint(max(race.models, default=-1))
    last_test = f"last tested after step {tested}" if tested else "not tested yet"
    match race.state:
        case "ready" if not race.methods:
            return "No method is chosen: select at least one."
        case "ready":
            where = "at distances" if race.task in lab.TASKS else "on windows"
            return (
                f"Press Train: {join(race.methods)} train on the same {race.source_name}, and are tested {where} of up "
                f"to {race.lengths[-1]:,}."
            )
        case "running":  # without the step, which screen readers would announce
            seed = f", seed {max(1, seeds)} of {race.seeds}" if race.seeds > 1 else ""
            return f"Training on {race.source_name}{seed}, {last_test}."
        case "finished":
            return ""
    end = "Stopped" if race.state == "stopped" else "Ended by an error"
    where = f"of seed {seeds} of {race.seeds}" if race.complete else f"of {race.steps:,}"
    return f"{end} after step {min(race.done.values()):,} {where}, {last_test}."


def _start(race: RaceState) -> str:
    """What the methods of a race share."""
    seeds = f" for each of {race.seeds} seeds" if race.seeds > 1 else ""
    return f"All methods start from the same weights and train for {race.steps:,} steps{seeds}."


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
    length, longest = results["x"].min(), results["x"].max()
    verbs = {kind: (one.format(f"{length:,}"), many.format(f"{length:,}")) for kind, (one, many) in VERBS.items()}
    clauses = outcomes(rises(results), verbs)
    sentence = ", while ".join(filter(None, [*clauses[:1], join(clauses[1:])]))
    return f"Up to {longest:,} bytes, {sentence}.".replace(")", " bits per byte)", 1) if clauses else ""


def _evidence(race: RaceState, question: Question, results: pd.DataFrame) -> list[str]:
    """What the findings rest on: the training, the samples and the seeds."""
    seeds = list(map(str, race.complete))
    if not seeds:
        return [_start(race)]
    plural = "s" * (len(seeds) > 1)
    sentences = [f"Trained {race.steps:,} steps on {race.source_name}, seed{plural} {join(seeds)}."]
    if isinstance(race.source, lab.Text) and race.source.repeats >= REPEATED:
        sentences.append(f"{race.source.repeats:.0%} of its validation part also stands in its training part.")
    if question is race.main:
        sentences += [*_reach(race), *_still_improving(race)]
    if question.unit == "bits per byte" and not results.empty:  # with other bytes, the same model has another loss
        low, high = results["count"].min(), results["count"].max()
        sentences.append(f"Each point is the mean over {f'{low:,} to ' if low < high else ''}{high:,} predicted bytes.")
    for texts, _ in [*race.written.values()][:1]:
        sentences.append(f"Words of three or more letters are counted in {len(texts)} texts per model.")
    if len(seeds) == 1:
        return [*sentences, "This is a single seed: train several to see how much results vary."]
    bars = f", bars its {LEVEL:.0%} interval" if len(seeds) >= SEEDS else ""
    return [*sentences, f"Thin lines are the {len(seeds)} seeds, thick lines their mean{bars}."]


def _reach(race: RaceState) -> list[str]:
    """The range of ALiBi's flattest head, so that readers don't mistake a flat curve for an unlimited memory."""
    if not race.marks:
        return []
    near, far = race.marks.values()
    return [
        f"In alibi's flattest head, a key {near:,.0f} tokens back (1/m) gets 37% of the weight of the current one if "
        f"their content is equal, and a key {far:,.0f} back (4/m) gets 2%. A flat curve says that nothing breaks, "
        "not that the model uses the whole text."
    ]


def _still_improving(race: RaceState) -> list[str]:
    """Whether the loss on the test bytes was still falling at the end; the loss on single batches is too noisy."""
    table = race.table
    tests = table[(table["question"] == race.main.name) & (table["x"] == race.length)]
    tests = tests[tests["seed"] == max(race.models)].pivot(index="step", columns="method", values="value")
    if race.state != "finished" or len(tests) < 2 or not race.main.lowest_is_best:
        return []
    (before, last), fall = tests.index[-2:], -tests.diff().iloc[-1].min()
    if not fall >= FALLING:
        return []
    return [
        f"The models are under-trained: from step {before:,} to {last:,} the loss at {race.length} fell by up to "
        f"{fall:.2f}."
    ]
