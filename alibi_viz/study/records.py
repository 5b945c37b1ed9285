"""Results and trained models that ship with the package: read them, or train them again."""

import gzip
import json
from collections.abc import Iterable, Sequence
from concurrent.futures import Executor
from dataclasses import asdict
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
import torch
from safetensors.torch import load_model, save_model

from alibi_viz.arguments import (
    as_list,
    check_choice,
    check_flag,
    check_integer,
    check_known,
)
from alibi_viz.files import create_folder, write
from alibi_viz.lab import load_text, sweep, tales_text
from alibi_viz.measure.table import COLUMNS, results_table
from alibi_viz.models import LanguageModel, TransformerConfig
from alibi_viz.study.judge import CLAIMS, SCALED_ALIBI, THESE_RESULTS
from alibi_viz.study.settings import MODELS, SETTINGS, setting_of
from alibi_viz.train.results import read_records, record_table
from alibi_viz.train.run import Record, versions
from alibi_viz.train.training import limited_threads

PUBLISHED = Path(__file__).parent / "published"
# A published model is a folder with its weights, in a format that cannot contain code, and a file
# with everything else.
WEIGHTS_FILE = "weights.safetensors"
SETTINGS_FILE = "run.json"
LARGE_TEXT = 5_000_000  # bytes of tales, for the large model
PUBLISHED_MODELS = tuple(run.label for run in MODELS)


def published_results(*, by_block: bool = False) -> pd.DataFrame:
    """The results that ship with the package: a table with the columns of `lab.COLUMNS`.

    Its column "setting" names the setting of `study.SETTINGS` that a row belongs to. Models were
    trained on sequences of 64 to 512 bytes of the tales ("text"), of "other tales", or of the
    language reference of Python 3.11 ("python reference"), or on a task. With `by_block`, losses on
    longer sequences and on the same targets have a row for each of sixteen blocks of the held-out
    text, and the table a column "block".

    >>> from alibi_viz import study
    >>> results = study.published_results()
    >>> sorted(results["task"].unique())
    ['induction', 'needle', 'other tales', 'python reference', 'text']
    """
    check_flag("by_block", by_block)
    return _published_table(by_block).copy()


@cache
def _published_table(by_block: bool) -> pd.DataFrame:
    return table_by_setting(published_records(), "published", by_block=by_block)


def published_records(names: Iterable[str] = tuple(SETTINGS)) -> list[Record]:
    """The finished runs of some settings of the study."""
    records: list[Record] = []
    for name in names:
        records.extend(read_records(PUBLISHED / SETTINGS[name].file_name))
    return records


def table_by_setting(
    records: Iterable[Record], origin: str, *, by_block: bool = False
) -> pd.DataFrame:
    """The table of finished runs, with the setting of each in a column "setting".

    Runs that don't belong to the study have the setting "these results".
    """
    by_setting: dict[str, list[Record]] = {}
    for record in records:
        setting = setting_of(record["run"]) or THESE_RESULTS
        by_setting.setdefault(setting, []).append(record)
    if not by_setting:
        return results_table([]).assign(setting=pd.Series(dtype="str"))
    tables = [
        record_table(of_setting, origin, by_block=by_block).assign(setting=setting)
        for setting, of_setting in by_setting.items()
    ]
    return pd.concat(tables, ignore_index=True)


def history() -> pd.DataFrame:
    """What earlier editions of the study found, a row for each verdict.

    Columns: edition ("first", with four heads on Python's reference, or "second", with eight heads
    on the tales and Python's reference), date, setting, known (of the result when the claim was
    written), verdict, claim, text and numbers.

    >>> from alibi_viz import study
    >>> study.history()["edition"].value_counts().to_dict()
    {'first': 86, 'second': 23}
    """
    return pd.read_csv(Path(__file__).parent / "history.csv")


