"""The command `alibi-viz`: output, saved files, error messages and exit statuses."""

import signal
import subprocess
import sys
from concurrent.futures.process import BrokenProcessPool
from pathlib import Path
from typing import ClassVar, NamedTuple
from unittest.mock import Mock, create_autospec

import nbformat
import pytest
import torch

import alibi_viz
from alibi_viz import check, lab
from alibi_viz.cli import main
from tests.rows import each_case

SLOW = """import signal, torch
signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored under a shell's background jobs
def slopes(heads):
    print('called', flush=True)
    x = torch.rand(300, 300)
    while True:
        x = (x @ x).sin()
"""


GALLERY = "alibi_viz.check.gallery"


@each_case(
    ("arguments", "status", "message"),
    {
        "wrong bias": (
            [f"{GALLERY}.published_biases:zeta", "--kind", "bias"],
            1,
            "ALiBi check of zeta: 1 fault\nsign reversed",
        ),
        "wrong attention": (
            [f"{GALLERY}.published_attention:jaketae_encoder", "--no-causal"],
            1,
            "rewarded future",
        ),
        "correct slopes": (["alibi_viz:alibi_slopes", "--kind", "slopes"], 0, "no fault found"),
        "slopes of another scheme": (
            [f"{GALLERY}.published_slopes:mlx_2023", "--kind", "slopes", "--slopes", "geometric"],
            0,
            "no fault found",
        ),
    },
)
def test_check_names_faults_and_has_a_status(arguments, status, message, capsys):
    assert main(["check", *arguments]) == status
    assert message in capsys.readouterr().out


ADVICE = """pass `decoding=False` or `num_heads=[8]`, `padding='left'`, `causal=True`, `scale=`;
pass softcap=50; use check.bias for those. Here x=3 stays."""
IN_SHELL = """pass `--no-decoding` or `--heads 8`, `--padding left`, `--causal`, `--scale`;
pass --softcap 50; use --kind bias for those. Here x=3 stays."""


def test_a_report_advises_options_of_the_command(capsys, monkeypatch):
    report = check.Report("mine", [], notes=[ADVICE])
    monkeypatch.setattr(check, "attention", create_autospec(check.attention, return_value=report))
    main(["check", "alibi_viz:alibi_attention"])
    assert IN_SHELL in capsys.readouterr().out


@pytest.fixture
def checker(monkeypatch):
    """In place of the checker of attention."""
    replaced = create_autospec(check.attention, return_value=check.Report("sin", []))
    monkeypatch.setattr(check, "attention", replaced)
    return replaced


def test_every_option_of_check_reaches_the_checker(checker):
    options = [
        "--layout=blhd",
        "--no-causal",
        "--no-decoding",
        "--head-dim=32",
        "--group-size=2",
        "--length=64",
        "--dtype=float16",
        "--slopes=halving",
        "--padding=left",
        "--scale=0.25",
        "--window=128",
        "--softcap=50",
        "--seconds=1e12",
        "--heads",
        "4",
        "12",
    ]
    assert main(["check", "math:sin", *options]) == 0
    assert checker.call_args.kwargs == {
        "layout": "blhd",
        "causal": False,
        "decoding": False,
        "num_heads": [4, 12],
        "head_dim": 32,
        "group_size": 2,
        "dtype": torch.float16,
        "slopes": "halving",
        "padding": "left",
        "scale": 0.25,
        "window": 128,
        "softcap": 50.0,
        "length": 64,
        "seconds": 1e12,
    }


def test_padding_may_be_on_both_sides(checker):
    main(["check", "math:sin", "--padding", "both"])
    assert checker.call_args.kwargs == {"padding": True}


def test_check_without_options_leaves_the_defaults_to_the_checker(checker):
    assert main(["check", "math:sin"]) == 0
    assert checker.call_args.kwargs == {}


def test_vectors_can_be_written_and_checked(tmp_path, capsys):
    file = str(tmp_path / "golden.json")
    assert main(["vectors", file]) == 0
    assert capsys.readouterr().out.startswith(f"wrote {file} (")
    assert main(["check", "--vectors", file]) == 0


CHECK_SLOW = [
    str(Path(sys.executable).parent / "alibi-viz"),
    "check",
    "slow:slopes",
    "--kind",
    "slopes",
]


def test_interrupt_while_a_function_hangs_exits_with_130(tmp_path):
    (tmp_path / "slow.py").write_text(SLOW)
    with subprocess.Popen(
        CHECK_SLOW, cwd=tmp_path, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    ) as process:
        assert process.stdout.readline() == "called\n"
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate()
    assert process.returncode == 130
    assert errors == "alibi-viz: stopped\n"


