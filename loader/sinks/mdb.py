"""Writes a data file with the native core, which encodes, sorts and lays out entries as slapadd does."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property, partial
from pathlib import Path
from typing import Literal, TypeAlias

from msgspec import Struct

from loader import _native, units
from loader import backmdb as schemas
from loader._native import Built, Database, Feed, Schema, SplitResult, Transferred
from loader.backmdb import Definition, Effects, Settings
from loader.config import Config
from loader.config import Database as ConfiguredDatabase
from loader.defaults import Resources
from loader.errors import (
    FULL,
    EmptyInput,
    EntryRefused,
    LdifSyntax,
    LoaderError,
    MapFull,
    MdbDamaged,
    MissingParents,
    NoSpace,
    NotProven,
    TooManyEntries,
    modules,
)
from loader.ldif import with_counters
from loader.mdb import meta
from loader.mdb.snapshot import Snapshot
from loader.progress import Meter
from loader.server import configuration

__all__ = ["Built", "Database", "Feed", "Resources", "Schema", "SplitResult", "Transferred"]

_VALUE_CHECK = "(value check)"  # end of the core's message about a value that violates its syntax
_UNDEFINED_NAME = re.compile(r'"([^"]+)" is not in the schema')
_SKIP_CHECK_ADVICE = ", or give --no-value-check: such values are then stored, as slapadd stores them"

Table = Literal["id2v", "ixck"]  # tables that not every release of slapd has
ValueCheck = Literal["refuse", "count", "skip"]  # treatment of values that violate their syntax
Input: TypeAlias = Path | int | Feed  # an int is the descriptor of a stream
Orphan = tuple[str, str, str]  # the missing parent's DN, the orphan's DN, the orphan's entryUUID


class Target(Struct, frozen=True, dict=True):
    """The configuration of the database to write, which can be pickled. `definitions`, `effects`: arguments of
    `schema`. `tables`: the optional tables that the installed slapd has."""

    settings: Settings
    definitions: tuple[Definition, ...]
    effects: Effects
    tables: tuple[Table, ...]
    map_size: int  # bytes
    server_id: int  # in generated entryCSNs

    @cached_property
    def schema(self) -> Schema:
        """Compiles the schema. Raises NotProven if the core cannot read a definition."""
        return schema(self.definitions, self.settings.attribute_options, **self.effects)


class BuildRules(Struct, frozen=True):
    """The checks of a build, and its treatment of entries that fail them. `claimed`: as in `ldif.join`.

    `now`: time for generated attributes, in createTimestamp's format. `rejects_path`: file that is created if an entry
    is rejected. `first`: counter of the first generated entryCSN. `account`: compute `Built.completed`, the checksum of
    the attributes that the build adds or omits. `as_slapadd`: refuse `version:` and `changetype:`."""

    now: str
    rejects_path: Path
    first: int = 0
    value_check: ValueCheck = "refuse"
    file_urls: bool = False
    max_rejects: int = 0
    write_context: bool = False
    check_schema: bool = True
    complete_naming: bool = True
    account: bool = False
    as_slapadd: bool = False
    claimed: Sequence[str] | None = None


class LiveSource(Struct, frozen=True):
    """Callbacks for a server that changes during the build. `head`: the first input; other inputs repeat its entries.

    `read_again` returns LDIF files with entries that were read again. After all inputs, a thread of the core calls it
    without orphans, then with the orphans, until none are left or it returns no files: then they are omitted.
    `renamed` is called before IDs are assigned, with entryUUIDs that have several DNs; if it raises, the build ends."""

    head: Path | None
    read_again: Callable[[Sequence[Orphan]], Sequence[Path]]
    renamed: Callable[[Sequence[str]], None]


def schema(
    definitions: Sequence[Definition], options: Sequence[str], dynamic_objects: bool, password_policy: bool = False
) -> Schema:
    """Compiles a schema, with flags as in `loader.backmdb.Effects`. Raises NotProven for a bad definition."""
    try:
        return Schema(definitions, options, dynamic_objects=dynamic_objects, password_policy=password_policy)
    except _native.NativeError as error:
        raise NotProven(reason=f"schema: {error}") from error


def schema_of(config: Config, database: ConfiguredDatabase, attribute_options: Sequence[str] = ()) -> Schema:
    """Returns the schema of a database. Raises ConfigUnreadable; NotProven if the core cannot read a definition."""
    return schema(definitions_of(config), attribute_options, **schemas.schema_effects(config, database))


def definitions_of(config: Config) -> list[Definition]:
    """Returns the schema definitions of the configuration, and those compiled into slapd. Raises ConfigUnreadable."""
    return schemas.definitions(config, configuration.read_compiled_schema(config))


def build(
    target: Target,
    inputs: Sequence[Input],
    out: Path,
    rules: BuildRules,
    limits: Resources,
    meter: Meter,
    live: LiveSource | None = None,
) -> Built:
    """Writes a data file (mode 0600) from all records of `inputs`, and syncs it."""
    translate = partial(_build_error, target=target, inputs=inputs, out=out, rejects=rules.rejects_path)
    with with_counters(meter, translate=translate) as counters, meter.following(counters):
        return _native.build(inputs, out, Database(target), rules, limits, live, counters)


def transfer(target: Target, source: Snapshot, out: Path, limits: Resources, meter: Meter) -> Transferred:
    """Writes a data file (mode 0600) with the unchanged records of an open snapshot, and syncs it. Raises NotProven,
    with the details, if the target's slapd would store a record differently; MapFull, NoSpace."""
    translate = partial(_build_error, target=target, inputs=[source.path], out=out)
    with with_counters(meter, str(source.path), translate) as counters, meter.following(counters):
        return _native.transfer(source.path, source.txn, out, Database(target), limits, counters)


