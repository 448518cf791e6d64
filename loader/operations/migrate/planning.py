"""What a migration would do, found out without writing to either directory: a sample of the entries is built apart."""

from __future__ import annotations

import dataclasses
import os
import time
from dataclasses import dataclass
from pathlib import Path

from loader import ldif
from loader.errors import LoaderError, MissingParents
from loader.mdb import meta
from loader.mdb.look import DatabaseSummary
from loader.operations import estimate
from loader.operations.migrate.options import MigrateOptions
from loader.operations.migrate.steps import MigrateSteps, used
from loader.operations.publish import TargetDatabase
from loader.piped import piped
from loader.progress import Meter, Progress
from loader.run.catalogue import Facts
from loader.run.steps import open_run
from loader.server import configuration
from loader.sources import mdb
from loader.sources.mdb import Part
from loader.storage import files, temporary

_SAMPLE = 32 << 20  # bytes of LDIF: some 60,000 entries, a second or two


@dataclass(frozen=True)
class Sample:
    """The first entries, built. size: bytes of their database. seconds: to build them and to read them again."""

    entries: int
    size: int
    seconds: float


def plan(
    options: MigrateOptions,
    place: TargetDatabase,
    source: DatabaseSummary,
    progress: Progress,
    strict: bool = False,
) -> Facts:
    """Time and room, and what would be refused; `strict`: that is raised. Raises NotProven for a configuration that the
    core does not follow."""
    place.require_free()
    with (
        temporary.directory("plan", configuration.tools_tmpdir()) as scratch,
        open_run(Path(scratch), "plan", {}, progress) as run,
    ):
        work = MigrateSteps(options, run, place)
        run.do("config", work.building.config)
        lacking = work.lacking(used(options.source), [])
        with progress.step("sample") as meter:
            foreseen = _foreseen(work, source.entries, meter, strict)
    return {"lacking": lacking, "free": files.free_bytes(place.directory), **foreseen}


def _foreseen(work: MigrateSteps, entries: int, meter: Meter, strict: bool) -> Facts:
    """None is foreseen where the first entries cannot stand alone, or are refused."""
    facts: Facts = {"problems": [], "seconds": None, "needed": None, "maxsize": None}
    text, is_all = _first_records(work.options)
    try:
        found = _sample(work, text, meter)
        share = entries / found.entries
        margin = estimate.MARGIN if share > 1 else 1
        facts["seconds"] = round(found.seconds * share, 1)
        facts["needed"] = round(found.size * share * margin)
        facts["maxsize"] = work.place.database.maxsize
        changing = work.build_options.target is None
        maxsize = work.options.maxsize
        facts["maxsize"] = estimate.choose_maxsize(work.place, facts["needed"], maxsize, changing)
    except LoaderError as error:
        if isinstance(error, MissingParents) and not is_all:
            return facts  # an entry was moved below one that is younger
        if strict:
            raise
        facts["problems"] = [str(error)]
    return facts


def _sample(work: MigrateSteps, text: bytes, meter: Meter) -> Sample:
    """With as large a map as it takes."""
    work = dataclasses.replace(work, options=dataclasses.replace(work.options, maxsize="auto"))
    began = time.monotonic()
    with piped(lambda descriptor: _write(text, descriptor), "sample") as (descriptor, _):
        made = work.building.make(meter, [descriptor], None)
    with ldif.digesting((), Meter("digest")) as tree:
        mdb.digest(Part(work.building.made), tree, Meter("digest"))
    seconds = time.monotonic() - began
    return Sample(made["entries"], meta.read_meta(work.building.made).used, seconds)


def _write(text: bytes, descriptor: int) -> None:
    with os.fdopen(os.dup(descriptor), "wb") as file:
        file.write(text)


def _first_records(options: MigrateOptions) -> tuple[bytes, bool]:
    """Whole records, from the beginning of the database; are these all?"""

    def write(descriptor: int) -> mdb.Exported:
        return mdb.stream(options.part, descriptor, False, options.jobs or 1, Meter("sample"))

    with piped(write, "sample") as (descriptor, _), os.fdopen(os.dup(descriptor), "rb") as file:
        text = file.read(_SAMPLE)
    is_all = len(text) < _SAMPLE
    return text if is_all else text[: text.rfind(b"\n\n") + 2], is_all
