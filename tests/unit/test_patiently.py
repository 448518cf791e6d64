"""A broken connection is tried again; a server that was silent for as long as one may be is not."""

from __future__ import annotations

import pytest

from loader import _native
from loader.errors import ConnectionLost, LoaderError, ServerSilent
from loader.progress import Meter
from loader.server import wire
from loader.server.options import Connection
from loader.sources import ldap


def failing(code: str) -> LoaderError:
    error = _native.NativeError("the server was silent for 300 s")
    error.code = code
    return wire.ours(error, Connection("ldap://server"), "o=x")


def tries(code: str, monkeypatch: pytest.MonkeyPatch) -> int:
    monkeypatch.setattr(ldap, "LONGEST_PAUSE", 0.001)
    met = []

    def attempt() -> None:
        met.append(code)
        raise failing(code)

    with pytest.raises(ConnectionLost):
        ldap.with_retries(attempt, Meter("read"), retries=3)
    return len(met)


def test_silence(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was told after 20 times 300 s."""
    assert isinstance(failing("ldap.silent"), ServerSilent)
    assert tries("ldap.silent", monkeypatch) == 1


def test_a_broken_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    assert tries("ldap.lost", monkeypatch) == 4
