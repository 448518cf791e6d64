"""`ditseed backup`: takes, lists, checks, verifies, drills, prunes and restores backups of databases."""

from __future__ import annotations

import datetime
import logging
import socket
import sys
from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
from click import Choice
from msgspec import structs

from loader import age, csn, log, standard, units
from loader.cli.access import Account, connection_of
from loader.cli.ending import Ending, Hooks, Outcomes
from loader.cli.options import DryRun, Json, ProgressMode, Shown, is_given, progress_of, refuse_given
from loader.cli.report import show_check, show_error, show_facts, show_json, show_report, show_table, tell
from loader.declared import Argument, Metrics, Scratch, Suffix, declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK, LoaderError, UsageProblem
from loader.operations.backup.options import (
    KINDS,
    LDIF,
    MDB,
    BackupOptions,
    Day,
    Download,
    DrillOptions,
    ExtractOptions,
    Limits,
    LogOptions,
    Packing,
    Policy,
    RepoOption,
    Repositories,
    RestoreOptions,
    Traffic,
    UndoOptions,
    VerifyOptions,
    WhichBackup,
)

if TYPE_CHECKING:
    from loader.operations.backup.check import Check
    from loader.operations.backup.manifest import Backup, Drill, Proofs, Verification
    from loader.operations.backup.replay import Logged
    from loader.operations.backup.restore import RestorePlan, RestoreReport
    from loader.progress import Progress

_log = logging.getLogger(__name__)


@click.group("backup")
def command() -> None:
    """Back up databases while slapd is running; list, check, verify, drill, prune and restore the backups."""


LocalFiles = Annotated[
    Scratch, "Local directory for the files of a repository on another host (default: $TMPDIR or /tmp)."
]


@declare("init", command)
def init_command(repo: RepoOption, policy: Policy, as_json: Json) -> None:
    """Create a repository. With --keep options, store them there: `run` and `prune` without such options use them.

    `run` creates a repository only with --init. Otherwise it would create one in the empty mount point of a disk that
    is not mounted. An existing repository keeps its backups, and its stored options unless others are given.

    \b
      ditseed backup init -R /srv/backup --keep-daily 7 --keep-weekly 5
    """
    from loader.operations.backup import repository

    show_report({"repository": str(repo), "created": repository.init(repo, policy)}, as_json)


@dataclass(frozen=True, kw_only=True)
class _Encryption:
    recipients: Annotated[
        tuple[str, ...],
        "--recipient KEY",
        "Encrypt for this public key of age (age1...) or SSH; may be given several times.",
    ] = ()
    recipients_files: Annotated[
        tuple[Path, ...],
        "--recipients-file FILE",
        click.Path(path_type=Path, readable=False, dir_okay=False),
        "Encrypt for every public key in this file (one per line, as for `age -R`); may be given several times.",
    ] = ()

    def keys(self) -> age.Recipients | None:
        """Returns the given public keys; None if none is given: the backup is not encrypted."""
        given = self.recipients or self.recipients_files
        return age.recipients(self.recipients, self.recipients_files) if given else None


