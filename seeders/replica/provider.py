"""A provider's syncprov, and how it will answer a consumer of its tree, asked in ways that change nothing.

slapo-syncprov decides by comparing the cookie with its own contextCSN, so it can only be asked with a cookie that is
older (server/sync.py). If nothing was written since what the seed claims, one a microsecond older is sent, and
cn=config tells what that leaves open. In every case the answer is that to a consumer which comes after one more write.
"""

from __future__ import annotations

import datetime
import re
import shlex
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from loader import csn, dn
from loader.config import Change, Config, Database
from loader.errors import ConfigHidden, LoaderError
from loader.server import configuration, options, sync
from loader.server.session import Session
from loader.server.sync import SyncAnswer

SESSION_LOG = "olcSpSessionlog"
WATCH = 1.5  # seconds to wait for somebody's write, if nothing else tells
_LOOK_EVERY = 0.1
_NO_TIME = datetime.timedelta(0)
_SECOND = datetime.timedelta(seconds=1)  # slapd's monitor tells its start without fractions
_ANCIENT = "19700101000000.000000Z#000000#{}#000000"
_SYNCPROV = re.compile(r"olcOverlay=(\{-?\d+\})?syncprov,", re.IGNORECASE)
_SETTLED = 60  # seconds that slapd must have run for its counters to tell a rate
_WRITES = ("Add", "Modify", "Modrdn", "Delete")
_LEAST_LOG = 100_000  # writes
_ENTRIES_PER_WRITE = 100  # a session log holds one write for so many entries, if that is more


@dataclass(frozen=True)
class Syncprov:
    """slapo-syncprov of one database. `session_log`: writes it holds, 0 without. `log_base`: the accesslog it answers
    from in its place (olcSpSessionlogSource). `changed`: the entryCSN of its entry in cn=config. `writes_itself`: no
    shadow, so that its own server ID comes into the contextCSN. `server_ids`: of all providers that may write."""

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


def read(server: Session, suffix: str) -> Syncprov | None:
    """Of the database of `suffix`; None where cn=config, or a syncprov of it, is not to be seen."""
    try:
        config = configuration.read_online(server)
    except ConfigHidden:
        return None
    return of(config, suffix)


def of(config: Config, suffix: str) -> Syncprov | None:
    return next(_found(config, suffix), None)


def _found(config: Config, suffix: str) -> Iterator[Syncprov]:
    for database in config.databases:
        if not any(dn.key(suffix) == dn.key(own) for own in database.suffixes):
            continue
        below = "," + database.entry_dn.lower()
        for name, _ in config.entries:
            if _SYNCPROV.match(name) and name.lower().endswith(below):
                yield _syncprov(config, database, name)


def _syncprov(config: Config, database: Database, name: str) -> Syncprov:
    own, base = config.reader(name), config.reader(database.entry_dn)
    multi = base.flag("olcMultiProvider", False) or base.flag("olcMirrorMode", False)
    return Syncprov(
        entry_dn=name,
        database=database,
        session_log=own.number(SESSION_LOG, 0),
        log_base=own.dn("olcSpSessionlogSource"),
        nopresent=own.flag("olcSpNoPresent", False),
        changed=next(iter(own.stored("entryCSN")), ""),
        writes_itself=multi or not database.consumer,
        server_ids=frozenset(_server_ids(config)) if multi else frozenset(),
        keeps_changes=configuration.keeps_changes(config),
    )


def _server_ids(config: Config) -> Iterator[str]:
    """All that are configured, each with the URL of its listener, as three hex digits."""
    for words in config.reader("cn=config").words("olcServerID"):
        text = words[0] if words else ""
        if re.fullmatch(r"(0[xX])?[0-9a-fA-F]+", text):
            yield f"{int(text, 10 if text.isdigit() else 16):03x}"


