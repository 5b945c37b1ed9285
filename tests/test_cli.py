"""The command `alibi-viz`: output, saved files, error messages and exit statuses."""

import json
import signal
import subprocess
import sys
import time
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import Any
from unittest.mock import Mock, call, create_autospec

import pytest
import torch

import alibi_viz
from alibi_viz import check, lab, study
from alibi_viz.cli import main
from alibi_viz.study.records import PUBLISHED
from alibi_viz.train.runs import read_records

SLOW = """import signal, torch
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored under a shell's background jobs
def slopes(heads):
    print('called', flush=True)
    x = torch.rand(300, 300)
    while True:
        x = (x @ x).sin()
"""


@pytest.mark.parametrize(
    ("arguments", "status", "message"),
    [
        (
            ["alibi_viz.check.gallery.published_biases:zeta", "--kind", "bias"],
            1,
            "ALiBi check of zeta: 1 fault\nsign reversed",
        ),
        (
            ["alibi_viz.check.gallery.published_attention:jaketae_encoder", "--no-causal"],
            1,
            "rewarded future",
        ),
        (["alibi_viz:alibi_slopes", "--kind", "slopes"], 0, "no fault found"),
        (
            [
                "alibi_viz.check.gallery.published_slopes:mlx_2023",
                "--kind",
                "slopes",
                "--slopes",
                "geometric",
            ],
            0,
            "no fault found",
        ),
    ],
)
def test_check_names_faults_and_has_a_status(
    arguments: list[str], status: int, message: str, capsys: Any
) -> None:
    assert main(["check", *arguments]) == status and message in capsys.readouterr().out


