"""Claims of the same kind are worded, and computed, by the same function."""

from typing import Any

from alibi_viz.lab.claims.claim import Claim, Seed
from alibi_viz.lab.passages import PassagesText
from alibi_viz.lab.questions.outcomes import quoted
from alibi_viz.lab.results import AS_TRAINED

__all__ = ["finds", "holds", "more_accurate", "recalls", "worse"]

Windows = tuple[str, int] | tuple[str, int, str]  # label, length in multiples of L, and how the model was changed


def worse(
    claim: str,
    source: str,
    first: Windows,
    second: Windows,
    *,
    at_least: float | None = None,
    at_most: float = 0.0,
    **history: Any,
) -> Claim:
    """The claim that the first loss is higher than the second by at least, or at most, some bits per byte.

    `history` holds other fields of `Claim`, such as when it was written and what was known by then.
    """
    bound, bits = ("at most", at_most) if at_least is None else ("at least", at_least)
    text = f"{claim}: {_name(*first)} is {bound} {bits:g} bits worse than {_name(*second)}"
    limits: dict[str, Any] = {"at_most": at_most} if at_least is None else {"at_least": at_least}
    return Claim(text, source, lambda seed: seed.bits(*first) - seed.bits(*second), **limits, **history)


def holds(label: str, source: str, times: int = 16, **history: Any) -> Claim:
    """The claim that a method's loss rises by at most 0.1 bits from windows of L to longer ones."""
    return worse(f"{label} holds", source, (label, times), (label, 1), at_most=0.1, **history)


def recalls(label: str, source: str, *, at_least: float, task: str = "passages", **history: Any) -> Claim:
    """The claim that a method recalls passages from beyond L, which without recall need 3 bits per byte."""
    question = "far context" if task == "passages" else "far context in text"
    text = (
        f"{task}: with 16L of context, {quoted(label)} saves at least {at_least:g} of 3 bits on passages from beyond L"
    )
    chance = PassagesText.chance

    def saved(seed: Seed) -> float:
        return chance - seed.answer(task, label, question, PassagesText.far)

    return Claim(text, source, saved, at_least, **history)


def finds(label: str, source: str, **history: Any) -> Claim:
    """The claim that a method finds nine of ten needles 32 L back."""
    text = f"needle: the method {label} finds at least 90% of the needles 32L back"
    return Claim(text, source, lambda seed: seed.accuracy("needle", label, 32), 0.9, limits=(0, 1), **history)


def more_accurate(first: str, second: str, times: int, source: str, *, at_least: float, **history: Any) -> Claim:
    """The claim that a method copies better than another one, on examples of a multiple of L."""
    length = f"{times if times > 1 else ''}L"
    text = (
        f"copy: on examples of {length}, the accuracy of {first} is at least {at_least:g} higher than that of {second}"
    )
    return Claim(
        text,
        source,
        lambda seed: seed.accuracy("copy", first, times) - seed.accuracy("copy", second, times),
        at_least,
        **history,
    )


def _name(label: str, times: int, evaluated: str = AS_TRAINED) -> str:
    changed = "" if evaluated == AS_TRAINED else f" ({evaluated})"
    return f"{quoted(label)}{changed} on windows of {times if times > 1 else ''}L"
