"""The apps, imported on first use: `from alibi_viz import widgets; widgets.SlopeExplorer()`.

Every app is an `App` (core/app.py): state in traits, controls, one figure, a caption.
"""

from alibi_viz.arguments import lazy

_MODULES = {
    "AddConstant": "add_constant",
    "App": "core.app",
    "AttentionExplorer": "attention.attention_explorer",
    "BiasExplorer": "bias_explorer",
    "ComparisonExplorer": "comparison_explorer",
    "FarShare": "far_share_explorer",
    "Forgetting": "forgetting",
    "LengthLab": "race.length_lab",
    "PositionZoo": "position_zoo",
    "SlopeExplorer": "slope_explorer",
    "SlopeSurgery": "slope_surgery",
    "SpotTheBug": "spot_the_bug",
    "TugOfWar": "tug_of_war",
}

__all__ = sorted(_MODULES)  # noqa: PLE0605  # sorted() returns a list
__getattr__, __dir__ = lazy(
    __name__, {name: f"{__name__}.{module}" for name, module in _MODULES.items()}
)
