"""The caption of LengthLab: the progress of a race, the findings of its question, and their reliability."""

import html
from collections.abc import Mapping

import pandas as pd

from alibi_viz import lab
from alibi_viz.lab.confidence import LEVEL, SEEDS
from alibi_viz.lab.questions import join, outcome
from alibi_viz.lab.questions.outcomes import rises
from alibi_viz.lab.results import TRAINING_LOSS, seed_curves
from alibi_viz.widgets.core.formatting import format_number
from alibi_viz.widgets.core.why import Why
from alibi_viz.widgets.race.published import published_seeds
from alibi_viz.widgets.race.report import RaceReport
from alibi_viz.widgets.race.settings import alibi_range

__all__ = ["LANES_STYLE", "WHY", "caption", "lanes", "published_sentence"]

WHY = Why(
    "On a text, the same bytes are predicted at every length, and only their context changes. So a rising line means "
    "that longer windows make the predictions worse.",
    "05_train_short_test_long",
    "How length is tested",
)
FALLING = 0.02  # bits per byte: a larger fall between the last two checkpoints means that the models are under-trained

LANES_STYLE = """<style>
.alibi-lanes { display: grid; grid-template-columns: max-content minmax(80px, 1fr) repeat(3, max-content);
  gap: 3px 14px; align-items: center; max-width: 860px; font-variant-numeric: tabular-nums; line-height: 1.35;
  color: var(--alibi-ink); }
.alibi-lanes .progress { height: 9px; border-radius: 5px; overflow: hidden; background: rgba(128, 128, 128, 0.22); }
.alibi-lanes .progress-bar { height: 100%; border-radius: 5px; }
.alibi-lanes .number { text-align: right; }
</style>"""


def caption(report: RaceReport, question: lab.Question, results: pd.DataFrame) -> str:
    """What `results`, the rows of one question, show, in a few sentences."""
    settings = report.settings
    sentences = [_status(report)]
    if report.state == "ready":
        sentences.append(question.summary)
    elif report.failed:
        sentences.append("Training did not finish, so the methods cannot be compared.")
    elif report.unmeasured(question) and report.state == "running":
        sentences.append("The models will be measured when the race is over.")
    elif report.unmeasured(question):
        sentences.append("The models are being measured." if report.measuring else "Not every model was measured.")
    else:
        if question is settings.main and settings.task == "text":
            sentences.append(_compare_guesses(report, results))
        sentences += question.findings(results, settings.length)
        if question is settings.main and report.board.last_checkpoint():
            sentences += [_explain_marks(alibi_range(settings.methods)), _still_improving(report)]
        sentences += [_describe_samples(question, results), _describe_evidence(report)]
    return " ".join(sentence for sentence in sentences if sentence)


def _describe_samples(question: lab.Question, results: pd.DataFrame) -> str:
    """How many bytes a point is the mean of; with other bytes, the same model has another loss."""
    if question.unit != "bits per byte" or results.empty:
        return ""
    low, high = results["count"].min(), results["count"].max()
    return f"Each point is the mean over {f'{low:,} to ' if low < high else ''}{high:,} predicted bytes."


def _explain_marks(marks: Mapping[str, float]) -> str:
    """The range of ALiBi's flattest head, so that readers don't mistake a flat curve for an unlimited memory."""
    if not marks:
        return ""
    near, far = marks.values()
    return (
        f"In alibi's flattest head, a key {near:,.0f} tokens back (1/m) gets 37% of the weight of the current one if "
        f"their content is equal, and a key {far:,.0f} back (4/m) gets 2%. So a flat curve shows that nothing fails, "
        "not that the model uses the whole text."
    )


def published_sentence(question: lab.Question, methods: tuple[str, ...], length: int) -> str:
    """What the dotted lines are."""
    rows = published_seeds(question, methods, length)
    if rows.empty:
        return "There are no published seeds for this question."
    results, trained = lab.published_results(), int(rows["length"].mode()[0])
    losses = results[(results["question"] == TRAINING_LOSS) & (results["task"] == question.task)]
    steps = losses.loc[losses["label"].isin(rows["label"]), "x"].max()
    rescaled = trained != length and (rows["x"] != results["x"][rows.index]).any()
    drawn = f", drawn at the same multiples of {length}" if rescaled else ""
    return f"Dotted lines: published seeds, trained elsewhere for {steps} steps on windows of {trained}{drawn}."


def lanes(report: RaceReport) -> str:
    """One line per method, HTML: its progress bar, steps, tokens per second and time left."""
    return f'<div class="alibi-lanes">{"".join(_lane(report, name) for name in report.settings.methods)}</div>'


