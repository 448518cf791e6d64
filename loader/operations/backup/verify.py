"""Are backups as they were stored? And, on request, are the databases in them sound?"""

from __future__ import annotations

import random
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loader.age import Identities
from loader.errors import BackupDamaged, LoaderError, ManifestBroken, MdbDamaged, NoSuchPath
from loader.mdb import copy
from loader.operations.backup import encryption, manifest, pack, records, repository
from loader.operations.backup.contents import Contents
from loader.operations.backup.manifest import Backup
from loader.operations.backup.records import Verification
from loader.operations.backup.repository import Bring, there
from loader.operations.backup.shared import Compared
from loader.operations.target import checked
from loader.progress import Meter, Progress
from loader.storage import files, held

STORED, MANIFEST = "stored", "manifest"  # levels besides those of `ditseed verify`
EVERY = "all"


@dataclass(frozen=True)
class VerifyOptions:
    """`names`: IDs, "latest" or "all". sample: the part of the pieces to read, by chance. level: of
    loader.mdb.verify; None leaves the database packed. scratch: where it is unpacked. identities: files of keys for
    that."""

    repo: Path
    names: Sequence[str] = (EVERY,)
    suffix: str | None = None
    sample: float = 1.0
    level: str | None = None
    scratch: Path | None = None
    identities: tuple[Path, ...] = ()


def verify(options: VerifyOptions, progress: Progress, bring: Bring = there) -> list[Verification]:
    """What was found, one for each backup; written down beside each. Raises NoSuchBackup, NoSpace; ManifestBroken
    if that of a named one cannot be read."""
    compared: Compared = {}
    with files.explained(options.repo):
        backups, broken = chosen(options)
        asked = [(one, _unlocked(options, one)) for one in backups]
        found = [_verified(options, *one, compared, progress, bring) for one in asked]
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


def _unlocked(options: VerifyOptions, backup: Backup) -> Identities | None:
    """What is stored needs none."""
    if options.level is None:
        return None
    return encryption.unlocked(options.repo, backup, options.identities)


def chosen(options: VerifyOptions) -> tuple[list[Backup], Sequence[ManifestBroken]]:
    """With the manifests that cannot be read: whoever asks for all shall hear of them, and of the others."""
    if EVERY not in options.names:
        asked = options.names
        return [repository.find(options.repo, name, options.suffix) for name in asked], ()
    found = repository.listing(options.repo, options.suffix)
    return [*found.backups, *found.future], found.broken


def _verified(
    options: VerifyOptions,
    backup: Backup,
    identities: Identities | None,
    compared: Compared,
    progress: Progress,
    bring: Bring,
) -> Verification:
    started, problem, read, stored = time.monotonic(), "", 0, backup.stored_bytes
    try:
        bring(backup)
        stored = pack.needed_bytes(options.repo / backup.id, backup)
        with progress.step(f"verify {backup.id}") as meter:
            read = _stored(options, backup, compared, meter)
        if options.level is not None:
            _unpacked(options, backup, identities, options.level, progress)
    except (BackupDamaged, MdbDamaged, NoSuchPath) as error:
        problem = str(error)
    return records.keep(
        options.repo,
        Verification(
            backup=backup.id,
            made=repository.now().isoformat(),
            host=records.host(),
            level=options.level or STORED,
            read=read,
            stored=stored,
            seconds=round(time.monotonic() - started, 3),
            problem=problem,
        ),
    )


def _stored(options: VerifyOptions, backup: Backup, compared: Compared, meter: Meter) -> int:
    """Bytes that were compared. Raises BackupDamaged."""
    place = options.repo / backup.id
    if backup.with_config:
        manifest.config(place, backup)
    chance = random.Random()
    return pack.verify_stored(
        place,
        backup,
        lambda number: number == 0 or chance.random() < options.sample,
        compared,
        meter,
    )


def _unpacked(
    options: VerifyOptions,
    backup: Backup,
    identities: Identities | None,
    level: str,
    progress: Progress,
) -> None:
    scratch = options.scratch or Path(tempfile.gettempdir())
    files.require_space(scratch, backup.room)
    with held.scratch(scratch, "ditseed-verify-") as home, files.explained(scratch):
        partial = home.path / copy.PARTIAL
        contents = Contents(options.repo, backup, identities)
        contents.put(partial, progress, f"unpack {backup.id}")
        verified = checked(partial, level, progress)
    if verified.entries not in (None, backup.entries):
        reason = f"holds {verified.entries} entries, the manifest says {backup.entries}"
        raise BackupDamaged(path=options.repo / backup.id / backup.file, reason=reason)


def problem_of(found: Sequence[Verification]) -> LoaderError | None:
    """The first that is bad, as an error."""
    bad = next((one for one in found if not one.is_good), None)
    return None if bad is None else BackupDamaged(path=bad.backup, reason=bad.problem)
