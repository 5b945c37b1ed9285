"""The lab on the command line: `python -m alibi_viz.lab --help`."""

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import pandas as pd
import torch

from alibi_viz.lab.checkpoints import load_run, save_run
from alibi_viz.lab.claims import judge
from alibi_viz.lab.comparison import default_comparison
from alibi_viz.lab.evaluation import loss_by_length
from alibi_viz.lab.experiment import Run
from alibi_viz.lab.published import published_results, train_published_models
from alibi_viz.lab.questions import QUESTIONS, find_question, main_question
from alibi_viz.lab.race import evaluation_lengths, race
from alibi_viz.lab.results import AS_TRAINED, Record, read_results, record_table
from alibi_viz.lab.sweep import process_pool, sweep
from alibi_viz.lab.tasks import TASKS
from alibi_viz.lab.text import load_text
from alibi_viz.lab.training import preset
from alibi_viz.models import POSITIONS

TARGETS = 4096  # bytes predicted at each length by `race`


def main(arguments: list[str] | None = None) -> int:
    """Run one command and return the exit status. Errors are reported in one line on standard error."""
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
        sys.stdout.flush()
    except BrokenPipeError:  # the process that reads our output has exited, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ValueError, TypeError, OSError, ArithmeticError) as error:
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
    text = load_text(path=options.text)
    for method in options.methods if options.save else ():
        if (Path(options.save) / method).exists():
            raise FileExistsError(f"{str(Path(options.save) / method)!r} exists already and is not overwritten")
    settings = {"length": options.length, "steps": options.steps, "seed": options.seed}
    laps = race(options.methods, text, **settings, checkpoints=1, targets=TARGETS)
    last = {lap.method: lap for lap in laps}
    _print_row("bits per byte at length", [str(length) for length in evaluation_lengths(options.length)])
    question = main_question("text")
    for method, lap in last.items():
        losses = lap.scores or {}
        _print_row(method, [f"{bits:.3f}" for bits in losses.values()])
        if options.save:
            run = Run(method, **settings, path=options.text)
            answers = [[AS_TRAINED, question.name, x, bits, question.unit, TARGETS] for x, bits in losses.items()]
            record = {"run": run.settings(), "text": text.fingerprint, "answers": answers}
            results = record_table([record], options.save)
            save_run(Path(options.save) / method, lap.model, settings=run.settings(), results=results)


def _sweep(options: argparse.Namespace) -> None:
    """Train every method with every seed, or the runs listed in a file, and save the results."""
    if options.runs:
        runs = _listed_runs(options.runs)
    else:
        overrides = {"length": options.length, "steps": options.steps}
        common = {
            **preset(options.device),
            **{name: value for name, value in overrides.items() if value is not None},
            "task": options.task,
            "path": options.text,
            "device": options.device,
        }
        pairs = product(range(options.seeds), options.methods)
        runs = [Run(position, seed=seed, **common) for seed, position in pairs]
    with _executor(options) as executor:
        for record in sweep(runs, executor, path=options.out):
            _print_record(record)


def _listed_runs(path: str) -> list[Run]:
    """The runs of a JSON file. Raises ValueError that names what is wrong."""
    entries = json.loads(Path(path).read_text(encoding="utf-8"))
    if not isinstance(entries, list) or not all(isinstance(settings, dict) for settings in entries):
        raise ValueError(f'{path} must hold a JSON list of settings, such as [{{"position": "alibi"}}]')
    names = Run.__dataclass_fields__
    for settings in entries:
        if "position" not in settings or (unknown := settings.keys() - names.keys()):
            problem = f"unknown {', '.join(sorted(unknown))}" if "position" in settings else "no position"
            raise ValueError(f"{path}: {problem} in {json.dumps(settings)}; settings are {', '.join(names)}")
    return [Run(**settings) for settings in entries]


def _reproduce(options: argparse.Namespace) -> None:
    """Train the runs of the published comparison and print a verdict on each claim."""
    runs = default_comparison(options.seeds)
    with _executor(options) as executor:
        records = list(sweep(runs, executor, path=options.out))
    print(f"{sum(record['seconds'] for record in records):,.0f} seconds of training and tests in {len(records)} runs")
    print(*(f"- {verdict}" for verdict in judge(record_table(records, options.out))), sep="\n")
    if options.publish:
        order = {json.dumps(run.settings(), sort_keys=True): number for number, run in enumerate(runs)}
        records.sort(key=lambda record: order[json.dumps(record["run"], sort_keys=True)])
        lines = "".join(f"{json.dumps(record)}\n" for record in records)
        Path(options.publish).write_text(lines, encoding="utf-8")


def _models(options: argparse.Namespace) -> None:
    """Train the models that ship with the package again, into new folders."""
    torch.set_num_threads(1)  # the numbers depend on it
    train_published_models(options.out)


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
    _print_row(question.unit, [str(x) for x in table.columns])
    for label, values in zip(table.index, table.to_numpy(), strict=True):
        _print_row(label, ["-" if pd.isna(value) else f"{value:.3f}" for value in values])
    for sentence in question.findings(rows, int(rows["length"].mode()[0])):
        print(sentence)


