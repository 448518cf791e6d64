"""Learn a template from a real tree: LDIF, a database directory, or a server.

LDIF is read once and as it comes. Databases and servers are exported beside the template first; what was exported is
removed again, for it holds the real values.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import exports, ldif
from loader.ldif import LearnResult
from loader.operations.export_mdb import DumpOptions, export_database
from loader.progress import Progress
from loader.server.options import Connection
from loader.sources.location import STDIN, Kind, locate
from loader.sources.mdb import Part
from loader.storage import files, held


@dataclass(frozen=True)
class LearnOptions:
    """sources: LDIF files, directories of such, `-` for standard input, or one database directory; none: `connection`.

    base: the part of a database. output: where the template goes; None: nowhere. jobs: threads, or connections.
    """

    sources: tuple[str, ...]
    connection: Connection | None
    base: str | None
    output: Path | None
    jobs: int


def learn(options: LearnOptions, progress: Progress) -> LearnResult:
    """The template, written to `output` durably and at once."""
    if options.output is not None:
        files.require_writable(options.output.parent)
    with _ldif(options, progress) as (given, descriptor), progress.step("learn") as meter:
        with exports.held(given, meter) as paths:
            learned = ldif.learn(paths, descriptor, options.jobs, meter)
        if descriptor is None:
            exports.require_entries(given, learned.entries)
    if options.output is not None:
        with files.explained(options.output):
            files.write_durably(options.output, learned.template.encode())
    return learned


@contextmanager
def _ldif(options: LearnOptions, progress: Progress) -> Iterator[tuple[list[Path], int | None]]:
    """LDIF, as `exports` takes it, and a descriptor to read, in this order."""
    alone = (Kind.DATABASE,) if len(options.sources) == 1 else ()
    named = [locate(one, Kind.LDIF, Kind.STREAM, *alone) for one in options.sources]
    database = next((one for one in named if one.kind is Kind.DATABASE), None)
    if named and database is None:
        paths = [path for one in named for path in one.paths if one.text != STDIN]
        yield paths, (0 if STDIN in options.sources else None)
        return
    place = options.output.absolute().parent if options.output else Path(tempfile.gettempdir())
    with held.scratch(place, ".ditseed-learn-") as scratch:
        output = scratch.path / "export"
        if database is None:
            _of_server(options, output, progress)
        else:
            dump = DumpOptions(Part(database.path, options.base), output, options.jobs)
            export_database(dump, progress, {})
        yield [output], None


def _of_server(options: LearnOptions, output: Path, progress: Progress) -> None:
    # Here, since python-ldap takes longer to load than a file to be read.
    from loader.operations.export import ExportOptions, export

    assert options.connection is not None
    export(ExportOptions(options.connection, output, jobs=options.jobs), progress, {})
