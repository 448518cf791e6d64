"""Exports a database directory: several workers read its pages, slapd running or not; into a directory or a stream.

Steps: read, shards. What is read is one snapshot, so an interrupted step begins anew.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from loader import defaults, ldif, standard, units
from loader.ldif import ShardFile
from loader.mdb.contents import entry_count
from loader.operations.shards import Finished, ShardDirectory, Whole, into, require_output
from loader.progress import Meter, Progress
from loader.run.log import Report
from loader.sources import mdb
from loader.sources.mdb import Exported, Part
from loader.storage import files, held

STEPS = ("read", "shards")


class DumpOptions(Struct, frozen=True):
    """What to read, and where to. `jobs`: workers."""

    part: Part
    output: Path
    jobs: int = 2
    compress: str = defaults.COMPRESS

    def identity(self) -> dict[str, object]:
        """What must not change between a run and its resumption."""
        part = self.part
        return {"database": str(part.directory.absolute()), "base": part.base, "compress": self.compress}


def plan(part: Part, output: Path | None) -> Report:
    """Checks that the database can be read and that the output is free. `output`: None for a stream."""
    mdb.require_database(part.directory)
    facts: Report = {"database": str(part.directory), "base": part.base}
    if part.base is None:
        facts["entries"] = entry_count(part.directory)
    if output is not None:
        require_output(output)
        facts["output"] = str(output)
    return {**facts, "dry_run": "nothing was written"}


def export_database(
    options: DumpOptions, progress: Progress, timeouts: dict[str, float], restart: bool = False
) -> Finished:
    """Runs or resumes an export into a directory."""
    mdb.require_database(options.part.directory)
    with (
        into(options.output, options.identity(), progress, timeouts, restart) as run,
        held.opened(options.output) as output,
    ):
        sink = ShardDirectory(output.path, run)
        manifest = sink.done_before()
        if manifest is None:
            read = run.do("read", lambda meter: _read(options, sink, meter), _Read)

            def publish(_: Meter) -> None:
                sink.take([shard.name for shard in read.shards])
                partitions = f"{read.ranges} ranges of entry IDs"
                sink.finish(read.whole, read.shards, str(options.part.directory), partitions, notes=read.notes)

            run.do("shards", publish)
        return Finished(manifest or ldif.require_manifest(sink.output), run.told_before())


class StreamReport(Struct, frozen=True):
    """What was sent. `content_checksum`: as of a manifest; `bytes`: before compression."""

    base: str
    entries: int
    content_checksum: str
    context_csns: tuple[str, ...]
    bytes: int
    seconds: float
    notes: tuple[str, ...]


def stream_database(part: Part, jobs: int, compress: bool, progress: Progress) -> StreamReport:
    """Writes LDIF to standard output. If it is interrupted, the same command begins anew."""
    descriptor = standard.output("packed LDIF" if compress else "LDIF", readable=not compress)
    mdb.require_database(part.directory)
    with progress.step("read") as meter:
        found = mdb.stream(part, descriptor, compress, jobs, meter)
        seconds = meter.seconds
    csns, notes = tuple(found.context_csns), tuple(_notes(found, "come last"))
    return StreamReport(found.base, found.entries, found.checksum, csns, found.bytes, seconds, notes)


class _Read(Struct, frozen=True):
    whole: Whole
    ranges: int
    notes: list[str]
    shards: list[ShardFile]


def _read(options: DumpOptions, sink: ShardDirectory, meter: Meter) -> _Read:
    arranged, started = files.emptied(sink.arranged), units.moment()
    export = mdb.export(options.part, arranged, options.compress != "none", options.jobs, meter)
    shards = [
        ShardFile(name, (arranged / name).stat().st_size, checksum, entries, content)
        for name, checksum, entries, content in export.files
    ]
    whole = Whole(export.base, started, list(export.context_csns), export.entries, export.checksum)
    return _Read(whole, export.ranges, _notes(export, "stand in the last shards"), shards)


def _notes(export: Exported, late: str) -> list[str]:
    """What the operator should know of the exported entries. `late`: where late entries are."""
    notes = []
    if export.holes:
        below = "are missing though others are below them: slapadd was given those without their parents"
        notes.append(f"{units.number(export.holes)} entries {below}")
    if export.late:
        notes.append(f"{units.number(export.late)} entries {late}, for a newer entry is above them")
    return notes