EXITS = """
import os

def slopes(heads):
    os._exit(0)
"""

EXITS_WHEN_IMPORTED = """
import os

os._exit(0)
"""

FORKS_AND_DIVIDES = """
import os

def slopes(heads):
    if os.fork():
        os.wait()
    else:
        os._exit(0)
    heads / 0
"""

HANGS = """
import threading

def slopes(heads):
    threading.Event().wait()
"""

HANGS_WHEN_IMPORTED = """
import threading

threading.Event().wait()
"""

# A call by PyDLL keeps the interpreter's lock, so no other thread runs.
HOLDS_THE_LOCK = """
import ctypes

def slopes(heads):
    ctypes.PyDLL(None).pause()
"""

PATIENT = 600  # seconds that decide nothing, however busy the machine is


class Bad(NamedTuple):
    """Code that is checked, and how long each call, and the process beyond it, may take."""

    code: str
    seconds: int = PATIENT
    grace: int = PATIENT


# By the folder that the code is written to. Only what never ends is cut off soon.
BAD_CODE = {
    "exits": Bad(EXITS),
    "exits_when_imported": Bad(EXITS_WHEN_IMPORTED),
    "forks_and_divides": Bad(FORKS_AND_DIVIDES),
    "hangs": Bad(HANGS, seconds=1),
    "hangs_when_imported": Bad(HANGS_WHEN_IMPORTED, seconds=1, grace=1),
    "holds_the_lock": Bad(HOLDS_THE_LOCK, seconds=1, grace=1),
}

# Each folder's code is checked in a process of its own, a copy of one that has torch.
CHECK_EACH_FOLDER = """
import os
import sys
from pathlib import Path

from alibi_viz import check, cli

for argument in sys.argv[1:]:
    folder, seconds, grace = argument.rsplit(":", 2)
    child = os.fork()
    if child == 0:
        os.chdir(folder)
        output = os.open("output.txt", os.O_WRONLY | os.O_CREAT)
        os.dup2(output, sys.stdout.fileno())
        os.dup2(output, sys.stderr.fileno())
        cli.GRACE = int(grace)
        sys.argv[1:] = ["check", "bad.py:slopes", "--kind", "slopes", "--seconds", seconds]
        sys.exit(cli.main())
    _, status = os.waitpid(child, 0)
    (Path(folder) / "status.txt").write_text(str(os.waitstatus_to_exitcode(status)))
"""


@pytest.fixture(scope="module")
def checked_folder(tmp_path_factory):
    """A folder with one folder for each piece of bad code, and in it status and output."""
    parent = tmp_path_factory.mktemp("bad")
    arguments = []
    for name, bad in BAD_CODE.items():
        folder = parent / name
        folder.mkdir()
        (folder / "bad.py").write_text(bad.code)
        arguments.append(f"{folder}:{bad.seconds}:{bad.grace}")
    command = [sys.executable, "-c", CHECK_EACH_FOLDER, *arguments]
    subprocess.run(command, check=True, timeout=PATIENT)
    return parent


@each_case(
    ("name", "status", "message"),
    {
        "exits": ("exits", 1, "SystemExit"),
        "exits when imported": ("exits_when_imported", 2, "SystemExit"),
        "forks and divides": ("forks_and_divides", 1, "division"),
        "hangs": ("hangs", 1, "does not finish"),
        "hangs when imported": ("hangs_when_imported", 1, "bad.py"),
        "holds the lock": ("holds_the_lock", 1, "in slopes"),
    },
)
def test_check_fails_for_code_that_exits_or_hangs(name, status, message, checked_folder):
    folder = checked_folder / name
    assert int((folder / "status.txt").read_text()) == status
    assert message in (folder / "output.txt").read_text()


WITHOUT_THE_LAB = """
import operator, sys
import alibi_viz
from alibi_viz.cli import main

of_the_lab = {"pandas", "plotly", "ipywidgets", "jinja2", "scipy", "safetensors"}
assert main(["check", "alibi_viz:alibi_slopes", "--kind", "slopes"]) == 0
assert not of_the_lab & {*sys.modules}, "check loads them"
sys.modules.update(dict.fromkeys(of_the_lab))  # as if they were not installed
assert main(["compare", "alibi"]) == 2
for name in ("widgets.SlopeExplorer", "figures.slope_figure", "lab.race", "study.CLAIMS"):
    try:
        operator.attrgetter(name)(alibi_viz)
    except ModuleNotFoundError as error:
        print(error, file=sys.stderr)
"""


