"""What each policy reaches of the best possible schedule, and what `steady` brings to learning.

    python benchmarks/efficiency.py               # wireless side, 20 seeds; about an hour on one core
    python benchmarks/efficiency.py --seeds 2     # a glance
    python benchmarks/efficiency.py --learning    # also trains on MNIST, 3 seeds; an hour

Writes docs/efficiency.md. Results are kept in runs/efficiency, run by run: an interrupted benchmark goes on
where it stopped, and what is there is not computed again.
"""

import argparse
import json
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")

import numpy as np

from pmafl import comparison, runs
from pmafl.efficiency import best_possible, measure
from pmafl.experiments.study import SPLITS, TUNING_SEEDS
from pmafl.rounds import play, start
from pmafl.scheduling.clairvoyant import Bound
from pmafl.settings import load
from pmafl.wireless.channels import Channel
from pmafl.world import World, channel_gains, outlook, wireless_world

OUT = Path("runs/efficiency")
REPORT_FILE = Path("docs/efficiency.md")
LEARNING_OUT = Path("runs/reproduce")  # the runs of `pmafl reproduce`: those in common are not run twice
LEARNING_SEEDS = range(1, 4)
EVALUATE_EVERY = 2
GOOD_ACCURACY = 0.95
FRACTIONS = ("policy.options.compute_fraction", SPLITS)
TRADEOFFS = ("policy.tradeoff", (1e-4, 3e-4, 1e-3, 3e-3, 1e-2, 3e-2, 0.1, 0.3, 1.0))


def loguniform(low: float, high: float) -> dict[str, Any]:
    return {"distribution": "loguniform", "low": low, "high": high}


MIXED = {  # distances follow from the cell: 35 m to its corners at 354 m
    "cell.min_distance_m": 35.0,
    "fleet.samples": loguniform(100, 1000),
    "fleet.max_frequency_hz": loguniform(3e8, 3e9),
}
SCENARIOS: dict[str, tuple[str, dict[str, Any]]] = {
    "mnist": ("mnist", {}),
    "cifar10": ("cifar10", {}),
    "mnist, mixed fleet": ("mnist", MIXED | {"fleet.budget_j": loguniform(0.05, 0.2)}),
    "cifar10, mixed fleet": ("cifar10", MIXED | {"fleet.budget_j": loguniform(1.0, 4.0)}),
}


@dataclass(frozen=True)
class Row:
    """A policy of the tables.

    Attributes:
        name: in the table.
        settings: what makes it this policy.
        tune: a setting and the values of which the best is taken.
        change: what happens to the world before the run.
        own_bound: whether that changes the channels, and so the bound.
    """

    name: str
    settings: dict[str, Any]
    tune: tuple[str, tuple[float, ...]] | None = None
    change: Callable[[World, Bound], World] = lambda world, bound: world
    own_bound: bool = False


def with_future_prices(world: World, bound: Bound) -> World:
    plan = world.policy.start
    known = replace(world.policy, start=lambda outlook: {**plan(outlook), "price": bound.energy_price})
    return replace(world, policy=known)


def with_wrong_statistics(factor: Callable[[int], Any]) -> Callable[[World, Bound], World]:
    """The server believes in other mean gains than those that the channels have."""

    def change(world: World, bound: Bound) -> World:
        fleet = world.fleet
        return replace(world, fleet=replace(fleet, path_gain=fleet.path_gain * factor(fleet.devices)))

    return change


def with_absence(rounds: slice) -> Callable[[World, Bound], World]:
    """Every tenth device has no connection in some rounds, and nobody knows in advance."""

    def change(world: World, bound: Bound) -> World:
        gain, channel = channel_gains(world), world.channel
        gain[rounds, ::10] = 1e-30
        absent = Channel(channel.mean_gain, lambda state, index, rng: (gain[index], state), channel.law)
        return replace(world, channel=absent)

    return change


