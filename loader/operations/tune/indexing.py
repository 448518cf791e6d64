"""Lists and changes the indexes of a database. Shows their cost, and which indexes searches use or lack. Reads the
searches from slapd's log or from files of filters."""

from __future__ import annotations

import dataclasses
import functools
import os
import shlex
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from loader import backmdb, indexes, units
from loader import config as glue
from loader.config import Config, Database
from loader.errors import NotProven, UsageProblem
from loader.indexes import Index, Indexes
from loader.mdb import contents
from loader.mdb.meta import DATA
from loader.operations import made_with
from loader.operations.options import IndexChange, SearchSources
from loader.operations.tune import Outcome, Plan, State, Target, carry_out, require_stopped
from loader.operations.verify import core_target_of
from loader.progress import Progress
from loader.server import configuration, private, tools
from loader.sources import selection
from loader.sources.selection import SearchGroup
from loader.storage import files, held
from loader.storage.files import Owner

WORKSHOP = ".ditseed-index"  # subdirectory of the database directory for data that does not fit into memory
# Note for an index that slapd was building when it ended: slapd does not record its progress.
_UNFINISHED = (
    "the index stays incomplete, and searches by it miss entries once slapd runs again: "
    "`ditseed verify --verify indexes` shows this; to rebuild the index, --remove it and --add it again"
)
_SYNC = frozenset(map(str.lower, indexes.SYNC))


class IndexSettings(Struct, frozen=True):
    """The indexes of a database. `keys`: index -> number of records; empty if the files are on another host."""

    suffix: str
    indexes: Indexes
    keys: dict[str, int]
    missing_for_sync: tuple[str, ...]
    notes: tuple[str, ...] = ()


def index_settings(target: Target, suffix: str | None) -> list[IndexSettings]:
    settings = []
    for database in target.databases(suffix):
        present = indexes.parse(database.indexes)
        missing = tuple(indexes.lacking_for_sync(present))
        keys = contents.indexes(database.directory) if target.local and database.directory else {}
        notes = tuple(_sync_notes(database, missing))
        settings.append(IndexSettings(database.suffix, present, keys, missing, notes))
    return settings


def _sync_notes(database: Database, missing: Sequence[str]) -> Iterator[str]:
    lacking = " and ".join(missing)
    if lacking and "syncprov" in database.overlays:
        yield f"syncprov searches by {lacking}: without it, slapd evaluates every entry whenever a consumer starts"
    elif lacking and database.consumer:
        yield f"syncrepl searches by {lacking}: without it, slapd evaluates every entry at every change"
    elif lacking:
        yield f"{lacking}: needed as soon as this database is replicated"


def change_indexes(
    target: Target,
    suffix: str | None,
    requested: IndexChange,
    apply: bool,
    reindex: bool = True,
    progress: Progress | None = None,
) -> Outcome:
    """Changes the list of indexes. With `reindex`, builds new indexes before the slapd.d names them."""
    config, database = target.config, target.config.database(suffix)
    present = indexes.parse(database.indexes)
    reindex = reindex and config.is_directory
    plan = _plan(target, database, requested, reindex)
    first = None
    if plan.index and reindex:
        if apply:
            require_stopped(
                config,
                f"an index on {', '.join(plan.index)} cannot be built while slapd runs",
                "Stop slapd, or change the file alone with --no-reindex and run slapindex before the restart.",
            )
        first = functools.partial(_make_indexes, config, plan, progress or Progress("none"))
    outcome = carry_out(target, plan, apply, first)
    notes = [
        f"{missing}: nothing to remove. Use the attribute's name and the kinds that are configured, such as "
        '"sub": `ditseed tune indexes` shows both'
        for missing in indexes.missing(dataclasses.replace(requested, remove=()).of(present), requested.remove)
    ]
    if outcome.state is State.UNCHANGED and target.session and (requested.wanted or requested.add):
        notes.append(f"if slapd ended while it built the index, {_UNFINISHED}")
    return replace(outcome, notes=(*outcome.notes, *notes))


def _plan(target: Target, database: Database, requested: IndexChange, reindex: bool) -> Plan:
    present = indexes.parse(database.indexes)
    after = requested.of(present)
    grown = tuple(indexes.attributes_to_reindex(present, after))
    stale = indexes.with_stale_keys(present, after, grown if reindex else ())
    lacked, lacking = indexes.lacking_for_sync(present), indexes.lacking_for_sync(after)
    notes = list(_sync_notes(database, [index for index in lacking if index not in lacked]))

    names = ", ".join(grown)
    if grown and target.session:
        notes.append(f"slapd builds the index on {names} in the background, and uses it once it is complete")
        notes.append(f"if slapd ends before that, {_UNFINISHED}")
    elif grown and not reindex:
        notes.append(f"before slapd starts again, as its user: {slapindex_command(target.config, database, grown)}")
        notes.append(f"without that, searches by {names} miss entries")
    if stale:
        notes.append(
            f"keys of the removed kinds stay in the file ({', '.join(stale)}): searches are right, and `ditseed verify "
            "--verify indexes` counts them; to remove them, with slapd stopped, as its user: "
            + slapindex_command(target.config, database, stale, "-t")
        )
    stored = target.config.values(database.entry_dn, "olcDbIndex")
    return Plan(
        database=database,
        changes=target.changes(database, {"olcDbIndex": indexes.rewritten_lines(stored, after)}),
        holds=lambda now: indexes.same(indexes.parse(now.indexes), after),
        undo=("indexes", *(word for line in map(str, present.values() or [""]) for word in ("--set", line))),
        index=grown,
        notes=tuple(notes),
    )


