"""Determines what a command line argument names: a server, a database, LDIF, a configuration or a template.

Each command calls `locate` with the kinds that it accepts. The error for any other kind suggests an alternative."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from enum import Enum
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from loader import config, dn, ldif, standard
from loader.defaults import STDIN
from loader.errors import NoSuchPath, NoSuchTemplate, UsageProblem
from loader.ldif import EntryDigests
from loader.mdb import meta
from loader.progress import Meter
from loader.server import configuration
from loader.server.options import Connection
from loader.sources import Comparable, Entries, Entry, Inputs, mdb
from loader.sources.mdb import Part
from loader.storage import files

_DATABASE = "mdb:"  # prefix of an argument that names a database directory, whatever the directory contains


class Kind(Enum):
    """The kinds of arguments. The values are used in messages."""

    SERVER = "a server"
    DATABASE = "a database directory"
    DATA_FILE = "a data file of LMDB"
    CONFIGURATION = "a configuration of slapd"
    TEMPLATE = "a template"
    LDIF = "LDIF"  # a file, a pattern of file names, a directory of files, an export
    STREAM = "a stream"  # standard input, a pipe or a socket, which can be read only once


_INSTEAD = {
    Kind.SERVER: "give it with -H to `ditseed export`",
    Kind.DATABASE: "`ditseed export` makes LDIF from it, and `ditseed clone` copies it",
    Kind.DATA_FILE: "give its directory, in which it must be named data.mdb",
    Kind.CONFIGURATION: "give the directory of its database, or the configuration with --config",
    Kind.TEMPLATE: "give it with --from, or to `ditseed generate`, which makes LDIF from it",
    Kind.LDIF: "`ditseed build` makes a database from it",
    Kind.STREAM: "save it to a file first",
}


class Location(Struct, frozen=True):
    """The object that an argument names. `paths`: files or directories; empty for a server. `lists`: directories with
    word lists for a template. `convert`: converts another program's template, with its parameters, to TOML."""

    kind: Kind
    text: str
    paths: tuple[Path, ...] = ()
    lists: tuple[Path, ...] = ()
    convert: Callable[[Path, Mapping[str, str]], str] | None = None

    @property
    def path(self) -> Path:
        """The only path, or the first of several that match a pattern. A server has no path."""
        return self.paths[0]


def locate(text: str, *accepted: Kind) -> Location:
    """Returns the object that `text` names. Raises NoSuchPath, NotPermitted, NoSuchTemplate; ManifestBroken if an
    export is incomplete; UsageProblem if the kind is not among `accepted`."""
    location = _template(text) if accepted == (Kind.TEMPLATE,) else _location(text)
    kind = location.kind
    if kind not in accepted:
        if kind is Kind.LDIF and location.path.is_dir():
            raise UsageProblem(reason=f"{text} is not a database directory: it contains no {meta.DATA}")
        expected = " or ".join(each.value for each in accepted)
        raise UsageProblem(reason=f"{text} is {kind.value}: {_INSTEAD[kind]}; {expected} is expected here")
    if text == STDIN:
        standard.require_input("the LDIF")
    if kind is Kind.LDIF:
        for path in ldif.input_files(location.paths):
            files.require_readable(path)
    return location


def ldif_inputs(texts: Iterable[str]) -> tuple[Path, ...]:
    """Returns the paths of LDIF arguments, for `ldif.input_files`. Raises the errors of `locate`."""
    return tuple(path for text in texts for path in locate(text, Kind.LDIF, Kind.STREAM).paths)


def require_once(texts: Iterable[str]) -> None:
    """Raises UsageProblem if standard input is given twice."""
    if sum(text == STDIN for text in texts) > 1:
        raise UsageProblem(reason=f"{STDIN} (standard input) is given twice")


def is_stream(path: Path) -> bool:
    """Returns whether `path` can be read only once: standard input, a pipe, or a socket."""
    return str(path) == STDIN or (path.exists() and not path.is_file() and not path.is_dir())


