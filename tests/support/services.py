"""Private servers as services, which other programs start and stop with commands, as with systemctl."""

from __future__ import annotations

import socketserver
import sys
from collections.abc import Mapping
from pathlib import Path

from fixtures.aside import BackgroundThread
from fixtures.slapd import Slapd

# Sends "NAME ACTION", and exits with the status in the answer.
_CLIENT = """
import socket, sys
with socket.socket(socket.AF_UNIX) as one:
    one.connect(sys.argv[1])
    one.sendall(" ".join(sys.argv[2:]).encode() + b"\\n")
    sys.exit(int(one.makefile().readline()))
"""


class Services(BackgroundThread):
    """Serves during the `with` block. A server ends with the thread that started it, so one thread does all actions.

    `done`: the requests so far (`NAME ACTION`).
    """

    def __init__(self, place: Path, servers: Mapping[str, Slapd]) -> None:
        super().__init__()
        self.place, self.servers, self.done = place, servers, list[str]()
        self._listener = socketserver.UnixStreamServer(str(place), _Request)
        self._listener.services = self  # type: ignore[attr-defined]

    def command(self, name: str, action: str) -> list[str]:
        """Returns the command. `action`: running, start or stop."""
        return [sys.executable, "-c", _CLIENT, str(self.place), name, action]

    def do(self, name: str, action: str) -> int:
        server = self.servers[name]
        if action == "running":
            return 0 if server.running else 3
        self.done.append(f"{name} {action}")
        server.start() if action == "start" else server.stop()
        return 0

    def _work(self) -> None:
        self._listener.serve_forever(poll_interval=0.05)
        for server in self.servers.values():
            server.stop()

    def __exit__(self, *_: object) -> None:
        self._listener.shutdown()
        super().__exit__()
        self._listener.server_close()


class _Request(socketserver.StreamRequestHandler):
    def handle(self) -> None:
        name, action = self.rfile.readline().decode().split()
        services: Services = self.server.services  # type: ignore[attr-defined]
        self.wfile.write(f"{services.do(name, action)}\n".encode())