def slapindex_command(config: Config, database: Database, attributes: Iterable[str], *options: str) -> str:
    alone = ["-g"] if glue.subordinates(config, database) else []  # excludes the subordinate databases
    where = ["-F" if config.is_directory else "-f", str(config.path), "-b", database.suffix]
    return shlex.join(["slapindex", "-q", *options, *alone, *where, *attributes])


def _make_indexes(config: Config, plan: Plan, progress: Progress) -> Sequence[str]:
    """Builds new indexes before the configuration names them. slapd must be stopped. Returns notes. The core rebuilds
    the index tables in one transaction, with the old and the new kinds, so that slapd finds all entries with either
    configuration after a kill. Raises MapFull, NoSpace, MdbDamaged, ToolFailed."""
    directory = plan.database.directory
    if directory is None or not (directory / DATA).exists():
        return ()  # there are no entries to index yet
    lines = [line for change in plan.changes if change.attribute == "olcDbIndex" for line in change.after]
    both = indexes.added(indexes.parse(plan.database.indexes), map(str, indexes.parse(lines).values()))
    with_both = replace(plan.database, indexes=tuple(map(str, both.values())))
    try:
        spec = core_target_of(config, with_both, directory)
        with progress.step("index") as meter, held.opened(directory) as open_dir:
            try:
                with held.private(open_dir.path / WORKSHOP) as workshop:
                    made_with.rebuild_by_core(spec, directory, plan.index, workshop.path, meter)
            finally:
                with suppress(OSError):
                    os.rmdir(WORKSHOP, dir_fd=open_dir.descriptor)
    except NotProven as error:
        _run_slapindex(config, plan, directory, progress)
        return (made_with.slapindex_note(error),)
    return ()


def _run_slapindex(config: Config, plan: Plan, directory: Path, progress: Progress) -> None:
    """Runs slapindex as the owner of the database, with the changed configuration. slapindex only adds keys, so that
    the old indexes stay complete if it fails or is killed. Raises MapFull, ToolFailed, FileUnsafe."""
    with held.opened(directory) as open_dir, open_dir.pinned(DATA, written=True) as data:
        owner = Owner.of(data)
        # slapindex follows symbolic links, so it must not run as root if others can write to the directory.
        if owner.uid == 0 and open_dir.is_foreign:
            owner = Owner.from_status(open_dir.status)
    settings: dict[str, list[bytes]] = {"olcDbDirectory": [bytes(directory)]}
    for change in plan.changes:
        lines = made_with.index_lines_of(change.after, plan.index) if change.attribute == "olcDbIndex" else None
        settings[change.attribute] = lines or [value.encode() for value in change.after]
    with (
        files.temporary_directory("index", configuration.tools_tmpdir()) as scratch,
        private.configured(config, plan.database, Path(scratch), settings) as copy,
        progress.step("slapindex") as meter,
    ):
        tools.change_owner(owner, Path(scratch))
        command = tools.server_tool_as(owner, "slapindex", "-q", "-F", str(copy), "-b", plan.database.suffix)
        made_with.run_slapindex(command, directory, plan.database.maxsize, meter)


class IndexUse(Struct, frozen=True):
    attribute: str
    kind: str
    searches: int
    needed_for_sync: bool

    @property
    def is_unused(self) -> bool:
        return not self.searches and not self.needed_for_sync


class MissingIndex(Struct, frozen=True):
    """`searches`: how many searches lack the index. `seconds`: their total time. `filter`: of the slowest search."""

    index: str
    searches: int
    seconds: float
    filter: str


class Usage(Struct, frozen=True):
    """Numbers of searches in a database. `of_base`: searches for one entry by its DN. `searches`: all other searches.
    `unindexed`: those of `searches` that read every entry in their scope."""

    suffix: str
    searches: int
    of_base: int
    unindexed: int
    indexes: tuple[IndexUse, ...]
    missing: tuple[MissingIndex, ...]
    notes: tuple[str, ...]


