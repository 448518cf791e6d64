"""What both engines have in common at the end of a build."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from loader import csn
from loader.mdb import contents, edits, verify
from loader.operations import member_of
from loader.operations.build.options import BuildOptions
from loader.operations.publish import TargetDatabase, publish_environment
from loader.progress import Meter
from loader.run.log import Facts
from loader.storage import files

INVALID = "invalid values"  # in the report: values that their syntax forbids, which were loaded
NOTES = "notes"  # in the report, and in what `check` has recorded


def server_id(options: BuildOptions, place: TargetDatabase) -> int:
    """Of the entryCSNs that are made."""
    wanted = options.server_id
    return (place.config.server_id or 0) if wanted is None else wanted


def complete(options: BuildOptions, made: Path, place: TargetDatabase, meter: Meter) -> None:
    """What a consumer cannot hold is refused, and -w of a glued tree gets its contextCSN. Raises SharedUuid."""
    if options.seeding or options.claimed is not None:
        verify.require_unique_uuids(made, meter, made.parent)
    if options.reached and not options.seeding:
        _extend_context_csn(options, made, place)


def _extend_context_csn(options: BuildOptions, made: Path, place: TargetDatabase) -> None:
    """The superior's contextCSN takes in what the other databases hold (slapcommon.c)."""
    suffix = place.database.suffix
    stored = contents.context_csns(made, suffix)
    wanted = sorted(csn.by_server([*stored, *options.reached]).values())
    if sorted(stored) != wanted:
        edits.stamp(made, suffix, wanted)


def notes(place: TargetDatabase, made: Path) -> Facts:
    """What an operator should know of the new database before slapd runs on it."""
    found = member_of.notes(place.config, place.database, made)
    return {NOTES: found} if found else {}


def publish(
    options: BuildOptions, place: TargetDatabase, made: Path, checked: Facts, entries: int, maxsize: int
) -> Facts:
    """Put the environment into its place; into a target beside the configured one, with its configuration untouched."""
    if options.target is not None:
        database = dataclasses.replace(place.database, maxsize=maxsize)
        place = dataclasses.replace(place, database=database)
    published = publish_environment(made, place, checked, entries, maxsize)
    files.remove_tree(made)
    return {**published, **{name: checked[name] for name in (NOTES,) if name in checked}}
