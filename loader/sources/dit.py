"""Source: a synthetic tree, made by the native core from a template and entry numbers alone.

The door to the part of loader._native that generates."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from loader import _native, ldif, resources
from loader._native import Counters, Shard, Template
from loader.errors import TemplateError, UsageProblem
from loader.piped import piped
from loader.progress import Meter
from loader.sources import Inputs
from loader.storage import files

__all__ = [
    "MOMENT",
    "SEEDS",
    "PlanOptions",
    "Range",
    "Shard",
    "Synthetic",
    "Template",
    "TreeSpec",
    "plan",
    "shard",
    "whole",
    "write",
]

SEEDS = range(-(2**63), 2**63)


@dataclass(frozen=True)
class TreeSpec:
    """All that decides the bytes of an entry, with its number.

    path: of the template. lists: where its lists are looked for besides. suffix: None is the template's. entries:
    of the kind without a count of its own. converted: the TOML of a template of another program.
    """

    path: Path
    lists: tuple[Path, ...] = ()
    seed: int = 1
    suffix: str | None = None
    entries: int | None = None
    converted: str | None = None
    operational: bool = False

    def text(self) -> str:
        """The template as TOML."""
        if self.converted is not None:
            return self.converted
        with files.explained(self.path):
            return self.path.read_text()

    def compiled(self, otherwise: int | None = None) -> Template:
        """Ready to make entries. otherwise: `entries`, when the template needs it and there is none.

        Raises TemplateError, UsageProblem.
        """
        if self.seed not in SEEDS:
            raise UsageProblem(reason=f"--seed {self.seed}: must be a number of 64 bits")
        try:
            return Template(
                self.path,
                text=self.converted,
                lists=self.lists,
                suffix=self.suffix,
                seed=self.seed,
                entries=self.entries,
                otherwise=otherwise,
                operational=self.operational,
            )
        except _native.NativeError as error:
            if error.code == "template.usage":
                raise UsageProblem(reason=error.message) from error
            of = "" if self.converted is None else " (of the template that `ditseed generate show` prints)"
            raise TemplateError(path=error.path or self.path, reason=f"{error.message}{of}") from error


@dataclass(frozen=True)
class Range:
    """Entries `first` to `end`-1 of a tree. Entry 0 is the suffix."""

    first: int
    end: int

    @property
    def entries(self) -> int:
        return self.end - self.first

    def cut(self, size: int) -> Iterator[Range]:
        """Pieces that end at multiples of `size`, wherever the range begins."""
        first = self.first
        while first < self.end:
            end = min(self.end, first - first % size + size)
            yield Range(first, end)
            first = end


def whole(template: Template) -> Range:
    return Range(0, template.entries)


def write(template: Template, piece: Range, descriptor: int, jobs: int, meter: Meter, compress: bool = False) -> None:
    """LDIF into a descriptor. BrokenPipeError when nobody reads it any more."""
    with _counting(meter, "standard output") as counters:
        template.write(descriptor, piece.first, piece.end, jobs, counters, compress=compress)


def shard(template: Template, piece: Range, path: Path, jobs: int, meter: Meter) -> Shard:
    """A file (compressed when it ends in .zst), on the disk when it returns."""
    with _counting(meter, str(path)) as counters:
        return template.shard(path, piece.first, piece.end, jobs, counters)


@dataclass(frozen=True)
class PlanOptions:
    """A load plan. mix: operation -> share. miss: part of searches that find nothing, and of binds that are refused.
    skew: Zipf's exponent for who is asked for. looks: attribute, whether by its beginning, and weight; none leaves it
    to the template. ldif: only changes, as LDIF."""

    operations: int
    mix: Mapping[str, int]
    miss: float = 0.05
    skew: float = 0.9
    seed: int = 1
    looks: tuple[tuple[str, bool, int], ...] = ()
    ldif: bool = False


def plan(template: Template, wishes: PlanOptions, descriptor: int, jobs: int, meter: Meter) -> None:
    """A load plan into a descriptor. BrokenPipeError when nobody reads it any more, UsageProblem when it cannot be."""
    with _counting(meter, "standard output") as counters:
        template.plan(
            descriptor,
            jobs,
            counters,
            operations=wishes.operations,
            mix=list(wishes.mix.items()),
            miss=wishes.miss,
            skew=wishes.skew,
            seed=wishes.seed,
            looks=wishes.looks,
            ldif=wishes.ldif,
        )


@contextmanager
def _counting(meter: Meter, target: str) -> Iterator[Counters]:
    counters = Counters()
    with meter.counting(counters):
        try:
            yield counters
        except _native.NativeError as error:
            if error.code == "ldif.pipe":
                raise BrokenPipeError(error.message) from error
            if error.code == "template.usage":
                raise UsageProblem(reason=error.message) from error
            raise ldif.as_loader_error(error, target) from error


# --- synthetic -------------------------------------------------------------------------------------------------------
#
# Source: the tree of a template, made while it is read.


MOMENT = "20260101000000Z"  # what a build of such a tree takes for its time, so that it can be made again


@dataclass(frozen=True)
class Synthetic:
    """The same recipe is the same bytes, on every machine."""

    recipe: TreeSpec

    @cached_property
    def compiled(self) -> Template:
        """Raises TemplateError, UsageProblem."""
        return self.recipe.compiled()

    def below(self, suffix: str) -> Synthetic:
        """The same tree elsewhere."""
        return Synthetic(dataclasses.replace(self.recipe, suffix=suffix))

    def identity(self) -> dict[str, object]:
        """What decides the bytes."""
        return {
            "template": self.compiled.fingerprint,
            "entries": self.compiled.entries,
            "seed": self.recipe.seed,
            "suffix": self.compiled.suffix,
            "operational": self.recipe.operational,
        }

    def entries(self) -> int:
        return self.compiled.entries

    @contextmanager
    def reading(self, meter: Meter) -> Iterator[Inputs]:
        """As `stream`; the reader counts."""
        with self.stream() as descriptor:
            yield [descriptor]

    @contextmanager
    def stream(self) -> Iterator[int]:
        """A descriptor to read it from, once. What could not be made is raised when the body has ended."""
        with piped(self._write, "template") as (descriptor, _):
            yield descriptor

    def _write(self, descriptor: int) -> None:
        meter, jobs = Meter("template"), resources.processors()
        write(self.compiled, whole(self.compiled), descriptor, jobs, meter)