def usage(target: Target, database: Database, sources: SearchSources, progress: Progress) -> Usage:
    """Returns which indexes the searches use and lack. Raises NotProven, NoSuchPath, NotPermitted, ConfigUnreadable."""
    for path in (*sources.logs, *sources.filters):
        files.require_readable(path)
    with progress.step("searches") as meter:
        parts = selection.read(target.config, database, sources.logs, sources.filters, meter)
    groups = [group for part in parts for group in part.groups]
    unindexed = [group for group in groups if not group.indexed]
    used = Counter[tuple[str, str]]()
    for group in groups:
        for attribute, kind in group.used:
            used[attribute.lower(), kind] += group.searches
    lacking: dict[tuple[str, str], list[SearchGroup]] = {}
    for group in unindexed:
        for index in group.lacking:
            lacking.setdefault(index, []).append(group)
    missing = [
        MissingIndex(
            " ".join(index),
            sum(group.searches for group in searches),
            sum(group.seconds for group in searches),
            max(searches, key=lambda group: (group.seconds, group.searches)).filter,
        )
        for index, searches in lacking.items()
    ]

    notes = []
    if sum(part.lines for part in parts) and not groups:
        notes.append("no search of this database was found: does slapd log with loglevel stats?")
    for count, words in (
        (sum(part.elsewhere for part in parts), "are of other databases"),
        (sum(part.unreadable for part in parts), "have filters that cannot be read"),
        (sum(part.others for part in parts), "are left out: too many different filters"),
    ):
        if count:
            notes.append(f"{units.number(count)} of the searches {words}")
    if short := [group.filter for group in unindexed if not group.lacking]:
        more = f" and {len(short) - 1} more" if len(short) > 1 else ""
        why = "a NOT, a substring too short for index_substr_if_minlen or index_substr_any_len, or objectClass=*"
        notes.append(f"no index serves {short[0]}{more}: {why}")
    return Usage(
        suffix=database.suffix,
        searches=sum(group.searches for group in groups),
        of_base=sum(part.of_base for part in parts),
        unindexed=sum(group.searches for group in unindexed),
        indexes=tuple(
            IndexUse(name, kind, used[name.lower(), kind], kind == "eq" and name.lower() in _SYNC)
            for name, kinds in backmdb.settings(target.config, database).indexes
            for kind in kinds
        ),
        missing=tuple(sorted(missing, key=lambda index: (-index.searches, index.index))),
        notes=tuple(notes),
    )


class IndexCost(Struct, frozen=True):
    """The index table of an attribute, shared by all kinds of its index. `indexes`: empty if only an earlier
    configuration had the index. `share`: `bytes` / bytes in use. `records`: number of entry IDs, plus three for each
    of the `ranges`. `unused`: arguments of --remove for kinds that no search uses; None without searches."""

    attribute: str
    indexes: tuple[str, ...]
    bytes: int
    share: float
    keys: int
    records: int
    ranges: int
    unused: tuple[str, ...] | None

    @property
    def is_unused(self) -> bool:
        names = {name.partition(" ")[0] for name in self.indexes}
        return bool(self.indexes) and set(self.unused or ()) == names


class Costs(Struct, frozen=True):
    """`used`: bytes in use. `idlexp`: slapd stores a key with more than 2^idlexp - 1 entry IDs as a range."""

    suffix: str
    used: int
    idlexp: int
    tables: tuple[IndexCost, ...]


def costs(target: Target, database: Database, use: Usage | None, progress: Progress) -> Costs:
    """Returns each table's cost: unused tables first, then by size. Raises UsageProblem if the files are remote."""
    if not target.local or database.directory is None:
        raise UsageProblem(reason="--costs reads the database's files: give the command on the server's host")
    with progress.step("indexes") as meter:
        index_costs = contents.index_costs(database.directory, meter)
    # cn;lang-de has the table of its attribute type, cn.
    configured: dict[str, list[Index]] = {}
    for index in indexes.configured(database.indexes).values():
        configured.setdefault(index.key.partition(";")[0], []).append(index)
    is_known = use is not None and use.searches > 0
    unused = {(index.attribute.lower(), index.kind) for index in (use.indexes if use else ()) if index.is_unused}
    tables = []
    for table in index_costs.tables:
        of_table = configured.get(table.name.lower(), ())
        removable = []
        for index in of_table if is_known else ():
            words = [word for word in index.kinds if backmdb.kind_of(index.attribute, word)]
            kinds = [word for word in words if (index.key, backmdb.kind_of(index.attribute, word)) in unused]
            if kinds:
                removable.append(index.attribute if kinds == words else f"{index.attribute} {','.join(kinds)}")
        tables.append(
            IndexCost(
                attribute=table.name,
                indexes=tuple(map(str, of_table)),
                bytes=table.pages * index_costs.page_size,
                share=table.pages / index_costs.pages,
                keys=table.keys,
                records=table.records,
                ranges=table.ranges,
                unused=tuple(removable) if is_known else None,
            )
        )
    return Costs(
        suffix=database.suffix,
        used=index_costs.pages * index_costs.page_size,
        idlexp=backmdb.idlexp(target.config),
        tables=tuple(sorted(tables, key=lambda table: (not table.is_unused, -table.bytes))),
    )
