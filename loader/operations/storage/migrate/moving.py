"""A migration carried out: its steps, each of which may be done twice, and the way back from any of them.

Copying and verifying are remembered, as long as neither side has changed since. What a reboot undoes (mounts, and that
the service is stopped) is done again by every run. /etc/fstab names the new volume before the service is started on it,
and the old one before the service is started on that again: so a boot at any moment mounts the volume that the service
last wrote to.
"""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

import msgspec

from loader import child
from loader.defaults import state_dir
from loader.errors import LoaderError, MdbDamaged, MigrationRefused, ToolFailed
from loader.mdb import verify as databases
from loader.operations.storage.migrate import volume
from loader.operations.storage.migrate.plan import MovePlan, require_vacant
from loader.operations.storage.migrate.volume import Edit
from loader.progress import Meter, Progress
from loader.run.log import Facts, forget, killpoint
from loader.run.steps import Run, open_run, status_of
from loader.server.options import Connection
from loader.server.session import session
from loader.storage import files, held, holders, mounts, trees
from loader.storage.holders import occupants

PATIENCE = 60.0  # seconds for a service to let go of its files, or to come up
VERB = "storage migrate"
STEPS = ("preflight", "stop", "copy", "verify", "unmount", "mount", "fstab", "check", "start", "watch")
_AGAIN = ("stop", "unmount", "mount", "fstab", "check", "start")
_GOING_BACK = "rollback"
_LOOK = 0.1
_SHOWN = 5  # processes or mounts in one message
_log = logging.getLogger(__name__)


class Begun(msgspec.Struct, frozen=True):
    """A migration that was begun. `done`: its steps that are finished."""

    plan: MovePlan
    done: tuple[str, ...]
    goes_back: bool

    @property
    def is_done(self) -> bool:
        return "watch" in self.done

    @property
    def is_stopped(self) -> bool:
        """May it have left the service stopped?"""
        return "start" not in self.done


def run_directory(source: str) -> Path:
    """On none of the two volumes."""
    return state_dir() / "migrate" / hashlib.sha256(os.fsencode(source)).hexdigest()[:16]


def begun(source: str) -> Begun | None:
    """Raises CatalogueDamaged."""
    status = status_of(run_directory(source))
    facts = status.found("preflight") if status else None
    if status is None or facts is None:
        return None
    finished = {step.name for step in status.steps}
    done = tuple(name for name in STEPS if name in finished)
    return Begun(msgspec.convert(facts, MovePlan), done, _GOING_BACK in finished)


def migrate(plan: MovePlan, progress: Progress, anew: bool) -> Facts:
    """Goes on, or begins; `anew`: instead of a migration that was finished. Raises LoaderError."""
    with _run(plan, progress, anew) as run:
        require_forward(run.catalogue.found(_GOING_BACK) is not None, plan.request.source)
        run.do("preflight", lambda meter: msgspec.to_builtins(plan))
        if run.catalogue.found("watch") is None:
            for name in _AGAIN:
                run.catalogue.undo(name)
        return {**_Steps(plan, run).all(), **run.told_before()}


def _run(plan: MovePlan, progress: Progress, anew: bool = False) -> AbstractContextManager[Run]:
    options = {"from": plan.request.source, "to": plan.request.target}
    return open_run(run_directory(plan.request.source), VERB, options, progress, restart=anew)


def require_forward(goes_back: bool, source: str) -> None:
    """Raises MigrationRefused."""
    if goes_back:
        reason = "a rollback was begun and has not ended"
        raise MigrationRefused(path=source, reason=reason, advice="Give --rollback to end it.")


