"""Other ways to run a federated round, for `training.py` to time: a textbook loop, PFLlib, Flower.

All get the same networks, data and devices as pmafl. PFLlib (https://github.com/TsingZ0/PFLlib) is used as it
stands in a checkout and needs scikit-learn and h5py; Flower comes with ``pip install pmafl[flower]``.
"""

import contextlib
import copy
import functools
import io
import os
import sys
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Subset, TensorDataset

from pmafl import data
from pmafl.data.partition import Partition
from pmafl.settings import Settings, load

EVALUATION_BATCH = 256


@dataclass(frozen=True)
class Case:
    """One federated problem: `scheduled` of `devices` devices train on `samples` samples each."""

    name: str
    preset: str
    devices: int
    scheduled: int
    samples: int
    batch_size: int  # 0: all samples
    iterations: int

    @property
    def settings(self) -> Settings:
        changes = {"batch_size": self.batch_size, "iterations": self.iterations, "momentum": 0.9}
        return load(self.preset, {f"learning.{key}": value for key, value in changes.items()})

    def dataset(self) -> data.Dataset:
        return data.load(self.preset)

    def partition(self) -> Partition:
        """Two classes a device, and all of their test images."""
        pairs = [(k % 10, (k + 1 + k // 10 % 9) % 10) for k in range(self.devices)]
        train, test = ([np.flatnonzero(np.isin(y, pair)) for pair in pairs] for y in self.dataset().labels())
        return Partition([rows[: self.samples] for rows in train], test)

    def network(self) -> nn.Sequential:
        """The preset's network as a tutorial writes it: the shared layers, then the personal ones."""
        if self.preset == "mnist":
            base = [nn.Flatten(), nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU()]
            head = [nn.Linear(256, 64), nn.ReLU(), nn.Linear(64, 10)]
        else:
            base = [nn.Conv2d(3, 64, 5), nn.ReLU(), nn.MaxPool2d(2)]
            base += [nn.Conv2d(64, 64, 5), nn.ReLU(), nn.MaxPool2d(2)]
            base += [nn.Flatten(), nn.Linear(1600, 120), nn.ReLU(), nn.Linear(120, 64), nn.ReLU()]
            head = [nn.Linear(64, 10)]
        return nn.Sequential(nn.Sequential(*base), nn.Sequential(*head))

    def chosen(self) -> range:
        return range(self.scheduled)


class Textbook:
    """FedAvg as tutorials write it: a copied model, a DataLoader and an optimiser for every device."""

    def __init__(self, case: Case) -> None:
        self.case, self.model, self.partition = case, case.network(), case.partition()
        dataset = case.dataset()
        self.train_set, self.test_set = (
            TensorDataset(torch.from_numpy(dataset.scaled(x)), torch.from_numpy(y))
            for x, y in ((dataset.x_train, dataset.y_train), (dataset.x_test, dataset.y_test))
        )

    def train(self) -> None:
        states = [self.train_device(device) for device in self.case.chosen()]
        average = {key: torch.stack([state[key] for state in states]).mean(0) for key in states[0]}
        self.model.load_state_dict(average)

    def train_device(self, device: int) -> dict[str, torch.Tensor]:
        model = copy.deepcopy(self.model)
        model.train()
        samples = Subset(self.train_set, self.partition.train[device])
        loader = DataLoader(samples, batch_size=self.case.batch_size or len(samples), shuffle=True)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.05, momentum=0.9)
        criterion = nn.CrossEntropyLoss()
        for _ in range(self.case.iterations):
            for x, y in loader:
                optimizer.zero_grad()
                loss = criterion(model(x), y)
                loss.backward()
                optimizer.step()
        return model.state_dict()

    def evaluate(self) -> None:
        self.model.eval()
        accuracies = []
        with torch.no_grad():
            for rows in self.partition.test:
                correct = 0
                for x, y in DataLoader(Subset(self.test_set, rows), batch_size=EVALUATION_BATCH):
                    correct += (self.model(x).argmax(1) == y).sum().item()
                accuracies.append(correct / len(rows))


class Pfllib:
    """A round of PFLlib: the steps of its servers' `train` method, in its order, by its own functions."""

    def __init__(self, case: Case, checkout: Path, workspace: Path, algorithm: str) -> None:
        self.workspace = workspace / "system"  # PFLlib reads ../dataset
        self.workspace.mkdir(exist_ok=True)
        _write_devices(case, workspace / "dataset" / case.preset)
        if str(checkout / "system") not in sys.path:
            sys.path.insert(0, str(checkout / "system"))
        from flcore.servers.serveravg import FedAvg
        from flcore.servers.serverrep import FedRep

        with self._at_home():
            self.server = {"FedAvg": FedAvg, "FedRep": FedRep}[algorithm](_arguments(case, algorithm), 0)

    def train(self) -> None:
        with self._at_home():
            self.server.selected_clients = self.server.select_clients()
            self.server.send_models()
            for client in self.server.selected_clients:
                client.train()
            self.server.receive_models()
            self.server.aggregate_parameters()

    def evaluate(self) -> None:
        with self._at_home():
            self.server.evaluate()

    @contextlib.contextmanager
    def _at_home(self) -> Iterator[None]:
        with contextlib.chdir(self.workspace), contextlib.redirect_stdout(io.StringIO()):
            yield


class _Split(nn.Module):
    """A network in the form that PFLlib's personal algorithms expect."""

    def __init__(self, network: nn.Sequential) -> None:
        super().__init__()
        self.base, self.head = network

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.head(self.base(x))


def _arguments(case: Case, algorithm: str) -> SimpleNamespace:
    """PFLlib's command-line arguments: its defaults, but for the size of the problem."""
    size = {
        "num_clients": case.devices,
        "join_ratio": case.scheduled / case.devices,
        "batch_size": case.batch_size or case.samples,
        "local_epochs": case.iterations,
        "plocal_epochs": case.iterations,
    }
    choices = {"algorithm": algorithm, "dataset": case.preset, "device": "cpu", "num_classes": 10}
    numbers = {"local_learning_rate": 0.005, "learning_rate_decay_gamma": 0.99, "time_threthold": 1e9}
    rest = {"save_folder_name": "items", "goal": "benchmark", "top_cnt": 100, "batch_num_per_client": 2}
    off = (
        "random_join_ratio few_shot time_select auto_break client_drop_rate train_slow_rate send_slow_rate "
        "dlg_eval num_new_clients fine_tuning_epoch_new learning_rate_decay"
    )
    ones = "global_rounds eval_gap dlg_gap"
    return SimpleNamespace(
        model=_Split(case.network()),
        **(size | choices | numbers | rest),
        **(dict.fromkeys(off.split(), 0) | dict.fromkeys(ones.split(), 1)),
    )


def _write_devices(case: Case, directory: Path) -> None:
    """Every device's samples as PFLlib's own scripts store them."""
    if directory.exists():
        return
    dataset, partition = case.dataset(), case.partition()
    for part, x, y, devices in (
        ("train", dataset.x_train, dataset.y_train, partition.train),
        ("test", dataset.x_test, dataset.y_test, partition.test),
    ):
        os.makedirs(directory / part)
        for device, rows in enumerate(devices):
            samples = {"x": dataset.scaled(x[rows]), "y": y[rows]}
            np.savez_compressed(directory / part / f"{device}.npz", data=np.array(samples, dtype=object))


@functools.cache
def _textbook(case: Case) -> Textbook:
    """One for each of Flower's worker processes."""
    return Textbook(case)


def flower_round(case: Case, rounds: int = 6) -> float:
    """Wall seconds of a FedAvg round in Flower's simulation engine, one client at a time.

    Clients train as `Textbook` does, so what a round takes longer than that is the engine.
    """
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    client, server, ends = ClientApp(), ServerApp(), []

    @client.train()
    def train(message: Message, context: Context) -> Message:
        textbook = _textbook(case)
        textbook.model.load_state_dict(message.content["arrays"].to_torch_state_dict())
        trained = textbook.train_device(int(context.node_config["partition-id"]))
        metrics = MetricRecord({"num-examples": case.samples})
        return Message(RecordDict({"arrays": ArrayRecord(trained), "metrics": metrics}), reply_to=message)

    class Timed(FedAvg):
        def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple:
            result = super().aggregate_train(server_round, replies)
            ends.append(time.perf_counter())
            return result

    @server.main()
    def main(grid: Grid, context: Context) -> None:
        strategy = Timed(fraction_train=case.scheduled / case.devices, fraction_evaluate=0.0)
        strategy.start(grid, ArrayRecord(case.network().state_dict()), num_rounds=rounds)

    resources = {"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": 1}}
    run_simulation(server, client, num_supernodes=case.devices, backend_config=resources)
    return float(np.median(np.diff(ends)))
