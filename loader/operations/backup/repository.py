"""A backup repository: a directory for each backup, complete once it has its name, with a manifest; and the packs that
incremental backups share. There is no other state.

REPO/repository.json   what `backup init` creates: the mount point of a disk that is missing has none
REPO/20261121T070501Z-dc-example-dc-com/   manifest.json and the files that it names
REPO/pages/SHA256.pack

The verbs work on a `Repository`: a directory of this host, or one on another host (remote.py).
"""

from __future__ import annotations

import datetime
import itertools
import logging
import os
import re
import shlex
import socket
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, TypeVar

import click
from click import IntRange

from loader import dn, plain, units
from loader.declared import Argument, Duration, Written
from loader.errors import (
    BackupDamaged,
    BackupFromFuture,
    FileUnsafe,
    LatestBroken,
    LoaderError,
    ManifestBroken,
    NoRepository,
    NoSuchBackup,
    NoSuchPath,
    SetIncomplete,
    SystemFailed,
    UsageProblem,
)
from loader.operations.backup import manifest, pack
from loader.operations.backup.manifest import DRILLED, PACK_NAME, PAGES, VERIFIED, Backup, Drill, Proofs, Verification
from loader.progress import Progress
from loader.run.log import exclusive, killpoint
from loader.storage import files, held
from loader.storage import remote as locations
from loader.storage.files import PARTIAL, explained
from loader.storage.remote import Location
from loader.typed import Unfit

log = logging.getLogger(__name__)
LOCK, RUN = "lock", ".ditseed"
MARKER, MARK = "repository.json", b'{"format": 1}\n'
LATEST = "latest"
ID = re.compile(r"\d{8}T\d{6}Z-[A-Za-z0-9-]+")
SKEW = datetime.timedelta(minutes=5)  # by which clocks of hosts that share a repository may differ
_TIME = "%Y%m%dT%H%M%SZ"
_STAMP = len("20261121T070501Z")
_QUIET = Progress("none")

Which = str | datetime.datetime  # an ID; LATEST; or a time, for the newest that was made by then


class Repository:
    """A repository in a directory of this host. Names of files are relative to `path`."""

    is_remote = False

    def __init__(self, path: Path) -> None:
        self.path = path

    def bring(self, backup: Backup, data: bool = True) -> None:
        """Fetches the files of a backup, without `data` the small ones only, unless they are on this host."""

    def keep(self, name: str) -> None:
        """Stores a record that was written."""

    def require_space(self, needed: int, keep_free: int) -> None:
        files.require_space(self.path, needed + keep_free)

    def send(self, backups: Sequence[Backup]) -> None:
        """Stores new backups, the one that leads a set last."""

    @contextmanager
    def changing(self) -> Iterator[Repository]:
        """Holds the repository open and locked. Raises Locked; SystemFailed if another one is at its path."""
        with held.opened(self.path) as directory, exclusive(directory.path / LOCK):
            yield Repository(directory.path)
            if not self.path.exists() or not os.path.samestat(self.path.stat(), directory.status):
                reason = "it was unmounted or moved while ditseed worked in it"
                raise SystemFailed(path=self.path, reason=reason)

    def size(self, name: str) -> int:
        """Raises BackupDamaged if it is missing or no regular file, NotPermitted."""
        path = self.path / name
        try:
            status = os.lstat(path)
            held.require_regular(status, path)
            files.require_readable(path)
        except (FileNotFoundError, NoSuchPath) as error:
            raise BackupDamaged(path=path, reason="it is missing") from error
        except FileUnsafe as error:
            raise BackupDamaged(path=path, reason="is not a regular file") from error
        return status.st_size

    def require_whole(self, backup: Backup, read: bool) -> None:
        """Raises BackupDamaged unless all files exist with their lengths, and, if `read`, the small ones have their
        checksums."""
        for name, stored in backup.stored():
            pack.require_length(self.path / name, self.size(name), stored)
        if read:
            self.bring(backup, data=False)
            for stored in backup.small_files:
                pack.require_sums(self.path / backup.id / stored.name, stored)

    def set_aside(self, name: str) -> None:
        """A backup stops being one before it loses a file; `clean` removes it."""
        with held.opened(self.path) as directory:
            directory.take(directory.path / name, f"{name}{PARTIAL}")

    def clean(self) -> None:
        """Removes what interrupted runs left."""
        for path in unfinished_backups(self.path):
            if path.suffix != PARTIAL:
                self.set_aside(path.name)
        for path in unfinished_backups(self.path):
            files.remove_tree(path)

    def tidy(self) -> None:
        """At the beginning of a run: `clean`, and removes packs that no backup needs."""
        self.clean()
        collect(self)

    def packs(self) -> dict[str, int]:
        """The sizes of the shared packs, with those that an interrupted run left unfinished."""
        directory = self.path / PAGES
        names = os.listdir(directory) if directory.is_dir() else []
        packs = (name for name in names if PACK_NAME.fullmatch(name.removesuffix(PARTIAL)))
        return {name: (directory / name).lstat().st_size for name in packs}

    def remove_pack(self, name: str) -> None:
        with held.private(self.path / PAGES, make=False) as directory:
            directory.remove(name)


