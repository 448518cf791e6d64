"""ditseed export: a server's entries, or a database's, as LDIF shards with a manifest; a database's to stdout too."""

from __future__ import annotations

import json
import sys
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from loader import defaults, units
from loader.cli import named, options
from loader.cli.report import show_facts, show_json
from loader.errors import NoSuchPath, UsageProblem
from loader.manifest import Manifest
from loader.operations import export_mdb
from loader.operations.export_mdb import (
    DumpOptions,
    StreamReport,
    export_database,
    stream_database,
)
from loader.progress import Progress
from loader.server.options import Connection
from loader.sources.mdb import DATA, Part, database_directory

_STDOUT = Path("-")
_PIECES = (
    "-o - is for a database directory; a server is read in pieces, which lie in files until parents come first: "
    "give a directory (`ditseed build` and `add` take it as it is)"
)
_WITHOUT = {True: "the server has no syncprov", False: "none is stored"}


@click.command("export")
@click.argument("source", metavar="[DIR]", required=False)
@options.from_option
@options.tree_options
@options.tree_suffix_option
@options.providers_options
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path, readable=False),
    required=True,
    help="Directory for shards and manifest; of a database also plain LDIF to stdout (-).",
)
@options.reading_options(jobs="Connections side by side to each server, or workers.")
@click.option(
    "--max-rate",
    type=click.IntRange(0),
    default=0,
    help="Entries a second, of all connections together; 0: as fast as can be.",
)
@click.option(
    "--max-latency",
    type=click.FloatRange(0, min_open=True),
    help="Read slower while the server takes more milliseconds than this for a small question.",
)
@click.option(
    "--compress",
    type=click.Choice(["zstd", "none"]),
    help=f"Default: {defaults.COMPRESS} for a directory, none for stdout.",
)
@options.timeout_option
@options.restart_option
@options.progress_option
@options.json_option
def command(
    source: str | None,
    output: Path,
    jobs: int,
    pieces: int,
    max_rate: int,
    max_latency: float | None,
    page: int,
    compress: str | None,
    timeouts: tuple[str, ...],
    restart: bool,
    progress_mode: str,
    as_json: bool,
    tree_suffix: str | None,
    **connecting: Any,
) -> None:
    """Read a running server with several searches side by side, or the database in DIR: all user and operational
    attributes, as LDIF that loads in the order of the manifest (parents first).

    Of a server: the suffix entry carries the contextCSN that the server had when the export began, so that
    syncrepl goes on from there. Stopped at any moment, the same command goes on with what is missing.

    DIR is a directory with a data.mdb (or mdb:DIR), a copy or that of a slapd, running or not. It needs no
    configuration and asks no server: --jobs workers read the pages of one snapshot. The suffix entry carries
    the contextCSN that is stored.

    Of a database, -o - writes LDIF to stdout, for slapadd or another `ditseed build`; the report goes to stderr.

    --from TEMPLATE -o DIR is `ditseed generate TEMPLATE -o DIR`.

    \b
    Examples:
      ditseed export -H ldap://provider -D cn=replicator,dc=example,dc=com -y /root/replicator.pw \\
          -b dc=example,dc=com -o /srv/export
      ditseed export -H ldapi:/// -Y EXTERNAL -b dc=example,dc=com -o /srv/export --compress none
      ditseed export /var/lib/ldap -o /srv/export
      ditseed export /var/lib/ldap -o - | ssh ldap2 slapadd -q -b dc=example,dc=com
    """
    if connecting.pop("template") is not None:
        _generate(output)
        return
    progress = options.progress_of(progress_mode)
    options.no_tree(connecting)
    streamed = output == _STDOUT
    packing = compress or defaults.COMPRESS
    asked = _Asked(output.absolute(), packing, progress, timeouts, restart)
    if source is None:
        if streamed:
            raise UsageProblem(reason=_PIECES)
        latency = None if max_latency is None else max_latency / 1000
        limits = {
            "jobs": jobs,
            "pieces": pieces,
            "max_rate": max_rate,
            "max_latency": latency,
            "page": page,
        }
        connection, replicas = options.providers_of(connecting)
        made = _of_server(connection, {**limits, "replicas": replicas}, asked)
    else:
        base = connecting.pop("base")
        of_server = (*connecting, "pieces", "max_rate", "max_latency", "page")
        options.refuse_given(of_server, "a server, not for a database")
        if streamed:
            options.refuse_given(("restart", "timeouts"), "an export into a directory")
            part = Part(_directory(source), base)
            _show_streamed(stream_database(part, jobs, compress == "zstd", progress), as_json)
            return
        made = _of_database(source, base, jobs, asked)
    if as_json:
        show_json(
            {"output": output, **made.__dict__, "shards": [shard.__dict__ for shard in made.shards]}
        )
        return
    show_facts(
        {
            "base": made.base,
            "entries": f"{made.entries:,}",
            "met twice": f"{made.duplicates:,}",
            "shards": len(made.shards),
            "cut into": made.partitions,
            "contextCSN": " ".join(made.context_csns) or f"none ({_WITHOUT[source is None]})",
            "finished": made.finished,
            "output": output,
            **{f"note {number}": note for number, note in enumerate(made.notes, 1)},
        }
    )


