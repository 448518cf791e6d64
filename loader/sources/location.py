"""What a name on a command line stands for: a server, a database, LDIF, a configuration or a template.

Every verb asks `locate`, and says which kinds it takes; the others are refused here, with what to do instead."""

from __future__ import annotations

import glob
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from loader import config, dn, exports, standard
from loader.config import Config, Database
from loader.errors import NoSuchPath, NoSuchTemplate, UsageProblem
from loader.mdb import meta
from loader.server import configuration
from loader.sources.mdb import Part, is_database
from loader.storage import files

STDIN = "-"
_SCHEMES = ("ldap://", "ldaps://", "ldapi://")
_DATABASE = "mdb:"  # before a directory: a database, whatever is in there
_TEMPLATES = "ditseed.templates"


class Kind(Enum):
    """What a name may stand for; the value is for messages."""

    SERVER = "a server"
    DATABASE = "a database directory"
    DATA_FILE = "a data file of LMDB"
    CONFIGURATION = "a configuration of slapd"
    TEMPLATE = "a template"
    LDIF = "LDIF"  # files, a pattern of such, a directory of them, an export
    STREAM = "a stream"  # standard input, a pipe, a socket: read once


_INSTEAD = {
    Kind.SERVER: "give it with -H to `ditseed export`",
    Kind.DATABASE: "`ditseed export` makes LDIF of it, and `ditseed clone` copies it",
    Kind.DATA_FILE: "give the directory that contains it, where it has to be named data.mdb",
    Kind.CONFIGURATION: "give the directory of its database, or the configuration with --config",
    Kind.TEMPLATE: "give it with --from, or to `ditseed generate`, which makes LDIF of it",
    Kind.LDIF: "`ditseed build` makes a database of it",
    Kind.STREAM: "put it into a file first",
}


@dataclass(frozen=True)
class Location:
    """paths: files or directories; none of a server. lists: directories of a template's word lists. convert: makes TOML
    of another program's template, with values for its defines."""

    kind: Kind
    text: str
    paths: tuple[Path, ...] = ()
    lists: tuple[Path, ...] = ()
    convert: Callable[[Path, Mapping[str, str]], str] | None = None

    @property
    def path(self) -> Path:
        """Of any kind but a server and a pattern, the only one."""
        return self.paths[0]


def locate(text: str, *taken: Kind) -> Location:
    """What `text` stands for. Raises NoSuchPath, NotPermitted, NoSuchTemplate; ManifestBroken for an export that is not
    complete; UsageProblem for every kind that is not `taken`."""
    found = _template(text) if taken == (Kind.TEMPLATE,) else _found(text)
    if found.kind not in taken:
        raise _refused(found, taken)
    if text == STDIN:
        standard.require_input("the LDIF")
    if found.kind is Kind.LDIF:
        for path in exports.files_of(found.paths):
            files.require_readable(path)
    return found


def ldif_inputs(texts: Iterable[str]) -> tuple[Path, ...]:
    """LDIF to be loaded, as `exports` takes it. Raises as `locate`."""
    return tuple(path for text in texts for path in locate(text, Kind.LDIF, Kind.STREAM).paths)


def require_once(texts: Iterable[str]) -> None:
    """Raises UsageProblem if standard input is given twice."""
    if sum(text == STDIN for text in texts) > 1:
        raise UsageProblem(reason=f"{STDIN} (standard input) is given twice")


def is_stream(path: Path) -> bool:
    """Can it be read only once?"""
    return str(path) == STDIN or (path.exists() and not path.is_file() and not path.is_dir())


def _found(text: str) -> Location:
    if text.lower().startswith(_SCHEMES):
        return Location(Kind.SERVER, text)
    if text.startswith(_DATABASE):
        return Location(Kind.DATABASE, text, (Path(text.removeprefix(_DATABASE)),))
    path = Path(text)
    with files.explained(path):
        if is_stream(path):
            return Location(Kind.STREAM, text, (path,))
        if path.exists():
            return Location(_kind(path), text, (path,))
    paths = tuple(sorted(Path(one) for one in glob.glob(text)))
    if not paths:
        raise NoSuchPath(path=text)
    return Location(Kind.LDIF, text, paths)


def _kind(path: Path) -> Kind:
    """Of a directory or file."""
    if (path / meta.DATA).exists():
        return Kind.DATABASE
    files.require_readable(path)
    if (path / "cn=config.ldif").exists() or path.suffix == ".conf":
        return Kind.CONFIGURATION
    if path.suffix == ".toml":
        return Kind.TEMPLATE
    return Kind.DATA_FILE if path.is_file() and meta.is_data_file(path) else Kind.LDIF


def _template(name: str) -> Location:
    """Of a package that ships templates (`ditseed.templates` of setup.cfg, so that loader does not import seeders), or
    a file."""
    from importlib.metadata import entry_points  # a third of the start of a verb

    try:
        for entry in entry_points(group=_TEMPLATES):
            path, lists, convert = entry.load()(name)
            return Location(Kind.TEMPLATE, name, (path,), tuple(lists), convert)
    except NoSuchTemplate as error:
        try:
            return _found(name)
        except NoSuchPath:
            raise error from None
    raise NoSuchTemplate(name=name, known="none; no installed package has any")


def _refused(found: Location, taken: Iterable[Kind]) -> UsageProblem:
    kind = found.kind.value
    if found.kind is Kind.LDIF and found.path.is_dir():
        return UsageProblem(reason=f"{found.text} is not a database directory: it contains no {meta.DATA}")
    wanted = " or ".join(one.value for one in taken)
    instead = _INSTEAD[found.kind]
    return UsageProblem(reason=f"{found.text} is {kind}: {instead}; expected here is {wanted}")


# --- configured ------------------------------------------------------------------------------------------------------
#
# The databases that a configuration has for the entries below a base: it only tells where they lie.


@dataclass(frozen=True)
class ConfiguredDatabase:
    """The entries below `base` of a database directory; or of the mdb database that a configuration has for them
    (None: all of the only one), those of glued subordinate databases too, as slapcat has it.
    """

    place: Path
    base: str | None = None

    @property
    def label(self) -> str:
        return str(self.place)

    def parts(self) -> list[Part]:
        """Raises NoSuchSuffix, ManySuffixes, NotMdb, NoSuchPath, NotLmdb."""
        if is_database(self.place):
            return [Part(self.place, self.base)]
        found = configuration.read(self.place)
        database = _database(found, self.base)
        own = [Part(_directory(database), _below(self.base, database))]
        return [*own, *_subordinate(found, database, self.base)]


def _database(found: Config, base: str | None) -> Database:
    """The one that holds the base; without one, the only one."""
    for database in found.databases:
        for suffix in database.suffixes:
            if base is not None and dn.is_below(base, suffix):
                return found.database(suffix)
    return found.database(base)


def _below(base: str | None, database: Database) -> str | None:
    """None where the base is the suffix: all that is stored, whatever the spelling."""
    suffixes = {dn.key(suffix) for suffix in database.suffixes}
    return None if base is None or dn.key(base) in suffixes else base


def _subordinate(found: Config, database: Database, base: str | None) -> Iterator[Part]:
    """Databases glued to this one (slapd.conf(5), subordinate), as far as they are below the base."""
    top = base if base is not None else database.suffix
    for other in config.subordinates(found, database):
        if other.backend == "mdb" and dn.is_below(other.suffix, top):
            yield Part(_directory(other))


def _directory(database: Database) -> Path:
    if database.directory is None:
        raise NoSuchPath(path="the database's directory")
    return database.directory
