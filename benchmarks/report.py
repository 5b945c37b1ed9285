"""Write figures.md, one page of what was measured, from results.json and mutants.json. `make report` runs this."""

import json
from collections import Counter
from pathlib import Path
from typing import Any

from benchmarks.row import Row, table

HERE = Path(__file__).parent
HEAD = """# What was measured

Written by `make report` from the results of `make bench` and `make mutants`. A target is the largest figure allowed.
A busy machine can miss a target of speed although nothing is wrong.
"""


def write() -> None:
    """Write the page from the stored measurements."""
    results = json.loads((HERE / "results.json").read_text())
    if (mutants := HERE / "mutants.json").exists():
        results["mutants"] = caught(json.loads(mutants.read_text()))
    parts = (
        f"\n## {part}\n\n{each['measured']}\n\n```\n{table(each['rows'])}\n```\n" for part, each in results.items()
    )
    (HERE / "figures.md").write_text(HEAD + "".join(parts), encoding="utf-8")


def caught(mutants: dict[str, Any]) -> dict[str, Any]:
    """The share of small mistakes that the tests miss, in each folder of the package."""
    folders = (Path(survivor["path"]).parts for survivor in mutants["survivors"])
    lost = Counter(parts[1] if len(parts) > 2 else "root" for parts in folders)
    rows: list[Row] = [
        {"name": folder, "figure": lost[folder] / tried, "target": None, "unit": f"of {tried} mistakes missed"}
        for folder, tried in mutants["tried"].items()
    ]
    tried = sum(mutants["tried"].values())
    rows.append({"name": "all", "figure": lost.total() / tried, "target": 0.05, "unit": f"of {tried} mistakes missed"})
    return {"measured": f"{mutants['measured']}, seed {mutants['seed']}", "rows": rows}


if __name__ == "__main__":
    write()