@dataclass(frozen=True, kw_only=True)
class _Conditions(_Encryption):
    """Options of `backup run`: which hosts take a backup, and of which kind."""

    init: Annotated[bool, "Create the repository first, if it is not there (see `ditseed backup init`)."] = False
    kind: Annotated[
        str,
        Choice(KINDS),
        "Pages of the database, which are restored fastest; or LDIF, which any version of OpenLDAP can read.",
    ] = MDB
    hosts: Annotated[
        tuple[str, ...], "--only-on HOST", "Do nothing on any other host; may be given several times."
    ] = ()
    role: Annotated[
        str | None,
        "--only-role",
        Choice(["provider", "consumer"]),
        "Do nothing unless the database has this role: a consumer has syncrepl, a provider has syncprov.",
    ] = None
    scratch: LocalFiles = None

    def packing(self, options: BackupOptions, packing: Packing) -> Packing:
        """Returns `packing` with the recipients and the kind. Raises UsageProblem if the options exclude each other."""
        for name, is_set in (("--all-databases", options.every), ("--incremental", options.incremental)):
            if self.kind == LDIF and is_set:
                raise UsageProblem(reason=f"{name} is for --kind mdb: it needs the pages")
        if options.incremental and (self.recipients or self.recipients_files):
            reason = "it reads the pages of earlier backups, which needs an identity on this host"
            raise UsageProblem(reason=f"--incremental cannot be encrypted: {reason}; take a full backup")
        return replace(packing, recipients=self.keys(), ldif=self.kind == LDIF)

    def reason_to_skip(self, options: BackupOptions) -> str:
        """Returns the reason why this host takes no backup, or "" if it takes one."""
        own_names = {socket.gethostname(), socket.getfqdn()}
        own_names |= {name.partition(".")[0] for name in own_names}
        if self.hosts and own_names.isdisjoint(self.hosts):
            return f"this host is not {' or '.join(self.hosts)}"
        if self.role is None:
            return ""
        if options.config_path is None:
            raise UsageProblem(reason="--only-role needs the configuration: give --config")
        from loader.server import configuration

        databases = options.databases(configuration.read(options.config_path))
        has_role = any(each.consumer if self.role == "consumer" else "syncprov" in each.overlays for each in databases)
        return "" if has_role else f"the database is not a {self.role}"


@declare("run", command)
def run_command(
    repos: Repositories,
    options: BackupOptions,
    packing: Packing,
    conditions: _Conditions,
    policy: Policy,
    traffic: Traffic,
    hooks: Hooks,
    shown: Shown,
) -> None:
    """Take a backup while slapd is running: a consistent, compressed snapshot.

    Made for cron: it prints nothing when all is well (unless on a terminal, with --json, or as
    `ditseed backup run -v`), and a second run on the same repository ends at once. An
    interrupted backup is never shown by `list`.

    \b
    Every night, from /etc/cron.d/ditseed (cron's own PATH has no /usr/local/bin):
      PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
      15 2 * * *  root  ditseed backup run --config /etc/ldap/slapd.d -R /srv/backup
    The same line on every server, of which only two take backups; old backups are removed after a good one:
      ... ditseed backup run --config /etc/ldap/slapd.d -R /srv/backup --only-on ldap1 --only-on ldap2 --keep-daily 14
    Only what has changed since the last incremental backup:
      ditseed backup run --config /etc/ldap/slapd.d -R /srv/backup --incremental
    All databases of the server as they were at one moment, with the accesslog:
      ditseed backup run --config /etc/ldap/slapd.d --all-databases -R /srv/backup
    Once a month as LDIF, for another version of OpenLDAP or another kind of machine:
      ditseed backup run --config /etc/ldap/slapd.d -R /srv/backup-ldif --kind ldif
    Into two repositories, one on another host; each gets a backup even if the other one fails:
      ditseed backup run --config /etc/ldap/slapd.d -R /srv/backup -R s3://BUCKET/ldap --limit-upload 5M
    The database of one suffix, compressed more:
      ditseed backup run --config /etc/ldap/slapd.d -b dc=example,dc=com -R /srv/backup --compress-level 9
    Encrypted, so that only the owner of an identity can read it (not this host):
      ditseed backup run --config /etc/ldap/slapd.d -R /srv/backup --recipients-file /etc/ditseed/recipients
    """
    from loader.operations.backup import repository
    from loader.operations.backup.run import run

    if not is_given("config_path") and options.source is not None:
        options = replace(options, config_path=None)  # --from overrides --config of a profile
    require_one(("--config", options.config_path), ("--from", options.source))
    require_alone(options.every, ("-b", options.suffix), ("--from", options.source))
    reports, progress = _for_cron(shown)
    if reason := conditions.reason_to_skip(options):
        if reports:
            show_facts({"backup": f"none: {reason}"})
        return
    packing = conditions.packing(options, packing)
    backups: list[Backup] = []
    errors: list[LoaderError] = []
    outcomes = Outcomes("backup run", hooks, repos)
    for location in repos:
        try:
            if conditions.init:
                repository.init(location)
            with repository.at(location, progress, conditions.scratch, changes=True, traffic=traffic) as repo:
                backups.append(run(replace(options, repo=repo, packing=packing, policy=policy), progress))
                outcomes.add(location, backups[-1].set_ids, Ending(EXIT_OK))
                for member in repository.members(repo, backups[-1]) if reports and not shown.as_json else ():
                    show_report({name: getattr(member, name) for name in _SUMMARY}, as_json=False)
        except LoaderError as error:
            outcomes.add(location, (), Ending(error.exit_status, error))
            errors.append(error)
            if len(repos) > 1:
                _log.warning("the backup in %s failed: %s", location, error)
    if errors:
        raise errors[0]
    if shown.as_json:
        show_json({"backups": backups} if len(repos) > 1 else backups[0])


