"""The common part of the engines of a build (native.py, slapadd.py): options, the scan of the LDIF, the check for names
that the schema lacks, and the last steps of a build."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import msgspec

from loader import child, csn, dn, ldif, units
from loader import config as configs
from loader.config import Config, Database
from loader.defaults import ENV_EPOCH
from loader.errors import EmptyInput, GlueRefused, NoContextCSN, NoSuchSuffix, SchemaMissing, UsageProblem
from loader.ldif import Rejected
from loader.mdb import contents, meta, verify
from loader.mdb.meta import DATA
from loader.operations.options import FULL, DeclaredBuild
from loader.operations.publish import Checked, Published, TargetDatabase, publish_environment
from loader.operations.sizing import choose_maxsize
from loader.progress import Meter
from loader.run.log import Report, report_of
from loader.run.steps import Run
from loader.server import tools
from loader.sources import Source, dit, names
from loader.sources.dit import Synthetic
from loader.sources.location import LdifFiles
from loader.storage import files

NO_CONTEXT = "Give -w if the LDIF comes from slapcat, or use LDIF from `ditseed export`, which always has a contextCSN."
_NATIVE = {
    "memory": "--memory",
    "jobs": "--jobs",
    "scratch": "--tmp",
    "max_rejects": "--max-rejects",
    "rejects": "--rejects",
    "file_urls": "--allow-file-urls",
}
_SHOWN = 10  # maximum number of names listed in one message
_UNKNOWN = re.compile(r"str2ad\(([^)]+)\): attribute type undefined|unrecognized objectClass '([^']+)'", re.IGNORECASE)


class LdifInputs:
    """The inputs of a verb that loads LDIF files or a generated tree."""

    inputs: tuple[Path, ...]
    tree: Synthetic | None

    @property
    def files(self) -> LdifFiles:
        return LdifFiles(self.inputs)

    @property
    def source(self) -> Source:
        return self.tree or self.files

    def scanned(self, meter: Meter) -> ldif.ScanResult:
        """Scans the whole input, and checks that every file is complete."""
        with self.source.reading(meter) as read:
            result = ldif.scan(names(read), meter)
        ldif.require_read(self.inputs, result.entries)
        return result


@dataclass(frozen=True)
class BuildOptions(DeclaredBuild, LdifInputs):
    """The input (LDIF files, directories of LDIF files, or a `tree`), and the configuration of the database to build.

    `maxsize`: None keeps the configured maxsize; "auto" or a number changes it in the slapd.d, unless `target` replaces
    the configured directory. `seeding`: the database is for a consumer, and so needs a contextCSN, which no entryCSN
    may exceed. The contextCSN is in the LDIF or, with `write_context`, is computed from the entries."""

    seeding: bool = False
    check_schema: bool = True  # False: store entries unchecked, as slapadd -s and slapd's consumers do
    complete_naming: bool = True  # add missing RDN values to entries, as slapadd does
    as_slapadd: bool = False  # refuse `version:` and `changetype:`, as slapadd does
    tree: Synthetic | None = None  # replaces `inputs`
    now: str | None = None  # time for generated attributes; None: computed by `input_time`
    # The following fields are set only for the databases of a glued tree.
    claimed: tuple[str, ...] | None = None  # contextCSN of a consumer's tree; None: the input contains it
    first: int = 0  # counter of the first generated entryCSN
    reached: tuple[str, ...] = ()  # CSNs of the other databases, which the contextCSN of -w must cover

    def below(self, suffix: str) -> BuildOptions:
        """Returns the options with `suffix` as the suffix of the generated tree."""
        return replace(self, tree=self.tree.with_suffix(suffix)) if self.tree else self

    def identity(self) -> dict[str, object]:
        """Returns the options and input fingerprints that must not change between a run and its resumption."""
        return {
            "inputs": self.files.fingerprints(),
            "tree": self.tree.identity() if self.tree else None,
            "config": str(self.config_path.absolute()),
            "suffix": self.suffix,
            "target": str(self.target.absolute()) if self.target else None,
            "maxsize": self.maxsize,
            "write_context": self.write_context,
            "engine": self.engine,
            "shards": self.shards,
            "server_id": self.server_id,
            "max_rejects": self.max_rejects,
            "checks": [self.check_values, self.file_urls],
            "glue": self.glue,
            **({} if self.check_schema else {"check_schema": False}),
            **({} if self.complete_naming else {"complete_naming": False}),
        }

    @property
    def copies_provider(self) -> bool:
        """Whether the database belongs to a consumer, which gets all values of its provider, even invalid values."""
        return self.seeding or self.claimed is not None

    def subordinates(self, place: TargetDatabase) -> list[Database]:
        """Returns the mdb databases glued to the database of `place`. Raises GlueRefused if any cannot be built."""
        if not self.glue or self.target is not None:
            return []
        glued = [each for each in configs.subordinates(place.config, place.database) if each.backend == "mdb"]
        for database in glued:
            suffix = database.suffix
            if database.directory is None:
                advice = f"Build that database by itself (-b {suffix}), and {place.database.suffix} with --no-glue."
                raise GlueRefused(suffix=suffix, reason="it has no directory", advice=advice)
            if self.seeding and database.consumer:
                reason = "it has a syncrepl of its own, and so a contextCSN of its own"
                raise GlueRefused(suffix=suffix, reason=reason, advice=f"Seed it by itself (--suffix {suffix}).")
        return glued

    def input_time(self) -> str:
        """Returns the time for generated attributes such as createTimestamp: `now`, SOURCE_DATE_EPOCH
        (reproducible-builds.org), a fixed time for a tree, the present time for a stream, or the mtime of the newest
        input file, so that the same files always yield the same database."""
        if self.now is not None:
            return self.now
        seconds = os.environ.get(ENV_EPOCH)
        if seconds and seconds.isdigit():
            moment = float(seconds)
        elif self.tree is not None:
            return dit.MOMENT
        else:
            paths, moment = self.files.paths(), time.time()
            if paths and all(path.is_file() for path in paths):
                moment = min(moment, max(path.stat().st_mtime for path in paths))
        return time.strftime("%Y%m%d%H%M%SZ", time.gmtime(moment))

    def require_fitting(self, dry: bool = False) -> None:
        """Raises UsageProblem if options exclude each other. `dry`: for --dry-run, which reads the input twice."""
        unsupported: list[str] = []
        if self.engine == "slapadd":
            default = BuildOptions(Path())
            unsupported = [option for name, option in _NATIVE.items() if getattr(self, name) != getattr(default, name)]
            unsupported += [f"--verify {FULL}"] if self.verify == FULL else []
        if unsupported:
            raise UsageProblem(reason=f"--engine slapadd does not support {', '.join(unsupported)}")
        if self.shards and self.engine != "slapadd":
            raise UsageProblem(reason="--shards works with --engine slapadd only")
        if self.shards and self.tree:
            reason = "--shards divides files, but --from generates a stream: leave --shards out"
            raise UsageProblem(reason=f"{reason}, or `ditseed generate TEMPLATE -o DIR` first")
        if self.files.streamed and (self.seeding or dry):
            once = "--dry-run and seeding read the input more than once: put the stream into a file first"
            raise UsageProblem(reason=f"{self.inputs[0]} is not a file: {once}")
        self.files.require_fitting(self.rejects)


class Scanned(msgspec.Struct, frozen=True):
    """The result of a scan. `attributes`, `object_classes`: name -> file and line of its first use. `claimed`: for a
    consumer, the contextCSN that no entryCSN may exceed."""

    entries: int
    bytes: int
    attributes: dict[str, tuple[str, int]]
    object_classes: dict[str, tuple[str, int]]
    first_dn: str
    claimed: list[str] | None


def scan(options: BuildOptions, place: TargetDatabase, meter: Meter) -> Scanned:
    """Reads the whole input once: checks that every file is complete, counts the entries and collects the names."""
    result = options.scanned(meter)
    if not result.entries:
        raise EmptyInput(path=", ".join(map(str, options.inputs)))
    claimed: list[str] | None = None
    if options.seeding:
        where, suffix = options.inputs[0], place.database.suffix
        claimed = [*(options.claimed or ())] or claimed_csns(result, where, suffix, options.write_context)
    uses = result.attributes, result.object_classes
    return Scanned(result.entries, result.bytes, *uses, result.first_dn or "", claimed)


def claimed_csns(
    scan: ldif.ScanResult, where: Path, suffix: str, write_context: bool, advice: str = NO_CONTEXT
) -> list[str]:
    """Returns the contextCSN of scanned LDIF. If the LDIF has none, returns its highest entryCSNs with `write_context`.
    Otherwise, or if it has no entryCSNs either, raises NoContextCSN with the path `where`."""
    csns = csn.by_server(scan.context_csns) or (dict(scan.max_csns) if write_context else {})
    if not csns:
        raise NoContextCSN(where=where, suffix=suffix, advice=advice, commands=())
    return sorted(csns.values())


class Loaded(msgspec.Struct, frozen=True, omit_defaults=True):
    """The counts of a load. `entries`: number of entries in the new database. `invalid`: for each attribute, how many
    loaded values violate their syntax. `rejects`: file with the rejected records; "" if there are none."""

    read: int
    entries: int
    rejected: int
    invalid: list[str] = msgspec.field(default_factory=list, name="invalid values")
    rejects: str = ""
    rejections: list[Rejected] | None = None  # the first rejected records; None if the engine rejects no records


class Outcome(msgspec.Struct, frozen=True):
    """The result of a build. `more`: further facts for the report, which only this engine has."""

    loaded: Loaded
    published: Published
    more: object = {}
    seconds: float = 0.0

    @property
    def entries(self) -> int:
        return self.loaded.entries

    def report(self) -> Report:
        return report_of(self.loaded, self.more, self.published)


class Engine(Protocol):
    """A module that builds databases."""

    def require(self, options: BuildOptions, place: TargetDatabase) -> None:
        """Raises SettingRefused or NotProven for a configuration that the engine does not support."""

    def prepared(self, options: BuildOptions, run: Run, place: TargetDatabase) -> Callable[[], Outcome]:
        """Builds and checks the database. Returns a function that publishes it."""
        ...


@dataclass(frozen=True)
class BuildSteps:
    """The bodies of the steps that both engines have. Each can be repeated from its beginning."""

    options: BuildOptions
    run: Run
    place: TargetDatabase

    @property
    def environment(self) -> Path:
        """The directory of the new environment, inside the run directory."""
        return self.run.directory / "environment"

    @property
    def data(self) -> Path:
        """The data file of the new environment. No other process writes it, so it is read without a reader slot, which
        would need a child process."""
        return self.environment / DATA

    @property
    def server_id(self) -> int:
        """The server ID for generated entryCSNs."""
        configured = self.place.config.server_id or 0
        return configured if self.options.server_id is None else self.options.server_id

    @property
    def writes_context(self) -> bool:
        return self.options.write_context and not self.options.seeding

    def scan(self, meter: Meter) -> Scanned:
        return scan(self.options, self.place, meter)

    def require_schema(self, scan: Scanned) -> None:
        """Raises NoSuchSuffix if the first entry is below no suffix, SchemaMissing if the schema lacks a name."""
        suffixes, first = self.place.database.suffixes, scan.first_dn
        # In a glued tree, the step `split` has already chosen the entries by suffix.
        if self.place.superior is None and not any(dn.is_below(first, suffix) for suffix in suffixes):
            raise NoSuchSuffix(config=self.place.config.path, suffix=f"of {first}", known=", ".join(suffixes))
        require_known(self.place, scan.attributes, scan.object_classes, self.run.directory)

    def complete(self, meter: Meter) -> tuple[list[str], int]:
        """Writes the contextCSN of a glued tree (with -w), and sets the file's map size to maxsize. Returns notes for
        the operator, and the maxsize. Raises MaxsizeTooSmall, ServerRunning or, for a consumer, SharedUuid."""
        options, place, suffix = self.options, self.place, self.place.database.suffix
        if options.copies_provider:
            verify.require_unique_uuids(self.data, meter, self.run.directory)
        if options.reached and not options.seeding:
            # The superior's contextCSN also covers the entries of the databases glued to it (slapcommon.c).
            stored = contents.context_csns(self.data, suffix)
            csns = sorted(csn.by_server([*stored, *options.reached]).values())
            if sorted(stored) != csns:
                from loader.mdb import edits  # imported here: few builds are of a glued tree

                edits.stamp(self.environment, suffix, csns)
        facts = meta.read_meta(self.data)
        maxsize = choose_maxsize(place, facts.used, options.maxsize, changing=options.target is None)
        if maxsize != facts.map_size:
            from loader.mdb import edits  # imported here: most builds begin with the right map size

            edits.set_map_size(self.data, maxsize)
        return member_of_notes(place.config, place.database, self.data), maxsize

    def put_into_place(self, checked: Checked) -> Published:
        """Publishes the environment. With --target, the configuration stays unchanged."""
        place, database = self.place, msgspec.structs.replace(self.place.database, maxsize=checked.maxsize)
        if self.options.target is not None:
            place = msgspec.structs.replace(place, database=database)
        published = publish_environment(self.environment, place, checked)
        files.remove_tree(self.environment)
        return published


FirstUse = Mapping[str, tuple[str, int]]  # name -> file and line of its first use


def require_known(place: TargetDatabase, attributes: FirstUse, object_classes: FirstUse, scratch: Path) -> None:
    """Raises SchemaMissing, with the first use of each name, if the schema lacks names."""
    uses = {**object_classes, **attributes}
    unknown = unknown_names(place, list(attributes), list(object_classes), scratch)
    require_none_lacking(place.config, [f"{name} ({uses[name][0]}, line {uses[name][1]})" for name in unknown])


def require_none_lacking(config: Config, lacking: Sequence[str]) -> None:
    if lacking:
        raise SchemaMissing(config=config.path, names=units.listed(lacking, _SHOWN))


def unknown_names(
    place: TargetDatabase, attributes: Sequence[str], object_classes: Sequence[str], scratch: Path
) -> list[str]:
    """Returns the names that slapadd does not know. slapadd -u writes nothing, and -c continues after errors."""
    # slapadd rejects all of these records for some reason, but only unknown names match `_UNKNOWN`.
    top = f"dn: {place.database.suffix}\nobjectClass: "
    probes = [f"{top}top\n{name}: x\n\n" for name in attributes] + [f"{top}{name}\n\n" for name in object_classes]
    with place.private_configuration(scratch) as copy:
        command = tools.server_tool("slapadd", "-u", "-c", "-F", str(copy), "-b", place.database.suffix)
        answer = child.run(command, stdin="".join(probes).encode())
    reported = _UNKNOWN.findall("\n".join(answer.stderr_lines))
    unknown = {(attribute or object_class).lower() for attribute, object_class in reported}
    # Where a DN is required, slapadd also reports the value "x". So only names from the parameters are returned.
    return [name for name in (*attributes, *object_classes) if name.lower() in unknown]


def member_of_notes(config: Config, database: Database, path: Path) -> list[str]:
    """Returns a note for each slapo-memberof whose member attribute is stored in `path` (environment or data file) but
    whose memberOf attribute is not: the overlay is inactive in an offline load. Defaults: slapo-memberof(5)."""
    notes = []
    for name, _ in config.entries:
        rdn, _, above = name.lower().partition(",")
        if above != database.entry_dn.lower() or rdn.partition("}")[2] != "memberof":
            continue
        member = next(iter(config.values(name, "olcMemberOfMemberAD")), "member")
        member_of = next(iter(config.values(name, "olcMemberOfMemberOfAD")), "memberOf")
        stored = {attribute.lower().split(";")[0] for attribute in contents.attributes(path)}
        if member.lower() in stored and member_of.lower() not in stored:
            notes.append(
                f"the LDIF had {member} but no {member_of}, and slapo-memberof does not run during an offline load, "
                f"just as with slapadd: searches for {member_of} find nothing. Once slapd runs, have it write the "
                f'{member} of each group again: docs/build.md, "memberOf", has the command'
            )
    return notes
