"""The command `alibi-viz`: check an implementation of ALiBi, compare methods, repeat our study.

    alibi-viz check package.module:function --kind attention
    alibi-viz check my_file.py:my_bias --kind bias
    alibi-viz compare alibi my_file.py:my_law --seeds 5 --text mine.txt --out results/

The exit status is 0 if all is well, 1 if `check` found a fault or didn't end, or a run failed, 2
for a wrong call or bad input, and 130 after Ctrl-C. `compare` and `reproduce` save each finished
run: call them again to continue.
"""

import argparse
import faulthandler
import inspect
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

# Loads av.lab, av.study and av.figures on first use: `check` needs only torch and NumPy
import alibi_viz as av
from alibi_viz import check
from alibi_viz.arguments import INSTALL, check_positive, check_positive_integers, load_function
from alibi_viz.check.vectors import check_vectors, write_vectors
from alibi_viz.models import POSITIONS, register_method

# Seconds before a call that holds Python's lock ends the process, after the checker's own limit
GRACE = 10


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments and return its exit status; by default with those of the
    command line."""
    if arguments is not None or sys.argv[1:2] != ["check"]:
        return _run(_parser().parse_args(arguments))
    leave, process = os._exit, os.getpid()

    def end(
        status: int,
    ) -> None:  # an exit of the checked code becomes a finding; what the code forks ends as ever
        if os.getpid() == process:
            sys.exit(status)
        leave(status)

    os._exit = end  # type: ignore[assignment]
    status = _run(_parser().parse_args())
    sys.stdout.flush()
    leave(status)  # a function that hangs would keep torch from shutting down


def _run(options: argparse.Namespace) -> int:
    try:
        check_positive_integers(**_given(options, "seeds", "workers"))
        status: int = options.command(options) or 0
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the process that reads our output has exited, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except ArithmeticError as error:  # training diverged
        return _complain(error, 1)
    except BrokenExecutor:
        return _complain(
            "a worker process died; finished runs are saved, call again for the rest", 1
        )
    except (OSError, ValueError, TypeError, ImportError, MemoryError) as error:
        known = not isinstance(error, ModuleNotFoundError) or INSTALL in str(error)
        return _complain(error if known else f"{error}: {INSTALL}", 2)
    except KeyboardInterrupt:
        return _complain(
            f"stopped{'; finished runs are saved' if 'workers' in options else ''}", 130
        )


def _complain(error: object, status: int = 0) -> int:
    """Print one line on standard error, and return the exit status."""
    print(f"alibi-viz: {error}", file=sys.stderr)
    return status


def _lab(options: argparse.Namespace) -> int:
    """Open the lessons in JupyterLab: those of a clone, or copies in a folder that never replace
    what you changed."""
    from alibi_viz.lessons.copies import INSTALLED, copy_lessons, lessons_folder  # noqa: PLC0415

    if find_spec("jupyterlab") is None:
        raise ModuleNotFoundError("there is no JupyterLab")
    folder = lessons_folder()
    if options.out or folder in INSTALLED:
        folder = Path(options.out or "alibi_lessons")
        kept = copy_lessons(folder)
        print(
            f"the lessons are in {folder}"
            + (f"; left alone, because changed: {', '.join(kept)}" if kept else "")
        )
    if not (folder / options.lesson).is_file():
        raise ValueError(
            "lesson must be one of "
            f"{', '.join(sorted(path.name for path in folder.glob('*.ipynb')))}"
        )
    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        str(folder),
        f"--LabApp.default_url=/lab/tree/{options.lesson}",
    ]
    command += ["--ip=127.0.0.1", "--allow-root"]  # root is the usual user in a container
    command += [f"--port={options.port}"] if options.port else []
    command += ["--no-browser"] if options.no_browser else []
    with subprocess.Popen(command) as server:
        while server.poll() is None:
            with suppress(KeyboardInterrupt):  # JupyterLab asks what to do
                server.wait()
    return server.returncode


def _check(options: argparse.Namespace) -> int:
    """Check a function, whose file is run like any program, or a file of golden vectors; name the
    faults."""
    if (options.function is None) == (options.vectors is None):
        raise ValueError(
            "check needs a function such as package.module:function, or --vectors FILE, and not "
            "both"
        )
    checked = getattr(check, kind := options.kind or "attention")
    accepted = (
        [] if options.vectors else ["function", "kind", *inspect.signature(checked).parameters]
    )
    given = [name for name, value in vars(options).items() if value is not None]
    if unused := [name for name in given if name not in ["command", "vectors", *accepted]]:
        flags = " and ".join("--" + name.removeprefix("num_").replace("_", "-") for name in unused)
        raise ValueError(
            f"{flags} can't be used with {'--vectors' if options.vectors else f'--kind {kind}'}"
        )
    if options.vectors:
        report = check_vectors(options.vectors)
    else:
        options.dtype = getattr(torch, options.dtype or "float32")
        seconds = 60.0 if options.seconds is None else options.seconds
        check_positive("seconds", seconds)
        with _alive(seconds):
            function = load_function(options.function)

        def limited(*arguments: Any) -> Any:
            with _alive(seconds + GRACE):
                return function(*arguments)

        limited.__qualname__ = getattr(function, "__qualname__", type(function).__name__)
        report = checked(limited, **_given(options, *[*inspect.signature(checked).parameters][1:]))
    print(report)
    return 0 if report.ok else 1


@contextmanager
def _alive(seconds: float) -> Iterator[None]:
    """End the process with status 1 and a traceback if this takes longer, even if the code holds
    Python's lock."""
    faulthandler.dump_traceback_later(
        min(seconds, 1e6), exit=True, file=sys.__stderr__ or sys.stderr
    )
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _vectors(options: argparse.Namespace) -> None:
    """Write golden vectors for implementations in other languages."""
    write_vectors(options.file)
    print(f"wrote {options.file} ({Path(options.file).stat().st_size:,} bytes)")


