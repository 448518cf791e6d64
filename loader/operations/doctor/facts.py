"""What the rules of `doctor` look at: gathered once (looking.py), then judged."""

from __future__ import annotations

import msgspec

from loader.operations.storage.findings import Finding
from loader.storage.asking import Unseen


class Reader(msgspec.Struct, frozen=True):
    """A process that has a snapshot of the database. `lag`: transactions that have ended since."""

    pid: int
    process: str
    lag: int
    is_alive: bool


class Room(msgspec.Struct, frozen=True):
    """What MDB_MAP_FULL depends on, in bytes. `used`: up to the last page ever used. `reusable`: free pages among them
    that the next transactions may use; `held`: those that they may not, for the oldest reader may want them.
    `disk_free`: on the file system, with the holes of the file. `transactions`: a second, now; `growth`: bytes a
    second while pages are held."""

    maxsize: int
    used: int
    reusable: int
    held: int
    disk_free: int
    transactions: float
    growth: float

    @property
    def unused(self) -> int:
        """Of the map, as far as the disk has room for it."""
        return max(0, min(self.maxsize - self.used, self.disk_free))

    @property
    def available(self) -> int:
        return self.unused + self.reusable


class Database(msgspec.Struct, frozen=True):
    """A database of the configuration. `name`: as in cn=config, without its number's braces (`mdb1`)."""

    name: str
    suffix: str
    directory: str
    maxsize: int
    nosync: bool
    env_flags: tuple[str, ...] = ()
    checkpoint: str | None = None
    is_there: bool = False
    room: Room | None = None
    readers: tuple[Reader, ...] = ()
    storage: tuple[Finding, ...] = ()

    @property
    def lag(self) -> int:
        """Of its oldest reader."""
        return max((one.lag for one in self.readers), default=0)


class Lease(msgspec.Struct, frozen=True):
    """A setting that a killed run left on a server. `undo`: the command that puts it back."""

    kind: str
    target: str
    database: str
    taken: str
    undo: str


class Facts(msgspec.Struct, frozen=True):
    """`server`: options that name this server to `ditseed tune`; `stopped`: it has to be stopped for that.
    `only`: the suffix that was asked for."""

    config: str
    server: str
    stopped: bool
    databases: tuple[Database, ...]
    only: str | None = None
    leases: tuple[Lease, ...] = ()
    unseen: tuple[Unseen, ...] = ()

    def tuned(self, *words: str) -> tuple[str, ...]:
        """Commands of `ditseed tune` with these words."""
        command = " ".join(("ditseed tune", words[0], self.server, *words[1:], "--apply"))
        if not self.stopped:
            return (command,)
        return ("systemctl stop slapd", command, "systemctl start slapd")
