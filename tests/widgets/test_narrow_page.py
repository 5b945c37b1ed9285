"""On a narrow page, two plots of an app stand one below the other, and nothing is cut."""

import pytest

from tests.widgets.test_every_app import APPS, opened

pytestmark = pytest.mark.usefixtures("quick_writing")

NARROW = 480  # pixels: of an app in JupyterLab at 150% on a laptop
WIDE = 860
TWO_PLOTS = ["SlopeSurgery", "TugOfWar"]


@pytest.fixture
def layout(request):
    """The layout of an app on a narrow page. The app is as wide as it was after the test."""
    app = opened(request.param)
    width = app.page_width
    app.fit(NARROW)
    yield app.figure.layout
    app.fit(width)


two_plots = pytest.mark.parametrize("layout", TWO_PLOTS, indirect=True)


def overlap(first, second):
    return first[0] < second[1] and second[0] < first[1]


@two_plots
def test_two_plots_stack_on_a_narrow_page(layout):
    assert layout.width == NARROW
    assert overlap(layout.xaxis.domain, layout.xaxis2.domain)
    assert not overlap(layout.yaxis.domain, layout.yaxis2.domain)
    assert layout.xaxis2.anchor == "y2"
    assert layout.xaxis.anchor in (None, "y")


@pytest.mark.parametrize("name", TWO_PLOTS)
def test_two_plots_stand_beside_each_other_on_a_wide_page(name):
    app = opened(name)
    app.fit(WIDE)
    layout = app.figure.layout
    assert not overlap(layout.xaxis.domain, layout.xaxis2.domain)
    assert overlap(layout.yaxis.domain, layout.yaxis2.domain)


@pytest.mark.parametrize("layout", APPS, indirect=True)
def test_no_figure_is_wider_than_a_narrow_page(layout):
    assert layout.width <= NARROW
