"""Export a database directory: its pages read by several workers, slapd running or not; into a directory or a stream.

Steps: read, shards. What is read is one snapshot, so a step that was broken off begins anew.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loader import defaults, exports, standard, units
from loader.exports import Manifest, ShardFile
from loader.mdb.contents import entry_count
from loader.operations.shards import Finished, ShardDirectory, into, now, require_output
from loader.progress import Meter, Progress
from loader.run.log import Facts
from loader.run.steps import Run
from loader.sources import mdb
from loader.sources.mdb import Exported, Part
from loader.storage import held

STEPS = ("read", "shards")


@dataclass(frozen=True)
class DumpOptions:
    """What to read, and where to. `jobs`: workers."""

    part: Part
    output: Path
    jobs: int = 2
    compress: str = defaults.COMPRESS

    def identity(self) -> dict[str, object]:
        """What must not change between a run and its resumption."""
        part = self.part
        return {"database": str(part.directory.absolute()), "base": part.base, "compress": self.compress}


def plan(part: Part, output: Path | None) -> Facts:
    """What an export would do: can the database be read, and is the output free (None: a stream)?"""
    mdb.require_database(part.directory)
    facts: Facts = {"database": str(part.directory), "base": part.base}
    if part.base is None:
        facts["entries"] = entry_count(part.directory)
    if output is not None:
        require_output(output)
        facts["output"] = str(output)
    return {**facts, "dry_run": "nothing was written"}


def export_database(
    options: DumpOptions, progress: Progress, timeouts: dict[str, float], restart: bool = False
) -> Finished:
    """Run or resume an export into a directory."""
    mdb.require_database(options.part.directory)
    with (
        into(options.output, options.identity(), progress, timeouts, restart) as run,
        held.opened(options.output) as output,
    ):
        return Finished(_steps(options, ShardDirectory(output.path, run), run), run.told_before())


def _steps(options: DumpOptions, sink: ShardDirectory, run: Run) -> Manifest:
    known = sink.done_before()
    if known is not None:
        return known
    read = run.do("read", lambda meter: _read(options, sink, meter))
    run.do("shards", lambda meter: _publish(options, sink, read))
    return exports.require(sink.output)


@dataclass(frozen=True)
class StreamReport:
    """What went out. checksum: as of a manifest; bytes: before compression."""

    base: str
    entries: int
    content_checksum: str
    context_csns: tuple[str, ...]
    bytes: int
    seconds: float
    notes: tuple[str, ...]


def stream_database(part: Part, jobs: int, compress: bool, progress: Progress) -> StreamReport:
    """LDIF to standard output. Whatever ends it early begins anew with the same command."""
    descriptor = standard.output("packed LDIF" if compress else "LDIF", readable=not compress)
    mdb.require_database(part.directory)
    with progress.step("read") as meter:
        found = mdb.stream(part, descriptor, compress, jobs, meter)
        seconds = meter.seconds
    return StreamReport(
        base=found.base,
        entries=found.entries,
        content_checksum=found.checksum,
        context_csns=tuple(found.context_csns),
        bytes=found.bytes,
        seconds=seconds,
        notes=tuple(_notes(found, "come last")),
    )


def _read(options: DumpOptions, sink: ShardDirectory, meter: Meter) -> Facts:
    arranged, started = sink.empty_arranged(), now()
    found = mdb.export(options.part, arranged, options.compress != "none", options.jobs, meter)
    shards = [
        [name, (arranged / name).stat().st_size, checksum, entries, content]
        for name, checksum, entries, content in found.files
    ]
    return {
        "started": started,
        "base": found.base,
        "entries": found.entries,
        "checksum": found.checksum,
        "context_csns": found.context_csns,
        "ranges": found.ranges,
        "notes": _notes(found, "stand in the last shards"),
        "shards": shards,
    }


def _notes(found: Exported, late: str) -> list[str]:
    """What the operator should know of what was exported, and what not. late: where late entries are."""
    notes = []
    if found.holes:
        notes.append(
            f"{units.number(found.holes)} entries are missing though others are below them: slapadd was given those "
            "without their parents"
        )
    if found.late:
        notes.append(f"{units.number(found.late)} entries {late}, for a newer entry is above them")
    return notes


def _publish(options: DumpOptions, sink: ShardDirectory, read: Facts) -> Facts:
    shards = [ShardFile(*shard) for shard in read["shards"]]
    sink.take([shard.name for shard in shards])
    partitions = f"{read['ranges']} ranges of entry IDs"
    return sink.finish(read, shards, str(options.part.directory), partitions, notes=read["notes"])
