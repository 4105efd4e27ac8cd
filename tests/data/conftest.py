"""A small data set in MNIST's format, a cache of its own, and a mirror on this machine."""

import gzip
import hashlib
import http.server
import threading
from contextlib import suppress
from dataclasses import replace

import numpy as np
import pytest

from pmafl.data.known import MNIST, Mirror


def idx(array):
    magic = bytes([0, 0, 8, array.ndim])
    return magic + np.array(array.shape, ">u4").tobytes() + array.astype(np.uint8).tobytes()


@pytest.fixture
def files():
    """The four files of a data set of 20 training and 10 test images, as MNIST names them."""
    rng = np.random.default_rng(0)
    arrays = (
        rng.integers(0, 256, (20, 28, 28)),
        np.arange(20) % 10,
        rng.integers(0, 256, (10, 28, 28)),
        np.arange(10),
    )
    return {name: idx(array) for name, array in zip(MNIST.checksums, arrays, strict=True)}


@pytest.fixture
def known(files):
    """That data set, with no source to fetch it from."""
    return replace(MNIST, checksums={n: hashlib.md5(c).hexdigest() for n, c in files.items()}, sources=())


@pytest.fixture(autouse=True)
def cache(tmp_path, monkeypatch):
    """An empty cache, and no directory named in the environment."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.delenv("PMAFL_DATA", raising=False)
    return tmp_path / "cache" / "pmafl" / "mnist"


class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        content = self.server.content.get(self.path[1:])
        if content is None:
            self.send_error(404)
            return
        if self.server.dripping == "headers":
            self.drip(b"HTTP/1.1 200 OK\r\n" + b"X-Endless: x\r\n" * 1000)
            return
        self.send_response(200)
        self.send_header("Content-Length", str(len(content) + self.server.held_back))
        self.end_headers()
        if self.server.dripping == "content":
            self.drip(content)
        else:
            self.wfile.write(content)

    def drip(self, content):
        """Send byte after byte, until nobody listens any more or the test is over."""
        with suppress(OSError):
            for byte in content:
                self.wfile.write(bytes([byte]))
                if self.server.over.wait(0.02):
                    return

    def log_message(self, *_):
        pass


@pytest.fixture
def mirror(files, monkeypatch):
    """A web server with the packed files.

    Set `held_back` to make it break off, `content` to change what it has, `dripping` to "headers" or
    "content" to make it send these byte by byte.
    """
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.content = {f"{name}.gz": gzip.compress(content) for name, content in files.items()}
    server.held_back, server.dripping, server.over = 0, "", threading.Event()
    server.source = Mirror(tuple(f"http://127.0.0.1:{server.server_port}/{name}.gz" for name in files), 1)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield server
    server.over.set()
    server.shutdown()
    thread.join()
    server.server_close()
