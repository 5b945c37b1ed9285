"""Check that a results folder holds runs of one comparison, before more are added."""

from pathlib import Path

from alibi_viz.lab.experiment import Run, new_model
from alibi_viz.lab.modify import evaluation_variants
from alibi_viz.lab.results import Record, read_records

__all__ = ["check_folder"]

MAY_DIFFER = {"position", "label", "seed", "own"}  # settings in which the runs of one comparison differ


def check_folder(runs: list[Run], folder: Path) -> None:
    """Raise ValueError if the runs in a folder don't belong to the same comparison as `runs`.

    They may have other methods and seeds, but not other settings, another law of the same name, or fewer evaluations
    than this version makes.
    """
    by_position = {run.position: run for run in runs}
    for record in read_records(folder):
        saved = record["run"]
        run = by_position.get(saved["position"], runs[0])
        settings = run.settings()
        names = [*(settings.keys() - MAY_DIFFER), *(["own"] if saved["position"] == run.position else [])]
        for name in sorted(names):
            if saved.get(name) != settings.get(name):
                raise ValueError(_describe_difference(folder, name, saved, settings))
        if saved["position"] == run.position and not record["error"]:
            _check_evaluations(run, record, folder)


def _describe_difference(folder: Path, name: str, saved: Record, settings: Record) -> str:
    if name == "own":
        return (
            f"{settings['position']!r} has changed since runs in {str(folder)!r} were made: use another results folder"
        )
    difference = f"{name}={saved.get(name)!r}, not {settings[name]!r}"
    return f"{str(folder)!r} has runs with {difference}: use another results folder"


def _check_evaluations(run: Run, record: Record, folder: Path) -> None:
    expected = evaluation_variants(new_model(run, run.source()), run.length)
    if missing := expected.keys() - {answer[0] for answer in record["answers"]}:
        raise ValueError(
            f"runs in {str(folder)!r} were made by a version of alibi_viz without the evaluation "
            f"{', '.join(sorted(missing))}: use another results folder"
        )
