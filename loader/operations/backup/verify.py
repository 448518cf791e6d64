"""Are backups as they were stored? And, on request, are the databases in them sound?"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from click import Choice

from loader.common_options import Scratch, Suffix
from loader.declared import Share
from loader.defaults import LEVELS
from loader.errors import BackupDamaged, ManifestBroken, MdbDamaged, NoSuchPath
from loader.mdb import copy
from loader.operations.backup import pack, records, repository
from loader.operations.backup.manifest import Backup
from loader.operations.backup.pack import Compared
from loader.operations.backup.records import Verification
from loader.operations.backup.repository import IdentityFiles, RepoOption, Repository
from loader.operations.backup.restore import Contents
from loader.operations.publish import checked
from loader.progress import Progress
from loader.storage import files, held

STORED, MANIFEST = "stored", "manifest"  # levels besides those of `ditseed verify`
EVERY = "all"


@dataclass(frozen=True)
class VerifyOptions:
    """`names`: IDs, "latest" or "all". sample: the part of the pieces to read, by chance. level: of
    loader.mdb.verify; None leaves the database packed. scratch: where it is unpacked. identities: files of keys for
    that."""

    repo: RepoOption
    names: Sequence[str] = (EVERY,)
    suffix: Suffix = None
    sample: Annotated[
        float, "--sample SHARE", Share(), {"default": "100%"}, "Part of the pieces to read, chosen by chance each time."
    ] = 1.0
    level: Annotated[
        str | None,
        "--verify",
        Choice([level for level in LEVELS if level != "none"]),
        "Unpack the database too and check it, as `ditseed verify` (default: it is not unpacked).",
    ] = None
    scratch: Annotated[
        Scratch,
        "Directory in which the database is unpacked for --verify, and that holds the files of a repository on another "
        "host meanwhile (default: $TMPDIR or /tmp).",
    ] = None
    identities: IdentityFiles = ()


def verify(options: VerifyOptions, progress: Progress) -> list[Verification]:
    """What was found, one for each backup; written down beside each. Raises NoSuchBackup, NoSpace; ManifestBroken
    if that of a named one cannot be read."""
    compared: Compared = {}
    repo = repository.of(options.repo)
    with files.explained(repo.path):
        backups, broken = chosen(options)
        for one in backups:
            _contents(options, repo, one)
        found = [_verified(options, repo, one, compared, progress) for one in backups]
    return [*found, *map(_of_broken, broken)]


def _of_broken(error: ManifestBroken) -> Verification:
    """What is wrong with a manifest is found anew each time, so it is not written down."""
    return Verification(
        backup=repository.name_of(error),
        made=repository.now().isoformat(),
        host=records.host(),
        level=MANIFEST,
        read=0,
        stored=0,
        seconds=0.0,
        problem=str(error),
    )


def _contents(options: VerifyOptions, repo: Repository, backup: Backup) -> Contents | None:
    """None if the database stays packed: what is stored needs no identity. Raises what `Contents.of` does."""
    if options.level is None:
        return None
    return Contents.of(repo.path, backup, options.identities)


def chosen(options: VerifyOptions) -> tuple[list[Backup], Sequence[ManifestBroken]]:
    """With the manifests that cannot be read: whoever asks for all shall hear of them, and of the others."""
    if EVERY not in options.names:
        asked = options.names
        return [repository.find(options.repo, name, options.suffix) for name in asked], ()
    found = repository.listing(options.repo, options.suffix)
    return list(found.every), found.broken


def _verified(
    options: VerifyOptions, repo: Repository, backup: Backup, compared: Compared, progress: Progress
) -> Verification:
    started, problem, read, chance = time.monotonic(), "", 0, random.Random()
    try:
        repo.bring(backup)
        repo.require_whole(backup, read=False)
        with progress.step(f"verify {backup.id}") as meter:
            read = pack.verify(
                *(repo.path, backup, lambda number: number == 0 or chance.random() < options.sample), *(compared, meter)
            )
        contents = _contents(options, repo, backup)
        if contents is not None:
            _unpacked(options, contents, progress)
    except (BackupDamaged, MdbDamaged, NoSuchPath) as error:
        problem = str(error)
    return records.keep(
        repo,
        Verification(
            backup=backup.id,
            made=repository.now().isoformat(),
            host=records.host(),
            level=options.level or STORED,
            read=read,
            stored=backup.needed_bytes,
            seconds=round(time.monotonic() - started, 3),
            problem=problem,
        ),
    )


def _unpacked(options: VerifyOptions, contents: Contents, progress: Progress) -> None:
    scratch, backup = options.scratch or Path(tempfile.gettempdir()), contents.backup
    files.require_space(scratch, backup.room)
    with held.scratch(scratch, "ditseed-verify-") as home, files.explained(scratch):
        partial = home.path / copy.PARTIAL
        contents.put(partial, progress, f"unpack {backup.id}")
        verified = checked(partial, options.level, progress)
    if verified.entries not in (None, backup.entries):
        reason = f"holds {verified.entries} entries, the manifest says {backup.entries}"
        raise BackupDamaged(path=contents.repo / backup.id / backup.file, reason=reason)
