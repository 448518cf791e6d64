"""`ditseed backup init|show|verify|prune`: a new repository, what is known of backups, whether they are sound, and
which are kept."""

from __future__ import annotations

import dataclasses
import datetime
from pathlib import Path
from typing import Any

import click

from loader import units
from loader.cli.backup_keys import identity_option
from loader.cli.backup_options import keep_options, policy_of
from loader.cli.backup_shown import kind, of_a_full
from loader.cli.options import (
    backup_of,
    dry_run_option,
    json_option,
    progress_of,
    progress_option,
    repo_option,
    scratch_option,
    suffix_option,
    verify_option,
    which_backup,
)
from loader.cli.report import show_facts, show_json, show_table
from loader.declared import Share
from loader.defaults import LEVELS
from loader.errors import EXIT_DIFFERENT, EXIT_OK, UsageProblem
from loader.operations.backup import prune, records, repository
from loader.operations.backup.manifest import Backup
from loader.operations.backup.prune import Pruned
from loader.operations.backup.records import Proofs, Verification
from loader.operations.backup.repository import Repo


@click.command("init")
@repo_option
@json_option
def init_command(repo: Repo, as_json: bool) -> None:
    """Create a repository.

    `run` creates none by itself, for the empty mount point of a disk that is missing would become one. An
    existing repository stays as it is.

    \b
      ditseed backup init -R /srv/backup
    """
    is_new = repository.init(repo)
    if as_json:
        show_json({"repository": str(repo), "created": is_new})
    else:
        show_facts({"repository": repo, "created": "yes" if is_new else "no, it was there"})


@click.command("show")
@which_backup
@repo_option
@suffix_option
@json_option
def show_command(
    name: str | None, as_of: datetime.datetime | None, repo: Repo, suffix: str | None, as_json: bool
) -> None:
    """Show what is known of a backup: its manifest, its last verification, its last drill.

    \b
      ditseed backup show latest -R /srv/backup
    """
    which = backup_of(name, as_of)
    with repository.at(repo) as place:
        backup = repository.find(place, which, suffix)
        proofs = records.of(place, backup)
        if as_json:
            show_json({"backup": dataclasses.asdict(backup), **dataclasses.asdict(proofs)})
        else:
            show_facts(_facts(backup, proofs) | of_a_full(backup))


def _facts(one: Backup, proofs: Proofs) -> dict[str, object]:
    return {
        "backup": one.id,
        "suffix": one.suffix,
        "made": f"{one.made} on {one.host}, in {units.duration(one.seconds)}, ditseed {one.ditseed}",
        "source": one.source,
        "entries": units.number(one.entries),
        "contextCSN": " ".join(one.context_csns) or "none stored",
        "newest change": " ".join(one.newest_csns) or "-",
        "source shown / on disk": f"{units.size(one.source_apparent)} / {units.size(one.source_allocated)}",
        "data / stored": f"{units.size(one.data_bytes)} / {units.size(one.stored_bytes)}",
        "kind": kind(one),
        "transaction": one.txnid,
        "data format": f"{one.lmdb_format}, pages of {one.page_size} bytes, {one.machine}",
        "maxsize": units.size(one.map_size),
        "of the same moment": " ".join(name for name in one.members if name != one.id) or "none",
        "configuration": one.config_file if one.with_config else "not part of it",
        **({"encrypted for": ", ".join(one.recipients)} if one.is_encrypted else {}),
        "verified": verified_text(proofs),
        "drilled": drilled_text(proofs),
    }


def verified_text(proofs: Proofs) -> str:
    """For people, with its age."""
    found = proofs.verification
    if found is None:
        return "never"
    told = f"{units.duration(records.age_of(found))} ago, {_part(found)}, level {found.level}"
    return f"{told}: {found.problem or 'good'}"


