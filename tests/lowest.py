"""Print the lowest version that pyproject.toml allows of each dependency, as pip constraints."""

import re
import tomllib
from pathlib import Path

PYPROJECT = Path(__file__).parents[1] / "pyproject.toml"

if __name__ == "__main__":
    project = tomllib.loads(PYPROJECT.read_text())["project"]
    versions = {}
    extras = project["optional-dependencies"]
    # The lab comes last: what it needs of torch is newer.
    for line in [*project["dependencies"], *extras["figures"], *extras["lab"]]:
        lowest = re.match(r"([\w.-]+)>=([\d.]+)", line)
        if lowest:
            versions[lowest[1]] = lowest[2]
    for name, version in versions.items():
        print(f"{name}=={version}")
