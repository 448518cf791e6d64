"""The measurements of a directory, one after the other, each with an empty database directory."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec

from loader.operations.storage.bench import fio, loads, tree
from loader.operations.storage.bench.installation import Installation
from loader.operations.storage.bench.places import Place
from loader.operations.storage.bench.results import Disk, Load, Row, Searched, Wishes
from loader.operations.storage.bench.tree import Tree
from loader.operations.storage.bench.trial import Trial
from loader.progress import Progress
from loader.server import repeated
from loader.server.repeated import Question
from loader.sources.dit import TreeSpec
from loader.storage import temporary
from loader.storage.asking import Unseen


class Material(msgspec.Struct, frozen=True):
    """What is loaded with and without sync, and looked for."""

    whole: Tree
    part: Tree | None
    questions: Sequence[Question]


def material(recipe: TreeSpec, wishes: Wishes, work: Path, progress: Progress) -> Material:
    """In `work`, which is not measured."""
    whole = tree.made(recipe, wishes.entries, work / "whole.ldif", progress)
    part = None
    if wishes.sync_entries:
        part = tree.made(recipe, wishes.sync_entries, work / "part.ldif", progress)
    asked = tree.questions(recipe, wishes, work / "plan", progress) if wishes.searches else ()
    return Material(whole, part, asked)


class Measuring(msgspec.Struct, frozen=True):
    """One installation, with what it is given. `work`: where LDIF, configurations and sockets are."""

    installation: Installation
    version: str
    wishes: Wishes
    given: Material
    work: Path
    progress: Progress

    def row(self, place: Place, backend: str) -> Row:
        """Raises ToolFailed, NoSpace and others: a load that fails is no measurement."""
        with self._trial(place, backend) as trial:
            nosync = self._slapadd(place, trial, self.given.whole, quick=True)
            searched = self._searched(place, trial)
        sync = None
        if self.given.part is not None:
            with self._trial(place, backend) as trial:
                sync = self._slapadd(place, trial, self.given.part, quick=False)
        native = self._native(place, backend)
        disk = self._disk(place)
        return Row(
            name=place.name,
            directory=str(place.directory),
            kind=place.kind,
            layout=place.layout,
            backend=backend,
            version=self.version,
            nosync=nosync,
            searched=searched,
            sync=sync,
            native=native,
            disk=disk if isinstance(disk, Disk) else None,
            unmeasured=(disk,) if isinstance(disk, Unseen) else (),
        )

    @contextmanager
    def _trial(self, place: Place, backend: str) -> Iterator[Trial]:
        with (
            temporary.directory("bench", place.directory) as directory,
            self.installation.seeing(directory),
        ):
            yield Trial(self.installation, backend, directory, self.work)

    def _slapadd(self, place: Place, trial: Trial, given: Tree, *, quick: bool) -> Load:
        name = f"{place.name}: slapadd{' -q' if quick else ''}, {trial.backend}"
        with self.progress.step(name) as meter:
            return loads.by_slapadd(trial, given, quick=quick, meter=meter)

    def _searched(self, place: Place, trial: Trial) -> Searched | None:
        asked = self.given.questions
        if not asked:
            return None
        loads.forget(trial.directory)
        with (
            trial.running(self.given.whole.entries) as uri,
            self.progress.step(f"{place.name}: searches, {trial.backend}", len(asked)) as meter,
        ):
            return Searched(len(asked), repeated.seconds_of(uri, asked, meter))

    def _native(self, place: Place, backend: str) -> Load | None:
        """ditseed writes for this host's slapd, and back-mdb only."""
        if backend != "mdb" or not self.installation.is_here:
            return None
        with (
            self._trial(place, backend) as trial,
            self.progress.step(f"{place.name}: ditseed build"),
        ):
            return loads.by_ditseed(trial, self.given.whole)

    def _disk(self, place: Place) -> Disk | Unseen | None:
        """Once for each directory."""
        if not self.wishes.fio_size or not self.installation.is_here:
            return None
        with self.progress.step(f"{place.name}: fio"):
            return fio.measure(place.directory, self.wishes.fio_size)
