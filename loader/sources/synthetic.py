"""Source: the tree of a template, made while it is read."""

from __future__ import annotations

import dataclasses
import fcntl
import os
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property

from loader import resources
from loader.progress import Meter
from loader.sources import Inputs, dit
from loader.sources.dit import Template, TreeSpec

MOMENT = "20260101000000Z"  # what a build of such a tree takes for its time, so that it can be made again
_PIPE = 1 << 20  # bytes, the most that Linux gives everybody


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
        reading, writing = os.pipe()
        with suppress(OSError):  # more of it than a user may have: then it stays small
            fcntl.fcntl(writing, fcntl.F_SETPIPE_SZ, _PIPE)
        with ThreadPoolExecutor(1, "template") as pool:
            making = pool.submit(self._write, writing)
            try:
                yield reading
            finally:
                os.close(reading)
            with suppress(BrokenPipeError):  # the reader had enough, and knows why
                making.result()

    def _write(self, descriptor: int) -> None:
        meter, jobs = Meter("template"), resources.processors()
        try:
            dit.write(self.compiled, dit.whole(self.compiled), descriptor, jobs, meter)
        finally:
            os.close(descriptor)
