"""What a slapd is configured to do, as its cn=config tells it. Pure words: reading and writing files is server/'s."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from loader import dn
from loader.errors import ManySuffixes, NoSuchSuffix, NotMdb

DEFAULT_MAXSIZE = 10_485_760  # slapd-mdb(5)
DEFAULT_MODE = 0o600  # slapd-mdb(5)

_LOG = "cn=accesslog"  # its customary suffix, should the overlay be switched off

# Settings of back-mdb that ditseed changes.
TUNED = ("olcDbMaxSize", "olcDbIndex", "olcDbNoSync", "olcDbEnvFlags")

Entry = tuple[str, Mapping[str, Sequence[bytes]]]  # as python-ldap's ldif module yields it


@dataclass(frozen=True)
class Database:
    """One `olcDatabase` entry. Credentials (olcRootPW, olcSyncrepl) are left out on purpose."""

    entry_dn: str  # its own DN below cn=config
    backend: str  # "mdb", "hdb", "monitor", ...
    suffixes: tuple[str, ...]
    directory: Path | None
    maxsize: int = DEFAULT_MAXSIZE
    mode: int = DEFAULT_MODE
    indexes: tuple[str, ...] = ()  # "cn,sn eq,sub", as configured
    env_flags: tuple[str, ...] = ()
    nosync: bool = False  # olcDbNoSync, or nosync among the env flags
    root_dn: str | None = None
    consumer: bool = False  # has syncrepl
    overlays: tuple[str, ...] = ()
    checkpoint: str | None = None  # "KBYTES MINUTES"; back-mdb heeds the minutes alone

    @property
    def suffix(self) -> str:
        return self.suffixes[0]


@dataclass(frozen=True)
class Change:
    """New values of one setting of a database, under its name in cn=config. Empty: the setting is absent."""

    attribute: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Config:
    """The whole configuration. `path` is the slapd.d or slapd.conf it came from; read over LDAP it has a `uri`."""

    path: Path
    databases: tuple[Database, ...]
    # Raw cn=config, credentials included.
    entries: tuple[Entry, ...] = field(repr=False, compare=False)
    server_id: int | None = None  # None: not set, or one for each listener URL
    uri: str | None = None

    @property
    def where(self) -> str:
        """For messages."""
        return f"{self.uri} (cn=config)" if self.uri else str(self.path)

    @property
    def is_directory(self) -> bool:
        """cn=config form (slapd.d) rather than slapd.conf."""
        return self.uri is None and self.path.is_dir()

    @property
    def mdb_databases(self) -> tuple[Database, ...]:
        return tuple(one for one in self.databases if one.backend == "mdb")

    def values(self, entry_dn: str, attribute: str) -> tuple[str, ...]:
        """As stored in an entry of cn=config; none when the entry or the attribute is not there."""
        for name, attributes in self.entries:
            if name.lower() == entry_dn.lower():
                return tuple(_Values(attributes).all(attribute))
        return ()

    def database(self, suffix: str | None) -> Database:
        """The mdb database that holds `suffix`; without one, the only mdb database there is."""
        if suffix is None:
            return self._only()
        for database in self.databases:
            if any(dn.key(suffix) == dn.key(own) for own in database.suffixes):
                if database.backend != "mdb":
                    raise NotMdb(config=self.where, suffix=suffix, backend=database.backend)
                return database
        raise NoSuchSuffix(config=self.where, suffix=suffix, known=self._known())

    def _only(self) -> Database:
        # The database that an accesslog overlay writes to is the overlay's; the data is in the others.
        logs = {
            dn.key(log) for name, _ in self.entries for log in self.values(name, "olcAccessLogDB")
        }
        found = [one for one in self.mdb_databases if dn.key(one.suffix) not in logs | {_LOG}]
        if len(found) == 1:
            return found[0]
        if not found:
            raise NoSuchSuffix(config=self.where, suffix="(any)", known=self._known())
        raise ManySuffixes(config=self.where, known=self._known())

    def _known(self) -> str:
        return ", ".join(suffix for one in self.databases for suffix in one.suffixes) or "none"


def parse(path: Path, entries: Iterable[Entry], uri: str | None = None) -> Config:
    """A Config from the entries of cn=config (`slapcat -n0`, or a search; names in any case)."""
    kept = tuple(entries)
    databases = [
        _database(name, attributes, kept) for name, attributes in kept if _is_database(name)
    ]
    with_suffix = tuple(one for one in databases if one.suffixes)
    return Config(path, with_suffix, kept, _server_id(kept), uri)


def _server_id(entries: Sequence[Entry]) -> int | None:
    """olcServerID: a number (decimal or 0x..), or several with the URL that each is for."""
    for name, attributes in entries:
        if name.lower() == "cn=config":
            values = _Values(attributes).all("olcServerID")
            return number(values[0]) if len(values) == 1 and " " not in values[0] else None
    return None


def number(text: str) -> int:
    """As slapd reads numbers: 0x is hexadecimal, a leading zero octal (lutil_atoix with base 0)."""
    octal = len(text) > 1 and text.startswith("0") and text.isdigit()
    return int(text, 8) if octal else int(text, 0)


def _is_database(name: str) -> bool:
    return re.match(r"olcDatabase=[^,]*,cn=config$", name, re.IGNORECASE) is not None


def _database(
    name: str, attributes: Mapping[str, Sequence[bytes]], entries: Sequence[Entry]
) -> Database:
    values = _Values(attributes)
    backend = re.sub(r"^\{-?\d+\}", "", values.one("olcDatabase") or "")
    flags = tuple(flag for text in values.all("olcDbEnvFlags") for flag in _unordered(text).split())
    directory = values.one("olcDbDirectory")
    return Database(
        entry_dn=name,
        backend=backend,
        suffixes=tuple(values.all("olcSuffix")),
        directory=Path(directory) if directory else None,
        maxsize=number(values.one("olcDbMaxSize") or str(DEFAULT_MAXSIZE)),
        mode=_mode(values.one("olcDbMode")),
        indexes=tuple(_unordered(text) for text in values.all("olcDbIndex")),
        env_flags=flags,
        nosync=(values.one("olcDbNoSync") or "").upper() == "TRUE" or "nosync" in flags,
        root_dn=values.one("olcRootDN"),
        consumer=bool(values.all("olcSyncrepl")),
        overlays=tuple(_overlays(name, entries)),
        checkpoint=values.one("olcDbCheckpoint"),
    )


def _overlays(database_dn: str, entries: Sequence[Entry]) -> Iterable[str]:
    below = "," + database_dn.lower()
    for name, _ in entries:
        if name.lower().endswith(below) and name.lower().startswith("olcoverlay="):
            yield re.sub(r"^olcOverlay=(\{\d+\})?", "", name[: -len(below)], flags=re.IGNORECASE)


def _unordered(text: str) -> str:
    """Without the {n} that cn=config puts before ordered values."""
    return re.sub(r"^\{\d+\}", "", text)


def _mode(text: str | None) -> int:
    """olcDbMode: a number ("0600"; "600" is decimal to slapd) or symbolic ("-rw-------")."""
    if not text:
        return DEFAULT_MODE
    if text[0].isdigit():
        return number(text)
    return sum(1 << (8 - place) for place, letter in enumerate(text[-9:]) if letter != "-")


class _Values:
    """Attribute values as text, names without regard to case."""

    def __init__(self, attributes: Mapping[str, Sequence[bytes]]) -> None:
        self._found = {name.lower(): values for name, values in attributes.items()}

    def all(self, name: str) -> list[str]:
        return [value.decode() for value in self._found.get(name.lower(), [])]

    def one(self, name: str) -> str | None:
        values = self.all(name)
        return values[0] if values else None
