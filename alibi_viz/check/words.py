"""Numbers with their nouns, for reports."""


def count(number: int, noun: str) -> str:
    """A number with its noun: "1 query", "2 queries"."""
    if number == 1:
        return f"1 {noun}"
    plural = "queries" if noun == "query" else f"{noun}s"
    return f"{number} {plural}"
