"""Test claims against results, and say how far each reaches. Verdicts are computed, never typed in.

A claim says that a number, computed from the runs of one seed, is at least or at most a threshold.
By its 95% interval in one setting:

    seen      the claim holds in the whole interval
    not_seen  it holds nowhere in the interval
    open      it holds in a part of the interval, or results are missing

An end of the interval that is closer than `RESOLUTION` to the threshold decides nothing. The
interval covers other seeds and, on a text, other held-out passages. For a loss, it is the Student t
interval for so few seeds around the standard error of a bootstrap over runs and blocks of the
held-out text. Shares of answers lie near 0 or 1 in most models, so there it is the exact interval
of the median of other seeds, and p is that of a sign test.

The interval doesn't cover another training text or other settings. So each claim is judged in all
settings, once with ALiBi's official slopes and once with slopes times 8. `reach_table` says in
which of them a claim was seen, and `prediction_table` what one more setting would show.
"""

import math
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.special import bdtr, stdtr, stdtrit  # scipy.stats takes a second to import

from alibi_viz.arguments import as_list, check_choice, check_known
from alibi_viz.lab import TASKS, find_question
from alibi_viz.measure.sentences import join
from alibi_viz.measure.table import (
    AS_TRAINED,
    FEWEST_SEEDS,
    LEVEL,
    NOT_SEEN,
    OPEN,
    PREDICTION_COLUMNS,
    REACH_COLUMNS,
    SCALED,
    SEEN,
    VERDICT_COLUMNS,
    VERDICTS,
    check_table,
)
from alibi_viz.study.settings import MAIN, SETTINGS, Setting

# What was known of the result when the settings were declared.
KNOWN = ("blind", "after a pilot", "known before")

# How close to its threshold no claim is decided, in the unit of its question.
RESOLUTION = 0.005

# ALiBi as published, and with slopes times 8
ALIBI = "alibi"
SCALED_ALIBI = "alibi, scaled slopes"
OFFICIAL = "official"
# The factor that every setting has: official or times 8
SLOPES = "slopes"

# The setting of results that don't name theirs
THESE_RESULTS = "these results"


@dataclass(frozen=True)
class Term:
    """One answer in the number of a claim.

    Attributes:
        label: of the trained model, as in the column "label".
        times: where on the question's axis, in multiples of L, the shortest training length in the
            results.
        variant: how the model was changed before it was evaluated, such as "window".
    """

    label: str
    times: int
    variant: str = AS_TRAINED


@dataclass(frozen=True)
class Claim:
    """A claim: a number is on one side of a threshold.

    The number is the sum of the answers `plus` minus the sum of the answers `minus`.

    Attributes:
        name: the claim in a few words.
        text: the claim in a sentence with its threshold.
        source: who makes it.
        plus, minus: the answers.
        at_least: the smallest number for which the claim holds; or
        at_most: the largest.
        question: what was asked of the models, the name of one of `lab.QUESTIONS`.
        known: what was known of the result when its settings were declared, one of `KNOWN`.
        written: the day on which the claim was written down, such as "2026-11-22".

    Raises ValueError without terms, without a threshold or with two, and for an unknown question.
    """

    name: str
    text: str
    source: str
    plus: Sequence[Term]
    minus: Sequence[Term] = ()
    at_least: float | None = None
    at_most: float | None = None
    question: str = "longer sequences"
    known: str = "blind"
    written: str = ""

    def __post_init__(self) -> None:
        limits = [limit for limit in (self.at_least, self.at_most) if limit is not None]
        if len(limits) != 1 or math.isnan(limits[0]) or not self.plus:
            raise ValueError(
                f"a claim needs terms in plus, and a number at_least or at_most: {self.text!r}"
            )
        check_known("known", [self.known], KNOWN)
        find_question(self.question)

    @property
    def labels(self) -> set[str]:
        """Of the trained models that it is about."""
        return {term.label for term in (*self.plus, *self.minus)}

    @property
    def task(self) -> str:
        """What these models are trained on: "text", or a task such as "needle"."""
        return find_question(self.question).task

    def with_scaled_slopes(self) -> "Claim | None":
        """The same claim about ALiBi with slopes times 8; None if it isn't about ALiBi.

        A claim that compares both kinds of slopes stays as it is.
        """
        if ALIBI not in self.labels or SCALED_ALIBI in self.labels:
            return None
        return replace(self, plus=_scaled(self.plus), minus=_scaled(self.minus))

    @property
    def threshold(self) -> float:
        """`at_least` or `at_most`."""
        if self.at_least is not None:
            return self.at_least
        assert self.at_most is not None
        return self.at_most

    @property
    def slopes(self) -> str:
        """Those of ALiBi that it is about: "official", "times 8", or "" without ALiBi."""
        if ALIBI in self.labels:
            return OFFICIAL
        return SCALED if SCALED_ALIBI in self.labels else ""

    def margin(self, number: float) -> float:
        """By how much the claim holds for a number; negative if it doesn't."""
        if self.at_least is not None:
            return number - self.threshold
        return self.threshold - number


