"""What it costs a run that its page is served while it goes on, and how soon rounds are on that page.

One run in this process is cut into blocks of equally many rounds. In every other block the page is served as
`pmafl run --live` does, and somebody looks at it: a client that asks as often as the page does, or Chromium.
Blocks come in pairs, with and without, the order changing from pair to pair, so that a machine that changes
its speed blurs the ratios little. The CPU is that of this process alone, starting the server included.

    python benchmarks/live.py [--repeats 10] [--rounds 30] [--workers 1] [--chromium]

Ratios need an idle machine; the lags and the server's own CPU do not. With `--workers 2` on two cores nothing
is idle beside the run, and only the wall tells what the server takes away from it.
"""

import argparse
import base64
import gzip
import itertools
import json
import os
import re
import select
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from contextlib import suppress
from pathlib import Path
from statistics import median
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

LOOK_S = 0.7  # as live.js does
TICKS_PER_S = os.sysconf("SC_CLK_TCK")


def look(chromium: bool) -> None:
    """Somebody who looks: takes an address, prints how many rounds he saw when, until his input is closed."""
    address = sys.stdin.readline().strip()
    seen: list[tuple[float, int]] = []

    def note(rounds: int) -> None:
        if rounds and (not seen or rounds > seen[-1][1]):
            seen.append((time.time(), rounds))

    (look_with_chromium if chromium else look_plainly)(address, note)
    print(json.dumps(seen), flush=True)


def is_over() -> bool:
    return bool(select.select([sys.stdin], [], [], 0)[0])


def look_plainly(address: str, note: Any) -> None:
    name, rounds = "", 0
    while not is_over():
        with suppress(urllib.error.URLError):  # it does not listen yet
            if not name:
                name, rounds = first_look(address)
            else:
                with urllib.request.urlopen(f"{address}rounds?records={name}&have={rounds}") as answer:
                    content = answer.read()
                    rounds = json_of(content)["rounds"] if answer.status == 200 else 0
                    name = name if answer.status == 200 else ""
            note(rounds)
        time.sleep(LOOK_S if name else 0.05)


def first_look(address: str) -> tuple[str, int]:
    with urllib.request.urlopen(address) as answer:
        text = re.search(rb'id="data">([A-Za-z0-9+/=]*)</script>', answer.read())[1]
    data = json_of(base64.b64decode(text))
    return data["records"], data["rounds"]


def json_of(packed: bytes) -> dict[str, Any]:
    """The texts and plain numbers of packed data."""
    whole = gzip.decompress(packed)
    found: dict[str, Any] = json.loads(whole[8 : 8 + int.from_bytes(whole[:8], "little")])
    return found


def look_with_chromium(address: str, note: Any) -> None:
    """What is drawn counts, not what arrived."""
    from playwright.sync_api import Error, sync_playwright

    drawn = (
        "typeof run !== 'undefined' && document.documentElement.dataset.ready && !run.waiting "
        "? run.part.frames.length : 0"
    )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        page = browser.new_page()
        while not is_over():
            with suppress(Error):  # it does not listen yet, or is loaded again
                if page.url != address:
                    page.goto(address)
                note(page.evaluate(drawn))
            time.sleep(0.05)
        browser.close()


