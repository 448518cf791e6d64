"""Take a backup: one consistent moment of a database, streamed compressed into the repository, beside a running slapd.

Whole or not there: it gets its name by a rename, after everything in it is on the disk.
"""

from __future__ import annotations

import dataclasses
import datetime
import platform
import socket
import sys
import time
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from loader.errors import NoSuchPath, NoSuchSuffix, UsageProblem
from loader.mdb import copy, isolated, meta
from loader.mdb.look import DatabaseSummary, summarise
from loader.mdb.stream_progress import Passing
from loader.operations.backup import pack, repository
from loader.operations.backup.pack import Packed
from loader.operations.backup.repository import Backup
from loader.operations.clone import require_source
from loader.progress import Meter, Progress
from loader.run.killpoint import killpoint
from loader.run.lock import exclusive
from loader.server import configuration
from loader.storage import files, held


@dataclass(frozen=True)
class BackupOptions:
    """The database of a configuration, or one in a directory (`source`); one of the two."""

    repo: Path
    config_path: Path | None = None
    source: Path | None = None
    suffix: str | None = None
    compression: str = "zstd"
    level: int = pack.LEVEL


@dataclass(frozen=True)
class Origin:
    """What is backed up. `config`: cn=config as LDIF, credentials included."""

    directory: Path
    suffix: str | None
    config: bytes | None


def run(options: BackupOptions, progress: Progress) -> Backup:
    """Take one backup; its manifest. Raises Locked while another run is at work on the repository."""
    with files.explained(options.repo):
        origin = _origin(options)
        require_source(origin.directory)
        options.repo.mkdir(mode=0o700, parents=True, exist_ok=True)
        with held.opened(options.repo) as repo, exclusive(repo.path / repository.LOCK):
            for left in repository.unfinished_backups(repo.path):
                files.remove_tree(left)
            return _run(dataclasses.replace(options, repo=repo.path), origin, progress)


def _origin(options: BackupOptions) -> Origin:
    if options.source is not None:
        return Origin(options.source, options.suffix, None)
    if options.config_path is None:
        raise UsageProblem(reason="say what to back up: --config, or --from DIR")
    database = configuration.read(options.config_path).database(options.suffix)
    if database.directory is None:
        raise NoSuchPath(path=f"{options.config_path}: the directory of {database.suffix}")
    return Origin(database.directory, database.suffix, configuration.dump(options.config_path))


def _run(options: BackupOptions, origin: Origin, progress: Progress) -> Backup:
    outline = summarise(origin.directory, origin.suffix)
    suffix = origin.suffix
    if suffix is None:
        suffix = _only_suffix(origin.directory, outline)
    _require_space(options, origin.directory, suffix)
    when = repository.now()
    final = options.repo / repository.new_id(options.repo, when, suffix)
    partial = final.with_name(final.name + files.PARTIAL)
    try:
        with held.private(partial) as home:
            return _taken(options, origin, (home, partial, final), when, suffix, outline, progress)
    except BaseException:
        files.remove_tree(partial)
        raise


def _taken(
    options: BackupOptions,
    origin: Origin,
    places: tuple[held.Directory, Path, Path],
    when: datetime.datetime,
    suffix: str,
    outline: DatabaseSummary,
    progress: Progress,
) -> Backup:
    """Into the private directory, then under its name."""
    home, partial, final = places
    started = time.monotonic()
    packing = _Packing(options, origin, home.path)
    with progress.step("backup") as meter:
        packing.stream(meter)
    killpoint("backup.streamed")
    seconds = time.monotonic() - started
    made = packing.describe(final.name, when.isoformat(), seconds, suffix, outline)
    _finish(home.path, origin, made)
    files.publish(partial, final)
    return made


def _only_suffix(directory: Path, outline: DatabaseSummary) -> str:
    if len(outline.suffixes) == 1:
        return outline.suffixes[0]
    known = ", ".join(outline.suffixes) or "none"
    raise NoSuchSuffix(config=directory, suffix="(say which with -b)", known=known)


def _require_space(options: BackupOptions, source: Path, suffix: str) -> None:
    """As much as the last one took; how well a first one compresses nobody knows."""
    before = repository.listing(options.repo, suffix).backups
    if options.compression == "none":
        files.require_space(options.repo, meta.read_meta(source).used)
    elif before and before[-1].compression == options.compression:
        files.require_space(options.repo, before[-1].stored_bytes)


def _finish(partial: Path, origin: Origin, made: Backup) -> None:
    """Everything on the disk, before the name."""
    if origin.config is not None:
        files.write_durably(partial / repository.CONFIG, origin.config, 0o600)
    files.write_durably(partial / repository.MANIFEST, made.text(), 0o600)
    files.make_durable(partial / made.file)
    killpoint("backup.unpublished")


class _Packing:
    """One stream from a database into the unfinished backup."""

    def __init__(self, options: BackupOptions, origin: Origin, partial: Path) -> None:
        self._options = options
        self._source = origin.directory
        self._with_config = origin.config is not None
        self._target = partial / repository.NAMES[options.compression]
        self._passing = Passing(str(origin.directory))
        self._packed: Packed | None = None

    def stream(self, meter: Meter) -> None:
        options = self._options
        with copy.streaming(self._source) as child, meter.cancelling(child.kill):
            assert child.process.stdout is not None
            self._packed = pack.pack(
                child.process.stdout,
                self._target,
                options.compression,
                options.level,
                meter,
                self._passing,
            )
            isolated.finish(child, self._source)

    def describe(
        self, name: str, made: str, seconds: float, suffix: str, outline: DatabaseSummary
    ) -> Backup:
        """The manifest. Facts are those of the stream; `outline` was taken just before it."""
        packed, facts, sizes = (
            self._packed,
            self._passing.facts,
            copy.Sizes.of(meta.data_file(self._source)),
        )
        assert packed is not None
        assert facts is not None
        entries = self._passing.entries()
        return Backup(
            id=name,
            made=made,
            seconds=round(seconds, 3),
            host=socket.gethostname(),
            source=str(self._source.absolute()),
            suffix=suffix,
            entries=outline.entries if entries is None else entries,
            context_csns=outline.context_csns,
            newest_csns=outline.newest_csns,
            txnid=facts.txnid,
            lmdb_format=facts.format,
            page_size=facts.page_size,
            map_size=facts.map_size,
            machine=machine(),
            source_apparent=sizes.apparent,
            source_allocated=sizes.allocated,
            data_bytes=packed.data_bytes,
            stored_bytes=packed.file_bytes,
            file=self._target.name,
            compression=self._options.compression,
            data_sha256=packed.data_sha256,
            file_sha256=packed.file_sha256,
            with_config=self._with_config,
            ditseed=version("ditseed"),
        )


def machine() -> str:
    """What LMDB files depend on: word size and byte order."""
    bits = 64 if sys.maxsize > 2**32 else 32
    return f"{bits}-bit {sys.byteorder}-endian ({platform.machine()})"
