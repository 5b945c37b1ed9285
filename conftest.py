"""Shared by all tests: one thread per process, and the names that docstring examples use without
importing them."""

import pandas as pd
import pytest
import torch
from hypothesis import settings

import alibi_viz

settings.register_profile("no deadline", deadline=None)  # a busy machine is not a failure
settings.load_profile("no deadline")
torch.set_num_threads(
    1
)  # equal numbers on every machine, and parallel processes do not slow each other down


def pytest_make_parametrize_id(val: object) -> str | None:
    """Name functions in test ids; their default id, an address, differs between the processes of a
    parallel run."""
    return getattr(val, "__name__", None) if callable(val) else None


@pytest.fixture(autouse=True)
def _names_in_docstrings(
    request: pytest.FixtureRequest, doctest_namespace: dict[str, object]
) -> None:
    if isinstance(request.node, pytest.DoctestItem):
        doctest_namespace.update({name: getattr(alibi_viz, name) for name in alibi_viz.__all__})
        doctest_namespace.update(
            torch=torch,
            pd=pd,
            av=alibi_viz,
            lab=alibi_viz.lab,
            lessons=alibi_viz.lessons,
            study=alibi_viz.study,
        )
