"""The entries of the gallery, each registered next to the function that reproduces its fault."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

__all__ = ["EXHIBITS", "Exhibit", "exhibit"]

Rule = TypeVar("Rule", bound=Callable[..., Any])


@dataclass(frozen=True)
class Exhibit:
    """A faulty rule of another system.

    Attributes:
        name: the name of the fault, as `alibi_viz.check` reports it.
        system: the project with this fault, and its version or dates.
        source: the URL of the code, or of the pull request or issue about it.
        fault: what the system computes, in a sentence.
        kind: "slopes", "bias" or "attention": the function of `alibi_viz.check` that finds the fault.
        rule: a function that reproduces the fault, with the signature that this kind of check expects.
        options: arguments of the check.
    """

    name: str
    system: str
    source: str
    fault: str
    kind: str
    rule: Callable[..., Any]
    options: Mapping[str, Any]


EXHIBITS: list[Exhibit] = []


def exhibit(name: str, kind: str, *, system: str, github: str, fault: str, **options: object) -> Callable[[Rule], Rule]:
    """Register the decorated function in `EXHIBITS`; `github` is the path of its source on github.com."""

    def register(rule: Rule) -> Rule:
        EXHIBITS.append(Exhibit(name, system, f"https://github.com/{github}", fault, kind, rule, options))
        return rule

    return register
