"""Sink: a data file written by the native core, which encodes, sorts and lays out what slapadd would have put there.

The door to the part of loader._native that knows databases, as loader/ldif.py is to the part that knows LDIF.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from loader import _native, units
from loader._native import Built, Database, Feed, Schema, SplitResult, Transferred
from loader.backmdb import Settings
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
from loader.schema import Definition, Effects

__all__ = ["Built", "Database", "Feed", "Schema", "SplitResult", "Transferred"]

_VALUE_CHECK = "(value check)"  # so ends what the core says of a value that its syntax forbids
_UNKNOWN = re.compile(r'"([^"]+)" is not in the schema')
_UNCHECKED = ", or give --no-value-check: such values are then stored, as slapadd stores them"

Table = Literal["id2v", "ixck"]  # those that not every slapd has
ValueCheck = Literal["refuse", "count", "skip"]  # what is done with values that their syntax forbids
Input = Path | int | Feed  # an int is the descriptor of a stream
Orphan = tuple[str, str, str]  # the parent that is nowhere, the entry below it, its entryUUID


@dataclass(frozen=True)
class Target:
    """The database to be made: what slapd is told about it, and which of its tables the slapd at hand has."""

    settings: Settings
    schema: Schema
    tables: tuple[Table, ...]
    map_size: int  # bytes
    server_id: int  # of entryCSNs that are made


@dataclass(frozen=True)
class TargetSpec:
    """What a Target is made of, in a form that goes to another process. The schema as `schema()` is given it."""

    settings: Settings
    definitions: tuple[Definition, ...]
    effects: Effects
    tables: tuple[Table, ...]
    map_size: int
    server_id: int

    def target(self) -> Target:
        """Raises NotProven."""
        known = schema(self.definitions, self.settings.attribute_options, **self.effects)
        return Target(self.settings, known, self.tables, self.map_size, self.server_id)


@dataclass(frozen=True)
class BuildRules:
    """What is looked at, and what is done with an entry that fails. `claimed` as in `loader.ldif.join`.

    `now`: the time that made attributes bear, as in createTimestamp. `first`: the number of the first entryCSN that is
    made. `account`: what is added to entries, or left out of them, is added up in `Built.completed`.
    """

    now: str
    first: int = 0
    value_check: ValueCheck = "refuse"
    file_urls: bool = False
    max_rejects: int = 0
    write_context: bool = False
    check_schema: bool = True
    complete_naming: bool = True
    account: bool = False
    claimed: Sequence[str] | None = None


@dataclass(frozen=True)
class LiveSource:
    """The entries come from a server that goes on to change. `head` is the first input, and its entries come again.

    `read_again` is called on a thread of the core when all is read, without orphans, and then for those that there are;
    it names LDIF files of what was read since. Where it names none, orphans are left out. `renamed` is called before
    anything is numbered, with the entryUUIDs that were met under more than one DN; what it raises ends the build.
    """

    head: Path | None
    read_again: Callable[[Sequence[Orphan]], Sequence[Path]]
    renamed: Callable[[Sequence[str]], None]


@dataclass(frozen=True)
class Resources:
    """What the work may take. `rejects` is made only when there is one."""

    memory: int  # bytes
    jobs: int
    scratch: Path
    rejects: Path


def schema(
    definitions: Sequence[Definition], options: Sequence[str], dynamic_objects: bool, password_policy: bool = False
) -> Schema:
    """The last two are `loader.schema.Effects`. Raises NotProven, naming what cannot be read."""
    try:
        return _native.schema(definitions, options, dynamic_objects=dynamic_objects, password_policy=password_policy)
    except _native.NativeError as error:
        raise NotProven(reason=f"schema: {error}") from error


def build(
    target: Target,
    inputs: Sequence[Input],
    out: Path,
    rules: BuildRules,
    means: Resources,
    meter: Meter,
    beside: LiveSource | None = None,
) -> Built:
    """Make the file `out`, mode 0600, from all records of `inputs`; synced when this returns."""
    asked = beside and (lambda orphans: [str(path) for path in beside.read_again(orphans)])
    head = str(beside.head) if beside and beside.head else None
    with with_counters(meter) as counters, meter.following(counters):
        try:
            return _native.build(
                [str(one) if isinstance(one, Path) else one for one in inputs],
                str(out),
                database(target),
                counters,
                now=rules.now,
                value_check=rules.value_check,
                check_schema=rules.check_schema,
                complete_naming=rules.complete_naming,
                account=rules.account,
                first=rules.first,
                file_urls=rules.file_urls,
                max_rejects=rules.max_rejects,
                write_context=rules.write_context,
                claimed=rules.claimed,
                memory=means.memory,
                jobs=means.jobs,
                scratch=str(means.scratch),
                rejects_path=str(means.rejects),
                head=head,
                read_again=asked or None,
                renamed=beside.renamed if beside else None,
            )
        except _native.NativeError as error:
            ours = _ours(error, target, inputs, out, means)
            if ours is None:
                raise  # of reading LDIF: counting() knows it
            raise ours from error


def transfer(target: Target, source: Snapshot, out: Path, means: Resources, meter: Meter) -> Transferred:
    """Make the file `out`, mode 0600, from the records of a held snapshot as they are; synced when this returns.

    Raises NotProven, saying what is stored there otherwise than the target's slapd would store it; MapFull, NoSpace.
    """
    with with_counters(meter, str(source.path)) as counters, meter.following(counters):
        try:
            return _native.transfer(
                str(source.path),
                str(out),
                database(target),
                counters,
                txn=source.txn,
                memory=means.memory,
                jobs=means.jobs,
                scratch=str(means.scratch),
            )
        except _native.NativeError as error:
            ours = _ours(error, target, [source.path], out, means)
            if ours is None:
                raise
            raise ours from error


def records_checksum(path: Path, jobs: int, meter: Meter) -> str:
    """Of all records of a data file that `transfer` copies. Raises MdbDamaged."""
    with with_counters(meter, str(path)) as counters, meter.following(counters):
        try:
            return _native.records_checksum(str(path), counters, jobs=jobs)
        except _native.NativeError as error:
            if error.code == "build.damaged":
                raise MdbDamaged(path=path.parent, reason=error.message) from error
            raise


@dataclass(frozen=True)
class SplitTarget:
    """What one database gets of an LDIF that is divided."""

    suffixes: Sequence[str]
    path: Path


def split(
    inputs: Sequence[Input],
    known: Schema,
    shares: Sequence[SplitTarget],
    claimed: tuple[str, Sequence[str]] | None,
    meter: Meter,
    *,
    file_urls: bool = False,
) -> list[SplitResult]:
    """Divide LDIF among databases; the first one gets what belongs to none besides.

    `file_urls`: files that `include:` lines name are read.
    `claimed`: the entry that will have a contextCSN, and that: nothing in the other databases is newer then.
    """
    root, csns = claimed or (None, None)
    with with_counters(meter) as counters:
        return _native.split(
            [one if isinstance(one, int) else str(one) for one in inputs],
            known,
            [(share.suffixes, str(share.path)) for share in shares],
            counters,
            file_urls=file_urls,
            root=root,
            claimed=csns,
        )


def verify(target: Target, path: Path, full: bool, means: Resources, meter: Meter, new: bool = True) -> int:
    """The entries of a data file that nobody writes to, after a look at a sample of them or at all. `new`: it is as the
    core wrote it.

    Raises MdbDamaged, saying what is wrong.
    """
    with with_counters(meter) as counters, meter.following(counters):
        try:
            return _native.verify(
                str(path),
                database(target),
                counters,
                full=full,
                new=new,
                memory=means.memory,
                jobs=means.jobs,
                scratch=str(means.scratch),
            )
        except _native.NativeError as error:
            if error.code == "build.damaged":
                raise MdbDamaged(path=path, reason=error.message) from error
            if error.errno is None:
                raise  # counting() knows it
            raise meta.system_error(error.errno, Path(error.path or path)) from error


def database(target: Target) -> Database:
    settings = target.settings
    return _native.Database(
        target.schema,
        suffixes=settings.suffixes,
        foreign=settings.foreign,
        root_dn=settings.root_dn,
        indexes=settings.indexes,
        hash64=settings.hash64,
        intlen=settings.intlen,
        substr=settings.substr,
        multival=settings.multival,
        sortvals=settings.sortvals,
        idlexp=settings.idlexp,
        max_entry_size=settings.max_entry_size,
        map_size=target.map_size,
        tables=target.tables,
        last_mod=settings.last_mod,
        translucent=settings.translucent,
        of_2_7=settings.of_2_7,
        page_size=settings.page_size,
        server_id=target.server_id,
    )


def _ours(
    error: _native.NativeError, target: Target, inputs: Sequence[Input], out: Path, means: Resources
) -> LoaderError | None:
    where = ", ".join(str(one) if isinstance(one, Path) else "-" for one in inputs)
    if error.code == "build.rejected":
        return _refused(error, means.rejects)
    if error.code == "build.missing_parents":
        return MissingParents(count="some", first=f"{error.dn}, {error.message}")
    if error.code in ("build.unproven", "schema.definition"):
        return NotProven(reason=error)
    if error.code == "build.map_full":
        return MapFull(path=out.parent, map_size=units.size(target.map_size))
    if error.code == "build.empty":
        return EmptyInput(path=where)
    if error.code == "build.too_many":
        return TooManyEntries(path=where, reason=error)
    if error.code == "build.damaged":
        return MdbDamaged(path=out, reason=error.message)
    if error.code == "ldif.no_space":
        return NoSpace(path=error.path or out.parent, lack=FULL)
    return None


def _refused(error: _native.NativeError, rejects: Path) -> LoaderError:
    if not error.dn:  # nothing could be read of it
        return LdifSyntax(path=error.path or "-", line=error.line, reason=error.message)
    place = f"{error.path or 'standard input'}, line {error.line}"
    way_out = _UNCHECKED if error.message.endswith(_VALUE_CHECK) else ""
    if unknown := _UNKNOWN.search(error.message):
        way_out = ", or load the schema that defines it"
        way_out += "".join(f" (it comes with {how})" for _, how in modules([unknown[1]]))
    where = f"{place}; also in {rejects}"
    return EntryRefused(dn=error.dn, reason=error.message, where=where, way_out=way_out)
