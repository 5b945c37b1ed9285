"""Write figures.md, one page of what was measured, from results.json. `make report` runs this."""

import json
from pathlib import Path

from benchmarks.row import Row, table

HERE = Path(__file__).parent
HEAD = """# What was measured

Written by `make report` from the results of `make bench`. A target is the largest figure allowed.
A busy machine can miss a target of speed although nothing is wrong.
"""


def write() -> None:
    """Write the page from the stored measurements."""
    results = json.loads((HERE / "results.json").read_text())
    page = HEAD
    for benchmark, result in results.items():
        rows = [Row(**row) for row in result["rows"]]
        page += f"\n## {benchmark}\n\n{result['measured']}\n\n```\n{table(rows)}\n```\n"
    (HERE / "figures.md").write_text(page, encoding="utf-8")


if __name__ == "__main__":
    write()
