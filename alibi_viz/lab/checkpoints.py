"""A trained model kept: a folder with its weights as safetensors, and its settings and curves as JSON.

    my-run/weights.safetensors    the weights, nothing that could run code
    my-run/run.json               settings, curves, versions, and a checksum of all of it and the weights

Saving writes beside the place and moves the finished folder there, so what exists is either whole or not there at all.
"""

import hashlib
import json
import math
import shutil
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import load_model, save_model

from alibi_viz.lab.experiment import versions
from alibi_viz.models import LanguageModel, TransformerConfig

__all__ = ["BadRun", "SavedRun", "load_run", "save_run"]

FORMAT, FORMAT_VERSION = "alibi_viz run", 2
WEIGHTS, SETTINGS = "weights.safetensors", "run.json"


class BadRun(ValueError):
    """A folder that is no run, is damaged, or comes from another version. Nothing was changed."""


@dataclass(frozen=True)
class SavedRun:
    """What was kept.

    Attributes:
        model: the trained model, on the CPU, with its `config`.
        settings: how it was trained, in words and numbers of your own.
        curves: what was measured, JSON-able. Keys that were numbers come back as text.
        made_with: versions at the time of saving.
    """

    model: LanguageModel
    settings: dict[str, Any] = field(default_factory=dict)
    curves: dict[str, Any] = field(default_factory=dict)
    made_with: dict[str, str] = field(default_factory=dict)


def save_run(
    path: str | Path,
    model: LanguageModel,
    *,
    settings: dict[str, Any] | None = None,
    curves: dict[str, Any] | None = None,
) -> Path:
    """Keep a model with its settings and curves in the new folder `path`, and return it.

    Curves are tables and lists of numbers; one that is not defined, NaN, is kept as None. Raises FileExistsError when
    something is there already: nothing is ever overwritten. Raises TypeError or ValueError for settings that JSON
    cannot hold, and for a model that was operated on: keep the original, and operate on what `load_run` gives back.

    >>> folder = getfixture("tmp_path") / "alibi"  # a fixture of pytest: any new path will do
    >>> _ = lab.save_run(folder, lab.make_model("alibi", seed=3), settings={"seed": 3})
    >>> lab.load_run(folder).settings
    {'seed': 3}
    """
    path = Path(path)
    if path.exists():
        raise FileExistsError(f"{str(path)!r} exists already and is not overwritten; choose another name or remove it")
    if not _as_configured(model):
        raise ValueError(
            "the model was changed by an intervention, which a kept run cannot hold: keep the model from before it"
        )
    content = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "config": asdict(model.config),
        "settings": settings or {},
        "curves": _without_nan(curves or {}),
        "made_with": versions(),
    }
    content = json.loads(json.dumps(content, allow_nan=False))  # as it will be read; raises before anything is written
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        save_model(model, str(scratch / WEIGHTS), {"format": FORMAT})  # modules that layers share are stored once
        content["sha256"] = _checksum(content, scratch / WEIGHTS)
        (scratch / SETTINGS).write_text(json.dumps(content, indent=1, allow_nan=False))
        scratch.chmod(0o755)  # mkdtemp's folders are for their maker only
        scratch.rename(path)
    except BaseException:
        shutil.rmtree(scratch, ignore_errors=True)
        raise
    return path


def load_run(path: str | Path) -> SavedRun:
    """The run kept in folder `path`.

    Raises FileNotFoundError when it is missing, and `BadRun`, which says what is wrong, when it is not ours, is damaged
    or comes from another version.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no run {str(path)!r}")
    for name in (SETTINGS, WEIGHTS):
        if not (path / name).is_file():
            raise BadRun(f"{str(path)!r} is not a saved run: it has no {name}")
    try:
        content = json.loads((path / SETTINGS).read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise BadRun(f"{SETTINGS} in {str(path)!r} is damaged: it is not JSON") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise BadRun(f"{SETTINGS} in {str(path)!r} was not written by alibi_viz")
    if content.get("version") != FORMAT_VERSION:
        raise BadRun(
            f"{str(path)!r} has format version {content.get('version')!r}; this alibi_viz reads {FORMAT_VERSION}"
        )
    if content.pop("sha256", None) != _checksum(content, path / WEIGHTS):
        raise BadRun(
            f"{str(path)!r} is damaged: {SETTINGS} and {WEIGHTS} do not have the checksum that they were given"
        )
    try:
        model = LanguageModel(TransformerConfig(**content["config"]))
        load_model(model, str(path / WEIGHTS))
        return SavedRun(model, content["settings"], content["curves"], content["made_with"])
    except (KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise BadRun(f"the settings and weights in {str(path)!r} do not fit together: {error}") from None


def _checksum(content: dict[str, Any], weights: Path) -> str:
    told = json.dumps(content, sort_keys=True).encode()
    return hashlib.sha256(told + weights.read_bytes()).hexdigest()


def _as_configured(model: LanguageModel) -> bool:
    """Whether the configuration makes this very model: an intervention leaves it as it was, and puts modules on top."""
    fresh = LanguageModel(model.config)
    if [type(module) for module in model.modules()] != [type(module) for module in fresh.modules()]:
        return False
    numbers = dict(model.named_buffers())  # among them the slopes
    return all(torch.equal(numbers[name].cpu(), right) for name, right in fresh.named_buffers())


def _without_nan(value: Any) -> Any:
    """JSON has no NaN; what is not defined is null there."""
    if isinstance(value, dict):
        return {key: _without_nan(one) for key, one in value.items()}
    if isinstance(value, list | tuple):
        return [_without_nan(one) for one in value]
    return None if isinstance(value, float) and math.isnan(value) else value
