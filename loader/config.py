"""A slapd configuration in the form of cn=config: its values, its databases, and which databases are subordinate.
loader/server/ reads and writes the files. This module begins with the syntax of words and values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import NoReturn

from msgspec import Struct

from loader import dn
from loader.errors import ConfigValue, ManySuffixes, NoSuchPath, NoSuchSuffix, NotMdb

_SPACE = " \t\n\v\f\r"  # isspace(3) in the C locale


def words_of_line(line: str) -> list[str]:
    """Splits a line of slapd.conf into words. Quotes can begin and end anywhere; a backslash escapes a character."""
    words, word, quoted = [], None, False
    characters = iter(line)
    for char in characters:
        if char in " \t" and not quoted:
            if word is not None:
                words.append(word)
            word = None
            continue
        word = word or ""
        if char == '"':
            quoted = not quoted
        else:
            word += next(characters, "\\") if char == "\\" else char
    return words if word is None else [*words, word]


def words_of_value(value: str) -> list[str]:
    """Splits a value of cn=config into words. Quotes inside a word do not end the quoting; slapd drops the last."""
    words, rest = [], value
    while rest:
        rest = rest.lstrip(_SPACE)
        quoted = rest.startswith('"')
        text = rest[1:] if quoted else rest
        inner, end = -1, len(text)  # inner: index of the last quote inside the word
        for at, char in enumerate(text):
            if char == '"' and not (quoted and text[at + 1 : at + 2] in ("", *_SPACE)):
                inner, quoted = at, True
            elif char == '"' or (char in _SPACE and not quoted):
                end = at
                break
        words.append(text[:end] if inner < 0 else text[:inner] + text[inner + 1 : end])
        rest = text[end + 1 :].lstrip(_SPACE)
    return words


def value_of_word(word: str) -> str:
    """Returns the word, in quotes if cn=config needs quotes. slapd omits the quotes when it converts a slapd.conf."""
    return word if words_of_value(word) == [word] else f'"{word}"'


def value_of_single(text: str) -> str:
    """Returns a value of cn=config for a setting of one word: `text`, in quotes if slapd would split it."""
    return text if len(words_of_value(text)) == 1 else value_of_word(text)


def line_of_word(word: str) -> str:
    return '"' + re.sub(r'(["\\])', r"\\\1", word) + '"'


def unnumbered(value: str) -> str:
    """Returns a value without the {n} in front of ordered values."""
    return re.sub(r"^\{-?\d+\}", "", value)


Attributes = Mapping[str, Sequence[bytes]]

_NUMBER = re.compile(r"[+-]?(?:0[xX][0-9a-fA-F]+|0[0-7]*|[1-9][0-9]*)")  # strtol(3), base 0
_SWITCH = {"on": True, "true": True, "yes": True, "off": False, "false": False, "no": False}


class Values:
    """The settings of some entries of cn=config, with case-insensitive names. Bytes that are not UTF-8 become surrogate
    escapes. Methods raise ConfigValue for values that slapd would refuse."""

    def __init__(self, where: str, *entries: Attributes) -> None:
        self._where = where
        self._entries = [{name.lower(): values for name, values in entry.items()} for entry in entries]

    def stored(self, name: str) -> list[str]:
        values = (value for entry in self._entries for value in entry.get(name.lower(), ()))
        return [value.decode("utf-8", "surrogateescape") for value in values]

    def all(self, name: str) -> list[str]:
        return [unnumbered(value) for value in self.stored(name)]

    def words(self, name: str) -> list[list[str]]:
        return [words_of_value(value) for value in self.all(name)]

    def word(self, name: str) -> str | None:
        """Returns the value of a setting of one word, or None if it is not set. The last of several values counts."""
        word = None
        for value in self.all(name):
            words = words_of_value(value)
            if len(words) != 1:
                self._refuse(name, value, "not a single word")
            word = words[0]
        return word

    def pairs(self, name: str) -> Iterator[tuple[str, str]]:
        for value in self.all(name):
            first, *others = words_of_value(value) or [""]
            if len(others) != 1:
                self._refuse(name, value, "not two words")
            yield first, others[0]

    def dns(self, name: str) -> list[str]:
        """Returns the DNs in a setting; an empty value is the empty DN. DNs with spaces need no quotes (ARG_QUOTE)."""
        return ["".join(words_of_value(text)[:1]) if text.startswith('"') else text for text in self.all(name)]

    def dn(self, name: str) -> str | None:
        return next(iter(self.dns(name)), None)

    def number(self, name: str, default: int) -> int:
        """Returns the number in a setting: hexadecimal after 0x, octal after 0 (lutil_atoix, base 0)."""
        text = self.word(name)
        if text is None:
            return default
        if not _NUMBER.fullmatch(text):
            self._refuse(name, text, "not a number")
        sign, digits = -1 if text[0] == "-" else 1, text.lstrip("+-")
        octal = len(digits) > 1 and digits.isdigit() and digits[0] == "0"
        return sign * int(digits, 8 if octal else 0)

    def flag(self, name: str, default: bool) -> bool:
        word = self.word(name)
        if word is None:
            return default
        if word.lower() not in _SWITCH:
            self._refuse(name, word, "neither TRUE nor FALSE")
        return _SWITCH[word.lower()]

    def mode(self, name: str, default: int) -> int:
        """Returns permissions, written "0600" or "-rw-------". slapd reads "600" without the 0 as a decimal number."""
        text = self.word(name)
        if text is None:
            return default
        if text[:1].isdigit():
            return self.number(name, default)
        if not re.fullmatch("-" + 3 * "[r-][w-][x-]", text):
            self._refuse(name, text, "neither a number nor in the form -rw-------")
        return sum(1 << (8 - at) for at, letter in enumerate(text[1:]) if letter != "-")

    def server_id(self) -> int | None:
        """Returns olcServerID, which may be hexadecimal (bconfig.c); None if it is unset, or set per listener URL."""
        values = self.words("olcServerID")
        if len(values) != 1 or len(values[0]) != 1:
            return None
        text = values[0][0]
        if not re.fullmatch(r"\+?(?:0[xX])?[0-9a-fA-F]+", text):
            self._refuse("olcServerID", text, "not a number")
        return int(text, 10 if text.lstrip("+").isdigit() else 16)

    def _refuse(self, name: str, value: str, reason: str) -> NoReturn:
        raise ConfigValue(config=self._where, attribute=name, value=value, reason=reason)


DEFAULT_MAXSIZE = 10_485_760  # bytes (slapd-mdb(5))
DEFAULT_MODE = 0o600  # slapd-mdb(5)

_EMPTY = '""'  # the empty DN in messages
_LOG = "cn=accesslog"  # usual suffix of an accesslog; a database with this suffix always counts as an accesslog
_LOG_DB = "olcAccessLogDB"

# Attributes of cn=config that are not settings: operational attributes, and the path of the configuration.
NOT_SETTINGS = {
    *("structuralobjectclass", "entryuuid", "creatorsname", "createtimestamp", "entrycsn"),
    *("modifiersname", "modifytimestamp", "contextcsn", "olcconfigfile", "olcconfigdir"),
    *("entrydn", "subschemasubentry", "hassubordinates"),
}

Entry = tuple[str, Attributes]  # as `ldif.records` yields it


class Database(Struct, frozen=True):
    """One `olcDatabase` entry, without its credentials (olcRootPW, olcSyncrepl)."""

    entry_dn: str  # in cn=config
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

    def require_directory(self, config: Path) -> Path:
        """Returns the directory. Raises NoSuchPath, which names the configuration `config`, if none is configured."""
        if self.directory is None:
            raise NoSuchPath(path=f"{config}: the directory of {self.suffix}")
        return self.directory


class Change(Struct, frozen=True):
    """A change of one setting of a database. `attribute`: its name in cn=config. `before`, `after`: empty if absent."""

    attribute: str
    before: tuple[str, ...]
    after: tuple[str, ...]


@dataclass(frozen=True)
class Config:
    """A whole configuration. `path`: its slapd.d or slapd.conf. `uri`: the server's URI, if read over LDAP."""

    path: Path
    databases: tuple[Database, ...]
    entries: tuple[Entry, ...] = field(repr=False, compare=False)  # of cn=config, with credentials
    server_id: int | None = None  # None: not set, or set per listener URL
    uri: str | None = None

    @property
    def where(self) -> str:
        return f"{self.uri} (cn=config)" if self.uri else str(self.path)

    @property
    def overlays(self) -> tuple[str, ...]:
        databases = (name for name, _ in self.entries if _is_database(name))
        return tuple(overlay for name in databases for overlay in _overlays(name, self.entries))

    @property
    def is_directory(self) -> bool:
        return self.uri is None and self.path.is_dir()

    @property
    def settings(self) -> dict[tuple[str, str], list[bytes]]:
        """Maps DN and attribute, in lower case, to values. Equal for a slapd.conf and the slapd.d converted from it."""
        return {
            # slapd adds {0} to a single value when it reads a slapd.d, but not when it converts a slapd.conf.
            (dn.lower(), name.lower()): [values[0].removeprefix(b"{0}")] if len(values) == 1 else sorted(values)
            for dn, attributes in self.entries
            for name, values in attributes.items()
            # Entries cn=include exist only in OpenLDAP 2.4.
            if name.lower() not in NOT_SETTINGS and not dn.lower().startswith("cn=include")
        }

    @property
    def mdb_databases(self) -> tuple[Database, ...]:
        return tuple(database for database in self.databases if database.backend == "mdb")

    def reader(self, *entry_dns: str) -> Values:
        """Returns the settings of these entries of cn=config, in this order; skips missing entries."""
        entries = {name.lower(): attributes for name, attributes in self.entries}
        return Values(self.where, *(entries.get(name.lower(), {}) for name in entry_dns))

    def values(self, entry_dn: str, attribute: str) -> tuple[str, ...]:
        """Returns the values of an attribute in an entry of cn=config; empty if the entry or attribute is missing."""
        return tuple(self.reader(entry_dn).stored(attribute))

    def database(self, suffix: str | None) -> Database:
        """Returns the mdb database with `suffix` (None: the only one). Raises NotMdb, NoSuchSuffix, ManySuffixes."""
        if suffix is None:
            # Databases that contain an accesslog do not count.
            logs = {dn.key(_LOG)} | {dn.key(log) for name, _ in self.entries for log in self.reader(name).dns(_LOG_DB)}
            candidates = [each for each in self.mdb_databases if dn.key(each.suffix) not in logs]
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

    def database_of(self, suffixes: Sequence[str], file: str, chosen: str | None) -> Database:
        """Returns the mdb database for a data file with `suffixes`: the database with the suffix `chosen`, or else with
        one of `suffixes`, or else the only one. Raises NoSuchSuffix if `suffixes` do not fit; ManySuffixes, NotMdb."""
        if chosen is None:
            keys = {dn.key(own) for database in self.mdb_databases for own in database.suffixes}
            chosen = next((suffix for suffix in suffixes if dn.key(suffix) in keys), None)
        database = self.database(chosen)
        for suffix in suffixes:
            if not any(dn.is_below(suffix, own) for own in database.suffixes):
                in_file, known = f"{suffix}, which {file} has", ", ".join(database.suffixes)
                raise NoSuchSuffix(config=self.where, suffix=in_file, known=known)
        return database

    @property
    def logs(self) -> tuple[tuple[Database, str, str], ...]:
        """Databases with the accesslog overlay, each with the suffix of its log and the DN of the overlay's entry."""
        return tuple(
            (database, log, name)
            for name, _ in self.entries
            for log in self.reader(name).dns(_LOG_DB)
            for database in self.databases
            if name.lower().endswith("," + database.entry_dn.lower())
        )


