"""A whole federation on one machine: certificate, keys, SuperLink, gateway and SuperNodes, all on 127.0.0.1.

It runs the commands of docs/deploy.md and prints them, so that the page can be followed without reading it.
``python -m pmafl.flower.loopback`` is what `make federation` does. Everything it makes is in one folder, and
all processes end with it.
"""

from __future__ import annotations

import argparse
import contextlib
import os
import shlex
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from pmafl import data, runs
from pmafl.errors import InputError
from pmafl.flower import gateway
from pmafl.plots import plot_run

PROJECT = Path(__file__).parents[2]
NAME = "loopback"  # of the connection in Flower's config.toml
QUIET = {
    "FLWR_TELEMETRY_ENABLED": "0",
    "FLWR_DISABLE_UPDATE_CHECK": "1",
    "FLWR_DISABLE_RUNTIME_DEPENDENCY_INSTALLATION": "1",
    "RAY_USAGE_STATS_ENABLED": "0",
    "OMP_NUM_THREADS": "1",
}
START_S = 120.0


class Loopback:
    """The processes of a federation. Each has a log file in the folder.

    Attributes:
        port: of the SuperLink, for those who operate it.
        device_port: of the gateway, for devices.
    """

    def __init__(self, folder: Path) -> None:
        self.folder, self.port, self.device_port = folder.resolve(), free_port(), free_port()
        self._processes: list[subprocess.Popen[bytes]] = []
        programs = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"], "/usr/sbin"])
        home = {"FLWR_HOME": str(self.folder / "flower"), "PATH": programs, "PYTHONUNBUFFERED": "1"}
        self._environment = {**os.environ, **QUIET, **home}
        (self.folder / "flower").mkdir(parents=True, exist_ok=True)

    def make_certificate(self) -> None:
        """The server's certificate, which also is the one that nodes trust."""
        self.call(
            "openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -days 365 -subj /CN=pmafl "
            "-addext subjectAltName=IP:127.0.0.1,DNS:localhost -keyout server.key -out server.crt"
        )

    def make_key(self, name: str) -> None:
        self.call(f"ssh-keygen -q -t ecdsa -b 384 -N '' -C {name} -f {name}.key")

    def start_superlink(self, options: str = "") -> subprocess.Popen[bytes]:
        """Start the SuperLink and wait until it listens. It keeps what it knows in a file."""
        secure = (
            "--ssl-ca-certfile server.crt --ssl-certfile server.crt --ssl-keyfile server.key "
            "--enable-supernode-auth --database superlink.db"
        )
        process = self.start(
            "superlink",
            f"flower-superlink --host 127.0.0.1 --port {self.port} {options or secure} "
            "--disable-runtime-dependency-installation",
        )
        trust = "insecure = true" if options else f'root-certificates = "{self.folder / "server.crt"}"'
        connection = f'[superlink.{NAME}]\naddress = "127.0.0.1:{self.port}"\n{trust}\n'
        (self.folder / "flower" / "config.toml").write_text(connection)
        self._wait_for_port(process, "superlink", self.port)
        return process

    def start_gateway(self) -> subprocess.Popen[bytes]:
        """Start nginx, the only port that devices see, and wait until it listens."""
        # Root's own folder may be closed to the user that nginx would become.
        user = " --user root" if os.geteuid() == 0 else ""
        self.call(
            "python -m pmafl.flower.gateway --folder gateway --certificate server.crt --key server.key "
            f"--host 127.0.0.1 --port {self.device_port} --superlink-port {self.port}{user}"
        )
        process = self.start("gateway", f"nginx -p gateway -c {gateway.CONFIGURATION}")
        self._wait_for_port(process, "gateway", self.device_port)
        return process

    def register(self, name: str) -> None:
        """Tell the SuperLink to accept a key."""
        self.call(f"flwr supernode register {name}.key.pub {NAME} --name {name}")

    def start_node(
        self, name: str, config: Mapping[str, object], address: str | None = None, options: str | None = None
    ) -> subprocess.Popen[bytes]:
        """Start a SuperNode with a key and its own configuration; it connects to the gateway."""
        secure = f"--root-certificates server.crt --auth-supernode-private-key {name}.key"
        return self.start(
            name,
            f"flower-supernode --superlink {address or f'127.0.0.1:{self.device_port}'} {options or secure} "
            f"--host 127.0.0.1 --port {free_port()} --node-config {_pairs(config)}",
        )

    def run(
        self, config: Mapping[str, object], options: str = "", show: bool = False
    ) -> subprocess.Popen[bytes]:
        """Submit the app; the process lasts as long as its run and says what the server says."""
        app = shlex.quote(str(PROJECT))
        command = f"flwr run {app} {NAME} --stream --run-config {_pairs(config)} {options}"
        return self.start("run", command, show)

    def call(self, command: str) -> None:
        """Run a command to its end."""
        print(f"+ {command}", flush=True)
        where: Any = {"cwd": self.folder, "env": self._environment}
        try:
            with _installed(command):
                subprocess.run(shlex.split(command), check=True, capture_output=True, text=True, **where)
        except subprocess.CalledProcessError as failed:
            raise InputError(f"{command}: exit code {failed.returncode}: {failed.stderr}") from None

    def start(self, name: str, command: str, show: bool = False) -> subprocess.Popen[bytes]:
        """Start a command whose output goes to a log file, or is shown."""
        print(f"+ {command}", flush=True)
        with open(self.log(name), "ab") as log, _installed(command):
            process = subprocess.Popen(
                shlex.split(command),
                cwd=self.folder,
                env=self._environment,
                stdout=None if show else log,
                stderr=None if show else subprocess.STDOUT,
                start_new_session=True,
            )
        self._processes.append(process)
        return process

    def log(self, name: str) -> Path:
        return self.folder / f"{name}.log"

    def stop(self) -> None:
        """End all processes and what they started: politely, then not."""
        families = [family(process) for process in self._processes if process.poll() is None]
        for members in reversed(families):
            send_signal(members[:1], signal.SIGTERM)
        until_s = time.monotonic() + 10
        for process in self._processes:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(max(until_s - time.monotonic(), 0.1))
        for members in families:
            send_signal(members, signal.SIGKILL)
        for process in self._processes:
            process.wait()

    def _wait_for_port(self, process: subprocess.Popen[bytes], name: str, port: int) -> None:
        until_s = time.monotonic() + START_S
        while process.poll() is None and time.monotonic() < until_s:
            with contextlib.suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                return
            time.sleep(0.2)
        raise InputError(f"the {name} did not start; see {self.log(name)}")


