"""What workers gain: two against one, against the most that this machine allows; and very many devices.

The ceiling is what two independent runs of one worker reach together, at the same time, against one alone: it
says what the cores share (memory, caches, clock). One run, two runs at once and a run with two workers take
turns on the same rounds, so that a machine that changes its speed blurs the ratios little.

    python benchmarks/workers.py [--repeats 5] [--cases mlp cnn] [--many 2500 5000 10000] [--page]

Needs an idle machine with two cores. With --page it writes docs/benchmarks-workers.md. MNIST and CIFAR-10 are
fetched if need be.
"""

import argparse
import hashlib
import json
import os
import platform
import subprocess
import sys
import time
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from pmafl.rounds import play
from pmafl.settings import load
from pmafl.workers import Team, simulated_devices
from pmafl.world import build_world

TEN = {"run.wireless": "none", "policy.name": "uniform", "policy.options.count": 10, "run.rounds": 10**6}
# Name: preset, settings, rounds in a turn.
CASES: dict[str, tuple[str, dict[str, Any], int]] = {
    "mlp": ("mnist", TEN, 10),
    "mlp, not tested": ("mnist", TEN | {"run.evaluate_every": 10**6}, 10),
    "cnn": ("cifar10", TEN, 1),
    "cnn, one epoch": ("cifar10", TEN | {"learning.iterations": 1}, 1),
}
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks-workers.md"


class Player:
    """A run in a process of its own that plays some rounds when it is told to."""

    def __init__(self, preset: str, overrides: dict[str, Any], workers: int) -> None:
        command = [sys.executable, __file__, "--play", preset, json.dumps(overrides), str(workers)]
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
        )

    def begin(self, rounds: int) -> None:
        print(rounds, file=self._process.stdin, flush=True)

    def result(self) -> dict[str, Any]:
        """Seconds for each round, a digest of all weights, and the memory of all processes in bytes."""
        found: dict[str, Any] = json.loads(self._process.stdout.readline())
        return found

    def play(self, rounds: int) -> dict[str, Any]:
        self.begin(rounds)
        return self.result()

    def end(self) -> None:
        self._process.stdin.close()
        self._process.wait()


def be_a_player(preset: str, overrides: dict[str, Any], workers: int) -> None:
    world = build_world(load(preset, overrides))
    data = world.task.dataset
    data_bytes = sum(part.nbytes for part in (data.x_train, data.y_train, data.x_test, data.y_test))
    with simulated_devices(world, Team(workers)) as devices:
        rounds = play(world, devices)
        for line in sys.stdin:
            began_s = time.perf_counter()
            for _ in range(int(line)):
                state, _ = next(rounds)
            seconds = (time.perf_counter() - began_s) / int(line)
            digest = hashlib.sha256()
            for held in (
                state.learning.server,
                *map(state.learning.devices.get, sorted(state.learning.devices)),
            ):
                for values in held.values():
                    digest.update(values.numpy().tobytes())
            found = {"seconds": seconds, "digest": digest.hexdigest(), "bytes": memory_bytes() - data_bytes}
            print(json.dumps(found), flush=True)


def memory_bytes() -> int:
    """Of this process and its workers, what they share counted once."""
    pids = [os.getpid()]
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = path.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[1]) == os.getpid():
            pids.append(int(path.parent.name))
    lines = [line for pid in pids for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()]
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))


