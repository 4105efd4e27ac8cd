"""One contestant of `peers.py`: a turn of some rounds for every line on standard input, one line in answer.

    python contestants.py pmafl|pfl|flower CASE WORKERS TURNS

CASE is a directory that `peers.py` writes. Peers run in an environment of their own, so what belongs to one
contestant is imported by that one alone. pfl-research and Flower are used by their public interfaces: pfl as
its own benchmarks use it, Flower with clients as its tutorials write them.
"""

import functools
import json
import os
import sys
import time
from collections.abc import Iterable
from importlib.metadata import version
from pathlib import Path
from types import MethodType
from typing import Any

import numpy as np
import torch
from torch import nn


class Case:
    """A federated problem, as `peers.py` wrote it: samples of all devices, one behind the other."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        described = json.loads((directory / "case.json").read_text())
        self.network: str = described["network"]
        self.settings: dict[str, Any] = described["settings"]  # pmafl's
        self.preset: str = described["preset"]
        self.cohort: int = described["cohort"]
        self.rounds: int = described["rounds"]  # in a turn
        self.batch_size: int = described["batch_size"]  # 0: all samples of a device
        self.epochs: int = described["epochs"]
        self.rate: float = described["rate"]
        self.momentum: float = described["momentum"]

    def users(self) -> list[tuple[torch.Tensor, torch.Tensor]]:
        """Images (height, width, channels) and labels of each device; processes share their memory."""
        x, y = (
            torch.from_numpy(np.load(self.directory / name, mmap_mode="c")) for name in ("x.npy", "y.npy")
        )
        ends = np.load(self.directory / "ends.npy").tolist()
        return [(x[start:end], y[start:end]) for start, end in zip([0, *ends], ends, strict=False)]

    def module(self) -> nn.Sequential:
        """The network, for images as pfl-research's own benchmark stores them."""
        height, width, channels = np.load(self.directory / "x.npy", mmap_mode="r").shape[1:]
        return nn.Sequential(ChannelsFirst(), *NETWORKS[self.network]((channels, height, width), 10))

    def optimizer(self, parameters: Iterable[nn.Parameter], lr: float) -> torch.optim.Optimizer:
        return torch.optim.SGD(parameters, lr=lr, momentum=self.momentum)