def test_check_needs_torch_and_numpy_only_and_what_the_lab_needs_is_named():
    command = [sys.executable, "-c", WITHOUT_THE_LAB]
    done = subprocess.run(command, check=True, stderr=subprocess.PIPE, text=True)
    of_compare, *of_imports = done.stderr.splitlines()
    assert of_compare.startswith("alibi-viz: ")
    # Or who has an older torch would be led to replace it.
    advice = ": pip install 'alibi-viz[lab]', which needs torch 2.13 or newer"
    assert of_compare.endswith(advice)
    assert len(of_imports) == 4
    for line in of_imports:
        assert line.startswith("alibi_viz.")
        assert line.endswith(advice)


class InterruptedServer:
    """In place of the process of JupyterLab: Ctrl-C comes while it runs, then it ends with 3.

    JupyterLab asks what to do after Ctrl-C, and goes on unless told otherwise.
    """

    started: ClassVar[list["InterruptedServer"]] = []

    def __init__(self, command, env):
        self.command = command
        self.returncode: int | None = None
        self.was_interrupted = False
        self.started.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *error):
        assert self.returncode is not None, "the server is left while it runs"

    def poll(self):
        return self.returncode

    def wait(self):
        if not self.was_interrupted:
            self.was_interrupted = True
            raise KeyboardInterrupt
        self.returncode = 3


@pytest.fixture
def servers(monkeypatch):
    """The servers that are started in the test."""
    monkeypatch.setattr(InterruptedServer, "started", [])
    monkeypatch.setattr(subprocess, "Popen", InterruptedServer)
    return InterruptedServer.started


@pytest.fixture
def lessons(tmp_path, monkeypatch):
    """A folder with two short lessons and a page, as ours; the test is in an empty one."""
    folder = tmp_path / "notebooks"
    folder.mkdir()
    for name in ("00_start_here", "01_the_line"):
        write_lesson(folder / f"{name}.ipynb", "first edition")
    (folder / "methods.md").write_text("methods")
    monkeypatch.setattr("alibi_viz.files.__file__", str(tmp_path / "alibi_viz" / "files.py"))
    reader = tmp_path / "reader"
    reader.mkdir()
    monkeypatch.chdir(reader)
    return folder


def write_lesson(path, source):
    cells = [nbformat.v4.new_code_cell(source, id="a")]
    nbformat.write(nbformat.v4.new_notebook(cells=cells), path)


def test_lab_survives_an_interrupt_and_has_the_status_of_jupyterlab(servers, lessons):
    assert main(["lab"]) == 3
    (server,) = servers
    assert server.was_interrupted


def test_lab_opens_a_copy_of_the_lessons_with_the_options_of_jupyterlab(servers, lessons):
    main(["lab", "01_the_line.ipynb", "--port", "9999", "--no-browser"])
    (server,) = servers
    assert server.command == [
        sys.executable,
        "-m",
        "jupyterlab",
        "my-lessons",
        "--LabApp.default_url=/doc/tree/01_the_line.ipynb",
        "--ip=127.0.0.1",
        "--allow-root",
        "--port=9999",
        "--no-browser",
    ]
    copies = sorted(path.name for path in Path("my-lessons").iterdir())
    assert copies == ["00_start_here.ipynb", "01_the_line.ipynb", "methods.md"]
    copy = nbformat.read("my-lessons/01_the_line.ipynb", as_version=4)
    nbformat.validate(copy)
    assert copy.cells[0].source == "first edition"


def test_copies_of_lessons_are_unknown_to_git():
    assert "/my-lessons/" in (Path(__file__).parents[1] / ".gitignore").read_text().split()


def test_lab_names_lessons_with_a_newer_edition_and_replaces_none(servers, lessons, capsys):
    main(["lab"])
    mine = Path("my-lessons", "01_the_line.ipynb")
    notebook = nbformat.read(mine, as_version=4)
    notebook.cells[0].source = "with my notes"
    nbformat.write(notebook, mine)
    main(["lab"])
    assert capsys.readouterr().out == "the lessons are in my-lessons\n" * 2

    write_lesson(lessons / "01_the_line.ipynb", "second edition")
    main(["lab"])
    told = capsys.readouterr().out.splitlines()[-1]
    assert told.startswith("01_the_line.ipynb: there is a newer edition; to get it, rename yours")
    assert nbformat.read(mine, as_version=4).cells[0].source == "with my notes"

    mine.rename("my-lessons/mine.ipynb")
    main(["lab"])
    assert nbformat.read(mine, as_version=4).cells[0].source == "second edition"
    assert "newer" not in capsys.readouterr().out


def test_lab_into_a_file_is_refused(servers, lessons, capsys):
    Path("my-lessons").write_text("")
    assert main(["lab"]) == 2
    assert "'my-lessons' must be a folder, and is a file" in capsys.readouterr().err


