"""What the catch-up of a seeded consumer will take, in words for its operator: said before the reading begins."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from loader import dn, plain, units
from loader.config import Config
from loader.errors import LoaderError
from loader.run.log import Facts
from loader.server import entry_count
from loader.server.options import Connection
from loader.server.session import Session, session
from loader.server.sync import SyncAnswer
from seeders.replica import catchup, cost, provider_commands
from seeders.replica.cost import CatchUpCost
from seeders.replica.look import CatchUpForecast

_WHOLE_TREE = 1_000_000  # entries, for what is said of a tree whose size nobody tells
_READ = 100_000  # entries a second, and
_MARGIN = 600.0  # seconds until the consumer is started: how long a session log has to last
_COSTLY = (SyncAnswer.PRESENT, SyncAnswer.WHOLE)
_UNKNOWN = "catch-up: what the provider will send is not known"

log = logging.getLogger(__name__)


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
    return f"{count} {what}: {about} {cost.told(answer, entries, logged)}"


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
    expected = catchup.expected(server, suffix, claimed, log_base)
    costly = expected.lost or expected.answer in _COSTLY
    entries = entry_count.entries(server, suffix, sampled=costly)
    many = _WHOLE_TREE if entries is None else entries
    logged = cost.logs_sync(consumer)
    price = cost.of(expected.answer, many, logged)
    lasts = many / _READ + _MARGIN
    said = [*catchup.session_log_warnings(server, expected.known, lasts), *_elsewhere(expected)]
    if logged and expected.answer in _COSTLY:
        without = cost.of(expected.answer, many, logged=False)
        saved = units.duration(price.seconds - without.seconds)
        said.append(f"the consumer's log level has `sync`, which is {saved} of that")
    notes = tuple(f"catch-up: {one}" for one in said)
    mend: tuple[str, ...] = ()
    if costly:
        mend = tuple(provider_commands.commands(server, suffix, expected, entries))
    shown = tuple(plain.printable(line) for line in mend)
    return ReportedForecast(
        *(server.uri, suffix, expected, entries, price, logged), notes=notes, mend=shown
    )
