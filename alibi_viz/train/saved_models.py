"""Save a trained model with its settings and results, and load it again.

A saved run is a folder with the weights, in a format that cannot contain executable code, and a
JSON file. It is written under a temporary name and then renamed, so a saved run is either complete
or absent.
"""

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pandas as pd
import torch
from safetensors import SafetensorError
from safetensors.torch import load_model, save_model
from torch import Tensor

from alibi_viz.arguments import as_path, check_instance
from alibi_viz.cached_bias import AlibiBias
from alibi_viz.measure.table import COLUMNS, check_table, results_table
from alibi_viz.models import LanguageModel, TransformerConfig
from alibi_viz.models.positions.methods import Law, Method, check_method, method_name, source_text
from alibi_viz.train.results import check_new
from alibi_viz.train.run import versions

FORMAT = "alibi_viz run 4"
WEIGHTS_FILE = "weights.safetensors"
SETTINGS_FILE = "run.json"


class BadRun(ValueError):
    """The saved run is damaged, of another format, or needs a method that was not passed.

    Loading never changes it.
    """


@dataclass(frozen=True)
class SavedRun:
    """A trained model that was loaded from a folder.

    Attributes:
        model: the model on the CPU, with its `config`.
        settings: how the model was trained, as given to `save_run`.
        results: what was measured, with the columns of `lab.COLUMNS`; the origin is the folder's
            name.
    """

    model: LanguageModel
    settings: dict[str, Any]
    results: pd.DataFrame


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
    >>> from alibi_viz import lab
    >>> model = lab.make_model("alibi", seed=3)
    >>> with TemporaryDirectory() as folder:
    ...     path = lab.save_run(f"{folder}/alibi", model, settings={"seed": 3})
    ...     print(lab.load_run(path).settings)
    {'seed': 3}
    """
    path = as_path("path", path)
    check_instance("model", model, LanguageModel)
    model = getattr(model, "_orig_mod", model)  # the one that `torch.compile` has wrapped
    if settings is None:
        settings = {}
    check_instance("settings", settings, dict)
    check_new(path)
    if not _is_as_configured(model):
        raise ValueError(
            "the model was changed by `lab.modify`, has tied, replaced or converted weights, or "
            "its own method has changed: save one that is as its configuration describes it"
        )
    method = model.config.position
    content = {
        "format": FORMAT,
        "config": asdict(model.config) | {"position": model.config.method},
        "custom": None if isinstance(method, str) else {"source": source_text(method)},
        "settings": settings,
        "results": _results_as_json(results),
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


def _results_as_json(results: pd.DataFrame | None) -> dict[Any, Any]:
    """The table without its origin, which is the folder's name once it is loaded."""
    columns = [name for name in COLUMNS if name != "origin"]
    if results is None:
        table = results_table([])[columns]
    else:
        check_table("results", results, columns)
        if "block" in results:
            raise ValueError(
                "results must have one row for each x, got blocks of text: read them without "
                "`by_block`"
            )
        table = results[columns]
    table = table.astype({"value": object})
    table = table.where(table.notna(), None)  # JSON has no NaN
    return table.to_dict("split", index=False)


def load_run(path: str | Path, method: Method | None = None) -> SavedRun:
    """Load the run that was saved in the folder `path`.

    A run that was trained with your own position method keeps the source text of that method, for
    reading only: code from a file is never executed. Pass the function or class as `method`, which
    other runs don't need. Raises ValueError for a `method` that isn't that of the run,
    OSError if the folder has no run.json, and `BadRun` with the reason if it cannot be loaded.
    """
    path = as_path("path", path)
    with _as_bad_run(path):
        content = json.loads((path / SETTINGS_FILE).read_text(encoding="utf-8"))
        saved_format = content["format"]
    if saved_format != FORMAT:
        raise BadRun(
            f"{SETTINGS_FILE} in {str(path)!r} was not written by this version of alibi_viz"
        )
    with _as_bad_run(path):
        own_method = content["custom"]
        position = content["config"]["position"]
    if own_method:
        _check_own_method(path, position, own_method, method)
        content["config"]["position"] = method
    elif method not in (None, position):
        raise ValueError(f"method must be None for a run with {position!r}, got {method!r}")

    with _as_bad_run(path):
        model = LanguageModel(TransformerConfig(**content["config"]))
        load_model(model, str(path / WEIGHTS_FILE))
        rows = pd.DataFrame(**content["results"]).assign(origin=path.name)
        results = results_table(rows.to_dict("records"))
        run = SavedRun(model, content["settings"], results)
    if not all(bool(weights.isfinite().all()) for weights in model.parameters()):
        raise BadRun(
            f"{str(path)!r} has weights that are NaN or infinite: its training has diverged"
        )
    return run


