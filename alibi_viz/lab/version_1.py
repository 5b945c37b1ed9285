"""Convert records and saved runs of version 0.1, which kept each measurement in a table of its own."""

from collections.abc import Iterator
from typing import Any

from alibi_viz.lab.tasks import TASKS

__all__ = ["upgrade", "upgrade_saved"]

TARGETS, CONTEXT_TARGETS, TASK_TOKENS = 8192, 1024, 65_536  # sample sizes of version 0.1
OLD_TEXT = "version 0.1"  # it split the built-in text by position, so its losses can't be compared with current ones


def upgrade(record: dict[str, Any]) -> dict[str, Any]:
    """Convert a record of version 0.1 to the current format; a current record is returned unchanged."""
    if "answers" in record:
        return record
    text = record.get("text") or (OLD_TEXT if record["run"]["task"] == "text" else "")
    metadata = {key: record[key] for key in ("run", "error", "tokens_per_second", "seconds", "made_with")}
    return {**metadata, "text": text, "answers": list(_answers(record))}


def upgrade_saved(content: dict[str, Any]) -> dict[str, Any]:
    """A record of the results in the run.json of a run saved by version 0.1, which did not save their counts."""
    config, settings, curves = content["config"], content["settings"], content["curves"]
    run = {"task": "text", "seed": 0, "length": config["max_length"], **settings, "position": config["position"]}
    run |= {"label": settings.get("label") or config["position"], "batch_size": 0}
    record = {"run": run, "curve": list(enumerate(curves.get("loss", ()), start=1)), **curves}
    answers = [(*answer[:-1], 0) for answer in _answers(record)]
    return {"run": run, "text": OLD_TEXT if run["task"] == "text" else "", "answers": answers}


def _answers(record: dict[str, Any]) -> Iterator[tuple[str, str, int, float | None, str, int]]:
    """[evaluated, question, x, value, unit, count] of each measurement."""
    run, bits, before = record["run"], "bits per byte", 0
    for step, loss in record["curve"]:
        unit = bits if run["task"] == "text" else "bits per answer"
        yield "as trained", "training loss", step, loss, unit, (step - before) * run["batch_size"]
        before = step
    windows = {"as trained": record.get("by_length", {}), **record.get("changed", {})}
    for evaluated, losses in windows.items():
        for length, loss in losses.items():
            yield evaluated, "longer windows", int(length), loss, bits, TARGETS
    for step, losses in record.get("by_step", {}).items():
        near, far = losses[min(losses, key=int)], losses[max(losses, key=int)]
        if len(losses) > 1:
            yield "as trained", "gap", int(step), None if None in (near, far) else far - near, bits, TARGETS
    for context, loss in record.get("by_context", {}).items():
        yield "as trained", "same targets", int(context), loss, bits, CONTEXT_TARGETS
    for distance, share in record.get("accuracy", {}).items():
        samples = max(1, min(256, TASK_TOKENS // TASKS[run["task"]].min_length(int(distance))))
        yield "as trained", run["task"], int(distance), share, "share of answers", samples
