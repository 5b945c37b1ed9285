"""Save a trained model with its settings and results, and load it again.

A saved run is a folder with the weights, in a format that cannot contain executable code, and a JSON file. It is
written under a temporary name and then renamed, so a saved run is either complete or absent.
"""

import hashlib
import json
import platform
import shutil
import tempfile
from dataclasses import asdict, dataclass
from datetime import date
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.torch import load_model, save_model

from alibi_viz.arguments import check_instance
from alibi_viz.lab.folders import check_new
from alibi_viz.lab.results import record_table, results_table
from alibi_viz.lab.version_1 import upgrade_saved
from alibi_viz.models import (
    POSITIONS,
    LanguageModel,
    Law,
    Method,
    TransformerConfig,
    method_name,
    own_method,
    provenance,
)

__all__ = ["BadRun", "SavedRun", "load_run", "save_run", "versions"]

FORMAT, FORMAT_VERSION = "alibi_viz run", 3
VERSION_1_FORMAT = 2  # of version 0.1, still read
WEIGHTS_FILE = "weights.safetensors"
SETTINGS_FILE = "run.json"  # settings, results, versions, and a checksum of all of them and the weights


class BadRun(ValueError):
    """The folder is not a saved run, is damaged, or was saved in another format. Loading never changes it."""


@dataclass(frozen=True)
class SavedRun:
    """A trained model that was loaded from a folder."""

    model: LanguageModel  # on the CPU, with its `config`
    settings: dict[str, Any]  # how the model was trained, as given to `save_run`
    results: pd.DataFrame  # what was measured, with the columns of `lab.COLUMNS`; the origin is the folder's name
    made_with: dict[str, str]  # the versions it was saved with, see `versions`


def save_run(
    path: str | Path,
    model: LanguageModel,
    *,
    settings: dict[str, Any] | None = None,
    results: pd.DataFrame | None = None,
) -> Path:
    """Save a model with its settings and results in a new folder, and return its path.

    Args:
        path: the folder to create; parent folders are created too.
        model: a model as its configuration describes it, without changes of `lab.modify`.
        settings: JSON-serializable values that describe the training.
        results: what was measured, a table with the columns of `lab.COLUMNS`.

    Raises FileExistsError if `path` exists, because nothing is ever overwritten; TypeError or ValueError if JSON cannot
    represent the settings; and ValueError for a model that was changed by an intervention, or whose own method has
    lost its name to a later one.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = lab.save_run(f"{folder}/alibi", lab.make_model("alibi", seed=3), settings={"seed": 3})
    ...     print(lab.load_run(path).settings)
    {'seed': 3}
    """
    path = Path(path)
    check_instance("model", model, LanguageModel)
    check_new(path)
    name = model.config.position
    method = type(model.transformer.position)
    if method is not POSITIONS[name] and method.__dict__.get("name") == name:
        raise ValueError(
            f"another position method has taken the name {name!r} since the model was made: give one another name"
        )
    if not _is_as_configured(model):
        raise ValueError("the model was changed by an intervention, which cannot be saved: save the original model")
    table = results_table([]) if results is None else results.drop(columns="origin").astype({"value": object})
    content = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "config": asdict(model.config),
        "own": _provenance(model),
        "settings": settings or {},
        "results": table.where(table.notna(), None).to_dict("split", index=False),  # JSON has no NaN
        "made_with": versions(),
    }
    content = json.loads(json.dumps(content, allow_nan=False))  # checksum the content as `load_run` will read it
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        save_model(model, str(temporary / WEIGHTS_FILE), {"format": FORMAT})  # stores shared modules once
        content["sha256"] = _checksum(content, temporary / WEIGHTS_FILE)
        (temporary / SETTINGS_FILE).write_text(json.dumps(content, indent=1, allow_nan=False))
        temporary.chmod(0o755)  # only the owner can read a folder made by mkdtemp
        temporary.rename(path)
    except BaseException:
        shutil.rmtree(temporary, ignore_errors=True)
        raise
    return path


