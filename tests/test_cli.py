import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from alibi_viz.cli import main


def test_check_names_the_fault_and_exits_with_1(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "alibi_viz.gallery.biases:zeta", "--kind", "bias", "--heads", "8", "12"]) == 1
    assert "sign reversed" in capsys.readouterr().out
    assert main(["check", "alibi_viz.gallery.attention:jaketae_encoder", "--no-causal"]) == 1
    assert "rewarded future" in capsys.readouterr().out


def test_check_of_a_correct_function_exits_with_0(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["check", "alibi_viz:alibi_slopes", "--kind", "slopes"]) == 0
    assert "no fault found" in capsys.readouterr().out
    assert main(["check", "alibi_viz.gallery.slopes:mlx_2023", "--kind", "slopes", "--slopes", "geometric"]) == 0


def test_function_from_a_file_is_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "mine.py"
    file.write_text("class Slopes:\n    @staticmethod\n    def of(heads):\n        return [1.0] * heads\n")
    assert main(["check", f"{file}:Slopes.of", "--kind", "slopes"]) == 1
    assert "other slopes" in capsys.readouterr().out


def test_vectors_can_be_written_and_checked(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = str(tmp_path / "golden.json")
    assert main(["vectors", file]) == 0
    assert main(["check", "--vectors", file]) == 0
    assert "no fault found" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["check"], "check needs a function"),
        (["check", "no_colon"], "a function must be named package.module:function or file.py:function, got 'no_colon'"),
        (["check", "no_such_module:f"], "cannot load no_such_module:f: ModuleNotFoundError"),
        (["check", "no_such_file.py:f"], "cannot load no_such_file.py:f: FileNotFoundError"),
        (["check", "math:pi"], "math:pi is not a function but float"),
        (["check", "--vectors", "no_such_file.json"], "no_such_file.json"),
        (["check", "math:sin", "--layout", "xyz"], "layout must contain"),
        (["check", "math:sin", "--seconds", "nan"], "--seconds must be positive and at most 86,400, got nan"),
        (["check", "math:sin", "--head-dim", "0"], "head_dim must be at least 1, got 0"),
        (["check", "math:sin", "--vectors", "golden.json"], "not both"),
        (["vectors", "/no/such/folder/golden.json"], "/no/such/folder"),
    ],
)
def test_what_cannot_be_checked_exits_with_2(
    arguments: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(arguments) == 2
    assert message in capsys.readouterr().err


def test_file_that_exits_when_imported_exits_with_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "leaves.py"
    file.write_text("import sys\nsys.exit(0)\n")
    assert main(["check", f"{file}:f"]) == 2
    assert "SystemExit" in capsys.readouterr().err


def test_installed_command_exits_although_the_function_hangs(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import torch\ndef slopes(heads):\n    x = torch.rand(300, 300)\n    while True:\n        x = (x @ x).sin()\n"
    )
    command = [str(Path(sys.executable).parent / "alibi-viz"), "check", "slow:slopes", "--kind", "slopes"]
    command += ["--seconds", "0.2"]
    done = subprocess.run(command, check=False, cwd=tmp_path, capture_output=True, text=True, timeout=60)
    assert done.returncode == 1
    assert "does not finish" in done.stdout


def test_interrupted_check_of_a_function_that_hangs_exits_with_130(tmp_path: Path) -> None:
    (tmp_path / "slow.py").write_text(
        "import signal, torch\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)  # ignored under a shell's background jobs\n"
        "def slopes(heads):\n    print('called', flush=True)\n    x = torch.rand(300, 300)\n"
        "    while True:\n        x = (x @ x).sin()\n"
    )
    command = [str(Path(sys.executable).parent / "alibi-viz"), "check", "slow:slopes", "--kind", "slopes"]
    with subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "called\n"
        time.sleep(1)  # until the checker waits for the function
        process.send_signal(signal.SIGINT)
        _, errors = process.communicate(timeout=30)
    assert process.returncode == 130
    assert errors == "alibi-viz: stopped\n"
