"""The apps, imported on first use: `from alibi_viz import widgets; widgets.SlopeExplorer()`.

Every app is an `App` (core/app.py): state in traits, controls, one figure, a caption.
"""

from typing import Any

from alibi_viz.arguments import load_module

_MODULES = {
    "AddConstant": "pictures",
    "App": "core.app",
    "AttentionExplorer": "attention.explorer",
    "BiasExplorer": "bias_explorer",
    "ComparisonExplorer": "comparison_explorer",
    "Forgetting": "pictures",
    "LengthLab": "race.length_lab",
    "PositionZoo": "pictures",
    "PrecisionMicroscope": "precision",
    "SlopeExplorer": "slope_explorer",
    "SlopeSurgery": "surgery",
    "SpotTheBug": "spot_the_bug",
    "TugOfWar": "pictures",
    "WindowExplorer": "attention.windows",
}

__all__ = sorted(_MODULES)  # noqa: PLE0605  # sorted() returns a list


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'alibi_viz.widgets' has no attribute {name!r}")
    return getattr(load_module(f"alibi_viz.widgets.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
