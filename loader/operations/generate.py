"""Generates a tree as a stream, or as a directory of LDIF files (shards) with a manifest.

An interrupted generation into a directory resumes after the last finished shard.
"""

from __future__ import annotations

from pathlib import Path

from msgspec import Struct

from loader import defaults, ldif, plain, units
from loader.defaults import SHARD_ENTRIES
from loader.errors import OutputNotEmpty, UsageProblem
from loader.ldif import RUN_DIR, Manifest
from loader.operations.shards import Finished, ShardDirectory
from loader.progress import Meter, Progress
from loader.run.log import killpoint
from loader.run.steps import open_run
from loader.sources import dit
from loader.sources.dit import Range, Template, TreeSpec
from loader.storage import files, held


class GenerateOptions(Struct, frozen=True):
    """`template` is compiled from `recipe`. `jobs`: threads. `jobs` and `shard_entries` do not affect the entries."""

    recipe: TreeSpec
    template: Template
    range: Range
    jobs: int = 1
    compress: str = defaults.COMPRESS
    shard_entries: int = SHARD_ENTRIES

    def identity(self) -> dict[str, object]:
        """Returns the options that must not change between a run and its resumption."""
        return {
            **self.recipe.identity(self.template),
            "range": [self.range.first, self.range.end],
            "compress": self.compress,
            "shard_entries": self.shard_entries,
        }


def to_stream(options: GenerateOptions, descriptor: int, progress: Progress) -> None:
    with progress.step("generate", options.range.entries) as meter:
        dit.write(options.template, options.range, descriptor, options.jobs, meter, compress=options.compress == "zstd")


def to_directory(options: GenerateOptions, output: Path, progress: Progress, restart: bool = False) -> Finished:
    """Runs or resumes a generation into a directory. Does nothing if it is finished."""
    if output.exists() and not output.is_dir():
        raise UsageProblem(reason=f"{output} is a file; shards go into a directory")
    files.require_writable(output)
    with files.explained(output):
        held.make_directories(output)
    with held.opened(output) as opened:
        output = opened.path
        if any(output.iterdir()) and not (output / RUN_DIR).exists():
            raise OutputNotEmpty(path=output, made_by="generate")
        with open_run(output / RUN_DIR, "generate", options.identity(), progress, None, restart) as run:
            sink = ShardDirectory(output, run)
            manifest = sink.done_before(last="publish")
            if manifest is None:
                start_time = run.do("start", lambda meter: _start(output), str)
                run.do("shards", lambda meter: _make_shards(options, sink, meter), total=options.range.entries)
                run.do("publish", lambda meter: _publish(options, sink, start_time))
                manifest = ldif.require_manifest(output)
            return Finished(manifest, run.done_before())


class _Shard(Struct, frozen=True):
    entries: int
    checksum: str


def _start(output: Path) -> str:
    """Removes the shards and the manifest of an earlier run. Returns the present time for the manifest."""
    for pattern in ("[0-9]*.ldif*", ldif.MANIFEST):
        for path in output.glob(pattern):
            path.unlink()
    return units.moment()


def _make_shards(options: GenerateOptions, sink: ShardDirectory, meter: Meter) -> None:
    catalogue = sink.run.catalogue
    done = catalogue.partitions("shards", _Shard)
    meter.add(sum(shard.entries for shard in done.values()))
    for number, piece in enumerate(options.range.cut(options.shard_entries)):
        name = f"{number:05}.ldif" + (".zst" if options.compress == "zstd" else "")
        if name in done:
            continue
        partial = sink.run.directory / (name + files.PARTIAL)
        with files.explained(sink.output):
            shard = dit.shard(options.template, piece, partial, options.jobs, meter)
            files.publish(partial, sink.output / name)
        catalogue.finish_partition("shards", name, _Shard(shard.entries, shard.checksum))
        killpoint("shards.one")


def _publish(options: GenerateOptions, sink: ShardDirectory, start_time: str) -> None:
    shards_by_name = sink.run.catalogue.partitions("shards", _Shard)
    shards = tuple(sink.shard(name, shard.entries, shard.checksum) for name, shard in sorted(shards_by_name.items()))
    recipe, piece = options.recipe, f"{options.range.first}:{options.range.end}"
    manifest = Manifest(
        base=options.template.suffix,
        entries=sum(shard.entries for shard in shards),
        content_checksum=ldif.total_of(shard.content_checksum for shard in shards),
        context_csns=(),
        shards=shards,
        source=plain.printable(f"generate {recipe.path.stem}, seed {recipe.seed}, entries {piece}"),
        started=start_time,
        finished="",
        partitions=f"shards of {options.shard_entries} entries",
    )
    sink.finish(manifest)
