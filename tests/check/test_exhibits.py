"""Every rule in the gallery goes through the checker, which must name its fault."""

import pytest
import torch

from alibi_viz import alibi_bias, alibi_slopes, check, gallery


def name(exhibit: gallery.Exhibit) -> str:
    return exhibit.rule.__name__


# Faults that come with another one, because the system has both
ALSO = {
    "falcon_2024": {"bias before scaling"},
    "falcon_eager": {"bias before scaling"},
    "keras_hub_falcon": {"raises an error"},  # for 5 queries with a cache, as in keras-hub
}


@pytest.mark.parametrize("exhibit", gallery.EXHIBITS, ids=name)
def test_exhibit_is_named_and_no_other_fault(exhibit: gallery.Exhibit) -> None:
    report = getattr(check, exhibit.kind)(exhibit.rule, **exhibit.options)
    assert {finding.name for finding in report.findings} == {exhibit.fault} | ALSO.get(name(exhibit), set())
    assert exhibit.system in str(report)
    with pytest.raises(check.AlibiFaultError, match=exhibit.fault):
        report.raise_for_faults()


def test_every_exhibit_has_a_description_and_a_known_fault() -> None:
    for exhibit in gallery.EXHIBITS:
        assert exhibit.fault in check.FAULTS
        assert exhibit.system and exhibit.effect
        assert exhibit.source.startswith("https://github.com/")
        assert exhibit.kind in ("slopes", "bias", "attention")


def test_numbers_in_the_descriptions() -> None:
    """The figures that the exhibits' texts state."""
    slopes = alibi_slopes(8)
    assert float(slopes[0]) / 32**0.5 == pytest.approx(0.088, abs=5e-4)  # labml 2021
    near = gallery.biases.bloom_in_bfloat16(8, 1, 2048)[0, 0, -64:]
    assert len(near.unique()) == 9
    assert len(alibi_bias(slopes, 1, 2048, dtype=torch.bfloat16)[0, 0, -64:].unique()) == 64
    assert gallery.slopes.first_slope_is_one(8) == [2.0**-head for head in range(8)]
    assert gallery.slopes.flashinfer(8) == [1 / 4, 1 / 16, 1 / 64, 1 / 256] * 2