Where = Path | Location | Repository  # as an operator names it, or opened by `at`


# --- options ----------------------------------------------------------------------------------------


class _RepositoryType(click.Path):
    """A directory, or a location on another host."""

    def convert(  # type: ignore[override]  # click.Path returns paths only
        self, value: object, param: click.Parameter | None, ctx: click.Context | None
    ) -> Path | Location:
        if isinstance(value, Location):
            return value
        if isinstance(value, str) and locations.is_remote(value):
            return locations.parse(value)
        return Path(os.fsdecode(super().convert(value, param, ctx)))  # type: ignore[arg-type]


class _Moment(Written):
    """A time of day on a date, not in the future."""

    name, kind = "time", datetime.datetime

    def parse(self, text: str) -> datetime.datetime:
        moment = units.parse_moment(text)
        if moment > now():
            raise UsageProblem(reason=f"{text} is in the future")
        return moment


RepoOption = Annotated[
    Where,
    "-R --repo",
    _RepositoryType(readable=False),
    "Directory that holds the backups; or s3://BUCKET/PREFIX, or sftp://USER@HOST/DIRECTORY.",
]
EveryDatabase = Annotated[
    bool, "--all-databases", "All mdb databases of the configuration, accesslogs included, as they were at one moment."
]
IdentityFiles = Annotated[
    tuple[Path, ...],
    "--identity FILE",
    click.Path(path_type=Path, readable=False, dir_okay=False),
    "age or SSH identity file that decrypts the backup (mode 0600); may be given several times.",
]


@dataclass(frozen=True, kw_only=True)
class WhichBackup:
    """The two ways to name a backup."""

    name: Annotated[str | None, Argument("[ID|latest]")] = None
    as_of: Annotated[
        datetime.datetime | None,
        "--as-of TIME",
        _Moment(),
        "Take the newest backup that was made by then: 2026-11-25T03:00, in the time zone of this host, or "
        "2026-11-25T02:00Z.",
    ] = None

    @property
    def which(self) -> Which:
        """Raises UsageProblem unless exactly one of the two is given."""
        if self.name is not None and self.as_of is None:
            return self.name
        if self.name is None and self.as_of is not None:
            return self.as_of
        raise UsageProblem(reason="say which backup: its ID, latest, or --as-of TIME")


# --- opening and creating ---------------------------------------------------------------------------


def of(repo: Where) -> Repository:
    """A repository on another host is opened by `at` first."""
    assert not isinstance(repo, Location)
    return repo if isinstance(repo, Repository) else Repository(repo)


def path_of(repo: Where) -> Path:
    return of(repo).path


@contextmanager
def at(
    repo: Where,
    progress: Progress = _QUIET,
    scratch: Path | None = None,
    changes: bool = False,
    makes_room: bool = False,
) -> Iterator[Repository]:
    """The repository that an operator names. scratch: where the files of one on another host are kept meanwhile.
    changes: nobody else changes that one as long as this lasts. makes_room: also if the server is full. Raises
    NoRepository if it is to be changed; NoSuchPath, PackageMissing, RemoteFailed, RemoteLocked."""
    if not isinstance(repo, Location):
        if changes:
            with explained(path_of(repo)):
                if not os.path.lexists(path_of(repo) / MARKER):
                    raise no_repository(path_of(repo))
        yield of(repo)
        return
    from loader.operations.backup import remote  # most repositories are directories

    with remote.opened(repo, progress, scratch, changes, makes_room) as repository:
        yield repository