def _scaled(terms: Sequence[Term]) -> list[Term]:
    """The terms, with ALiBi's slopes times 8."""
    return [replace(term, label=SCALED_ALIBI) if term.label == ALIBI else term for term in terms]


def judge(
    results: pd.DataFrame, claims: Iterable[Claim] | None = None, *, setting: str = MAIN
) -> pd.DataFrame:
    """The verdict on each claim by the results of one setting, a row for each.

    Args:
        results: a table with the columns of `lab.COLUMNS`, and "block" if values are means of
            blocks of text.
        claims: by default those in claims.toml that are about what the setting's runs measure.
        setting: the id in the column "setting" of the rows to judge, if the table has one.

    The columns are those of `verdict_table`, without "holm". Raises TypeError and ValueError for
    other arguments.

    >>> from alibi_viz import study
    >>> claim = study.Claim(
    ...     "It fails",
    ...     "Its loss rises by half a bit.",
    ...     "me",
    ...     plus=[study.Term("rotary", 16)],
    ...     minus=[study.Term("rotary", 1)],
    ...     at_least=0.5,
    ... )
    >>> study.judge(study.published_results(), [claim])["verdict"].item()
    'seen'
    >>> no_results = study.published_results().head(0)
    >>> study.judge(no_results)["verdict"].unique().tolist()
    ['open']
    """
    check_table("results", results)
    if "setting" in results:
        check_choice("setting", setting, [*SETTINGS, *results["setting"].unique()])
        results = results[results["setting"] == setting]
    if claims is None:
        claims = _claims_of(setting)
    claims = as_list("claims", claims, "Claim objects", Claim)
    return pd.DataFrame(_verdicts(results, claims, setting), columns=list(VERDICT_COLUMNS))


def _verdicts(
    results: pd.DataFrame, claims: Iterable[Claim], setting: str
) -> Iterator[dict[str, Any]]:
    """The verdict on each claim by the results of one setting, by column."""
    declared = SETTINGS.get(setting)
    if "block" not in results:
        results = results.assign(block=0)
    questions: dict[str, _Answers] = {}
    for claim in claims:
        try:
            if claim.question not in questions:
                questions[claim.question] = _answers(claim.question, results)
            outcome = _outcome(claim, _values(claim, questions[claim.question]))
        except LookupError as error:
            outcome = {"p": 1.0, "verdict": OPEN, "numbers": str(error.args[0])}
        yield {
            "setting": setting,
            "setting_name": declared.name if declared else setting,
            "factor": declared.factor if declared else "",
            "base": declared.base if declared else "",
            "slopes": claim.slopes,
            "claim": claim.name,
            "text": claim.text,
            "source": claim.source,
            "known": claim.known,
            **outcome,
        }


def _claims_of(setting: str) -> list[Claim]:
    """The claims that are judged in a setting: those about what its runs measure."""
    if setting not in SETTINGS:
        return list(CLAIMS)
    return [claim for claim in CLAIMS if _is_measured(claim, SETTINGS[setting])]


