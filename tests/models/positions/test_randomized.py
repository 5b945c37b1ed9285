"""Randomized positions: drawn in order in training, evenly spread in evaluation, and reproducible."""

from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from alibi_viz import TransformerConfig, lab
from alibi_viz.models.positions import Randomized, Sinusoidal


def test_training_draws_different_positions_of_the_whole_range_in_order() -> None:
    position = Randomized(8, max_length=50)
    torch.manual_seed(0)
    draws = torch.stack([position.positions(10) for _ in range(200)])
    assert bool((draws.diff() > 0).all())
    assert len(draws.unique(dim=0)) > 190
    assert draws.unique().tolist() == list(range(50))


@pytest.mark.parametrize("length", [0, 1, 2, 7, 32, 63, 64])
def test_evaluation_uses_the_mean_of_the_drawn_positions_rounded_down(length: int) -> None:
    position = Randomized(8, max_length=64).eval()
    expected = [(i + 1) * 65 // (length + 1) - 1 for i in range(length)]
    assert position.positions(length).tolist() == expected
    assert len(set(expected)) == length
    assert all(0 <= place < 64 for place in expected)
    if length > 1:
        torch.manual_seed(0)
        means = torch.stack([position.train().positions(length) for _ in range(4000)]).double().mean(0)
        assert bool(((means - torch.tensor(expected)).abs() < 1.7).all())  # rounding, and four standard errors


def test_embedding_adds_the_sinusoids_of_the_positions_for_all_texts_of_a_batch() -> None:
    position, tokens = Randomized(8, max_length=64).eval(), torch.randn(3, 5, 8)
    expected = tokens + Sinusoidal(8).table(position.positions(5))
    assert torch.equal(position.embed(tokens), expected)
    added = position.train().embed(tokens) - tokens
    torch.testing.assert_close(added[0], added[2])
    assert not torch.allclose(added[0], expected[0] - tokens[0])


def test_range_is_16_times_the_training_length_and_ends_there() -> None:
    position = Randomized.from_config(TransformerConfig(d_model=8, num_heads=2, max_length=4))
    assert [position.is_defined_at(length) for length in (64, 65)] == [True, False]
    assert position.positions(64).tolist() == list(range(64))
    for mode in (True, False):
        with pytest.raises(ValueError, match="not defined beyond length 64, got 65"):
            position.train(mode).embed(torch.zeros(1, 65, 8))
    with pytest.raises(ValueError, match="depend on the length of the text, so start must be 0, got 3"):
        position.embed(torch.zeros(1, 1, 8), start=3)


def losses(seed: int) -> list[float]:
    model = lab.make_model("randomized", max_length=16)
    return [step.loss for step in lab.train(model, lab.load_text(), length=16, steps=12, seed=seed, device="cpu")]


def test_equal_seeds_train_equally_whatever_is_drawn_elsewhere_and_other_seeds_differ() -> None:
    torch.manual_seed(1)
    first = losses(seed=3)
    torch.manual_seed(2)
    state = torch.get_rng_state()
    assert losses(seed=3) == first
    assert torch.equal(torch.get_rng_state(), state)
    assert losses(seed=4) != first


def test_threads_that_train_at_the_same_time_give_the_numbers_of_one() -> None:
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        alone = [losses(seed) for seed in range(4)]
        with ThreadPoolExecutor(4, initializer=torch.set_num_threads, initargs=(1,)) as pool:
            assert list(pool.map(losses, range(4))) == alone
    finally:
        torch.set_num_threads(threads)
