"""Three trained models that ship with the package: seed 0 of the published comparison.

They were trained on windows of 64 bytes for 600 steps. `make models` trains them again.
"""

from pathlib import Path

from alibi_viz.lab.checkpoints import SavedRun, load_run, save_run
from alibi_viz.lab.comparison import default_comparison
from alibi_viz.lab.experiment import final_answers, new_model, training_steps
from alibi_viz.lab.results import record_table
from alibi_viz.lab.text import load_text

__all__ = ["PUBLISHED_MODELS", "published_model", "train_published_models"]

PUBLISHED_MODELS = ("alibi", "rotary", "sinusoidal")


def published_model(name: str) -> SavedRun:
    """A trained model with its settings and results. Raises ValueError for an unknown name.

    >>> saved = lab.published_model("alibi")
    >>> saved.settings["steps"], saved.model.config.position
    (600, 'alibi')
    """
    if name not in PUBLISHED_MODELS:
        raise ValueError(f"name must be one of {', '.join(PUBLISHED_MODELS)}, got {name!r}")
    return load_run(Path(__file__).parent / "models" / name)


def train_published_models(folder: str | Path) -> None:
    """Train the models again, in about a minute, and save each in a new folder inside `folder`."""
    runs = {run.position: run for run in default_comparison(1) if run.task == "text" and run.label == run.position}
    for name in PUBLISHED_MODELS:
        run = runs[name]
        text = load_text()
        model = new_model(run, text)
        for _ in training_steps(model, text, run):
            pass
        record = {"run": run.settings(), "text": text.fingerprint, "answers": final_answers(model, text, run)}
        save_run(Path(folder) / name, model, settings=run.settings(), results=record_table([record], name))
