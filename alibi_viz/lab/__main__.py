"""The lab on the command line: `python -m alibi_viz.lab --help`."""

import argparse
import json
import os
import sys
from collections.abc import Callable
from concurrent.futures import BrokenExecutor
from itertools import product
from pathlib import Path

import pandas as pd

from alibi_viz.arguments import load_function
from alibi_viz.lab.checkpoints import load_run, save_run
from alibi_viz.lab.claims import judge
from alibi_viz.lab.evaluation import TARGETS, count_shared_targets, loss_by_length
from alibi_viz.lab.experiment import Run
from alibi_viz.lab.folders import check_new, create_folder
from alibi_viz.lab.modify import VARIANTS
from alibi_viz.lab.published import SEARCH, published_records, published_results, train_published_models
from alibi_viz.lab.questions import QUESTIONS, find_question, main_question
from alibi_viz.lab.race import race
from alibi_viz.lab.report import as_html, report
from alibi_viz.lab.reproduce import NAMES, reproduce
from alibi_viz.lab.results import AS_TRAINED, Record, read_results, record_table
from alibi_viz.lab.sources import SOURCES
from alibi_viz.lab.sweep import executor, sweep
from alibi_viz.lab.text import load_text
from alibi_viz.lab.training import LENGTH, STEPS
from alibi_viz.models import POSITIONS, method_name

