"""The plan of an export: from which contextCSN, in which pieces, and whether the servers let all of it be read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loader.errors import EmptyInput, LimitTooLow, ServerRefused
from loader.operations import empty_suffix, moved
from loader.operations import hidden_values as sights
from loader.operations.export.options import ExportOptions
from loader.operations.replicas import (
    Replicas,
    lowest,
    require_like,
    require_same,
)
from loader.operations.shards import now
from loader.progress import Meter
from loader.run.log import Facts
from loader.server import subschema, visibility
from loader.server.options import Connection
from loader.server.search import Search
from loader.server.session import Session, session
from loader.sources import ldap as source
from loader.sources import limits, planner
from loader.sources.narrowing import Narrowing
from loader.sources.planner import Piece, Plan


def start_of(options: ExportOptions) -> Facts:
    """The base and the contextCSN, of several providers the least."""
    found = [_start_of(options, one) for one in options.providers]
    require_same(found)
    return {**found[0], "context_csns": lowest([one["context_csns"] for one in found])}


def _start_of(options: ExportOptions, connection: Connection) -> Facts:
    with session(connection) as server:
        base = server.spelt(server.base())
        uuids = server.read(base, ["entryUUID"]).get("entryuuid", [])
        return {
            "base": base,
            "uuid": [one.decode("utf-8", "replace") for one in uuids],
            "context_csns": moved.context_csns(server, base),
            # No search that a consumer makes shows them.
            "subentries": not options.narrowing and server.offers_subentries(base),
            "attributes": subschema.everything(server),
            "started": now(),
            "uri": server.uri,
        }


def plan_of_reading(options: ExportOptions, meter: Meter, start: Facts) -> Facts:
    """Look at the first entries, and cut; once more when the connection breaks."""
    return source.with_retries(lambda: _plan(options, meter, start), meter)


def trial_plan(options: ExportOptions, meter: Meter) -> Facts:
    """For a dry run: the plan, if the servers' limits let all of it be read. A real reading is told of them at once.
    Raises LimitTooLow."""
    start = start_of(options)
    cut = plan_of_reading(options, meter, start)
    _require_limits(options, str(start["base"]), plan_of(cut, options.page).partitions)
    return {**start, **cut}


def _plan(options: ExportOptions, meter: Meter, start: Facts) -> Facts:
    base = str(start["base"])
    replicas = Replicas(options.providers, base, meter)
    connection = replicas.living()
    with session(connection) as server:
        looked = planner.sample(server, base)
        if not looked.entries:
            raise EmptyInput(path=f"{connection.uri} {base}")
        _require_like(options, server, looked, replicas)
        jobs = options.jobs * len(options.providers)
        pieces = options.pieces or (1 if looked.whole else jobs)
        entries = planner.expected(server, base)
        cut = planner.plan(server, base, looked, pieces, start["context_csns"], entries)
        narrowing = options.narrowing
        partitions = [*cut.partitions, *planner.subentry_pieces(base, start["subentries"])]
        if narrowing:
            partitions = list(narrowing.partitions(cut.partitions))
        return {
            "expected": entries,
            "how": cut.how,
            "containers": looked.containers(),
            "hidden": [] if options.looked else _hidden(server, base, looked, narrowing),
            "attributes": (
                narrowing.of(Search(base)).attributes if narrowing else start["attributes"]
            ),
            "partitions": [_facts_of(one) for one in partitions],
        }


def _require_limits(options: ExportOptions, base: str, partitions: Sequence[Piece]) -> None:
    """Each provider may get any of the partitions. Raises LimitTooLow."""
    for connection in options.providers:
        with session(connection) as server:
            limits.require_readable(server, base, partitions, options.page)


def _require_like(
    options: ExportOptions, leader: Session, looked: planner.Sample, replicas: Replicas
) -> None:
    """Of several providers: does each show the same, and as much as the first?"""
    if not options.replicas:
        return
    names = [name for name, _ in looked.entries]
    for number, csns in replicas.told().items():
        if options.providers[number] is not leader.connection:
            with session(options.providers[number]) as other:
                require_like(leader, other, names, csns)


def _hidden(
    server: Session, base: str, looked: planner.Sample, narrowing: Narrowing | None
) -> list[str]:
    """What the server hides of what is wanted, as far as a sample tells."""
    try:
        sight = visibility.compare_sample(server, base, narrowing.wants if narrowing else None)
    except (LimitTooLow, ServerRefused):
        sight = None
    if sight is not None:
        return sights.notes(sight)
    if looked.lack_passwords() and (narrowing is None or narrowing.wants("userPassword")):
        return [
            f"no entry shows {server.connection.who} a userPassword: access control may hide it"
        ]
    return []


def notes(
    options: ExportOptions, meter: Meter, start: Facts, cut: Facts, entries: int
) -> tuple[list[str], list[str]]:
    """What the operator should know when so many entries were read: what the server hides or shows otherwise than it is
    stored, and the rest."""
    hidden = list(cut["hidden"])
    counted, calm = source.with_retries(lambda: _counted(options, meter, start), meter)
    if options.narrowing:
        return hidden, []
    if empty_suffix.is_empty(start["base"]) and start["context_csns"] and counted is not None:
        counted = max(counted, entries)  # the root may not be stored yet
    if counted is None or counted == entries:
        return hidden, []
    counts = f"the server counts {counted:,} entries"
    if not calm or counted < entries:
        return hidden, [f"{counts}: the tree changed meanwhile; syncrepl brings the rest"]
    others = "" if start["subentries"] else ", or they are subentries"
    who = options.connection.who
    return [*hidden, f"{counts}: access control hides the others from {who}{others}"], []


def _counted(options: ExportOptions, meter: Meter, start: Facts) -> tuple[int | None, bool]:
    """Entries that the server has, and whether nothing has changed since the start."""
    base = start["base"]
    with session(Replicas(options.providers, base, meter).living()) as server:
        counted = planner.expected(server, base)
        return counted, moved.context_csns(server, base) == start["context_csns"]


def _facts_of(partition: Piece) -> Facts:
    search = partition.search
    facts = {
        "base": search.base,
        "where": search.where,
        "scope": search.scope,
        "subentries": search.subentries,
    }
    return {"name": partition.name, **facts}


def plan_of(cut: Facts, page: int) -> Plan:
    attributes = tuple(cut["attributes"])

    def partition(facts: dict[str, Any]) -> Piece:
        asked = (facts["base"], facts["where"], facts["scope"], attributes, page)
        search = Search(*asked, subentries=facts["subentries"])
        return Piece(facts["name"], search)

    return Plan(tuple(partition(facts) for facts in cut["partitions"]), cut["how"])
