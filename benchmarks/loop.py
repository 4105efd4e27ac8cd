"""What the round loop itself costs: everything but training, evaluation and the policy, checkpoints included.

Runs the `mnist` preset with 10 devices per round in a run directory, as `pmafl run` does, and times its parts
in the same process. CPU time of one thread, because other processes share the machine.

    python benchmarks/loop.py [--rounds 20]
"""

import argparse
import os
import tempfile
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

from pmafl import rounds, runs, world
from pmafl.learning.method import Combining
from pmafl.learning.task import LearningTask
from pmafl.runs import execution
from pmafl.runs.checkpoints import Checkpoints
from pmafl.scheduling import Policy
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


def timed_policy(find: Callable[..., Policy]) -> Callable[..., Policy]:
    def call(*arguments: Any, **options: Any) -> Policy:
        policy = find(*arguments, **options)
        return replace(policy, decide=timed("policy", policy.decide))

    return call


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=20)
    count = parser.parse_args().rounds
    LearningTask.train = timed("training", LearningTask.train)
    Combining.add = timed("training", Combining.add)
    Combining.result = timed("training", Combining.result)
    LearningTask.evaluate = timed("evaluation", LearningTask.evaluate)
    rounds.round_problem = timed("problem", rounds.round_problem)
    Checkpoints.save = timed("checkpoints", Checkpoints.save)
    execution.advance = timed("rounds", execution.advance)
    world.find_policy = timed_policy(world.find_policy)
    overrides = {"policy.name": "uniform", "policy.options.count": 10, "run.rounds": count}
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "run"
        runs.create(directory, load("mnist", overrides))
        runs.execute(directory, workers=1)
    w1_s = spent_s["training"]
    own_s = (
        spent_s["rounds"]
        + spent_s["checkpoints"]
        - sum(spent_s[n] for n in ("training", "evaluation", "policy"))
    )
    print(f"{count} rounds, ms of CPU a round:")
    for name, seconds in {**spent_s, "loop itself": own_s}.items():
        print(f"  {name:12} {1e3 * seconds / count:8.2f}")
    print(f"the loop itself costs {own_s / w1_s:.2%} of training")


if __name__ == "__main__":
    main()
