"""`python -m alibi_viz.study`: train the study again, judge its claims, write its report.

    python -m alibi_viz.study --claim "ALiBi holds" --seeds 3
    python -m alibi_viz.study claims comparison/

Without a command it trains: the whole study, or what `--claim` and `--setting` ask for. Each
finished run is saved, so call it again to continue. The exit status is 0 if all is well, 1 if
training diverged, 2 for bad input, and 130 after Ctrl-C.
"""

import argparse
import sys
from collections.abc import Sequence
from itertools import chain

import pandas as pd

from alibi_viz import study
from alibi_viz.files import in_words
from alibi_viz.study.far_texts import write_far_texts
from alibi_viz.study.records import table_by_setting
from alibi_viz.study.settings import MAIN, SETTINGS
from alibi_viz.train.results import read_records, worker_pool


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
        _complain(in_words(error))
        return 2
    except KeyboardInterrupt:
        _complain("stopped; finished runs are saved")
        return 130
    return 0


def _complain(error: object) -> None:
    """Print one line on standard error."""
    print(f"alibi_viz.study: {error}", file=sys.stderr)


def _retrain(options: argparse.Namespace) -> None:
    with worker_pool(options.workers) as executor:
        results = study.retrain(
            options.claim,
            options.setting,
            executor,
            options.out,
            seeds=options.seeds,
            publish=options.publish,
        )
    _print_verdicts(results, options.claim)


def _far_keys(options: argparse.Namespace) -> None:
    seeds = range(SETTINGS[MAIN].seeds)
    with worker_pool(options.workers) as executor:
        map_seeds = map if executor is None else executor.map
        rows = list(chain.from_iterable(map_seeds(study.measure_far_keys, seeds)))
    pd.DataFrame(rows).to_csv(options.out, index=False, float_format="%.6g")


def _far_texts(options: argparse.Namespace) -> None:
    pd.DataFrame(write_far_texts()).to_csv(options.out, index=False, float_format="%.6g")


def _claims(options: argparse.Namespace) -> None:
    if options.results is None:
        _print_verdicts(study.published_results(by_block=True))
        return
    records = read_records(options.results)
    _print_verdicts(table_by_setting(records, options.results, by_block=True))
    for record in records:
        if record["error"]:
            run = record["run"]
            _complain(f"{run['label']}, seed {run['seed']}, is left out: {record['error']}")


def _print_verdicts(results: pd.DataFrame, claims: Sequence[str] = ()) -> None:
    """The table of verdicts on these claims, by default on all, and what they say together."""
    table = study.verdict_table(results)
    if claims:
        table = table[table["claim"].isin(claims)]
    other_texts = set(results["text"]) - set(study.published_results()["text"])
    if other_texts:
        _complain(
            "these results are about another text than the published ones: "
            + ", ".join(sorted(other_texts))
        )
    in_words = table.assign(
        setting=table["setting_name"], verdict=table["verdict"].map(study.VERDICTS)
    )
    for shown in (
        in_words[["setting", "slopes", "claim", "verdict", "numbers"]],
        study.reach_table(table)[["claim", "reach"]],
    ):
        if not shown.empty:
            print(shown.to_string(index=False), end="\n\n")
    print(study.conclusion(table))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser("python -m alibi_viz.study", allow_abbrev=False)
    parser.add_argument(
        "--claim",
        action="append",
        default=[],
        help="the name of a claim: train only the models that it is about (repeat it for several)",
    )
    parser.add_argument(
        "--setting",
        action="append",
        default=[],
        help="the id of a setting, such as adamw; all by default, for claims the main one",
    )
    parser.add_argument("--seeds", type=int, help="how many, from 0 (default: as published)")
    parser.add_argument(
        "--workers", type=int, default=2, help="processes, one thread each (default: 2)"
    )
    parser.add_argument(
        "--out",
        metavar="FOLDER",
        default="comparison",
        help="the results folder (default: comparison)",
    )
    parser.add_argument(
        "--publish", metavar="FOLDER", help="write the records there as well, one file per setting"
    )
    parser.set_defaults(command=_retrain)
    commands = parser.add_subparsers(metavar="command")

    models = commands.add_parser("models", help="train the models that ship with the package again")
    models.add_argument("--out", metavar="FOLDER", default="models", help="default: models")
    models.set_defaults(command=lambda options: study.train_published_models(options.out))

    far_keys = commands.add_parser("far-keys", help="measure rotary with its far keys changed")
    far_keys.add_argument(
        "--out", metavar="FILE", default="far_keys.csv", help="default: far_keys.csv"
    )
    far_keys.set_defaults(command=_far_keys)

    far_texts = commands.add_parser(
        "far-texts", help="let the published rotary model write with its far keys changed"
    )
    far_texts.add_argument(
        "--out", metavar="FILE", default="far_texts.csv", help="default: far_texts.csv"
    )
    far_texts.set_defaults(command=_far_texts)

    report = commands.add_parser("report", help="write report.md about the published results")
    report.add_argument("--out", metavar="FOLDER", default=".", help="default: this folder")
    report.set_defaults(command=lambda options: study.write_report(options.out))

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