def init(repo: Where) -> bool:
    """Creates a repository; False if it existed. Other files in the directory stay. Raises PackageMissing,
    RemoteFailed."""
    if isinstance(repo, Location):
        from loader.operations.backup import remote

        return remote.init(repo)
    path = path_of(repo)
    with explained(path):
        held.make_directories(path, 0o700)
        with held.opened(path) as directory:
            try:
                descriptor = directory.create(MARKER)
            except FileExistsError:
                return False
            with os.fdopen(descriptor, "wb") as file:
                file.write(MARK)
    return True


def no_repository(repo: object) -> NoRepository:
    return NoRepository(path=repo, command=shlex.join(["ditseed", "backup", "init", "-R", str(repo)]))


def now() -> datetime.datetime:
    return datetime.datetime.now(datetime.timezone.utc).replace(microsecond=0)


def new_id(repo: Path, when: datetime.datetime, suffix: str, taken: Collection[str] = ()) -> str:
    """Time and suffix, and a number for the second backup within a second."""
    first = name = f"{when.strftime(_TIME)}-{_slug(suffix)}"
    number = 2
    while (repo / name).exists() or name in taken:
        name = f"{first}-{number}"
        number += 1
    return name


def _stamp(moment: datetime.datetime) -> str:
    return moment.astimezone(datetime.timezone.utc).strftime(_TIME)


def _slug(suffix: str) -> str:
    return (re.sub(r"[^A-Za-z0-9]+", "-", suffix).strip("-").lower() or "root")[:100]


# --- the backups ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Listing:
    """All complete backups, the oldest first, and the manifests that could not be read.

    future: the last ones, if they are dated later than now and no backup is known to follow them; not in `backups`."""

    backups: tuple[Backup, ...]
    broken: tuple[ManifestBroken, ...]
    future: tuple[Backup, ...] = ()

    @property
    def every(self) -> tuple[Backup, ...]:
        return (*self.backups, *self.future)

    def of(self, suffix: str | None) -> Listing:
        """The backups of a suffix; None: all. A manifest that cannot be read may be of any suffix."""
        if suffix is None:
            return self
        wanted = dn.key(suffix)
        return _in_order([backup for backup in self.every if dn.key(backup.suffix) == wanted], self.broken)


def listing(repo: Where, suffix: str | None = None) -> Listing:
    """Leaves out unfinished backups (NAME.partial). Raises NoSuchPath."""
    path = path_of(repo)
    with explained(path):
        backups, broken = list[Backup](), list[ManifestBroken]()
        for directory in _directories(path):
            try:
                backup = manifest.read(directory)
            except ManifestBroken as error:
                broken.append(error)
            else:
                if not _is_unfinished(path, backup):
                    backups.append(backup)
        return _in_order(backups, tuple(sorted(broken, key=name_of))).of(suffix)


def _in_order(backups: Iterable[Backup], broken: tuple[ManifestBroken, ...]) -> Listing:
    every = sorted(backups, key=lambda backup: (backup.order, backup.id))
    past, limit = len(every), now() + SKEW
    while past and every[past - 1].when > limit:
        past -= 1
    return Listing(tuple(every[:past]), broken, tuple(every[past:]))


def newest(repo: Where) -> Backup | None:
    """The last of all suffixes, also one that is dated later than now."""
    return next(reversed(listing(repo).every), None)


def follows(repo: Where, when: datetime.datetime) -> str:
    """For the manifest of a new backup: a time after that of all others, if the clock is behind one."""
    last = newest(repo)
    if last is None or last.order <= when:
        return ""
    return (last.order + datetime.timedelta(seconds=1)).isoformat()


def _directories(repo: Path) -> Iterator[Path]:
    """Directories whose names have another shape are somebody else's."""
    for path in repo.iterdir():
        if re.match(r"\d{8}T\d{6}Z-", path.name) and path.is_dir() and path.suffix != PARTIAL:
            yield path


def _is_unfinished(repo: Path, backup: Backup) -> bool:
    """A set exists if the backup that leads it does, for that one gets its name last, and loses it first."""
    leader = repo / backup.set_ids[0]
    return not leader.exists() and leader.with_name(leader.name + PARTIAL).exists()


