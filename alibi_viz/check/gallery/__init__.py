"""Faulty ALiBi slopes, biases and attention functions from other systems, with their dates and
sources.

`EXHIBITS` lists them; `alibi_viz.check` names the fault of each.
"""

import tomllib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.resources import files
from typing import Any

from alibi_viz.check.gallery import published_attention as attention
from alibi_viz.check.gallery import published_biases as biases
from alibi_viz.check.gallery import published_slopes as slopes
from alibi_viz.check.gallery.published_slopes import SLOPE_RULES, compare_slope_rules

__all__ = [
    "EXHIBITS",
    "SLOPE_RULES",
    "Exhibit",
    "attention",
    "biases",
    "compare_slope_rules",
    "slopes",
]


@dataclass(frozen=True)
class Exhibit:
    """A faulty function of another system."""

    # "slopes", "bias" or "attention": the function of `alibi_viz.check` that finds the fault
    kind: str
    # Reproduces the fault, with the signature that this kind of check expects
    rule: Callable[..., Any]
    fault: str  # its name, as `alibi_viz.check` reports it
    system: str  # the project with this fault, and its version or dates
    source: str  # the URL of the code, or of the pull request or issue about it
    effect: str  # what the system computes, in a sentence
    options: Mapping[str, Any] = field(default_factory=dict)  # of the check
    # Model types whose weights were trained with such code: it is right for them
    trained: Sequence[str] = ()


_MODULES = {"attention": attention, "bias": biases, "slopes": slopes}


def _load() -> list[Exhibit]:
    """The exhibits of exhibits.toml, in its order."""
    text = (files("alibi_viz.check.gallery") / "exhibits.toml").read_text("utf-8")
    exhibits = []
    for kind, facts_by_name in tomllib.loads(text).items():
        for name, facts in facts_by_name.items():
            rule = getattr(_MODULES[kind], name)
            exhibits.append(Exhibit(kind, rule, **facts))
    return exhibits


EXHIBITS = _load()
