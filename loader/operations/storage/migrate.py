"""`storage migrate`: moves a directory to another volume. Each step can be repeated, and rolled back.

`plan` looks for all obstacles before anything is changed. Every run repeats the steps that a reboot undoes, such as
stopping the service and mounting the volumes. It repeats copy and verify only if a volume has changed since. A boot at
any moment must mount the volume that the service last wrote to. So /etc/fstab names the new volume (in a rollback, the
old one) before the service starts on it.
"""

from __future__ import annotations

import hashlib
import logging
import os
import shutil
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from shlex import join, quote

import msgspec

from loader import child, units
from loader.declared import AuditResources
from loader.defaults import state_dir
from loader.errors import LoaderError, MdbDamaged, MigrationRefused, ToolFailed, UsageProblem
from loader.mdb import verify as databases
from loader.operations.storage import check, mounting
from loader.operations.storage.findings import Severity
from loader.operations.storage.mounting import Edit, Volume
from loader.progress import Meter, Progress
from loader.run.log import Report, forget, killpoint
from loader.run.steps import Run, open_run, status_of
from loader.server.options import Connection
from loader.server.session import session
from loader.storage import files, held, holders, mounts, survey, trees
from loader.storage.holders import Occupant, occupants
from loader.storage.mounts import Mount

VERB = "storage migrate"
STEPS = ("preflight", "stop", "copy", "verify", "unmount", "mount", "fstab", "check", "start", "watch")
_REPEATED = ("stop", "unmount", "mount", "fstab", "check", "start")
_ROLLBACK = "rollback"
_PATIENCE = 60.0  # seconds within which the service must close its files, or come up
_LOOK = 0.1  # seconds between two checks of the service
_SHOWN = 5  # processes or mounts listed in one message
# Mount options of a read-only mount. Newer kernels show "emergency_ro" and "shutdown" for ext4 after an error.
_READ_ONLY = {"ro", "emergency_ro", "shutdown"}
_SPARE = 8 << 20  # bytes that the new file system may need in addition to 105 % of the data
_REPEAT = "then run the same command again, or go back with --rollback."
_DOWN = (
    "Look at the service's log. The same command checks the service again; --rollback mounts the former volume and "
    "starts the service on it."
)
_log = logging.getLogger(__name__)


class MoveRequest(msgspec.Struct, frozen=True):
    """The options of a migration. `stop`, `start`: words of a command. `uri`: URI of the server that must answer, or
    "". `seconds`: time that the service must stay up."""

    source: str
    target: str
    stop: tuple[str, ...]
    start: tuple[str, ...]
    uri: str = ""
    fstab: str = str(mounts.FSTAB)
    seconds: float = 30.0


class MovePlan(msgspec.Struct, frozen=True, kw_only=True):
    """`old`: volume mounted on FROM, or None if FROM is a directory of a larger volume. `new`: volume with the mount
    options for FROM. `there`: the same volume with the options for TO. `allocated`: bytes. `is_used`: FROM has a
    database, or a process uses FROM. If so, a process must use FROM after the start."""

    request: MoveRequest
    old: Volume | None
    new: Volume
    there: Volume
    edits: tuple[Edit, ...]
    files: int
    allocated: int
    databases: tuple[str, ...]
    notes: tuple[str, ...]
    begun: float
    is_used: bool = True

    @property
    def source(self) -> Path:
        return Path(self.request.source)

    @property
    def target(self) -> Path:
        return Path(self.request.target)