def _location(text: str) -> Location:
    if text.lower().startswith(("ldap://", "ldaps://", "ldapi://")):
        return Location(Kind.SERVER, text)
    if text.startswith(_DATABASE):
        return Location(Kind.DATABASE, text, (Path(text.removeprefix(_DATABASE)),))
    path = Path(text)
    with files.explained(path):
        if is_stream(path):
            return Location(Kind.STREAM, text, (path,))
        if path.exists():
            return Location(_kind(path), text, (path,))
    paths = tuple(sorted(map(Path, glob.glob(text))))
    if not paths:
        raise NoSuchPath(path=text)
    return Location(Kind.LDIF, text, paths)


def _kind(path: Path) -> Kind:
    if (path / meta.DATA).exists():
        return Kind.DATABASE
    files.require_readable(path)
    if (path / "cn=config.ldif").exists() or path.suffix == ".conf":
        return Kind.CONFIGURATION
    if path.suffix == ".toml":
        return Kind.TEMPLATE
    return Kind.DATA_FILE if path.is_file() and meta.is_data_file(path) else Kind.LDIF


def _template(name: str) -> Location:
    """Returns the template `name` of an installed package, or else the template file with the path `name`. Packages
    declare the entry point `ditseed.templates`, so that `loader` need not import them."""
    from importlib.metadata import entry_points  # imported here: it takes a third of a command's start-up time

    try:
        for entry in entry_points(group="ditseed.templates"):
            path, lists, convert = entry.load()(name)
            return Location(Kind.TEMPLATE, name, (path,), tuple(lists), convert)
    except NoSuchTemplate as error:
        try:
            return _location(name)
        except NoSuchPath:
            raise error from None
    raise NoSuchTemplate(name=name, known="none, because no installed package has any")


def comparable(text: str, connection: Connection, read_twice: bool = False) -> Comparable:
    """Returns the side of `ditseed compare` that `text` names. `connection`: the bind options, and the base or suffix.
    `read_twice` refuses a stream, because it can be read only once. Raises the errors of `locate`."""
    from loader.sources.ldap import Server  # imported here: python-ldap takes 40 ms to load

    streams = () if read_twice else (Kind.STREAM,)
    location = locate(text, Kind.SERVER, Kind.DATABASE, Kind.CONFIGURATION, Kind.LDIF, *streams)
    if location.kind is Kind.SERVER:
        return Server(replace(connection, uri=text))
    if location.kind in (Kind.DATABASE, Kind.CONFIGURATION):
        return ConfiguredDatabase(location.path, connection.base)
    return LdifFiles((Path("/dev/stdin"),) if text == STDIN else location.paths, text)


# --- LDIF ------------------------------------------------------------------------------------------------------------


class LdifFiles(Struct, frozen=True):
    """LDIF on the command line: files, directories of files, exports, or `-`."""

    given: tuple[Path, ...]
    label: str = ""

    @property
    def streamed(self) -> bool:
        return any(map(is_stream, self.given))

    def entries(self) -> int | None:
        """Returns the entry count from the manifests; None without a manifest. Raises ManifestBroken, UsageProblem."""
        return ldif.entries_of(self.given)

    def paths(self) -> list[Path]:
        """Returns the paths of the LDIF files in loading order."""
        return ldif.input_files(self.given)

    def fingerprints(self) -> list[list[object]]:
        """Returns each file's path, size and mtime, by which changes are recognized; for a stream, only the path."""
        fingerprints: list[list[object]] = []
        for path in self.paths():
            if is_stream(path):
                fingerprints.append([str(path)])
                continue
            files.require_readable(path)
            status = path.stat()
            fingerprints.append([str(path.absolute()), status.st_size, status.st_mtime_ns])
        return fingerprints

    def require_fitting(self, rejects: Path | None) -> None:
        """Raises UsageProblem if standard input is given twice, or if `rejects` is one of the input files."""
        require_once(map(str, self.given))
        if rejects and rejects.exists() and any(path.exists() and rejects.samefile(path) for path in self.paths()):
            raise UsageProblem(reason=f"--rejects {rejects}: is also an input")

    @contextmanager
    def reading(self, meter: Meter) -> Iterator[Inputs]:
        """Yields the inputs. After the body, raises the errors of `ldif.verified_inputs`."""
        with ldif.verified_inputs(self.given, meter) as paths:
            yield [0 if str(path) == STDIN else path for path in paths]

    def digest(self, ignore: Sequence[str], meter: Meter) -> EntryDigests:
        with ldif.verified_inputs(self.given, meter) as paths, ldif.digesting(ignore, meter) as tree:
            for path in paths:
                tree.add_path(str(path))
        ldif.require_read(self.given, tree.entries)
        return tree

    def find(self, names: Sequence[str]) -> Entries:
        return {name: entry for path in self.paths() for name, entry in find(path, names).items()}


