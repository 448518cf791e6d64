"""Predicts, before a seeding, what the provider will send when the seeded consumer starts, and what that costs. Reports
both to the operator, with the commands that make the provider send less.

The prediction comes from probes (server/sync.py): searches with the cookie of a consumer. slapo-syncprov reveals its
kind of answer only if the cookie is older than its own contextCSN. If nothing was written since the contextCSN of the
seed, the cookie of the probe is made a microsecond older. cn=config decides the remaining cases. The prediction always
assumes that the provider gets one more write before the answer.

The costs are those of the consumer, which is always slower than the provider (measured: docs/catch-up.md)."""

from __future__ import annotations

import datetime
import itertools
import logging
import math
import re
import shlex
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress

import msgspec

from loader import csn, dn, plain, units
from loader.config import Change, Config, Database
from loader.errors import ConfigHidden, LoaderError
from loader.server import configuration, options, questions, sync
from loader.server.options import Connection
from loader.server.session import Session, session
from loader.server.sync import SyncAnswer

SESSION_LOG = "olcSpSessionlog"
COSTLY = (SyncAnswer.PRESENT, SyncAnswer.WHOLE)  # answers that name every entry
_OTHERS = {
    SyncAnswer.RELOAD: "the order to fetch everything again",
    SyncAnswer.REFUSED: "an error",
    SyncAnswer.NOT_OFFERED: "no synchronization",
}
_WATCH = 1.5  # seconds to wait for a write by any client, if nothing else shows the provider's answer
_LOOK_EVERY = 0.1  # seconds between two reads of contextCSN while waiting for a write
_ANCIENT = "19700101000000.000000Z#000000#{}#000000"  # a CSN of 1970; {}: the server ID
_SYNCPROV = re.compile(r"olcOverlay=(\{-?\d+\})?syncprov,", re.IGNORECASE)
_LEAST_LOG = 100_000  # writes; minimum size of a recommended session log
_ENTRIES_PER_WRITE = 100  # entries of the tree per write that a recommended session log can hold
_START = 0.2  # seconds to connect, bind and send the search
_BUCKETS = 65536  # AVL trees in which slapd's consumer keeps entryUUIDs, one for each value of the first two bytes
_EACH = {SyncAnswer.PRESENT: 2.4e-6, SyncAnswer.WHOLE: 28e-6}  # seconds per entry, if the AVL trees are small
_SHALLOW = 2.2  # an AVL tree of up to 2^_SHALLOW nodes is small
_DEEPER = 1.1e-6  # additional seconds per entry whenever the number of nodes doubles, for one more cache miss
_LINES = {SyncAnswer.PRESENT: 9.7e-6, SyncAnswer.WHOLE: 72e-6}  # additional seconds per entry with loglevel `sync`
_UUID = 84  # bytes of the consumer's memory for each entryUUID; an entry that is sent whole needs no more than that
_SYNC = 16384  # bit of `sync` in olcLogLevel
_ASSUMED = 1_000_000  # number of entries for which the cost is reported if the size of the tree is unknown
_NO_ENTRY = "(entryUUID=00000000-0000-0000-0000-000000000000)"
UNKNOWN = "catch-up: what the provider will send is not known"

log = logging.getLogger(__name__)


class Forecast(msgspec.Struct, frozen=True):
    """What the provider will send to the consumer. `sure`: a probe or the configuration proves the answer. `lost`: the
    consumer will miss deletions. `entries`: number of entries in the tree; None if unknown. `logged`: the consumer's
    loglevel includes `sync`."""

    answer: SyncAnswer
    why: str
    sure: bool = True
    lost: bool = False
    entries: int | None = None
    logged: bool = False

    @property
    def only_changes(self) -> bool:
        return self.answer in (SyncAnswer.CHANGES, SyncAnswer.NOTHING) and not self.lost

    def describe(self, about: str = "about") -> str:
        """Returns one line: what the provider sends, and what the catch-up costs the consumer."""
        if self.lost:
            return "what changes from now on, but NO deletions from before it is started"
        if self.only_changes:
            return "what changes and is deleted from now on, and nothing else"
        if self.answer not in COSTLY:
            return _OTHERS[self.answer]
        is_present = self.answer is SyncAnswer.PRESENT
        what = "entryUUIDs of entries that did not change" if is_present else "entries, every one whole"
        count = "an unknown number of" if self.entries is None else f"{about} {self.entries:,}"
        return f"{count} {what}: {about} {cost_of(self.answer, self.entries, self.logged)}"