STEADY = {"policy.name": "steady"}
HARD = {"policy.hard_budget": True}
POLICIES = [
    Row("steady", STEADY),
    Row("dual", {"policy.name": "dual"}),
    Row("dual, hard budget", {"policy.name": "dual"} | HARD),
    Row("dual, hard budget, best V", {"policy.name": "dual"} | HARD, TRADEOFFS),
    Row("set-expansion", {"policy.name": "set-expansion"}),
    Row("set-expansion, hard budget", {"policy.name": "set-expansion"} | HARD),
    Row("set-expansion, hard budget, best V", {"policy.name": "set-expansion"} | HARD, TRADEOFFS),
    Row("ocean, f_max", {"policy.name": "ocean"}),
    Row("ocean, best split", {"policy.name": "ocean"}, FRACTIONS),
    Row("rs-wel, no energy limit", {"policy.name": "rs-wel"}),
    Row("steady with the future's prices", STEADY, change=with_future_prices),
]
LEARNING = ["steady", "dual", "set-expansion", "ocean, f_max", "ocean, best split", "rs-wel, no energy limit"]
TROUBLES = [
    Row("as it is", STEADY),
    Row("gains believed 3 times too high", STEADY, change=with_wrong_statistics(lambda devices: 3.0)),
    Row("3 times too low", STEADY, change=with_wrong_statistics(lambda devices: 1 / 3)),
    Row(
        "3 times too high or too low in turn",
        STEADY,
        change=with_wrong_statistics(lambda devices: np.where(np.arange(devices) % 2, 3.0, 1 / 3)),
    ),
    Row("10 of 100 devices join at half-time", STEADY, change=with_absence(slice(0, 50)), own_bound=True),
    Row("10 of 100 devices leave at half-time", STEADY, change=with_absence(slice(50, None)), own_bound=True),
]


class Results:
    """What was computed, by key, in a file that grows by a line a result."""

    def __init__(self, path: Path) -> None:
        self._path, self._found = path, {}
        path.parent.mkdir(parents=True, exist_ok=True)
        if path.exists():
            lines = path.read_text(encoding="utf-8").splitlines()
            self._found = {tuple(line["key"]): line["value"] for line in map(json.loads, lines)}

    def get(self, key: tuple[Any, ...], compute: Callable[[], Any]) -> Any:
        if key not in self._found:
            self._found[key] = compute()
            with open(self._path, "a", encoding="utf-8") as file:
                file.write(json.dumps({"key": key, "value": self._found[key]}) + "\n")
            print(*key, _brief(self._found[key]), flush=True)
        return self._found[key]


def _brief(value: Any) -> str:
    return f"{value['share']:.1%}" if isinstance(value, dict) and "share" in value else ""


def bound_of(results: Results, scenario: str, seed: int, world: World, kind: str = "") -> Bound:
    def compute() -> dict[str, Any]:
        return {name: np.asarray(value).tolist() for name, value in vars(best_possible(world)).items()}

    found = results.get(("bound", scenario, kind, seed), compute)
    return Bound(
        found["samples"],
        found["fractional_samples"],
        np.array(found["energy_price"]),
        np.array(found["band_price"]),
    )


def judge(results: Results, scenario: str, row: Row, seed: int) -> dict[str, float]:
    """One run of a row: shares of the bounds, energy, fairness, CPU time."""
    source, overrides = SCENARIOS[scenario]

    def compute() -> dict[str, float]:
        settings = load(source, overrides | row.settings | {"run.seed": seed, "run.rounds": 100})
        world = wireless_world(settings)
        bound = bound_of(results, scenario, seed, world)
        world = row.change(world, bound)
        if row.own_bound:
            bound = bound_of(results, scenario, seed, world, row.name)
        plan = dict(world.policy.start(outlook(world)))  # once before the run: no part of a round's cost
        first = replace(start(world), policy=plan)
        began_s = time.process_time()
        records = [record.to_dict() for _, record in play(world, state=first)]
        cpu_s = time.process_time() - began_s
        result = measure(world, records, bound)
        return {
            "share": result.share,
            "fractional_share": result.samples / bound.fractional_samples,
            "devices": result.turns.sum() / result.rounds,
            "used": float(result.used.mean()),
            "worst": float(result.used.max()),
            "spread": result.spread,
            "least": float(result.turns.min()),
            "round_ms": 1e3 * cpu_s / result.rounds,
        }

    return results.get(("run", scenario, row.name, json.dumps(row.settings), seed), compute)


def tuned(results: Results, scenario: str, row: Row) -> Row:
    """The row with the value of its parameter that schedules most, on other seeds than those of the table."""
    if row.tune is None:
        return row
    key, values = row.tune

    def share(value: float) -> float:
        trial = replace(row, name="tuning", settings=row.settings | {key: value})
        return float(np.mean([judge(results, scenario, trial, seed)["share"] for seed in TUNING_SEEDS]))

    best = max(values, key=share)
    return replace(row, name=f"{row.name} ({best:g})", settings=row.settings | {key: best})


