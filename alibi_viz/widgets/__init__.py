"""Floor 5: the apps. `from alibi_viz import widgets; widgets.SlopeExplorer()`.

Each is an `App` (base.py): state in traits, controls, one figure, a caption in words. An app is imported when it is
first asked for, so that one lesson does not load the laboratory of another.
"""

from importlib import import_module
from typing import Any

_HOMES = {
    "App": "core.app",
    "AttentionExplorer": "attention.explorer",
    "BiasExplorer": "bias_explorer",
    "ComparisonExplorer": "comparison.explorer",
    "LengthLab": "race.length_lab",
    "SlopeExplorer": "slope_explorer",
    "SlopeSurgery": "surgery.slope_surgery",
}

__all__ = [
    "App",
    "AttentionExplorer",
    "BiasExplorer",
    "ComparisonExplorer",
    "LengthLab",
    "SlopeExplorer",
    "SlopeSurgery",
]  # found lazily


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'alibi_viz.widgets' has no attribute {name!r}")
    return getattr(import_module(f"alibi_viz.widgets.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted(_HOMES)
