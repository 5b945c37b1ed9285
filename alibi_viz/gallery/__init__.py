"""Faulty ALiBi slopes and biases from other systems, with their dates and sources.

Lessons explain them and tests use them as counterexamples; the library itself uses none. `EXHIBITS` lists the
faults; `who_agrees` compares the slopes.
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
from alibi_viz.gallery.exhibit import EXHIBITS, Exhibit
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
