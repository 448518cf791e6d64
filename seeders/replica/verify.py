"""Does the replica hold what its provider holds? Waits until both have the same contextCSN, then compares them."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from loader import csn, units
from loader.errors import LoaderError, NotInSync
from loader.operations import sight as sights
from loader.operations.compare import CompareOptions, CompareReport
from loader.progress import Progress
from loader.server import shown
from loader.server.options import Connection
from loader.server.session import session
from loader.sources.location import Server
from seeders.replica import local

LOOK_EVERY = 0.2  # seconds between two looks while waiting


@dataclass(frozen=True)
class VerifyOptions:
    """`wait` in seconds: how long the replica may need to catch up from the moment it is asked."""

    provider: Connection
    consumer: Connection
    wait: float = 0.0
    limit: int = 20


def verify(options: VerifyOptions, progress: Progress) -> tuple[float, CompareReport]:
    """Seconds waited, and the comparison. Raises NotInSync."""
    with session(options.provider) as provider:
        base = provider.base()
        sight = shown.look(provider, base)
    notes = tuple(sights.notes(sight)) if sight else ()
    waited = catch_up(options, base, progress)
    provider_side = replace(options.provider, base=base)
    consumer_side = replace(options.consumer, base=base)
    wanted = CompareOptions(Server(provider_side), Server(consumer_side), limit=options.limit)
    return waited, replace(local.compared(wanted, progress), notes=notes)


def catch_up(options: VerifyOptions, base: str, progress: Progress) -> float:
    """Wait until the consumer has seen all that the provider has now; seconds it took."""
    with progress.step("catch-up") as meter, session(options.provider) as provider:
        while True:
            wanted = csn.by_server(provider.context_csns(base))
            if csn.covered(wanted, _seen(options.consumer, base)):
                return meter.seconds
            if meter.seconds > options.wait:
                uris = {"consumer": options.consumer.uri, "provider": provider.uri}
                raise NotInSync(**uris, waited=units.duration(meter.seconds))
            time.sleep(LOOK_EVERY)


def _seen(consumer: Connection, base: str) -> dict[str, str]:
    """contextCSN of the consumer; empty while it has none or is only just starting."""
    try:
        with session(consumer) as server:
            return csn.by_server(server.context_csns(base))
    except LoaderError as error:
        if error.retryable or error.code in ("server.no_context_csn", "server.no_such_base"):
            return {}
        raise
