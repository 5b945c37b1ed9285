"""A trained model kept: a folder with its weights as safetensors, and its settings and curves as JSON.

    my-run/weights.safetensors    the weights, nothing that could run code
    my-run/run.json               settings, curves, versions, and the checksum of the weights

Saving writes beside the place and moves the finished folder there, so what exists is either whole or not there at all.
"""

import hashlib
import json
import shutil
import tempfile
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from safetensors.torch import load_model, save_model

from alibi_viz.lab.experiment import versions
from alibi_viz.models import LanguageModel, TransformerConfig

__all__ = ["BadRun", "SavedRun", "load_run", "save_run"]

FORMAT, FORMAT_VERSION = "alibi_viz run", 1
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

    Raises FileExistsError when something is there already: nothing is ever overwritten. Raises TypeError or ValueError
    for settings or curves that JSON cannot hold (NaN among them; use None).

    >>> folder = getfixture("tmp_path") / "alibi"  # a fixture of pytest: any new path will do
    >>> _ = lab.save_run(folder, lab.make_model("alibi", seed=3), settings={"seed": 3})
    >>> lab.load_run(folder).settings
    {'seed': 3}
    """
    path = Path(path)
    if path.exists():
        raise FileExistsError(f"{str(path)!r} exists already and is not overwritten; choose another name or remove it")
    content = {
        "format": FORMAT,
        "version": FORMAT_VERSION,
        "config": asdict(model.config),
        "settings": settings or {},
        "curves": curves or {},
        "made_with": versions(),
    }
    json.dumps(content, allow_nan=False)  # raises before anything is written
    path.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{path.name}-", dir=path.parent))
    try:
        save_model(model, str(scratch / WEIGHTS), {"format": FORMAT})  # modules that layers share are stored once
        content["weights_sha256"] = _checksum(scratch / WEIGHTS)
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
    except ValueError:
        raise BadRun(f"{SETTINGS} in {str(path)!r} is damaged: it is not JSON") from None
    if not isinstance(content, dict) or content.get("format") != FORMAT:
        raise BadRun(f"{SETTINGS} in {str(path)!r} was not written by alibi_viz")
    if content.get("version") != FORMAT_VERSION:
        raise BadRun(
            f"{str(path)!r} has format version {content.get('version')!r}; this alibi_viz reads {FORMAT_VERSION}"
        )
    if content.get("weights_sha256") != _checksum(path / WEIGHTS):
        raise BadRun(f"{WEIGHTS} in {str(path)!r} is damaged: its checksum is not the one in {SETTINGS}")
    try:
        model = LanguageModel(TransformerConfig(**content["config"]))
        load_model(model, str(path / WEIGHTS))
        return SavedRun(model, content["settings"], content["curves"], content["made_with"])
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise BadRun(f"the settings and weights in {str(path)!r} do not fit together: {error}") from None


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
