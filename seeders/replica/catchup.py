"""Predicts, before a seeding, what the provider will send when the seeded consumer starts, and what the catch-up costs.
Reports both to the operator, with the commands that make the provider send less.

slapo-syncprov compares the cookie with its own contextCSN, so a probe needs a cookie older than that (server/sync.py).
If nothing was written since the contextCSN that the seed claims, the probe's cookie is a microsecond older, and
cn=config settles what this leaves open. The predicted answer is always that to a consumer after one more write.

Seconds and bytes are those of the consumer, as measured (figures in docs/catch-up.md): for every kind of answer the
consumer is slower than the provider, and it uses one processor."""

from __future__ import annotations

import datetime
import logging
import math
import re
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import msgspec

from loader import csn, dn, plain, units
from loader.config import Change, Config, Database
from loader.errors import ConfigHidden, LoaderError
from loader.server import configuration, options, questions, sync
from loader.server.options import Connection
from loader.server.session import Session, session
from loader.server.sync import SyncAnswer

SESSION_LOG = "olcSpSessionlog"
ONLY_CHANGES = (SyncAnswer.CHANGES, SyncAnswer.NOTHING)
COSTLY = (SyncAnswer.PRESENT, SyncAnswer.WHOLE)  # answers that name every entry
_MARGIN = 600.0  # assumed seconds from the end of a seeding until slapd is started
_WATCH = 1.5  # seconds to wait for a write by any client, if nothing else shows the provider's answer
_LOOK_EVERY = 0.1  # seconds between two reads of contextCSN while waiting for a write
_ANCIENT = "19700101000000.000000Z#000000#{}#000000"
_SYNCPROV = re.compile(r"olcOverlay=(\{-?\d+\})?syncprov,", re.IGNORECASE)
_SETTLED = 60  # minimum uptime of slapd in seconds before its counters give a usable rate
_LEAST_LOG = 100_000  # minimum size of a recommended session log, in writes
_ENTRIES_PER_WRITE = 100  # entries of the tree per write in a recommended session log
_START = 0.2  # seconds to connect, bind and send the search
_BUCKETS = 65536  # AVL trees in which slapd's consumer keeps entryUUIDs, one for each value of the first two bytes
_NAMED = 2.4e-6  # seconds per entryUUID while the AVL trees have few nodes
_DEEPER = 1.1e-6  # additional seconds per entryUUID for each doubling of the nodes: one more cache miss
_SHALLOW = 2.2  # doublings of the nodes that _NAMED already includes
_ENTRY = 28e-6  # seconds per entry that the provider sends whole and the consumer finds unchanged
_LINES = {SyncAnswer.PRESENT: 9.7e-6, SyncAnswer.WHOLE: 72e-6}  # additional seconds per entry with loglevel `sync`
_UUID = 84  # bytes of the consumer's memory per entryUUID; entries sent whole count too
_SYNC = 16384  # bit of `sync` in olcLogLevel
_ASSUMED = 1_000_000  # entries that are priced if the size of the tree is unknown
_READ = 100_000  # assumed entries per second that a seeding reads
_NO_ENTRY = "(entryUUID=00000000-0000-0000-0000-000000000000)"
UNKNOWN = "catch-up: what the provider will send is not known"

log = logging.getLogger(__name__)


# The cost of an answer.


@dataclass(frozen=True)
class CatchUpCost:
    seconds: float
    memory: int

    def __str__(self) -> str:
        return f"{units.duration(self.seconds)} and {units.size(self.memory)} of its memory"


def of(answer: SyncAnswer, entries: int, logged: bool) -> CatchUpCost:
    """Returns the cost of an answer about `entries` entries. `logged`: the consumer's log level includes `sync`."""
    if answer not in COSTLY:
        return CatchUpCost(_START, 0)
    doublings = math.log2(max(1.0, entries / _BUCKETS))
    each = _DEEPER * max(0.0, doublings - _SHALLOW) + (_NAMED if answer is SyncAnswer.PRESENT else _ENTRY)
    return CatchUpCost(_START + entries * (each + (_LINES[answer] if logged else 0)), _UUID * entries)


def cost_of(answer: SyncAnswer, entries: int | None, logged: bool) -> str:
    """Returns the cost in words; that for _ASSUMED entries if `entries` is None."""
    return f"{of(answer, _ASSUMED, logged)} for {_ASSUMED:,}" if entries is None else str(of(answer, entries, logged))


