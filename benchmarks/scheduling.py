"""What a round's decision costs against the number of devices, and how good it is.

Compares in one run: the exact allocator with SciPy's SLSQP and with the paper's Algorithm 1 as plain code;
the policies `dual` and `set-expansion` with Algorithm 2 as plain code; runs of 100 rounds at the presets; and
what the prices of `steady` cost before a run, in time and memory.
A method is taken to larger sizes until it exceeds a limit. Times are CPU seconds of one thread, so that a
busy machine blurs them little.

    python benchmarks/scheduling.py             # minutes; writes docs/benchmarks-scheduling.md and .png
    python benchmarks/scheduling.py --limit 1   # a glance
    python benchmarks/scheduling.py --only prices --limit 200
"""

import argparse
import os
import resource
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")

import matplotlib
import numpy as np
from transcription import algorithm_1, algorithm_2, slsqp

from pmafl.scheduling import Outlook, allocate_given, find_policy, queues
from pmafl.wireless.problem import RoundProblem

matplotlib.use("Agg")
import matplotlib.pyplot as plt

SIZES = [10, 100, 1_000, 10_000, 100_000, 1_000_000]
PRICE_SIZES = [1_000, 10_000, 100_000, 1_000_000]
RNG = np.random.default_rng(0)
TASKS = {  # the presets: cycles per sample, samples, upload bits, deadline, budget, V
    "mnist": (137586.5, 600.0, 8_531_968, 2.0, 0.1, 0.001),
    "cifar10": (14_203_520 / 4, 500.0, 16 * 307_192, 14.0, 2.0, 0.01),
}
Method = Callable[[RoundProblem], float]
Times = dict[str, dict[int, tuple[float, float]]]  # method, size: CPU seconds and value


def mean_gain(devices: int) -> np.ndarray:
    rng = np.random.default_rng(devices)
    distance_m = np.maximum(np.hypot(*rng.uniform(-250, 250, (2, devices))), 1)
    return 1e-3 / distance_m**2


def round_problem(devices: int, task: str = "mnist", band_hz: float = 1e7) -> RoundProblem:
    """A round of a preset, with queues as they are in mid-run."""
    rng = np.random.default_rng(0)
    cycles, samples, bits, deadline_s, _, tradeoff = TASKS[task]
    fading = np.maximum(rng.exponential(size=devices), 1e-3)  # of a million, some could not take part at all
    return RoundProblem(
        bandwidth_hz=band_hz,
        noise_w_per_hz=10**-20.4,
        deadline_s=deadline_s,
        upload_bits=bits,
        energy_coefficient=5e-27,
        local_iterations=5,
        tradeoff=tradeoff,
        samples=np.full(devices, samples),
        cycles_per_sample=np.full(devices, cycles),
        max_frequency_hz=np.full(devices, 1e9),
        max_power_w=np.full(devices, 1.0),
        channel_gain=mean_gain(devices) * fading,
        queue_j=0.3 * rng.exponential(size=devices),
    )


def exact(problem: RoundProblem) -> float:
    decision = allocate_given(problem, np.ones(problem.devices, bool), "joint")
    return float(np.sum(problem.queue_j * decision.energy_j))


def objective_of(policy: str) -> Method:
    decide = find_policy(policy)
    return lambda problem: decide(problem, RNG).objective


ALLOCATORS: dict[str, Method] = {
    "joint": exact,
    "Algorithm 1, plain": lambda problem: algorithm_1(problem)[2],
    "SciPy SLSQP": slsqp,
}
POLICIES: dict[str, Method] = {
    "dual": objective_of("dual"),
    "set-expansion": objective_of("set-expansion"),
    "Algorithm 2, plain": algorithm_2,
}


def measure(method: Method, problem: RoundProblem) -> tuple[float, float]:
    """The least CPU time of some calls, and the value."""
    seconds: list[float] = []
    while sum(seconds) < 0.3 and len(seconds) < 50:
        began = time.process_time()
        value = method(problem)
        seconds.append(time.process_time() - began)
    return min(seconds), value


def grow(methods: dict[str, Method], problem_of: Callable[[int], RoundProblem], limit_s: float) -> Times:
    """Every method at growing sizes, as long as ten times its last cost is within the limit.

    SLSQP's cost grows with the cube of the devices: it stops earlier.
    """
    times: Times = {name: {} for name in methods}
    for size in SIZES:
        problem = problem_of(size)
        for name, method in methods.items():
            done = times[name]
            growth = 1000 if method is slsqp else 10
            if all(growth * seconds < limit_s for seconds, _ in done.values()):
                done[size] = measure(method, problem)
                print(f"{name}, {size}: {done[size][0]:.3g} s", flush=True)
    return times


