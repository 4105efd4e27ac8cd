"""What the round loop itself costs: everything but training, evaluation and the policy, checkpoints included.

Runs the `mnist` preset with 10 devices a round in a run directory, as `pmafl run` does, and times its parts
in the same process. CPU time of one thread, because other processes share the machine.

    python benchmarks/loop.py [--rounds 20]
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from pmafl import runs, simulation
from pmafl.learning.task import LearningTask
from pmafl.runs import execution
from pmafl.runs.checkpoints import Checkpoints
from pmafl.settings import load

spent_s: dict[str, float] = {}


def timed(name: str, function: Callable[..., Any]) -> Callable[..., Any]:
    def call(*arguments: Any, **options: Any) -> Any:
        began = time.process_time()
        try:
            return function(*arguments, **options)
        finally:
            spent_s[name] = spent_s.get(name, 0.0) + time.process_time() - began

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    rounds = parser.parse_args().rounds
    LearningTask.advance = timed("training", LearningTask.advance)
    LearningTask.evaluate = timed("evaluation", LearningTask.evaluate)
    simulation.round_problem = timed("problem", simulation.round_problem)
    Checkpoints.save = timed("checkpoints", Checkpoints.save)
    execution.advance = timed("rounds", execution.advance)
    find = simulation.find_policy
    simulation.find_policy = lambda *a, **o: timed("policy", find(*a, **o))
    overrides = {"policy.name": "uniform", "policy.options.count": 10, "run.rounds": rounds}
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "run"
        runs.create(directory, load("mnist", overrides))
        runs.execute(directory)
    w1_s = spent_s["training"]
    own_s = (
        spent_s["rounds"]
        + spent_s["checkpoints"]
        - sum(spent_s[n] for n in ("training", "evaluation", "policy"))
    )
    print(f"{rounds} rounds, ms of CPU a round:")
    for name, seconds in {**spent_s, "loop itself": own_s}.items():
        print(f"  {name:12} {1e3 * seconds / rounds:8.2f}")
    print(f"the loop itself costs {own_s / w1_s:.2%} of training")


if __name__ == "__main__":
    main()
