"""What SpotTheBug says: the caption of the picture, and after a guess what is wrong and where it was seen."""

import html
from collections.abc import Sequence

from torch import Tensor

from alibi_viz.check import FAULTS, Report
from alibi_viz.lessons import BUGS, Bug
from alibi_viz.lessons.bugs import MATCH
from alibi_viz.widgets.core.formatting import format_percent

__all__ = ["describe", "reveal", "show_report"]

_EQUAL = 1e-3  # weights that differ by less look the same
_HANGING = (
    "<p>Python cannot stop a running function: yours continues in the background and slows everything down. "
    "Restart the kernel to end it.</p>"
)


def describe(bug: Bug, correct: Tensor, shown: Tensor, subject: str) -> str:
    """What the two pictures show, and the row in which they differ most. `subject` is the title of the second."""
    view = bug.view
    number = list(BUGS).index(bug.name) + 1
    text = f"Case {number} of {len(BUGS)}, {_call(bug)} {_content(view.words)} "
    text += "Color shows the weight of each key, relative to the largest of its row."
    if bool((shown == 0).any()):
        text += " Empty cells are masked."
    difference = (shown - correct).abs()
    if float(difference.max()) < _EQUAL:
        return f"{text} The two pictures are the same."
    if view.head is None:
        text += _equal_heads(difference)
    return f"{text} {_largest(bug, correct, shown, int(difference.amax(-1).argmax()), subject)}"


def reveal(bug: Bug, guess: str, report: Report) -> str:
    """Whether the guess is right, what the fault is, the number that shows it, and its public origin, as HTML."""
    fault, exhibit = FAULTS[bug.fault], bug.exhibit
    if guess == bug.fault:
        verdict = f"<b>Right:</b> it is <b>{html.escape(fault.name)}</b>."
    else:
        verdict = f"<b>No.</b> You chose {html.escape(guess)}, but it is <b>{html.escape(fault.name)}</b>."
    evidence = "; ".join(finding.evidence for finding in report.findings)
    link = f'<a href="{html.escape(exhibit.source)}" target="_blank" rel="noopener">{html.escape(exhibit.system)}</a>'
    return (
        f'<div role="status"><p>{verdict} {_sentence(fault.problem)}</p>'
        f"<p>The checker found: {html.escape(evidence)}.</p>"
        f"<p>Seen in {link}:<br>{html.escape(exhibit.effect)}.</p></div>"
        "<p>Below is a short version of our own, with this fault alone. Repair it and press Check. "
        "<code>torch</code>, <code>math</code> and <code>av</code> (this library) are imported. "
        "Empty the box to get the faulty code back.</p>"
    )


def show_report(report: Report) -> str:
    """A checker's report as HTML, with what to do if the function is still running."""
    hangs = any(finding.name == "does not finish" for finding in report.findings)
    return f'<div role="status">{report._repr_html_()}</div>{_HANGING * hangs}'


def _sentence(text: str) -> str:
    return html.escape(text[0].upper() + text[1:]) + "."


def _call(bug: Bug) -> str:
    """The sizes of the call in words, and which weights are shown."""
    view, model = bug.view, "causal" if bug.causal else "an encoder"
    queries = "the last token is the query" if view.query_length == 1 else f"the last {view.query_length} are queries"
    decoding = f", decoding: {queries}, the others are cached" if view.query_length < view.key_length else ""
    shown = (
        f"the last query of each of {view.num_heads} heads"
        if view.head is None
        else f"head {view.head} of {view.num_heads}"
    )
    return f"{model}: {shown}, {view.key_length:,} tokens{decoding}."


def _content(words: int) -> str:
    if words == 0:
        return "All tokens have the same content."
    return (
        f"The tokens are {words} words, repeated in order. The content, q . k / sqrt(head_dim), is {MATCH:g} for equal "
        "words and 0 for others."
    )


def _equal_heads(difference: Tensor) -> str:
    heads = [row + 1 for row, largest in enumerate(difference.amax(-1).tolist()) if largest < _EQUAL]
    if not heads:
        return " No head is correct."
    return f" {'Head' if len(heads) == 1 else 'Heads'} {_ranges(heads)} {'is' if len(heads) == 1 else 'are'} correct."


def _largest(bug: Bug, correct: Tensor, shown: Tensor, row: int, subject: str) -> str:
    """The row with the largest difference: its first visible key, the middle one, and the last two."""
    visible = (correct[row] > 0).nonzero().flatten().tolist()
    columns = sorted({visible[0], visible[len(visible) // 2], *visible[-2:]})
    keys = _join([str(bug.view.keys[column]) for column in columns])
    got, wanted = ([format_percent(weights[row, column]) for column in columns] for weights in (shown, correct))
    name = "head" if bug.view.head is None else "query"
    return (
        f"The largest difference is in {name} {bug.view.rows[row]}: keys {keys} get {_join(got)} in {subject}; "
        f"correct are {_join(wanted)}."
    )


def _ranges(numbers: Sequence[int]) -> str:
    """Consecutive numbers as ranges.

    >>> _ranges([1, 2, 3, 7])
    '1 to 3 and 7'
    """
    runs: list[list[int]] = []
    for number in numbers:
        if runs and number == runs[-1][-1] + 1:
            runs[-1].append(number)
        else:
            runs.append([number])
    return _join([f"{run[0]} to {run[-1]}" if len(run) > 1 else str(run[0]) for run in runs])


def _join(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"
