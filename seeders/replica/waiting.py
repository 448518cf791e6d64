"""`replica verify`: waits for a started replica to catch up, then compares it with its provider.

A consumer moves its contextCSN when its refresh is done; until then it shows that of before, or none where the entry of
the suffix was among what was sent. What it waits for is asked of the provider with that of before, as the consumer did.
The phase and the cookie it came with stand in the consumer's monitor (OpenLDAP 2.5 and later, `monitoring on`). How far
it is, neither of them tells: the provider's monitor counts bytes, of all its clients together."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated

from loader import csn, units
from loader.common_options import Limit, OptionalConfig
from loader.config import Config
from loader.declared import Duration
from loader.errors import ConfigHidden, LoaderError, NoContextCSN, NoSuchBase, NoSuchSuffix, NotInSync
from loader.operations import live
from loader.operations.compare import IGNORED, CompareOptions, CompareReport, compare
from loader.overlays import LOCAL
from loader.progress import Meter, Progress
from loader.server import configuration, questions, sync
from loader.server.options import Connection
from loader.server.session import Session, session
from loader.server.sync import SyncAnswer
from loader.sources.comparable import Server
from seeders.replica import catchup, partial
from seeders.replica.partial import Partial

LOOK_EVERY = 0.2  # seconds between two looks while waiting, and
_CALM = 2.0  # after the first seconds, for a look is a connection
_AT_FIRST = 10.0
_SILENT = 15.0  # seconds, for a consumer that has never answered: it is not running, or not there
_FLOOR = 60.0  # seconds that any consumer may need
_SLACK = 4.0  # times what the refresh should take; a slower host, other work
_UUID_BYTES = 18.3  # of an entryUUID on its way, 256 in a message
_UNKNOWN = 1800.0  # seconds, where neither server tells how much there is to do
_AHEAD = (
    "the replica has newer changes of server ID {} than the provider, as after the provider was restored from an older "
    "backup"
)


@dataclass(frozen=True)
class ConsumerState:
    """The consumer at one look. `phase`: "Refresh", "Persist" ..., "" where its monitor does not tell. `asked`: the
    contextCSN with which it came to the provider. `trouble`: why it does not answer; None where it does."""

    csns: Mapping[str, str]
    phase: str = ""
    asked: tuple[str, ...] = ()
    trouble: LoaderError | None = None


def catch_up(
    connections: tuple[Connection, Connection], bases: tuple[str, str], wait: float | None, progress: Progress
) -> float:
    """Wait until the consumer has seen all that the provider has now; seconds it took. Raises NotInSync, and ServerDown
    or ConnectionLost for a consumer that does not answer at the end.

    `connections`, `bases`: of the provider and of the consumer. `wait`: seconds; None for as long as what the provider
    has to send should take, and as long as the consumer's contextCSN moves.
    """
    provider, consumer = connections
    with progress.step("catch-up") as meter, session(provider) as server:
        return _CatchUpWait(server, consumer, bases, wait, meter).waited()


@dataclass
class _CatchUpWait:
    provider: Session
    consumer: Connection
    bases: tuple[str, str]
    wait: float | None
    meter: Meter
    _moved: float = 0.0  # when the consumer's contextCSN last did, on the meter's clock
    _seen: ConsumerState = field(default_factory=lambda: ConsumerState({}))
    _answered: bool = False  # the consumer, at least once
    _answer: SyncAnswer | None = None
    _began: int | None = None  # bytes that the provider had sent at the first look

    def waited(self) -> float:
        while True:
            wanted = self._wanted()
            self._look()
            if csn.is_covered_by(wanted, self._seen.csns):
                return self.meter.seconds
            self._tell(wanted)
            if self.meter.seconds > self._until():
                raise self._seen.trouble or self._not_in_sync(wanted)
            time.sleep(LOOK_EVERY if self.meter.seconds < _AT_FIRST else _CALM)

    def _wanted(self) -> dict[str, str]:
        return csn.by_server(_provided(self.provider, self.bases[0]))

    def _look(self) -> None:
        before, self._seen = self._seen, seen(self.consumer, self.bases[1])
        self._answered |= self._seen.trouble is None
        csns = list(self._seen.csns.values()) or self._seen.asked
        if before.csns != self._seen.csns:
            self._moved = self.meter.seconds
        if csns and (self._answer is None or before.csns != self._seen.csns):
            self._answer = self._asked(csns)

    def _asked(self, csns: Sequence[str]) -> SyncAnswer | None:
        """What the provider sends to a consumer that comes with this contextCSN."""
        suffix = self._suffix
        try:
            uuid = self.provider.read(suffix, ["entryUUID"])["entryuuid"][0].decode()
            return sync.probe(self.provider, suffix, csns, f"(entryUUID={uuid})").answer
        except (LoaderError, KeyError):
            return None

    @cached_property
    def _suffix(self) -> str:
        return self.provider.context_of(self.bases[0])

    @cached_property
    def _entries(self) -> int | None:
        return questions.entries(self.provider, self._suffix, sampled=True)

    def _until(self) -> float:
        """On the meter's clock. What the consumer logs is not known here, so it may log every entryUUID."""
        if self.wait is not None:
            return self.wait
        if not self._answered:
            return _SILENT
        answer = self._answer or (None if self._seen.trouble else SyncAnswer.WHOLE)
        if answer not in (SyncAnswer.PRESENT, SyncAnswer.WHOLE):
            return self._moved + _FLOOR
        if self._entries is None:
            return self._moved + _UNKNOWN
        return self._moved + _FLOOR + _SLACK * catchup.of(answer, self._entries, logged=True).seconds

    def _tell(self, wanted: Mapping[str, str]) -> None:
        self._count()
        has = self._seen.csns
        csns = f"contextCSN of the replica {_short(has)}, of the provider {_short(wanted)}"
        self.meter.note = f"{self.doing()}; {csns}: {behind(has, wanted)}"

    def _count(self) -> None:
        """Bytes that the provider has sent since the first look, our own answers among them."""
        sent = _counter(self.provider, "Bytes")
        if sent is not None:
            self._began = sent if self._began is None else self._began
            self.meter.add(size=sent - self._began - self.meter.bytes)

    def doing(self) -> str:
        """For people."""
        if self._seen.trouble:
            return f"the replica does not answer ({self._seen.trouble})"
        phase = f"phase {self._seen.phase.lower()}" if self._seen.phase else "waiting"
        if self._answer is SyncAnswer.PRESENT:
            return f"{phase}: {self._naming()}"
        if self._answer is SyncAnswer.WHOLE:
            return f"{phase}: the provider sends every entry whole, {self._all()}"
        if self._answer is SyncAnswer.CHANGES:
            return f"{phase}: the provider sends what changed and was deleted"
        return phase if self._seen.csns else f"{phase}: no contextCSN until its refresh is done"

    def _naming(self) -> str:
        # To slapd the refresh is over once all is received, and before what was not named is removed.
        if self._seen.phase == "Persist":
            return f"the consumer looks which of its entries were not named, {self._all()}"
        bytes_ = f" ({units.size(_UUID_BYTES * self._entries)})" if self._entries else ""
        return f"the provider sends the entryUUIDs of what did not change, {self._all()}{bytes_}"

    def _all(self) -> str:
        return "of an unknown number" if self._entries is None else f"of {self._entries:,}"

    def _not_in_sync(self, wanted: Mapping[str, str]) -> NotInSync:
        facts = {"consumer": self.consumer.uri, "provider": self.provider.uri}
        has = self._seen.csns
        csns = f"its contextCSN is {_listed(has)}, the provider's is {_listed(wanted)}"
        state = f"{self.doing()}; {csns}: {behind(has, wanted)}"
        waited = units.duration(self.meter.seconds)
        return NotInSync(**facts, waited=waited, state=state, advice=self._advice())

    def _advice(self) -> str:
        if self._answer in (SyncAnswer.PRESENT, SyncAnswer.WHOLE):
            taken = catchup.cost_told(self._answer, self._entries, logged=True)
            return (
                f"It takes up to {taken}. Let it go on while its slapd uses a processor, and wait longer "
                "(--wait); else look at its log (loglevel sync). docs/catch-up.md tells how to have changes "
                "alone sent, and what to do if the log repeats `retrying`."
            )
        return "Look at the consumer's log (loglevel sync) for what syncrepl says."