def started(server: Session) -> datetime.datetime | None:
    """When slapd was started, in UTC without a zone, as its monitor tells; None where it does not tell us."""
    text = _monitored(server, "cn=Start,cn=Time,cn=Monitor", "monitorTimestamp")
    try:
        return datetime.datetime.strptime(text, "%Y%m%d%H%M%SZ") if text else None
    except ValueError:
        return None


def writes_per_second(server: Session) -> float | None:
    """On the average since slapd was started; None where its monitor does not tell us, or not yet."""
    uptime = _monitored(server, "cn=Uptime,cn=Time,cn=Monitor", "monitoredInfo")
    counts = [_monitored(server, f"cn={name},cn=Operations,cn=Monitor", "monitorOpCompleted") for name in _WRITES]
    if not uptime or not all(counts) or int(uptime) < _SETTLED:
        return None
    return sum(map(int, counts)) / int(uptime)


def _monitored(server: Session, entry: str, attribute: str) -> str:
    try:
        found = server.read(entry, [attribute]).get(attribute.lower(), [])
    except LoaderError:
        return ""
    return found[0].decode() if found else ""


def accesslog_reaches_back(server: Session, log_base: str, claimed: list[str], sid: str) -> bool | None:
    """Does an accesslog reach back to what is claimed of a server ID (its minCSN)? None where it cannot be read."""
    try:
        values = server.read(log_base, ["minCSN"]).get("mincsn", [])
    except LoaderError:
        return None
    least = csn.by_server(value.decode() for value in values).get(sid)
    return least is not None and csn.by_server(claimed).get(sid, "") >= least


@dataclass(frozen=True)
class CatchUpForecast:
    """`lost`: deletions that the consumer will never hear of. `sure`: the provider showed or said so. `lacking`: server
    IDs that are not in the contextCSN yet. `own`: the provider's server ID. `known`: its configuration."""

    answer: SyncAnswer
    why: str
    sure: bool = True
    lost: bool = False
    lacking: tuple[str, ...] = ()
    own: str = "000"
    known: Syncprov | None = None

    @property
    def fits(self) -> bool:
        return self.answer in (SyncAnswer.CHANGES, SyncAnswer.NOTHING) and not self.lost


