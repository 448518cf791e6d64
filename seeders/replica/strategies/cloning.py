"""The bodies of the steps of a seeding by clone: a copy, the contextCSN that it stands for, and its indexes."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from loader import backmdb, csn
from loader.errors import NoContextCSN
from loader.mdb import contents, copy, edits, meta, verify
from loader.mdb.edits import cap_entry_csns
from loader.mdb.meta import DATA
from loader.operations import indexing
from loader.operations.estimate import choose_maxsize
from loader.operations.publish import TargetDatabase, publish_environment
from loader.progress import Meter
from loader.run.log import Facts, killpoint
from loader.run.steps import Run
from loader.storage import files
from seeders.replica.strategies import SeedOptions


class CloneSteps:
    """The steps' bodies. Each can be done again from its beginning."""

    def __init__(self, options: SeedOptions, place: TargetDatabase, source: Path, run: Run) -> None:
        self.options, self.place, self.source, self.run = options, place, source, run
        self.suffix, self.made = place.database.suffix, run.directory / "environment"

    def copied(self) -> Facts:
        return self.run.do("copy", self.copy)

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
        stored = csn.by_server(contents.context_csns(self.made, self.suffix))
        known = claimable_context_csn(
            live, stored, contents.newest_csns(self.made, self.suffix, whole=False)
        )
        if not known:
            advice = "Give -H (and -D, -y) of the server whose database this is, to ask it before the copy."
            raise NoContextCSN(where=self.source, suffix=self.suffix, advice=advice, commands=())
        claimed = sorted(known.values())
        held = cap_entry_csns(self.made, claimed, backmdb.idlexp(self.place.config), meter)
        edits.stamp(self.made, self.suffix, claimed)
        return {"context_csns": claimed, "held_back": held}

    def index(self, meter: Meter) -> Facts:
        """slapd trusts that the file has the indexes of its configuration; where they differ, make them so."""
        told = (self.run.catalogue.found("schema") or {}).get("rebuild", [])
        made = indexing.rebuild(self.place, self.made, told, self.run.directory, meter)
        return {"indexed": told, **({"index_notes": list(made.notes)} if made.notes else {})}

    def check(self, meter: Meter) -> Facts:
        verify.verify(self.made, self.options.verify, meter)
        verify.require_unique_uuids(self.made, meter, self.run.directory)
        return {
            "entries": contents.entry_count(self.made),
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