def unfinished_backups(repo: Path) -> list[Path]:
    """What interrupted runs left; the backup that leads a set after the others of it."""
    others = list[Path]()
    for directory in _directories(repo):
        try:
            if _is_unfinished(repo, manifest.read(directory)):
                others.append(directory)
        except ManifestBroken:
            continue
    return [*sorted(others), *sorted(repo.glob(f"[0-9]*Z-*{PARTIAL}"))]


def collect(repo: Repository) -> int:
    """Removes the packs that no backup needs, with the lock held; returns the bytes that they took. All packs stay as
    long as any manifest cannot be read."""
    packs, every = repo.packs(), listing(repo)
    if packs and every.broken:
        shown = plain.with_operator_paths(str(repo.path))
        log.warning("no pages are removed from %s: %s", shown, every.broken[0])
        return 0
    unused = sorted(packs.keys() - {stored.name for backup in every.every for stored in backup.packs})
    for name in unused:
        repo.remove_pack(name)
    return sum(packs[name] for name in unused)


# --- choosing backups -----------------------------------------------------------------------------


def find(repo: Where, which: Which, suffix: str | None = None) -> Backup:
    """A backup by ID, or the latest (of a suffix), now or at some time; of a set the one that leads, unless a suffix is
    given. Raises NoSuchBackup, ManifestBroken; LatestBroken if the manifest of the latest cannot be read;
    BackupFromFuture if a clock was wrong (this host's, or that of a backup), so that the latest is not known."""
    path = path_of(repo)
    if isinstance(which, datetime.datetime) or which == LATEST:
        return _last(of(repo), listing(path, suffix), which, suffix)
    if Path(which).name != which or not (path / which).is_dir() or which.endswith(PARTIAL):
        with explained(path):
            os.scandir(path).close()
        raise NoSuchBackup(path=path, name=which)
    return manifest.read(path / which)


def is_named(which: Which) -> bool:
    """Is it an ID?"""
    return isinstance(which, str) and which != LATEST


def chosen(repo: Where, which: Which, suffix: str | None = None) -> tuple[Backup, ...]:
    """As `find`; if neither an ID nor a suffix names one of a set, all of the set that can be read."""
    backup = find(repo, which, suffix)
    if is_named(which) or suffix is not None:
        return (backup,)
    return next(group for group in sets(listing(repo).backups) if backup in group)


def require_known_order(repo: Path, backups: Listing) -> None:
    """Raises BackupFromFuture."""
    if backups.future:
        last = backups.future[-1]
        raise BackupFromFuture(path=repo, name=last.id, made=last.made)


def find_set(repo: Where, which: Which) -> tuple[Backup, ...]:
    """The backups of one moment: of the latest one, now or at some time, or of that of an ID. The one that leads comes
    first. Raises what `find` does, and SetIncomplete."""
    path = path_of(repo)
    if is_named(which):
        backup = find(path, which)
        if not backup.members:
            raise NoSuchBackup(path=path, name=f"of all databases that has {which}")
        return members(path, backup)
    every = listing(path)
    in_sets = tuple(backup for backup in every.backups if backup.members)
    if not in_sets:
        if which == LATEST:
            require_known_order(path, every)
        raise NoSuchBackup(path=path, name="of all databases of a configuration")
    return members(path, _last(of(repo), replace(every, backups=in_sets), which, None))


def members(repo: Where, backup: Backup) -> tuple[Backup, ...]:
    """The backups of the same moment; itself if it is alone. Raises SetIncomplete, ManifestBroken."""
    path = path_of(repo)
    for name in backup.members:
        if not ID.fullmatch(name) or not (path / name).is_dir():
            raise SetIncomplete(path=path, name=backup.id, missing=name)
    return tuple(manifest.read(path / name) for name in backup.members) or (backup,)


def sets(backups: Iterable[Backup]) -> list[tuple[Backup, ...]]:
    """Groups the backups by moment, the one that leads first; a backup that was taken alone is a group."""
    groups: dict[tuple[str, ...], list[Backup]] = {}
    for backup in backups:
        groups.setdefault(backup.set_ids, []).append(backup)
    return [tuple(sorted(group, key=lambda backup: backup.set_ids.index(backup.id))) for group in groups.values()]