@declare("log", command)
def log_command(
    options: LogOptions, packing: Packing, encryption: _Encryption, scratch: LocalFiles, traffic: Traffic, shown: Shown
) -> None:
    """Store the new entries of a database's accesslog; `restore --until` replays them.

    Made for cron, every minute or every five: if the host is lost, only the changes since the last run are lost. It
    reads only new entries, only adds files, and needs no lock. Like `run`, it prints nothing when all is well.

    \b
      ditseed backup log --config /etc/ldap/slapd.d -R s3://BUCKET/ldap
    """
    from loader.operations.backup import repository, segments

    reports, progress = _for_cron(shown)
    packing = replace(packing, recipients=encryption.keys())
    with repository.at(options.repo, progress, scratch, traffic=traffic, backups=False) as repo:
        logged = segments.run(replace(options, repo=repo, packing=packing), progress)
    if reports or shown.as_json:
        show_report(logged, shown.as_json)


def _for_cron(shown: Shown) -> tuple[bool, Progress]:
    """Returns whether to print a report, and the progress display. Without -v, both appear only on a terminal."""
    reports = sys.stdout.isatty() or log.verbosity() > 0
    return reports, progress_of("none" if shown.progress_mode == "auto" and not reports else shown.progress_mode)


def require_one(*options: tuple[str, object]) -> None:
    if sum(value is not None for _, value in options) != 1:
        raise UsageProblem(reason=f"give one of {' or '.join(name for name, _ in options)}")


def require_alone(every: bool, *others: tuple[str, object]) -> None:
    for name, value in others:
        if every and value is not None:
            raise UsageProblem(reason=f"--all-databases and {name} exclude each other")


_SUMMARY = ("id", "suffix", "entries", "data_bytes", "stored_bytes", "seconds", "newest_csns")  # what `run` prints


def _kind(backup: Backup) -> str:
    """Returns "mdb" or "ldif", with "incremental" and "encrypted" where they apply."""
    words = [LDIF if backup.is_ldif else MDB]
    words += ["incremental"] * backup.incremental + ["encrypted"] * backup.is_encrypted
    return ", ".join(words)


def _newest(backup: Backup) -> str:
    """Returns the time in the newest CSN: a whole CSN is too long for a table. --json prints CSNs."""
    return max((csn[:14] + "Z" for csn in backup.newest_csns), default="-")


@declare("list", command)
def list_command(repo: RepoOption, suffix: Suffix, as_json: Json) -> None:
    """List the backups of a repository, the oldest first.

    \b
      ditseed backup list -R /srv/backup
    """
    from loader.operations.backup import repository

    with repository.at(repo) as opened:
        listing, reads = repository.listing(opened, suffix), not opened.is_remote
        listed = [
            (backup, repository.proofs(opened, backup), repository.problem(opened, backup, reads))
            for backup in listing.every
        ]
    for error in (*listing.broken, *(problem for _, _, problem in listed if problem)):
        show_error(error)
    backups = [
        structs.asdict(backup) | structs.asdict(proofs) | {"kind": _kind(backup), "problem": problem}
        for backup, proofs, problem in listed
    ]
    columns = ("id", "age", "entries", "kind", "set", "data", "stored", "took", "newest change", "verified", "drilled")
    rows = [row(*backup) for backup in listed]
    show_report({"backups": backups}, as_json, lambda: show_table((*columns, "pinned until", "restorable"), rows))


