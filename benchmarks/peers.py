"""What a round of FedAvg takes in pmafl, pfl-research and Flower's simulation engine, with 1 and 2 workers.

All play the same rounds of the same networks on the same samples of the same devices, each in a process (or
two) of its own with one thread. Each peer meets pmafl by itself; the two take turns of some rounds, so that a
machine that changes its speed blurs the ratios little, and caches are those of a run. Peers are installed by
name, in environments of their own:

    python -m venv /tmp/pfl && /tmp/pfl/bin/pip install torch==2.13.0 pfl
    python benchmarks/peers.py --pfl /tmp/pfl/bin/python --flower python    # writes docs/benchmarks-peers.md

A peer that is not given is left out. Races that `--races` does not name stay on the page as they are. Needs
an idle machine with two cores. MNIST and CIFAR-10 are fetched if need be.
"""

import argparse
import json
import os
import platform
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from pmafl.settings import load
from pmafl.world import build_world

CONTESTANTS = Path(__file__).parent / "contestants.py"
PAGE = Path(__file__).parent.parent / "docs" / "benchmarks-peers.md"
ALIKE = {
    "learning.algorithm": "fedavg",
    "run.wireless": "none",
    "run.rounds": 10**6,
    "run.evaluate_every": 10**6,
    "policy.name": "uniform",
}


@dataclass(frozen=True)
class Race:
    """A federated problem: some of a preset's settings changed, and so many devices in a round.

    rounds: in a turn.
    """

    title: str
    preset: str
    cohort: int
    network: str
    changes: dict[str, Any]
    rounds: int = 1

    @property
    def heading(self) -> str:
        return f"## {self.title}"

    @property
    def settings(self) -> dict[str, Any]:
        return {**ALIKE, "policy.options.count": self.cohort, **self.changes}


RACES = {
    "cifar10": Race(
        "pfl-research's CIFAR-10 benchmark: 50 of 1000 devices, 50 samples, batches of 10, SGD, a CNN",
        "cifar10",
        50,
        "two_convolutions",
        {
            "fleet.devices": 1000,
            "data.partition": "iid",
            "learning.model": "contestants:two_convolutions",
            "learning.batch_size": 10,
            "learning.iterations": 1,
            "learning.momentum": 0.0,
            "learning.extractor_rate": 0.1,
            "learning.predictor_rate": 0.1,
        },
        rounds=2,
    ),
    "mlp-64": Race(
        "The paper's MLP in batches of 64, momentum 0.9: 10 of 100 devices, 600 samples, 1 epoch",
        "mnist",
        10,
        "mlp",
        {"learning.batch_size": 64, "learning.iterations": 1},
        rounds=10,
    ),
    "mlp-64-sgd": Race(
        "The same without momentum",
        "mnist",
        10,
        "mlp",
        {"learning.batch_size": 64, "learning.iterations": 1, "learning.momentum": 0.0},
        rounds=10,
    ),
    "mlp": Race(
        "The paper's MLP round: 10 of 100 devices, 600 samples, 5 full-batch steps, momentum 0.9",
        "mnist",
        10,
        "mlp",
        {},
        rounds=5,
    ),
    "cnn": Race(
        "The paper's CNN round: 10 of 100 devices, 500 samples, 5 epochs of batches of 50, SGD",
        "cifar10",
        10,
        "cnn",
        {},
    ),
}


def write_case(race: Race, directory: Path) -> None:
    """The problem for all contestants: samples as pmafl gives them to its devices."""
    settings = load(race.preset, race.settings)
    task = build_world(settings).task
    parts = [task.device_samples(device) for device in range(settings.fleet.devices)]
    shape = parts[0].x.shape[1:]
    ends = np.cumsum([len(part.y) for part in parts])
    x = np.lib.format.open_memmap(
        directory / "x.npy", "w+", np.float32, (int(ends[-1]), *shape[1:], shape[0])
    )
    for end, part in zip(ends, parts, strict=True):
        x[end - len(part.y) : end] = part.x.permute(0, 2, 3, 1).numpy()
    x.flush()
    np.save(directory / "y.npy", np.concatenate([part.y.numpy() for part in parts]))
    np.save(directory / "ends.npy", ends)
    learning = settings.learning
    described = {
        "preset": race.preset,
        "settings": race.settings,
        "network": race.network,
        "cohort": race.cohort,
        "rounds": race.rounds,
        "batch_size": learning.batch_size,
        "epochs": learning.iterations,
        "rate": learning.extractor_rate,
        "momentum": learning.momentum,
    }
    (directory / "case.json").write_text(json.dumps(described))


