"""Generate a tree: to a stream, or as shards with a manifest in a directory.

Interrupted, a directory is gone on with by shards.
"""

from __future__ import annotations

import datetime
from dataclasses import dataclass
from pathlib import Path

from loader import defaults, manifest
from loader.errors import OutputNotEmpty, UsageProblem
from loader.exports import RUN_DIR
from loader.manifest import Manifest, ShardFile
from loader.operations.shards import done_before
from loader.progress import Meter, Progress
from loader.run.catalogue import Facts
from loader.run.killpoint import killpoint
from loader.run.steps import Run, open_run
from loader.sources import dit
from loader.sources.dit import Range, Recipe, Template
from loader.storage import files, held

SHARD_ENTRIES = 1_000_000


@dataclass(frozen=True)
class GenerateOptions:
    """What to make. template: of the recipe. Neither `jobs` (threads) nor `shard_entries` changes the entries."""

    recipe: Recipe
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
        dit.write(
            options.template,
            options.range,
            descriptor,
            options.jobs,
            meter,
            compress=options.compress == "zstd",
        )


def to_directory(
    options: GenerateOptions, output: Path, progress: Progress, restart: bool = False
) -> Manifest:
    """Run or resume a generation into a directory; its manifest. Done before, it does nothing."""
    if output.exists() and not output.is_dir():
        raise UsageProblem(reason=f"{output} is a file; shards go into a directory")
    files.require_writable(output)
    with files.explained(output):
        output.mkdir(parents=True, exist_ok=True)
    with held.opened(output) as opened:
        return _to_directory(options, opened.path, progress, restart)


def _to_directory(
    options: GenerateOptions, output: Path, progress: Progress, restart: bool
) -> Manifest:
    if any(output.iterdir()) and not (output / RUN_DIR).exists():
        raise OutputNotEmpty(path=output, made_by="generate")
    with open_run(output / RUN_DIR, "generate", options.identity(), progress, None, restart) as run:
        known = done_before(output, run, last="publish")
        if known is not None:
            return known
        work = _Work(options, output, run)
        begun = run.do("start", work.start)
        run.do("shards", work.shards, total=options.range.entries)
        run.do("publish", lambda meter: work.publish(begun))
    return manifest.require(output)


@dataclass(frozen=True)
class _Work:
    """The steps' bodies. Each can be done again from its beginning."""

    options: GenerateOptions
    output: Path
    run: Run

    def start(self, meter: Meter) -> Facts:
        """Only what an earlier run of ours left is cleared away."""
        for pattern in ("[0-9]*.ldif*", manifest.FILE):
            for path in self.output.glob(pattern):
                path.unlink()
        return {"started": _now()}

    def shards(self, meter: Meter) -> Facts:
        """One after another; a finished one is not made again."""
        done = self.run.catalogue.partitions("shards")
        meter.add(sum(facts["entries"] for facts in done.values()))
        for number, piece in enumerate(self.options.range.cut(self.options.shard_entries)):
            name = f"{number:05}.ldif" + (".zst" if self.options.compress == "zstd" else "")
            if name in done:
                continue
            self.run.catalogue.finish_partition("shards", name, self._shard(name, piece, meter))
            killpoint("shards.one")
        return {"entries": meter.entries}

    def _shard(self, name: str, piece: Range, meter: Meter) -> Facts:
        partial = self.run.directory / (name + files.PARTIAL)
        with files.explained(self.output):
            made = dit.shard(self.options.template, piece, partial, self.options.jobs, meter)
            files.publish(partial, self.output / name)
        return {"entries": made.entries, "bytes": made.bytes, "checksum": made.checksum}

    def publish(self, begun: Facts) -> Facts:
        """The manifest last: where it stands, the tree is whole."""
        options, done = self.options, self.run.catalogue.partitions("shards")
        made = Manifest(
            base=options.template.suffix,
            entries=sum(facts["entries"] for facts in done.values()),
            content_checksum=manifest.total(facts["checksum"] for facts in done.values()),
            context_csns=(),
            shards=tuple(self._described(name, done[name]) for name in sorted(done)),
            source=f"generate {options.recipe.path.stem}, seed {options.recipe.seed}, entries "
            f"{options.range.first}:{options.range.end}",
            started=begun["started"],
            finished=_now(),
            partitions=f"shards of {options.shard_entries} entries",
        )
        files.write_durably(self.output / manifest.FILE, made.text())
        return {"entries": made.entries}

    def _described(self, name: str, made: Facts) -> ShardFile:
        path = self.output / name
        size, checksum = path.stat().st_size, manifest.checksum(path)
        return ShardFile(name, size, checksum, made["entries"], made["checksum"])


def _now() -> str:
    return datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds")