def table(results: Results, scenario: str, rows: list[Row], seeds: range) -> str:
    """Means over seeds; the worst of all devices and seeds."""
    lines = [
        f"| {scenario} | of the bound | without whole turns | devices per round | energy used | worst device "
        "| spread of turns | fewest turns |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for row in rows:
        row = tuned(results, scenario, row)
        found = [judge(results, scenario, row, seed) for seed in seeds]
        mean = {name: float(np.mean([one[name] for one in found])) for name in found[0]}
        interval = comparison.estimate(np.array([one["share"] for one in found])).half_width
        worst = max(one["worst"] for one in found)
        lines.append(
            f"| {row.name} | {mean['share']:.1%} ± {interval:.1%} | {mean['fractional_share']:.1%} "
            f"| {mean['devices']:.1f} | {mean['used']:.1%} | {_excess(worst)} | {mean['spread']:.0%} "
            f"| {mean['least']:.1f} |"
        )
    return "\n".join(lines)


def _excess(worst: float) -> str:
    return f"**{worst:.1%}**" if worst > 1 + 1e-9 else f"{worst:.1%}"


def learning_jobs(results: Results) -> dict[str, list[comparison.Job]]:
    """The runs of each policy, one a seed; all policies see the same channels, data and first weights."""
    rows = [tuned(results, "mnist", row) for row in POLICIES if row.name in LEARNING]
    return {
        row.name: comparison.grid(
            "mnist", row.settings | {"run.evaluate_every": EVALUATE_EVERY}, {}, LEARNING_SEEDS, LEARNING_OUT
        )
        for row in rows
    }


def learn(results: Results, workers: int) -> None:
    jobs = [job for group in learning_jobs(results).values() for job in group]
    waiting = comparison.unfinished(jobs)
    comparison.run_locally(waiting, workers, lambda done, total: print(f"{done} of {total} runs", flush=True))


def learning_table(results: Results) -> str:
    """Accuracy and time to a good one, with differences paired by seed."""
    jobs = learning_jobs(results)
    if any(comparison.unfinished(group) for group in jobs.values()):
        return "Not run yet: `python benchmarks/efficiency.py --learning`."
    lines = [
        "| mnist | final accuracy | steady minus this | worst tenth of the devices | rounds to 95% "
        "| seconds to 95% | worst device's energy |",
        "|---|---:|---:|---:|---:|---:|---:|",
    ]
    ours = _finals(jobs["steady"])
    for name, group in jobs.items():
        finals, deadline_s = _finals(group), group[0].settings.cell.deadline_s
        ahead = comparison.show(comparison.estimate(ours["accuracy"] - finals["accuracy"]), "accuracy")
        rounds = finals["rounds"]
        reached = np.isfinite(rounds).all()
        times = f"{rounds.mean():.1f} | {rounds.mean() * deadline_s:.0f}" if reached else "not in all runs | "
        lines.append(
            f"| {name} | {comparison.show(comparison.estimate(finals['accuracy']), 'accuracy')} "
            f"| {'' if name == 'steady' else ahead} | {finals['tenth'].mean():.2%} | {times} "
            f"| {_excess(finals['worst'].max())} |"
        )
    return "\n".join(lines)


def _finals(jobs: list[comparison.Job]) -> dict[str, np.ndarray]:
    """Of each run: final accuracies, rounds until the mean is good (infinite: never), largest spending."""
    found: dict[str, list[float]] = {"accuracy": [], "tenth": [], "rounds": [], "worst": []}
    for job in jobs:
        summary = runs.read_summary(job.directory) or {}
        measured = [r for r in runs.read_records(job.directory) if r["accuracy"] is not None]
        good = (r["round"] + 1 for r in measured if r["accuracy"] >= GOOD_ACCURACY)
        found["accuracy"].append(summary["final_accuracy"])
        found["tenth"].append(summary["worst_tenth_accuracy"])
        found["rounds"].append(next(good, np.inf))
        found["worst"].append(summary["max_energy_per_device_round_j"] / summary["budget_j"])
    return {name: np.array(values) for name, values in found.items()}


REPORT = """# How close schedules come to the best possible one

Written by `python benchmarks/efficiency.py`, text and tables. `pmafl efficiency` gives the same figures for a
run of yours:

    pmafl efficiency mnist --policy steady      # schedule 100 rounds, without learning, and judge them
    pmafl efficiency runs/my-run                # judge a finished run; --json has an entry per device

## The bound

The long-run problem: schedule as many samples as possible in all rounds together, with the energy of each
device within its budget for the whole run, and the shares of the band within 1 in every round. Give a joule
of device k the price mu_k and the band of round t the price lambda_t, in samples. Then each device decides
for itself, round by round: it takes part where its samples are worth more than the least that its energy and
its share cost. What all of them gain so, and the budgets and bands at their prices, together are at least
what any schedule reaches, one that knows all channels in advance included (weak duality):

    sum over t, k of max(0, D_k - min over theta of (mu_k E_tk + lambda_t theta))
        + sum of lambda_t + sum of mu_k T budget_k

It holds for any prices; the lowest value over all prices is the bound. It is convex in the prices, and the
inner minimum is exact, because the energy frontier of a device has a closed form. With the kink at 0 rounded
off, L-BFGS finds the lowest value in tens of steps: some seconds for 100 devices and 100 rounds.

Prices alone let devices take part in fractions of a round. That matters where a round costs much of a budget:
at the CIFAR-10 preset prices have every device take part 10.8 times, and it can only be 10 or 11. So the
bound looks at two cases for each device, at most n turns or at least n + 1, where n is what prices alone say
rounded down, adds a price of turns in either case, and takes the worse of the two. The column "without whole
turns" is the share of the bound that leaves this out.

That no schedule exceeds the bound is tested on 100 random runs of 4 devices and 4 rounds, against every
schedule whose energies lie on a grid (`tests/scheduling/test_clairvoyant.py`).

## The policy `steady`

The paper's queues are prices that have to be learned. They start at 0: devices burn many budgets in the first
rounds and pay them back in idle ones, and V decides how long that takes. `steady` starts with the prices of
the long-run problem, solved before the run for the law of the channels (32 equally likely levels of fading,
one price for the band of all rounds; a tenth of a second for 100 devices). Each round is then one of
`dual`'s, with V = 1. As the run goes on, the price of a joule of device k is

    mu_k * (budget planned for the rounds to come) / (budget left for them)

and what is left is a hard cap on every round. That is all: no parameter, and nothing to save beyond what each
device has spent. It knows the mean gains, the law of the fading and the past, never a future channel.

## Every policy at the presets

100 devices, 100 rounds, {seeds} seeds: means, with 95% intervals for the share of the bound; the worst device
is the worst of all seeds. Bold: over its budget, so its share cannot be compared with those that keep to it.
"Spread of turns" is the standard deviation over devices, as a part of the mean. V is the preset's unless it
says "best": that and OCEAN's best split (the part of the deadline for computing) are those that schedule most
on three other seeds. `rs-wel` knows no energy: it shows what the band alone allows.

{presets}

`steady with the future's prices` is the policy with the bound's own prices of energy, which nobody can know
before the run. So what it lacks of 100% is not a matter of estimates: it is the bound's slack (a round holds
whole devices; budgets are used up in whole rounds) and the correction's noise. What `steady` lacks compared
with it is the price of not knowing the future.

## Fleets of unequal devices

Data sizes, CPU clocks and distances each spread over a factor of 10, budgets over a factor of 4. Some devices
cannot meet the deadline or pay for a single round; they count as unused budgets and as devices without a
turn.

{mixed}

## Troubles

`steady` with channel statistics that are wrong, and with devices that come and go unannounced. The bound
knows in advance who will leave; the policy finds out, and what such a device saved for later is lost.

{troubles}

## Cost

A round of `steady` with 100 devices takes {round_ms:.1f} ms of CPU time, the mean of all runs at the presets.

## What it brings to learning

MNIST at the preset, {learning_seeds} seeds, paired: the same channels, data and first weights for every
policy. Bold again: energy over the budget.

{learning}
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--seeds", type=int, default=20, help="seeds of the tables")
    parser.add_argument("--learning", action="store_true", help="train, instead of scheduling alone")
    parser.add_argument("--workers", type=int, default=1, help="processes that train")
    arguments = parser.parse_args()
    results, seeds = Results(OUT / "results.jsonl"), range(1, arguments.seeds + 1)
    if arguments.learning:
        learn(results, arguments.workers)
    presets = [name for name in SCENARIOS if "mixed" not in name]
    mixed = [name for name in SCENARIOS if "mixed" in name]
    text = REPORT.format(
        seeds=arguments.seeds,
        presets="\n\n".join(table(results, name, POLICIES, seeds) for name in presets),
        mixed="\n\n".join(table(results, name, POLICIES, seeds) for name in mixed),
        troubles="\n\n".join(table(results, name, TROUBLES, seeds) for name in presets),
        round_ms=np.mean(
            [judge(results, name, POLICIES[0], seed)["round_ms"] for name in presets for seed in seeds]
        ),
        learning_seeds=len(LEARNING_SEEDS),
        learning=learning_table(results),
    )
    REPORT_FILE.write_text(text, encoding="utf-8")
    print(f"tables are in {REPORT_FILE}")


if __name__ == "__main__":
    main()
