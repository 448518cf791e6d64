"""`replica verify`: waits for a started replica to catch up, then compares it with its provider. `replica follow` after
the seeding: how far the consumer is behind its provider, until it has caught up.

A consumer updates its contextCSN at the end of its refresh. Until then it has the old contextCSN, or none if the
provider has sent the suffix entry. A probe of the provider with the old contextCSN shows which kind of answer the
consumer is receiving. Neither server reports how far the refresh has got."""

from __future__ import annotations

import functools
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from loader import csn, units
from loader.config import Config
from loader.errors import ConfigHidden, LoaderError, NoContextCSN, NoSuchBase, NoSuchSuffix, NotInSync
from loader.mdb import contents
from loader.operations import live
from loader.operations.compare import IGNORED, CompareOptions, CompareReport, compare
from loader.overlays import LOCAL
from loader.progress import Meter, Progress
from loader.server import configuration, questions, tools
from loader.server.options import Connection
from loader.server.session import Session, session
from loader.server.sync import SyncAnswer
from loader.sources.ldap import Server
from seeders.replica import catchup, partial
from seeders.replica.options import VerifyOptions

_LOOK_EVERY = 0.5  # seconds between two polls of the consumer, each of which opens a connection
_SILENT = 15.0  # seconds to wait for the first answer of a consumer, which may not be running
_FLOOR = 60.0  # seconds that every consumer may be without progress
_SLACK = 4.0  # factor on the predicted time of the refresh, because the host may be slower or busy
_UNKNOWN = 1800.0  # seconds that a consumer may be without progress if the number of entries is unknown
_AHEAD = (
    "the replica has newer changes of server ID {} than the provider, as after the provider was restored from an older "
    "backup"
)


def contextcsn_of(consumer: Connection, base: str) -> dict[str, str]:
    """Returns the consumer's contextCSN, which may be empty. Raises LoaderError if the consumer does not answer."""
    with session(consumer) as server, suppress(NoContextCSN, NoSuchBase):
        return csn.by_server(server.context_csns(base))
    return {}


def provided(server: Session, base: str) -> dict[str, str]:
    """Returns the provider's contextCSN. If `base` is below a suffix, returns the contextCSN of that suffix."""
    return csn.by_server(live.context_csns(server, base) or server.context_csns(base))


def answer_to(provider: Session, suffix: str, has: Mapping[str, str]) -> SyncAnswer | None:
    """Returns the provider's answer to a consumer with the contextCSN `has`; None if unknown."""
    with suppress(LoaderError):
        # The probe must match one entry only, so the entryUUID of the suffix entry must be visible.
        if provider.read(suffix, ["entryUUID"]).get("entryuuid"):
            return catchup.reply_to(provider, suffix, has.values()).answer
    return None


def _wait(provider: Session, consumer: Connection, bases: tuple[str, str], wait: float | None, meter: Meter) -> None:
    """Waits until the consumer's contextCSN covers the provider's. `bases`: the provider's base, the consumer's base.
    `wait`: limit in seconds. If it is None, the limit is derived from what the provider has to send, and starts again
    whenever the consumer's contextCSN changes. Raises NotInSync at the limit, or ServerDown or ConnectionLost if the
    consumer does not answer then."""
    suffix = provider.context_of(bases[0])
    has: dict[str, str] = {}  # the consumer's contextCSN
    last_change, has_answered = 0.0, False  # when `has` changed last; whether the consumer has answered yet
    answer: SyncAnswer | None = None  # the provider's answer to the contextCSN `has`; None if unknown

    @functools.cache
    def entries() -> int | None:
        return questions.entries(provider, suffix, sampled=True)

    while True:
        wanted, before, failure = provided(provider, bases[0]), has, None
        try:
            has, has_answered = contextcsn_of(consumer, bases[1]), True
        except LoaderError as error:
            if not error.retryable:
                raise
            has, failure = {}, error
        if before != has:
            last_change = meter.seconds
        if has and (answer is None or before != has):
            answer = answer_to(provider, suffix, has)
        if csn.is_covered_by(wanted, has):
            return
        doing = f"the replica does not answer ({failure})" if failure else doing_of(answer, entries(), bool(has))
        csns = f"contextCSN of the replica {_text_of(has)}, of the provider {_text_of(wanted)}"
        meter.note = f"{doing}; {csns}: {behind(has, wanted)}"
        expected = answer or (None if failure else SyncAnswer.WHOLE)
        pause = _longest_pause(expected, entries) if has_answered else _SILENT
        if meter.seconds > (last_change + pause if wait is None else wait):
            advice = "Look at the consumer's log (loglevel sync) for what syncrepl says."
            if answer in catchup.COSTLY:
                advice = (
                    f"The catch-up takes up to {catchup.cost_of(answer, entries(), logged=True)}. If the replica's "
                    "slapd uses a processor, wait longer (--wait); otherwise look at its log (loglevel sync). "
                    "docs/catch-up.md explains how to have only changes sent, and what to do if the log repeats "
                    "`retrying`."
                )
            waited = units.duration(meter.seconds)
            raise failure or NotInSync(
                consumer=consumer.uri, provider=provider.uri, waited=waited, state=meter.note, advice=advice
            )
        time.sleep(_LOOK_EVERY)