def drilled_text(proofs: Proofs) -> str:
    found = proofs.drill
    if found is None:
        return "never"
    took = f"restored in {units.duration(found.restore_seconds)}"
    return f"{units.duration(records.age_of(found))} ago, {took}: {found.problem or 'good'}"


def _part(found: Verification) -> str:
    return f"{units.size(found.read)} of {units.size(found.stored)} read"


@click.command("verify")
@click.argument("names", nargs=-1, metavar="[ID|latest]...")
@repo_option
@suffix_option
@click.option(
    "--sample",
    type=Share(),
    default="100%",
    show_default=True,
    metavar="SHARE",
    help="Part of the pieces to read, chosen by chance each time.",
)
@verify_option(
    [level for level in LEVELS if level != "none"],
    None,
    "Unpack the database too and check it, as `ditseed verify` (default: it is not unpacked).",
)
@scratch_option(
    "Directory in which the database is unpacked for --verify, and that holds the files of a repository on another "
    "host meanwhile (default: $TMPDIR or /tmp)."
)
@identity_option
@json_option
@progress_option
def verify_command(
    names: tuple[str, ...],
    repo: Repo,
    suffix: str | None,
    sample: float,
    verify: str | None,
    scratch: Path | None,
    identities: tuple[Path, ...],
    as_json: bool,
    progress_mode: str,
) -> int:
    """Compare stored backups with their checksums; all of them, unless some are named.

    The result is written down beside each backup: `list`, `show`, `check` and `prune` use it. Exit status:
    0 all are good, 1 one is damaged.

    \b
      ditseed backup verify -R /srv/backup --sample 5%
      ditseed backup verify latest -R /srv/backup --verify pages --tmp /srv/scratch
    """
    if scratch is not None and verify is None and isinstance(repo, Path):
        raise UsageProblem(reason="--tmp is for --verify, and for a repository on another host")
    from loader.operations.backup import verify as verifying  # it takes long to load

    progress, asked = progress_of(progress_mode), names or (verifying.EVERY,)
    with repository.at(repo, progress, scratch) as place:
        options = verifying.VerifyOptions(place, asked, suffix, sample, verify, scratch, identities)
        found = verifying.verify(options, progress)
    if as_json:
        show_json({"verified": [dataclasses.asdict(one) for one in found]})
    else:
        rows = [(one.backup, _part(one), one.level, one.problem or "good") for one in found]
        show_table(("id", "read", "level", "result"), rows)
    return EXIT_OK if all(one.is_good for one in found) else EXIT_DIFFERENT


@click.command("prune")
@repo_option
@suffix_option
@keep_options
@dry_run_option
@json_option
def prune_command(repo: Repo, suffix: str | None, dry_run: bool, as_json: bool, **kept: Any) -> None:
    """Remove old backups, all but those that an option keeps.

    For each suffix by itself, these are kept in any case: the latest, the latest that can be restored, the
    latest that `verify` or `drill` found good, and all whose manifest cannot be read. Backups of several
    databases at one moment are kept or removed together, also with -b.

    \b
      ditseed backup prune -R /srv/backup --keep-daily 7 --keep-weekly 5 --keep-monthly 12 --dry-run
    """
    policy = policy_of(kept)
    with repository.at(repo, changes=not dry_run, makes_room=True) as place:
        found = prune.prune(place, policy, suffix, dry_run)
    if as_json:
        show_json({**dataclasses.asdict(found), "dry_run": dry_run})
    else:
        show_table(("id", "kept or removed", "why"), _pruned_rows(found, dry_run))


def _pruned_rows(found: Pruned, dry_run: bool) -> list[tuple[str, str, str]]:
    removed = "would be removed" if dry_run else "removed"
    rows = [(one.id, "kept", ", ".join(one.reasons)) for one in found.kept]
    rows += [(name, removed, "no option keeps it") for name in found.removed]
    rows += [(name, "kept", "its manifest cannot be read") for name in found.unread]
    return sorted(rows)
