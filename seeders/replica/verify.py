"""Does the replica hold what its provider holds? Waits until both have the same contextCSN, then compares them."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace
from pathlib import Path

from loader import csn, units
from loader.config import Config
from loader.errors import ConfigHidden, LoaderError, NoSuchSuffix, NotInSync
from loader.operations import moved
from loader.operations import sight as sights
from loader.operations.compare import IGNORED, CompareOptions, CompareReport
from loader.progress import Progress
from loader.server import configuration, shown
from loader.server.options import Connection
from loader.server.session import session
from loader.sources.location import Server
from seeders.replica import local, partial
from seeders.replica.partial import Partial

LOOK_EVERY = 0.2  # seconds between two looks while waiting


@dataclass(frozen=True)
class VerifyOptions:
    """`wait` in seconds: how long the replica may need to catch up from the moment it is asked. `config_path`: the
    consumer's configuration, where it can be read here; else its cn=config is asked."""

    provider: Connection
    consumer: Connection
    config_path: Path | None = None
    wait: float = 0.0
    limit: int = 20


def verify(options: VerifyOptions, progress: Progress) -> tuple[float, CompareReport, str]:
    """Seconds waited, the comparison, and as what the replica was compared. Raises NotInSync, PartialReplica."""
    with session(options.provider) as provider:
        base = provider.base()
    wanted, how = expected(options, base)
    left_out: tuple[str, ...]
    if wanted is None:
        provider_side = Server(replace(options.provider, base=base))
        consumer_side = Server(replace(options.consumer, base=base))
        bases, left_out = (base, base), ()
    else:
        bases = (wanted.syncrepl.searchbase, wanted.database.suffix)
        provider_side, consumer_side, left_out = wanted.sides(options.provider, options.consumer)
    waited = catch_up(options, bases, progress)
    asked = CompareOptions(provider_side, consumer_side, (*IGNORED, *left_out), limit=options.limit)
    report = local.compared(asked, progress)
    return waited, replace(report, notes=_unseen(options.provider, bases[0], wanted)), how


def _unseen(provider: Connection, base: str, wanted: Partial | None) -> tuple[str, ...]:
    """What the provider does not show as it is stored, and so was not compared."""
    with session(provider) as server:
        sight = shown.look(server, base, wanted.narrowing().wants if wanted else None)
    return tuple(sights.notes(sight)) if sight else ()


def expected(options: VerifyOptions, base: str) -> tuple[Partial | None, str]:
    """What the consumer's syncrepl makes it hold, None for everything; and where that is known from."""
    try:
        config = _configuration(options)
    except ConfigHidden:
        return None, "a whole replica (its configuration cannot be read; --config gives it)"
    try:
        database = config.database(base)
    except NoSuchSuffix:
        database = config.database(None)
    found = partial.of(config, database, "search", options.provider.uri)
    if found is None:
        return None, "a whole replica"
    return found, f"a partial replica ({', '.join(found.syncrepl.narrowing(database.suffix))})"


def _configuration(options: VerifyOptions) -> Config:
    if options.config_path is not None:
        return configuration.read(options.config_path)
    with session(options.consumer) as consumer:
        return configuration.read_online(consumer)


def catch_up(options: VerifyOptions, bases: tuple[str, str], progress: Progress) -> float:
    """Wait until the consumer has seen all that the provider has now; seconds it took. `bases`: of each of them."""
    base, own = bases
    with progress.step("catch-up") as meter, session(options.provider) as provider:
        while True:
            # Of a base below the suffix the suffix tells.
            wanted = csn.by_server(
                moved.context_csns(provider, base) or provider.context_csns(base)
            )
            if csn.covered(wanted, _seen(options.consumer, own)):
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
