"""The bound against hand-computed values and against two-block quadratics whose constants are known."""

from dataclasses import dataclass, replace

import numpy as np
import pytest

from pmafl.errors import InputError, NoAnswer
from pmafl.theory import (
    Constants,
    contraction,
    largest_pl_constant,
    least_delta,
    round_bound,
    run_bound,
    step_bound,
)
from tests.rounding import ROUNDING

DEVICES, EXTRACTOR, PREDICTOR, RESIDUALS, ROUNDS = 5, 14, 3, 2, 30
SEEDS = range(200)
EITHER_SIDE_OF_HALF = pytest.mark.parametrize("rho_range", [(0, 0.5), (0.5, 1.5)])

HAND = Constants(
    lipschitz_u=2.0,
    lipschitz_v=8.0,
    lipschitz_uv=2.0,
    lipschitz_vu=1.0,
    delta=3.0,
    rho=0.4,
    optimum=1.0,
    extractor_rate=0.25,
    predictor_rate=0.1,
)


@dataclass
class Trace:
    """A run of plain partial model aggregation: what was seen before each round, and the last loss."""

    losses: np.ndarray
    global_norms_squared: np.ndarray
    device_norms_squared: np.ndarray
    scheduled_samples: np.ndarray


class Quadratics:
    """F_k(u, v) = |J_k (u, v) - c_k|^2 / 2 for K devices; J_k has the columns of u first."""

    def __init__(
        self, jacobians: np.ndarray, targets: np.ndarray, samples: np.ndarray, extractor: int
    ) -> None:
        self.jacobians, self.targets, self.samples, self.extractor = jacobians, targets, samples, extractor
        self.weights = samples / samples.sum()

    def residuals(self, u: np.ndarray, heads: np.ndarray) -> np.ndarray:
        joined = np.concatenate([np.broadcast_to(u, (len(heads), len(u))), heads], axis=1)
        return np.einsum("krw,kw->kr", self.jacobians, joined) - self.targets

    def loss(self, u: np.ndarray, heads: np.ndarray) -> float:
        return float(self.weights @ np.sum(self.residuals(u, heads) ** 2, axis=1) / 2)

    def gradients(self, u: np.ndarray, heads: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        both = np.einsum("krw,kr->kw", self.jacobians, self.residuals(u, heads))
        return both[:, : self.extractor], both[:, self.extractor :]

    def optimum(self) -> float:
        """Least loss over u and all heads: one least-squares problem in (u, v_1, ..., v_K)."""
        devices, rows, columns = self.jacobians.shape
        head = columns - self.extractor
        joint = np.zeros((devices, rows, self.extractor + devices * head))
        joint[:, :, : self.extractor] = self.jacobians[:, :, : self.extractor]
        for k in range(devices):
            start = self.extractor + k * head
            joint[k, :, start : start + head] = self.jacobians[k, :, self.extractor :]
        scale = np.sqrt(self.weights)[:, None]
        matrix = (scale[:, :, None] * joint).reshape(devices * rows, -1)
        target = (scale * self.targets).ravel()
        best = np.linalg.lstsq(matrix, target, rcond=None)[0]
        return float(np.sum((matrix @ best - target) ** 2) / 2)

    def constants(self, rate_share: float) -> Constants:
        """True smoothness constants; rates at a share of their limits; diversity still to be filled in."""
        first, second = self.jacobians[:, :, : self.extractor], self.jacobians[:, :, self.extractor :]
        norm = lambda matrices: float(np.linalg.norm(matrices, 2, axis=(1, 2)).max())  # noqa: E731
        cross = norm(np.einsum("kru,krv->kuv", first, second))
        draft = Constants(norm(first) ** 2, norm(second) ** 2, cross, cross, 0, 0, self.optimum(), 1, 1)
        return replace(
            draft,
            extractor_rate=rate_share * draft.largest_extractor_rate,
            predictor_rate=rate_share * draft.largest_predictor_rate,
        )

    def run(self, schedule: np.ndarray, limits: Constants, u: np.ndarray, heads: np.ndarray) -> Trace:
        """Equations (4), (5) and (6), one gradient step per scheduled device and round."""
        losses, global_norms, device_norms = [self.loss(u, heads)], [], []
        for scheduled in schedule:
            of_u, of_heads = self.gradients(u, heads)
            global_norms.append(np.sum((self.weights @ of_u) ** 2))
            device_norms.append(np.sum(of_u**2, axis=1))
            if scheduled.any():
                share = scheduled * self.samples / (scheduled @ self.samples)
                u = u - limits.extractor_rate * share @ of_u
            heads = heads - limits.predictor_rate * scheduled[:, None] * of_heads
            losses.append(self.loss(u, heads))
        volumes = schedule @ self.samples
        return Trace(np.array(losses), np.array(global_norms), np.array(device_norms), volumes)


def random_instance(rng: np.random.Generator, extractor: int) -> tuple[Quadratics, np.ndarray, np.ndarray]:
    samples = rng.integers(1, 100, DEVICES).astype(float)
    scales = rng.uniform(0.2, 1, extractor + PREDICTOR)
    jacobians = rng.normal(size=(DEVICES, RESIDUALS, extractor + PREDICTOR)) * scales
    problem = Quadratics(jacobians, rng.normal(size=(DEVICES, RESIDUALS)), samples, extractor)
    return problem, rng.normal(size=extractor), rng.normal(size=(DEVICES, PREDICTOR))


def random_run(
    rng: np.random.Generator, extractor: int = EXTRACTOR, rho_range: tuple[float, float] = (0, 0.5)
) -> tuple[Quadratics, Constants, Trace]:
    """A random problem, a random schedule (empty and full rounds included), and the least honest constants.

    The diversity assumption cannot hold with rho < 1 for all (u, V) of a quadratic, whose gradient grows
    without bound. The proofs use it at the iterates, so delta is the least one that holds there.
    """
    problem, u, heads = random_instance(rng, extractor)
    schedule = (rng.random((ROUNDS, DEVICES)) < rng.uniform(0.3, 1.0)).astype(float)
    schedule[0], schedule[1] = 0, 1
    limits = problem.constants(rate_share=rng.uniform(0.2, 1.0))
    trace = problem.run(schedule, limits, u, heads)
    rho = rng.uniform(*rho_range)
    delta = least_delta(trace.device_norms_squared, trace.global_norms_squared, rho)
    return problem, replace(limits, rho=rho, delta=delta), trace


def assert_below(measured: float | np.ndarray, bound: float | np.ndarray) -> None:
    assert np.all(measured <= bound + ROUNDING * (1 + np.abs(bound)))


# --- values computed by hand -------------------------------------------------------------------------------


def test_lemma_1_matches_hand_values() -> None:
    # chi = 2/4; extractor 1*2 + 0.75*2*4 = 8; predictors 3 + 0.75*8*1 = 9 and -1 + 0.75*8*0.25 = 0.5
    bound = step_bound(
        HAND, np.array([1.0]), np.array([2.0]), np.array([[3.0], [-2.0]]), np.array([[1.0], [0.5]]),
        samples=np.array([1.0, 3.0]),
    )  # fmt: skip
    assert bound == pytest.approx(8 + (9 + 3 * 0.5) / 4)


def test_lemma_2_matches_hand_values() -> None:
    # a quarter of the samples missing: 0.125*(4/16*0.16 - 1)*10 + 0.5/16*9
    assert round_bound(HAND, np.array(75.0), 100, np.array(10.0)) == pytest.approx(-1.2 + 0.28125)


def test_theorem_1_matches_hand_values() -> None:
    # A = 1 + 0.5*(0.64 r^2 - 1) with r = 1/2, 0, 1; added 4.5 r^2
    bound = run_bound(HAND, 11.0, np.array([50.0, 100.0, 0.0]), 100)
    assert bound.contraction == pytest.approx([0.58, 0.5, 0.82])
    assert bound.transient == pytest.approx([10, 5.8, 2.9, 2.378])
    assert bound.floor == pytest.approx([0, 1.125, 0.5625, 0.46125 + 4.5])
    assert bound.loss == pytest.approx(1 + bound.transient + bound.floor)


def test_a_polyak_lojasiewicz_constant_replaces_smoothness_only_where_a_round_contracts() -> None:
    limits = replace(HAND, rho=1.0, pl_constant=0.5)
    # r = 1/4: bracket -3/4, takes mu; r = 3/4: bracket 5/4, takes L_u
    expected = [1 - 0.25 * 0.5 * 0.75, 1 + 0.25 * 2 * 1.25]
    assert contraction(limits, np.array([75.0, 25.0]), 100) == pytest.approx(expected)


def test_lemma_1_is_attained_when_both_blocks_move_together() -> None:
    """F = (u + v)^2 / 2 has L_u = L_v = L_uv = 1, so chi = 1; from the optimum, the step (1, 1) costs 2."""
    problem = Quadratics(np.ones((1, 1, 2)), np.zeros((1, 1)), np.ones(1), extractor=1)
    flat, ones = np.zeros((1, 1)), np.ones((1, 1))
    bound = step_bound(problem.constants(rate_share=1.0), flat[0], ones[0], flat, ones, np.ones(1))
    assert problem.loss(ones[0], ones) == pytest.approx(bound) == pytest.approx(2)


@pytest.mark.parametrize(("rho", "pl_constant"), [(0.3, None), (1.0, None), (1.0, 1.0)])
def test_the_bound_is_attained_so_none_of_its_factors_can_shrink(
    rho: float, pl_constant: float | None
) -> None:
    """Scheduled devices pull one way, all others the opposite way, on parabolas of curvature L_u = 4.

    With rho = 1 the round expands, and the bound is attained whatever valid mu <= 4 is given.
    """
    curvature, samples, scheduled = 4.0, np.array([3.0, 7.0]), np.array([1.0, 0.0])
    jacobians = np.array([[[2.0, 0.0], [0.0, 1.0]]] * 2)
    problem = Quadratics(jacobians, np.array([[2.0, 0.0], [-2.0, 0.0]]), samples, extractor=1)
    limits = replace(problem.constants(rate_share=1.0), rho=rho, pl_constant=pl_constant)
    assert limits.extractor_rate == pytest.approx(1 / curvature)
    trace = problem.run(scheduled[None], limits, np.zeros(1), np.zeros((2, 1)))
    delta = least_delta(trace.device_norms_squared, trace.global_norms_squared, rho)
    limits = replace(limits, delta=delta)
    change = round_bound(limits, trace.scheduled_samples, 10, trace.global_norms_squared)
    assert np.diff(trace.losses) == pytest.approx(change)
    assert trace.losses == pytest.approx(run_bound(limits, trace.losses[0], trace.scheduled_samples, 10).loss)


# --- quadratics --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("extractor", [2, EXTRACTOR])
def test_lemma_1_holds_for_arbitrary_steps(extractor: int) -> None:
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        problem, u, heads = random_instance(rng, extractor)
        of_u, of_heads = problem.gradients(u, heads)
        step_u, steps_v = rng.normal(size=u.shape), rng.normal(size=heads.shape)
        change = problem.loss(u + step_u, heads + steps_v) - problem.loss(u, heads)
        limits = problem.constants(rate_share=1.0)
        bound = step_bound(limits, problem.weights @ of_u, step_u, of_heads, steps_v, problem.samples)
        assert_below(change, bound)


@pytest.mark.parametrize("extractor", [2, EXTRACTOR])
@EITHER_SIDE_OF_HALF
def test_lemma_2_holds_in_every_round_for_every_schedule(
    extractor: int, rho_range: tuple[float, float]
) -> None:
    for seed in SEEDS:
        problem, limits, trace = random_run(np.random.default_rng(seed), extractor, rho_range)
        total = problem.samples.sum()
        assert_below(
            np.diff(trace.losses),
            round_bound(limits, trace.scheduled_samples, total, trace.global_norms_squared),
        )


@EITHER_SIDE_OF_HALF
def test_theorem_1_holds_in_every_round_where_the_extractor_alone_can_fit_all_devices(
    rho_range: tuple[float, float],
) -> None:
    """More extractor weights than residuals: mu = lambda_min(P^1/2 J_u J_u' P^1/2) > 0 for all (u, V)."""
    assert DEVICES * RESIDUALS < EXTRACTOR
    for seed in SEEDS:
        problem, limits, trace = random_run(np.random.default_rng(seed), EXTRACTOR, rho_range)
        of_u = np.sqrt(problem.weights)[:, None, None] * problem.jacobians[:, :, :EXTRACTOR]
        stacked = of_u.reshape(-1, EXTRACTOR)
        known = replace(limits, pl_constant=float(np.linalg.eigvalsh(stacked @ stacked.T)[0]))
        total = problem.samples.sum()
        assert_below(trace.losses, run_bound(known, trace.losses[0], trace.scheduled_samples, total).loss)


@pytest.mark.parametrize("extractor", [2, EXTRACTOR])
@EITHER_SIDE_OF_HALF
def test_theorem_1_holds_with_the_largest_constant_that_the_iterates_allow(
    extractor: int, rho_range: tuple[float, float]
) -> None:
    for seed in SEEDS:
        problem, limits, trace = random_run(np.random.default_rng(seed), extractor, rho_range)
        seen = largest_pl_constant(trace.global_norms_squared, trace.losses[:-1], limits.optimum)
        assert 0 < seen <= limits.lipschitz_u * (1 + ROUNDING)
        sharp = replace(limits, pl_constant=seen)
        total = problem.samples.sum()
        assert_below(trace.losses, run_bound(sharp, trace.losses[0], trace.scheduled_samples, total).loss)


def test_theorem_1_as_printed_holds_where_curvature_is_equal_in_all_directions() -> None:
    """Then |grad_u F|^2 = 2 L_u (F - F*) exactly, provided that the heads have nothing left to learn."""
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        jacobians = np.broadcast_to(np.diag([1.5, 1.5, 1.5, rng.uniform(0.5, 2)]), (DEVICES, 4, 4))
        targets = np.concatenate([rng.normal(size=(DEVICES, 3)), np.zeros((DEVICES, 1))], axis=1)
        problem = Quadratics(jacobians, targets, rng.integers(1, 100, DEVICES).astype(float), extractor=3)
        limits = replace(problem.constants(rate_share=rng.uniform(0.2, 1)), rho=rng.uniform(0, 1.5))
        schedule = (rng.random((ROUNDS, DEVICES)) < 0.6).astype(float)
        trace = problem.run(schedule, limits, rng.normal(size=3), np.zeros((DEVICES, 1)))
        delta = least_delta(trace.device_norms_squared, trace.global_norms_squared, limits.rho)
        total = problem.samples.sum()
        bound = run_bound(replace(limits, delta=delta), trace.losses[0], trace.scheduled_samples, total)
        assert_below(trace.losses, bound.loss)


# --- where the printed form fails --------------------------------------------------------------------------


def test_the_printed_form_is_violated_when_the_extractor_rests_and_the_heads_still_learn() -> None:
    """F_k = (u^2 + v^2)/2 from u = 0, v = 1: the extractor's gradient is 0, the loss is not, so mu = 0."""
    problem = Quadratics(np.array([np.eye(2)] * 2), np.zeros((2, 2)), np.ones(2), extractor=1)
    limits = replace(problem.constants(rate_share=1.0), predictor_rate=0.1)
    trace = problem.run(np.ones((3, 2)), limits, np.zeros(1), np.ones((2, 1)))
    assert largest_pl_constant(trace.global_norms_squared, trace.losses[:-1], limits.optimum) == 0
    printed = run_bound(limits, trace.losses[0], trace.scheduled_samples, 2)
    assert printed.loss == pytest.approx([0.5, 0, 0, 0])
    assert trace.losses == pytest.approx(0.5 * 0.81 ** np.arange(4))


def test_the_printed_form_is_violated_when_curvature_differs_between_directions() -> None:
    """F_k = (4 u_1^2 + u_2^2)/2 satisfies the inequality with mu = 1, not with the printed L_u = 4."""
    problem = Quadratics(np.array([np.diag([2.0, 1.0, 1.0])] * 2), np.zeros((2, 3)), np.ones(2), extractor=2)
    limits = problem.constants(rate_share=0.5)
    trace = problem.run(np.ones((5, 2)), limits, np.array([0.0, 1.0]), np.zeros((2, 1)))
    printed = run_bound(limits, trace.losses[0], trace.scheduled_samples, 2)
    assert np.all(trace.losses[1:] > printed.loss[1:])
    right = run_bound(replace(limits, pl_constant=1.0), trace.losses[0], trace.scheduled_samples, 2)
    assert_below(trace.losses, right.loss)


def test_the_printed_form_is_violated_on_most_random_quadratics_under_full_participation() -> None:
    violated = 0
    for seed in SEEDS:
        problem, u, heads = random_instance(np.random.default_rng(seed), EXTRACTOR)
        limits = problem.constants(rate_share=0.5)
        trace = problem.run(np.ones((ROUNDS, DEVICES)), limits, u, heads)
        printed = run_bound(limits, trace.losses[0], trace.scheduled_samples, problem.samples.sum())
        violated += bool(np.any(trace.losses > printed.loss + 1e-9))
    assert violated > 0.9 * len(SEEDS)


# --- what the bound says about schedules -------------------------------------------------------------------


def test_more_scheduled_samples_never_raise_the_bound_in_any_round() -> None:
    rng = np.random.default_rng(0)
    for rho in (0.0, 0.4, 2.0):
        few = rng.uniform(0, 100, ROUNDS)
        more = few + rng.uniform(0, 1, ROUNDS) * (100 - few)
        limits = replace(HAND, rho=rho)
        assert_below(run_bound(limits, 5.0, more, 100).gap, run_bound(limits, 5.0, few, 100).gap)
        assert run_bound(limits, 5.0, more, 100).gap[-1] < run_bound(limits, 5.0, few, 100).gap[-1]


def test_the_floor_comes_from_unscheduled_samples() -> None:
    bound = run_bound(HAND, 5.0, np.full(400, 80.0), 100)
    missed = 0.2**2
    stationary = 2 * HAND.delta**2 * missed / (HAND.lipschitz_u * (1 - 4 * missed * HAND.rho**2))
    assert bound.transient[-1] < 1e-12
    assert bound.floor[-1] == pytest.approx(stationary)


def test_full_participation_removes_the_floor() -> None:
    bound = run_bound(HAND, 5.0, np.full(400, 100.0), 100)
    assert np.all(bound.floor == 0)
    assert bound.gap == pytest.approx(4 * 0.5 ** np.arange(401.0))


@EITHER_SIDE_OF_HALF
def test_scheduling_at_most_half_of_the_samples_never_promises_a_lower_loss(
    rho_range: tuple[float, float],
) -> None:
    """max |grad_u F_k| >= |grad_u F| forces delta^2 >= (1 - rho^2) |grad_u F|^2; the rest is algebra."""
    for seed in SEEDS:
        rng = np.random.default_rng(seed)
        problem, limits, trace = random_run(rng, EXTRACTOR, rho_range)
        total = problem.samples.sum()
        half = rng.uniform(0, total / 2, ROUNDS)
        assert_below(0.0, round_bound(limits, half, total, trace.global_norms_squared))
        seen = largest_pl_constant(trace.global_norms_squared, trace.losses[:-1], limits.optimum)
        gap = run_bound(replace(limits, pl_constant=seen), trace.losses[0], half, total).gap
        assert_below(gap[0], gap)


# --- numbers and mistakes ----------------------------------------------------------------------------------


def test_products_beyond_the_largest_float_come_back() -> None:
    growing = replace(HAND, rho=50.0, extractor_rate=0.5)
    schedule = np.concatenate([np.zeros(1000), np.full(10, 100.0)])
    bound = run_bound(growing, 5.0, schedule, 100)
    assert bound.gap[1000] == np.inf
    assert bound.gap[-1] == 0
    shrinking = run_bound(HAND, 5.0, np.full(100_000, 100.0), 100)
    assert shrinking.gap[-1] == 0
    assert np.all(np.isfinite(shrinking.gap))


def test_a_negative_factor_has_no_answer() -> None:
    with pytest.raises(NoAnswer, match=r"extractor rate is 2, the condition allows 0\.333"):
        run_bound(replace(HAND, extractor_rate=2.0), 5.0, np.array([50.0, 100.0]), 100)


def test_impossible_schedules_and_losses_are_named() -> None:
    with pytest.raises(InputError, match=r"holds 101; each must lie in 0\.\.100"):
        run_bound(HAND, 5.0, np.array([50.0, 101.0]), 100)
    with pytest.raises(InputError, match=r"start loss is 0\.5"):
        run_bound(HAND, 0.5, np.array([50.0]), 100)