class Contestant:
    """One way to play the rounds, in processes of its own; `version` is of its package."""

    def __init__(self, who: str, python: str, case: Path, workers: int, turns: int) -> None:
        command = [python, str(CONTESTANTS), who, str(case), str(workers), str(turns)]
        places = [{}]
        if who == "pfl" and workers > 1:
            addresses = ",".join(f"localhost:{port}" for port in free_ports(workers))
            places = [
                {"PFL_WORKER_RANK": str(rank), "PFL_WORKER_ADDRESSES": addresses} for rank in range(workers)
            ]
        threads = {"OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "PASSIVE", "PFL_PYTORCH_DEVICE": "cpu"}
        threads["PYTHONPATH"] = os.pathsep.join([str(CONTESTANTS.parent), os.environ.get("PYTHONPATH", "")])
        logs = subprocess.DEVNULL if who == "flower" else None
        self._processes = [
            subprocess.Popen(
                command,
                env={**os.environ, **threads, **place},
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=logs,
                text=True,
            )
            for place in places
        ]
        self.version = self._answer()["version"]

    def play(self) -> dict[str, float]:
        """Plays a turn: wall seconds of a round, and CPU seconds of the first process."""
        self._processes[0].stdin.write("go\n")
        self._processes[0].stdin.flush()
        return self._answer()

    def end(self) -> None:
        for process in self._processes:
            process.stdin.close()
        for process in self._processes:
            process.wait()

    def _answer(self) -> dict[str, Any]:
        line = self._processes[0].stdout.readline()
        if not line:
            sys.exit(f"{' '.join(self._processes[0].args)} ended; see above")
        return json.loads(line)


def free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("localhost", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


def duel(case: Path, peer: str, python: str, options: argparse.Namespace) -> list[str]:
    """A peer and pmafl in turns: the lines of a table, one for each number of workers."""
    ways = {
        (who, workers): Contestant(who, command, case, workers, options.repeats + 1)
        for workers in options.workers
        for who, command in (("pmafl", sys.executable), (peer, python))
    }
    for way in ways.values():
        way.play()  # to warm up
    found: dict[tuple[str, int], list[dict[str, float]]] = {key: [] for key in ways}
    for turn in range(options.repeats):
        for key, way in ways.items():
            found[key].append(way.play())
        print(f"{NAMES[peer]}: {turn + 1} of {options.repeats}", file=sys.stderr)
    for way in ways.values():
        way.end()
    lines = []
    for workers in options.workers:
        ours, theirs = found["pmafl", workers], found[peer, workers]
        ratio = spread([b["wall_s"] / a["wall_s"] for a, b in zip(ours, theirs, strict=True)])
        wall_s = [f"{median(turn['wall_s'] for turn in turns):.3f}" for turns in (ours, theirs)]
        alone = workers == 1 and peer != "flower"  # all in one process
        cpu_s = [
            f"{median(turn['cpu_s'] for turn in turns):.3f}" if alone else "" for turns in (ours, theirs)
        ]
        name = f"{NAMES[peer]} {ways[peer, workers].version}"
        lines.append(f"| {' | '.join([name, str(workers), *wall_s, ratio, *cpu_s])} |")
    return lines


def section(race: Race, options: argparse.Namespace) -> str:
    """What the page says of a race."""
    peers = {"pfl": options.pfl, "flower": options.flower}
    with tempfile.TemporaryDirectory() as directory:
        write_case(race, case := Path(directory))
        lines = [
            line for peer, python in peers.items() if python for line in duel(case, peer, python, options)
        ]
    head = "| | workers | pmafl, s | peer, s | pmafl is faster by | pmafl, CPU s | peer, CPU s |"
    machine_and_turns = f"{machine()}; turns: {options.repeats}, rounds in each: {race.rounds}."
    return "\n".join([race.heading, "", machine_and_turns, "", head, "|---|" + "---:|" * 6, *lines, ""])


NAMES = {"pmafl": "pmafl", "pfl": "pfl-research", "flower": "Flower's simulation engine"}


def spread(values: list[float]) -> str:
    """The median, and from the smallest to the largest."""
    return f"**{median(values):.2f}** ({min(values):.2f} to {max(values):.2f})"


def machine() -> str:
    information = Path("/proc/cpuinfo")
    lines = information.read_text().splitlines() if information.exists() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return f"{names[0] if names else platform.processor()}, {os.cpu_count()} cores"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pfl", metavar="PYTHON", help="a Python with PyTorch and pfl")
    parser.add_argument("--flower", metavar="PYTHON", help="a Python with PyTorch and flwr[simulation]")
    parser.add_argument("--races", nargs="*", choices=list(RACES), default=list(RACES))
    parser.add_argument("--workers", nargs="*", type=int, default=[1, 2])
    parser.add_argument("--repeats", type=int, default=9, help="turns")
    parser.add_argument("--out", type=Path, default=PAGE)
    options = parser.parse_args()
    sys.path.insert(0, str(CONTESTANTS.parent))  # where a race's own network is found
    for name in options.races:
        made = section(RACES[name], options)
        print(made, flush=True)
        write(options.out, RACES[name].heading, made)


HEAD = """# Beside pfl-research and Flower

Written by `python benchmarks/peers.py`.

A round of FedAvg without tests: the devices of the round are trained and their uploads averaged. All have the
same networks, samples and devices, and one thread per worker. Each peer meets pmafl by itself, in turns. The
times are medians; of ratios, which are those of neighbouring turns, the smallest and largest are given too.
pmafl also rounds uploads to 16 bits, sums them in double precision, shuffles samples and reports losses of
devices. pfl-research runs as its own benchmarks do, its second worker being a second process; the clients of
Flower's simulation engine are written as its tutorials write them.
"""


def write(page: Path, heading: str, made: str) -> None:
    """Put one race's section on the page, in place of an earlier one; the others stay."""
    old = page.read_text().split("\n## ") if page.exists() else []
    sections = {"## " + part.partition("\n")[0]: "## " + part for part in old[1:]} | {heading: made}
    order = [race.heading for race in RACES.values()]
    page.write_text("\n".join([HEAD, *(sections[one].rstrip() + "\n" for one in order if one in sections)]))


if __name__ == "__main__":
    main()
