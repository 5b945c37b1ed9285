"""Compare how other systems compute the slopes.

The formulas look nothing alike, yet most of them agree. Where they don't, it is often only for head counts that are not
a power of two, which few people test.
"""

import math
from collections.abc import Callable, Mapping
from types import MappingProxyType

import torch

from alibi_viz.gallery.exhibit import exhibit
from alibi_viz.slopes import alibi_slopes

__all__ = ["SLOPE_RULES", "off_by_one", "who_agrees"]


def fairseq(num_heads: int) -> list[float]:
    """The authors' recursion (fairseq `transformer.py`, lines 742-753, repository of October 2023)."""
    closest = 2 ** math.floor(math.log2(num_heads))
    start = 2 ** -(2 ** -(math.log2(closest) - 3))
    slopes = [start ** (head + 1) for head in range(closest)]
    return slopes if closest == num_heads else slopes + fairseq(2 * closest)[0::2][: num_heads - closest]


def bloom(num_heads: int) -> list[float]:
    """Two geometric sequences, the second with odd exponents (BLOOM and Falcon in transformers 5.23.0, the tests of
    flash-attention, labml since July 2022)."""
    closest = 2 ** math.floor(math.log2(num_heads))
    base, finer = 2 ** (-8 / closest), 2 ** (-4 / closest)
    first = [base**power for power in range(1, closest + 1)]
    return first + [finer**power for power in range(1, 2 * (num_heads - closest), 2)]


def mpt(num_heads: int) -> list[float]:
    """The sequence for the next power of two, even entries before odd ones (MPT in transformers 5.23.0)."""
    above = 2 ** math.ceil(math.log2(num_heads))
    series = [2 ** (-8 * head / above) for head in range(1, above + 1)]
    return series if above == num_heads else (series[1::2] + series[0::2])[:num_heads]


def labml_slopes_2021(num_heads: int) -> list[float]:
    """One geometric sequence for any head count (labml, commit e06a89e2 of 28 August 2021; the official rule since July
    2022)."""
    start = 2 ** -(2 ** -(math.log2(num_heads) - 3))
    return [start * start**head for head in range(num_heads)]


def jaketae(num_heads: int) -> list[float]:
    """The same sequence as powers of a root of 256 (jaketae/alibi, December 2021; also in attention-gym's text)."""
    root = 256 ** (1 / num_heads)
    return [1 / root ** (head + 1) for head in range(num_heads)]


def halving(num_heads: int) -> list[float]:
    """1/2, 1/4, 1/8, ...: correct only for eight heads, the paper's example."""
    return [2.0**-head for head in range(1, num_heads + 1)]


@exhibit(
    "the first head gets slope 1",
    system="seen in the wild",
    fault="every slope is steeper by 2^(8/H), and the smallest one, 1/256, is missing",
)
def off_by_one(num_heads: int) -> list[float]:
    """2^(-8h/H) with heads counted from 0."""
    return [2 ** (-8 * head / num_heads) for head in range(num_heads)]


SLOPE_RULES: Mapping[str, Callable[[int], list[float]]] = MappingProxyType(
    {
        "fairseq": fairseq,
        "bloom": bloom,
        "mpt": mpt,
        "labml 2021": labml_slopes_2021,
        "jaketae": jaketae,
        "halving": halving,
        "off by one": off_by_one,
    }
)


def who_agrees(num_heads: int) -> list[dict[str, object]]:
    """Compare each system's slopes with the official ones.

    Returns one row per system: "system"; "slopes", a tuple of floats; "agrees", whether every slope equals the official
    one of that head to within a millionth; "largest_ratio", the largest factor between the two over all heads, 1 if
    they agree; "group", a letter shared by the systems that agree with each other.

    Raises as `alibi_slopes` does.

    >>> [row["system"] for row in who_agrees(12) if row["agrees"]]
    ['fairseq', 'bloom', 'mpt']
    """
    official = alibi_slopes(num_heads).double()
    rows: list[dict[str, object]] = []
    groups: list[torch.Tensor] = []
    for system, rule in SLOPE_RULES.items():
        slopes = torch.tensor(rule(num_heads), dtype=torch.float64)
        same = [index for index, other in enumerate(groups) if torch.allclose(slopes, other, rtol=1e-6, atol=0)]
        if not same:
            groups.append(slopes)
        ratio = torch.maximum(slopes / official, official / slopes).max()
        rows.append(
            {
                "system": system,
                "slopes": tuple(slopes.tolist()),
                "agrees": bool(torch.allclose(slopes, official, rtol=1e-6, atol=0)),
                "largest_ratio": round(float(ratio), 6),
                "group": chr(ord("A") + (same[0] if same else len(groups) - 1)),
            }
        )
    return rows
