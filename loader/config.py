"""The configuration of a slapd, in the form of cn=config, and which of several glued databases contains an entry. The
files are read and written by loader/server/."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from loader import dn
from loader.errors import ManySuffixes, NoSuchSuffix, NotMdb
from loader.values import Attributes, Values

DEFAULT_MAXSIZE = 10_485_760  # slapd-mdb(5)
DEFAULT_MODE = 0o600  # slapd-mdb(5)

_EMPTY = '""'  # in messages, the empty DN
_LOG = "cn=accesslog"  # usual suffix of an accesslog, to recognise one whose overlay is not configured
_LOG_DB = "olcAccessLogDB"

# Attributes of cn=config that are no settings: operational ones, and the location the configuration was read from.
NOT_SETTINGS = {
    *("structuralobjectclass", "entryuuid", "creatorsname", "createtimestamp", "entrycsn"),
    *("modifiersname", "modifytimestamp", "contextcsn", "olcconfigfile", "olcconfigdir"),
    *("entrydn", "subschemasubentry", "hassubordinates"),
}

Entry = tuple[str, Attributes]  # as `ldif.records` yields it


@dataclass(frozen=True)
class Database:
    """One `olcDatabase` entry. Credentials (olcRootPW, olcSyncrepl) are left out on purpose."""

    entry_dn: str  # DN of its entry in cn=config
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
    checkpoint: str | None = None  # "KBYTES MINUTES"; back-mdb uses only the minutes

    @property
    def suffix(self) -> str:
        return self.suffixes[0]


@dataclass(frozen=True)
class Change:
    """A change of one setting of a database. `attribute`: its name in cn=config. `before`, `after`: empty if absent."""

    attribute: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Config:
    """A whole configuration. `path`: its slapd.d or slapd.conf. `uri`: of the server, if it was read over LDAP."""

    path: Path
    databases: tuple[Database, ...]
    # Raw cn=config, credentials included.
    entries: tuple[Entry, ...] = field(repr=False, compare=False)
    server_id: int | None = None  # None: not set, or set per listener URL
    uri: str | None = None

    @property
    def where(self) -> str:
        return f"{self.uri} (cn=config)" if self.uri else str(self.path)

    @property
    def overlays(self) -> tuple[str, ...]:
        return tuple(
            overlay for name, _ in self.entries if _is_database(name) for overlay in _overlays(name, self.entries)
        )

    @property
    def is_directory(self) -> bool:
        return self.uri is None and self.path.is_dir()

    @property
    def settings(self) -> dict[tuple[str, str], list[bytes]]:
        """(DN, attribute) in lower case -> values. Equal for a slapd.conf and the slapd.d converted from it."""
        return {
            # slapd adds {0} to a single value when it reads a slapd.d, but not when it converts a slapd.conf.
            (dn.lower(), name.lower()): [values[0].removeprefix(b"{0}")] if len(values) == 1 else sorted(values)
            for dn, attributes in self.entries
            for name, values in attributes.items()
            if name.lower() not in NOT_SETTINGS and not dn.lower().startswith("cn=include")  # exists in OpenLDAP 2.4
        }

    @property
    def mdb_databases(self) -> tuple[Database, ...]:
        return tuple(one for one in self.databases if one.backend == "mdb")

    def reader(self, *entry_dns: str) -> Values:
        """Returns the settings of these entries of cn=config, in this order; missing entries are skipped."""
        found = {name.lower(): attributes for name, attributes in self.entries}
        return Values(self.where, *(found.get(name.lower(), {}) for name in entry_dns))

    def values(self, entry_dn: str, attribute: str) -> tuple[str, ...]:
        """Returns the values of an attribute in an entry of cn=config; empty if the entry or attribute is missing."""
        return tuple(self.reader(entry_dn).stored(attribute))

    def database(self, suffix: str | None) -> Database:
        """Returns the mdb database with `suffix`, or the only one. Raises NotMdb, NoSuchSuffix, ManySuffixes."""
        if suffix is None:
            # Databases that an accesslog overlay writes to do not count.
            logs = {dn.key(_LOG)} | {dn.key(log) for name, _ in self.entries for log in self.reader(name).dns(_LOG_DB)}
            candidates = [one for one in self.mdb_databases if dn.key(one.suffix) not in logs]
            if not candidates:
                raise NoSuchSuffix(config=self.where, suffix="(any)", known=_suffixes(self.databases))
            if candidates[1:]:
                raise ManySuffixes(config=self.where, known=_suffixes(self.mdb_databases))
            return candidates[0]
        for database in self.databases:
            if any(dn.key(suffix) == dn.key(own) for own in database.suffixes):
                if database.backend != "mdb":
                    raise NotMdb(config=self.where, suffix=suffix, backend=database.backend)
                return database
        raise NoSuchSuffix(config=self.where, suffix=suffix or _EMPTY, known=_suffixes(self.databases))

    def database_of(self, suffixes: Sequence[str], whose: str, wanted: str | None = None) -> Database:
        """Returns the mdb database of `wanted`, else of one of `suffixes` (those of a data file), else the only one.
        Raises NoSuchSuffix, naming the file as `whose`, if it cannot hold all `suffixes`; ManySuffixes, NotMdb."""
        if wanted is None:
            known = {dn.key(one) for database in self.mdb_databases for one in database.suffixes}
            wanted = next((one for one in suffixes if dn.key(one) in known), None)
        found = self.database(wanted)
        for one in suffixes:
            if not any(dn.is_below(one, own) for own in found.suffixes):
                of_file, has = f"{one}, which {whose} has", ", ".join(found.suffixes)
                raise NoSuchSuffix(config=self.where, suffix=of_file, known=has)
        return found

    @property
    def logs(self) -> tuple[tuple[Database, str], ...]:
        """The databases with the accesslog overlay, each with the suffix of its log."""
        return tuple(
            (database, log)
            for name, _ in self.entries
            for log in self.reader(name).dns(_LOG_DB)
            for database in self.databases
            if name.lower().endswith("," + database.entry_dn.lower())
        )


def _suffixes(databases: Iterable[Database]) -> str:
    return ", ".join(suffix or _EMPTY for one in databases for suffix in one.suffixes) or "none"


def parse(path: Path, entries: Iterable[Entry], uri: str | None = None) -> Config:
    """Builds a Config from the entries of cn=config (slapcat -n0, or a search; any case). Raises ConfigValue."""
    config = Config(path, (), tuple(entries), uri=uri)
    databases = []
    for name in (name for name, _ in config.entries if _is_database(name)):
        settings = config.reader(name)
        flags = tuple(flag for value in settings.words("olcDbEnvFlags") for flag in value)
        directory = settings.word("olcDbDirectory")
        database = Database(
            entry_dn=name,
            backend=settings.word("olcDatabase") or "",
            suffixes=tuple(settings.dns("olcSuffix")),
            directory=Path(directory) if directory else None,
            maxsize=settings.number("olcDbMaxSize", DEFAULT_MAXSIZE),
            mode=settings.mode("olcDbMode", DEFAULT_MODE),
            indexes=tuple(" ".join(value) for value in settings.words("olcDbIndex")),
            env_flags=flags,
            nosync=settings.flag("olcDbNoSync", False) or "nosync" in map(str.lower, flags),
            root_dn=settings.dn("olcRootDN"),
            consumer=bool(settings.all("olcSyncrepl")),
            overlays=tuple(_overlays(name, config.entries)),
            checkpoint=" ".join(next(iter(settings.words("olcDbCheckpoint")), [])) or None,
        )
        databases += [database] if database.suffixes else []
    return replace(config, databases=tuple(databases), server_id=config.reader("cn=config").server_id())


def _is_database(name: str) -> bool:
    return re.match(r"olcDatabase=[^,]*,cn=config$", name, re.IGNORECASE) is not None


def _overlays(database_dn: str, entries: Sequence[Entry]) -> Iterable[str]:
    below = "," + database_dn.lower()
    for name, _ in entries:
        if name.lower().endswith(below) and name.lower().startswith("olcoverlay="):
            yield re.sub(r"^olcOverlay=(\{\d+\})?", "", name[: -len(below)], flags=re.IGNORECASE)


# --- glued databases (slapd.conf(5), `subordinate`): which of them contains an entry ------------------
#
# slapd glues a subordinate database to the first database after it in the configuration that is not subordinate itself
# and has a suffix above its own (backglue.c, glue_sub_attach). So nested subordinates all have the same superior.


def is_subordinate(config: Config, database: Database) -> bool:
    """Whether olcSubordinate is set (TRUE or "advertise")."""
    return bool(config.values(database.entry_dn, "olcSubordinate"))


def superior(config: Config, database: Database) -> Database | None:
    """Returns the database to which a subordinate database is glued; None if it is not subordinate."""
    behind = config.databases[config.databases.index(database) + 1 :] if is_subordinate(config, database) else ()
    above = (one for one in behind if not is_subordinate(config, one) and dn.is_below(database.suffix, one.suffix))
    return next(above, None)


def subordinates(config: Config, database: Database) -> list[Database]:
    return [one for one in config.databases if superior(config, one) == database]


def suffixes_below(config: Config, database: Database) -> list[str]:
    """Returns the suffixes of other databases below those of `database`, without duplicates, in configuration order.
    slapd looks for their entries in those databases. Skips hidden and disabled ones (backend.c, select_backend)."""
    below: dict[str, str] = {}
    for other in config.databases:
        reader = config.reader(other.entry_dn)
        if other.entry_dn == database.entry_dn or any(reader.flag(one, False) for one in ("olcHidden", "olcDisabled")):
            continue
        for suffix in filter(dn.key, other.suffixes):
            if any(dn.is_below(suffix, own) for own in database.suffixes):
                below[dn.key(suffix)] = suffix
    return list(below.values())
