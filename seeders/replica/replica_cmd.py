"""ditseed replica: seed a new replica, show a seeding's progress, compare the replica with its provider."""

from __future__ import annotations

import dataclasses
import shlex
import signal
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
import msgspec
from click import Choice

from loader import defaults, units
from loader.cli import access
from loader.cli.access import Consumer, ConsumerUri, ServerOptions, ServersOptions
from loader.cli.options import Json, RecordedRun, Run, Shown, is_given, note, refuse_given
from loader.cli.report import (
    fact_lines,
    findings,
    readable_facts,
    screen,
    show,
    show_facts,
    show_json,
    show_report,
    show_table,
)
from loader.declared import ConsumerSuffix, OptionalConfig, RunDir, declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK, NoRun, UsageProblem
from seeders.replica.options import STRATEGY_NAMES, RefreshOptions, SeedOptions, VerifyOptions

if TYPE_CHECKING:
    from loader.run.log import Row
    from loader.run.steps import Failure, RunStatus
    from seeders.replica.waiting import Standing

_REDRAW = 1.0  # seconds between two updates of the screen of `follow`
_KINDS = {"only-a": "missing", "only-b": "only on the replica", "changed": "differs"}


@click.group("replica")
def command() -> None:
    """Set up a new replica: seed it, follow the seeding, verify the result.

    \b
    The runbook:
      1. On the consumer: install slapd with its configuration (schema, syncrepl, indexes), and stop it.
      2. ditseed replica seed --dry-run ... --config /etc/ldap/slapd.d: which strategy, and how long it takes.
      3. ditseed replica seed --strategy search|ldif|clone ... --config /etc/ldap/slapd.d
      4. Start slapd: syncrepl fetches what changed meanwhile.
      5. ditseed replica verify -H ldap://provider --consumer ldap://consumer ...
    """


# Maps a field of SeedOptions to the names of its command-line parameters, if these differ from the field's name.
_PARAMETERS = {
    "consumer": ("consumer_uri", "consumer_bind_dn", "consumer_password_file", "consumer_mechanism"),
    "replicas": (),
}


@dataclass(frozen=True, kw_only=True)
class _Entries:
    strategy: Annotated[
        str | None,
        Choice(STRATEGY_NAMES),
        "Source of the entries: a search, LDIF or a database directory; online loads into a running consumer (with "
        "--dry-run, the default is to try each).",
    ] = None
    source: Annotated[
        tuple[Path, ...], "--from", "ldif, online: LDIF files or an export directory; clone: a database directory."
    ] = ()
    prepare_provider: Annotated[
        bool,
        "Prepare the provider so that it sends the replica only what changed: set a session log, and make a few writes "
        "that change nothing.",
    ] = False
    admin_bind_dn: Annotated[
        str | None, "--admin-bind-dn DN", "Bind DN for the writes of --prepare-provider (default: -D)."
    ] = None
    admin_password_file: Annotated[
        str | None, "--admin-password-file FILE", "Password file for --admin-bind-dn (default: -y)."
    ] = None
    config_bind_dn: Annotated[
        str | None, "--config-bind-dn DN", "Bind DN for changing the provider's cn=config (default: -D)."
    ] = None
    config_password_file: Annotated[
        str | None, "--config-password-file FILE", "Password file for --config-bind-dn (default: -y)."
    ] = None


