"""Count how many small mistakes in the package the tests catch.

    make mutants                                 200 mistakes, chosen by seed 0, in about an hour on two cores
    make mutants ARGS="--seed 1 --count 50 --only check"

A mutant is the package with one small mistake: another operator, comparison or constant, a call
left out, two arguments swapped. It is caught if a test fails, and survives if all tests pass that
run the changed line or are named after the file (or, if these are few, stand in a file with one of
them), or run the package in another process. Where a line runs on import only, all tests that run
anything of its file are tried.

Survivors are printed to be read one by one. Some change nothing but time: write the reason as
"same" into mutants.json, and `make report` gives the share without them, too. Others are pure
layout that isn't told by its name: as "layout".

Mutation testing goes back to DeMillo, Lipton and Sayward (1978). mutmut 3 and cosmic-ray have no
mistakes of the last two kinds and no sample by a seed.
"""

import argparse
import ast
import json
import os
import random
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict, dataclass
from datetime import date
from pathlib import Path
from queue import Queue

import pytest
from coverage.numbits import numbits_to_nums

HERE = Path(__file__).parents[1]
RESULTS = HERE / "benchmarks" / "mutants.json"
SECONDS = 120  # a single test that takes longer has caught a mistake that never ends
# Tests: a fixture or a cache may have run the line once for all tests of a file, so all of them are
# tried
FEW = 10
UNITS = ["README.md", "alibi_viz", "tests", "--ignore", "tests/browser"]

# Pure layout: a wrong number of pixels is for the eye to find.
LAYOUT = {
    "width",
    "height",
    "margin",
    "font",
    "size",
    "family",
    "color",
    "padding",
    "gap",
    "layout",
    "style",
}
LAYOUT |= {
    "title",
    "xanchor",
    "yanchor",
    "x",
    "y",
    "xshift",
    "yshift",
    "line",
    "marker",
    "thickness",
    "len",
    "opacity",
}
LAYOUT |= {"xpad", "ticklen", "outlinewidth", "domain", "range", "margin_t", "showgrid"}
SPEED = "speed only"  # ends the comment of a constant that changes no result
SAME = {
    "transpose",
    "swapaxes",
    "maximum",
    "minimum",
    "max",
    "min",
    "logaddexp",
    "equal",
}  # in either order
OPERATORS = {
    ast.Add: "-",
    ast.Sub: "+",
    ast.Mult: "/",
    ast.Div: "*",
    ast.FloorDiv: "/",
    ast.Mod: "*",
    ast.Pow: "*",
    ast.BitOr: "&",
    ast.BitAnd: "|",
    ast.Lt: "<=",
    ast.LtE: "<",
    ast.Gt: ">=",
    ast.GtE: ">",
    ast.Eq: "!=",
    ast.NotEq: "==",
    ast.Is: "is not",
    ast.IsNot: "is",
    ast.In: "not in",
    ast.NotIn: "in",
    ast.And: "or",
    ast.Or: "and",
}


@dataclass(frozen=True)
class Mutant:
    """One mistake: in which file, which characters, and what they are replaced by."""

    path: str
    line: int
    start: int
    end: int
    new: str
    kind: str

    def source(self) -> str:
        """The text of the file with the mistake in it."""
        text = (HERE / self.path).read_text(encoding="utf-8")
        return text[: self.start] + self.new + text[self.end :]