def _longest_pause(answer: SyncAnswer | None, entries: Callable[[], int | None]) -> float:
    """Returns the seconds that the consumer may be without progress. Assumes loglevel `sync`, which makes the consumer
    slow, because the real loglevel is unknown here."""
    if answer is None or answer not in catchup.COSTLY:
        return _FLOOR
    count = entries()
    return _UNKNOWN if count is None else _FLOOR + _SLACK * catchup.seconds_of(answer, count, logged=True)


def doing_of(answer: SyncAnswer | None, entries: int | None, has_csn: bool) -> str:
    """Returns the consumer's current activity in words."""
    count = "of an unknown number" if entries is None else f"of {entries:,}"
    match answer:
        case SyncAnswer.PRESENT:
            return f"the provider sends the entryUUIDs of what did not change, {count}"
        case SyncAnswer.WHOLE:
            return f"the provider sends every entry whole, {count}"
        case SyncAnswer.CHANGES:
            return "the provider sends what changed and was deleted"
    return "waiting" if has_csn else "waiting: no contextCSN until its refresh is done"


def behind(consumer: Mapping[str, str], provider: Mapping[str, str]) -> str:
    """Returns how far the consumer is behind, in words, for each server ID; "in sync" if it lacks no changes."""
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


def _text_of(csns: Mapping[str, str]) -> str:
    return " ".join(sorted(csns.values())) or "none"


def verify(options: VerifyOptions, progress: Progress) -> tuple[float, CompareReport | None, str]:
    """Waits and compares. Returns the seconds of the wait, the comparison (None with --quick), and whether the replica
    was compared as a whole or a partial one, in words. Raises NotInSync if the wait times out, PartialReplica if the
    replica cannot be compared."""
    with session(options.provider) as provider:
        base = provider.base()
    replica, how = _partial_replica(options, base)
    if replica:
        bases = (replica.syncrepl.searchbase, replica.database.suffix)
        theirs, ours, ignored = replica.sides(options.provider, options.consumer)
    else:
        bases, ignored = (base, base), ()
        theirs, ours = (Server(replace(side, base=base)) for side in (options.provider, options.consumer))
    with progress.step("catch-up") as meter, session(options.provider) as provider:
        _wait(provider, options.consumer, bases, options.wait, meter)
        waited = meter.seconds
    if options.quick:
        return waited, None, f"{how}, by contextCSN only"
    comparing = CompareOptions(theirs, ours, (*IGNORED, *ignored), options.limit, show_attributes=True)
    report = _compared(comparing, progress)
    # The provider's contextCSN is read last. So a CSN of the consumer that is newer did not come from the provider.
    try:
        has = contextcsn_of(options.consumer, bases[1])
    except LoaderError as error:  # the comparison is valid, even if the consumer is restarted after it
        if not error.retryable:
            raise
        has = {}
    with session(options.provider) as provider:
        wanted = provided(provider, bases[0])
    ahead = ", ".join(sid for sid, text in sorted(has.items()) if sid in wanted and text > wanted[sid])
    if ahead:
        report = replace(report, notes=(*report.notes, _AHEAD.format(ahead)))
    return waited, report, how


