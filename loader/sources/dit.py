"""Generates a synthetic tree with the native core, from a template and entry numbers alone."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from pathlib import Path

from msgspec import Struct, structs

from loader import _native, defaults, ldif
from loader._native import Shard, Template
from loader.errors import TemplateError, UsageProblem
from loader.piped import piped
from loader.progress import Meter
from loader.sources import Inputs
from loader.storage import files

__all__ = ["Shard", "Template"]

SEEDS = range(-(2**63), 2**63)


class TreeSpec(Struct, frozen=True):
    """The parameters that, together with an entry's number, determine the entry's bytes.

    `path`: the template's file. `lists`: additional directories of word lists. `suffix`: None selects the template's
    suffix. `entries`: the number of one kind of entries, if the template leaves it open. `converted`: TOML that was
    converted from another program's template."""

    path: Path
    lists: tuple[Path, ...] = ()
    seed: int = 1
    suffix: str | None = None
    entries: int | None = None
    converted: str | None = None
    operational: bool = False

    def identity(self, template: Template) -> dict[str, object]:
        """Returns the values that determine the bytes of the tree. `template`: this spec, compiled."""
        return {
            "template": template.fingerprint,
            "entries": template.entries,
            "seed": self.seed,
            "suffix": template.suffix,
            "operational": self.operational,
        }

    def text(self) -> str:
        if self.converted is not None:
            return self.converted
        with files.explained(self.path):
            return self.path.read_text()

    def compiled(self, default_entries: int | None = None) -> Template:
        """Returns the compiled template. If the template needs `entries` and that is None, `default_entries` is used.
        Raises TemplateError for an invalid template, UsageProblem for an invalid parameter."""
        if self.seed not in SEEDS:
            raise UsageProblem(reason=f"--seed {self.seed}: must be a signed integer of 64 bits")
        try:
            return Template(self, default_entries)
        except _native.NativeError as error:
            if error.code == "template.usage":
                raise UsageProblem(reason=error.message) from error
            where = "" if self.converted is None else " (in the template that `ditseed generate show` prints)"
            raise TemplateError(path=error.path or self.path, reason=f"{error.message}{where}") from error


class Range(Struct, frozen=True):
    """Entries `first` to `end`-1 of a tree. Entry 0 is the suffix."""

    first: int
    end: int

    @property
    def entries(self) -> int:
        return self.end - self.first

    def cut(self, size: int) -> Iterator[Range]:
        """Yields consecutive subranges, each up to the next multiple of `size` or the end of the range."""
        first = self.first
        while first < self.end:
            end = min(self.end, first - first % size + size)
            yield Range(first, end)
            first = end


def whole(template: Template) -> Range:
    return Range(0, template.entries)


def write(template: Template, piece: Range, descriptor: int, jobs: int, meter: Meter, compress: bool = False) -> None:
    """Writes LDIF to a descriptor. Raises BrokenPipeError if the reader has closed the pipe."""
    with ldif.with_counters(meter, "standard output", _translate_error) as counters:
        template.write(descriptor, piece.first, piece.end, jobs, counters, compress=compress)


def shard(template: Template, piece: Range, path: Path, jobs: int, meter: Meter) -> Shard:
    """Writes LDIF to a file and syncs it. If the file's name ends in .zst, the LDIF is compressed."""
    with ldif.with_counters(meter, str(path), _translate_error) as counters:
        return template.shard(path, piece.first, piece.end, jobs, counters)


class PlanOptions(Struct, frozen=True):
    """The options of a load plan: operations for a load test. `mix`: operation -> share. `miss`: fraction of searches
    that find nothing and of binds that fail. `skew`: Zipf exponent for the choice of entries. `looks`: kinds of
    searches (attribute, True for a prefix search, weight), or empty for the template's. `ldif`: write LDIF changes."""

    operations: int
    mix: Mapping[str, int]
    miss: float = 0.05
    skew: float = 0.9
    seed: int = 1
    looks: tuple[tuple[str, bool, int], ...] = ()
    ldif: bool = False


def plan(template: Template, options: PlanOptions, descriptor: int, jobs: int, meter: Meter) -> None:
    """Writes a load plan. Raises UsageProblem if the plan is impossible, BrokenPipeError if the reader has ended."""
    with ldif.with_counters(meter, "standard output", _translate_error) as counters:
        template.plan(options, descriptor, jobs, counters)


def _translate_error(error: _native.NativeError) -> Exception | None:
    if error.code == "ldif.pipe":
        return BrokenPipeError(error.message)
    return UsageProblem(reason=error.message) if error.code == "template.usage" else None


MOMENT = "20260101000000Z"  # the time in generated attributes, which is fixed, so that builds are reproducible


class Synthetic(Struct, frozen=True, dict=True):
    """The tree of a template. The same `recipe` yields the same bytes on every machine."""

    recipe: TreeSpec

    @cached_property
    def compiled(self) -> Template:
        """Compiles the template. Raises TemplateError, UsageProblem."""
        return self.recipe.compiled()

    def with_suffix(self, suffix: str) -> Synthetic:
        return Synthetic(structs.replace(self.recipe, suffix=suffix))

    def identity(self) -> dict[str, object]:
        return self.recipe.identity(self.compiled)

    def entries(self) -> int:
        return self.compiled.entries

    @contextmanager
    def reading(self, meter: Meter) -> Iterator[Inputs]:
        """Yields the descriptor of `stream`. Ignores `meter`, because the body counts the entries that it reads."""
        with self.stream() as descriptor:
            yield [descriptor]

    @contextmanager
    def stream(self) -> Iterator[int]:
        """Yields a descriptor from which the tree can be read once. After the body, raises the generator's error."""

        def generate(descriptor: int) -> None:
            write(self.compiled, whole(self.compiled), descriptor, defaults.processors(), Meter("template"))

        with piped(generate, "template") as (descriptor, _):
            yield descriptor
