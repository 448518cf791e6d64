"""Does the replica hold what its provider holds? Waits until both have the same contextCSN, then compares them."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Annotated

from loader.common_options import Limit, OptionalConfig
from loader.config import Config
from loader.declared import Duration
from loader.errors import ConfigHidden, NoSuchSuffix
from loader.operations.compare import IGNORED, CompareOptions, CompareReport
from loader.progress import Progress
from loader.server import configuration
from loader.server.options import Connection
from loader.server.session import session
from loader.sources.comparable import Server
from seeders.replica import local, partial, waiting
from seeders.replica.partial import Partial

_AHEAD = (
    "the replica has newer changes of server ID {} than the provider, as after the provider was restored from an older "
    "backup"
)


@dataclass(frozen=True)
class VerifyOptions:
    """`wait` in seconds: how long the replica may need to catch up from the moment it is asked; None: as long as that
    should take. `config_path`: the consumer's configuration, where it can be read here; else its cn=config is asked."""

    provider: Connection = field(default_factory=Connection)
    consumer: Connection = field(default_factory=Connection)
    config_path: OptionalConfig = None
    wait: Annotated[
        float | None,
        "--wait SECONDS",
        Duration(),
        "How long to wait for the replica to catch up (default: derived from what the provider has to send).",
    ] = None
    limit: Annotated[Limit, "Number of differing entries to name."] = 20


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
    connections = (options.provider, options.consumer)
    waited = waiting.catch_up(connections, bases, options.wait, progress)
    ignored = (*IGNORED, *left_out)
    sides = (provider_side, consumer_side)
    asked = CompareOptions(*sides, ignored, options.limit, show_attributes=True)
    report = local.compared(asked, progress)
    ahead = ", ".join(waiting.newer(connections, bases))
    if ahead:
        report = replace(report, notes=(*report.notes, _AHEAD.format(ahead)))
    return waited, report, how


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
