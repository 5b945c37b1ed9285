"""Write one page from the published records: the tables with intervals, the verdicts, and how they were made."""

import re
from collections.abc import Sequence

import mistune
import pandas as pd

from alibi_viz.lab.claims import (
    CONTRADICTED,
    NOT_TESTABLE,
    PAPERS,
    PILOT,
    REPRODUCED,
    UNDECIDED,
    UNSEEN,
    VERSION_1,
    Verdict,
    judge,
)
from alibi_viz.lab.comparison import COMPARISON_LENGTH, PARTS, templates
from alibi_viz.lab.confidence import LEVEL, SEEDS
from alibi_viz.lab.intervals import over_seeds
from alibi_viz.lab.learning_rates import rate_table
from alibi_viz.lab.questions import QUESTIONS, Question, join, main_question
from alibi_viz.lab.results import AS_TRAINED, Record, record_table
from alibi_viz.lab.summary import summary, summary_cell

__all__ = ["as_html", "report"]

L = COMPARISON_LENGTH
KINDS = (REPRODUCED, CONTRADICTED, UNDECIDED, NOT_TESTABLE)
LEFT_OUT = ("gap", "by position")  # questions with too many columns for a page
EARLIER_TEXT = "2a95af4ac93f5b71"  # the fingerprint of the text of the published runs
STYLE = """body { font: 16px/1.5 system-ui, sans-serif; max-width: 72rem; margin: 2rem auto; padding: 0 1rem; }
table { border-collapse: collapse; margin: 1rem 0; font-size: 14px; font-variant-numeric: tabular-nums; }
table { white-space: nowrap; }
th, td { border-bottom: 1px solid #8884; padding: 0.2rem 0.6rem; text-align: left; vertical-align: top; }
:root { color-scheme: light dark; }"""


def report(records: Sequence[Record], search: Sequence[Record] = ()) -> str:
    """The page in Markdown.

    Args:
        records: of the published comparison, or of another one.
        search: of the search for learning rates.

    >>> from alibi_viz.lab.published import published_records
    >>> from alibi_viz.lab.report import report
    >>> report(published_records()).splitlines()[0]
    '# Results of alibi_viz'
    """
    results = record_table(records, "published")
    verdicts = judge(results)
    sections = [_verdicts(verdicts), _durations(results), *(_answers(question, results) for question in QUESTIONS)]
    sections = [section for section in (*sections, _rates(search), _bibliography(), _replication()) if section]
    return "\n\n".join([_introduction(records, search, verdicts), _contents(sections), *sections]) + "\n"


def as_html(markdown: str) -> str:
    """The page as HTML without scripts, which needs nothing from the network."""
    body = mistune.create_markdown(plugins=["table"])(markdown)
    assert isinstance(body, str)
    body = body.replace("<table>", '<div style="overflow-x: auto"><table>').replace("</table>", "</table></div>")
    body = re.sub("<h2>(.*?)</h2>", lambda heading: f'<h2 id="{_anchor(heading[1])}">{heading[1]}</h2>', body)
    title = markdown.splitlines()[0].removeprefix("# ")
    head = f'<meta charset="utf-8"><meta name="viewport" content="width=device-width"><title>{title}</title>'
    head = f"<head>{head}\n<style>{STYLE}</style></head>"
    return f'<!DOCTYPE html>\n<html lang="en">\n{head}\n<body>\n{body}</body>\n</html>\n'


def _introduction(records: Sequence[Record], search: Sequence[Record], verdicts: Sequence[Verdict]) -> str:
    counts = [f"{sum(each.verdict == kind for each in verdicts)} {kind}" for kind in KINDS]
    versions = pd.DataFrame([record["made_with"] for record in records])
    lines = [f"- {name}: {_counted(versions[name])}" for name in versions]
    searched = f", and the search for learning rates {_hours(search)}" if search else ""
    failed = [record["run"]["label"] for record in records if record["error"]]
    texts = sorted({record["text"] for record in records} - {""})
    return "\n".join(
        [
            "# Results of alibi_viz",
            "",
            f"{len(records)} training runs of models with 100,000 to 140,000 parameters, and {len(verdicts)} claims: "
            f"{join(counts)}. Every result on this page is computed by `make report` from the records that ship with "
            "the package, which `make reproduce` replaces by new ones; what papers report is quoted. Models are "
            f"trained on windows of L = {L} bytes unless their label says otherwise. Numbers after ± are half the "
            f"width of the {LEVEL:.0%} interval of Student's t distribution over seeds. For shares, both ends of the "
            "interval are in parentheses.",
            "",
            *(_earlier_version() if EARLIER_TEXT in texts else ()),
            f"Training and tests took {_hours(records)} in all{searched}, each run on one thread. Runs that diverged: "
            f"{', '.join(failed) or 'none'}. Fingerprints of the texts: {', '.join(texts)}. Made with:",
            "",
            *lines,
        ]
    )