def problem(repo: Where, backup: Backup, read: bool = True, alone: bool = False) -> LoaderError | None:
    """Why a backup cannot be restored, as far as is known without reading its data; None if nothing is wrong. Its files
    have to exist with their lengths, and so do those of its set, unless it is to be restored `alone`. read: the small
    files must have their checksums."""
    repo = of(repo)
    try:
        for member in (backup,) if alone else members(repo, backup):
            repo.require_whole(member, read)
            if member.members != backup.members:
                raise SetIncomplete(path=repo.path, name=backup.id, missing=member.id)
    except (BackupDamaged, ManifestBroken, NoSuchPath, SetIncomplete) as error:
        return error
    return None


def _last(repo: Repository, backups: Listing, which: Which, suffix: str | None) -> Backup:
    """which: LATEST or a time."""
    when = ""
    if isinstance(which, str):
        require_known_order(repo.path, backups)
    else:  # a manifest that cannot be read counts by its name
        when, stamp = f" made by {which}", _stamp(which)
        backups = Listing(
            tuple(backup for backup in backups.backups if backup.when <= which),
            tuple(error for error in backups.broken if name_of(error)[:_STAMP] <= stamp),
        )
    broken = broken_latest(backups, suffix)
    if broken is not None:
        raise _latest_broken(repo, backups, broken, when)
    if not backups.backups:
        of_suffix = " at all" if suffix is None else f" of {suffix}"
        raise NoSuchBackup(path=repo.path, name=f"{of_suffix}{when}".lstrip())
    latest = backups.backups[-1]
    leader = latest.id if suffix is not None else latest.set_ids[0]
    return next((backup for backup in backups.backups if backup.id == leader), latest)


def broken_latest(backups: Listing, suffix: str | None) -> ManifestBroken | None:
    """The manifest of a backup that is newer than those that can be read, as far as its name tells."""
    last = _stamp(backups.backups[-1].order) if backups.backups else ""
    for error in reversed(backups.broken):
        name = name_of(error)
        of_suffix = suffix is None or re.fullmatch(rf"-{_slug(suffix)}(-\d+)?", name[_STAMP:])
        if of_suffix and name[:_STAMP] >= last:
            return error
    return None


def _latest_broken(repo: Repository, backups: Listing, broken: ManifestBroken, when: str) -> LatestBroken:
    advice = "Take a new backup: there is no older one."
    last = next((backup for backup in reversed(backups.backups) if problem(repo, backup, False) is None), None)
    if last is not None:
        command = f"ditseed backup restore {last.id} -R {shlex.quote(plain.told(str(repo.path)))}"
        advice = f"Run `{command}` with the other options as they were: it restores the older state of {last.made}."
    return LatestBroken(path=repo.path, when=when, name=name_of(broken), reason=broken.facts["reason"], advice=advice)


def name_of(error: ManifestBroken) -> str:
    """The ID of its backup."""
    return Path(str(error.facts["path"])).parent.name


# --- records --------------------------------------------------------------------------------------

Record = TypeVar("Record", Verification, Drill)


def host() -> str:
    return socket.gethostname()


def proofs(repo: Where, backup: Backup) -> Proofs:
    directory = path_of(repo) / backup.id
    return Proofs(_record(directory / VERIFIED, Verification, backup), _record(directory / DRILLED, Drill, backup))


def _record(path: Path, kind: type[Record], backup: Backup) -> Record | None:
    try:
        record = manifest.read_sealed(path, kind)
        if record.backup != backup.id:
            raise Unfit("is of another backup")
        age_of(record)
    except FileNotFoundError:
        return None
    except Unfit as error:
        log.warning("%s does not count: it %s", plain.with_operator_paths(str(path)), error)
        return None
    return record


def age_of(record: Verification | Drill) -> float:
    """Seconds; 0 if a clock was wrong. Raises Unfit."""
    try:
        return max(0.0, (now() - datetime.datetime.fromisoformat(record.made)).total_seconds())
    except (ValueError, TypeError) as error:
        raise Unfit(f"is of no time: {error}") from error


