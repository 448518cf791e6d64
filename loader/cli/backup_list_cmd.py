"""`ditseed backup list`."""

from __future__ import annotations

import dataclasses

import click

from loader import units
from loader.cli.backup_shown import kind, newest
from loader.cli.options import json_option, repo_option, suffix_option
from loader.cli.report import show_error, show_json, show_table
from loader.operations.backup import records, repository
from loader.operations.backup.manifest import Backup
from loader.operations.backup.records import Proofs
from loader.operations.backup.repository import Repo


@click.command("list")
@repo_option
@suffix_option
@json_option
def list_command(repo: Repo, suffix: str | None, as_json: bool) -> None:
    """List the backups of a repository, the oldest first.

    \b
      ditseed backup list -R /srv/backup
    """
    with repository.at(repo) as place:
        found, read = repository.listing(place, suffix), not place.is_remote
        listed = [(one, records.of(place, one), repository.problem(place, one, read)) for one in found.every]
    for error in (*found.broken, *(problem for _, _, problem in listed if problem)):
        show_error(error)
    if as_json:
        show_json(
            {
                "backups": [
                    {
                        **dataclasses.asdict(one),
                        **dataclasses.asdict(known),
                        "kind": kind(one),
                        "problem": problem and str(problem),
                    }
                    for one, known, problem in listed
                ]
            }
        )
        return
    rows = [(*_row(one), *_proofs(known), "no" if problem else "yes") for one, known, problem in listed]
    columns = ("id", "age", "entries", "kind", "set", "data", "stored", "took", "newest change")
    show_table((*columns, "verified", "drilled", "restorable"), rows)


def _row(one: Backup) -> tuple[object, ...]:
    return (
        one.id,
        _age(one),
        units.number(one.entries),
        kind(one),
        _place_in_set(one),
        units.size(one.data_bytes),
        units.size(one.stored_bytes),
        units.duration(one.seconds),
        newest(one),
    )


def _place_in_set(one: Backup) -> str:
    """Those of one set have the same time in their IDs."""
    return f"{one.members.index(one.id) + 1} of {len(one.members)}" if one.members else "-"


def _proofs(found: Proofs) -> tuple[str, ...]:
    """Ages."""
    return tuple(
        "-" if one is None else "bad" if not one.is_good else units.duration(records.age_of(one))
        for one in (found.verification, found.drill)
    )


def _age(backup: Backup) -> str:
    age = (repository.now() - backup.when).total_seconds()
    if age < -repository.SKEW.total_seconds():
        return "dated later than now"
    return units.duration(max(0.0, age))