def test_lab_without_jupyterlab_says_how_to_install_it(capsys, monkeypatch):
    monkeypatch.setattr("alibi_viz.cli.find_spec", lambda name: None)
    assert main(["lab"]) == 2
    assert "there is no JupyterLab: pip install" in capsys.readouterr().err


@each_case(
    ("arguments", "message"),
    {
        "unknown lesson": (["lab", "none.ipynb"], "lesson must be one of 00_start_here.ipynb, "),
        "check of nothing": (["check"], "check needs a function"),
        "function without its module": (
            ["check", "no_colon"],
            "a function must be named package.module:function or file.py:function, got 'no_colon'",
        ),
        "check of a missing file": (
            ["check", "no_such_file.py:f"],
            "cannot load no_such_file.py:f: FileNotFoundError",
        ),
        "file that exits": (["check", "leaves.py:f"], "SystemExit"),
        "missing vectors": (["check", "--vectors", "no_such_file.json"], "no_such_file.json"),
        "NaN": (["check", "math:sin", "--seconds", "nan"], "seconds must be"),
        "scale 0": (
            ["check", "math:sin", "--scale", "0"],
            "scale must be a finite number other than 0, got 0.0",
        ),
        "function and vectors": (["check", "math:sin", "--vectors", "golden.json"], "not both"),
        "vectors with slopes": (
            ["check", "--vectors", "golden.json", "--slopes", "halving"],
            "--slopes can't be used with --vectors",
        ),
        "options of another kind": (
            ["check", "math:sin", "--kind", "bias", "--head-dim", "3", "--group-size", "3"],
            "--head-dim and --group",
        ),
        "vectors into a missing folder": (
            ["vectors", "/no/such/folder/golden.json"],
            "/no/such/folder",
        ),
        "missing text": (
            ["compare", "alibi", "--text", "nowhere.txt"],
            "there is no file 'nowhere.txt'",
        ),
        "negative workers": (
            ["compare", "alibi", "--workers", "-1"],
            "workers must be an integer of at least 1, got -1",
        ),
        "compare nothing": (["compare"], "methods must be one or more with different names"),
        "law of a missing file": (["compare", "no_file.py:law"], "there is no file no_file.py"),
        "law that isn't in its module": (
            ["compare", "alibi_viz.laws:cubic"],
            "cannot load alibi_viz.laws:cubic: AttributeError",
        ),
        "compare into a file": (
            ["compare", "alibi", "--out", __file__],
            "must be a folder, and is a file",
        ),
    },
)
def test_bad_input_is_one_line_and_exits_with_2(
    arguments,
    message,
    capsys,
    tmp_path,
    monkeypatch,
):
    (tmp_path / "leaves.py").write_text("import sys\nsys.exit(0)\n")
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith("alibi-viz: ")
    assert message in line
    written = {path.name for path in tmp_path.iterdir()} - {"leaves.py", "__pycache__"}
    assert not written


@each_case(
    ("error", "status", "message"),
    {
        "a worker is killed": (
            BrokenProcessPool("a worker process died; call again"),
            1,
            "alibi-viz: a worker process died; call again",
        ),
        "diverged": (lab.TrainingDiverged("not a number"), 1, "not a number"),
        "Ctrl-C": (KeyboardInterrupt(), 130, "stopped; finished runs are saved"),
    },
)
def test_comparison_that_fails_or_is_stopped_has_a_status(
    error, status, message, capsys, monkeypatch
):
    monkeypatch.setattr(lab, "compare", Mock(side_effect=error))
    assert main(["compare", "alibi"]) == status
    assert message in capsys.readouterr().err


def test_closed_pipe_exits_without_an_error_message():
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
    _, errors = process.communicate()
    assert errors == ""
    assert process.returncode == 1


def test_version_is_printed(capsys):
    with pytest.raises(SystemExit):
        main(["--version"])
    assert alibi_viz.__version__ in capsys.readouterr().out


def test_without_a_command_the_commands_are_listed(capsys):
    assert main([]) == 0
    shown = capsys.readouterr().out
    for command in ("lab", "check", "vectors", "compare"):
        assert f"\n    {command} " in shown


@pytest.mark.parametrize("command", ["lab", "check", "vectors", "compare"])
def test_every_command_has_help(command, capsys):
    with pytest.raises(SystemExit, match="0"):
        main([command, "--help"])
    assert f"usage: alibi-viz {command}" in capsys.readouterr().out


def test_help_of_compare_lists_the_methods(capsys):
    with pytest.raises(SystemExit, match="0"):
        main(["compare", "--help"])
    assert "\n  kerple-log  " in capsys.readouterr().out


def test_abbreviated_option_is_refused():
    with pytest.raises(SystemExit, match="2"):
        main(["compare", "alibi", "--seed", "1"])
