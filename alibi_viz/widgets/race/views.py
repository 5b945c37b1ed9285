"""What each tab of LengthLab shows: the numbers it needs from the models, and the panel made of them."""

from collections.abc import Iterator, Mapping
from functools import cache
from itertools import pairwise

from alibi_viz import lab
from alibi_viz.figures import race_panels as panels
from alibi_viz.figures.panel import Curves, Panel
from alibi_viz.lab.comparison import COMPARISON_LENGTH
from alibi_viz.models import Alibi, LanguageModel
from alibi_viz.slopes import alibi_slopes, e_fold, reach
from alibi_viz.widgets.race.report import NEEDLE, Points, RaceReport, mean_of

__all__ = ["MEASURED", "VIEWS", "marks", "measurements", "panel", "unmeasured"]

VIEWS = ("race", "gap", "by position", "same targets", "needle")
MEASURED = ("by position", "same targets")  # asked of the models once the race is over
POSITION_TARGETS, CONTEXT_TARGETS, CONTEXT_STRIDE = 32_768, 1024, 16
PUBLISHED = {"race": "by_length", "gap": "gap", "same targets": "by_context", "needle": "accuracy"}


def unmeasured(report: RaceReport, view: str) -> list[tuple[int, str]]:
    """Which models a tab still asks for: (number of the seed, method)."""
    if view not in MEASURED or report.task:
        return []
    known = report.measured.get(view, {})
    return [
        (number, method)
        for number in report.counted
        for method in report.boards[number].models
        if method not in known.get(number, {})
    ]


def measurements(report: RaceReport, view: str) -> Iterator[None]:
    """Ask one model after the other, in steps that are short, and let the report remember what each says."""
    for number, method in unmeasured(report, view):
        model = report.boards[number].models[method]
        points: Points = {}
        for some in (_positions if view == "by position" else _contexts)(model, report):
            points |= some
            yield
        report.measured.setdefault(view, {}).setdefault(number, {})[method] = points


def panel(report: RaceReport, view: str, *, published: bool, guesses: Mapping[str, Points]) -> Panel:
    """The panel of a tab, with the published seeds where they are asked for and there are any."""
    elsewhere = _published(report, view) if published else {}
    expected = {name: {times * report.length: bits for times, bits in own.items()} for name, own in guesses.items()}

    def of(mean: Mapping[str, Points], seeds: Mapping[str, list[Points]]) -> dict[str, Curves]:
        return {
            name: Curves(
                mean[name],
                seeds[name] if len(seeds[name]) > 1 else [],
                elsewhere.get(name, []),
                expected.get(name, {}) if view == "race" else {},
            )
            for name in report.methods
        }

    length, at = report.length, marks(report)
    if view in ("race", "needle"):
        curves = of(
            {name: report.by_length(name) for name in report.methods},
            {name: report.each_seed(name) for name in report.methods},
        )
        if view == "race":
            return panels.length_panel(curves, length, report.lengths, at)
        return panels.distance_panel(curves, length, report.lengths, NEEDLE.chance, at)
    seeds = {name: report.gaps(name) if view == "gap" else report.of_view(view, name) for name in report.methods}
    curves = of({name: mean_of(seeds[name]) for name in report.methods}, seeds)
    if view == "gap":
        return panels.gap_panel(curves, length, max([report.steps, *_places(elsewhere)]))
    if view == "by position":
        return panels.position_panel(curves, length, report.lengths[-1], at)
    return panels.context_panel(curves, length, report.lengths, at)


def marks(report: RaceReport) -> dict[str, float]:
    """How far ALiBi's flattest head looks, where ALiBi takes part."""
    if "alibi" not in report.methods:
        return {}
    model = report.last.models.get("alibi")
    position = model.transformer.position if model is not None else None
    flattest = position.slopes.min() if isinstance(position, Alibi) else alibi_slopes(_heads()).min()
    return {"alibi 1/m": float(e_fold(flattest)), "alibi 4/m": float(reach(flattest))}


@cache
def _heads() -> int:
    """Of the models raced; every update of the picture asks, and to make a model takes 2 ms."""
    return lab.make_model().config.num_heads


def _positions(model: LanguageModel, report: RaceReport) -> Iterator[Points]:
    """Bits by position in the longest window, averaged in bins that widen with the position: single ones are noisy."""
    assert isinstance(report.source, lab.Text)
    longest = report.lengths[-1]
    bits = lab.loss_by_position(model, report.source, longest, targets=POSITION_TARGETS)
    # A bin ends with the training length, so that none mixes positions trained on with others; one ends with 16 L.
    halves = range(-2 * report.length.bit_length(), 2 * (longest // report.length).bit_length())
    edges = sorted({1, longest + 1} | {round(report.length * 2 ** (half / 2)) + 1 for half in halves})
    edges = [edge for edge in edges if edge <= longest + 1]
    yield {round((first + end - 1) / 2): float(bits[first - 1 : end - 1].mean()) for first, end in pairwise(edges)}


def _contexts(model: LanguageModel, report: RaceReport) -> Iterator[Points]:
    assert isinstance(report.source, lab.Text)
    available = len(report.source.validation) - report.lengths[-1] - 1  # at least 0, or the race had been refused
    stride = min(CONTEXT_STRIDE, report.length, max(1, available))
    targets = max(stride, min(CONTEXT_TARGETS, available))
    settings = {"targets": targets, "stride": stride, "longest": report.lengths[-1]}
    for context in report.lengths:
        yield lab.loss_by_context(model, report.source, [context], **settings)


def _published(report: RaceReport, view: str) -> dict[str, list[Points]]:
    """The published seeds of the methods on show, their lengths put at the same multiples of the training length."""
    if view not in PUBLISHED:
        return {}
    task = "needle" if view == "needle" else "text"
    found = lab.published_curves(task, PUBLISHED[view])

    def place(at: int) -> int:
        if view == "gap":
            return at
        own = view == "needle"  # a needle L - 1 back is the furthest in L tokens
        return (at + own) * report.length // COMPARISON_LENGTH - own

    return {
        name: [{place(at): value for at, value in points.items()} for points in found[name].values()]
        for name in report.methods
        if name in found
    }


def _places(curves: Mapping[str, list[Points]]) -> list[int]:
    return [place for several in curves.values() for points in several for place in points]