METHODS = ("alibi", "sinusoidal", "rotary")  # to compare if none are given


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit status. Errors are reported in one line on standard error."""
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
        sys.stdout.flush()
    except BrokenPipeError:  # the process that reads our output has exited, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, TypeError, OSError, ArithmeticError, ImportError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenExecutor:
        print("error: a worker process died; finished runs are saved, call again for the rest", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; finished runs are saved", file=sys.stderr)
        return 130
    return 0


def _race(options: argparse.Namespace) -> None:
    """Train position methods side by side and print bits per byte by length."""
    text, folder = load_text(path=options.text), Path(options.save or "")
    methods = options.methods or METHODS
    for method in methods if options.save else ():
        check_new(folder / method)
    settings = {"length": options.length, "steps": options.steps, "seed": options.seed}
    laps = race(methods, text, **settings, checkpoints=1, targets=TARGETS)
    if options.save:
        create_folder(folder)
    last = {lap.method: lap for lap in laps}
    _print_table(pd.DataFrame({method: lap.scores for method, lap in last.items()}).T, "bits per byte at length")
    question = main_question("text")
    for method, lap in last.items() if options.save else ():
        run, scores = Run(method, **settings, path=options.text), lap.scores or {}
        count = count_shared_targets(text, list(scores), max(TARGETS, *scores))
        answers = [[AS_TRAINED, question.name, x, bits, question.unit, count] for x, bits in scores.items()]
        record = {"run": run.settings(), "text": text.fingerprint, "answers": answers}
        save_run(folder / method, lap.model, settings=run.settings(), results=record_table([record], options.save))


def _sweep(options: argparse.Namespace) -> None:
    """Train every method with every seed, or the runs listed in a file, and save the results."""
    if options.runs:
        runs = _listed_runs(options.runs)
    else:
        given = {name: getattr(options, name) for name in ("length", "steps") if getattr(options, name) is not None}
        common = {"task": options.task, "path": options.text, "device": options.device}
        settings = {**given, **common}
        pairs = product(range(options.seeds), options.methods or (*METHODS, "none"))
        runs = [Run(position, seed=seed, **settings) for seed, position in pairs]
    with executor(options.workers, options.scheduler) as pool:
        for record in sweep(runs, pool, path=options.out):
            _print_record(record)


def _listed_runs(path: str) -> list[Run]:
    """The runs of a JSON file. Raises ValueError that names what is wrong."""
    entries = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(entries, list) or not all(isinstance(settings, dict) for settings in entries):
        raise ValueError(f'{path} must hold a JSON list of settings, such as [{{"position": "alibi"}}]')
    names = [name for name in Run.__dataclass_fields__ if name != "own"]
    for settings in entries:
        if "position" not in settings or (unknown := settings.keys() - {*names}):
            problem = f"unknown {', '.join(sorted(unknown))}" if "position" in settings else "no position"
            raise ValueError(f"{path}: {problem} in {json.dumps(settings)}; settings are {', '.join(names)}")
    return [Run(**settings) for settings in entries]


def _reproduce(options: argparse.Namespace) -> None:
    """Train the published comparison, or parts of it, and print a verdict on each claim that these runs are about."""
    with executor(options.workers, options.scheduler) as pool:
        parts = reproduce(options.parts, pool, options.out, seeds=options.seeds, publish=options.publish)
        finished = [record for part in parts for record in part]
    print(*(f"- {verdict}" for verdict in judge(record_table(finished, options.out)) if verdict.values), sep="\n")


def _models(options: argparse.Namespace) -> None:
    """Train the models that ship with the package again, into new folders."""
    train_published_models(options.out)


def _report(options: argparse.Namespace) -> None:
    """Write a page about the published results, report.md and report.html."""
    page, folder = report(published_records(), published_records([SEARCH])), Path(options.out)
    (folder / "report.md").write_text(page, encoding="utf-8")
    (folder / "report.html").write_text(as_html(page), encoding="utf-8")


def _claims(options: argparse.Namespace) -> None:
    """Print a verdict on each claim, from a results folder or the published results."""
    print(*(f"- {verdict}" for verdict in judge(_results(options))), sep="\n")


def _show(options: argparse.Namespace) -> None:
    """Print the answers to one question, the mean over the seeds, and what holds in every seed."""
    question, results = find_question(options.question), _results(options)
    rows = results[(results["question"] == question.name) & (results["evaluated"] == options.evaluated)]
    if rows.empty:
        raise ValueError(f"there are no results on {question.name!r}, evaluated {options.evaluated!r}")
    table = rows.pivot_table(index="label", columns="x", values="value", sort=False, dropna=False)
    _print_table(table, question.unit)
    print(*question.findings(rows, int(rows["length"].mode()[0])), sep="\n")


def _evaluate(options: argparse.Namespace) -> None:
    """Test a model saved by `race --save` at other lengths."""
    model = load_run(options.run).model
    losses = loss_by_length(model, load_text(path=options.text), options.lengths)
    _print_table(pd.DataFrame({model.config.position: losses}).T, "bits per byte at length")


def _results(options: argparse.Namespace) -> pd.DataFrame:
    return read_results(options.results) if options.results else published_results()


def _print_record(record: Record) -> None:
    run = record["run"]
    name = main_question(run["task"]).name
    answers = [answer for answer in record["answers"] if answer[:2] == [AS_TRAINED, name]]
    scores = "  ".join(f"{x}: {'not defined' if value is None else f'{value:.3f}'}" for _, _, x, value, *_ in answers)
    print(f"{run['label']} ({run['task']}, seed {run['seed']})  {record['error'] or scores}", flush=True)


def _print_table(table: pd.DataFrame, unit: str) -> None:
    """Print a table with labels as rows."""
    table = table.rename_axis(index=None, columns=unit)
    print(table.to_string(float_format="{:.3f}".format, na_rep="-"), flush=True)


def _method(text: str) -> str:
    """The name of a position method, for argparse; one of your own is loaded and registered."""
    try:
        return method_name(load_function(text) if ":" in text else text)
    except (TypeError, ValueError) as error:
        raise argparse.ArgumentTypeError(str(error)) from None


def _count(text: str) -> int:
    """An integer of at least 1, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text!r}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m alibi_viz.lab", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")
    methods, text, sweeping, question, results = (argparse.ArgumentParser(add_help=False) for _ in range(5))
    methods.add_argument(
        "methods",
        nargs="*",
        metavar="method",
        type=_method,
        help="listed below, or a function of your own, as file.py:function; some common ones by default",
    )
    text.add_argument("--text", metavar="FILE", help="a UTF-8 file to use instead of the built-in text")
    sweeping.add_argument("--workers", type=_count, default=1, help="processes, one thread each (%(default)s)")
    sweeping.add_argument("--scheduler", help="address of a Dask scheduler, such as tcp://127.0.0.1:8786")
    question.add_argument("question", choices=[question.name for question in QUESTIONS], help="what was measured")
    results.add_argument("results", nargs="?", help="a results folder or file; the published results by default")
    folder = "results folder; called again, the command only does the missing runs (%(default)s)"

    def command(
        function: Callable[[argparse.Namespace], None], *parents: argparse.ArgumentParser
    ) -> Callable[..., argparse.Action]:
        """Add a command, and return the method that adds an argument to it."""
        width = max(map(len, POSITIONS)) + 2
        summaries = "".join(f"\n  {name:{width}}{method.summary}" for name, method in POSITIONS.items())
        subparser = commands.add_parser(
            function.__name__.removeprefix("_"),
            help=function.__doc__,
            description=function.__doc__,
            parents=parents,
            epilog=f"position methods:{summaries}" if methods in parents else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
        )
        subparser.set_defaults(command=function)
        return subparser.add_argument

    add = command(_race, methods, text)
    add("--length", type=int, default=LENGTH, help="training length L (%(default)s)")
    add("--steps", type=int, default=STEPS, help="number of training steps (%(default)s)")
    add("--seed", type=int, default=0, help="of the starting weights and the batches (%(default)s)")
    add("--save", metavar="FOLDER", help="save each trained model in this folder")
    add = command(_sweep, methods, text, sweeping)
    add("--length", type=int, help=f"training length L ({Run.length})")
    add("--steps", type=int, help=f"number of training steps ({Run.steps})")
    add("--device", default="auto", help="cpu, cuda, or the CUDA device if there is one (%(default)s)")
    add("--seeds", type=_count, default=3, help="number of seeds, from 0 (%(default)s)")
    add("--task", default="text", choices=[*SOURCES], help="what to train on (%(default)s)")
    add("--runs", metavar="FILE", help="a JSON list of settings, instead of methods and options")
    add("--out", default="results", help=folder)
    add = command(_reproduce, sweeping)
    add("parts", nargs="*", metavar="part", help=f"some of {', '.join(NAMES)} (all, in this order)")
    add("--seeds", type=_count, help="number of seeds, from 0, instead of the published number")
    add("--out", default="comparison", help=folder)
    add("--publish", metavar="FOLDER", help="write the records there as well, one file per part")
    command(_models)("--out", default="models", help="folder to create the models in (%(default)s)")
    command(_report)("--out", default=".", help="folder to write them in (%(default)s)")
    command(_claims, results)
    add = command(_show, question, results)
    add("--evaluated", default=AS_TRAINED, help=f"{AS_TRAINED}, {', '.join(VARIANTS)} (%(default)s)")
    add = command(_evaluate, text)
    add("run", help="the folder of a saved run")
    add("lengths", type=int, nargs="+", help="test lengths")
    return parser


if __name__ == "__main__":
    sys.exit(main())
