"""`ditseed backup drill|extract`."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path

import click

from loader import log, standard, units
from loader.cli.backup_keys import identity_option
from loader.cli.options import (
    backup_of,
    json_option,
    optional_config_option,
    progress_of,
    progress_option,
    repo_option,
    scratch_option,
    suffix_option,
    which_backup,
)
from loader.cli.report import show_facts, show_json, tell
from loader.errors import EXIT_DIFFERENT, EXIT_OK
from loader.operations.backup import repository
from loader.operations.backup.records import Drill
from loader.operations.backup.repository import Repo


@click.command("drill")
@which_backup
@repo_option
@suffix_option
@optional_config_option
@identity_option
@scratch_option("Directory in which the backup is restored for the drill (default: /tmp).")
@click.option(
    "--run-as",
    "user",
    metavar="NAME",
    help="Account that slapd runs as (default: that of the database on this host, or nobody).",
)
@json_option
@progress_option
def drill_command(
    name: str | None,
    as_of: datetime.datetime | None,
    repo: Repo,
    suffix: str | None,
    config_path: Path | None,
    identities: tuple[Path, ...],
    scratch: Path | None,
    user: str | None,
    as_json: bool,
    progress_mode: str,
) -> int:
    """Restore a backup into a scratch directory, start a real slapd on it, and search it.

    The running slapd and its database are not touched: the drill's own listens on a private socket, without
    network, syncrepl or log. It counts the entries, looks some up, and compares the counts and the contextCSN
    with the manifest. The result, and how long the restore took, is written down beside the backup: `list`,
    `show`, `check` and `prune` use it. Exit status: 0 all is well, 1 it is not. If `latest` is a set of
    backups of one moment, all of it is drilled, one backup after the other, unless -b names a suffix.

    \b
      ditseed backup drill latest -R /srv/backup --tmp /srv/scratch
    A backup that was taken without a configuration (--from):
      ditseed backup drill latest -R /srv/backup --config /etc/ldap/slapd.d
    """
    # What starts slapd takes as long to load as all that `run` needs.
    from loader.operations.backup.drill import DrillOptions, drill

    which, progress = backup_of(name, as_of), progress_of(progress_mode)
    with repository.at(repo, progress, scratch) as place:
        options = DrillOptions(place, which, suffix, config_path, scratch, user, identities=identities)
        found = drill(options, progress)
    if as_json:
        told = [dataclasses.asdict(one) for one in found]
        show_json({"drills": told} if len(told) > 1 else told[0])
    else:
        for one in found:
            show_facts(_facts(one))
    return EXIT_OK if all(one.is_good for one in found) else EXIT_DIFFERENT


def _facts(found: Drill) -> dict[str, object]:
    return {
        "backup": found.backup,
        "restored in": units.duration(found.restore_seconds),
        "slapd started in": units.duration(found.start_seconds),
        "entries": f"{units.number(found.entries)}, counted in {units.duration(found.search_seconds)}",
        "looked up": units.number(found.lookups),
        "contextCSN": " ".join(found.context_csns) or "none stored",
        "result": found.problem or "good",
    }


@click.command("extract")
@which_backup
@repo_option
@suffix_option
@click.option("--dn", metavar="DN", help="The entry DN, and all entries below it.")
@click.option("--filter", "where", metavar="FILTER", help="The entries that an LDAP filter matches.")
@click.option(
    "--keep-operational",
    is_flag=True,
    help="Write entryUUID, creatorsName, createTimestamp ... as well: for slapadd, or ldapadd -e relax.",
)
@optional_config_option
@identity_option
@scratch_option("Directory in which the backup is unpacked (default: $TMPDIR or /tmp).")
@progress_option
def extract_command(
    name: str | None,
    as_of: datetime.datetime | None,
    repo: Repo,
    suffix: str | None,
    dn: str | None,
    where: str | None,
    keep_operational: bool,
    config_path: Path | None,
    identities: tuple[Path, ...],
    scratch: Path | None,
    progress_mode: str,
) -> None:
    """Write entries of a backup to standard output, as LDIF that ldapadd takes.

    For the wrong delete at night: the server goes on running. A filter is evaluated by slapcat with the
    configuration in the backup.

    \b
      ditseed backup extract latest -R /srv/backup --dn ou=sales,dc=example,dc=com > sales.ldif
      ldapadd -H ldapi:/// -Y EXTERNAL -f sales.ldif
    Single entries, wherever they are:
      ditseed backup extract latest -R /srv/backup --filter '(uid=jdoe)'
    """
    from loader.operations.backup.drill import ExtractOptions, extract  # it takes long to load

    standard.reserve_output()
    which, progress = backup_of(name, as_of), progress_of(progress_mode)
    with repository.at(repo, progress, scratch) as place:
        options = ExtractOptions(place, which, suffix, dn, where, keep_operational, config_path, scratch, identities)
        found = extract(options, progress)
    if log.verbosity() >= 0:
        tell(f"extracted: {units.number(found)} entries")
