"""Runs that take a moment, for the tests of sweeps and for the script of one that is killed.

It imports no pytest, because each worker process of that script reads it.
"""

from dataclasses import replace

from alibi_viz import lab
from tests.custom_laws import steep
from tests.tables import SMALL


def tiny_run(number=0, **settings):
    """One of many different runs: alibi and none in turn, with a new seed after every two."""
    tiny = {
        "position": ("alibi", "none")[number % 2],
        "length": 16,
        "steps": 4,
        "longest": 2,
        "model": SMALL,
        "seed": 3 + number // 2,
    }
    return lab.Run(**{**tiny, **settings})


def runs(count, **settings):
    return [tiny_run(number, **settings) for number in range(count)]


def finite():
    """Two runs of methods with a name, and two of own functions."""

    def local(distance, head, num_heads):  # pickle could not send it
        return -distance.float() / head

    own_methods = [replace(tiny_run(), position=law, label="") for law in (local, steep(2.0))]
    return [*runs(2), *own_methods]


def endless():
    """More runs than there are workers, which take longer than any test."""
    return runs(3, steps=100_000)
