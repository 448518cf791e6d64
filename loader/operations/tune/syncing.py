"""Shows and changes whether a database syncs its commits: nosync, envflags, checkpoint."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from msgspec import Struct

from loader.config import Config, Database
from loader.operations import leases
from loader.operations.options import NONE, OFF, ON
from loader.operations.tune import Outcome, Plan, Target, carry_out
from loader.run import lease
from loader.run.lease import Lease

NOSYNC, ENV_FLAGS, CHECKPOINT = "nosync", "envflags", "checkpoint"


class SyncSettings(Struct, frozen=True):
    suffix: str
    nosync: bool
    env_flags: tuple[str, ...]
    checkpoint: str | None
    notes: tuple[str, ...] = ()


def syncing(target: Target, suffix: str | None) -> list[SyncSettings]:
    return [
        SyncSettings(each.suffix, each.nosync, each.env_flags, each.checkpoint, tuple(_notes(target.config, each)))
        for each in target.databases(suffix)
    ]


def has_timed_checkpoint(database: Database) -> bool:
    minutes = (database.checkpoint or "").split()[1:]
    return len(minutes) == 1 and minutes[0].isdigit() and int(minutes[0]) > 0


def _notes(config: Config, database: Database) -> Iterator[str]:
    if database.nosync:
        yield "nosync: a crash of the host can lose or damage the database; switch it off after a load"
        if not has_timed_checkpoint(database):
            yield "no checkpoint: the kernel decides when written pages reach the disk"
    if "writemap" in database.env_flags:
        yield "writemap: the file is as long as maxsize, and a stray write of slapd damages it"
    if "nometasync" in database.env_flags:
        yield "nometasync: a crash of the host can lose the last transaction"
    for kind in SETTINGS:
        for lent in leftover_leases(config, database, kind):
            yield (
                f"{kind} was changed on {lent.taken} for {lent.why or 'ditseed add'}, which was killed or has "
                f"ended; the next start of ditseed here, or --apply, restores {lent.before}"
            )
        for lent in lease.active(leases.identity(config), kind):
            if lent.database == database.suffix:
                why = f" for {lent.why}" if lent.why else ""
                until = f", until {lent.expires} or the next boot" if lent.expires else ""
                yield f"{kind} is leased since {lent.taken}{why} ({lent.by}){until}; before: {lent.before}"


class Setting(Struct, frozen=True):
    """A setting that can be leased. `of` returns the present value as `tune sync` spells it. `attributes` returns the
    attributes of cn=config for a new value. `shared`: another setting in the same attribute, which must not change."""

    of: Callable[[Database], str]
    attributes: Callable[[Database, str], Mapping[str, tuple[str, ...]]]
    shared: str | None = None


def change(target: Target, suffix: str | None, kind: str, value: str, apply: bool) -> Outcome:
    """Sets `kind` to `value`. Ends the lease of a killed run if `value` is the value before the lease."""
    database, setting = target.config.database(suffix), SETTINGS[kind]
    if kind == ENV_FLAGS:
        value = ",".join(sorted(set(value.split(","))))
    other = SETTINGS[setting.shared or kind]
    plan = Plan(
        database=database,
        changes=target.changes(database, setting.attributes(database, value)),
        holds=lambda now: setting.of(now) == value and (other is setting or other.of(now) == other.of(database)),
        undo=("sync", f"--{kind}", setting.of(database)),
        notes=("a crash of the host can now lose or damage the database",) if (kind, value) == (NOSYNC, ON) else (),
    )
    outcome = carry_out(target, plan, apply)
    for lent in leftover_leases(target.config, database, kind) if apply else ():
        if lent.before == value:
            lease.end(lent)
    return outcome


def leftover_leases(config: Config, database: Database, kind: str) -> list[Lease]:
    """Returns the leases of the setting `kind` that killed runs have left, or that have expired."""
    return [lent for lent in lease.abandoned(leases.identity(config), kind) if lent.database == database.suffix]


def _flags(database: Database) -> tuple[str, ...]:
    return tuple(flag.lower() for flag in database.env_flags if flag.lower() != NOSYNC)


def _env_flags(database: Database, value: str) -> Mapping[str, tuple[str, ...]]:
    """Returns the attribute for new envflags. Includes nosync if it is on, because slapd would otherwise clear it."""
    flags = () if value == NONE else tuple(value.split(","))
    return {"olcDbEnvFlags": (*flags, NOSYNC) if database.nosync else flags}


SETTINGS = {
    NOSYNC: Setting(
        lambda database: ON if database.nosync else OFF,
        # slapd shows nosync in both attributes, whichever attribute has set it, so OFF must remove both.
        lambda database, value: (
            {"olcDbNoSync": ("TRUE",)} if value == ON else {"olcDbEnvFlags": _flags(database), "olcDbNoSync": ()}
        ),
        shared=ENV_FLAGS,
    ),
    ENV_FLAGS: Setting(lambda database: ",".join(sorted(set(_flags(database)))) or NONE, _env_flags, shared=NOSYNC),
    CHECKPOINT: Setting(
        lambda database: database.checkpoint or NONE,
        lambda _, value: {"olcDbCheckpoint": () if value == NONE else (value,)},
    ),
}