def _is_measured(claim: Claim, setting: Setting) -> bool:
    """Whether the runs of a setting have all answers that a claim is about."""
    kind = setting.task if setting.task in TASKS else "text"
    if claim.task != kind:
        return False
    runs = {run.label: run for run in setting.models}
    shortest = min(run.length for run in runs.values())
    for term in (*claim.plus, *claim.minus):
        run = runs.get(term.label)
        if run is None or term.times * shortest > run.longest * run.length:
            return False
        if term.variant not in (AS_TRAINED, *(run.variants or ())):
            return False
    return True


def _outcome(claim: Claim, values: NDArray[np.float64]) -> dict[str, Any]:
    """What the numbers of a claim, [seeds, blocks], say about it.

    Raises LookupError if they can't say anything.
    """
    number = float(values.mean())
    error_of_mean = standard_error(values)
    if find_question(claim.question).unit == "share of answers":
        of_seeds = values.mean(axis=1)
        number = float(np.median(of_seeds))
        error_of_mean = math.nan  # it depends on the share, and is 0 where all models find all
        low, high = median_interval(of_seeds)
        p = sign_test(of_seeds - claim.threshold)
    else:
        if error_of_mean == 0:
            raise LookupError("all seeds and passages agree, so there is no interval")
        degrees = len(values) - 1
        half_width = error_of_mean * stdtrit(degrees, (1 + LEVEL) / 2)
        low = number - half_width
        high = number + half_width
        p = float(2 * stdtr(degrees, -abs(number - claim.threshold) / error_of_mean))

    worst, best = sorted([claim.margin(low), claim.margin(high)])
    if worst >= RESOLUTION:
        verdict = SEEN
    elif best <= -RESOLUTION:
        verdict = NOT_SEEN
    else:
        verdict = OPEN

    side = "at least" if claim.at_least is not None else "at most"
    interval = f"{LEVEL:.0%}: {low:+z.3f} to {high:+z.3f}"
    return {
        "margin": claim.margin(number),
        "error": error_of_mean,
        "low": worst,
        "high": best,
        "p": p,
        "verdict": verdict,
        "numbers": f"{number:+z.3f}, {interval}, needs {side} {claim.threshold:+z.2f}",
    }


def median_interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """An interval for the median of other seeds that covers it in at least 95%, whatever the
    distribution: from one of the ordered values to another (order statistics).

    Raises LookupError for fewer than six values, of which even all together cover less.
    """
    seeds = len(values)
    ordered = np.sort(values)
    # The median is below the value at `left` if at most `left` of them are below the median.
    left = -1
    while 2 * bdtr(left + 1, seeds, 0.5) <= 1 - LEVEL:
        left += 1
    if left < 0:
        raise LookupError(f"too few seeds for an exact test of shares: {seeds} of at least 6")
    return float(ordered[left]), float(ordered[-1 - left])


def sign_test(values: NDArray[np.float64]) -> float:
    """The p-value of the sign test: how likely signs as unequal as these are if both are as likely.

    >>> import numpy as np
    >>> from alibi_viz.study.judge import sign_test
    >>> sign_test(np.array([0.1, 0.2, 0.1, 0.4, 0.2, 0.3, 0.1, -0.2]))
    0.0703125
    """
    rarer = min((values > 0).sum(), (values < 0).sum())
    differing = np.count_nonzero(values)
    return min(1.0, float(2 * bdtr(rarer, differing, 0.5)))


class _Answers(NamedTuple):
    """The results on one question, in which claims look up their terms."""

    length: int  # the shortest training length
    # A row for each label, variant, x and seed; a column for each block
    values: pd.DataFrame
    # Whether a label, variant and x has several steps or training lengths
    is_mixed: pd.Series


def _answers(question: str, results: pd.DataFrame) -> _Answers:
    """The results on a question. Raises LookupError if no claim can be judged by them."""
    rows = results[results["question"] == question].dropna(subset="value")
    if rows.empty:
        raise LookupError(f"no results on {question!r}")
    texts = rows["text"].nunique()
    if texts > 1:
        raise LookupError(f"the results are about {texts} different texts")
    if rows.duplicated(["label", "variant", "seed", "x", "block"]).any():
        raise LookupError("there are several results for a label, seed and x")

    # No seed has two values for a block, so nothing is to be averaged.
    values = rows.set_index(["label", "variant", "x", "seed", "block"])["value"].unstack()
    models = rows.groupby(["label", "variant", "x"])[["step", "length"]].nunique()
    return _Answers(int(rows["length"].min()), values, (models > 1).any(axis=1))