@contextlib.contextmanager
def _installed(command: str) -> Iterator[None]:
    try:
        yield
    except FileNotFoundError as missing:
        raise InputError(f"{missing.filename} is not installed, but needed for: {command}") from None


@contextlib.contextmanager
def running(folder: Path) -> Iterator[Loopback]:
    """A federation whose processes end with the block, however it ends."""
    federation = Loopback(folder)
    try:
        yield federation
    finally:
        federation.stop()


def family(process: subprocess.Popen[bytes]) -> list[int]:
    """A process and all its descendants; Flower starts some of them in sessions of their own."""
    parents = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            parents[int(path.parent.name)] = int(path.read_text().rpartition(")")[2].split()[1])
    members = [process.pid]
    for member in members:
        members += [child for child, parent in parents.items() if parent == member]
    return members


def send_signal(members: list[int], number: signal.Signals) -> None:
    for member in members:
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, number)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _pairs(config: Mapping[str, object]) -> str:
    """A configuration as Flower's command line takes it: TOML values in one quoted argument."""
    values = {key: f'"{v}"' if isinstance(v, str | Path) else str(v).lower() for key, v in config.items()}
    return shlex.quote(" ".join(f"{key}={value}" for key, value in values.items()))


def federate(folder: Path, devices: int, rounds: int) -> Path:
    """Run MNIST on SuperNodes of this machine from end to end, and give the run directory."""
    data.load("mnist")  # once, before all nodes fetch it at the same time
    out = folder.resolve() / "run"
    with running(folder) as federation:
        federation.make_certificate()
        federation.start_superlink()
        federation.start_gateway()
        for number in range(devices):
            name = f"device-{number}"
            federation.make_key(name)
            federation.register(name)
            federation.start_node(name, {"partition-id": number, "state-dir": folder.resolve() / name})
        changes = f"fleet.devices={devices} fleet.samples=600 policy.name=dual run.rounds={rounds}"
        federation.run({"settings": "mnist", "set": changes, "out": out}, show=True).wait()
    return out


def main() -> None:
    parser = argparse.ArgumentParser(description="Run a federation of SuperNodes on this machine.")
    parser.add_argument("--devices", type=int, default=3)
    parser.add_argument("--rounds", type=int, default=3)
    stamp = datetime.now().strftime("%Y%m%d-%H%M%S")
    parser.add_argument("--folder", type=Path, default=Path("runs") / f"federation-{stamp}")
    arguments = parser.parse_args()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # the nodes must end too
    try:
        out = federate(arguments.folder, arguments.devices, arguments.rounds)
    except InputError as error:
        sys.exit(f"error: {error}")
    if runs.read_summary(out) is None:
        sys.exit(f"error: the run did not finish; see the logs in {arguments.folder}")
    overview, *_ = plot_run(out)
    print(f"records and plots are in {out}; start with {overview}")


if __name__ == "__main__":
    main()
