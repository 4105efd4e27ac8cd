"""What pages of large runs weigh, how long they take to write, and how soon Chromium has drawn them.

Nothing is trained: rounds are decided and written as runs write them, with a third of the devices in each.
Accuracies of devices are made up, for every tenth round.

    python benchmarks/page.py [--sizes 100x100 1000x1000 10000x1000] [--folder runs/pages]

Runs that are there already are used again. Writing is CPU seconds of a fresh process, imports included.
Opening is until the last figure is drawn, the best of three: seconds of the wall, which need an idle machine,
and CPU seconds of the process that draws.
"""

import argparse
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

os.environ.setdefault("OMP_NUM_THREADS", "1")
os.environ.setdefault("OMP_WAIT_POLICY", "PASSIVE")

import numpy as np

from pmafl import runs
from pmafl.runs.columns import dtype_for
from pmafl.settings import load

HERTZ_PER_DEVICE = 1e5  # as in the paper: 10 MHz for 100
TESTED_EVERY = 10
WRITE = (
    "import sys, time; from pmafl.page import write_run_page; write_run_page(sys.argv[1]); "
    "print(time.process_time())"
)


def make(directory: Path, devices: int, rounds: int) -> None:
    overrides = {
        "fleet.devices": devices,
        "fleet.samples": 100,  # light enough for a third of them to fit
        "data.dataset": "none",
        "cell.bandwidth_hz": HERTZ_PER_DEVICE * devices,
        "run.rounds": rounds,
        "run.learning": "none",
        "policy.name": "uniform",
        "policy.options.count": devices // 3,
    }
    runs.run(directory, load("mnist", overrides), again=True, workers=1)
    tested = np.arange(TESTED_EVERY - 1, rounds, TESTED_EVERY)
    rows = np.zeros(tested.size, dtype_for(devices))
    rows["round"] = tested
    rng = np.random.default_rng(0)
    rows["accuracy"] = 1 - rng.random((tested.size, devices)) / (2 + tested[:, None])
    np.save(directory / "devices.npy", rows)


def write_cpu_s(directory: Path) -> float:
    command = [sys.executable, "-c", WRITE, str(directory)]
    return float(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def opening_s(browser: Any, path: Path) -> tuple[float, float]:
    """Seconds of the wall and of the drawing process's CPU."""
    session = browser.new_browser_cdp_session()
    context = browser.new_context(viewport={"width": 1400, "height": 900})
    page = context.new_page()
    before_s = rendering_s(session)
    began_s = time.perf_counter()
    page.goto(path.resolve().as_uri(), timeout=300_000)
    while not page.evaluate("document.documentElement.dataset.ready"):
        time.sleep(0.02)
    wall_s = time.perf_counter() - began_s
    cpu_s = rendering_s(session) - before_s
    context.close()
    session.detach()
    return wall_s, cpu_s


def rendering_s(session: Any) -> float:
    processes = session.send("SystemInfo.getProcessInfo")["processInfo"]
    return float(sum(process["cpuTime"] for process in processes if process["type"] == "renderer"))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sizes", nargs="*", default=["100x100", "1000x1000", "10000x1000"])
    parser.add_argument("--folder", type=Path, default=Path("runs/pages"))
    options = parser.parse_args()
    from playwright.sync_api import sync_playwright

    print("| devices x rounds | records | page | CPU to write it | to open it | CPU of that |")
    print("|---|---:|---:|---:|---:|---:|", flush=True)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path="/usr/bin/chromium", args=["--no-sandbox"])
        for size in options.sizes:
            devices, rounds = map(int, size.split("x"))
            directory = options.folder / size
            make(directory, devices, rounds)
            cpu_s = write_cpu_s(directory)
            records = (directory / "rounds.jsonl").stat().st_size / 1e6
            page = directory / "page.html"
            wall_s, drawing_s = map(min, zip(*(opening_s(browser, page) for _ in range(3)), strict=True))
            print(
                f"| {devices:,} x {rounds:,} | {records:.1f} MB | {page.stat().st_size / 1e6:.1f} MB | "
                f"{cpu_s:.1f} s | {wall_s:.1f} s | {drawing_s:.1f} s |",
                flush=True,
            )
        browser.close()


if __name__ == "__main__":
    main()