def run(policy: str, task: str, rounds: int = 100) -> list[str]:
    """A run of 100 devices at a preset, as a row of the table."""
    decide, problem, budget_j = find_policy(policy), round_problem(100, task), np.full(100, TASKS[task][4])
    rng = np.random.default_rng(1)
    state, milliseconds, gaps, scheduled = queues.start(100), [], [], []
    for _ in range(rounds):
        gain = mean_gain(100) * rng.exponential(size=100)
        now = replace(problem, channel_gain=gain, queue_j=state.queue_j)
        began = time.process_time()
        decision = decide(now, rng)
        milliseconds.append(1e3 * (time.process_time() - began))
        gaps.append(decision.relative_gap)
        scheduled.append(len(decision.scheduled_devices))
        state = queues.advance(state, decision.energy_j, budget_j)
    known = [f"{np.mean(gaps):.3%}", f"{np.max(gaps):.3%}"] if gaps[0] is not None else ["", ""]
    times = [f"{np.mean(milliseconds):.1f}", f"{np.max(milliseconds):.1f}"]
    energy = f"{state.spent_j.mean() / rounds:.3g} / {state.spent_j.max() / rounds:.3g}"
    return [task, policy, *times, *known, f"{np.mean(scheduled):.1f}", energy]


def outlook_of(devices: int, kind: str) -> Outlook:
    """What a server knows before a run at the MNIST preset with so many devices.

    "one band" is the preset's 10 MHz; a "growing band" has 100 kHz for each device; "diverse" devices in it
    differ in samples, clocks, powers and budgets.
    """
    problem = round_problem(devices, band_hz=1e7 if kind == "one band" else 1e5 * devices)
    rng, budget_j = np.random.default_rng(1), np.full(devices, TASKS["mnist"][4])
    problem = replace(problem, tradeoff=1.0, queue_j=np.zeros(devices), channel_gain=mean_gain(devices))
    if kind == "diverse":
        samples, clock_hz, power_w, budget_j = (
            np.exp(rng.uniform(np.log(low), np.log(high), devices))
            for low, high in ((100, 1000), (3e8, 3e9), (0.2, 2), (0.05, 0.2))
        )
        problem = replace(problem, samples=samples, max_frequency_hz=clock_hz, max_power_w=power_w)
    fading = -np.log1p(-(np.arange(32) + 0.5) / 32)
    return Outlook(replace(problem, budget_j=budget_j), fading, 100)


def price_costs(devices: int, kind: str) -> tuple[float, float, float, float, float]:
    """CPU seconds of the prices, seconds by the clock, and CPU seconds of a round's decision at them.

    Then memory before, and at its peak, in MB.
    """
    outlook, rng, policy = outlook_of(devices, kind), np.random.default_rng(2), find_policy("steady")
    before_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    began, clock_s = time.process_time(), -time.monotonic()
    state = policy.start(outlook)
    planned_s, clock_s = time.process_time() - began, clock_s + time.monotonic()
    peak_mb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
    gain = outlook.problem.channel_gain * rng.exponential(size=devices)
    began = time.process_time()
    policy.decide(replace(outlook.problem, channel_gain=gain), state, rng)
    return planned_s, clock_s, time.process_time() - began, before_mb, peak_mb


def price_table(limit_s: float) -> str:
    """What the prices of `steady` cost by size; each in a process of its own, for its peak of memory.

    The growth is the exponent from the size before: 1 is linear.
    """
    lines = [
        "| K | fleet | prices | growth | by the clock | per round | memory beyond the problem |",
        "|---:|---|" + "---:|" * 5,
    ]
    for kind in ("one band", "growing band", "diverse"):
        last_s = 0.0
        for devices in PRICE_SIZES:
            if 10 * last_s > limit_s:
                break
            with ProcessPoolExecutor(1, get_context("spawn")) as pool:
                costs = pool.submit(price_costs, devices, kind).result()
            planned_s, clock_s, round_s, before_mb, peak_mb = costs
            growth = f"{np.log10(planned_s / last_s):.2f}" if last_s else ""
            memory = f"{peak_mb - before_mb:.0f} MB"
            times = [f"{planned_s:.3g} s", growth, f"{clock_s:.3g} s", f"{round_s:.3g} s"]
            cells = [f"{devices:,}", kind, *times, memory]
            lines.append(f"| {' | '.join(cells)} |")
            print(lines[-1], flush=True)
            last_s = planned_s
    return "\n".join(lines)


