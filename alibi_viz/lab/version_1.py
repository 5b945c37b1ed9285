"""Convert records and saved runs of version 0.1, which kept each measurement in a table of its own."""

from collections.abc import Iterator
from typing import Any

from alibi_viz.lab.tasks import TASKS

__all__ = ["saved_rows", "upgrade"]

TARGETS, CONTEXT_TARGETS, TASK_TOKENS = 8192, 1024, 65_536  # sample sizes of version 0.1
OLD_TEXT = "version 0.1"  # it split the built-in text by position, so its losses can't be compared with current ones
BITS, SHARE = "bits per byte", "share of answers"


def upgrade(record: dict[str, Any]) -> dict[str, Any]:
    """Convert a record of version 0.1 to the current format; a current record is returned unchanged."""
    if "answers" in record:
        return record
    run = record["run"]
    text = record.get("text") or (OLD_TEXT if run["task"] == "text" else "")
    answers = list(_answers(record))
    metadata = {key: record[key] for key in ("run", "error", "tokens_per_second", "seconds", "made_with")}
    return {**metadata, "text": text, "answers": answers}


def _answers(record: dict[str, Any]) -> Iterator[tuple[str, str, int, float | None, str, int]]:
    run = record["run"]
    unit = BITS if run["task"] == "text" else "bits per answer"
    before = 0
    for step, bits in record["curve"]:
        yield "as trained", "training loss", step, bits, unit, (step - before) * run["batch_size"]
        before = step
    windows = {"as trained": record.get("by_length", {}), **record.get("changed", {})}
    for evaluated, losses in windows.items():
        for length, bits in losses.items():
            yield evaluated, "longer windows", int(length), bits, BITS, TARGETS
    for step, losses in record.get("by_step", {}).items():
        near, far = losses[min(losses, key=int)], losses[max(losses, key=int)]
        if len(losses) > 1:
            gap = None if near is None or far is None else far - near
            yield "as trained", "gap", int(step), gap, BITS, TARGETS
    for context, bits in record.get("by_context", {}).items():
        yield "as trained", "same targets", int(context), bits, BITS, CONTEXT_TARGETS
    for distance, share in record.get("accuracy", {}).items():
        samples = max(1, min(256, TASK_TOKENS // TASKS[run["task"]].min_length(int(distance))))
        yield "as trained", run["task"], int(distance), share, SHARE, samples


def saved_rows(content: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """The rows of a results table, except for the origin, from the run.json of a run saved by version 0.1."""
    settings, curves, method = content["settings"], content["curves"], content["config"]["position"]
    task = settings.get("task", "text")
    is_text = task == "text"
    common = {
        "task": task,
        "method": method,
        "label": settings.get("label") or method,
        "seed": settings.get("seed", 0),
        "length": settings.get("length", content["config"]["max_length"]),
        "evaluated": "as trained",
        "text": OLD_TEXT if is_text else "",
        "count": 0,  # not saved
    }
    for step, bits in enumerate(curves.get("loss", ()), start=1):
        unit = BITS if is_text else "bits per answer"
        yield common | {"question": "training loss", "x": step, "value": bits, "unit": unit}
    name, unit = ("longer windows", BITS) if is_text else (task, SHARE)
    for x, value in curves.get("by_length" if is_text else "accuracy", {}).items():
        yield common | {"question": name, "x": int(x), "value": value, "unit": unit}
