"""`replica verify`: waits for a started replica to catch up, then compares it with its provider.

A consumer updates its contextCSN at the end of its refresh. Until then it has the old contextCSN, or none if the suffix
entry was among the entries sent. A probe with the old contextCSN shows which answer the consumer is receiving. Its
cn=Monitor has the phase and the cookie it sent (OpenLDAP 2.5 and later, `monitoring on`). Neither server reports how
far the refresh has got."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Annotated

from loader import csn, units
from loader.common_options import Limit, OptionalConfig
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
from loader.sources.ldap import Server
from seeders.replica import catchup, partial
from seeders.replica.partial import Partial

LOOK_EVERY = 0.2  # seconds between two polls of the consumer during the first `_AT_FIRST` seconds
_CALM = 2.0  # seconds between two polls after that, because each poll opens a connection
_AT_FIRST = 10.0  # seconds of frequent polling
_SILENT = 15.0  # seconds to wait for a consumer that has never answered: it may not be running
_FLOOR = 60.0  # seconds without progress that any consumer is allowed
_SLACK = 4.0  # factor on the predicted refresh time, for a slower or busy host
_UUID_BYTES = 18.3  # bytes on the wire per entryUUID, with 256 entryUUIDs in a message
_UNKNOWN = 1800.0  # seconds without progress that are allowed if the number of entries is unknown
_AHEAD = (
    "the replica has newer changes of server ID {} than the provider, as after the provider was restored from an older "
    "backup"
)


@dataclass(frozen=True)
class ConsumerState:
    """Result of one poll of the consumer. `csns`: its contextCSN. `phase`: "Refresh", "Persist" ...; "" if unknown.
    `cookie`: the contextCSN that it last sent to the provider. `trouble`: why it does not answer; None if it does."""

    csns: Mapping[str, str]
    phase: str = ""
    cookie: tuple[str, ...] = ()
    trouble: LoaderError | None = None

    @classmethod
    def of(cls, consumer: Connection, base: str) -> ConsumerState:
        """Polls the consumer. `csns` is empty while it has no contextCSN or is just starting."""
        try:
            with session(consumer) as server:
                phase = _monitored(server, "olmSRSyncPhase")
                cookie = _monitored(server, "olmSRLastCookieSent").partition("csn=")[2].split(",")[0].split(";")
                csns: Mapping[str, str] = {}
                with suppress(NoContextCSN, NoSuchBase):
                    csns = csn.by_server(server.context_csns(base))
                return cls(csns, phase, tuple(csn.by_server(cookie).values()))
        except LoaderError as error:
            if error.retryable:
                return cls({}, trouble=error)
            raise


def _monitored(server: Session, attribute: str) -> str:
    """Returns an attribute of the consumer's first syncrepl in cn=Monitor; empty if it cannot be read."""
    try:
        instances = server.find("cn=Databases,cn=Monitor", "(objectClass=olmSyncReplInstance)", [attribute])
    except LoaderError:
        return ""
    values = [value for _, entry in instances for value in entry.get(attribute.lower(), [])]
    return values[0].decode() if values else ""


def _provided(server: Session, base: str) -> dict[str, str]:
    """Returns the provider's contextCSN; for a base below the suffix, that of the suffix."""
    return csn.by_server(live.context_csns(server, base) or server.context_csns(base))


def catch_up(
    connections: tuple[Connection, Connection], bases: tuple[str, str], wait: float | None, progress: Progress
) -> float:
    """Waits until the consumer's contextCSN covers the provider's. Returns the seconds waited. Raises NotInSync on
    timeout; ServerDown or ConnectionLost if the consumer does not answer at that time.

    `connections`, `bases`: those of the provider, then of the consumer. `wait`: seconds; if None, the limit is derived
    from what the provider has to send, and starts again whenever the consumer's contextCSN moves."""
    with progress.step("catch-up") as meter, session(connections[0]) as server:
        return _CatchUpWait(server, connections[1], bases, wait, meter).waited()