def records_checksum(path: Path, jobs: int, meter: Meter) -> str:
    """Returns a checksum of the records that `transfer` copies from a data file. Raises MdbDamaged."""
    translate = partial(failure, path=path.parent)
    with with_counters(meter, str(path), translate) as counters, meter.following(counters):
        return _native.records_checksum(path, counters, jobs=jobs)


def split(
    inputs: Sequence[Path | int],
    known: Schema,
    shares: Sequence[tuple[Sequence[str], Path]],
    claimed: tuple[str, Sequence[str]] | None,
    meter: Meter,
    *,
    file_urls: bool = False,
) -> list[SplitResult]:
    """Divides LDIF among databases. `shares`: the suffixes of each database, and the file for its entries. The first
    database also gets the entries that belong to no database.

    `file_urls`: read the files in `include:` lines. `claimed`: a DN and a contextCSN; the entry with this DN gets the
    contextCSN, and newer entryCSNs are lowered to it."""
    with with_counters(meter) as counters:
        return _native.split(inputs, known, shares, counters, file_urls=file_urls, claim=claimed)


def verify(target: Target, path: Path, full: bool, limits: Resources, meter: Meter, new: bool = True) -> int:
    """Verifies a data file that no process writes, and returns its entry count. `full`: check all entries instead of a
    sample. `new`: the core has just written the file. Raises MdbDamaged with a description of the damage."""

    def translate(error: _native.NativeError) -> LoaderError | None:
        if error.errno is not None and error.code != "build.damaged":
            return meta.system_error(error.errno, Path(error.path or path))
        return failure(error, path)

    with with_counters(meter, translate=translate) as counters, meter.following(counters):
        return _native.verify(path, Database(target), limits, counters, full=full, new=new)


# --- errors ----------------------------------------------------------------------------------------------------------


def failure(error: _native.NativeError, path: Path, map_size: int = 0) -> LoaderError | None:
    """Returns the LoaderError for a code that means the same in all calls that read or write a database, otherwise
    None. `path`: the data file or its directory."""
    match error.code:
        case "build.unproven" | "schema.definition":
            return NotProven(reason=error)
        case "build.map_full":
            return MapFull(path=path, map_size=units.size(map_size))
        case "build.damaged" | "lmdb.damaged":
            return MdbDamaged(path=path, reason=error.message)
        case "ldif.no_space" | "lmdb.no_space":
            return NoSpace(path=error.path or path, lack=FULL)
    return None


def _build_error(
    error: _native.NativeError, target: Target, inputs: Sequence[Input], out: Path, rejects: Path | None = None
) -> LoaderError | None:
    sources = ", ".join(str(source) if isinstance(source, Path) else "-" for source in inputs)
    match error.code:
        case "build.missing_parents":
            return MissingParents(count="some", first=f"{error.dn}, {error.message}")
        case "build.empty":
            return EmptyInput(path=sources)
        case "build.too_many":
            return TooManyEntries(path=sources, reason=error)
        case "build.damaged":
            return MdbDamaged(path=out, reason=error.message)
        case "build.rejected" if not error.dn:  # the record has no readable DN
            return LdifSyntax(path=error.path or "-", line=error.line, reason=error.message)
        case "build.rejected":
            way_out = _SKIP_CHECK_ADVICE if error.message.endswith(_VALUE_CHECK) else ""
            if undefined := _UNDEFINED_NAME.search(error.message):
                way_out = ", or load the schema that defines it"
                way_out += "".join(f" (it comes with {module})" for _, module in modules([undefined[1]]))
            where = f"{error.path or 'standard input'}, line {error.line}; also in {rejects}"
            return EntryRefused(dn=error.dn, reason=error.message, where=where, way_out=way_out)
    return failure(error, out.parent, target.map_size)
