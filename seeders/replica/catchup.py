"""How the provider will answer a seeded consumer, foreseen before the seeding: what syncrepl gets when it comes with
the contextCSN that the seed claims. Of its tree (look.py), or of the accesslog that delta-syncrepl reads."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from loader import csn
from loader.server import sync
from loader.server.session import Session
from loader.server.sync import SyncAnswer
from seeders.replica import provider as providers
from seeders.replica.look import CatchUpForecast, CatchUpProbe
from seeders.replica.provider import Syncprov

_NOTHING = "(entryUUID=00000000-0000-0000-0000-000000000000)"  # no entry


def expected(
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
    reply = sync.probe(server, log_base, claimed, _NOTHING, reload_hint=False)
    if reply.answer is not SyncAnswer.NOTHING:
        return reply.answer is SyncAnswer.CHANGES
    reply = sync.probe(server, log_base, older, _NOTHING, reload_hint=False)
    return True if reply.answer is SyncAnswer.CHANGES else None


def _of_tree(server: Session, suffix: str, claimed: Sequence[str]) -> CatchUpForecast:
    known = providers.read(server, suffix)
    me = sync.provider_server_id(server, suffix)
    if me.answer in (SyncAnswer.NOT_OFFERED, SyncAnswer.REFUSED):
        return CatchUpForecast(me.answer, me.reason, known=known)
    look = CatchUpProbe(server, suffix, sorted(claimed), me.server_id or "000", known)
    return look.expected()


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
