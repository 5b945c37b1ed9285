"""Sentences about the table of results: what holds in every seed.

The functions take the rows of one question and one variant. A label is quoted where it contains a comma.
"""

import math
import re
from collections.abc import Callable, Mapping, Sequence
from itertools import takewhile

import pandas as pd

from alibi_viz.lab.attention_stats import SINKS
from alibi_viz.lab.measures import QUERIES, STRIDE
from alibi_viz.lab.tasks import Task
from alibi_viz.slopes import alibi_slopes
from alibi_viz.table import over_seeds, share_interval

MAX_RISE_HOLDING = 0.1  # bits per byte: a method whose loss rises by no more than this beyond its training length holds
MIN_RISE_FAILING = 0.5  # bits per byte: one whose loss rises by at least this fails; in between it degrades
TIE = 0.02  # bits per byte, or share of answers: a smaller lead doesn't make a method the best
VERBS = {"holds": ("holds", "hold"), "degrades": ("degrades", "degrade"), "fails": ("fails", "fail")}


def curves(rows: pd.DataFrame) -> pd.DataFrame:
    """One line per label and seed, in the order of the rows, and one column per x; NaN where there is no value."""
    wide = rows.set_index(["label", "seed", "x"])["value"].unstack("x", sort=False)
    return wide[sorted(wide.columns)]


def values_at(rows: pd.DataFrame, x: int) -> pd.DataFrame:
    """The values at x: one line per seed, and one column per label that has any."""
    wide = rows[rows["x"] == x].set_index(["seed", "label"])["value"].unstack("label", sort=False)
    return wide.dropna(axis="columns", how="all").dropna(how="all")


def every_seed(rows: pd.DataFrame, statistic: Callable[[pd.Series], float]) -> dict[str, list[float]]:
    """A number for each seed of each label, from the defined values of its curve: {label: one number per seed}.

    Labels for which the number is not defined in every seed are left out.
    """
    if rows.empty:
        return {}
    each = pd.Series({at: statistic(line.dropna()) for at, line in curves(rows).iterrows()}, dtype=float)
    groups = each.groupby(level=0, sort=False)
    return {str(label): group.tolist() for label, group in groups if group.notna().all()}


def rises(rows: pd.DataFrame) -> dict[str, list[float]]:
    """The largest rise of the loss above its value at the shortest length; only where there are longer ones."""
    return every_seed(rows, lambda line: line.iloc[1:].max() - line.iloc[0] if len(line) > 1 else math.nan)


def outcome(rises: Sequence[float]) -> str:
    """Classify rises in loss, one per seed: "holds", "degrades", "fails", "mixed", or "undefined" for a NaN or none.

    >>> from alibi_viz.lab.say import outcome
    >>> outcome([0.01, 0.02]), outcome([0.2]), outcome([0.01, 2.0])
    ('holds', 'degrades', 'mixed')
    """
    if not rises or not all(map(math.isfinite, rises)):
        return "undefined"
    kinds = {
        "holds" if rise <= MAX_RISE_HOLDING else "fails" if rise >= MIN_RISE_FAILING else "degrades" for rise in rises
    }
    return kinds.pop() if len(kinds) == 1 else "mixed"


def outcomes(rises: Mapping[str, Sequence[float]], verbs: Mapping[str, tuple[str, str]] = VERBS) -> list[str]:
    """Clauses on which methods hold, degrade and fail, from the rise of each label's loss in each seed.

    >>> from alibi_viz.lab.say import outcomes
    >>> outcomes({"alibi": [0.01], "rotary": [1.9], "sinusoidal": [2.0]})
    ['alibi holds (+0.01)', 'rotary (+1.90) and sinusoidal (+2.00) fail']
    """
    clauses = []
    for kind, (singular, plural) in verbs.items():
        labels = [label for label, each in rises.items() if outcome(each) == kind]
        numbers = [f"({sum(rises[label]) / len(rises[label]):+z.2f})" for label in labels]
        if len(labels) == 1:
            clauses.append(f"{quoted(labels[0])} {singular} {numbers[0]}")
        elif labels:
            named = [f"{quoted(label)} {number}" for label, number in zip(labels, numbers, strict=True)]
            clauses.append(f"{join(named)} {plural}")
    return clauses


