"""What a federated round costs: pmafl against the machine's own limit, a textbook loop, PFLlib and Flower.

All ways take turns in one process and one thread, and times are medians of CPU seconds, so that a busy
machine blurs the ratios little. The limit is a product of square matrices, timed between all the others.

    git clone https://github.com/TsingZ0/PFLlib /tmp/pfllib && pip install scikit-learn h5py
    python benchmarks/training.py --pfllib /tmp/pfllib    # writes docs/benchmarks-training.md

Without --pfllib that opponent is left out. MNIST and CIFAR-10 are fetched if need be.
"""

import argparse
import os
import platform
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path
from statistics import median

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import torch
from opponents import Case, Pfllib, Textbook, flower_round
from torch.profiler import ProfilerActivity, profile

from pmafl.learning.architecture import ARCHITECTURES
from pmafl.learning.method import LearningState
from pmafl.learning.task import LearningTask

CASES = [
    Case("W1: MLP, full batch, 5 steps", "mnist", 100, 10, 600, 0, 5),
    Case("MLP, batches of 64, 1 epoch", "mnist", 100, 10, 600, 64, 1),
    Case("MLP, batches of 10, 1 epoch", "mnist", 100, 10, 600, 10, 1),
    Case("W2: CNN, full batch, 5 steps", "cifar10", 10, 1, 500, 0, 5),
]
SIDE = 1024  # of the matrices whose product measures the peak
Times = dict[tuple[str, str], float]  # who, and "training" or "evaluation": CPU seconds

HEAD = """# What a federated round costs

Written by `python benchmarks/training.py --pfllib PATH --repeats {repeats} --evaluations {evaluations}`.

{machine}

One thread; medians of CPU seconds. Every way takes its turn with all others, in one process. "Of the peak"
is the arithmetic of training as everyone counts it (forward, gradients of all weights, gradients of all
inputs but the first layer's) against the product of two matrices of 1024 x 1024, timed between the turns;
reading the samples, rounding the uploads to 16 bits and averaging them count as time, not as arithmetic. With
full batches pmafl itself needs a quarter less arithmetic for the MLP, since it trains the first layer by
coefficients of the samples (`pmafl/learning/dense.py`). "Textbook" is FedAvg as tutorials write it: a deep
copy of the model, a `DataLoader` and a `torch.optim.SGD` for every device, and an average of `state_dict`s.
PFLlib runs its own servers and clients (SGD without momentum, which is a
little less work). Evaluation tests every device's model on all test images of its classes; PFLlib's also
computes the loss on all training samples and an AUC. FedRep trains 5 steps of the head and 5 of the
extractor, and has no share of the peak because it computes only what its frozen part leaves over; it is
compared with PFLlib's FedRep, all others with its FedAvg.
"""


class Pmafl:
    """This package, by the functions that its simulator calls."""

    def __init__(self, case: Case, algorithm: str, precision: str = "fp32") -> None:
        learning = case.settings.learning.model_copy(update={"algorithm": algorithm, "precision": precision})
        self.case, self.task = case, LearningTask(learning, case.dataset(), case.partition(), seed=1)
        memory = self.task.method.memory
        held = {
            device: {name: value.clone() for name, value in memory.items()}
            for device in range(case.devices if memory else 0)
        }
        self.state = LearningState(self.task.start().server, held)  # as late in a run

    def train(self) -> None:
        self.state = self.task.advance(self.state, self.case.chosen(), 0)

    def evaluate(self) -> None:
        self.task.evaluate(self.state)


def contestants(case: Case, pfllib: Path | None, workspace: Path) -> dict[str, object]:
    ways: dict[str, object] = {
        "pmafl, `pma`": Pmafl(case, "pma"),
        "pmafl, `fedavg`": Pmafl(case, "fedavg"),
        "pmafl, `fedrep`": Pmafl(case, "fedrep"),
        "pmafl, `pma`, bf16": Pmafl(case, "pma", "bf16"),
        "textbook FedAvg": Textbook(case),
    }
    if pfllib:
        ways |= {f"PFLlib {name}": Pfllib(case, pfllib, workspace, name) for name in ("FedAvg", "FedRep")}
    return ways


def flops(case: Case) -> int:
    """Of a round: forward, gradients of the weights and, but for the first layer, of the inputs."""
    architecture = ARCHITECTURES[case.settings.learning.model]()
    per_sample = 2 * (3 * architecture.multiply_adds - architecture.layers[0].multiply_adds)
    return per_sample * case.samples * case.iterations * case.scheduled


def cpu_seconds(action: Callable[[], object]) -> float:
    start = time.process_time()
    action()
    return time.process_time() - start


def peak_flops() -> float:
    """Of fp32 matrix products, a second."""
    left, right, result = (torch.ones(SIDE, SIDE) for _ in range(3))
    torch.mm(left, right, out=result)
    return 2 * SIDE**3 / median(cpu_seconds(lambda: torch.mm(left, right, out=result)) for _ in range(5))


