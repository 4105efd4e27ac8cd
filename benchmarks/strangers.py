"""How well do models that were trained on some people's watches serve somebody else?

In each of five folds two of the ten people, with their four watches, are left out of the `watch` preset.
After a run, the model of every watch is tested twice: on the later windows of its own wearer, which is what
the run records, and on all windows of the two strangers. Runs that are done are kept.

    python benchmarks/strangers.py [--out runs/strangers]
"""

import argparse
from pathlib import Path

import numpy as np
import torch

from pmafl import data, runs
from pmafl.data.watch import ARMS, PEOPLE
from pmafl.settings import load

ALGORITHMS = ("fedavg", "local", "pma")
FOLDS = 5
BATCH = 1024


def leave_out(fold: int, file: Path) -> tuple[np.ndarray, np.ndarray]:
    """Write the data of all others as natural clients; give the strangers' windows and exercises."""
    watch = data.load("watch")
    owners = watch.owners()
    assert owners is not None, "every window is somebody's"
    strangers = np.arange(fold, PEOPLE, FOLDS)
    train, test = (~np.isin(owner // len(ARMS), strangers) for owner in owners)
    np.savez_compressed(
        file,
        x=watch.x_train[train],
        y=watch.y_train[train],
        client=owners[0][train],
        x_test=watch.x_test[test],
        y_test=watch.y_test[test],
        client_test=owners[1][test],
    )
    return (
        np.concatenate([watch.x_train[~train], watch.x_test[~test]]),
        np.concatenate([watch.y_train[~train], watch.y_test[~test]]),
    )


def serve(fold: int, algorithm: str, out: Path) -> tuple[float, float]:
    """Accuracy for wearers and for strangers, the mean over all watches that were trained."""
    file, directory = out / f"fold-{fold}.npz", out / f"fold-{fold}-{algorithm}"
    x, y = leave_out(fold, file)
    if not (directory / "summary.json").exists():
        devices = (PEOPLE - PEOPLE // FOLDS) * len(ARMS)
        changes = {"data.dataset": str(file.resolve()), "fleet.devices": devices, "run.seed": fold + 1}
        runs.run(directory, load("watch", changes | {"learning.algorithm": algorithm}))
    run = runs.open_run(directory)
    models = runs.Models(run)
    inputs = torch.from_numpy(run.world.task.dataset.scaled(x)).split(BATCH)
    right = []
    for device in range(run.settings.fleet.devices):
        module = models.module(device)
        with torch.inference_mode():
            scores = torch.cat([module(part) for part in inputs])
        right.append((scores.argmax(1).numpy() == y).mean())
    return runs.read_summary(directory)["final_accuracy"], float(np.mean(right))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path, default=Path("runs/strangers"))
    out = parser.parse_args().out
    out.mkdir(parents=True, exist_ok=True)
    print("| algorithm | its own wearer, later | a stranger |\n|---|---|---|")
    for algorithm in ALGORITHMS:
        found = 100 * np.array([serve(fold, algorithm, out) for fold in range(FOLDS)])
        mean, deviation = found.mean(0), found.std(0, ddof=1)
        cells = (f"{m:.1f} ± {d:.1f}%" for m, d in zip(mean, deviation, strict=True))
        print(f"| `{algorithm}` | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
