"""What a comparison refuses, before anything is trained or written."""

import json
from pathlib import Path

import pytest
import torch
from torch import Tensor

from alibi_viz import lab
from alibi_viz.arguments import load_function
from alibi_viz.lab.compare import Comparison
from tests.lab.comparison_settings import TINY

LAW = """
def root(distance, head, num_heads):
    return -{factor} * distance.float().sqrt() / head
"""


@pytest.mark.parametrize(
    ("methods", "settings", "message"),
    [
        ([], {}, "give at least one position method"),
        (["alibi", "alibbi"], {}, "position must be one of .* got 'alibbi'"),
        (["alibi", "alibi"], {}, "two methods are called 'alibi'"),
        (["alibi"], {"seeds": 0}, "seeds must be an integer of at least 1, got 0"),
        (["alibi"], {"seeds": 1.5}, "seeds must be an integer of at least 1, got 1.5"),
        (["alibi"], {"workers": 0}, "workers must be an integer of at least 1, got 0"),
        (["alibi"], {"length": 0}, "length must be an integer of at least 1, got 0"),
        (["alibi"], {"longest": 4096}, "is too short to test at length 65,552"),
    ],
)
def test_bad_arguments_raise_before_anything_is_written(
    methods: list[str], settings: dict[str, object], message: str, text: Path, tmp_path: Path
) -> None:
    with pytest.raises((TypeError, ValueError), match=message):
        lab.compare(methods, text=text, out=tmp_path / "out", **{**TINY, **settings})  # type: ignore[arg-type]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"too short", r"mine\.txt is too short to test"),
        ("Käse und Brot. ".encode("latin-1") * 999, r"mine\.txt is not UTF-8 text: byte 0xe4"),
        (b"", r"mine\.txt is empty"),
    ],
)
def test_bad_text_raises(content: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / "mine.txt").write_bytes(content)
    with pytest.raises(ValueError, match=message):
        lab.compare(["alibi"], text=tmp_path / "mine.txt", out=tmp_path / "out", **TINY)
    assert not (tmp_path / "out").exists()


def test_folder_with_other_settings_raises(comparison: Comparison, folder: Path, text: Path) -> None:
    with pytest.raises(ValueError, match=r"has runs with steps=3, not 4: use another results folder"):
        lab.compare(["none"], text=text, out=folder, **{**TINY, "steps": 4})
    with pytest.raises(ValueError, match=r"has runs with path='.*my text\.txt', not None"):
        lab.compare(["alibi"], out=folder, **TINY)
    assert len(list(folder.glob("*.json"))) == 9


def test_folder_of_another_version_raises(comparison: Comparison, folder: Path, text: Path, tmp_path: Path) -> None:
    """Earlier versions did not evaluate models with YaRN."""
    path = next(folder.glob("*rotary-seed-0*"))
    record = json.loads(path.read_text())
    record["answers"] = [answer for answer in record["answers"] if answer[0] != "yarn"]
    (tmp_path / path.name).write_text(json.dumps(record))
    with pytest.raises(ValueError, match="by a version of alibi_viz without the evaluation yarn: use another results"):
        lab.compare(["rotary"], text=text, out=tmp_path, **TINY)
    lab.compare(["none"], text=text, out=tmp_path, seeds=1, **TINY)  # doesn't need that run
    (tmp_path / path.name).write_text(json.dumps({"format": 99}))
    with pytest.raises(ValueError, match=r"is not a result of this version or of version 0\.1"):
        lab.compare(["none"], text=text, out=tmp_path, **TINY)


def test_laws_that_fail_raise_before_any_training(text: Path, tmp_path: Path) -> None:
    def table(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return -torch.arange(160.0)[distance]

    def logarithm(distance: Tensor, head: int, num_heads: int) -> Tensor:
        return distance.float().log()

    with pytest.raises(ValueError, match="law 'table', head 1 of 8: IndexError: index 160 is out of bounds"):
        lab.compare(["alibi", table], text=text, out=tmp_path / "out", **{**TINY, "longest": 16})
    with pytest.raises(ValueError, match="law 'logarithm', head 1 of 8: the bias at distance 0 is -inf"):
        lab.compare(["alibi", logarithm], text=text, out=tmp_path / "out", **TINY)
    assert not (tmp_path / "out").exists()


def test_folder_with_another_law_of_the_same_name_raises(text: Path, tmp_path: Path) -> None:
    for factor in (0.5, 0.7):
        (tmp_path / f"laws_{factor * 10:.0f}.py").write_text(LAW.format(factor=factor))
    one, other = (load_function(f"{tmp_path}/laws_{name}.py:root") for name in (5, 7))
    lab.compare([one], seeds=1, text=text, out=tmp_path / "out", **TINY)
    with pytest.raises(ValueError, match=r"'root' has changed since runs in .* were made: use another results folder"):
        lab.compare([other], seeds=1, text=text, out=tmp_path / "out", **TINY)
    with pytest.raises(ValueError, match="two methods are called 'root'"):
        lab.compare([one, other], seeds=1, text=text, **TINY)
