"""What the paper claims: the numbers of its abstract and Section V, and what it says beside them in words.

Each is a `Claim` with the function that reads our number from runs. Where the paper compares with "the
benchmarks" without naming one, FedAvg and Regularized FL are taken together and FedRep apart.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import pairwise

from pmafl.experiments.claims import Claim
from pmafl.experiments.measures import (
    FEW,
    MANY,
    converged_earlier,
    extra_cost,
    extra_swing,
    faster_in_bad_channels,
    kept_budget,
    lead,
    lead_after,
    lead_over_best,
    less,
    less_loss,
    more,
    mostly_free,
    over_budget,
    power_deviation,
    problems_spared,
    rounds_earlier,
    sensitivity,
    smallest_step,
)
from pmafl.experiments.policies import OCEAN_SPLIT, SET_EXPANSION
from pmafl.experiments.study import ENERGY, SAMPLES

OCEAN, RS_WEL = "ocean", "rs-wel"
GLOBAL = ("fedavg", "fedprox")
FEDREP = ("fedrep, double work", "fedrep, equal work", "fedrep, extractor first")
ROUNDING = 0.01  # percent: who spends a budget to the last joule keeps it


def all_claims() -> list[Claim]:
    return [
        *shared_layers("mnist", best=2, last=4),
        *shared_layers("cifar10", best=4, last=5),
        *algorithms("fig3", "mnist", (3.13, 0.79)),
        *algorithms("fig4", "cifar10", (11.8, 3.3)),
        *budgets_mnist(),
        *budgets_cifar10(),
        *ours("fig5", "mnist", "0.1 J"),
        *ours("fig5", "cifar10", "2 J"),
        *allocations("mnist"),
        *allocations("cifar10"),
        *deadlines_mnist(),
        *deadlines_cifar10(),
        *tradeoffs("mnist", (3.46, 1.94, 0.63)),
        *tradeoffs("cifar10", (1.05, 1.23, None)),
    ]


def shared_layers(dataset: str, best: int, last: int) -> Iterator[Claim]:
    claim = partial(Claim, where="Section II, Fig. 2", figure="fig2", dataset=dataset)
    curves = [("pma", f"n = {n}") for n in range(last + 1)]
    others = [curve for n, curve in enumerate(curves) if n != best]
    yield claim(f"sharing n = {best} layers is best", lead_over_best(curves[best], others))
    text = f"sharing n = {best} layers has the lowest loss"
    yield claim(text, less_loss(curves[best], others), unit="nats", ours=True)
    text = f"the global model (n = {last}) is worse than local ones (n = 0)"
    yield claim(text, lead(curves[0], curves[last]))


def algorithms(figure: str, dataset: str, gains: tuple[float, float]) -> Iterator[Claim]:
    section = f"Section V-B, Fig. {figure[3]}"
    claim = partial(Claim, where=section, figure=figure, dataset=dataset)
    for value, devices, gain in zip((FEW, MANY), (10, 50), gains, strict=True):
        where = f"abstract, {section}" if value == FEW else section
        for text, methods in (("FedAvg and Regularized FL", GLOBAL), ("FedRep, its best reading", FEDREP)):
            others = [(method, value) for method in methods]
            ahead, below = (measure(("pma", value), others) for measure in (lead_over_best, less_loss))
            yield claim(f"{devices} devices: PMA-FL ends above {text}", ahead, gain, where=where)
            yield claim(f"{devices} devices: PMA-FL's loss ends below {text}", below, unit="nats")
        readings = (("FedRep with equal work", FEDREP[1]), ("FedRep with the extractor first", FEDREP[2]))
        for text, method in (*readings, ("training alone", "local")):
            ahead = lead(("pma", value), (method, value))
            yield claim(f"{devices} devices: PMA-FL ends above {text}", ahead, ours=True)
        for name in (*GLOBAL, FEDREP[0]):
            text = f"{devices} devices: PMA-FL has what {name} ends with earlier than {name}"
            yield claim(text, rounds_earlier(name, value), unit="rounds")
            text = (
                f"{devices} devices: PMA-FL converges earlier than {name} (accuracy moves by less than 1e-6)"
            )
            yield claim(text, converged_earlier(name, value), unit="rounds")
    text = "after 40 rounds, PMA-FL with 10 devices is like with 50 (mean lead of 50)"
    yield claim(text, lead_after(40), kind="similar")
    text = "few devices hardly reduce PMA-FL's final accuracy (lead of 50)"
    yield claim(text, lead(("pma", MANY), ("pma", FEW)), kind="similar")
    for name in (*GLOBAL, FEDREP[0]):
        text = f"{name} is more sensitive to the number of devices (gain by 50 instead of 10, above PMA-FL's)"
        yield claim(text, sensitivity(name))
    for name in GLOBAL:
        for text, cost in (("computation", "operations"), ("bandwidth (bits to upload)", "upload_bits")):
            yield claim(f"{name} needs more {text}", extra_cost(name, cost), unit="%", exact=True)
    for name in GLOBAL:
        text = f"with 10 devices {name} is unstable (moves more between evaluations than PMA-FL)"
        yield claim(text, extra_swing(name, FEW))


def budgets_mnist() -> Iterator[Claim]:
    claim = partial(Claim, where="conclusion (around 3%), Fig. 5a", figure="fig5", dataset="mnist")
    yield from against_ocean(claim, "0.14 J", "0.14 J", 3.28)
    less_budget = partial(claim, where="abstract (29% less energy budget), Fig. 5a")
    yield from against_ocean(less_budget, "0.1 J", "0.14 J", 2.59)
    yield from energy_spent(claim, (SET_EXPANSION, "0.1 J"), (OCEAN, "0.14 J"))
    ahead = lead((SET_EXPANSION, "0.14 J"), (RS_WEL, "0.14 J"))
    yield claim("0.14 J: slightly above RS-WEL, which has no budget", ahead, where="Section V-C, Fig. 5a")


def budgets_cifar10() -> Iterator[Claim]:
    claim = partial(Claim, where="conclusion (around 2%), Fig. 5b", figure="fig5", dataset="cifar10")
    yield from against_ocean(claim, "4 J", "4 J", 1.85)
    less_budget = partial(claim, where="abstract (25% less energy budget), Fig. 5b")
    yield from against_ocean(less_budget, "3 J", "4 J", 1.25)
    yield from energy_spent(claim, (SET_EXPANSION, "3 J"), (OCEAN, "4 J"))
    for text, other in (("OCEAN with 4 J", OCEAN), ("RS-WEL, which has no budget", RS_WEL)):
        ahead = lead((SET_EXPANSION, "2 J"), (other, "4 J"))
        yield claim(f"2 J: like {text}", ahead, where="Section V-C, Fig. 5b", kind="similar")


def allocations(dataset: str) -> Iterator[Claim]:
    claim = partial(Claim, where="abstract, Section IV-A, remark", figure="fig5", dataset=dataset, unit="%")
    text = "CPU and radio have equal marginal power (median deviation where no limit binds)"
    yield claim(text, power_deviation(average=False), kind="similar")
    text = "the same to the letter: equal power, as averages (median deviation)"
    yield claim(text, power_deviation(average=True), kind="similar")
    yield claim(
        "limits of clock and power are usually not active (allocations at no limit, above half)", mostly_free
    )
    text = "poor channels make devices compute faster (clock of the weakest third above the strongest's)"
    yield claim(text, faster_in_bad_channels, where="Section V-C")
    text = "Algorithm 2 solves at most K problems P6 (below K + 1 in the costliest of 100 rounds)"
    yield claim(text, problems_spared, where="Section IV-C", unit="problems", exact=True)


def deadlines_mnist() -> Iterator[Claim]:
    claim = partial(Claim, where="conclusion (around 3%), Fig. 6a", figure="fig6", dataset="mnist")
    yield from against_ocean(claim, "2.5 s", "2.5 s", 3.45)
    yield from against_ocean(partial(claim, where="abstract (20% less time), Fig. 6a"), "2 s", "2.5 s", 2.3)
    claim = partial(claim, where="Section V-C, Fig. 6a")
    yield claim("2.5 s: a minor gain over RS-WEL", lead((SET_EXPANSION, "2.5 s"), (RS_WEL, "2.5 s")))
    yield claim("1.5 s: not as good as OCEAN at 2.5 s", lead((OCEAN, "2.5 s"), (SET_EXPANSION, "1.5 s")))
    yield from longer_deadlines(claim, ("1.5 s", "2 s", "2.5 s"))


def deadlines_cifar10() -> Iterator[Claim]:
    claim = partial(Claim, where="conclusion (around 2%), Fig. 6b", figure="fig6", dataset="cifar10")
    yield from against_ocean(claim, "16 s", "16 s", 2.17)
    yield from against_ocean(
        partial(claim, where="abstract (12.5% less time), Fig. 6b"), "14 s", "16 s", None
    )
    claim = partial(claim, where="Section V-C, Fig. 6b")
    yield claim("16 s: above RS-WEL at 16 s", lead((SET_EXPANSION, "16 s"), (RS_WEL, "16 s")), 0.75)
    ahead = lead((SET_EXPANSION, "14 s"), (RS_WEL, "14 s"))
    yield claim("14 s: like RS-WEL at 14 s", ahead, kind="similar")
    yield from longer_deadlines(claim, ("12 s", "14 s", "16 s"))


def longer_deadlines(claim: partial[Claim], values: Sequence[str]) -> Iterator[Claim]:
    _, middle, high = values
    yield claim("a longer deadline improves accuracy (smallest step)", smallest_step(values))
    for before, after in pairwise(values):
        scheduled = more(SAMPLES, (SET_EXPANSION, after), (SET_EXPANSION, before))
        yield claim(f"{after} schedules more samples than {before}", scheduled, unit="%")
    scheduled = more(SAMPLES, (SET_EXPANSION, middle), (OCEAN, high))
    yield claim(f"{middle} schedules more samples than OCEAN at {high}", scheduled, unit="%")


def tradeoffs(dataset: str, gains: Sequence[float | None]) -> Iterator[Claim]:
    claim = partial(Claim, where="Section V-C, Fig. 7", figure="fig7", dataset=dataset)
    values = ("V = 0.001", "V = 0.01", "V = 0.1")
    curves = [(SET_EXPANSION, value) for value in values]
    for value, gain in zip(values, gains, strict=True):
        yield from against_ocean(claim, value, value, gain)
    if dataset == "mnist":
        text = "V = 0.001: like OCEAN with V = 0.01"
        yield claim(text, lead(curves[0], (OCEAN, values[1])), kind="similar")
    for before, after in pairwise(curves):
        text = f"{after[1]} schedules more samples than {before[1]}"
        yield claim(text, more(SAMPLES, after, before), unit="%")
        yield claim(f"{after[1]} uses more energy than {before[1]}", more(ENERGY, after, before), unit="%")
    yield claim("a larger V improves accuracy (smallest step)", smallest_step(values))
    text = "too large a V breaks the energy budget (worst device above it, V = 0.1)"
    yield claim(text, over_budget(curves[2]), unit="%")
    text = "already the smallest V breaks it (worst device above it, V = 0.001)"
    yield claim(text, over_budget(curves[0]), unit="%", ours=True)


def against_ocean(claim: partial[Claim], value: str, oceans: str, gain: float | None) -> Iterator[Claim]:
    """Set expansion with one value against OCEAN with another, and against OCEAN with its best split."""
    shown = value if value == oceans else f"{value} against {oceans}"
    ahead = lead((SET_EXPANSION, value), (OCEAN, oceans))
    yield claim(f"{shown}: set expansion ends above OCEAN", ahead, gain)
    split = lead((SET_EXPANSION, value), (OCEAN_SPLIT, oceans))
    yield claim(f"{shown}: above OCEAN with its best fixed split", split, ours=True)


def ours(figure: str, dataset: str, value: str) -> Iterator[Claim]:
    """Our policies at the preset, held to the same rules."""
    claim = partial(Claim, where="ours", figure=figure, dataset=dataset, ours=True)
    for policy in ("dual", "steady"):
        for name, other in (
            ("set expansion", SET_EXPANSION),
            ("OCEAN", OCEAN),
            ("OCEAN's best", OCEAN_SPLIT),
        ):
            one, two = (policy, value), (other, value)
            yield claim(f"{value}: {policy} ends above {name}", lead(one, two))
            yield claim(
                f"{value}: {policy} schedules more samples than {name}", more(SAMPLES, one, two), unit="%"
            )
        text = f"{value}: {policy} keeps every budget (worst device below {100 + ROUNDING:g}% of it)"
        yield claim(text, kept_budget(one, ROUNDING), unit="%")


def energy_spent(claim: partial[Claim], one: tuple[str, str], other: tuple[str, str]) -> Iterator[Claim]:
    """Budgets are not what is spent."""
    text = f"{one[1]} against OCEAN's {other[1]}: less energy is really spent"
    yield claim(text, less(ENERGY, one, other), unit="%", ours=True)
