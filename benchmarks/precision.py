"""What bf16 costs on this processor: as pmafl computes it, and with torch's own products, against fp32.

One device trains on random numbers of the right shape; the three ways take turns in one process and one
thread, and times are medians of CPU seconds.

    python benchmarks/precision.py [--repeats 3]
"""

import argparse
import os
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from statistics import median

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np
import torch
from torch import Tensor

from pmafl.learning import engine as engines
from pmafl.learning.engine import Engine
from pmafl.learning.inputs import Samples
from pmafl.learning.model import build_model
from pmafl.settings import load

CASES = {  # preset, shape of a sample, how many, size of a batch (0: all), passes
    "MLP, 600 samples, 5 full-batch steps": ("mnist", (1, 28, 28), 600, 0, 5),
    "MLP, 600 samples, an epoch in batches of 10": ("mnist", (1, 28, 28), 600, 10, 1),
    "CNN, 100 samples, an epoch in batches of 50": ("cifar10", (3, 32, 32), 100, 50, 1),
}


def torchs_own(precision: torch.dtype, values: Tensor) -> AbstractContextManager[object]:
    return nullcontext()


WAYS: dict[str, tuple[str, Callable[..., AbstractContextManager[object]]]] = {
    "fp32": ("fp32", engines.products),
    "bf16": ("bf16", engines.products),
    "bf16, torch's own products": ("bf16", torchs_own),
}


def cpu_seconds(way: str, case: str) -> float:
    precision, engines.products = WAYS[way]
    preset, shape, count, batch_size, passes = CASES[case]
    changes = {"learning.precision": precision, "learning.batch_size": batch_size}
    learning = load(preset, changes).learning
    engine = Engine(build_model(learning, shape, 10, np.random.default_rng(1)), learning)
    generator = torch.Generator().manual_seed(2)
    x = torch.randn(count, *shape, generator=generator).contiguous(memory_format=torch.channels_last)
    samples = Samples(x, torch.randint(10, (count,), generator=generator))
    weights = engine.model.flat.clone()
    engine.train(weights, samples.rows(torch.arange(10)), np.random.default_rng(3), 1)
    start = time.process_time()
    engine.train(weights, samples, np.random.default_rng(3), passes)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=3)
    repeats = parser.parse_args().repeats
    print(f"| | {' | '.join(WAYS)} |\n|---|{'---:|' * len(WAYS)}")
    for case in CASES:
        turns = [{way: cpu_seconds(way, case) for way in WAYS} for _ in range(repeats)]
        times = {way: median(turn[way] for turn in turns) for way in WAYS}
        cells = [f"{seconds:.3f} s ({seconds / times['fp32']:.1f}x)" for seconds in times.values()]
        print(f"| {case} | {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