def _race(options: argparse.Namespace) -> None:
    """Train position methods side by side and print bits per byte by sequence length."""
    import pandas as pd  # noqa: PLC0415

    methods, settings = _methods(options), _given(options, "length", "steps", "seed")
    race = av.lab.race(
        methods, av.lab.load_text(options.text), **settings, checkpoints=1, targets=8192
    )
    rows = pd.DataFrame(row for row in race if row["question"] == "longer sequences")
    print(rows.pivot(index="method", columns="x", values="value").loc[methods].round(3).to_string())


def _compare(options: argparse.Namespace) -> int:
    """Train position methods with several seeds and compare them: tables, a figure and verdicts."""
    from alibi_viz.train.runs import executor  # noqa: PLC0415

    given = _given(options, "seeds", "text", "length", "steps", "longest")
    folder = Path(options.out or "results")
    with executor(options.workers or 1) as pool:
        comparison = av.lab.compare(_methods(options), out=folder, executor=pool, **given)
    first = comparison.methods[: av.figures.MAX_METHODS]
    shown = comparison.rows["label"].isin(first)
    figure = av.figures.curve_figure(comparison.rows[shown], comparison.axes, first)
    print(comparison.caption, *comparison.verdicts, sep="\n")
    if len(comparison.methods) > len(first):
        _complain(f"the figure shows the first {len(first)} methods")
    comparison.save(folder)
    try:
        av.figures.save_images(
            {folder / f"figure{suffix}": figure for suffix in (".svg", ".pdf", ".png")}
        )
    except RuntimeError as error:  # no browser
        _complain(error)
    print(f"results are in {folder}")
    return 1 if comparison.failures else 0


def _claims(options: argparse.Namespace) -> None:
    """Print a verdict on each of our claims, and what is left of them after Holm's correction."""
    path = options.results
    _print_verdicts(
        av.lab.read_results(path, by_block=True)
        if path
        else av.study.published_results(by_block=True)
    )
    for record in av.lab.read_records(path) if path else []:
        if error := record["error"]:
            _complain(
                f"{record['run']['label']}, seed {record['run']['seed']}, is left out: {error}"
            )


def _reproduce(options: argparse.Namespace) -> None:
    """Train the study again, or parts of it, and judge its claims."""
    from alibi_viz.train.runs import executor  # noqa: PLC0415

    with executor(options.workers or 1) as pool:
        _print_verdicts(
            av.study.reproduce(options.parts, pool, **_given(options, "seeds", "publish", "out"))
        )


def _print_verdicts(results: Any) -> None:
    table = av.study.verdict_table(results)
    if others := {*results["text"]} - {*av.study.published_results()["text"]}:
        _complain(
            f"these results are about another text than the published ones: {', '.join(others)}"
        )
    for row in table.itertuples():
        is_own = row.setting == "tales" and not others.isdisjoint(
            results.loc[results["task"] == "text", "text"]
        )
        setting = "your text" if is_own else row.setting
        print(f"- {setting}, {row.verdict}: {row.claim}. {row.text} [{row.numbers}]")
    print(av.study.conclusion(table))


def _report(options: argparse.Namespace) -> None:
    """Write report.md about the published results."""
    av.study.write_report(options.out or ".")


def _site(options: argparse.Namespace) -> None:
    """Build the page that needs no kernel."""
    from alibi_viz.site.build import build_site  # noqa: PLC0415

    print(f"wrote {build_site(options.out or 'site')}")


def _models(options: argparse.Namespace) -> None:
    """Train the models that ship with the package again."""
    av.study.train_published_models(options.out or "models")


def _methods(options: argparse.Namespace) -> list[str]:
    """The names of the methods; functions from files are registered."""
    return [
        register_method(load_function(name) if ":" in name else name) for name in options.methods
    ]