@dataclass(frozen=True)
class CatchUpProbe:
    server: Session
    suffix: str
    claimed: Sequence[str]
    own: str
    known: Syncprov | None

    def expected(self) -> CatchUpForecast:
        lacking = tuple(sorted(self._writers() - csn.by_server(self.claimed).keys()))
        if lacking and self.known is None and self._moved(WATCH):
            return self._exact()  # it may be a consumer itself, and the writes another server's
        if lacking:
            sure = self.known is not None
            return self._of(SyncAnswer.WHOLE, self._why_whole(lacking), sure, lacking=lacking)
        if self._ignores_age():
            return self._ageless()
        shown = self._shown()
        if shown is not None:
            return shown
        return self._inferred()

    def _writers(self) -> set[str]:
        """Server IDs whose CSNs come into the contextCSN with the next writes."""
        if self.known is None:
            return set() if self._is_shadow() else {self.own}
        own = {self.own} if self.known.writes_itself else set()
        return own | self.known.server_ids

    def _is_shadow(self) -> bool:
        """A consumer of another server, as the monitor tells; one that nobody tells of is taken for none."""
        where = "(&(namingContexts=*)(monitorIsShadow=TRUE))"
        try:
            found = self.server.find("cn=Databases,cn=Monitor", where, ["namingContexts"])
        except LoaderError:
            return False
        return any(self.suffix.encode() in one.get("namingcontexts", []) for _, one in found)

    def _why_whole(self, lacking: Sequence[str]) -> str:
        listed = ", ".join(sorted(csn.by_server(self.claimed)))
        consumer = " (unless it is itself a consumer, which writes nothing of its own)"
        unless = "" if self.known else consumer
        return (
            f"no CSN of server ID {' and '.join(lacking)} stands in its contextCSN yet (there are those of {listed}); "
            f"with the first one it takes the consumer's cookie for incomplete and ignores it{unless}"
        )

    def _ignores_age(self) -> bool:
        """Would it answer a cookie of 1970 with changes alone, whichever server ID is that old? Then nothing remembers
        deletions. A session log does so for server IDs alone that had not written when it began."""
        sids = csn.by_server(self.claimed)
        return all(self._ask(_ANCIENT.format(sid)) is SyncAnswer.CHANGES for sid in sids)

    def _ageless(self) -> CatchUpForecast:
        why = "it answers any cookie, however old, with changes alone"
        if self.known and self.known.nopresent:
            why = "olcSpNoPresent is set, which is for the database of an accesslog"
        return self._of(SyncAnswer.CHANGES, why, lost=True)

    def _shown(self) -> CatchUpForecast | None:
        """By a cookie that is older than the provider's contextCSN: what is claimed, or that a moment earlier."""
        if self._moved(0):
            return self._exact()
        if self._ask(csn.just_before(self._newest())) is SyncAnswer.CHANGES:
            return self._of(SyncAnswer.CHANGES, "its log reaches back far enough")
        if self.known is not None and not self.known.logs:
            return self._of(SyncAnswer.PRESENT, "it has no session log")
        return self._exact() if self._moved(WATCH) else None

    def _moved(self, seconds: float) -> bool:
        """Has anything been written since what is claimed, or is it within so many seconds?"""
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
        if reply.answer is SyncAnswer.PRESENT and not (self.known and self.known.logs):
            why = "it has no session log that reaches back to this contextCSN"
            return self._of(SyncAnswer.PRESENT, why)
        return self._of(reply.answer, reasons.get(reply.answer, reply.reason))

    def _inferred(self) -> CatchUpForecast:
        """A log that nobody was seen to write to. It holds from its first write on, or from slapd's start."""
        if self.known is None:
            why = (
                "its last write is in no session log: there is none, or nothing was written since it began, which only "
                "its cn=config tells, and that cannot be read"
            )
            return self._of(SyncAnswer.PRESENT, why, sure=False)
        if self.known.log_base is not None:
            return self._from_accesslog(self.known.log_base)
        older = self._log_is_older()
        if older:
            return self._of(SyncAnswer.CHANGES, "its session log began before this contextCSN")
        why = "nothing was written since its session log was set"
        if older is None:
            why += ", if that was done while slapd ran"
        return self._of(SyncAnswer.PRESENT, why, sure=older is not None)

    def _log_is_older(self) -> bool | None:
        """Was the session log set before slapd's start, or before the last write? None where that cannot be told."""
        changed = self.known.changed if self.known else ""
        if changed and self._newest() > changed:
            return True
        began = started(self.server)
        if not changed or began is None:
            return None
        since = csn.time(changed) - began
        return None if _NO_TIME <= since < _SECOND else since < _NO_TIME

    def _from_accesslog(self, base: str) -> CatchUpForecast:
        reached = accesslog_reaches_back(self.server, base, list(self.claimed), self._first_to_move())
        if reached is None:
            return self._of(SyncAnswer.PRESENT, f"minCSN of {base} cannot be read", sure=False)
        if reached:
            return self._of(SyncAnswer.CHANGES, f"{base} reaches back far enough")
        return self._of(SyncAnswer.PRESENT, f"{base} does not reach back to this contextCSN")

    def _newest(self) -> str:
        return csn.by_server(self.claimed)[self._first_to_move()]

    def _first_to_move(self) -> str:
        """The server ID of the next write, as far as one can tell: the provider's own, else that of the last write."""
        by_server = csn.by_server(self.claimed)
        own = self.known is None or self.known.writes_itself
        if own and self.own in by_server:
            return self.own
        return max(by_server, key=lambda sid: by_server[sid])

    def _ask(self, other: str) -> SyncAnswer:
        """With one CSN in the place of that of the same server ID."""
        sid = csn.server_id(other)
        others = [one for one in self.claimed if csn.server_id(one) != sid]
        return self._reply([*others, other]).answer

    def _reply(self, csns: Sequence[str]) -> sync.Reply:
        found = self.server.read(self.suffix, ["entryUUID"]).get("entryuuid", [])
        where = f"(entryUUID={found[0].decode()})" if found else "(objectClass=*)"
        return sync.probe(self.server, self.suffix, csns, where)

    def _of(
        self, answer: SyncAnswer, why: str, sure: bool = True, lost: bool = False, lacking: Sequence[str] = ()
    ) -> CatchUpForecast:
        return CatchUpForecast(answer, why, sure, lost, tuple(lacking), self.own, self.known)


