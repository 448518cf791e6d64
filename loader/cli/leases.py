"""The leases that killed runs have left: every verb restores those of this host, and reports the others."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress

from loader.errors import LoaderError
from loader.run import lease

_STAYS = "sessionlog"  # until `replica release` puts it back
log = logging.getLogger(__name__)


_SHOWS = {"tune", "doctor", "release"}  # they show leases, and restore settings on request


def give_back(words: Sequence[str]) -> None:
    """Restores how commits are synced at servers of this host, before the verb does anything. If python-ldap cannot be
    loaded, the verbs that need it report that."""
    with suppress(LoaderError, ImportError):
        if _SHOWS.isdisjoint(words):
            give_back_local()


def give_back_local() -> list[str]:
    """The result of each lease, in words. Raises ImportError if python-ldap cannot be loaded."""
    from loader.operations.add import lending
    from loader.operations.tune import syncing
    from loader.server.options import Connection

    results = []
    for one in lease.left():
        if one.kind in syncing.SETTINGS and lending.is_local(one):
            result = lending.put_back(one, Connection())
            results.append(f"{one.kind} of {one.database} at {one.target}: {result}")
    return results


def warn() -> None:
    """Never fails: the verb's own exit status counts."""
    with suppress(LoaderError):
        for one in lease.left():
            if one.kind != _STAYS:
                log.warning(
                    "%s of %s at %s was left by a run of %s that was killed (if that server is gone for good: "
                    "`ditseed replica release -H %s --forget`). To put it back:\n%s",
                    *(one.kind, one.database, one.target, one.taken, one.target, one.undo),
                )
