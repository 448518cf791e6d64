"""The facts that the rules of `doctor` judge (rules.py); looking.py gathers them once."""

from __future__ import annotations

import shlex
from pathlib import Path

import msgspec

from loader.operations.room import Reader, Room
from loader.operations.storage.findings import Finding
from loader.run.lease import Lease
from loader.storage.survey import Unseen


class Drift(msgspec.Struct, frozen=True):
    """What a sample of `entries` tells. `rebuild`: attributes whose index is not what the configuration makes.
    `unknown`: attribute types and object classes that the configuration lacks. `otherwise`: what else differs.
    `left_out`: indexes whose keys ditseed does not know."""

    entries: int
    rebuild: tuple[str, ...]
    unknown: tuple[str, ...]
    otherwise: tuple[str, ...]
    left_out: tuple[str, ...] = ()


class Backup(msgspec.Struct, frozen=True):
    """What `backup check` says. `status`: a Monitoring Plugin's."""

    repo: str
    status: int
    reason: str


class Replication(msgspec.Struct, frozen=True):
    """Of a consumer. `stored`: its contextCSN, as its database has it. `shown`: that of the provider; None: it did not
    show any. `age`: seconds since the newest stored one. `dead`: why the provider cannot be reached. `refused`: what
    it said to the account of olcSyncrepl."""

    provider: str
    stored: tuple[str, ...]
    shown: tuple[str, ...] | None
    age: float | None
    dead: str = ""
    refused: str = ""


class Slapd(msgspec.Struct, frozen=True):
    """The process of the configuration. `pid`: None if there is none. `pid_file`: that of one that died. `silence`: why
    it does not answer. `failed`: suffixes that it cannot read, and its words."""

    pid: int | None = None
    pid_file: str = ""
    silence: str = ""
    failed: tuple[tuple[str, str], ...] = ()


class Barred(msgspec.Struct, frozen=True):
    """A file that slapd's account cannot "read" or "write". `subject`: a suffix, "configuration" or "TLS". `is_own`: it
    belongs to the account."""

    subject: str
    path: str
    verb: str
    account: str
    is_own: bool


class Certificate(msgspec.Struct, frozen=True):
    """`left`: seconds until it expires. `is_one_of_many`: of a file of several CAs, not all of which may be in use."""

    file: str
    subject: str
    left: float
    is_one_of_many: bool


class Kept(msgspec.Struct, frozen=True):
    """An old data file beside data.mdb. `allocated`: bytes."""

    name: str
    allocated: int


class Database(msgspec.Struct, frozen=True):
    """A database of the configuration. `name`: as in cn=config, without its number's braces (`mdb1`). `format`: of
    data.mdb; `owner`: of it; `lent`: who has nosync as a lease; `limits`, `idlexp`: as configured; `size_limit`: of
    whoever no rule of `limits` names; `lacking`: indexes that replication needs; `twins`: entryUUIDs that several
    entries have, with two of their DNs; `damage`: of data.mdb; `slots`: of lock.mdb, and how many of them living
    processes have."""

    name: str
    suffix: str
    directory: str
    maxsize: int
    nosync: bool
    env_flags: tuple[str, ...] = ()
    checkpoint: str | None = None
    overlays: tuple[str, ...] = ()
    limits: tuple[str, ...] = ()
    size_limit: str = ""
    idlexp: int | None = None
    is_glued: bool = False
    lent: str = ""
    is_maxsize_set: bool = True
    is_multi_provider: bool = False
    lacking: tuple[str, ...] = ()
    twins: tuple[tuple[str, str, str], ...] = ()
    damage: str = ""
    slots: int = 0
    slots_taken: int = 0
    format: int | None = None
    owner: str = ""
    room: Room | None = None
    readers: tuple[Reader, ...] = ()
    storage: tuple[Finding, ...] = ()
    kept: tuple[Kept, ...] = ()
    drift: Drift | None = None
    backup: Backup | None = None
    replication: tuple[Replication, ...] = ()

    @property
    def lag(self) -> int:
        """Of its oldest reader."""
        return max((one.lag for one in self.readers), default=0)


class Facts(msgspec.Struct, frozen=True):
    """`server`: options that name this server to `ditseed tune`; `by_hand`: it has a slapd.conf, and `tune` prints what
    to change there. `unseen`: what could not be looked at; `left_out`: what nobody asked for. `tls`: why slapd cannot
    use its certificate."""

    config: str
    server: str
    by_hand: bool
    databases: tuple[Database, ...]
    release: tuple[int, int, int] | None = None
    leases: tuple[Lease, ...] = ()
    certificates: tuple[Certificate, ...] = ()
    tls: str = ""
    slapd: Slapd | None = None
    barred: tuple[Barred, ...] = ()
    has_server_id: bool = False
    is_check: bool = False
    unseen: tuple[Unseen, ...] = ()
    left_out: tuple[Unseen, ...] = ()

    def tuned(self, *words: str) -> tuple[str, ...]:
        """Commands of `ditseed tune` with these words."""
        apply = () if self.by_hand else ("--apply",)
        return (" ".join(("ditseed tune", words[0], self.server, *words[1:], *apply)),)

    def slap(self, tool: str, database: Database, *words: str) -> tuple[str, ...]:
        """Commands that run one of slapd's tools on a database, as the account that owns it, while slapd is stopped."""
        place = "-F" if Path(self.config).is_dir() else "-f"
        alone = ["-g"] if database.is_glued else []  # without its subordinate databases
        where = [*alone, place, self.config, "-b", database.suffix]
        command = shlex.join([tool, *where, *words])
        if database.owner not in ("", "root"):
            command = f"runuser -u {shlex.quote(database.owner)} -- {command}"
        return ("systemctl stop slapd", command, "systemctl start slapd")