def _values(claim: Claim, answers: _Answers) -> NDArray[np.float64]:
    """The number of the claim, float64 [seeds, blocks].

    Raises LookupError, and says why, if results are missing.
    """
    signed: list[pd.DataFrame] = []
    for term in (*claim.plus, *claim.minus):
        key = (term.label, term.variant, term.times * answers.length)
        if key not in answers.is_mixed:
            changed = "" if term.variant == AS_TRAINED else f", {term.variant},"
            raise LookupError(f"no results of {term.label}{changed} at {term.times}L")
        if answers.is_mixed[key]:
            raise LookupError(
                f"{term.label} has several steps or training lengths: label the models apart"
            )
        # Sequences of some length make fewer blocks.
        values = answers.values.loc[key].dropna(axis="columns", how="all")
        signed.append(values if len(signed) < len(claim.plus) else -values)
    if len({values.shape[1] for values in signed}) > 1:
        signed = [values.mean(axis=1).to_frame() for values in signed]

    number: Any = sum(signed)
    number = number.dropna()  # leaves the seeds that all terms have
    if len(number) < FEWEST_SEEDS:
        raise LookupError(
            f"too few seeds have all results: {len(number)} of at least {FEWEST_SEEDS}"
        )
    return np.asarray(number).round(5)


def standard_error(values: NDArray[np.float64]) -> float:
    """The standard error of the mean of numbers [seed, block], over other seeds and other blocks.

    It is that of a bootstrap that resamples seeds and blocks together, computed instead of drawn.
    """
    seeds, blocks = values.shape
    mean = values.mean()
    of_seeds = values.mean(axis=1) - mean
    of_blocks = values.mean(axis=0) - mean
    rest = values - mean - of_seeds[:, None] - of_blocks
    variance = of_seeds.var() / seeds + of_blocks.var() / blocks + rest.var() / values.size
    return math.sqrt(variance * seeds / (seeds - 1))  # a resample varies less than the sample


def verdict_table(results: pd.DataFrame) -> pd.DataFrame:
    """The claims of claims.toml in each setting that has results, a row for each verdict.

    Claims about ALiBi are judged with its official slopes and with slopes times 8. The rows are in
    the order of settings.toml and claims.toml.

    Columns: setting (its id), setting_name, factor (what it changes in the setting "base"), base,
    slopes ("official", "times 8", or "" for a claim without ALiBi), claim, text, source, known,
    margin (by how much the claim holds), error (the standard error of that; NaN for shares of
    answers), low and high (the interval of the margin), p, verdict (its id), numbers (in words),
    and holm (p after Holm's correction over all rows with results).

    >>> from alibi_viz import study
    >>> table = study.verdict_table(study.published_results(by_block=True))
    >>> table["slopes"].unique().tolist()
    ['official', 'times 8', '']
    """
    check_table("results", results)
    if "setting" not in results:
        results = results.assign(setting=THESE_RESULTS)
    in_table = list(results["setting"].unique())
    declared = [name for name in SETTINGS if name in in_table]
    others = [name for name in in_table if name not in SETTINGS]

    rows: list[dict[str, Any]] = []
    for setting in [*declared, *others]:
        of_setting = results[results["setting"] == setting]
        labels = set(of_setting["label"])
        claims = []
        for claim in _claims_of(setting):
            claims.append(claim)
            scaled = claim.with_scaled_slopes()
            if scaled is not None and scaled.labels <= labels:
                claims.append(scaled)
        rows.extend(_verdicts(of_setting, claims, setting))
    table = pd.DataFrame(rows, columns=list(VERDICT_COLUMNS))
    p_values = table["p"][table["low"].notna()]
    return table.assign(holm=pd.Series(holm(p_values), p_values.index))


