"""Beside floor 1: how other systems compute slopes and biases, and what went wrong there, dated and sourced.

Nothing in the library uses these rules. They are for lessons, and for tests that must be able to fail.
"""

from alibi_viz.gallery.biases import (
    attention_gym_2024,
    bloom_in_bfloat16,
    cache_from_the_wrong_corner,
    decoding_by_query_length,
    fairseq_mask,
    falcon_eager,
    jaketae_content,
    jaketae_encoder,
    labml_2021,
    zeta,
)
from alibi_viz.gallery.exhibits import EXHIBITS, Exhibit
from alibi_viz.gallery.slopes import SLOPE_RULES, off_by_one, who_agrees

__all__ = [
    "EXHIBITS",
    "SLOPE_RULES",
    "Exhibit",
    "attention_gym_2024",
    "bloom_in_bfloat16",
    "cache_from_the_wrong_corner",
    "decoding_by_query_length",
    "fairseq_mask",
    "falcon_eager",
    "jaketae_content",
    "jaketae_encoder",
    "labml_2021",
    "off_by_one",
    "who_agrees",
    "zeta",
]
