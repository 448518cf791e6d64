"""`ditseed backup run|list|check|restore`; the other verbs are in modules of their own."""

from __future__ import annotations

import dataclasses
import datetime
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from loader import log, units
from loader.cli.backup_care_cmd import (
    Percent,
    keep_options,
    of_a_full,
    policy_of,
    prune_command,
    show_command,
    verify_command,
)
from loader.cli.backup_drill_cmd import drill_command, extract_command
from loader.cli.backup_keys import identity_option, recipient_options, recipients_of
from loader.cli.options import (
    Size,
    backup_of,
    dry_run_option,
    is_given,
    json_option,
    kept_meanwhile_option,
    optional_config_option,
    progress_of,
    progress_option,
    repo_option,
    suffix_option,
    target_option,
    verify_copy_option,
    which_backup,
)
from loader.cli.report import show, show_error, show_facts, show_json, show_table
from loader.cli.vocabulary import Option
from loader.errors import LoaderError, UsageProblem
from loader.operations.backup import check as checking
from loader.operations.backup import manifest, pack, places, records, repository
from loader.operations.backup.check import Check, Limits
from loader.operations.backup.manifest import Backup
from loader.operations.backup.pack import Packing
from loader.operations.backup.places import Repo
from loader.operations.backup.records import Proofs
from loader.operations.backup.run import ROLES, BackupOptions, has_role, is_this_host

if TYPE_CHECKING:
    from loader.operations.backup.restore import RestorePlan, RestoreReport


@click.group(name="backup")
def command() -> None:
    """Back up databases while slapd is running; list, check, verify, drill, prune and restore the backups."""


command.add_command(drill_command)
command.add_command(extract_command)
command.add_command(prune_command)
command.add_command(show_command)
command.add_command(verify_command)


every_option = click.option(
    "--all-databases",
    "every",
    cls=Option,
    is_flag=True,
    help="All mdb databases of the configuration, accesslogs included, as they were at one moment.",
)


