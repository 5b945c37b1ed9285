"""Write figures.md, one page of what was measured, from results.json and mutants.json. `make
report` runs this."""

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
    mutants = json.loads((HERE / "mutants.json").read_text())
    results["mutants"] = caught(mutants)
    parts = (
        f"\n## {part}\n\n{each['measured']}\n\n```\n{table(each['rows'])}\n```\n"
        for part, each in results.items()
    )
    (HERE / "figures.md").write_text(HEAD + "".join(parts) + missed(mutants), encoding="utf-8")


def caught(mutants: dict[str, Any]) -> dict[str, Any]:
    """The share of small mistakes that the tests miss, in each folder of the package."""
    folders = (Path(survivor["path"]).parts for survivor in mutants["survivors"])
    lost = Counter(parts[1] if len(parts) > 2 else "root" for parts in folders)
    rows: list[Row] = [
        {
            "name": folder,
            "figure": lost[folder] / tried,
            "target": None,
            "unit": f"of {tried} mistakes missed",
        }
        for folder, tried in mutants["tried"].items()
    ]
    tried, survivors = sum(mutants["tried"].values()), mutants["survivors"]
    changing = [survivor for survivor in survivors if "same" not in survivor]
    working = [survivor for survivor in changing if "layout" not in survivor]
    kinds = {
        "all": survivors,
        "all that change anything": changing,
        "all that change more than layout": working,
    }
    for name, missed in kinds.items():
        left = tried - len(survivors) + len(missed)
        unit = f"of {left} mistakes missed"
        rows.append({"name": name, "figure": len(missed) / left, "target": 0.05, "unit": unit})
    return {"measured": f"{mutants['measured']}, seed {mutants['seed']}", "rows": rows}


def missed(mutants: dict[str, Any]) -> str:
    """A list of the mistakes that no test caught, with the reasons of those that change nothing, or
    only layout."""
    lines = (
        f"- `{each['path']}:{each['line']}`: `{each['old']}` to `{each['new']}`"
        + (f", which changes nothing ({each['same']})" if "same" in each else "")
        + (f", which is pure layout ({each['layout']})" if "layout" in each else "")
        for each in mutants["survivors"]
    )
    return "\n".join(("\nNo test caught:\n", *lines, ""))


if __name__ == "__main__":
    write()
