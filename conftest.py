"""Shared by all tests and the examples in docstrings: one thread, one seed, the same examples.

Two runs do the same, on any machine and in any order. Only `--weekly` draws new examples.
"""

import gc
import random
from collections.abc import Generator

import numpy as np
import pytest
import torch
from hypothesis import settings

settings.register_profile("every run", deadline=None, derandomize=True)
settings.register_profile("weekly", deadline=None, max_examples=500)
# Equal numbers on every machine, and parallel processes do not slow each other down
torch.set_num_threads(1)


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add the option of the run that has time: `make weekly`."""
    parser.addoption(
        "--weekly",
        action="store_true",
        help="also run what takes long, such as compiling, and draw new examples",
    )


def pytest_configure(config: pytest.Config) -> None:
    """Choose how Hypothesis draws its examples, before any test is imported."""
    settings.load_profile("weekly" if config.getoption("weekly") else "every run")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Skip what belongs to the weekly run."""
    if config.getoption("weekly"):
        return
    for item in items:
        if item.get_closest_marker("weekly"):
            item.add_marker(pytest.mark.skip(reason="part of the weekly run: make weekly"))


def start_from_one_seed() -> None:
    """Seed every source of random numbers."""
    random.seed(0)
    np.random.seed(0)
    torch.manual_seed(0)


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup() -> None:
    """Make a fixture the same, whichever test asks for it first."""
    start_from_one_seed()


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_call() -> None:
    """Make a test the same, whatever ran before it."""
    start_from_one_seed()


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage while tests are imported: it took a third of that time."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()  # later searches leave out what was imported
        gc.enable()


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name functions in test ids; their default id is an address, different in each process."""
    return getattr(val, "__name__", None) if callable(val) else None
