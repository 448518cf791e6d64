"""Backups made, restored and looked at in this process, repositories changed by hand, and disks that are full."""

from __future__ import annotations

import datetime
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
from loader.operations.backup.manifest import MANIFEST, VERIFIED, Backup, Drill, Verification
from loader.operations.backup.options import BackupOptions, DrillOptions, RestoreOptions, VerifyOptions
from loader.operations.backup.restore import RestoreReport
from loader.progress import Progress

QUIET = Progress("none")
ONE_ENTRY = "dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n\n"


def take(source: Slapd | Path, repo: Path, **options: Any) -> Backup:
    """source: a server, or the directory of a database."""
    where: Any = {"source": source} if isinstance(source, Path) else {"config_path": source.config_path}
    return taking.run(BackupOptions(repo, **where, **options), QUIET)


def put_back(repo: Path, target: Slapd | Path, name: str = "latest", **options: Any) -> RestoreReport:
    """target: a server, or a directory."""
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
    """Every backup that is listed, and there is one; IDs."""
    listed = repository.listing(repo)
    assert not listed.broken
    assert all(one.is_good for one in verify(repo))
    for record in repo.glob(f"*/{VERIFIED}"):
        record.unlink()  # or `prune` would keep it as one that was proven good
    assert listed.backups
    return [one.id for one in listed.backups]


# --- by hand --------------------------------------------------------------------------------------


def flip(path: Path, place: int | None = None) -> None:
    """One bit of a byte, which is in the middle if no place is named."""
    content = bytearray(path.read_bytes())
    content[len(content) // 2 if place is None else place] ^= 4
    path.write_bytes(content)


def forge(repo: Path, backup: Backup, **facts: Any) -> Backup:
    """Writes a manifest with other facts and a seal that fits."""
    forged = manifest.sealed(structs.replace(backup, **facts))
    (repo / backup.id / MANIFEST).write_bytes(manifest.text(forged))
    return forged


def altered(text: bytes | str, **facts: object) -> bytes:
    """A manifest with other facts, and a seal that fits as far as the types allow one."""
    changed = json.dumps({**json.loads(text), **facts}).encode()
    try:
        return manifest.text(manifest.sealed(typed.parse(changed, Backup, manifest.FORMAT)))
    except typed.Unfit:
        return changed


def alter(repo: Path, **facts: object) -> None:
    path = repo / only(repo).id / MANIFEST
    path.write_bytes(altered(path.read_bytes(), **facts))


def dated(repo: Path, backup: Backup, when: datetime.datetime) -> str:
    """A copy that was made at another time; its ID."""
    name = repository.new_id(repo, when, backup.suffix)
    shutil.copytree(repo / backup.id, repo / name)
    copy = manifest.sealed(structs.replace(backup, id=name, made=when.isoformat()))
    (repo / name / MANIFEST).write_bytes(manifest.text(copy))
    return name


# --- disks ----------------------------------------------------------------------------------------


def fill(disk: Path) -> Path:
    """What is reserved for root, too; the file that takes the room."""
    filler = disk / "filler"
    with filler.open("wb") as file:
        for size in (1 << 20, 1 << 16, 1 << 10):
            with suppress(OSError):
                while True:
                    os.posix_fallocate(file.fileno(), os.fstat(file.fileno()).st_size, size)
    return filler


@contextmanager
def read_only(place: Path) -> Iterator[None]:
    """Mounted so."""
    subprocess.run(["mount", "--bind", "-o", "ro", place, place], check=True)
    try:
        yield
    finally:
        subprocess.run(["umount", place], check=True)
