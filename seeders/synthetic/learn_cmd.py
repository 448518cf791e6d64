"""`ditseed generate learn`: a template from a real tree."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import click

from loader import resources, standard, units
from loader.cli import access, options
from loader.cli.report import show_facts, show_json
from loader.errors import UsageProblem
from seeders.synthetic.learn import LearnOptions, learn


@click.command("learn")
@click.argument("sources", metavar="[SOURCE]...", nargs=-1)
@access.connection_options
@click.option(
    "-o",
    "--output",
    required=True,
    metavar="TEMPLATE|-",
    help="The template file to write; -: standard output.",
)
@options.jobs_option(
    "Number of threads, or of connections to a server (default: one per processor, at most 4 connections)."
)
@click.option("--replace", is_flag=True, help="Overwrite an existing template.")
@options.json_option
@options.progress_option
def command(
    sources: tuple[str, ...],
    output: str,
    jobs: int | None,
    replace: bool,
    as_json: bool,
    progress_mode: str,
    **connecting: Any,
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
    base = connecting["base"] if options.is_given("base") or not sources else None
    connection = access.connection_of(connecting)
    if sources and options.is_given("uri"):
        raise UsageProblem(reason="give either SOURCE or -H, not both")
    place = None if output == "-" else Path(output)
    if place is None:
        standard.reserve_output()
    if place is not None and place.exists() and not replace:
        raise UsageProblem(reason=f"{place} exists already; --replace overwrites it")
    usual = resources.processors() if sources else resources.connections()
    asked = LearnOptions(sources, None if sources else connection, base, place, jobs or usual)
    learned = learn(asked, options.progress_of(progress_mode))
    if place is None:
        sys.stdout.write(learned.template)
        return
    facts = {
        "entries": learned.entries,
        "kinds": learned.kinds,
        "entries of the main kind": learned.main,
        "entries left out": learned.left_out,
    }
    if as_json:
        show_json({**facts, "template": place})
        return
    numbers = {name: units.number(count) for name, count in facts.items()}
    show_facts({**numbers, "template": place, "try": f"ditseed generate {_path(place)} -n 1000"})


def _path(place: Path) -> str:
    """As `generate` takes it for a path, and not for the name of a shipped template."""
    return str(place) if "/" in str(place) else f"./{place}"