def test_every_option_of_check_reaches_the_checker(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(
        check, "attention", create_autospec(check.attention, return_value=check.Report("sin", []))
    )
    words = (
        "--layout blhd --no-causal --no-decoding --heads 4 12 --head-dim 32 --group-size 2 "
        "--dtype float16"
    )
    assert (
        main(
            [
                "check",
                "math:sin",
                *words.split(),
                "--slopes=halving",
                "--length=64",
                "--seconds=1e12",
            ]
        )
        == 0
    )
    given = {
        "layout": "blhd",
        "causal": False,
        "decoding": False,
        "num_heads": [4, 12],
        "head_dim": 32,
    }
    given |= {
        "group_size": 2,
        "dtype": torch.float16,
        "slopes": "halving",
        "length": 64,
        "seconds": 1e12,
    }
    assert check.attention.call_args.kwargs == given
    assert main(["check", "math:sin"]) == 0 and check.attention.call_args.kwargs == {
        "dtype": torch.float32
    }


def test_vectors_can_be_written_and_checked(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = str(tmp_path / "golden.json")
    assert main(["vectors", file]) == main(["check", "--vectors", file]) == 0
    assert capsys.readouterr().out.startswith(f"wrote {file} (")


def test_exit_status_is_that_of_a_hanging_function_when_it_is_interrupted_or_given_up(
    tmp_path: Path,
) -> None:
    (tmp_path / "slow.py").write_text(SLOW)
    command = [
        str(Path(sys.executable).parent / "alibi-viz"),
        "check",
        "slow:slopes",
        "--kind",
        "slopes",
    ]
    done = subprocess.run(
        [*command, "--seconds", "0.2"], check=False, cwd=tmp_path, capture_output=True, text=True
    )
    assert done.returncode == 1 and "does not finish" in done.stdout
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    with subprocess.Popen(command, cwd=tmp_path, text=True, **pipes) as process:  # type: ignore[call-overload]
        assert process.stdout.readline() == "called\n"
        time.sleep(1)  # until the checker waits for the function
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130 and errors == "alibi-viz: stopped\n"


@pytest.mark.parametrize(
    ("body", "status", "message"),
    [
        ("import os\ndef slopes(heads):\n    os._exit(0)\n", 1, "SystemExit"),
        ("import os\nos._exit(0)\n", 2, "SystemExit"),
        (
            "import os\ndef slopes(heads):\n    os.wait() if os.fork() else os._exit(0)\n    "
            "heads / 0\n",
            1,
            "division",
        ),
        ("import time\ntime.sleep(60)\n", 1, "bad.py"),
        (
            "import ctypes\ndef slopes(heads):\n    ctypes.PyDLL(None).sleep(60)\n",
            1,
            "in slopes",
        ),  # keeps the lock
    ],
    ids=[
        "exits",
        "exits when imported",
        "forks and divides",
        "hangs when imported",
        "holds the lock",
    ],
)
def test_check_fails_at_once_for_code_that_exits_or_hangs(
    body: str, status: int, message: str, tmp_path: Path
) -> None:
    (tmp_path / "bad.py").write_text(body)
    command = [
        sys.executable,
        "-c",
        "import sys; from alibi_viz import cli; cli.GRACE = 1; sys.exit(cli.main())",
    ]
    command += ["check", "bad.py:slopes", "--kind", "slopes", "--seconds", "1"]
    done = subprocess.run(
        command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=50
    )
    assert done.returncode == status and message in done.stdout + done.stderr


WITHOUT_THE_LAB = """
import operator, sys
import alibi_viz
from alibi_viz.cli import main

lab = {"pandas", "plotly", "ipywidgets", "jinja2", "scipy", "safetensors"}
assert main(["check", "alibi_viz:alibi_slopes", "--kind", "slopes"]) == 0 and not lab & {*sys.modules}
sys.modules.update(dict.fromkeys(lab))  # as if they were not installed
assert main(["claims"]) == 2
for name in ("widgets.SlopeExplorer", "figures.slope_figure", "lab.race"):
    try:
        operator.attrgetter(name)(alibi_viz)
    except ModuleNotFoundError as error:
        print(error, file=sys.stderr)
"""


def test_check_needs_torch_and_numpy_only_and_what_the_lab_needs_is_named() -> None:
    done = subprocess.run(
        [sys.executable, "-c", WITHOUT_THE_LAB], check=True, stderr=subprocess.PIPE, text=True
    )
    claims, *others = done.stderr.splitlines()
    assert (
        claims == "alibi-viz: alibi_viz.study needs pandas: pip install 'alibi-viz[lab]'"
        and len(others) == 3
    )
    assert all(
        line.startswith("alibi_viz.") and line.endswith(": pip install 'alibi-viz[lab]'")
        for line in others
    )


def test_lab_says_where_the_lessons_are_and_opens_one(
    tmp_path: Path, capsys: Any, monkeypatch: Any
) -> None:
    script, words = tmp_path / "python", tmp_path / "words"
    script.write_text(
        f'#!/bin/sh\nsleep 0.2\nkill -INT $PPID\nsleep 0.5\necho "$@" > {words}\nexit 3\n'
    )
    script.chmod(0o755)
    monkeypatch.setattr(
        sys, "executable", str(script)
    )  # a server that asks what to do after Ctrl-C, and then goes on
    assert main(["lab", "--out", str(tmp_path), "--port", "9999", "--no-browser"]) == 3
    command = [
        "-m",
        "jupyterlab",
        str(tmp_path),
        "--LabApp.default_url=/lab/tree/00_start_here.ipynb",
    ]
    assert words.read_text().split() == [
        *command,
        "--ip=127.0.0.1",
        "--allow-root",
        "--port=9999",
        "--no-browser",
    ]
    assert main(["lab", "none.ipynb", "--out", str(tmp_path)]) == 2
    assert capsys.readouterr().out == 2 * f"the lessons are in {tmp_path}\n"
    monkeypatch.setattr("alibi_viz.cli.find_spec", lambda name: None)
    assert main(["lab"]) == 2 and "there is no JupyterLab: pip install" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["lab", "none.ipynb"], "lesson must be one of 00_start_here.ipynb, "),
        (["lab", "--out", __file__], "File exists"),
        (["check"], "check needs a function"),
        (
            ["check", "no_colon"],
            "a function must be named package.module:function or file.py:function, got 'no_colon'",
        ),
        (["check", "no_such_file.py:f"], "cannot load no_such_file.py:f: FileNotFoundError"),
        (["check", "leaves.py:f"], "SystemExit"),
        (["check", "--vectors", "no_such_file.json"], "no_such_file.json"),
        (["check", "math:sin", "--seconds", "nan"], "seconds must be"),
        (
            ["check", "math:sin", "--kind", "slopes", "--heads", "1000000000"],
            "num_heads=1000000000 would take",
        ),
        (["check", "math:sin", "--vectors", "golden.json"], "not both"),
        (
            ["check", "--vectors", "golden.json", "--slopes", "halving"],
            "--slopes can't be used with --vectors",
        ),
        (
            ["check", "math:sin", "--kind", "bias", "--head-dim", "3", "--group-size", "3"],
            "--head-dim and --group",
        ),
        (["vectors", "/no/such/folder/golden.json"], "/no/such/folder"),
        (["compare", "alibi", "--text", "nowhere.txt"], "there is no file 'nowhere.txt'"),
        (["reproduce", "--workers", "-1"], "workers must be an integer of at least 1, got -1"),
        (["compare"], "methods must be one or more different names"),
        (["compare", "no_file.py:law"], "there is no file no_file.py"),
        (["compare", "alibi_viz.laws:cubic"], "cannot load alibi_viz.laws:cubic: AttributeError"),
        (["compare", "alibi", "--out", __file__], "File exists"),
        (["claims", "nowhere.jsonl"], "nowhere.jsonl"),
    ],
)
def test_bad_input_is_one_line_and_exits_with_2(
    arguments: list[str],
    message: str,
    capsys: pytest.CaptureFixture,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("alibi-viz: ") and message in error and error.count("\n") == 1
    assert [path.name for path in tmp_path.iterdir() if path.name != "__pycache__"] == [
        "leaves.py"
    ], "no file"


def test_race_prints_the_loss_at_each_length(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["race", "learned", "alibi", "--length", "16", "--steps", "3"]) == 0
    table = [line.split() for line in capsys.readouterr().out.splitlines()]
    assert table[0][1:] == ["16", "32", "64", "128", "256"]
    assert [row[0] for row in table[2:]] == ["learned", "alibi"] and table[2][2:] == ["NaN"] * 4
    rows = list(
        lab.race(["alibi"], lab.load_text(), length=16, steps=3, checkpoints=1, targets=8192)
    )[-6:-1]
    assert [*map(float, table[3][1:])] == [round(row["value"], 3) for row in rows]


def test_failed_or_stopped_runs_have_a_status(
    capsys: pytest.CaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    for error, status, message in (
        (BrokenProcessPool("killed"), 1, "a worker process died; finished runs are saved"),
        (lab.TrainingDiverged("not a number"), 1, "not a number"),
        (KeyboardInterrupt(), 130, "stopped; finished runs are saved"),
    ):
        monkeypatch.setattr(lab, "compare", Mock(side_effect=error))
        assert main(["compare", "alibi"]) == status and message in capsys.readouterr().err


def test_claims_prints_a_line_for_each_verdict_and_a_conclusion(
    tmp_path: Path, capsys: pytest.CaptureFixture
) -> None:
    assert main(["claims"]) == 0
    table = study.verdict_table(study.published_results(by_block=True))
    *verdicts, _, _ = printed = capsys.readouterr().out.splitlines()
    for row, line in zip(table.itertuples(), verdicts, strict=True):
        assert line == f"- {row.setting}, {row.verdict}: {row.claim}. {row.text} [{row.numbers}]"
    assert main(["claims", str(PUBLISHED / "tales.jsonl.gz")]) == 0
    assert len({*verdicts} & {*capsys.readouterr().out.splitlines()}) == 11, (
        "those on the tales, of the same blocks"
    )
    assert "\n".join(printed).endswith(study.conclusion(table))
    assert (
        main(["claims", str(tmp_path)]) == 2
        and f"{tmp_path.name}' has no results" in capsys.readouterr().err
    )
    (record, *_) = read_records(PUBLISHED / "tales.jsonl.gz")
    record["rows"] = [row | {"text": "of mine"} for row in record["rows"]]
    (tmp_path / "run.json").write_text(json.dumps(record | {"error": "it diverged"}))
    assert main(["claims", str(tmp_path)]) == 0
    shown = capsys.readouterr()
    other, failed = shown.err.splitlines()
    assert (
        other == "alibi-viz: these results are about another text than the published ones: of mine"
    )
    assert failed == f"alibi-viz: {record['run']['label']}, seed 0, is left out: it diverged"
    assert shown.out.count("- your text, can't tell: ") == 12
    assert (
        "too few seeds have all results: 1 of" in shown.out
        and "no results of rotary at 16L" in shown.out
    )


def test_options_reach_what_makes_results_and_pages(
    capsys: pytest.CaptureFixture, monkeypatch: Any
) -> None:
    for words, function, expected in (
        (
            "reproduce a --seeds 2 --publish b",
            "study.reproduce",
            call(["a"], None, seeds=2, publish="b"),
        ),
        ("report", "study.write_report", call(".")),
        ("report --out a", "study.write_report", call("a")),
        ("models", "study.train_published_models", call("models")),
        ("models --out a", "study.train_published_models", call("a")),
        ("site", "site.build.build_site", call("site")),
        ("site --out a", "site.build.build_site", call("a")),
    ):
        monkeypatch.setattr(
            f"alibi_viz.{function}", made := Mock(return_value=study.published_results().head(0))
        )
        assert main(words.split()) == 0 and made.call_args == expected
    assert "There are no results on any claim." in capsys.readouterr().out


def test_closed_pipe_exits_without_an_error_message() -> None:
    """As `head -1` closes it; the status would be 0 otherwise."""
    command = [
        sys.executable,
        "-m",
        "alibi_viz",
        "check",
        "alibi_viz:alibi_slopes",
        "--kind",
        "slopes",
    ]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    process.stdout.close()
    assert process.communicate()[1] == "" and process.returncode == 1


def test_version_is_printed_and_every_command_has_help(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--version"])
    assert (
        alibi_viz.__version__ in capsys.readouterr().out
        and main([]) == 0
        and "compare" in capsys.readouterr().out
    )
    for command in ("lab", "check", "reproduce", "compare"):
        with pytest.raises(SystemExit, match="0"):
            main([command, "--help"])
        assert ("\n  kerple-log  " in capsys.readouterr().out) == (command == "compare"), (
            "it lists the methods"
        )
    with pytest.raises(SystemExit, match="2"):  # `--seed` is not `--seeds`
        main(["compare", "alibi", "--seed", "1"])
