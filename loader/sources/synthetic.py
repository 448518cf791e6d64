"""Source: the tree of a template, made while it is read.

Templates by name come from the packages that ship some: entry points `ditseed.templates` of setup.cfg, so that loader
does not import seeders.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property

from loader import resources
from loader.errors import LdifUnreadable, LoaderError
from loader.progress import Meter
from loader.sources import dit
from loader.sources.dit import Template

MOMENT = "20260101000000Z"  # what a build of such a tree takes for its time, so that it can be made again
_PIPE = 1 << 20  # bytes, the most that Linux gives everybody


@dataclass(frozen=True)
class Synthetic:
    """Which tree: the same values are the same bytes, on every machine.

    template: a name or a path. suffix: None is the template's own. defines: "NAME=VALUE" each.
    """

    template: str
    entries: int | None = None
    seed: int = 1
    suffix: str | None = None
    defines: tuple[str, ...] = ()
    operational: bool = False

    @cached_property
    def compiled(self) -> Template:
        """Raises NoSuchTemplate, TemplateError."""
        return dit.load(
            self.template,
            seed=self.seed,
            suffix=self.suffix,
            entries=self.entries,
            defines=self.defines,
            operational=self.operational,
        )

    def identity(self) -> dict[str, object]:
        """What decides the bytes."""
        return {
            "template": self.compiled.fingerprint,
            "entries": self.compiled.entries,
            "seed": self.seed,
            "suffix": self.compiled.suffix,
            "operational": self.operational,
        }

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
            _finish(making)

    def _write(self, descriptor: int) -> None:
        try:
            jobs = resources.processors()
            self.compiled.write(descriptor, 0, self.compiled.entries, jobs, Meter("template"))
        finally:
            os.close(descriptor)


def _finish(making: Future[None]) -> None:
    """Raise what went wrong, unless it is that the reader had enough."""
    error = making.exception()
    if isinstance(error, LdifUnreadable | BrokenPipeError):
        return
    if isinstance(error, LoaderError):
        raise error
    making.result()