# What makes a provider answer a seed with changes alone, as an operator types it on the provider's host.


def log_size(entries: int | None) -> int:
    """A good olcSpSessionlog. Some 500 bytes of the provider's memory a write, and only for writes that are made; but
    to answer from it takes time with the square of the modifications, so it is not made larger than useful."""
    return max(_LEAST_LOG, (entries or 0) // _ENTRIES_PER_WRITE)


def commands(server: Session, suffix: str, found: CatchUpForecast, entries: int | None) -> Iterator[str]:
    """Lines to paste into a shell on the provider's host. The write comes last: a log begins with the first write."""
    if found.known is None or not found.known.logs:
        yield from _log_commands(server.uri, suffix, found.known, log_size(entries))
    yield from _write(server, suffix, found.known)


def _log_commands(uri: str, suffix: str, known: Syncprov | None, size: int) -> Iterator[str]:
    if known is None:
        yield from _find_and_set(uri, suffix, size)
        return
    yield f"ldapmodify {options.external(uri)} <<'EOF'"
    yield from configuration.change_record(known.entry_dn, [change_command(known, size)]).splitlines()
    yield "EOF"
    if not known.keeps_changes:
        yield "# It runs on a slapd.conf, and forgets this when it ends: have there, too, below `overlay syncprov`,"
        yield f"# syncprov-sessionlog {size}"


def _find_and_set(uri: str, suffix: str, size: int) -> Iterator[str]:
    """Where cn=config cannot be read from here. `add` is refused where it is set already, which does no harm."""
    yield options.find_database(uri, suffix)
    overlays = "'(objectClass=olcSyncProvConfig)' 1.1"
    yield f"DN=$({options.searching(uri)} \"$DB\" -s one {overlays} | sed -n 's/^dn: //p')"
    record = f"dn: %s\\nchangetype: modify\\nadd: {SESSION_LOG}\\n{SESSION_LOG}: {size}\\n"
    yield f"printf '{record}' \"$DN\" | ldapmodify {options.external(uri)}"


def change_command(known: Syncprov, size: int) -> Change:
    before = (str(known.session_log),) if known.session_log else ()
    return Change(SESSION_LOG, before, (str(size),) if size else ())


def _write(server: Session, suffix: str, known: Syncprov | None) -> Iterator[str]:
    who = known.database.root_dn if known and known.database.root_dn else "DN-THAT-MAY-WRITE"
    where = shlex.quote(server.uri)
    if known and not known.writes_itself:
        where = "URI-OF-ITS-OWN-PROVIDER"
    yield f"ldapmodify -x -D {shlex.quote(who)} -W -H {where} <<'EOF'"
    line, classes = options.line, _object_classes(server, suffix)
    record = [line("dn", suffix.encode()), "changetype: modify", "replace: objectClass"]
    record += [line("objectClass", value) for value in classes]
    yield from record
    if known is None:
        # Of a log that has one write nothing can be seen from outside.
        yield from ("", *record)
    yield "EOF"


def _object_classes(server: Session, suffix: str) -> Sequence[bytes]:
    try:
        return server.read(suffix, ["objectClass"]).get("objectclass", [])
    except LoaderError:
        return []
