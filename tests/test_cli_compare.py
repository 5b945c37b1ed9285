"""`alibi-viz compare`: the files it writes, and how it continues."""

import errno
import os
from unittest.mock import Mock

import pytest

from alibi_viz import lab
from alibi_viz.cli import main
from tests import custom_laws
from tests.browser import chromium


@pytest.fixture
def command(tmp_path):
    """The arguments of a tiny comparison of ALiBi and a custom law, into tmp_path / "out"."""
    (tmp_path / "mine.txt").write_bytes(lab.load_text().train.numpy().tobytes()[:30_000])
    sizes = ["--seeds", "2", "--length", "16", "--steps", "3", "--longest", "2"]
    files = ["--text", str(tmp_path / "mine.txt"), "--out", str(tmp_path / "out")]
    return ["compare", "alibi", f"{custom_laws.__file__}:root", *sizes, *files]


@pytest.mark.skipif(chromium.find() is None, reason=chromium.MISSING)
def test_table_figure_and_verdicts_are_written(command, tmp_path, capsys):
    assert main(command) == 0
    out = tmp_path / "out"
    written = {path.name for path in out.iterdir() if path.suffix != ".json"}
    images = {"figure.svg", "figure.pdf", "figure.png"}
    assert written == {"results.csv", "verdicts.txt"} | images
    assert ">root<" in (out / "figure.svg").read_text()

    verdicts = (out / "verdicts.txt").read_text()
    assert "alibi against root: no verdict with 2 seeds (3 are needed) at 16" in verdicts
    shown = capsys.readouterr()
    assert verdicts in shown.out
    assert "figure" not in shown.err


def test_without_a_browser_tables_are_left_and_one_line_says_so(
    command,
    tmp_path,
    capsys,
    monkeypatch,
):
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "missing"))
    assert main([*command, "--seeds", "1"]) == 0
    (line,) = [line for line in capsys.readouterr().err.splitlines() if "Chromium" in line]
    assert line.startswith("alibi-viz: no images are written (figure.svg, figure.pdf,")
    assert (tmp_path / "out" / "results.csv").exists()
    assert (tmp_path / "out" / "verdicts.txt").exists()


def test_what_keeps_files_from_being_written_is_said_in_words(command, capsys, monkeypatch):
    full = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/somewhere/.figure.png.123")
    monkeypatch.setattr("alibi_viz.figures.save_images", Mock(side_effect=full))
    assert main([*command, "--seeds", "1"]) == 2
    last = capsys.readouterr().err.splitlines()[-1]
    assert last.startswith("alibi-viz: no space left on device")
    assert last.endswith("; the runs are saved, run the same command again")


NAN_LAW = """
import alibi_viz as av
import torch

class Nan(av.models.Position):
    def bias(self, *sizes):
        return torch.full((1, *sizes[:2]), torch.nan)
"""


def test_failed_runs_and_methods_left_out_of_the_figure_are_named(tmp_path, capsys, monkeypatch):
    file = tmp_path / "nan.py"
    out = tmp_path / "out"
    file.write_text(NAN_LAW)
    monkeypatch.setattr("alibi_viz.figures.save_images", Mock())
    monkeypatch.setattr("alibi_viz.figures.MAX_METHODS", 1)
    sizes = ["--seeds", "1", "--length", "16", "--steps", "3", "--longest", "2"]
    assert main(["compare", "alibi", f"{file}:Nan", *sizes, "--out", str(out)]) == 1
    shown = capsys.readouterr()
    assert "Nan, seed 0, is left out: " in shown.out
    assert "the figure shows the first 1 methods" in shown.err
    assert f"results are in {out}\n" in shown.out


def test_workers_get_the_file_of_a_law(command, tmp_path, monkeypatch):
    monkeypatch.setattr("alibi_viz.figures.save_images", Mock())
    command.remove("alibi")  # so one of the two workers is enough
    assert main([*command, "--seeds", "1", "--workers", "2"]) == 0
    assert set(lab.read_results(tmp_path / "out")["label"]) == {"root"}
