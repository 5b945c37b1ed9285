"""The command `alibi-viz`: check an implementation of ALiBi, compare position methods, write golden vectors.

    alibi-viz check package.module:function --kind attention
    alibi-viz check my_file.py:my_bias --kind bias
    alibi-viz compare --method alibi --method my_file.py:my_bias --seeds 5 --text mine.txt --out results/
    alibi-viz vectors golden.json
    alibi-viz check --vectors filled_in.json

`check` prints a report. The exit status is 0 if nothing is wrong, 1 with findings, and 2 if nothing could be checked.

`compare` trains every method with every seed, and writes a table (CSV, Parquet, LaTeX), figures (SVG, PDF, PNG) and
verdicts. If it is interrupted, call it again to continue.

The exit status of every command is 2 after an error and 130 after Ctrl-C.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor
from pathlib import Path
from typing import Any

import torch

from alibi_viz import check
from alibi_viz.arguments import load_function
from alibi_viz.check.call import is_running
from alibi_viz.check.vectors import check_vectors, write_vectors

__all__ = ["main"]

_IMAGES = (".svg", ".pdf", ".png")
_MAX_SECONDS = 86_400
_DTYPES = ("float32", "float64", "float16", "bfloat16")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command with these arguments and return its exit status; by default with those of the command line."""
    status = _run(_parser().parse_args(arguments))
    if arguments is None and is_running():  # a function that hangs would keep torch from shutting down
        sys.stdout.flush()
        os._exit(status)
    return status


def _run(options: argparse.Namespace) -> int:
    try:
        if options.command == "vectors":
            write_vectors(options.file)
            print(f"wrote {options.file} ({Path(options.file).stat().st_size:,} bytes)")
            return 0
        if options.command == "compare":
            _compare(options)
            return 0
        if options.vectors and options.function:
            raise ValueError("check takes a function or --vectors FILE, not both")
        report = check_vectors(options.vectors) if options.vectors else _check(options)
    except (OSError, ValueError, TypeError, ImportError) as error:
        return _complain(error)
    except BrokenExecutor:
        return _complain("a worker process died; finished runs are saved, call again for the rest")
    except KeyboardInterrupt:
        is_comparing = options.command == "compare"
        _complain("stopped; finished runs are saved, call again for the rest" if is_comparing else "stopped")
        return 130
    print(report)
    return 0 if report.ok else 1


def _complain(error: object) -> int:
    """Print one line on standard error, and return the exit status for errors."""
    print(f"alibi-viz: {error}", file=sys.stderr)
    return 2


def _compare(options: argparse.Namespace) -> None:
    from alibi_viz import figures, lab  # noqa: PLC0415  # slow to import, and only this command needs them

    methods = [load_function(name) if ":" in name else name for name in options.method]
    names = ("seeds", "text", "out", "length", "steps", "longest", "workers", "scheduler")
    given = {name: getattr(options, name) for name in names if getattr(options, name) is not None}
    comparison, folder = lab.compare(methods, **given), Path(options.out)
    first = comparison.methods[: figures.MAX_METHODS]
    panels = {"figure": comparison.panel(first)}
    for method, variants in comparison.variants.items():
        if len(variants) > 1:  # not only a window
            panels[f"figure-{method}"] = comparison.panel([method, *(f"{method}, {name}" for name in variants)])
    drawn = {name: figures.panel_figure(panel, fixed=first) for name, panel in panels.items()}
    images = {folder / f"{name}{suffix}": figure for name, figure in drawn.items() for suffix in _IMAGES}
    print(comparison.caption, *comparison.verdicts, sep="\n")
    if len(comparison.methods) > len(first):
        _complain(f"the figure shows the first {len(first)} methods")
    for write in (lambda: comparison.save(folder), lambda: figures.save_images(images)):
        try:
            write()
        except (ImportError, RuntimeError) as error:  # no library for Parquet, no browser for images
            _complain(error)
    print(f"results are in {folder}")


