"""The page about the published results is computed from their records."""

from alibi_viz import study
from alibi_viz.study.records import PUBLISHED


def test_committed_page_is_that_of_the_published_records(tmp_path):
    study.write_report(tmp_path / "new")
    assert (tmp_path / "new" / "report.md").read_text() == (PUBLISHED / "report.md").read_text(), (
        "run `make report`"
    )
