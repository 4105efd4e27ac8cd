"""Ten algorithms beside PFLlib's own code: the same MNIST split, network, first weights, rates and rounds.

PFLlib (github.com/TsingZ0/PFLlib, Apache 2.0) is no part of this project: get it yourself, and scikit-learn
and h5py in an environment of its own. Three steps:

    python benchmarks/pfllib.py export FOLDER               # the split and first weights, in PFLlib's format
    python benchmarks/pfllib.py theirs FOLDER PFLLIB        # runs its code, PFLLIB being its checkout
    python benchmarks/pfllib.py ours FOLDER                 # runs pmafl, and prints the table

A step that was stopped goes on with the algorithms that have no result yet in FOLDER.
"""

import argparse
import copy
import json
import os
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

DEVICES, SAMPLES, ROUNDS, SEED = 20, 300, 50, 1
RATE, BATCH, EPOCHS = 0.05, 50, 1
SETTINGS = {
    "fleet.devices": DEVICES,
    "fleet.samples": SAMPLES,
    "data.test_split": "proportional",
    "learning.shared_layers": 1,
    "learning.operations_per_sample": "count",
    "learning.extractor_rate": RATE,
    "learning.predictor_rate": RATE,
    "learning.momentum": 0.0,
    "learning.iterations": EPOCHS,
    "learning.batch_size": BATCH,
    "learning.upload_bits_per_parameter": 32,
    "policy.name": "all",
    "run.wireless": "none",
    "run.rounds": ROUNDS,
    "run.evaluate_every": ROUNDS,
    "run.seed": SEED,
}
# PFLlib's name; options here; arguments there. PFLlib's rate eta of pFedMe is its learning rate.
CASES: dict[str, tuple[str, dict[str, Any], dict[str, Any]]] = {
    "fedper": ("FedPer", {}, {}),
    "fedrep": ("FedRep", {}, {"plocal_epochs": EPOCHS}),
    "fedbn": ("FedBN", {}, {}),
    "lg-fedavg": ("LG_FedAvg", {}, {}),
    "fedbabu": ("FedBABU", {"tuning_iterations": 5}, {"fine_tuning_epochs": 5}),
    "ditto": ("Ditto", {"weight": 0.1}, {"mu": 0.1, "plocal_epochs": EPOCHS}),
    "apfl": ("APFL", {"mixing": 0.5, "mixing_rate": RATE}, {"alpha": 0.5}),
    "scaffold": ("SCAFFOLD", {}, {"server_learning_rate": 1.0}),
    "pfedme": (
        "pFedMe",
        {"weight": 15.0, "steps": 5, "rate": RATE},
        {"lamda": 15.0, "K": 5, "p_learning_rate": RATE, "beta": 1.0},
    ),
    "per-fedavg": ("PerAvg", {"rate": RATE}, {}),
    "fedavg": ("FedAvg", {}, {}),
}
MODULES = {"LG_FedAvg": "serverlg", "PerAvg": "serverperavg", "pFedMe": "serverpFedMe"}
SPLIT = ("FedPer", "FedRep", "LG_FedAvg", "FedBABU")  # for which PFLlib divides the network


class Net(nn.Module):
    """784-100-10 under PFLlib's names for layers, with BatchNorm where that is the point."""

    def __init__(self, normalised: bool) -> None:
        super().__init__()
        self.fc1 = nn.Linear(784, 100)
        self.bn1 = nn.BatchNorm1d(100) if normalised else nn.Identity()
        self.fc = nn.Linear(100, 10)

    def forward(self, x: Tensor) -> Tensor:
        scores: Tensor = self.fc(torch.relu(self.bn1(self.fc1(torch.flatten(x, 1)))))
        return scores


