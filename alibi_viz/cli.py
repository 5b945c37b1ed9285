"""The command `alibi-viz`: check an implementation of ALiBi, and write golden vectors for other languages.

    alibi-viz check package.module:function --kind attention
    alibi-viz check my_file.py:my_bias --kind bias
    alibi-viz vectors golden.json
    alibi-viz check --vectors filled_in.json

`check` prints a report. The exit status is 0 if nothing is wrong, 1 with findings, and 2 if there is nothing to check.
"""

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch

from alibi_viz import check
from alibi_viz.arguments import load_function
from alibi_viz.check.vectors import check_vectors, write_vectors

__all__ = ["main"]

_DTYPES = ("float32", "float64", "float16", "bfloat16")


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    options = _parser().parse_args(arguments)
    try:
        if options.command == "vectors":
            write_vectors(options.file)
            print(f"wrote {options.file} ({Path(options.file).stat().st_size:,} bytes)")
            return 0
        report = check_vectors(options.vectors) if options.vectors else _check(options)
    except (OSError, ValueError, TypeError) as error:
        print(f"alibi-viz: {error}", file=sys.stderr)
        return 2
    print(report)
    return 0 if report.ok else 1


def _check(options: argparse.Namespace) -> check.Report:
    if options.function is None:
        raise ValueError("check needs a function such as package.module:function, or --vectors FILE")
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
    return check.attention(function, options.layout, head_dim=options.head_dim, dtype=dtype, **common)


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
    checker.add_argument("--head-dim", type=int, default=64, help="size of a head (default: 64)")
    checker.add_argument("--length", type=int, default=300, help="the longest length to try (default: 300)")
    checker.add_argument("--dtype", choices=_DTYPES, default="float32", help="of query, key and value")
    checker.add_argument("--slopes", default="official", help="the correct slopes: official, geometric or halving")
    checker.add_argument("--seconds", type=float, default=60.0, help="time limit of a call (default: 60)")
    vectors = commands.add_parser("vectors", help="write golden vectors for implementations in other languages")
    vectors.add_argument("file", help="JSON file to write")
    return parser


if __name__ == "__main__":
    sys.exit(main())
