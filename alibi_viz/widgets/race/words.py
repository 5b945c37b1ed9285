"""A race told in words, every one of them computed from its record, and its progress in bars."""

import html
import math
from collections.abc import Mapping
from dataclasses import dataclass

from alibi_viz.figures import theme
from alibi_viz.lab import Scoreboard
from alibi_viz.widgets.core.formatting import BREAKS, HOLDS, join_words
from alibi_viz.widgets.race.claims import alibi_reach, found, in_range, proof, scored, seeds_of, view_words
from alibi_viz.widgets.race.report import RaceReport
from alibi_viz.widgets.race.traits import METHODS
from alibi_viz.widgets.race.views import unmeasured

__all__ = ["LANES_STYLE", "RaceWords"]

FALLING = 0.02  # a fall between the last two tests from which on the models count as under-trained

LANES_STYLE = """<style>
.alibi-lanes { display: grid; grid-template-columns: max-content minmax(80px, 1fr) repeat(3, max-content);
  gap: 3px 14px; align-items: center; max-width: 860px; font-variant-numeric: tabular-nums; line-height: 1.35;
  color: var(--alibi-ink); }
.alibi-lanes .progress { height: 9px; border-radius: 5px; overflow: hidden; background: rgba(128, 128, 128, 0.22); }
.alibi-lanes .progress-bar { height: 100%; border-radius: 5px; }
.alibi-lanes .number { text-align: right; }
</style>"""


