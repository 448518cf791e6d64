"""ditseed export: a server's entries, or a database's, as LDIF shards with a manifest; a database's to stdout too."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click

from loader import defaults, log, resources, standard, units
from loader.cli import access, options, recording, trees
from loader.cli.report import for_people, show_facts, show_json, tell, tell_json
from loader.errors import UsageProblem
from loader.operations import export_mdb
from loader.operations.export_mdb import DumpOptions, StreamReport
from loader.operations.shards import Finished
from loader.progress import Progress
from loader.sources.location import STDIN, Kind, locate
from loader.sources.mdb import Part

_PIECES = (
    "-o - works for a database directory only; a server is read in pieces, which have to be sorted before parents come "
    "first: give a directory (`ditseed build` and `add` accept it)"
)


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
@recording.recorded
def command(
    source: str | None,
    output: Path,
    template: str | None,
    tree_suffix: str | None,
    compress: str | None,
    progress_mode: str,
    as_json: bool,
    jobs: int | None,
    dry_run: bool,
    timeouts: tuple[str, ...],
    restart: bool,
    **given: Any,
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
    progress = options.progress_of(progress_mode)
    if template is not None:
        strange = (
            "source",
            "dry_run",
            "timeouts",
            *(name for name in given if name not in trees.OF_TREE),
        )
        options.refuse_given(strange, "a server or a database, not for a template")
        recipe = trees.recipe_of(template, given, tree_suffix)
        trees.generate(recipe, str(output), progress, as_json, jobs, compress, restart)
        return
    trees.no_tree(given)
    to = None if str(output) == STDIN else output.absolute()
    if to is None:
        standard.reserve_output()
    asked = _Asked(to, compress, progress, as_json, jobs, dry_run, timeouts, restart)
    made = _of_server(asked, given) if source is None else _of_database(asked, source, given)
    if made is not None:
        without = "the server has no syncprov" if source is None else "none is stored"
        _show(made, output, as_json, without)


@dataclass(frozen=True)
class _Asked:
    """What is the same for a server and a database. output: None is stdout."""

    output: Path | None
    compress: str | None
    progress: Progress
    as_json: bool
    jobs: int | None
    dry_run: bool
    timeouts: tuple[str, ...]
    restart: bool


def _of_server(asked: _Asked, given: dict[str, Any]) -> Finished | None:
    """None for a plan, which was shown."""
    # Here, since python-ldap takes longer to load than a small database to be read.
    from loader.operations.export import STEPS, ExportOptions, export, plan

    if asked.output is None:
        raise UsageProblem(reason=_PIECES)
    latency = given.pop("max_latency")
    limits = {name: given.pop(name) for name in ("pieces", "max_rate", "page")}
    connection, replicas = access.providers_of(given)
    wanted = ExportOptions(
        connection,
        asked.output,
        asked.jobs or resources.connections(),
        max_latency=latency and latency / 1000,
        compress=asked.compress or defaults.COMPRESS,
        replicas=replicas,
        **limits,
    )
    if asked.dry_run:
        _show_plan(plan(wanted, asked.progress), asked.as_json)
        return None
    timeouts = options.timeouts_of(asked.timeouts, STEPS)
    return export(wanted, asked.progress, timeouts, asked.restart)


def _of_database(asked: _Asked, source: str, given: dict[str, Any]) -> Finished | None:
    """None for a plan or a stream, of which was told."""
    base = given.pop("base") if options.is_given("base") else None
    options.refuse_given(given, "a server, not for a database")
    part, jobs = (
        Part(locate(source, Kind.DATABASE).path, base),
        asked.jobs or resources.processors(),
    )
    if asked.dry_run:
        _show_plan(export_mdb.plan(part, asked.output), asked.as_json)
        return None
    if asked.output is None:
        options.refuse_given(("restart", "timeouts"), "an export into a directory")
        packed = asked.compress == "zstd"
        made = export_mdb.stream_database(part, jobs, packed, asked.progress)
        _tell_streamed(made, asked.as_json)
        return None
    timeouts = options.timeouts_of(asked.timeouts, export_mdb.STEPS)
    wanted = DumpOptions(part, asked.output, jobs, asked.compress or defaults.COMPRESS)
    return export_mdb.export_database(wanted, asked.progress, timeouts, asked.restart)


def _show_plan(facts: dict[str, Any], as_json: bool) -> None:
    show_json(facts) if as_json else show_facts(for_people(facts))


def _show(done: Finished, output: Path, as_json: bool, without: str) -> None:
    """without: why there is no contextCSN."""
    facts, made = {"output": output, **done.report}, done.manifest
    recording.note(facts)
    if as_json:
        show_json(facts)
        return
    show_facts(
        {
            "base": made.base,
            "entries": f"{made.entries:,}",
            "met twice": f"{made.duplicates:,}",
            "shards": len(made.shards),
            "read as": made.partitions,
            "contextCSN": " ".join(made.context_csns) or f"none ({without})",
            "finished": made.finished,
            "output": output,
            **{f"note {number}": note for number, note in enumerate(made.notes, 1)},
        }
    )


def _tell_streamed(made: StreamReport, as_json: bool) -> None:
    """On stderr: stdout is the LDIF's."""
    recording.note(asdict(made))
    if as_json:
        tell_json(asdict(made))
    elif log.verbosity() >= 0:
        took, csns = units.duration(made.seconds), " ".join(made.context_csns)
        sent = f"{units.number(made.entries)} entries, {units.size(made.bytes)} of LDIF in {took}"
        tell(f"sent: {sent}, contextCSN {csns or 'none (none is stored)'}")
        tell(*(f"note: {note}" for note in made.notes))
