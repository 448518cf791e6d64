"""Many small searches one after the other over one connection, as a simple client has them."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any

import ldap
import msgspec

from loader.errors import ServerRefused
from loader.progress import Meter
from loader.server.options import Connection
from loader.server.session import session

_SCOPES = {"base": ldap.SCOPE_BASE, "one": ldap.SCOPE_ONELEVEL, "sub": ldap.SCOPE_SUBTREE}
_LOOK = 100  # searches between two signs of life
_PATIENCE = 86400.0  # seconds for all of them


class Question(msgspec.Struct, frozen=True):
    """A search, and how many entries it finds."""

    base: str
    scope: str
    filter: str
    entries: int


def seconds_of(uri: str, questions: Sequence[Question], meter: Meter) -> float:
    """How long they took. Raises ServerRefused for one that found something else."""

    def talk(connection: Any) -> float:
        began = time.monotonic()
        for number, one in enumerate(questions, 1):
            found = connection.search_ext_s(one.base, _SCOPES[one.scope], one.filter)
            if len(found) != one.entries:
                reason = f"{one.filter}: {len(found)} entries found, {one.entries} expected"
                raise ServerRefused(uri=uri, operation="search", reason=reason)
            if not number % _LOOK:
                meter.add(_LOOK)
        return time.monotonic() - began

    with session(Connection(uri=uri)) as asked:
        return asked.converse("searches", talk, limit=_PATIENCE)