def measure(case: Case, options: argparse.Namespace, workspace: Path) -> tuple[float, Times]:
    """Peak and, for every way, the medians of training and of evaluation; the ways take turns."""
    ways = contestants(case, options.pfllib, workspace)
    peaks, times = [], defaultdict(list)
    for way in ways.values():
        way.train()
    for turn in range(options.repeats):
        for name, way in ways.items():
            peaks.append(peak_flops())
            times[name, "training"].append(cpu_seconds(way.train))
            if turn < options.evaluations:
                times[name, "evaluation"].append(cpu_seconds(way.evaluate))
        print(f"{case.name}: {turn + 1} of {options.repeats}", file=sys.stderr)
    return median(peaks), {key: median(values) for key, values in times.items()}


def table(case: Case, peak: float, times: Times) -> str:
    """Seconds of a round, share of the peak, and how many times faster than the opponents."""
    lines = [
        f"## {case.name}",
        f"{case.scheduled} of {case.devices} devices, {case.samples} samples each; "
        f"{peak / 1e9:.0f} GFLOP/s at the peak; {flops(case) / 1e9:.1f} GFLOP per round.\n",
        "| | training | of the peak | x textbook | x PFLlib | with evaluation | x textbook | x PFLlib |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(name for name, _ in times):
        cells = []
        for parts in (["training"], ["training", "evaluation"]):
            seconds = {who: sum(times[who, part] for part in parts) for who, _ in times}
            rival = "PFLlib FedRep" if "rep" in name.lower() else "PFLlib FedAvg"
            cells += [f"{seconds[name]:.2f} s"]
            if parts == ["training"]:
                share = flops(case) / seconds[name] / peak
                cells += [f"{share:.0%}" if "rep" not in name.lower() else ""]
            for opponent in ("textbook FedAvg", rival):
                cells += [f"{seconds[opponent] / seconds[name]:.1f}" if opponent in seconds else ""]
        lines.append(f"| {name} | {' | '.join(cells)} |")
    return "\n".join(lines) + "\n"


def breakdown(case: Case, rows: int = 9) -> str:
    """Which operations a round's time goes to."""
    way = Pmafl(case, "pma")
    way.train()
    with profile(activities=[ProfilerActivity.CPU]) as profiler:
        way.train()
    operations = sorted(profiler.key_averages(), key=lambda item: -item.self_cpu_time_total)
    total = sum(item.self_cpu_time_total for item in operations)
    lines = [f"Where `pma` spends it ({case.name}):\n", "| operation | share |", "|---|---|"]
    for item in operations[:rows]:
        lines.append(f"| `{item.key}` | {item.self_cpu_time_total / total:.1%} |")
    return "\n".join(lines) + "\n"


def flower(case: Case) -> str:
    """Wall seconds, since Flower's clients run in processes of their own."""
    ways = {"pmafl, `fedavg`": Pmafl(case, "fedavg"), "textbook FedAvg": Textbook(case)}
    times = {name: median(wall_seconds(way.train) for _ in range(5)) for name, way in ways.items()}
    times["Flower's simulation engine, textbook clients"] = flower_round(case)
    lines = [f"## Flower's simulation engine, {case.name}", "Training alone, one client at a time.\n"]
    lines += ["| | wall time | x pmafl |", "|---|---|---|"]
    first = next(iter(times.values()))
    return "\n".join([*lines, *(f"| {n} | {t:.2f} s | {t / first:.1f} |" for n, t in times.items())]) + "\n"


def wall_seconds(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def machine() -> str:
    """Processor, versions, and what the processor can do for bf16."""
    information = Path("/proc/cpuinfo").read_text() if Path("/proc/cpuinfo").exists() else ""
    fields = dict(line.split(":", 1) for line in information.splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    present = [flag for flag in ("avx512_bf16", "amx_bf16") if flag in fields.get("flags", "").split()]
    bf16 = (
        f"It has instructions for bf16 ({', '.join(present)})."
        if present
        else "It has no instructions for bf16 (neither avx512_bf16 nor amx_bf16), so bf16 is emulated and "
        "cannot be faster than fp32 here."
    )
    return (
        f"{fields.get('model name', platform.processor())}, {os.cpu_count()} cores, one used. {bf16} "
        f"Python {platform.python_version()}, PyTorch {torch.__version__}."
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pfllib", type=Path, help="a checkout of PFLlib")
    parser.add_argument("--repeats", type=int, default=9, help="turns of training")
    parser.add_argument("--evaluations", type=int, default=3, help="turns that also evaluate")
    parser.add_argument("--only", default="", help="only cases whose name contains this")
    parser.add_argument("--out", type=Path, default=Path("docs/benchmarks-training.md"))
    options = parser.parse_args()
    torch.set_num_threads(1)
    cases = [case for case in CASES if options.only in case.name]
    parts = [HEAD.format(**vars(options), machine=machine())]
    with tempfile.TemporaryDirectory() as workspace:
        for case in cases:
            parts.append(table(case, *measure(case, options, Path(workspace))))
            parts.append(breakdown(case))
            print(parts[-2])
    if find_spec("flwr") and find_spec("ray"):
        parts.append(flower(cases[0]))
        print(parts[-1])
    options.out.write_text("\n".join(parts))


if __name__ == "__main__":
    main()