def _check(options: argparse.Namespace) -> check.Report:
    if options.function is None:
        raise ValueError("check needs a function such as package.module:function, or --vectors FILE")
    if not 0 < options.seconds <= _MAX_SECONDS:
        raise ValueError(f"--seconds must be positive and at most {_MAX_SECONDS:,}, got {options.seconds}")
    function = load_function(options.function)
    common: dict[str, Any] = {"slopes": options.slopes, "seconds": options.seconds}
    if options.heads:
        common["num_heads"] = options.heads
    if options.kind == "slopes":
        return check.slopes(function, **common)
    common |= {"causal": options.causal, "decoding": options.decoding, "length": options.length}
    if options.kind == "bias":
        return check.bias(function, **common)
    dtype: torch.dtype = getattr(torch, options.dtype)
    common |= {"head_dim": options.head_dim, "key_heads": options.key_heads, "dtype": dtype}
    return check.attention(function, options.layout, **common)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="alibi-viz", description=__doc__.split("\n")[0])
    commands = parser.add_subparsers(dest="command", required=True)
    checker = commands.add_parser("check", help="check a function, or a file of golden vectors, and name its faults")
    checker.add_argument("function", nargs="?", help="package.module:function or file.py:function")
    checker.add_argument("--vectors", metavar="FILE", help="golden vectors with the results of an implementation")
    checker.add_argument(
        "--kind",
        choices=("attention", "bias", "slopes"),
        default="attention",
        help="(query, key, value) -> output, (num_heads, query_length, key_length) -> bias, or num_heads -> slopes",
    )
    checker.add_argument("--layout", default="bhld", help="axes of query, key, value and output (default: bhld)")
    checker.add_argument("--causal", action=argparse.BooleanOptionalAction, default=True, help="for a decoder")
    checker.add_argument(
        "--decoding", action=argparse.BooleanOptionalAction, default=True, help="also try fewer queries than keys"
    )
    checker.add_argument("--heads", type=int, nargs="+", metavar="N", help="head counts to try")
    checker.add_argument("--head-dim", type=int, default=64, help="channels per head (default: 64)")
    checker.add_argument(
        "--key-heads", type=int, metavar="N", help="heads of key and value, if fewer than of the query"
    )
    checker.add_argument("--length", type=int, default=300, help="the longest length to try (default: 300)")
    checker.add_argument("--dtype", choices=_DTYPES, default="float32", help="of query, key and value")
    checker.add_argument("--slopes", default="official", help="the correct slopes: official, geometric or halving")
    checker.add_argument("--seconds", type=float, default=60.0, help="time limit of a call (default: 60)")
    compare = commands.add_parser("compare", help="train position methods with several seeds and compare them")
    compare.add_argument(
        "--method",
        action="append",
        default=[],
        help="a method to compare, repeated for each: a name such as alibi, or file.py:function",
    )
    compare.add_argument("--seeds", type=int, help="number of seeds (default: 3)")
    compare.add_argument("--text", metavar="FILE", help="a UTF-8 file to use instead of the built-in text")
    compare.add_argument("--out", metavar="FOLDER", default="results", help="results folder (default: results)")
    compare.add_argument("--length", type=int, help="training length L in bytes (default: 64)")
    compare.add_argument("--steps", type=int, help="number of training steps (default: 600)")
    compare.add_argument("--longest", type=int, help="tests go to this many times L (default: 16)")
    compare.add_argument("--workers", type=int, help="processes, with one thread each (default: 1)")
    compare.add_argument("--scheduler", metavar="ADDRESS", help="Dask scheduler, such as tcp://127.0.0.1:8786")
    vectors = commands.add_parser("vectors", help="write golden vectors for implementations in other languages")
    vectors.add_argument("file", help="JSON file to write")
    return parser


if __name__ == "__main__":
    sys.exit(main())
