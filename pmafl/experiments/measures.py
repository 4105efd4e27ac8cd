"""The numbers that claims are about, each a function from the evidence to an array with an entry per seed.

A curve is a method and a value of what its figure varies. Accuracies are in percentage points.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import numpy as np

from pmafl.comparison import Array
from pmafl.experiments.evidence import Evidence, Value
from pmafl.experiments.policies import SET_EXPANSION
from pmafl.experiments.study import NotRun, NotTested
from pmafl.learning import workload
from pmafl.scheduling import sets_solved
from pmafl.settings import Settings, load
from pmafl.world import channel_gain, make_problem, wireless_world

FEW, MANY = 0, 1  # the first and the second number of devices in Figures 3 and 4
CONVERGED = 1e-6  # by which accuracy moves between evaluations
ROUNDS_COUNTED, EMPTY_SHARE = 100, 0.1
Curve = tuple[str, Value]
Measure = Callable[[Evidence], Array]


def lead(one: Curve, other: Curve) -> Measure:
    """Accuracy of one curve minus that of another, paired by seed."""
    return lambda runs: runs.final(*one) - runs.final(*other)


def lead_over_best(one: Curve, others: Iterable[Curve]) -> Measure:
    """Accuracy of one curve minus that of the curve that ends best of some others."""
    others = list(others)
    return lambda runs: runs.final(*one) - _highest(runs.final(*other) for other in others)


def less_loss(one: Curve, others: Iterable[Curve]) -> Measure:
    """Loss of the curve that ends lowest of some others minus that of one curve."""
    others = list(others)
    return lambda runs: -_highest(-runs.final(*other, "loss") for other in others) - runs.final(*one, "loss")


def _highest(curves: Iterable[Array]) -> Array:
    """The curve with the highest mean; one of which a run diverged is never that while there is another."""
    return max(curves, key=lambda values: -np.inf if np.isnan(values).any() else values.mean())


def lead_after(first: int) -> Measure:
    """Mean lead of many devices over few, from a round on."""

    def read(runs: Evidence) -> Array:
        rounds, values = runs.history("pma", MANY)
        if rounds[-1] < first:
            raise NotRun(f"the runs end at round {rounds[-1]:g}")
        leads = values - runs.history("pma", FEW)[1]
        return np.asarray(leads[:, rounds >= first].mean(axis=1))

    return read


def sensitivity(method: str) -> Measure:
    """How much more a method gains by many devices, instead of few, than `pma` does."""

    def gain(runs: Evidence, name: str) -> Array:
        return runs.final(name, MANY) - runs.final(name, FEW)

    return lambda runs: gain(runs, method) - gain(runs, "pma")


def extra_swing(method: str, value: Value) -> Measure:
    """How much more a method's accuracy moves between evaluations than `pma`'s, in the second half."""

    def moves(runs: Evidence, name: str) -> Array:
        _, values = runs.history(name, value)
        late = values[:, values.shape[1] // 2 :]
        if late.shape[1] < 2:
            raise NotRun("the runs were evaluated too seldom")
        return np.asarray(np.abs(np.diff(late, axis=1)).mean(axis=1))

    return lambda runs: moves(runs, method) - moves(runs, "pma")


def rounds_earlier(method: str, value: Value) -> Measure:
    """How many rounds earlier `pma` reaches what a method ends with than the method itself does.

    Where it is never reached the last round counts, so that the number is the most that it can be.
    """

    def first(runs: Evidence, name: str, target: Array) -> Array:
        rounds, values = runs.history(name, value)
        reached = values >= target[:, None]
        found = np.where(reached.any(axis=1), rounds[reached.argmax(axis=1)], rounds[-1])
        return np.asarray(np.where(np.isnan(values[:, -1]), np.nan, found))

    def read(runs: Evidence) -> Array:
        target = runs.final(method, value)
        return np.asarray(first(runs, method, target) - first(runs, "pma", target))

    return read


def converged_earlier(method: str, value: Value) -> Measure:
    """How many rounds earlier `pma` converges, as the paper defines it: accuracy moves by less than 1e-6.

    Where a run never does, its last round counts; where none does, nothing can be said.
    """

    def points(runs: Evidence, name: str) -> tuple[Array, bool]:
        rounds, values = runs.history(name, value)
        if len(rounds) < 2:
            raise NotRun("the runs were evaluated too seldom")
        still = np.abs(np.diff(values / 100, axis=1)) < CONVERGED
        found = np.where(still.any(axis=1), rounds[1:][still.argmax(axis=1)], rounds[-1])
        return np.asarray(found), bool(still.any())

    def read(runs: Evidence) -> Array:
        (theirs, some), (ours, any_of_ours) = points(runs, method), points(runs, "pma")
        if not (some or any_of_ours):
            raise NotTested("accuracies still move when the runs end")
        return theirs - ours

    return read


def extra_cost(algorithm: str, cost: str) -> Measure:
    """What an algorithm takes above `pma`, in percent: "upload_bits" or "operations"."""

    def of(settings: Settings) -> float:
        costs = workload(settings.learning)
        operations = costs.charged_iterations * costs.operations_per_sample
        return {"upload_bits": float(np.mean(costs.upload_bits)), "operations": operations}[cost]

    def read(runs: Evidence) -> Array:
        dataset = runs.study.scale.dataset
        one, other = (of(load(dataset, {"learning.algorithm": name})) for name in (algorithm, "pma"))
        return np.array([100 * (one / other - 1)])

    return read


def problems_spared(runs: Evidence) -> Array:
    """By how many the problems P6 that Algorithm 2 solves in the costliest of some rounds stay below K + 1.

    Queues are drawn, a tenth of them empty: a run's own depend on all rounds before.
    """
    world = wireless_world(load(runs.study.scale.dataset))
    fleet, rng = world.fleet, np.random.default_rng(0)
    counts = []
    for number in range(ROUNDS_COUNTED):
        queue_j = rng.exponential(fleet.budget_j) * (rng.random(fleet.devices) > EMPTY_SHARE)
        counts.append(sets_solved(make_problem(world, fleet, channel_gain(world, number), queue_j)))
    return np.array([float(fleet.devices + 1 - max(counts))])


def smallest_step(values: Sequence[str]) -> Measure:
    """Of set expansion's accuracy along a list of values; positive if it always rises."""

    def read(runs: Evidence) -> Array:
        accuracies = [runs.final(SET_EXPANSION, value) for value in values]
        steps = [after - before for before, after in pairwise(accuracies)]
        return steps[int(np.argmin([step.mean() for step in steps]))]  # one that is NaN counts as smallest

    return read


