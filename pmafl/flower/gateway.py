"""The port for devices: nginx in front of a SuperLink, passing on what a device has to say and nothing else.

A SuperLink serves devices, operators and its own server processes on one port, and asks only devices who they
are: whoever reaches that port can register keys and run code on every node. So it listens on 127.0.0.1, where
operators are, and devices reach this gateway. ``python -m pmafl.flower.gateway`` writes its configuration.
"""

from __future__ import annotations

import argparse
import ipaddress
import re
import string
import sys
from collections.abc import Callable
from pathlib import Path

from cryptography import x509

from pmafl.errors import InputError

# What a SuperNode with a key calls; `register-node` and `unregister-node` are for those without one.
CALLS = (
    "activate-node",
    "deactivate-node",
    "send-node-heartbeat",
    "pull-messages",
    "push-messages",
    "get-run",
    "get-fab",
    "push-object",
    "pull-object",
    "confirm-message-received",
)
CONFIGURATION = "nginx.conf"
CONNECTIONS = 64  # of one address; a device has two or three, and several may share an address


class _Template(string.Template):
    delimiter = "@"  # nginx has the $


_NGINX = _Template("""\
# Written by python -m pmafl.flower.gateway. Relative paths are in the folder that nginx -p names.
daemon off;
user @user;
worker_processes 1;
pid nginx.pid;
error_log stderr error;

events {
    worker_connections 1024;
}

http {
    server_tokens off;
    client_body_temp_path body;
    proxy_temp_path proxy;
    fastcgi_temp_path unused;
    uwsgi_temp_path unused;
    scgi_temp_path unused;

    # The request line as it came, letter by letter: what would have to be decoded or tidied up is refused,
    # and what is passed on is written here, so there are no two ways to read a path.
    map "$request_method $request_uri" $call {
        "~^POST /v1/fleet/(?<name>@calls)$" $name;
    }
    map $status $refused {
        "~^[45]" 1;
    }
    access_log refused.log combined if=$refused;

    # nginx reads all of a request before the SuperLink sees any of it, so a slow or broken one costs a
    # connection here. The SuperLink holds in memory what it reads: 32 requests of at most 8 MB at a time.
    # Flower cuts what it sends into objects of 5 MiB; devices repeat what was answered with 502 or 503.
    upstream superlink {
        zone superlink 64k;
        server 127.0.0.1:@superlink_port max_conns=32 max_fails=0;
    }
    limit_conn_zone $binary_remote_addr zone=address:1m;
    limit_conn address @connections;
    client_max_body_size 1m;
    client_header_timeout 10s;
    client_body_timeout 20s;
    send_timeout 20s;
    reset_timedout_connection on;

    proxy_http_version 1.1;
    proxy_connect_timeout 5s;
    proxy_set_header X-Forwarded-For $remote_addr;
    proxy_set_header X-Forwarded-Proto https;
    proxy_ssl_verify on;
    proxy_ssl_trusted_certificate "@certificate";
    proxy_ssl_name @name;

    server {
        listen @host:@port ssl;
        ssl_certificate "@certificate";
        ssl_certificate_key "@key";
        ssl_protocols TLSv1.2 TLSv1.3;
        ssl_session_cache shared:devices:1m;

        if ($call = "") {
            return 404; # a SuperNode takes 403 for the end of a run, and waits
        }
        location / {
            proxy_pass https://superlink/v1/fleet/$call;
        }
        location = /v1/fleet/push-object {
            client_max_body_size 8m;
            proxy_pass https://superlink/v1/fleet/$call;
        }
    }
}
""")


def write(
    folder: Path,
    certificate: Path,
    key: Path,
    port: int,
    superlink_port: int,
    host: str = "0.0.0.0",
    user: str = "www-data",
    connections: int = CONNECTIONS,
) -> Path:
    """Write the configuration, and give its path; nginx keeps its own files beside it.

    Args:
        folder: made if it is not there.
        certificate, key: the server's, PEM. The certificate signs itself, and the SuperLink has it too.
        port, host: where devices come in.
        superlink_port: on 127.0.0.1.
        user: that nginx becomes, if root starts it.
        connections: requests at a time from one address.
    """
    text = _NGINX.substitute(
        calls="|".join(CALLS),
        certificate=_quotable(certificate),
        key=_quotable(key),
        name=_name(certificate),
        host=f"[{host}]" if ":" in host else host,
        port=port,
        superlink_port=superlink_port,
        user=user,
        connections=connections,
    )
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / CONFIGURATION
    path.write_text(text)
    return path


def _quotable(path: Path) -> str:
    """An absolute path as it may stand between quotes in nginx's language."""
    if not path.is_file():
        raise InputError(f"{path}: there is no such file")
    text = str(path.resolve())
    if not text.isprintable() or set(text) & set('"\\$'):
        raise InputError(
            f"{text!r}: nginx cannot take a path with quotes, backslashes, $ or control characters"
        )
    return text


def _name(certificate: Path) -> str:
    """A host name for which the certificate stands: nginx checks that the SuperLink answers with it."""
    try:
        read = x509.load_pem_x509_certificate(certificate.read_bytes())
        names = read.extensions.get_extension_for_class(x509.SubjectAlternativeName).value
    except ValueError:
        raise InputError(f"{certificate}: not a certificate in PEM") from None
    except x509.ExtensionNotFound:
        names = None
    hosts = names.get_values_for_type(x509.DNSName) if names else []
    if read.issuer != read.subject or not hosts or hosts[0].startswith("*"):
        raise InputError(
            f"{certificate}: must sign itself and stand for a host name, as by openssl req -x509 "
            "-addext subjectAltName=DNS:localhost,IP:127.0.0.1"
        )
    return hosts[0]


def _up_to_65535(what: str) -> Callable[[str], int]:
    def parse(text: str) -> int:
        if not text.isdecimal() or not 0 < int(text) < 65536:
            raise argparse.ArgumentTypeError(f"{text} is not {what}: 1 to 65535")
        return int(text)

    return parse


def _host(text: str) -> str:
    try:
        return str(ipaddress.ip_address(text))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not an address, such as 0.0.0.0 or ::") from None


def _user(text: str) -> str:
    if not re.fullmatch(r"[a-z_][a-z0-9_-]*", text):
        raise argparse.ArgumentTypeError(f"{text!r} is not the name of a user, such as www-data")
    return text


def main() -> None:
    parser = argparse.ArgumentParser(
        description="Write the configuration of the port for devices, for nginx -p FOLDER -c nginx.conf"
    )
    port, connections = _up_to_65535("a port"), _up_to_65535("a number of connections")
    parser.add_argument("--folder", type=Path, required=True, help="for nginx.conf and nginx's own files")
    parser.add_argument("--certificate", type=Path, required=True, help="the server's, which devices trust")
    parser.add_argument("--key", type=Path, required=True, help="of the certificate")
    parser.add_argument("--port", type=port, default=8443, help="for devices")
    parser.add_argument("--host", type=_host, default="0.0.0.0", help="address for devices")
    parser.add_argument("--superlink-port", type=port, default=8000, help="on 127.0.0.1")
    parser.add_argument("--user", type=_user, default="www-data", help="that nginx becomes if root starts it")
    parser.add_argument("--connections", type=connections, default=CONNECTIONS, help="at a time, per address")
    try:
        print(write(**vars(parser.parse_args())))
    except (InputError, OSError) as error:
        print(f"error: {error}", file=sys.stderr)
        sys.exit(2)


if __name__ == "__main__":
    main()
