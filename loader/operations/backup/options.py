"""The options of the commands of `backup`. No operation is imported here, because --help needs none."""

from __future__ import annotations

import datetime
import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
from click import IntRange

from loader import age, csn
from loader.age import Recipients
from loader.declared import (
    Argument,
    Config,
    Duration,
    OptionalConfig,
    ParsedType,
    Scratch,
    Share,
    Size,
    Suffix,
    Target,
    VerifyCopy,
)
from loader.errors import UsageProblem
from loader.storage import remote as locations
from loader.storage.remote import Location

if TYPE_CHECKING:
    from loader.config import Config as ServerConfig
    from loader.config import Database
    from loader.operations.backup.repository import Where
    from loader.server.options import Connection


_GENERALIZED = re.compile(r"(\d{14})(?:[.,](\d{1,6}))?Z")  # generalizedTime, the syntax of reqStart
END_OF_TIME = "#ffffff#fff#ffffff"  # appended to a time, gives the greatest CSN of its microsecond
LATEST = "latest"
KINDS = MDB, LDIF = "mdb", "ldif"  # a backup of kind mdb stores the pages of the database, one of kind ldif its entries
Which = str | datetime.datetime  # a backup ID, LATEST, or a time, which selects the latest backup made by then


class _RepositoryType(click.Path):
    """Option type: a local directory, or a location on another host."""

    envvar_list_splitter = "\n"  # separates several values in an environment variable; a location contains colons

    def convert(  # type: ignore[override]  # click.Path returns paths only
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path | Location:
        if isinstance(value, Location):
            return value
        if isinstance(value, str) and "://" in value:
            return locations.parse(value)
        return Path(os.fsdecode(super().convert(value, param, ctx)))  # type: ignore[arg-type]


_REPO = "Directory that holds the backups; or s3://BUCKET/PREFIX, or sftp://USER@HOST/DIRECTORY."
_REPOS = f"{_REPO} May be given several times, for a backup in each."
Repositories = Annotated[tuple["Where", ...], "-R --repo", _RepositoryType(readable=False), {"required": True}, _REPOS]
RepoOption = Annotated["Where", "-R --repo", _RepositoryType(readable=False), _REPO]
OptionalRepo = Annotated[
    "Where | None", "-R --repo", _RepositoryType(readable=False), "Repository with a backup of the accesslog."
]
LogSource = Annotated[
    str | None,
    "--log SOURCE",
    "The accesslog: the directory of its database, or an export of it (default: what `backup log` stored, else a "
    "later backup of it).",
]
Rate = Annotated[int, Size(), {"show_default": False}]
EveryDatabase = Annotated[
    bool, "--all-databases", "All mdb databases of the configuration, accesslogs included, as they were at one moment."
]
IdentityFiles = Annotated[
    tuple[Path, ...],
    "--identity FILE",
    click.Path(path_type=Path, readable=False, dir_okay=False),
    "age or SSH identity file that decrypts the backup (mode 0600); may be given several times.",
]


def parse_moment(text: str) -> datetime.datetime | None:
    """Returns the time in a text, or None if it is neither a date nor a date with a time of day. The default time zone
    is that of this host."""
    try:
        return datetime.datetime.fromisoformat(re.sub("[zZ]$", "+00:00", text.strip())).astimezone()
    except (ValueError, OverflowError):
        return None


class Day(ParsedType):
    """Option type: a date in the future, with or without a time of day."""

    name, kind, past, example = "date", datetime.datetime, False, "2027-01-01, or 2027-01-01T12:00Z"

    def parse(self, text: str) -> datetime.datetime:
        moment = parse_moment(text)
        if moment is None or (self.past and ":" not in text):
            raise UsageProblem(reason=f"not a {self.name}: {text!r} (write {self.example})")
        if self.past != (moment <= datetime.datetime.now(datetime.timezone.utc)):
            raise UsageProblem(reason=f"{text} is in the {'future' if self.past else 'past (--release undoes a pin)'}")
        return moment


class PastTime(Day):
    """Option type: a date with a time of day, in the past."""

    name, past, example = "time", True, "2026-11-25T03:00, or 2026-11-25T02:00Z"


@dataclass(frozen=True)
class Moment:
    """A moment in the log: the CSN `csn`. If a log entry has the reqStart `text`, its CSN is used instead."""

    text: str
    csn: str

    @classmethod
    def parse(cls, text: str) -> Moment:
        """Accepts a CSN, a reqStart, a generalizedTime, or a date with a time. Raises UsageProblem."""
        text = text.strip()
        if csn.server_id(text) is not None:
            return cls(text, text)
        if match := _GENERALIZED.fullmatch(text):
            return cls(text, f"{match[1]}.{match[2] or '':0<6}Z{END_OF_TIME}")
        moment = parse_moment(text)
        if moment is None or ":" not in text:
            reason = f"not a moment: {text!r} (write 2026-11-25T16:20:00, 20261125152000Z, a reqStart or a CSN)"
            raise UsageProblem(reason=reason)
        return cls(text, f"{moment.astimezone(datetime.timezone.utc):%Y%m%d%H%M%S.%fZ}{END_OF_TIME}")

    @property
    def time(self) -> datetime.datetime:
        try:
            return csn.time(self.csn).replace(tzinfo=datetime.timezone.utc)
        except ValueError as error:
            raise UsageProblem(reason=f"not a moment: {self.text!r} ({error})") from error


END = Moment("its end", f"99991231235959.999999Z{END_OF_TIME}")  # the end of the log: later than any log entry


class _MomentType(ParsedType):
    name, kind, parse = "moment", Moment, staticmethod(Moment.parse)


@dataclass(frozen=True)
class WhichBackup:
    """The parameters that select a backup: its ID, "latest", or a time."""

    name: Annotated[str | None, Argument("[ID|latest]")] = None
    as_of: Annotated[
        datetime.datetime | None,
        "--as-of TIME",
        PastTime(),
        "Use the newest backup made by TIME: 2026-11-25T03:00, in the time zone of this host, or 2026-11-25T02:00Z.",
    ] = None

    def begin(self) -> None:
        """Raises UsageProblem if neither ID nor time is given, or both."""
        if (self.name is None) == (self.as_of is None):
            raise UsageProblem(reason="say which backup: its ID, latest, or --as-of TIME")

    @property
    def which(self) -> Which:
        return self.as_of or self.name or LATEST


_Number = Annotated[int, IntRange(0), {"show_default": False}]
_KEEP = "Keep the last backup of each of the last N {} that have one."


@dataclass(frozen=True)
class Policy:
    """The retention policy. `last`: number of newest backups to keep. `daily`, `weekly` (ISO 8601), `monthly`,
    `yearly`: number of periods (UTC) whose last backup is kept; periods without a backup are not counted. `within`: age
    in seconds up to which all backups are kept."""

    last: Annotated[_Number, "--keep-last N", "Keep the last N backups."] = 0
    daily: Annotated[_Number, "--keep-daily N", _KEEP.format("days")] = 0
    weekly: Annotated[_Number, "--keep-weekly N", _KEEP.format("weeks")] = 0
    monthly: Annotated[_Number, "--keep-monthly N", _KEEP.format("months")] = 0
    yearly: Annotated[_Number, "--keep-yearly N", _KEEP.format("years")] = 0
    within: Annotated[
        float, "--keep-within TIME", Duration(), {"show_default": False}, "Keep all backups younger than TIME: 30d."
    ] = 0.0

    def __bool__(self) -> bool:
        return self != KEEP_ALL


KEEP_ALL = Policy()


@dataclass(frozen=True)
class Download:
    """Limits for a repository on another host, in bytes per second, or 0 for no limit. Only Traffic declares an option
    for `upload`."""

    upload: int = 0
    download: Annotated[
        Rate, "--limit-download RATE", "Maximum bytes per second to read from a repository on another host."
    ] = 0


@dataclass(frozen=True)
class Traffic(Download):
    upload: Annotated[
        Rate, "--limit-upload RATE", "Maximum bytes per second to write to a repository on another host."
    ] = 0


UNLIMITED = Traffic()


@dataclass(frozen=True)
class Packing:
    """`level`: zstd level. Level 2 takes two thirds of the time of level 3, and its output is 3 % larger. `throttle`:
    bytes to read per second, or 0 for no limit. `keep_free`: bytes to leave free on the disk. `recipients`: keys that
    can decrypt the backup, or None if it is not encrypted."""

    level: Annotated[
        int, "--compress-level", IntRange(1, 19), "Level of zstd; a higher level makes a smaller file and takes longer."
    ] = 2
    throttle: Annotated[
        Rate, "--throttle SIZE", "Maximum bytes of the database to read per second (default: no limit)."
    ] = 0
    keep_free: Annotated[
        Rate,
        "--keep-free SIZE",
        "Minimum free space in the repository; a backup that would leave less is refused or stopped.",
    ] = 0
    recipients: Recipients | None = None
    ldif: bool = False

    def stored_name(self, name: str) -> str:
        return name if self.recipients is None else name + age.SUFFIX


PACKING = Packing()


@dataclass(frozen=True)
class Limits:
    """Times are in seconds. If `verify_age`, `drill_age` or `max_loss` is 0 or None, there is no limit."""

    max_age: Annotated[
        float, "--max-age TIME", Duration(), {"default": "26h"}, "CRITICAL if the latest backup is older: 26h, 90m."
    ] = 26 * 3600.0
    min_count: Annotated[int, "--min-count N", IntRange(0), "WARNING if there are fewer backups."] = 1
    verify_age: Annotated[
        float | None,
        "--max-verify-age TIME",
        Duration(),
        "WARNING if the last verification is older: 8d (default: no limit).",
    ] = None
    drill_age: Annotated[
        float | None, "--max-drill-age TIME", Duration(), "WARNING if the last drill is older: 35d (default: no limit)."
    ] = None
    shrink: Annotated[
        float,
        "--max-shrink SHARE",
        Share(),
        {"default": "50%"},
        "WARNING if the latest backup has fewer entries than the median of the seven before, by more than this share.",
    ] = 0.5
    max_loss: Annotated[
        float | None,
        "--max-loss TIME",
        Duration(),
        "WARNING if the last `drill --replay` found that more changes would be lost: 10m (default: no limit).",
    ] = None


@dataclass(frozen=True)
class BackupOptions:
    """Exactly one of `config_path` and `source` names the database. A successful run then removes those backups of the
    same suffixes that the retention policy does not keep: `policy` or, if it is empty, that of the repository. `repo`
    is no option: the command line may name several repositories."""

    repo: Where = Path()
    config_path: OptionalConfig = None
    source: Annotated[Path | None, "--from DIR", "Database directory, if there is no configuration."] = None
    suffix: Suffix = None
    packing: Packing = PACKING
    policy: Policy = KEEP_ALL
    incremental: Annotated[
        bool, "Store only the pages that the last incremental backup of this suffix does not have."
    ] = False
    every: EveryDatabase = False

    def databases(self, config: ServerConfig) -> Sequence[Database]:
        return config.mdb_databases if self.every else [config.database(self.suffix)]


@dataclass(frozen=True)
class LogOptions:
    repo: RepoOption
    config_path: Config
    suffix: Suffix = None
    packing: Packing = PACKING


@dataclass(frozen=True)
class RestoreOptions:
    """`target`: the directory for the database, or None for the one in `config_path`. `verify`: level of the check, or
    None if the size decides."""

    repo: RepoOption
    which: Which = LATEST
    config_path: OptionalConfig = None
    suffix: Suffix = None
    target: Target = None
    replace: Annotated[
        bool,
        "Replace the existing database once the restored one is checked. The old data file stays in the directory as "
        "data.mdb.replaced-TIME.",
    ] = False
    verify: VerifyCopy = None
    every: EveryDatabase = False
    identities: IdentityFiles = ()
    until: Annotated[
        Moment | None,
        "--until MOMENT",
        _MomentType(),
        "Replay the changes of the accesslog after the backup, up to this time, CSN or reqStart: 2026-11-25T16:20:00.",
    ] = None
    log: LogSource = None
    skip: Annotated[
        tuple[str, ...],
        "--skip REQSTART",
        "Leave out the logged change with this reqStart; may be given several times.",
    ] = ()
    accept_gaps: Annotated[bool, "Replay the log even if it lacks changes, and name the entries concerned."] = False


@dataclass(frozen=True)
class UndoOptions:
    """If `log` is None, the log is read from `repo`."""

    since: Annotated[
        Moment, "--since MOMENT", _MomentType(), "The first change: a time, CSN or reqStart: 2026-11-25T16:18:00."
    ]
    until: Annotated[Moment | None, "--until MOMENT", _MomentType(), "The last change (default: all)."] = None
    log: LogSource = None
    repo: OptionalRepo = None
    suffix: Suffix = None
    config_path: OptionalConfig = None
    dn: Annotated[str | None, "--dn DN", "Only changes of the entry DN, and of entries below it."] = None
    by: Annotated[str | None, "--by AUTHZID", "Only changes by this DN (reqAuthzID of the log)."] = None
    identities: IdentityFiles = ()


EVERY = "all"


@dataclass(frozen=True)
class VerifyOptions:
    """`names` has backup IDs, "latest" or "all"."""

    repo: RepoOption
    names: Sequence[str] = (EVERY,)
    suffix: Suffix = None
    sample: Annotated[
        float, "--sample SHARE", Share(), {"default": "100%"}, "Share of the data to read, chosen at random each time."
    ] = 1.0


@dataclass(frozen=True)
class DrillOptions:
    """`live`: the server to compare the replay with. None: the slapd of this host, if it has the database open."""

    repo: RepoOption
    which: Which = LATEST
    suffix: Suffix = None
    config_path: OptionalConfig = None
    scratch: Annotated[Scratch, "Directory in which the backup is restored for the drill (default: /tmp)."] = None
    user: Annotated[
        str | None,
        "--run-as NAME",
        "Account that slapd runs as (default: that of the database on this host, or nobody).",
    ] = None
    identities: IdentityFiles = ()
    replay: Annotated[
        bool,
        "Also replay the accesslog as far as it goes, let a consumer follow the result, and say how many seconds of "
        "changes would be lost now.",
    ] = False
    log: LogSource = None
    live: Connection | None = None


@dataclass(frozen=True)
class ExtractOptions:
    repo: RepoOption
    which: Which = LATEST
    suffix: Suffix = None
    dn: Annotated[str | None, "--dn DN", "The entry DN, and all entries below it."] = None
    where: Annotated[str | None, "--filter FILTER", "The entries that an LDAP filter matches."] = None
    keep_operational: Annotated[
        bool, "Write entryUUID, creatorsName, createTimestamp ... as well: for slapadd, or ldapadd -e relax."
    ] = False
    changes: Annotated[
        bool, "Write LDIF for ldapmodify that brings the entries of the server -H back to those of the backup."
    ] = False
    config_path: OptionalConfig = None
    scratch: Annotated[Scratch, "Directory in which the backup is unpacked (default: $TMPDIR or /tmp)."] = None
    identities: IdentityFiles = ()
