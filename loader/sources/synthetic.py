"""Source: the tree of a template, made while it is read."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property

from loader import resources
from loader.piped import piped
from loader.progress import Meter
from loader.sources import Inputs, dit
from loader.sources.dit import Template, TreeSpec

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
        """The same tree elsewhere. A template of makeldif may know its own place only, so that is not named again."""
        if self.compiled.suffix == suffix:
            return self
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
        dit.write(self.compiled, dit.whole(self.compiled), descriptor, jobs, meter)