def _given(options: argparse.Namespace, *names: str) -> dict[str, Any]:
    """The options that were given, so that the defaults are those of the library."""
    return {name: value for name in names if (value := getattr(options, name, None)) is not None}


SIGNATURES = (
    "(query, key, value) -> output, (num_heads, query_length, key_length) -> bias, or "
    "num_heads -> slopes"
)
METHOD = (
    "a name listed below, or file.py:function, with function(distance, head, num_heads) -> bias"
)
SWITCH = argparse.BooleanOptionalAction
ARGUMENTS: dict[str, dict[str, Any]] = {  # those without a default leave it to the library
    "lesson": {"nargs": "?", "default": "00_start_here.ipynb", "help": "the notebook to open"},
    "file": {"help": "JSON file to write"},
    "function": {"nargs": "?", "help": "package.module:function or file.py:function"},
    "methods": {"nargs": "*", "metavar": "method", "help": METHOD},
    "results": {"nargs": "?", "help": "a results folder or file; the published results by default"},
    "parts": {
        "nargs": "*",
        "metavar": "part",
        "help": "search, tales, python, needle or induction; all by default",
    },
    "--vectors": {
        "metavar": "FILE",
        "help": "golden vectors with the results of an implementation",
    },
    "--kind": {
        "choices": ("attention", "bias", "slopes"),
        "help": f"by default attention: {SIGNATURES}",
    },
    "--layout": {"help": "axes of query, key, value and output (default: bhld)"},
    "--causal": {"action": SWITCH, "help": "for a decoder (the default)"},
    "--decoding": {"action": SWITCH, "help": "also try fewer queries than keys (the default)"},
    "--heads": {
        "dest": "num_heads",
        "type": int,
        "nargs": "+",
        "metavar": "N",
        "help": "head counts to try",
    },
    "--head-dim": {"type": int, "help": "channels per head (default: 64)"},
    "--group-size": {"type": int, "help": "query heads that share a key (default: 1)"},
    "--dtype": {
        "choices": ("float32", "float64", "float16", "bfloat16"),
        "help": "of query, key and value",
    },
    "--slopes": {"help": "the correct slopes: official (the default), geometric or halving"},
    "--seconds": {"type": float, "help": "time limit of a call (default: 60)"},
    "--text": {
        "metavar": "FILE",
        "type": Path,
        "help": "a UTF-8 file to use instead of the built-in text",
    },
    "--length": {
        "type": int,
        "help": "training length L in bytes (default: 64), or of a check, the longest (300)",
    },
    "--steps": {"type": int, "help": "number of training steps (default: 800)"},
    "--longest": {
        "type": int,
        "help": "tests are at L, 2L, 4L, ... up to this many times L (default: 16)",
    },
    "--seed": {"type": int, "help": "of the starting weights and the batches (default: 0)"},
    "--seeds": {"type": int, "help": "number of seeds, from 0"},
    "--workers": {"type": int, "help": "processes, one thread each (default: 1)"},
    "--out": {"metavar": "FOLDER", "help": "where to write"},
    "--port": {
        "type": int,
        "help": "of JupyterLab; the next free one if it is in use (default: 8888)",
    },
    "--no-browser": {"action": "store_true", "help": "only print the address"},
    "--publish": {
        "metavar": "FOLDER",
        "help": "write the records there as well, one file per part",
    },
}
SHAPES = "--layout", "--causal", "--decoding", "--head-dim", "--group-size", "--length"
SWEEPING = "--workers", "--seeds", "--out"
COMMANDS = {
    _lab: ("lesson", "--out", "--port", "--no-browser"),
    _check: (
        "function",
        "--vectors",
        "--kind",
        *SHAPES,
        "--heads",
        "--dtype",
        "--slopes",
        "--seconds",
    ),
    _vectors: ("file",),
    _race: ("methods", "--text", "--length", "--steps", "--seed"),
    _compare: ("methods", "--text", "--length", "--steps", "--longest", *SWEEPING),
    _claims: ("results",),
    _reproduce: ("parts", "--publish", *SWEEPING),
    _report: ("--out",),
    _site: ("--out",),
    _models: ("--out",),
}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "alibi-viz", description=str(__doc__).partition("\n")[0], allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"alibi-viz {av.__version__}")
    parser.set_defaults(command=lambda _: parser.print_help())  # without a command
    subparsers = parser.add_subparsers(metavar="command")
    methods = "".join(f"\n  {name:16}{method.summary()}" for name, method in POSITIONS.items())
    for function, names in COMMANDS.items():
        command = subparsers.add_parser(
            function.__name__.removeprefix("_"),
            help=function.__doc__,
            description=function.__doc__,
            epilog=f"position methods:{methods}" if "methods" in names else None,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,  # `--seed` must not be taken for `--seeds`
        )
        command.set_defaults(command=function)
        for name in names:
            command.add_argument(name, **ARGUMENTS[name])
    return parser