def _status(report: RaceReport) -> str:
    """What is being done, or was done."""
    board, settings = report.board, report.settings
    done = min(map(board.step, board.methods), default=0)
    tested = f"last tested after step {board.last_checkpoint()}" if board.last_checkpoint() else "not tested yet"
    match report.state:
        case "ready" if not settings.methods:
            return "No method is chosen: select at least one."
        case "ready":
            tests = f"{settings.lengths[0]:,} to {settings.lengths[-1]:,}"
            where = f"at distances of {tests}" if settings.task in lab.TASKS else f"on windows of {tests} bytes"
            return (
                f"Press Train: {join(settings.methods)} start from the same weights, train on the same "
                f"{settings.source_name} for {settings.steps:,} steps, and are tested {where} as they learn."
            )
        case "running":
            seed = f" of seed {max(1, len(report.boards))} of {settings.seeds}" if settings.seeds > 1 else ""
            return f"Training on {settings.source_name}: step {done:,} of {settings.steps:,}{seed}, {tested}."
        case "finished":
            return f"Trained {settings.steps:,} steps on {settings.source_name}, {_seeds(report)}."
    ended = "Stopped" if report.state == "stopped" else "Ended by an error"
    if report.complete:
        where = f"step {done:,} of seed {len(report.boards)} of {settings.seeds}"
        shown = f"{_seeds(report)}, trained {settings.steps:,} steps on {settings.source_name}"
        return f"{ended} after {where}. Shown: {shown}."
    return f"{ended} after step {done:,} of {settings.steps:,} on {settings.source_name}; {tested}."


def _seeds(report: RaceReport) -> str:
    """The counted seeds by their numbers."""
    seeds = [str(report.settings.seed + index) for index in report.counted]
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {join(seeds)}"


def _describe_evidence(report: RaceReport) -> str:
    """How many seeds the findings rest on."""
    if report.state != "finished":
        return ""
    if len(report.complete) < 2:
        return "This is a single seed: train several to see how much results vary."
    seeds = len(report.complete)
    bars = f", bars its {LEVEL:.0%} interval" if seeds >= SEEDS else ""
    return f"Thin lines are the {seeds} seeds, thick lines their mean{bars}."


def _still_improving(report: RaceReport) -> str:
    """Whether the loss on the test bytes was still falling at the end; the loss on single batches is too noisy."""
    settings, checkpoints = report.settings, report.board.checkpoints
    earlier = [step for step in next(iter(checkpoints.values())) if step < settings.steps]
    if report.state != "finished" or not earlier or not settings.main.lowest_is_best:
        return ""
    before, last, length = max(earlier), settings.steps, settings.length
    fall = max(tests[before][length] - tests[last][length] for tests in checkpoints.values())
    if fall < FALLING:
        return ""
    return (
        f"The models are under-trained: from step {before:,} to {last:,} the loss at {length} fell by up to {fall:.2f}."
    )


def _compare_guesses(report: RaceReport, results: pd.DataFrame) -> str:
    """Guesses made before the race, and whether they were right."""
    parts = []
    for method, each in rises(seed_curves(results)).items():
        if guess := report.guesses.get(method):
            actual = outcome(each)
            verdict = (
                "right" if guess == actual else "the seeds disagree" if actual == "mixed" else f"wrong, it {actual}"
            )
            parts.append(f"{method} {guess} ({verdict}: {sum(each) / len(each):+z.2f} bits per byte)")
    return f"You guessed: {'; '.join(parts)}." if parts and report.complete else ""


def _lane(report: RaceReport, method: str) -> str:
    board, steps = report.board, report.settings.steps
    color = report.settings.color(method)
    done, speed, left = board.step(method), board.tokens_per_second(method), board.seconds_left(method)
    seed = " of this seed" if report.settings.seeds > 1 else ""
    running = "starting" if left is None else f"{left:.0f} s left{seed}"
    end = {"ready": "", "running": running}.get(report.state, report.state)
    bar = f'<div class="progress-bar" style="width: {100 * done / steps:.1f}%; background: {color}"></div>'
    return (
        f'<span style="border-left: 4px solid {color}; padding-left: 8px">{html.escape(method)}</span>'
        f'<div class="progress" role="progressbar" aria-label="{html.escape(method)}" aria-valuenow="{done}" '
        f'aria-valuemin="0" aria-valuemax="{steps}">{bar}</div>'
        f'<span class="number">step {done:,} of {steps:,}</span>'
        f'<span class="number" style="min-width: 8.5em">{format_number(float(f"{speed:.3g}"))} tokens/s</span>'
        f'<span class="number" style="min-width: 5em">{end}</span>'
    )
