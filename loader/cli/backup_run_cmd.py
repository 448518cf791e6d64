"""`ditseed backup run`."""

from __future__ import annotations

import dataclasses
import sys
from pathlib import Path
from typing import Any

import click

from loader import log, units
from loader.cli.backup_keys import recipient_options, recipients_of
from loader.cli.backup_options import every_option, keep_options, one_of, policy_of, require_alone
from loader.cli.backup_shown import newest, of_a_full
from loader.cli.options import (
    is_given,
    json_option,
    kept_meanwhile_option,
    optional_config_option,
    progress_of,
    progress_option,
    repo_option,
    suffix_option,
)
from loader.cli.report import show_facts, show_json
from loader.declared import Size
from loader.errors import UsageProblem
from loader.operations.backup import manifest, pack, repository
from loader.operations.backup.manifest import Backup
from loader.operations.backup.pack import Packing
from loader.operations.backup.repository import Repo
from loader.operations.backup.run import ROLES, BackupOptions, has_role, is_this_host, run


@click.command("run")
@optional_config_option
@suffix_option
@every_option
@click.option(
    "--from",
    "source",
    type=click.Path(path_type=Path, readable=False),
    metavar="DIR",
    help="Database directory, if there is no configuration.",
)
@repo_option
@click.option(
    "--init", is_flag=True, help="Create the repository first, if it is not there (see `ditseed backup init`)."
)
@click.option(
    "--compress-level",
    "level",
    type=click.IntRange(1, 19),
    default=pack.LEVEL,
    show_default=True,
    help="Level of zstd; a higher level makes a smaller file and takes longer.",
)
@click.option(
    "--kind",
    type=click.Choice(manifest.KINDS),
    default=manifest.MDB,
    show_default=True,
    help="Pages of the database, which are restored fastest; or LDIF, which any version of OpenLDAP can read.",
)
@click.option(
    "--incremental",
    is_flag=True,
    help="Store only the pages that the last incremental backup of this suffix does not have.",
)
@click.option(
    "--keep-free",
    type=Size(),
    default=0,
    metavar="SIZE",
    help="Refuse, or stop, rather than leave less free space than that in the repository.",
)
@click.option(
    "--throttle",
    type=Size(),
    default=0,
    metavar="SIZE",
    help="Read no more of the database than that each second (default: as fast as the disk gives it).",
)
@click.option(
    "--only-on",
    "hosts",
    multiple=True,
    metavar="HOST",
    help="Do nothing on any other host; may be given several times.",
)
@click.option(
    "--only-role",
    "role",
    type=click.Choice(ROLES),
    help="Do nothing where the database is none: a consumer has syncrepl, a provider has syncprov.",
)
@recipient_options
@kept_meanwhile_option
@keep_options
@json_option
@progress_option
def run_command(
    config_path: Path | None,
    suffix: str | None,
    every: bool,
    source: Path | None,
    repo: Repo,
    init: bool,
    level: int,
    kind: str,
    incremental: bool,
    keep_free: int,
    throttle: int,
    hosts: tuple[str, ...],
    role: str | None,
    recipients: tuple[str, ...],
    recipients_files: tuple[Path, ...],
    scratch: Path | None,
    as_json: bool,
    progress_mode: str,
    **kept: Any,
) -> None:
    """Take a backup while slapd is running: a consistent snapshot of what is in use, compressed.

    Made for cron: it prints nothing when all is well (unless on a terminal, with --json, or as
    `ditseed backup run -v`), and a second run on the same repository ends at once. Stopped at any
    moment, it leaves nothing that `list` shows.

    \b
    Every night, from /etc/cron.d/ditseed (cron's own PATH has no /usr/local/bin):
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
      15 2 * * *  root  ditseed backup run --config /etc/ldap/slapd.d -R /srv/backup
    The same line on every server, where two are chosen to do it; old backups are removed after a good one:
      ... ditseed backup run --config /etc/ldap/slapd.d -R /srv/backup --only-on ldap1 --only-on ldap2 --keep-daily 14
    Only what has changed since the last one:
      ditseed backup run --config /etc/ldap/slapd.d -R /srv/backup --incremental
    All databases of the server as they were at one moment, with the accesslog:
      ditseed backup run --config /etc/ldap/slapd.d --all-databases -R /srv/backup
    Encrypted, so that only who has an identity can read it (not this host):
      ditseed backup run --config /etc/ldap/slapd.d -R /srv/backup --recipients-file /etc/ditseed/recipients
    Once a month as LDIF, for another version of OpenLDAP or another kind of machine:
      ditseed backup run --config /etc/ldap/slapd.d -R /srv/backup-ldif --kind ldif
    One of several databases, compressed more:
      ditseed backup run --config /etc/ldap/slapd.d -b dc=example,dc=com -R /srv/backup --compress-level 9
    """
    if not is_given("config_path") and source is not None:
        config_path = None  # of a profile
    one_of(("--config", config_path), ("--from", source))
    require_alone(every, ("-b", suffix), ("--from", source))
    talks = sys.stdout.isatty() or log.verbosity() > 0
    if progress_mode == "auto" and not talks:
        progress_mode = "none"
    why_not = _why_not(hosts, role, config_path, suffix, every)
    if why_not:
        if talks:
            show_facts({"backup": f"none: {why_not}"})
        return
    _require_pages(kind, every, incremental)
    keys = recipients_of(recipients, recipients_files, incremental)
    packing = Packing(level, throttle, keep_free, keys, kind == manifest.LDIF)
    policy, progress = policy_of(kept), progress_of(progress_mode)
    if init:
        repository.init(repo)
    with repository.at(repo, progress, scratch, changes=True) as place:
        options = BackupOptions(place, config_path, source, suffix, packing, policy, incremental, every)
        made = run(options, progress)
        if as_json:
            show_json(dataclasses.asdict(made))
        elif talks:
            for one in repository.members(place, made):
                show_facts(_lines(one) | of_a_full(one))


def _require_pages(kind: str, every: bool, incremental: bool) -> None:
    for name, given in (("--all-databases", every), ("--incremental", incremental)):
        if kind == manifest.LDIF and given:
            raise UsageProblem(reason=f"{name} is for --kind mdb: it needs the pages")


def _why_not(
    hosts: tuple[str, ...], role: str | None, config_path: Path | None, suffix: str | None, every: bool
) -> str:
    """Why this is not a server that makes backups; empty where it is one."""
    if hosts and not is_this_host(hosts):
        return f"this host is not {' or '.join(hosts)}"
    if role is None:
        return ""
    if config_path is None:
        raise UsageProblem(reason="--only-role asks the configuration: give --config")
    return "" if has_role(config_path, suffix, every, role) else f"the database is no {role}"


def _lines(made: Backup) -> dict[str, object]:
    return {
        "backup": made.id,
        "suffix": made.suffix,
        "entries": units.number(made.entries),
        "data / stored": f"{units.size(made.data_bytes)} / {units.size(made.stored_bytes)}",
        "took": units.duration(made.seconds),
        "newest change": newest(made),
    }