def logs_sync(config: Config) -> bool:
    """Returns whether olcLogLevel includes `sync`, so that slapd logs a line for every entryUUID."""
    return any(_has_sync(word.lower()) for words in config.reader("cn=config").words("olcLogLevel") for word in words)


def _has_sync(word: str) -> bool:
    try:
        return bool(int(word, 0) & _SYNC)
    except ValueError:
        return word in ("sync", "any")


# The provider's configuration and counters.


@dataclass(frozen=True)
class Syncprov:
    """slapo-syncprov of one database. `session_log`: its size in writes, 0 if there is none. `log_base`: suffix of the
    accesslog that replaces it (olcSpSessionlogSource). `changed`: entryCSN of the overlay's entry in cn=config.
    `writes_itself`: the database is no shadow, so the provider's own server ID enters the contextCSN. `server_ids`:
    server IDs of all providers that may write. `keeps_changes`: changes of cn=config are stored (no slapd.conf)."""

    entry_dn: str
    database: Database
    session_log: int
    log_base: str | None
    nopresent: bool
    changed: str
    writes_itself: bool
    server_ids: frozenset[str]
    keeps_changes: bool

    @property
    def logs(self) -> bool:
        return bool(self.session_log) or self.log_base is not None


def syncprov_of(server: Session, suffix: str) -> Syncprov | None:
    """Returns the syncprov of the database of `suffix`; None if the account cannot see it or cn=config."""
    try:
        return syncprov_in(configuration.read_online(server), suffix)
    except ConfigHidden:
        return None


def syncprov_in(config: Config, suffix: str) -> Syncprov | None:
    for database in config.databases:
        if dn.key(suffix) not in map(dn.key, database.suffixes):
            continue
        below = "," + database.entry_dn.lower()
        for name, _ in config.entries:
            if _SYNCPROV.match(name) and name.lower().endswith(below):
                return _syncprov(config, database, name)
    return None


def _syncprov(config: Config, database: Database, name: str) -> Syncprov:
    own, base = config.reader(name), config.reader(database.entry_dn)
    multi = base.flag("olcMultiProvider", False) or base.flag("olcMirrorMode", False)
    # A value of olcServerID is an ID, optionally followed by the URL of the listener it is for.
    ids = [words[0] for words in config.reader("cn=config").words("olcServerID") if words] if multi else []
    return Syncprov(
        entry_dn=name,
        database=database,
        session_log=own.number(SESSION_LOG, 0),
        log_base=own.dn("olcSpSessionlogSource"),
        nopresent=own.flag("olcSpNoPresent", False),
        changed=next(iter(own.stored("entryCSN")), ""),
        writes_itself=multi or not database.consumer,
        server_ids=frozenset(
            f"{int(text, 10 if text.isdigit() else 16):03x}"
            for text in ids
            if re.fullmatch(r"(0[xX])?[0-9a-fA-F]+", text)
        ),
        keeps_changes=configuration.keeps_changes(config),
    )


def monitored(server: Session, entry: str, attribute: str) -> str:
    """Returns the first value of `attribute` of an entry below cn=Monitor; empty if it cannot be read."""
    try:
        values = server.read(f"{entry},cn=Monitor", [attribute]).get(attribute.lower(), [])
    except LoaderError:
        return ""
    return values[0].decode() if values else ""


def _started(server: Session) -> datetime.datetime | None:
    """Returns the start time of slapd from cn=Monitor, in UTC without tzinfo; None if it cannot be read."""
    try:
        return datetime.datetime.strptime(monitored(server, "cn=Start,cn=Time", "monitorTimestamp"), "%Y%m%d%H%M%SZ")
    except ValueError:
        return None


def writes_per_second(server: Session) -> float | None:
    """Returns the average since slapd started; None if cn=Monitor is unreadable or the uptime is below _SETTLED."""
    uptime = monitored(server, "cn=Uptime,cn=Time", "monitoredInfo")
    writes = ("Add", "Modify", "Modrdn", "Delete")
    counts = [monitored(server, f"cn={name},cn=Operations", "monitorOpCompleted") for name in writes]
    if not uptime or not all(counts) or int(uptime) < _SETTLED:
        return None
    return sum(map(int, counts)) / int(uptime)


