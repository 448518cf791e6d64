"""The output of an export, whatever it was read from: a directory of shards, made beside its place by a run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from msgspec import Struct, structs

from loader import ldif, units
from loader.errors import LoaderError, OutputNotEmpty
from loader.ldif import RUN_DIR, Manifest, ShardFile
from loader.progress import Progress
from loader.run.log import Report, killpoint
from loader.run.steps import Run, open_run
from loader.storage import files

SCRATCH = PARTS, ARRANGED = "parts", "arranged"  # directories in the run directory


class Whole(Struct, frozen=True):
    """All entries of an export. `checksum`: order-free; the rest as in the manifest."""

    base: str
    started: str
    context_csns: Sequence[str]
    entries: int
    checksum: str
    duplicates: int = 0
    dropped: int = 0


class Finished(Struct, frozen=True):
    """An export that has ended. `before`: `done_before`, as `Run.told_before` has it for the report."""

    manifest: Manifest
    before: Report

    @property
    def report(self) -> Report:
        """For --json and --report."""
        return {**structs.asdict(self.manifest), **self.before}


@contextmanager
def into(
    output: Path, identity: dict[str, object], progress: Progress, timeouts: dict[str, float], restart: bool
) -> Iterator[Run]:
    """The run of an export into a directory, which is one or is to become one. Raises OutputNotEmpty,
    NotPermitted, ReadOnly."""
    require_output(output)
    run_dir = output / RUN_DIR
    made = not output.exists()
    try:
        with open_run(run_dir, "export", identity, progress, timeouts, restart) as run:
            yield run
    except LoaderError:
        # Refused before anything was read: nothing is worth keeping, and nothing shall have changed.
        if made and not any((run_dir / name).exists() for name in (PARTS, ARRANGED)):
            files.remove_tree(output)
        raise


def require_output(output: Path) -> None:
    """May an export be written, or go on, there? Raises OutputNotEmpty, NotPermitted, ReadOnly."""
    files.require_writable(output)
    if not (output / RUN_DIR).exists() and output.is_dir() and any(output.iterdir()):
        raise OutputNotEmpty(path=output, made_by="export")


class ShardDirectory(Struct, frozen=True):
    """Sink: the output directory of a run. It takes finished shards, and writes the manifest last."""

    output: Path
    run: Run

    @property
    def arranged(self) -> Path:
        """Where shards in loading order wait until all of them are there."""
        return self.run.directory / ARRANGED

    def done_before(self, last: str = "shards") -> Manifest | None:
        """The manifest of a finished run; `last` is its last step. Raises ManifestBroken if what it made is gone or has
        another size."""
        if not self.run.catalogue.is_done(last):
            return None
        manifest = ldif.require_manifest(self.output)
        ldif.require_files(manifest, self.output)
        self.run.progress.passed_over("export")
        return manifest

    def take(self, names: Sequence[str]) -> None:
        """Move arranged shards to the output. Meanwhile it has no manifest, and no shards of an earlier export."""
        (self.output / ldif.MANIFEST).unlink(missing_ok=True)
        for path in self.output.glob("[0-9]*.ldif*"):
            if path.name not in names:
                path.unlink()
        for name in names:
            if (self.arranged / name).exists():  # else it was moved before a kill
                (self.arranged / name).replace(self.output / name)  # the native core has synced it
        files.make_durable(self.output)
        killpoint("shards.middle")

    def shard(self, name: str, entries: int, content_checksum: str, checksum: str | None = None) -> ShardFile:
        """A shard that is in the output. Without its checksum, the file is read."""
        path = self.output / name
        return ShardFile(name, path.stat().st_size, checksum or ldif.checksum_of(path), entries, content_checksum)

    def finish(
        self,
        whole: Whole,
        shards: Sequence[ShardFile],
        source: str,
        partitions: str,
        hidden: Sequence[str] = (),
        notes: Sequence[str] = (),
    ) -> None:
        """Writes the manifest: an export that has one is complete."""
        made = Manifest(
            base=whole.base,
            entries=whole.entries,
            content_checksum=whole.checksum,
            context_csns=tuple(whole.context_csns),
            shards=tuple(shards),
            source=source,
            started=whole.started,
            finished=units.moment(),
            partitions=partitions,
            duplicates=whole.duplicates,
            dropped=whole.dropped,
            notes=(*hidden, *notes),
            hidden=tuple(hidden),
        )
        files.write_durably(self.output / ldif.MANIFEST, made.text())
        for name in SCRATCH:
            files.remove_tree(self.run.directory / name)
