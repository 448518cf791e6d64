"""What a migration would do, found out without writing to either directory: a sample of the entries is built apart."""

from __future__ import annotations

import dataclasses
import os
import time
from dataclasses import dataclass
from pathlib import Path

from loader import ldif
from loader.errors import EmptyInput, LoaderError, MissingParents, NotProven
from loader.mdb import contents, meta, readers
from loader.mdb.contents import DatabaseSummary
from loader.operations import estimate
from loader.operations.build import native
from loader.operations.migrate.options import MigrateOptions
from loader.operations.migrate.steps import MigrateSteps, used
from loader.operations.publish import TargetDatabase
from loader.operations.sizing import sampled
from loader.operations.sizing.model import BY_KEYS
from loader.piped import piped
from loader.progress import Meter, Progress
from loader.run.log import Facts
from loader.run.steps import open_run
from loader.server import configuration
from loader.sources import mdb, sampling
from loader.sources.mdb import Part
from loader.sources.sampling import SampleSize
from loader.storage import files, temporary

_SIZE = SampleSize(10_000, 0.0)
_ALIKE = 0.1  # by so much of it may the pages of entries be others than the sample tells
_LARGEST = 8  # times the old database: no new one takes more, with indexes that the old one has not
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


def require_room(options: MigrateOptions, place: TargetDatabase, meter: Meter) -> None:
    """Before the first entry is read. Raises MaxsizeTooSmall, NoSpace."""
    limits = native.limits_of(options.building(place), place)
    if meta.read_meta(options.source).used * _LARGEST > limits.least():
        limits.require(needed(options, place, meter))


def needed(options: MigrateOptions, place: TargetDatabase, meter: Meter) -> int:
    """Bytes of the new database, from a sample of the entries. If the old one has other pages of entries than the
    sample tells, a few large entries decide: then the new one has what the old one uses, but for the indexes that
    differ."""
    facts, freed = readers.free_list(options.source)
    in_use = facts.used - sum(freed.values()) * facts.page_size
    try:
        target = native.target_of(options.building(place), place)
        sample = sampling.of_database(options.source, _SIZE, meter)
        with temporary.directory("sample", configuration.tools_tmpdir()) as scratch:
            found = sampled.forecast(sample, target, scratch, meter, timed=0.0)
    except (NotProven, EmptyInput):
        return in_use
    if target.settings.page_size != facts.page_size:
        return found.bytes
    old = contents.table_bytes(options.source)
    indexes = {one.name: one.bytes for one in found.tables if one.how == BY_KEYS}
    (entries,) = (one.bytes for one in found.tables if one.name == "id2e")
    if abs(entries - old["id2e"]) < _ALIKE * old["id2e"]:
        return found.bytes - entries + old["id2e"]
    added = sum(size for name, size in indexes.items() if name not in old)
    dropped = sum(old[name] for name in contents.indexes(options.source) if name not in indexes)
    return in_use + added - dropped


def _foreseen(work: MigrateSteps, entries: int, meter: Meter, strict: bool) -> Facts:
    """None is foreseen where the first entries cannot stand alone, or are refused."""
    facts: Facts = {"problems": [], "seconds": None, "needed": None, "maxsize": None}
    text, is_all = _first_records(work.options)
    try:
        found = _sample(work, text, meter)
        share = entries / found.entries
        facts["seconds"] = round(found.seconds * share, 1)
        facts["needed"] = needed(work.options, work.place, Meter("room"))
        facts["maxsize"] = work.place.database.maxsize
        changing = work.build_options.target is None
        maxsize = work.options.maxsize
        facts["maxsize"] = estimate.choose_maxsize(work.place, facts["needed"], maxsize, changing)
        native.limits_of(work.build_options, work.place).require(facts["needed"])
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
