import numpy as np
import pytest
import torch
from torch import nn
from torch.nn import functional

from pmafl.theory.curvature import hessian_norms, spectral_norm, step_norms
from tests.rounding import ROUNDING

EXTRACTOR, PREDICTOR = 12, 5


def spectral_norms(hessian, split):
    """By numpy, of a Hessian with the extractor's `split` rows first: u, v, uv, vu."""
    u, v, cross = hessian[:split, :split], hessian[split:, split:], hessian[:split, split:]
    return np.array([np.linalg.norm(block, 2) for block in (u, v, cross, cross)])


@pytest.mark.parametrize("seed", range(10))
def test_hessian_norms_of_a_quadratic_are_those_of_its_matrix(seed):
    """Indefinite, so that the largest eigenvalue by size may be negative."""
    rng = np.random.default_rng(seed)
    matrix = rng.normal(size=(EXTRACTOR + PREDICTOR, EXTRACTOR + PREDICTOR))
    hessian = matrix + matrix.T
    first, second, third = (torch.randn(n, dtype=torch.float64) for n in (4, EXTRACTOR - 4, PREDICTOR))
    tensors = [t.requires_grad_() for t in (first, second, third)]
    flat = torch.cat(tensors)
    loss = flat @ torch.from_numpy(hessian) @ flat / 2
    found = hessian_norms(loss, tensors[:2], tensors[2:], rng)
    exact = spectral_norms(hessian, EXTRACTOR)
    assert np.array(found) == pytest.approx(exact, rel=1e-3)
    assert np.all(np.array(found) <= exact * (1 + ROUNDING))


def test_hessian_norms_of_softmax_regression_match_its_hessian_in_closed_form():
    """The Hessian is the mean of (diag(p) - p p') kron (x, 1)(x, 1)' over samples; weights u, biases v."""
    rng = np.random.default_rng(0)
    x, y = rng.normal(size=(40, 6)), rng.integers(0, 3, 40)
    network = nn.Linear(6, 3, dtype=torch.float64)
    scores = network(torch.from_numpy(x))
    found = hessian_norms(
        functional.cross_entropy(scores, torch.from_numpy(y)), [network.weight], [network.bias], rng
    )
    p = scores.softmax(dim=1).detach().numpy()
    spread = np.einsum("ni,ij->nij", p, np.eye(3)) - np.einsum("ni,nj->nij", p, p)
    with_one = np.concatenate([x, np.ones((40, 1))], axis=1)
    hessian = np.einsum("nij,na,nb->iajb", spread, with_one, with_one) / 40
    weights_first = np.argsort(np.tile([0] * 6 + [1], 3), kind="stable")
    ordered = hessian.reshape(21, 21)[np.ix_(weights_first, weights_first)]
    assert np.array(found) == pytest.approx(spectral_norms(ordered, 18), rel=1e-3)


def test_a_model_without_predictor_has_the_extractors_curvature_alone():
    weights = torch.tensor([1.0, 2.0], requires_grad=True)
    found = hessian_norms((3 * weights**2).sum(), [weights], [], np.random.default_rng(0))
    assert found == pytest.approx((6, 0, 0, 0))


def test_blocks_that_do_not_meet_have_no_cross_curvature():
    u, v = (torch.ones(3, requires_grad=True) for _ in range(2))
    found = hessian_norms((u**2).sum() + (2 * v**2).sum(), [u], [v], np.random.default_rng(0))
    assert found == pytest.approx((2, 4, 0, 0))


@pytest.mark.parametrize("matrix", [np.zeros((3, 3)), np.diag([1.0, -1.0]), np.diag([5.0]), np.eye(4)])
def test_degenerate_maps_have_the_right_norm(matrix):
    start = torch.ones(len(matrix), dtype=torch.float64)
    norm = spectral_norm(lambda vector: torch.from_numpy(matrix) @ vector, start)
    assert norm == pytest.approx(np.linalg.norm(matrix, 2))


def test_over_a_step_the_gradient_of_a_quadratic_changes_by_its_matrix():
    hessian = np.random.default_rng(2).normal(size=(7, 7))
    hessian, weights = hessian + hessian.T, np.arange(1.0, 8)
    found = step_norms(
        lambda w: torch.from_numpy(hessian) @ w, torch.from_numpy(weights), split=4, rates=(0.1, 0.3)
    )
    slope = hessian @ weights
    of_u, of_v = hessian[:, :4] @ slope[:4], hessian[:, 4:] @ slope[4:]
    lengths = np.linalg.norm(slope[:4]), np.linalg.norm(slope[4:])
    expected = of_u[:4] / lengths[0], of_v[4:] / lengths[1], of_v[:4] / lengths[1], of_u[4:] / lengths[0]
    assert np.array(found) == pytest.approx([np.linalg.norm(change) for change in expected])
    assert np.all(np.array(found) <= spectral_norms(hessian, 4) * (1 + ROUNDING))


def test_a_step_over_a_kink_shows_what_the_hessian_cannot():
    """|w| has no curvature anywhere but where its slope jumps from 1 to -1."""
    weights = torch.tensor([0.25], requires_grad=True)
    assert (
        hessian_norms(weights.abs().sum() + 0 * (weights**2).sum(), [weights], [], np.random.default_rng(0)).u
        == 0
    )
    assert step_norms(torch.sign, weights.detach(), split=1, rates=(0.5, 0.5)).u == pytest.approx(4)


def test_at_a_stationary_point_no_step_is_made():
    assert step_norms(torch.zeros_like, torch.ones(3), split=2, rates=(0.1, 0.1)) == (0, 0, 0, 0)
