"""The checker names each wrong function by one fault, with the condition under which it shows."""

import pytest

from alibi_viz import check
from tests.check.wrong_functions import WRONG


@pytest.mark.parametrize("wrong", WRONG.values(), ids=list(WRONG))
def test_a_wrong_function_has_one_name(wrong):
    report = getattr(check, wrong.kind)(wrong.function, **wrong.options)
    (finding,) = report.findings
    assert finding.name == wrong.fault
    assert wrong.words in finding.evidence
