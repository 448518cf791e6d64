"""A server that says what a test wants, then nothing: no real slapd is silent, broken or hostile."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field

# To message 1, success (RFC 4511): BindResponse, and ExtendedResponse to StartTLS.
BOUND = bytes.fromhex("300c02010161070a010004000400")
GRANTED = bytes.fromhex("300c02010178070a010004000400")


@dataclass(frozen=True)
class Scripted:
    """`heard`: what it has answered. `asked`: it was asked what it will not answer."""

    port: int
    heard: list[bytes] = field(default_factory=list)
    asked: threading.Event = field(default_factory=threading.Event)

    @property
    def uri(self) -> str:
        return f"ldap://127.0.0.1:{self.port}"


@contextmanager
def scripted(*answers: bytes, stay: bool = True) -> Iterator[Scripted]:
    """Yields a server that takes every connection, and says one answer after the other to whatever it hears. Then it
    says nothing, or, unless it shall `stay`, hangs up."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as listener:
        server = Scripted(listener.getsockname()[1])

        def serve(connection: socket.socket) -> None:
            with suppress(OSError), connection:
                for answer in answers:
                    server.heard.append(connection.recv(65536))
                    connection.sendall(answer)
                if stay:
                    connection.recv(65536, socket.MSG_PEEK)
                    server.asked.set()
                    over.wait(100)

        def accept() -> None:
            with suppress(OSError):
                while True:
                    threading.Thread(target=serve, args=(listener.accept()[0],)).start()

        running = threading.Thread(target=accept)
        running.start()
        try:
            yield server
        finally:
            over.set()
            listener.shutdown(socket.SHUT_RDWR)
            running.join()