def keep(repo: Where, record: Record) -> Record:
    """Writes the record, in place of the last one; returns it with its seal. A repository that takes no file (full,
    mounted read-only) is a warning only, for the result counts in any case. Raises NoSuchBackup if the backup was
    removed meanwhile."""
    repo = of(repo)
    record = manifest.sealed(record)
    name = VERIFIED if isinstance(record, Verification) else DRILLED
    try:
        files.write_durably(repo.path / record.backup / name, manifest.text(record), 0o600)
        repo.keep(f"{record.backup}/{name}")
    except FileNotFoundError as error:
        raise NoSuchBackup(path=repo.path, name=record.backup) from error
    except OSError as error:
        log.warning(
            "%s: %s cannot be written, so `list`, `check` and `prune` will not know of this result: %s",
            *(plain.with_operator_paths(str(repo.path / record.backup)), name, error.strerror),
        )
    return record


# --- pruning --------------------------------------------------------------------------------------

_PERIODS = {"daily": "%Y-%m-%d", "weekly": "%G-W%V", "monthly": "%Y-%m", "yearly": "%Y"}
_Number = Annotated[int, IntRange(0), {"show_default": False}]
_KEEP = "Keep the last backup of each of the last N {} that have one."


@dataclass(frozen=True)
class Policy:
    """How many to keep: of the last, and the last of each of so many days, weeks (ISO 8601), months, years (UTC) that
    have one. within: all that are no older than so many seconds."""

    last: Annotated[_Number, "--keep-last N", "Keep the last N backups."] = 0
    daily: Annotated[_Number, "--keep-daily N", _KEEP.format("days")] = 0
    weekly: Annotated[_Number, "--keep-weekly N", _KEEP.format("weeks")] = 0
    monthly: Annotated[_Number, "--keep-monthly N", _KEEP.format("months")] = 0
    yearly: Annotated[_Number, "--keep-yearly N", _KEEP.format("years")] = 0
    within: Annotated[
        float, "--keep-within TIME", Duration(), {"show_default": False}, "Keep all backups younger than that: 30d."
    ] = 0.0

    def __bool__(self) -> bool:
        return self != KEEP_ALL

    def kept(self, newest_first: Sequence[Backup]) -> Iterator[tuple[Backup, str]]:
        """The backups to keep, with the reasons."""
        yield from ((backup, "last") for backup in newest_first[: self.last])
        if self.within:
            oldest = now() - datetime.timedelta(seconds=self.within)
            yield from ((backup, "within") for backup in newest_first if backup.when >= oldest)
        for name, written in _PERIODS.items():
            periods: dict[str, Backup] = {}
            for backup in newest_first:
                periods.setdefault(backup.when.astimezone(datetime.timezone.utc).strftime(written), backup)
            for period, backup in list(periods.items())[: getattr(self, name)]:
                yield backup, f"{name} {period}"


KEEP_ALL = Policy()


@dataclass(frozen=True)
class Kept:
    """A backup that stays, and why: "last", "daily 2026-11-21", "the latest that was proven good"."""

    id: str
    reasons: tuple[str, ...]


@dataclass(frozen=True)
class Pruned:
    """The backups that stay and those that went (or would go), with the bytes that these took. unread: IDs of backups
    whose manifests cannot be read: they are never removed."""

    kept: tuple[Kept, ...]
    removed: tuple[str, ...]
    freed: int
    unread: tuple[str, ...]


def prune(repo: Where, policy: Policy, suffix: str | None = None, dry_run: bool = False) -> Pruned:
    """Raises Locked, UsageProblem, BackupFromFuture."""
    if not policy:
        raise UsageProblem(reason="say what to keep: --keep-last, --keep-daily, --keep-within, ...")
    repo = of(repo)
    with explained(repo.path):
        if dry_run:
            return plan_pruning(repo, policy, suffix)
        with repo.changing() as locked:
            return prune_locked(locked, policy, suffix)


def prune_locked(repo: Repository, policy: Policy, suffix: str | None) -> Pruned:
    plan = plan_pruning(repo, policy, suffix)
    repo.clean()
    for name in plan.removed:
        repo.set_aside(name)
        killpoint("prune.middle")
    repo.clean()
    return replace(plan, freed=plan.freed + collect(repo))