def _suffixes(databases: Iterable[Database]) -> str:
    return ", ".join(suffix or _EMPTY for database in databases for suffix in database.suffixes) or "none"


def parse(path: Path, entries: Iterable[Entry], uri: str | None = None) -> Config:
    """Builds a Config from the entries of cn=config. The case of names does not matter. Raises ConfigValue."""
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
# slapd glues a subordinate database to a superior: of the later databases in the configuration, the first that is not
# subordinate and whose suffix is above (backglue.c, glue_sub_attach). So nested subordinates have the same superior.


def is_subordinate(config: Config, database: Database) -> bool:
    """Returns whether olcSubordinate is set (TRUE or "advertise")."""
    return bool(config.values(database.entry_dn, "olcSubordinate"))


def superior(config: Config, database: Database) -> Database | None:
    """Returns the database to which a subordinate database is glued; None if it is not subordinate."""
    behind = config.databases[config.databases.index(database) + 1 :] if is_subordinate(config, database) else ()
    tops = (other for other in behind if not is_subordinate(config, other))
    return next((top for top in tops if dn.is_below(database.suffix, top.suffix)), None)


def subordinates(config: Config, database: Database) -> list[Database]:
    return [other for other in config.databases if superior(config, other) == database]


def suffixes_below(config: Config, database: Database) -> list[str]:
    """Returns, in configuration order, the suffixes of other databases that are below a suffix of `database`. slapd
    looks there only in the other databases. Omits hidden and disabled databases (backend.c, select_backend)."""
    below: dict[str, str] = {}
    for other in config.databases:
        reader = config.reader(other.entry_dn)
        if other.entry_dn == database.entry_dn or reader.flag("olcHidden", False) or reader.flag("olcDisabled", False):
            continue
        for suffix in filter(dn.key, other.suffixes):
            if any(dn.is_below(suffix, own) for own in database.suffixes):
                below[dn.key(suffix)] = suffix
    return list(below.values())