class Blocks:
    """A callback of the run: measures its blocks, and starts and ends who serves and who looks."""

    def __init__(self, directory: Path, rounds: int, chromium: bool) -> None:
        self.directory, self.rounds, self.chromium = directory, rounds, chromium
        self.done = 0
        self.found: dict[bool, list[dict[str, float]]] = {False: [], True: []}
        self.lags_s: list[float] = []
        self.starting_s: list[float] = []
        self._written_s: dict[int, float] = {}

    def begin(self) -> None:
        from pmafl.page.live import Beside

        block = self.done // self.rounds
        self.live = block % 2 == (block // 2) % 2  # with, without, without, with
        if self.live:
            command = [sys.executable, __file__, "--look"] + (["--chromium"] if self.chromium else [])
            self._client = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
            )
            self._server = Beside(self.directory)
        self._cpu_s, self._wall_s = time.process_time(), time.perf_counter()
        if self.live:
            address = self._server.begin()
            self.starting_s.append(time.process_time() - self._cpu_s)
            print(address, file=self._client.stdin, flush=True)

    def __call__(self, world: Any, record: Any) -> None:
        self._written_s[record.round + 1] = time.time()
        self.done += 1
        if self.done % self.rounds == 0:
            self._end()
            self.begin()

    def _end(self) -> None:
        found = {"cpu": time.process_time() - self._cpu_s, "wall": time.perf_counter() - self._wall_s}
        if self.live:
            found["server"] = cpu_s(self._server._process.pid)
            time.sleep(3.0)  # the last round must be seen, too
            self._client.stdin.close()
            seen = json.loads(self._client.stdout.readline() or "[]")
            self._client.wait()
            self._server.end()
            for (_, before), (at_s, rounds) in itertools.pairwise(seen):
                written_s = [self._written_s[number] for number in range(before + 1, rounds + 1)]
                self.lags_s += [
                    at_s - one_s for one_s in written_s if one_s > seen[0][0]
                ]  # he looked already
        self.found[self.live].append(found)

    def stop(self) -> None:
        """Of the block that was begun and has no rounds."""
        if self.live:
            self._client.stdin.close()
            self._client.wait()
            self._server.end()


def cpu_s(pid: int) -> float:
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / TICKS_PER_S


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=10, help="pairs of blocks")
    parser.add_argument("--rounds", type=int, default=30, help="of a block")
    parser.add_argument("--workers", type=int, default=1)
    parser.add_argument("--chromium", action="store_true", help="look with Chromium, and count what it drew")
    parser.add_argument("--look", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.look:
        look(options.chromium)
        return
    from pmafl import runs
    from pmafl.settings import load

    total = 2 * options.repeats * options.rounds
    # Ten devices in every round: all blocks have the same work.
    overrides = {"policy.name": "uniform", "policy.options.count": 10, "run.rounds": total}
    with tempfile.TemporaryDirectory() as folder:
        directory = Path(folder) / "run"
        blocks = Blocks(directory, options.rounds, options.chromium)
        runs.run(
            directory,
            load("mnist", overrides),
            [blocks],
            begin=lambda world, done: blocks.begin(),
            workers=options.workers,
        )
        blocks.stop()
    report(blocks)


def report(blocks: Blocks) -> None:
    found, lags_s, rounds = blocks.found, sorted(blocks.lags_s), blocks.rounds
    for name in ("cpu", "wall"):
        pairs = zip(found[True], found[False], strict=True)
        ratios = sorted(live[name] / alone[name] - 1 for live, alone in pairs)
        low, high = ratios[len(ratios) // 4], ratios[-1 - len(ratios) // 4]
        each_s = median(block[name] for block in found[False]) / rounds
        print(
            f"{name:4} of a round {each_s:.3f} s; live {median(ratios):+.2%} "
            f"(half of {len(ratios)} pairs within {low:+.2%} and {high:+.2%})"
        )
    server_s = median(block["server"] for block in found[True])
    share = server_s / median(block["cpu"] for block in found[False])
    print(f"starting the server: {1e3 * median(blocks.starting_s):.0f} ms of the run's CPU")
    print(f"the server's own CPU in a block, at a lower priority: {server_s:.2f} s, {share:.1%} of the run's")
    if lags_s:
        print(
            f"a round is on the page after {median(lags_s):.2f} s (median of {len(lags_s)}; "
            f"95% within {lags_s[int(0.95 * len(lags_s))]:.2f} s, the last after {lags_s[-1]:.2f} s)"
        )


if __name__ == "__main__":
    main()