class ChannelsFirst(nn.Module):
    """Images as torch wants them, without a copy."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x.permute(0, 3, 1, 2)


def two_convolutions(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    """The network of pfl-research's CIFAR-10 benchmark."""
    channels, height, width = shape
    network = nn.Sequential(
        nn.Conv2d(channels, 32, 3),
        nn.ReLU(),
        nn.Conv2d(32, 64, 3),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Dropout(0.25),
        nn.Flatten(),
        nn.Linear(64 * ((height - 4) // 2) * ((width - 4) // 2), 128),
        nn.ReLU(),
        nn.Dropout(0.5),
        nn.Linear(128, classes),
    )
    for member in network:
        if isinstance(member, nn.Conv2d | nn.Linear):
            nn.init.xavier_uniform_(member.weight)
    return network


def paper_mlp(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    dense = [nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 256), nn.ReLU(), nn.Linear(256, 64), nn.ReLU()]
    return nn.Sequential(nn.Flatten(), *dense, nn.Linear(64, classes))


def paper_cnn(shape: tuple[int, ...], classes: int) -> nn.Sequential:
    stem = [nn.Conv2d(3, 64, 5), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(64, 64, 5), nn.ReLU(), nn.MaxPool2d(2)]
    dense = [nn.Linear(1600, 120), nn.ReLU(), nn.Linear(120, 64), nn.ReLU(), nn.Linear(64, classes)]
    return nn.Sequential(*stem, nn.Flatten(), *dense)


NETWORKS = {"two_convolutions": two_convolutions, "mlp": paper_mlp, "cnn": paper_cnn}


class Turns:
    """Waits for the line that begins a turn of some rounds, and says what a round of it took."""

    def __init__(self, package: str, rounds: int) -> None:
        self._answers = os.fdopen(os.dup(1), "w")
        os.dup2(2, 1)  # whatever else is printed is no answer
        self._package, self._rounds, self._began = package, rounds, (0.0, 0.0)
        self._played = 0

    def next(self) -> None:
        """Call before the first round, and after every one."""
        played, self._played = self._played, self._played + 1
        if played % self._rounds:
            return
        now = time.perf_counter(), time.process_time()
        found: dict[str, Any] = {"version": version(self._package)}
        if played:
            wall_s, cpu_s = (
                (end - began) / self._rounds for began, end in zip(self._began, now, strict=True)
            )
            found = {"wall_s": wall_s, "cpu_s": cpu_s}
        print(json.dumps(found), file=self._answers, flush=True)
        sys.stdin.readline()
        self._began = time.perf_counter(), time.process_time()


def play_pmafl(case: Case, workers: int, rounds: int) -> None:
    from pmafl.rounds import play
    from pmafl.settings import load
    from pmafl.workers import Team, simulated_devices
    from pmafl.world import build_world

    world, turns = build_world(load(case.preset, case.settings)), Turns("pmafl", case.rounds)
    with simulated_devices(world, Team(workers)) as devices:
        turns.next()
        for _, _ in zip(range(rounds), play(world, devices), strict=False):
            turns.next()


def play_pfl(case: Case, workers: int, rounds: int) -> None:
    """With several workers this is one of them: pfl finds its place in the environment."""
    from pfl.aggregate.simulate import SimulatedBackend
    from pfl.aggregate.weighting import WeightByUser
    from pfl.algorithm import FederatedAveraging, NNAlgorithmParams
    from pfl.callback.base import TrainingProcessCallback
    from pfl.data import FederatedDataset
    from pfl.data.sampling import get_user_sampler
    from pfl.hyperparam import NNTrainHyperParams
    from pfl.metrics import Metrics
    from pfl.model.pytorch import PyTorchModel

    turns = Turns("pfl", case.rounds) if os.environ.get("PFL_WORKER_RANK", "0") == "0" else None

    class TakingTurns(TrainingProcessCallback):
        def on_train_begin(self, *, model: Any) -> Any:
            if turns:
                turns.next()
            return Metrics()

        def after_central_iteration(self, *arguments: Any, **named: Any) -> tuple[bool, Any]:
            if turns:
                turns.next()
            return False, Metrics()

    def loss(self: nn.Module, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        self.train()
        return nn.functional.cross_entropy(self(x), y)

    np.random.seed(0)  # noqa: NPY002 - pfl draws users by it, the same in all workers
    torch.manual_seed(0)
    module, users = case.module(), case.users()
    module.loss = MethodType(loss, module)
    module.metrics = MethodType(lambda self, x, y: {}, module)
    model = PyTorchModel(module, case.optimizer, torch.optim.SGD(module.parameters(), lr=1.0))
    sampler = get_user_sampler("random", range(len(users)))
    data = FederatedDataset.from_slices(dict(enumerate(users)), sampler)
    FederatedAveraging().run(
        NNAlgorithmParams(rounds, rounds + 1, case.cohort, val_cohort_size=0),
        SimulatedBackend(data, data, [WeightByUser()]),
        model,
        NNTrainHyperParams(
            local_num_epochs=case.epochs,
            local_learning_rate=case.rate,
            local_batch_size=case.batch_size or None,
        ),
        callbacks=[TakingTurns()],
        send_metrics_to_platform=False,
    )


@functools.cache
def flower_client(directory: Path) -> tuple[Case, nn.Sequential, list[tuple[torch.Tensor, torch.Tensor]]]:
    """What each of Flower's worker processes has."""
    torch.set_num_threads(1)
    case = Case(directory)
    return case, case.module(), case.users()


def train_flower(directory: Path, state: dict[str, torch.Tensor], user: int) -> dict[str, torch.Tensor]:
    """A client as tutorials write it."""
    case, module, users = flower_client(directory)
    module.load_state_dict(state)
    module.train()
    samples = torch.utils.data.TensorDataset(*users[user])
    loader = torch.utils.data.DataLoader(samples, batch_size=case.batch_size or len(samples), shuffle=True)
    optimizer = case.optimizer(module.parameters(), lr=case.rate)
    for _ in range(case.epochs):
        for x, y in loader:
            optimizer.zero_grad()
            nn.functional.cross_entropy(module(x), y).backward()
            optimizer.step()
    return module.state_dict()


def play_flower(case: Case, workers: int, rounds: int) -> None:
    from flwr.app import ArrayRecord, Context, Message, MetricRecord, RecordDict
    from flwr.clientapp import ClientApp
    from flwr.serverapp import Grid, ServerApp
    from flwr.serverapp.strategy import FedAvg
    from flwr.simulation import run_simulation

    client, server, turns = ClientApp(), ServerApp(), Turns("flwr", case.rounds)
    directory, users = case.directory, len(case.users())

    @client.train()
    def train(message: Message, context: Context) -> Message:
        user = int(context.node_config["partition-id"])
        trained = train_flower(directory, message.content["arrays"].to_torch_state_dict(), user)
        metrics = MetricRecord({"num-examples": 1})
        return Message(RecordDict({"arrays": ArrayRecord(trained), "metrics": metrics}), reply_to=message)

    class TakingTurns(FedAvg):
        def aggregate_train(self, server_round: int, replies: Iterable[Message]) -> tuple:
            replies = list(replies)
            if len(replies) < case.cohort or any(reply.has_error() for reply in replies):
                sys.stderr.write("Flower: a client failed\n")
                os._exit(1)
            result = super().aggregate_train(server_round, replies)
            turns.next()
            return result

    @server.main()
    def serve(grid: Grid, context: Context) -> None:
        strategy = TakingTurns(
            fraction_train=case.cohort / users, fraction_evaluate=0.0, min_train_nodes=case.cohort
        )
        turns.next()
        strategy.start(grid, ArrayRecord(case.module().state_dict()), num_rounds=rounds)

    resources = {"client_resources": {"num_cpus": 1}, "init_args": {"num_cpus": workers}}
    run_simulation(server, client, num_supernodes=users, backend_config=resources)


def main() -> None:
    who, directory, workers, turns = sys.argv[1:]
    torch.set_num_threads(1)
    ways, case = {"pmafl": play_pmafl, "pfl": play_pfl, "flower": play_flower}, Case(Path(directory))
    ways[who](case, int(workers), int(turns) * case.rounds)


if __name__ == "__main__":
    import contestants  # under its own name Flower's workers find it, too

    contestants.main()