def row(backup: Backup, proofs: Proofs, problem: LoaderError | None) -> tuple[object, ...]:
    from loader.operations.backup import manifest, repository

    members = backup.members
    age = (repository.now() - backup.when).total_seconds()
    return (
        backup.id,
        "dated later than now" if age < -manifest.SKEW.total_seconds() else units.duration(max(0.0, age)),
        units.number(backup.entries),
        _kind(backup),
        f"{members.index(backup.id) + 1} of {len(members)}" if members else "-",
        units.size(backup.data_bytes),
        units.size(backup.stored_bytes),
        units.duration(backup.seconds),
        _newest(backup),
        *(
            "-" if proof is None else "bad" if not proof.is_good else units.duration(repository.age_of(proof))
            for proof in (proofs.verification, proofs.drill)
        ),
        f"{proofs.pinned_until:%Y-%m-%d}" if proofs.pinned_until else "-",
        "no" if problem else "yes",
    )


@declare("show", command)
def show_command(backup: WhichBackup, repo: RepoOption, suffix: Suffix, as_json: Json) -> None:
    """Show a backup: its manifest, its last verification, its last drill.

    \b
      ditseed backup show latest -R /srv/backup
    """
    from loader.operations.backup import repository

    with repository.at(repo) as opened:
        chosen = repository.find(opened, backup.which, suffix)
        proofs = repository.proofs(opened, chosen)
    if as_json:
        show_json({"backup": chosen, **structs.asdict(proofs)})
        return
    facts = structs.asdict(chosen) | {"kind": _kind(chosen), "pinned until": proofs.pinned_until}
    facts |= {"files": [stored.name for stored in chosen.files], "packs": len(chosen.packs)}
    facts |= {"verified": _proof(proofs.verification), "drilled": _proof(proofs.drill)}
    facts |= {"follows": chosen.follows or None, "seal": None, "format": None}  # printed with --json only
    show_report(facts, as_json=False)


def _proof(proof: Verification | Drill | None) -> dict[str, object] | str:
    """Returns the fields of a verification or drill for a printed report. Only --json prints seal and format."""
    if proof is None:
        return "never"
    result = getattr(proof, "problems", proof.problem) or "good"
    facts = {**structs.asdict(proof), **dict.fromkeys(("format", "seal", "problem")), "result": result}
    if (replay := facts.get("replay")) and not replay.live:
        facts["would be lost"] = "at most the seconds of the replay, because no live server was found"
    return facts


@declare("check", command)
def check_command(
    repo: RepoOption,
    suffix: Suffix,
    limits: Limits,
    metrics_file: Annotated[
        Metrics, "Also write FILE for node_exporter's textfile collector (NAME.prom), with the figures of each suffix."
    ],
    as_json: Json,
) -> int:
    """Check that there is a recent backup. A monitoring plugin: one line, exit status 0, 1, 2 or 3.

    \b
      ditseed backup check -R /srv/backup --max-age 26h --min-count 7 --max-verify-age 8d --max-drill-age 35d
      ditseed backup check -R /srv/backup --metrics /var/lib/prometheus/node-exporter/ditseed-backup.prom
    """
    from loader.operations.backup import check as checking
    from loader.operations.backup import repository

    by_suffix: dict[str, Check] = {}
    try:
        with repository.at(repo) as opened:
            check = checking.check(opened, limits, suffix)
            if metrics_file is not None:
                by_suffix = checking.each(opened, limits, suffix)
    except LoaderError as error:
        check = checking.unknown(error, limits)
    if metrics_file is not None:
        checking.write_metrics(by_suffix or {suffix or "": check}, metrics_file)
    return show_check(check, as_json)


