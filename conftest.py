"""What every test and docstring example has: the public names, and one thread a process when several share cores."""

import os

import pytest
import torch

import alibi_viz

if "PYTEST_XDIST_WORKER" in os.environ:  # several processes with all cores each would stand in each other's way
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _names_in_docstrings(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace.update(torch=torch, av=alibi_viz, lab=alibi_viz.lab)
    doctest_namespace.update({name: getattr(alibi_viz, name) for name in alibi_viz.__all__})
