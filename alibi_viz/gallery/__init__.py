"""Faulty ALiBi slopes, biases and attention functions from other systems, with their dates and sources.

`EXHIBITS` lists them; `alibi_viz.check` names the fault of each. The library itself uses none. `compare_slope_rules`
compares how systems compute the slopes.
"""

from alibi_viz.gallery import attention, biases, slopes
from alibi_viz.gallery.exhibit import EXHIBITS, Exhibit
from alibi_viz.gallery.slopes import SLOPE_RULES, compare_slope_rules

__all__ = ["EXHIBITS", "SLOPE_RULES", "Exhibit", "attention", "biases", "compare_slope_rules", "slopes"]
