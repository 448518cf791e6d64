"""Index drift: are the indexes, and what is stored, what this configuration makes? By a sample."""

from __future__ import annotations

from collections.abc import Iterator

from loader.config import Config
from loader.config import Database as Configured
from loader.errors import UsageProblem
from loader.mdb import meta
from loader.operations import made_with
from loader.operations.doctor.facts import Database, Drift, Facts
from loader.operations.storage.findings import Finding, Severity
from loader.operations.verify import given_to_core
from loader.progress import Meter

_SHOWN = 5
_SOURCE = "ditseed verify --verify indexes looks at every entry"


def look(config: Config, database: Configured) -> Drift:
    """Raises LoaderError: NotProven where the native core does not know what the configuration makes."""
    assert database.directory is not None
    settings = given_to_core(config, database, database.directory).settings
    if settings.multival and meta.read_meta(database.directory).used > made_with.ALL_UP_TO:
        raise UsageProblem(reason=f"multival takes a look at every entry: {_SOURCE}")
    found = made_with.look(database.directory, config, database, Meter("indexes"), whole=False)
    rebuild = tuple(name for name in found.rebuild if name not in found.left_out)
    return Drift(found.entries, rebuild, found.unknown, found.otherwise, found.left_out)


def findings(facts: Facts) -> Iterator[Finding]:
    for database in facts.databases:
        yield from (_shared_uuid(database, *twins) for twins in database.twins)
        if database.drift is not None:
            yield from _of(facts, database, database.drift)


def _of(facts: Facts, database: Database, drift: Drift) -> Iterator[Finding]:
    if drift.rebuild:
        yield _rebuild(facts, database, drift)
    if drift.unknown:
        yield Finding(
            Severity.WARNING,
            "schema",
            database.suffix,
            f"the configuration does not know {_listed(drift.unknown)}, which entries have",
            "slapd cannot decode such an entry, or shows it without them.",
            ("# load the schema that defines them into the configuration",),
            _SOURCE,
        )
    if drift.otherwise:
        yield Finding(
            Severity.WARNING,
            "made_otherwise",
            database.suffix,
            f"made with another configuration: {_listed(drift.otherwise)}",
            "slapd trusts that the file was made with the configuration that it has, and searches may miss entries. "
            "Index tables can be made again, this cannot: it takes LDIF.",
            (
                f"ditseed export {database.directory} -o /srv/export",
                f"ditseed build /srv/export --config {facts.config} -b {database.suffix} --replace",
            ),
            _SOURCE,
        )
    if not (drift.rebuild or drift.unknown or drift.otherwise):
        told = f"its indexes hold what a sample of {drift.entries} entries says"
        if drift.left_out:
            told += f"; not looked at: {_listed(drift.left_out)}"
        yield Finding(Severity.OK, "indexes", database.suffix, told)


def _shared_uuid(database: Database, uuid: str, first: str, other: str) -> Finding:
    return Finding(
        Severity.WARNING,
        "shared_uuid",
        database.suffix,
        f"{first} and {other} share the entryUUID {uuid}",
        "Replication cannot tell them apart: deleting one of them removes either from a replica. slapadd loads such "
        "entries from LDIF.",
        ("# delete one of them and add it again: slapd gives it an entryUUID of its own",),
        "RFC 4530",
    )


def _rebuild(facts: Facts, database: Database, drift: Drift) -> Finding:
    # Of several attributes slapindex may leave some out.
    named = drift.rebuild if len(drift.rebuild) == 1 else ()
    return Finding(
        Severity.WARNING,
        "indexes",
        database.suffix,
        f"the index of {_listed(drift.rebuild)} lacks or has too many entries",
        "A search by these attributes misses entries, without any error. The configuration was changed while slapd was "
        "stopped, or the load that made the file had another one.",
        facts.slap("slapindex", database, "-q", "-t", *named),
        _SOURCE,
    )


def _listed(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more
