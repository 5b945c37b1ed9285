"""What every docstring's example may use without importing it."""

import pytest
import torch

import alibi_viz


@pytest.fixture(autouse=True)
def _names_in_docstrings(doctest_namespace: dict[str, object]) -> None:
    doctest_namespace.update(torch=torch, av=alibi_viz)
    doctest_namespace.update({name: getattr(alibi_viz, name) for name in alibi_viz.__all__})