class _Steps:
    def __init__(self, plan: MovePlan, run: Run) -> None:
        self.plan, self.run = plan, run
        self.source, self.target = Path(plan.request.source), Path(plan.request.target)

    def all(self) -> Facts:
        do, plan, source = self.run.do, self.plan, str(self.source)
        do("stop", self._stop)
        if self.run.catalogue.found("mount") is None and not self._is_swapped():
            # After a reboot, or a kill while both were unmounted.
            if plan.old is not None:
                plan.old.mount(source)
            plan.there.mount(str(self.target))
            self._forget_a_stale_copy()
        copied = do("copy", self._copy)
        verified = do("verify", self._verify)
        do("unmount", self._unmount)
        do("mount", _act(lambda: plan.new.mount(source)))
        do("fstab", _act(lambda: volume.apply(Path(plan.request.fstab), plan.edits)))
        do("check", lambda meter: self._check(meter, verified["top"]))
        do("start", _act(lambda: _start(plan.request.start)))
        watched = do("watch", lambda meter: {"process": _watch(plan, meter)})
        return {**copied, **verified, **watched}

    def _is_swapped(self) -> bool:
        return self.plan.new.is_at(str(self.source))

    def _forget_a_stale_copy(self) -> None:
        """A boot in between may have started the service. A copy that other accounts could enter is removed, not
        resumed."""
        catalogue = self.run.catalogue
        copied, verified = catalogue.found("copy"), catalogue.found("verify")
        if copied is None:
            return
        with held.opened(self.target) as target:
            is_closed = trees.is_closed(target)
            is_intact = is_closed if verified is None else verified["verify_mark"] == _mark(self.target)
            if not is_intact or copied["copy_mark"] != _mark(self.source):
                if not is_closed:
                    trees.empty(target)
                catalogue.undo("verify")
                catalogue.undo("copy")

    def _stop(self, meter: Meter) -> Facts:
        if self.plan.there.is_at(str(self.target)):
            _require_written(self.target)
        _stop(self.plan)
        return {}

    def _copy(self, meter: Meter) -> Facts:
        require_vacant(self.target)
        self._require_unused()
        with held.opened(self.source) as source, held.opened(self.target) as target:
            before = trees.state_of(source.descriptor)
            trees.copy_tree(source, target, meter, lambda: killpoint("copy.block"))
        if _mark(self.source) != before.mark:
            reason = "files were changed while they were copied"
            raise MigrationRefused(path=self.source, reason=reason, advice="Find out who writes there (fuser -vm).")
        return {"files": before.files, "bytes": before.size, "copy_mark": before.mark}

    def _require_unused(self) -> None:
        """Something may have started the service again since it was stopped. Raises MigrationRefused."""
        if left := _users(self.plan):
            reason = f"the service was stopped, but it is used again: {left}"
            advice = "Find out what starts it, then run the same command again, or go back with --rollback."
            raise MigrationRefused(path=self.source, reason=reason, advice=advice)

    def _verify(self, meter: Meter) -> Facts:
        with held.opened(self.source) as source, held.opened(self.target) as target:
            status = os.fstat(source.descriptor)
            shapes = trees.shape_of(source.descriptor), trees.shape_of(target.descriptor)
            self._require_equal(*shapes, "owner, mode, size, time or attributes")
            sums = trees.checksums(source.descriptor, meter)
            killpoint("verify.middle")
            self._require_equal(sums, trees.checksums(target.descriptor, meter, from_device=True), "contents")
        mark = _mark(self.target)
        return {"checksums": len(sums), "verify_mark": mark, "top": [status.st_mode, status.st_uid, status.st_gid]}

    def _require_equal(self, one: Mapping[str, object], other: Mapping[str, object], what: str) -> None:
        """A copy that differs is made again by the next run."""
        wrong = [path for path in {**one, **other} if one.get(path) != other.get(path)]
        if not wrong:
            return
        self.run.catalogue.undo("copy")
        with held.opened(self.target) as target:
            for path in wrong:
                if path in other and (target.path / path).is_file():
                    with held.opened((target.path / path).parent) as above:
                        above.remove(os.path.basename(path))
        raise MigrationRefused(
            path=self.target / wrong[0],
            reason=f"the copy differs from {self.source / wrong[0]} ({what})",
            advice="Run the same command again; it copies anew. If it differs then, do not trust the new volume.",
        )

    def _unmount(self, meter: Meter) -> Facts:
        self._require_unused()
        former = None if self._is_swapped() else mounts.inside(self.source)
        if self.plan.new.is_at(str(self.target)):
            with held.opened(self.source) as source, held.opened(self.target) as target:
                trees.open_up(source, target)
        self.plan.new.unmount(str(self.target))
        killpoint("unmount.between")
        if self.plan.old is not None:
            self.plan.old.unmount(str(self.source))
        # No error: mount namespaces that copied all mounts are harmless until something there opens the files.
        others = [*mounts.elsewhere(former)] if former else []
        if others:
            _log.warning(
                "%s: other mount namespaces still show the former files, on %s: restart the service's container, if it "
                "is in one",
                self.source,
                ", ".join(f"{path} ({holders.command_name(pid)}, process {pid})" for pid, path in others[:_SHOWN]),
            )
        return {}

    def _check(self, meter: Meter, top: Sequence[int]) -> Facts:
        status = self.source.stat()
        if [status.st_mode, status.st_uid, status.st_gid] != top or not self._is_swapped():
            reason = "it is not the new volume with the owner and mode of the old one"
            raise MigrationRefused(path=self.source, reason=reason, advice="Give --rollback to go back.")
        for name in self.plan.databases:
            path = self.source / name
            audit = databases.audit(path, databases.default_level(path), databases.Resources(), meter)
            if not audit.sound:
                first = audit.problems[0].told[0]
                raise MdbDamaged(path=path, reason=f"{first}; --rollback mounts the former volume")
        return {}


def _act(work: Callable[[], object]) -> Callable[[Meter], Facts]:
    """A step without facts."""

    def step(meter: Meter) -> Facts:
        work()
        return {}

    return step


def _require_written(target: Path) -> None:
    """A file system that has failed may only show it when it is written to. Raises ReadOnly, OSError."""
    with files.explained(target):
        descriptor = files.made(target)
        try:
            files.filled(descriptor, 4096)
        finally:
            os.close(descriptor)


def _mark(directory: Path) -> str:
    with held.opened(directory) as opened:
        return trees.state_of(opened.descriptor).mark


# --- the way back ----------------------------------------------------------------------------------------------------


