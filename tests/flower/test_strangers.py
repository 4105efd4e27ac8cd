"""What those can do who have only the server's public certificate: through the port for devices, nothing.

The same attempts on the SuperLink's own port succeed: there they would, so here they can fail.
"""

import contextlib
import re
import shutil
import socket
import ssl

import pytest
from flwr.proto.control_pb2 import ListNodesRequest, ListRunsRequest
from flwr.supercore.control.control_http_client import ControlHttpClient
from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES

from pmafl import runs
from pmafl.errors import InputError
from pmafl.flower.gateway import CALLS, CONNECTIONS
from pmafl.flower.loopback import NAME, PROJECT, running
from tests.flower.waiting import PATIENCE_S, wait_for

NGINX = shutil.which("nginx") or shutil.which("nginx", path="/usr/sbin")
pytestmark = [
    pytest.mark.federation,
    pytest.mark.timeout(1500),
    pytest.mark.skipif(NGINX is None, reason="nginx is not installed: apt-get install nginx"),
]
MORE_S = 0.7  # in which a second answer would have come; the log of the SuperLink knows of later ones
OUTSIDE = "outside"  # the connection of a stranger
TARGET = "/v1/control/list-runs"
PROTOBUF = "Host: localhost\r\nContent-Type: application/protobuf\r\n"
REQUEST = f"POST {TARGET} HTTP/1.1\r\n{PROTOBUF}Content-Length: 0\r\nConnection: close\r\n\r\n"


@pytest.fixture(scope="module")
def deployed(tmp_path_factory):
    """A SuperLink that wants keys and its gateway; a stranger knows the gateway and the certificate."""
    with running(tmp_path_factory.mktemp("strangers") / "a federation") as federation:
        federation.make_certificate()
        federation.start_superlink()
        federation.start_gateway()
        for name in ("device-0", "stranger"):
            federation.make_key(name)
        federation.register("device-0")
        with open(federation.folder / "flower" / "config.toml", "a") as connections:
            connections.write(
                f'[superlink.{OUTSIDE}]\naddress = "127.0.0.1:{federation.device_port}"\n'
                f'root-certificates = "{federation.folder / "server.crt"}"\n'
            )
        yield federation


@pytest.fixture
def untouched(deployed):
    """Asserts that in the test no call reached Control, no key was registered and no run began."""
    known = names_and_runs(deployed)
    calls = control_calls(deployed)
    yield
    assert control_calls(deployed) == calls
    assert names_and_runs(deployed) == known


def control_calls(deployed):
    return deployed.log("superlink").read_text().count("/v1/control/")


def names_and_runs(deployed):
    """What an operator on the server sees."""
    trust = (deployed.folder / "server.crt").read_bytes()
    client = ControlHttpClient.from_server_address(f"127.0.0.1:{deployed.port}", False, trust, [])
    with contextlib.closing(client):
        nodes = client.ListNodes(ListNodesRequest()).nodes_info
        return [node.name for node in nodes], len(client.ListRuns(ListRunsRequest()).run_dict)


def connect(deployed, port, protocols=()):
    context = ssl.create_default_context(cafile=deployed.folder / "server.crt")
    context.set_alpn_protocols(list(protocols))
    return context.wrap_socket(socket.create_connection(("127.0.0.1", port)), server_hostname="localhost")


def answers(deployed, request, port=None):
    """The status of each answer to what is sent, byte by byte as it is given."""
    received = b""
    with connect(deployed, port or deployed.device_port) as connection:
        connection.sendall(request if isinstance(request, bytes) else request.encode())
        connection.settimeout(60)  # for the first answer; there may be no other
        try:
            while chunk := connection.recv(65536):
                received += chunk
                connection.settimeout(MORE_S)
        except TimeoutError:
            pass
    return [int(status) for status in re.findall(rb"HTTP/1\.[01] (\d{3})", received)]


def test_flower_s_own_commands_are_refused(deployed, untouched):
    for command in (
        f"flwr supernode register stranger.key.pub {OUTSIDE}",
        f"flwr supernode list {OUTSIDE}",
        f"flwr run '{PROJECT}' {OUTSIDE}",
    ):
        with pytest.raises(InputError, match="404 Not Found"):
            deployed.call(command)