def what_holds(rises: Mapping[str, Sequence[float]]) -> list[str]:
    """Sentences with these `outcomes`, and on labels about which the seeds disagree."""
    clauses = outcomes(rises)
    several = "In every seed " if any(len(each) > 1 for each in rises.values()) else ""
    sentences = [f"{several}{'; '.join(clauses)}."] if clauses else []
    mixed = {quoted(label): each for label, each in rises.items() if outcome(each) == "mixed"}
    if mixed:
        ranges = [f"{label} ({min(each):+z.2f} to {max(each):+z.2f})" for label, each in mixed.items()]
        sentences.append(f"The seeds disagree about {join(ranges)}.")
    return sentences


def undefined(rows: pd.DataFrame, length: int) -> list[str]:
    """Labels without a value beyond their training length, so that a missing line isn't a surprise."""
    by_label = rows.groupby("label", sort=False)
    single = [quoted(label) for label, own in by_label if own["x"].nunique() == 1]
    last = rows[rows["x"] == by_label["x"].transform("max")]
    missing = dict.fromkeys(quoted(label) for label in last["label"][last["value"].isna()])
    ends = [label for label in missing if label not in single]
    sentences = [f"Not defined beyond {length:,}: {join(ends)}."] if ends else []
    return [*sentences, *([f"Tested at its training length only: {join(single)}."] if single else [])]


def best_at(rows: pd.DataFrame, x: int, where: str, *, lowest: bool = True) -> list[str]:
    """Which labels are best at x, or within `TIE` of the best, in every seed; nothing for fewer than two labels.

    >>> from alibi_viz.lab.say import best_at
    >>> rows = pd.DataFrame({"label": list("abc"), "seed": 0, "x": 64, "value": [2.0, 2.01, 3.0]})
    >>> best_at(rows, 64, "At 64")
    ['At 64 a and b are best, within 0.02 of each other.']
    """
    values = values_at(rows, x) * (1 if lowest else -1)
    if len(values.columns) < 2:
        return []
    near = values.le(values.min(axis="columns") + TIE, axis="index").all()
    leaders = [str(label) for label in near.index[near]]
    names, verb = join(list(map(quoted, leaders))), "are" if len(leaders) > 1 else "is"
    seeds = " in every seed" if len(values) > 1 else ""
    if not leaders:
        return [f"{where} no method is best{seeds}."]
    if len(leaders) == len(near):
        return [f"{where} all are within {TIE:g} of the best{seeds}."]
    if not set(values.idxmin(axis="columns")) <= set(leaders):  # in some seeds another one is ahead of them
        return [f"{where} {names} {verb} within {TIE:g} of the best{seeds}."]
    return [f"{where} {names} {verb} best{seeds}{f', within {TIE:g} of each other' if len(leaders) > 1 else ''}."]


def up_to(rows: pd.DataFrame, holds: Callable[[float], bool], never: str = "not at all", at: str = "up to") -> str:
    """The largest x of each label up to which its values hold in every seed, such as "alibi up to 31"."""
    reached = every_seed(rows, lambda line: max(takewhile(lambda x: holds(line[x]), line.index), default=0))
    return join([f"{quoted(name)} {f'{at} {min(xs):,.0f}' if min(xs) else never}" for name, xs in reached.items()])


def sentences(parts: Sequence[str]) -> list[str]:
    """Single sentences, because captions have at most two."""
    return re.split(r"(?<=\.) (?=[A-Z])", " ".join(parts)) if parts else []


def in_every_seed(rows: pd.DataFrame) -> str:
    """What a sentence adds if there are several seeds."""
    return " in every seed" if rows["seed"].nunique() > 1 else ""


def quoted(label: str) -> str:
    """A label in a sentence: in quotation marks if it contains a comma."""
    return f'"{label}"' if "," in label else label


def join(parts: Sequence[str]) -> str:
    """Join words with commas and "and"."""
    return " and ".join([", ".join(parts[:-1]), parts[-1]] if len(parts) > 1 else parts)


# What each question says. `length` is the training length.


def four_times(rows: pd.DataFrame, length: int) -> list[str]:
    """How far the others are from ALiBi, or from the best, at four times the training length."""
    means = values_at(rows, 4 * length).mean()
    if means.empty:
        return []
    first = "alibi" if "alibi" in means else means.idxmin()
    others = [
        f"{quoted(label)} {abs(bits - means[first]):.2f} {'more' if bits >= means[first] else 'less'}"
        for label, bits in means.drop(first).items()
    ]
    where = f"On windows of {4 * length:,} bytes, four times as long"
    sentence = f"{where}, {quoted(first)} needs {means[first]:.2f} bits per byte"
    return [f"{sentence}, {join(others)}." if others else f"{sentence}."]


