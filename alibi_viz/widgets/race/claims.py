"""What may be said of a race, and what may not: each sentence is computed, and weighs how many seeds back it."""

import math
from collections.abc import Mapping

from alibi_viz.lab import default_comparison
from alibi_viz.lab.tasks import task_samples
from alibi_viz.widgets.core.formatting import HOLDS, join_words
from alibi_viz.widgets.race.report import NEEDLE, Points, RaceReport
from alibi_viz.widgets.race.views import CONTEXT_STRIDE, marks

__all__ = ["alibi_reach", "found", "in_range", "proof", "published_words", "scored", "seeds_of", "view_words"]

FOUND = 0.9  # share of needles that counts as finding them


def seeds_of(report: RaceReport) -> str:
    """Which seeds count, or will.

    >>> from alibi_viz.widgets.race.claims import seeds_of
    >>> seeds_of(RaceReport("a text", ("alibi",), length=8, steps=10, seed=4, seeds=3, learning_rate=0.1))
    'seeds 4, 5 and 6'
    """
    numbers = report.counted if report.boards else range(report.seeds)
    seeds = [str(report.seed + number) for number in numbers]
    return f"seed {seeds[0]}" if len(seeds) == 1 else f"seeds {join_words(seeds)}"


def proof(report: RaceReport) -> str:
    """How much a race can prove."""
    if report.state != "finished":
        return ""
    if len(report.complete) < 2:
        return "One seed proves little: train several."
    return f"Thin lines are the {len(report.complete)} seeds, thick lines their mean."


def in_range(report: RaceReport) -> str:
    """Who is best where they were trained, if it is the same in every seed: seldom the one that holds beyond it."""
    length = report.length
    each = []
    for board in (report.boards[number] for number in report.counted):
        bits = {method: board.scores(method).get(length, math.nan) for method in report.methods}
        known = {method: loss for method, loss in bits.items() if math.isfinite(loss)}
        if len(known) < 2:
            return ""
        each.append((min(known, key=lambda method: known[method]), known))
    best = {name for name, _ in each}
    if len(best) > 1:
        return (
            f"At the training length itself no method is best in every seed ({join_words(sorted(best))} are in some)."
        )
    (name,) = best
    mean = {method: sum(known[method] for _, known in each) / len(each) for method in each[0][1]}
    said = f"At the training length itself {name} is best{' in every seed' if len(each) > 1 else ''}, {mean[name]:.2f}"
    return f"{said} (alibi {mean['alibi']:.2f})." if name != "alibi" and "alibi" in mean else f"{said}."


def alibi_reach(report: RaceReport) -> str:
    """How far alibi's flattest head looks, so that nobody reads a flat line as memory without end."""
    at = marks(report)
    if not at:
        return ""
    fades, blind = at.values()
    return (
        f"alibi's flattest head fades to 1/e in {fades:,.0f} tokens (1/m) and is practically blind beyond {blind:,.0f} "
        "(4/m): a flat line says that nothing breaks, not that all is read."
    )


def scored(report: RaceReport, guesses: Mapping[str, Mapping[int, float]]) -> str:
    """Guesses that were made before the race, against what came of it."""
    if not guesses or guesses != report.guesses or report.state == "running":
        return ""
    parts = []
    for method, own in guesses.items():
        bits = report.by_length(method) if method in report.methods else {}
        told = [
            f"{bits_guessed:.1f} at {times} L, where it was {bits[times * report.length]:.1f}"
            for times, bits_guessed in own.items()
            if math.isfinite(bits.get(times * report.length, math.nan))
        ]
        if told:
            parts.append(f"{method} {join_words(told)}")
    return f"You guessed: {'; '.join(parts)}." if parts else ""