@dataclass
class _CatchUpWait:
    provider: Session
    consumer: Connection
    bases: tuple[str, str]
    wait: float | None
    meter: Meter
    _moved: float = 0.0  # time of the last change of the consumer's contextCSN, on the meter's clock
    _seen: ConsumerState = field(default_factory=lambda: ConsumerState({}))
    _answered: bool = False  # whether the consumer has answered at least once
    _answer: SyncAnswer | None = None

    def waited(self) -> float:
        while True:
            wanted = _provided(self.provider, self.bases[0])
            self._look()
            if csn.is_covered_by(wanted, self._seen.csns):
                return self.meter.seconds
            has = self._seen.csns
            csns = f"contextCSN of the replica {_short(has)}, of the provider {_short(wanted)}"
            self.meter.note = f"{self._doing()}; {csns}: {behind(has, wanted)}"
            if self.meter.seconds > self._until():
                raise self._seen.trouble or self._not_in_sync(wanted)
            time.sleep(LOOK_EVERY if self.meter.seconds < _AT_FIRST else _CALM)

    def _look(self) -> None:
        before, self._seen = self._seen, ConsumerState.of(self.consumer, self.bases[1])
        self._answered |= self._seen.trouble is None
        csns = list(self._seen.csns.values()) or self._seen.cookie
        if before.csns != self._seen.csns:
            self._moved = self.meter.seconds
        if csns and (self._answer is None or before.csns != self._seen.csns):
            self._answer = self._ask(csns)

    def _ask(self, csns: Sequence[str]) -> SyncAnswer | None:
        """Returns the provider's answer to a consumer with this contextCSN; None if the probe fails."""
        try:
            uuid = self.provider.read(self._suffix, ["entryUUID"])["entryuuid"][0].decode()
            return sync.probe(self.provider, self._suffix, csns, f"(entryUUID={uuid})").answer
        except (LoaderError, KeyError):
            return None

    @cached_property
    def _suffix(self) -> str:
        return self.provider.context_of(self.bases[0])

    @cached_property
    def _entries(self) -> int | None:
        return questions.entries(self.provider, self._suffix, sampled=True)

    def _until(self) -> float:
        """Returns the deadline on the meter's clock. Assumes loglevel `sync`, because the real one is unknown here."""
        if self.wait is not None:
            return self.wait
        if not self._answered:
            return _SILENT
        answer = self._answer or (None if self._seen.trouble else SyncAnswer.WHOLE)
        if answer is None or answer not in catchup.COSTLY:
            return self._moved + _FLOOR
        if self._entries is None:
            return self._moved + _UNKNOWN
        return self._moved + _FLOOR + _SLACK * catchup.of(answer, self._entries, logged=True).seconds

    def _doing(self) -> str:
        """Returns the consumer's current activity in words."""
        if self._seen.trouble:
            return f"the replica does not answer ({self._seen.trouble})"
        phase = f"phase {self._seen.phase.lower()}" if self._seen.phase else "waiting"
        entries = "of an unknown number" if self._entries is None else f"of {self._entries:,}"
        size = f" ({units.size(_UUID_BYTES * self._entries)})" if self._entries else ""
        sends = {
            SyncAnswer.PRESENT: f"the provider sends the entryUUIDs of what did not change, {entries}{size}",
            SyncAnswer.WHOLE: f"the provider sends every entry whole, {entries}",
            SyncAnswer.CHANGES: "the provider sends what changed and was deleted",
        }
        if self._answer is SyncAnswer.PRESENT and self._seen.phase == "Persist":
            # slapd reports Persist once all is received, before it removes the entries that were not named.
            return f"{phase}: the consumer looks which of its entries were not named, {entries}"
        if self._answer in sends:
            return f"{phase}: {sends[self._answer]}"
        return phase if self._seen.csns else f"{phase}: no contextCSN until its refresh is done"

    def _not_in_sync(self, wanted: Mapping[str, str]) -> NotInSync:
        advice = "Look at the consumer's log (loglevel sync) for what syncrepl says."
        if self._answer in catchup.COSTLY:
            cost = catchup.cost_of(self._answer, self._entries, logged=True)
            advice = (
                f"It takes up to {cost}. Let it go on while its slapd uses a processor, and wait longer "
                "(--wait); else look at its log (loglevel sync). docs/catch-up.md tells how to have changes "
                "alone sent, and what to do if the log repeats `retrying`."
            )
        has = self._seen.csns
        csns = f"its contextCSN is {_listed(has)}, the provider's is {_listed(wanted)}"
        return NotInSync(
            consumer=self.consumer.uri,
            provider=self.provider.uri,
            waited=units.duration(self.meter.seconds),
            state=f"{self._doing()}; {csns}: {behind(has, wanted)}",
            advice=advice,
        )