def more(metric: str, one: Curve, other: Curve) -> Measure:
    """A number of the runs without learning, how far one curve is above another, in percent."""
    return lambda runs: 100 * (runs.wireless(*one, metric) / runs.wireless(*other, metric) - 1)


def less(metric: str, one: Curve, other: Curve) -> Measure:
    """The same, how far below."""
    return lambda runs: 100 * (1 - runs.wireless(*one, metric) / runs.wireless(*other, metric))


def over_budget(curve: Curve) -> Measure:
    """What the worst device spends above its budget, in percent of it."""

    def read(runs: Evidence) -> Array:
        worst_j, budget_j = (runs.wireless(*curve, m) for m in ("max_energy_per_device_round_j", "budget_j"))
        return 100 * (worst_j / budget_j - 1)

    return read


def kept_budget(curve: Curve, margin: float) -> Measure:
    """How far the worst device stays below its budget and a margin, all in percent of the budget."""
    over = over_budget(curve)
    return lambda runs: margin - over(runs)


def power_deviation(average: bool) -> Measure:
    """How far radio's power is from the CPU's, in percent: the median over free allocations."""

    def read(runs: Evidence) -> Array:
        ratios = (seen["average_ratio" if average else "marginal_ratio"] for seen in runs.allocations)
        return np.array([100 * np.median(np.abs(ratio - 1)) for ratio in ratios if ratio.size])

    return read


def mostly_free(runs: Evidence) -> Array:
    """Allocations at neither limit, clock or power, in percent of all above one half."""
    return np.array(
        [100 * seen["marginal_ratio"].size / seen["clock_hz"].size - 50 for seen in runs.allocations]
    )


def faster_in_bad_channels(runs: Evidence) -> Array:
    """CPU clock of the third with the weakest channels above that of the strongest third, in percent."""
    ratios = []
    for seen in runs.allocations:
        weak, strong = np.quantile(seen["gain"], (1 / 3, 2 / 3))
        clocks = (
            seen["clock_hz"][seen["gain"] <= weak].mean(),
            seen["clock_hz"][seen["gain"] >= strong].mean(),
        )
        ratios.append(100 * (clocks[0] / clocks[1] - 1))
    return np.array(ratios)
