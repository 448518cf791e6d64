"""How the provider will answer a seeded consumer that comes with the contextCSN that the seed claims, and what that
answer costs: foreseen before the seeding, and said to its operator.

The seconds and bytes are those of the consumer, as measured (docs/catch-up.md has the figures): it is the slower of the
two in every kind of answer, and works on one processor."""

from __future__ import annotations

import logging
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from loader import csn, dn, plain, units
from loader.config import Config
from loader.errors import LoaderError
from loader.run.log import Facts
from loader.server import questions, sync
from loader.server.options import Connection
from loader.server.session import Session, session
from loader.server.sync import SyncAnswer
from seeders.replica import provider as providers
from seeders.replica.provider import CatchUpForecast, CatchUpProbe, Syncprov

_START = 0.2  # seconds: to connect, bind and ask
_BUCKETS = 65536  # AVL trees, by the first two bytes: slapd's list of entryUUIDs
_NAMED = 2.4e-6  # seconds an entryUUID while the trees have few nodes
_DEEPER = 1.1e-6  # more for twice as many nodes in the trees: one more look into cold memory
_SHALLOW = 2.2  # doublings that _NAMED pays for
_ENTRY = 28e-6  # seconds an entry that comes whole and is found unchanged
_LINES_NAMED, _LINES_ENTRY = 9.7e-6, 72e-6  # more, where the consumer's log level is `sync`
_UUID = 84  # bytes of the consumer for each entryUUID it remembers; entries that come whole are remembered too
_SYNC = 16384  # the bit of the log level
_SIZES = (1_000_000, 10_000_000, 30_000_000)  # entries, for a tree whose size nobody tells
_WHOLE_TREE = 1_000_000  # entries, for what is said of such a tree in one number
_READ = 100_000  # entries a second that a seeding reads; it and
_MARGIN = 600.0  # seconds until the consumer is started are how long a session log has to last
_COSTLY = (SyncAnswer.PRESENT, SyncAnswer.WHOLE)
_NO_ENTRY = "(entryUUID=00000000-0000-0000-0000-000000000000)"
_UNKNOWN = "catch-up: what the provider will send is not known"

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CatchUpCost:
    seconds: float
    memory: int


def of(answer: SyncAnswer, entries: int, logged: bool) -> CatchUpCost:
    """Of an answer about so many entries. `logged`: the consumer's log level has `sync` in it."""
    if answer is SyncAnswer.PRESENT:
        each = _named(entries) + (_LINES_NAMED if logged else 0)
        return CatchUpCost(_START + entries * each, _UUID * entries)
    if answer is SyncAnswer.WHOLE:
        deeper = _named(entries) - _NAMED
        each = _ENTRY + deeper + (_LINES_ENTRY if logged else 0)
        return CatchUpCost(_START + entries * each, _UUID * entries)
    return CatchUpCost(_START, 0)


def cost_told(answer: SyncAnswer, entries: int | None, logged: bool) -> str:
    """In words. entries None: nobody tells. Then for several sizes, because an entry costs more in a larger tree."""
    if entries is not None:
        return _told(of(answer, entries, logged))
    return ", ".join(f"{_told(of(answer, many, logged))} for {many:,}" for many in _SIZES)


def _told(price: CatchUpCost) -> str:
    return f"{units.duration(price.seconds)} and {units.size(price.memory)} of its memory"


def _named(entries: int) -> float:
    doublings = math.log2(max(1.0, entries / _BUCKETS))
    return _NAMED + _DEEPER * max(0.0, doublings - _SHALLOW)


def logs_sync(config: Config) -> bool:
    """Does slapd write a line for every entryUUID (olcLogLevel)?"""
    found = config.reader("cn=config").words("olcLogLevel")
    return any(_has_sync(word.lower()) for words in found for word in words)


def _has_sync(word: str) -> bool:
    try:
        return bool(int(word, 0) & _SYNC)
    except ValueError:
        return word in ("sync", "any")