def _evaluate(options: argparse.Namespace) -> None:
    """Test a model saved by `race --save` at other lengths."""
    saved = load_run(options.run)
    losses = loss_by_length(saved.model, load_text(path=options.text), options.lengths)
    _print_row("bits per byte at length", [str(length) for length in losses])
    _print_row(saved.model.config.position, [f"{bits:.3f}" for bits in losses.values()])


def _results(options: argparse.Namespace) -> pd.DataFrame:
    return read_results(options.results) if options.results else published_results()


def _print_record(record: Record) -> None:
    run = record["run"]
    name = main_question(run["task"]).name
    answers = [answer for answer in record["answers"] if answer[:2] == [AS_TRAINED, name]]
    scores = "  ".join(f"{x}: {'not defined' if value is None else f'{value:.3f}'}" for _, _, x, value, *_ in answers)
    print(f"{run['label']} ({run['task']}, seed {run['seed']})  {record['error'] or scores}", flush=True)


def _print_row(name: str, cells: list[str]) -> None:
    print(f"{name:24}" + "".join(f"{cell:>8}" for cell in cells), flush=True)


@contextmanager
def _executor(options: argparse.Namespace) -> Iterator[Executor | None]:
    """Dask's executor, a pool of processes, or None for one run after the other."""
    if options.scheduler:
        from distributed import Client  # noqa: PLC0415 - an extra that only this option needs

        with Client(options.scheduler) as client:
            yield client.get_executor()
    elif options.workers > 1:
        with process_pool(options.workers) as pool:
            yield pool
    else:
        yield None


def _count(text: str) -> int:
    """An integer of at least 1, for argparse."""
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"must be an integer of at least 1, got {text!r}")
    return int(text)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m alibi_viz.lab", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(name: str, function: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        subparser = commands.add_parser(name, help=function.__doc__, description=function.__doc__)
        subparser.set_defaults(command=function)
        return subparser

    def add_training_arguments(
        subparser: argparse.ArgumentParser, length: int | None, steps: int | None, default: str
    ) -> None:
        subparser.add_argument("methods", nargs="*", metavar="method", help=", ".join(POSITIONS))
        subparser.add_argument("--length", type=int, default=length, help=f"training length L ({default})")
        subparser.add_argument("--steps", type=int, default=steps, help="number of training steps")
        subparser.add_argument("--text", help="a UTF-8 file of your own")

    def add_sweep_arguments(subparser: argparse.ArgumentParser, out: str) -> None:
        subparser.add_argument("--seeds", type=_count, default=3, help="how many (%(default)s)")
        subparser.add_argument(
            "--out", default=out, help="results folder; called again, it does what is missing (%(default)s)"
        )
        subparser.add_argument("--workers", type=_count, default=1, help="processes, one thread each (%(default)s)")
        subparser.add_argument("--scheduler", help="address of a Dask scheduler, such as tcp://127.0.0.1:8786")

    def add_results_argument(subparser: argparse.ArgumentParser) -> None:
        subparser.add_argument("results", nargs="?", help="a results folder or file; the published results by default")

    race_parser = command("race", _race)
    add_training_arguments(race_parser, 32, 300, "32")
    race_parser.set_defaults(methods=["alibi", "sinusoidal", "rotary"])
    race_parser.add_argument("--seed", type=int, default=0)
    race_parser.add_argument("--save", metavar="FOLDER", help="save the trained models there")
    sweep_parser = command("sweep", _sweep)
    add_training_arguments(
        sweep_parser, None, None, f"{Run.length}; on a CUDA device longer windows, a larger model and more steps"
    )
    sweep_parser.add_argument(
        "--device", default="auto", help="cpu, cuda, or the CUDA device if there is one (%(default)s)"
    )
    sweep_parser.set_defaults(methods=["alibi", "sinusoidal", "rotary", "none"])
    sweep_parser.add_argument("--task", default="text", choices=["text", *TASKS])
    sweep_parser.add_argument("--runs", metavar="FILE", help="a JSON list of settings, instead of methods and options")
    add_sweep_arguments(sweep_parser, "results")
    reproduce_parser = command("reproduce", _reproduce)
    add_sweep_arguments(reproduce_parser, "comparison")
    reproduce_parser.add_argument("--publish", metavar="FILE", help="write the records there as well, one line each")
    command("models", _models).add_argument("--out", default="models", help="where (%(default)s)")
    add_results_argument(command("claims", _claims))
    show = command("show", _show)
    show.add_argument("question", choices=[question.name for question in QUESTIONS], help="what was measured")
    add_results_argument(show)
    show.add_argument("--evaluated", default=AS_TRAINED, help="as trained, window, pi or ntk (%(default)s)")
    test = command("evaluate", _evaluate)
    test.add_argument("run", help="the folder of a saved run")
    test.add_argument("lengths", type=int, nargs="+", help="test lengths")
    test.add_argument("--text", help="a UTF-8 file of your own")
    return parser


if __name__ == "__main__":
    sys.exit(main())