# The answer.


@dataclass(frozen=True)
class CatchUpForecast:
    """`sure`: a probe or the configuration proves the answer. `lost`: the consumer will miss deletions. `lacking`:
    server IDs not in the contextCSN yet. `own`: the provider's server ID. `known`: its syncprov, None if unreadable."""

    answer: SyncAnswer
    why: str
    sure: bool = True
    lost: bool = False
    lacking: tuple[str, ...] = ()
    own: str = "000"
    known: Syncprov | None = None

    @property
    def fits(self) -> bool:
        return self.answer in ONLY_CHANGES and not self.lost

    def says(self, entries: int | None, logged: bool, about: str = "about") -> str:
        """Returns one line: what the provider sends, and what the catch-up costs the consumer."""
        if self.lost:
            return "what changes from now on, but NO deletions that come before it is started"
        if self.answer in ONLY_CHANGES:
            return "what changes and is deleted from now on, and nothing else"
        if self.answer not in COSTLY:
            return str(self.answer.value)
        named = self.answer is SyncAnswer.PRESENT
        what = "entryUUIDs of entries that did not change" if named else "entries, every one whole"
        count = "an unknown number of" if entries is None else f"{about} {entries:,}"
        return f"{count} {what}: {about} {cost_of(self.answer, entries, logged)}"


def expected_answer(
    server: Session, suffix: str, claimed: Sequence[str], log_base: str | None = None
) -> CatchUpForecast:
    """Predicts the answer to a consumer with `claimed` as its contextCSN. Raises LoaderError if the provider fails.

    `log_base`: the accesslog of a delta-syncrepl consumer. If the accesslog does not reach back to `claimed`, syncrepl
    falls back to a refresh."""
    known = syncprov_of(server, suffix)
    reply = sync.provider_server_id(server, suffix)
    if reply.answer in (SyncAnswer.NOT_OFFERED, SyncAnswer.REFUSED):
        forecast = CatchUpForecast(reply.answer, reply.reason, known=known)
    else:
        forecast = _CatchUpProbe(server, suffix, sorted(claimed), reply.server_id or "000", known).expected()
    if log_base is None:
        return forecast
    reaches = _log_reaches(server, log_base, sorted(claimed))
    if reaches:
        why = f"{log_base} reaches back to this contextCSN"
        return replace(forecast, answer=SyncAnswer.CHANGES, why=why, sure=True, lost=False)
    seen = "does not reach" if reaches is not None else "was not written to yet, and may not reach"
    why = f"{log_base} {seen} back to this contextCSN, so syncrepl falls back to a refresh: {forecast.why}"
    return replace(forecast, why=why, sure=forecast.sure and reaches is not None)


def _log_reaches(server: Session, log_base: str, claimed: Sequence[str]) -> bool | None:
    """Returns whether the accesslog answers this cookie, or a slightly older one, with changes. None (unknown) if the
    last write is the first one in the log, or older: OpenLDAP 2.5.13 stores a second minCSN with the next write, other
    versions do not."""
    newest = max(claimed)
    reply = sync.probe(server, log_base, claimed, _NO_ENTRY, reload_hint=False)
    if reply.answer is not SyncAnswer.NOTHING:
        return reply.answer is SyncAnswer.CHANGES
    older = [csn.just_before(text) if text == newest else text for text in claimed]
    reply = sync.probe(server, log_base, older, _NO_ENTRY, reload_hint=False)
    return True if reply.answer is SyncAnswer.CHANGES else None


