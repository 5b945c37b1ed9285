"""The result of a check: a list of findings, printed as text, with pictures in a notebook."""

import html
import tomllib
from collections.abc import Iterable
from dataclasses import dataclass, field
from importlib.resources import files

from torch import Tensor

from alibi_viz.check.gallery import EXHIBITS, Exhibit
from alibi_viz.check.words import count


@dataclass(frozen=True)
class Fault:
    """A way in which implementations of ALiBi go wrong.

    It has a name, what is computed instead, and what to change.
    """

    name: str
    problem: str
    fix: str


# Names of findings. The first is no fault, but something by design that no check can judge.
OUTSIDE = "outside of what this checker knows"
NOT_AVERAGED = "not a weighted average"
_SENTENCES = tomllib.loads((files("alibi_viz.check") / "faults.toml").read_text("utf-8"))
FAULTS = {name: Fault(name, **sentences) for name, sentences in _SENTENCES.items()}


class AlibiFaultError(AssertionError):
    """Raised by `Report.raise_for_faults`; the message is the report."""


@dataclass(frozen=True)
class Finding:
    """A fault that a check found.

    It has a name, which is a key of `alibi_viz.check.FAULTS`, and the numbers that show it.
    """

    name: str
    evidence: str
    # What the checked function raised, if that is the fault
    error: BaseException | None = field(default=None, compare=False, repr=False)

    @property
    def seen_in(self) -> list[Exhibit]:
        """Public systems with this fault, from the gallery."""
        return [exhibit for exhibit in EXHIBITS if exhibit.fault == self.name]

    def __str__(self) -> str:
        fault = FAULTS[self.name]
        lines = [f"{self.name}: {fault.problem}", f"  Found: {self.evidence}"]
        for exhibit in self.seen_in:
            lines.append(f"  Seen in: {exhibit.system} ({exhibit.source})")
        lines.append(f"  Fix: {fault.fix}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Comparison:
    """The attention weights of one call at equal content, each [heads, query, key]."""

    title: str  # the sizes of the call
    wanted: Tensor  # the weights of a correct implementation
    got: Tensor  # those of the checked one
    place: tuple[int, int, int]  # (head, query, key), counted from 0, where they differ most

    def __str__(self) -> str:
        head, query, key = self.place
        got = float(self.got[self.place])
        wanted = float(self.wanted[self.place])
        given = f"head {head + 1} gives key {key} the weight {got:.3g} for query {query}"
        return f"with {self.title}, {given}, expected {wanted:.3g}"


@dataclass(frozen=True, repr=False)
class Report:
    """What a check found. `print(report)` explains it; a notebook also shows the weights."""

    subject: str  # what was checked
    findings: list[Finding]  # the faults, empty if there are none
    notes: list[str] = field(default_factory=list)  # facts that are not faults
    # The call with the largest difference, if anything could be compared
    comparison: Comparison | None = None
    tried: str = ""  # what was tried, and what was not

    @property
    def ok(self) -> bool:
        """Whether no fault was found."""
        return not self.findings

    def raise_for_faults(self) -> None:
        """Raise AlibiFaultError with the report as its message, unless the check found nothing.

        Its cause is the first error of the checked function.
        """
        if self.findings:
            errors = [finding.error for finding in self.findings if finding.error is not None]
            raise AlibiFaultError(str(self)) from next(iter(errors), None)

    def __str__(self) -> str:
        verdict = "no fault found" if self.ok else count(len(self.findings), "fault")
        parts = [f"ALiBi check of {self.subject}: {verdict}"]
        parts += [str(finding) for finding in self.findings]
        parts += self.notes
        if self.comparison is not None:
            difference = str(self.comparison)
            is_said = any(difference in finding.evidence for finding in self.findings)
            if not is_said:
                parts.append(f"Weights at equal content: {difference}")
        if self.tried:
            parts.append(f"Tried: {self.tried}.")
        return "\n".join(parts)

    __repr__ = __str__

    def _repr_html_(self) -> str:
        text = str(self)
        title = text.splitlines()[0]
        names = [f"{finding.name}:" for finding in self.findings]
        return notebook_html(text, self.comparison, bold=[title, *names])


def notebook_html(text: str, comparison: Comparison | None, bold: Iterable[str] = ()) -> str:
    """The text, with parts of it in bold, and pictures of the weights.

    They show the head that differs most.
    """
    text = html.escape(text)
    for part in map(html.escape, bold):
        text = text.replace(part, f"<b>{part}</b>", 1)
    text = (
        f'<pre style="white-space:pre-wrap;word-break:normal;overflow-wrap:anywhere">{text}</pre>'
    )
    if comparison is None:
        return text
    try:
        # A check in CI shouldn't load plotly.
        from alibi_viz.figures.matrices_html import comparison_html  # noqa: PLC0415
    except ModuleNotFoundError:  # installed without the extra: the text says it all
        return f"{text}<p>To see these weights: <code>pip install 'alibi-viz[figures]'</code></p>"
    return text + comparison_html(comparison.wanted, comparison.got, comparison.place)