def find(source: bytes | Path, names: Sequence[str]) -> Entries:
    """Maps `dn.key` of each of the DNs `names` to its entry. Omits DNs that the LDIF lacks."""
    return {dn.key(name): entry for name, entry in entries(source, names)}


def entries(source: bytes | Path, names: Sequence[str] | None = None, most: int = 0) -> list[tuple[str, Entry]]:
    """Returns the records in LDIF text or in a file, which may be compressed: their DNs (spelled as there) and
    attributes. `names`: DNs of the records to return; None: all. `most`: maximum number of records; 0: no limit."""
    if isinstance(source, bytes):
        records = ldif.records(source, "LDIF", names, most)
    else:
        with files.explained(source), source.open("rb") as file:
            records = ldif.records(file.fileno(), str(source), names, most)
    result: list[tuple[str, Entry]] = []
    for name, attributes in records:
        entry: Entry = {}
        for attribute, values in attributes.items():
            entry[attribute.lower()] = entry.get(attribute.lower(), frozenset()).union(values)
        result.append((name, entry))
    return result


# --- databases -------------------------------------------------------------------------------------------------------


class ConfiguredDatabase(Struct, frozen=True):
    """The entries of a database below `base`; slapd may be running. `path`: the database directory, or a configuration
    of slapd. In a configuration, `base` selects the mdb database (None: the only one), and the databases glued to it
    are included, as by slapcat."""

    path: Path
    base: str | None = None

    @property
    def label(self) -> str:
        return str(self.path)

    def parts(self) -> list[Part]:
        """Returns the parts of databases to read. Raises NoSuchSuffix, ManySuffixes, NotMdb, NoSuchPath, NotLmdb."""
        base = self.base
        if mdb.is_database(self.path):
            return [Part(self.path, base)]
        source = configuration.read(self.path)
        suffixes = (suffix for database in source.databases for suffix in database.suffixes)
        upper_suffixes = (suffix for suffix in suffixes if base is not None and dn.is_below(base, suffix))
        database = source.database(next(upper_suffixes, base))
        # If the base is a suffix, in any spelling, the whole database is read.
        is_whole = base is None or dn.key(base) in map(dn.key, database.suffixes)
        top = database.suffix if base is None else base
        glued = (  # slapd.conf(5), subordinate
            (other, None)
            for other in config.subordinates(source, database)
            if other.backend == "mdb" and dn.is_below(other.suffix, top)
        )
        parts = []
        for each, below in ((database, None if is_whole else base), *glued):
            if each.directory is None:
                raise NoSuchPath(path="the database's directory")
            parts.append(Part(each.directory, below))
        return parts

    def digest(self, ignore: Sequence[str], meter: Meter) -> EntryDigests:
        with ldif.digesting(ignore, meter) as tree:
            for part in self.parts():
                mdb.digest(part, tree, meter)
            return tree

    def find(self, names: Sequence[str]) -> Entries:
        return {name: entry for part in self.parts() for name, entry in find(mdb.find(part, names), names).items()}
