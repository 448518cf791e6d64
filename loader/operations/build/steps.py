"""What the engines of a build share: which names the schema lacks, and the end of a build.

slapadd is asked for unknown names, with one probe record for each. An engine is a module: native.py or slapadd.py.
"""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Protocol

import msgspec

from loader import child, csn, dn
from loader.config import Config, Database
from loader.errors import EntriesLost, NoSuchSuffix, SchemaMissing
from loader.ldif import Rejected
from loader.mdb import contents, edits, meta, verify
from loader.mdb.meta import DATA
from loader.operations.build import inputs
from loader.operations.build.inputs import BuildOptions, Scanned
from loader.operations.publish import Checked, Published, TargetDatabase, publish_environment
from loader.operations.room import choose_maxsize
from loader.progress import Meter
from loader.run.log import Report, report_of
from loader.run.steps import Run
from loader.server import tools
from loader.storage import files

FirstUse = Mapping[str, tuple[str, int]]  # name -> file and line of its first use
_SHOWN = 10  # names in a message
_UNKNOWN = re.compile(r"str2ad\(([^)]+)\): attribute type undefined|unrecognized objectClass '([^']+)'", re.IGNORECASE)


class Loaded(msgspec.Struct, frozen=True, omit_defaults=True):
    """Entries that were read, those of them in the new database, and those that were rejected. `invalid`: values that
    violate their syntax and were loaded. `rejects`: the file of the rejected records, if there are any."""

    read: int
    entries: int
    rejected: int
    invalid: list[str] = msgspec.field(default_factory=list, name="invalid values")
    rejects: str = ""
    rejections: list[Rejected] | None = None  # the first ones; None if the engine rejects none


@dataclass(frozen=True)
class Outcome:
    """A database that was built. `more`: facts that only the report of its engine has."""

    loaded: Loaded
    published: Published
    more: object = field(default_factory=dict)
    seconds: float = 0.0

    @property
    def entries(self) -> int:
        return self.loaded.entries

    def report(self) -> Report:
        return report_of(self.loaded, self.more, self.published)


class Engine(Protocol):
    """A module that builds databases."""

    def require(self, options: BuildOptions, place: TargetDatabase) -> None:
        """Raises SettingRefused or NotProven for a configuration that the engine does not follow."""

    def prepared(self, options: BuildOptions, run: Run, place: TargetDatabase) -> Callable[[], Outcome]:
        """Runs the steps up to a database that is built and checked; returns the call that publishes it."""
        ...


@dataclass(frozen=True)
class BuildSteps:
    """The bodies of the steps that both engines have. Each can be repeated from its beginning."""

    options: BuildOptions
    run: Run
    place: TargetDatabase

    @property
    def made(self) -> Path:
        """The new environment, beside its place."""
        return self.run.directory / "environment"

    @property
    def server_id(self) -> int:
        """The server ID of generated entryCSNs."""
        configured = self.place.config.server_id or 0
        return configured if self.options.server_id is None else self.options.server_id

    @property
    def writes_context(self) -> bool:
        return self.options.write_context and not self.options.seeding

    def scan(self, meter: Meter) -> Scanned:
        return inputs.scan(self.options, self.place, meter)

    def require_schema(self, scan: Scanned) -> None:
        """Raises NoSuchSuffix, SchemaMissing."""
        suffixes, first = self.place.database.suffixes, scan.first_dn
        # A part of a glued tree was chosen by its suffix.
        if self.place.superior is None and not any(dn.is_below(first, suffix) for suffix in suffixes):
            raise NoSuchSuffix(config=self.place.config.path, suffix=f"of {first}", known=", ".join(suffixes))
        require_known(self.place, scan.attributes, scan.object_classes, self.run.directory)

    def complete(self, meter: Meter) -> list[str]:
        """Raises SharedUuid if a consumer's database has an entryUUID twice. With -w, writes the contextCSN of a glued
        tree. Returns notes for the operator."""
        options, suffix = self.options, self.place.database.suffix
        if options.seeding or options.claimed is not None:
            verify.require_unique_uuids(self.made, meter, self.run.directory)
        if options.reached and not options.seeding:
            # The superior's contextCSN covers what the other databases hold (slapcommon.c).
            stored = contents.context_csns(self.made, suffix)
            wanted = sorted(csn.by_server([*stored, *options.reached]).values())
            if sorted(stored) != wanted:
                edits.stamp(self.made, suffix, wanted)
        return member_of_notes(self.place.config, self.place.database, self.made)

    def fit_map(self) -> int:
        """Returns the maxsize that the new database gets, and makes it the map size of the file. Raises
        MaxsizeTooSmall, ServerRunning."""
        facts, changing = meta.read_meta(self.made), self.options.target is None
        maxsize = choose_maxsize(self.place, facts.used, self.options.maxsize, changing)
        if maxsize != facts.map_size:
            edits.set_map_size(self.made / DATA, maxsize)
        return maxsize

    def require_entries(self, read: int, expected: int, reported: int, written: int) -> None:
        """Raises EntriesLost."""
        if not expected == reported == written:
            raise EntriesLost(read=read, written=written, log=self.run.directory)

    def identity(self) -> list[int]:
        return files.identity(self.made / DATA)

    def put_into_place(self, checked: Checked) -> Published:
        """Publishes the environment. A `target` beside the configured directory leaves the configuration alone."""
        place, database = self.place, dataclasses.replace(self.place.database, maxsize=checked.maxsize)
        if self.options.target is not None:
            place = dataclasses.replace(place, database=database)
        published = publish_environment(self.made, place, checked)
        files.remove_tree(self.made)
        return published