@contextmanager
def _as_bad_run(path: Path) -> Iterator[None]:
    """Turn the errors of a damaged run into BadRun."""
    try:
        yield
    # RuntimeError includes RecursionError, for JSON that is nested too deeply.
    except (KeyError, TypeError, ValueError, RuntimeError, SafetensorError) as error:
        raise BadRun(
            f"{str(path)!r} is damaged, its settings and weights do not fit together: {error}"
        ) from None


def _check_own_method(path: Path, name: str, saved: dict[str, str], method: Method | None) -> None:
    """Raise BadRun if the own method of a saved run is missing, or has another name or text."""
    if method is not None:
        check_method("method", method)
    if method is None or isinstance(method, str) or method_name(method) != name:
        raise BadRun(
            f"{str(path)!r} was trained with a method of its own, {name!r}: call load_run(path, "
            f"{name})"
        )
    # Earlier versions saved a fingerprint, and more than the text of the method as its source.
    is_comparable = "fingerprint" not in saved
    if is_comparable and source_text(method) != saved["source"]:
        raise BadRun(
            f"position method {name!r} has changed since {str(path)!r} was saved "
            f"with\n{saved['source']}"
        )


def _is_as_configured(model: LanguageModel) -> bool:
    """Whether `load_run` can rebuild the model from its configuration and its parameters."""
    with torch.random.fork_rng([]):
        expected = LanguageModel(model.config)
    return (
        _module_types(model) == _module_types(expected)
        and _parameter_shapes(model) == _parameter_shapes(expected)
        and _have_equal_buffers(model, expected)
        and _have_equal_slopes(model, expected)
        and _have_equal_laws(model, expected)
    )


def _module_types(model: LanguageModel) -> list[type]:
    return [type(module) for module in model.modules()]


def _parameter_shapes(model: LanguageModel) -> list[tuple[str, torch.Size, torch.dtype]]:
    """The name, shape and dtype of each parameter; tied parameters have one name."""
    return [(name, values.shape, values.dtype) for name, values in model.named_parameters()]


def _have_equal_buffers(model: LanguageModel, expected: LanguageModel) -> bool:
    """Whether all buffers have the expected values."""
    buffers = dict(model.named_buffers())
    return all(
        torch.equal(buffers[name].cpu(), buffer) for name, buffer in expected.named_buffers()
    )


def _have_equal_slopes(model: LanguageModel, expected: LanguageModel) -> bool:
    """Whether ALiBi's fixed slopes, which are no buffers, have the expected values."""
    pairs = zip(_fixed_slopes(model), _fixed_slopes(expected), strict=True)
    return all(torch.equal(own, configured) for own, configured in pairs)


def _fixed_slopes(model: LanguageModel) -> list[Tensor]:
    return [module.slopes.cpu() for module in model.modules() if isinstance(module, AlibiBias)]


def _have_equal_laws(model: LanguageModel, expected: LanguageModel) -> bool:
    """Whether laws of distance of your own still give the values that the model was trained
    with."""
    for table, new_table in zip(_law_tables(model), _law_tables(expected), strict=True):
        # Each has as many distances as it was asked for.
        distances = min(table.shape[1], new_table.shape[1])
        if not torch.equal(table[:, :distances], new_table[:, :distances]):
            return False
    return True


def _law_tables(model: LanguageModel) -> list[Tensor]:
    """The evaluated laws of a model, each [heads, distance]."""
    return [module.table.cpu() for module in model.modules() if isinstance(module, Law)]
