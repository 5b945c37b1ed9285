"""The command `alibi-viz`: open the lessons, check an implementation of ALiBi, compare methods.

    alibi-viz check package.module:function --kind attention
    alibi-viz check my_file.py:my_bias --kind bias
    alibi-viz compare alibi my_file.py:my_law --seeds 5 --text mine.txt --out results/

The exit status is 0 if all is well, 1 if `check` found a fault or didn't end, or a run failed, 2
for a wrong call or bad input, and 130 after Ctrl-C. `compare` saves each finished run: call it
again to continue.
"""

import argparse
import faulthandler
import inspect
import os
import re
import subprocess
import sys
from collections.abc import Callable, Container, Iterable, Iterator, Sequence
from concurrent.futures import BrokenExecutor
from contextlib import contextmanager, suppress
from functools import wraps
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import torch

# Loads av.lab and av.figures on first use: `check` needs only torch and NumPy.
import alibi_viz as av
from alibi_viz import check
from alibi_viz.arguments import INSTALL, check_choice, check_positive, load_function
from alibi_viz.check.vectors import check_vectors, write_vectors
from alibi_viz.files import copy_lessons, in_words, lesson_files
from alibi_viz.models import POSITIONS
from alibi_viz.models.positions.methods import summary

# Seconds after the checker's own limit until a call that holds Python's lock ends the process.
GRACE = 10
KINDS = ("attention", "bias", "slopes")
DTYPES = ("float32", "float64", "float16", "bfloat16")