@declare("seed", command)
def seed(entries: _Entries, servers: ServersOptions, options: SeedOptions, at: Consumer, run: RecordedRun) -> int:
    """Fill a consumer's empty database, so that its own syncrepl only fetches what has changed since.

    The consumer's slapd is stopped, and --config is its configuration. With --strategy online it is running
    (--consumer URI), has no syncrepl yet, and gets the entries over LDAP. -H -D -y -b are for the provider. After an
    interruption the same command resumes; once it has finished, it does nothing.

    Before reading, it reports what the provider will send when the replica is started (the changes, the entryUUIDs of
    all entries, or every entry), how long that takes, and how to improve it (docs/catch-up.md).

    --dry-run makes all checks, and predicts the time of each step. For that it reads the provider for three seconds,
    builds a sample of the received entries with the consumer's configuration, and copies a part of the database if
    --from names one. Without --strategy it does so for each strategy, recommends one, and says why others are not
    feasible; if none is feasible, it exits with status 1.

    \b
    Examples:
      ditseed replica seed --strategy search -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --config /etc/ldap/slapd.d
      ditseed replica seed --strategy ldif --from /srv/export --config /etc/ldap/slapd.d
      ditseed replica seed --strategy clone --from /mnt/provider/var/lib/ldap -H ldap://provider \\
          -D cn=replicator,dc=example,dc=com -y /root/replicator.pw --config /etc/ldap/slapd.d
      ditseed replica seed --strategy online -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --consumer ldapi:/// --consumer-mechanism EXTERNAL
      ditseed replica seed --dry-run -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --config /etc/ldap/slapd.d --from /mnt/provider/var/lib/ldap --from /srv/export
    """
    from seeders.replica import seed as seeding

    name, source = entries.strategy, entries.source
    if name is None and not run.dry_run:
        raise UsageProblem(reason="give --strategy; `ditseed replica seed --dry-run` recommends one")
    # An option that the strategy does not accept is refused on the command line, but ignored in a profile.
    takes = seeding.STRATEGIES[name].takes if name is not None else seeding.OPTIONAL
    for field in sorted(seeding.OPTIONAL - takes):
        takers = ", ".join(each for each, strategy in seeding.STRATEGIES.items() if field in strategy.takes)
        refuse_given(_PARAMETERS.get(field, (field,)), f"--strategy {takers}")
    if "replicas" not in takes and len(servers.uris) > 1 and is_given("uris"):
        raise UsageProblem(reason="-H several times is only for --strategy search")
    if name is not None and source:
        refuse_given(("jobs", "pieces", "page"), "reading a provider (-H), not LDIF (--from)")
    # Timeouts in a profile may name steps of every strategy; on the command line, only steps of the chosen strategy.
    names = [name] if name is not None and is_given("timeouts") else STRATEGY_NAMES
    timeouts = run.timeouts_of(tuple(dict.fromkeys(step for each in names for step in seeding.STRATEGIES[each].steps)))
    connection, replicas = access.providers_of(servers)
    admin = None
    if entries.prepare_provider:
        if connection.uri is None:
            raise UsageProblem(reason="--prepare-provider needs the provider: -H URI")
        admin = access.second_of(connection, entries, "config"), access.second_of(connection, entries, "admin")
    options = dataclasses.replace(
        options,
        source=source,
        suffix=connection.base if options.suffix is None else options.suffix,
        connection=connection if connection.uri else None,
        replicas=replicas,
        consumer=access.consumer_of(connection, at),
        admin=admin,
        jobs=options.jobs or defaults.connections(),
    )
    if name is not None:
        options = seeding.options_of(name, options)
    if run.dry_run:
        return _try(options, run)
    facts = seeding.seed(options, run.progress, timeouts, run.restart)
    note(facts)
    show_report(facts, run.as_json)
    return EXIT_OK


