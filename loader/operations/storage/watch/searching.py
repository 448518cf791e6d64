"""A timed search of one entry: what a client of the directory waits for."""

from __future__ import annotations

import time
from contextlib import ExitStack

from loader.errors import ConnectionLost, LoaderError
from loader.server.options import Connection
from loader.server.session import Session, session


class Search:
    """On one connection, which is made in the first search and again after one that failed; making it is not timed."""

    size: int | None = None
    note: str | None = None

    def __init__(self, connection: Connection, base: str) -> None:
        self._connection, self._base = connection, base
        self._held = ExitStack()
        self._session: Session | None = None

    def once(self) -> float:
        """Raises LoaderError."""
        is_old = self._session is not None
        try:
            return self._searched()
        except ConnectionLost:
            if not is_old:
                raise
        return self._searched()  # a server closes connections that have been idle

    def _searched(self) -> float:
        if self._session is None:
            self._session = self._held.enter_context(session(self._connection))
        begun = time.perf_counter_ns()
        try:
            self._session.read(self._base, ["1.1"])
        except LoaderError:
            self.close()
            raise
        return (time.perf_counter_ns() - begun) / 1e9

    def close(self) -> None:
        self._session = None
        self._held.close()
