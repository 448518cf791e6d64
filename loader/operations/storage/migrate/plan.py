"""The plan of a migration: everything that is in its way is looked for before anything is changed."""

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
from loader.operations.storage.migrate.volume import Edit, Volume, unmounting
from loader.storage import files, held, mounts, survey, trees
from loader.storage.holders import Occupant, occupants
from loader.storage.mounts import Mount

_ASSUMED = 150 << 20  # bytes a second: of a single disk
# "emergency_ro" and "shutdown": ext4 of newer kernels after an error.
_READ_ONLY = {"ro", "emergency_ro", "shutdown"}
_SPARE = 8 << 20  # bytes, beside a twentieth: what another file system needs for itself


class MoveRequest(msgspec.Struct, frozen=True):
    """`stop` and `start`: commands, in words. `uri`: of the server that must answer, "" for none. `seconds`: for which
    the service must stay up."""

    source: str
    target: str
    stop: tuple[str, ...]
    start: tuple[str, ...]
    uri: str = ""
    fstab: str = str(mounts.FSTAB)
    seconds: float = 30.0


class MovePlan(msgspec.Struct, frozen=True, kw_only=True):
    """`old`: the volume that is mounted on FROM; None if FROM is a directory of a larger one. `new`: as it will be
    mounted on FROM; `there`: as it is mounted on TO now. Sizes in bytes. `is_used`: a process writes to FROM, so that
    one must when the service was started again."""

    request: MoveRequest
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


