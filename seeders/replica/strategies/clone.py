"""Strategy clone: a hot copy of an existing database, in use or not, stamped with the contextCSN it stands for.

A running provider stores its contextCSN only now and then (syncprov-checkpoint) and at its end, so what lies in the
copy is old. The contextCSN asked of the provider *before* the copy began is covered by the copy: every change up to it
was committed when it was told.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from loader import csn
from loader.errors import NoContextCSN, UsageProblem
from loader.mdb import context_csn, copy, environment, meta, names, verify
from loader.mdb.hold_back import cap_entry_csns
from loader.mdb.meta import DATA
from loader.operations import indexing, schema
from loader.operations.estimate import choose_maxsize
from loader.operations.publish import TargetDatabase, publish_environment
from loader.operations.target import require_readable_format
from loader.progress import Meter
from loader.run.catalogue import Facts
from loader.run.killpoint import killpoint
from loader.run.steps import Run
from loader.storage import files
from seeders.replica.seed import SeedOptions, needs_source


def run(options: SeedOptions, run: Run, place: TargetDatabase) -> Facts:
    work = _CloneSteps(options, run, place)
    run.do("schema", work.schema)
    copied = run.do("copy", work.copy)
    stamped = run.do("stamp", work.stamp)
    run.do("index", work.index)
    checked = run.do("check", work.check)
    published = run.do("publish", lambda meter: work.publish(copied, checked))
    return {**checked, **stamped, **published}


class _CloneSteps:
    """The steps' bodies. Each can be done again from its beginning."""

    def __init__(self, options: SeedOptions, run: Run, place: TargetDatabase) -> None:
        sources = needs_source(options)
        if len(sources) != 1:
            raise UsageProblem(reason="--strategy clone takes one --from: a database directory")
        self.source: Path = sources[0]
        self.options, self.run, self.place = options, run, place
        self.suffix = place.database.suffix
        self.made = run.directory / "environment"

    def schema(self, meter: Meter) -> Facts:
        """The consumer must open the file, and know every attribute that the copied entries use."""
        require_readable_format(meta.data_file(self.source), meta.read_meta(self.source).format)
        used = {name.partition(";")[0] for name in names.attributes(self.source)}
        first = {name.lower(): (str(self.source), 0) for name in sorted(used)}
        schema.require_known(self.place, first, {}, self.run.directory)
        return {}

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
        return {"indexed": indexing.add_missing(self.place, self.made, self.run.directory)}

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