class Preflight(msgspec.Struct, frozen=True, omit_defaults=True):
    """Facts of the preflight. Without a provider, only `suffix` is set. `prepared`: what --prepare-provider did.
    `is_judged` is False if it is still unknown whether the entries fit, because it takes too long to count them."""

    suffix: str
    provider: str | None = None
    prepared: list[str] | None = None
    context_csns: list[str] | None = None
    forecast: Forecast | None = None
    catch_up: str = ""
    is_judged: bool = True


def seconds_of(answer: SyncAnswer, entries: int, logged: bool) -> float:
    """Returns the seconds that the consumer needs for an answer with `entries` entries. `logged`: see Forecast."""
    if answer not in COSTLY:
        return _START
    doublings = math.log2(max(1.0, entries / _BUCKETS))
    each = _EACH[answer] + _DEEPER * max(0.0, doublings - _SHALLOW) + (_LINES[answer] if logged else 0)
    return _START + entries * each


def cost_of(answer: SyncAnswer, entries: int | None, logged: bool) -> str:
    """Returns time and memory of a COSTLY answer, in words; those for _ASSUMED entries if `entries` is None."""
    count, rest = (_ASSUMED, f" for {_ASSUMED:,}") if entries is None else (entries, "")
    return f"{units.duration(seconds_of(answer, count, logged))} and {units.size(_UUID * count)} of its memory{rest}"


def logs_sync(config: Config) -> bool:
    """Returns whether olcLogLevel includes `sync`, so that slapd logs a line for every entryUUID."""
    for word in (word.lower() for words in config.reader("cn=config").words("olcLogLevel") for word in words):
        with suppress(ValueError):  # the word is the name of another level, so int() fails
            if word in ("sync", "any") or int(word, 0) & _SYNC:
                return True
    return False


class Syncprov(msgspec.Struct, frozen=True):
    """slapo-syncprov of one database. `session_log`: its size in writes, 0 if there is none. `log_base`: suffix of the
    accesslog that replaces the session log (olcSpSessionlogSource). `changed`: entryCSN of the overlay's entry in
    cn=config. `writes_itself`: clients can write to the database, so the contextCSN gets the provider's own server ID.
    `server_ids`: of all providers, if there are several. `keeps_changes`: changes of cn=config survive a restart."""

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
    def has_log(self) -> bool:
        return bool(self.session_log) or self.log_base is not None

    def resized(self, size: int) -> Change:
        """Returns the change of cn=config that sets the size of the session log; 0 removes it."""
        before = (str(self.session_log),) if self.session_log else ()
        return Change(SESSION_LOG, before, (str(size),) if size else ())


def syncprov_of(server: Session, suffix: str) -> Syncprov | None:
    """Returns the syncprov of the database of `suffix`; None if the account cannot read its entry in cn=config."""
    with suppress(ConfigHidden):
        return syncprov_in(configuration.read_online(server), suffix)
    return None


def syncprov_in(config: Config, suffix: str) -> Syncprov | None:
    databases = [database for database in config.databases if dn.key(suffix) in map(dn.key, database.suffixes)]
    for database, (name, _) in itertools.product(databases, config.entries):
        if not (_SYNCPROV.match(name) and name.lower().endswith("," + database.entry_dn.lower())):
            continue
        overlay, base = config.reader(name), config.reader(database.entry_dn)
        multi = base.flag("olcMultiProvider", False) or base.flag("olcMirrorMode", False)
        # A value of olcServerID is an ID, optionally followed by the URL of the listener it is for.
        ids = [words[0] for words in config.reader("cn=config").words("olcServerID") if words] if multi else []
        numbers = [text for text in ids if re.fullmatch(r"(0[xX])?[0-9a-fA-F]+", text)]
        return Syncprov(
            entry_dn=name,
            database=database,
            session_log=overlay.number(SESSION_LOG, 0),
            log_base=overlay.dn("olcSpSessionlogSource"),
            nopresent=overlay.flag("olcSpNoPresent", False),
            changed=next(iter(overlay.stored("entryCSN")), ""),
            writes_itself=multi or not database.consumer,
            server_ids=frozenset(f"{int(text, 10 if text.isdigit() else 16):03x}" for text in numbers),
            keeps_changes=configuration.keeps_changes(config),
        )
    return None


