"""Compares the entries of two servers, databases or sets of LDIF: counts, a checksum, and the DNs that differ.

The order of entries, attributes and values, the spelling of DNs, and the encoding of values do not matter.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed, wait

from msgspec import Struct

from loader import dn
from loader.defaults import DIFFERENCES
from loader.errors import EmptyInput, LoaderError
from loader.ldif import EntryDigests
from loader.operations import live
from loader.overlays import COMPUTED, CONTEXT_CSN, MOVING
from loader.progress import Meter, Progress
from loader.server import visibility
from loader.server.session import session
from loader.server.visibility import VisibilityReport
from loader.sources import Comparable, Entry
from loader.sources.ldap import Server

# contextCSN can differ between equal servers, because syncprov writes it to the suffix entry only from time to time.
IGNORED = (*COMPUTED, *MOVING, CONTEXT_CSN)


class CompareOptions(Struct, frozen=True):
    """`ignore`: names of the attributes to ignore. `limit`: maximum number of differing entries in the report."""

    a: Comparable
    b: Comparable
    ignore: tuple[str, ...] = IGNORED
    limit: int = DIFFERENCES
    show_attributes: bool = False


class Side(Struct, frozen=True):
    """The entries of one side. `checksum` has 32 hex digits and does not depend on the order of entries. Two checksums
    are comparable only if `ignore` was the same."""

    location: str
    entries: int
    checksum: str


class DifferingEntry(Struct, frozen=True):
    """An entry that differs. `attributes`: names of the attributes that differ; None if they were not compared."""

    kind: str  # "only-a", "only-b", "changed"
    dn: str
    attributes: tuple[str, ...] | None = None


class Subtree(Struct, frozen=True):
    """Counts of the entries below `dn`, which is an entry directly below the base. If `dn` is None, they count the base
    and the entries directly below it."""

    dn: str | None
    entries_a: int
    entries_b: int
    checksum_a: str
    checksum_b: str
    different: int


class Hidden(Struct, frozen=True):
    """Attributes that access control hides on one side. `rule`: a value of olcAccess that lets `who` read them."""

    location: str
    who: str
    attributes: tuple[str, ...]
    rule: str


class CompareReport(Struct, frozen=True):
    """The result. Counts are numbers of entries."""

    a: Side
    b: Side
    only_a: int
    only_b: int
    changed: int
    samples: tuple[DifferingEntry, ...]
    subtrees: tuple[Subtree, ...]  # the subtrees with the most differences
    ignored: tuple[str, ...]
    seconds: float
    local: tuple[str, ...] = ()  # attributes that may differ, because each server stores its own values
    notes: tuple[str, ...] = ()  # notes on data that may not have been compared
    hidden: tuple[Hidden, ...] = ()
    equal_but_for: tuple[str, ...] = ()  # hidden attributes, if all other attributes are equal

    @property
    def equal(self) -> bool:
        return self.a.checksum == self.b.checksum and not (self.only_a or self.only_b or self.changed)


def compare(options: CompareOptions, progress: Progress) -> CompareReport:
    """Reads both sides in parallel, and compares them. Raises EmptyInput if neither side has entries."""
    start = time.monotonic()
    sides = (options.a, options.b)
    with progress.step("compare") as meter, ThreadPoolExecutor(2) as pool:
        checks = pool.map(lambda side: _visibility(side, options, meter), sides)  # starts now, beside the digests
        a, b = _digests(options, meter)
        visible = [(side.label, report) for side, report in zip(sides, checks, strict=True) if report is not None]
    if not a.entries and not b.entries:
        raise EmptyInput(path=f"{options.a.label} and {options.b.label}")
    difference = a.diff(b, options.limit)
    kinds = {"only-left": "only-a", "only-right": "only-b"}
    samples = [DifferingEntry(kinds.get(kind, kind), name) for kind, name in difference.samples]
    names = [sample.dn for sample in samples if sample.kind == "changed"]
    if options.show_attributes and names:
        with progress.step("attributes"):
            in_a, in_b = options.a.find(names), options.b.find(names)
        for index, sample in enumerate(samples):
            key = dn.key(sample.dn)
            if sample.kind == "changed" and key in in_a and key in in_b:  # otherwise it was deleted meanwhile
                attributes = differing(in_a[key], in_b[key], options.ignore)
                samples[index] = DifferingEntry("changed", sample.dn, attributes)
    return CompareReport(
        a=Side(options.a.label, a.entries, a.checksum),
        b=Side(options.b.label, b.entries, b.checksum),
        only_a=difference.only_left,
        only_b=difference.only_right,
        changed=difference.changed,
        samples=tuple(samples),
        subtrees=tuple(
            Subtree(name, entries_a, entries_b, checksum_a, checksum_b, different)
            for name, (entries_a, checksum_a), (entries_b, checksum_b), different in difference.subtrees
        ),
        ignored=options.ignore,
        seconds=time.monotonic() - start,
        notes=tuple(f"{label}: {note}" for label, report in visible for note in live.hidden_notes(report)),
        hidden=tuple(
            Hidden(label, report.who, tuple(sorted(report.hidden)), live.rule(report.who))
            for label, report in visible
            if report.hidden
        ),
    )


def _visibility(side: Comparable, options: CompareOptions, meter: Meter) -> VisibilityReport | None:
    """Checks what a server hides or alters in a sample of its entries. Returns None if `side` is no server."""
    if not isinstance(side, Server):
        return None
    query, ignored = side.query, {name.lower() for name in options.ignore}
    listed = {name.lower() for name in query.attributes} if query else {"*"}
    has_wildcard = any(name[0] in "*+@" for name in listed)

    def is_relevant(attribute: str) -> bool:
        return attribute.lower() not in ignored and (has_wildcard or attribute.lower() in listed)

    try:
        with session(side.connection, meter.cancelled) as server:
            return visibility.compare_sample(server, query.base if query else server.base(), is_relevant)
    except LoaderError:
        return None  # not reported here: reading the side raises the same error


def _digests(options: CompareOptions, meter: Meter) -> tuple[EntryDigests, EntryDigests]:
    """Digests both sides in parallel: two threads suffice, because the core releases the interpreter lock."""
    with ThreadPoolExecutor(2) as pool:
        sides = [pool.submit(side.digest, options.ignore, meter) for side in (options.a, options.b)]
        try:
            for side in as_completed(sides):
                side.result()
        except BaseException:
            # The cancel is repeated, because a side that is reconnecting at that moment misses it.
            while wait(sides, timeout=0.2).not_done:
                meter.cancel()
            raise
    return sides[0].result(), sides[1].result()


def differing(a: Entry, b: Entry, ignore: Sequence[str]) -> tuple[str, ...]:
    """Returns the attribute descriptions whose sets of values differ, such as ("cn;lang-de", "mail")."""
    ignored = {name.lower() for name in ignore}
    names = sorted(a.keys() | b.keys())
    return tuple(name for name in names if name.partition(";")[0] not in ignored and a.get(name) != b.get(name))