@dataclass(frozen=True)
class _CatchUpProbe:
    server: Session
    suffix: str
    claimed: Sequence[str]
    own: str
    known: Syncprov | None

    def expected(self) -> CatchUpForecast:
        claimed = csn.by_server(self.claimed)
        lacking = sorted(self._writers() - claimed.keys())
        if lacking:
            if self.known is None and self._moved(_WATCH):
                return self._exact()  # the provider may itself be a consumer, and the writes another server's
            unless = "" if self.known else " (unless it is itself a consumer, which writes nothing of its own)"
            why = (
                f"no CSN of server ID {' and '.join(lacking)} stands in its contextCSN yet (there are those of "
                f"{', '.join(sorted(claimed))}); with the first one it takes the consumer's cookie for incomplete and "
                f"ignores it{unless}"
            )
            return replace(self._of(SyncAnswer.WHOLE, why, self.known is not None), lacking=tuple(lacking))
        # If the provider answers a cookie of 1970 with changes only, for every server ID, it remembers no deletions.
        # With a session log, such answers come only for server IDs that had not written when the log began.
        if all(self._ask(_ANCIENT.format(sid)) is SyncAnswer.CHANGES for sid in claimed):
            why = "it answers any cookie, however old, with changes alone"
            if self.known and self.known.nopresent:
                why = "olcSpNoPresent is set, which is for the database of an accesslog"
            return replace(self._of(SyncAnswer.CHANGES, why), lost=True)
        return self._shown() or self._inferred()

    def _writers(self) -> set[str]:
        """Returns the server IDs whose CSNs the next writes may bring into the contextCSN."""
        if self.known is None:
            return set() if self._is_shadow() else {self.own}
        return ({self.own} if self.known.writes_itself else set()) | self.known.server_ids

    def _is_shadow(self) -> bool:
        """Returns whether the database is a shadow (a consumer) by cn=Monitor; False if cn=Monitor cannot be read."""
        where = "(&(namingContexts=*)(monitorIsShadow=TRUE))"
        try:
            databases = self.server.find("cn=Databases,cn=Monitor", where, ["namingContexts"])
        except LoaderError:
            return False
        return any(self.suffix.encode() in entry.get("namingcontexts", []) for _, entry in databases)

    def _shown(self) -> CatchUpForecast | None:
        """Probes with a cookie older than the provider's contextCSN: `claimed`, or `claimed` less a microsecond."""
        if self._moved(0):
            return self._exact()
        if self._ask(csn.just_before(self._newest())) is SyncAnswer.CHANGES:
            return self._of(SyncAnswer.CHANGES, "its log reaches back far enough")
        if self.known is not None and not self.known.logs:
            return self._of(SyncAnswer.PRESENT, "it has no session log")
        return self._exact() if self._moved(_WATCH) else None

    def _moved(self, seconds: float) -> bool:
        """Returns whether the provider's contextCSN is past `claimed`, or gets past it within `seconds`."""
        until = time.monotonic() + seconds
        while True:
            now = csn.by_server(self.server.context_csns(self.suffix))
            if not csn.is_covered_by(now, csn.by_server(self.claimed)):
                return True
            if time.monotonic() >= until:
                return False
            time.sleep(_LOOK_EVERY)

    def _exact(self) -> CatchUpForecast:
        reply = self._reply(self.claimed)
        reasons = {
            SyncAnswer.CHANGES: "its log reaches back far enough",
            SyncAnswer.PRESENT: "its session log begins after the contextCSN of this seed",
            SyncAnswer.WHOLE: "it cannot place the contextCSN of this seed",
        }
        if not (self.known and self.known.logs):
            reasons[SyncAnswer.PRESENT] = "it has no session log that reaches back to this contextCSN"
        return self._of(reply.answer, reasons.get(reply.answer, reply.reason))

    def _inferred(self) -> CatchUpForecast:
        """Infers the answer from the configuration, if no write to the log was observed. A session log reaches back to
        its first write, or to the start of slapd."""
        if self.known is None:
            why = (
                "its last write is in no session log: there is none, or nothing was written since it began, which only "
                "its cn=config tells, and that cannot be read"
            )
            return self._of(SyncAnswer.PRESENT, why, sure=False)
        if self.known.log_base is not None:
            return self._from_accesslog(self.known.log_base)
        older = self._log_is_older(self.known.changed)
        if older:
            return self._of(SyncAnswer.CHANGES, "its session log began before this contextCSN")
        why = "nothing was written since its session log was set"
        if older is None:
            why += ", if that was done while slapd ran"
        return self._of(SyncAnswer.PRESENT, why, sure=older is not None)

    def _log_is_older(self, changed: str) -> bool | None:
        """Returns whether the session log was set before slapd started or before the last write; None if unknown."""
        if changed and self._newest() > changed:
            return True
        began = _started(self.server)
        if not changed or began is None:
            return None
        since = (csn.time(changed) - began).total_seconds()
        return None if 0 <= since < 1 else since < 0  # cn=Monitor has the start time in whole seconds

    def _from_accesslog(self, base: str) -> CatchUpForecast:
        """Compares the accesslog's minCSN with the claimed CSN of the server ID that will write next."""
        try:
            values = self.server.read(base, ["minCSN"]).get("mincsn", [])
        except LoaderError:
            return self._of(SyncAnswer.PRESENT, f"minCSN of {base} cannot be read", sure=False)
        sid = self._first_to_move()
        least = csn.by_server(value.decode() for value in values).get(sid)
        if least is not None and csn.by_server(self.claimed).get(sid, "") >= least:
            return self._of(SyncAnswer.CHANGES, f"{base} reaches back far enough")
        return self._of(SyncAnswer.PRESENT, f"{base} does not reach back to this contextCSN")

    def _newest(self) -> str:
        return csn.by_server(self.claimed)[self._first_to_move()]

    def _first_to_move(self) -> str:
        """Returns the probable server ID of the next write: the provider's own, else that of the newest CSN."""
        by_server = csn.by_server(self.claimed)
        if (self.known is None or self.known.writes_itself) and self.own in by_server:
            return self.own
        return max(by_server, key=lambda sid: by_server[sid])

    def _ask(self, other: str) -> SyncAnswer:
        """Probes with `other` in place of the claimed CSN of the same server ID."""
        sid = csn.server_id(other)
        return self._reply([*(text for text in self.claimed if csn.server_id(text) != sid), other]).answer

    def _reply(self, csns: Sequence[str]) -> sync.Reply:
        uuids = self.server.read(self.suffix, ["entryUUID"]).get("entryuuid", [])
        where = f"(entryUUID={uuids[0].decode()})" if uuids else "(objectClass=*)"
        return sync.probe(self.server, self.suffix, csns, where)

    def _of(self, answer: SyncAnswer, why: str, sure: bool = True) -> CatchUpForecast:
        return CatchUpForecast(answer, why, sure, own=self.own, known=self.known)


