"""Own position methods in races, sweeps, saved runs and on the command line."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

import pytest
import torch
from torch import Tensor

from alibi_viz import lab, laws
from alibi_viz.cli import main
from alibi_viz.lab.results import record_table
from alibi_viz.models import Method, Position
from tests.own_laws import root

SMALL = {"length": 16, "steps": 3, "longest": 2}
LAW = """
def fast(distance, head, num_heads):
    \"\"\"Bias -d / h.\"\"\"
    return -distance.float() / head
"""


pytestmark = pytest.mark.usefixtures("forget_own_methods")


def test_race() -> None:
    laps = list(lab.race(["alibi", root], lab.load_text(), steps=2, checkpoints=1))
    assert {lap.method for lap in laps} == {"alibi", "root"}
    assert len(laps[-1].scores or {}) == 5


def test_method_with_few_positions_makes_a_model() -> None:
    class Eight(Position):
        """Defined for up to eight tokens."""

        max_length = 8

        def embed(self, tokens: Tensor, start: int = 0) -> Tensor:
            return tokens + torch.eye(8, tokens.shape[-1])[start : start + tokens.shape[1]]

    assert not lab.make_model(Eight).is_defined_at(9)


def test_record_keeps_the_source_and_is_read_as_a_row() -> None:
    record = lab.measure(lab.Run(root, **SMALL))  # type: ignore[arg-type]
    assert record["run"]["position"] == record["run"]["label"] == "root"
    assert "-0.5 * distance.float().sqrt() / head" in record["run"]["own"]["source"]
    json.dumps(record)
    table = record_table([record], "memory")
    assert set(table["method"]) == {"root"}
    assert {"training loss", "longer windows"} <= set(table["question"])


def test_sweep_in_another_process(tmp_path: Path) -> None:
    runs = [lab.Run(method, **SMALL) for method in ("alibi", laws.square_root)]  # type: ignore[arg-type]
    with lab.process_pool(1) as pool:
        records = list(lab.sweep(runs, pool, path=tmp_path, progress=False))
    assert {record["run"]["label"] for record in records} == {"alibi", "square_root"}
    table = lab.read_results(tmp_path)
    assert {"alibi", "square_root"} == set(table["method"])
    again = list(lab.sweep(runs, path=tmp_path, progress=False))  # nothing is missing
    assert [record["seconds"] for record in again] == [
        next(old["seconds"] for old in records if old["run"] == record["run"]) for record in again
    ]


def steep(slope: float) -> Method:
    def law(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -slope * distance.float()

    return law


def test_each_run_of_a_sweep_trains_its_own_law_of_a_name() -> None:
    settings = {**SMALL, "steps": 20}
    runs = [lab.Run(steep(slope), label=f"slope {slope}", **settings) for slope in (0.0, 9.0)]  # type: ignore[arg-type]
    runs.append(replace(runs[0], label="slope 0 again"))
    answers = [record["answers"] for record in lab.sweep(runs, progress=False)]
    assert answers[0] == answers[2] != answers[1]
    assert lab.measure(lab.Run(steep(9.0), **settings))["answers"] == answers[1]  # type: ignore[arg-type]
    assert replace(runs[0], position="alibi").own is None


def test_path_of_a_text_may_be_a_path(tmp_path: Path) -> None:
    assert json.dumps(lab.Run("alibi", path=tmp_path / "mine.txt").settings()["path"])  # type: ignore[arg-type]


def test_method_of_a_notebook_is_refused_by_a_process_pool(monkeypatch: pytest.MonkeyPatch) -> None:
    def local(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -distance.float()

    with lab.process_pool(1) as pool, pytest.raises(ValueError, match="cannot import position method 'local'"):
        lab.sweep([lab.Run(local, **SMALL)], pool)  # type: ignore[arg-type]
    module = type(sys)("notebook")  # a module without a file, as __main__ is in a notebook
    exec(LAW, module.__dict__)
    monkeypatch.setitem(sys.modules, "notebook", module)
    with lab.process_pool(1) as pool, pytest.raises(ValueError, match="cannot import position method 'fast'"):
        lab.sweep([lab.Run(module.fast, **SMALL)], pool)


def test_saved_run_asks_for_the_method(tmp_path: Path) -> None:
    path = lab.save_run(tmp_path / "mine", lab.make_model(root))
    with pytest.raises(lab.BadRun, match=re.escape("was trained with a method of its own, 'root': call load_run(path")):
        lab.load_run(path)
    assert lab.load_run(path, root).model.config.position == "root"
    with pytest.raises(lab.BadRun, match="was trained with position method 'root', got 'square_root'"):
        lab.load_run(path, laws.square_root)

    def changed(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -distance.float()

    changed.__name__ = "root"
    with pytest.raises(lab.BadRun, match=r"has changed since .* was saved with\ndef root"):
        lab.load_run(path, changed)


def test_model_of_a_replaced_method_is_not_saved_as_the_new_one(tmp_path: Path) -> None:
    model = lab.make_model(steep(1.0))
    lab.make_model(steep(2.0))
    with pytest.raises(ValueError, match="another position method has taken the name 'law' since the model was made"):
        lab.save_run(tmp_path / "mine", model)


def test_command_line_takes_a_function_from_a_file(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    file = tmp_path / "my_laws.py"
    file.write_text(LAW)
    assert main(["race", "alibi", f"{file}:fast", "--steps", "2", "--length", "16"]) == 0
    output = capsys.readouterr().out
    assert "alibi" in output and "fast" in output
    out = str(tmp_path / "results")
    assert main(["sweep", f"{file}:fast", "--seeds", "1", "--steps", "2", "--length", "16", "--out", out]) == 0
    assert set(lab.read_results(out)["method"]) == {"fast"}


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("nothing", "position must be one of"),
        ("no_file.py:law", "there is no file no_file.py"),
        ("math:pi", "not a function"),
    ],
)
def test_command_line_names_a_bad_method(name: str, message: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["race", name]) == 2
    assert message in capsys.readouterr().err
