"""Save a trained model with its settings and results, and load it again.

A saved run is a folder with the weights, in a format that cannot contain executable code, and a
JSON file. It is written under a temporary name and then renamed, so a saved run is either complete
or absent.
"""

import json
import tempfile
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.torch import load_model, save_model

from alibi_viz.arguments import as_path, check_instance
from alibi_viz.measure.table import COLUMNS, check_table, results_table
from alibi_viz.models import LanguageModel, TransformerConfig, register_method
from alibi_viz.models.positions.custom import Law, Method, custom_method, source_text
from alibi_viz.train.runs import check_new, versions

FORMAT = "alibi_viz run 4"
WEIGHTS_FILE, SETTINGS_FILE = "weights.safetensors", "run.json"


class BadRun(ValueError):
    """The folder is not a saved run, is damaged, or was saved in another format. Loading never
    changes it."""


@dataclass(frozen=True)
class SavedRun:
    """A trained model that was loaded from a folder."""

    model: LanguageModel  # on the CPU, with its `config`
    settings: dict[str, Any]  # how the model was trained, as given to `save_run`
    results: (
        pd.DataFrame
    )  # what was measured, with the columns of `lab.COLUMNS`; the origin is the folder's name


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
        model: a model as its configuration describes it, not changed by `modify`.
        settings: JSON-serializable values that describe the training.
        results: what was measured, a table with the columns of `lab.COLUMNS`.

    Raises FileExistsError if `path` exists, because nothing is ever overwritten; TypeError or
    ValueError if JSON cannot represent the settings; and ValueError for a model that was changed,
    or results by block.

    >>> from tempfile import TemporaryDirectory
    >>> with TemporaryDirectory() as folder:
    ...     path = lab.save_run(f"{folder}/alibi", lab.make_model("alibi", seed=3), settings={"seed": 3})
    ...     print(lab.load_run(path).settings)
    {'seed': 3}
    """
    path = as_path("path", path)
    check_instance("model", model, LanguageModel)
    model = getattr(model, "_orig_mod", model)  # the one that `torch.compile` has wrapped
    check_instance("settings", {} if settings is None else settings, dict)
    check_new(path)
    if not _is_as_configured(model):
        why = (
            "was changed by `lab.modify`, has tied, replaced or converted weights, or its own "
            "method has changed"
        )
        raise ValueError(f"the model {why}: save one that is as its configuration describes it")
    if results is not None:
        check_table("results", results, list(COLUMNS)[1:])
        if "block" in results:
            raise ValueError(
                "results must have one row for each x, got blocks of text: read them without "
                "`by_block`"
            )
    table = (
        results_table([])
        if results is None
        else results[list(COLUMNS)[1:]].astype({"value": object})
    )
    custom = custom_method(model.config.position)
    content = {
        "format": FORMAT,
        "config": asdict(model.config),
        "custom": None if custom is None else {"source": source_text(custom)},
        "settings": settings or {},
        "results": table.where(table.notna(), None).to_dict(
            "split", index=False
        ),  # JSON has no NaN
        "made_with": versions(),
    }
    text = json.dumps(content, indent=1, allow_nan=False)
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(prefix=f".{path.name}-", dir=path.parent) as parent:
        folder = Path(parent) / path.name  # not `parent`, which only its owner can read
        folder.mkdir()
        save_model(model, str(folder / WEIGHTS_FILE))  # stores shared modules once
        (folder / SETTINGS_FILE).write_text(text)
        folder.rename(path)
    return path


def load_run(path: str | Path, method: Method | None = None) -> SavedRun:
    """Load the run that was saved in the folder `path`.

    A run that was trained with your own position method keeps the source text of that method, for
    reading only: code from a file is never executed. Pass the function or class as `method`. Raises
    OSError if the folder is no saved run, and `BadRun` with the reason if it cannot be loaded.
    """
    path = as_path("path", path)
    try:
        content = json.loads((path / SETTINGS_FILE).read_text(encoding="utf-8"))
        if content["format"] != FORMAT:
            raise BadRun(
                f"{SETTINGS_FILE} in {str(path)!r} was not written by this version of alibi_viz"
            )
        if content["custom"]:
            _register(path, content["config"]["position"], content["custom"], method)
        model = LanguageModel(TransformerConfig(**content["config"]))
        load_model(model, str(path / WEIGHTS_FILE))
        rows = pd.DataFrame(**content["results"]).assign(origin=path.name)
        run = SavedRun(model, content["settings"], results_table(rows.to_dict("records")))
    except BadRun:
        raise
    except (
        KeyError,
        TypeError,
        ValueError,
        RuntimeError,
        SafetensorError,
    ) as error:  # RecursionError is one of them
        raise BadRun(
            f"{str(path)!r} is damaged, its settings and weights do not fit together: {error}"
        ) from None
    if not all(bool(weights.isfinite().all()) for weights in model.parameters()):
        raise BadRun(
            f"{str(path)!r} has weights that are NaN or infinite: its training has diverged"
        )
    return run


def _register(path: Path, name: str, saved: dict[str, str], method: Method | None) -> None:
    """Register the position method of a saved run. Raises BadRun if it is missing or another
    one."""
    custom = None if method is None else custom_method(register_method(method))
    if custom is None or custom.__name__ != name:
        raise BadRun(
            f"{str(path)!r} was trained with a method of its own, {name!r}: call load_run(path, "
            f"{name})"
        )
    if source_text(custom) != saved["source"]:
        raise BadRun(
            f"position method {name!r} has changed since {str(path)!r} was saved with\n"
            f"{saved['source']}"
        )


def _is_as_configured(model: LanguageModel) -> bool:
    """Whether the model has the modules, parameters, buffers and laws that its configuration
    creates."""
    with torch.random.fork_rng([]):
        expected = LanguageModel(model.config)
    if [type(module) for module in model.modules()] != [
        type(module) for module in expected.modules()
    ]:
        return False
    laws = (
        [module.table.cpu() for module in each.modules() if isinstance(module, Law)]
        for each in (model, expected)
    )
    for table, new in zip(
        *laws, strict=True
    ):  # of which each has as many distances as it was asked for
        size = min(table.shape[1], new.shape[1])
        if not torch.equal(table[:, :size], new[:, :size]):
            return False
    sizes, other = (
        [(n, p.shape, p.dtype) for n, p in each.named_parameters()] for each in (model, expected)
    )
    buffers = dict(
        model.named_buffers()
    )  # these include ALiBi's slopes, and tied weights have one name
    return sizes == other and all(
        torch.equal(buffers[name].cpu(), buffer) for name, buffer in expected.named_buffers()
    )