@dataclass(frozen=True)
class _Asked:
    """What is the same whatever is exported."""

    output: Path
    compress: str
    progress: Progress
    timeouts: tuple[str, ...]
    restart: bool


def _of_server(connection: Connection, limits: dict[str, Any], asked: _Asked) -> Manifest:
    # Here, since python-ldap takes longer to load than a small database to be read.
    from loader.operations.export import STEPS, ExportOptions, export

    timeouts = options.timeouts_of(asked.timeouts, STEPS)
    wanted = ExportOptions(connection, asked.output, compress=asked.compress, **limits)
    return export(wanted, asked.progress, timeouts, asked.restart)


def _of_database(source: str, base: str | None, jobs: int, asked: _Asked) -> Manifest:
    timeouts = options.timeouts_of(asked.timeouts, export_mdb.STEPS)
    wanted = DumpOptions(Part(_directory(source), base), asked.output, jobs, asked.compress)
    return export_database(wanted, asked.progress, timeouts, asked.restart)


def _directory(source: str) -> Path:
    directory = database_directory(source)
    if directory is None:
        if not Path(source).exists():
            raise NoSuchPath(path=source)
        raise UsageProblem(reason=f"{source} is no database directory: it holds no {DATA}")
    return directory


def _show_streamed(made: StreamReport, as_json: bool) -> None:
    """On stderr: stdout is the LDIF's."""
    if as_json:
        print(json.dumps(asdict(made)), file=sys.stderr)
        return
    took, csns = units.duration(made.seconds), " ".join(made.context_csns)
    told = f"sent: {units.number(made.entries)} entries, {units.size(made.bytes)} of LDIF in {took}"
    print(f"{told}, contextCSN {csns or f'none ({_WITHOUT[False]})'}", file=sys.stderr)
    for note in made.notes:
        print(f"note: {note}", file=sys.stderr)


_OF_TREE = ("template", "entries", "seed", "tree_suffix", "defines", "operational")
_ALSO = ("jobs", "compress", "restart", "progress_mode", "as_json")


def _generate(output: Path) -> None:
    """By that verb, with the options as they were given."""
    context = click.get_current_context()
    strange = [name for name in context.params if name not in (*_OF_TREE, *_ALSO, "output")]
    options.refuse_given(strange, "a server or a database, not for a template")
    words = [context.params["template"], "-o", str(output)]
    for one in context.command.get_params(context):
        if one.name in (*_OF_TREE[1:], *_ALSO) and options.is_given(one.name):
            words += _words(one, context.params[one.name])
    generate = named("generate")
    assert generate is not None, "one of our own"
    generate.load().main(words, "ditseed generate", standalone_mode=False)


def _words(option: click.Parameter, value: Any) -> list[str]:
    spelled = option.opts[0]
    if value is True:
        return [spelled]
    several = value if isinstance(value, tuple) else (value,)
    return [word for one in several for word in (spelled, str(one))]