def mlp(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """The same network for pmafl."""
    return nn.Sequential(nn.Flatten(), nn.Linear(784, 100), nn.ReLU(), nn.Linear(100, classes))


def normalised(input_shape: tuple[int, ...], classes: int) -> nn.Sequential:
    return nn.Sequential(
        nn.Flatten(), nn.Linear(784, 100), nn.BatchNorm1d(100), nn.ReLU(), nn.Linear(100, classes)
    )


def world_of(name: str) -> Any:
    from pmafl.settings import load
    from pmafl.world import build_world

    network = "normalised" if name == "fedbn" else "mlp"
    own = {"learning.model": f"benchmarks.pfllib:{network}", "learning.algorithm": name}
    return build_world(load("mnist", SETTINGS | own | {"learning.options": CASES[name][1]}))


def export(folder: Path) -> None:
    """Each device's samples as PFLlib reads them, and the first weights of both networks."""
    from pmafl import data

    for name in ("fedavg", "fedbn"):
        module = world_of(name).method.model.module
        fc1, *bn1, fc = [m for m in module if any(True for _ in m.parameters())]
        layers = {"fc1": fc1, "fc": fc, **dict(zip(["bn1"], bn1, strict=False))}
        weights = {f"{key}.{k}": v for key, layer in layers.items() for k, v in layer.state_dict().items()}
        np.savez(folder / f"{name}-start.npz", **{key: value.numpy() for key, value in weights.items()})
    settings = world_of("fedavg").settings
    dataset = data.load("mnist", "")
    partition = data.split_data(settings, dataset)
    parts = {
        "train": (partition.train, dataset.x_train, dataset.y_train),
        "test": (partition.test, dataset.x_test, dataset.y_test),
    }
    for part, (rows, x, y) in parts.items():
        where = folder / "dataset" / "MNIST" / part
        where.mkdir(parents=True, exist_ok=True)
        for device, own in enumerate(rows):
            samples = {"x": dataset.scaled(x[own], settings.data.inputs), "y": y[own]}
            np.savez(where / f"{device}.npz", data=np.array(samples, dtype=object))


def theirs(folder: Path, pfllib: Path) -> None:
    """PFLlib's servers and clients, with its own defaults but for what is set equal."""
    sys.path.insert(0, str(pfllib / "system"))
    source = (pfllib / "system" / "main.py").read_text(encoding="utf-8")
    start, stop = (
        source.index("parser = argparse.ArgumentParser()"),
        source.index("args = parser.parse_args()"),
    )
    lines = [line.removeprefix("    ") for line in source[start:stop].splitlines()]
    known: dict[str, Any] = {"argparse": argparse}
    exec("\n".join(lines), known)  # its table of arguments, for their defaults
    (folder / "system").mkdir(exist_ok=True)
    os.chdir(folder / "system")  # it reads ../dataset and writes ../results
    for name, (called, _, arguments) in CASES.items():
        path = folder / f"theirs-{name}.json"
        if path.exists():
            continue
        args = known["parser"].parse_args([])
        for key, value in {
            **{"algorithm": called, "device": "cpu", "global_rounds": ROUNDS, "eval_gap": ROUNDS},
            **{"batch_size": BATCH, "local_learning_rate": RATE, "local_epochs": EPOCHS},
            **{"num_clients": DEVICES, **arguments},
        }.items():
            assert hasattr(args, key), key
            setattr(args, key, value)
        torch.manual_seed(SEED)
        np.random.seed(SEED)  # noqa: NPY002 - PFLlib draws from the global state
        args.model = Net(normalised=name == "fedbn")
        first = np.load(folder / f"{'fedbn' if name == 'fedbn' else 'fedavg'}-start.npz")
        args.model.load_state_dict({key: torch.from_numpy(first[key]) for key in first.files})
        if called in SPLIT:
            models = __import__("flcore.trainmodel.models", fromlist=["BaseHeadSplit"])
            args.head, args.model.fc = copy.deepcopy(args.model.fc), nn.Identity()
            args.model = models.BaseHeadSplit(args.model, args.head)
        module = MODULES.get(called, "server" + called.lower().removeprefix("fed"))
        server = getattr(__import__(f"flcore.servers.{module}", fromlist=[called]), called)(args, 0)
        began = time.process_time()
        server.train()
        result = {key: getattr(server, key, []) for key in ("rs_test_acc", "rs_test_acc_per")}
        result["cpu_s"] = time.process_time() - began
        path.write_text(json.dumps({key: np.asarray(value).tolist() for key, value in result.items()}))


def ours(folder: Path) -> None:
    """Runs pmafl, and prints both sides. Devices count by their test samples, as in PFLlib."""
    from pmafl import data
    from pmafl.rounds import play

    print("| algorithm | pmafl | PFLlib | difference |\n|---|---|---|---|")
    for name, (called, _, _) in CASES.items():
        path = folder / f"ours-{name}.json"
        if not path.exists():
            world, began = world_of(name), time.process_time()
            *_, (state, _) = play(world)
            tests = np.array(
                [len(rows) for rows in data.split_data(world.settings, data.load("mnist", "")).test]
            )
            accuracy = world.task.evaluate(state.learning).device_accuracy
            cpu_s = time.process_time() - began
            found = {"accuracy": float(accuracy @ tests / tests.sum()), "cpu_s": cpu_s}
            path.write_text(json.dumps(found))
        mine = json.loads(path.read_text())["accuracy"]
        reported = np.nan  # where it was not run yet
        if (path := folder / f"theirs-{name}.json").exists():
            other = json.loads(path.read_text())
            reported = (other["rs_test_acc_per"] or other["rs_test_acc"])[-1]
        row = f"{100 * mine:.2f} | {100 * reported:.2f} | {100 * (mine - reported):+.2f}"
        print(f"| `{name}` ({called}) | {row} |", flush=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("step", choices=["export", "theirs", "ours"])
    parser.add_argument("folder", type=Path)
    parser.add_argument("pfllib", type=Path, nargs="?")
    given = parser.parse_args()
    folder = given.folder.resolve()
    folder.mkdir(parents=True, exist_ok=True)
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    if given.step == "theirs":
        theirs(folder, given.pfllib.resolve())
    else:
        {"export": export, "ours": ours}[given.step](folder)


if __name__ == "__main__":
    main()
