"""Compare how other systems compute the slopes.

The formulas look nothing alike, yet most of them agree. Where they don't, it is often only for
unusual head counts.
"""

import math
from collections.abc import Callable, Mapping
from functools import partial

import torch
from torch import Tensor

from alibi_viz.slopes import alibi_slopes


def fairseq(num_heads: int) -> list[float]:
    """The authors' recursion (fairseq `transformer.py`, lines 742-753, repository of October 2023;
    flash-attention)."""
    closest = 2 ** math.floor(math.log2(num_heads))
    start = 2 ** -(2 ** -(math.log2(closest) - 3))
    slopes = [start ** (head + 1) for head in range(closest)]
    return (
        slopes
        if closest == num_heads
        else slopes + fairseq(2 * closest)[0::2][: num_heads - closest]
    )


def bloom(num_heads: int) -> list[float]:
    """Two geometric sequences, the second with odd exponents (BLOOM and Falcon in transformers,
    labml since 2022)."""
    closest = 2 ** math.floor(math.log2(num_heads))
    base, finer = 2 ** (-8 / closest), 2 ** (-4 / closest)
    first = [base**power for power in range(1, closest + 1)]
    return first + [finer**power for power in range(1, 2 * (num_heads - closest), 2)]


def mpt(num_heads: int) -> list[float]:
    """The sequence for the next power of two, even entries before odd ones (MPT in transformers
    5.24.0)."""
    above = 2 ** math.ceil(math.log2(num_heads))
    series = [2 ** (-8 * head / above) for head in range(1, above + 1)]
    return series if above == num_heads else (series[1::2] + series[0::2])[:num_heads]


def labml_slopes_2021(num_heads: int) -> list[float]:
    """One geometric sequence for any head count (labml, commit e06a89e2 of 28 August 2021; official
    since 2022)."""
    start = 2 ** -(2 ** -(math.log2(num_heads) - 3))
    return [start * start**head for head in range(num_heads)]


def jaketae(num_heads: int) -> list[float]:
    """The same sequence as powers of a root of 256 (jaketae/alibi, December 2021)."""
    root = 256 ** (1 / num_heads)
    return [1 / root ** (head + 1) for head in range(num_heads)]


def mlx_2023(num_heads: int) -> list[float]:
    """256^(-h/H) for every head count. attention-gym and flashinfer (March to April 2024) computed
    the same."""
    return [256 ** (-head / num_heads) for head in range(1, num_heads + 1)]


def halving(num_heads: int) -> list[float]:
    """1/2, 1/4, 1/8, ...: correct only for eight heads, the paper's example (a test of
    flash-attention)."""
    return [2.0**-head for head in range(1, num_heads + 1)]


def first_slope_is_one(num_heads: int) -> list[float]:
    """2^(-8h/p) for h = 0, 1, ..., where p is the largest power of two; the heads beyond p have the
    official slopes."""
    closest = 2 ** math.floor(math.log2(num_heads))
    first = [2 ** (-8 * head / closest) for head in range(closest)]
    return first + [2 ** (-4 * power / closest) for power in range(1, 2 * (num_heads - closest), 2)]


def flashinfer(num_heads: int, devices: int = 2) -> list[float]:
    """The slopes for num_heads / devices heads, on every device."""
    local_heads = num_heads // devices
    return alibi_slopes(local_heads).tolist() * devices


def llama_cpp_cann(num_heads: int) -> list[float]:
    """The last slopes are 0 here. In llama.cpp's flash attention, whatever was in that memory was
    used."""
    closest = 2 ** math.floor(math.log2(num_heads))
    slopes = [0.0] * num_heads
    for head in range(closest):
        slopes[head] = 2 ** (-8 * (head + 1) / closest)
    return slopes


SLOPE_RULES: Mapping[str, Callable[[int], list[float]]] = {
    "fairseq": fairseq,
    "bloom": bloom,
    "mpt": mpt,
    "labml 2021": labml_slopes_2021,
    "jaketae": jaketae,
    "mlx 2023": mlx_2023,
    "halving": halving,
    "realizar 2025": first_slope_is_one,
}


def compare_slope_rules(num_heads: int) -> list[dict[str, object]]:
    """Compare each system's slopes with the official ones.

    Returns one row per system: "system"; "agrees", whether every slope equals the official one of
    that head to within a millionth; "group", a letter shared by the systems that agree with each
    other. Raises as `alibi_slopes` does.

    >>> [row["system"] for row in compare_slope_rules(12) if row["agrees"]]
    ['fairseq', 'bloom', 'mpt']
    """
    close = partial(torch.allclose, rtol=1e-6, atol=0)
    official, groups = alibi_slopes(num_heads).double(), list[Tensor]()
    rows: list[dict[str, object]] = []
    for system, rule in SLOPE_RULES.items():
        slopes = torch.tensor(rule(num_heads), dtype=torch.float64)
        group = next(
            (index for index, other in enumerate(groups) if close(slopes, other)), len(groups)
        )
        if group == len(groups):
            groups.append(slopes)
        rows.append(
            {"system": system, "agrees": close(slopes, official), "group": chr(ord("A") + group)}
        )
    return rows