def seen(consumer: Connection, base: str) -> ConsumerState:
    """The consumer's contextCSN; none while it has none or is only just starting."""
    try:
        with session(consumer) as server:
            phase = _monitored(server, "olmSRSyncPhase")
            asked = _monitored(server, "olmSRLastCookieSent")
            csns = tuple(asked.partition("csn=")[2].split(",")[0].split(";"))
            return ConsumerState(_context(server, base), phase, tuple(csn.by_server(csns).values()))
    except LoaderError as error:
        if error.retryable:
            return ConsumerState({}, trouble=error)
        raise


def newer(connections: tuple[Connection, Connection], bases: tuple[str, str]) -> Iterator[str]:
    """Server IDs of which the consumer has a newer change than the provider. The consumer is asked first, so it cannot
    have received that change meanwhile."""
    has = seen(connections[1], bases[1]).csns
    with session(connections[0]) as server:
        wanted = csn.by_server(_provided(server, bases[0]))
    return (sid for sid, text in sorted(has.items()) if sid in wanted and text > wanted[sid])


def _provided(server: Session, base: str) -> Sequence[str]:
    """Of a base below the suffix the suffix tells."""
    return live.context_csns(server, base) or server.context_csns(base)


def _context(server: Session, base: str) -> dict[str, str]:
    try:
        return csn.by_server(server.context_csns(base))
    except (NoContextCSN, NoSuchBase):
        return {}


def _monitored(server: Session, attribute: str) -> str:
    """Of its syncrepls, as its monitor has it; that of the first."""
    where = "(objectClass=olmSyncReplInstance)"
    try:
        found = server.find("cn=Databases,cn=Monitor", where, [attribute])
    except LoaderError:
        return ""
    values = [value for _, entry in found for value in entry.get(attribute.lower(), [])]
    return values[0].decode() if values else ""