def _try(options: SeedOptions, run: RecordedRun) -> int:
    from seeders.replica.dry_run import dry_run  # imported here because only a dry run needs it

    plan = dry_run(options, run.progress)
    choice, exit_status = plan.chosen, EXIT_OK if plan.chosen else EXIT_DIFFERENT
    if run.as_json:
        fields = msgspec.structs.asdict(plan) | {"chosen": choice and choice.strategy}
        show_json(fields | fields.pop("facts"))
        return exit_status
    take = {"take": f"--strategy {choice.strategy}" if choice else "none", "why": plan.why}
    show_facts({**({} if options.strategy else take), **readable_facts(plan.facts), **plan.measured})
    table = []
    for row in plan.strategies:
        reason = "it needs other options" if row.refused == UsageProblem.code else row.refused
        seconds = "not known" if row.seconds is None else units.duration(row.seconds)
        disk = "not known" if row.disk is None else units.size(row.disk)
        changes = "what changed" if row.only_changes else row.catch_up.partition(":")[0]
        cells = ("yes", seconds, disk, "NO deletions" if row.loses_deletions else changes)
        table.append((row.strategy, *(cells if row.feasible else (f"no: {reason}", "", "", ""))))
    show("")
    show_table(("strategy", "feasible", "time", "disk", "sent at the start of slapd"), table)
    for row in plan.strategies:
        if row.refused and row.strategy not in {name for each in plan.missing for name in each.subject.split(", ")}:
            show("", f"{row.strategy} is not feasible: {row.reason}", *([f"  {row.advice}"] if row.advice else []))
    if plan.missing and not options.strategy:  # the warnings of a named strategy have been printed
        show("", "missing:", *findings(plan.missing, indent=""))
    if choice:
        show("")
        steps = [(step.name, units.duration(step.seconds), step.why) for step in choice.steps]
        show_table(("step", "planned", "because"), steps, f"long steps of {choice.strategy}")
        if not options.strategy:
            sources = [word for path in choice.source for word in ("--from", path)]
            command = shlex.join(["ditseed", "replica", "seed", "--strategy", choice.strategy, *sources])
            show("", f"carry it out with: {command} ...")
    return exit_status


class RunProgress(msgspec.Struct, frozen=True, kw_only=True):
    """The progress of a seeding or of `ditseed add`. `steps`: the finished steps. `step`: the current or next step;
    None if all steps are done or none has begun. `entries`: processed by this step so far, of `expected` (None if
    unknown), at `rate` per second. `left`: remaining seconds. `heard`: seconds since the run last wrote a file.
    `process`: PID of the ditseed that executes the run, or None. `failure`: the error that ended the last attempt."""

    verb: str
    run_dir: str
    inputs: list[str]
    steps: list[Row]
    step: str | None
    done: bool
    process: int | None
    heard: float
    failure: Failure | None
    entries: int | None = None
    expected: int | None = None
    rate: float | None = None
    left: float | None = None


@dataclass(frozen=True, kw_only=True)
class Followed:
    """Options that name the run which `status` and `follow` show."""

    config_path: OptionalConfig = None
    consumer: Annotated[
        str | None, "--consumer URI", "URI of a running server, as given for the seeding, instead of --config."
    ] = None
    base: Annotated[str | None, "-b --base DN", "Base DN, as given for the seeding."] = None
    suffix: ConsumerSuffix = None
    run_dir: Annotated[
        RunDir,
        "Run directory, as given for the seeding (default: in the database directory); without --config and --consumer "
        "that of any verb's run.",
    ] = None

    def chosen(self) -> Followed:
        """Returns the options without those of a profile that contradict the command line. Raises UsageProblem."""
        config_path = None if is_given("consumer") and not is_given("config_path") else self.config_path
        consumer = None if is_given("config_path") and not is_given("consumer") else self.consumer
        if (config_path is None and consumer is None and self.run_dir is None) or (config_path and consumer):
            raise UsageProblem(reason="give either --config (a stopped consumer) or --consumer (a running one)")
        suffix = self.base if self.suffix is None else self.suffix
        return dataclasses.replace(self, config_path=config_path, consumer=consumer, suffix=suffix)

    def directory(self) -> Path:
        from loader.operations import build
        from seeders.replica import online, strategies

        if self.consumer is not None:
            return online.run_dir_of(self.consumer, self.suffix, self.run_dir)
        if self.config_path is None:
            return (self.run_dir or Path()).absolute()
        place = build.target_database(self.config_path, self.suffix, replace=False)
        return strategies.run_dir_of(self.run_dir, place)


