"""What a migration is going to do, and all that is in its way, looked at before anything is changed."""

from __future__ import annotations

import os
import shutil
import stat
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from shlex import join, quote

import msgspec

from loader import units
from loader.errors import MigrationRefused, UsageProblem
from loader.operations.storage import check
from loader.operations.storage.findings import Severity
from loader.operations.storage.migrate import volume
from loader.operations.storage.migrate import volume as tables
from loader.operations.storage.migrate.volume import Edit, Volume, unmounting
from loader.storage import files, held, mounts, survey, trees
from loader.storage.holders import Occupant, occupants
from loader.storage.mounts import Mount

_ASSUMED = 150 << 20  # bytes a second: of a single disk
# "emergency_ro" and "shutdown": ext4 of newer kernels after an error.
_READ_ONLY = {"ro", "emergency_ro", "shutdown"}
_SPARE = 8 << 20  # bytes, beside a twentieth: what another file system needs for itself


class Wishes(msgspec.Struct, frozen=True):
    """`stop` and `start`: commands, in words. `uri`: of the server that shall answer, "" for none."""

    source: str
    target: str
    stop: tuple[str, ...]
    start: tuple[str, ...]
    uri: str = ""
    fstab: str = str(mounts.FSTAB)
    seconds: float = 30.0


class Plan(msgspec.Struct, frozen=True):
    """`old`: the volume that is mounted on FROM, None where FROM is a directory of a larger one. `new`: as it will be
    mounted on FROM; `there`: as it is mounted on TO now. Sizes in bytes. `is_used`: a process writes to FROM, so that
    one must when the service was started again."""

    wishes: Wishes
    old: Volume | None
    new: Volume
    there: Volume
    edits: tuple[Edit, ...]
    files: int
    size: int
    allocated: int
    databases: tuple[str, ...]
    notes: tuple[str, ...]
    begun: float
    is_used: bool = True

    @property
    def seconds(self) -> float:
        """Copied once, read twice."""
        return 3 * self.allocated / _ASSUMED


def plan(wishes: Wishes, state: Path) -> Plan:
    """`state`: where the run is kept. Raises MigrationRefused, NoSpace, NoSuchPath, DirectoryUnsafe, NotPermitted."""
    source, target = Path(wishes.source), Path(wishes.target)
    for place in (source, target):
        _require_place(place)
    require_commands(wishes)
    old_mount, new_mount = mounts.mounted_at(source), mounts.mounted_at(target)
    if new_mount is None:
        raise _refused(target, "nothing is mounted there", "Make the new file system (storage plan), and mount it.")
    fstab = Path(wishes.fstab)
    old = volume.of(old_mount, fstab) if old_mount else None
    there = volume.of(new_mount, fstab)
    _require_apart(source, target, old, there, state)
    for mount in filter(None, (old_mount, new_mount)):
        if mount.root != "/":
            raise _refused(Path(mount.target), "it is a bind mount or a subvolume", "Give whole file systems.")
    _require_writable(new_mount, there)
    _require_shown_once(source)
    _require_unused(source, target)
    new = volume.with_options_of(there, old)
    with files.explained(source), held.opened(source) as top:
        found = trees.state_of(top.descriptor)
    _require_room(target, found.allocated)
    day = time.strftime("%Y-%m-%d")
    edits = tables.edits(fstab, wishes.source, wishes.target, new, day)
    is_used = bool(found.databases or occupants(source))
    told = tuple(_notes(source, target, old, is_used, found.size > found.allocated))
    return Plan(
        wishes,
        old,
        new,
        there,
        edits,
        found.files,
        found.size,
        found.allocated,
        found.databases,
        told,
        time.time(),
        is_used,
    )


def _refused(path: Path, reason: str, advice: str) -> MigrationRefused:
    return MigrationRefused(path=path, reason=reason, advice=advice)


def _require_place(path: Path) -> None:
    if not path.is_absolute() or not str(path).isprintable() or os.path.realpath(path) != str(path):
        raise UsageProblem(reason=f"{path}: give an absolute path without symbolic links, . and ..")
    with files.explained(path):
        if not stat.S_ISDIR(path.stat().st_mode):
            raise UsageProblem(reason=f"{path}: not a directory")
    inner = mounts.below(path)
    if path == Path("/") or inner:
        reason = f"other file systems are mounted in it: {', '.join(inner)}"
        raise _refused(path, reason, "Give a directory in which nothing else is mounted.")
    for above in path.parents:
        status = above.stat()
        open_to_all = status.st_mode & (stat.S_IWGRP | stat.S_IWOTH) and not status.st_mode & stat.S_ISVTX
        if status.st_uid not in (0, os.geteuid()) or open_to_all:
            reason = f"another account than root can rename what is in {above}"
            raise _refused(path, reason, "Mount points must be where only root can replace them.")


def require_commands(wishes: Wishes) -> None:
    """Before anything is stopped. Raises UsageProblem."""
    for command in (wishes.stop, wishes.start):
        if shutil.which(command[0]) is None:
            raise UsageProblem(reason=f"{command[0]} is not there, or not in PATH (see --service)")


def _require_apart(source: Path, target: Path, old: Volume | None, new: Volume, state: Path) -> None:
    if source == target:
        raise _refused(target, "FROM and TO are the same", "Give two places.")
    if source in target.parents or target in source.parents:
        raise _refused(target, f"one of {source} and {target} is inside the other", "Give two places.")
    if old is not None and (old.device == new.device or (old.uuid and old.uuid == new.uuid)):
        raise _refused(target, f"it has the same file system as {source}, or a clone of it", "Give another volume.")
    home = files.existing(state).stat().st_dev
    if home == target.stat().st_dev or (old is not None and home == source.stat().st_dev):
        advice = "Set DITSEED_STATE_DIR to a directory elsewhere."
        raise _refused(state, "the state of the run would be on a volume that is unmounted", advice)


