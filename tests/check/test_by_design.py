"""What may be by design is not accused: it is told by an argument, or noted."""

from alibi_viz import check
from tests.check.plain_alibi import attend
from tests.check.wrong_functions import (
    SHORT,
    SMALL,
    encoder,
    encoder_that_takes_lengths,
    masked,
    soft_cap_of_50,
    window_of_32,
)
from tests.rows import each_case


def scale_of_mup(query, key, value):
    return attend(query, key, value, scale=1 / 64)


def window_of_one(query, key, value):
    """Each query sees its own key only, so content changes nothing."""
    return value[:, :, -query.shape[2] :]


def needs_64_channels(query, key, value):
    assert query.shape[-1] == 64, "64 channels"
    return attend(query, key, value)


def needs_contiguous_inputs(query, key, value):
    query.view(-1)
    return attend(query, key, value)


def refuses_other_last_axes(query, key, value):
    assert query.stride(-1) == 1, "the last axis must be dense"
    return attend(query, key, value)


def scale_of_8_over_head_dim(query, key, value):
    """muP's scale with a base of 64 channels, for which it is the usual one."""
    return attend(query, key, value, scale=8 / query.shape[-1])


@each_case(
    ("function", "options"),
    {
        "ALiBi": (attend, {}),
        "padding on both sides": (masked, {"padding": True, "length": 33}),
        "padding in front": (masked, {"padding": "left", "length": 33}),
        "encoder": (encoder, {"padding": True, "causal": False, "length": 33}),
        "lengths, right": (
            encoder_that_takes_lengths,
            {"padding": "right", "causal": False, **SHORT},
        ),
        "lengths": (
            encoder_that_takes_lengths,
            {"padding": True, "causal": False, "length": 33},
        ),
        "soft cap": (soft_cap_of_50, {"softcap": 50, "length": 33}),
        "scale": (scale_of_mup, {"scale": 1 / 64, **SHORT}),
        "window": (window_of_32, {"window": 32, "length": 64}),
        "window of one": (window_of_one, {"window": 1, "scale": 0.5, "length": 16}),
        "one head_dim": (needs_64_channels, SHORT),
        "contiguous inputs only": (needs_contiguous_inputs, SHORT),
    },
)
def test_right_attention_is_not_accused(function, options):
    check.attention(function, **options).raise_for_faults()


@each_case(
    ("function", "words"),
    {
        "head_dim": (needs_64_channels, "Not checked with head_dim 104"),
        "memory": (needs_contiguous_inputs, "Not checked with some transposed"),
    },
)
def test_what_may_be_by_design_is_a_note(function, words):
    report = check.attention(function, **SHORT)
    assert report.ok
    (note,) = report.notes
    assert words in note


def test_memory_that_a_function_refuses_is_a_note():
    report = check.attention(refuses_other_last_axes, **SMALL)
    assert report.ok
    (note,) = report.notes
    assert note.startswith("Not checked with some inputs whose last axis is not dense")


def test_a_scale_that_was_not_told_is_a_finding_with_its_number():
    (finding,) = check.attention(scale_of_mup, **SHORT).findings
    assert finding.name == "content multiplied"
    assert "a scale of 0.0156" in finding.evidence
    assert "pass the checker `scale=`" in str(finding)


def test_a_soft_cap_that_was_not_told_is_a_finding_with_its_number():
    (finding,) = check.attention(soft_cap_of_50, **SHORT).findings
    assert finding.name == "soft cap"
    assert "about 50" in finding.evidence
    assert "`softcap=`" in str(finding)


def test_a_scale_of_mup_can_be_told_for_one_head_dim():
    told = {"head_dim": 128, "scale": 8 / 128, "num_heads": [8], "length": 16}
    check.attention(scale_of_8_over_head_dim, **told).raise_for_faults()
