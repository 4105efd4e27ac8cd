"""The configuration of the port for devices: what it lets pass, and what it cannot be written for."""

import shlex
import subprocess
import sys

import pytest
from flwr.supercore.protobuf.translation import PROTOBUF_REQUEST_TYPES

from pmafl.flower import gateway


@pytest.fixture
def folder(tmp_path):
    make_certificate(tmp_path, "-addext subjectAltName=DNS:fl.example.org,IP:127.0.0.1")
    return tmp_path


def make_certificate(folder, options):
    command = (
        f"openssl req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-384 -nodes -subj /CN=pmafl {options}"
    )
    command += " -keyout server.key -out server.crt"
    subprocess.run(shlex.split(command), cwd=folder, check=True, capture_output=True)


def command(monkeypatch, folder, options=""):
    """Run the module as a user does, and give its exit code."""
    files = f"--folder {folder}/gateway --certificate {folder}/server.crt --key {folder}/server.key"
    monkeypatch.setattr(sys, "argv", ["gateway", *shlex.split(f"{files} {options}")])
    try:
        gateway.main()
    except SystemExit as end:
        return end.code
    return 0


def test_it_passes_every_call_of_flower_s_fleet_but_those_that_register():
    fleet = {path.removeprefix("/v1/fleet/") for _, path in PROTOBUF_REQUEST_TYPES if "/fleet/" in path}
    assert {*gateway.CALLS} == fleet - {"register-node", "unregister-node"}


def test_it_checks_that_the_superlink_has_the_same_certificate(monkeypatch, capsys, folder):
    assert command(monkeypatch, folder, "--port 443 --superlink-port 18000 --host ::") == 0
    written = capsys.readouterr().out.strip()
    text = (folder / "gateway" / "nginx.conf").read_text()
    assert written == str(folder / "gateway" / "nginx.conf")
    assert "listen [::]:443 ssl;" in text
    assert "server 127.0.0.1:18000 " in text
    assert "proxy_ssl_name fl.example.org;" in text
    assert f'proxy_ssl_trusted_certificate "{folder}/server.crt";' in text


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        ("--key /nowhere/server.key", "there is no such file"),
        ("--certificate {folder}/server.key", "not a certificate in PEM"),
        ("--certificate {folder}/cell$1.crt", "cannot take a path"),
        ("--folder {folder}/server.crt", "File exists"),
        ("--port 70000", "70000 is not a port: 1 to 65535"),
        ("--connections 0", "0 is not a number of connections"),
        ("--host 'localhost; include /etc/passwd'", "is not an address"),
        ("--user 'www-data; include /etc/passwd'", "is not the name of a user"),
    ],
)
def test_what_cannot_be_used_is_refused_in_one_line(monkeypatch, capsys, folder, options, reason):
    (folder / "cell$1.crt").write_bytes((folder / "server.crt").read_bytes())
    assert command(monkeypatch, folder, shlex.join(shlex.split(options.format(folder=folder)))) == 2
    assert reason in capsys.readouterr().err.splitlines()[-1]
    assert not (folder / "gateway").exists()


def test_a_certificate_without_a_host_name_is_refused(monkeypatch, capsys, folder):
    make_certificate(folder, "-addext subjectAltName=IP:127.0.0.1")
    assert command(monkeypatch, folder) == 2
    assert "must sign itself and stand for a host name" in capsys.readouterr().err