@command.command("run")
@optional_config_option
@suffix_option
@every_option
@click.option(
    "--from",
    "source",
    cls=Option,
    former=("--source",),
    type=click.Path(path_type=Path, readable=False),
    metavar="DIR",
    help="Database directory, if there is no configuration.",
)
@repo_option
@click.option(
    "--compress",
    type=click.Choice(list(manifest.NAMES)),
    default="zstd",
    show_default=True,
    help="How to compress the copy.",
)
@click.option(
    "--compress-level",
    "level",
    cls=Option,
    former=("--level",),
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
    help="Pages of the database, which are restored fastest, or LDIF, which any version of OpenLDAP can read.",
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
    compress: str,
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
    _one_of(("--config", config_path), ("--from", source))
    _require_alone(every, ("-b", suffix), ("--from", source))
    talks = sys.stdout.isatty() or log.verbosity() > 0
    if progress_mode == "auto" and not talks:
        progress_mode = "none"
    why_not = _why_not(hosts, role, config_path, suffix, every)
    if why_not:
        if talks:
            show_facts({"backup": f"none: {why_not}"})
        return
    if incremental and compress != "zstd":
        raise UsageProblem(reason="--incremental compresses with zstd: leave --compress out")
    _require_pages(kind, every, incremental)
    keys = recipients_of(recipients, recipients_files, incremental)
    packing = Packing(compress, level, throttle, keep_free, keys, kind == manifest.LDIF)
    policy, progress = policy_of(kept), progress_of(progress_mode)
    with places.at(repo, progress, scratch, changes=True) as place:
        options = BackupOptions(
            place.path, config_path, source, suffix, packing, policy, incremental, every
        )
        made = place.run(options, progress)
        if as_json:
            show_json(dataclasses.asdict(made))
        elif talks:
            for one in repository.members(place.path, made):
                show_facts(_lines(one) | of_a_full(place.path, one))


def _require_pages(kind: str, every: bool, incremental: bool) -> None:
    for name, given in (("--all-databases", every), ("--incremental", incremental)):
        if kind == manifest.LDIF and given:
            raise UsageProblem(reason=f"{name} is for --kind mdb: it needs the pages")


def _why_not(
    hosts: tuple[str, ...],
    role: str | None,
    config_path: Path | None,
    suffix: str | None,
    every: bool,
) -> str:
    """Why this is not a server that makes backups; empty where it is one."""
    if hosts and not is_this_host(hosts):
        return f"this host is not {' or '.join(hosts)}"
    if role is None:
        return ""
    if config_path is None:
        raise UsageProblem(reason="--only-role asks the configuration: give --config")
    return "" if has_role(config_path, suffix, every, role) else f"the database is no {role}"


@command.command("list")
@repo_option
@suffix_option
@json_option
def list_command(repo: Repo, suffix: str | None, as_json: bool) -> None:
    """List the backups of a repository, the oldest first.

    \b
      ditseed backup list -R /srv/backup
    """
    with places.at(repo) as place:
        found = repository.listing(place.path, suffix)
        listed = [(one, records.of(place.path, one)) for one in (*found.backups, *found.future)]
    for error in found.broken:
        show_error(error)
    if as_json:
        show_json(
            {
                "backups": [
                    {**dataclasses.asdict(one), **dataclasses.asdict(known)}
                    for one, known in listed
                ]
            }
        )
        return
    rows = [(*_row(one), *_proofs(known)) for one, known in listed]
    columns = ("id", "age", "entries", "data", "stored", "took", "newest change")
    show_table((*columns, "verified", "drilled"), rows)


@command.command("check")
@repo_option
@suffix_option
@click.option(
    "--max-age",
    default="26h",
    show_default=True,
    metavar="TIME",
    help="CRITICAL if the latest backup is older: 26h, 90m.",
)
@click.option(
    "--min-count",
    type=click.IntRange(min=0),
    default=1,
    show_default=True,
    metavar="N",
    help="WARNING if there are fewer backups.",
)
@click.option(
    "--max-verify-age",
    metavar="TIME",
    help="WARNING if no backup was verified for longer: 8d (default: it is not asked).",
)
@click.option(
    "--max-drill-age",
    metavar="TIME",
    help="WARNING if no backup was drilled for longer: 35d (default: it is not asked).",
)
@click.option(
    "--max-shrink",
    type=Percent(),
    default=f"{checking.SHRINK:.0%}",
    show_default=True,
    metavar="PERCENT",
    help="WARNING if the latest backup has so many fewer entries than those before it (the median of seven).",
)
@click.option(
    "--prometheus",
    "metrics_file",
    type=click.Path(path_type=Path, readable=False),
    metavar="FILE",
    help="Also write FILE for node_exporter's textfile collector (NAME.prom), with what is found of each suffix.",
)
@json_option
def check_command(
    repo: Repo,
    suffix: str | None,
    max_age: str,
    min_count: int,
    max_verify_age: str | None,
    max_drill_age: str | None,
    max_shrink: float,
    metrics_file: Path | None,
    as_json: bool,
) -> int:
    """Is there a backup young enough? A monitoring plugin: one line, exit status 0, 1, 2 or 3.

    \b
      ditseed backup check -R /srv/backup --max-age 26h --min-count 7 --max-verify-age 8d --max-drill-age 35d
      ditseed backup check -R /srv/backup --prometheus /var/lib/prometheus/node-exporter/ditseed-backup.prom
    """
    limits = Limits(
        units.parse_duration(max_age),
        min_count,
        _limit(max_verify_age),
        _limit(max_drill_age),
        max_shrink,
    )
    found = _checked(repo, limits, suffix, metrics_file)
    if as_json:
        show_json({**dataclasses.asdict(found), "status": found.status.name})
    else:
        show(found.line())
    return int(found.status)


def _limit(text: str | None) -> float | None:
    """Seconds; None where nobody asks."""
    return units.parse_duration(text) or None if text else None


def _checked(repo: Repo, limits: Limits, suffix: str | None, metrics_file: Path | None) -> Check:
    each: dict[str, Check] = {}
    try:
        with places.at(repo) as place:
            found = checking.check(place.path, limits, suffix, place.bring_lists)
            if metrics_file is not None:
                each = checking.each(place.path, limits, suffix, place.bring_lists)
    except LoaderError as error:
        found = checking.unknown(error, limits)
    if metrics_file is not None:
        from loader.operations.backup import metrics  # it takes long to import

        metrics.write(each or {suffix or "": found}, metrics_file)
    return found


@command.command("restore")
@which_backup
@repo_option
@optional_config_option
@suffix_option
@every_option
@target_option
@click.option(
    "--replace",
    is_flag=True,
    help="Replace the existing database once the restored one is checked.",
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
    _one_of(("--config", config_path), ("--target", target))
    _require_alone(every, ("-b", suffix), ("--target", target))
    which, progress = backup_of(name, as_of), progress_of(progress_mode)
    with places.at(repo, progress, scratch) as place:
        options = restoring.RestoreOptions(
            place.path, which, config_path, suffix, target, replace, verify, every, identities
        )
        found: Sequence[RestorePlan | RestoreReport] = (
            restoring.plan(options, place.bring_lists)
            if dry_run
            else restoring.restore(options, progress, place.bring)
        )
    if as_json:
        told = [dataclasses.asdict(one) for one in found]
        show_json({"databases": told} if every else told[0])
        return
    for one in found:
        show_facts(_restored(one))


def _require_alone(every: bool, *others: tuple[str, object]) -> None:
    for name, value in others:
        if every and value is not None:
            raise UsageProblem(reason=f"--all-databases and {name} exclude each other")


def _one_of(*given: tuple[str, object]) -> None:
    names = " or ".join(name for name, _ in given)
    if sum(value is not None for _, value in given) != 1:
        raise UsageProblem(reason=f"give one of {names}")


def _lines(made: Backup) -> dict[str, object]:
    return {
        "backup": made.id,
        "suffix": made.suffix,
        "entries": units.number(made.entries),
        "data / stored": f"{units.size(made.data_bytes)} / {units.size(made.stored_bytes)}",
        "took": units.duration(made.seconds),
        "newest change": _newest(made),
    }


def _row(one: Backup) -> tuple[object, ...]:
    return (
        one.id,
        _age(one),
        units.number(one.entries),
        units.size(one.data_bytes),
        units.size(one.stored_bytes),
        units.duration(one.seconds),
        _newest(one),
    )


def _proofs(found: Proofs) -> tuple[str, ...]:
    """Ages."""
    return tuple(
        "-" if one is None else "bad" if not one.is_good else units.duration(records.age_of(one))
        for one in (found.verification, found.drill)
    )


def _newest(one: Backup) -> str:
    """The time of the newest CSN; the text of a CSN is long, and `--json` has it."""
    return max((csn[:14] + "Z" for csn in one.newest_csns), default="-")


def _restored(found: RestorePlan | RestoreReport) -> dict[str, object]:
    from loader.operations.backup.restore import RestorePlan

    facts: dict[str, object] = {
        "backup": found.backup.id,
        "suffix": found.backup.suffix,
        "target": found.target,
    }
    if isinstance(found, RestorePlan):
        facts["needed / free"] = f"{units.size(found.needed)} / {units.size(found.free)}"
        facts["in place now"] = "a database (replaced)" if found.replaces else "nothing"
        return facts
    return facts | {
        "entries": "-" if found.entries is None else units.number(found.entries),
        "shown / on disk": f"{units.size(found.bytes)} / {units.size(found.allocated)}",
        "took": units.duration(found.seconds),
        "verified": found.verified,
        "indexed": ", ".join(found.indexed) or "none",
    }


def _age(backup: Backup) -> str:
    age = (repository.now() - backup.when).total_seconds()
    if age < -repository.SKEW.total_seconds():
        return "dated later than now"
    return units.duration(max(0.0, age))