@dataclass(frozen=True)
class RaceWords:
    """Sentences about a race on text, or on needles.

    Attributes:
        report: the race.
    """

    report: RaceReport

    def told(self, view: str, guesses: Mapping[str, Mapping[int, float]]) -> str:
        """What a tab shows, in a few sentences."""
        if view in ("race", "needle"):
            return self.caption(guesses)
        if self.report.boards and unmeasured(self.report, view):
            if self.report.state == "running":
                return f"{self.status()} The models will be measured when the race is over."
            now = "The models are being measured." if self.report.measuring else "Not every model was measured."
            return f"{self.status()} {now}"
        return f"{self.status()} {view_words(self.report, view)}".strip()

    def caption(self, guesses: Mapping[str, Mapping[int, float]]) -> str:
        """What is seen in the race itself, in a few sentences; guesses made before it are held against it."""
        report = self.report
        sentences = [self.status()]
        if report.task:
            sentences.append(found(report))
        elif report.state == "failed" and not report.complete:
            sentences.append("Of models whose training has diverged nothing can be said.")
        elif report.boards and report.boards[0].last_checkpoint():
            tests = {method: report.by_length(method) for method in report.methods}
            sentences += [self._gap(tests), self._shapes(tests), in_range(report), self._undefined(tests)]
            sentences += [alibi_reach(report), self._under_trained(), scored(report, guesses), proof(report)]
        return " ".join(sentence for sentence in sentences if sentence)

    @property
    def length(self) -> int:
        """The training length."""
        return self.report.length

    @property
    def board(self) -> Scoreboard:
        """The seed that is being raced, or was raced last."""
        return self.report.board

    def lanes(self) -> str:
        """A lane for each method, HTML: its bar, steps, tokens per second and time left."""
        return f'<div class="alibi-lanes">{"".join(map(self._lane, self.board.methods))}</div>'

    def status(self) -> str:
        """What is being done, or was."""
        board, report = self.board, self.report
        done = min(map(board.step, board.methods), default=0)
        where = (
            f"needles in {self.length} tokens" if report.task else f"windows of {self.length} bytes of {report.text}"
        )
        tested = f"tested last after step {board.last_checkpoint()}" if board.last_checkpoint() else "not tested yet"
        match report.state:
            case "ready" if not board.methods:
                return "No method is chosen: tick at least one."
            case "ready":
                lengths = f"{board.lengths[0]:,} to {board.lengths[-1]:,}"
                how = f"needles {lengths} tokens back" if report.task else f"windows of {lengths} bytes"
                return (
                    f"Train starts {join_words(board.methods)} from the same weights and feeds them the same {where}, "
                    f"{board.steps:,} steps; meanwhile they are tested on {how}."
                )
            case "running":
                turn = f" of seed {max(1, len(report.boards))} of {report.seeds}" if report.seeds > 1 else ""
                return f"Training on {where}: step {done:,} of {board.steps:,}{turn}, {tested}."
            case "finished":
                return f"Trained {board.steps:,} steps on {where}, {seeds_of(report)}."
        how = "Stopped" if report.state == "stopped" else "Ended by an error"
        if report.complete:
            at = f"step {done:,} of seed {len(report.boards)} of {report.seeds}"
            return f"{how} after {at}. Shown: {seeds_of(report)}, trained {board.steps:,} steps on {where}."
        return f"{how} after step {done:,} of {board.steps:,} on {where}; {tested}."

    def _gap(self, tests: dict[str, dict[int, float]]) -> str:
        """How far the others are behind at four times the training length."""
        at = 4 * self.length
        bits = {method: by[at] for method, by in tests.items() if math.isfinite(by.get(at, math.nan))}
        if not bits:
            return ""
        first = "alibi" if "alibi" in bits else min(bits, key=lambda method: bits[method])
        others = [
            f"{method} {abs(loss - bits[first]):.2f} {'more' if loss >= bits[first] else 'less'}"
            for method, loss in bits.items()
            if method != first
        ]
        words = f"On windows of {at:,}, four times as long, {first} needs {bits[first]:.2f} bits per byte"
        return f"{words}, {join_words(others)}." if others else f"{words}."

    def _shapes(self, tests: dict[str, dict[int, float]]) -> str:
        """Who breaks beyond the training length, and by how much at the worst test length."""
        kinds: dict[tuple[str, str], list[str]] = {
            ("does not break", "do not break"): [],
            ("drifts", "drift"): [],
            ("breaks", "break"): [],
        }
        holds, drifts, breaks = kinds.values()
        for method, by in tests.items():
            beyond = [loss for tested, loss in by.items() if tested > self.length and math.isfinite(loss)]
            if beyond and math.isfinite(by[self.length]):
                rise = max(beyond) - by[self.length]
                group = holds if rise <= HOLDS else breaks if rise >= BREAKS else drifts
                group.append(f"{method} ({rise:+z.2f})")
        parts = [f"{join_words(some)} {one if len(some) == 1 else many}" for (one, many), some in kinds.items() if some]
        return f"Up to {self.board.lengths[-1]:,}: {'; '.join(parts)}." if parts else ""

    def _undefined(self, tests: dict[str, dict[int, float]]) -> str:
        """Methods that have no value at some length; a missing line must not look like an oversight."""
        undefined = [method for method, by in tests.items() if math.isnan(by[self.board.lengths[-1]])]
        return f"{join_words(undefined)}: not defined beyond {self.length}, where the table ends." if undefined else ""

    def _under_trained(self) -> str:
        """Whether the loss was still falling at the end, on the frozen targets: single batches are too noisy."""
        before = max((step for step in next(iter(self.board.checkpoints.values())) if step < self.board.steps), default=0)
        if self.report.state != "finished" or not before:
            return ""
        last, at = self.board.steps, self.length
        fall = max(tests[before][at] - tests[last][at] for tests in self.board.checkpoints.values())
        if fall < FALLING:
            return ""
        return f"Under-trained: from step {before:,} to {last:,} the loss at {at} still fell, by up to {fall:.2f}."

    def _lane(self, method: str) -> str:
        board, color, state = self.board, theme.COLORS[METHODS.index(method)], self.report.state
        done, speed, left = board.step(method), board.tokens_per_second(method), board.seconds_left(method)
        share = 100 * done / board.steps
        of = " of this seed" if self.report.seeds > 1 else ""
        end = {"ready": "", "running": "starting" if left is None else f"{left:.0f} s left{of}"}.get(state, state)
        bar = f'<div class="progress-bar" style="width: {share:.1f}%; background: {color}"></div>'
        return (
            f'<span style="border-left: 4px solid {color}; padding-left: 8px">{html.escape(method)}</span>'
            f'<div class="progress" role="progressbar" aria-label="{html.escape(method)}" aria-valuenow="{done}" '
            f'aria-valuemin="0" aria-valuemax="{board.steps}">{bar}</div>'
            f'<span class="number">step {done:,} of {board.steps:,}</span>'
            f'<span class="number" style="min-width: 8.5em">{_thousands(speed) if speed else "0"} tokens/s</span>'
            f'<span class="number" style="min-width: 5em">{end}</span>'
        )


def _thousands(speed: float) -> str:
    """Three digits; the rest of a speed is noise.

    >>> _thousands(12345.6), _thousands(87.65)
    ('12,300', '87.7')
    """
    return f"{float(f'{speed:.3g}'):,.4g}" if speed < 1000 else f"{float(f'{speed:.3g}'):,.0f}"
