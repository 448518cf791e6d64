"""Writes change records as LDIF, for example to bring a server's entries back to those of a backup.

Digests show which entries differ; only entries that differ are kept in memory. Each entry of the backup is compared
with the server's entry that has the same entryUUID, at any DN. If there is none, it is compared with the server's entry
that has the same DN. Parents are renamed before their children.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from typing import BinaryIO

from msgspec import Struct, structs

from loader import dn, ldif, plain
from loader.errors import NoSuchBase
from loader.operations import live
from loader.progress import Meter
from loader.server import questions, visibility
from loader.server.options import Connection, line
from loader.server.questions import SubschemaInfo
from loader.server.session import Attributes, Session, first_value, session
from loader.sources.ldap import Server
from loader.storage import held

log = logging.getLogger(__name__)
Values = Mapping[str, Sequence[bytes]]


def text_line(name: str, text: str) -> str:
    return line(name, text.encode("utf-8", "surrogateescape"))


def record(comment: str, name: str, lines: Iterable[str]) -> str:
    return "\n".join((f"# {plain.printable(comment)}", text_line("dn", name), *lines, "\n"))


def addition(entry: Values) -> list[str]:
    return ["changetype: add", *(line(name, value) for name, values in entry.items() for value in values)]


def renaming(target: str, keeps_old: bool, moves: bool) -> list[str]:
    """Returns the LDIF lines of a modrdn that gives an entry the DN `target`. With `keeps_old`, the values of its old
    RDN stay. With `moves`, it gets a new superior."""
    parent = dn.parent(target)
    lines = ["changetype: modrdn", text_line("newrdn", rdn(target)), f"deleteoldrdn: {0 if keeps_old else 1}"]
    return lines + ([text_line("newsuperior", parent)] if moves else [])


def modification(name: str, *changes: tuple[str, Sequence[bytes]]) -> list[str]:
    """Returns the LDIF lines of changes (operation, values) of an attribute. Skips an add or delete without values."""
    lines = list[str]()
    for operation, values in changes:
        if values or operation == "replace":
            lines += [f"{operation}: {name}", *(line(name, value) for value in values), "-"]
    return lines


def rdn(name: str) -> str:
    parent = dn.parent(name)
    return name.removesuffix(parent).rstrip().removesuffix(",") if parent else name


def avas(key: str) -> list[str]:
    """Returns the attribute value assertions of the first RDN of a key (see `dn.key`)."""
    return [ava for ava in key.partition(",")[0].split("+") if ava]


def ava_of(name: str, value: bytes) -> str:
    return dn.key(f"{name}=" + "".join(f"\\{byte:02x}" for byte in value))


class Changes(Struct, frozen=True):
    """`records`: number of change records. `conflicts`: DNs of entries that are not brought back, each with the reason.
    `new`: DNs, after the change records, of the server's entries that the backup lacks."""

    records: int
    conflicts: Sequence[tuple[str, str]]
    new: Sequence[str]


def write(
    source: BinaryIO, target: BinaryIO, connection: Connection, suffix: str, base: str | None, meter: Meter
) -> Changes:
    """Writes the change records that restore the entries of `source`, which is LDIF with parents first. If `base` is
    given, `source` is the whole subtree of `base`, and the server's entries there that `source` lacks are listed.
    Otherwise `source` has any entries of the database `suffix`."""
    with session(connection, meter.cancelled) as server:
        comparison = _Comparison(server, suffix)
        names, new = None, list[str]()
        with suppress(NoSuchBase):
            if base is not None:
                names, new = comparison.differing(source, base, meter)
        source.seek(0)
        entries = ldif.records(source.fileno(), "the backup", names) if names or names is None else []
        with suppress(NoSuchBase):  # raised if the server has no entries
            comparison.match(entries)
        records = 0
        pending, stuck = [(name, entry, "") for name, entry in entries], False
        while pending and not stuck:  # several passes: an entry may need a DN that a later record frees
            comparison.blocked.clear()
            waiting = list[tuple[str, Values, str]]()
            for name, entry, _ in pending:
                reason, texts = comparison.bring_back(name, entry)
                if reason:
                    comparison.blocked.add(dn.key(name))
                target.write("".join(texts).encode())
                records += len(texts)
                waiting += [(name, entry, reason)] if reason else []
            stuck, pending = len(waiting) == len(pending), waiting
    new = [_mapped(name, comparison.moved) for name in new if dn.key(name) not in comparison.matched]
    target.write("".join(f"# new since the backup: {plain.printable(name)}\n" for name in new).encode())
    return Changes(records, [(name, reason) for name, _, reason in pending], new)


