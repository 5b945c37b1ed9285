"""A race told in words, every one of them computed from its record, and its progress in bars."""

import html
import math
from dataclasses import dataclass

from alibi_viz.figures import theme
from alibi_viz.lab import Scoreboard
from alibi_viz.models import Alibi
from alibi_viz.slopes import e_fold, reach
from alibi_viz.widgets.race_traits import METHODS
from alibi_viz.widgets.words import BREAKS, HOLDS, join

__all__ = ["LANES_STYLE", "RaceReport"]

FALLING = 0.02  # a fall between the last two tests from which on the models count as under-trained

LANES_STYLE = """<style>
.alibi-lanes { display: grid; grid-template-columns: max-content minmax(80px, 1fr) repeat(3, max-content);
  gap: 3px 14px; align-items: center; max-width: 860px; font-variant-numeric: tabular-nums; line-height: 1.35;
  color: var(--alibi-ink); }
.alibi-lanes .progress { height: 9px; border-radius: 5px; overflow: hidden; background: rgba(128, 128, 128, 0.22); }
.alibi-lanes .progress-bar { height: 100%; border-radius: 5px; }
.alibi-lanes .number { text-align: right; }
</style>"""


@dataclass
class RaceReport:
    """What there is to say of a race.

    Attributes:
        text: name of the text.
        seed: of the race.
        board: its record.
        state: "ready", "running", "stopped", "finished" or "failed".
    """

    text: str
    seed: int
    board: Scoreboard
    state: str = "ready"

    @property
    def length(self) -> int:
        """The training length, which is the first test length."""
        return self.board.lengths[0]

    def caption(self) -> str:
        """What is seen, in a few sentences."""
        sentences = [self._status()]
        tests = {method: self.board.by_length(method) for method in self.board.methods if self.board.tested()}
        if tests:
            sentences += [self._gap(tests), self._shapes(tests), self._in_range(tests), self._undefined(tests)]
            sentences += [self._alibi_reach(), self._under_trained()]
        return " ".join(sentence for sentence in sentences if sentence)

    def lanes(self) -> str:
        """A lane for each method, HTML: its bar, steps, tokens per second and time left."""
        return f'<div class="alibi-lanes">{"".join(map(self._lane, self.board.methods))}</div>'

    def _status(self) -> str:
        board = self.board
        done = min(map(board.step, board.methods), default=0)
        where = f"windows of {self.length} bytes of {self.text}"
        tested = f"tested last after step {board.tested()}" if board.tested() else "not tested yet"
        match self.state:
            case "ready" if not board.methods:
                return "No method is chosen: tick at least one."
            case "ready":
                lengths = f"{board.lengths[0]:,} to {board.lengths[-1]:,}"
                return (
                    f"Train starts {join(board.methods)} from the same weights and feeds them the same {where}, "
                    f"{board.steps:,} steps; meanwhile they are tested on windows of {lengths} bytes."
                )
            case "running":
                return f"Training on {where}: step {done:,} of {board.steps:,}, {tested}."
            case "finished":
                return f"Trained {board.steps:,} steps on {where}, seed {self.seed}."
            case "stopped":
                return f"Stopped after step {done:,} of {board.steps:,} on {where}; {tested}."
        return f"Ended by an error after step {done:,} of {board.steps:,} on {where}; {tested}."

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
        return f"{words}, {join(others)}." if others else f"{words}."

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
                group.append(f"{method} ({round(rise, 2) + 0.0:+.2f})")  # + 0.0 turns -0.0 into 0.0
        parts = [f"{join(some)} {one if len(some) == 1 else many}" for (one, many), some in kinds.items() if some]
        return f"Up to {self.board.lengths[-1]:,}: {'; '.join(parts)}." if parts else ""

    def _in_range(self, tests: dict[str, dict[int, float]]) -> str:
        """Who is best where they were trained: seldom the one that holds beyond it."""
        bits = {method: by[self.length] for method, by in tests.items() if math.isfinite(by[self.length])}
        if len(bits) < 2:
            return ""
        best = min(bits, key=lambda method: bits[method])
        words = f"At the training length itself {best} is best, {bits[best]:.2f}"
        return f"{words} (alibi {bits['alibi']:.2f})." if best != "alibi" and "alibi" in bits else f"{words}."

    def _undefined(self, tests: dict[str, dict[int, float]]) -> str:
        """Methods that have no value at some length; a missing line must not look like an oversight."""
        undefined = [method for method, by in tests.items() if math.isnan(by[self.board.lengths[-1]])]
        return f"{join(undefined)}: not defined beyond {self.length}, where the table ends." if undefined else ""

    def _alibi_reach(self) -> str:
        """How far alibi's flattest head looks, so that nobody reads a flat line as memory without end."""
        position = self.board.models["alibi"].transformer.position if "alibi" in self.board.models else None
        if not isinstance(position, Alibi):
            return ""
        flattest = position.slopes.min()
        return (
            f"alibi's flattest head fades to 1/e in {float(e_fold(flattest)):,.0f} tokens (1/m) and is practically "
            f"blind beyond {float(reach(flattest)):,.0f} (4/m): a flat line says that nothing breaks, not that all "
            "is read."
        )

    def _under_trained(self) -> str:
        """Whether the loss was still falling at the end, on the frozen targets: single batches are too noisy."""
        before = max((step for step in next(iter(self.board.tests.values())) if step < self.board.steps), default=0)
        if self.state != "finished" or not before:
            return ""
        last, at = self.board.steps, self.length
        fall = max(tests[before][at] - tests[last][at] for tests in self.board.tests.values())
        if fall < FALLING:
            return ""
        return f"Under-trained: from step {before:,} to {last:,} the loss at {at} still fell, by up to {fall:.2f}."

    def _lane(self, method: str) -> str:
        board, color = self.board, theme.COLORS[METHODS.index(method)]
        done, speed, left = board.step(method), board.tokens_per_second(method), board.seconds_left(method)
        share = 100 * done / board.steps
        end = {"ready": "", "running": "starting" if left is None else f"{left:.0f} s left"}.get(self.state, self.state)
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