def holm(p_values: Iterable[float]) -> NDArray[np.float64]:
    """Holm's correction (1979) of p-values for testing several claims at once.

    Of the hypotheses "the number equals its threshold", whichever are true: the chance that the
    corrected value of any is below 5% is at most 5%.

    >>> from alibi_viz.study.judge import holm
    >>> holm([0.01, 0.04, 0.03])
    array([0.03, 0.06, 0.06])
    """
    p_values = np.asarray(list(p_values), dtype=float)
    order = np.argsort(p_values)
    rank = np.argsort(order)
    # The smallest is multiplied by how many there are, the next by one less, and so on.
    tests_left = np.arange(len(order), 0, -1)
    corrected = np.maximum.accumulate(p_values[order] * tests_left)
    return corrected.clip(max=1)[rank]


# How far each claim reaches


def reach_table(table: pd.DataFrame) -> pd.DataFrame:
    """A row for each claim of a `verdict_table`: what became of it in all of its settings.

    Columns: claim, text, source, known, seen, not_seen and open (in how many settings, counted with
    both kinds of slopes), hangs_on (a tuple of factors, such as ("heads", "slopes")), and reach (in
    a few words).

    A claim hangs on a factor if settings that differ only in this factor give opposite verdicts,
    "seen" and "not_seen", and both survive Holm's correction.

    >>> from alibi_viz import study
    >>> table = study.verdict_table(study.published_results(by_block=True))
    >>> reach = study.reach_table(table).set_index("claim")["reach"]
    >>> reach["Sinusoidal falls apart"]
    'seen in all'
    """
    check_table("table", table, (*VERDICT_COLUMNS, "holm"))
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
                **{verdict: int(counts.get(verdict, 0)) for verdict in VERDICTS},
                "hangs_on": factors,
                "reach": _reach(counts, factors),
            }
        )
    return pd.DataFrame(rows, columns=list(REACH_COLUMNS))


def _deciding_factors(verdicts: pd.DataFrame) -> tuple[str, ...]:
    """The factors of which one alone turns a verdict on a claim into its opposite."""
    verdicts = verdicts[verdicts["holm"] < 1 - LEVEL]
    factors: list[str] = []
    for (factor, base), changed in verdicts.groupby(["factor", "base"], sort=False):
        differing = pd.concat([changed, verdicts[verdicts["setting"] == base]])
        if factor not in ("", *factors) and _any_opposite(differing, by="slopes"):
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
    if factors:
        return f"hangs on the {join(factors)}"
    if seen == total:
        return "seen in all" if total > 1 else "seen in its only setting"
    if not_seen == total:
        return "seen in none"
    if seen == not_seen == 0:
        return "open"

    words = f"seen in {seen} of {total}" if seen else f"not seen in {not_seen} of {total}"
    if seen and not_seen:
        return f"{words}, not seen in {not_seen}"
    return f"{words}, else open"


def prediction_table(table: pd.DataFrame) -> pd.DataFrame:
    """What one more setting of this kind would show, a row for each claim and kind of slopes.

    Settings differ by more than the errors of their numbers. The spread between them is estimated
    as in a random-effects meta-analysis (DerSimonian and Laird 1986), and from it the interval for
    the margin in a new setting (Higgins, Thompson and Spiegelhalter 2009). Our settings are no
    random sample of all possible ones, so it is a summary, not a law.

    Args:
        table: a `verdict_table`. Claims about losses that were judged in at least three settings
            are in the result.

    Columns: claim, slopes, settings (how many), margin (the mean), between (the standard deviation
    between settings), low and high (the 95% prediction interval of the margin), and prediction
    (the verdict in a new setting).

    >>> from alibi_viz import study
    >>> table = study.verdict_table(study.published_results(by_block=True))
    >>> predictions = study.prediction_table(table).set_index(["claim", "slopes"])["prediction"]
    >>> predictions["Sinusoidal falls apart", "official"]
    'seen'
    """
    check_table("table", table, VERDICT_COLUMNS)
    rows = []
    judged = table.dropna(subset=["low", "error"])
    for (claim, slopes), of_claim in judged.groupby(["claim", "slopes"], sort=False):
        settings = len(of_claim)
        if settings < FEWEST_SEEDS:
            continue
        margins = of_claim["margin"].to_numpy()
        variances = of_claim["error"].to_numpy() ** 2
        between = _variance_between(margins, variances)
        weights = 1 / (variances + between)
        mean = float((weights * margins).sum() / weights.sum())
        error = math.sqrt(between + 1 / weights.sum())
        half_width = error * stdtrit(settings - 2, (1 + LEVEL) / 2)
        prediction = OPEN
        if mean - half_width > 0:
            prediction = SEEN
        elif mean + half_width < 0:
            prediction = NOT_SEEN
        rows.append(
            {
                "claim": claim,
                "slopes": slopes,
                "settings": settings,
                "margin": mean,
                "between": math.sqrt(between),
                "low": mean - half_width,
                "high": mean + half_width,
                "prediction": prediction,
            }
        )
    return pd.DataFrame(rows, columns=list(PREDICTION_COLUMNS))