def cost_table(times: Times, ours: str) -> str:
    """Cost and value by size; in brackets how many times our cost, and how much worse the value."""
    lines = [f"| K | {' | '.join(times)} |", "|---:|" + "---:|" * len(times)]
    for size in SIZES:
        cells = []
        for name, done in times.items():
            if size not in done or size not in times[ours]:
                cells.append("")
                continue
            (seconds, value), (our_seconds, our_value) = done[size], times[ours][size]
            text = f"{seconds * 1e3:.3g} ms" if seconds < 1 else f"{seconds:.3g} s"
            worse = (value - our_value) / abs(our_value)
            cells.append(text if name == ours else f"{text} ({seconds / our_seconds:.3g}x, {worse:+.2%})")
        lines.append(f"| {size:,} | {' | '.join(cells)} |")
    return "\n".join(lines)


def plot(allocators: Times, policies: Times, path: Path) -> None:
    figure, axes = plt.subplots(1, 2, figsize=(10, 4), sharey=True, layout="constrained")
    titles = ("Allocation of a given set", "Scheduling and allocation")
    for axis, times, title in zip(axes, (allocators, policies), titles, strict=True):
        for name, done in times.items():
            axis.loglog(list(done), [seconds for seconds, _ in done.values()], "o-", label=name)
        axis.set(title=title, xlabel="devices")
        axis.grid(alpha=0.3)
        axis.legend()
    axes[0].set_ylabel("CPU seconds of one thread")
    figure.savefig(path, dpi=120)


REPORT = """# What a round's decision costs

Written by `python benchmarks/scheduling.py`. CPU time of one thread; in brackets how many times the cost of
the first column, and how much worse the value. An empty cell: too slow to be waited for. Peak memory of it
all: {memory_gb:.2f} GB.

## Scheduling and allocation: the MNIST preset with K devices

{policies}

The same where the band grows with the devices, 100 kHz for each, so that a large part of them is scheduled:

{wide}

## Allocation of a given set: K devices in K MHz

{allocators}

## 100 rounds with 100 devices at the presets

The gap is to the lower bound, which no schedule can beat. Energy is per device and round; the budgets are
0.1 J and 2 J.

| preset | policy | ms per round, mean | most | gap, mean | most | devices per round | J, mean / most |
|---|---|---:|---:|---:|---:|---:|---:|
{runs}

## The prices of `steady`, once before a run

The MNIST preset with K devices and 32 levels of fading: in its band of 10 MHz, in a band that grows by
100 kHz with each device, and in such a band with devices that differ in samples, clocks, powers and budgets.
The growth is the exponent against the line before: 1 is linear. Threads share the work, one per core: by the
clock it takes less than its CPU time on an idle machine.

{prices}

![cost against the number of devices](benchmarks-scheduling.png)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--limit", type=float, default=60.0, help="seconds a method may take for one answer")
    parser.add_argument("--out", type=Path, default=Path("docs"), help="where the table and the plot go")
    parser.add_argument("--only", choices=["prices"], help="measure one part and print it, without a file")
    arguments = parser.parse_args()
    limit_s = arguments.limit
    if arguments.only == "prices":
        price_table(limit_s)
        return
    policies = grow(POLICIES, round_problem, limit_s)
    wide = grow({"dual": POLICIES["dual"]}, lambda size: round_problem(size, band_hz=1e5 * size), limit_s)
    allocators = grow(ALLOCATORS, lambda size: round_problem(size, band_hz=1e6 * size), limit_s)
    runs = [run(policy, task) for task in TASKS for policy in ("dual", "set-expansion")]
    report = REPORT.format(
        memory_gb=resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6,
        policies=cost_table(policies, "dual"),
        wide=cost_table(wide, "dual"),
        allocators=cost_table(allocators, "joint"),
        runs="\n".join(f"| {' | '.join(row)} |" for row in runs),
        prices=price_table(limit_s),
    )
    arguments.out.mkdir(exist_ok=True)
    (arguments.out / "benchmarks-scheduling.md").write_text(report)
    growing = {"dual, band growing with K": wide["dual"]}
    plot(allocators, policies | growing, arguments.out / "benchmarks-scheduling.png")
    print(report)


if __name__ == "__main__":
    main()
