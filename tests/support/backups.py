"""Makes, restores and verifies backups in this process, alters repositories, and fills disks."""

from __future__ import annotations

import datetime
import hashlib
import json
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from msgspec import structs

from fixtures.slapd import Slapd
from loader import typed
from loader.operations.backup import drill, manifest, repository, restore
from loader.operations.backup import run as taking
from loader.operations.backup.manifest import MANIFEST, VERIFIED, Backup, Drill, StoredFile, Verification
from loader.operations.backup.options import BackupOptions, DrillOptions, RestoreOptions, VerifyOptions
from loader.operations.backup.restore import RestoreReport
from loader.progress import Progress
from tests.support.command import Done, ditseed

QUIET = Progress("none")
ONE_ENTRY = "dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n\n"


def backup(verb: str, repo: object, *words: object, **environment: str) -> Done:
    """Runs `ditseed backup VERB -R REPO`."""
    return ditseed("backup", verb, "-R", repo, *words, env=environment)


def take(source: Slapd | Path, repo: Path, **options: Any) -> Backup:
    """Makes a backup. `source`: a server, or a database directory."""
    where: Any = {"source": source} if isinstance(source, Path) else {"config_path": source.config_path}
    return taking.run(BackupOptions(repo, **where, **options), QUIET)


def put_back(repo: Path, target: Slapd | Path, name: str = "latest", **options: Any) -> RestoreReport:
    """Restores a backup. `target`: a server, or a directory."""
    where: Any = {"target": target} if isinstance(target, Path) else {"config_path": target.config_path}
    return restore.restore(RestoreOptions(repo, name, **where, **options), QUIET)[0]


def verify(repo: Path, *names: str, **options: Any) -> list[Verification]:
    return drill.verify(VerifyOptions(repo, names or ("all",), **options), QUIET)


def drill_latest(repo: Path, **options: Any) -> Drill:
    (done,) = drill.drill(DrillOptions(repo, "latest", **options), QUIET)
    return done


def only(repo: Path) -> Backup:
    (backup,) = repository.listing(repo).backups
    return backup


def assert_all_good(repo: Path) -> list[str]:
    """Asserts that there are backups and that all are good. Returns their IDs."""
    listed = repository.listing(repo)
    assert not listed.broken
    assert all(verification.is_good for verification in verify(repo))
    for record in repo.glob(f"*/{VERIFIED}-*"):
        record.unlink()  # with this record, `prune` would keep the backup, because it is proven good
    assert listed.backups
    return [backup.id for backup in listed.backups]


def flip(path: Path, position: int | None = None) -> None:
    """Flips one bit of the byte at `position`, or of the middle byte."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if position is None else position] ^= 4
    path.write_bytes(content)


def forge(repo: Path, backup: Backup, **facts: Any) -> Backup:
    """Replaces facts of a backup's manifest, and seals it again."""
    forged = manifest.sealed(structs.replace(backup, **facts))
    (repo / backup.id / MANIFEST).write_bytes(manifest.text(forged))
    return forged


def recorded(path: Path) -> StoredFile:
    """Returns what a manifest says of a file."""
    content = path.read_bytes()
    chunks = [content[at:][: manifest.CHUNK] for at in range(0, len(content), manifest.CHUNK)]
    return StoredFile(path.name, len(content), tuple(hashlib.sha256(one).hexdigest() for one in chunks))


def forge_file(repo: Path, backup: Backup, name: str, content: bytes, **facts: Any) -> None:
    """Replaces a file of a backup, and what its manifest says of it."""
    path = repo / backup.id / name
    path.write_bytes(content)
    files = (recorded(path), *(one for one in backup.files if one.name != name))
    forge(repo, backup, files=files, **facts)


def alter(repo: Path, **facts: object) -> None:
    """Replaces facts of the only backup's manifest, and seals it again unless their types are wrong."""
    path = repo / only(repo).id / MANIFEST
    changed = json.dumps({**json.loads(path.read_bytes()), **facts}).encode()
    with suppress(typed.Unfit):
        changed = manifest.text(manifest.sealed(typed.parse(changed, Backup, manifest.FORMAT)))
    path.write_bytes(changed)


def dated(repo: Path, backup: Backup, when: datetime.datetime) -> str:
    """Copies a backup as if it was made at `when`. Returns the copy's ID."""
    name = repository.new_id(repo, when, backup.suffix)
    shutil.copytree(repo / backup.id, repo / name)
    forge(repo, structs.replace(backup, id=name), made=when.isoformat())
    return name


def fill(disk: Path) -> Path:
    """Fills a file system, including the blocks reserved for root. Returns the file that occupies the space."""
    filler = disk / "filler"
    with filler.open("wb") as file:
        for size in (1 << 20, 1 << 16, 1 << 10):
            with suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)
    return filler


@contextmanager
def read_only(directory: Path) -> Iterator[None]:
    """Mounts a directory read-only for the body."""
    subprocess.run(["mount", "--bind", "-o", "ro", directory, directory], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", directory], check=True)