def expected_answer(
    server: Session, suffix: str, claimed: Sequence[str], log_base: str | None = None
) -> CatchUpForecast:
    """The answer to a consumer with `claimed` as its contextCSN. Raises LoaderError.

    `log_base`: the accesslog that its syncrepl reads; where that does not reach back, it falls back to a refresh.
    """
    found = _of_tree(server, suffix, claimed)
    if log_base is None:
        return found
    reaches = _log_reaches(server, log_base, sorted(claimed))
    if reaches:
        why = f"{log_base} reaches back to this contextCSN"
        return replace(found, answer=SyncAnswer.CHANGES, why=why, sure=True, lost=False)
    seen = "does not reach" if reaches is not None else "was not written to yet, and may not reach"
    why = f"{log_base} {seen} back to this contextCSN, so syncrepl falls back to a refresh: {found.why}"
    return replace(found, why=why, sure=found.sure and reaches is not None)


def _log_reaches(server: Session, log_base: str, claimed: Sequence[str]) -> bool | None:
    """Does the accesslog answer this cookie, or one a moment older, with what it holds? None where the last write is
    the first one in it, or older: OpenLDAP 2.5.13 notes a second minCSN with the next one, others do not."""
    newest = max(claimed)
    older = [csn.just_before(one) if one == newest else one for one in claimed]
    reply = sync.probe(server, log_base, claimed, _NO_ENTRY, reload_hint=False)
    if reply.answer is not SyncAnswer.NOTHING:
        return reply.answer is SyncAnswer.CHANGES
    reply = sync.probe(server, log_base, older, _NO_ENTRY, reload_hint=False)
    return True if reply.answer is SyncAnswer.CHANGES else None


def _of_tree(server: Session, suffix: str, claimed: Sequence[str]) -> CatchUpForecast:
    known = providers.read(server, suffix)
    me = sync.provider_server_id(server, suffix)
    if me.answer in (SyncAnswer.NOT_OFFERED, SyncAnswer.REFUSED):
        return CatchUpForecast(me.answer, me.reason, known=known)
    return CatchUpProbe(server, suffix, sorted(claimed), me.server_id or "000", known).expected()


def session_log_warnings(server: Session, known: Syncprov | None, seconds: float) -> Iterator[str]:
    """Will the session log still hold the first write after so many seconds?"""
    rate = providers.writes_per_second(server)
    if known is None or not known.session_log or not rate:
        return
    if rate * seconds > known.session_log / 2:
        yield (
            f"its session log holds {known.session_log:,} writes, and it has taken {rate:,.1f}/s since its start: "
            f"enough for {known.session_log / rate / 60:,.0f} minutes until the consumer is started"
        )


@dataclass(frozen=True)
class ReportedForecast:
    """Of one provider and one seed. `entries`: in the provider's database, about; None where it does not tell. `part`:
    the consumer asks for fewer."""

    uri: str
    suffix: str
    expected: CatchUpForecast
    entries: int | None
    cost: CatchUpCost
    logged: bool  # the consumer's log level has `sync` in it
    part: bool = False
    notes: tuple[str, ...] = ()
    mend: tuple[str, ...] = ()

    def facts(self) -> Facts:
        """For the catalogue and the report."""
        return {
            "answer": self.expected.answer.name.lower(),
            "why": self.expected.why,
            "sure": self.expected.sure,
            "entries": self.entries,
            "seconds": round(self.cost.seconds, 1) if self._is_priced else None,
            "memory": self.cost.memory if self._is_priced else None,
            "logged": self.logged,
            "lost": self.expected.lost,
        }

    @property
    def _is_priced(self) -> bool:
        return self.entries is not None or self.expected.answer not in _COSTLY

    def says(self) -> str:
        """One line: what comes, and what it takes."""
        answer = self.expected.answer
        if self.expected.lost:
            return "what changes from now on, but NO deletions that come before it is started"
        if answer in (SyncAnswer.CHANGES, SyncAnswer.NOTHING):
            return "what changes and is deleted from now on, and nothing else"
        if answer in _COSTLY:
            return _price(answer, self.entries, self.logged, "at most" if self.part else "about")
        return str(answer.value)

    def lines(self) -> Iterator[str]:
        """The warning: nothing where there is nothing to warn of."""
        if self.expected.fits:
            yield from self.notes
            return
        sure = "" if self.expected.sure else ", as far as can be seen"
        why = plain.printable(self.expected.why)
        yield f"catch-up: when the consumer is started, {self.uri} will send it {self.says()}{sure}; {why}"
        yield from self.notes
        if self.mend:
            yield (
                "catch-up: to have what changes alone, stop here and do this on the provider first "
                "(or give --prepare-provider, with an account that may):\n" + "\n".join(self.mend)
            )


