"""`ditseed backup restore|verify|drill|extract`: the commands that read the data of a backup."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Annotated

from loader import log, standard, units
from loader.cli.backup_cmd import Meanwhile, part_read, require_alone, require_one
from loader.cli.options import DryRun, ProgressMode, Shown, is_given, progress_of
from loader.cli.report import show_facts, show_json, show_report, show_table, tell
from loader.declared import Argument
from loader.declared import command as declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK
from loader.operations.backup import repository, restore
from loader.operations.backup.drill import DrillOptions, ExtractOptions, VerifyOptions, drill, extract, verify
from loader.operations.backup.repository import WhichBackup
from loader.operations.backup.restore import RestoreOptions, RestorePlan, RestoreReport


@declare("restore")
def restore_command(
    backup: WhichBackup, options: RestoreOptions, scratch: Meanwhile, dry_run: DryRun, shown: Shown
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
    if not is_given("config_path") and options.target is not None:
        options = dataclasses.replace(options, config_path=None)  # --target overrides --config of a profile
    require_one(("--config", options.config_path), ("--target", options.target))
    require_alone(options.every, ("-b", options.suffix), ("--target", options.target))
    progress = shown.progress
    with repository.at(options.repo, progress, scratch) as repo:
        options = dataclasses.replace(options, repo=repo, which=backup.which)
        reports: Sequence[RestorePlan | RestoreReport] = (
            restore.plan(options) if dry_run else restore.restore(options, progress)
        )
    if shown.as_json:
        show_json({"databases": reports} if options.every else reports[0])
        return
    for report in reports:
        facts_of = {"backup": report.backup.id, "suffix": report.backup.suffix, "target": report.target}
        if isinstance(report, RestorePlan):
            facts_of |= {
                "needed / free": f"{units.size(report.needed)} / {units.size(report.free)}",
                "in place now": "a database (replaced)" if report.replaces else "nothing",
            }
        else:
            facts_of |= {
                "entries": "-" if report.entries is None else units.number(report.entries),
                "shown / on disk": f"{units.size(report.bytes)} / {units.size(report.allocated)}",
                "took": units.duration(report.seconds),
                "verified": report.verified,
                "indexed": ", ".join(report.indexed) or "none",
            }
            if report.kept:
                facts_of["old database"] = f"{report.kept} (remove it when nobody needs it)"
        show_facts(facts_of)


@declare("verify")
def verify_command(
    names: Annotated[tuple[str, ...], Argument("[ID|latest]...")],
    options: VerifyOptions,
    scratch: Meanwhile,
    shown: Shown,
) -> int:
    """Compare stored backups with their checksums; all of them, unless some are named.

    The result is written down beside each backup: `list`, `show`, `check` and `prune` use it. Exit status:
    0 all are good, 1 one is damaged.

    \b
      ditseed backup verify -R /srv/backup --sample 5%
    """
    progress = shown.progress
    with repository.at(options.repo, progress, scratch) as repo:
        options = dataclasses.replace(options, repo=repo, names=names or options.names)
        proofs = verify(options, progress)
    rows = [(proof.backup, part_read(proof), proof.problem or "good") for proof in proofs]
    show_report({"verified": proofs}, shown.as_json, lambda: show_table(("id", "read", "result"), rows))
    return EXIT_OK if all(proof.is_good for proof in proofs) else EXIT_DIFFERENT


@declare("drill")
def drill_command(backup: WhichBackup, options: DrillOptions, shown: Shown) -> int:
    """Restore a backup into a scratch directory, start a real slapd on it, and search it.

    The running slapd and its database are not touched: the slapd of the drill listens on a private socket,
    without network, syncrepl or log. It counts the entries, looks some up, and compares the counts and the contextCSN
    with the manifest. The result, and how long the restore took, is written down beside the backup: `list`,
    `show`, `check` and `prune` use it. Exit status: 0 all is well, 1 it is not. If `latest` is a set of
    backups of one moment, all of it is drilled, one backup after the other, unless -b names a suffix.

    \b
      ditseed backup drill latest -R /srv/backup --tmp /srv/scratch
    A backup that was taken without a configuration (--from):
      ditseed backup drill latest -R /srv/backup --config /etc/ldap/slapd.d
    """
    progress = shown.progress
    with repository.at(options.repo, progress, options.scratch) as repo:
        proofs = drill(dataclasses.replace(options, repo=repo, which=backup.which), progress)
    if shown.as_json:
        show_json({"drills": proofs} if len(proofs) > 1 else proofs[0])
    else:
        for proof in proofs:
            show_facts(
                {
                    "backup": proof.backup,
                    "restored in": units.duration(proof.restore_seconds),
                    "entries": units.number(proof.entries),
                    "looked up": units.number(proof.lookups),
                    "contextCSN": " ".join(proof.context_csns) or "none stored",
                    "result": proof.problem or "good",
                }
            )
    return EXIT_OK if all(proof.is_good for proof in proofs) else EXIT_DIFFERENT


@declare("extract")
def extract_command(backup: WhichBackup, options: ExtractOptions, progress_mode: ProgressMode = "auto") -> None:
    """Write entries of a backup to standard output, as LDIF that ldapadd takes.

    For the wrong delete at night: the server goes on running. A filter is evaluated by slapcat with the
    configuration in the backup.

    \b
      ditseed backup extract latest -R /srv/backup --dn ou=sales,dc=example,dc=com > sales.ldif
      ldapadd -H ldapi:/// -Y EXTERNAL -f sales.ldif
    Single entries, wherever they are:
      ditseed backup extract latest -R /srv/backup --filter '(uid=jdoe)'
    """
    standard.reserve_output()
    progress = progress_of(progress_mode)
    with repository.at(options.repo, progress, options.scratch) as repo:
        entries = extract(dataclasses.replace(options, repo=repo, which=backup.which), progress)
    if log.verbosity() >= 0:
        tell(f"extracted: {units.number(entries)} entries")
