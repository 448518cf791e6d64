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
    """One that can be lent. Its values are in the words of the option of `ditseed tune sync`: `of` tells the present
    one, `wanted` the attributes of cn=config for a new one."""

    kind: str
    of: Callable[[Database], str]
    wanted: Callable[[Database, str], dict[str, tuple[str, ...]]]

    def plan(self, config: Config, database: Database, value: str) -> Plan:
        if self.kind == ENV_FLAGS:
            value = ",".join(sorted(set(value.split(","))))
        # slapd keeps nosync among the flags: a change of one must leave the other as it is.
        shared = [SETTINGS[kind] for kind in _FLAGGED if kind != self.kind] if self.kind in _FLAGGED else []
        dangerous = (self.kind, value) == (NOSYNC, ON)
        return Plan(
            database=database,
            changes=changed(config, database, self.wanted(database, value)),
            holds=lambda now: self.of(now) == value and all(one.of(now) == one.of(database) for one in shared),
            words=("sync", f"--{self.kind}", value),
            undo=("sync", f"--{self.kind}", self.of(database)),
            notes=("a crash of the host can now lose or damage the database",) if dangerous else (),
        )


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


def _flags(database: Database) -> tuple[str, ...]:
    return tuple(flag.lower() for flag in database.env_flags if flag.lower() != NOSYNC)


def _nosync(database: Database, value: str) -> dict[str, tuple[str, ...]]:
    """slapd shows either of its two spellings as both, so off must take away both."""
    return {"olcDbNoSync": ("TRUE",)} if value == ON else {"olcDbEnvFlags": _flags(database), "olcDbNoSync": ()}


def _env_flags(database: Database, value: str) -> dict[str, tuple[str, ...]]:
    """nosync stays, but is written again: slapd takes its flag away with those that go."""
    flags = () if value == NONE else tuple(value.split(","))
    return {"olcDbEnvFlags": (*flags, NOSYNC) if database.nosync else flags}


def _checkpoint(database: Database, value: str) -> dict[str, tuple[str, ...]]:
    return {"olcDbCheckpoint": () if value == NONE else (value,)}


_FLAGGED = (NOSYNC, ENV_FLAGS)
SETTINGS = {
    one.kind: one
    for one in (
        Setting(NOSYNC, lambda database: ON if database.nosync else OFF, _nosync),
        Setting(ENV_FLAGS, lambda database: ",".join(sorted(set(_flags(database)))) or NONE, _env_flags),
        Setting(CHECKPOINT, lambda database: database.checkpoint or NONE, _checkpoint),
    )
}
