"""Figures as image files."""

from unittest.mock import Mock

import kaleido
import pytest

from alibi_viz.figures import save_images, theme
from tests.browser import chromium

FIGURE = theme.blank(200).add_scatter(y=[1, 2], name="a line")


@pytest.mark.skipif(chromium.find() is None, reason=chromium.MISSING)
def test_images_are_written_in_the_format_of_their_suffix(tmp_path):
    save_images({tmp_path / name: FIGURE for name in ("x.svg", "x.pdf", "x.png", "X.PNG")})
    assert (tmp_path / "X.PNG").read_bytes() == (tmp_path / "x.png").read_bytes()
    assert [(tmp_path / name).read_bytes()[:4] for name in ("x.png", "x.pdf")] == [
        b"\x89PNG",
        b"%PDF",
    ]
    svg = (tmp_path / "x.svg").read_text()
    assert svg.startswith("<svg") and 'width="900" height="200"' in svg, (
        "the figure's own size where it has one"
    )
    assert "rgb(255, 255, 255)" in svg, "the background is white, not transparent"


def test_errors_name_the_files_that_are_not_written(tmp_path, monkeypatch):
    with pytest.raises(ValueError, match=r"images must be \.svg, \.pdf or \.png, got x\.gif"):
        save_images({tmp_path / "x.gif": FIGURE})
    monkeypatch.setenv("BROWSER_PATH", str(tmp_path / "missing"))
    with pytest.raises(
        RuntimeError, match=r"no images are written \(x\.svg, x\.png\), because they need Chrome"
    ):
        save_images({tmp_path / "x.svg": FIGURE, tmp_path / "x.png": FIGURE})
    monkeypatch.setattr(
        kaleido, "write_fig_from_object_sync", write := Mock(return_value=[OSError("full")])
    )
    with pytest.raises(OSError, match="full"):
        save_images({tmp_path / "x.svg": FIGURE, tmp_path / "x.png": FIGURE})
    assert [each["opts"]["scale"] for each in write.call_args.args[0]] == [1, 2], (
        "a PNG is sharp on every screen"
    )
    page = write.call_args.kwargs["kopts"]["page_generator"].generate_index()
    assert "http" not in page, "nothing is fetched from the internet"
    assert not [*tmp_path.iterdir()], "nothing is left behind"
