"""Strategy clone: a hot copy of an existing database, in use or not, stamped with the contextCSN it stands for.

A running provider stores its contextCSN only now and then (syncprov-checkpoint) and at its end, so what lies in the
copy is old. The contextCSN asked of the provider *before* the copy began is covered by the copy: every change up to it
was committed when it was told.
"""

from __future__ import annotations

from functools import cached_property

from loader import dn, glue
from loader.errors import GlueRefused, LoaderError, NoSuchSuffix
from loader.mdb import contents, meta
from loader.mdb.meta import DATA
from loader.operations import made_with
from loader.operations.made_with import Fit, Origin
from loader.progress import Meter, Progress
from loader.run.log import Facts
from loader.run.steps import Run
from loader.server import configuration
from loader.server.session import session
from loader.storage import files
from seeders.replica.strategies import SeedOptions
from seeders.replica.strategies.cloning import CloneSteps
from seeders.replica.strategies.converting import (
    COMPARE,
    CONVERTED,
    TOLD,
    Conversion,
    ConvertingSteps,
)
from seeders.replica.strategies.stopped import TAKES, StoppedConsumer

_ANEW = (
    "Make the database anew from the entries: --strategy search, or --strategy ldif with the output of "
    "`ditseed export DATABASE-DIRECTORY`."
)


class Clone(StoppedConsumer):
    takes = TAKES | {"source"}
    steps = ("preflight", "schema", "copy", COMPARE, "stamp", "index", "check", "publish")

    def __init__(self, options: SeedOptions) -> None:
        super().__init__(options)
        if len(options.source) != 1:
            self._lacks("one --from: a database directory")
        (self.source,) = options.source

    @cached_property
    def conversion(self) -> Conversion:
        return Conversion(self.options, self.place, self.source)

    def require_buildable(self) -> None:
        """A clone is of one database, and nothing tells whether copies of several are of the same moment."""
        for one in glue.subordinates(self.place.config, self.place.database):
            reason = f"the database of {one.suffix} holds a part of the same tree, and a clone is of one database"
            advice = "Use --strategy search or ldif."
            suffix = self.place.database.suffix
            raise GlueRefused(suffix=suffix, reason=reason, advice=advice)

    def estimate(self, progress: Progress) -> Facts:
        with progress.step("schema") as meter:
            found = self.fit(meter)
        if self.conversion.is_needed:
            return self.conversion.estimate(progress)
        size = files.allocated_bytes(self.source / DATA)
        files.require_space(self.place.directory, size)
        return {"bytes": size, "indexed": list(found.rebuild)}

    def fit(self, meter: Meter) -> Fit:
        """The consumer must know what the entries use, and have made them so itself, unless they are converted. Raises
        NoSuchSuffix, SchemaMissing, MadeOtherwise, NotProven."""
        path, config = meta.data_file(self.source), self.place.config
        self.require_suffix()
        found = made_with.look(self.source, config, self.place.database, meter, self._origin())
        if self.conversion.is_needed:
            self.conversion.require()
            found = Fit(unknown=found.unknown, entries=found.entries)
        found.require(path, config, _ANEW)
        return found

    def _origin(self) -> Origin | None:
        """The configuration of the server whose database this is, as far as the account may read it."""
        if self.options.connection is None:
            return None
        try:
            with session(self.options.connection) as provider:
                config = configuration.read_online(provider)
            return Origin(config, config.database(self.place.database.suffix))
        except LoaderError:
            return None

    def require_suffix(self) -> None:
        """Is the tree in that database at all? Raises NoSuchSuffix."""
        suffix = self.place.database.suffix
        known = contents.summarise(self.source, newest=False).suffixes
        if dn.key(suffix) and dn.key(suffix) not in map(dn.key, known):
            there = ", ".join(known) or "none"
            raise NoSuchSuffix(config=self.source, suffix=suffix, known=there)

    def schema(self, meter: Meter) -> Facts:
        found = self.fit(meter)
        converts = {CONVERTED: self.conversion.told} if self.conversion.is_needed else {}
        return {"rebuild": list(found.rebuild), "looked_at": found.entries, **converts}

    def fill(self, run: Run) -> Facts:
        looked = run.do("schema", self.schema)
        steps = ConvertingSteps if CONVERTED in looked else CloneSteps
        work = steps(self.options, self.place, self.source, run)
        copied = work.copied()
        stamped = run.do("stamp", work.stamp)
        indexed = run.do("index", work.index)
        checked = run.do("check", work.check)
        published = run.do("publish", lambda meter: work.publish(copied, checked))
        found = {**looked, **copied}
        converted = {name: found[name] for name in TOLD if name in found}
        return {**checked, **stamped, **indexed, **converted, **published}
