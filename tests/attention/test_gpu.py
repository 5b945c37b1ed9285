"""Attention and training on a GPU; skipped where there is none."""

import pytest
import torch

from benchmarks import gpu

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a GPU")


@pytest.mark.parametrize("dtype", gpu.ERRORS, ids=str)
def test_outputs_and_gradients_of_every_backend_are_exact(dtype):
    assert [row for row in gpu.errors(dtype, length=1031) if not row.is_met] == []


def test_models_are_trained_and_tested():
    assert [row for row in gpu.race(steps=20) if row.is_met is False] == []