def retrain(
    claims: Sequence[str] = (),
    settings: Sequence[str] = (),
    executor: Executor | None = None,
    out: str | Path = "comparison",
    *,
    seeds: int | None = None,
    publish: str | Path | None = None,
) -> pd.DataFrame:
    """Train models of the study again and return their results block by block.

    A second call resumes.

    Args:
        claims: names in claims.toml: train the models that they are about. By default all models.
        settings: ids in settings.toml. By default all; for `claims`, the main setting of what
            their models are trained on.
        executor, out: as in `sweep`.
        seeds: how many, from 0, instead of the published number.
        publish: a folder, created if missing, for a compressed file with the records of each
            setting, one line each.

    Raises TypeError for claims or settings that are no list of names, and ValueError, before any
    training, for an unknown claim or setting, fewer than one seed, and `publish` with `claims`,
    which would leave files without the other models.
    """
    claims = as_list("claims", claims, "names", str)
    settings = as_list("settings", settings, "names", str)
    check_known("claims", claims, [claim.name for claim in CLAIMS])
    check_known("settings", settings, SETTINGS)
    if seeds is not None:
        check_integer("seeds", seeds, 1)
    if publish is not None:
        if claims:
            raise ValueError(f"publish must be None for single claims, got {str(publish)!r}")
        create_folder(publish)  # now, rather than fail after the first setting is trained

    # By default all models, in all settings
    labels = None
    names = settings or list(SETTINGS)
    if claims:
        chosen = [claim for claim in CLAIMS if claim.name in claims]
        labels = set()
        for claim in chosen:
            labels |= claim.labels
            if claim.with_scaled_slopes() is not None:
                labels.add(SCALED_ALIBI)
        if not settings:
            tasks = {claim.task for claim in chosen}
            mains = [setting for setting in SETTINGS.values() if not setting.factor]
            names = [setting.id for setting in mains if setting.task in tasks]

    finished: list[Record] = []
    for name, setting in SETTINGS.items():
        if name not in names:
            continue
        runs = setting.runs(seeds, labels)
        order = [run.settings() for run in runs]
        records = list(sweep(runs, executor, out=out))
        records.sort(key=lambda record: order.index(record["run"]))
        if publish is not None:
            lines = "".join(f"{json.dumps(record)}\n" for record in records)
            # Without a date, so that equal files stay equal
            write(Path(publish) / setting.file_name, gzip.compress(lines.encode(), mtime=0))
        finished += records
    return table_by_setting(finished, Path(out).name, by_block=True)


class PublishedModel(NamedTuple):
    """A trained model that ships with the package.

    Attributes:
        model: on the CPU, with its `config`.
        settings: how it was trained, as in `lab.Run`.
        results: what was measured, with the columns of `lab.COLUMNS`; the origin is its name.
    """

    model: LanguageModel
    settings: dict[str, Any]
    results: pd.DataFrame


def published_model(name: str) -> PublishedModel:
    """A model trained on the tales, with its settings and results.

    `alibi`, `rotary` and `sinusoidal` are those of the default race with seed 0: 130,000
    parameters, trained for 400 steps on sequences of 64 bytes. `alibi-large` has 860,000 parameters
    and was trained for 1,200 steps on sequences of 256 bytes of 5 MB of tales, in 10 to 20 minutes
    on two cores. All were tested on the same validation part. Raises TypeError for a name
    that is no string, and ValueError for an unknown one.

    >>> from alibi_viz import study
    >>> published = study.published_model("alibi")
    >>> published.settings["steps"], published.model.config.position
    (400, 'alibi')
    """
    check_choice("name", name, PUBLISHED_MODELS)
    return read_model(PUBLISHED / "models" / name)


def read_model(folder: Path) -> PublishedModel:
    """A model that `write_model` has saved in this folder."""
    content = json.loads((folder / SETTINGS_FILE).read_text(encoding="utf-8"))
    model = LanguageModel(TransformerConfig(**content["config"]))
    load_model(model, folder / WEIGHTS_FILE)
    rows = pd.DataFrame(**content["results"]).assign(origin=folder.name)
    return PublishedModel(model, content["settings"], results_table(rows.to_dict("records")))


def train_published_models(folder: str | Path) -> None:
    """Train the published models again, in a quarter of an hour.

    Each is saved in a new folder inside `folder`. Raises FileExistsError, before any training, if
    one is there.
    """
    folder = create_folder(folder)
    for run in MODELS:
        if (folder / run.label).exists():
            raise FileExistsError(f"{str(folder / run.label)!r} exists already: remove it first")
    for run in MODELS:
        text = tales_text(LARGE_TEXT) if run.label == "alibi-large" else load_text()
        model = run.new_model(text)
        with limited_threads(run.threads):
            *_, last_row = run.train(model, text)
        answers = {"rows": run.test(model, text, last_row)}
        results = record_table([answers], run.label)
        write_model(folder / run.label, PublishedModel(model, run.settings(), results))


def write_model(folder: Path, published: PublishedModel) -> None:
    """Save a model in a new folder. Raises ValueError if it would be loaded as another one."""
    # The origin is the folder's name. JSON has no NaN.
    results = published.results[[name for name in COLUMNS if name != "origin"]]
    results = results.astype({"value": object})
    results = results.where(results.notna(), None)
    content = {
        "config": asdict(published.model.config) | {"position": published.model.config.method},
        "settings": published.settings,
        "results": results.to_dict("split", index=False),
        "made_with": versions(),
    }
    folder.mkdir()
    save_model(published.model, str(folder / WEIGHTS_FILE))
    write(folder / SETTINGS_FILE, json.dumps(content, indent=1, allow_nan=False))

    model = published.model.cpu().eval()
    tokens = torch.arange(32)[None]
    with torch.inference_mode():
        if not torch.equal(read_model(folder).model.eval()(tokens), model(tokens)):
            raise ValueError(f"{str(folder)!r} holds another model than the one that was trained")