# A check in Python and its arguments, as a report advises them: `check.bias`, `num_heads=[8]`
_CHECK = re.compile(rf"\bcheck\.({'|'.join(KINDS)})\b")
_ARGUMENT = re.compile(r"\b(?P<name>\w+)=(?P<value>True|False|\[\d+\]|'\w+'|[\d.]*\d|)")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments and return its exit status.

    By default the arguments are those of the command line.
    """
    parser = _parser()
    # Only what is given: all else has the defaults of the functions below and of the library.
    options = vars(parser.parse_args(arguments))
    command = options.pop("command", None)
    if command is None:
        parser.print_help()
        return 0
    if command is _check and arguments is None:
        _run_and_leave(command, options)
    return _run(command, options)


def _run_and_leave(command: Callable[..., int], options: dict[str, Any]) -> None:
    """Run a check, and end the process whatever the checked code has left behind."""
    leave = os._exit
    process = os.getpid()

    def exit_as_exception(status: int) -> None:
        """In place of `os._exit`, so that an exit of the checked code becomes a finding."""
        if os.getpid() == process:
            sys.exit(status)
        leave(status)  # a process that the checked code has forked ends as ever

    os._exit = exit_as_exception  # type: ignore[assignment]
    status = _run(command, options)
    sys.stdout.flush()
    leave(status)  # a function that hangs would keep torch from shutting down


def _run(command: Callable[..., int], options: dict[str, Any]) -> int:
    """Run a command; its errors become one line and an exit status."""
    try:
        status = command(**options)
        sys.stdout.flush()
        return status
    except BrokenPipeError:  # the process that reads our output has exited, as `head` does
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 1
    except (ArithmeticError, BrokenExecutor) as error:  # training diverged, or a worker died
        _complain(error)
        return 1
    except ModuleNotFoundError as error:
        _complain(error if INSTALL in str(error) else f"{error}: {INSTALL}")
        return 2
    except (OSError, ValueError, TypeError, ImportError, MemoryError) as error:
        _complain(in_words(error))
        return 2
    except KeyboardInterrupt:
        _complain("stopped; finished runs are saved" if command is _compare else "stopped")
        return 130


def _complain(error: object) -> None:
    """Print one line on standard error."""
    print(f"alibi-viz: {error}", file=sys.stderr)


def _lab(
    lesson: str = "00_start_here.ipynb", port: int | None = None, no_browser: bool = False
) -> int:
    """Open the lessons in JupyterLab.

    They are copies in the folder my-lessons, where no update replaces what you have changed.
    """
    if find_spec("jupyterlab") is None:
        raise ModuleNotFoundError("there is no JupyterLab")
    check_choice("lesson", lesson, [path.name for path in lesson_files()])
    folder = Path("my-lessons")
    others = copy_lessons(folder)
    print(f"the lessons are in {folder}")
    if others:
        print(
            f"{', '.join(others)}: there is a newer edition; to get it, rename yours in {folder} "
            "and start again",
            flush=True,  # before JupyterLab writes
        )

    command = [
        sys.executable,
        "-m",
        "jupyterlab",
        str(folder),
        f"--LabApp.default_url=/doc/tree/{lesson}",
        "--ip=127.0.0.1",
        "--allow-root",  # root is the usual user in a container
    ]
    if port is not None:
        command.append(f"--port={port}")
    if no_browser:
        command.append("--no-browser")
    # Otherwise JupyterLab asks, over the first picture, whether it may fetch news.
    folders = [str(Path(__file__).parent / "lessons" / "jupyter")]
    if "JUPYTER_CONFIG_PATH" in os.environ:
        folders.append(os.environ["JUPYTER_CONFIG_PATH"])
    environment = os.environ | {"JUPYTER_CONFIG_PATH": os.pathsep.join(folders)}
    with subprocess.Popen(command, env=environment) as server:
        while server.poll() is None:
            with suppress(KeyboardInterrupt):  # JupyterLab asks what to do
                server.wait()
    return server.returncode


def _check(function: str | None = None, vectors: str | None = None, **settings: Any) -> int:
    """Check a function, or a file of golden vectors; name the faults.

    The file of a function is run like any program.
    """
    if vectors is None and function is not None:
        report = _check_function(function, **settings)
    elif vectors is not None and function is None:
        _refuse_unused(settings, accepted=[], context="--vectors")
        report = check_vectors(vectors)
    else:
        raise ValueError(
            "check needs a function such as package.module:function, or --vectors FILE, and not "
            "both"
        )
    print(_in_shell_words(str(report)))
    return 0 if report.ok else 1


def _in_shell_words(report: str) -> str:
    """A report that advises options instead of arguments in Python."""

    def in_shell(argument: re.Match[str]) -> str:
        name, value = argument["name"], argument["value"].strip("[]'")
        if name not in inspect.signature(check.attention).parameters:
            return argument[0]
        if value == "False":
            return _option(name).replace("--", "--no-")
        return f"{_option(name)} {value.removeprefix('True')}".rstrip()

    return _ARGUMENT.sub(in_shell, _CHECK.sub(r"--kind \1", report))


def _option(name: str) -> str:
    """The option of the command for an argument of the checker."""
    return "--heads" if name == "num_heads" else f"--{name.replace('_', '-')}"


def _check_function(name: str, kind: str = "attention", **settings: Any) -> check.Report:
    checker = getattr(check, kind)
    accepted = inspect.signature(checker).parameters
    _refuse_unused(settings, accepted, context=f"--kind {kind}")
    if "dtype" in settings:
        settings["dtype"] = getattr(torch, settings["dtype"])
    if settings.get("padding") == "both":
        settings["padding"] = True
    seconds = settings.get("seconds", 60.0)
    check_positive("seconds", seconds)

    with _end_process_after(seconds):
        function = load_function(name)

    @wraps(function, updated=())
    def limited(*arguments: Any) -> Any:
        with _end_process_after(seconds + GRACE):
            return function(*arguments)

    limited.__qualname__ = getattr(function, "__qualname__", type(function).__name__)
    return checker(limited, **settings)


def _refuse_unused(settings: Iterable[str], accepted: Container[str], context: str) -> None:
    """Raise ValueError if an option of `check` was given that has no effect."""
    unused = [_option(name) for name in settings if name not in accepted]
    if unused:
        raise ValueError(f"{' and '.join(unused)} can't be used with {context}")


@contextmanager
def _end_process_after(seconds: float) -> Iterator[None]:
    """End the process with status 1 and a traceback if the `with` block takes longer.

    This works even if the code holds Python's lock.
    """
    longest = 1e6  # what faulthandler can count
    stderr = sys.__stderr__ or sys.stderr
    faulthandler.dump_traceback_later(min(seconds, longest), exit=True, file=stderr)
    try:
        yield
    finally:
        faulthandler.cancel_dump_traceback_later()


def _vectors(file: str) -> int:
    """Write golden vectors for implementations in other languages."""
    write_vectors(file)
    print(f"wrote {file} ({Path(file).stat().st_size:,} bytes)")
    return 0


def _compare(
    methods: Sequence[str] = (), workers: int = 1, out: str = "results", **settings: Any
) -> int:
    """Train position methods with several seeds and compare them: a table, a figure, verdicts."""
    from alibi_viz.train.results import worker_pool  # noqa: PLC0415

    folder = Path(out)
    named = _named_methods(methods)
    with worker_pool(workers) as executor:
        comparison = av.lab.compare(named, out=folder, executor=executor, **settings)
    print(*comparison.verdicts, sep="\n")
    try:
        comparison.save(folder)
        _draw(comparison, folder)
    except OSError as error:
        raise OSError(
            f"{in_words(error)}; the runs are saved, run the same command again"
        ) from error
    print(f"results are in {folder}")
    return 1 if comparison.failures else 0


def _draw(comparison: Any, folder: Path) -> None:
    """Write the figure of a comparison; without a browser, say so."""
    drawn_methods = comparison.methods[: av.figures.MAX_METHODS]
    if len(comparison.methods) > len(drawn_methods):
        _complain(f"the figure shows the first {len(drawn_methods)} methods")
    rows = comparison.rows[comparison.rows["label"].isin(drawn_methods)]
    figure = av.figures.curve_figure(rows, comparison.axes, drawn_methods)
    files = {folder / f"figure{suffix}": figure for suffix in (".svg", ".pdf", ".png")}
    try:
        av.figures.save_images(files)
    except RuntimeError as error:  # no browser
        _complain(error)


def _named_methods(names: Sequence[str]) -> dict[str, Any]:
    """{name: method}; a function from a file has the name that was typed after the colon."""
    methods = {}
    for typed in names:
        _, _, name = typed.rpartition(":")
        if name in methods:
            raise ValueError(f"methods must have different names, got {name!r} twice")
        methods[name] = load_function(typed) if ":" in typed else typed
    return methods


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        "alibi-viz", description=str(__doc__).partition("\n")[0], allow_abbrev=False
    )
    parser.add_argument("--version", action="version", version=f"alibi-viz {av.__version__}")
    commands = parser.add_subparsers(metavar="command")

    lab = _add_command(commands, "lab", _lab)
    lab.add_argument("lesson", nargs="?", help="the notebook to open")
    lab.add_argument(
        "--port", type=int, help="of JupyterLab; the next free one if it is in use (default: 8888)"
    )
    lab.add_argument("--no-browser", action="store_true", help="only print the address")

    _add_check(commands)

    vectors = _add_command(commands, "vectors", _vectors)
    vectors.add_argument("file", help="JSON file to write")

    compare = _add_command(commands, "compare", _compare)
    summaries = [f"  {name:16}{summary(name)}" for name in POSITIONS]
    compare.epilog = "\n".join(["position methods:", *summaries])
    compare.add_argument(
        "methods",
        nargs="*",
        metavar="method",
        help="a name listed below, or file.py:function, with "
        "function(distance, head, num_heads) -> bias",
    )
    compare.add_argument(
        "--text",
        type=Path,
        metavar="FILE",
        help="a UTF-8 file to use instead of the built-in text",
    )
    compare.add_argument("--length", type=int, help="training length L in bytes (default: 64)")
    compare.add_argument("--steps", type=int, help="number of training steps (default: 400)")
    compare.add_argument(
        "--longest",
        type=int,
        help="tests are at L, 2L, 4L, ... up to this many times L (default: 16)",
    )
    compare.add_argument("--seeds", type=int, help="number of seeds, from 0 (default: 3)")
    compare.add_argument("--workers", type=int, help="processes, one thread each (default: 1)")
    compare.add_argument("--out", metavar="FOLDER", help="where to write (default: results)")
    return parser


def _add_check(commands: Any) -> None:
    command = _add_command(commands, "check", _check)
    command.add_argument("function", nargs="?", help="package.module:function or file.py:function")
    command.add_argument(
        "--vectors", metavar="FILE", help="golden vectors with the results of an implementation"
    )
    command.add_argument(
        "--kind",
        choices=KINDS,
        help="by default attention: (query, key, value) -> output, "
        "(num_heads, query_length, key_length) -> bias, or num_heads -> slopes",
    )
    command.add_argument("--layout", help="axes of query, key, value and output (default: bhld)")
    command.add_argument(
        "--causal", action=argparse.BooleanOptionalAction, help="for a decoder (the default)"
    )
    command.add_argument(
        "--decoding",
        action=argparse.BooleanOptionalAction,
        help="also try fewer queries than keys (the default)",
    )
    command.add_argument("--head-dim", type=int, help="channels per head (default: 64 and 104)")
    command.add_argument("--group-size", type=int, help="query heads that share a key (default: 1)")
    command.add_argument("--length", type=int, help="the longest length to try (default: 300)")
    command.add_argument(
        "--heads",
        dest="num_heads",
        type=int,
        nargs="+",
        metavar="N",
        help="head counts to try (default: 8 and 12; for slopes, many up to 128)",
    )
    command.add_argument(
        "--dtype", choices=DTYPES, help="of query, key and value (default: float32)"
    )
    command.add_argument(
        "--slopes", help="the correct slopes: official (the default), geometric or halving"
    )
    command.add_argument(
        "--padding",
        choices=("left", "right", "both"),
        help="also call it with a mask [batch, key], and padding on this side",
    )
    command.add_argument(
        "--scale", type=float, help="factor of q . k by design (default: 1 / sqrt(head_dim))"
    )
    command.add_argument("--window", type=int, help="how many keys a query sees by design")
    command.add_argument(
        "--softcap", type=float, help="c, if content is c * tanh(content / c) by design"
    )
    command.add_argument("--seconds", type=float, help="time limit of a call (default: 60)")


def _add_command(commands: Any, name: str, function: Callable[..., int]) -> argparse.ArgumentParser:
    """Add the command of a function, whose docstring is the help."""
    help_text = inspect.getdoc(function)
    command: argparse.ArgumentParser = commands.add_parser(
        name,
        help=str(help_text).partition("\n")[0],
        description=help_text,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,  # `--seed` must not be taken for `--seeds`
        argument_default=argparse.SUPPRESS,  # what isn't given is no attribute
    )
    command.set_defaults(command=function)
    return command


if __name__ == "__main__":
    sys.exit(main())
