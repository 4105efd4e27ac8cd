"""A TCP relay that counts what passes: the bytes on the wire, encryption and all."""

import contextlib
import socket
import threading
import time


class Wire:
    """Relays connections to an address on this machine; `sent` counts bytes towards it."""

    def __init__(self, port):
        self.sent = 0
        self._target = port
        self._server = socket.create_server(("127.0.0.1", 0))
        self.address = f"127.0.0.1:{self._server.getsockname()[1]}"
        threading.Thread(target=self._accept, daemon=True).start()

    def close(self):
        self._server.close()

    def _accept(self):
        with contextlib.suppress(OSError):
            while True:
                near, _ = self._server.accept()
                far = self._connect()
                threading.Thread(target=self._relay, args=(near, far, True), daemon=True).start()
                threading.Thread(target=self._relay, args=(far, near, False), daemon=True).start()

    def _connect(self):
        """Like a network that is down for a while; a relay that hangs up would look like broken TLS."""
        while True:
            try:
                return socket.create_connection(("127.0.0.1", self._target))
            except OSError:
                time.sleep(0.2)

    def _relay(self, source, sink, count):
        with contextlib.suppress(OSError):
            while chunk := source.recv(65536):
                if count:
                    self.sent += len(chunk)
                sink.sendall(chunk)
        for end in (source, sink):
            with contextlib.suppress(OSError):
                end.shutdown(socket.SHUT_RDWR)
            end.close()
