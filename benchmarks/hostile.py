"""A federation of 20 devices, 4 of them hostile, under each rule of aggregation, beside the honest run.

Server app and client apps are the real ones, on a grid in memory and in one process. Prints the table as it
grows, and writes it to docs/hostile.md at the end:

    nice -n 10 python benchmarks/hostile.py [--rounds 30] [--page docs/hostile.md]
"""

import argparse
import itertools
import logging
import resource
import shlex
import tempfile
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from flwr.app import Context, Error, Message, RecordDict
from flwr.serverapp import Grid
from flwr.supercore.task_identity import TaskIdentity
from safetensors.numpy import load_file

from pmafl import runs
from pmafl.flower import client, server
from pmafl.learning.aggregation import aggregate_for
from pmafl.learning.quantise import encode
from pmafl.settings import load

DEVICES, SAMPLES = 20, 200
LIE_J = (6.5, 19.0)  # of computing and of the radio: nearly the most that is believed of these devices
RULES = ("mean", "median", "trimmed-mean", "clipped-mean")
SETTINGS = {
    "fleet.devices": DEVICES,
    "fleet.samples": SAMPLES,
    "policy.name": "all",
    "cell.bandwidth_hz": 1e8,  # so that all 20 fit into a round, hostile ones in each
    "run.evaluate_every": 5,
}
Spoil = Callable[[Message, Message], Message]


def poison(change: Callable[[Any, Any], Any]) -> Spoil:
    """Sends what `change` makes of the extractor before and after training, as far as 16 bits go."""

    def spoil(message: Message, reply: Message) -> Message:
        if message.metadata.message_type == "train" and not reply.has_error():
            before = np.frombuffer(message.content["weights"]["extractor/0"].data, np.float32)
            array = reply.content["weights"]["extractor/0"]
            after = np.frombuffer(array.data, np.float16).astype(np.float32)
            array.data = np.clip(change(before, after), -65504, 65504).astype(np.float16).tobytes()
        return reply

    return spoil


def flip(before: Any, after: Any) -> Any:
    return before - (after - before)


def lie(message: Message, reply: Message) -> Message:
    """Flips the sign, too, and claims the most samples and energy that are believed."""
    if reply.has_error():
        return reply
    poison(flip)(message, reply)
    if "profile" in reply.content:
        profile = reply.content["profile"]
        profile["samples"], profile["cycles_per_sample"] = 999 * SAMPLES, profile["cycles_per_sample"] / 999
    if "report" in reply.content:
        report = reply.content["report"]
        report["compute_energy_j"], report["upload_energy_j"] = LIE_J
        report["measured"] = 1
    return reply


HOSTILE: dict[int, tuple[str, Spoil]] = {
    0: ("its change scaled by 1000", poison(lambda before, after: before + 1000 * (after - before))),
    5: ("its change with the sign flipped", poison(flip)),
    10: ("NaN", poison(lambda before, after: np.full_like(after, np.nan))),
    15: ("the sign flipped, 999 times its samples, and 25 J per round", lie),
}


class MemoryGrid(Grid):
    """Delivers at once; node 100 + k is device k."""

    def __init__(self, hostile: Iterable[int]) -> None:
        self.contexts = {
            100 + k: Context(0, 100 + k, {"partition-id": k}, RecordDict(), {}) for k in range(DEVICES)
        }
        self.hostile = set(hostile)
        self.replies: dict[str, Message] = {}
        self.numbers = itertools.count()

    def set_run(self, run: Any) -> None: ...

    @property
    def run(self) -> Any:
        raise NotImplementedError

    def create_message(self, *args: Any, **kwargs: Any) -> Message:
        raise NotImplementedError

    def send_and_receive(self, messages: Iterable[Message], *, timeout: float | None = None) -> list[Message]:
        raise NotImplementedError

    def get_node_ids(self) -> list[int]:
        return list(self.contexts)

    def push_messages(self, messages: Iterable[Message]) -> Iterable[str]:
        for message in messages:
            number = str(next(self.numbers))
            message.metadata.__dict__["_message_id"] = number
            node = message.metadata.dst_node_id
            try:
                reply = client.app(message, self.contexts[node])
            except Exception as error:
                reply = Message(Error(2, str(error)), reply_to=message)
            if node - 100 in self.hostile:
                reply = HOSTILE[node - 100][1](message, reply)
            self.replies[number] = reply
            yield number

    def pull_messages(self, message_ids: Iterable[str]) -> list[Message]:
        return [self.replies.pop(number) for number in message_ids if number in self.replies]


