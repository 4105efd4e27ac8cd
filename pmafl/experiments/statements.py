"""What the paper claims: every number of its abstract and Section V, and what it says beside them in words.

Each is a `Claim` with the function that reads our number from runs. The reasons at the end are what was found
where a claim did not come out.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import pairwise

import numpy as np

from pmafl.comparison import Array
from pmafl.experiments.claims import Claim
from pmafl.experiments.evidence import Evidence, NotRun
from pmafl.experiments.policies import OCEAN_SPLIT

SET_EXPANSION, OCEAN, RS_WEL = "set-expansion", "ocean", "rs-wel"
FEDREP = ("fedrep, double work", "fedrep, equal work")
FEW, MANY = 0, 1  # the first and the second number of devices in Figures 3 and 4
Value = str | int
Curve = tuple[str, Value]  # method and value
Read = Callable[[Evidence], Array]


def all_claims() -> list[Claim]:
    return [
        *shared_layers("mnist", best=2, last=4),
        *shared_layers("cifar10", best=4, last=5),
        *algorithms("fig3", "mnist", (3.13, 0.79)),
        *algorithms("fig4", "cifar10", (11.8, 3.3)),
        *budgets_mnist(),
        *budgets_cifar10(),
        *powers("mnist"),
        *powers("cifar10"),
        *deadlines_mnist(),
        *deadlines_cifar10(),
        *tradeoffs("mnist", (3.46, 1.94, 0.63), budget_j=0.1),
        *tradeoffs("cifar10", (1.05, 1.23, None), budget_j=2.0),
    ]


def shared_layers(dataset: str, best: int, last: int) -> Iterator[Claim]:
    claim = partial(Claim, where="Section II, Fig. 2", figure="fig2", dataset=dataset)
    others = [n for n in range(last + 1) if n != best]
    yield claim(f"sharing n = {best} layers is best", lead_of_layers(best, others))
    yield claim(f"the global model (n = {last}) is worse than local ones (n = 0)", lead_of_layers(0, [last]))


def algorithms(figure: str, dataset: str, gains: tuple[float, float]) -> Iterator[Claim]:
    claim = partial(Claim, where=f"Section V-B, Fig. {figure[3]}", figure=figure, dataset=dataset)
    for value, devices, gain in zip((FEW, MANY), (10, 50), gains, strict=True):
        plain = ahead_of(("fedavg", "fedprox"), value)
        yield claim(f"{devices} devices: PMA-FL ends above FedAvg and Regularized FL", plain, gain)
        yield claim(
            f"{devices} devices: PMA-FL ends above FedRep, the better reading of it",
            ahead_of(FEDREP, value),
            gain,
        )
        for name in ("fedavg", "fedprox"):
            text = f"{devices} devices: PMA-FL converges faster (rounds earlier with what {name} ends with)"
            yield claim(text, rounds_saved(name, value), unit="rounds")
    text = "after 40 rounds, PMA-FL with 10 devices is like with 50 (mean lead of 50)"
    yield claim(text, lead_after(40), kind="similar")
    text = "few devices hardly reduce PMA-FL's final accuracy (lead of 50)"
    yield claim(text, lead(("pma", MANY), ("pma", FEW)), kind="similar")
    for name in ("fedavg", "fedprox"):
        text = f"with 10 devices {name} is unstable (how much more it moves between evaluations than PMA-FL)"
        yield claim(text, extra_swing(name, FEW))


def budgets_mnist() -> Iterator[Claim]:
    claim = partial(Claim, where="Section V-C, Fig. 5a", figure="fig5", dataset="mnist")
    yield from against_ocean(claim, "0.14 J", "0.14 J", 3.28)
    yield from against_ocean(claim, "0.1 J", "0.14 J", 2.59)
    energy = less_energy((SET_EXPANSION, "0.1 J"), (OCEAN, "0.14 J"))
    text = "29% less energy than OCEAN (0.1 J against 0.14 J): energy really spent"
    yield claim(text, energy, 29, where="abstract", unit="%")
    yield claim("0.14 J: slightly above RS-WEL", lead((SET_EXPANSION, "0.14 J"), (RS_WEL, "0.14 J")))


def budgets_cifar10() -> Iterator[Claim]:
    claim = partial(Claim, where="Section V-C, Fig. 5b", figure="fig5", dataset="cifar10")
    yield from against_ocean(claim, "4 J", "4 J", 1.85)
    yield from against_ocean(claim, "3 J", "4 J", 1.25)
    energy = less_energy((SET_EXPANSION, "3 J"), (OCEAN, "4 J"))
    text = "25% less energy than OCEAN (3 J against 4 J): energy really spent"
    yield claim(text, energy, 25, where="abstract", unit="%")
    for method in (OCEAN, RS_WEL):
        yield claim(
            f"2 J: like {method} (4 J)", lead((SET_EXPANSION, "2 J"), (method, "4 J")), kind="similar"
        )


def powers(dataset: str) -> Iterator[Claim]:
    claim = partial(Claim, where="Section IV-A, remark", figure="fig5", dataset=dataset, unit="%")
    text = "the optimum has equal marginal power of CPU and radio (median deviation)"
    yield claim(text, unequal_powers(average=False), kind="similar")
    text = "the same to the letter: equal power, as averages (median deviation)"
    yield claim(text, unequal_powers(average=True), kind="similar")


def deadlines_mnist() -> Iterator[Claim]:
    claim = partial(Claim, where="Section V-C, Fig. 6a", figure="fig6", dataset="mnist")
    yield from against_ocean(claim, "2.5 s", "2.5 s", 3.45)
    yield from against_ocean(claim, "2 s", "2.5 s", 2.3)
    yield claim("2.5 s: a minor gain over RS-WEL", lead((SET_EXPANSION, "2.5 s"), (RS_WEL, "2.5 s")))
    yield claim("1.5 s: not as good as OCEAN at 2.5 s", lead((OCEAN, "2.5 s"), (SET_EXPANSION, "1.5 s")))
    yield claim(
        "a longer deadline improves learning (smallest step)", smallest_step(("1.5 s", "2 s", "2.5 s"))
    )


def deadlines_cifar10() -> Iterator[Claim]:
    claim = partial(Claim, where="Section V-C, Fig. 6b", figure="fig6", dataset="cifar10")
    yield from against_ocean(claim, "16 s", "16 s", 2.17)
    yield from against_ocean(claim, "14 s", "16 s", None)
    yield claim("16 s: above RS-WEL", lead((SET_EXPANSION, "16 s"), (RS_WEL, "16 s")), 0.75)
    yield claim("14 s: like RS-WEL", lead((SET_EXPANSION, "14 s"), (RS_WEL, "14 s")), kind="similar")
    yield claim(
        "a longer deadline improves learning (smallest step)", smallest_step(("12 s", "14 s", "16 s"))
    )


def tradeoffs(dataset: str, gains: Sequence[float | None], budget_j: float) -> Iterator[Claim]:
    claim = partial(Claim, where="Section V-C, Fig. 7", figure="fig7", dataset=dataset)
    values = ("V = 0.001", "V = 0.01", "V = 0.1")
    for value, gain in zip(values, gains, strict=True):
        yield from against_ocean(claim, value, value, gain)
    if dataset == "mnist":
        yield claim(
            "V = 0.001: like OCEAN with V = 0.01",
            lead((SET_EXPANSION, values[0]), (OCEAN, values[1])),
            kind="similar",
        )
    for low, high in pairwise(values):
        more = more_samples((SET_EXPANSION, high), (SET_EXPANSION, low))
        yield claim(f"{high} schedules more samples than {low}", more, unit="%")
    yield claim("a larger V improves accuracy (smallest step)", smallest_step(values))
    text = "too large a V breaks the energy budget (worst device above it, V = 0.1)"
    yield claim(text, over_budget((SET_EXPANSION, "V = 0.1"), budget_j), unit="%")


def against_ocean(claim: partial[Claim], value: str, oceans: str, gain: float | None) -> Iterator[Claim]:
    """Set expansion with one value against OCEAN with another, and against OCEAN with its best split."""
    shown = value if value == oceans else f"{value} against {oceans}"
    yield claim(
        f"{shown}: set expansion ends above OCEAN", lead((SET_EXPANSION, value), (OCEAN, oceans)), gain
    )
    split = lead((SET_EXPANSION, value), (OCEAN_SPLIT, oceans))
    yield claim(f"{shown}: above OCEAN with its best fixed split", split, ours=True)


def lead(one: Curve, other: Curve) -> Read:
    """Accuracy of one curve minus that of another, paired by seed."""
    return lambda runs: runs.accuracy(*one) - runs.accuracy(*other)


def ahead_of(methods: Sequence[str], value: Value) -> Read:
    """Accuracy of `pma` minus that of the best of some algorithms."""
    return lambda runs: runs.accuracy("pma", value) - runs.best(methods, value)


def lead_of_layers(best: int, others: Iterable[int]) -> Read:
    """Accuracy with one number of shared layers minus that with the best of other numbers."""

    def read(runs: Evidence) -> Array:
        rivals = max((runs.accuracy("pma", f"n = {n}") for n in others), key=np.mean)
        return runs.accuracy("pma", f"n = {best}") - rivals

    return read


def lead_after(first: int) -> Read:
    """Mean lead of many devices over few, from a round on."""

    def read(runs: Evidence) -> Array:
        rounds, values = runs.history("pma", MANY)
        if rounds[-1] < first:
            raise NotRun(f"the runs end at round {rounds[-1]:g}")
        leads = values - runs.history("pma", FEW)[1]
        return np.asarray(leads[:, rounds >= first].mean(axis=1))

    return read


def extra_swing(method: str, value: Value) -> Read:
    """How much more a method's accuracy moves between evaluations than `pma`'s, in the second half."""

    def read(runs: Evidence) -> Array:
        def moves(name: str) -> Array:
            _, values = runs.history(name, value)
            late = values[:, values.shape[1] // 2 :]
            if late.shape[1] < 2:
                raise NotRun("the runs were evaluated too seldom")
            return np.asarray(np.abs(np.diff(late, axis=1)).mean(axis=1))

        return moves(method) - moves("pma")

    return read


def rounds_saved(method: str, value: Value) -> Read:
    """How many rounds before its end `pma` has reached what a method ends with."""

    def read(runs: Evidence) -> Array:
        rounds, values = runs.history("pma", value)
        target = runs.accuracy(method, value)
        reached = values >= target[:, None]
        first = np.where(reached.any(axis=1), rounds[reached.argmax(axis=1)], rounds[-1])
        return np.asarray(rounds[-1] - first)

    return read


def less_energy(one: Curve, other: Curve) -> Read:
    """Energy that one curve really spends less than another, in percent."""
    metric = "energy_per_device_round_j"
    return lambda runs: 100 * (1 - runs.wireless(*one, metric) / runs.wireless(*other, metric))


def more_samples(one: Curve, other: Curve) -> Read:
    """Scheduled samples of one curve above those of another, in percent."""
    metric = "scheduled_samples_per_round"
    return lambda runs: 100 * (runs.wireless(*one, metric) / runs.wireless(*other, metric) - 1)


def over_budget(curve: Curve, budget_j: float) -> Read:
    """What the worst device spends above its budget, in percent of it."""
    metric = "max_energy_per_device_round_j"
    return lambda runs: 100 * (runs.wireless(*curve, metric) / budget_j - 1)


def smallest_step(values: Sequence[str]) -> Read:
    """Of set expansion's accuracy along a list of values; positive if it always rises."""

    def read(runs: Evidence) -> Array:
        accuracies = [runs.accuracy(SET_EXPANSION, value) for value in values]
        steps = [after - before for before, after in pairwise(accuracies)]
        return min(steps, key=np.mean)

    return read


def unequal_powers(average: bool) -> Read:
    """How far radio's power is from the CPU's, in percent: the median over free allocations."""

    def read(runs: Evidence) -> Array:
        ratio = runs.marginal_powers[1 if average else 0]
        return np.array([100 * np.median(np.abs(ratio - 1))])

    return read