def mutants_of(path: str) -> list[Mutant]:
    """All mistakes that this program can make in one file."""
    text = (HERE / path).read_text(encoding="utf-8")
    starts = [0]
    for line in text.splitlines(keepends=True):
        starts.append(starts[-1] + len(line))

    def offset(line: int | None, column: int | None) -> int:
        assert line is not None  # nodes of a parsed text have a place
        begin = starts[line - 1]
        return begin + len(text[begin : starts[line]].encode()[:column].decode())

    def mutant(
        first: ast.expr | ast.stmt, last: ast.expr | ast.stmt, new: str, kind: str
    ) -> Mutant:
        start, end = (
            offset(first.lineno, first.col_offset),
            offset(last.end_lineno, last.end_col_offset),
        )
        return Mutant(path, first.lineno, start, end, new, kind)

    def code(node: ast.AST) -> str:
        return ast.get_source_segment(text, node) or ""

    constants = (line.partition(" = ")[0] for line in text.splitlines() if line.endswith(SPEED))
    speeds = {name for names in constants for name in names.split(", ")}

    def of(node: ast.AST) -> Iterator[Mutant]:
        """The mistakes in one expression or statement."""
        match node:
            case ast.BinOp(left, op, right) if type(op) in OPERATORS:
                yield mutant(
                    node, node, f"({code(left)}) {OPERATORS[type(op)]} ({code(right)})", "operator"
                )
            case ast.AugAssign(target, ast.Add() | ast.Sub() as op, value):
                yield mutant(
                    node, node, f"{code(target)} {OPERATORS[type(op)]}= {code(value)}", "operator"
                )
            case ast.UnaryOp(ast.USub() | ast.Not(), operand):
                yield mutant(node, node, f"({code(operand)})", "operator")
            case ast.BoolOp(op, values):
                joined = f" {OPERATORS[type(op)]} ".join(f"({code(value)})" for value in values)
                yield mutant(node, node, f"({joined})", "operator")
            case ast.Compare(left, [ast.LtE() | ast.Lt() | ast.GtE() | ast.Gt()], [right]) if (
                code(right) in speeds
            ):
                pass
            case ast.Compare(left, [op], [right]):
                yield mutant(
                    node,
                    node,
                    f"({code(left)}) {OPERATORS[type(op)]} ({code(right)})",
                    "comparison",
                )
            case ast.Constant(bool(value)):
                yield mutant(node, node, str(not value), "constant")
            case ast.Constant(int(value)):
                yield mutant(
                    node, node, str(value * 2 if value > 9 else value + 1), "constant"
                )  # no hair's breadth
            case ast.Constant(float(value)):
                yield mutant(node, node, repr(value * 1.5 + (value == 0)), "constant")
            case ast.Expr(ast.Call()):
                yield mutant(node, node, "pass", "call left out")
            case ast.Call(called, [first, second, *_]) if (
                code(called).rpartition(".")[2] not in SAME
            ):
                if code(first) != code(second) and not any(
                    isinstance(each, ast.Starred) for each in (first, second)
                ):
                    yield mutant(
                        first, second, f"{code(second)}, {code(first)}", "arguments swapped"
                    )

    found = [each for node in _visible(ast.parse(text)) for each in of(node)]
    return [each for each in found if not text.splitlines()[each.line - 1].endswith(SPEED)]


def _visible(node: ast.AST) -> Iterator[ast.AST]:
    """All parts of a program except docstrings, annotations, messages of errors and pure layout."""
    yield node
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "decorator_list", "type_params"):
            continue
        children = value if isinstance(value, list) else [value]
        if isinstance(node, ast.Dict) and name == "values":
            keys = [key.value if isinstance(key, ast.Constant) else None for key in node.keys]
            children = [
                child for key, child in zip(keys, children, strict=True) if key not in LAYOUT
            ]
        for child in children:
            skipped = isinstance(child, ast.keyword) and child.arg in LAYOUT | {
                "strict"
            }  # strict only asserts
            skipped |= (
                isinstance(child, ast.Assign) and getattr(child.targets[0], "attr", "") in LAYOUT
            )
            skipped |= isinstance(child, ast.Raise | ast.JoinedStr)
            if isinstance(child, ast.AST) and not skipped:
                yield from _visible(child)


