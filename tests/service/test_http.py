"""The service over HTTP: endpoints in this process, and a server of its own for what only a socket shows."""

import asyncio
import json
import os
import random
import re
import socket
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import httpx
import jsonschema
import pytest

from pmafl import cli
from pmafl.errors import InputError
from pmafl.scheduling import schema
from pmafl.service import Asked, Memory, reply
from pmafl.service.http import Limits, Service, _is_local_name, is_loopback, make_app
from tests.processes import PATIENCE_S, wait_until
from tests.service.test_stream import OUTLOOK, problem

TOKEN = "a-token-of-the-tests-0123456789"
ERROR = jsonschema.Draft202012Validator({"$ref": "#/$defs/error", "$defs": schema()["$defs"]})
OWN = """
import os, time
from pmafl.scheduling import allocate_given
def own(problem, rng):
    if problem.round == 99: time.sleep(600)
    if problem.round == 98: os._exit(3)
    return allocate_given(problem, problem.samples > 0, "own")
"""


@pytest.fixture(scope="module")
def service(tmp_path_factory):
    folder = tmp_path_factory.mktemp("own")
    (folder / "slow_policy_of_tests.py").write_text(OWN)
    sys.path.insert(0, str(folder))
    limits = Limits(
        workers=1, waiting=1, body_bytes=50_000, body_s=PATIENCE_S, decision_s=PATIENCE_S, sessions=2
    )
    made = Service(Asked("slow_policy_of_tests:own"), limits)
    yield made
    made.pool.close()
    sys.path.remove(str(folder))


def exchange(service, *requests, token=None, given_token=None):
    """Answers to requests that are sent at the same time."""

    async def send():
        transport = httpx.ASGITransport(make_app(service, token))
        headers = {"authorization": f"Bearer {given_token}"} if given_token else {}
        async with httpx.AsyncClient(
            transport=transport, base_url="http://localhost", headers=headers, timeout=PATIENCE_S
        ) as client:
            return await asyncio.gather(*(client.request(*request[:2], **request[2]) for request in requests))

    return asyncio.run(send())


def post(text, **query):
    return "POST", "/schedule", {"content": text, "params": query}


def get(path):
    return "GET", path, {}


def test_an_answer_is_that_of_the_stream(service):
    text = problem({}, {"channel_gain": 1e-9}, {"queue_j": 1e9}, id="x")
    (found,) = exchange(service, post(text, policy="dual"))
    assert found.status_code == 200
    assert found.text == reply(Asked("dual"), Memory(), text).text


@pytest.mark.parametrize(
    ("text", "query", "status", "said"),
    [
        ("{", {}, 400, "is not JSON"),
        (problem({"samples": -1}, {"samples": "x"}), {}, 400, "the problem has 2 faults"),
        (problem({"channel_gain": 0}, scheduled=[0]), {}, 422, "cannot upload in time"),
        (problem({}), {"policy": "os:system"}, 400, "there is no such policy"),
        (problem({}), {"policy": "uniform", "option": "count=x"}, 400, "option count = 'x'"),
        (problem({}), {"seed": "-1"}, 400, "query.seed"),
        (problem({}), {"session": "../x"}, 400, "a session's name"),
        (problem(*[{}] * 500), {}, 413, "more than 50000 bytes"),
    ],
)
def test_what_is_wrong_is_refused_with_the_reason(service, text, query, status, said):
    (found,) = exchange(service, post(text, **query))
    assert found.status_code == status
    ERROR.validate(found.json())
    assert said in found.json()["error"]


def test_a_session_keeps_the_memory(service):
    texts = [problem(*[{"channel_gain": gain}] * 3, outlook=OUTLOOK) for gain in (1e-8, 3e-9)]
    asked, memory, expected = Asked("steady"), Memory(), []
    for text in texts:
        line, memory, _ = reply(asked, memory, text)
        expected.append(line)
    found = [exchange(service, post(text, policy="steady", session="cell-7"))[0].text for text in texts]
    assert found == expected
    (other,) = exchange(service, post(texts[0], policy="dual", session="cell-7"))
    assert other.status_code == 409
    (second,) = exchange(service, post(problem({}), session="b"))
    (third,) = exchange(service, post(problem({}), session="c"))
    assert (second.status_code, third.status_code) == (200, 503)
    gone, missing = (exchange(service, ("DELETE", "/sessions/cell-7", {}))[0] for _ in range(2))
    assert (gone.status_code, missing.status_code) == (204, 404)