@declare("status", command)
def status(
    options: Followed, watch: Annotated[bool, "--watch", "The same as `ditseed replica follow`."], as_json: Json
) -> int:
    """Show what a seeding has done so far, while it is running or after it was interrupted or refused.

    For the step that is under way it shows the entries so far, the rate, the time left and the process. If the seeding
    failed, it shows the error and its hint.

    --config is the configuration of a stopped consumer. --consumer URI is a running one (give it and -b as for the
    seeding): the command then shows the seeding by --strategy online, loads of `ditseed add` to that server, and
    settings that they have changed temporarily. It reads the logs of the runs on this host and contacts no server.

    \b
    Examples:
      ditseed replica status --config /etc/ldap/slapd.d
      ditseed replica status --consumer ldapi:/// -b dc=example,dc=com
      ditseed replica status --run-dir /backup/ldap/.ditseed
    """
    from loader.run.log import report_of

    options = options.chosen()
    if watch:
        return _follow(options, as_json)
    directory = options.directory()
    if options.consumer is not None:
        _show_running(options.consumer, directory, as_json)
        return EXIT_OK
    seed = _stopped(directory)
    if seed is None:
        raise NoRun(path=directory)
    show_json(report_of(seed)) if as_json else _show_run(seed)
    return EXIT_OK


@declare("follow", command)
def follow(options: Followed, as_json: Json) -> int:
    """Follow a seeding until the consumer has caught up: one screen, redrawn every second.

    It shows the finished steps, the one under way (entries, rate, time left, process), and once the seeding is done and
    slapd is started, what the provider sends and how far the consumer is behind. It goes on when an interrupted seeding
    is resumed. Ctrl-C ends `follow`, not the seeding. Into a pipe, or with --json, it prints a line of JSON whenever
    something has changed.

    The options are those of `replica status`. With --run-dir alone it follows the run of any verb: `backup run`
    (REPO/.ditseed), `migrate` (DATABASE/.ditseed-migrate), `storage migrate`, `build` ...

    Exit status: 0 caught up (if the run leaves no consumer to wait for: it has ended), that of the run if it failed.

    \b
    Examples:
      ditseed replica follow --config /etc/ldap/slapd.d
      ditseed replica follow --run-dir /backup/ldap/.ditseed
    """
    return _follow(options.chosen(), as_json)


def _follow(options: Followed, as_json: bool) -> int:
    from loader.run.log import report_of

    as_json = as_json or not sys.stdout.isatty()
    run, standing, shown, status = None, None, None, EXIT_OK
    try:
        with nullcontext() if as_json else screen() as draw:
            for run, standing in _states(options):
                now = msgspec.structs.replace(run, heard=0.0), standing
                if draw is not None:
                    draw(_HEADINGS, _rows(run), fact_lines(_facts(run, standing)))
                elif now != shown:
                    line = report_of(run, {"catch_up": standing})
                    show_json(line, indent=None) if as_json else show("; ".join(fact_lines(_facts(run, standing))))
                shown = now
                if run.failure is not None and run.process is None:
                    status = run.failure.status
    except KeyboardInterrupt as stop:
        if run is None:
            raise
        status = 128 + getattr(signal, str(stop) or "SIGINT")
    if run is not None and not as_json:
        _show_run(run, standing)
    return status


def _states(options: Followed) -> Iterator[tuple[RunProgress, Standing | None]]:
    """Yields the run and the consumer's catch-up (None: unknown) once a second. Ends when the run has failed, or when
    the run is done and the consumer, if there is one, has caught up. Raises NoRun."""
    from seeders.replica.waiting import standings

    directory, run = options.directory(), None
    standing, catch_up = None, standings(options.config_path, options.consumer, options.suffix)
    while True:
        latest = (_stopped if options.consumer is None else _online)(directory)
        # With --restart a new log is begun, so an existing directory may lack a run for a moment.
        if latest is None and (run is None or not directory.exists()):
            raise NoRun(path=directory)
        run = latest or run
        assert run is not None
        is_over = run.process is None and (run.done or run.failure is not None)
        if is_over and not run.failure and run.verb == "replica seed":
            standing = next(catch_up, None)
        yield run, standing
        if is_over and (standing is None or standing.caught_up or run.failure):
            return
        time.sleep(_REDRAW)