def plan(request: MoveRequest, state: Path) -> MovePlan:
    """Plans a migration. `state`: the run directory. Raises MigrationRefused, NoSpace, NoSuchPath, DirectoryUnsafe,
    NotPermitted, UsageProblem."""
    source, target, fstab = Path(request.source), Path(request.target), Path(request.fstab)
    for path in (source, target):
        _require_directory(path)
    require_commands(request)
    if source == target or source in target.parents or target in source.parents:
        raise _refused(target, f"it and {source} are the same, or one is inside the other", "Give separate ones.")
    old_mount, new_mount = mounts.mounted_at(source), mounts.mounted_at(target)
    if new_mount is None:
        raise _refused(target, "nothing is mounted there", "Make the new file system (storage plan), and mount it.")
    for mount in filter(None, (old_mount, new_mount)):
        if mount.root != "/":
            raise _refused(mount.target, "it is a bind mount or a subvolume", "Give whole file systems.")
    old, there = mounting.of(old_mount, fstab) if old_mount else None, mounting.of(new_mount, fstab)
    if old is not None and (old.device == there.device or (old.uuid and old.uuid == there.uuid)):
        raise _refused(target, f"it has the same file system as {source}, or a clone of it", "Give another volume.")
    device = files.existing(state).stat().st_dev
    if device == target.stat().st_dev or (old is not None and device == source.stat().st_dev):
        advice = "Set DITSEED_STATE_DIR to a directory elsewhere."
        raise _refused(state, "the state of the run would be on a volume that is unmounted", advice)
    _require_writable(new_mount, there)
    _require_unused(source, target)
    with files.explained(source), held.opened(source) as top:
        tree = trees.state_of(top.descriptor)
    files.require_space(target, tree.allocated + tree.allocated // 20 + _SPARE)
    new, is_used = mounting.with_options_of(there, old), bool(tree.databases or occupants(source))
    return MovePlan(
        request=request,
        old=old,
        new=new,
        there=there,
        edits=mounting.edits(fstab, request.source, request.target, new, time.strftime("%Y-%m-%d")),
        files=tree.files,
        allocated=tree.allocated,
        databases=tree.databases,
        notes=tuple(_notes(source, target, old, is_used)),
        begun=time.time(),
        is_used=is_used,
    )


def _refused(path: Path | str, reason: str, advice: str) -> MigrationRefused:
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
            reason = f"an account other than root can rename files in {above}"
            raise _refused(path, reason, "Only root may be able to replace a mount point.")


def require_commands(request: MoveRequest) -> None:
    """Raises UsageProblem if a command of the service does not exist."""
    for command in (request.stop, request.start):
        if shutil.which(command[0]) is None:
            raise UsageProblem(reason=f"{command[0]} does not exist, or is not in PATH (see --service)")


def _require_writable(mount: Mount, there: Volume) -> None:
    if _READ_ONLY & set(mount.options):
        advice = f"Remount it: mount -o remount,rw {mount.target}. If it was writable before, see dmesg for errors."
        raise _refused(mount.target, "it is mounted read-only", advice)
    for path in (device.path for device in survey.devices_of(mount) if device.read_only):
        raise _refused(mount.target, f"its device {path} is read-only", f"blockdev --setrw {path}")
    if "ro" in there.options.split(","):
        raise _refused(mount.target, "its line in fstab mounts it read-only", "Change ro to rw there.")


def _require_unused(source: Path, target: Path) -> None:
    if others := mounts.other_mount_points(source):
        reason = f"its files are also mounted on {', '.join(others[:_SHOWN])}, where the former files would stay"
        raise _refused(source, reason, "Unmount that first, and mount it again after the migration.")
    _require_no_strangers(source, [occupant for occupant in occupants(source) if not occupant.writes])
    _require_no_strangers(target, occupants(target))
    with files.explained(target), held.opened(target) as top:
        names = trees.names_in(top.descriptor, True)
    if names:
        raise trees.not_empty(target, names)


def _require_no_strangers(path: Path, strangers: Sequence[Occupant]) -> None:
    if strangers:
        reason = f"processes other than the service use it: {', '.join(map(str, strangers[:_SHOWN]))}"
        raise _refused(path, reason, "End them, and leave the directory; then give the same command again.")


def _notes(source: Path, target: Path, old: Volume | None, is_used: bool) -> Iterator[str]:
    if old is None:
        what = f"{source} is a directory of a larger file system: the new volume is mounted over it. "
        yield what + "The old files stay below it, and keep their space."
    if not is_used:
        what = f"no process writes to {source} now, so none is expected after the start: "
        yield what + "check yourself that the service is up"
    before = {finding.rule for finding in check.check(source).findings if finding.severity is not Severity.OK}
    for finding in check.check(target).findings:
        if finding.rule not in before and finding.severity.rank >= Severity.WARNING.rank:
            what = f"{finding.subject}: {finding.what}"
            if finding.severity is Severity.CRITICAL:
                raise _refused(target, what, f"See: ditseed storage check {target}")
            yield what


class PlannedStep(msgspec.Struct, frozen=True):
    """A step, as printed for the operator. `commands`: shell commands with the same effect. `by`: what ditseed does in
    this step that is not among the commands, or ""."""

    step: str
    commands: tuple[str, ...]
    by: str = ""


def migration_steps(plan: MovePlan) -> tuple[PlannedStep, ...]:
    request, source, target = plan.request, quote(plan.request.source), quote(plan.request.target)
    amount = f"{units.size(plan.allocated)} in {units.number(plan.files)} files"
    old = (f"umount {source}",) if plan.old else ()
    checks = tuple(f"ditseed verify {quote(str(plan.source / name))}" for name in plan.databases)
    return _while_stopped(
        request,
        PlannedStep("copy", (), f"copies {amount} as `rsync -aHAXS --numeric-ids {source}/ {target}/` would"),
        PlannedStep("verify", (), "compares checksums, owners, modes"),
        PlannedStep("unmount", (f"umount {target}", *old)),
        PlannedStep("mount", (join(plan.new.mounting(request.source)),)),
        PlannedStep("fstab", tuple(mounting.difference(plan.edits)), f"changes these lines of {request.fstab}"),
        PlannedStep("check", checks, f"compares owner and mode of {request.source}"),
    )


def rollback_steps(plan: MovePlan) -> tuple[PlannedStep, ...]:
    request, lines = plan.request, tuple(mounting.difference(plan.edits, is_back=True))
    old = (join(plan.old.mounting(request.source)),) if plan.old else ()
    return _while_stopped(
        request,
        PlannedStep("fstab", lines, f"puts back these lines of {request.fstab}"),
        PlannedStep("unmount", (f"umount {quote(request.source)}",)),
        PlannedStep("mount", (*old, join(plan.there.mounting(request.target)))),
    )


def _while_stopped(request: MoveRequest, *steps: PlannedStep) -> tuple[PlannedStep, ...]:
    stays = f"waits until it is up; checks for {units.duration(request.seconds)} that it stays up"
    stays += f" and that {request.uri} answers" if request.uri else ""
    stop = PlannedStep("stop", (join(request.stop),), f"waits until no process uses {request.source}")
    return (stop, *steps, PlannedStep("start", (join(request.start),)), PlannedStep("watch", (), stays))


class Begun(msgspec.Struct, frozen=True):
    """A migration that was started. `done`: finished steps. `goes_back`: whether a rollback was started."""

    plan: MovePlan
    done: tuple[str, ...]
    goes_back: bool

    @property
    def is_done(self) -> bool:
        return "watch" in self.done


def run_directory(source: str) -> Path:
    """Returns the run directory for FROM. `plan` refuses it if it is on one of the volumes that are unmounted."""
    return state_dir() / "migrate" / hashlib.sha256(os.fsencode(source)).hexdigest()[:16]


def begun(source: str) -> Begun | None:
    """Returns the migration of `source` if its preflight has succeeded, or None. Raises CatalogueDamaged."""
    status = status_of(run_directory(source))
    plan = status.catalogue.facts_of("preflight", MovePlan) if status else None
    if status is None or plan is None:
        return None
    steps = tuple(name for name in STEPS if status.catalogue.is_done(name))
    return Begun(plan, steps, status.catalogue.is_done(_ROLLBACK))


def migrate(plan: MovePlan, progress: Progress, anew: bool) -> Report:
    """Starts a migration, or resumes it after the last finished step. `anew` repeats a finished migration."""
    source, target = str(plan.source), str(plan.target)
    with _run(plan, progress, anew) as run:
        do, catalogue = run.do, run.catalogue
        require_forward(catalogue.is_done(_ROLLBACK), source)
        do("preflight", lambda meter: plan, MovePlan)
        if not catalogue.is_done("watch"):
            for name in _REPEATED:
                catalogue.undo(name)
        do("stop", lambda meter: _stop(plan, tests_target=plan.there.is_at(target)))
        if not catalogue.is_done("mount") and not plan.new.is_at(source):
            # The volumes are not mounted after a reboot, or after a kill while both were unmounted.
            if plan.old is not None:
                plan.old.mount(source)
            plan.there.mount(target)
            _forget_a_stale_copy(plan, run)
        copied = do("copy", lambda meter: _copy(plan, meter), _Copied)
        verified = do("verify", lambda meter: _verify(plan, run, meter), _Verified)
        do("unmount", lambda meter: _unmount(plan))
        do("mount", lambda meter: plan.new.mount(source))
        do("fstab", lambda meter: mounting.apply(Path(plan.request.fstab), plan.edits))
        do("check", lambda meter: _check(plan, meter, verified.top))
        do("start", lambda meter: _start(plan.request.start))
        process = do("watch", lambda meter: _watch(plan, meter), int)
        facts = {"files": copied.files, "bytes": copied.bytes, "checksums": verified.checksums, "process": process}
        return {**facts, **run.done_before()}


def _run(plan: MovePlan, progress: Progress, anew: bool = False) -> AbstractContextManager[Run]:
    options = {"from": plan.request.source, "to": plan.request.target}
    return open_run(run_directory(plan.request.source), VERB, options, progress, restart=anew)


def require_forward(goes_back: bool, source: str) -> None:
    """Raises MigrationRefused if a rollback was started and has not ended."""
    if goes_back:
        raise _refused(source, "a rollback was begun and has not ended", "Give --rollback to end it.")


class _Copied(msgspec.Struct, frozen=True):
    files: int
    bytes: int
    copy_mark: str


class _Verified(msgspec.Struct, frozen=True):
    checksums: int
    verify_mark: str
    top: tuple[int, int, int]  # mode, owner and group of the top directory


def _forget_a_stale_copy(plan: MovePlan, run: Run) -> None:
    """Marks copy and verify as not done if a volume has changed since: a reboot may have started the service. Then also
    removes the copy if other accounts could enter it. Otherwise, the next copy goes on with these files."""
    catalogue = run.catalogue
    copied, verified = catalogue.facts_of("copy", _Copied), catalogue.facts_of("verify", _Verified)
    if copied is None:
        return
    with held.opened(plan.target) as target:
        is_private = trees.is_private(target)
        is_intact = is_private if verified is None else verified.verify_mark == _mark(plan.target)
        if not is_intact or copied.copy_mark != _mark(plan.source):
            if not is_private:
                trees.empty(target)
            catalogue.undo("verify")
            catalogue.undo("copy")


def _copy(plan: MovePlan, meter: Meter) -> _Copied:
    _require_no_strangers(plan.target, occupants(plan.target))  # other users of the volume would prevent umount
    _require_stopped(plan)
    with held.opened(plan.source) as source, held.opened(plan.target) as target:
        before = trees.state_of(source.descriptor)
        trees.copy_tree(source, target, meter, lambda: killpoint("copy.block"))
    if _mark(plan.source) != before.mark:
        reason = "files were changed while they were copied"
        raise _refused(plan.source, reason, "Find out who writes there (fuser -vm).")
    return _Copied(before.files, before.size, before.mark)


def _require_stopped(plan: MovePlan) -> None:
    """Raises MigrationRefused if the service has been started again."""
    if users := _users(plan):
        reason = f"the service was stopped, but it is used again: {users}"
        raise _refused(plan.source, reason, f"Find out what starts it, {_REPEAT}")


def _verify(plan: MovePlan, run: Run, meter: Meter) -> _Verified:
    with held.opened(plan.source) as source, held.opened(plan.target) as target:
        status = os.fstat(source.descriptor)
        shapes = trees.shape_of(source.descriptor), trees.shape_of(target.descriptor)
        _require_equal(plan, run, *shapes, "owner, mode, size, time or attributes")
        sums = trees.checksums(source.descriptor, meter)
        killpoint("verify.middle")
        _require_equal(plan, run, sums, trees.checksums(target.descriptor, meter, from_device=True), "contents")
    return _Verified(len(sums), _mark(plan.target), (status.st_mode, status.st_uid, status.st_gid))


def _require_equal(
    plan: MovePlan, run: Run, source: Mapping[str, object], target: Mapping[str, object], what: str
) -> None:
    """If the trees differ, removes the differing files from the copy, for the next run, and raises MigrationRefused."""
    differing_paths = [path for path in {**source, **target} if source.get(path) != target.get(path)]
    if not differing_paths:
        return
    run.catalogue.undo("copy")
    with held.opened(plan.target) as top:
        for path in differing_paths:
            if path in target and (top.path / path).is_file():
                with held.opened((top.path / path).parent) as above:
                    above.remove(os.path.basename(path))
    raise _refused(
        plan.target / differing_paths[0],
        f"the copy differs from {plan.source / differing_paths[0]} ({what})",
        "Run the same command again; it copies anew. If it differs then, do not trust the new volume.",
    )


def _unmount(plan: MovePlan) -> None:
    _require_stopped(plan)
    former = None if plan.new.is_at(str(plan.source)) else mounts.device_and_path(plan.source)
    if plan.new.is_at(str(plan.target)):
        with held.opened(plan.source) as source, held.opened(plan.target) as target:
            trees.open_up(source, target)
    plan.new.unmount(str(plan.target))
    killpoint("unmount.between")
    if plan.old is not None:
        plan.old.unmount(str(plan.source))
    # Another mount namespace that still shows the former files is harmless until a process there opens them.
    if others := [*mounts.in_other_namespaces(former)] if former else []:
        shown = ", ".join(f"{path} ({holders.command_name(pid)}, process {pid})" for pid, path in others[:_SHOWN])
        text = "%s: other mount namespaces still show the former files, on %s: restart the service's container, if any"
        _log.warning(text, plan.source, shown)


def _check(plan: MovePlan, meter: Meter, top: tuple[int, int, int]) -> None:
    status = plan.source.stat()
    if (status.st_mode, status.st_uid, status.st_gid) != top or not plan.new.is_at(str(plan.source)):
        reason = "it is not the new volume with the owner and mode of the old one"
        raise _refused(plan.source, reason, "Give --rollback to go back.")
    for name in plan.databases:
        path = plan.source / name
        audit = databases.audit(path, databases.default_level(path), AuditResources(), meter)
        if not audit.sound:
            first = audit.problems[0].examples[0]
            raise MdbDamaged(path=path, reason=f"{first}; --rollback mounts the former volume")


def _mark(directory: Path) -> str:
    with held.opened(directory) as opened:
        return trees.state_of(opened.descriptor).mark


def roll_back(plan: MovePlan, progress: Progress) -> Report:
    """Rolls back a migration after any step. Safe to kill and repeat. The files on the new volume stay. The report's
    `not_mounted` says why the new volume could not be mounted on TO again, or is None."""
    request = plan.request
    fstab, of_target = Path(request.fstab), mounting.of_volume(plan.edits, request.target)

    def mount(meter: Meter) -> str | None:
        """Returns why the new volume could not be mounted, or None. This is no error: the service needs only FROM."""
        if plan.old is not None:
            plan.old.mount(request.source)
        try:
            plan.there.mount(request.target)
        except LoaderError as error:
            mounting.leave_out(fstab, of_target)
            return str(error)
        mounting.undo(fstab, of_target)
        return None

    steps: dict[str, Callable[[Meter], object]] = {
        "stop": lambda meter: _stop(plan),
        "fstab": lambda meter: mounting.undo(fstab, [edit for edit in plan.edits if edit not in of_target]),
        "unmount": lambda meter: plan.new.unmount(request.source),
        "mount": mount,
        "start": lambda meter: _start(request.start),
        "watch": lambda meter: _watch(plan, meter),
    }
    with _run(plan, progress) as run:
        run.worked = True
        run.catalogue.finish(_ROLLBACK, {}, 0, 0.0)
        results = {}
        for name, work in steps.items():
            killpoint(f"rollback.{name}")
            with progress.step(f"rollback: {name}") as meter:
                results[name] = work(meter)
        killpoint("rollback.end")
        forget(run.directory)
    mounted = plan.old.device if plan.old else ""
    return {"from": request.source, "mounted": mounted, "kept": request.target, "not_mounted": results["mount"]}


def _users(plan: MovePlan) -> str:
    return ", ".join(map(str, occupants(plan.source, plan.databases)[:_SHOWN]))


def _stop(plan: MovePlan, tests_target: bool = False) -> None:
    """Stops the service, and waits until no process uses FROM. The command may fail if none does: the service may have
    been stopped before. With `tests_target`, first writes a test file to TO, because some failed file systems report
    errors only on writes. Raises ReadOnly, OSError, or MigrationRefused if a process still uses FROM."""
    if tests_target:
        with files.explained(plan.target), held.closing_descriptor(files.nameless(plan.target)) as descriptor:
            files.fill_randomly(descriptor, 4096)
    command = plan.request.stop
    answer = child.run_detached(command)
    until = time.monotonic() + _PATIENCE
    while users := _users(plan):
        if answer.status != 0:
            advice = "Give --service the commands that stop and start this service (of a container, for example), or "
            advice += f"end these processes; {_REPEAT}"
            raise _refused(plan.source, f"{str(_failed(command, answer)).rstrip('.')}, and {users}", advice)
        if time.monotonic() > until:
            raise _refused(plan.source, f"the service was stopped, and {users}", f"End these processes, {_REPEAT}")
        time.sleep(_LOOK)


def _start(command: Sequence[str]) -> None:
    answer = child.run_detached(command)
    if answer.status != 0:
        raise _failed(command, answer)


def _failed(command: Sequence[str], answer: child.ToolOutput) -> ToolFailed:
    reason = "; ".join(filter(None, answer.stderr_lines[-3:])) or "it printed nothing"
    return ToolFailed(tool=command[0], status=answer.status, reason=reason)


def _watch(plan: MovePlan, meter: Meter) -> int:
    """Waits until the service is up, and checks that it stays up. Returns its process ID, or 0 if no process needs to
    use FROM. Raises MigrationRefused if the service does not come up or stay up."""
    until = time.monotonic() + _PATIENCE
    while isinstance(process := _pid_or_reason(plan), str):
        if time.monotonic() > until:
            raise _refused(plan.source, f"the service does not come up: {process}", _DOWN)
        time.sleep(_LOOK)
    until = time.monotonic() + plan.request.seconds
    while time.monotonic() < until:
        meter.note = f"up, process {process}" if process else "up"
        meter.add(size=1)  # shows that the step is still running
        now = _pid_or_reason(plan)
        if now != process:
            what = now if isinstance(now, str) else "it is another process now"
            raise _refused(plan.source, f"the service does not stay up: {what}", _DOWN)
        time.sleep(_LOOK)
    return process


def _pid_or_reason(plan: MovePlan) -> int | str:
    """Returns the ID of the process that uses FROM, 0 if no process needs to use FROM, or why the service is not up."""
    if os.statvfs(plan.source).f_flag & os.ST_RDONLY:
        return "the volume is read-only"
    pid: int | None = 0
    if plan.is_used and plan.databases:
        pid = holders.holder(plan.source / plan.databases[0])
    elif plan.is_used:
        pid = next((occupant.pid for occupant in occupants(plan.source) if occupant.writes), None)
    if pid is None:
        return "no process uses the directory"
    try:
        if plan.request.uri:
            with session(Connection(uri=plan.request.uri, mechanism=None)) as server:
                server.naming_contexts()
    except LoaderError as error:
        return str(error)
    return pid
