"""Which training setting lets every algorithm train on CIFAR-10? The evidence behind the `cifar10` preset.

The paper states rate 0.05, momentum 0.9 and 5 local iterations, but no batch size. This study trains `pma`
and `fedavg`, 10 of 100 devices at random per round, under each candidate. The rule was fixed before any
result was seen: take the candidate with the highest sum of the two accuracies after the last round; what sets
the two apart plays no part. Finished cells are kept, and several processes may work on the study at once.

    python benchmarks/cifar10_study.py [--rounds 10] [--out runs/cifar10-study]
"""

import argparse
import itertools
import json
import os
import sys
from pathlib import Path

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from pmafl import data
from pmafl.learning.task import LearningTask
from pmafl.settings import load
from pmafl.streams import stream

CANDIDATES = [  # batch size (0: full batch), rate, momentum
    (50, 0.01, 0.9),
    (0, 0.05, 0.9),
    (50, 0.02, 0.9),
    (50, 0.005, 0.9),
    (50, 0.05, 0.0),
    (50, 0.05, 0.9),
]
ALGORITHMS = ("pma", "fedavg")
DEVICES, SCHEDULED, EVERY = 100, 10, 5


def train(candidate: tuple[int, float, float], algorithm: str, rounds: int, seed: int) -> list[dict]:
    batch_size, rate, momentum = candidate
    settings = load(
        "cifar10",
        {
            "learning.algorithm": algorithm,
            "learning.batch_size": batch_size,
            "learning.extractor_rate": rate,
            "learning.predictor_rate": rate,
            "learning.momentum": momentum,
        },
    )
    dataset = data.load("cifar10")
    partition = data.split(*dataset.labels(), DEVICES, stream(seed, "partition"))
    task = LearningTask(settings.learning, dataset, partition, seed)
    state, curve = task.start(), []
    for index in range(rounds):
        chosen = stream(seed, "policy", index).choice(DEVICES, SCHEDULED, replace=False)
        state = task.advance(state, chosen, index)
        if (index + 1) % EVERY == 0 or index + 1 == rounds:
            metrics = task.evaluate(state)
            curve.append(
                {"round": index + 1, "accuracy": metrics.accuracy, "global": metrics.global_accuracy}
            )
            print(candidate, algorithm, curve[-1], flush=True)
    return curve


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--out", type=Path, default=Path("runs/cifar10-study"))
    options = parser.parse_args()
    options.out.mkdir(parents=True, exist_ok=True)
    for candidate, algorithm in itertools.product(CANDIDATES, ALGORITHMS):
        cell = options.out / f"{'-'.join(map(str, candidate))}-{algorithm}.json"
        try:
            cell.touch(exist_ok=False)  # claims the cell for this process
        except FileExistsError:
            continue
        cell.write_text(json.dumps(train(candidate, algorithm, options.rounds, options.seed)))
    table(options)


def table(options: argparse.Namespace) -> None:
    print(f"accuracy after {options.rounds} rounds, seed {options.seed}\n")
    print("| batch | rate | momentum | pma | fedavg | sum |\n|---|---|---|---|---|---|")
    for candidate in CANDIDATES:
        cells = [options.out / f"{'-'.join(map(str, candidate))}-{a}.json" for a in ALGORITHMS]
        if not all(cell.exists() and cell.read_text() for cell in cells):
            sys.exit("some cells are still running in another process")
        pma, fedavg = (json.loads(cell.read_text())[-1]["accuracy"] for cell in cells)
        batch, rate, momentum = candidate
        print(f"| {batch or 'full'} | {rate} | {momentum} | {pma:.1%} | {fedavg:.1%} | {pma + fedavg:.3f} |")


if __name__ == "__main__":
    main()
