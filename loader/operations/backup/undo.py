"""Lists the last changes in an accesslog before a moment, and writes LDIF that takes changes back.

The native core finds the log entries (`native/replay/src/query.rs`). Changes are taken back newest first, with their
reqMod and reqOld. A change is not taken back, but reported, if a later change that stays concerns the same entry and
attributes.
"""

from __future__ import annotations

import datetime
import os
import re
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

_LAST = 20  # number of changes that a dry run of a restore lists
_ALWAYS = {"entrycsn", "modifiersname", "modifytimestamp"}  # every modify replaces these; ALWAYS in native/replay
_PERMISSIVE = b"1.2.840.113556.1.4.1413"  # permissive modify control: adding a value that is present is no error


class Undone(Struct, frozen=True):
    """`undone` of `matching` changes are taken back. `conflicts` has the others, each with the reason. `left_out`:
    attributes that clients may not write. `notes` has warnings."""

    matching: int
    undone: int
    conflicts: Sequence[tuple[Logged, str]]
    left_out: Sequence[str]
    notes: Sequence[str]


def _search(source: Log, query: LogQuery, progress: Progress) -> tuple[list[tuple[Logged, Values, bool]], str]:
    """Returns the operations, each with its log entry and whether it matches; and the oldest CSN in the log."""
    with progress.step("read the log") as meter, replay.reading(source, meter) as inputs:
        answer = changing.logged(names(inputs), query, source.text, meter)
    entries = [entry for _, entry in ldif.records(answer.text, source.text)]
    operations = [(_logged(entry), entry, matches) for entry, matches in zip(entries, answer.matching, strict=True)]
    return operations, answer.log_start


def _logged(entry: Values) -> Logged:
    def text(name: str) -> str:
        return b"".join(entry.get(name, ())).decode("utf-8", "surrogateescape")

    kind, name, new_dn, attributes = text("reqType"), text("reqDN"), "", tuple[str, ...]()
    if kind == "modrdn":
        new_dn = f"{text('reqNewRDN')},{text('reqNewSuperior') or dn.parent(name)}"
    elif kind == "modify":
        attributes = tuple(attribute for attribute in _mods(entry) if attribute.lower() not in _ALWAYS)
    who = (text("entryCSN"), text("reqStart"), text("reqAuthzID"), text("reqSession"))
    return Logged(*who, kind, name, new_dn, attributes)


def _mods(entry: Values) -> dict[str, list[tuple[bytes, bytes]]]:
    """Maps an attribute to (operator, value) pairs: `+ `, `- `, `= `, `# `, without the space if no value follows."""
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
        last = [logged for logged, _, matches in _search(source, query, progress)[0] if matches]
    befores = [csn.just_before(change.csn) for change in last[:1]] + [change.csn for change in last]
    pairs = list(zip(last, befores, strict=False))
    return tuple(structs.replace(change, before=before) for change, before in pairs[-_LAST:])


def undo(options: UndoOptions, progress: Progress) -> Undone:
    """Writes to standard output the change records that take back the matching changes. Raises LogUnsuitable, and
    UsageProblem if neither a log nor a repository is given."""
    output = standard.output("LDIF", readable=True)
    since, until = options.since, options.until or END
    start = since.csn if csn.server_id(since.text) else f"{since.csn.partition('#')[0]}#000000#000#000000"
    with _log(options, progress) as (source, configured, suffix):
        base = options.dn or suffix
        query = LogQuery(start, since.text, until.csn, until.text, [base] if base else [], options.by, 0)
        operations, log_start = _search(source, query, progress)
    later = LaterChanges(left_out((lambda: configured) if configured else None))
    conflicts, records = list[tuple[Logged, str]](), list[str]()
    for logged, entry, matches in reversed(operations):
        reason = later.reason(logged, entry) if matches else ""
        if matches and not reason:
            records += later.record(logged, entry)
            continue
        later.add(logged, entry)
        if matches:
            conflicts.append((logged, reason))
    with os.fdopen(output, "wb", closefd=False) as out:
        out.write("".join(records).encode())
    matching = sum(matches for *_, matches in operations)
    if log_start > start:
        later.notes.append(f"the log begins with {log_start}: it lacks the changes between --since and this CSN")
    return Undone(matching, matching - len(conflicts), conflicts, sorted(later.omitted), later.notes)


@contextmanager
def _log(options: UndoOptions, progress: Progress) -> Iterator[tuple[Log, Config | None, str | None]]:
    """Yields the log, the configuration and the suffix of the database; the latter two may be None with --log. Without
    --log, the log is taken from the repository, as `log_of` does."""
    if options.log is not None:
        configured = configuration.read(options.config_path) if options.config_path else None
        yield Log.of_option(options.log), configured, options.suffix
        return
    if options.repo is None:
        raise UsageProblem(reason="say which log: --log SOURCE, or -R REPO with a backup of the log")
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
    """Yields the key of a DN (see `dn.key`), and those of all DNs above it."""
    while key:
        yield key
        key = key.partition(",")[2]


