"""What it costs that a run survives a power cut: the time of its commits, as a share of the run's.

    python benchmarks/commits.py [--rounds 40] [--pause-s 1.0] [--folder .]

Runs the wireless side of the `mnist` preset with a pause after each round. Wall time: syncs are waits.
"""

import argparse
import tempfile
import time
from pathlib import Path

from pmafl import runs
from pmafl.runs.journal import Journal
from pmafl.settings import load


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--pause-s", type=float, default=1.0)
    parser.add_argument("--folder", type=Path, default=Path(), help="on the disk to measure")
    arguments = parser.parse_args()
    commit, times_s = Journal.commit, []

    def timed(journal: Journal) -> None:
        began_s = time.perf_counter()
        commit(journal)
        times_s.append(time.perf_counter() - began_s)

    Journal.commit = timed
    settings = load("mnist", {"run.learning": "none", "run.rounds": arguments.rounds})
    with tempfile.TemporaryDirectory(dir=arguments.folder) as folder:
        began_s = time.perf_counter()
        runs.run(Path(folder) / "run", settings, [lambda *_: time.sleep(arguments.pause_s)])
        took_s = time.perf_counter() - began_s
    share = sum(times_s) / took_s
    print(
        f"{arguments.rounds} rounds in {took_s:.1f} s; commits took {sum(times_s):.3f} s of it: {share:.2%}"
    )


if __name__ == "__main__":
    main()