def _earlier_version() -> list[str]:
    """What differs from today's text and models: a paragraph and an empty line."""
    return [
        "These runs were made with an earlier version of this project, on the language reference of Python 3.11.7, "
        "with models of four heads unless their label says otherwise. The validation text was put together from single "
        "paragraphs: only 29% of its bytes have the 256 bytes before them that they have in the source, and 5% the "
        "1,024 bytes. The runs have not been repeated on the tales, which are the built-in text now.",
        "",
    ]


def _hours(records: Sequence[Record]) -> str:
    return f"{sum(record['seconds'] for record in records) / 3600:.1f} hours"


def _counted(values: pd.Series) -> str:
    """The different values; if there are several, each with how many runs have it."""
    counts = values.value_counts().sort_index()
    return "; ".join(f"{value} ({count} runs)" if len(counts) > 1 else str(value) for value, count in counts.items())


def _contents(sections: Sequence[str]) -> str:
    """A link to each section."""
    titles = [section.splitlines()[0].removeprefix("## ") for section in sections]
    return "\n".join(f"- [{title}](#{_anchor(title)})" for title in titles)


def _anchor(title: str) -> str:
    """The id of a heading, the same as on GitHub."""
    return re.sub(r"[^\w -]", "", title).lower().replace(" ", "-")


def _answers(question: Question, results: pd.DataFrame) -> str:
    """A section for one question, with a table for each part of the comparison that answers it.

    A row is a label, or a label and a change to the model; a column is an x. Changed models are shown for the main
    methods, and for all methods on longer windows.
    """
    main = [run.label for run in PARTS["main"].templates]
    rows = results[results["question"] == question.name]
    rows = rows[(rows["evaluated"] == AS_TRAINED) | rows["label"].isin(main) | (question == main_question("text"))]
    if rows.empty or question.name in LEFT_OUT:
        return ""
    counts = rows.groupby("x")["count"].agg(["min", "max"])
    low, high = int(counts["min"].min()), int(counts["max"].max())
    counted = f"{low:,}" if low == high else f"{low:,} to {high:,}"
    text = (
        f"## {_capitalized(question.name)}\n\n{question.summary} Columns: {question.x_title}. Values: {question.unit}"
        f"{f', each a mean over {counted} samples per seed' if high > 1 else ''}."
    )
    labels_of = {
        part.summary: [run.label for run in part.templates if run.task == question.task]
        for part in PARTS.values()
        if part.name != "steps"  # they have a table of their own
    }
    known = [run.label for run in templates()]
    labels_of["Other runs."] = [label for label in rows["label"].unique() if label not in known]
    for heading, labels in labels_of.items():
        own = rows[rows["label"].isin(labels)]
        if not own.empty:
            text += f"\n\n{heading}\n\n{_table(summary(own, question.name), 'trained model')}"
    return text


def _durations(results: pd.DataFrame) -> str:
    """The map of tokens trained by test length."""
    question = main_question("text")
    rows = results[(results["question"] == question.name) & (results["evaluated"] == AS_TRAINED)]
    methods = list(dict.fromkeys(run.position for run in PARTS["steps"].templates))
    runs = [*PARTS["steps"].templates, *(run for run in PARTS["main"].templates if run.label in methods)]
    tables = []
    for run in sorted(runs, key=lambda run: (methods.index(run.position), run.steps)):
        name = f"{run.position}, {run.steps * run.batch_size * run.length / 1e6:.1f} million bytes"
        tables.append(rows[rows["label"] == run.label].assign(curve=name))
    table = pd.concat(tables)
    if table.empty:
        return ""
    cells = over_seeds(table).apply(summary_cell, axis=1).unstack("x", sort=False)
    return (
        "## More training\n\nBits per byte by how much text a model was trained on (rows) and by the length of the "
        "test windows (columns). Each row has runs of its own, with a complete learning-rate schedule.\n\n"
        f"{_table(cells[sorted(cells.columns)].fillna(''), 'trained on')}"
    )


