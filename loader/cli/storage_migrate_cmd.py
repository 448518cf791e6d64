"""`ditseed storage migrate`."""

from __future__ import annotations

import os
import shlex
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated

import msgspec
from click import FloatRange

from loader.cli.options import Shown
from loader.cli.report import for_people, show, show_facts, show_json, tell
from loader.declared import Argument
from loader.declared import command as declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK, LoaderError, MigrationRefused, NotPermitted, UsageProblem
from loader.operations.storage.migrate import moving
from loader.operations.storage.migrate import plan as planning
from loader.operations.storage.migrate.moving import Begun
from loader.operations.storage.migrate.plan import MovePlan, MoveRequest, PlannedStep
from loader.storage import mounts

_SYSTEMD = ("systemctl stop slapd", "systemctl start slapd")
_LDAPI = "ldapi:///"
_MIGRATION = "migration"
_STOPPED = (
    "The service is stopped, or being stopped: the same command goes on, --rollback --apply starts it on the former "
    "volume."
)


@declare("migrate")
def migrate_command(
    source: Annotated[str, Argument("FROM")],
    target: Annotated[str, Argument("TO")],
    service: Annotated[
        tuple[str, str] | None,
        "--service",
        {"nargs": 2, "metavar": "STOP START"},
        "Commands that stop and start the service (default: systemctl stop slapd, systemctl start slapd).",
    ],
    uri: Annotated[str | None, "-H --uri URI", "Server that must answer afterwards (default: ldapi:/// for slapd)."],
    rollback: Annotated[bool, "Go back to the former volume, from whichever step."],
    apply: Annotated[bool, "Do it, once you have typed FROM to confirm."],
    shown: Shown,
    fstab: Annotated[str, "--fstab FILE", "The fstab to change."] = str(mounts.FSTAB),
    seconds: Annotated[
        float, "--watch SECONDS", FloatRange(0), "Time that the service must stay up after its start."
    ] = 30.0,
) -> int:
    """Move what is in FROM to the volume that is mounted on TO, and mount that volume on FROM instead.

    FROM is where the service has its files: the mount point of its volume, or a directory of a larger one. TO is the
    mount point of a new, empty file system. Without --apply every step and command is printed, and nothing is changed.
    The old volume is kept. If a run is interrupted, the same command goes on; --rollback goes back from any step, also
    when all is done. Exit status 1: rolled back, but the new volume cannot be mounted on TO. Run it as root.

    \b
      ditseed storage migrate /var/lib/ldap /mnt/new
      ditseed storage migrate /var/lib/ldap /mnt/new --apply
      ditseed storage migrate /var/lib/ldap /mnt/new --rollback --apply
      ditseed storage migrate /var/opt/novell/eDirectory /mnt/new --service "ndsmanage stopall" "ndsmanage startall"
    """
    stop, start = map(_command, service or _SYSTEMD)
    source, target = (str(Path(word)) for word in (source, target))  # no slash at the end
    request = MoveRequest(source, target, stop, start, uri or ("" if service else _LDAPI), fstab, seconds)
    begun = moving.begun(source)
    if rollback:
        return _back(_continued(begun, request, bool(service)), apply, shown)
    moving.require_forward(begun is not None and begun.goes_back, source)
    anew = begun is not None and begun.is_done and _is_mounted(target)
    if begun is None or anew:
        plan = planning.plan(request, moving.run_directory(source))
    else:
        plan = _continued(begun, request, bool(service))
        if begun.is_done:
            tell("This migration is finished. --rollback goes back to the former volume.")
            if shown.as_json:
                show_json({"plan": msgspec.to_builtins(plan), "done": begun.done})
            return EXIT_OK
    if _agreed(plan, _MIGRATION, planning.forward(plan), apply, shown.as_json):
        with _telling_of_the_stop(source):
            _report(moving.migrate(plan, shown.progress, anew), shown.as_json)
    return EXIT_OK


