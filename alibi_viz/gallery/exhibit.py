"""The entries of the gallery, each registered next to the function that reproduces its fault."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

__all__ = ["EXHIBITS", "Exhibit", "exhibit"]

Rule = TypeVar("Rule", bound=Callable[..., Any])


@dataclass(frozen=True)
class Exhibit:
    """A faulty rule of another system.

    Attributes:
        name: a short name of the fault.
        system: the project with this fault, and its version or date.
        source: the URL of the code, or of the pull request or issue about it.
        fault: what is wrong, in a sentence.
        rule: the function that reproduces the fault.
    """

    name: str
    system: str
    source: str
    fault: str
    rule: Callable[..., Any]


EXHIBITS: list[Exhibit] = []


def exhibit(name: str, *, system: str, fault: str, github: str | None = None) -> Callable[[Rule], Rule]:
    """Register the decorated function in `EXHIBITS`; `github` is the path of its source on github.com."""
    source = f"https://github.com/{github}" if github else "no single source"

    def register(rule: Rule) -> Rule:
        EXHIBITS.append(Exhibit(name, system, source, fault, rule))
        return rule

    return register