class LaterChanges:
    """The changes that are not taken back, among those examined so far (newest first). `protected`: attributes that
    clients may not write. `omitted` collects the protected attributes that the records would need."""

    def __init__(self, protected: Sequence[str]) -> None:
        self.protected = {*protected}
        self.omitted: set[str] = set()
        self.notes: list[str] = []
        # Values: reqStart of the changes. The keys of `_gone`, `_new` and `_above_new` are keys of DNs (`dn.key`).
        self._touched: dict[str, dict[str, str]] = {}  # _identity -> (attribute, or "" for the DN) -> reqStart
        self._gone: dict[str, str] = {}  # DNs of entries that were deleted or renamed
        self._new: dict[str, str] = {}  # DNs that an entry was added with, or renamed to
        self._above_new: dict[str, str] = {}  # all DNs above those in `_new`

    def _concerned(self, logged: Logged) -> set[str]:
        """Returns the types of the attributes that a change concerns, in lower case; "" stands for the DN."""
        if logged.kind == "modify":
            return {*map(ldif.type_of, logged.attributes)} - self.protected
        names = dn.key(logged.dn), dn.key(logged.new_dn)
        return {"", *(ava.partition("=")[0] for name in names for ava in changes.avas(name))}

    def add(self, logged: Logged, entry: Values) -> None:
        own, new = dn.key(logged.dn), dn.key(logged.new_dn)
        touched = self._touched.setdefault(_identity(logged, entry), {})
        touched.update(dict.fromkeys(self._concerned(logged), logged.start))
        if logged.kind in ("delete", "modrdn"):
            self._gone[own] = logged.start
        if logged.kind in ("add", "modrdn"):
            name = own if logged.kind == "add" else new
            self._new[name] = logged.start
            self._above_new.update(dict.fromkeys(_above(name.partition(",")[2]), logged.start))

    def reason(self, logged: Logged, entry: Values) -> str:
        """Returns the reason why a change cannot be taken back, or "" if it can."""
        own, new = dn.key(logged.dn), dn.key(logged.new_dn)
        touched = self._touched.get(_identity(logged, entry), {})
        concerned = self._concerned(logged)
        if logged.kind in ("delete", "modify") and concerned and not entry.get("reqOld"):
            return "the log has no old values of the entry (logold)"
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
                return f"{self._gone[name]} deleted or renamed the entry, or one above it, later"
        return ""

    def record(self, logged: Logged, entry: Values) -> list[str]:
        """Returns the change record that takes a change back; none if clients may write none of its attributes."""
        old, more = _old(entry), list[str]()
        if logged.kind == "add":
            lines = ["changetype: delete"]
        elif logged.kind == "delete":
            lines = changes.addition({name: values for name, values in old.items() if self._may_write(name)})
        elif logged.kind == "modrdn":
            lines, more = self._rename(logged, entry, old)
        else:
            is_permissive = any(_PERMISSIVE in control for control in entry.get("reqControls", ()))
            mods = [(name, mods) for name, mods in _mods(entry).items() if self._may_write(name)]
            parts = [part for name, mod in mods for part in _inverse(name, mod, old.get(name, []), is_permissive)]
            if not parts:
                return []
            lines = ["changetype: modify", *parts]
        who = f"{logged.start}: {logged.kind} by {logged.author or 'anonymous'}, connection {logged.session}"
        records = [changes.record(f"takes back {who}", logged.new_dn or logged.dn, lines)]
        return records + ([changes.record(f"the rest of {logged.start}", logged.dn, more)] if more else [])

    def _may_write(self, name: str) -> bool:
        base = ldif.type_of(name)
        if base in self.protected and base not in _ALWAYS:
            self.omitted.add(name)
        return base not in self.protected

    def _rename(self, logged: Logged, entry: Values, old: Values) -> tuple[list[str], list[str]]:
        """Returns the lines that undo a renaming, and those of a modify after it. They remove the values of the new RDN
        unless these are in reqOld. If only some are, the modify removes the others: a modrdn removes all or none."""
        avas = {*changes.avas(dn.key(logged.new_dn))} - {*changes.avas(dn.key(logged.dn))}
        before = {changes.ava_of(name, value) for name, values in old.items() for value in values}
        if not {ava.partition("=")[0] for ava in avas} <= {ava.partition("=")[0] for ava in before}:
            self.notes.append(
                f"{plain.printable(logged.new_dn)}: logoldattr does not have the values of its RDN's attributes before "
                f"{logged.start}: if the entry had the new name as another value, that value is removed"
            )
        keeps = not avas.isdisjoint(before)
        rest = (ava.partition("=") for ava in sorted(avas - before) if keeps)
        parts = [
            part for name, _, value in rest for part in changes.modification(name, ("delete", [_unescaped(value)]))
        ]
        more = ["changetype: modify", *parts] if parts else []
        return changes.renaming(logged.dn, keeps, bool(entry.get("reqNewSuperior"))), more


def _unescaped(value: str) -> bytes:
    """Returns the bytes of a value in a key (see `dn.key`)."""
    text = value.encode("utf-8", "surrogateescape")
    return re.sub(rb"\\([0-9A-F]{2})", lambda match: bytes.fromhex(match[1].decode()), text)


def _identity(logged: Logged, entry: Values) -> str:
    return b"".join(entry.get("reqEntryUUID", ())).decode() or dn.key(logged.dn)


def _inverse(name: str, mods: Sequence[tuple[bytes, bytes]], old: Sequence[bytes], is_permissive: bool) -> list[str]:
    """Returns the lines that give an attribute its old values. They replace all values, unless deleting and adding
    single values is certain to be right: values are logged as the client sent them, perhaps spelt differently from the
    stored ones, or with the index of an ordered value."""
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