class _Comparison:
    """`matched`: keys (see `dn.key`) of the server's DNs of entries that the backup also has. `moved`: key of a DN on
    the server -> its DN after the records so far. `blocked`: keys of DNs of entries that cannot be brought back yet."""

    def __init__(self, server: Session, suffix: str) -> None:
        self._server = server
        self._schema: SubschemaInfo = questions.subschema(server)
        self._protected = self._schema.unwritable()
        self._suffix = server.context_of(suffix)
        self._roots = {dn.key(suffix), *map(dn.key, self._schema.contexts)}
        self.matched: set[str] = set()
        self.blocked: set[str] = set()
        self.moved: dict[str, str] = {}
        self._by_uuid: dict[str, tuple[str, Attributes]] = {}  # entryUUID -> DN and entry on the server
        self._origins: dict[str, str] = {}  # the reverse of `moved`: key of a new DN -> DN on the server
        self._present: set[str] = set()  # keys of DNs that exist after the records so far
        with suppress(NoSuchBase):
            sight = visibility.compare_sample(server, self._suffix, lambda name: self._may_write(name))
            for note in live.hidden_notes(sight) if sight else ():
                log.warning("%s", note)
            self._protected |= {ldif.type_of(name) for name in (sight.hidden if sight else ())}

    def _may_write(self, name: str) -> bool:
        return ldif.type_of(name) not in self._protected

    def differing(self, source: BinaryIO, base: str, meter: Meter) -> tuple[list[str], list[str]]:
        """Returns the DNs of the backup's entries that differ or are missing, and the DNs that only the server has."""
        ignored = sorted(self._protected - {"entryuuid"})
        remote_digests = Server(structs.replace(self._server.connection, base=base)).digest(ignored, meter)
        with ldif.digesting(ignored, meter) as digests:
            digests.add_path(held.through(source.fileno()))
        samples = digests.diff(remote_digests, digests.entries + remote_digests.entries).samples
        names = [name for kind, name in samples if kind != "only-right"]
        return names, [name for kind, name in samples if kind == "only-right"]

    def match(self, entries: Sequence[tuple[str, Values]]) -> None:
        """Reads the server's entries whose entryUUIDs are those of `entries`."""
        uuids = [uuid for _, entry in entries if (uuid := first_value(entry, "entryUUID"))]
        kinds = (False, True) if self._server.offers_subentries(self._suffix) else (False,)
        for at in range(0, len(uuids), live.AT_ONCE):
            where = live.with_uuids(uuids[at : at + live.AT_ONCE])
            for subentries in kinds:
                for name, entry in self._server.find(self._suffix, where, ("*", "+"), subentries=subentries):
                    self._by_uuid[first_value(entry, "entryuuid")] = name, entry
                    self.matched.add(dn.key(name))

    def _at(self, name: str) -> tuple[str, Attributes] | None:
        """Returns the present DN and the attributes of the entry that has the DN `name` after the records so far."""
        origin = _mapped(name, self._origins)
        with suppress(NoSuchBase):
            if dn.key(_mapped(origin, self.moved)) == dn.key(name):
                return origin, self._server.read(origin)
        return None

    def bring_back(self, name: str, wanted: Values) -> tuple[str, list[str]]:
        """Returns why an entry cannot be brought back yet, or "", and the change records that bring it back."""
        key, match, occupant = dn.key(name), self._by_uuid.get(first_value(wanted, "entryUUID")), None
        current = _mapped(match[0], self.moved) if match else ""
        if dn.key(current) != key:
            occupant, parent = self._at(name), dn.parent(name)
            if match and occupant:
                return f"another entry has its DN now, its own DN is {current}", []
            if occupant and first_value(occupant[1], "entryuuid") in self._by_uuid:
                return "another entry of the backup has its DN now", []
            above = dn.key(parent)
            if key not in self._roots and above not in self._present:
                if above in self.blocked or not self._at(parent):
                    return "the entry above it does not exist now", []
                self._present.add(above)
            current = current or name
        writable = {name: values for name, values in wanted.items() if self._may_write(name)}
        if occupant:
            match = occupant
            self.matched.add(dn.key(occupant[0]))
        if match and match[1].get("structuralobjectclass", []) != wanted.get("structuralObjectClass", []):
            return "the entry has another structural object class now", []
        self._present.add(key)
        if match is None:
            return "", [record("gone since the backup", name, addition(writable))]
        records, naming = list[str](), set[str]()
        present = {name: values for name, values in match[1].items() if self._may_write(name)}
        lowered = {name.lower(): values for name, values in writable.items()}
        if dn.key(current) != key:
            self.moved[dn.key(match[0])], self._origins[key] = name, match[0]
            old, new = avas(dn.key(current)), avas(key)
            # If some values of the old RDN stay, all do at first: removing them all may violate the schema.
            keeps_old = not {ava_of(n, value) for n, values in writable.items() for value in values}.isdisjoint(old)
            moves = dn.key(dn.parent(current)) != dn.key(dn.parent(name))
            records.append(record(f"renamed since the backup: {name}", current, renaming(name, keeps_old, moves)))
            naming = {ava.partition("=")[0] for ava in (*old, *new)}
            for attribute in naming:  # makes `present` the state after the modrdn
                kept = [v for v in present.get(attribute, ()) if keeps_old or ava_of(attribute, v) not in old]
                spelled = [v for v in lowered.get(attribute, ()) if v.decode(errors="replace") in rdn(name)]
                present[attribute] = kept + [v for v in spelled if ava_of(attribute, v) in new and v not in kept]
        if lines := self._modifications(present, lowered, naming, {name.lower(): name for name in wanted}):
            since = "changed since the backup" + (", and has another entryUUID now" if occupant else "")
            records.append(record(since, name, ["changetype: modify", *lines]))
        return "", records

    def _modifications(
        self, present: Values, wanted: Values, naming: Collection[str], spelled: Mapping[str, str]
    ) -> list[str]:
        """Returns the LDIF lines that change `present` to `wanted`. If an attribute keeps some values, only the others
        are deleted and added. All values are replaced if the attribute is ordered, names the entry, or has no equality
        rule. `spelled`: attribute in lower case -> attribute description in the backup."""
        lines = list[str]()
        for name in sorted({*present, *wanted}):
            old, new = present.get(name, ()), wanted.get(name, ())
            gone, missing, base = {*old} - {*new}, {*new} - {*old}, ldif.type_of(name)
            is_ordered = base in self._schema.ordered
            if not (gone or missing) or (is_ordered and [*map(_unnumbered, old)] == [*map(_unnumbered, new)]):
                continue
            is_whole = is_ordered or base in naming or base in self._schema.unmatched or not self._schema.protected
            if is_whole or gone == {*old}:
                changes = [("replace", new)]
            else:
                changes = [("delete", [v for v in old if v in gone]), ("add", [v for v in new if v in missing])]
            lines += modification(spelled.get(name, name), *changes)
        return lines


def _unnumbered(value: bytes) -> bytes:
    """Strips the index of a value of an ordered attribute. slapd generates it when a client modifies the attribute."""
    return re.sub(rb"^\{\d+\}", b"", value)


def _mapped(name: str, moves: Mapping[str, str]) -> str:
    """Returns the DN of an entry after the renames `moves` (key -> DN) of this entry and of those above it."""
    if not name or not moves:
        return name
    parent = dn.parent(name)
    above = _mapped(parent, moves)
    return moves.get(dn.key(name)) or (name if above == parent else f"{rdn(name)},{above}")
