"""The page about the published results is computed from their records."""

from alibi_viz import study
from alibi_viz.study.records import PUBLISHED

PAGE = (PUBLISHED / "report.md").read_text()


def test_committed_page_is_that_of_the_published_records(tmp_path) -> None:
    study.write_report(tmp_path)
    assert (tmp_path / "report.md").read_text() == PAGE, "run `make report`"


def test_every_claim_stands_beside_its_verdict_in_each_setting() -> None:
    table = study.verdict_table(study.published_results(by_block=True))
    for row in table.itertuples():
        line = f"| **{row.claim}.** {row.text} ({row.source}) | {row.verdict} | {row.numbers} | {row.known} |"
        assert line in PAGE.split(f"### {row.setting[0].upper()}{row.setting[1:]}\n")[1].split("\n##", maxsplit=1)[0]