def roll_back(plan: MovePlan, progress: Progress) -> Facts:
    """Goes back from any step; safe to kill and repeat. The files on the new volume stay. `not_mounted`: why the new
    volume could not be mounted on TO again; None if it is."""
    request, fstab = plan.request, Path(plan.request.fstab)
    of_target = volume.of_volume(plan.edits, request.target)
    steps: dict[str, Callable[[Meter], object]] = {
        "stop": lambda meter: _stop(plan),
        "fstab": lambda meter: volume.undo(fstab, [edit for edit in plan.edits if edit not in of_target]),
        "unmount": lambda meter: plan.new.unmount(request.source),
        "mount": lambda meter: _mount_as_before(plan, fstab, of_target),
        "start": lambda meter: _start(request.start),
        "watch": lambda meter: _watch(plan, meter),
    }
    with _run(plan, progress) as run:
        run.worked = True
        run.catalogue.finish(_GOING_BACK, {}, 0, 0.0)
        done = {}
        for name, work in steps.items():
            killpoint(f"rollback.{name}")
            with progress.step(f"rollback: {name}") as meter:
                done[name] = work(meter)
        killpoint("rollback.end")
        forget(run.directory)
    mounted = plan.old.device if plan.old else ""
    return {"from": request.source, "mounted": mounted, "kept": request.target, "not_mounted": done["mount"]}


def _mount_as_before(plan: MovePlan, fstab: Path, of_target: Sequence[Edit]) -> str | None:
    """Why the new volume could not be mounted: the service does not need it, and its disk may be dead."""
    if plan.old is not None:
        plan.old.mount(plan.request.source)
    try:
        plan.there.mount(plan.request.target)
    except LoaderError as error:
        volume.leave_out(fstab, of_target)
        return str(error)
    volume.undo(fstab, of_target)
    return None


# --- the service -----------------------------------------------------------------------------------------------------


def _users(plan: MovePlan) -> str:
    return ", ".join(map(str, occupants(Path(plan.request.source), plan.databases)[:_SHOWN]))


def _stop(plan: MovePlan) -> None:
    """Returns once no process uses FROM, whatever the status of the command: it may fail because the service is stopped
    already. Raises MigrationRefused if a process still uses it."""
    source, command = plan.request.source, plan.request.stop
    answer = child.run_detached(command)
    until = time.monotonic() + PATIENCE
    while left := _users(plan):
        if answer.status != 0:
            reason = f"{str(_failed(command, answer)).rstrip('.')}, and {left}"
            advice = (
                "Give --service the commands that stop and start this service (of a container, for example), or end "
                "these processes; then run the same command again, or go back with --rollback."
            )
            raise MigrationRefused(path=source, reason=reason, advice=advice)
        if time.monotonic() > until:
            advice = "End these processes, then run the same command again, or go back with --rollback."
            raise MigrationRefused(path=source, reason=f"the service was stopped, and {left}", advice=advice)
        time.sleep(_LOOK)


def _start(command: Sequence[str]) -> None:
    answer = child.run_detached(command)
    if answer.status != 0:
        raise _failed(command, answer)


def _failed(command: Sequence[str], answer: child.Answer) -> ToolFailed:
    reason = "; ".join(word for word in answer.words[-3:] if word) or "it said nothing"
    return ToolFailed(tool=command[0], status=answer.status, reason=reason)


def _watch(plan: MovePlan, meter: Meter) -> int:
    """Waits until the service is up, then looks whether it stays; its process (0: none that it is known by). Raises
    MigrationRefused."""
    until = time.monotonic() + PATIENCE
    while isinstance(process := _up(plan), str):
        if time.monotonic() > until:
            raise _down(plan, f"the service does not come up: {process}")
        time.sleep(_LOOK)
    until = time.monotonic() + plan.request.seconds
    while time.monotonic() < until:
        meter.note = f"up, process {process}" if process else "up"
        meter.add(size=1)  # a sign of life
        now = _up(plan)
        if now != process:
            what = now if isinstance(now, str) else "it is another process now"
            raise _down(plan, f"the service does not stay up: {what}")
        time.sleep(_LOOK)
    return process


def _down(plan: MovePlan, reason: str) -> MigrationRefused:
    advice = (
        "Look at the service's log. The same command looks again; --rollback mounts the former volume and starts the "
        "service on it."
    )
    return MigrationRefused(path=plan.request.source, reason=reason, advice=advice)


def _up(plan: MovePlan) -> int | str:
    """The process that has the files (0: none needs to), or what is amiss."""
    source, uri = Path(plan.request.source), plan.request.uri
    if os.statvfs(source).f_flag & os.ST_RDONLY:
        return "the volume is read-only"
    pid: int | None = 0
    if plan.is_used and plan.databases:
        pid = holders.holder(source / plan.databases[0])
    elif plan.is_used:
        pid = next((occupant.pid for occupant in occupants(source) if occupant.writes), None)
    if pid is None:
        return "no process uses the directory"
    try:
        if uri:
            with session(Connection(uri=uri, mechanism=None)) as server:
                server.naming_contexts()
    except LoaderError as error:
        return str(error)
    return pid