def _partial_replica(options: VerifyOptions, base: str) -> tuple[partial.Partial | None, str]:
    """Returns the partial replica that the consumer's syncrepl defines (None: a whole replica), and a description."""
    try:
        config = configuration.read(options.config_path) if options.config_path else _online(options.consumer)
    except ConfigHidden:
        return None, "a whole replica (its configuration cannot be read; --config gives it)"
    try:
        database = config.database(base)
    except NoSuchSuffix:
        database = config.database(None)
    replica = partial.of(config, database, "search", options.provider.uri)
    if replica is None:
        return None, "a whole replica"
    return replica, f"a partial replica ({', '.join(replica.syncrepl.narrowing(database.suffix))})"


def _compared(options: CompareOptions, progress: Progress) -> CompareReport:
    """Compares both servers. If only values differ, compares again without two kinds of attributes. Local attributes
    are those that a consumer's slapo-ppolicy and slapo-lastbind write themselves (o_dont_replicate). Hidden attributes
    are those that the access rules of one server hide, such as userPassword in Debian's package.

    If only local attributes differ, the report is equal, and `local` names them. If there are hidden attributes, the
    report is not equal, because their values are unknown; if all else is equal, `equal_but_for` names them."""
    report = compare(options, progress)
    if report.equal or report.only_a or report.only_b:
        return report
    hidden = {name for attributes in report.hidden for name in attributes.attributes}
    without = compare(replace(options, ignore=(*options.ignore, *LOCAL, *hidden)), progress)
    if not without.equal:
        return report
    return replace(report, equal_but_for=tuple(sorted(hidden))) if hidden else replace(without, local=LOCAL)


class Standing(Struct, frozen=True):
    """How far the consumer has caught up. `doing`, `behind`: in words. `consumer`, `provider`: their contextCSN; empty
    unless both were read."""

    doing: str
    behind: str = ""
    consumer: list[str] = []
    provider: list[str] = []
    caught_up: bool = False


def standings(config_path: Path | None, uri: str | None, suffix: str | None) -> Iterator[Standing]:
    """Yields how far the consumer has caught up, until it has all changes. Yields nothing if its olcSyncrepl has no
    password for the provider, or if `uri` (of a running consumer) is not an ldapi URI. `config_path`: the configuration
    of a consumer whose contextCSN is read from its database.

    Raises LoaderError if the provider refuses, but not if it cannot be reached."""
    own, logins = Connection(uri, mechanism="EXTERNAL"), deque[Connection]()
    config = None if config_path is None else configuration.read(config_path)
    if config is None and not (uri or "").startswith("ldapi:"):
        return
    has, answer, standing = dict[str, str](), None, Standing("waiting for olcSyncrepl")
    while not standing.caught_up:
        try:
            if not logins:
                settings = config or _online(own)
                database = settings.database(suffix)
                values = settings.values(database.entry_dn, "olcSyncrepl")
                logins.extend(filter(None, (configuration.provider_of(value, settings.where) for value in values)))
            if config is not None and not logins:
                return
            if config is not None and tools.slapd_on(config) is None:
                standing = Standing("waiting for slapd: it is not started")
            elif logins:
                with questions.hurried(logins[0]) as provider:
                    base = provider.base()
                    wanted, before = provided(provider, base), has
                    if config is not None:
                        directory = database.require_directory(config.path)
                        has = csn.by_server(contents.context_csns(directory, database.suffix))
                    else:
                        has = contextcsn_of(own, database.suffix)
                    is_done, context = csn.is_covered_by(wanted, has), provider.context_of(base)
                    if has and not is_done and (answer is None or has != before):
                        answer = answer_to(provider, context, has)
                    entries = provider.entry_count(context) if answer in catchup.COSTLY else None
                doing = "caught up" if is_done else doing_of(answer, entries, bool(has))
                ours, theirs = sorted(has.values()), sorted(wanted.values())
                standing = Standing(doing, behind(has, wanted), ours, theirs, is_done)
        except LoaderError as error:
            if not error.retryable:
                raise
            logins.rotate()
            standing = Standing(str(error))
        yield standing


def _online(own: Connection) -> Config:
    with session(own) as server:
        return configuration.read_online(server)
