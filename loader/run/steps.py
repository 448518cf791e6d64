"""A run is a list of named steps; each is done once, and says what it found.

    run.do("export", lambda meter: export_entries(..., meter))

An operation reads as such a list. After `kill -9` the same list is read again and finished steps are skipped.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from msgspec.structs import replace

from loader import naming, units
from loader.errors import FULL_ERRNOS, NoSpace, NotPermitted, keeps_run_directory
from loader.progress import Meter, Progress
from loader.run import live
from loader.run.catalogue import Catalogue, Facts, forget
from loader.run.killpoint import killpoint
from loader.run.live import Live
from loader.run.lock import exclusive
from loader.run.watch import watching
from loader.storage import held

log = logging.getLogger(__name__)


@dataclass
class Run:
    """One run in its directory, which is private and held open (loader/storage/held.py). `timeouts`: seconds a step may
    be silent, by name ("*" for all). `label`: what tells it from the others that work at the same."""

    catalogue: Catalogue
    progress: Progress
    timeouts: Mapping[str, float] = field(default_factory=dict)
    label: str = ""
    worked: bool = False  # has it done anything now, or found it all done before?
    live: Live = field(default_factory=Live)

    @property
    def directory(self) -> Path:
        """Through its descriptor: what is put here cannot be led elsewhere."""
        return self.catalogue.directory

    @property
    def name(self) -> Path:
        """As the operator knows it."""
        return Path(naming.with_operator_paths(str(self.directory)))

    def do(self, name: str, work: Callable[[Meter], Facts], total: int | None = None) -> Facts:
        """Do a step unless it is done; either way its facts.

        A kill at `NAME.start` or in the work: the step is done again. At `NAME.unrecorded`: done again, so work
        must be repeatable. At `NAME.recorded`: it is not done again.
        """
        known = self.catalogue.found(name)
        if known is not None:
            self.progress.passed_over(self._shown(name))
            return known
        self.worked = True
        killpoint(f"{name}.start")
        allowed = self.timeouts.get(name, self.timeouts.get("*"))
        with self.progress.step(self._shown(name), total) as meter:
            note = partial(self._note_step, name, meter)
            note()
            with watching(meter, allowed, note):
                facts = naming.told(work(meter))
        killpoint(f"{name}.unrecorded")
        self.catalogue.finish(name, facts, meter.entries, meter.seconds)
        killpoint(f"{name}.recorded")
        return facts

    def note(self, now: Live) -> None:
        """For whoever asks from outside what the run is doing."""
        self.live = now
        live.write(self.directory, now)

    def _note_step(self, name: str, meter: Meter) -> None:
        self.note(Live(name, meter.entries, meter.total, meter.seconds))

    def told_before(self) -> Facts:
        """For the report of a verb: when all of it was done, if nothing was done now."""
        ended = None if self.worked else self.catalogue.ended()
        return {} if ended is None else {"done_before": units.moment(ended)}

    def _say_whether_it_worked(self) -> None:
        """Else the report of months ago would pass for one of today."""
        told = self.told_before()
        if told and not self.label:
            log.warning(
                "nothing was done now: all this was done on %s (--restart does it again; %s remembers it)",
                told["done_before"],
                self.directory,
            )

    def _shown(self, name: str) -> str:
        return f"{name} ({self.label})" if self.label else name


@contextmanager
def open_run(
    directory: Path,
    verb: str,
    options: Mapping[str, object],
    progress: Progress,
    timeouts: Mapping[str, float] | None = None,
    restart: bool = False,
    label: str = "",
    resumable: bool = True,
) -> Iterator[Run]:
    """Lock the run directory and go on with what stands there, or begin. resumable: the same command goes on with a run
    that fails.

    Raises Locked, RunMismatch (an unfinished run with other `options`), CatalogueVersion.
    """
    with ExitStack() as stack:
        home = stack.enter_context(_made(directory))
        try:
            with exclusive(home.path / "lock"):
                log.info("run directory: %s", home.name)
                if restart:
                    forget(home.path)
                with closing(Catalogue(home.path)) as catalogue:
                    if catalogue.begin(verb, options):
                        progress.say(f"going on with the run in {home.name}")
                    run = Run(catalogue, progress, timeouts or {}, label)
                    run.note(Live())
                    try:
                        yield run
                    except BaseException as error:
                        if resumable:
                            keeps_run_directory(error)
                        failure = live.failure_of(error, home.name)
                        run.note(replace(run.live, failure=failure))
                        raise
                    run._say_whether_it_worked()
                    run.note(Live(done=True))
        except BaseException as error:
            if resumable:
                keeps_run_directory(error)
            if resumable and _is_full(error):
                with suppress(OSError):  # a file that goes meanwhile must not hide what went wrong
                    _tell_what_is_ours(home)
            raise


def _is_full(error: BaseException) -> bool:
    full = isinstance(error, OSError) and error.errno in FULL_ERRNOS
    return full or isinstance(error, NoSpace)


def _tell_what_is_ours(home: held.Directory) -> None:
    """What a run leaves behind keeps a full disk full."""
    size = sum(path.lstat().st_blocks * 512 for path in home.path.rglob("*"))
    log.warning(
        "%s of that disk are this run's own, in %s: the same command goes on with them; to free them, remove "
        "that directory",
        units.size(size),
        home.name,
    )


@contextmanager
def _made(directory: Path) -> Iterator[held.Directory]:
    with ExitStack() as stack:
        try:
            home = stack.enter_context(held.private(directory))
        except PermissionError as error:
            raise NotPermitted(action="make", path=directory, owner="root") from error
        yield home