def forecast(
    connection: Connection,
    base: str,
    claimed: Sequence[str] | None,
    consumer: Config,
    log_base: str | None = None,
    part: bool = False,
) -> Facts:
    """What a consumer gets that claims `claimed` (None: nobody knows yet), said aloud; facts for the catalogue.

    `log_base`: the accesslog that its syncrepl reads. `part`: it asks for less than all.
    """
    if claimed is None:
        log.warning("%s: only reading the LDIF tells its contextCSN", _UNKNOWN)
        return {}
    try:
        with session(connection) as server:
            suffix = server.context_of(base)
            found = _forecast(server, suffix, claimed, consumer, log_base)
            found = replace(found, part=part or dn.key(base) != dn.key(suffix))
    except LoaderError as error:
        log.warning("%s: %s", _UNKNOWN, error)
        return {}
    for line in found.lines():
        log.warning(line)  # commands on lines of their own
    return {"forecast": found.facts(), "catch_up": found.says()}


def without_provider() -> None:
    """Of a seed that is made without the provider."""
    log.warning("%s: it was not asked (-H)", _UNKNOWN)


def told(preflight: Facts, entries: int | None = None) -> Facts:
    """Of the facts of a preflight, those for the report. `entries`: as many as there turned out to be."""
    shown: Facts = {name: preflight[name] for name in ("catch_up", "prepared") if name in preflight}
    foreseen = preflight.get("forecast", {})
    if entries and foreseen and SyncAnswer[foreseen["answer"].upper()] in _COSTLY:
        answer = SyncAnswer[foreseen["answer"].upper()]
        shown["catch_up"] = _price(answer, entries, foreseen["logged"])
    return shown


def _price(answer: SyncAnswer, entries: int | None, logged: bool, about: str = "about") -> str:
    named = answer is SyncAnswer.PRESENT
    what = "entryUUIDs of entries that did not change" if named else "entries, every one whole"
    count = "an unknown number of" if entries is None else f"{about} {entries:,}"
    return f"{count} {what}: {about} {cost_told(answer, entries, logged)}"


def _elsewhere(expected: CatchUpForecast) -> Iterator[str]:
    others = [sid for sid in expected.lacking if sid != expected.own]
    if others:
        yield (
            f"server ID {' and '.join(others)} is that of another provider: the write that brings it into the "
            "contextCSN has to be made there"
        )


def _forecast(
    server: Session, suffix: str, claimed: Sequence[str], consumer: Config, log_base: str | None
) -> ReportedForecast:
    expected = expected_answer(server, suffix, claimed, log_base)
    costly = expected.lost or expected.answer in _COSTLY
    entries = questions.entries(server, suffix, sampled=costly)
    many = _WHOLE_TREE if entries is None else entries
    logged = logs_sync(consumer)
    price = of(expected.answer, many, logged)
    lasts = many / _READ + _MARGIN
    said = [*session_log_warnings(server, expected.known, lasts), *_elsewhere(expected)]
    if logged and expected.answer in _COSTLY:
        without = of(expected.answer, many, logged=False)
        saved = units.duration(price.seconds - without.seconds)
        said.append(f"the consumer's log level has `sync`, which is {saved} of that")
    notes = tuple(f"catch-up: {one}" for one in said)
    mend: tuple[str, ...] = ()
    if costly:
        mend = tuple(providers.commands(server, suffix, expected, entries))
    shown = tuple(plain.printable(line) for line in mend)
    return ReportedForecast(*(server.uri, suffix, expected, entries, price, logged), notes=notes, mend=shown)
