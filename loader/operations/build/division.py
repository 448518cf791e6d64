"""An LDIF divided among databases that are glued together: a file for each of them, in the superior's run directory."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from loader import exports
from loader.errors import EmptyInput, GlueRefused, NotProven
from loader.operations.build import finish, inputs
from loader.operations.build.options import BuildOptions
from loader.operations.publish import TargetDatabase
from loader.operations.target import holds_entries
from loader.progress import Meter
from loader.run.log import Facts, killpoint
from loader.run.steps import Run
from loader.sinks import mdb
from loader.sinks.configured import schema_of
from loader.sinks.mdb import SplitTarget
from loader.storage import files

HOME = "split"  # in the run directory


@dataclass(frozen=True)
class GluedBuild:
    """`places`: the superior's, then those of the databases glued to it. `claimed`: of a seeding, the contextCSN that
    no part exceeds."""

    options: BuildOptions
    run: Run
    places: Sequence[TargetDatabase]
    claimed: tuple[str, ...] | None

    @property
    def home(self) -> Path:
        return self.run.directory / HOME

    def share(self, number: int) -> Path:
        """What the database of that number gets."""
        return self.home / f"{number}.ldif.zst"

    def split(self, meter: Meter) -> Facts:
        """Each record to the file of its database, packed; the files stay until all is published."""
        superior = self.places[0].database
        files.remove_tree(self.home)
        self.home.mkdir(mode=0o700)
        shares = [
            SplitTarget(place.database.suffixes, self.share(number))
            for number, place in enumerate(self.places)
        ]
        claim = (superior.suffix, self.claimed) if self.claimed is not None else None
        with self.options.source.reading(meter) as read:
            found = mdb.split(
                read, schema(self.places[0]), shares, claim, meter, file_urls=self.options.file_urls
            )
        exports.require_entries(self.options.inputs, sum(one.entries for one in found))
        killpoint("split.middle")
        shared = [{"entries": one.entries, "newest": dict(one.newest)} for one in found]
        return {"now": inputs.input_time(self.options), "shares": shared}

    def require_entries(self, divided: Facts) -> None:
        """A database that gets nothing stays as it is, which is right only if it holds nothing. Raises EmptyInput,
        GlueRefused."""
        if not any(self.has_entries(number, divided) for number in range(len(self.places))):
            raise EmptyInput(path=", ".join(map(str, self.options.inputs)))
        for number, place in enumerate(self.places):
            if not self.has_entries(number, divided):
                self._require_none(number, place)
                suffix = place.database.suffix
                self.run.progress.say(f"{suffix}: no entries; its database stays as it is")

    def _require_none(self, number: int, place: TargetDatabase) -> None:
        """Neither entries, nor a contextCSN for an entry that is not there."""
        suffix, superior = place.database.suffix, self.places[0].database.suffix
        options = self.options
        if number == 0 and (options.seeding or options.write_context):
            reason = "the LDIF has no entry for it, and the contextCSN of the tree belongs into its suffix entry"
            advice = "Add that entry to the LDIF, or name the database that the entries belong to."
            raise GlueRefused(suffix=suffix, reason=reason, advice=advice)
        if place.data.exists() and holds_entries(place.directory):
            reason = "the LDIF has no entry for it, but its database holds some"
            advice = f"Build {superior} alone with --no-glue, or remove {place.data} first."
            if number == 0:
                advice = f"Name the database that the entries belong to with -b, or remove {place.data} first."
            raise GlueRefused(suffix=suffix, reason=reason, advice=advice)

    def has_entries(self, number: int, divided: Facts) -> bool:
        return bool(divided["shares"][number]["entries"])

    def part(self, number: int, divided: Facts, rejected: int) -> BuildOptions:
        """The options for one database, after so many rejects: only the superior's entry bears a contextCSN."""
        given, superior = self.options, number == 0
        return dataclasses.replace(
            given,
            inputs=(self.share(number),),
            tree=None,
            suffix=self.places[number].database.suffix,
            now=divided["now"],
            first=sum(one["entries"] for one in divided["shares"][:number]),
            claimed=self.claimed,
            seeding=given.seeding and superior,
            write_context=given.write_context and superior,
            server_id=finish.server_id(given, self.places[0]),
            max_rejects=max(0, given.max_rejects - rejected),
            rejects=_numbered(given.rejects, number),
        )


def schema(superior: TargetDatabase) -> mdb.Schema:
    """By which entries are told apart. Raises GlueRefused."""
    try:
        return schema_of(superior.config, superior.database)
    except NotProven as error:
        why = error.facts["reason"]
        reason = f"which entries are whose is not known without the schema ({why})"
        advice = "Divide the LDIF by hand, and build each database by itself (--no-glue)."
        suffix = superior.database.suffix
        raise GlueRefused(suffix=suffix, reason=reason, advice=advice) from error


def _numbered(rejects: Path | None, number: int) -> Path | None:
    """Each database's rejects in a file of their own."""
    if rejects is None or number == 0:
        return rejects
    return rejects.with_name(f"{rejects.stem}.{number}{rejects.suffix}")
