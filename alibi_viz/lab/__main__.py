"""The laboratory without a notebook: `python -m alibi_viz.lab --help`."""

import argparse
import json
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import BrokenExecutor, Executor, ProcessPoolExecutor
from contextlib import contextmanager
from itertools import product
from pathlib import Path

import torch

from alibi_viz.lab.checkpoints import load_run, save_run
from alibi_viz.lab.claims import judge
from alibi_viz.lab.comparison import default_comparison, published_results
from alibi_viz.lab.evaluation import loss_by_length
from alibi_viz.lab.experiment import Record, Run
from alibi_viz.lab.published.models import train_published_models
from alibi_viz.lab.race import race, test_lengths
from alibi_viz.lab.sweep import read_results, sweep
from alibi_viz.lab.tasks import TASKS
from alibi_viz.lab.text import load_text
from alibi_viz.lab.training import preset
from alibi_viz.models import POSITIONS


def main(arguments: list[str] | None = None) -> int:
    """Run one command; returns the exit status. What goes wrong is said in one line on standard error."""
    options = _parser().parse_args(arguments)
    try:
        options.command(options)
    except (ValueError, TypeError, OSError, ArithmeticError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    except BrokenExecutor:
        print("error: a worker process has died; what was finished is kept, call again for the rest", file=sys.stderr)
        return 1
    except KeyboardInterrupt:
        print("stopped; what was finished is kept", file=sys.stderr)
        return 130
    return 0


def _race(options: argparse.Namespace) -> None:
    """Train position methods side by side and print bits per byte by length."""
    text = load_text(path=options.text)
    for method in options.methods if options.save else ():
        if (Path(options.save) / method).exists():
            raise FileExistsError(f"{str(Path(options.save) / method)!r} exists already and is not overwritten")
    laps = race(options.methods, text, length=options.length, steps=options.steps, seed=options.seed, checkpoints=1)
    last = {lap.method: lap for lap in laps}
    _print_row("bits per byte at length", [str(length) for length in test_lengths(options.length)])
    for method, lap in last.items():
        _print_row(method, [f"{bits:.3f}" for bits in (lap.by_length or {}).values()])
        if options.save:
            settings = {"method": method, "length": options.length, "steps": options.steps, "seed": options.seed}
            save_run(Path(options.save) / method, lap.model, settings=settings, curves={"by_length": lap.by_length})


def _sweep(options: argparse.Namespace) -> None:
    """Do every method with every seed, or the runs of a file, and keep the records."""
    if options.runs:
        given = json.loads(Path(options.runs).read_text())
        if not isinstance(given, list) or not all(isinstance(settings, dict) for settings in given):
            raise ValueError(f'{options.runs} must hold a JSON list of settings, such as [{{"position": "alibi"}}]')
        runs = [Run(**settings) for settings in given]
    else:
        asked = {"length": options.length, "steps": options.steps}
        given = {name: value for name, value in asked.items() if value is not None}
        common = {
            **preset(options.device),
            **given,
            "task": options.task,
            "path": options.text,
            "device": options.device,
        }
        pairs = product(range(options.seeds), options.methods)
        runs = [Run(position, seed=seed, **common) for seed, position in pairs]
    with _executor(options) as executor:
        for record in sweep(runs, executor, path=options.out):
            _print_record(record)


def _reproduce(options: argparse.Namespace) -> None:
    """Do the default comparison and print a verdict on each claim."""
    with _executor(options) as executor:
        records = list(sweep(default_comparison(options.seeds), executor, path=options.out))
    print(f"{sum(record['seconds'] for record in records):,.0f} seconds of one core in {len(records)} runs")
    _print_verdicts(records)


def _models(options: argparse.Namespace) -> None:
    """Train the models that ship with the package again, into new folders."""
    torch.set_num_threads(1)  # the numbers depend on it
    train_published_models(options.out)


def _claims(options: argparse.Namespace) -> None:
    """Print a verdict on each claim, from a results file or the published one."""
    _print_verdicts(read_results(options.results) if options.results else published_results())


def _evaluate(options: argparse.Namespace) -> None:
    """Test a model kept by `race --save` at other lengths."""
    saved = load_run(options.run)
    losses = loss_by_length(saved.model, load_text(path=options.text), options.lengths)
    _print_row("bits per byte at length", [str(length) for length in losses])
    _print_row(saved.model.config.position, [f"{bits:.3f}" for bits in losses.values()])


def _print_verdicts(records: list[Record]) -> None:
    for verdict in judge(records):
        print(f"- {verdict}")


def _print_record(record: Record) -> None:
    run, tests = record["run"], record.get("by_length") or record.get("accuracy") or {}
    shown = "  ".join(f"{at}: {'not defined' if value is None else f'{value:.3f}'}" for at, value in tests.items())
    print(f"{run['label']} ({run['task']}, seed {run['seed']})  {record['error'] or shown}", flush=True)


def _print_row(name: str, cells: list[str]) -> None:
    print(f"{name:24}" + "".join(f"{cell:>8}" for cell in cells), flush=True)


@contextmanager
def _executor(options: argparse.Namespace) -> Iterator[Executor | None]:
    """Dask's, a pool of processes, or None for one after the other."""
    if options.scheduler:
        from distributed import Client  # noqa: PLC0415 - an extra that only this option needs

        with Client(options.scheduler) as client:
            yield client.get_executor()
    elif options.workers > 1:
        with ProcessPoolExecutor(options.workers, mp_context=multiprocessing.get_context("spawn")) as pool:
            yield pool
    else:
        yield None


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m alibi_viz.lab", description=__doc__)
    commands = parser.add_subparsers(required=True, metavar="command")

    def command(name: str, function: Callable[[argparse.Namespace], None]) -> argparse.ArgumentParser:
        added = commands.add_parser(name, help=function.__doc__, description=function.__doc__)
        added.set_defaults(command=function)
        return added

    def training(added: argparse.ArgumentParser, length: int | None, steps: int | None, usual: str) -> None:
        added.add_argument("methods", nargs="*", metavar="method", help=", ".join(POSITIONS))
        added.add_argument("--length", type=int, default=length, help=f"training length L ({usual})")
        added.add_argument("--steps", type=int, default=steps, help="how many")
        added.add_argument("--text", help="a UTF-8 file of your own")

    def sweeping(added: argparse.ArgumentParser, out: str) -> None:
        added.add_argument("--seeds", type=int, default=3, help="%(default)s")
        added.add_argument("--out", default=out, help="results file; a second call does what is missing (%(default)s)")
        added.add_argument("--workers", type=int, default=1, help="processes, each of one thread (%(default)s)")
        added.add_argument("--scheduler", help="address of a Dask scheduler, such as tcp://127.0.0.1:8786")

    one = command("race", _race)
    training(one, 32, 300, "32")
    one.set_defaults(methods=["alibi", "sinusoidal", "rotary"])
    one.add_argument("--seed", type=int, default=0)
    one.add_argument("--save", metavar="FOLDER", help="keep the trained models there")
    many = command("sweep", _sweep)
    training(many, None, None, f"{Run.length}; on a CUDA device longer windows, a larger model and more steps")
    many.add_argument("--device", default="auto", help="cpu, cuda, or the CUDA device if there is one (%(default)s)")
    many.set_defaults(methods=["alibi", "sinusoidal", "rotary", "none"])
    many.add_argument("--task", default="text", choices=["text", *TASKS])
    many.add_argument("--runs", metavar="FILE", help="a JSON list of settings, instead of methods and options")
    sweeping(many, "results.jsonl")
    sweeping(command("reproduce", _reproduce), "comparison.jsonl")
    command("models", _models).add_argument("--out", default="models", help="where (%(default)s)")
    command("claims", _claims).add_argument("results", nargs="?", help="a results file; the published one by default")
    test = command("evaluate", _evaluate)
    test.add_argument("run", help="the folder of a saved run")
    test.add_argument("lengths", type=int, nargs="+", help="test lengths")
    test.add_argument("--text", help="a UTF-8 file of your own")
    return parser


if __name__ == "__main__":
    sys.exit(main())
