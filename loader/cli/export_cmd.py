"""ditseed export: a server's entries as LDIF shards with a manifest."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from loader import defaults
from loader.cli import named, options
from loader.cli.report import show_facts, show_json
from loader.errors import UsageProblem
from loader.manifest import Manifest
from loader.operations import export_mdb
from loader.operations.export_mdb import DumpOptions, export_database
from loader.progress import Progress
from loader.server.options import Connection
from loader.sources.mdb import DATA, Part, database_directory

_WITHOUT = {True: "the server has no syncprov", False: "none is stored"}


@click.command("export")
@click.argument("source", metavar="[DIR]", required=False)
@options.from_option
@options.tree_options
@options.tree_suffix_option
@options.connection_options
@click.option(
    "-o",
    "output",
    type=click.Path(path_type=Path, readable=False),
    required=True,
    help="Directory for shards and manifest.",
)
@click.option(
    "--jobs",
    type=click.IntRange(1),
    default=os.cpu_count() or 2,
    help="Connections side by side, or workers.",
)
@click.option(
    "--pieces",
    type=click.IntRange(0),
    default=0,
    help="Searches that the tree is cut into; 0: as many as jobs. A cut connection costs one piece.",
)
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
    "--page",
    type=click.IntRange(0),
    default=0,
    help="Entries a page; 0 asks for no pages unless a limit demands them.",
)
@click.option(
    "--compress",
    type=click.Choice(["zstd", "none"]),
    default=defaults.COMPRESS,
    help="Shards' compression.",
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
    compress: str,
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

    --from TEMPLATE -o DIR is `ditseed generate TEMPLATE -o DIR`.

    \b
    Examples:
      ditseed export -H ldap://provider -D cn=replicator,dc=example,dc=com -y /root/replicator.pw \\
          -b dc=example,dc=com -o /srv/export
      ditseed export -H ldapi:/// -Y EXTERNAL -b dc=example,dc=com -o /srv/export --compress none
      ditseed export /var/lib/ldap -o /srv/export
    """
    if connecting.pop("template") is not None:
        _generate(output)
        return
    progress = options.progress_of(progress_mode)
    options.no_tree(connecting)
    if source is None:
        latency = None if max_latency is None else max_latency / 1000
        limits = {
            "jobs": jobs,
            "pieces": pieces,
            "max_rate": max_rate,
            "max_latency": latency,
            "page": page,
        }
        asked = _Asked(output.absolute(), compress, progress, timeouts, restart)
        made = _of_server(options.connection_of(connecting), limits, asked)
    else:
        base = connecting.pop("base")
        _refuse({**connecting, "pieces": pieces, "max_rate": max_rate, "page": page})
        asked = _Asked(output.absolute(), compress, progress, timeouts, restart)
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
    directory = database_directory(source)
    if directory is None:
        raise UsageProblem(reason=f"{source} is no database directory: it holds no {DATA}")
    timeouts = options.timeouts_of(asked.timeouts, export_mdb.STEPS)
    wanted = DumpOptions(Part(directory, base), asked.output, jobs, asked.compress)
    return export_database(wanted, asked.progress, timeouts, asked.restart)


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


def _refuse(given: dict[str, Any]) -> None:
    """Options that mean nothing where a database is read."""
    spelled = {one.name: one.opts[0] for one in click.get_current_context().command.params}
    for name in [name for name, value in given.items() if value]:
        raise UsageProblem(reason=f"{spelled[name]} is for a server, not for a database")
