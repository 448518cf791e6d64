"""Whether a database syncs what it commits: nosync, the environment's flags, the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from loader.config import Config, Database
from loader.operations import leases
from loader.operations.tune.target import Outcome, Plan, Target, carry_out, changed, databases_of
from loader.run import lease
from loader.run.lease import Lease

NOSYNC, ENV_FLAGS, CHECKPOINT = "nosync", "envflags", "checkpoint"
ON, OFF, NONE = "on", "off", "none"
# slapd-mdb(5), envflags; nosync has a setting of its own.
FLAGS = ("mapasync", "nometasync", "nordahead", "writemap")


@dataclass(frozen=True)
class SyncSettings:
    suffix: str
    nosync: bool
    env_flags: tuple[str, ...]
    checkpoint: str | None
    notes: tuple[str, ...] = ()


def syncing(target: Target, suffix: str | None) -> list[SyncSettings]:
    """Of every mdb database, or the one of `suffix`."""
    return [
        SyncSettings(one.suffix, one.nosync, one.env_flags, one.checkpoint, (*_notes(one), *_lent(target.config, one)))
        for one in databases_of(target.config, suffix)
    ]


def _lent(config: Config, database: Database) -> Iterable[str]:
    for setting in SETTINGS.values():
        for one in left(config, database, setting.kind):
            yield (
                f"{setting.kind} is so since {one.taken} for {one.why or 'ditseed add'}, which was killed or has "
                f"ended; the next start of ditseed here, or --apply, puts it back to {one.before}"
            )
        for one in lease.lasting(leases.identity(config), setting.kind):
            if one.database == database.suffix:
                why = f" for {one.why}" if one.why else ""
                until = f", until {one.expires} or the next boot" if one.expires else ""
                yield f"{setting.kind} is lent since {one.taken}{why} ({one.by}){until}; before: {one.before}"


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


@dataclass(frozen=True)
class Setting:
    """One that can be lent. Its values are in the words of the option of `ditseed tune sync`."""

    kind: str
    of: Callable[[Database], str]
    plan: Callable[[Config, Database, str], Plan]


def change(target: Target, suffix: str | None, kind: str, value: str, apply: bool) -> Outcome:
    """Set one of them. A lease that has ended is over once its setting is as it was before."""
    database = target.config.database(suffix)
    outcome = carry_out(target, SETTINGS[kind].plan(target.config, database, value), apply)
    for one in left(target.config, database, kind) if apply else ():
        if one.before == value:
            lease.end(one)
    return outcome


def left(config: Config, database: Database, kind: str) -> list[Lease]:
    """The leases of it that killed runs have left, or that have expired."""
    found = lease.left(leases.identity(config), kind)
    return [one for one in found if one.database == database.suffix]


def _nosync(config: Config, database: Database, value: str) -> Plan:
    """In whichever of its two spellings it stands; other flags stay."""
    on, flags = value == ON, _flags(database)
    # slapd shows either spelling as both, so off must take away both.
    wanted: dict[str, tuple[str, ...]] = {"olcDbNoSync": ("TRUE",)}
    if not on:
        wanted = {"olcDbEnvFlags": flags, "olcDbNoSync": ()}
    return Plan(
        database=database,
        changes=changed(config, database, wanted),
        holds=lambda now: now.nosync == on and {*_flags(now)} == {*flags},
        words=("sync", "--nosync", value),
        undo=("sync", "--nosync", OFF if on else ON),
        notes=("a crash of the host can now lose or damage the database",) if on else (),
    )


def _env_flags(config: Config, database: Database, value: str) -> Plan:
    """All but nosync, which stays as it is; but in this place, for slapd takes its flag away with those that go."""
    flags = () if value == NONE else tuple(value.split(","))
    stays = (NOSYNC,) if database.nosync else ()
    return Plan(
        database=database,
        changes=changed(config, database, {"olcDbEnvFlags": (*flags, *stays)}),
        holds=lambda now: {*_flags(now)} == {*flags} and now.nosync == database.nosync,
        words=("sync", "--envflags", value),
        undo=("sync", "--envflags", _flags_said(database)),
    )


def _checkpoint(config: Config, database: Database, value: str) -> Plan:
    wanted = () if value == NONE else (value,)
    return Plan(
        database=database,
        changes=changed(config, database, {"olcDbCheckpoint": wanted}),
        holds=lambda now: _checkpoint_said(now) == value,
        words=("sync", "--checkpoint", value),
        undo=("sync", "--checkpoint", _checkpoint_said(database)),
    )


def _flags(database: Database) -> tuple[str, ...]:
    return tuple(flag.lower() for flag in database.env_flags if flag.lower() != NOSYNC)


def _flags_said(database: Database) -> str:
    return ",".join(sorted(_flags(database))) or NONE


def _checkpoint_said(database: Database) -> str:
    return database.checkpoint or NONE


SETTINGS = {
    one.kind: one
    for one in (
        Setting(NOSYNC, lambda database: ON if database.nosync else OFF, _nosync),
        Setting(ENV_FLAGS, _flags_said, _env_flags),
        Setting(CHECKPOINT, _checkpoint_said, _checkpoint),
    )
}
