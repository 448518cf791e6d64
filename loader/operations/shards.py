"""The output of an export from any source: a directory of LDIF files (shards) with a manifest."""

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

SCRATCH = PARTS, ARRANGED = "parts", "arranged"  # names of subdirectories of the run directory


class Finished(Struct, frozen=True):
    """A finished export. `before` is the result of `Run.done_before`, for the report."""

    manifest: Manifest
    before: Report

    @property
    def report(self) -> Report:
        """The report for --json and --report."""
        return {**structs.asdict(self.manifest), **self.before}


@contextmanager
def export_run(
    output: Path, identity: dict[str, object], progress: Progress, timeouts: dict[str, float], restart: bool
) -> Iterator[Run]:
    """Opens the run of an export. Creates a missing output directory. Raises OutputNotEmpty, NotPermitted, ReadOnly."""
    require_output(output)
    run_dir = output / RUN_DIR
    is_new = not output.exists()
    try:
        with open_run(run_dir, "export", identity, progress, timeouts, restart) as run:
            yield run
    except LoaderError:
        # A command that is refused before it reads anything must leave no new directory.
        if is_new and not any((run_dir / name).exists() for name in SCRATCH):
            files.remove_tree(output)
        raise


def require_output(output: Path) -> None:
    """Raises OutputNotEmpty, NotPermitted or ReadOnly if no export can be written or resumed in `output`."""
    files.require_writable(output)
    if not (output / RUN_DIR).exists() and output.is_dir() and any(output.iterdir()):
        raise OutputNotEmpty(path=output, made_by="export")


class ShardDirectory(Struct, frozen=True):
    """The output directory of a run. The manifest is written last."""

    output: Path
    run: Run

    @property
    def arranged(self) -> Path:
        """The directory for the shards until all of them are complete."""
        return self.run.directory / ARRANGED

    def done_before(self, last: str = "shards") -> Manifest | None:
        """Returns the manifest if the step `last` is done, otherwise None. Raises ManifestBroken if a shard is missing
        or has another size."""
        if not self.run.catalogue.is_done(last):
            return None
        manifest = ldif.require_manifest(self.output)
        ldif.require_files(manifest, self.output)
        self.run.progress.skipped("export")
        return manifest

    def take(self, names: Sequence[str]) -> None:
        """Moves arranged shards to the output, after removing the manifest and the shards of an earlier export."""
        (self.output / ldif.MANIFEST).unlink(missing_ok=True)
        for path in self.output.glob("[0-9]*.ldif*"):
            if path.name not in names:
                path.unlink()
        for name in names:
            if (self.arranged / name).exists():  # otherwise a killed run has moved the shard already
                (self.arranged / name).replace(self.output / name)  # the native core has synced the file
        files.make_durable(self.output)
        killpoint("shards.middle")

    def shard(self, name: str, entries: int, content_checksum: str, checksum: str | None = None) -> ShardFile:
        """Returns the manifest's record of a shard. Computes the checksum of the file if `checksum` is None."""
        path = self.output / name
        return ShardFile(name, path.stat().st_size, checksum or ldif.checksum_of(path), entries, content_checksum)

    def finish(self, manifest: Manifest) -> None:
        """Writes the manifest with the present time as `finished`. The manifest marks the export as complete."""
        manifest = structs.replace(manifest, finished=units.moment())
        files.write_durably(self.output / ldif.MANIFEST, manifest.text())
        for name in SCRATCH:
            files.remove_tree(self.run.directory / name)