def two_against_one(name: str, repeats: int, rounds: int | None) -> str:
    preset, overrides, usual = CASES[name]
    rounds = rounds or usual
    one, other, two = (Player(preset, overrides, workers) for workers in (1, 1, 2))
    times: dict[str, list[float]] = {"one": [], "at once": [], "two": []}
    digests = set()
    for repeat in range(repeats + 1):  # the first is to warm up
        alone = one.play(rounds)
        workers = two.play(rounds)
        for player in (one, other):  # the other is as far behind as it was at the start: a round is a round
            player.begin(rounds)
        both = [player.result() for player in (one, other)]
        if repeat == 0:
            digests = {alone["digest"], workers["digest"]}
            continue
        times["one"].append(alone["seconds"])
        times["two"].append(workers["seconds"])
        times["at once"].append(sum(found["seconds"] for found in both) / 2)
    for player in (one, other, two):
        player.end()
    gain = [a / b for a, b in zip(times["one"], times["two"], strict=True)]
    ceiling = [2 * a / b for a, b in zip(times["one"], times["at once"], strict=True)]
    share = [b / (2 * t) for b, t in zip(times["at once"], times["two"], strict=True)]
    same = "yes" if len(digests) == 1 else "NO"
    cells = [
        name,
        f"{median(times['one']):.3f}",
        f"{median(times['two']):.3f}",
        spread(gain),
        spread(ceiling),
    ]
    return (
        "| "
        + " | ".join([*cells, f"**{median(share):.0%}** ({min(share):.0%} to {max(share):.0%})", same])
        + " |"
    )


def spread(values: list[float]) -> str:
    return f"{median(values):.2f} ({min(values):.2f} to {max(values):.2f})"


def very_many(devices: int, repeats: int) -> str:
    overrides = TEN | {"fleet.devices": devices, "policy.options.count": devices // 10}
    player = Player("mnist", overrides, 2)
    player.play(1)
    found = [player.play(1) for _ in range(repeats)]
    player.end()
    seconds = median(one["seconds"] for one in found)
    used = max(one["bytes"] for one in found) / 1e9
    each_ms = 1e3 * seconds / (devices // 10)
    return f"| {devices} | {devices // 10} | {seconds:.2f} | {each_ms:.2f} | {used:.2f} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("--rounds", type=int, help="in a turn")
    parser.add_argument("--cases", nargs="*", choices=list(CASES), default=list(CASES))
    parser.add_argument("--many", nargs="*", type=int, default=[2500, 5000, 10_000])
    parser.add_argument("--page", action="store_true", help="write docs/benchmarks-workers.md")
    parser.add_argument("--play", nargs=3, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.play:
        preset, overrides, workers = options.play
        be_a_player(preset, json.loads(overrides), int(workers))
        return
    lines = [
        "# What workers gain",
        "",
        f"Written by `python benchmarks/workers.py --page --repeats {options.repeats}` on {machine()}.",
        "",
        "10 of 100 devices per round, as in the paper; seconds of a round, tests of all devices included",
        'unless said otherwise. "Ceiling": what two independent runs at once reach together against one.',
        '"Share": of that ceiling, the gain of two workers. Medians (smallest to largest) over turns.',
        "",
        "| | 1 worker | 2 workers | gain | ceiling | share | same bits |",
        "|---|---|---|---|---|---|---|",
    ]
    print("\n".join(lines[-2:]))
    for name in options.cases:
        lines.append(two_against_one(name, options.repeats, options.rounds))
        print(lines[-1], flush=True)
    if options.many:
        lines += [
            "",
            "The MLP on very many devices, a tenth of them per round, 2 workers. Memory is that of all",
            "processes beyond the data, and most of it is what devices hold.",
            "",
            "| devices | scheduled | s per round | ms per scheduled device | GB |",
            "|---|---|---|---|---|",
        ]
        print("\n".join(lines[-2:]))
    for devices in options.many:
        lines.append(very_many(devices, options.repeats))
        print(lines[-1], flush=True)
    if options.page:
        PAGE.write_text("\n".join([*lines, ""]))


def machine() -> str:
    info = Path("/proc/cpuinfo")
    fields = (
        dict(line.split("\t: ") for line in info.read_text().splitlines() if "\t: " in line)
        if info.exists()
        else {}
    )
    return f"{fields.get('model name', platform.processor())}, {os.cpu_count()} cores"


if __name__ == "__main__":
    main()
