"""Gathers the facts. What cannot be looked at is named with its reason, and the rest is looked at all the same."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from loader import backmdb, dn, glue
from loader import indexes as configured_indexes
from loader.config import DEFAULT_MAXSIZE, Config
from loader.config import Database as Configured
from loader.errors import LoaderError, NoSuchPath
from loader.mdb import meta, readers, verify
from loader.operations import map_room
from loader.operations.doctor import (
    backups,
    certificates,
    indexes,
    replication,
    serving,
    storage,
    sync,
)
from loader.operations.doctor.facts import Certificate, Database, Drift, Facts, Replication
from loader.progress import Meter
from loader.server import configuration, running, version
from loader.server.options import Connection
from loader.storage.asking import Unseen

USUAL = tuple(
    Path(place) / name
    for name in ("slapd.d", "slapd.conf")
    for place in ("/etc/ldap", "/etc/openldap", "/usr/local/etc/openldap", "/opt/ldap/etc/openldap")
)
_CLEARS = "to open the database clears the slots of dead readers, which --fix does first"
Told = TypeVar("Told")


class Looker:
    """Looks, and keeps two lists: what could not be looked at; and what was left out, which changes no status."""

    def __init__(self) -> None:
        self.unseen: list[Unseen] = []
        self.left_out: list[Unseen] = []

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


class Wishes(msgspec.Struct, frozen=True):
    """`access`: how to ask providers; without a URI the one of syncrepl. `quick`: without the sample of the indexes."""

    suffix: str | None = None
    repo: Path | None = None
    access: Connection = Connection()
    quick: bool = False


def facts(place: Path, wishes: Wishes) -> Facts:
    """Raises LoaderError where the configuration cannot be read, or has no such database."""
    looker, config = Looker(), configuration.read(place)
    chosen = config.mdb_databases if wishes.suffix is None else (config.database(wishes.suffix),)
    databases = tuple(_database(config, one, wishes, looker) for one in chosen)
    if not databases:
        looker.missed("databases", f"{config.where} has no mdb database")
    if wishes.repo is None:
        looker.left_out.append(Unseen("backups", "give -R, the directory that holds them"))
    if wishes.quick:
        looker.left_out.append(Unseen("indexes", "ditseed doctor without --check looks at them"))
    suffixes = [one.suffix for one in chosen]
    return Facts(
        config=str(place),
        server=_server(config),
        by_hand=not config.is_directory,
        databases=databases,
        release=_release(looker),
        leases=looker.at("leases", sync.look) or (),
        certificates=tuple(_certificates(config, looker)),
        tls=looker.at("key and certificate", lambda: certificates.unusable(config)) or "",
        slapd=looker.at("whether slapd runs", lambda: serving.look(config, suffixes)),
        barred=looker.at(
            "whether slapd may reach its files", lambda: serving.barred(config, chosen)
        )
        or (),
        has_server_id=bool(config.values("cn=config", "olcServerID")),
        is_check=wishes.quick,
        unseen=tuple(looker.unseen),
        left_out=tuple(looker.left_out),
    )


def _release(looker: Looker) -> version.Release | None:
    before = len(looker.unseen)
    found = looker.at("release of slapd", version.release)
    if found is None and len(looker.unseen) == before:
        looker.missed("release of slapd", "slapd is not installed here, or does not say")
    return found


def _certificates(config: Config, looker: Looker) -> Iterator[Certificate]:
    for path in certificates.named(config):
        yield from looker.at(f"certificates of {path}", partial(certificates.look, path)) or ()


def _server(config: Config) -> str:
    """Options of `ditseed tune`."""
    pid = running.slapd_on(config)
    if pid is not None and config.is_directory:
        return f"-H {shlex.quote(running.ldapi_uri(pid))} -Y EXTERNAL"
    return f"--config {shlex.quote(str(config.path))}"


def _database(config: Config, one: Configured, wishes: Wishes, looker: Looker) -> Database:
    known = _configured(config, one, wishes, looker)
    directory = one.directory
    if directory is None:
        looker.missed(one.suffix, "the configuration names no olcDbDirectory")
        return known
    dead = directory.is_dir() and serving.has_dead_readers(directory)
    damage = looker.at(f"{one.suffix}: data.mdb", lambda: serving.damage(directory, not dead))
    if damage:
        return replace(known, damage=damage)
    seen = looker.at(f"{one.suffix}: pages and readers", lambda: map_room.look(one))
    found = looker.at(f"{one.suffix}: storage", lambda: storage.look(one, config.path))
    # In a container nobody can make tune2fs or lvs see the device, so a check would be UNKNOWN for ever.
    looker.left_out += [each for each in (found or ((), ()))[1] if each not in looker.left_out]
    slots = looker.at(f"{one.suffix}: reader slots", lambda: _slots(directory)) or (0, 0)
    if dead:
        looker.missed(f"{one.suffix}: tables, indexes, contextCSN", _CLEARS)
    kind = looker.at(f"{one.suffix}: data format", lambda: meta.read_meta(directory).format)
    is_sampled = not dead and not wishes.quick
    # slapd opens no file of another format, so what it would store there is no measure for the indexes.
    has_drift = is_sampled and version.lmdb_format() in (None, kind)
    return replace(
        known,
        slots=slots[0],
        slots_taken=slots[1],
        owner=meta.owner_of(meta.data_file(directory)),
        format=kind,
        room=seen[0] if seen else None,
        readers=seen[1] if seen else (),
        storage=found[0] if found else (),
        kept=looker.at(f"{one.suffix}: old data files", lambda: backups.kept(directory)) or (),
        drift=_drift(config, one, looker) if has_drift else None,
        twins=_twins(one, looker) if is_sampled else (),
        replication=_replication(config, one, wishes, looker) if one.consumer and not dead else (),
    )


def _slots(directory: Path) -> tuple[int, int]:
    """How many lock.mdb has, and how many of them living processes have."""
    return readers.capacity(directory), sum(one.is_alive for one in readers.slots(directory))


def _drift(config: Config, one: Configured, looker: Looker) -> Drift | None:
    return looker.at(f"{one.suffix}: indexes", lambda: indexes.look(config, one))


def _twins(one: Configured, looker: Looker) -> tuple[tuple[str, str, str], ...]:
    """An index on entryUUID leaves few entries to be looked at; without one, it would take a look at each."""
    if "entryUUID eq" in _lacking(one):
        return ()
    assert one.directory is not None
    look = partial(verify.shared_uuids, one.directory, verify.Resources(), Meter("entryUUIDs"))
    return tuple(looker.at(f"{one.suffix}: entryUUIDs", look) or ())


def _configured(config: Config, one: Configured, wishes: Wishes, looker: Looker) -> Database:
    own = config.reader(one.entry_dn)
    is_log = any(dn.key(log) == dn.key(one.suffix) for _, log in config.logs)
    needed = [] if is_log or not (one.consumer or "syncprov" in one.overlays) else _lacking(one)
    repo = wishes.repo
    return Database(
        name=re.sub(r"^olcDatabase=\{?(\d*)\}?(\w+),.*$", r"\2\1", one.entry_dn, flags=re.I),
        suffix=one.suffix,
        directory=str(one.directory),
        maxsize=one.maxsize,
        nosync=one.nosync,
        env_flags=one.env_flags,
        checkpoint=one.checkpoint,
        overlays=tuple(one.overlays),
        limits=config.values(one.entry_dn, "olcLimits"),
        size_limit=_size_limit(config, one),
        idlexp=_idlexp(config, one),
        is_glued=bool(glue.subordinates(config, one)),
        lent=looker.at("leases", lambda: sync.holder(config, one.suffix)) or "",
        backup=looker.at(f"{one.suffix}: backups", lambda: backups.look(repo, one.suffix))
        if repo
        else None,
        is_maxsize_set=one.maxsize != DEFAULT_MAXSIZE,
        is_multi_provider=own.flag("olcMultiProvider", False) or own.flag("olcMirrorMode", False),
        lacking=tuple(needed),
    )


def _lacking(one: Configured) -> list[str]:
    return configured_indexes.lacking_for_sync(configured_indexes.parse(one.indexes))


def _size_limit(config: Config, one: Configured) -> str:
    """The database's own, else the frontend's."""
    places = ("cn=config", backmdb.FRONTEND, one.entry_dn)
    found = config.reader(*places).all("olcSizeLimit")
    return found[-1] if found else ""


def _idlexp(config: Config, one: Configured) -> int | None:
    try:
        return backmdb.settings(config, one).idlexp
    except LoaderError:
        return None  # what the indexes are made with is looked at, and told, below


def _replication(
    config: Config, one: Configured, wishes: Wishes, looker: Looker
) -> tuple[Replication, ...]:
    assert one.directory is not None
    directory = one.directory
    what = f"{one.suffix}: contextCSN"
    known = looker.at(what, lambda: replication.stored(directory, one.suffix))
    if known is None:
        return ()

    def missed(what: str, why: str) -> None:
        looker.missed(f"{one.suffix}: {what}", why)

    def look() -> tuple[Replication, ...]:
        return tuple(replication.look(config, one, known, wishes.access, missed))

    return looker.at(f"{one.suffix}: syncrepl", look) or ()
