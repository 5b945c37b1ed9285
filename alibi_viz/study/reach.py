"""How far each claim reaches: in which settings it is seen, and what decides where it isn't."""

import pandas as pd

from alibi_viz.measure.sentences import join
from alibi_viz.measure.table import LEVEL, REACH_COLUMNS, VERDICT_COLUMNS, check_table
from alibi_viz.study.judge import CANT_TELL, KNOWN, NOT_SEEN, SEEN

SLOPES = "slopes"  # the factor that every setting has: ALiBi's slopes, official or scaled to L


def reach_table(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each claim of a `verdict_table`: what became of it in all of its settings.

    Columns: claim, text, source, known, seen, not_seen and open (in how many settings, counted with
    both kinds of slopes), hangs_on (a tuple of factors, such as ("heads", "slopes")), and reach (in
    a few words).

    A claim hangs on a factor if settings that differ only in this factor give opposite verdicts,
    "seen here" and "not seen here".

    >>> from alibi_viz import study
    >>> table = study.verdict_table(study.published_results(by_block=True))
    >>> reach = study.reach_table(table).set_index("claim")["reach"]
    >>> reach["Sinusoidal falls apart"]
    'seen in all'
    """
    check_table("table", table, VERDICT_COLUMNS)
    rows = []
    for claim, verdicts in table.dropna(subset="low").groupby("claim", sort=False):
        counts = verdicts["verdict"].value_counts()
        factors = _deciding_factors(verdicts)
        first = verdicts.iloc[0]
        rows.append(
            {
                "claim": claim,
                "text": first["text"],
                "source": first["source"],
                "known": first["known"],
                "seen": int(counts.get(SEEN, 0)),
                "not_seen": int(counts.get(NOT_SEEN, 0)),
                "open": int(counts.get(CANT_TELL, 0)),
                "hangs_on": factors,
                "reach": _reach(counts, factors),
            }
        )
    return pd.DataFrame(rows, columns=list(REACH_COLUMNS))


def _deciding_factors(verdicts: pd.DataFrame) -> tuple[str, ...]:
    """The factors of which one alone turns a verdict on a claim into its opposite."""
    factors = []
    for factor in verdicts["factor"].unique():
        # The main setting has no factor: all else is equal to it.
        differing = verdicts[verdicts["factor"].isin(["", factor])]
        if factor and _any_opposite(differing, by="slopes"):
            factors.append(factor)
    if _any_opposite(verdicts, by="setting"):
        factors.append(SLOPES)
    return tuple(factors)


def _any_opposite(verdicts: pd.DataFrame, by: str) -> bool:
    """Whether there are opposite verdicts among those that agree in this column."""
    opposites = {SEEN, NOT_SEEN}
    return any(opposites <= set(group["verdict"]) for _, group in verdicts.groupby(by))


def _reach(counts: pd.Series, factors: tuple[str, ...]) -> str:
    """How far a claim reaches, in a few words."""
    total = counts.sum()
    seen = counts.get(SEEN, 0)
    not_seen = counts.get(NOT_SEEN, 0)
    if seen == total:
        return "seen in all"
    if not_seen == total:
        return "seen in none"
    if seen and not_seen:
        return f"hangs on the {join(factors)}" if factors else "hangs on the setting"
    if seen:
        return f"seen in {seen} of {total}, else open"
    if not_seen:
        return f"not seen in {not_seen} of {total}, else open"
    return "open"


def conclusion(table: pd.DataFrame) -> str:
    """What all verdicts of `verdict_table` say together, in a few sentences."""
    check_table("table", table, (*VERDICT_COLUMNS, "holm"))
    table = table.dropna(subset="low")  # without an interval: a claim that has too few results
    if table.empty:
        return "There are no results on any claim."
    excluding = table["p"] < 1 - LEVEL
    too_close = excluding & (table["verdict"] == CANT_TELL)
    survive = excluding & (table["holm"] < 1 - LEVEL)
    reach = reach_table(table)
    is_seen_in_all = reach["reach"] == "seen in all"
    is_hanging = reach["reach"].str.startswith("hangs on")
    counts = reach["known"].value_counts()
    known = join([f"{counts[words]} {words}" for words in KNOWN if words in counts])
    return (
        f"Of these {len(table)} intervals, {excluding.sum()} exclude their threshold, "
        f"{too_close.sum()} of them so narrowly that their verdict is open. After Holm's "
        f"correction for testing all of them at once, {survive.sum()} still exclude it.\n"
        f"Of {len(reach)} claims, {is_seen_in_all.sum()} are seen in all settings, and "
        f"{is_hanging.sum()} hang on one.\n"
        f"What we knew of the results when we declared the settings: {known}."
    )
