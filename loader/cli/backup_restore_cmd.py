"""`ditseed backup restore`."""

from __future__ import annotations

import dataclasses
import datetime
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from loader import units
from loader.cli.backup_keys import identity_option
from loader.cli.backup_options import every_option, one_of, require_alone
from loader.cli.options import (
    backup_of,
    dry_run_option,
    is_given,
    json_option,
    kept_meanwhile_option,
    optional_config_option,
    progress_of,
    progress_option,
    refuse_given,
    repo_option,
    suffix_option,
    target_option,
    verify_copy_option,
    which_backup,
)
from loader.cli.report import show_facts, show_json
from loader.operations.backup import repository
from loader.operations.backup.repository import Repo

if TYPE_CHECKING:
    from loader.operations.backup.restore import RestorePlan, RestoreReport


@click.command("restore")
@which_backup
@repo_option
@optional_config_option
@suffix_option
@every_option
@target_option
@click.option(
    "--replace",
    is_flag=True,
    help="Replace the existing database once the restored one is checked. Its data file is kept in the directory as "
    "data.mdb.replaced-TIME.",
)
@click.option(
    "--discard", is_flag=True, help="With --replace: remove the existing database instead of keeping its data file."
)
@verify_copy_option
@identity_option
@kept_meanwhile_option
@dry_run_option
@json_option
@progress_option
def restore_command(
    name: str | None,
    as_of: datetime.datetime | None,
    repo: Repo,
    config_path: Path | None,
    suffix: str | None,
    every: bool,
    target: Path | None,
    replace: bool,
    discard: bool,
    verify: str | None,
    identities: tuple[Path, ...],
    scratch: Path | None,
    dry_run: bool,
    as_json: bool,
    progress_mode: str,
) -> None:
    """Restore a backup into the database directory of a configuration. slapd must not be running on it.

    The backup is unpacked and checked beside the old database, then renamed into place: the directory
    holds the old database or the restored one, never half of it. Owner and mode follow the directory
    and the configuration.

    \b
    The latest one, replacing a broken database:
      systemctl stop slapd
      ditseed backup restore latest -R /srv/backup --config /etc/ldap/slapd.d --replace
      systemctl start slapd
    All databases of one moment, each into the directory that the configuration gives it:
      ditseed backup restore latest -R /srv/backup --config /etc/ldap/slapd.d --all-databases --replace
    Into another directory, to look at it:
      ditseed backup restore latest -R /srv/backup --target /srv/look
    """
    # What builds databases takes as long to load as all that `run` needs.
    from loader.operations.backup import restore as restoring

    if not is_given("config_path") and target is not None:
        config_path = None  # of a profile
    one_of(("--config", config_path), ("--target", target))
    if not replace:
        refuse_given(("discard",), "--replace")
    require_alone(every, ("-b", suffix), ("--target", target))
    which, progress = backup_of(name, as_of), progress_of(progress_mode)
    with repository.at(repo, progress, scratch) as place:
        options = restoring.RestoreOptions(
            place, which, config_path, suffix, target, replace, verify, every, identities, discard
        )
        found: Sequence[RestorePlan | RestoreReport] = (
            restoring.plan(options) if dry_run else restoring.restore(options, progress)
        )
    if as_json:
        told = [dataclasses.asdict(one) for one in found]
        show_json({"databases": told} if every else told[0])
        return
    for one in found:
        show_facts(_restored(one))


def _restored(found: RestorePlan | RestoreReport) -> dict[str, object]:
    from loader.operations.backup.restore import RestorePlan

    facts: dict[str, object] = {"backup": found.backup.id, "suffix": found.backup.suffix, "target": found.target}
    if isinstance(found, RestorePlan):
        facts["needed / free"] = f"{units.size(found.needed)} / {units.size(found.free)}"
        facts["in place now"] = "a database (replaced)" if found.replaces else "nothing"
        return facts
    kept = {"old database": f"{found.kept} (remove it when nobody needs it)"} if found.kept else {}
    return facts | {
        "entries": "-" if found.entries is None else units.number(found.entries),
        "shown / on disk": f"{units.size(found.bytes)} / {units.size(found.allocated)}",
        "took": units.duration(found.seconds),
        "verified": found.verified,
        "indexed": ", ".join(found.indexed) or "none",
        **kept,
    }