def expected_answer(
    server: Session, suffix: str, claimed: Sequence[str], syncprov: Syncprov | None, log_base: str | None = None
) -> Forecast:
    """Predicts the answer to a consumer that has the contextCSN `claimed`. Raises LoaderError if the provider fails.

    `log_base`: the accesslog from which a delta-syncrepl consumer reads. If the log begins after `claimed`, syncrepl
    falls back to a refresh from the database."""
    reply = sync.probe(server, suffix, None)
    if reply.answer in (SyncAnswer.NOT_OFFERED, SyncAnswer.REFUSED):
        forecast = Forecast(reply.answer, reply.reason)
    else:
        forecast = _Probe(server, suffix, csn.by_server(claimed), reply.server_id or "000", syncprov).forecast()
    if log_base is None:
        return forecast
    answer, newest = sync.probe(server, log_base, claimed, _NO_ENTRY, reload_hint=False).answer, max(claimed)
    is_unwritten = answer is SyncAnswer.NOTHING
    if is_unwritten:
        older = [csn.just_before(text) if text == newest else text for text in claimed]
        answer = sync.probe(server, log_base, older, _NO_ENTRY, reload_hint=False).answer
    if answer is SyncAnswer.CHANGES:
        return Forecast(SyncAnswer.CHANGES, f"{log_base} reaches back to this contextCSN")
    # Either the accesslog begins with the last write, or it does not contain that write. In the first case, the answer
    # depends on the version: OpenLDAP 2.5.13 stores a second minCSN with the next write, other versions do not.
    seen = "was not written to yet, and may not reach" if is_unwritten else "does not reach"
    why = f"{log_base} {seen} back to this contextCSN, so syncrepl falls back to a refresh: {forecast.why}"
    return msgspec.structs.replace(forecast, why=why, sure=forecast.sure and not is_unwritten)


def reply_to(server: Session, suffix: str, csns: Iterable[str]) -> sync.Reply:
    """Returns the provider's reply to a consumer with the contextCSN `csns`."""
    uuids = server.read(suffix, ["entryUUID"]).get("entryuuid", [])
    return sync.probe(server, suffix, list(csns), f"(entryUUID={uuids[0].decode()})" if uuids else "(objectClass=*)")


