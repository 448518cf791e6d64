"""A private configuration for slapd's offline tools, or a slapd of ours: one back-mdb database, and nothing else that
they could open.

It is made from the settings that decide what slapadd and slapindex accept and store (loader/backmdb.py). Others stay
behind: other databases and the glue between them, syncrepl, log files, TLS files, credentials, access rules, and every
overlay but two. In tool mode overlays do nothing for an entry (backover.c hands all tool calls to the database), except
glue, which writes into subordinate databases. The schema that overlays and backends bring along is registered when
their module is loaded (*_initialize in 2.4 to 2.6), so all modules stay; with dds in the database the schema check
takes dynamicObject, and ppolicy of 2.4 changes pwdAttribute once it is configured.
"""

from __future__ import annotations

import re
import socket
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

from loader import config, schema
from loader.backmdb import for_tools, require
from loader.child import Child
from loader.config import Config, Database, Entry
from loader.errors import ServerDown, ToolFailed, UsageProblem
from loader.server import configuration, tools
from loader.server.options import Connection
from loader.storage import files, temporary
from loader.storage.files import Owner

if TYPE_CHECKING:
    from loader.server.session import Session  # python-ldap takes 40 ms to load

Values = Sequence[bytes]

_EVERYWHERE = for_tools("olcGlobal", "olcFrontendConfig")  # cn=config and the frontend
# What makes a difference to the schema, and how.
_OVERLAYS = {"dynamic_objects": ("dds", "olcDDSConfig"), "password_policy": ("ppolicy", "olcPPolicyConfig")}
_OF_SUPERIOR = ("olcRootDN", "olcLastMod")  # slapadd -b SUPERIOR completes all entries as that one's

_CONFIG = re.compile(r"cn=config$", re.IGNORECASE)
_MODULE = re.compile(r"cn=module(\{\d+\})?,cn=config$", re.IGNORECASE)
_SCHEMA = re.compile(r"(cn=[^,]+,)?cn=schema,cn=config$", re.IGNORECASE)
_MDB = re.compile(r"olcBackend=(\{-?\d+\})?mdb,cn=config$", re.IGNORECASE)
_FRONTEND = re.compile(r"olcDatabase=(\{-1\})?frontend,cn=config$", re.IGNORECASE)


@contextmanager
def configured(
    source: Config,
    database: Database,
    place: Path,
    settings: Mapping[str, Values] | None = None,
    superior: Database | None = None,
) -> Iterator[Path]:
    """A slapd.d below `place` that has the one database, with other `settings` (olcDbDirectory, olcDbMaxSize ...).

    Without olcDbDirectory among them its directory is an empty one. `superior`: the database by whose name the entries
    are loaded (glue). Mode 0700, removed at the end. Raises SettingRefused, ConfigUnreadable.
    """
    require(source, database, superior or database)
    home = place / "slapd.d"
    nowhere = home / "empty"
    files.remove_tree(home)
    home.mkdir(mode=0o700, parents=True)
    nowhere.mkdir(mode=0o700)
    try:
        changed = {"olcDbDirectory": [bytes(nowhere)], **(settings or {})}
        entries = list(_entries(source, database, changed, nowhere, superior or database))
        configuration.load(home, entries, source.path)
        yield home
    finally:
        files.remove_tree(home)


def _entries(
    source: Config, database: Database, settings: Mapping[str, Values], nowhere: Path, superior: Database
) -> Iterator[Entry]:
    own = _only(_named(source, _CONFIG), _EVERYWHERE)
    yield _made("cn=config", ("olcGlobal",), {"cn": [b"config"], **own})
    for name, attributes in source.entries:
        if _MODULE.match(name):
            loads = _only(attributes, ("cn", *for_tools("olcModuleList")))
            yield _made(name, ("olcModuleList",), loads)
        if _SCHEMA.match(name):
            definitions = _only(attributes, ("cn", *schema.DEFINITIONS))
            yield _made(name, ("olcSchemaConfig",), definitions)
    sizes = _only(_named(source, _MDB), for_tools("olcMdbBkConfig"))
    if sizes:
        yield _made(
            "olcBackend={0}mdb,cn=config", ("olcBackendConfig", "olcMdbBkConfig"), {"olcBackend": [b"{0}mdb"], **sizes}
        )
    yield _made(
        "olcDatabase={-1}frontend,cn=config",
        ("olcDatabaseConfig", "olcFrontendConfig"),
        {"olcDatabase": [b"{-1}frontend"], **_only(_named(source, _FRONTEND), _EVERYWHERE)},
    )
    yield from _databases(source, database, settings, nowhere, superior)


