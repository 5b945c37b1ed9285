"""At the lab's training length of 64 bytes, the part that defines each method makes a difference."""

import pytest
import torch

from alibi_viz import lab
from alibi_viz.lab.training import LENGTH


def position(name: str, **fields):
    return lab.make_model(name, max_length=LENGTH, **fields).transformer.position


def test_most_heads_of_alibi_and_of_decay_forget_within_the_training_length() -> None:
    """By the factor e or more, from one end of a training window to the other."""
    assert [(position(name).slopes * LENGTH >= 1).sum().item() for name in ("alibi", "decay")] == [6, 7]


def test_a_forget_gate_starts_as_alibi_and_learns_from_the_text() -> None:
    model = lab.make_model("forget", max_length=LENGTH)
    list(lab.train(model, lab.load_text(), steps=3))
    assert float(model.transformer.position.gate.weight.detach().abs().max()) > 1e-3


def test_every_bucket_of_t5_is_trained_and_the_last_one_holds_most_distances() -> None:
    buckets = position("t5").bucket(torch.arange(LENGTH))
    assert set(buckets.tolist()) == set(range(16)) and float((buckets == 15).float().mean()) > 0.7


def test_fire_squeezes_distances_in_three_quarters_of_a_training_window() -> None:
    with torch.no_grad():
        bias = position("fire").bias(LENGTH, LENGTH)
    to_neighbor = bias.diagonal(-1, 1, 2)[0]  # of queries 1, 2, ...: the same distance of 1
    assert to_neighbor[:16].unique().numel() == 1 and to_neighbor[16:].unique().numel() == LENGTH - 17


def test_xpos_decays_to_less_than_a_tenth_over_a_training_window() -> None:
    growth = position("xpos").growth(torch.tensor([0, LENGTH]))
    assert float((growth[1] / growth[0]).min()) < 0.1


def test_cope_counts_up_to_its_last_vector_and_caps_farther_keys() -> None:
    cope = position("cope")
    positions = cope.positions(torch.zeros(1, 1, 1, LENGTH), torch.ones(1, LENGTH, dtype=torch.bool))
    assert float(positions.max()) == len(cope.vectors) - 1 == 16
    assert (positions == 16).sum() == pytest.approx(LENGTH / 2, abs=1)
