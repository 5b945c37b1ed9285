"""What every test and docstring example has: the public names, and one thread a process."""

import pytest
import torch

import alibi_viz

torch.set_num_threads(1)  # the same numbers on every machine, and processes side by side out of each other's way


@pytest.fixture(autouse=True)
def _names_in_docstrings(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace.update(torch=torch, av=alibi_viz, lab=alibi_viz.lab)
    doctest_namespace.update({name: getattr(alibi_viz, name) for name in alibi_viz.__all__})