def _named(source: Config, pattern: re.Pattern[str]) -> Mapping[str, Values]:
    """The attributes of the first entry of such a name."""
    return next((found for name, found in source.entries if pattern.match(name)), {})


def _databases(
    source: Config, database: Database, settings: Mapping[str, Values], nowhere: Path, superior: Database
) -> Iterator[Entry]:
    """The database, behind others that stand for those below it: slapadd shall refuse their entries."""
    number = 1
    for suffix in config.suffixes_below(source, database):
        yield _made(
            f"olcDatabase={{{number}}}ldif,cn=config",  # built into every slapd; opens nothing until it is used
            ("olcDatabaseConfig", "olcLdifConfig"),
            {
                "olcDatabase": [f"{{{number}}}ldif".encode()],
                "olcSuffix": [suffix.encode()],
                "olcDbDirectory": [bytes(nowhere)],
            },
        )
        number += 1
    entry_dn = f"olcDatabase={{{number}}}mdb,cn=config"
    yield _made(
        entry_dn,
        ("olcDatabaseConfig", "olcMdbConfig"),
        {
            "olcDatabase": [f"{{{number}}}mdb".encode()],
            **_only(_attributes(source, database), for_tools("olcDatabaseConfig", "olcMdbConfig")),
            **_as_superior(source, superior, database),
            **settings,
        },
    )
    kept = [name for name, there in schema.effects(source, superior).items() if there]
    for place, (overlay, its_class) in enumerate(_OVERLAYS[name] for name in kept):
        named = f"{{{place}}}{overlay}"
        yield _made(f"olcOverlay={named},{entry_dn}", ("olcOverlayConfig", its_class), {"olcOverlay": [named.encode()]})


def _as_superior(source: Config, superior: Database, database: Database) -> dict[str, Values]:
    if superior.entry_dn == database.entry_dn:
        return {}
    found = _only(_attributes(source, superior), _OF_SUPERIOR)
    return {**dict.fromkeys(_OF_SUPERIOR, ()), **found}


def _attributes(source: Config, database: Database) -> Mapping[str, Values]:
    return next(found for name, found in source.entries if name == database.entry_dn)


def _only(attributes: Mapping[str, Values], names: Sequence[str]) -> dict[str, Values]:
    """Those of `names` that are there, spelled as in `names`."""
    found = {name.lower(): values for name, values in attributes.items()}
    return {name: found[name.lower()] for name in names if found.get(name.lower())}


def _made(name: str, classes: Sequence[str], attributes: Mapping[str, Values]) -> Entry:
    named = {key: values for key, values in attributes.items() if values}
    return name, {"objectClass": [one.encode() for one in classes], **named}


# --- slapd -----------------------------------------------------------------------------------------------------------
#
# A slapd on such a configuration: on a socket alone, as the account of the database, gone at the end.


_PATIENCE = 60.0  # seconds; it opens a database and listens, however large that is
_LOOK = 0.02
_LONGEST_SOCKET = 107  # bytes, sun_path of unix(7): slapd crashes on a longer name


@contextmanager
def running(config: Path, owner: Owner | None, tmpdir: str | None = None) -> Iterator[Session]:
    """A session with a slapd that runs on `config`, slapd.d or slapd.conf, as `owner`.

    Nobody else can reach its socket. Raises ToolFailed with its last words if it does not begin to listen,
    UsageProblem if TMPDIR is too long.
    """
    from loader.server.session import session

    uid, gid = (owner.uid, owner.gid) if owner else (0, 0)
    with temporary.directory("slapd", tmpdir) as place:  # the path of a socket may not be long
        tools.change_owner(owner, place)
        path = place / "ldapi"
        if len(bytes(path)) > _LONGEST_SOCKET:
            raise UsageProblem(reason=f"TMPDIR: {place} is too long for a socket in it")
        uri = f"ldapi://{quote(str(path), safe='')}"
        # -d keeps it in the foreground, its words on stderr; -s 0 keeps them out of the system's log.
        words = ["-d", "none", "-s", "0", "-h", uri, "-F" if config.is_dir() else "-f", str(config)]
        with Child(tools.server_tool_as(uid, gid, "slapd", *words)) as child:
            _await(child, path)
            with session(Connection(uri)) as opened:
                yield opened


def _await(child: Child, path: Path) -> None:
    """It makes its socket at once, and listens once the database is open."""
    deadline = time.monotonic() + _PATIENCE
    while not _listens(path):
        if child.has_ended:
            child.check()
            raise ToolFailed(tool="slapd", status=0, reason="it ended at once")
        if time.monotonic() > deadline:
            raise ServerDown(uri=str(path), reason="the private slapd does not listen")
        time.sleep(_LOOK)


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as asking:
        try:
            asking.connect(str(path))
        except OSError:
            return False
        return True