@declare("prune", command)
def prune_command(repo: RepoOption, suffix: Suffix, policy: Policy, dry_run: DryRun, as_json: Json) -> None:
    """Remove old backups: all except those that an option keeps. Without --keep options, those of `init` decide.

    For each suffix, these are always kept: the latest backup, the latest that can be restored, the latest
    that `verify` or `drill` found good, those that are pinned, and all whose manifest cannot be read. Backups of
    several databases at one moment are kept or removed together, even with -b.

    \b
      ditseed backup prune -R /srv/backup --keep-daily 7 --keep-weekly 5 --keep-monthly 12 --dry-run
    """
    from loader.operations.backup import repository

    with repository.at(repo, changes=not dry_run, makes_room=True) as opened:
        pruned = repository.prune(opened, policy, suffix, dry_run)
    removed = "would be removed" if dry_run else "removed"
    rows = [(name, "kept", ", ".join(reasons)) for name, reasons in pruned.kept.items()]
    rows += [(name, removed, "no option keeps it") for name in pruned.removed]
    rows += [(name, "kept", "its manifest cannot be read") for name in pruned.unread]
    report = {**structs.asdict(pruned), "dry_run": dry_run}
    show_report(report, as_json, lambda: show_table(("id", "kept or removed", "why"), sorted(rows)))


@declare("pin", command)
def pin_command(
    name: Annotated[str, Argument("ID|latest")],
    repo: RepoOption,
    suffix: Suffix,
    until: Annotated[
        datetime.datetime | None, "--until DATE", Day(), "Keep the backup until DATE: 2027-01-01, or 2027-01-01T12:00Z."
    ] = None,
    release: Annotated[
        bool, "Remove all pins of the backup; this takes an account that may remove files there."
    ] = False,
    as_json: Json = False,
) -> None:
    """Keep a backup, and all of its set, until a date: `prune` does not remove it before.

    A pin can be made longer by another one. It can be made by an account that can only add files, but only an account
    that may remove files can release it.

    \b
      ditseed backup pin 20261121T021500Z-dc-example-dc-com -R /srv/backup --until 2027-01-01
    """
    from loader.operations.backup import repository

    if (until is None) != release:
        raise UsageProblem(reason="give either --until or --release")
    with repository.at(repo, changes=release) as opened:
        backup = repository.pin(opened, name, until, suffix) if until else repository.release(opened, name, suffix)
        pinned = repository.proofs(opened, backup).pinned_until
    show_report({"backup": backup.id, "pinned_until": pinned}, as_json)


