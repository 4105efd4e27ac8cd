"""The wheel in a clean environment without PyTorch, tried as a user would: `make test-wheel`.

Builds it, installs it with the tested versions, says how large and how slow that was, and runs what must do
without torch; what trains must say in one line what is missing. `--extra learn` only measures that one.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import tomllib
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NEEDED = ("pyproject.toml", "README.md", "LICENSE", "pmafl")
DEVICE = {"samples": 600, "cycles_per_sample": 137586.5, "max_frequency_hz": 1e9, "max_power_w": 1.0}
PROBLEM = {
    "bandwidth_hz": 1e7,
    "noise_w_per_hz": 3.98e-21,
    "deadline_s": 2.0,
    "upload_bits": 8531968,
    "energy_coefficient": 5e-27,
    "local_iterations": 5,
    "tradeoff": 0.001,
    "devices": [DEVICE | {"channel_gain": gain, "queue_j": 0.3} for gain in (1e-8, 1e-9)],
}
FEWER = ["--set", "fleet.devices=50", "--set", "run.rounds=5"]
COMMANDS = [
    ["schedule", "problem.json"],
    ["plan", "tracker", "--set", "fleet.devices=50", "--plot", "plan.png"],
    ["run", "tracker", *FEWER, "--out", "run"],
    ["view", "--no-open", "run"],
    ["efficiency", "run"],
    ["serve", "--help"],
]
MISSING = "error: pmafl run needs PyTorch: pip install 'pmafl[learn]'"


def build(folder: Path) -> Path:
    """The wheel, from a copy: building in the tree would take along what an earlier build left."""
    source = folder / "source"
    source.mkdir()
    for name in NEEDED:
        copy = shutil.copytree if (ROOT / name).is_dir() else shutil.copy
        copy(ROOT / name, source / name)
    build = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", folder, source]
    subprocess.run(build, check=True)
    (wheel,) = folder.glob("*.whl")
    return wheel


def install(wheel: Path, folder: Path, extra: str) -> Path:
    """A new environment with the wheel; its folder of programs."""
    venv.create(folder / "environment", with_pip=True)
    programs = folder / "environment" / ("Scripts" if sys.platform == "win32" else "bin")
    wanted = f"{wheel}[{extra}]" if extra else str(wheel)
    start_s = time.perf_counter()
    pip = [programs / "python", "-m", "pip", "install", "--quiet", "-c", ROOT / "constraints.txt", wanted]
    subprocess.run(pip, check=True)
    size = sum(file.lstat().st_size for file in (folder / "environment").rglob("*") if file.is_file())
    print(f"{wanted.rpartition(os.sep)[2]}: {size / 1e6:.0f} MB, {time.perf_counter() - start_s:.0f} s")
    return programs


def try_commands(programs: Path, folder: Path) -> None:
    """Every command that needs no torch, and one that does."""

    def call(*arguments: str) -> "subprocess.CompletedProcess[str]":
        environment = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
        return subprocess.run(
            [programs / "pmafl", *arguments], cwd=folder, env=environment, capture_output=True, text=True
        )

    version = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]["version"]
    assert call("--version").stdout.split() == ["pmafl", version]
    (folder / "problem.json").write_text(json.dumps(PROBLEM))
    for command in COMMANDS:
        result = call(*command)
        print("pmafl", *command, "->", result.returncode)
        assert result.returncode == 0, result.stdout + result.stderr
    result = call("run", "mnist")
    assert (result.returncode, result.stderr.strip()) == (2, MISSING), result.stderr
    print(result.stderr.strip())


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--extra", default="", help="install it with this extra, and only measure")
    extra = parser.parse_args().extra
    with tempfile.TemporaryDirectory() as folder:
        programs = install(build(Path(folder)), Path(folder), extra)
        if not extra:
            try_commands(programs, Path(folder))


if __name__ == "__main__":
    main()