def contexts(folder: Path) -> dict[str, dict[int, set[str]]]:
    """For every file and line, the tests that run it, measured by coverage.py."""
    database = folder / "coverage"
    command = ["pytest", *UNITS, "--quiet", "--numprocesses=2", "--dist=worksteal"]
    command += ["--cov=alibi_viz", "--cov-context=test", "--cov-report="]
    own = environment(HERE) | {"COVERAGE_FILE": str(database)}
    subprocess.run([sys.executable, "-m", *command], cwd=HERE, env=own, check=True)
    lines: dict[str, dict[int, set[str]]] = {}
    query = "SELECT path, context, numbits FROM line_bits"
    query += " JOIN file ON file.id = file_id JOIN context ON context.id = context_id"
    for path, context, bits in sqlite3.connect(database).execute(query):
        of_file = lines.setdefault(str(Path(path).relative_to(HERE)), {})
        for number in numbits_to_nums(bits):
            of_file.setdefault(number, set()).add(context.partition("|")[0])
    return lines


def environment(folder: Path) -> dict[str, str]:
    """The environment of a test run in one copy of the repository: one thread, no files left
    behind."""
    own = {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1", "OMP_NUM_THREADS": "1"}
    return os.environ | own


def tests_for(
    mutant: Mutant, lines: dict[str, dict[int, set[str]]], known: list[str]
) -> tuple[list[str], list[str]]:
    """The tests to run: those of the folder with the same name, which are likely to fail, and all
    others.

    Those named after the file come first: most mistakes need no more, and the first failure ends
    the run.
    """
    of_file = lines.get(mutant.path, {})
    tests = of_file.get(mutant.line, set()) - {""} or set().union(*of_file.values()) - {""}
    own = {
        test for test in known if f"test_{Path(mutant.path).stem}.py" in test
    }  # some run it in another process
    tests |= own
    if len(tests) < FEW:
        files = {test.partition("::")[0] for test in tests}
        tests |= {test for test in known if test.partition("::")[0] in files}
    folder = Path(mutant.path).parts[1].removesuffix(".py")
    near = {test for test in tests if f"tests/{folder}" in test or f"test_{folder}" in test}
    return sorted(near, key=lambda test: (test not in own, test)), sorted(tests - near)


def is_caught(mutant: Mutant, tests: tuple[list[str], ...], copy: Path) -> bool:
    """Whether one of these tests fails, run in a copy of the repository with the mistake in it."""
    original = (HERE / mutant.path).read_text(encoding="utf-8")
    (copy / mutant.path).write_text(mutant.source(), encoding="utf-8")
    try:
        return any(some and not passes(some, copy) for some in tests)
    finally:
        (copy / mutant.path).write_text(original, encoding="utf-8")


def passes(tests: list[str], copy: Path) -> bool:
    """Whether all these tests pass in a copy of the repository."""
    status = run_tests(tests, copy)
    if (
        status == pytest.ExitCode.USAGE_ERROR
    ):  # the mistake only changed the name of a case: not a failure by itself
        status = run_tests(sorted({test.partition("::")[0] for test in tests}), copy)
    return status == pytest.ExitCode.OK


def all_tests(copy: Path) -> list[str]:
    """The names of the unit tests in a copy of the repository."""
    command = [
        sys.executable,
        "-m",
        "pytest",
        *UNITS,
        "--collect-only",
        "-q",
        "-p",
        "no:cacheprovider",
    ]
    printed = subprocess.check_output(command, cwd=copy, env=environment(copy), text=True)
    return [line for line in printed.splitlines() if "::" in line]


def run_tests(tests: list[str], copy: Path) -> int:
    """The exit status of some tests, run in a copy of the repository until the first fails."""
    arguments = copy / "arguments"  # thousands of names are too long for a command line
    arguments.write_text("\n".join(tests))
    limit = ["-o", f"faulthandler_timeout={SECONDS}", "-o", "faulthandler_exit_on_timeout=true"]
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-x",
        *limit,
        f"@{arguments}",
    ]
    return subprocess.run(
        command, cwd=copy, env=environment(copy), capture_output=True, check=False
    ).returncode