def _require_writable(mount: Mount, there: Volume) -> None:
    """Before the service is stopped: now, and when it is mounted on FROM."""
    path = Path(mount.target)
    if _READ_ONLY & set(mount.options):
        raise _refused(
            path,
            "it is mounted read-only",
            f"If it was writable before, see dmesg for errors of its disk; else: mount -o remount,rw {path}",
        )
    for device in survey.devices_of(mount):
        if device.read_only:
            raise _refused(path, f"its device {device.path} is read-only", f"blockdev --setrw {device.path}")
    if "ro" in there.options.split(","):
        raise _refused(path, "its line in fstab mounts it read-only", "Change ro to rw there.")


def _require_shown_once(source: Path) -> None:
    if others := mounts.others_of(source):
        raise _refused(
            source,
            f"its files are mounted on {', '.join(others[:5])}, too, where the former ones would stay",
            "Unmount that first, and mount it again after the migration.",
        )


def _require_unused(source: Path, target: Path) -> None:
    _require_vacant(source, [one for one in occupants(source) if not one.writes])
    require_vacant(target)
    with files.explained(target), held.opened(target) as place:
        left = trees.names_in(place.descriptor, True)
    if left:
        raise trees.not_empty(target, left)


def require_vacant(target: Path) -> None:
    """For each copy again: a process in the volume keeps it from being unmounted. Raises MigrationRefused."""
    _require_vacant(target, occupants(target))


def _require_vacant(path: Path, strangers: Sequence[Occupant]) -> None:
    if strangers:
        reason = f"others than the service use it: {', '.join(map(str, strangers[:5]))}"
        raise _refused(path, reason, "End them, and leave the directory; then give the same command again.")


def _require_room(target: Path, needed: int) -> None:
    files.require_space(target, needed + needed // 20 + _SPARE)


def _notes(source: Path, target: Path, old: Volume | None, is_used: bool, sparse: bool) -> Iterator[str]:
    if old is None:
        yield (
            f"{source} is a directory of a larger file system: the new volume is mounted over it. The old files stay "
            "below it, kept, and take their room."
        )
    if not is_used:
        yield (
            f"no process writes to {source} now, so that this cannot be looked for after the start either: see "
            "yourself that the service is up"
        )
    report = check.check(target)
    before = {one.rule for one in check.check(source).findings if one.severity is not Severity.OK}
    for one in report.findings:
        if one.rule in before or one.severity not in (Severity.CRITICAL, Severity.WARNING):
            continue
        if one.severity is Severity.CRITICAL:
            raise _refused(target, f"{one.subject}: {one.what}", f"See: ditseed storage check {target}")
        yield f"{one.subject}: {one.what}"
    if sparse:
        yield "holes stay holes"


# --- told ------------------------------------------------------------------------------------------------------------
#
# A migration in commands: what a run does, as an operator would type it.


class Told(msgspec.Struct, frozen=True):
    """A step. `by`: what ditseed does itself, "" for nothing."""

    step: str
    commands: tuple[str, ...]
    by: str = ""


def forward(plan: Plan) -> Iterator[Told]:
    wishes = plan.wishes
    source, target = wishes.source, wishes.target
    amount = f"{units.size(plan.allocated)} in {units.number(plan.files)} files"
    took = units.duration(max(1.0, plan.seconds))
    yield Told("stop", (join(wishes.stop),), f"waits until no process uses {source}")
    copying = f"rsync -aHAXS --numeric-ids {quote(source)}/ {quote(target)}/"
    yield Told("copy", (), f"copies {amount} as `{copying}` would")
    yield Told("verify", (), f"compares checksums, owners, modes (copy and verify: about {took} at 150 MiB/s)")
    old = (join(unmounting(source)),) if plan.old else ()
    yield Told("unmount", (join(unmounting(target)), *old))
    yield Told("mount", (join(plan.new.mounting(source)),))
    yield Told("fstab", tuple(volume.difference(plan.edits)), f"changes these lines of {wishes.fstab}")
    checks = tuple(f"ditseed verify {quote(str(Path(source, name)))}" for name in plan.databases)
    yield Told("check", checks, f"compares owner and mode of {source}")
    yield Told("start", (join(wishes.start),))
    yield _watching(plan)


def back(plan: Plan) -> Iterator[Told]:
    wishes = plan.wishes
    yield Told("stop", (join(wishes.stop),), f"waits until no process uses {wishes.source}")
    turned = tuple(f"{'+' if line.startswith('-') else '-'}{line[1:]}" for line in volume.difference(plan.edits))
    yield Told("fstab", turned, f"puts back these lines of {wishes.fstab}")
    yield Told("unmount", (join(unmounting(wishes.source)),))
    old = (join(plan.old.mounting(wishes.source)),) if plan.old else ()
    yield Told("mount", (*old, join(plan.there.mounting(wishes.target))))
    yield Told("start", (join(wishes.start),))
    yield _watching(plan)


def _watching(plan: Plan) -> Told:
    asked = f" and that {plan.wishes.uri} answers" if plan.wishes.uri else ""
    seconds = units.duration(plan.wishes.seconds)
    return Told("watch", (), f"waits until it is up, then sees for {seconds} that it stays up{asked}")