@pytest.mark.heavy
def test_others_are_served_while_one_decision_takes_long(service, monkeypatch):
    monkeypatch.setattr(service.pool, "limit_s", 5.0)
    replaced = service.pool.replaced
    slow = post(problem({}, round=99))
    answers = exchange(service, slow, get("/health"), get("/metrics"), post(problem({})), post(problem({})))
    assert [answer.status_code for answer in answers[:3]] == [504, 200, 200]
    assert sorted(answer.status_code for answer in answers[3:]) == [200, 503]
    assert "more than 5 s" in answers[0].json()["error"]
    assert service.pool.replaced == replaced + 1


def test_a_process_that_dies_is_replaced(service):
    (dead,) = exchange(service, post(problem({}, round=98)))
    (alive,) = exchange(service, post(problem({})))
    assert (dead.status_code, alive.status_code) == (500, 200)


def test_the_token_is_wanted_everywhere_but_for_health(service):
    paths = ("/metrics", "/openapi.json", "/policies", "/schema", "/nothing")
    for given in (None, "wrong", TOKEN[:-1], TOKEN + "x", "tök"):
        headers = {"authorization": f"Bearer {given}".encode()} if given else {}
        requests = [("GET", path, {"headers": headers}) for path in paths]
        found = exchange(service, *requests, post(problem({})), token=TOKEN)
        assert {answer.status_code for answer in found} == {401}
    found = exchange(service, get("/health"), token=TOKEN)
    found += exchange(service, get("/policies"), post(problem({})), token=TOKEN, given_token=TOKEN)
    assert [answer.status_code for answer in found] == [200, 200, 200]


def test_other_hosts_names_are_refused_without_a_token(service):
    requests = [
        ("GET", "/health", {"headers": {"host": host}}) for host in ("evil.org", "localhost.evil.org")
    ]
    assert [answer.status_code for answer in exchange(service, *requests)] == [400, 400]
    assert _is_local_name(b"127.0.0.1:8080")
    assert _is_local_name(b"[::1]:80")
    assert not _is_local_name(b"")


def test_openapi_describes_the_schemas(service):
    (found,) = exchange(service, get("/openapi.json"))
    described = found.json()
    for reference in re.findall(r'"#/([^"]+)"', found.text):
        part = described
        for name in reference.split("/"):
            part = part[name]
    answers = described["paths"]["/schedule"]["post"]["responses"]
    assert {"200", "400", "401", "408", "413", "422", "503", "504"} <= set(answers)
    assert described["components"]["schemas"]["device"]["properties"]["queue_j"]


def test_metrics_count_answers(service):
    exchange(service, post(problem({})), get("/nothing"))
    (found,) = exchange(service, get("/metrics"))
    assert re.search(r'pmafl_answers_total\{status="404"\} [1-9]', found.text)
    assert re.search(r"pmafl_decision_seconds_count [1-9]", found.text)
    assert "pmafl_body_bytes 0\n" in found.text


@pytest.mark.parametrize(
    ("options", "environment", "said"),
    [
        (["--host", "0.0.0.0"], {}, "host 0.0.0.0: others could reach it; give a token"),
        (["--host", "no.such.host.invalid"], {}, "there is no such address"),
        ([], {"PMAFL_TOKEN": "short"}, "PMAFL_TOKEN: a token has at least 16"),
        (["--token-file", "/nowhere/token"], {}, "/nowhere/token: cannot be read"),
        (["--policy", "duel"], {}, "did you mean 'dual'?"),
        (["--key", "x"], {}, "--certificate and --key must be given together"),
    ],
)
def test_a_wrong_start_is_one_clear_line(monkeypatch, capsys, options, environment, said):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(sys, "argv", ["pmafl", "serve", *options])
    with pytest.raises(SystemExit) as end:
        cli.main()
    assert end.value.code == 2
    err = capsys.readouterr().err
    assert said in err
    assert err.count("\n") == 1


def test_loopback_is_known():
    assert is_loopback("127.0.0.1")
    assert is_loopback("::1")
    assert not is_loopback("0.0.0.0")
    with pytest.raises(InputError, match="no such address"):
        is_loopback("x" * 300)


@pytest.fixture(scope="module")
def server():
    """A server of its own: its process and its port."""
    command = [sys.executable, "-m", "pmafl", "serve", "--port", "0", "--workers", "1", "--body-seconds", "3"]
    command += ["--max-bytes", "200000"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=dict(os.environ))
    try:
        port = int(re.search(r":(\d+) with", process.stdout.readline())[1])
        yield process, port
        assert process.poll() is None
        process.terminate()
        assert process.wait(PATIENCE_S) == 0
    finally:
        process.kill()
        process.wait()


