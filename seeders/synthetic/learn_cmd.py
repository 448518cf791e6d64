"""`ditseed generate learn`: a template from a real tree."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

from loader import resources, standard, units
from loader.cli.access import Server, connection_of
from loader.cli.options import Shown, is_given
from loader.cli.report import show_facts, show_json
from loader.common_options import Jobs
from loader.declared import Argument
from loader.declared import command as declare
from loader.errors import UsageProblem
from seeders.synthetic.learn import LearnOptions, learn


@declare("learn")
def command(
    sources: Annotated[tuple[str, ...], Argument("[SOURCE]...")],
    server: Server,
    output: Annotated[str, "-o --output TEMPLATE|-", "The template file to write; -: standard output."],
    jobs: Annotated[
        Jobs, "Number of threads, or of connections to a server (default: one per processor, at most 4 connections)."
    ],
    replace: Annotated[bool, "Overwrite an existing template."],
    shown: Shown,
) -> None:
    """Learn a template from a real tree; it generates similar trees of any size.

    SOURCE is LDIF (files, directories of them such as an export, - for standard input) or a database
    directory, slapd running or not; without SOURCE the server of -H is read. No value, nor part of a
    value, gets into the template: words are made up.

    \b
    Examples:
      ditseed generate learn /srv/export -o ours.toml               from LDIF
      ditseed generate learn /var/lib/ldap -o ours.toml             from a database
      ditseed generate learn -H ldapi:/// -Y EXTERNAL -b dc=example,dc=com -o ours.toml
      ditseed generate ./ours.toml -n 30000000 -o /srv/tree         a tree like it, of any size
    """
    base = server.base if is_given("base") or not sources else None
    connection = connection_of(server)
    if sources and is_given("uri"):
        raise UsageProblem(reason="give either SOURCE or -H, not both")
    place = None if output == "-" else Path(output)
    if place is None:
        standard.reserve_output()
    if place is not None and place.exists() and not replace:
        raise UsageProblem(reason=f"{place} exists already; --replace overwrites it")
    usual = resources.processors() if sources else resources.connections()
    asked = LearnOptions(sources, None if sources else connection, base, place, jobs or usual)
    learned = learn(asked, shown.progress)
    if place is None:
        sys.stdout.write(learned.template)
        return
    facts = {
        "entries": learned.entries,
        "kinds": learned.kinds,
        "entries of the main kind": learned.main,
        "entries left out": learned.left_out,
    }
    if shown.as_json:
        show_json({**facts, "template": place})
        return
    numbers = {name: units.number(count) for name, count in facts.items()}
    show_facts({**numbers, "template": place, "try": f"ditseed generate {_path(place)} -n 1000"})


def _path(place: Path) -> str:
    """As `generate` takes it for a path, and not for the name of a shipped template."""
    return str(place) if "/" in str(place) else f"./{place}"
