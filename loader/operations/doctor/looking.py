"""Gathers the facts. What cannot be looked at is named with its reason, and the rest is looked at all the same."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from msgspec.structs import replace

from loader.config import Config
from loader.config import Database as Configured
from loader.errors import LoaderError, NoSuchPath
from loader.mdb import meta
from loader.operations.doctor import room, storage, sync
from loader.operations.doctor.facts import Database, Facts, Reader
from loader.server import configuration, running
from loader.storage.asking import Unseen

USUAL = tuple(
    Path(place) / name
    for name in ("slapd.d", "slapd.conf")
    for place in ("/etc/ldap", "/etc/openldap", "/usr/local/etc/openldap", "/opt/ldap/etc/openldap")
)
Told = TypeVar("Told")


class Looker:
    """Looks, and keeps a list of what could not be looked at."""

    def __init__(self) -> None:
        self.unseen: list[Unseen] = []

    def missed(self, what: str, why: str) -> None:
        self.unseen.append(Unseen(what, why))

    def at(self, what: str, look: Callable[[], Told]) -> Told | None:
        try:
            return look()
        except (LoaderError, OSError) as error:
            self.missed(what, str(error))
            return None


def usual_place() -> Path:
    """Where OpenLDAP's and the distributions' packages have the configuration. Raises NoSuchPath."""
    found = next((place for place in USUAL if place.exists()), None)
    if found is None:
        raise NoSuchPath(path=f"{USUAL[0]} (say --config)")
    return found


def facts(place: Path, suffix: str | None) -> Facts:
    """Raises LoaderError where the configuration cannot be read, or has no such database."""
    looker, config = Looker(), configuration.read(place)
    chosen = config.mdb_databases if suffix is None else (config.database(suffix),)
    server, stopped = _server(config)
    return Facts(
        config=str(place),
        server=server,
        stopped=stopped,
        databases=tuple(_database(config, one, looker) for one in chosen),
        only=suffix,
        leases=looker.at("leases", sync.look) or (),
        unseen=tuple(looker.unseen),
    )


def _server(config: Config) -> tuple[str, bool]:
    """Options of `ditseed tune`, and whether slapd has to be stopped for them."""
    runs = running.slapd_on(config) is not None
    if runs and config.is_directory:
        return "-H ldapi:/// -Y EXTERNAL", False
    return f"--config {config.path}", runs


def _database(config: Config, one: Configured, looker: Looker) -> Database:
    known = Database(
        name=re.sub(r"^olcDatabase=\{?(\d*)\}?(\w+),.*$", r"\2\1", one.entry_dn, flags=re.I),
        suffix=one.suffix,
        directory=str(one.directory),
        maxsize=one.maxsize,
        nosync=one.nosync,
        env_flags=one.env_flags,
        checkpoint=one.checkpoint,
    )
    if one.directory is None or not meta.data_file(one.directory).exists():
        looker.missed(f"{one.suffix}", f"{one.directory} holds no data.mdb")
        return known
    seen = looker.at(f"{one.suffix}: pages and readers", lambda: room.look(one))
    found = looker.at(f"{one.suffix}: storage", lambda: storage.look(one, config.path))
    unseen = [] if found is None else found[1]
    looker.unseen += [each for each in unseen if each not in looker.unseen]
    readers: tuple[Reader, ...] = seen[1] if seen else ()
    return replace(
        known,
        is_there=True,
        room=seen[0] if seen else None,
        readers=readers,
        storage=found[0] if found else (),
    )