# The forecast in the report of a seeding.


class Forecast(msgspec.Struct, frozen=True):
    """`answer`: name of a SyncAnswer. `entries`: None if unknown. `logged`: the consumer's log level has `sync`.
    `lost`: the consumer will miss deletions."""

    answer: str
    why: str
    sure: bool
    entries: int | None
    logged: bool
    lost: bool

    @property
    def kind(self) -> SyncAnswer:
        return SyncAnswer[self.answer.upper()]


class Preflight(msgspec.Struct, frozen=True, omit_defaults=True):
    """Facts of the preflight. Without a provider, only `suffix` is set. `prepared`: what --prepare-provider did."""

    suffix: str
    provider: str | None = None
    prepared: list[str] | None = None
    context_csns: list[str] | None = None
    forecast: Forecast | None = None
    catch_up: str = ""


def forecast(
    connection: Connection, base: str, claimed: Sequence[str] | None, consumer: Config, log_base: str | None, part: bool
) -> tuple[Forecast | None, str]:
    """Forecasts what the provider sends to a consumer with the contextCSN `claimed` (None if it is not known yet), and
    logs warnings. Returns the forecast and the same in words; None and "" if it is unknown.

    `log_base`: the accesslog that the consumer's syncrepl reads. `part`: the consumer is a partial replica."""
    if claimed is None:
        log.warning("%s: only reading the LDIF tells its contextCSN", UNKNOWN)
        return None, ""
    try:
        with session(connection) as server:
            suffix = server.context_of(base)
            expected = expected_answer(server, suffix, claimed, log_base)
            costly = expected.lost or expected.answer in COSTLY
            entries = questions.entries(server, suffix, sampled=costly)
            many, logged = _ASSUMED if entries is None else entries, logs_sync(consumer)
            cost = of(expected.answer, many, logged)
            notes = list(_notes(server, expected, many / _READ + _MARGIN))
            mend = list(commands(server, suffix, expected, entries)) if costly else []
    except LoaderError as error:
        log.warning("%s: %s", UNKNOWN, error)
        return None, ""
    if logged and expected.answer in COSTLY:
        saved = units.duration(cost.seconds - of(expected.answer, many, logged=False).seconds)
        notes.append(f"catch-up: the consumer's log level has `sync`, which is {saved} of that")
    says = expected.says(entries, logged, "at most" if part or dn.key(base) != dn.key(suffix) else "about")
    if not expected.fits:
        sure = "" if expected.sure else ", as far as can be seen"
        why = plain.printable(expected.why)
        notes.insert(0, f"catch-up: when the consumer is started, {server.uri} will send it {says}{sure}; {why}")
    if mend:  # each command gets its own line, to be pasted
        first = "catch-up: to have what changes alone, stop here and do this on the provider first (or give "
        lines = [f"{first}--prepare-provider, with an account that may):", *map(plain.printable, mend)]
        notes.append("\n".join(lines))
    for note in notes:
        log.warning(note)
    answer = expected.answer.name.lower()
    return Forecast(answer, expected.why, expected.sure, entries, logged, expected.lost), says