def plan_pruning(repo: Where, policy: Policy, suffix: str | None = None) -> Pruned:
    """What would stay and go; of a set that goes, the backup that leads it first."""
    repo = of(repo)
    every = listing(repo)
    wanted = every.of(suffix)
    require_known_order(repo.path, wanted)
    reasons = _reasons(repo, every, policy)
    wanted_ids = {backup.id for backup in wanted.backups}
    groups = [group for group in sets(every.backups) if any(backup.id in wanted_ids for backup in group)]
    backups = [backup for group in groups for backup in group]
    removed = [backup for backup in backups if not reasons[backup.id]]
    return Pruned(
        tuple(Kept(name, tuple(reasons[name])) for name in sorted(backup.id for backup in backups) if reasons[name]),
        tuple(backup.id for backup in removed),
        sum(backup.stored_bytes for backup in removed if not backup.incremental),
        tuple(map(name_of, wanted.broken)),
    )


def _reasons(repo: Repository, every: Listing, policy: Policy) -> dict[str, list[str]]:
    """Why each backup stays, by ID; none: it goes. All suffixes are judged, for a set stays or goes as a whole.

    Kept of each suffix besides what the policy says: the latest, the latest that can be restored, and the latest that
    was proven good; all if none can be restored. Damaged backups, and empty ones of a suffix that has others (they may
    be of a lost database), take no other's place.
    """
    reasons: dict[str, list[str]] = {backup.id: [] for backup in every.backups}
    proven, groups = {backup.id: proofs(repo, backup) for backup in every.backups}, sets(every.backups)

    def is_restorable(backup: Backup, alone: bool = False) -> bool:
        """The small files of another host's backups are not fetched for this."""
        return problem(repo, backup, not repo.is_remote, alone) is None

    filled = {dn.key(backup.suffix) for backup in every.backups if backup.entries}
    sound = {
        backup.id: backup
        for backup in every.backups
        if not proven[backup.id].is_bad and (backup.entries or dn.key(backup.suffix) not in filled)
    }
    good = {
        backup.id
        for group in groups
        if all(backup.id in sound for backup in group) and is_restorable(group[0])
        for backup in group
    }
    for backups in _by_suffix(every.backups):
        newest_first = [backup for backup in reversed(backups) if backup.id in good]
        if not newest_first:
            for backup in backups:
                reasons[backup.id].append("none of its suffix is known to be restorable")
            continue
        reasons[backups[-1].id].append("the latest")
        reasons[newest_first[0].id].append("the latest that can be restored")
        if last := next((backup for backup in newest_first if proven[backup.id].is_proven), None):
            reasons[last.id].append("the latest that was proven good")
        for backup, reason in policy.kept(newest_first):
            reasons[backup.id].append(reason)
    for backups in _by_suffix(sound.values()):  # the rest of the set of one that is not good may be damaged
        newer = itertools.takewhile(lambda backup: backup.id not in good, reversed(backups))
        if last := next((backup for backup in newer if is_restorable(backup, alone=True)), None):
            reasons[last.id].append("the latest that can be restored by itself")
    _keep_sets(reasons, groups, good, {name_of(error) for error in every.broken})
    return reasons


def _keep_sets(
    reasons: Mapping[str, list[str]], groups: Sequence[tuple[Backup, ...]], good: Collection[str], unread: set[str]
) -> None:
    """The latest set of the same suffixes stays, for a backup of one suffix takes no set's place. So does the rest of a
    set with a backup that stays, or whose manifest cannot be read."""
    latest: dict[frozenset[object], Backup] = {}
    for group in groups:
        if len(group) > 1 and group[0].id in good:
            latest[frozenset(dn.key(backup.suffix) for backup in group)] = group[0]
    for leader in latest.values():
        reasons[leader.id].append("the latest set that can be restored")
    for group in groups:
        for name in unread.intersection(group[0].members):
            reasons[group[0].id].append(f"of the same moment as {name}, which cannot be read")
        stay = [backup.id for backup in group if reasons[backup.id]]
        for backup in group:
            if stay and not reasons[backup.id]:
                reasons[backup.id].append(f"of the same moment as {min(stay)}")


def _by_suffix(backups: Iterable[Backup]) -> list[list[Backup]]:
    groups: dict[object, list[Backup]] = {}
    for backup in backups:
        groups.setdefault(dn.key(backup.suffix), []).append(backup)
    return list(groups.values())