def measure(rule: str, hostile: bool, rounds: int, folder: Path) -> dict[str, Any]:
    """One federation: accuracy of the honest devices at its end, and who failed or was set aside."""
    settings = SETTINGS | {"learning.aggregation": rule, "run.rounds": rounds}
    out = folder / f"{rule}-{hostile}"
    config = {
        "settings": "mnist",
        "set": shlex.join(f"{key}={value}" for key, value in settings.items()),
        "out": str(out),
        "grace-s": 600.0,
        "wait-s": 10.0,
    }
    server.run(MemoryGrid(HOSTILE if hostile else ()), config)
    records = runs.read_records(out)
    last = records[-1]
    accuracy = dict(zip(last["scored"], last["device_accuracy"], strict=True))
    honest = [accuracy.get(k, 0.0) for k in range(DEVICES) if k not in HOSTILE]
    return {
        "accuracy": float(np.mean(honest)),
        "worst": min(honest),
        "failed": sum(len(set(record["failed"]) - HOSTILE.keys()) for record in records),
        "aside": sum(len(record["set_aside"]) for record in records),
        "extractor": float(np.abs(final_extractor(out)).max()),
    }


def final_extractor(out: Path) -> Any:
    return load_file(sorted((out / "checkpoint").glob("state-*.safetensors"))[-1])["server/extractor"]


def cost(rule: str, parameters: int = 533_248, repeats: int = 3) -> tuple[float, float]:
    """Seconds to combine 20 uploads of the MLP's extractor, and the bytes of the uploads that are kept."""
    torch.manual_seed(0)
    before = torch.randn(parameters)
    payloads = [encode(before + 0.01 * torch.randn(parameters), 16) for _ in range(DEVICES)]
    learning = load("mnist", {"learning.aggregation": rule}).learning
    times = []
    for _ in range(repeats):
        began_s = time.process_time()
        aggregate = aggregate_for(learning, before)
        for payload in payloads:
            aggregate.add(payload, SAMPLES)
        aggregate.result()
        times.append(time.process_time() - began_s)
    kept = 0 if rule == "mean" else DEVICES * parameters * 2
    return min(times), kept / 1e6


def page(rows: list[str], rounds: int) -> str:
    attacks = "\n".join(f"- device {device}: {what}" for device, (what, _) in HOSTILE.items())
    return f"""# Hostile devices

{DEVICES} devices with {SAMPLES} samples of MNIST each, two classes per device, all of them in each of
{rounds} rounds of `pma`. Four are hostile:

{attacks}

Accuracy is the mean over the 16 other devices, each on all test images of its classes, after the last round;
beside it the worst of them. *Failed* counts honest devices whose training led to no numbers, over all rounds;
*set aside* counts the rounds in which a device was not asked because it had misbehaved. Time is the processor
time to combine one round's {DEVICES} uploads of 533,248 parameters, memory what is kept of them until the
round is over.

| `learning.aggregation` | honest run | worst | 4 hostile | worst | failed | set aside | time | memory |
|---|---|---|---|---|---|---|---|---|
{chr(10).join(rows)}

One seed. Under the mean the four do not add up: who claims 999 times its samples has 98% of the weight, so
that the change scaled by 1000 arrives as about one honest change. What the mean makes of each attack alone is
not shown here.

Made by `python benchmarks/hostile.py`. What is refused stands in `pmafl/flower/limits.py`, who is set aside
for how long in `pmafl/flower/conduct.py`, the rules in `pmafl/learning/aggregation.py`.
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--page", type=Path, default=Path("docs/hostile.md"))
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    logging.getLogger("flwr").setLevel(logging.ERROR)
    TaskIdentity.run_id, TaskIdentity.node_id, TaskIdentity.task_id = 1, 1, 1
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        for rule in RULES:
            honest, attacked = (
                measure(rule, hostile, arguments.rounds, Path(folder)) for hostile in (False, True)
            )
            time_s, kept_mb = cost(rule)
            rows.append(
                f"| `{rule}` | {honest['accuracy']:.1%} | {honest['worst']:.1%} | {attacked['accuracy']:.1%} "
                f"| {attacked['worst']:.1%} | {attacked['failed']} | {attacked['aside']} "
                f"| {1e3 * time_s:.0f} ms | {kept_mb:.0f} MB |"
            )
            print(rows[-1], f"largest parameter {attacked['extractor']:.3g}", flush=True)
    print(f"peak memory {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MB")
    arguments.page.write_text(page(rows, arguments.rounds), encoding="utf-8")


if __name__ == "__main__":
    main()
