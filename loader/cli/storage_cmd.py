"""`ditseed storage`, and its `check`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated

import click
import msgspec

from loader import units
from loader.cli import findings
from loader.cli.options import Json, is_given, refuse_given
from loader.cli.report import show, show_json
from loader.cli.storage_bench_cmd import bench_command
from loader.cli.storage_migrate_cmd import migrate_command
from loader.cli.storage_plan_cmd import plan_command
from loader.cli.storage_watch_cmd import watch_command
from loader.common_options import OptionalConfig, Suffix
from loader.declared import Argument
from loader.declared import command as declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK, UsageProblem
from loader.operations.storage import check as checking
from loader.operations.storage.check import Report
from loader.operations.storage.findings import Situation
from loader.storage.devices import Device


@click.group(name="storage")
def command() -> None:
    """What a database stands on, checked, planned, timed and moved: file system, logical volume, disks, memory."""


@declare("check")
def check_command(
    path: Annotated[Path | None, Argument()], config_path: OptionalConfig, suffix: Suffix, as_json: Json
) -> int:
    """Check the storage below PATH: a data.mdb, a database directory, or any directory.

    With --config instead of PATH: below the database of that configuration, whose maxsize, nordahead and nosync
    count then.

    Shows the layers from the database down to the disks, then what was found, the worst first, each with its
    reason and the command that mends it. Nothing is changed. Root sees most; what could not be looked at is named.
    The exit status is 0 if nothing is worse than a note, and 1 if there is a warning or worse.

    \b
      ditseed storage check /var/lib/ldap
      ditseed storage check --config /etc/ldap/slapd.d
      ditseed storage check /srv/new-volume --json
    """
    report = _report(path, config_path, suffix)
    if as_json:
        show_json(_facts(report))
    else:
        show(*_lines(report))
    return EXIT_OK if report.is_well else EXIT_DIFFERENT


def _report(path: Path | None, config: Path | None, suffix: str | None) -> Report:
    if path is not None and is_given("config_path"):
        raise UsageProblem(reason="give PATH or --config, not both")
    if path is not None:  # whatever a profile says of --config
        refuse_given(["suffix"], "--config")
        return checking.check(path)
    if config is None:
        raise UsageProblem(reason="say what to check: PATH, or --config")
    return checking.check_configured(config, suffix)


def _facts(report: Report) -> Mapping[str, object]:
    found = msgspec.to_builtins(report)
    situation = found["situation"]
    return {
        "well": report.is_well,
        "findings": found["findings"],
        "not_looked_at": situation["unseen"],
        "memory": situation["memory"],
        "database": situation["database"],
        "configured": situation["configured"],
        **{name: value for name, value in situation["facts"].items() if name != "unseen"},
    }


def _lines(report: Report) -> Iterator[str]:
    yield from _layers(report.situation)
    yield ""
    yield from findings.lines(report.findings, report.situation.unseen)


def _layers(situation: Situation) -> Iterator[str]:
    facts, database = situation.facts, situation.database
    if database is not None:
        map_size = "" if database.map_size is None else f", map size {units.size(database.map_size)}"
        yield (
            f"{database.path}  {units.size(database.used)} in use, {units.size(database.allocated)} on disk{map_size}"
        )
    else:
        yield facts.path
    space = facts.space
    yield (
        f"└─ {facts.mount.kind} on {facts.mount.target}  {units.size(space.size)}, "
        f"{units.size(space.free)} free; {','.join(facts.mount.options)}"
    )
    known = {one.name: one for one in facts.devices}
    below = {name for one in facts.devices for name in one.on}
    tops = [one for one in facts.devices if one.name not in below]
    yield from _devices(tops, situation, known, "   ")


def _devices(
    devices: Sequence[Device], situation: Situation, known: Mapping[str, Device], indent: str
) -> Iterator[str]:
    for number, device in enumerate(devices, 1):
        branch, beside = ("└─", "   ") if number == len(devices) else ("├─", "│  ")
        yield f"{indent}{branch} {device.path}  {_about(device, situation)}"
        on = [known[name] for name in device.on if name in known]
        yield from _devices(on, situation, known, indent + beside)


def _about(device: Device, situation: Situation) -> str:
    words = [device.kind, units.size(device.size)]
    volume = situation.facts.volumes.at(device.path)
    if volume is not None:
        kinds = dict.fromkeys(segment.kind for segment in volume.segments)
        legs = ", ".join(f"{leg} {count}" for leg, count in volume.legs.items())
        words.append(f"{'+'.join(kinds)}, extents: {legs}" if legs else "+".join(kinds))
        sizes = {one.stripe_size for one in volume.segments if one.stripe_size}
        words += [f"stripes of {units.size(one)}" for one in sorted(sizes)]
    if device.file:
        words.append(f"shows {device.file}")
    if device.kind == "disk":
        words.append("rotating" if device.rotational else "not rotating")
        words += [f"scheduler {device.scheduler}"] if device.scheduler else []
        words += [device.write_cache] if device.write_cache else []
    return ", ".join((*words, f"readahead {units.size(device.read_ahead)}"))


for one in (bench_command, check_command, migrate_command, plan_command, watch_command):
    command.add_command(one)