def _command(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:  # a quotation mark without the other
        raise UsageProblem(reason=f"--service: {text}: {str(error).lower()}") from None
    if not words:
        raise UsageProblem(reason="--service: give two commands")
    return words


@contextmanager
def _telling_of_the_stop(source: str) -> Iterator[None]:
    """Whoever ends the migration must be told that the service is stopped."""
    try:
        yield
    except (LoaderError, KeyboardInterrupt):
        with suppress(LoaderError):
            begun = moving.begun(source)
            if begun is not None and begun.is_stopped:
                tell(_STOPPED)
        raise


def _is_mounted(target: str) -> bool:
    return Path(target).is_dir() and mounts.mounted_at(Path(target)) is not None


def _continued(begun: Begun | None, request: MoveRequest, has_service: bool) -> MovePlan:
    """The plan of the migration that was begun; --service may be another."""
    if begun is None:
        reason = "no migration of this directory was begun, or its state is kept elsewhere"
        raise MigrationRefused(path=request.source, reason=reason, advice="Check FROM, and DITSEED_STATE_DIR.")
    plan, before = begun.plan, begun.plan.request
    if before.target != request.target:
        reason = f"a migration of it to {before.target} was begun"
        raise MigrationRefused(path=request.source, reason=reason, advice=f"Give {before.target} as TO.")
    if not begun.is_done:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(plan.begun))
        note = f"begun on {when}, finished so far: {', '.join(begun.done)}"
        plan = msgspec.structs.replace(plan, notes=(note, *plan.notes))
    if not has_service:
        return plan
    planning.require_commands(request)
    again = msgspec.structs.replace(before, stop=request.stop, start=request.start, uri=request.uri)
    return msgspec.structs.replace(plan, request=again)


def _back(plan: MovePlan, apply: bool, shown: Shown) -> int:
    tell("What the service has written to the new volume is not on the former one.")
    if _agreed(plan, "rollback", planning.back(plan), apply, shown.as_json):
        facts = moving.roll_back(plan, shown.progress)
        _report(facts, shown.as_json)
        if facts["not_mounted"]:
            tell(
                f"The service runs on the former volume, but the new one is not mounted on {plan.request.target}. If "
                f"{plan.request.fstab} had a line for it, that is a comment now."
            )
            return EXIT_DIFFERENT
    return EXIT_OK


def _agreed(plan: MovePlan, what: str, planned: Iterable[PlannedStep], apply: bool, as_json: bool) -> bool:
    """Shows the plan; with --apply, has FROM been typed? Raises UsageProblem."""
    steps, source = [*planned], plan.request.source
    if not apply and as_json:
        show_json({"plan": msgspec.to_builtins(plan), "steps": msgspec.to_builtins(steps)})
        return False
    (tell if apply else show)(*_lines(plan, what, steps))
    if not apply:
        show("", "Nothing was changed. --apply does it.")
        return False
    if os.geteuid() != 0:
        raise NotPermitted(action="mount a volume on", path=source, owner="root")
    tell("", f"Type {source} to begin:")
    if sys.stdin.readline().strip() != source:
        raise UsageProblem(reason=f"the {what} was not confirmed; nothing was changed")
    return True


def _lines(plan: MovePlan, what: str, steps: Iterable[PlannedStep]) -> Iterator[str]:
    old = plan.old.device if plan.old else "a directory of a larger file system"
    new = f"{plan.new.device} ({plan.new.kind})"
    where = f"from {old} to {new}" if what == _MIGRATION else f"from {new} to {old}"
    yield f"# {what} of {plan.request.source} {where}"
    yield from (f"# Note: {note}" for note in plan.notes)
    for one in steps:
        yield f"# {one.step}" + (f": ditseed {one.by}" if one.by else "")
        yield from one.commands


def _report(facts: Mapping[str, object], as_json: bool) -> None:
    """Without what only the next run needs."""
    shown = {name: value for name, value in facts.items() if not name.endswith("_mark") and name != "top"}
    if as_json:
        show_json(shown)
    else:
        show_facts(for_people(shown))