def measure() -> None:
    """Choose mistakes, try them, print the share that was caught for each folder, and write the
    survivors down."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--count", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument(
        "--only", default="", help="only files whose path matches this regular expression"
    )
    parser.add_argument(
        "--contexts",
        type=Path,
        help="read (or write) which test runs which line: saves five minutes",
    )
    parser.add_argument(
        "--workers", type=int, default=2, help="how many mistakes are tried at a time"
    )
    options = parser.parse_args()

    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        lines = read_contexts(options.contexts, folder)
        paths = subprocess.check_output(
            ["git", "ls-files", "alibi_viz/*.py"], cwd=HERE, text=True
        ).split()
        possible = [
            mutant for path in paths if re.search(options.only, path) for mutant in mutants_of(path)
        ]
        chosen = random.Random(options.seed).sample(possible, min(options.count, len(possible)))
        print(f"{len(chosen)} of {len(possible)} possible mistakes", flush=True)
        copies: Queue[Path] = Queue()
        for number in range(options.workers):
            copies.put(
                shutil.copytree(HERE, folder / str(number), ignore=shutil.ignore_patterns(".*"))
            )
        known = all_tests(folder / "0")
        measured = {
            test for of_file in lines.values() for tests in of_file.values() for test in tests
        } - {""}
        elsewhere = [
            test for test in known if test not in measured
        ]  # they run it in another process, if at all
        if measured - {*known}:
            sys.exit(
                "these tests are not those that were measured: measure again without --contexts"
            )

        def attempt(mutant: Mutant) -> bool:
            begin, copy = time.perf_counter(), copies.get()
            try:
                tests = (*tests_for(mutant, lines, known), elsewhere)
                caught = is_caught(mutant, tests, copy)
            finally:
                copies.put(copy)
            seconds = time.perf_counter() - begin
            word = "caught" if caught else "SURVIVED"
            count = sum(map(len, tests))
            print(
                f"{word} {mutant.path}:{mutant.line} {mutant.kind} ({count} tests, {seconds:.0f} "
                "s)",
                flush=True,
            )
            return caught

        with ThreadPoolExecutor(options.workers) as pool:
            caught = list(pool.map(attempt, chosen))
    report(chosen, caught, options)


def read_contexts(saved: Path | None, folder: Path) -> dict[str, dict[int, set[str]]]:
    """Which tests run which line: from a file, or measured now and written to that file."""
    if saved and saved.exists():
        stored = json.loads(saved.read_text())
        return {
            path: {int(line): set(tests) for line, tests in of.items()}
            for path, of in stored.items()
        }
    lines = contexts(folder)
    if saved:
        saved.write_text(
            json.dumps({path: {n: sorted(t) for n, t in of.items()} for path, of in lines.items()})
        )
    return lines


def report(chosen: list[Mutant], caught: list[bool], options: argparse.Namespace) -> None:
    """Print survivors and shares, and write those of the whole package to a file for `make
    report`."""
    survivors = [
        mutant for mutant, was_caught in zip(chosen, caught, strict=True) if not was_caught
    ]
    tried, lost = Counter(map(folder_of, chosen)), Counter(map(folder_of, survivors))
    for mutant in survivors:
        print(
            f"\n{mutant.path}:{mutant.line} {mutant.kind}\n  - {code_before(mutant)}\n  + "
            f"{mutant.new}"
        )
    print()
    for folder in sorted(tried):
        found = tried[folder] - lost[folder]
        print(f"{folder:12} {found:4} of {tried[folder]:4}  {found / tried[folder]:.0%}")
    print(f"{'all':12} {sum(caught):4} of {len(caught):4}  {sum(caught) / len(caught):.0%}")
    results = {"measured": str(date.today()), "seed": options.seed, "tried": tried}
    results["survivors"] = [asdict(mutant) | {"old": code_before(mutant)} for mutant in survivors]
    if not options.only:
        RESULTS.write_text(json.dumps(results, indent=1) + "\n")


def code_before(mutant: Mutant) -> str:
    """What a mistake replaces."""
    return (HERE / mutant.path).read_text(encoding="utf-8")[mutant.start : mutant.end]


def folder_of(mutant: Mutant) -> str:
    """The part of the package that a mistake is in."""
    parts = Path(mutant.path).parts
    return parts[1] if len(parts) > 2 else "root"


if __name__ == "__main__":
    measure()