def _notes(server: Session, expected: CatchUpForecast, seconds: float) -> Iterator[str]:
    """Warns if the session log may overflow within `seconds`, or if another provider has to write first."""
    size, rate = expected.known.session_log if expected.known else 0, writes_per_second(server)
    if size and rate and rate * seconds > size / 2:
        yield (
            f"catch-up: its session log holds {size:,} writes, and it has taken {rate:,.1f}/s since its start: "
            f"enough for {size / rate / 60:,.0f} minutes until the consumer is started"
        )
    others = [sid for sid in expected.lacking if sid != expected.own]
    if others:
        yield (
            f"catch-up: server ID {' and '.join(others)} is that of another provider: the write that brings it into "
            "the contextCSN has to be made there"
        )


# The commands that an operator types on the provider's host, so that the provider sends only changes.


def log_size(entries: int | None) -> int:
    """Returns a suitable olcSpSessionlog. Each recorded write takes some 500 bytes of the provider's memory, and the
    time to answer from the log grows with the square of the modifications, so the log is no larger than useful."""
    return max(_LEAST_LOG, (entries or 0) // _ENTRIES_PER_WRITE)


def change_command(known: Syncprov, size: int) -> Change:
    before = (str(known.session_log),) if known.session_log else ()
    return Change(SESSION_LOG, before, (str(size),) if size else ())


def commands(server: Session, suffix: str, expected: CatchUpForecast, entries: int | None) -> Iterator[str]:
    """Yields lines to paste into a shell on the provider's host. The write is last: the log begins with that write."""
    known, size = expected.known, log_size(entries)
    if known is None:
        yield from _find_and_set(server.uri, suffix, size)
    elif not known.logs:
        yield f"ldapmodify {options.external(server.uri)} <<'EOF'"
        yield from configuration.change_record(known.entry_dn, [change_command(known, size)]).splitlines()
        yield "EOF"
        if not known.keeps_changes:
            yield "# It runs on a slapd.conf, and forgets this when it ends: have there, too, below `overlay syncprov`,"
            yield f"# syncprov-sessionlog {size}"
    yield from _write(server, suffix, known)


def _find_and_set(uri: str, suffix: str, size: int) -> Iterator[str]:
    """Yields commands for a cn=config that is unreadable from here. `add` fails harmlessly if a log is already set."""
    yield options.find_database(uri, suffix)
    overlays = "'(objectClass=olcSyncProvConfig)' 1.1"
    yield f"DN=$({options.searching(uri)} \"$DB\" -s one {overlays} | sed -n 's/^dn: //p')"
    record = f"dn: %s\\nchangetype: modify\\nadd: {SESSION_LOG}\\n{SESSION_LOG}: {size}\\n"
    yield f"printf '{record}' \"$DN\" | ldapmodify {options.external(uri)}"


def _write(server: Session, suffix: str, known: Syncprov | None) -> Iterator[str]:
    who = known.database.root_dn if known and known.database.root_dn else "DN-THAT-MAY-WRITE"
    where = "URI-OF-ITS-OWN-PROVIDER" if known and not known.writes_itself else shlex.quote(server.uri)
    try:
        classes: Sequence[bytes] = server.read(suffix, ["objectClass"]).get("objectclass", [])
    except LoaderError:
        classes = []
    record = [options.line("dn", suffix.encode()), "changetype: modify", "replace: objectClass"]
    record += [options.line("objectClass", value) for value in classes]
    yield f"ldapmodify -x -D {shlex.quote(who)} -W -H {where} <<'EOF'"
    yield from record
    if known is None:
        # A second write: a probe cannot detect a log that has only one write.
        yield from ("", *record)
    yield "EOF"
