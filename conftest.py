"""Shared by all tests and the examples in docstrings: one thread per process."""

import gc
from collections.abc import Generator

import pytest
import torch
from hypothesis import settings

settings.register_profile("no deadline", deadline=None)  # a busy machine is not a failure
settings.load_profile("no deadline")
# Equal numbers on every machine, and parallel processes do not slow each other down
torch.set_num_threads(1)


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
