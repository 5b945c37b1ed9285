"""Fixtures of several folders: a small BLOOM that is trained once, and a registry without custom methods afterwards."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from filelock import FileLock  # installed with torch
from torch.nn.functional import cross_entropy

from alibi_viz import lab
from alibi_viz.models import POSITIONS
from alibi_viz.models.positions import custom


@pytest.fixture
def forget_custom_methods() -> Iterator[None]:
    """Position methods that a test registers are unknown to other tests, and the other way round."""
    forget()
    yield
    forget()


def forget() -> None:
    """Remove all position methods that are not built in."""
    for name in custom._CUSTOM:
        POSITIONS.pop(name, None)
    custom._CUSTOM.clear()


@pytest.fixture(scope="session")
def trained_bloom(tmp_path_factory: pytest.TempPathFactory, worker_id: str) -> Any:
    """A BLOOM of bytes with 2 layers, trained on windows of 32 of the built-in text for about ten seconds."""
    transformers = pytest.importorskip("transformers")
    torch.manual_seed(0)
    model = transformers.BloomForCausalLM(transformers.BloomConfig(vocab_size=256, hidden_size=64, n_layer=2, n_head=4))
    folder = tmp_path_factory.getbasetemp()
    path = (folder if worker_id == "master" else folder.parent) / "bloom.pt"  # processes share the parent
    with FileLock(f"{path}.lock"):
        if not Path(path).exists():
            _train(model, lab.load_text().train.long(), length=32, steps=400, batch=32)
            torch.save(model.state_dict(), path)
    model.load_state_dict(torch.load(path))
    return model.eval()


def _train(model: torch.nn.Module, data: torch.Tensor, length: int, steps: int, batch: int) -> None:
    generator = torch.Generator().manual_seed(0)
    optimizer = torch.optim.AdamW(model.parameters(), lr=8e-3, weight_decay=0.0)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 8e-3, total_steps=steps)
    for _ in range(steps):
        starts = torch.randint(len(data) - length, (batch, 1), generator=generator)
        windows = data[starts + torch.arange(length + 1)]
        logits = model(windows[:, :-1], use_cache=False).logits
        loss = cross_entropy(logits.flatten(0, 1), windows[:, 1:].flatten())
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