def _rates(search: Sequence[Record]) -> str:
    if not search:
        return ""
    table = rate_table(search)
    best = table.idxmin(axis=1)
    tried = {where: row.dropna().index for where, row in table.iterrows()}
    at_edge = sum(rate in (tried[where][0], tried[where][-1]) for where, rate in best.items())
    cells = table.map("{:.3f}".format).where(table.notna(), "")
    for where, rate in best.items():
        cells.loc[where, rate] = f"**{cells.loc[where, rate]}**"
    cells.index = [f"{label} ({task})" for task, label in cells.index]
    return (
        "## Learning rates\n\nMean training loss in bits over the last tenth of the steps for each learning rate, with "
        "a seed that the comparison doesn't use. The runs above have the one in bold. Runs without a row take that of "
        "their position method: with eight heads, trained at L, 2L or 4L, for a quarter of the steps or four times as "
        f"many, and on text with passages. In {at_edge} of {len(best)} rows the one in bold is the lowest or highest "
        f"that was tried, so a better one may lie beyond.\n\n{_table(cells, 'run')}"
    )


def _verdicts(verdicts: Sequence[Verdict]) -> str:
    parts = [
        "## Claims\n\nA claim is *reproduced* if it holds in the whole interval of its number, *contradicted* if it "
        "holds nowhere in the interval, and *undecided* otherwise. A verdict needs at least "
        f"{SEEDS} seeds. *Post hoc* means that the claim was worded after results that showed it. The counts are not a "
        "score: a reproduced claim can be a loss for ALiBi, many claims are about the same runs, and of many intervals "
        "of 95% some miss. By what was known when a claim was written down:\n\n" + _history(verdicts)
    ]
    for kind in KINDS:
        chosen = [f"- {str(each).removeprefix(f'{kind}: ')}" for each in verdicts if each.verdict == kind]
        parts.append(f"### {_capitalized(kind)}: {len(chosen)}\n\n" + "\n".join(chosen or ["None."]))
    return "\n\n".join(parts)


def _history(verdicts: Sequence[Verdict]) -> str:
    """A table: how many claims have each verdict, by what was known when they were written down."""
    rows = pd.DataFrame([(each.claim.seen, each.verdict) for each in verdicts], columns=["seen", "verdict"])
    counts = pd.crosstab(rows["seen"], rows["verdict"])
    return _table(counts.reindex(index=[UNSEEN, PILOT, VERSION_1], columns=KINDS, fill_value=0), "known by then")


def _bibliography() -> str:
    return "## Papers\n\n" + "\n".join(f"- {paper}" for paper in PAPERS.values())


def _replication() -> str:
    """How to test the claims at a larger scale, with the cost to expect; it has not been done."""
    layers, width, tokens_per_parameter, speed = 12, 832, 20, 2e14
    parameters = 12 * layers * width**2  # 4 width^2 of a layer for attention, 8 width^2 for the feed-forward part
    tokens = tokens_per_parameter * parameters
    hours = 6 * parameters * tokens / speed / 3600
    runs = 5 * len(PARTS["main"].templates)
    return (
        "## A larger replication, not run\n\n"
        f"A model with {layers} layers, width {width} and 16 heads has {parameters / 1e6:.0f} million weights in its "
        f"layers. With {tokens_per_parameter} tokens per weight it reads {tokens / 1e9:.1f} billion bytes. Training "
        f"takes about 6 x weights x tokens, {6 * parameters * tokens:.1e} floating-point operations: {hours:.1f} "
        f"hours at {speed / 1e12:.0f} TFLOP/s, which we assume for one data-center GPU. The methods of the main table "
        f"with five seeds are {runs} runs, about {runs * hours:.0f} GPU hours."
    )


def _capitalized(words: str) -> str:
    return words[0].upper() + words[1:]


def _table(cells: pd.DataFrame, corner: str) -> str:
    """A Markdown table."""
    header = [corner, *(f"{name:,}" if isinstance(name, int) else str(name) for name in cells.columns)]
    rows = [[name, *row] for name, row in zip(cells.index, cells.to_numpy().tolist(), strict=True)]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in [header, ["---"] * len(header), *rows])
