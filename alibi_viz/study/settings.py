"""The settings of the study: which runs test the claims, and why these.

A claim that holds in one setting may fail in another, so every claim is judged in all of them: a
small specification curve (Simonsohn, Simmons and Nelson 2020). Runs are paired: for one seed all
models of a setting start from the same weights, and runs with the same training length and batch
size read the same batches.
"""

import re
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
        name: in tables and figures.
        factor: what differs from its base, such as "heads"; "" for a main setting.
        reason: why it belongs to the study.
        seeds: how many of each model are trained, with the seeds from 0.
        models: a run for each label, without a seed.
        base: the name of the setting that it changes; "" for a main setting.
        more_seeds: {label: number of seeds} of the models that have more of them.
    """

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
        words = re.findall(r"[a-z0-9]+", self.name.lower().replace("'", ""))
        return "-".join(words) + ".jsonl.gz"

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
    """The name of the setting that a run belongs to, by its settings as in a record; or "".

    >>> from alibi_viz import lab
    >>> from alibi_viz.study.settings import SETTINGS, setting_of
    >>> run = SETTINGS["AdamW"].runs()[0]
    >>> setting_of(run.settings())
    'AdamW'
    >>> setting_of(lab.Run("alibi", steps=123).settings())
    ''
    """
    return _NAMES.get(_key(run), "")


def _key(run: Mapping[str, Any]) -> str:
    """The settings of a run except its seed, as text."""
    return settings_key({name: value for name, value in run.items() if name != "seed"})


def _setting(entry: Mapping[str, Any]) -> Setting:
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
# {name: setting}, in the order of settings.toml
SETTINGS = {entry["name"]: _setting(entry) for entry in _DECLARED["setting"]}
# The runs of the models that ship with the package.
MODELS = tuple(Run(**model) for model in _DECLARED["published_model"])


def _names() -> dict[str, str]:
    """{settings of a run except its seed: name of the setting that it belongs to}"""
    names = {}
    for setting in SETTINGS.values():
        for model in setting.models:
            names[_key(model.settings())] = setting.name
    return names


_NAMES = _names()
