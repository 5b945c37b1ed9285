"""Print the lowest version that pyproject.toml allows of each dependency, as constraints for pip."""

import tomllib
from pathlib import Path

from pip._vendor.packaging.requirements import Requirement

project = tomllib.loads((Path(__file__).parents[1] / "pyproject.toml").read_text())["project"]
for line in [*project["dependencies"], *project["optional-dependencies"]["lab"]]:
    requirement = Requirement(line)
    for bound in requirement.specifier:
        if bound.operator == ">=":
            print(f"{requirement.name}=={bound.version}")
