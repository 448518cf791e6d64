"""`ditseed compare`: compares the entries of two servers, databases or sets of LDIF."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from msgspec import structs

from loader import plain, units
from loader.cli.access import BindOptions, ConsumerAccount, connection_of, second_of
from loader.cli.options import Shown
from loader.cli.report import show, show_report, show_table
from loader.declared import Argument, Limit, declare
from loader.defaults import DIFFERENCES
from loader.errors import EXIT_DIFFERENT, EXIT_OK

if TYPE_CHECKING:
    from loader.operations.compare import CompareReport

_KINDS = {"only-a": "only in A", "only-b": "only in B", "changed": "changed"}


@dataclass(frozen=True, kw_only=True)
class _SideB(ConsumerAccount):
    """Options of B, if it is a server."""

    consumer_base: Annotated[str | None, "--consumer-base BASE", "Base DN at the second server (default: -b)."] = None


@dataclass(frozen=True, kw_only=True)
class _Comparison:
    ignored: Annotated[tuple[str, ...], "--ignore ATTR", "Ignore this attribute; may be repeated."] = ()
    user_attributes: Annotated[bool, "Compare user attributes only: ignore entryUUID, entryCSN, timestamps ..."] = False
    with_context_csn: Annotated[bool, "Compare contextCSN too."] = False
    show_attributes: Annotated[bool, "Name the attributes that differ (reads those entries again)."] = False
    limit: Annotated[Limit, "Number of differing entries to name."] = DIFFERENCES

    @property
    def ignored_attributes(self) -> tuple[str, ...]:
        from loader.operations.compare import IGNORED
        from loader.overlays import CONTEXT_CSN, SERVER_ATTRIBUTES

        usual = [name for name in IGNORED if not (self.with_context_csn and name == CONTEXT_CSN)]
        return (*usual, *(SERVER_ATTRIBUTES if self.user_attributes else ()), *self.ignored)


@declare("compare")
def command(
    a: Annotated[str, Argument("A")],
    b: Annotated[str, Argument("B")],
    bind: BindOptions,
    second: _SideB,
    comparing: _Comparison,
    shown: Shown,
) -> int:
    """Compare the entries of two servers, databases or sets of LDIF; change nothing.

    A and B are each a server (ldap://, ldaps://, ldapi://), LDIF (a file, a quoted pattern, or a
    directory: an export), a database directory (with data.mdb), or the slapd.d or slapd.conf of a
    server (its database is read). slapd may be running.

    The order of entries and values and the spelling of DNs do not matter. contextCSN and the
    attributes that a server computes for each answer (entryDN, subschemaSubentry, hasSubordinates ...)
    are ignored by default. Exit status: 0 equal, 1 different.

    \b
    Examples:
      ditseed compare ldap://provider ldap://consumer -D cn=admin,dc=example,dc=com -y /root/pw
      ditseed compare /srv/export /etc/ldap/slapd.d --show-attributes
      ditseed compare /srv/restored ldapi:/// -Y EXTERNAL
      ditseed compare /var/lib/ldap /srv/spare/ldap
    """
    from loader.operations.compare import CompareOptions, compare
    from loader.sources.location import comparable, require_once

    require_once((a, b))
    at_a = connection_of(bind)
    at_b = structs.replace(second_of(at_a, second), base=second.consumer_base or at_a.base)
    attributes = comparing.show_attributes
    options = CompareOptions(
        a=comparable(a, at_a, attributes),
        b=comparable(b, at_b, attributes),
        ignore=comparing.ignored_attributes,
        limit=comparing.limit,
        show_attributes=attributes,
    )
    report = compare(options, shown.progress)
    show_report({"equal": report.equal, **structs.asdict(report)}, shown.as_json, lambda: _show(report))
    return EXIT_OK if report.equal else EXIT_DIFFERENT


def _show(report: CompareReport) -> None:
    sides = (("A", report.a), ("B", report.b))
    rows = [(name, side.location, units.number(side.entries), side.checksum) for name, side in sides]
    show_table(("", "location", "entries", "checksum"), rows)
    show(*(f"note: {note}" for note in report.notes))
    if report.equal:
        show("equal")
        return
    show(
        f"different: {units.number(report.only_a)} only in A, {units.number(report.only_b)} only in B, "
        f"{units.number(report.changed)} changed"
    )
    for sample in report.samples:
        named = f"  ({', '.join(sample.attributes)})" if sample.attributes else ""
        show(f"{_KINDS[sample.kind]:<9}  {plain.shortened(sample.dn, plain.SENTENCE)}{named}")
    more = report.only_a + report.only_b + report.changed - len(report.samples)
    if more > 0:
        show(f"... and {units.number(more)} more (--limit)")
    if report.subtrees:
        subtrees = [
            (tree.dn or "(the base, one level)", *map(units.number, (tree.entries_a, tree.entries_b, tree.different)))
            for tree in report.subtrees
        ]
        show("")
        show_table(("below", "in A", "in B", "different"), subtrees)