def test_only_calls_of_nodes_with_keys_pass_and_they_want_a_key(deployed, untouched):
    routes = {*PROTOBUF_REQUEST_TYPES, ("POST", "/v1/runtime/responses")}
    routes |= {
        ("GET", path) for path in ("/", "/health", "/docs", "/openapi.json", "/v1/fleet/pull-messages")
    }
    passed = set()
    for method, path in routes:
        request = f"{method} {path} HTTP/1.1\r\n{PROTOBUF}Content-Length: 0\r\nConnection: close\r\n\r\n"
        (status,) = answers(deployed, request)
        assert status in (401, 404), path
        if status == 401:
            passed.add(path)
    assert passed == {f"/v1/fleet/{call}" for call in CALLS}


@pytest.mark.parametrize(
    "path",
    [
        "/v1/fleet/../control/list-runs",
        "/v1/fleet/./../control/list-runs",
        "/v1/fleet/%2e%2e/control/list-runs",
        "/v1/fleet/%2E%2E%2Fcontrol/list-runs",
        "/v1/fleet/%252e%252e/control/list-runs",
        "/v1/fleet/..;/control/list-runs",
        "/v1/fleet/..\\control\\list-runs",
        "/v1/fleet/pull-messages/../../control/list-runs",
        "/v1/control/list-runs/../../fleet/pull-messages",
        "/v1/control/list-runs%2f..%2f..%2ffleet/pull-messages",
        "/v1/control/list-runs#/../../fleet/pull-messages",
        "/v1/control/list-runs?/../../fleet/pull-messages",
        "/v1/control/list-runs?/v1/fleet/pull-messages",
        "/v1/control/list-runs%00/v1/fleet/pull-messages",
        "/v1/control/list-runs%0a",
        "/v1/contro%6c/list-runs",
        "//v1/control/list-runs",
        "/v1//control/list-runs",
        "/V1/Control/List-Runs",
        "/V1/FLEET/PULL-MESSAGES",
        "/v1/fleet/pull-messages/",
        "/v1/fleet/pull-messages%0a",
        "/v1/fleet/pull-messages?to=/v1/control/list-runs",
        "https://localhost/v1/control/list-runs",
        "https://localhost/v1/fleet/../control/list-runs",
        "/v1/fleet/pull-messages HTTP/1.1 /v1/control/list-runs",
        "*",
    ],
)
def test_no_way_to_write_a_path_passes(deployed, untouched, path):
    statuses = answers(deployed, REQUEST.replace(TARGET, path))
    assert statuses
    assert set(statuses) <= {400, 404}


@pytest.mark.parametrize(
    ("headers", "body"),
    [
        (f"Content-Length: {len(REQUEST) + 5}\r\nTransfer-Encoding: chunked", f"0\r\n\r\n{REQUEST}"),
        ("Content-Length: 4\r\nTransfer-Encoding: chunked", f"{len(REQUEST):x}\r\n{REQUEST}\r\n0\r\n\r\n"),
        ("Transfer-Encoding: chunked", f"0\r\n\r\n{REQUEST}"),
        ("Transfer-Encoding: xchunked", f"0\r\n\r\n{REQUEST}"),
        ("Transfer-Encoding: chunked, identity", f"0\r\n\r\n{REQUEST}"),
        ("Transfer-Encoding : chunked", f"0\r\n\r\n{REQUEST}"),
        ("Transfer-Encoding: chunked\r\nTransfer-Encoding: identity", f"0\r\n\r\n{REQUEST}"),
        ("Transfer-Encoding: chunked", f"0;\n\r\n{REQUEST}"),
        (f"Content-Length: 0\r\nContent-Length: {len(REQUEST)}", REQUEST),
        (f"Content-Length: 0, {len(REQUEST)}", REQUEST),
        ("Content-Length: +0", REQUEST),
        ("Content-Length: -1", REQUEST),
        (f"Content-Length: 0\r\nContent_Length: {len(REQUEST)}", REQUEST),
        ("Content-Length: 0", REQUEST),
        (f"Content-Length: {len(REQUEST)}", REQUEST),
        ("Content-Length: 0\r\nX: y\n", REQUEST),
        (
            "Content-Length: 0\r\nUpgrade: h2c\r\nConnection: Upgrade, HTTP2-Settings\r\nHTTP2-Settings: AA",
            REQUEST,
        ),
        ("Content-Length: 0\r\nUpgrade: websocket\r\nConnection: Upgrade", REQUEST),
        (f"Content-Length: 0\r\nX-Original-URL: {TARGET}\r\nX-Rewrite-URL: {TARGET}", ""),
        ("Content-Length: 0\r\nX-Forwarded-Prefix: /v1/control\r\nX-Forwarded-For: 127.0.0.1", ""),
    ],
)
def test_no_request_hides_in_another(deployed, untouched, headers, body):
    statuses = answers(
        deployed, f"POST /v1/fleet/pull-messages HTTP/1.1\r\n{PROTOBUF}{headers}\r\n\r\n{body}"
    )
    assert statuses
    assert min(statuses) >= 400  # what was passed on lacked a key