def require_known(place: TargetDatabase, attributes: FirstUse, object_classes: FirstUse, scratch: Path) -> None:
    """Raises SchemaMissing with every attribute and class that the configuration lacks, and its first use."""
    uses = {**object_classes, **attributes}
    unknown = unknown_names(place, list(attributes), list(object_classes), scratch)
    require_none_lacking(place.config, [f"{name} ({uses[name][0]}, line {uses[name][1]})" for name in unknown])


def require_none_lacking(config: Config, lacking: Sequence[str]) -> None:
    """Raises SchemaMissing."""
    if lacking:
        more = [f"and {len(lacking) - _SHOWN} more"] if len(lacking) > _SHOWN else []
        raise SchemaMissing(config=config.path, names=", ".join([*lacking[:_SHOWN], *more]))


def unknown_names(
    place: TargetDatabase, attributes: Sequence[str], object_classes: Sequence[str], scratch: Path
) -> list[str]:
    """Returns the names that slapadd does not know. With `-u -c`, slapadd writes nothing and continues after errors."""

    # Records that fail in many ways, but complain of a name only if it is unknown.
    top = f"dn: {place.database.suffix}\nobjectClass: "
    probes = [f"{top}top\n{name}: x\n\n" for name in attributes] + [f"{top}{name}\n\n" for name in object_classes]
    with place.private_configuration(scratch) as copy:
        command = tools.server_tool("slapadd", "-u", "-c", "-F", str(copy), "-b", place.database.suffix)
        answer = child.ask(command, stdin="".join(probes).encode())
    complained = {(one or other).lower() for one, other in _UNKNOWN.findall("\n".join(answer.words))}
    # The value of a probe can look like a name, too ("x" where a DN is wanted): only the names of the probes count.
    return [name for name in (*attributes, *object_classes) if name.lower() in complained]


def member_of_notes(config: Config, database: Database, environment: Path) -> list[str]:
    """A note for each instance of slapo-memberof for which `environment` has members, and no memberOf: the overlay does
    not run during an offline load. Settings and defaults: slapo-memberof(5)."""
    notes = []
    for name, _ in config.entries:
        rdn, _, above = name.lower().partition(",")
        if above != database.entry_dn.lower() or rdn.partition("}")[2] != "memberof":
            continue
        member = next(iter(config.values(name, "olcMemberOfMemberAD")), "member")
        member_of = next(iter(config.values(name, "olcMemberOfMemberOfAD")), "memberOf")
        stored = {one.lower().split(";")[0] for one in contents.attributes(environment)}
        if member.lower() in stored and member_of.lower() not in stored:
            notes.append(
                f"the LDIF had {member} but no {member_of}, and slapo-memberof does not run during an offline load, "
                f"just as with slapadd: searches for {member_of} find nothing. Once slapd runs, have it write the "
                f'{member} of each group again: docs/build.md, "memberOf", has the command'
            )
    return notes
