"""A question to libldap that can be given up.

libldap waits for an answer without end, and hears no signal while a TLS handshake stands still. So each question has a
thread of its own, and only that one waits for libldap.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, TypeVar

Result = TypeVar("Result")
LOOK_EVERY = 0.1  # seconds between two looks whether it was given up


class TimedOut(Exception):
    """None came in time."""


class Cancelled(Exception):
    """Nobody wants it any more."""


class TimedCall(Generic[Result]):
    """Asked once. Its thread ends when libldap returns, or with the program."""

    def __init__(self, ask: Callable[[], Result]) -> None:
        self._ask = ask
        self._over = threading.Event()
        self._found: list[Result] = []
        self._error: BaseException | None = None

    def answer(self, limit: float, given_up: threading.Event | None = None) -> Result:
        """What `ask` returns or raises. TimedOut after `limit` seconds, Cancelled soon after `given_up` is set."""
        threading.Thread(target=self._run, name="ldap question", daemon=True).start()
        self._wait(limit, given_up)
        if self._error is not None:
            raise self._error
        return self._found[0]

    def _run(self) -> None:
        try:
            self._found.append(self._ask())
        except BaseException as error:
            self._error = error
        finally:
            self._over.set()

    def _wait(self, limit: float, given_up: threading.Event | None) -> None:
        until = time.monotonic() + limit
        while not self._over.wait(LOOK_EVERY):
            if given_up is not None and given_up.is_set():
                raise Cancelled("given up")
            if time.monotonic() > until:
                raise TimedOut(f"no answer within {limit:.0f} s")
