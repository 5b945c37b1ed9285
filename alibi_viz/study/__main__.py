"""`python -m alibi_viz.study`: train the study again, judge its claims, write its report.

    python -m alibi_viz.study reproduce search tales --workers 2
    python -m alibi_viz.study claims comparison/

The exit status is 0 if all is well, 1 if training diverged, 2 for bad input, and 130 after Ctrl-C.
`reproduce` saves each finished run: call it again to continue.
"""

import argparse
import sys
from collections.abc import Sequence

import pandas as pd

from alibi_viz import study
from alibi_viz.arguments import check_positive_integers
from alibi_viz.lab import read_results
from alibi_viz.study.parts import SEEDS
from alibi_viz.train.results import read_records
from alibi_viz.train.sweep import worker_pool


def main(arguments: Sequence[str] | None = None) -> int:
    """Run a command with these arguments and return its exit status.

    By default the arguments are those of the command line.
    """
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
    except ArithmeticError as error:  # training diverged
        _complain(error)
        return 1
    except (OSError, ValueError, TypeError) as error:
        _complain(error)
        return 2
    except KeyboardInterrupt:
        _complain("stopped")
        return 130
    return 0


def _complain(error: object) -> None:
    """Print one line on standard error."""
    print(f"alibi_viz.study: {error}", file=sys.stderr)


def _reproduce(options: argparse.Namespace) -> None:
    check_positive_integers(workers=options.workers, seeds=options.seeds)
    with worker_pool(options.workers) as executor:
        results = study.reproduce(
            options.parts,
            executor,
            options.out,
            seeds=options.seeds,
            publish=options.publish,
        )
    _print_verdicts(results)


def _models(options: argparse.Namespace) -> None:
    study.train_published_models(options.out)


def _report(options: argparse.Namespace) -> None:
    study.write_report(options.out)


def _claims(options: argparse.Namespace) -> None:
    if options.results is None:
        _print_verdicts(study.published_results(by_block=True))
        return
    _print_verdicts(read_results(options.results, by_block=True))
    for record in read_records(options.results):
        if record["error"]:
            run = record["run"]
            _complain(f"{run['label']}, seed {run['seed']}, is left out: {record['error']}")


def _print_verdicts(results: pd.DataFrame) -> None:
    """A line for each verdict, and what is left of them after Holm's correction."""
    table = study.verdict_table(results)
    published_texts = set(study.published_results()["text"])
    other_texts = set(results["text"]) - published_texts
    if other_texts:
        _complain(
            "these results are about another text than the published ones: "
            + ", ".join(other_texts)
        )
    tales = set(results.loc[results["task"] == "text", "text"])
    for row in table.itertuples():
        is_another_text = row.setting == "tales" and not tales.isdisjoint(other_texts)
        setting = "your text" if is_another_text else row.setting
        print(f"- {setting}, {row.verdict}: {row.claim}. {row.text} [{row.numbers}]")
    print(study.conclusion(table))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m alibi_viz.study", allow_abbrev=False)
    commands = parser.add_subparsers(metavar="command", required=True)

    reproduce = commands.add_parser(
        "reproduce", help="train the study again, or parts of it, and judge its claims"
    )
    reproduce.add_argument(
        "parts",
        nargs="*",
        metavar="part",
        help="search, tales, python, needle or induction; all by default",
    )
    reproduce.add_argument(
        "--publish", metavar="FOLDER", help="write the records there as well, one file per part"
    )
    reproduce.add_argument(
        "--workers", type=int, default=1, help="processes, one thread each (default: 1)"
    )
    reproduce.add_argument("--seeds", type=int, default=SEEDS, help=f"from 0 (default: {SEEDS})")
    reproduce.add_argument(
        "--out",
        metavar="FOLDER",
        default="comparison",
        help="the results folder (default: comparison)",
    )
    reproduce.set_defaults(command=_reproduce)

    models = commands.add_parser("models", help="train the models that ship with the package again")
    models.add_argument("--out", metavar="FOLDER", default="models", help="default: models")
    models.set_defaults(command=_models)

    report = commands.add_parser("report", help="write report.md about the published results")
    report.add_argument("--out", metavar="FOLDER", default=".", help="default: this folder")
    report.set_defaults(command=_report)

    claims = commands.add_parser("claims", help="print a verdict on each of our claims")
    claims.add_argument(
        "results",
        nargs="?",
        help="a results folder or file; the published results by default",
    )
    claims.set_defaults(command=_claims)
    return parser


if __name__ == "__main__":
    sys.exit(main())
