"""The apps, imported on first use: `from alibi_viz import widgets; widgets.SlopeExplorer()`.

Every app is an `App` (core/app.py): state in traits, controls, one figure, a caption.
"""

from alibi_viz.arguments import lazy

_MODULES = {
    **dict.fromkeys(("AddConstant", "Forgetting", "PositionZoo", "TugOfWar"), "pictures"),
    "App": "core.app",
    "AttentionExplorer": "attention.attention_explorer",
    "BiasExplorer": "bias_explorer",
    "ComparisonExplorer": "comparison_explorer",
    "LengthLab": "race.length_lab",
    "PrecisionMicroscope": "precision_microscope",
    "SlopeExplorer": "slope_explorer",
    "SlopeSurgery": "slope_surgery",
    "SpotTheBug": "spot_the_bug",
    "WindowExplorer": "attention.window_explorer",
}

__all__ = sorted(_MODULES)  # noqa: PLE0605  # sorted() returns a list
__getattr__, __dir__ = lazy(
    __name__, {name: f"{__name__}.{module}" for name, module in _MODULES.items()}
)