def _stopped(directory: Path) -> RunProgress | None:
    """Returns the state of a run of any verb except `replica seed --strategy online` and `add`; None if there is no
    run in `directory`."""
    from loader.run.steps import status_of

    run = status_of(directory)
    if run is None:
        return None
    done = run.live.done or (run.verb == "replica seed" and run.catalogue.is_done("publish"))
    step = None if done else run.under_way
    return _progress(run, step, done, (run, run.live.entries, run.live.total) if step else None)


def _show_running(consumer: str, directory: Path, as_json: bool) -> None:
    """Shows the seeding of the running consumer whose database is in `directory`, the runs of `ditseed add`, and the
    settings that runs have changed."""
    from loader.operations import add
    from loader.run import lease
    from loader.run.log import report_of
    from seeders.replica import prepare

    seed = _online(directory)
    loads = []
    for run in add.loads_of(consumer):
        done = run.catalogue.is_done("load")
        loads.append(_progress(run, None if done else "load", done, (run, add.settled(run), add.expected(run))))
    leases = [(setting, setting.process) for setting in lease.all_leases() if setting.target == consumer]
    if not (seed or loads or leases):
        raise NoRun(path=directory)
    if as_json:
        settings = [
            {name: getattr(setting, name) for name in ("kind", "database", "taken")}
            | {"process": process, "undo": None if process else setting.undo}
            for setting, process in leases
        ]
        show_json({"seed": seed and report_of(seed), "loads": loads, "leases": settings})
        return
    if seed:
        _show_run(seed)
    for load in loads:
        show("", f"add {' '.join(load.inputs) or 'a template'}")
        _show_run(load)
    for setting, process in leases:
        if setting.kind == prepare.KIND:
            show(f"session log of {setting.database} set at {setting.taken} by --prepare-provider")
            show(f"  to restore what was before: {setting.undo}")
        else:
            owner = f"process {process} will reset it" if process else "nothing will reset it"
            show(f"{setting.kind} of {setting.database} since {setting.taken}: {owner}")
            if not process:
                show(f"  undone by the next run, or by hand: {setting.undo}")


def _online(directory: Path) -> RunProgress | None:
    """Returns the state of a seeding by --strategy online; None if `directory` has no run."""
    from loader.operations import add
    from loader.operations.export import STEPS, ReadingPlan
    from loader.run.steps import status_of

    run = status_of(directory)
    if run is None:
        return None
    load, step, counted = status_of(directory / "add"), None, None
    if not run.catalogue.is_done("claim"):
        exporting = STEPS if run.options["provider"] else ()
        is_joined = run.catalogue.is_done("join")
        names = () if is_joined else ("preflight", *exporting, "join")
        steps = [*((name, run) for name in names), *((name, load) for name in add.STEPS), ("claim", run)]
        step = next(name for name, where in steps if where is None or not where.catalogue.is_done(name))
    if step == "read":
        cut = run.catalogue.facts_of("plan", ReadingPlan)
        counted = (run, run.read, cut.expected if cut else None)
    elif step == "load" and load:
        counted = (load, add.settled(load), add.expected(load))
    return _progress(run, step, step is None, counted, load.catalogue.steps() if load else ())


def _progress(
    run: RunStatus,
    step: str | None,
    done: bool,
    counted: tuple[RunStatus, int, int | None] | None,
    more: Sequence[Row] = (),
) -> RunProgress:
    """Returns the progress of `run`. `counted`: the run that processes the entries of the current step, the number of
    entries so far, and the expected number. `more`: finished steps of another run."""
    counting, entries, expected = counted or (None, None, None)
    inputs = run.options.get("inputs")
    rate = counting.live.rate if counting else None
    return RunProgress(
        verb=run.verb.removesuffix(" online"),
        run_dir=str(run.directory),
        inputs=[*map(str, inputs)] if isinstance(inputs, list) else [],
        steps=[*run.catalogue.steps(), *more],
        step=step,
        done=done,
        process=run.process,
        heard=time.time() - run.heard,
        failure=run.live.failure,
        entries=entries,
        expected=expected,
        rate=rate,
        left=max(0, expected - (entries or 0)) / rate if expected and rate else None,
    )


