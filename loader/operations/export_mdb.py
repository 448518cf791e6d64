"""Exports a database into a directory or a stream. Several workers read its pages. slapd may be running.

Steps: read, shards. All workers read one snapshot, so an interrupted `read` starts over.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct, structs

from loader import ldif, plain, standard, units
from loader.ldif import Manifest, ShardFile
from loader.mdb.contents import entry_count
from loader.operations.shards import Finished, ShardDirectory, export_run, require_output
from loader.progress import Meter, Progress
from loader.run.log import Report
from loader.sources import mdb
from loader.sources.mdb import Exported, LdifFormat, Part
from loader.storage import files, held

STEPS = ("read", "shards")


class DumpOptions(Struct, frozen=True):
    """The options of an export of a database. `part` selects the entries. `jobs`: number of workers."""

    part: Part
    output: Path
    jobs: int
    ldif_format: LdifFormat

    def identity(self) -> dict[str, object]:
        """Returns the options that must not change between a run and its resumption."""
        part = self.part
        return {"database": str(part.directory.absolute()), "base": part.base, **structs.asdict(self.ldif_format)}


def plan(part: Part, output: Path | None) -> Report:
    """Checks that the database is readable and the output is free. Returns the plan. `output` is None for a stream."""
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
    mdb.require_database(options.part.directory)
    with (
        export_run(options.output, options.identity(), progress, timeouts, restart) as run,
        held.opened(options.output) as output,
    ):
        sink = ShardDirectory(output.path, run)
        manifest = sink.done_before()
        if manifest is None:
            read = run.do("read", lambda meter: _read(options, sink, meter), Manifest)

            def publish(_: Meter) -> None:
                sink.take([shard.name for shard in read.shards])
                sink.finish(read)

            run.do("shards", publish)
        return Finished(manifest or ldif.require_manifest(sink.output), run.done_before())


class StreamReport(Struct, frozen=True):
    """A finished stream. `content_checksum`: as in a manifest. `bytes`: length of the LDIF before compression."""

    base: str
    entries: int
    content_checksum: str
    context_csns: tuple[str, ...]
    bytes: int
    seconds: float
    notes: tuple[str, ...]


def stream_database(part: Part, jobs: int, ldif_format: LdifFormat, progress: Progress) -> StreamReport:
    """Writes LDIF to standard output. After an interruption, the same command starts over."""
    what = "compressed LDIF" if ldif_format.compress else "LDIF"
    descriptor = standard.output(what, readable=not ldif_format.compress)
    mdb.require_database(part.directory)
    with progress.step("read") as meter:
        export = mdb.stream(part, descriptor, jobs, meter, ldif_format)
        seconds = meter.seconds
    csns, notes = tuple(export.context_csns), tuple(_notes(export, "come last"))
    return StreamReport(export.base, export.entries, export.checksum, csns, export.bytes, seconds, notes)


def _read(options: DumpOptions, sink: ShardDirectory, meter: Meter) -> Manifest:
    """Writes the shards to the run directory. Returns the manifest without the time at which the export finishes."""
    arranged, start_time = files.emptied(sink.arranged), units.moment()
    export = mdb.export(options.part, arranged, options.ldif_format, options.jobs, meter)
    return Manifest(
        base=export.base,
        entries=export.entries,
        content_checksum=export.checksum,
        context_csns=tuple(export.context_csns),
        shards=tuple(
            ShardFile(name, (arranged / name).stat().st_size, checksum, entries, content)
            for name, checksum, entries, content in export.files
        ),
        source=plain.printable(str(options.part.directory)),  # JSON is UTF-8, but a path may be any bytes
        started=start_time,
        finished="",
        partitions=f"{export.ranges} ranges of entry IDs",
        notes=tuple(_notes(export, "are in the last shards")),
    )


def _notes(export: Exported, late: str) -> list[str]:
    """Returns notes for the operator. `late` says where the output has entries that precede their parents."""
    notes = []
    if export.holes:
        below = "are missing although entries are below them: slapadd loaded those without their parents"
        notes.append(f"{units.number(export.holes)} entries {below}")
    if export.late:
        notes.append(f"{units.number(export.late)} entries {late}, because an entry above them is newer")
    return notes