def lengths(rows: pd.DataFrame, length: int) -> list[str]:
    """Which methods hold, and which is best at the training length and on the longest windows."""
    if rows.empty:
        return []
    at_length = best_at(rows, length, "At the training length")
    return [*four_times(rows, length), *losses(rows, length, "On the longest windows", at_length)]


def losses(rows: pd.DataFrame, length: int, where: str, before: Sequence[str] = ()) -> list[str]:
    """Which methods hold with length, and which is best at the largest x; `where` says in words where that is."""
    if rows.empty:
        return []
    held = [*what_holds(rises(rows)), *undefined(rows, length)]
    return [*held, *before, *best_at(rows, rows["x"].max(), where)]


def gap(rows: pd.DataFrame, length: int) -> list[str]:
    """How much more the models need on windows of 4L, and whether that is still changing."""
    if rows.empty:
        return []
    wide = curves(rows)
    last, middle = wide.iloc[:, -1], wide.iloc[:, len(wide.columns) // 2]
    gaps = every_seed(rows, lambda line: line.iloc[-1] if len(line) else math.nan)
    missing = [quoted(label) for label in rows["label"].unique() if label not in gaps]
    changed = (len(wide.columns) > 1) & ((last - middle).abs() > MAX_RISE_HOLDING)
    changing = [quoted(label) for label in gaps if changed[label].all()]
    what = f"the loss on windows of {4 * length:,} minus that on windows of {length:,}"
    return [
        *what_holds(gaps),
        *([f"The numbers are {what}, at the last checkpoint."] if gaps else []),
        *([f"Not defined beyond the training length: {join(missing)}."] if missing else []),
        *([f"The gap is still changing for {join(changing)}: train longer before you trust it."] if changing else []),
        "A small gap early on may only mean that little has been learned yet.",
    ]


def positions(rows: pd.DataFrame, length: int) -> list[str]:
    """Where in a long window the loss is high."""
    clauses = []
    for label, own in rows.groupby("label", sort=False):
        bits = own.set_index("x")["value"]
        first, beyond = bits[bits.index == 1].mean(), bits[bits.index > length]
        inside = bits[(bits.index > length / 2) & (bits.index <= length)].mean()
        if bits.isna().any() or pd.isna([first, inside]).any():
            clauses.append(f"{quoted(label)} is not defined in windows this long")
            continue
        then = "" if beyond.empty else f", then {beyond.max():.1f} at worst"
        clauses.append(f"{quoted(label)} {first:.1f} for the first byte, {inside:.1f} up to {length:,}{then}")
    sentence = f"Bits per byte in one long window: {'; '.join(clauses)}."
    return [f"{sentence} The first bytes are hard, because they have no context."] if clauses else []


def contexts(rows: pd.DataFrame, length: int) -> list[str]:
    """Which methods hold or gain with more context."""
    sentences = losses(rows, length, "With the most context")
    less = f"The same bytes each time, from the context shown or up to {min(STRIDE, length) - 1} bytes less."
    return [less, *sentences] if sentences else []


def facts(rows: pd.DataFrame, length: int) -> list[str]:
    """What the nearest and the furthest facts are worth."""
    if rows.empty:
        return ["This text has no recorded facts; the tales have."]
    near, far = rows["x"].min(), rows["x"].max()
    means = over_seeds(rows)["mean"].unstack("x", sort=False)[[near, far]].dropna()
    saved = [f"{quoted(label)} {first:z.1f} and {last:z.1f} bits" for label, first, last in means.itertuples()]
    told = f"Having been told a fact around {near} and around {far:,} bytes before saves {join(saved)}."
    return [
        *([told] if saved else []),
        *undefined(rows, length),
        "A model that needs as many bits when the tale has told something else has forgotten the fact.",
    ]


def _shares(rows: pd.DataFrame, x: int) -> str:
    """The share of the attention of each label at x: the mean over the seeds, and their range."""
    parts = []
    for label, values in values_at(rows, x).items():
        spread = f" ({values.min():.1%} to {values.max():.1%})" if len(values) > 1 else ""
        parts.append(f"{quoted(str(label))} {values.mean():.1%}{spread}")
    return join(parts)


def beyond(rows: pd.DataFrame, length: int) -> list[str]:
    """The share of the attention beyond the training length."""
    if rows.empty:
        return []
    last = rows["x"].max()
    visible = range(last - min(QUERIES, length) + 1, last + 1)  # keys that each query sees
    equal = sum(max(0, keys - length) / keys for keys in visible) / len(visible)
    where = f"In windows of {last:,} bytes, keys at least {length:,} back get this share of the attention"
    shares = _shares(rows, last)
    return [
        *([f"{where}: {shares}. If all keys had equal weight, it would be {equal:.1%}."] if shares else []),
        *undefined(rows, length),
    ]


SETTLED = 0.1  # bits: a denominator that grows by no more than this, when the window doubles, counts as bounded


def denominator(rows: pd.DataFrame, length: int) -> list[str]:
    """For which methods the denominator is bounded."""
    if rows.empty:
        return []
    last = rows["x"].max()
    half = max((x for x in rows["x"] if 2 * x <= last), default=0)
    growth = (values_at(rows, last) - values_at(rows, half)).dropna(axis="columns", how="any")
    seeds = " in every seed" if len(growth) > 1 else ""
    numbers = {str(label): f"{quoted(str(label))} ({growth[label].mean():+z.2f})" for label in growth}
    bounded = [numbers[str(label)] for label in growth if growth[label].abs().max() <= SETTLED]
    growing = [numbers[str(label)] for label in growth if growth[label].min() > SETTLED]
    clauses = [f"it changes by at most {SETTLED:g} bits{seeds} for {join(bounded)}"] if bounded else []
    clauses += [f"it grows by more{seeds} for {join(growing)}"] if growing else []
    return [
        *([f"From windows of {half:,} to {last:,} bytes {'; '.join(clauses)}."] if half and clauses else []),
        "If all keys had equal weight, it would grow by 1 bit each time the window doubles.",
        *undefined(rows, length),
    ]


def sinks(rows: pd.DataFrame, length: int) -> list[str]:
    """The share of the attention on the first tokens, in the shortest and the longest windows."""
    ends = dict.fromkeys((rows["x"].min(), rows["x"].max())) if len(rows) else {}
    return [
        *(
            f"In windows of {x:,} bytes, the first {SINKS} tokens get this share of the attention: {_shares(rows, x)}."
            for x in ends
            if _shares(rows, x)
        ),
        *(undefined(rows, length) if ends else ()),
    ]


def slopes(rows: pd.DataFrame, length: int) -> list[str]:
    """The learned slopes beside the fixed ones."""
    sentences = []
    for label, own in rows.groupby("label", sort=False):
        by_head = own.groupby("x")["value"].agg(["mean", "min", "max", "count"]).itertuples()
        learned = [
            f"{head.mean:.3f}" + (f" ({head.min:.3f} to {head.max:.3f})" if head.count > 1 else "") for head in by_head
        ]
        fixed = ", ".join(f"{slope:.3f}" for slope in alibi_slopes(len(learned)).tolist())
        heads = f"for heads 1 to {len(learned)}; the fixed ones are {fixed}"
        sentences.append(f"{quoted(label)} has learned {join(learned)} {heads}.")
    return sentences


def pooled_shares(rows: pd.DataFrame) -> dict[int, tuple[float, int]]:
    """{x: share of correct answers and number of examples} over all seeds of one label, where it is defined."""
    defined = rows.dropna(subset="value")
    counts = defined.groupby("x")["count"].sum()
    correct = (defined["value"] * defined["count"]).groupby(defined["x"]).sum()
    return {int(x): (float(correct[x] / count), int(count)) for x, count in counts.items()}


FOUND = 0.9  # share of answers: a task counts as solved at this accuracy


def task(task: Task, rows: pd.DataFrame, length: int) -> list[str]:
    """Up to which distance the task is solved, and how sure that is."""
    chance = f"Guessing is right {task.chance:.1%} of the time."
    if rows.empty:
        return [chance]
    furthest, seeds = rows["x"].max(), rows["seed"].nunique()
    at_furthest = rows[rows["x"] == furthest]
    shares = []
    for label, own in at_furthest.groupby("label", sort=False):
        for share, count in pooled_shares(own).values():
            low, high = share_interval(share, count)
            shares.append(f"{quoted(label)} {share:.1%} ({low:.1%} to {high:.1%})")
    solved = up_to(rows, lambda share: share >= FOUND)
    per_seed = " per seed" if seeds > 1 else ""
    return [
        f"Solved, with at least {FOUND:.0%} correct answers{in_every_seed(rows)}: {solved}.",
        *best_at(rows, furthest, "At the largest distance", lowest=False),
        f"At that distance {at_furthest['count'].min()} examples were tested{per_seed}. {chance}",
        *([f"Correct there, with 95% intervals over the examples: {join(shares)}."] if shares else []),
    ]