class _Probe(msgspec.Struct, frozen=True):
    """`claimed` maps a server ID to the consumer's CSN. `own`: the provider's server ID. `syncprov`: None if hidden."""

    server: Session
    suffix: str
    claimed: Mapping[str, str]
    own: str
    syncprov: Syncprov | None

    def forecast(self) -> Forecast:
        syncprov, claimed = self.syncprov, self.claimed
        # The server IDs whose next write may add a CSN to contextCSN.
        writers = {self.own} if (syncprov.writes_itself if syncprov else not self._is_shadow()) else set()
        lacking = sorted((writers | syncprov.server_ids if syncprov else writers) - claimed.keys())
        if lacking:
            if syncprov is None and self._has_moved(_WATCH):
                return self._exact()  # contextCSN has moved, so the provider may itself be a consumer
            why = (
                f"its contextCSN has no CSN of server ID {' and '.join(lacking)} yet (only of "
                f"{', '.join(sorted(claimed))}); after the first one it takes the consumer's cookie for incomplete and "
                "ignores it"
            )
            if others := [sid for sid in lacking if sid != self.own]:
                why += f". That write of server ID {' and '.join(others)} has to be made on another provider"
            unless = "" if syncprov else " (unless it is itself a consumer, which writes nothing of its own)"
            return Forecast(SyncAnswer.WHOLE, why + unless, sure=syncprov is not None)
        # A cookie of 1970 is older than any log. If the provider answers it with changes only for every server ID, it
        # sends no deletions. A session log causes this answer only for server IDs that had not written before it began.
        if all(self._answer_to(_ANCIENT.format(sid)) is SyncAnswer.CHANGES for sid in claimed):
            any_cookie = "it answers any cookie, however old, with changes alone"
            nopresent = "olcSpNoPresent is set, which is for the database of an accesslog"
            return Forecast(SyncAnswer.CHANGES, nopresent if syncprov and syncprov.nopresent else any_cookie, lost=True)
        if self._has_moved(0):
            return self._exact()
        if self._answer_to(csn.just_before(claimed[self._next_writer])) is SyncAnswer.CHANGES:
            return Forecast(SyncAnswer.CHANGES, "its log reaches back far enough")
        if syncprov and not syncprov.has_log:
            return Forecast(SyncAnswer.PRESENT, "it has no session log")
        if self._has_moved(_WATCH):
            return self._exact()
        if syncprov is None:
            why = (
                "its last write is in no session log: either it has none, or nothing was written since the log began; "
                "only its cn=config, which cannot be read, would show which"
            )
            return Forecast(SyncAnswer.PRESENT, why, sure=False)
        if syncprov.log_base:
            return self._from_accesslog(syncprov.log_base)
        return self._from_session_log(syncprov.changed)

    @property
    def _next_writer(self) -> str:
        """The probable server ID of the next write: the provider's own, else that of the newest CSN."""
        if self.own in self.claimed and (self.syncprov is None or self.syncprov.writes_itself):
            return self.own
        return max(self.claimed, key=lambda sid: self.claimed[sid])

    def _answer_to(self, other: str) -> SyncAnswer:
        """Returns the answer to `claimed` with `other` in place of the CSN of the same server ID."""
        csns = dict(self.claimed) | {csn.server_id(other): other}
        return reply_to(self.server, self.suffix, csns.values()).answer

    def _is_shadow(self) -> bool:
        """Returns whether the database is a consumer according to cn=Monitor; False if cn=Monitor cannot be read."""
        where = "(&(namingContexts=*)(monitorIsShadow=TRUE))"
        try:
            databases = self.server.find("cn=Databases,cn=Monitor", where, ["namingContexts"])
        except LoaderError:
            return False
        return any(self.suffix.encode() in entry.get("namingcontexts", []) for _, entry in databases)

    def _has_moved(self, seconds: float) -> bool:
        """Returns whether the provider's contextCSN is newer than `claimed`, or becomes newer within `seconds`."""
        until = time.monotonic() + seconds
        while csn.is_covered_by(csn.by_server(self.server.context_csns(self.suffix)), self.claimed):
            if time.monotonic() >= until:
                return False
            time.sleep(_LOOK_EVERY)
        return True

    def _exact(self) -> Forecast:
        """Returns the answer to `claimed` itself. Call this only if the provider's contextCSN is newer."""
        reply = reply_to(self.server, self.suffix, self.claimed.values())
        reasons = {
            SyncAnswer.CHANGES: "its log reaches back far enough",
            SyncAnswer.PRESENT: "its session log begins after the contextCSN of this seed"
            if self.syncprov and self.syncprov.has_log
            else "it has no session log that reaches back to this contextCSN",
            SyncAnswer.WHOLE: "it cannot place the contextCSN of this seed",
        }
        return Forecast(reply.answer, reasons.get(reply.answer, reply.reason))

    def _from_accesslog(self, base: str) -> Forecast:
        """Predicts the answer from the accesslog's minCSN and the consumer's CSN of the server ID that writes next."""
        try:
            values = self.server.read(base, ["minCSN"]).get("mincsn", [])
        except LoaderError:
            return Forecast(SyncAnswer.PRESENT, f"minCSN of {base} cannot be read", sure=False)
        sid = self._next_writer
        least = csn.by_server(value.decode() for value in values).get(sid)
        if least is not None and self.claimed[sid] >= least:
            return Forecast(SyncAnswer.CHANGES, f"{base} reaches back far enough")
        return Forecast(SyncAnswer.PRESENT, f"{base} does not reach back to this contextCSN")

    def _from_session_log(self, changed: str) -> Forecast:
        """Predicts the answer from the time at which the session log was configured. If slapd was started later, the
        log reaches back to that start, else only to its first write. `changed`: CSN of the overlay's last change."""
        log_is_older, since = bool(changed) and self.claimed[self._next_writer] > changed, 0.0
        if changed and not log_is_older:
            with suppress(LoaderError, KeyError, IndexError, ValueError):  # the account cannot read cn=Monitor
                entry = self.server.read("cn=Start,cn=Time,cn=Monitor", ["monitorTimestamp"])
                started = datetime.datetime.strptime(entry["monitortimestamp"][0].decode(), "%Y%m%d%H%M%SZ")
                since = (csn.time(changed) - started).total_seconds()
        if log_is_older or since < 0:
            return Forecast(SyncAnswer.CHANGES, "its session log began before this contextCSN")
        why = "nothing was written since its session log was set"
        if since < 1:  # cn=Monitor has the start time in whole seconds
            return Forecast(SyncAnswer.PRESENT, f"{why}, if that was done while slapd ran", sure=False)
        return Forecast(SyncAnswer.PRESENT, why)


