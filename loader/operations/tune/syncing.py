"""Whether a database syncs what it commits: nosync, the environment's flags, the checkpoint."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from loader.config import Config, Database
from loader.operations import leases
from loader.operations.tune.change import carry_out
from loader.operations.tune.plan import Outcome, Plan, changed
from loader.operations.tune.target import Target
from loader.run import lease
from loader.run.lease import Lease

NOSYNC = "nosync"


@dataclass(frozen=True)
class SyncSettings:
    suffix: str
    nosync: bool
    env_flags: tuple[str, ...]
    checkpoint: str | None
    notes: tuple[str, ...] = ()


def syncing(target: Target, suffix: str | None) -> list[SyncSettings]:
    """Of every mdb database, or the one of `suffix`."""
    config = target.config
    chosen = [config.database(suffix)] if suffix is not None else config.mdb_databases
    return [
        SyncSettings(
            *(one.suffix, one.nosync, one.env_flags, one.checkpoint),
            (*_notes(one), *_lent(config, one)),
        )
        for one in chosen
    ]


def _lent(config: Config, database: Database) -> Iterable[str]:
    for one in _left(config, database):
        yield (
            f"nosync was switched on by a `ditseed add` of {one.taken} that was killed; "
            "the next one, or --apply, switches it off"
        )
    for one in lease.lasting(leases.known(config), NOSYNC):
        if one.database == database.suffix:
            until = f", until {one.expires} or the next boot" if one.expires else ""
            yield f"nosync is lent since {one.taken} ({one.by}){until}"


def _notes(database: Database) -> Iterable[str]:
    flags = set(database.env_flags)
    if database.nosync:
        yield "nosync: a crash of the host can lose or damage the database; switch it off after a load"
        if _minutes(database.checkpoint) == 0:
            yield "and no checkpoint: written pages reach the disk when the system likes"
    if "writemap" in flags:
        yield "writemap: the file is as long as maxsize, and a stray write of slapd damages it"
    if "nometasync" in flags:
        yield "nometasync: a crash of the host can lose the last transaction"


def _minutes(checkpoint: str | None) -> int:
    words = (checkpoint or "").split()
    return int(words[1]) if len(words) == 2 and words[1].isdigit() else 0


def change_nosync(target: Target, suffix: str | None, on: bool, apply: bool) -> Outcome:
    """Switch nosync on or off, in whichever of its two spellings it stands; other flags stay."""
    database = target.config.database(suffix)
    outcome = carry_out(target, _plan(target.config, database, on), apply)
    for one in _left(target.config, database) if apply and not on else ():
        with lease.taken(one) as given_back:
            given_back()
    return outcome


def _left(config: Config, database: Database) -> list[Lease]:
    """What killed runs of `ditseed add` have left of it."""
    found = lease.open_leases(leases.known(config), NOSYNC)
    return [one for one in found if one.database == database.suffix]


def _plan(config: Config, database: Database, on: bool) -> Plan:
    flags = [flag for flag in database.env_flags if flag != NOSYNC]
    # slapd shows either spelling as both, so off must take away both.
    wanted: dict[str, tuple[str, ...]] = {"olcDbNoSync": ("TRUE",)}
    if not on:
        wanted = {"olcDbEnvFlags": tuple(flags), "olcDbNoSync": ()}
    return Plan(
        database=database,
        changes=changed(config, database, wanted),
        holds=lambda now: now.nosync == on and {*now.env_flags} - {NOSYNC} == {*flags},
        words=("sync", "--nosync", _word(on)),
        undo=("sync", "--nosync", _word(not on)),
        notes=("a crash of the host can now lose or damage the database",) if on else (),
    )


def _word(on: bool) -> str:
    return "on" if on else "off"
