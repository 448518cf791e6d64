"""Generate a tree: to a stream, or as shards with a manifest in a directory.

Interrupted, a directory is gone on with by shards.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from loader import defaults, exports
from loader.errors import OutputNotEmpty, UsageProblem
from loader.exports import RUN_DIR
from loader.operations.shards import Finished, ShardDirectory, Whole, now
from loader.progress import Meter, Progress
from loader.run.log import killpoint
from loader.run.steps import Run, open_run
from loader.sources import dit
from loader.sources.dit import Range, Template, TreeSpec
from loader.storage import files, held

SHARD_ENTRIES = 1_000_000


@dataclass(frozen=True)
class GenerateOptions:
    """What to make. template: of the recipe. Neither `jobs` (threads) nor `shard_entries` changes the entries."""

    recipe: TreeSpec
    template: Template
    range: Range
    jobs: int = 1
    compress: str = defaults.COMPRESS
    shard_entries: int = SHARD_ENTRIES

    def identity(self) -> dict[str, object]:
        """What must not change between a run and its resumption."""
        return {
            "template": self.template.fingerprint,
            "seed": self.recipe.seed,
            "suffix": self.template.suffix,
            "operational": self.recipe.operational,
            "entries": self.template.entries,
            "range": [self.range.first, self.range.end],
            "compress": self.compress,
            "shard_entries": self.shard_entries,
        }


def to_stream(options: GenerateOptions, descriptor: int, progress: Progress) -> None:
    """Write LDIF to a descriptor."""
    with progress.step("generate", options.range.entries) as meter:
        dit.write(options.template, options.range, descriptor, options.jobs, meter, compress=options.compress == "zstd")


def to_directory(options: GenerateOptions, output: Path, progress: Progress, restart: bool = False) -> Finished:
    """Run or resume a generation into a directory. Done before, it does nothing."""
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
            work = _GenerateSteps(options, ShardDirectory(output, run), run)
            manifest = work.sink.done_before(last="publish")
            if manifest is None:
                started = run.do("start", work.start, str)
                run.do("shards", work.shards, total=options.range.entries)
                run.do("publish", lambda meter: work.publish(started))
                manifest = exports.require(output)
            return Finished(manifest, run.told_before())


@dataclass(frozen=True)
class _Shard:
    entries: int
    bytes: int
    checksum: str


@dataclass(frozen=True)
class _GenerateSteps:
    """The steps' bodies. Each can be done again from its beginning."""

    options: GenerateOptions
    sink: ShardDirectory
    run: Run

    def start(self, meter: Meter) -> str:
        """Only what an earlier run of ours left is cleared away."""
        for pattern in ("[0-9]*.ldif*", exports.FILE):
            for path in self.sink.output.glob(pattern):
                path.unlink()
        return now()

    def shards(self, meter: Meter) -> None:
        """One after another; a finished one is not made again."""
        done = self.run.catalogue.partitions("shards", _Shard)
        meter.add(sum(shard.entries for shard in done.values()))
        for number, piece in enumerate(self.options.range.cut(self.options.shard_entries)):
            name = f"{number:05}.ldif" + (".zst" if self.options.compress == "zstd" else "")
            if name in done:
                continue
            partial = self.run.directory / (name + files.PARTIAL)
            with files.explained(self.sink.output):
                made = dit.shard(self.options.template, piece, partial, self.options.jobs, meter)
                files.publish(partial, self.sink.output / name)
            shard = _Shard(made.entries, made.bytes, made.checksum)
            self.run.catalogue.finish_partition("shards", name, shard)
            killpoint("shards.one")

    def publish(self, started: str) -> None:
        """Write the manifest."""
        options, done = self.options, self.run.catalogue.partitions("shards", _Shard)
        shards = [self.sink.shard(name, one.entries, one.checksum) for name, one in sorted(done.items())]
        entries = sum(shard.entries for shard in shards)
        checksum = exports.total(shard.content_checksum for shard in shards)
        whole = Whole(options.template.suffix, started, (), entries, checksum)
        piece = f"{options.range.first}:{options.range.end}"
        source = f"generate {options.recipe.path.stem}, seed {options.recipe.seed}, entries {piece}"
        self.sink.finish(whole, shards, source, f"shards of {options.shard_entries} entries")