def asked_of(port, text, **query):
    return httpx.post(f"http://127.0.0.1:{port}/schedule", content=text, params=query, timeout=PATIENCE_S)


def test_the_server_answers_many_clients_at_once_and_rightly(server):
    texts = [problem({"channel_gain": 1e-9 * (k + 1)}, {}, id=k) for k in range(40)]
    expected = [json.loads(reply(Asked(), Memory(), text).text) for text in texts]
    with ThreadPoolExecutor(8) as clients:
        found = list(clients.map(lambda text: asked_of(server[1], text).json(), texts))
    assert found == expected


def test_slow_huge_and_silent_clients_are_refused_and_others_served(server):
    _, port = server
    head = b"POST /schedule HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000\r\n"
    hostile = [head + b"\r\n{", head, b"", b"POST", b"GET / HTTP/1.1\r\n" + b"x: y\r\n" * 9]
    connections = []
    for start in hostile * 4:
        connection = socket.create_connection(("127.0.0.1", port))
        connection.sendall(start)
        connection.settimeout(PATIENCE_S)
        connections.append(connection)
    assert asked_of(port, problem({})).json()["scheduled"] == [0]
    ends = [_all_of(connection) for connection in connections]
    assert all(b" 408 " in end for end in ends[::5])
    assert not any(b" 200 " in end for end in ends)
    huge = problem(*[{}] * 2000)
    assert asked_of(port, huge).status_code == 413
    chunked = httpx.post(
        f"http://127.0.0.1:{port}/schedule",
        content=(huge[at : at + 9999].encode() for at in range(0, len(huge), 9999)),
        timeout=PATIENCE_S,
    )
    assert chunked.status_code == 413
    large_header = {"x": "y" * 200_000}
    with pytest.raises((httpx.HTTPStatusError, httpx.TransportError)):
        httpx.get(f"http://127.0.0.1:{port}/health", headers=large_header).raise_for_status()
    assert asked_of(port, problem({})).json()["scheduled"] == [0]


def _all_of(connection):
    """What comes until the other side closes; a slow client that is cut off may find the way back shut."""
    received = b""
    with connection:
        try:
            while part := connection.recv(65536):
                received += part
        except ConnectionResetError:
            pass
    return received


@pytest.mark.parametrize("cases", [60, pytest.param(1000, marks=pytest.mark.heavy)])
def test_damaged_bodies_are_refused_or_answered_and_others_served(server, cases):
    rng = random.Random(cases)
    whole = problem({}, {"id": "b"}, {"id": "a", "channel_gain": 1e-9})
    statuses = set()
    with httpx.Client(base_url=f"http://127.0.0.1:{server[1]}", timeout=PATIENCE_S) as client:
        for number in range(cases):
            body = bytearray(whole.encode())
            for _ in range(rng.randint(1, 4)):
                body[rng.randrange(len(body))] = rng.randrange(256)
            if rng.random() < 0.2:
                body = body[: rng.randrange(len(body))]
            found = client.post("/schedule", content=bytes(body))
            statuses.add(found.status_code)
            if found.status_code != 200:
                ERROR.validate(found.json())
            if number % 20 == 0:
                assert client.post("/schedule", content=problem({})).json()["scheduled"] == [0]
    assert 400 in statuses
    assert statuses <= {200, 400, 422}


def test_the_processes_of_a_server_that_is_killed_end_too(tmp_path):
    command = [sys.executable, "-m", "pmafl", "serve", "--port", "0", "--workers", "1"]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        process.stdout.readline()
        children = _children(process.pid)
        assert children
    finally:
        process.kill()
        process.wait()
    wait_until(lambda: not any(_alive(pid) for pid in children))


def _children(parent):
    lines = subprocess.run(
        ["ps", "-A", "-o", "pid=,ppid="], capture_output=True, text=True, check=True
    ).stdout
    pairs = (map(int, line.split()) for line in lines.splitlines())
    return [pid for pid, above in pairs if above == parent]


def _alive(pid):
    found = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True).stdout
    return bool(found.strip()) and not found.startswith("Z")


def test_schedule_needs_neither_torch_nor_fastapi():
    code = (
        "import sys, pmafl.cli, pmafl.service; assert not {'torch', 'fastapi', 'uvicorn'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
