"""Print the lowest version that pyproject.toml allows of each dependency, as pip constraints."""

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"

if __name__ == "__main__":
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    for line in [*project["dependencies"], *project["optional-dependencies"]["lab"]]:
        lowest = re.match(r"([\w.-]+)>=([\d.]+)", line)
        if lowest:
            print(f"{lowest[1]}=={lowest[2]}")
