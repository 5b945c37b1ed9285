"""Three trained models that ship with the package, so that a lesson on trained models opens at once.

They are the runs of seed 0 of the default comparison: windows of 64 bytes, 600 steps. `make models` trains them anew.
"""

from importlib.resources import files
from pathlib import Path

from alibi_viz.lab.checkpoints import SavedRun, load_run, save_run
from alibi_viz.lab.comparison import default_comparison
from alibi_viz.lab.evaluation import loss_by_length
from alibi_viz.lab.experiment import TARGETS, Run
from alibi_viz.lab.race import test_lengths
from alibi_viz.lab.text import load_text
from alibi_viz.lab.training import make_model, train

__all__ = ["PUBLISHED_MODELS", "published_model", "train_published_models"]

PUBLISHED_MODELS = ("alibi", "rotary", "sinusoidal")


def published_model(name: str) -> SavedRun:
    """A trained model with its settings and its loss by length. Raises ValueError for a name that there is not.

    >>> kept = lab.published_model("alibi")
    >>> kept.settings["steps"], kept.model.config.position
    (600, 'alibi')
    """
    if name not in PUBLISHED_MODELS:
        raise ValueError(f"name must be one of {', '.join(PUBLISHED_MODELS)}, got {name!r}")
    return load_run(Path(str(files("alibi_viz.lab") / "published" / "models" / name)))


def train_published_models(folder: str | Path) -> None:
    """Train them again, a minute in all, each into a new folder in `folder`; torch's threads are left as they are."""
    first = {run.position: run for run in default_comparison(1) if run.task == "text" and run.label == run.position}
    for name in PUBLISHED_MODELS:
        _train(first[name], Path(folder) / name)


def _train(run: Run, path: Path) -> None:
    text = load_text()
    model = make_model(run.position, seed=run.seed, max_length=run.length)
    for _ in train(
        model,
        text,
        length=run.length,
        steps=run.steps,
        batch_size=run.batch_size,
        learning_rate=run.learning_rate,
        seed=run.seed,
        device="cpu",
    ):
        pass
    losses = loss_by_length(model, text, test_lengths(run.length, run.longest), targets=TARGETS)
    save_run(path, model, settings=run.settings(), curves={"by_length": losses})
