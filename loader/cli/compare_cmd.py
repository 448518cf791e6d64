"""`ditseed compare`: do two places hold the same entries?"""

from __future__ import annotations

import dataclasses
from typing import Any

import click

from loader import plain, units
from loader.cli.access import bind_options, connection_of, second_of, second_options
from loader.cli.options import json_option, limit_option, progress_of, progress_option
from loader.cli.report import show, show_json, show_table
from loader.errors import EXIT_DIFFERENT, EXIT_OK
from loader.operations.compare import (
    IGNORED,
    LIMIT,
    SERVER_ATTRIBUTES,
    CompareOptions,
    CompareReport,
    Subtree,
    compare,
)
from loader.overlays import CONTEXT_CSN
from loader.sources.comparable import comparable
from loader.sources.location import require_once

_KINDS = {"only-a": "only in A", "only-b": "only in B", "changed": "changed"}


@click.command("compare")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@bind_options
@second_options("B")
@click.option(
    "--consumer-base",
    metavar="BASE",
    help="Base DN at B (default: -b).",
)
@click.option(
    "--ignore",
    "ignored",
    multiple=True,
    metavar="ATTR",
    help="Ignore this attribute; may be repeated.",
)
@click.option(
    "--user-attributes",
    is_flag=True,
    help="Compare user attributes only: ignore entryUUID, entryCSN, timestamps ...",
)
@click.option("--with-context-csn", is_flag=True, help="Compare contextCSN too.")
@click.option(
    "--show-attributes",
    is_flag=True,
    help="Name the attributes that differ (reads those entries again).",
)
@limit_option(LIMIT, "Number of differing entries to name.")
@json_option
@progress_option
def command(a: str, b: str, as_json: bool, progress_mode: str, **options: Any) -> int:
    """Compare two places that hold entries; change nothing.

    A and B are each a server (ldap://, ldaps://, ldapi://), LDIF (a file, a quoted pattern, or a
    directory: an export), a database directory (with data.mdb), or the slapd.d or slapd.conf of a
    server (its database is read). slapd may be running or not.

    The order of entries and values and the spelling of DNs do not matter. contextCSN and the
    attributes that a server computes for each answer (entryDN, subschemaSubentry, hasSubordinates ...)
    are ignored unless asked for. Exit status: 0 equal, 1 different.

    \b
    Examples:
      ditseed compare ldap://provider ldap://consumer -D cn=admin,dc=example,dc=com -y /root/pw
      ditseed compare /srv/export /etc/ldap/slapd.d --show-attributes
      ditseed compare /srv/restored ldapi:/// -Y EXTERNAL
      ditseed compare /var/lib/ldap /srv/spare/ldap
    """
    report = compare(_options(a, b, **options), progress_of(progress_mode))
    show_json(_facts(report)) if as_json else _show(report)
    return EXIT_OK if report.equal else EXIT_DIFFERENT


def _options(
    a: str,
    b: str,
    *,
    ignored: tuple[str, ...],
    user_attributes: bool,
    with_context_csn: bool,
    show_attributes: bool,
    limit: int,
    **bind: Any,
) -> CompareOptions:
    base = bind.pop("consumer_base")
    require_once((a, b))
    connection = connection_of(bind)
    second = second_of(connection, bind)
    standing = [name for name in IGNORED if not (with_context_csn and name == CONTEXT_CSN)]
    servers_own = SERVER_ATTRIBUTES if user_attributes else ()
    return CompareOptions(
        a=comparable(a, connection, show_attributes),
        b=comparable(b, dataclasses.replace(second, base=base or connection.base), show_attributes),
        ignore=(*standing, *servers_own, *ignored),
        limit=limit,
        show_attributes=show_attributes,
    )


def _facts(report: CompareReport) -> dict[str, Any]:
    return {"equal": report.equal, **dataclasses.asdict(report)}


def _show(report: CompareReport) -> None:
    sides = (("A", report.a), ("B", report.b))
    rows = [(name, one.location, units.number(one.entries), one.checksum) for name, one in sides]
    show_table(("", "place", "entries", "checksum"), rows)
    for note in report.notes:
        show(f"note: {note}")
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
        show("")
        show_table(
            ("below", "in A", "in B", "different"), [_subtree(one) for one in report.subtrees]
        )


def _subtree(found: Subtree) -> tuple[str, ...]:
    numbers = (found.entries_a, found.entries_b, found.different)
    return (found.dn or "(the base, one level)", *map(units.number, numbers))
