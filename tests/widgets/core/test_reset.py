"""The Reset button of the apps."""

import pytest

from alibi_viz.widgets import (
    BiasExplorer,
    ComparisonExplorer,
    LengthLab,
    PrecisionMicroscope,
    SlopeExplorer,
    SlopeSurgery,
    WindowExplorer,
)
from alibi_viz.widgets.core.app import App
from tests.widgets.race.small_race import control, message


@pytest.mark.parametrize(
    ("app", "changes"),
    [
        (SlopeExplorer, {"num_heads": 12, "scheme": "geometric", "compare": "official"}),
        (BiasExplorer, {"num_heads": 3, "head": 2, "length": 16, "show": "bias", "causal": False}),
        (ComparisonExplorer, {"methods": ["alibi"]}),
        (LengthLab, {"methods": ["none"], "length": 16, "text": "words " * 99, "guesses": {"none": "holds"}}),
        (PrecisionMicroscope, {"num_heads": 4, "head": 3, "length": 100, "dtype": "float16"}),
        (SlopeSurgery, {"factor": 0.5}),
        (WindowExplorer, {"text": "some other words", "num_heads": 4, "content": "equal"}),
    ],
)
def test_reset_restores_the_state_at_the_start(app: type[App], changes: dict[str, object]) -> None:
    explorer = app()
    before = repr(explorer), explorer.caption
    for name, value in changes.items():
        setattr(explorer, name, value)
    assert repr(explorer) != before[0]
    button = control(explorer, "s-reset")
    assert button.tooltip
    button.click()
    assert message(explorer) == ""
    assert (repr(explorer), explorer.caption) == before
