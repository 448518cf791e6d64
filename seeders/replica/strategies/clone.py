"""Strategy clone: a hot copy of an existing database, in use or not, stamped with the contextCSN it stands for.

A running provider stores its contextCSN only now and then (syncprov-checkpoint) and at its end, so what lies in the
copy is old. The contextCSN asked of the provider *before* the copy began is covered by the copy: every change up to it
was committed when it was told.
"""

from __future__ import annotations

from collections.abc import Mapping

from loader import csn, dn, glue
from loader.errors import GlueRefused, LoaderError, NoContextCSN, NoSuchSuffix
from loader.mdb import context_csn, copy, environment, look, meta, verify
from loader.mdb.hold_back import cap_entry_csns
from loader.mdb.meta import DATA
from loader.operations import indexing, made_with
from loader.operations.estimate import choose_maxsize
from loader.operations.made_with import Fit, Origin
from loader.operations.publish import publish_environment
from loader.operations.target import require_readable_format
from loader.progress import Meter, Progress
from loader.run.catalogue import Facts
from loader.run.killpoint import killpoint
from loader.run.steps import Run
from loader.server import configuration
from loader.server.session import session
from loader.storage import files
from seeders.replica.strategies import SeedOptions
from seeders.replica.strategies.stopped import TAKES, StoppedConsumer

_ANEW = (
    "Make the database anew from the entries: --strategy search, or --strategy ldif with the output of "
    "`ditseed export DATABASE-DIRECTORY`."
)


class Clone(StoppedConsumer):
    takes = TAKES | {"source"}
    steps = ("preflight", "schema", "copy", "stamp", "index", "check", "publish")

    def __init__(self, options: SeedOptions) -> None:
        super().__init__(options)
        if len(options.source) != 1:
            self._lacks("one --from: a database directory")
        (self.source,) = options.source

    def require_buildable(self) -> None:
        """A clone is of one database, and nothing tells whether copies of several are of the same moment."""
        for one in glue.subordinates(self.place.config, self.place.database):
            reason = f"the database of {one.suffix} holds a part of the same tree, and a clone is of one database"
            advice = "Use --strategy search or ldif."
            suffix = self.place.database.suffix
            raise GlueRefused(suffix=suffix, reason=reason, advice=advice)

    def estimate(self, progress: Progress) -> Facts:
        size = files.allocated_bytes(self.source / DATA)
        files.require_space(self.place.directory, size)
        with progress.step("schema") as meter:
            found = self.fit(meter)
        return {"bytes": size, "indexed": list(found.rebuild)}

    def fit(self, meter: Meter) -> Fit:
        """The consumer must open the file, know what the entries use, and have made them so itself. Raises OtherFormat,
        NoSuchSuffix, SchemaMissing, MadeOtherwise."""
        path, config = meta.data_file(self.source), self.place.config
        require_readable_format(path, meta.read_meta(self.source).format)
        self.require_suffix()
        found = made_with.look(self.source, config, self.place.database, meter, self._origin())
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
        known = look.summarise(self.source, newest=False).suffixes
        if dn.key(suffix) and dn.key(suffix) not in map(dn.key, known):
            there = ", ".join(known) or "none"
            raise NoSuchSuffix(config=self.source, suffix=suffix, known=there)

    def fill(self, run: Run) -> Facts:
        work = _CloneSteps(self, run)
        run.do("schema", work.schema)
        copied = run.do("copy", work.copy)
        stamped = run.do("stamp", work.stamp)
        indexed = run.do("index", work.index)
        checked = run.do("check", work.check)
        published = run.do("publish", lambda meter: work.publish(copied, checked))
        return {**checked, **stamped, **indexed, **published}


class _CloneSteps:
    """The steps' bodies. Each can be done again from its beginning."""

    def __init__(self, strategy: Clone, run: Run) -> None:
        self.strategy = strategy
        self.source, self.place, self.options = strategy.source, strategy.place, strategy.options
        self.suffix, self.run = self.place.database.suffix, run
        self.made = run.directory / "environment"

    def schema(self, meter: Meter) -> Facts:
        found = self.strategy.fit(meter)
        return {"rebuild": list(found.rebuild), "looked_at": found.entries}

    def copy(self, meter: Meter) -> Facts:
        files.remove_tree(self.made)
        self.made.mkdir(mode=0o700)
        facts = meta.read_meta(self.source)
        maxsize = choose_maxsize(self.place, facts.pages * facts.page_size, self.options.maxsize)
        copy.hot_copy(self.source, self.made, meter)
        killpoint("copy.middle")
        files.publish(self.made / copy.PARTIAL, self.made / DATA)
        return {"maxsize": maxsize}

    def stamp(self, meter: Meter) -> Facts:
        preflight = self.run.catalogue.found("preflight") or {}
        live = csn.by_server(preflight.get("context_csns", []))
        stored = csn.by_server(context_csn.stored(self.made, self.suffix))
        known = claimable_context_csn(
            live, stored, context_csn.newest(self.made, self.suffix, whole=False)
        )
        if not known:
            advice = "Give -H (and -D, -y) of the server whose database this is, to ask it before the copy."
            raise NoContextCSN(where=self.source, suffix=self.suffix, advice=advice)
        claimed = sorted(known.values())
        held = cap_entry_csns(self.made, claimed, meter)
        context_csn.stamp(self.made, self.suffix, claimed)
        return {"context_csns": claimed, "held_back": held}

    def index(self, meter: Meter) -> Facts:
        """slapd trusts that the file has the indexes of its configuration; where they differ, make them so."""
        told = (self.run.catalogue.found("schema") or {}).get("rebuild", [])
        made = indexing.rebuild(self.place, self.made, told, self.run.directory, meter)
        return {"indexed": told, **({"index_notes": list(made.notes)} if made.notes else {})}

    def check(self, meter: Meter) -> Facts:
        verify.verify(self.made, self.options.verify, meter)
        return {
            "entries": environment.entry_count(self.made),
            "identity": files.identity(self.made / DATA),
        }

    def publish(self, copied: Facts, checked: Facts) -> Facts:
        counts = (checked["entries"], copied["maxsize"])
        published = publish_environment(self.made, self.place, checked, *counts)
        files.remove_tree(self.made)
        return published


def claimable_context_csn(
    live: Mapping[str, str], stored: Mapping[str, str], newest: Mapping[str, str]
) -> dict[str, str]:
    """The contextCSN a copy may claim. Claiming less costs a little more replication, claiming more loses changes: what
    the provider told counts only as far as the copy's own entries reach (it might be of another, slower server)."""
    known = dict(stored)
    for sid, told in live.items():
        reached = min(told, newest[sid]) if sid in newest else None
        if reached is not None and reached > known.get(sid, ""):
            known[sid] = reached
    return known
