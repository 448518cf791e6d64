"""The load by several slapadds side by side: how many, each into an environment of its own, and made one at the end.

slapadd -q is one writer that puts index keys where they belong: it crawls once its database outgrows memory, and uses
one processor. A database a part as large fits, and as many can grow at a time as there are processors.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import FIRST_EXCEPTION, Future, ThreadPoolExecutor, wait
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

from loader import backmdb, resources, units
from loader.errors import LdifUnreadable
from loader.mdb.meta import DATA
from loader.operations.build import finish, inputs, shard_count
from loader.operations.build.options import BuildOptions
from loader.operations.publish import TargetDatabase
from loader.progress import Meter
from loader.run.log import Facts, killpoint
from loader.run.steps import Run
from loader.sinks import shards, slapadd
from loader.sinks.shards import GeneratedAttributes, MergeTask, Slice, SlicedLdif
from loader.storage import files


@dataclass(frozen=True)
class ShardSteps:
    """The bodies of the steps slice, slices and merge. Each can be done again from its beginning, `slices` from the
    last slice that was loaded."""

    options: BuildOptions
    run: Run
    place: TargetDatabase
    scan: Facts
    size: Facts
    aliases: Mapping[str, str]

    @property
    def home(self) -> Path:
        """Of the environments of slices, and the shared entries."""
        return self.run.directory / "slices"

    @cached_property
    def source(self) -> SlicedLdif:
        suffixes = self.place.database.suffixes
        return SlicedLdif(self.options.files.paths(), suffixes, self.home / "shared.ldif")

    def slice(self, meter: Meter) -> Facts:
        """Where slices begin. One is none: the input is then for one slapadd, which judges it as it is."""
        files.remove_tree(self.home)
        self.home.mkdir(mode=0o700)
        found = shards.plan(self.source, self.size["shards"], meter)
        if found.unknown:
            why = f"{units.number(found.unknown)} parents are found under no name of the input"
            return self._none(why)
        cuts = list(found.cuts)
        count = (
            len(cuts)
            if self.options.shards
            else shard_count.max_useful_slices(found.shared, found.leaves, len(cuts))
        )
        if count < 2:
            return self._none(f"{units.number(found.shared)} entries have children")
        kept = [cuts[at * len(cuts) // count] for at in range(count)]
        self.run.progress.say(
            f"{count} slices, {units.number(found.shared)} entries are in all of them"
        )
        return {"shards": count, "shared": found.shared, "leaves": found.leaves, "cuts": kept}

    def _none(self, why: str) -> Facts:
        self.run.progress.say(f"no slices, one slapadd: {why}")
        files.remove_tree(self.home)
        return {"shards": 1}

    def load(self, meter: Meter, plan: Facts) -> Facts:
        """Each slice into an environment of its own; those that are there stay."""
        done = self._done()
        pieces = [one for one in self._pieces(plan) if one.name not in done]
        meter.add(entries=sum(facts["entries"] for facts in done.values()))
        inner = Meter(meter.name)
        with meter.counting(inner):
            self._all(
                pieces, inner, shard_count.parallel_slapadds(self.size["estimate"], plan["shards"])
            )
        killpoint("slices.middle")
        facts = self._done()
        if self.scan["claimed"] and not any(one["rooted"] for one in facts.values()):
            suffix = self.place.database.suffix
            raise LdifUnreadable(
                path=self.source.texts[0],
                reason=f"the input has no entry {suffix} to bear contextCSN",
            )
        return {"entries": sum(one["entries"] for one in facts.values())}

    def _done(self) -> dict[str, Facts]:
        """Slices that are loaded, and whose environment is the one that was made then."""
        found = self.run.catalogue.partitions("slices")
        return {name: facts for name, facts in found.items() if self._stands(name, facts)}

    def _stands(self, name: str, facts: Facts) -> bool:
        data = self.home / name / DATA
        return data.exists() and files.identity(data) == facts["identity"]

    def _pieces(self, plan: Facts) -> Iterator[_NamedSlice]:
        making = GeneratedAttributes(
            now=inputs.input_time(self.options) if self._settings.last_mod else None,
            server_id=finish.server_id(self.options, self.place),
            claimed=self.scan["claimed"],
            root=self.place.database.suffix,
            aliases=self.aliases,
            first=self.options.first,
        )
        cuts = [tuple(cut) for cut in plan["cuts"]]
        ends = [*(cut[3] for cut in cuts[1:]), plan["leaves"]]
        for number, (cut, end) in enumerate(zip(cuts, ends, strict=True)):
            piece = Slice(self.source, plan["shared"], cut, end - cut[3], making)
            first = plan["shared"] if number == 0 else 0
            yield _NamedSlice(_name(number), piece, first)

    @cached_property
    def _settings(self) -> backmdb.Settings:
        return backmdb.settings(self.place.config, self.place.database, self.place.superior)

    def _all(self, pieces: Sequence[_NamedSlice], meter: Meter, threads: int) -> None:
        """The first failure ends the others."""
        with ThreadPoolExecutor(threads) as pool:
            running = [pool.submit(self._load, one, meter) for one in pieces]
            try:
                _heed(running)
            except BaseException:
                for one in running:
                    one.cancel()
                meter.cancel()
                raise

    def _load(self, one: _NamedSlice, meter: Meter) -> None:
        made = self.home / one.name
        files.remove_tree(made)
        made.mkdir(mode=0o700)
        settings = {
            "olcDbDirectory": [str(made).encode()],
            "olcDbMaxSize": [str(self.size["maxsize"]).encode()],
        }
        place = self.place
        with place.private_configuration(made, settings) as copy:
            target = slapadd.Target(
                copy,
                place.database.suffix,
                made,
                self.size["maxsize"],
                one.piece.making.server_id,
                self.options.check_schema,
            )
            own, rooted = slapadd.load_slice(target, one.piece, meter)
        files.make_durable(made / DATA)
        facts = {
            "entries": own + one.shared,
            "rooted": rooted,
            "identity": files.identity(made / DATA),
        }
        self.run.catalogue.finish_partition("slices", one.name, facts)
        killpoint("slices.each")

    def merge(self, meter: Meter, plan: Facts, made: Path) -> Facts:
        files.remove_tree(made)
        made.mkdir(mode=0o700)
        own = self.options.write_context and not self.options.seeding
        task = MergeTask(
            parts=[self.home / _name(number) / DATA for number in range(plan["shards"])],
            shared=plan["shared"],
            map_size=self.size["maxsize"],
            idlexp=self._settings.idlexp,
            context=self.place.database.suffix if own else None,
            jobs=resources.processors(),
        )
        partial = made / (DATA + files.PARTIAL)
        written = shards.merge(task, self.source, partial, meter)
        killpoint("merge.middle")
        files.publish(partial, made / DATA)
        return {"entries": written}


@dataclass(frozen=True)
class _NamedSlice:
    """A slice under its name. shared: entries besides its own that count with it."""

    name: str
    piece: Slice
    shared: int


def _name(number: int) -> str:
    return f"{number:03d}"


def _heed(running: Sequence[Future[None]]) -> None:
    """Wait for all, or for the first that fails; its error."""
    for one in wait(running, return_when=FIRST_EXCEPTION).done:
        one.result()


def told(plan: Mapping[str, Any]) -> Facts:
    """For the report."""
    return {name: plan[name] for name in ("shards", "shared") if name in plan}