@declare("restore", command)
def restore_command(
    backup: WhichBackup, options: RestoreOptions, scratch: LocalFiles, download: Download, dry_run: DryRun, shown: Shown
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
    To the last moment before a mistake, from the newest backup before it and the accesslog:
      ditseed backup restore latest -R /srv/backup --config /etc/ldap/slapd.d --replace \\
        --until 2026-11-25T16:19:59 --log /var/lib/ldap/accesslog
    """
    from loader.operations.backup import repository, restore, undo

    if not is_given("config_path") and options.target is not None:
        options = replace(options, config_path=None)  # --target overrides --config of a profile
    require_one(("--config", options.config_path), ("--target", options.target))
    require_alone(options.every, ("-b", options.suffix), ("--target", options.target), ("--until", options.until))
    if options.until is None and (options.log or options.skip or options.accept_gaps):
        raise UsageProblem(reason="--log, --skip and --accept-gaps need --until")
    progress = shown.progress
    with repository.at(options.repo, progress, scratch, traffic=download) as repo:
        options = replace(options, repo=repo, which=backup.which)
        reports: Sequence[RestorePlan | RestoreReport] = (
            restore.plan(options) if dry_run else restore.restore(options, progress)
        )
        if dry_run and options.until:
            changes = undo.last_changes(options, reports[0].backup, progress)
            reports = [structs.replace(reports[0], changes=changes)]
    if shown.as_json:
        show_json({"databases": reports} if options.every else reports[0])
        return
    for report in reports:
        facts = structs.asdict(report) | {"backup": report.backup.id, "suffix": report.backup.suffix}
        changes, facts["old database"] = facts.pop("changes", ()), facts.pop("kept", None)
        if replayed := facts.get("replayed"):
            facts["replayed"] = {name: getattr(replayed, name) for name in ("operations", "changed", "deleted", "last")}
        show_report(facts, as_json=False)
        if changes:
            rows = [
                (f"{csn.time(change.csn):%Y-%m-%d %H:%M:%S.%f}Z", *_change(change), change.before, change.start)
                for change in changes
            ]
            show_table(("time", "who", "connection", "change", "DN", "attributes", "--until before it", "--skip"), rows)


def _change(change: Logged) -> tuple[str, ...]:
    name = f"{change.dn} -> {change.new_dn}" if change.new_dn else change.dn
    return change.author or "anonymous", change.session, change.kind, name, " ".join(change.attributes) or "-"


@declare("undo", command)
def undo_command(options: UndoOptions, download: Download, progress_mode: ProgressMode = "auto") -> int:
    """Write LDIF for ldapmodify that takes back changes recorded in the accesslog, newest first.

    The LDIF goes to standard output; the server keeps running. A change is reported instead of taken back if a later
    change that is not taken back concerns the same entry and attributes, or if the log lacks the old values (logold).
    Exit status: 0 all changes are taken back, 1 some are not.

    \b
      ditseed backup undo --log /var/lib/ldap/accesslog --since 2026-11-25T16:18:00 \\
        --by uid=intern,ou=people,dc=example,dc=com > undo.ldif
      ldapmodify -H ldapi:/// -Y EXTERNAL -f undo.ldif
    """
    from loader.operations.backup import repository, undo

    standard.reserve_output()
    progress = progress_of(progress_mode)
    with repository.at(options.repo, progress, traffic=download) if options.repo else nullcontext() as repo:
        undone = undo.undo(replace(options, repo=repo), progress)
    for note in undone.notes:
        _log.warning("%s", note)
    for change, reason in undone.conflicts:
        tell(f"not taken back: {change.start} {' '.join(_change(change))}: {reason}")
    if undone.left_out:
        tell(f"left out, because clients may not write them: {', '.join(undone.left_out)}")
    if log.verbosity() >= 0:
        tell(f"taken back: {units.number(undone.undone)} of {units.number(undone.matching)} changes")
    return EXIT_DIFFERENT if undone.conflicts else EXIT_OK


@declare("verify", command)
def verify_command(
    names: Annotated[tuple[str, ...], Argument("[ID|latest]...")],
    options: VerifyOptions,
    scratch: LocalFiles,
    download: Download,
    hooks: Hooks,
    shown: Shown,
) -> int:
    """Compare stored backups with their checksums; all of them, unless some are named.

    The result is stored with each backup: `list`, `show`, `check` and `prune` use it. Exit status: 0 all are good, 1 at
    least one is damaged.

    \b
      ditseed backup verify -R /srv/backup --sample 5%
    """
    from loader.operations.backup import repository
    from loader.operations.backup.drill import verify

    progress = shown.progress
    outcomes = Outcomes("backup verify", hooks, [options.repo])
    with repository.at(options.repo, progress, scratch, traffic=download) as repo:
        proofs = verify(replace(options, repo=repo, names=names or options.names), progress)
    outcomes.add(options.repo, (proof.backup for proof in proofs))
    rows = [
        (proof.backup, f"{units.size(proof.read)} of {units.size(proof.stored)} read", proof.problem or "good")
        for proof in proofs
    ]
    show_report({"verified": proofs}, shown.as_json, lambda: show_table(("id", "read", "result"), rows))
    return EXIT_OK if all(proof.is_good for proof in proofs) else EXIT_DIFFERENT


@declare("drill", command)
def drill_command(
    backup: WhichBackup,
    options: DrillOptions,
    uri: Annotated[
        str | None, "-H --uri URI", "With --replay: the live server (default: the slapd of this host, if it has one)."
    ],
    account: Account,
    download: Download,
    hooks: Hooks,
    shown: Shown,
) -> int:
    """Restore a backup into a scratch directory, start a real slapd on it, and search it.

    The running slapd and its database are not touched: the slapd of the drill listens on a private socket, without
    network, syncrepl or log. It counts the entries, looks some up, and compares the counts and the contextCSN with the
    manifest. The result and the duration of the restore are stored with the backup: `list`, `show`, `check` and `prune`
    use them. Exit status: 0 all is well, 1 it is not. If `latest` is a set of backups of one moment, all of them
    are drilled, one after the other, unless -b names a suffix.

    With --replay, the accesslog is replayed first, a consumer follows the drill's slapd, and the newest change is
    compared with that of the live server.

    \b
      ditseed backup drill latest -R /srv/backup --tmp /srv/scratch
    A backup that was taken without a configuration (--from):
      ditseed backup drill latest -R /srv/backup --config /etc/ldap/slapd.d
    How many seconds of changes would be lost now:
      ditseed backup drill latest -R s3://BUCKET/ldap -b dc=example,dc=com --replay -H ldaps://ldap1.example.com
    """
    from loader.operations.backup import repository
    from loader.operations.backup.drill import drill

    if not options.replay and (options.log or uri):
        raise UsageProblem(reason="--log and -H need --replay")
    options = replace(options, live=connection_of(account, uri) if uri else None)
    progress = shown.progress
    outcomes = Outcomes("backup drill", hooks, [options.repo])
    with repository.at(options.repo, progress, options.scratch, traffic=download) as repo:
        proofs = drill(replace(options, repo=repo, which=backup.which), progress)
    outcomes.add(options.repo, (proof.backup for proof in proofs))
    if shown.as_json:
        show_json({"drills": proofs} if len(proofs) > 1 else proofs[0])
    else:
        for proof in proofs:
            show_report(_proof(proof), as_json=False)
    return EXIT_DIFFERENT if any(proof.problems for proof in proofs) else EXIT_OK


@dataclass(frozen=True, kw_only=True)
class _Server(Account):
    uri: Annotated[str | None, "-H --uri URI", "The server for --changes (ldap.conf is honoured)."] = None


@declare("extract", command)
def extract_command(
    backup: WhichBackup,
    options: ExtractOptions,
    download: Download,
    server: _Server,
    progress_mode: ProgressMode = "auto",
) -> int:
    """Write entries of a backup to standard output, as LDIF that ldapadd takes.

    After a mistaken delete: the server keeps running. A filter is evaluated by slapcat with the configuration in the
    backup. With --changes, the entries of a server are compared with those of the backup, and the LDIF for ldapmodify
    adds, renames and modifies them. It deletes none: those that are new on the server are listed in comments. Exit
    status of --changes: 0 all is brought back, 1 some entries are not; these are reported.

    \b
      ditseed backup extract latest -R /srv/backup --dn ou=sales,dc=example,dc=com > sales.ldif
      ldapadd -H ldapi:/// -Y EXTERNAL -f sales.ldif
    Single entries, wherever they are:
      ditseed backup extract latest -R /srv/backup --filter '(uid=jdoe)'
    Entries that were changed, renamed or deleted since:
      ditseed backup extract latest -R /srv/backup --dn ou=sales,dc=example,dc=com \\
        --changes -H ldapi:/// -Y EXTERNAL > changes.ldif
      ldapmodify -H ldapi:/// -Y EXTERNAL -M -f changes.ldif
    """
    from loader.operations.backup import repository
    from loader.operations.backup.drill import extract

    if options.changes:
        refuse_given(["keep_operational"], "a run without --changes")
    else:
        refuse_given((field.name for field in fields(_Server)), "--changes")
    running = connection_of(server, server.uri) if options.changes else None
    standard.reserve_output()
    progress = progress_of(progress_mode)
    with repository.at(options.repo, progress, options.scratch, traffic=download) as repo:
        extracted = extract(replace(options, repo=repo, which=backup.which), progress, running)
    if isinstance(extracted, int):
        if log.verbosity() >= 0:
            tell(f"extracted: {units.number(extracted)} entries")
        return EXIT_OK
    for name, reason in extracted.conflicts:
        tell(f"not brought back: {name}: {reason}")
    if log.verbosity() >= 0:
        records, new = units.number(extracted.records), units.number(len(extracted.new))
        tell(f"extracted: {records} changes; {new} entries are new since the backup")
    return EXIT_DIFFERENT if extracted.conflicts else EXIT_OK
