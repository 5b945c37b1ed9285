"""Print the lowest version that pyproject.toml allows of each dependency, as constraints for
pip."""

import re
import tomllib
from pathlib import Path

if __name__ == "__main__":
    project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
    for line in [*project["dependencies"], *project["optional-dependencies"]["lab"]]:
        if lowest := re.match(r"([\w.-]+)>=([\d.]+)", line):
            print("==".join(lowest.groups()))
