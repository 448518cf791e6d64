"""What runs that were killed have left loosened on servers: whichever verb meets it says so."""

from __future__ import annotations

import logging
from collections.abc import Sequence
from contextlib import suppress

from loader.errors import LoaderError
from loader.run import lease

_STAYS = "sessionlog"  # until `replica release` puts it back
log = logging.getLogger(__name__)


_SHOWS = {"tune", "doctor", "release"}  # what these show, they put back when they are asked to


def give_back(words: Sequence[str]) -> None:
    """Put back how commits are synced at servers of this host, where killed runs have left it changed, before the verb
    does anything. Where python-ldap cannot be loaded, that is for the verbs that need it to say."""
    with suppress(LoaderError, ImportError):
        if _SHOWS.isdisjoint(words):
            give_back_local()


def give_back_local() -> list[str]:
    """What came of each, in words. Raises ImportError where python-ldap cannot be loaded."""
    from loader.operations.add import lending
    from loader.operations.tune import syncing
    from loader.server.options import Connection

    told = []
    for one in lease.left():
        if one.kind in syncing.SETTINGS and lending.is_local(one):
            came = lending.put_back(one, Connection())
            told.append(f"{one.kind} of {one.database} at {one.target}: {came}")
    return told


def warn() -> None:
    """Where the state directory cannot be read, nothing is known; the verb's own ending counts."""
    with suppress(LoaderError):
        _warn()


def _warn() -> None:
    for one in lease.left():
        if one.kind != _STAYS:
            log.warning(
                "%s of %s at %s was left by a run of %s that was killed (if that server is gone for good: "
                "`ditseed replica release -H %s --forget`). To put it back:\n%s",
                one.kind,
                one.database,
                one.target,
                one.taken,
                one.target,
                one.undo,
            )
