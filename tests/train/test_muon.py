"""Muon takes steps that go equally far in every direction of a matrix."""

import copy

import pytest
import torch

from alibi_viz.train.muon import Muon, orthogonalized
from tests.rows import each_case

each_shape = each_case("shape", {"square": (64, 64), "tall": (96, 32), "wide": (32, 96)})


def random_matrix(*shape, seed=0):
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def with_singular_values(values, shape):
    left, _, right = torch.linalg.svd(random_matrix(*shape), full_matrices=False)
    return left @ torch.diag(values) @ right


def after_steps(matrix, gradients, **options):
    """The matrix after a step with each of the gradients."""
    weight = matrix.clone().requires_grad_()
    parts = options.pop("parts", 1)
    optimizer = Muon([{"params": [weight], "parts": parts}], **{"lr": 0.1, **options})
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimizer.step()
    return weight.detach()


# The orthogonalization


@each_shape
def test_all_singular_values_become_about_one(shape):
    matrix = with_singular_values(torch.linspace(10, 1, min(shape)), shape)
    values = torch.linalg.svdvals(orthogonalized(matrix))
    assert float(values.min()) > 0.5
    assert float(values.max()) < 1.3


@each_shape
def test_the_singular_vectors_stay(shape):
    matrix = random_matrix(*shape)
    left, _, right = torch.linalg.svd(matrix, full_matrices=False)
    values = left.mT @ orthogonalized(matrix) @ right.mT
    torch.testing.assert_close(values, torch.diag(values.diagonal()), atol=1e-4, rtol=0)
    assert bool((values.diagonal() > 0).all())


def test_the_length_of_a_matrix_does_not_matter():
    matrix = random_matrix(8, 8)
    torch.testing.assert_close(orthogonalized(1e-3 * matrix), orthogonalized(matrix))


def test_matrices_in_a_batch_are_orthogonalized_one_by_one():
    matrices = random_matrix(3, 16, 8)
    alone = torch.stack([orthogonalized(matrix) for matrix in matrices])
    torch.testing.assert_close(orthogonalized(matrices), alone)


def test_zeros_stay_zeros():
    assert not orthogonalized(torch.zeros(4, 8)).any()


# A step


@pytest.mark.skipif(not hasattr(torch.optim, "Muon"), reason="older versions of torch have no Muon")
@each_shape
def test_steps_are_those_of_torch_but_for_the_rounding_of_bfloat16(shape):
    matrix = random_matrix(*shape)
    gradients = [random_matrix(*shape, seed=seed) for seed in (1, 2, 3)]
    weight = matrix.clone().requires_grad_()
    optimizer = torch.optim.Muon(
        [weight],
        lr=0.1,
        momentum=0.8,
        weight_decay=0.1,
        ns_steps=4,
        adjust_lr_fn="match_rms_adamw",
    )
    for gradient in gradients:
        weight.grad = gradient.clone()
        optimizer.step()

    change = after_steps(matrix, gradients) - matrix
    change_of_torch = weight.detach() - matrix
    difference = (change - change_of_torch).norm() / change_of_torch.norm()
    assert float(difference) < 0.02


@each_shape
def test_a_step_is_about_as_long_as_one_of_adamw(shape):
    matrix = torch.zeros(shape)
    update = after_steps(matrix, [random_matrix(*shape)], lr=0.01)
    root_mean_square = float(update.square().mean().sqrt())
    assert 0.1 < root_mean_square / 0.01 < 0.4


def test_each_part_of_a_matrix_is_turned_on_its_own():
    gradient = random_matrix(24, 8)
    together = after_steps(torch.zeros(24, 8), [gradient], parts=3)
    one_by_one = [after_steps(torch.zeros(8, 8), [part]) for part in gradient.split(8)]
    torch.testing.assert_close(together, torch.cat(one_by_one))


def test_weight_decay_shrinks_a_matrix():
    matrix = random_matrix(8, 8)
    no_gradient = torch.zeros(8, 8)
    shrunk = after_steps(matrix, [no_gradient], lr=0.5, weight_decay=0.2)
    torch.testing.assert_close(shrunk, 0.9 * matrix)


def test_a_step_remembers_earlier_gradients():
    first = random_matrix(8, 8)
    second = random_matrix(8, 8, seed=1)
    after_one = after_steps(torch.zeros(8, 8), [second], weight_decay=0)
    after_both = after_steps(torch.zeros(8, 8), [first, second], weight_decay=0)
    after_first = after_steps(torch.zeros(8, 8), [first], weight_decay=0)
    assert not torch.allclose(after_both - after_first, after_one, atol=1e-3)


def test_a_frozen_matrix_stays():
    frozen = random_matrix(8, 8)
    trained = random_matrix(8, 8, seed=1).requires_grad_()
    optimizer = Muon([{"params": [frozen.requires_grad_(), trained]}], lr=0.1)
    before = copy.deepcopy(frozen)
    trained.grad = random_matrix(8, 8, seed=2)
    optimizer.step()
    torch.testing.assert_close(frozen, before, atol=0, rtol=0)


# What it refuses


def test_it_refuses_a_vector():
    with pytest.raises(ValueError, match=r"matrices \[rows, columns\].*got shape \[8\]"):
        Muon([{"params": [torch.zeros(8, requires_grad=True)]}], lr=0.1)


def test_it_refuses_a_matrix_that_does_not_have_so_many_parts():
    weight = torch.zeros(8, 8, requires_grad=True)
    with pytest.raises(ValueError, match=r"3 matrices.*got shape \[8, 8\]"):
        Muon([{"params": [weight], "parts": 3}], lr=0.1)
