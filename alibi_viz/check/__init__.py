"""Check any implementation of ALiBi, and name its faults.

    from alibi_viz import check
    report = check.attention(my_attention)   # (query, key, value) -> output
    report = check.bias(my_bias)             # (num_heads, query_length, key_length) -> bias
    report = check.slopes(my_slopes)         # num_heads -> slopes
    report = check.model(my_model)           # a causal language model of transformers
    print(report)
    report.raise_for_faults()                # in a test

The function may belong to any library whose arrays numpy can read. A function that raises, hangs or
returns nonsense gets a finding, never an error of the checker. The checker runs the code that it is
given, with all rights of this process: read code that you don't trust before you check it.
"""

from alibi_viz.check.checks import attention, bias, slopes
from alibi_viz.check.model import model
from alibi_viz.check.report import FAULTS, AlibiFaultError, Comparison, Fault, Finding, Report
from alibi_viz.check.vectors import check_vectors, write_vectors

__all__ = [
    "FAULTS",
    "AlibiFaultError",
    "Comparison",
    "Fault",
    "Finding",
    "Report",
    "attention",
    "bias",
    "check_vectors",
    "model",
    "slopes",
    "write_vectors",
]
