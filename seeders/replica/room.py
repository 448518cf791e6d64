"""Does the tree of a provider fit into the consumer's map and onto its disk?

The provider's count of its entries or a sample of them answers within seconds, before anything is read. A tree that is
too large to be sampled in that time is judged while it is read."""

from __future__ import annotations

import logging
import math
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from loader import dn
from loader.errors import LoaderError, MaxsizeTooSmall, NoSpace, NotProven
from loader.operations import sizing
from loader.operations.build import native
from loader.operations.build.steps import BuildOptions
from loader.operations.export import of_server
from loader.operations.publish import TargetDatabase
from loader.progress import Meter
from loader.server import configuration, questions
from loader.server.options import EVERYTHING, Connection, line
from loader.server.questions import TreeSample
from loader.server.session import Attributes, Entries, Session, session
from loader.sources import sampling
from loader.sources.sampling import Sample, SampleSize
from loader.storage import files

_FIRST = 500  # first entries of the provider
_BUILT = SampleSize(5000, 0.0)
_UNSEEN = 8192.0  # assumed minimum of the largest entry in bytes, because the sampled entries may be small
_LARGE = 5_000_000  # entries; fewer are evaluated within seconds
_SPARSE = 16  # bits of the entryUUID: samples of 1/65,536 of a large tree

log = logging.getLogger(__name__)


class ProviderSample(Struct, frozen=True):
    """Entries of a provider. `first`: in the server's order. `total`: the number of all, None if unknown. `even`:
    entries from all over the tree, except of a large one."""

    connection: Connection
    first: Entries
    total: int | None
    even: TreeSample = TreeSample()

    @property
    def attributes(self) -> list[Attributes]:
        return [entry for _, entry in (*self.first, *self.even.entries)]

    @property
    def is_large(self) -> bool:
        return self.even.is_cut or (self.total or 0) > _LARGE


def sample(connection: Connection, base: str, given_up: threading.Event) -> ProviderSample:
    """Samples the tree below `base` in a few seconds."""
    connection = replace(connection, base=base)
    with session(connection, given_up) as provider:
        first, whole = provider.first(base, _FIRST, _requested(provider))
        if whole:
            return ProviderSample(connection, first, len(first))
        of_suffix = dn.key(provider.context_of(base)) == dn.key(base)  # the server's own count is of the whole suffix
        total = provider.entry_count(base) if of_suffix else None
        found = ProviderSample(connection, first, total)
        if found.is_large:
            return found
        even = questions.sample_of_tree(provider, base, _requested(provider))
        return replace(found, total=even.total if total is None else total, even=even)


def _requested(provider: Session) -> tuple[str, ...]:
    """A server other than OpenLDAP is asked for user attributes only: the attributes it computes are not loaded."""
    return EVERYTHING if questions.is_openldap(provider) else ("*", "entryUUID")


def require_room(found: ProviderSample, building: BuildOptions, place: TargetDatabase, streams: bool) -> bool:
    """Returns True if the tree fits, and False if it is too large to tell, which only a seeding that `streams` accepts.
    Raises MaxsizeTooSmall or NoSpace."""
    attributes, limits = found.attributes, native.limits_of(building, place)
    sizes = (len(name) + len(value) + 3 for entry in attributes for name, values in entry.items() for value in values)
    largest = max(_UNSEEN, sizing.LARGEST * sum(sizes) / max(1, len(attributes)))
    at_most = math.inf if found.total is None else found.total * largest
    if found.is_large and streams:
        if found.total is None:
            return False
        with suppress(MaxsizeTooSmall, NoSpace):
            sizing.require_room(limits, lambda: at_most)
            return True
        return False
    forecast = _Forecast(found.connection, building, place, Meter("sample"))
    sizing.require_room(limits, lambda: at_most, *forecast.by(found.even))
    return True


def judgement(
    connection: Connection, base: str, building: BuildOptions, place: TargetDatabase
) -> Callable[[Meter], None]:
    """Returns a check of a large tree, for `stream_build.build`. Raises MaxsizeTooSmall, NoSpace. Logs other errors."""

    def judge(meter: Meter) -> None:
        try:
            with session(connection, meter.cancelled) as provider:
                even = questions.sample_of_tree(provider, base, _requested(provider), _SPARSE, seconds=-1)
            forecast = _Forecast(connection, building, place, meter)
            sizing.require_room(native.limits_of(building, place), *forecast.by(even))
        except (MaxsizeTooSmall, NoSpace):
            raise
        except LoaderError as error:
            if not meter.cancelled.is_set():
                log.warning("room: whether all entries fit is not known before they are read: %s", error)

    return judge


class _Forecast(Struct, frozen=True):
    connection: Connection
    building: BuildOptions
    place: TargetDatabase
    meter: Meter

    def by(self, even: TreeSample) -> list[Callable[[], float]]:
        """Returns predictions of the size in bytes: from `even`, if it tells the number of entries, and from a sample
        of more entries, which evaluates all entries again."""

        def rough() -> float:
            return sizing.ROUGHLY * self._bytes(lambda scratch: _as_sample(even, scratch))

        def full() -> float:
            return self._bytes(lambda scratch: of_server(self.connection, _BUILT, scratch, self.meter))

        return [full] if even.total is None else [rough, full]

    def _bytes(self, take: Callable[[Path], Sample]) -> float:
        """Returns the size of the database in bytes; 0 if only slapadd can build it."""
        try:
            target = native.target_of(self.building, self.place)
        except NotProven:
            return 0
        with files.temporary_directory("sample", configuration.tools_tmpdir()) as scratch:
            return sizing.forecast(take(scratch), target, Meter("build"), timed=0.0).bytes


def _as_sample(even: TreeSample, scratch: Path) -> Sample:
    lines: list[str] = []
    for name, entry in even.entries:
        lines.append(line("dn", name.encode("utf-8", "surrogateescape")))
        lines += [line(attribute, value) for attribute, values in entry.items() for value in values]
        lines.append("")
    files.write_durably(path := scratch / "sample.ldif", "\n".join([*lines, ""]).encode(), 0o600)
    return sampling.of_part([path], even.total or 0, _BUILT, "a range of entryUUIDs", is_counted=False)
