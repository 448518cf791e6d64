"""ditseed export: a server's entries, or a database's, as LDIF shards with a manifest; a database's to stdout too."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from loader import defaults, log, resources, standard, units
from loader.cli import access, named, options, profile, trees
from loader.cli.report import for_people, show_facts, show_json, tell, tell_json
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
    "-o - works for a database directory only; a server is read in pieces, which have to be sorted before parents come "
    "first: give a directory (`ditseed build` and `add` accept it)"
)
_WITHOUT = {True: "the server has no syncprov", False: "none is stored"}


@click.command("export")
@click.argument("source", metavar="[DIR]", required=False)
@trees.from_option
@trees.tree_options
@trees.tree_suffix_option
@access.providers_options
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path, readable=False),
    required=True,
    help="Directory for shards and manifest; for a database also -, plain LDIF to stdout.",
)
@access.reading_options(
    jobs="Number of parallel connections to each server (default: one per processor, at most 4), or of workers "
    "for DIR (default: one per processor)."
)
@options.max_rate_option(0, "; 0: no limit")
@click.option(
    "--max-latency",
    type=click.FloatRange(0, min_open=True),
    help="Slow down while the server takes longer than this many milliseconds to answer a small search.",
)
@click.option(
    "--compress",
    type=click.Choice(["zstd", "none"]),
    help=f"How to compress shards (default: {defaults.COMPRESS} for a directory, none for stdout).",
)
@options.dry_run_option
@options.timeout_option
@options.restart_option
@options.progress_option
@options.json_option
def command(
    source: str | None,
    output: Path,
    jobs: int | None,
    pieces: int,
    max_rate: int,
    max_latency: float | None,
    page: int,
    compress: str | None,
    dry_run: bool,
    timeouts: tuple[str, ...],
    restart: bool,
    progress_mode: str,
    as_json: bool,
    tree_suffix: str | None,
    **connecting: Any,
) -> None:
    """Export a running server, by several parallel searches, or the database in DIR: all user and operational
    attributes, as LDIF that loads in the order of the manifest (parents first).

    From a server: the suffix entry carries the contextCSN that the server had when the export began, so that
    syncrepl can continue from there. After an interruption the same command resumes with what is missing.

    DIR is a directory with a data.mdb (or mdb:DIR): that of a slapd, running or not, or a copy. No configuration
    and no server are needed: --jobs workers read the pages of one snapshot. The suffix entry carries the contextCSN
    that is stored.

    From a database, -o - writes LDIF to stdout, for slapadd or another `ditseed build`; the report goes to stderr.

    --from TEMPLATE -o DIR is the same as `ditseed generate TEMPLATE -o DIR`.

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
    trees.no_tree(connecting)
    streamed = output == _STDOUT
    if streamed:
        standard.reserve_output()
    packing = compress or defaults.COMPRESS
    asked = _Asked(output.absolute(), packing, progress, timeouts, restart)
    if source is None:
        if streamed:
            raise UsageProblem(reason=_PIECES)
        latency = None if max_latency is None else max_latency / 1000
        limits: dict[str, Any] = {
            "jobs": jobs or resources.connections(),
            "pieces": pieces,
            "max_rate": max_rate,
            "max_latency": latency,
            "page": page,
        }
        connection, replicas = access.providers_of(connecting)
        limits["replicas"] = replicas
        if dry_run:
            _show_plan(_plan_of_server(connection, limits, asked), as_json)
            return
        made = _of_server(connection, limits, asked)
    else:
        base = connecting.pop("base") if options.is_given("base") else None
        of_server = (*connecting, "pieces", "max_rate", "max_latency", "page")
        options.refuse_given(of_server, "a server, not for a database")
        if dry_run:
            where = None if streamed else asked.output
            _show_plan(export_mdb.plan(Part(_directory(source), base), where), as_json)
            return
        if streamed:
            options.refuse_given(("restart", "timeouts"), "an export into a directory")
            part = Part(_directory(source), base)
            workers = jobs or resources.processors()
            _show_streamed(stream_database(part, workers, compress == "zstd", progress), as_json)
            return
        made = _of_database(source, base, jobs or resources.processors(), asked)
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
            "read as": made.partitions,
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


def _show_plan(facts: dict[str, Any], as_json: bool) -> None:
    show_json(facts) if as_json else show_facts(for_people(facts))


def _plan_of_server(
    connection: Connection, limits: dict[str, Any], asked: _Asked
) -> dict[str, Any]:
    from loader.operations.export import ExportOptions, plan

    return plan(ExportOptions(connection, asked.output, **limits), asked.progress)


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
        if "://" in source:
            raise UsageProblem(reason=f"{source} is a server: give it with -H")
        if not Path(source).exists():
            raise NoSuchPath(path=source)
        raise UsageProblem(reason=f"{source} is not a database directory: it contains no {DATA}")
    return directory


def _show_streamed(made: StreamReport, as_json: bool) -> None:
    """On stderr: stdout is the LDIF's."""
    if as_json:
        tell_json(asdict(made))
        return
    if log.verbosity() < 0:
        return
    took, csns = units.duration(made.seconds), " ".join(made.context_csns)
    told = f"sent: {units.number(made.entries)} entries, {units.size(made.bytes)} of LDIF in {took}"
    tell(f"{told}, contextCSN {csns or f'none ({_WITHOUT[False]})'}")
    tell(*(f"note: {note}" for note in made.notes))


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
    name = profile.chosen(context)
    words += ["--profile", name] if name else []
    generate = named("generate")
    assert generate is not None, "one of our own"
    generate.load().main(words, "ditseed generate", standalone_mode=False)


def _words(option: click.Parameter, value: Any) -> list[str]:
    spelled = option.opts[0]
    if value is True:
        return [spelled]
    several = value if isinstance(value, tuple) else (value,)
    return [word for one in several for word in (spelled, str(one))]
