"""How many questions the scheduler answers in a second: `python benchmarks/service.py stream` or `... http`.

`... endurance [LINES]` sends 100,000 lines, or so many, to `pmafl schedule --stream`, one in a hundred of
them broken, and looks whether each is answered and whether memory grows.

The problems are those of a run: 100 devices at the MNIST preset, `dual`, round after round. Run it on an idle
machine; times are CPU seconds for the stream, and of the clock for HTTP.
"""

import io
import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time

import httpx

from pmafl.devices import SimulatedDevices
from pmafl.rounds import round_problem, start
from pmafl.scheduling import find_policy, queues
from pmafl.service import Asked, Memory, reply, serve_lines
from pmafl.settings import load
from pmafl.world import wireless_world

ROUNDS = 60
CELL = ("bandwidth_hz", "noise_w_per_hz", "deadline_s", "energy_coefficient", "local_iterations", "tradeoff")
DEVICE = (
    "samples", "cycles_per_sample", "max_frequency_hz", "max_power_w", "channel_gain", "queue_j", "budget_j",
    "upload_bits",
)  # fmt: skip


def problems() -> list[str]:
    """One line per round."""
    from dataclasses import replace

    world = wireless_world(load("mnist", {"run.rounds": ROUNDS}))
    devices, state, policy, lines = SimulatedDevices(world), start(world), find_policy("dual"), []
    for number in range(ROUNDS):
        state = replace(state, round=number)
        problem = round_problem(world, state, devices.report(number))
        decision = policy(problem, None)
        state = replace(state, queues=queues.advance(state.queues, decision.energy_j, problem.budget_j))
        members = [
            {name: float(getattr(problem, name)[device]) for name in DEVICE}
            for device in range(problem.devices)
        ]
        lines.append(json.dumps({name: getattr(problem, name) for name in CELL} | {"devices": members}))
    return lines


def stream() -> None:
    raw = "\n".join(problems()).encode() + b"\n"
    for reasons in (True, False):
        best = 0.0
        for _ in range(5):
            began = time.process_time()
            served = serve_lines(Asked(reasons=reasons), io.BytesIO(raw), io.StringIO())
            best = max(best, served / (time.process_time() - began))
        print(f"stream, {'with' if reasons else 'without'} reasons: {best:.0f} decisions per CPU second")


def endurance(count: int = 100_000) -> None:
    lines = problems()
    command = [sys.executable, "-m", "pmafl", "schedule", "-", "--stream"]
    server = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert server.stdin is not None
    assert server.stdout is not None
    memory_mb, decisions, errors, wrong = {}, 0, 0, 0
    began = time.monotonic()
    for number in range(count):
        broken = number % 100 == 50
        text = lines[number % len(lines)]
        server.stdin.write((text[: len(text) // 2] if broken else text) + "\n")
        server.stdin.flush()
        answer = json.loads(server.stdout.readline())
        is_error = "error" in answer
        decisions, errors = decisions + (not is_error), errors + is_error
        wrong += is_error != broken
        if number + 1 in (count // 10, count):
            memory_mb[number + 1] = _memory_mb(server.pid)
    server.stdin.close()
    more = server.stdout.read()
    seconds = time.monotonic() - began
    print(
        f"endurance: {count} lines in {seconds:.0f} s, {decisions} decisions, {errors} errors, "
        f"{wrong} wrong, {len(more)} characters more, ended with {server.wait()}; memory "
        + ", ".join(f"{mb:.1f} MB after {number}" for number, mb in memory_mb.items())
    )


def _memory_mb(process: int) -> float:
    """What a process holds in memory now; Linux only."""
    with open(f"/proc/{process}/status") as status:
        (kb,) = (int(line.split()[1]) for line in status if line.startswith("VmRSS"))
    return kb / 1e3


def http(seconds: float = 20.0, clients: int = 8) -> None:
    lines = problems()
    expected = [json.loads(reply(Asked(), Memory(), line).text) for line in lines]
    command = [sys.executable, "-m", "pmafl", "serve", "--port", "0", "--body-seconds", "3"]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        assert server.stdout is not None
        found = re.search(r":(\d+) with", server.stdout.readline())
        assert found is not None
        port = int(found[1])
        httpx.post(f"http://127.0.0.1:{port}/schedule", content=lines[0], timeout=120)
        for hostile in (False, True):
            _load(port, lines, expected, seconds, clients, hostile)
    finally:
        server.terminate()
        server.wait()


def _load(
    port: int,
    lines: list[str],
    expected: list[dict[str, object]],
    seconds: float,
    clients: int,
    hostile: bool,
) -> None:
    end, took, wrong, refused = time.monotonic() + seconds, list[float](), [0], [0]

    def ask(number: int) -> None:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=60) as client:
            while time.monotonic() < end:
                number = (number + 1) % len(lines)
                began = time.monotonic()
                answer = client.post("/schedule", content=lines[number])
                took.append(time.monotonic() - began)
                wrong[0] += answer.status_code != 200 or answer.json() != expected[number]

    def attack(seed: int) -> None:
        rng = random.Random(seed)
        while time.monotonic() < end:
            with socket.create_connection(("127.0.0.1", port)) as connection:
                kind = rng.choice(["slow", "silent", "fuzzed", "huge"])
                body = bytearray(lines[0].encode())
                for _ in range(5):
                    body[rng.randrange(len(body))] = rng.randrange(256)
                size = 10**12 if kind == "huge" else len(body)
                head = (
                    f"POST /schedule HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode()
                )
                try:
                    if kind != "silent":
                        connection.sendall(head + (body[:9] if kind == "slow" else body))
                    connection.settimeout(10)
                    refused[0] += b" 200 " not in connection.recv(15)
                except OSError:
                    refused[0] += 1

    threads = [threading.Thread(target=ask, args=(number,)) for number in range(clients)]
    threads += [threading.Thread(target=attack, args=(seed,)) for seed in range(8 * hostile)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    took.sort()
    print(
        f"http, {clients} clients{' beside 8 hostile ones' if hostile else ''}: {len(took) / seconds:.0f} "
        f"requests a second, {wrong[0]} wrong answers of {len(took)}, "
        f"median {took[len(took) // 2] * 1e3:.0f} ms, 99th percentile "
        f"{took[int(len(took) * 0.99)] * 1e3:.0f} ms, {refused[0]} hostile ones refused"
    )


if __name__ == "__main__":
    {"stream": stream, "http": http, "endurance": endurance}[sys.argv[1]](*map(int, sys.argv[2:]))
