"""Indexes of a database: what is configured, what replication needs, and changing them with the index made first."""

from __future__ import annotations

import functools
import os
import shlex
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated

from loader import config as glue
from loader import indexes
from loader.config import Config, Database
from loader.errors import NotProven, ServerRunning
from loader.indexes import Indexes
from loader.mdb import contents
from loader.mdb.meta import DATA
from loader.operations import made_with
from loader.operations.tune.target import Outcome, Plan, State, Target, carry_out, changed, databases_of, slapd_on
from loader.operations.verify import given_to_core
from loader.progress import Progress
from loader.server import configuration, private, tools
from loader.storage import held, temporary
from loader.storage.files import Owner

WORKSHOP = ".ditseed-index"  # in the database directory, for what does not fit into memory
# slapd does not write down how far it has come.
_UNFINISHED = (
    "the index stays incomplete, and searches by it miss entries once slapd runs again: "
    "`ditseed verify --verify indexes` tells; to have it made anew, --remove it and --add it again"
)


@dataclass(frozen=True)
class IndexSettings:
    """`keys`: records of each index's table in the database, where its files are on this host."""

    suffix: str
    indexes: Indexes
    keys: dict[str, int]
    missing_for_sync: tuple[str, ...]
    notes: tuple[str, ...] = ()


@dataclass(frozen=True)
class IndexChange:
    """`wanted` replaces the list unless it is empty; then `add`, then `remove`."""

    wanted: Annotated[
        tuple[str, ...], "--set INDEX", 'Replace the whole list: --set "uid eq" --set "cn,sn eq,sub".'
    ] = ()
    add: Annotated[tuple[str, ...], "--add INDEX", 'Add to the list: --add "mail eq".'] = ()
    remove: Annotated[
        tuple[str, ...], "--remove ATTRIBUTE", 'Remove from the list: --remove mail, or one type: --remove "cn sub".'
    ] = ()

    def of(self, present: Indexes) -> Indexes:
        start = indexes.parse(self.wanted, present) if self.wanted else present
        return indexes.removed(indexes.added(start, self.add), self.remove)


def index_settings(target: Target, suffix: str | None) -> list[IndexSettings]:
    """Of every mdb database, or the one of `suffix`."""
    return [_index_settings(database, target.local) for database in databases_of(target.config, suffix)]


def _index_settings(database: Database, local: bool) -> IndexSettings:
    present = indexes.parse(database.indexes)
    missing = indexes.lacking_for_sync(present)
    return IndexSettings(
        database.suffix,
        present,
        contents.indexes(database.directory) if local and database.directory else {},
        tuple(missing),
        tuple(_notes(database, missing)),
    )


def _notes(database: Database, missing: list[str]) -> Iterable[str]:
    if not missing:
        return
    lacking = " and ".join(missing)
    if "syncprov" in database.overlays:
        yield f"syncprov searches by {lacking}: without it every consumer's start is a search of everything"
    elif database.consumer:
        yield f"syncrepl searches by {lacking}: without it every change is a search of everything"
    else:
        yield f"{lacking}: needed as soon as this database is replicated"


def change_indexes(
    target: Target,
    suffix: str | None,
    wish: IndexChange,
    apply: bool,
    reindex: bool = True,
    progress: Progress | None = None,
) -> Outcome:
    """Change the list. In a slapd.d the new indexes are made before slapd can see them (`reindex`)."""
    database = target.config.database(suffix)
    reindex = reindex and target.config.is_directory
    plan = _plan(target, database, wish, reindex)
    first = None
    if plan.index and reindex:
        if apply:
            _require_stopped(target.config, plan)
        first = functools.partial(_make_indexes, target.config, plan, progress or Progress("none"))
    outcome = carry_out(target, plan, apply, first)
    notes = [*outcome.notes, *_not_there(database, wish)]
    if outcome.state is State.UNCHANGED and target.online and (wish.wanted or wish.add):
        notes.append(f"if slapd ended while it made it, {_UNFINISHED}")
    return replace(outcome, notes=tuple(notes))


def _not_there(database: Database, wish: IndexChange) -> Iterator[str]:
    present = replace(wish, remove=()).of(indexes.parse(database.indexes))
    for missing in indexes.not_there(present, wish.remove):
        yield (
            f"{missing}: nothing to remove. An index has one name of its attribute, and kinds as they are configured, "
            'such as "sub": `ditseed tune indexes` shows both'
        )


def _plan(target: Target, database: Database, wish: IndexChange, reindex: bool) -> Plan:
    present = indexes.parse(database.indexes)
    wanted = wish.of(present)
    stored = target.config.values(database.entry_dn, "olcDbIndex")
    grown = tuple(indexes.attributes_to_reindex(present, wanted))
    made_anew = grown if reindex else ()
    lacked = indexes.lacking_for_sync(present)
    dropped = [one for one in indexes.lacking_for_sync(wanted) if one not in lacked]
    return Plan(
        database=database,
        changes=changed(target.config, database, {"olcDbIndex": indexes.rewritten_lines(stored, wanted)}),
        holds=lambda now: indexes.same(indexes.parse(now.indexes), wanted),
        words=_setting(wanted),
        undo=_setting(present),
        index=grown,
        notes=(
            *_notes(database, dropped),
            *_advice(target, database, grown, reindex),
            *_left_behind(target, database, indexes.left_behind(present, wanted, made_anew)),
        ),
    )


