"""`ditseed generate learn`: derives a template from a real tree in LDIF, a database directory, or a server.

LDIF is read in one pass. Databases and servers are first exported into the template's directory; the export is
removed afterwards, because it has the real values.
"""

from __future__ import annotations

import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from loader import exports, ldif, resources, standard, units
from loader.cli.access import Server, connection_of
from loader.cli.options import Shown, is_given
from loader.cli.report import show_facts, show_json
from loader.common_options import Jobs
from loader.declared import Argument
from loader.declared import command as declare
from loader.errors import UsageProblem
from loader.operations.export_mdb import DumpOptions, export_database
from loader.progress import Progress
from loader.server.options import Connection
from loader.sources.location import STDIN, Kind, locate
from loader.sources.mdb import Part
from loader.storage import files, held


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
    if sources and is_given("uri"):
        raise UsageProblem(reason="give either SOURCE or -H, not both")
    template = None if output == "-" else Path(output)
    if template is None:
        standard.reserve_output()
    elif template.exists() and not replace:
        raise UsageProblem(reason=f"{template} exists already; --replace overwrites it")
    else:
        files.require_writable(template.parent)
    jobs = jobs or (resources.processors() if sources else resources.connections())
    scratch = template.absolute().parent if template else Path(tempfile.gettempdir())
    origin = _Origin(sources, connection_of(server), server.base if is_given("base") else None, jobs)
    with origin.ldif(scratch, shown.progress) as (paths, descriptor), shown.progress.step("learn") as meter:
        with exports.held(paths, meter) as opened:
            learned = ldif.learn(opened, descriptor, jobs, meter)
        if descriptor is None:
            exports.require_entries(paths, learned.entries)
    if template is None:
        sys.stdout.write(learned.template)
        return
    with files.explained(template):
        files.write_durably(template, learned.template.encode())
    facts = {
        "entries": learned.entries,
        "kinds": learned.kinds,
        "entries of the main kind": learned.main,
        "entries left out": learned.left_out,
    }
    if shown.as_json:
        show_json({**facts, "template": template})
        return
    # With a slash, so that `generate` takes it as a path and not as the name of a shipped template.
    path = str(template) if "/" in str(template) else f"./{template}"
    numbers = {name: units.number(count) for name, count in facts.items()}
    show_facts({**numbers, "template": template, "try": f"ditseed generate {path} -n 1000"})


@dataclass(frozen=True)
class _Origin:
    """`sources`: LDIF files, directories of LDIF files, `-` for standard input, or one database directory; empty: the
    server of `connection`. `base`: subtree of a database. `jobs`: number of threads, or of connections."""

    sources: tuple[str, ...]
    connection: Connection
    base: str | None
    jobs: int

    @contextmanager
    def ldif(self, place: Path, progress: Progress) -> Iterator[tuple[list[Path], int | None]]:
        """Yields the LDIF paths, and standard input's descriptor if it is a source. `place`: directory for exports."""
        alone = (Kind.DATABASE,) if len(self.sources) == 1 else ()
        located = [locate(source, Kind.LDIF, Kind.STREAM, *alone) for source in self.sources]
        database = next((source for source in located if source.kind is Kind.DATABASE), None)
        if located and database is None:
            paths = [path for source in located for path in source.paths if source.text != STDIN]
            yield paths, (0 if STDIN in self.sources else None)
            return
        with held.scratch(place, ".ditseed-learn-") as scratch:
            output = scratch.path / "export"
            if database is None:
                # Imported here because loading python-ldap takes longer than reading a small file.
                from loader.operations.export import ExportOptions, export

                export(ExportOptions(self.connection, output, jobs=self.jobs), progress, {})
            else:
                export_database(DumpOptions(Part(database.path, self.base), output, self.jobs), progress, {})
            yield [output], None