def forecast(
    connection: Connection,
    base: str,
    claimed: Sequence[str] | None,
    consumer: Config,
    log_base: str | None,
    part: bool,
    entries: int | None,
) -> tuple[Forecast | None, str]:
    """Predicts what the provider sends to a consumer with the contextCSN `claimed` (None: unknown). Logs warnings, with
    commands for the provider's host that make it send only changes. Returns the forecast, and a description in words;
    None and "" if the provider fails, or if `claimed` is None.

    `log_base`: the accesslog that the consumer's syncrepl reads. `part`: the consumer is a partial replica. `entries`:
    the number of entries below `base`; None if the provider must be asked."""
    if claimed is None:
        log.warning("%s: the contextCSN is not known before the LDIF has been read", UNKNOWN)
        return None, ""
    logged = logs_sync(consumer)
    try:
        with session(connection) as server:
            suffix = server.context_of(base)
            syncprov = syncprov_of(server, suffix)
            expected = expected_answer(server, suffix, claimed, syncprov, log_base)
            costly = expected.lost or expected.answer in COSTLY
            if entries is None:
                entries = questions.entries(server, suffix, sampled=costly)
            lines = [plain.printable(line) for line in commands(server, suffix, syncprov, entries)] if costly else []
    except LoaderError as error:
        log.warning("%s: %s", UNKNOWN, error)
        return None, ""
    expected = msgspec.structs.replace(expected, entries=entries, logged=logged)
    sends = expected.describe("at most" if part or dn.key(base) != dn.key(suffix) else "about")
    # The texts are not passed as arguments, because the log would escape the line breaks between the commands.
    if not expected.only_changes:
        sure = "" if expected.sure else ", as far as can be seen"
        will = f"when the consumer is started, {server.uri} will send it {sends}{sure}"
        log.warning(f"catch-up: {will}; {plain.printable(expected.why)}")
    if logged and expected.answer in COSTLY:
        saved = units.duration(_LINES[expected.answer] * (_ASSUMED if entries is None else entries))
        log.warning(f"catch-up: the consumer's log level has `sync`, which takes {saved} of that time")
    if costly:
        first = "to have only changes sent, stop here and do this on the provider first"
        ways = f"{first} (or give --prepare-provider, with an account that may do it):"
        log.warning("\n".join([f"catch-up: {ways}", *lines]))
    return expected, sends


def log_size(entries: int | None) -> int:
    """Returns a suitable olcSpSessionlog, in writes. A larger log would be costly: each write takes about 500 bytes of
    the provider's memory, and the time of an answer grows with the square of the number of modifications."""
    return max(_LEAST_LOG, (entries or 0) // _ENTRIES_PER_WRITE)


def commands(server: Session, suffix: str, syncprov: Syncprov | None, entries: int | None) -> Iterator[str]:
    """Yields lines to paste into a shell on the provider's host. They set a session log, then make its first write."""
    size, external = log_size(entries), f"ldapmodify {options.external(server.uri)}"
    if syncprov is None:
        # cn=config is unreadable from here, so the shell looks for syncprov. `add` fails harmlessly if a log is set.
        overlays = "'(objectClass=olcSyncProvConfig)' 1.1"
        record = f"dn: %s\\nchangetype: modify\\nadd: {SESSION_LOG}\\n{SESSION_LOG}: {size}\\n"
        yield options.find_database(server.uri, suffix)
        yield f"DN=$({options.ldapsearch(server.uri)} \"$DB\" -s one {overlays} | sed -n 's/^dn: //p')"
        yield f"printf '{record}' \"$DN\" | {external}"
    elif not syncprov.has_log:
        change = configuration.change_record(syncprov.entry_dn, [syncprov.resized(size)]).splitlines()
        yield from (f"{external} <<'EOF'", *change, "EOF")
        if not syncprov.keeps_changes:
            yield "# slapd runs on a slapd.conf, and forgets this when it ends. Add there, below `overlay syncprov`:"
            yield f"# syncprov-sessionlog {size}"
    who = syncprov.database.root_dn if syncprov and syncprov.database.root_dn else "DN-THAT-MAY-WRITE"
    is_shadow = syncprov is not None and not syncprov.writes_itself
    where = "URI-OF-ITS-OWN-PROVIDER" if is_shadow else shlex.quote(server.uri)
    write = [options.line("dn", suffix.encode()), "changetype: modify", "replace: objectClass"]
    with suppress(LoaderError):
        classes = server.read(suffix, ["objectClass"]).get("objectclass", [])
        write += [options.line("objectClass", value) for value in classes]
    if syncprov is None:  # a second write, because a probe cannot detect a log that has only one
        write += ["", *write]
    yield from (f"ldapmodify -x -D {shlex.quote(who)} -W -H {where} <<'EOF'", *write, "EOF")
