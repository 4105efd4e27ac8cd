"""Following a run directory: what a page gets while rounds come, stop, are cut off and go on."""

import json
import threading
import time
import urllib.error
import urllib.request

import numpy as np
import pytest

import pmafl
from pmafl.errors import InputError
from pmafl.page import address_of, open_server, serving
from pmafl.page.live import Follower
from tests.page.pages import SMALL, data_of, small_run, unpack


@pytest.fixture(scope="module")
def lines(tmp_path_factory):
    directory = small_run(tmp_path_factory.mktemp("live") / "whole")
    return (directory / "rounds.jsonl").read_bytes().splitlines(keepends=True)


@pytest.fixture
def growing(tmp_path):
    """A run directory before its first round."""
    pmafl.create_run(tmp_path / "run", pmafl.load_settings("mnist", SMALL))
    return tmp_path / "run"


def write(directory, lines):
    (directory / "rounds.jsonl").write_bytes(b"".join(lines))


def test_a_page_gets_the_rounds_that_it_lacks(growing, lines):
    write(growing, lines[:2])
    follower = Follower(growing)
    page = follower.page()
    assert (page["rounds"], page["finished"]) == (2, False)
    write(growing, [*lines[:4], lines[4][:30]])  # the fifth is half written
    follower.look()
    lacking = follower.since(page["records"], 2)
    assert lacking["rounds"] == 4
    assert [part["frames"].tolist() for part in lacking["more"]] == [[2, 3]]
    write(growing, lines)
    follower.look()
    assert [part["frames"].tolist() for part in follower.since(page["records"], 4)["more"]] == [[4, 5]]
    assert follower.since(page["records"], 6) == {
        "more": [],
        "records": page["records"],
        "rounds": 6,
        "finished": True,
    }


def test_batches_together_are_the_page_of_the_whole_run(growing, lines):
    write(growing, lines)
    (whole,) = (Follower(growing).page()["part"],)
    write(growing, lines[:3])
    follower = Follower(growing)
    write(growing, lines)
    follower.look()
    parts = [follower.page()["part"], *follower.page()["more"]]
    for name in ("device", "compute_energy_j"):
        np.testing.assert_array_equal(np.concatenate([p["turns"][name] for p in parts]), whole["turns"][name])
    np.testing.assert_array_equal(
        np.concatenate([p["gain"]["values"] for p in parts]), whole["gain"]["values"]
    )
    assert [r[1][1] for p in parts for r in p["reasons"]] == [r[1][1] for r in whole["reasons"]]


def test_rounds_that_were_taken_back_begin_anew(growing, lines):
    write(growing, lines[:4])
    follower = Follower(growing)
    before = follower.page()["records"]
    write(growing, lines[:2])  # a run that was killed goes on from its last checkpoint
    follower.look()
    assert follower.since(before, 4) is None
    assert follower.page()["rounds"] == 2
    other = json.loads(lines[1]) | {"scheduled_samples": 1}
    write(growing, [lines[0], json.dumps(other).encode() + b"\n"])
    follower.look()
    assert follower.page()["part"]["points"]["scheduled_samples"][1] == 1


def test_a_run_that_is_made_longer_begins_anew(growing, lines):
    write(growing, lines)
    follower = Follower(growing)
    before = follower.page()["records"]
    text = (growing / "settings.toml").read_text()
    (growing / "settings.toml").write_text(text.replace("rounds = 6", "rounds = 9"))
    follower.look()
    assert follower.since(before, 6) is None
    assert follower.page()["head"]["rounds"] == 9


def test_a_page_of_no_rounds_is_loaded_again_with_the_first(growing, lines):
    follower = Follower(growing)
    page = follower.page()
    assert page["rounds"] == 0
    assert follower.since(page["records"], 0)["more"] == []
    write(growing, lines[:1])
    follower.look()
    assert follower.since(page["records"], 0) is None


@pytest.fixture
def server(growing):
    server = open_server(growing)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield server
    server.shutdown()
    server.server_close()


def get(server, path="", **headers):
    request = urllib.request.Request(address_of(server) + path, headers=headers)
    with urllib.request.urlopen(request, timeout=60) as answer:
        return answer.status, answer.read()


def test_the_server_gives_the_page_and_then_what_is_new(server, growing, lines):
    write(growing, lines[:2])
    status, html = get(server)
    page = data_of(html.decode())
    assert status == 200
    assert "connect-src 'self'" in html.decode()
    write(growing, lines[:3])
    status, packed = get(server, f"rounds?records={page['records']}&have=2")
    assert status == 200
    assert unpack(packed)["rounds"] == 3
    assert get(server, "rounds?records=another&have=2")[0] == 205
    assert get(server, f"rounds?records={page['records']}&have=nonsense")[0] == 205


@pytest.mark.parametrize(
    ("path", "host", "status"), [("settings.toml", None, 404), ("../x", None, 404), ("", "evil.example", 403)]
)
def test_the_server_gives_nothing_else(server, path, host, status):
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(server, path, **({"Host": host} if host else {}))
    assert caught.value.code == status


def test_a_damaged_line_is_said_and_does_not_end_the_server(server, growing, lines):
    write(growing, [lines[0], b"{damaged\n"])
    with pytest.raises(urllib.error.HTTPError) as caught:
        get(server)
    assert caught.value.code == 503
    write(growing, lines[:2])
    assert get(server)[0] == 200


def test_servers_take_ports_of_their_own_on_this_machine_alone(server, growing):
    other = open_server(growing)
    try:
        assert other.server_port != server.server_port
        assert other.server_address[0] == "127.0.0.1"
        with pytest.raises(InputError, match="is taken"):
            open_server(growing, server.server_port)
    finally:
        other.server_close()


@pytest.mark.heavy
def test_a_process_beside_a_run_serves_its_page_and_ends_with_it(growing, lines):
    write(growing, lines[:2])
    with serving(growing) as beside:
        address = beside.begin()
        limit_s = time.monotonic() + 120
        while True:
            try:
                with urllib.request.urlopen(address, timeout=60) as answer:
                    assert data_of(answer.read().decode())["rounds"] == 2
                break
            except urllib.error.URLError:  # it does not listen yet
                assert time.monotonic() < limit_s
                time.sleep(0.1)
    with pytest.raises(urllib.error.URLError):
        urllib.request.urlopen(address, timeout=60)


def test_what_is_no_run_cannot_be_served(tmp_path):
    with pytest.raises(InputError, match="not a run directory"):
        open_server(tmp_path)


def test_what_comes_later_has_pages_load_again(growing, lines):
    """Such as the first test, for which the pages have no figure yet."""
    tested = {"accuracy": 0.5, "loss": 1.0, "accuracy_std": 0.1, "worst_tenth_accuracy": 0.4}
    rows = [json.loads(line) for line in lines]
    rows[3] |= tested | {"error": 0.5, "error_std": 0.1, "worst_tenth_error": 0.9, "global_error": 0.6}
    write(growing, [json.dumps(row).encode() + b"\n" for row in rows[:3]])
    follower = Follower(growing)
    before = follower.page()
    assert before["head"]["score"]["title"] == "Accuracy"
    write(growing, [json.dumps(row).encode() + b"\n" for row in rows[:4]])
    follower.look()
    assert follower.since(before["records"], 3) is None
    assert follower.page()["head"]["score"]["title"] == "Error"
