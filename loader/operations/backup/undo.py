"""Reads an accesslog for people: lists the last changes before a moment, and writes LDIF that takes changes back.

The native core finds the log entries (`native/replay/src/query.rs`). A change is taken back from its reqMod and reqOld,
newest first. If a later change that stays concerns the same entry and attributes, it is not taken back but reported.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from msgspec import Struct, structs

from loader import csn, dn, ldif, plain, standard
from loader.config import Config
from loader.errors import UsageProblem
from loader.operations.backup import changes, replay, repository
from loader.operations.backup.changes import Values
from loader.operations.backup.drill import left_out
from loader.operations.backup.manifest import Backup
from loader.operations.backup.options import END, LATEST, Moment, RestoreOptions, UndoOptions
from loader.operations.backup.replay import Log, Logged, Origin
from loader.operations.backup.restore import Contents, log_of
from loader.progress import Progress
from loader.server import configuration
from loader.sinks import changing
from loader.sinks.changing import LogQuery
from loader.sources import names

_LAST = 20  # changes that a dry run lists
_ALWAYS = {"entrycsn", "modifiersname", "modifytimestamp"}  # every modify operation replaces them
_PERMISSIVE = b"1.2.840.113556.1.4.1413"  # control: adding a present value is no error


class Undone(Struct, frozen=True):
    """`undone` of `matching` changes are taken back. `conflicts`: the others, each with the reason. `left_out`:
    attributes that clients may not write. `notes` has warnings."""

    matching: int
    undone: int
    conflicts: Sequence[tuple[Logged, str]]
    left_out: Sequence[str]
    notes: Sequence[str]


def _found(source: Log, query: LogQuery, progress: Progress) -> tuple[list[tuple[Logged, Values, bool]], str]:
    """Returns the operations, their log entries, and whether they match; and the oldest CSN in the log."""
    with progress.step("read the log") as meter, replay.reading(source, meter) as inputs:
        found = changing.logged(names(inputs), query, source.text, meter)
    entries = [entry for _, entry in ldif.records(found.text, source.text)]
    return [
        (_logged(entry), entry, matches) for entry, matches in zip(entries, found.matching, strict=True)
    ], found.log_start


def _logged(entry: Values) -> Logged:
    def text(name: str) -> str:
        return b"".join(entry.get(name, ())).decode("utf-8", "surrogateescape")

    name, new_dn = text("reqDN"), ""
    if text("reqType") == "modrdn":
        new_dn = f"{text('reqNewRDN')},{text('reqNewSuperior') or dn.parent(name)}"
    attributes = tuple(attribute for attribute in _mods(entry) if attribute.lower() not in _ALWAYS)
    shown = attributes if text("reqType") == "modify" else ()
    who = (text("entryCSN"), text("reqStart"), text("reqAuthzID"), text("reqSession"))
    return Logged(*who, text("reqType"), name, new_dn, shown)


def _mods(entry: Values) -> dict[str, list[tuple[bytes, bytes]]]:
    """Returns attribute description -> operators (`+ `, `- `, `= `, `# `; without a value, no space) and values."""
    mods: dict[str, list[tuple[bytes, bytes]]] = {}
    for text in entry.get("reqMod", ()):
        name, _, rest = text.partition(b":")
        if rest:  # a lone colon separates two mods of one attribute
            mods.setdefault(name.decode(), []).append((rest[:2], rest[2:]))
    return mods


def _old(entry: Values) -> dict[str, list[bytes]]:
    old: dict[str, list[bytes]] = {}
    for text in entry.get("reqOld", ()):
        name, _, value = text.partition(b": ")
        old.setdefault(name.decode(), []).append(value)
    return old


def last_changes(options: RestoreOptions, backup: Backup, progress: Progress) -> tuple[Logged, ...]:
    """Returns the last changes of the database up to `options.until`, in the order of their CSNs."""
    repo, moment = repository.of(options.repo), options.until
    assert moment is not None
    configured = Contents.of(repo.path, backup, options.identities, options.config_path).config()
    database = configured.database(backup.suffix)
    query = LogQuery("", "", moment.csn, moment.text, database.suffixes, None, _LAST + 1)
    with log_of(options, repo, Origin(backup, configured, database), progress) as source:
        last = [logged for logged, _, matches in _found(source, query, progress)[0] if matches]
    befores = [csn.just_before(change.csn) for change in last[:1]] + [change.csn for change in last]
    pairs = list(zip(last, befores, strict=False))
    return tuple(structs.replace(change, before=before) for change, before in pairs[-_LAST:])


# --- undo -------------------------------------------------------------------------------------------------------------


def undo(options: UndoOptions, progress: Progress) -> Undone:
    """Writes LDIF change records that take back the matching changes to standard output. Raises LogUnsuitable, and
    UsageProblem if no log is named."""
    output = standard.output("LDIF", readable=True)
    since, until = options.since, options.until or END
    start = since.csn if csn.server_id(since.text) else f"{since.csn.partition('#')[0]}#000000#000#000000"
    with _log(options, progress) as (source, configured, suffix):
        base = options.dn or suffix
        query = LogQuery(start, since.text, until.csn, until.text, [base] if base else [], options.by, 0)
        found, log_start = _found(source, query, progress)
    staying = Staying(left_out((lambda: configured) if configured else None))
    conflicts, records = list[tuple[Logged, str]](), list[str]()
    for logged, entry, matches in reversed(found):
        reason = staying.reason(logged, entry) if matches else ""
        if matches and not reason:
            records += staying.record(logged, entry)
            continue
        staying.add(logged, entry)
        if matches:
            conflicts.append((logged, reason))
    with os.fdopen(output, "wb", closefd=False) as out:
        out.write("".join(records).encode())
    matching = sum(matches for *_, matches in found)
    if log_start > start:
        staying.notes.append(f"the log begins with {log_start}: it lacks what was changed between --since and this")
    return Undone(matching, matching - len(conflicts), conflicts, sorted(staying.omitted), staying.notes)


@contextmanager
def _log(options: UndoOptions, progress: Progress) -> Iterator[tuple[Log, Config | None, str | None]]:
    """Yields the log, the configuration if there is one, and the suffix of the database. The log is that of --log, or
    its latest backup."""
    if options.log is not None:
        configured = configuration.read(options.config_path) if options.config_path else None
        yield Log.given(options.log), configured, options.suffix
        return
    if options.repo is None:
        raise UsageProblem(reason="say which log: --log SOURCE, or -R REPO with a backup of it")
    repo = repository.of(options.repo)
    backup = repository.find(repo, LATEST, options.suffix)
    contents = Contents.of(repo.path, backup, options.identities, options.config_path)
    repo.bring(backup.stored())
    configured = contents.config()
    now = Moment.parse(datetime.datetime.now(datetime.timezone.utc).isoformat())
    restoring = RestoreOptions(repo, until=now, identities=options.identities)
    with log_of(restoring, repo, Origin(backup, configured, configured.database(backup.suffix)), progress) as source:
        yield source, configured, backup.suffix


def _above(key: str) -> Iterator[str]:
    """Returns the key of a DN (see `dn.key`), and those of the DNs above it."""
    while key:
        yield key
        key = key.partition(",")[2]


class Staying:
    """The changes that stay, from the newest to the one before which a change is to be taken back. `protected`: the
    attributes that clients may not write; `omitted` collects those of them that records would need."""

    def __init__(self, protected: Sequence[str]) -> None:
        self.protected = {*protected}
        self.omitted: set[str] = set()
        self.notes: list[str] = []
        self._touched: dict[str, dict[str, str]] = {}  # entry -> attribute, or "" for its DN -> reqStart
        self._gone: dict[str, str] = {}  # key of a DN that was deleted or renamed -> reqStart
        self._new: dict[str, str] = {}  # key of a DN that was added
        self._above_new: dict[str, str] = {}  # keys of the DNs above these

    def _concerned(self, logged: Logged) -> set[str]:
        """Returns the attributes of a change, in lower case without options; "" stands for the DN."""
        if logged.kind == "modify":
            return {*map(ldif.type_of, logged.attributes)} - self.protected
        naming = [
            part.partition("=")[0] for rdn in map(dn.key, (logged.dn, logged.new_dn)) for part in changes.avas(rdn)
        ]
        return {"", *naming}

    def add(self, logged: Logged, entry: Values) -> None:
        own, new = dn.key(logged.dn), dn.key(logged.new_dn)
        touched = self._touched.setdefault(_identity(logged, entry), {})
        for name in self._concerned(logged):
            touched[name] = logged.start
        if logged.kind in ("delete", "modrdn"):
            self._gone[own] = logged.start
        if logged.kind in ("add", "modrdn"):
            name = own if logged.kind == "add" else new
            self._new[name] = logged.start
            self._above_new.update(dict.fromkeys(_above(name.partition(",")[2]), logged.start))

    def reason(self, logged: Logged, entry: Values) -> str:
        """Returns why a change cannot be taken back; empty if it can."""
        own, new = dn.key(logged.dn), dn.key(logged.new_dn)
        touched = self._touched.get(_identity(logged, entry), {})
        concerned = self._concerned(logged)
        if logged.kind in ("delete", "modify") and concerned and not entry.get("reqOld"):
            return "the log has no old values of it (logold)"
        if logged.kind == "add" and touched:
            return f"{next(iter(touched.values()))} changed the entry later"
        if logged.kind == "add" and own in self._above_new:
            return f"{self._above_new[own]} added an entry below it later"
        if logged.kind in ("delete", "modrdn") and own in self._new:
            return f"{self._new[own]} gave its DN to another entry later"
        if logged.kind in ("modify", "modrdn"):
            for name in sorted({*concerned, ""} & touched.keys()):
                return f"{touched[name]} changed {name or 'the DN of the entry'} later"
        for name in (*_above(own), *_above(new)):
            if name in self._gone:
                return f"{self._gone[name]} deleted or renamed it, or an entry above it, later"
        return ""

    def record(self, logged: Logged, entry: Values) -> list[str]:
        """Returns the LDIF that takes a change back, with a comment; nothing if clients may not write what it needs."""
        old = _old(entry)
        if logged.kind == "add":
            lines = ["changetype: delete"]
        elif logged.kind == "delete":
            lines = changes.addition({name: values for name, values in old.items() if self._may_write(name)})
        elif logged.kind == "modrdn":
            lines = self._rename(logged, entry, old)
        else:
            is_permissive = any(_PERMISSIVE in control for control in entry.get("reqControls", ()))
            mods = [(name, mods) for name, mods in _mods(entry).items() if self._may_write(name)]
            parts = [part for name, made in mods for part in _inverse(name, made, old.get(name, []), is_permissive)]
            if not parts:
                return []
            lines = ["changetype: modify", *parts]
        who = f"{logged.start}: {logged.kind} by {logged.author or 'anonymous'}, connection {logged.session}"
        return [changes.record(f"takes back {who}", logged.new_dn or logged.dn, lines)]

    def _may_write(self, name: str) -> bool:
        base = ldif.type_of(name)
        if base in self.protected and base not in _ALWAYS:
            self.omitted.add(name)
        return base not in self.protected

    def _rename(self, logged: Logged, entry: Values, old: Values) -> list[str]:
        """The new RDN's values are removed, unless reqOld shows that the entry had them before."""
        avas = {*changes.avas(dn.key(logged.new_dn))}
        before = {changes.ava_of(name, value) for name, values in old.items() for value in values}
        if not {ava.partition("=")[0] for ava in avas} <= {ava.partition("=")[0] for ava in before}:
            self.notes.append(
                f"{plain.printable(logged.new_dn)}: logoldattr does not have the values of its RDN's attributes before "
                f"{logged.start}: if the entry had the new name as another value, that value is removed"
            )
        return changes.renaming(logged.dn, avas <= before, bool(entry.get("reqNewSuperior")))


def _identity(logged: Logged, entry: Values) -> str:
    return b"".join(entry.get("reqEntryUUID", ())).decode() or dn.key(logged.dn)


def _inverse(name: str, mods: Sequence[tuple[bytes, bytes]], old: Sequence[bytes], is_permissive: bool) -> list[str]:
    """Returns the lines that give an attribute its old values. They name single values only if that is certain to be
    right: values are logged as sent, perhaps spelt differently, or with the index of an ordered value."""
    added, deleted = ([value for sign, value in mods if sign == wanted] for wanted in (b"+ ", b"- "))
    is_exact = (
        old
        and not is_permissive
        and len(added) + len(deleted) == len(mods)
        and {*deleted} <= {*old}
        and not {*added} & {*old}
        and not any(value.startswith(b"{") for value in (*old, *added))
    )
    return changes.modification(name, *([("delete", added), ("add", deleted)] if is_exact else [("replace", old)]))
