"""The first step of every seeding, before any entry is read: can the consumer be filled in this way; does the provider
hold this suffix, and show all of it; what will it send to the consumer afterwards?"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from pathlib import Path

from loader import backmdb, csn, exports, syncrepl
from loader.errors import UsageProblem
from loader.operations import live
from loader.run.log import Facts
from loader.server.options import Connection
from loader.server.session import session
from loader.sources.location import is_stream
from loader.storage import files
from seeders.replica import catchup, preparing
from seeders.replica.strategies import Consumer, Strategy

_HEAD = 1 << 18  # bytes; contextCSN stands in the entry of the suffix, which comes first
_LINE = re.compile(rb"^contextCSN: ([0-9A-Za-z.#]+)\s*$", re.MULTILINE | re.IGNORECASE)


def context_csns_of_ldif(given: Sequence[Path]) -> list[str] | None:
    """Of an export, or of plain LDIF that begins with the suffix entry; None if only reading it all would tell."""
    found = _of_manifests(given)
    if found is None:
        first = next(iter(exports.files_of(given)), None)
        found = _of_head(first) if first is not None and first.is_file() else []
    return sorted(csn.by_server(found).values()) or None


def _of_manifests(given: Iterable[Path]) -> list[str] | None:
    made = [exports.read(one) for one in given if one.is_dir()]
    if not made or None in made:
        return None
    return [text for one in made if one for text in one.context_csns]


def _of_head(path: Path) -> list[str]:
    with path.open("rb") as file:
        return [found[1].decode() for found in _LINE.finditer(file.read(_HEAD))]


def preflight(strategy: Strategy, dry_run: bool = False) -> Facts:
    """With --prepare-provider the provider is prepared, unless this is a dry run, once all other checks have passed."""
    options, consumer = strategy.options, strategy.consumer()
    _require_suffix_entry(consumer)
    _require_source(strategy)
    suffix, provider = consumer.database.suffix, options.connection
    if provider is None:
        catchup.without_provider()
        return {"suffix": suffix}
    base, log_base = _base(consumer, provider), _log_base(consumer, provider)
    csns = _context_csns(strategy, consumer, base)
    found: Facts = {"suffix": suffix, "provider": provider.uri}
    if options.admin and not dry_run:
        found["prepared"] = preparing.prepare(options.admin, base, log_base)
        csns = _context_csns(strategy, consumer, base)
    claimed = context_csns_of_ldif(options.source) if strategy.reads_ldif and options.source else csns
    part = consumer.partial is not None
    foreseen = catchup.forecast(provider, base, claimed, consumer.config, log_base, part)
    return {**found, "context_csns": csns, **foreseen}


def _require_suffix_entry(consumer: Consumer) -> None:
    """What a seeding claims stands in the entry of the suffix. slapd would not find it, and fetch every entry again."""
    if backmdb.has_subentry(consumer.config, consumer.database):
        reason = (
            f"{consumer.config.where}: with sync_use_subentry the consumer does not look for contextCSN in the suffix "
            "entry, and would fetch every entry again; remove sync_use_subentry (olcSyncUseSubentry) from the "
            f"database of {consumer.database.suffix} first"
        )
        raise UsageProblem(reason=reason)


def _base(consumer: Consumer, provider: Connection) -> str:
    """The consumer may have a part of the provider's tree as its own suffix."""
    if consumer.partial:
        return consumer.partial.syncrepl.searchbase
    return provider.base or consumer.database.suffix


def _log_base(consumer: Consumer, provider: Connection) -> str | None:
    """The accesslog from which the consumer's syncrepl takes changes."""
    found = syncrepl.of_database(consumer.config, consumer.database, provider.uri)
    return found.log_base if found else None


def _require_source(strategy: Strategy) -> None:
    for one in strategy.options.source:
        if not is_stream(one):
            files.require_readable(one)
        if strategy.reads_ldif and not strategy.options.allow_hidden:
            live.require_whole(one)


def _context_csns(strategy: Strategy, consumer: Consumer, base: str) -> list[str]:
    """What every provider covers. Each must have the base and, if it is read by searches, show everything below."""
    options, told = strategy.options, []
    wants = consumer.partial.narrowing().wants if consumer.partial else None
    for connection in (options.connection, *options.replicas):
        assert connection is not None
        with session(connection) as provider:
            provider.read(base, ["1.1"])
            told.append(strategy.context_csns(provider, base))
            # What is hidden is asked first: the look at sizes may read entries, which the same account may not.
            if not options.source and not options.allow_hidden:
                own = consumer.database.overlays
                live.require_all_visible(provider, base, wants, own=own)
            strategy.require_fitting(provider, base, consumer)
    return live.lowest(told)
