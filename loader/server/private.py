"""Makes configurations with a single back-mdb database, for slapd's offline tools or for a private slapd.

Such a configuration contains the settings that decide what slapadd and slapindex accept and store (loader/backmdb.py).
It omits everything else that slapd could open or contact, access rules, and all overlays except dds and ppolicy. dds
makes the schema check accept dynamicObject. ppolicy changes pwdAttribute in OpenLDAP 2.4. The other overlays are not
needed: the tools do not call them (backover.c). Only glue is called, and it would write into subordinate databases. All
modules are kept, because overlays and backends register their schema when their module is loaded (*_initialize).
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

from loader import backmdb, config
from loader.backmdb import require_supported, tool_settings
from loader.child import Child
from loader.config import Config, Database, Entry
from loader.errors import ServerDown, ToolFailed, UsageProblem
from loader.server import configuration, tools
from loader.server.options import Connection
from loader.storage import files

if TYPE_CHECKING:
    from loader.server.session import Session  # python-ldap takes 40 ms to load

Values = Sequence[bytes]

_EVERYWHERE = tool_settings("olcGlobal", "olcFrontendConfig")  # settings of cn=config and of the frontend
# Overlays that change the schema check, by the name of the effect in `loader.backmdb.Effects`.
_OVERLAYS = {"dynamic_objects": ("dds", "olcDDSConfig"), "password_policy": ("ppolicy", "olcPPolicyConfig")}
_SYNCPROV = "syncprov", "olcSyncProvConfig"
_OF_SUPERIOR = ("olcRootDN", "olcLastMod")  # slapadd -b SUPERIOR applies these settings of SUPERIOR to glued entries


@contextmanager
def configured(
    source: Config,
    database: Database,
    parent: Path,
    settings: Mapping[str, Values] | None = None,
    superior: Database | None = None,
    provides: bool = False,
) -> Iterator[Path]:
    """Yields a slapd.d in `parent` (mode 0700, removed after the body) that has only `database`. `settings` replace
    settings of the database; if they lack olcDbDirectory, the database is in an empty directory. `superior`: the
    database whose suffix slapadd -b names, if `database` is glued to it. `provides`: adds syncprov, whose module
    `source` loads. Raises SettingRefused, ConfigUnreadable."""
    require_supported(source, database, superior or database)
    with files.workspace(parent / "slapd.d") as directory:
        empty = directory / "empty"
        empty.mkdir(mode=0o700)
        overrides = {"olcDbDirectory": [bytes(empty)], **(settings or {})}
        entries = _entries(source, database, overrides, empty, superior or database, provides)
        configuration.load(directory, list(entries), source.path)
        yield directory


def _entries(
    source: Config, database: Database, settings: Mapping[str, Values], empty: Path, superior: Database, provides: bool
) -> Iterator[Entry]:
    def of_first(pattern: str, names: Sequence[str]) -> dict[str, Values]:
        entries = (attributes for name, attributes in source.entries if re.match(pattern, name, re.IGNORECASE))
        return _only(next(entries, {}), names)

    yield _entry("cn=config", "", ("olcGlobal",), of_first(r"cn=config$", _EVERYWHERE))
    for name, attributes in source.entries:
        rdn, _, parent = name.partition(",")
        if re.match(r"cn=module(\{\d+\})?,cn=config$", name, re.IGNORECASE):
            yield _entry(rdn, parent, ("olcModuleList",), _only(attributes, ("cn", *tool_settings("olcModuleList"))))
        if re.match(r"(cn=[^,]+,)?cn=schema,cn=config$", name, re.IGNORECASE):
            yield _entry(rdn, parent, ("olcSchemaConfig",), _only(attributes, ("cn", *backmdb.DEFINITIONS)))
    if sizes := of_first(r"olcBackend=(\{-?\d+\})?mdb,cn=config$", tool_settings("olcMdbBkConfig")):
        yield _entry("olcBackend={0}mdb", "cn=config", ("olcBackendConfig", "olcMdbBkConfig"), sizes)
    frontend = of_first(r"olcDatabase=(\{-1\})?frontend,cn=config$", _EVERYWHERE)
    yield _entry("olcDatabase={-1}frontend", "cn=config", ("olcDatabaseConfig", "olcFrontendConfig"), frontend)
    # Placeholders for the databases below `database` come first, so that slapadd refuses entries of those databases.
    # back-ldif is built into every slapd, and opens nothing until it is used.
    suffixes = list(config.suffixes_below(source, database))
    for number, suffix in enumerate(suffixes, 1):
        below = {"olcSuffix": [suffix.encode()], "olcDbDirectory": [bytes(empty)]}
        yield _entry(f"olcDatabase={{{number}}}ldif", "cn=config", ("olcDatabaseConfig", "olcLdifConfig"), below)
    rdn = f"olcDatabase={{{len(suffixes) + 1}}}mdb"
    by_dn: dict[str, Mapping[str, Values]] = dict(source.entries)
    own_settings = _only(by_dn[database.entry_dn], tool_settings("olcDatabaseConfig", "olcMdbConfig"))
    if superior.entry_dn != database.entry_dn:
        own_settings |= {**dict.fromkeys(_OF_SUPERIOR, ()), **_only(by_dn[superior.entry_dn], _OF_SUPERIOR)}
    yield _entry(rdn, "cn=config", ("olcDatabaseConfig", "olcMdbConfig"), {**own_settings, **settings})
    effects = [name for name, applies in backmdb.schema_effects(source, superior).items() if applies]
    overlays = [_OVERLAYS[name] for name in effects] + [_SYNCPROV] * provides
    for number, (overlay, kind) in enumerate(overlays):
        own = {"olcSpSessionlog": [b"1000"]} if overlay == "syncprov" else {}
        yield _entry(f"olcOverlay={{{number}}}{overlay}", f"{rdn},cn=config", ("olcOverlayConfig", kind), own)


def _only(attributes: Mapping[str, Values], names: Sequence[str]) -> dict[str, Values]:
    """Returns the present attributes among `names`, spelled as in `names`."""
    by_name = {name.lower(): values for name, values in attributes.items()}
    return {name: by_name[name.lower()] for name in names if by_name.get(name.lower())}


def _entry(rdn: str, parent: str, classes: Sequence[str], attributes: Mapping[str, Values]) -> Entry:
    name, _, value = rdn.partition("=")
    named = {name: [value.encode()], **{key: values for key, values in attributes.items() if values}}
    return f"{rdn},{parent}".rstrip(","), {"objectClass": [kind.encode() for kind in classes], **named}


_PATIENCE = 60.0  # maximum seconds until slapd listens; it opens a large database as fast as a small one


@contextmanager
def running(config: Path, owner: files.Owner | None, tmpdir: str | None = None) -> Iterator[Session]:
    """Starts a slapd on `config` as `owner`, with a socket that no other account can reach. Yields a session with it.
    Raises ToolFailed if slapd ends, ServerDown if it does not listen in time, UsageProblem if TMPDIR is too long."""
    from loader.server.session import session

    with files.temporary_directory("slapd", tmpdir) as directory:  # a short path, since socket paths are limited
        tools.change_owner(owner, directory)
        path = directory / "ldapi"
        if len(bytes(path)) > 107:  # sun_path of unix(7): slapd crashes on a longer name
            raise UsageProblem(reason=f"TMPDIR: {directory} is too long for a socket in it")
        uri = f"ldapi://{quote(str(path), safe='')}"
        # -d keeps slapd in the foreground with its log on stderr; -s 0 keeps the log out of syslog.
        words = ["-d", "none", "-s", "0", "-h", uri, "-F" if config.is_dir() else "-f", str(config)]
        with Child(tools.server_tool_as(owner, "slapd", *words)) as child:
            # slapd creates its socket at once, but listens only after opening the database.
            deadline = time.monotonic() + _PATIENCE
            while not _listens(path):
                if child.has_ended:
                    child.check()
                    raise ToolFailed(tool="slapd", status=0, reason="it ended at once")
                if time.monotonic() > deadline:
                    raise ServerDown(uri=str(path), reason="the private slapd does not listen")
                time.sleep(0.02)
            with session(Connection(uri)) as server:
                yield server


def _listens(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX) as client:
        return client.connect_ex(str(path)) == 0