def _setting(wanted: Indexes) -> tuple[str, ...]:
    lines = [str(one) for one in wanted.values()] or [""]
    return ("indexes", *(word for line in lines for word in ("--set", line)))


def _advice(target: Target, database: Database, grown: tuple[str, ...], reindex: bool) -> Iterable[str]:
    if not grown:
        return
    if target.online:
        names = ", ".join(grown)
        yield f"slapd makes the index on {names} in the background, and uses it once it is whole"
        yield f"if slapd ends before that, {_UNFINISHED}"
    elif not reindex:
        command = shlex.join(_arguments(target.config, database, grown))
        yield f"before slapd starts again, as its user: {command}"
        yield f"without that, searches by {', '.join(grown)} miss entries"


def _left_behind(target: Target, database: Database, names: list[str]) -> Iterable[str]:
    if names:
        command = shlex.join(_arguments(target.config, database, names, "-t"))
        yield (
            f"keys of the removed kinds stay in the file ({', '.join(names)}): searches are right, and `ditseed verify "
            f"--verify indexes` counts them; to drop them, with slapd stopped, as its user: {command}"
        )


def _arguments(config: Config, database: Database, attributes: Iterable[str], *options: str) -> list[str]:
    form = "-F" if config.is_directory else "-f"
    alone = ["-g"] if glue.subordinates(config, database) else []
    return ["slapindex", "-q", *options, *alone, form, str(config.path), "-b", database.suffix, *attributes]


def _require_stopped(config: Config, plan: Plan) -> None:
    pid = slapd_on(config)
    if pid is not None:
        raise ServerRunning(
            pid=pid or "in another container",
            path=config.path,
            reason=f"the index on {', '.join(plan.index)} cannot be made while it runs",
            advice="Stop slapd, or change the file alone with --no-reindex and run slapindex before the restart.",
        )


def _make_indexes(config: Config, plan: Plan, progress: Progress) -> Sequence[str]:
    """Makes new indexes in a database that no slapd has open, before its configuration names them; notes on how.

    The core makes their tables again in one transaction, with the kinds that were configured before and those that
    will be: whichever configuration is there after a kill, slapd finds the entries. Raises MapFull, NoSpace,
    MdbDamaged, ToolFailed.
    """
    directory = plan.database.directory
    if directory is None or not (directory / DATA).exists():
        return ()  # slapd makes the indexes of an empty database as it fills
    try:
        _by_core(config, plan, directory, progress)
        return ()
    except NotProven as error:
        _by_slapindex(config, plan, directory, progress)
        return (made_with.by_slapindex_because(error),)


def _by_core(config: Config, plan: Plan, directory: Path, progress: Progress) -> None:
    given = given_to_core(config, _with_both(plan), directory)
    with progress.step("index") as meter, _workshop(directory) as scratch:
        made_with.by_core(given, directory, plan.index, scratch, meter)


def _with_both(plan: Plan) -> Database:
    """The database with its indexes, and with those that it will have."""
    lines = [line for one in plan.changes if one.attribute == "olcDbIndex" for line in one.after]
    present = indexes.parse(plan.database.indexes)
    both = indexes.added(present, map(str, indexes.parse(lines).values()))
    return replace(plan.database, indexes=tuple(map(str, both.values())))


@contextmanager
def _workshop(directory: Path) -> Iterator[Path]:
    """A private directory beside the database, on whose file system there is the room."""
    with held.opened(directory) as place:
        try:
            with held.private(place.path / WORKSHOP) as home:
                yield home.path
        finally:
            with suppress(OSError):
                os.rmdir(WORKSHOP, dir_fd=place.descriptor)


def _by_slapindex(config: Config, plan: Plan, directory: Path, progress: Progress) -> None:
    """slapindex runs as the owner of the database, with the changed configuration. If it is killed or fails, kinds that
    were there before have only been added to. Raises MapFull, ToolFailed."""
    owner = _owner(directory)
    changed = {one.attribute: [value.encode() for value in one.after] for one in plan.changes}
    lines = [value.decode() for value in changed.get("olcDbIndex", [])]
    if chosen := made_with.only(lines, plan.index):
        changed["olcDbIndex"] = chosen
    settings = {"olcDbDirectory": [bytes(directory)], **changed}
    with (
        temporary.directory("index", configuration.tools_tmpdir()) as place,
        private.configured(config, plan.database, Path(place), settings) as copy,
    ):
        tools.change_owner(owner, Path(place))
        words = ["-q", "-F", str(copy), "-b", plan.database.suffix]
        command = tools.server_tool_as(owner.uid, owner.gid, "slapindex", *words)
        with progress.step("slapindex") as meter:
            made_with.run_slapindex(command, directory, plan.database.maxsize, meter)


def _owner(directory: Path) -> Owner:
    """Of the database. slapindex follows links: root does not run it where somebody else can put some. Raises
    FileUnsafe."""
    with held.opened(directory) as place, place.pinned(DATA, written=True) as data:
        found = Owner.of(data)
        return Owner.told(place.status) if found.uid == 0 and place.is_foreign else found