def behind(consumer: Mapping[str, str], provider: Mapping[str, str]) -> str:
    """Returns the lag in words for each server ID whose changes the consumer lacks, else "in sync"."""
    lags = []
    for sid, wanted in sorted(provider.items()):
        has, lag = consumer.get(sid, ""), "nothing received yet"
        if has >= wanted:
            continue
        if has:
            lag = "behind"
            with suppress(ValueError):  # a CSN contains an invalid time
                lag = f"{units.duration((csn.time(wanted) - csn.time(has)).total_seconds())} behind"
        lags.append(f"{lag} (server ID {sid})")
    return ", ".join(lags) or "in sync"


def _short(csns: Mapping[str, str]) -> str:
    """Returns the newest CSN, truncated to seconds and server ID."""
    newest = max(csns.values(), default="")
    return f"{newest[:14]}Z#{csn.server_id(newest)}" if newest else "none"


def _listed(csns: Mapping[str, str]) -> str:
    return " ".join(sorted(csns.values())) or "none"


@dataclass(frozen=True)
class VerifyOptions:
    """`wait`: seconds that the replica may take to catch up; None derives the limit from what the provider has to send.
    `config_path`: the consumer's configuration on this host; None reads the consumer's cn=config over LDAP."""

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
    """Returns the seconds waited, the comparison, and the kind of replica it assumed (whole or partial), in words.
    Raises NotInSync if the wait times out, PartialReplica if the replica cannot be compared."""
    with session(options.provider) as provider:
        base = provider.base()
    narrowed, how = _narrowed(options, base)
    if narrowed:
        bases = (narrowed.syncrepl.searchbase, narrowed.database.suffix)
        theirs, ours, ignored = narrowed.sides(options.provider, options.consumer)
    else:
        bases, ignored = (base, base), ()
        theirs, ours = (Server(replace(side, base=base)) for side in (options.provider, options.consumer))
    connections = (options.provider, options.consumer)
    waited = catch_up(connections, bases, options.wait, progress)
    comparing = CompareOptions(theirs, ours, (*IGNORED, *ignored), options.limit, show_attributes=True)
    report = _compared(comparing, progress)
    # The consumer is read before the provider, so a CSN that is newer on the consumer did not come from the provider.
    has = ConsumerState.of(options.consumer, bases[1]).csns
    with session(options.provider) as provider:
        wanted = _provided(provider, bases[0])
    ahead = ", ".join(sid for sid, text in sorted(has.items()) if sid in wanted and text > wanted[sid])
    if ahead:
        report = replace(report, notes=(*report.notes, _AHEAD.format(ahead)))
    return waited, report, how


def _narrowed(options: VerifyOptions, base: str) -> tuple[Partial | None, str]:
    """Returns the partial replica that the consumer's syncrepl defines (None if whole), and a description in words."""
    try:
        if options.config_path is not None:
            config = configuration.read(options.config_path)
        else:
            with session(options.consumer) as consumer:
                config = configuration.read_online(consumer)
    except ConfigHidden:
        return None, "a whole replica (its configuration cannot be read; --config gives it)"
    try:
        database = config.database(base)
    except NoSuchSuffix:
        database = config.database(None)
    narrowed = partial.of(config, database, "search", options.provider.uri)
    if narrowed is None:
        return None, "a whole replica"
    return narrowed, f"a partial replica ({', '.join(narrowed.syncrepl.narrowing(database.suffix))})"


def _compared(options: CompareOptions, progress: Progress) -> CompareReport:
    """Compares both servers; if only values differ, compares again without local and hidden attributes. Local ones are
    written without replication (o_dont_replicate) by a consumer's slapo-ppolicy and slapo-lastbind; hidden ones are
    those that access control hides on one of the servers (Debian's package hides userPassword). If the second
    comparison finds no difference, the report is equal, with the local attributes in `local`; or, if attributes are
    hidden, it lists them in `equal_but_for`, because whether these are equal is unknown."""
    report = compare(options, progress)
    if report.equal or report.only_a or report.only_b:
        return report
    hidden = {name for attributes in report.hidden for name in attributes.attributes}
    without = compare(replace(options, ignore=(*options.ignore, *LOCAL, *hidden)), progress)
    if not without.equal:
        return report
    if not hidden:
        return replace(without, local=LOCAL)
    return replace(report, equal_but_for=tuple(sorted(hidden)))
