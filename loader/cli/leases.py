"""What runs that were killed have left loosened on servers: whichever verb meets it says so."""

from __future__ import annotations

import logging
from contextlib import suppress

from loader.errors import LoaderError
from loader.run import lease

_STAYS = "sessionlog"  # until `replica release` puts it back
log = logging.getLogger(__name__)


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