def _counter(server: Session, name: str) -> int | None:
    try:
        found = server.read(f"cn={name},cn=Statistics,cn=Monitor", ["monitorCounter"])
        return int(found["monitorcounter"][0])
    except (LoaderError, KeyError, ValueError):
        return None


def behind(consumer: Mapping[str, str], provider: Mapping[str, str]) -> str:
    """How far, for each server ID that the consumer lacks changes of."""
    late = [sid for sid, csn_ in sorted(provider.items()) if consumer.get(sid, "") < csn_]
    if not late:
        return "in sync"
    return ", ".join(f"{_lag(consumer.get(sid), provider[sid])} (server ID {sid})" for sid in late)


def _lag(has: str | None, wanted: str) -> str:
    if has is None:
        return "nothing received yet"
    try:
        seconds = (csn.time(wanted) - csn.time(has)).total_seconds()
    except ValueError:  # the time of day is none
        return "behind"
    return f"{units.duration(seconds)} behind"


def _short(csns: Mapping[str, str]) -> str:
    """The newest of them, to the second."""
    newest = max(csns.values(), default="")
    return f"{newest[:14]}Z#{csn.server_id(newest)}" if newest else "none"


def _listed(csns: Mapping[str, str]) -> str:
    return " ".join(sorted(csns.values())) or "none"


@dataclass(frozen=True)
class VerifyOptions:
    """`wait` in seconds: how long the replica may need to catch up from the moment it is asked; None: as long as that
    should take. `config_path`: the consumer's configuration, where it can be read here; else its cn=config is asked."""

    provider: Connection = field(default_factory=Connection)
    consumer: Connection = field(default_factory=Connection)
    config_path: OptionalConfig = None
    wait: Annotated[
        float | None,
        "--wait SECONDS",
        Duration(),
        "How long to wait for the replica to catch up (default: derived from what the provider has to send).",
    ] = None
    limit: Annotated[Limit, "Number of differing entries to name."] = 20


def verify(options: VerifyOptions, progress: Progress) -> tuple[float, CompareReport, str]:
    """Seconds waited, the comparison, and as what the replica was compared. Raises NotInSync, PartialReplica."""
    with session(options.provider) as provider:
        base = provider.base()
    wanted, how = expected(options, base)
    left_out: tuple[str, ...]
    if wanted is None:
        provider_side = Server(replace(options.provider, base=base))
        consumer_side = Server(replace(options.consumer, base=base))
        bases, left_out = (base, base), ()
    else:
        bases = (wanted.syncrepl.searchbase, wanted.database.suffix)
        provider_side, consumer_side, left_out = wanted.sides(options.provider, options.consumer)
    connections = (options.provider, options.consumer)
    waited = catch_up(connections, bases, options.wait, progress)
    ignored = (*IGNORED, *left_out)
    sides = (provider_side, consumer_side)
    asked = CompareOptions(*sides, ignored, options.limit, show_attributes=True)
    report = compared(asked, progress)
    ahead = ", ".join(newer(connections, bases))
    if ahead:
        report = replace(report, notes=(*report.notes, _AHEAD.format(ahead)))
    return waited, report, how


def expected(options: VerifyOptions, base: str) -> tuple[Partial | None, str]:
    """What the consumer's syncrepl makes it hold, None for everything; and where that is known from."""
    try:
        config = _configuration(options)
    except ConfigHidden:
        return None, "a whole replica (its configuration cannot be read; --config gives it)"
    try:
        database = config.database(base)
    except NoSuchSuffix:
        database = config.database(None)
    found = partial.of(config, database, "search", options.provider.uri)
    if found is None:
        return None, "a whole replica"
    return found, f"a partial replica ({', '.join(found.syncrepl.narrowing(database.suffix))})"


def _configuration(options: VerifyOptions) -> Config:
    if options.config_path is not None:
        return configuration.read(options.config_path)
    with session(options.consumer) as consumer:
        return configuration.read_online(consumer)


def compared(asked: CompareOptions, progress: Progress) -> CompareReport:
    """The comparison. A consumer's slapo-ppolicy and slapo-lastbind write to an entry without replication
    (o_dont_replicate), and access control may hide an attribute on one of the two (Debian's package hides
    userPassword). So if nothing but values differ, it is made once more without the attributes that each server
    may keep for itself, and those that one of them hides. If these are all that differ, the former stand in `local` and
    the two are equal; or the latter stand in `equal_but_for`, and nobody knows whether they are equal."""
    report = compare(asked, progress)
    if report.equal or report.only_a or report.only_b:
        return report
    hidden = {name for one in report.hidden for name in one.attributes}
    without = compare(replace(asked, ignore=(*asked.ignore, *LOCAL, *hidden)), progress)
    if not without.equal:
        return report
    if not hidden:
        return replace(without, local=LOCAL)
    return replace(report, equal_but_for=tuple(sorted(hidden)))