def plan(request: MoveRequest, state: Path) -> MovePlan:
    """`state`: where the run is kept. Raises MigrationRefused, NoSpace, NoSuchPath, DirectoryUnsafe, NotPermitted."""
    source, target, fstab = Path(request.source), Path(request.target), Path(request.fstab)
    for path in (source, target):
        _require_directory(path)
    require_commands(request)
    old_mount, new_mount = mounts.mounted_at(source), mounts.mounted_at(target)
    if new_mount is None:
        raise _refused(target, "nothing is mounted there", "Make the new file system (storage plan), and mount it.")
    old = volume.of(old_mount, fstab) if old_mount else None
    there = volume.of(new_mount, fstab)
    _require_apart(source, target, old, there, state)
    for mount in filter(None, (old_mount, new_mount)):
        if mount.root != "/":
            raise _refused(Path(mount.target), "it is a bind mount or a subvolume", "Give whole file systems.")
    _require_writable(new_mount, there)
    _require_unused(source, target)
    new = volume.with_options_of(there, old)
    with files.explained(source), held.opened(source) as top:
        tree = trees.state_of(top.descriptor)
    files.require_space(target, tree.allocated + tree.allocated // 20 + _SPARE)
    is_used = bool(tree.databases or occupants(source))
    return MovePlan(
        request=request,
        old=old,
        new=new,
        there=there,
        edits=volume.edits(fstab, request.source, request.target, new, time.strftime("%Y-%m-%d")),
        files=tree.files,
        size=tree.size,
        allocated=tree.allocated,
        databases=tree.databases,
        notes=tuple(_notes(source, target, old, is_used, tree.size > tree.allocated)),
        begun=time.time(),
        is_used=is_used,
    )


def _refused(path: Path, reason: str, advice: str) -> MigrationRefused:
    return MigrationRefused(path=path, reason=reason, advice=advice)


def _require_directory(path: Path) -> None:
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


def require_commands(request: MoveRequest) -> None:
    """Before anything is stopped. Raises UsageProblem."""
    for command in (request.stop, request.start):
        if shutil.which(command[0]) is None:
            raise UsageProblem(reason=f"{command[0]} is not there, or not in PATH (see --service)")


def _require_apart(source: Path, target: Path, old: Volume | None, new: Volume, state: Path) -> None:
    if source == target:
        raise _refused(target, "FROM and TO are the same", "Give two places.")
    if source in target.parents or target in source.parents:
        raise _refused(target, f"one of {source} and {target} is inside the other", "Give two places.")
    if old is not None and (old.device == new.device or (old.uuid and old.uuid == new.uuid)):
        raise _refused(target, f"it has the same file system as {source}, or a clone of it", "Give another volume.")
    device = files.existing(state).stat().st_dev
    if device == target.stat().st_dev or (old is not None and device == source.stat().st_dev):
        advice = "Set DITSEED_STATE_DIR to a directory elsewhere."
        raise _refused(state, "the state of the run would be on a volume that is unmounted", advice)


def _require_writable(mount: Mount, there: Volume) -> None:
    """Before the service is stopped: now, and when it is mounted on FROM."""
    path = Path(mount.target)
    if _READ_ONLY & set(mount.options):
        advice = f"Remount it: mount -o remount,rw {path}. If it was writable before, see dmesg for errors of its disk."
        raise _refused(path, "it is mounted read-only", advice)
    for device in survey.devices_of(mount):
        if device.read_only:
            raise _refused(path, f"its device {device.path} is read-only", f"blockdev --setrw {device.path}")
    if "ro" in there.options.split(","):
        raise _refused(path, "its line in fstab mounts it read-only", "Change ro to rw there.")


def _require_unused(source: Path, target: Path) -> None:
    if others := mounts.others_of(source):
        raise _refused(
            source,
            f"its files are mounted on {', '.join(others[:5])}, too, where the former ones would stay",
            "Unmount that first, and mount it again after the migration.",
        )
    _require_no_strangers(source, [one for one in occupants(source) if not one.writes])
    require_vacant(target)
    with files.explained(target), held.opened(target) as top:
        names = trees.names_in(top.descriptor, True)
    if names:
        raise trees.not_empty(target, names)


def require_vacant(target: Path) -> None:
    """For each copy again: a process in the volume keeps it from being unmounted. Raises MigrationRefused."""
    _require_no_strangers(target, occupants(target))


def _require_no_strangers(path: Path, strangers: Sequence[Occupant]) -> None:
    if strangers:
        reason = f"others than the service use it: {', '.join(map(str, strangers[:5]))}"
        raise _refused(path, reason, "End them, and leave the directory; then give the same command again.")


def _notes(source: Path, target: Path, old: Volume | None, is_used: bool, is_sparse: bool) -> Iterator[str]:
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
    before = {finding.rule for finding in check.check(source).findings if finding.severity is not Severity.OK}
    for finding in check.check(target).findings:
        if finding.rule in before or finding.severity.rank < Severity.WARNING.rank:
            continue
        what = f"{finding.subject}: {finding.what}"
        if finding.severity is Severity.CRITICAL:
            raise _refused(target, what, f"See: ditseed storage check {target}")
        yield what
    if is_sparse:
        yield "holes stay holes"


# --- the plan as an operator would type it ---------------------------------------------------------------------------


class PlannedStep(msgspec.Struct, frozen=True):
    """`by`: what ditseed does itself, "" for nothing."""

    step: str
    commands: tuple[str, ...]
    by: str = ""


def forward(plan: MovePlan) -> Iterator[PlannedStep]:
    request = plan.request
    source, target = request.source, request.target
    yield _stopping(request)
    amount = f"{units.size(plan.allocated)} in {units.number(plan.files)} files"
    copying = f"rsync -aHAXS --numeric-ids {quote(source)}/ {quote(target)}/"
    yield PlannedStep("copy", (), f"copies {amount} as `{copying}` would")
    took = units.duration(max(1.0, 3 * plan.allocated / _ASSUMED))  # written once, read twice
    yield PlannedStep("verify", (), f"compares checksums, owners, modes (copy and verify: about {took} at 150 MiB/s)")
    old = (join(unmounting(source)),) if plan.old else ()
    yield PlannedStep("unmount", (join(unmounting(target)), *old))
    yield PlannedStep("mount", (join(plan.new.mounting(source)),))
    yield PlannedStep("fstab", tuple(volume.difference(plan.edits)), f"changes these lines of {request.fstab}")
    checks = tuple(f"ditseed verify {quote(str(Path(source, name)))}" for name in plan.databases)
    yield PlannedStep("check", checks, f"compares owner and mode of {source}")
    yield from _starting(request)


def back(plan: MovePlan) -> Iterator[PlannedStep]:
    request = plan.request
    yield _stopping(request)
    lines = tuple(volume.difference(plan.edits, is_back=True))
    yield PlannedStep("fstab", lines, f"puts back these lines of {request.fstab}")
    yield PlannedStep("unmount", (join(unmounting(request.source)),))
    old = (join(plan.old.mounting(request.source)),) if plan.old else ()
    yield PlannedStep("mount", (*old, join(plan.there.mounting(request.target))))
    yield from _starting(request)


def _stopping(request: MoveRequest) -> PlannedStep:
    return PlannedStep("stop", (join(request.stop),), f"waits until no process uses {request.source}")


def _starting(request: MoveRequest) -> Iterator[PlannedStep]:
    yield PlannedStep("start", (join(request.start),))
    answers = f" and that {request.uri} answers" if request.uri else ""
    seconds = units.duration(request.seconds)
    yield PlannedStep("watch", (), f"waits until it is up, then sees for {seconds} that it stays up{answers}")