_HEADINGS = ("step", "entries", "time", "entries/s")


def _rows(run: RunProgress) -> list[tuple[str, ...]]:
    return [
        (row.name, units.number(row.entries), units.duration(row.seconds), units.rate(row.entries, row.seconds))
        for row in run.steps
    ]


def _show_run(run: RunProgress, standing: Standing | None = None) -> None:
    show_table(_HEADINGS, _rows(run))
    if run.done:
        show("finished")
    show_facts(_facts(run, standing))


def _facts(run: RunProgress, standing: Standing | None) -> dict[str, object]:
    is_running, failure = run.process is not None, run.failure
    percent = ""
    if run.entries is not None and run.expected:
        percent = f" of {units.number(run.expected)} ({100 * run.entries // run.expected} %)"
    how = "failed; once that is corrected," if failure else "interrupted;"
    again = "starts over" if run.verb == "backup run" else "resumes"
    facts = {
        "under way" if is_running else "next": run.step,
        "entries": None if run.entries is None else f"{units.number(run.entries)}{percent}",
        "rate": f"{run.rate:,.0f} entries/s" if is_running and run.rate is not None else None,
        "time left": units.duration(run.left) if is_running and run.left is not None else None,
        "error": failure and f"{failure.message} [{failure.code}]",
        "failed at": failure and units.moment(failure.at),
        "hint": failure and failure.hint,
        "last heard": None if run.done else f"{units.duration(run.heard)} ago",
        "process": run.process,
        "state": None if is_running or run.done else f"{how} the same `{run.verb}` command {again}",
        "replica": standing and standing.doing,
        "behind": standing and (standing.behind or None),
    }
    return {name: fact for name, fact in facts.items() if fact is not None}


@declare("release", command)
def release(
    server: ServerOptions,
    forget: Annotated[bool, "Contact no server; forget the settings that are left on a server that is gone for good."],
    as_json: Json,
) -> None:
    """Restore the provider's session log to what it was before `replica seed --prepare-provider`.

    It is better to keep the session log: without one, every consumer that reconnects is sent the entryUUIDs of all
    entries. Otherwise wait until the replica has caught up (ditseed replica verify), and run this on the host where the
    seeding ran. -H is the provider, by any of its URIs.

    Every verb prints a reminder of settings that a run has left changed on a server. If that server is gone for good,
    --forget with the -H of the reminder ends the reminders; nothing is restored.

    \b
    Examples:
      ditseed replica release -H ldap://provider -D cn=admin,cn=config -y /root/config.pw -b dc=example,dc=com
      ditseed replica release -H ldap://removed -b dc=example,dc=com --forget
    """
    from seeders.replica import prepare

    connection = access.connection_of(server)
    if not forget:
        done = prepare.release(connection, connection.base)
        name, none = "released", "nothing was set by --prepare-provider"
    elif connection.uri is None:
        raise UsageProblem(reason="--forget needs -H, the URI that the reminder names")
    else:
        done = prepare.forget(connection.uri, connection.base)
        name, none = "forgotten", f"no settings of {connection.uri} are recorded"
    show_report({name: done}, as_json, done or [none])


