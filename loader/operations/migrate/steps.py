"""The bodies of the steps of a migration. Each can be done again from its beginning."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from loader import ldif, naming, resources, units
from loader.defaults import DYNAMIC_ATTRIBUTES
from loader.errors import EntryRefused, MadeOtherwise, MdbDamaged, NotProven, SchemaMissing
from loader.mdb import contents, meta, snapshot
from loader.operations import compare as comparing
from loader.operations import schema
from loader.operations.build.made_for import made_for
from loader.operations.build.native import NativeSteps
from loader.operations.build.options import BuildOptions
from loader.operations.migrate.options import MigrateOptions
from loader.operations.publish import TargetDatabase, head_digest
from loader.piped import piped
from loader.progress import Meter
from loader.run.log import Facts
from loader.run.steps import Run
from loader.sources import mdb
from loader.sources.comparable import Database
from loader.sources.configured import ConfiguredDatabase
from loader.sources.mdb import Part

# Among the facts of the step `load`.
SOURCE, MADE_FOR = "source_as_read", "made_for"
AGAIN = "made_again"  # why entries could not be copied as they are stored
_SHOWN = 10  # names in a message
_COMPLETED = (*comparing.SERVER_ATTRIBUTES, *DYNAMIC_ATTRIBUTES)


def state_of(source: Path) -> list[int | str]:
    """Of a data file: another one whenever it was written to, by LMDB or by anything else."""
    data = meta.data_file(source)
    status, head = data.stat(), head_digest(data, 2 * meta.read_meta(data).page_size)
    return [status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, head]


@dataclass(frozen=True)
class MigrateSteps:
    options: MigrateOptions
    run: Run
    place: TargetDatabase

    @cached_property
    def building(self) -> NativeSteps:
        return NativeSteps(self.build_options, self.run, self.place)

    @cached_property
    def build_options(self) -> BuildOptions:
        return self.options.building(self.place)

    def load(self, meter: Meter) -> Facts:
        """One snapshot of the source. Its records are copied as they are, unless the new slapd would store an entry
        otherwise: then the entries are made again."""
        state = state_of(self.options.source)
        try:
            found = self._copied(meter)
        except NotProven as error:
            found = {**self._made_again(meter), AGAIN: str(error.facts["reason"])}
        made = made_for(self.place.config, self.place.database, self.build_options)
        return {**found, SOURCE: state, MADE_FOR: made}

    def _copied(self, meter: Meter) -> Facts:
        with snapshot.held(self.options.source) as held:
            made = self.building.transfer(meter, held)
        context_csns = contents.summarise(self.building.made, newest=False).context_csns
        return {**made, "context_csns": list(context_csns), "late": 0}

    def _made_again(self, meter: Meter) -> Facts:
        """Entries are read by one native call and written by another."""
        inner = Meter("read")

        def read(descriptor: int) -> mdb.Exported:
            jobs = self.options.jobs or resources.processors()
            scratch = self.options.scratch or Path(tempfile.gettempdir())
            return mdb.stream(self.options.part, descriptor, False, jobs, inner, scratch)

        with meter.cancelling(inner.cancel), piped(read, "read") as (descriptor, reading):
            made = self._make(meter, descriptor)
        found, completed = reading.result(), made.pop("completed")
        return {
            **made,
            "in_source": found.entries,
            "checksum": _sum(found.checksum, completed),
            "context_csns": list(found.context_csns),
            "late": found.late,
        }

    def _make(self, meter: Meter, descriptor: int) -> Facts:
        try:
            return self.building.make(meter, [descriptor], None, account=True)
        except EntryRefused as error:
            self._require_schema()
            raise MadeOtherwise(
                path=self.options.source,
                config=self.place.config.path,
                reason=error,
                advice="Correct that entry in the old server, or the new configuration (schema, multival, dbpagesize); "
                f"the entry is in {naming.with_operator_paths(str(self.building.rejects))}.",
            ) from error

    def _require_schema(self) -> None:
        """Name all that the old database uses and the new configuration lacks. Raises SchemaMissing."""
        found = ldif.scan([self.building.rejects], Meter("schema"))
        lacking = self.lacking(used(self.options.source), list(found.object_classes))
        if lacking:
            more = [f"and {len(lacking) - _SHOWN} more"] if len(lacking) > _SHOWN else []
            named = ", ".join([*lacking[:_SHOWN], *more])
            raise SchemaMissing(config=self.place.config.path, names=named)

    def lacking(self, attributes: Sequence[str], classes: Sequence[str]) -> list[str]:
        """Names that the new configuration does not know."""
        return schema.unknown_names(self.place, attributes, classes, self.run.directory)

    def compare(self, meter: Meter, loaded: Facts) -> Facts:
        """Every entry of the new database against what was read of the old one: number and checksum of all that they
        hold, in whatever order, and what slapadd adds to them or leaves out; or every record, where they were copied.
        Raises MdbDamaged."""
        if loaded.get("records"):
            if self.building.records_checksum(meter) != loaded["records"]:
                raise self._differing(loaded)
            return {"compared": "equal"}
        made = self.building.made
        with ldif.digesting((), meter) as tree:
            mdb.digest(Part(made), tree, meter)
        if (tree.entries, tree.checksum) != (loaded["in_source"], loaded["checksum"]):
            raise self._differing(loaded)
        return {"compared": "equal"}

    def _differing(self, loaded: Facts) -> MdbDamaged:
        """With the names of entries and attributes that differ."""
        made, source = self.building.made, self.options.source
        a, b = (Database(ConfiguredDatabase(one)) for one in (source, made))
        for ignore in (_COMPLETED, ()):  # what slapadd adds is told only where nothing else differs
            asked = comparing.CompareOptions(a, b, ignore, show_attributes=True, limit=_SHOWN)
            found = comparing.compare(asked, self.run.progress)
            if not found.equal:
                break
        shown = "; ".join(
            f"{one.dn} ({', '.join(one.attributes or (one.kind,))})" for one in found.samples
        )
        moved = state_of(source) != loaded[SOURCE]
        since = ", which was written to since it was read" if moved else ""
        differing = units.number(found.only_a + found.only_b + found.changed)
        return MdbDamaged(
            path=made, reason=f"it differs from {source}{since} in {differing} entries: {shown}"
        )


def used(source: Path) -> list[str]:
    """Attribute descriptions that the database has, or once had."""
    return list(contents.attributes(source))


def _sum(one: str, other: str) -> str:
    """Of two checksums of trees."""
    total = (int(one, 16) + int(other, 16)) % 2**128
    return f"{total:032x}"