def _variance_between(margins: NDArray[np.float64], variances: NDArray[np.float64]) -> float:
    """The variance between settings: what their own errors leave of the spread of the margins."""
    weights = 1 / variances
    total = weights.sum()
    mean = (weights * margins).sum() / total
    spread = (weights * (margins - mean) ** 2).sum()
    expected = len(margins) - 1  # of settings that differ by their errors only
    return max(0.0, float((spread - expected) / (total - (weights**2).sum() / total)))


def conclusion(table: pd.DataFrame) -> str:
    """What all verdicts of `verdict_table` say together, in a few sentences."""
    check_table("table", table, (*VERDICT_COLUMNS, "holm"))
    table = table.dropna(subset="low")  # without an interval: a claim that has too few results
    if table.empty:
        return "There are no results on any claim."
    excluding = table["p"] < 1 - LEVEL
    too_close = excluding & (table["verdict"] == OPEN)
    survive = excluding & (table["holm"] < 1 - LEVEL)
    reach = reach_table(table)
    is_seen_in_all = reach["reach"] == "seen in all"
    is_hanging = reach["reach"].str.startswith("hangs on")
    predictions = prediction_table(table)["prediction"].value_counts()
    counts = reach["known"].value_counts()
    known = join([f"{counts[words]} {words}" for words in KNOWN if words in counts])
    return (
        f"Of these {len(table)} intervals, {excluding.sum()} exclude their threshold, "
        f"{too_close.sum()} of them so narrowly that their verdict is open. After Holm's "
        f"correction for testing all of them at once, {survive.sum()} still exclude it.\n"
        f"Of {len(reach)} claims, {is_seen_in_all.sum()} are seen in all settings, and "
        f"{is_hanging.sum()} hang on one, by verdicts that survive the correction.\n"
        f"In one more setting of this kind, of {predictions.sum()} predictions, "
        f"{predictions.get(SEEN, 0)} expect the claim to be seen, "
        f"{predictions.get(NOT_SEEN, 0)} not to be seen, and {predictions.get(OPEN, 0)} are "
        "open.\n"
        f"What we knew of the results when we declared the settings: {known}."
    )


# The files of this folder


def _read(name: str) -> dict[str, Any]:
    """A TOML file of this folder."""
    return tomllib.loads((FOLDER / name).read_text(encoding="utf-8"))


def _claim(entry: Mapping[str, Any]) -> Claim:
    """A claim of claims.toml, with the papers that its source names and its threshold."""
    citations = {
        name: f"{paper['authors']} {paper['year']}, arXiv {paper['arxiv']}"
        for name, paper in PAPERS.items()
    }
    unit = find_question(entry.get("question", Claim.question)).unit
    threshold = {}
    for side in ("at_least", "at_most"):
        if entry.get(side) == "smallest":
            threshold[side] = SMALLEST_EFFECT[unit]
    settings = {
        **entry,
        **threshold,
        "source": entry["source"].format_map(citations),
        "plus": [Term(**term) for term in entry["plus"]],
        "minus": [Term(**term) for term in entry.get("minus", [])],
    }
    return Claim(**settings)


FOLDER = Path(__file__).parent
PAPERS = _read("papers.toml")  # {name: {"authors": ..., "year": ..., "arxiv": ...}}
_DECLARED = _read("claims.toml")
# {unit: the smallest effect of interest}
SMALLEST_EFFECT: Mapping[str, float] = _DECLARED["smallest_effect"]
CLAIMS = tuple(_claim(entry) for entry in _DECLARED["claim"])