@declare("refresh", command)
def refresh(server: ServerOptions, options: RefreshOptions, run: Run) -> None:
    """Bring the database of a stopped consumer up to date, before its slapd starts.

    Use it if a seeded database has waited for its slapd. It asks the provider (-H -D -y) for everything changed or
    deleted since the database's contextCSN, and applies all of it in one transaction, with the new contextCSN. syncrepl
    then only has to fetch the last minutes. After an interruption the same command resumes; the database is either
    unchanged or up to date.

    \b
    Example:
      ditseed replica refresh -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --config /etc/ldap/slapd.d
    """
    from seeders.replica import refresh as refreshing

    connection = access.connection_of(server)
    if not connection.uri:
        raise UsageProblem(reason="give the provider: -H URI")
    suffix = connection.base if options.suffix is None else options.suffix
    options = dataclasses.replace(options, connection=connection, suffix=suffix)
    if run.dry_run:
        facts = refreshing.plan(options)
    else:
        timeouts = run.timeouts_of(refreshing.STEPS)
        facts = refreshing.refresh(options, run.progress, timeouts, run.restart)
    show_report(facts, run.as_json)


@dataclass(frozen=True, kw_only=True)
class _Consumer(Consumer):
    consumer_uri: Annotated[ConsumerUri, {"required": True}] = None


@declare("verify", command)
def verify(server: ServerOptions, at: _Consumer, options: VerifyOptions, shown: Shown) -> int:
    """Wait until the replica has caught up, then compare every entry with the provider (-H -D -y -b).

    While waiting it shows what the provider is sending, the contextCSN of both and how far the replica is behind.

    For a partial replica, only what its syncrepl selects is compared. The syncrepl is read from --config, or from the
    replica's cn=config if the bind DN may read it.

    Exit status: 0 equal, 1 different, 30 a server cannot be reached, 38 the replica did not catch up.

    \b
    Example:
      ditseed replica verify -H ldap://provider -D cn=replicator,dc=example,dc=com \\
          -y /root/replicator.pw --consumer ldap://new-replica
    """
    from seeders.replica import prepare, waiting

    provider = access.connection_of(server)
    options = dataclasses.replace(options, provider=provider, consumer=access.consumer_of(provider, at) or provider)
    waited, report, how = waiting.verify(options, shown.progress)
    if report is None:
        printed = {"compared as": how, "caught up after": units.duration(waited), "verdict": "in sync"}
        show_report({"waited": waited, "compared_as": how, "verdict": "in sync"}, shown.as_json, printed)
        return EXIT_OK
    status = EXIT_OK if report.equal else EXIT_DIFFERENT
    if shown.as_json:
        show_json({"waited": waited, "compared_as": how, **msgspec.structs.asdict(report), "equal": report.equal})
        return status
    facts: dict[str, object] = {
        "compared as": how,
        "caught up after": units.duration(waited),
        "entries": f"{report.a.entries:,} and {report.b.entries:,}",
        "checksums": f"{report.a.checksum} and {report.b.checksum}",
        "differences": f"{report.only_a + report.only_b + report.changed:,}",
    }
    for number, sample in enumerate(report.samples, 1):
        attributes = f" ({', '.join(sample.attributes)})" if sample.attributes else ""
        facts[f"{number}: {_KINDS[sample.kind]}"] = f"{sample.dn}{attributes}"
    if report.local:
        facts["not compared"] = f"{', '.join(report.local)}: each server keeps them for itself"
    facts |= {f"note {number}": note for number, note in enumerate(report.notes, 1)}
    facts["verdict"] = "equal" if report.equal else "NOT equal"
    if not report.equal and report.equal_but_for:
        facts["verdict"] = f"NOT compared in {', '.join(report.equal_but_for)}; equal in everything else"
    show_facts(facts)
    for hidden in report.hidden if report.equal_but_for else ():
        show(
            f"{', '.join(hidden.attributes)}: hidden, not missing, as far as can be told without reading it: "
            f"{hidden.location} does not show it to {hidden.who}, and every entry has the same entryCSN on both sides.",
            "  To compare it too, bind as somebody who may read it (--consumer-bind-dn, --consumer-password-file), or "
            f"add this as the first rule of the database on {hidden.location}: olcAccess: {hidden.rule}",
        )
    show(*prepare.reminders(provider.uri or ""))
    return status