def found(report: RaceReport) -> str:
    """How far back each method finds the needle."""
    parts = []
    for method in report.methods:
        shares = {far: share for far, share in report.by_length(method).items() if math.isfinite(share)}
        reached = [far for far in shares if all(shares[near] >= FOUND for near in shares if near <= far)]
        if reached:
            parts.append(f"{method} up to {max(reached):,} tokens back")
        elif shares:
            parts.append(f"{method} at no distance")
    if not parts:
        return f"A needle is one value in noise, asked for at the end; guessing finds {NEEDLE.chance:.1%}."
    seen = f"At least nine of ten needles are found by {join_words(parts)}; guessing finds {NEEDLE.chance:.1%}."
    at = marks(report)
    tries = f"At the furthest distance {task_samples(NEEDLE, report.lengths[-1])} needles were looked for."
    blind = f"alibi's flattest head is practically blind beyond {at['alibi 4/m']:,.0f} (4/m)." if at else ""
    return " ".join(filter(None, [seen, tries, blind, proof(report)]))


def published_words(report: RaceReport, view: str) -> str:
    """What the dotted lines are."""
    runs = {True: "needle", False: "text"}
    if view == "by position":
        return "There are no published seeds for this tab."
    run = next(run for run in default_comparison(1) if run.task == runs[report.task])
    scaled = "" if run.length == report.length or view == "gap" else f", put at the same multiples of {report.length}"
    return f"Dotted: published seeds, not this machine's, trained {run.steps} steps on windows of {run.length}{scaled}."


def view_words(report: RaceReport, view: str) -> str:
    """What is seen in one of the other tabs."""
    if view == "gap":
        return _gap(report)
    seeds = {method: report.of_view(view, method) for method in report.methods}
    known = {method: several for method, several in seeds.items() if several}
    if not known:
        return "" if report.state == "running" else "Train first; the trained models are measured then."
    tell = _by_position if view == "by position" else _same_targets
    return f"{tell(report, known)} {proof(report)}".strip()


def _gap(report: RaceReport) -> str:
    parts, still = [], []
    for method in report.methods:
        last = [list(gaps.values()) for gaps in report.gaps(method) if gaps]
        ends = [values[-1] for values in last if math.isfinite(values[-1])]
        if ends:
            parts.append(f"{method} {sum(ends) / len(ends):+z.2f}")
            if all(len(values) > 1 and abs(values[-1] - values[len(values) // 2]) > HOLDS for values in last):
                still.append(method)
    if not parts:
        return "What windows of 4 L cost above windows of L will be drawn as training goes on."
    moving = f" It still moves for {join_words(still)}: train longer before you trust it." if still else ""
    return (
        f"At the last test, windows of {4 * report.length:,} against windows of {report.length}, in bits per byte: "
        f"{join_words(parts)}.{moving} A small gap early on may only mean that little has been learned yet."
    )


def _by_position(report: RaceReport, known: dict[str, list[Points]]) -> str:
    parts = []
    for method, several in known.items():
        first = [points[1] for points in several if math.isfinite(points[1])]
        inside = [v for points in several for at, v in points.items() if report.length / 2 < at <= report.length]
        beyond = [v for points in several for at, v in points.items() if at > report.length and math.isfinite(v)]
        if not first or not inside:
            parts.append(f"{method} {_absent(report)} in windows this long")
            continue
        start, middle = sum(first) / len(first), sum(inside) / len(inside)
        told = f"{start:.1f} for the first byte, {middle:.1f} up to {report.length}, then {max(beyond):.1f} at worst"
        parts.append(f"{method} {told}")
    return f"Bits per byte in one long window: {'; '.join(parts)}. The first bytes have nothing to go on, and are hard."


def _same_targets(report: RaceReport, known: dict[str, list[Points]]) -> str:
    first, last = report.lengths[0], report.lengths[-1]
    parts = []
    for method, several in known.items():
        changes = [points[last] - points[first] for points in several if math.isfinite(points[last])]
        changed = f"{sum(changes) / len(changes):+z.2f}" if changes else _absent(report)
        parts.append(f"{method} {changed}")
    less = min(CONTEXT_STRIDE, report.length) - 1
    return (
        f"The same bytes each time, with the context that is named or at most {less} bytes less. From {first:,} to "
        f"{last:,} bytes of context: {join_words(parts)} bits per byte."
    )


def _absent(report: RaceReport) -> str:
    """Why there is no number: positions without one, unless the training came to grief."""
    return "gives no number" if report.state == "failed" else "is not defined"
