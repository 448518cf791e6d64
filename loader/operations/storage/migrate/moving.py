"""The service that uses the directory: stopped, started, watched."""

from __future__ import annotations

import hashlib
import logging
import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import msgspec

from loader import child
from loader.defaults import state_dir
from loader.errors import LoaderError, MdbDamaged, MigrationRefused, ToolFailed
from loader.mdb import verify as databases
from loader.operations.storage.migrate import volume
from loader.operations.storage.migrate.plan import Plan, require_vacant
from loader.operations.storage.migrate.volume import Edit
from loader.progress import Meter, Progress
from loader.run.log import Facts, forget, killpoint
from loader.run.steps import Run, open_run, status_of
from loader.server.options import Connection
from loader.server.session import session
from loader.storage import files, held, holders, mounts, trees
from loader.storage.holders import Occupant, occupants

PATIENCE = 60.0  # seconds for a service to let go of its files, or to come up
_LOOK = 0.1
_OTHER_COMMANDS = (
    "Give --service the commands that stop and start this service (of a container, for example), or end these "
    "processes; then run the same command again, or go back with --rollback."
)
_RESTARTED = "Find out what starts it, then run the same command again, or go back with --rollback."


def stop(command: Sequence[str], place: Path, databases: Sequence[str]) -> None:
    """Returns once no process uses `place`, whatever the status of the command: it may fail because the service is
    stopped already. Raises MigrationRefused if a process still uses `place`."""
    answer = child.run_detached(command)
    until = time.monotonic() + PATIENCE
    while left := occupants(place, databases):
        if answer.status != 0:
            reason = f"{str(_failed(command, answer)).rstrip('.')}, and {_named(left)}"
            raise MigrationRefused(path=place, reason=reason, advice=_OTHER_COMMANDS)
        if time.monotonic() > until:
            advice = "End these processes, then run the same command again, or go back with --rollback."
            raise MigrationRefused(path=place, reason=f"the service was stopped, and {_named(left)}", advice=advice)
        time.sleep(_LOOK)


def require_unused(place: Path, databases: Sequence[str]) -> None:
    """Something may have started the service again since it was stopped. Raises MigrationRefused."""
    if left := occupants(place, databases):
        reason = f"the service was stopped, but it is used again: {_named(left)}"
        raise MigrationRefused(path=place, reason=reason, advice=_RESTARTED)


def start(command: Sequence[str]) -> None:
    answer = child.run_detached(command)
    if answer.status != 0:
        raise _failed(command, answer)


def _failed(command: Sequence[str], answer: child.Answer) -> ToolFailed:
    reason = "; ".join(word for word in answer.words[-3:] if word) or "it said nothing"
    return ToolFailed(tool=command[0], status=answer.status, reason=reason)


def _named(found: Sequence[Occupant]) -> str:
    return ", ".join(map(str, found[:5]))


@dataclass(frozen=True)
class Signs:
    """Of a service that is up: it writes to `place` (`is_used`), has the first of `databases` open, `uri` answers."""

    place: Path
    databases: Sequence[str]
    is_used: bool
    uri: str


def watch(signs: Signs, seconds: float, note: Callable[[str], None]) -> int:
    """Wait until it is up, then look for `seconds` whether it stays; its process (0: none that it is known by). Raises
    MigrationRefused."""
    place = signs.place
    until = time.monotonic() + PATIENCE
    while (first := _up(signs))[0] is None:
        if time.monotonic() > until:
            raise _down(place, f"the service does not come up: {first[1]}")
        time.sleep(_LOOK)
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        note(f"up, process {first[0]}" if first[0] else "up")
        now = _up(signs)
        if now[0] != first[0]:
            raise _down(place, f"the service does not stay up: {now[1] or 'it is another process now'}")
        time.sleep(_LOOK)
    return first[0] or 0


def _down(place: Path, reason: str) -> MigrationRefused:
    advice = (
        "Look at the service's log. The same command looks again; --rollback mounts the former volume and starts the "
        "service on it."
    )
    return MigrationRefused(path=place, reason=reason, advice=advice)


def _up(signs: Signs) -> tuple[int | None, str]:
    """The process that has the files (0: none needs to), or what is amiss."""
    if os.statvfs(signs.place).f_flag & os.ST_RDONLY:
        return None, "the volume is read-only"
    pid = _process(signs.place, signs.databases) if signs.is_used else 0
    if pid is None:
        return None, "no process uses the directory"
    try:
        if signs.uri:
            with session(Connection(uri=signs.uri, mechanism=None)) as server:
                server.naming_contexts()
    except LoaderError as error:
        return None, str(error)
    return pid, ""


def _process(place: Path, databases: Sequence[str]) -> int | None:
    if databases:
        return holders.holder(place / databases[0])
    return next((one.pid for one in occupants(place) if one.writes), None)


# --- moving ----------------------------------------------------------------------------------------------------------
#
# `storage migrate` carried out: its steps, each of which may be done twice, and the way back from any of them.
#
# Copying and verifying are remembered, as long as neither side has changed since. What a reboot undoes (mounts, and
# that the service is stopped) is done again by every run. /etc/fstab names the new volume before the service is
# started on it, and the old one before the service is started on that again: so a boot at any moment mounts the
# volume that the service last wrote to.


