"""The settings of the study: which runs test the claims, and why these.

A claim that holds in one setting may fail in another, so every claim is judged in all of them: a
small specification curve (Simonsohn, Simmons and Nelson 2020). Runs are paired: for one seed all
models of a setting start from the same weights, and runs with the same training length and batch
size read the same batches.
"""

import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from alibi_viz.lab import Run
from alibi_viz.train.results import settings_key

MAIN = "main"
TARGETS = 32_768  # held-out bytes that a model predicts at each length


@dataclass(frozen=True)
class Setting:
    """One way of training the models that the claims are about.

    Attributes:
        id: in tables of results and the name of its file.
        name: what a reader sees.
        factor: what differs from its base, such as "heads"; "" for a main setting.
        reason: why it belongs to the study.
        seeds: how many of each model are trained, with the seeds from 0.
        models: a run for each label, without a seed.
        base: the id of the setting that it changes; "" for a main setting.
        more_seeds: {label: number of seeds} of the models that have more of them.
    """

    id: str
    name: str
    factor: str
    reason: str
    seeds: int
    models: tuple[Run, ...]
    base: str = ""
    more_seeds: Mapping[str, int] = field(default_factory=dict)

    @property
    def task(self) -> str:
        """What its models are trained on, as in `lab.Run`."""
        return self.models[0].task

    @property
    def file_name(self) -> str:
        """The name of the file with its records."""
        return f"{self.id}.jsonl.gz"

    def runs(self, seeds: int | None = None, labels: Iterable[str] | None = None) -> list[Run]:
        """Its runs, ordered by seed, by default all."""
        models = self.models
        if labels is not None:
            wanted = set(labels)
            models = tuple(model for model in models if model.label in wanted)
        runs = []
        for model in models:
            declared = self.more_seeds.get(model.label, self.seeds)
            for seed in range(declared if seeds is None else seeds):
                runs.append(replace(model, seed=seed))
        return sorted(runs, key=attrgetter("seed"))


def setting_of(run: Mapping[str, Any]) -> str:
    """The id of the setting that a run belongs to, by its settings as in a record; or "".

    >>> from alibi_viz import lab
    >>> from alibi_viz.study.settings import SETTINGS, setting_of
    >>> run = SETTINGS["adamw"].runs()[0]
    >>> setting_of(run.settings())
    'adamw'
    >>> setting_of(lab.Run("alibi", steps=123).settings())
    ''
    """
    return _IDS.get(_key(run), "")


def _key(run: Mapping[str, Any]) -> str:
    """The settings of a run except its seed, as text."""
    return settings_key({name: value for name, value in run.items() if name != "seed"})


def _setting(setting_id: str, entry: Mapping[str, Any]) -> Setting:
    """A setting of settings.toml."""
    base = ""
    if "factor" in entry:
        base = "needles" if entry["run"].get("task") == "needle" else MAIN
    common = {"targets": TARGETS, "variants": (), **entry["run"]}
    models = []
    more_seeds = {}
    for name in entry["models"]:
        for model in _DECLARED["models"][name]:
            sizes = {**common.get("model", {}), **model.get("model", {})}
            own = {key: value for key, value in model.items() if key != "seeds"}
            run = Run(**{**common, **own, "model": sizes})
            models.append(run)
            if "seeds" in model:
                more_seeds[run.label] = model["seeds"]
    return Setting(
        id=setting_id,
        name=entry["name"],
        factor=entry.get("factor", ""),
        reason=entry["reason"],
        seeds=entry["seeds"],
        models=tuple(models),
        base=entry.get("base", base),
        more_seeds=more_seeds,
    )


_FILE = Path(__file__).parent / "settings.toml"
_DECLARED = tomllib.loads(_FILE.read_text(encoding="utf-8"))
# {id: setting}, in the order of settings.toml
SETTINGS = {name: _setting(name, entry) for name, entry in _DECLARED["setting"].items()}
# The runs of the models that ship with the package.
MODELS = tuple(Run(**model) for model in _DECLARED["published_model"])


def _ids() -> dict[str, str]:
    """{settings of a run except its seed: id of the setting that it belongs to}"""
    ids = {}
    for setting in SETTINGS.values():
        for model in setting.models:
            ids[_key(model.settings())] = setting.id
    return ids


_IDS = _ids()
