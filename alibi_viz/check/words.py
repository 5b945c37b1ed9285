"""Numbers with their nouns and lists of words, for reports."""

from collections.abc import Sequence


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 query", "2 queries"."""
    if number == 1:
        return f"1 {noun}"
    plural = "queries" if noun == "query" else f"{noun}s"
    return f"{number} {plural}"


def alternatives(words: Sequence[str], last: str = "or") -> str:
    """Words of which one holds, or with `last="and"` all: "a", "a or b", "a, b or c"."""
    if len(words) == 1:
        return words[0]
    return f"{', '.join(words[:-1])} {last} {words[-1]}"