_log = logging.getLogger(__name__)
VERB = "storage migrate"
STEPS = ("preflight", "stop", "copy", "verify", "unmount", "mount", "fstab", "check", "start", "watch")
_AGAIN = ("stop", "unmount", "mount", "fstab", "check", "start")
_GOING_BACK = "rollback"


class Known(msgspec.Struct, frozen=True):
    """A migration that was begun. `done`: its steps that are finished."""

    plan: Plan
    done: tuple[str, ...]
    goes_back: bool

    @property
    def is_done(self) -> bool:
        return "watch" in self.done

    @property
    def is_stopped(self) -> bool:
        """May it have left the service stopped?"""
        return "start" not in self.done


def home(source: str) -> Path:
    """Of the run: on none of the two volumes."""
    return state_dir() / "migrate" / hashlib.sha256(os.fsencode(source)).hexdigest()[:16]


def known(source: str) -> Known | None:
    """Raises CatalogueDamaged."""
    status = status_of(home(source))
    facts = status.found("preflight") if status else None
    if status is None or facts is None:
        return None
    finished = {step.name for step in status.steps}
    done = tuple(name for name in STEPS if name in finished)
    return Known(msgspec.convert(facts, Plan), done, _GOING_BACK in finished)


def migrate(plan: Plan, progress: Progress, anew: bool) -> Facts:
    """Go on, or begin; `anew`: instead of a migration that was finished. Raises LoaderError."""
    with _run(plan, progress, anew) as run:
        require_forward(run.catalogue.found(_GOING_BACK) is not None, plan.wishes.source)
        run.do("preflight", lambda meter: msgspec.to_builtins(plan))
        if run.catalogue.found("watch") is None:
            for name in _AGAIN:
                run.catalogue.undo(name)
        facts = _Steps(plan, run).all()
        return {**facts, **run.told_before()}


def _run(plan: Plan, progress: Progress, anew: bool = False) -> Any:
    options = {"from": plan.wishes.source, "to": plan.wishes.target}
    return open_run(home(plan.wishes.source), VERB, options, progress, restart=anew)


def require_forward(goes_back: bool, source: str) -> None:
    """Raises MigrationRefused."""
    if goes_back:
        reason = "a rollback was begun and has not ended"
        raise MigrationRefused(path=source, reason=reason, advice="Give --rollback to end it.")


class _Steps:
    def __init__(self, plan: Plan, run: Run) -> None:
        self.plan, self.run = plan, run
        self.source, self.target = Path(plan.wishes.source), Path(plan.wishes.target)

    def all(self) -> Facts:
        do: Callable[..., Facts] = self.run.do
        do("stop", self._stop)
        if self.run.catalogue.found("mount") is None and not self._is_swapped():
            self._mount_both()
            self._forget_a_stale_copy()
        copied = do("copy", self._copy)
        verified = do("verify", self._verify)
        do("unmount", self._unmount)
        do("mount", self._mount)
        do("fstab", self._fstab)
        do("check", lambda meter: self._check(meter, verified))
        do("start", self._start)
        watched = do("watch", self._watch)
        return {**copied, **verified, **watched}

    def _is_swapped(self) -> bool:
        return self.plan.new.is_at(str(self.source))

    def _mount_both(self) -> None:
        """After a reboot, or a kill while both were unmounted."""
        if self.plan.old is not None:
            self.plan.old.mount(str(self.source))
        self.plan.there.mount(str(self.target))

    def _forget_a_stale_copy(self) -> None:
        """A boot in between may have started the service. A copy that other accounts could enter is removed, not
        resumed."""
        catalogue = self.run.catalogue
        copied, verified = catalogue.found("copy"), catalogue.found("verify")
        if copied is None:
            return
        with held.opened(self.target) as target:
            if verified is not None:
                is_stale = verified["verify_mark"] != _mark(self.target)
            else:
                is_stale = not trees.is_closed(target)
            if is_stale or copied["copy_mark"] != _mark(self.source):
                if not trees.is_closed(target):
                    trees.empty(target)
                catalogue.undo("verify")
                catalogue.undo("copy")

    def _stop(self, meter: Meter) -> Facts:
        if self.plan.there.is_at(str(self.target)):
            _require_written(self.target)
        stop(self.plan.wishes.stop, self.source, self.plan.databases)
        return {}

    def _copy(self, meter: Meter) -> Facts:
        require_vacant(self.target)
        require_unused(self.source, self.plan.databases)
        with held.opened(self.source) as source, held.opened(self.target) as target:
            before = trees.state_of(source.descriptor)
            trees.copy_tree(source, target, meter, lambda: killpoint("copy.block"))
        if _mark(self.source) != before.mark:
            reason = "files were changed while they were copied"
            raise MigrationRefused(path=self.source, reason=reason, advice="Find out who writes there (fuser -vm).")
        return {"files": before.files, "bytes": before.size, "copy_mark": before.mark}

    def _verify(self, meter: Meter) -> Facts:
        with held.opened(self.source) as source, held.opened(self.target) as target:
            status = os.fstat(source.descriptor)
            one, other = trees.shape_of(source.descriptor), trees.shape_of(target.descriptor)
            self._require_equal(one, other, "owner, mode, size, time or attributes")
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
        require_unused(self.source, self.plan.databases)
        former = None if self._is_swapped() else mounts.inside(self.source)
        if self.plan.new.is_at(str(self.target)):
            with held.opened(self.source) as source, held.opened(self.target) as target:
                trees.open_up(source, target)
        self.plan.new.unmount(str(self.target))
        killpoint("unmount.between")
        if self.plan.old is not None:
            self.plan.old.unmount(str(self.source))
        if former is not None:
            _warn_of_other_namespaces(self.source, former)
        return {}

    def _mount(self, meter: Meter) -> Facts:
        self.plan.new.mount(str(self.source))
        return {}

    def _fstab(self, meter: Meter) -> Facts:
        volume.apply(Path(self.plan.wishes.fstab), self.plan.edits)
        return {}

    def _check(self, meter: Meter, verified: Mapping[str, Any]) -> Facts:
        status = self.source.stat()
        if [status.st_mode, status.st_uid, status.st_gid] != verified["top"] or not self._is_swapped():
            reason = "it is not the new volume with the owner and mode of the old one"
            raise MigrationRefused(path=self.source, reason=reason, advice="Give --rollback to go back.")
        for name in self.plan.databases:
            place = self.source / name
            found = databases.audit(place, databases.default_level(place), databases.Resources(), meter)
            if not found.sound:
                first = found.problems[0].told[0]
                raise MdbDamaged(path=place, reason=f"{first}; --rollback mounts the former volume")
        return {}

    def _start(self, meter: Meter) -> Facts:
        start(self.plan.wishes.start)
        return {}

    def _watch(self, meter: Meter) -> Facts:
        return {"process": _watch(self.plan, meter)}