def load_run(path: str | Path, method: Method | None = None) -> SavedRun:
    """Load the run that was saved in the folder `path`.

    A run that was trained with your own position method keeps the source text of that method, for reading only: code
    from a file is never executed. Pass the function or class as `method`.

    Raises FileNotFoundError if the folder does not exist, and `BadRun` with the reason if it cannot be loaded.
    """
    path = Path(path)
    if not path.exists():
        raise FileNotFoundError(f"there is no run {str(path)!r}")
    for name in (SETTINGS_FILE, WEIGHTS_FILE):
        if not (path / name).is_file():
            raise BadRun(f"{str(path)!r} is not a saved run: it has no {name}")
    try:
        content = json.loads((path / SETTINGS_FILE).read_text(encoding="utf-8"))
    except (ValueError, RecursionError):
        raise BadRun(f"{SETTINGS_FILE} in {str(path)!r} is damaged: it is not JSON") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise BadRun(f"{SETTINGS_FILE} in {str(path)!r} was not written by alibi_viz")
    if content.get("version") not in (VERSION_1_FORMAT, FORMAT_VERSION):
        raise BadRun(
            f"{str(path)!r} has format version {content.get('version')!r}; "
            f"this alibi_viz reads {VERSION_1_FORMAT} and {FORMAT_VERSION}"
        )
    if content.pop("sha256", None) != _checksum(content, path / WEIGHTS_FILE):
        raise BadRun(f"{str(path)!r} is damaged: {SETTINGS_FILE} and {WEIGHTS_FILE} do not match their checksum")
    if content.get("own"):
        _register(path, content["config"]["position"], content["own"], method)
    try:
        model = LanguageModel(TransformerConfig(**content["config"]))
        load_model(model, str(path / WEIGHTS_FILE))
        if content["version"] == VERSION_1_FORMAT:
            results = record_table([upgrade_saved(content)], path.name)
        else:
            rows = pd.DataFrame(**content["results"]).assign(origin=path.name)
            results = results_table(rows.to_dict("records"))
        return SavedRun(model, content["settings"], results, content["made_with"])
    except (KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise BadRun(f"the settings and weights in {str(path)!r} do not fit together: {error}") from None


def _provenance(model: LanguageModel) -> dict[str, str] | None:
    """Where the position method of a model comes from, if it is the user's own."""
    if own_method(model.config.position) is None:
        return None
    position = type(model.transformer.position)
    return provenance(position.law if issubclass(position, Law) else position)


def _register(path: Path, name: str, saved: dict[str, str], method: Method | None) -> None:
    """Register the position method of a saved run. Raises BadRun if it is missing or another one."""
    if method is None:
        raise BadRun(f"{str(path)!r} was trained with a method of its own, {name!r}: call load_run(path, {name})")
    own = own_method(method_name(method))
    if method_name(method) != name or own is None:
        raise BadRun(f"{str(path)!r} was trained with position method {name!r}, got {method_name(method)!r}")
    if provenance(own) != saved:
        raise BadRun(f"position method {name!r} has changed since {str(path)!r} was saved with\n{saved['source']}")


def versions() -> dict[str, str]:
    """What results depend on besides their settings: the versions and the processor; and the date."""
    return {
        "date": date.today().isoformat(),
        "alibi_viz": version("alibi-viz"),
        "torch": torch.__version__,
        "python": platform.python_version(),
        "machine": f"{platform.machine()}, {torch.backends.cpu.get_cpu_capability()}",
    }


def _checksum(content: dict[str, Any], weights: Path) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode() + weights.read_bytes()).hexdigest()


def _is_as_configured(model: LanguageModel) -> bool:
    """Whether the model has the modules and buffers that its configuration creates; `lab.modify` changes either."""
    expected = LanguageModel(model.config)
    if [type(module) for module in model.modules()] != [type(module) for module in expected.modules()]:
        return False
    buffers = dict(model.named_buffers())  # they include the slopes
    return all(torch.equal(buffers[name].cpu(), buffer) for name, buffer in expected.named_buffers())
