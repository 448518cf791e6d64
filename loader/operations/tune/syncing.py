"""Whether a database syncs what it commits: nosync, the environment's flags, the checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from loader.config import Config, Database
from loader.operations import leases
from loader.operations.tune import Outcome, Plan, Target, carry_out
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
        SyncSettings(one.suffix, one.nosync, one.env_flags, one.checkpoint, tuple(_notes(target.config, one)))
        for one in target.databases(suffix)
    ]


def _notes(config: Config, database: Database) -> Iterator[str]:
    minutes = (database.checkpoint or "").split()[1:]
    if database.nosync:
        yield "nosync: a crash of the host can lose or damage the database; switch it off after a load"
        if len(minutes) != 1 or not minutes[0].isdigit() or int(minutes[0]) == 0:
            yield "and no checkpoint: written pages reach the disk when the system likes"
    if "writemap" in database.env_flags:
        yield "writemap: the file is as long as maxsize, and a stray write of slapd damages it"
    if "nometasync" in database.env_flags:
        yield "nometasync: a crash of the host can lose the last transaction"
    for kind in SETTINGS:
        for one in left(config, database, kind):
            yield (
                f"{kind} is so since {one.taken} for {one.why or 'ditseed add'}, which was killed or has "
                f"ended; the next start of ditseed here, or --apply, puts it back to {one.before}"
            )
        for one in lease.lasting(leases.identity(config), kind):
            if one.database == database.suffix:
                why = f" for {one.why}" if one.why else ""
                until = f", until {one.expires} or the next boot" if one.expires else ""
                yield f"{kind} is lent since {one.taken}{why} ({one.by}){until}; before: {one.before}"


@dataclass(frozen=True)
class Setting:
    """A setting that can be lent. Its values are in the words of the option of `ditseed tune sync`: `of` returns the
    present one, `wanted` the attributes of cn=config for a new one. `shared`: the setting whose flags slapd keeps with
    its own, so that a change of one must leave the other as it is."""

    of: Callable[[Database], str]
    wanted: Callable[[Database, str], Mapping[str, tuple[str, ...]]]
    shared: str | None = None


def change(target: Target, suffix: str | None, kind: str, value: str, apply: bool) -> Outcome:
    """Sets one of them. A lease that has ended is over once its setting is as it was before."""
    database, setting = target.config.database(suffix), SETTINGS[kind]
    if kind == ENV_FLAGS:
        value = ",".join(sorted(set(value.split(","))))
    other = SETTINGS[setting.shared or kind]
    is_dangerous = (kind, value) == (NOSYNC, ON)
    plan = Plan(
        database=database,
        changes=target.changes(database, setting.wanted(database, value)),
        holds=lambda now: setting.of(now) == value and (other is setting or other.of(now) == other.of(database)),
        words=("sync", f"--{kind}", value),
        undo=("sync", f"--{kind}", setting.of(database)),
        notes=("a crash of the host can now lose or damage the database",) if is_dangerous else (),
    )
    outcome = carry_out(target, plan, apply)
    for one in left(target.config, database, kind) if apply else ():
        if one.before == value:
            lease.end(one)
    return outcome


def left(config: Config, database: Database, kind: str) -> list[Lease]:
    """The leases of it that killed runs have left, or that have expired."""
    return [one for one in lease.left(leases.identity(config), kind) if one.database == database.suffix]


def _flags(database: Database) -> tuple[str, ...]:
    return tuple(flag.lower() for flag in database.env_flags if flag.lower() != NOSYNC)


def _nosync(database: Database, value: str) -> Mapping[str, tuple[str, ...]]:
    """slapd shows either of its two spellings as both, so off must take away both."""
    return {"olcDbNoSync": ("TRUE",)} if value == ON else {"olcDbEnvFlags": _flags(database), "olcDbNoSync": ()}


def _env_flags(database: Database, value: str) -> Mapping[str, tuple[str, ...]]:
    """nosync stays, but is written again: slapd takes its flag away with those that go."""
    flags = () if value == NONE else tuple(value.split(","))
    return {"olcDbEnvFlags": (*flags, NOSYNC) if database.nosync else flags}


SETTINGS = {
    NOSYNC: Setting(lambda database: ON if database.nosync else OFF, _nosync, shared=ENV_FLAGS),
    ENV_FLAGS: Setting(lambda database: ",".join(sorted(set(_flags(database)))) or NONE, _env_flags, shared=NOSYNC),
    CHECKPOINT: Setting(
        lambda database: database.checkpoint or NONE,
        lambda _, value: {"olcDbCheckpoint": () if value == NONE else (value,)},
    ),
}