def _watch(plan: Plan, meter: Meter) -> int:
    def note(text: str) -> None:
        meter.note = text
        meter.add(size=1)  # a sign of life

    wishes = plan.wishes
    signs = Signs(Path(wishes.source), plan.databases, plan.is_used, wishes.uri)
    return watch(signs, wishes.seconds, note)


def _warn_of_other_namespaces(source: Path, former: tuple[str, str]) -> None:
    """No error: mount namespaces that copied all mounts are harmless until something there opens the files."""
    found = [f"{target} ({holders.command_name(pid)}, process {pid})" for pid, target in mounts.elsewhere(former)]
    if found:
        _log.warning(
            "%s: other mount namespaces still show the former files, on %s: restart the service's container, if it is "
            "in one",
            source,
            ", ".join(found[:5]),
        )


def _require_written(target: Path) -> None:
    """A file system that has failed may only tell when it is written to. Raises ReadOnly, OSError."""
    with files.explained(target):
        descriptor = files.made(target)
        try:
            files.filled(descriptor, 4096)
        finally:
            os.close(descriptor)


def _mark(place: Path) -> str:
    with held.opened(place) as opened:
        return trees.state_of(opened.descriptor).mark


def roll_back(plan: Plan, progress: Progress) -> Facts:
    """From wherever it stands; killed, the same again goes on. The files on the new volume stay. `not_mounted`: why the
    new volume could not be mounted on TO again; None if it is."""
    source, target = plan.wishes.source, plan.wishes.target
    with _run(plan, progress) as run:
        run.worked = True
        run.catalogue.finish(_GOING_BACK, {}, 0, 0.0)
        done = {}
        for name, work in _going_back(plan).items():
            killpoint(f"rollback.{name}")
            with progress.step(f"rollback: {name}") as meter:
                done[name] = work(meter)
        killpoint("rollback.end")
        forget(run.directory)
    return {
        "from": source,
        "mounted": plan.old.device if plan.old else "",
        "kept": target,
        "not_mounted": done["mount"],
    }


def _going_back(plan: Plan) -> dict[str, Callable[[Meter], object]]:
    wishes, table = plan.wishes, Path(plan.wishes.fstab)
    of_target = volume.of_volume(plan.edits, wishes.target)
    return {
        "stop": lambda meter: stop(wishes.stop, Path(wishes.source), plan.databases),
        "fstab": lambda meter: volume.undo(table, [one for one in plan.edits if one not in of_target]),
        "unmount": lambda meter: plan.new.unmount(wishes.source),
        "mount": lambda meter: _mount_as_before(plan, table, of_target),
        "start": lambda meter: start(wishes.start),
        "watch": lambda meter: _watch(plan, meter),
    }


def _mount_as_before(plan: Plan, table: Path, of_target: Sequence[Edit]) -> str | None:
    """Why the new volume could not be mounted: the service does not need it, and its disk may be dead."""
    if plan.old is not None:
        plan.old.mount(plan.wishes.source)
    try:
        plan.there.mount(plan.wishes.target)
    except LoaderError as error:
        volume.leave_out(table, of_target)
        return str(error)
    volume.undo(table, of_target)
    return None