def test_only_http_1_over_tls_is_spoken(deployed, untouched):
    with connect(deployed, deployed.device_port, protocols=("h2", "http/1.1")) as connection:
        assert connection.selected_alpn_protocol() == "http/1.1"
    assert answers(deployed, b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n") == [400]
    with socket.create_connection(("127.0.0.1", deployed.device_port)) as plain:
        plain.sendall(REQUEST.encode())
        assert b" 400 " in plain.recv(65536)


def test_large_bodies_are_refused_before_they_are_read(deployed, untouched):
    for call, most in (("push-object", 8 * 2**20), ("push-messages", 2**20)):
        start = f"POST /v1/fleet/{call} HTTP/1.1\r\n{PROTOBUF}Connection: close\r\n"
        assert answers(deployed, f"{start}Content-Length: {most + 1}\r\n\r\n") == [413]
        chunked = f"{start}Transfer-Encoding: chunked\r\n\r\n{most + 1:x}\r\n."
        assert answers(deployed, chunked) == [413]


def test_one_address_has_so_many_requests_at_a_time_and_then_waits(deployed, untouched):
    unfinished = (
        f"POST /v1/fleet/pull-messages HTTP/1.1\r\n{PROTOBUF}Content-Length: 1\r\nConnection: close\r\n\r\n"
    )
    with contextlib.ExitStack() as stack:

        def open_another():
            stack.enter_context(connect(deployed, deployed.device_port)).sendall(unfinished.encode())

        def is_refused():
            open_another()  # on a slow machine the first ones may be over already
            return answers(deployed, f"{unfinished}.") == [503]

        for _ in range(CONNECTIONS - 1):
            open_another()
        wait_for(is_refused, "the limit")
    wait_for(lambda: answers(deployed, f"{unfinished}.") == [400], "the others to be gone")  # not protobuf


def test_the_superlink_itself_is_on_no_other_address(deployed):
    with pytest.raises(ConnectionRefusedError):
        socket.create_connection(("127.0.0.2", deployed.port))


def test_nodes_without_a_registered_key_are_refused(deployed, untouched):
    trust = "--max-retries 1 --root-certificates server.crt"
    attempts = {
        "stranger": f"{trust} --auth-supernode-private-key stranger.key",
        "keyless": trust,
        "plain": "--max-retries 1 --insecure",
    }
    nodes = {
        name: deployed.start_node(name, {"partition-id": 0}, options=options)
        for name, options in attempts.items()
    }
    for name, process in nodes.items():
        assert process.wait(PATIENCE_S) != 0
        log = deployed.log(name).read_text()
        assert "Failed to initialize the connection" in log
        assert "SuperNode ID" not in log


def test_a_registered_node_takes_part(deployed, images, tmp_path):
    changes = (
        f"data.dataset={images} data.partition=iid fleet.devices=1 fleet.samples=60 policy.name=all "
        "run.rounds=1 run.evaluate_every=1"
    )
    deployed.start_node("device-0", {"partition-id": 0, "state-dir": tmp_path / "device-0"})
    config = {"settings": "mnist", "set": changes, "out": tmp_path / "run", "grace-s": 300.0, "wait-s": 300.0}
    assert deployed.run(config).wait(PATIENCE_S) == 0
    (record,) = runs.read_records(tmp_path / "run")
    assert (record["scheduled"], record["failed"]) == ([0], [])
    assert runs.read_summary(tmp_path / "run")["final_accuracy"] is not None


def test_the_superlink_s_own_port_would_let_a_stranger_in(deployed):
    assert answers(deployed, REQUEST, deployed.port) == [200]
    assert answers(
        deployed, REQUEST.replace(TARGET, f"{TARGET}#/../../fleet/pull-messages"), deployed.port
    ) == [200]
    deployed.call(f"flwr supernode register stranger.key.pub {NAME} --name stranger")
    names, _ = names_and_runs(deployed)
    assert "stranger" in names
