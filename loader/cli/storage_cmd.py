"""`ditseed storage`: checks, plans, times and moves the volume under a database."""

from __future__ import annotations

import os
import shlex
import signal
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext, suppress
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
import msgspec
from click import Choice, FloatRange

from loader import units
from loader.cli.options import Json, Shown, is_given, refuse_given
from loader.cli.report import findings, screen, show, show_check, show_json, show_report, show_table, tell
from loader.cli.trees import Tree
from loader.declared import Argument, Metrics, Milliseconds, OptionalConfig, Suffix, declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK, LoaderError, MigrationRefused, NotPermitted, UsageProblem
from loader.operations.options import PROBES, BenchSizes, VolumeOptions, WatchOptions
from loader.storage import mounts

if TYPE_CHECKING:
    from loader.operations.storage.bench import BenchReport
    from loader.operations.storage.findings import Situation
    from loader.operations.storage.migrate import Begun, MovePlan, MoveRequest, PlannedStep
    from loader.operations.storage.plan import Plan
    from loader.operations.storage.verdict import Layer, State
    from loader.operations.storage.watch import Target
    from loader.storage.survey import Device, Volume


@click.group("storage")
def command() -> None:
    """Check, plan, time and move the storage of a database: file system, logical volume, disks, memory."""


@declare("check", command)
def check_command(
    path: Annotated[Path | None, Argument()], config_path: OptionalConfig, suffix: Suffix, as_json: Json
) -> int:
    """Check the storage below PATH: a data.mdb, a database directory, or any directory.

    With --config instead of PATH, checks the storage of the configured database, and takes its maxsize, nordahead and
    nosync into account.

    Prints the layers from the database down to the disks, then the findings, the worst first, each with its reason and
    the command that fixes it. Changes nothing. Root can read most facts; unreadable facts are listed. The exit status
    is 0 if nothing is worse than a note, and 1 if there is a warning or worse.

    \b
      ditseed storage check /var/lib/ldap
      ditseed storage check --config /etc/ldap/slapd.d
      ditseed storage check /srv/new-volume --json
    """
    from loader.operations.storage import check as checking
    from loader.server import configuration

    if path is not None and is_given("config_path"):
        raise UsageProblem(reason="give PATH or --config, not both")
    if path is not None:  # PATH overrides a --config from a profile
        refuse_given(["suffix"], "--config")
        report = checking.check(path)
    elif config_path is not None:
        database = configuration.read(config_path).database(suffix)
        report = checking.check_database(database, config_path)
    else:
        raise UsageProblem(reason="say what to check: PATH, or --config")
    lines = (*_layers(report.situation), "", *findings(report.findings, report.situation.unseen))
    layers = msgspec.to_builtins(report.situation)
    judged = {"well": report.is_well, "findings": report.findings, "not_looked_at": layers.pop("unseen")}
    show_report(judged | layers, as_json, lines)
    return EXIT_OK if report.is_well else EXIT_DIFFERENT


def _layers(facts: Situation) -> Iterator[str]:
    """Yields the lines of a tree: the database, its file system, and the devices below."""
    database, mount = facts.database, facts.mount
    if database is None:
        yield facts.path
    else:
        sizes = f"{units.size(database.used)} in use, {units.size(database.allocated)} on disk"
        map_size = "" if database.map_size is None else f", map size {units.size(database.map_size)}"
        yield f"{database.path}  {sizes}{map_size}"
    space = f"{units.size(facts.space.size)}, {units.size(facts.space.free)} free"
    yield f"└─ {mount.kind} on {mount.target}  {space}; {','.join(mount.options)}"
    below = {name for device in facts.devices for name in device.on}

    def tree(names: Sequence[str], indent: str) -> Iterator[str]:
        devices = [device for name in names for device in facts.devices if device.name == name]
        for device in devices:
            branch, more = ("└─", "   ") if device is devices[-1] else ("├─", "│  ")
            yield f"{indent}{branch} {device.path}  {_described(device, facts.volumes.by_path(device.path))}"
            yield from tree(device.on, indent + more)

    yield from tree([device.name for device in facts.devices if device.name not in below], "   ")


def _described(device: Device, volume: Volume | None) -> str:
    words = [device.kind, units.size(device.size)]
    if volume is not None:
        words += dict.fromkeys(segment.kind for segment in volume.segments)
        words += [f"{count} extents on {leg}" for leg, count in volume.legs.items()]
        sizes = {segment.stripe_size for segment in volume.segments if segment.stripe_size}
        words += [f"stripes of {units.size(size)}" for size in sorted(sizes)]
    words += [f"shows {device.file}"] if device.file else []
    if device.kind == "disk":
        words.append("rotating" if device.rotational else "not rotating")
        words += filter(None, [device.scheduler and f"scheduler {device.scheduler}", device.write_cache])
    return ", ".join((*words, f"readahead {units.size(device.read_ahead)}"))


@declare("plan", command)
def plan_command(
    words: Annotated[tuple[str, ...], Argument("DISK..."), {"required": True}], options: VolumeOptions, as_json: Json
) -> None:
    """Print the commands that create a volume for a database, with the reason for every number.

    DISK is an empty block device (/dev/sdb), or a size (300G) for a plan on paper. The output is a script for sh: read
    it, then run it as root. ditseed does not run it. To examine real disks, ditseed needs root.

    Without --redundant, one failed disk loses the whole file system.

    \b
      ditseed storage plan /dev/sdb /dev/sdc /dev/sdd --database-size 350G >plan.sh
      ditseed storage plan 300G 300G 300G --database-size 350G --fs ext4
    """
    from loader.operations.storage import plan as planning
    from loader.storage import survey

    if not options.database:
        raise UsageProblem(reason="--database-size: a size above 0 is needed")
    disks = []
    for number, word in enumerate(words, 1):
        if not word.startswith("/"):
            disks.append(planning.Disk(f"/dev/DISK{number}", units.parse_size(word)))
        elif not word.isprintable():
            raise UsageProblem(reason=f"not the name of a disk: {word!r}")
        else:
            unused = survey.unused(word)
            disks.append(planning.Disk(word, unused[0].size, unused))
    plan = planning.plan(disks, options)
    show_report(plan, as_json, _script(plan))


def _script(plan: Plan) -> Iterator[str]:
    import textwrap  # imported here because few runs need it

    from loader.operations.storage.plan import EXTENT

    def comment(text: str) -> list[str]:
        return textwrap.wrap(text, 98, initial_indent="# ", subsequent_indent="#   ", break_on_hyphens=False)

    extent, database = units.size(EXTENT), plan.options.database
    yield (
        f"# {units.size(plan.size)}, {plan.size / database:.1f} times the database of {units.size(database)}, on "
        f"{sum(leg.used > 0 for leg in plan.legs)} of {len(plan.legs)} disks"
        f"{', each extent on two of them' if plan.options.redundant else ''}"
    )
    for leg in plan.legs:
        yield f"#   {leg.disk}: {leg.extents} extents of {extent}, {leg.used} used, {leg.left} left"
    for note in plan.notes:
        yield from comment(f"Note: {note}")
    for step in plan.steps:
        yield ""
        for reason in step.why:
            yield from comment(reason)
        yield step.command


@declare("migrate", command)
def migrate_command(
    source: Annotated[str, Argument("FROM")],
    target: Annotated[str, Argument("TO")],
    service: Annotated[
        tuple[str, str] | None,
        "--service",
        {"nargs": 2, "metavar": "STOP START"},
        "Commands that stop and start the service (default: systemctl stop slapd, systemctl start slapd).",
    ],
    uri: Annotated[str | None, "-H --uri URI", "Server that must answer afterwards (default: ldapi:/// for slapd)."],
    rollback: Annotated[bool, "Go back to the former volume, after any step."],
    apply: Annotated[bool, "Make the migration, after you have typed FROM to confirm."],
    shown: Shown,
    fstab: Annotated[str, "--fstab FILE", "The fstab to change."] = str(mounts.FSTAB),
    seconds: Annotated[
        float, "--watch-time SECONDS", FloatRange(0), "Time that the service must stay up after its start."
    ] = 30.0,
) -> int:
    """Move the files in FROM to the volume mounted on TO, and mount that volume on FROM instead.

    FROM has the files of the service: it is the mount point of a volume, or a directory of a larger one. TO is the
    mount point of a new, empty file system. Without --apply, prints every step and command, and changes nothing. Keeps
    the old volume. After an interruption, the same command resumes the migration; --rollback goes back after any step,
    even the last. Exit status 1: rolled back, but the new volume cannot be mounted on TO. Run it as root.

    \b
      ditseed storage migrate /var/lib/ldap /mnt/new
      ditseed storage migrate /var/lib/ldap /mnt/new --apply
      ditseed storage migrate /var/lib/ldap /mnt/new --rollback --apply
      ditseed storage migrate /var/opt/novell/eDirectory /mnt/new --service "ndsmanage stopall" "ndsmanage startall"
    """
    from loader.operations.storage import migrate as migrating

    stop, start = map(_service_command, service or ("systemctl stop slapd", "systemctl start slapd"))
    source, target = (str(Path(word)) for word in (source, target))  # removes a slash at the end
    request = migrating.MoveRequest(
        source, target, stop, start, uri or ("" if service else "ldapi:///"), fstab, seconds
    )
    begun = migrating.begun(source)
    if rollback:
        plan = _continued(begun, request, bool(service))
        tell("Files that the service has written to the new volume are not on the former one.")
        if _is_confirmed(plan, "rollback", migrating.rollback_steps(plan), apply, shown.as_json):
            facts = migrating.roll_back(plan, shown.progress)
            show_report(facts, shown.as_json)
            if facts["not_mounted"]:
                tell(
                    f"The service runs on the former volume, but the new one is not mounted on {target}. If "
                    f"{plan.request.fstab} had a line for it, that is a comment now."
                )
                return EXIT_DIFFERENT
        return EXIT_OK
    migrating.require_forward(begun is not None and begun.goes_back, source)
    is_mounted = Path(target).is_dir() and mounts.mounted_at(Path(target)) is not None
    repeats = begun is not None and begun.is_done and is_mounted
    if begun is None or repeats:
        plan = migrating.plan(request, migrating.run_directory(source))
    else:
        plan = _continued(begun, request, bool(service))
        if begun.is_done:
            tell("This migration is finished. --rollback goes back to the former volume.")
            if shown.as_json:
                show_json({"plan": plan, "done": begun.done})
            return EXIT_OK
    if _is_confirmed(plan, "migration", migrating.migration_steps(plan), apply, shown.as_json):
        try:
            show_report(migrating.migrate(plan, shown.progress, repeats), shown.as_json)
        except (LoaderError, KeyboardInterrupt):
            with suppress(LoaderError):
                begun = migrating.begun(source)
                if begun is not None and "start" not in begun.done:
                    tell(
                        "The service is stopped, or being stopped. The same command resumes the migration; --rollback "
                        "--apply starts the service on the former volume."
                    )
            raise
    return EXIT_OK


def _service_command(text: str) -> tuple[str, ...]:
    try:
        words = tuple(shlex.split(text))
    except ValueError as error:  # unbalanced quotation marks
        raise UsageProblem(reason=f"--service: {text}: {str(error).lower()}") from None
    if not words:
        raise UsageProblem(reason="--service: give two commands")
    return words


def _continued(begun: Begun | None, request: MoveRequest, has_service: bool) -> MovePlan:
    """Returns the plan of the migration that an earlier run started, with this run's --service commands. Raises
    MigrationRefused if no migration was started, or if its TO differs."""
    from loader.operations.storage.migrate import require_commands

    if begun is None:
        reason = "no migration of this directory was started, or its state is in another directory"
        raise MigrationRefused(path=request.source, reason=reason, advice="Check FROM, and DITSEED_STATE_DIR.")
    plan, before = begun.plan, begun.plan.request
    if before.target != request.target:
        reason = f"a migration of it to {before.target} was started"
        raise MigrationRefused(path=request.source, reason=reason, advice=f"Give {before.target} as TO.")
    if not begun.is_done:
        when = time.strftime("%Y-%m-%d %H:%M", time.localtime(plan.begun))
        note = f"begun on {when}, finished so far: {', '.join(begun.done)}"
        plan = msgspec.structs.replace(plan, notes=(note, *plan.notes))
    if not has_service:
        return plan
    require_commands(request)
    again = msgspec.structs.replace(before, stop=request.stop, start=request.start, uri=request.uri)
    return msgspec.structs.replace(plan, request=again)


def _is_confirmed(plan: MovePlan, action: str, planned: Iterable[PlannedStep], apply: bool, as_json: bool) -> bool:
    """Prints the plan, and returns whether to execute it. Raises UsageProblem if the operator does not confirm it."""
    steps, source = [*planned], plan.request.source
    if not apply and as_json:
        show_json({"plan": plan, "steps": steps})
        return False
    volumes = [plan.old.device if plan.old else "a directory of a larger file system"]
    volumes.append(f"{plan.new.device} ({plan.new.kind})")
    lines = [f"# {action} of {source} from {' to '.join(volumes if action == 'migration' else volumes[::-1])}"]
    lines += [f"# Note: {note}" for note in plan.notes]
    for step in steps:
        lines += [f"# {step.step}" + (f": ditseed {step.by}" if step.by else ""), *step.commands]
    (tell if apply else show)(*lines)
    if not apply:
        show("", "Nothing was changed. --apply does it.")
        return False
    if os.geteuid() != 0:
        raise NotPermitted(action="mount a volume on", path=source, owner="root")
    tell("", f"Type {source} to begin:")
    if sys.stdin.readline().strip() != source:
        raise UsageProblem(reason=f"the {action} was not confirmed; nothing was changed")
    return True


@declare("bench", command)
def bench_command(
    directories: Annotated[tuple[Path, ...], Argument("DIR..."), click.Path(path_type=Path), {"required": True}],
    sizes: BenchSizes,
    shown: Shown,
) -> None:
    """Measure how fast databases are loaded and searched in each DIR, and their size on disk.

    In a temporary directory in each DIR, slapadd -q (nosync), slapadd (which syncs each entry) and `ditseed build` load
    the same generated people, a private slapd is searched for these people, and fio measures the storage alone. Each
    DIR, on any mounted file system, must belong to you, and nobody else may write to it.

    \b
      ditseed storage bench /mnt/ext4 /mnt/xfs
      ditseed storage bench /srv --entries 1000000 --sync-entries 0 --json
    """
    from loader.operations.storage import bench

    recipe = Tree(entries=sizes.entries, seed=sizes.seed).spec("people", bench.SUFFIX)
    report = bench.bench(directories, recipe, sizes, shown.progress)
    show_report(report, shown.as_json, lambda: show_bench(report))


def show_bench(report: BenchReport) -> None:
    rows = []
    for row in report.rows:
        disk = ["-"] * 4
        if row.disk is not None:
            disk = [f"{units.size(speed)}/s" for speed in (row.disk.write, row.disk.read)]
            disk += [f"{rate:.0f}/s" for rate in (row.disk.random_reads, row.disk.fsyncs)]
        sync = units.rate(row.sync.entries, row.sync.seconds) if row.sync else "-"
        searches = f"{row.searches:.0f}/s" if row.searches else "-"
        loads = f"{row.nosync.seconds:.2f} s", sync, f"{row.native.seconds:.2f} s"
        rows.append([row.directory, row.name, *loads, searches, units.size(row.nosync.allocated), *disk])
    loading = ("slapadd -q", "slapadd", "ditseed build", "searches", "on disk")
    show_table(("directory", "file system", *loading, "write", "read", "random reads", "fsyncs"), rows)
    show("", f"OpenLDAP {report.version}; docs/storage.md says what each column measures")
    show(*(f"{row.directory}: fio not measured: {row.no_disk}" for row in report.rows if row.no_disk))


@dataclass(frozen=True, kw_only=True)
class _Watched:
    words: Annotated[
        tuple[str, ...], "--layer NAME=PATH", "Time these layers instead of those below PATH, from the top down."
    ] = ()
    probes: Annotated[
        tuple[str, ...],
        "--probe",
        Choice(tuple(PROBES)),
        "Also time flock of a file, or a write that ends when it is on the disks. Repeatable.",
    ] = ()
    state_file: Annotated[
        Path | None, "--state FILE", "Write the state to FILE after each round; with --check, read it."
    ] = None
    metrics_file: Annotated[
        Metrics, "Write FILE after each round for node_exporter's textfile collector (NAME.prom)."
    ] = None
    is_check: Annotated[bool, "--check", "Judge the file of --state, as a monitoring plugin."] = False
    warning: Annotated[float | None, "-w --warning MS", Milliseconds(), "WARNING if a davg is above."] = None
    critical: Annotated[float | None, "-c --critical MS", Milliseconds(), "CRITICAL if a davg is above."] = None


@declare("watch", command)
def watch_command(
    path: Annotated[Path | None, Argument()], options: WatchOptions, watched: _Watched, as_json: Json
) -> int:
    """Time reads of every layer below PATH, and show which layer adds delay.

    PATH is a data.mdb, a database directory, or any directory. Its file system, the logical volume, the physical
    volumes and the disks each have a thread with real-time priority, which makes one small direct read (past the page
    cache) at a random offset in every interval. Also times the probes of --probe. Prints a table at the end, and on a
    terminal also while it runs; use --json for a log. Run it as root. It ends after --samples, or by Ctrl-C; another
    signal ends it with exit status 128 plus its number.

    With --check, reads only the state file of a running watch, and prints a line with performance data and a line for
    each layer; the exit status is 0, 1, 2 or 3. Failed reads are CRITICAL for as long as emax shows a peak. A layer
    that is not measured, and a state that is missing or older than three intervals, are UNKNOWN.

    \b
      ditseed storage watch /var/lib/ldap
      ditseed storage watch /var/lib/ldap --state /run/ditseed-watch.json --json >>/var/log/ditseed-watch.jsonl
      ditseed storage watch --check --state /run/ditseed-watch.json -w 20 -c 200
      ditseed storage watch /var/lib/ldap --probe flock --probe write
      ditseed storage watch --layer lv=/dev/vg/ldap --layer leg1=/dev/sdb --layer leg2=/dev/sdc
    """
    from loader.operations.storage import verdict
    from loader.operations.storage import watch as watching

    if watched.is_check:
        watching_only = [field.name for field in fields(WatchOptions)]
        refuse_given([*watching_only, "words", "probes", "metrics_file"], "a watch, not --check")
        if path is not None or watched.state_file is None:
            raise UsageProblem(reason="--check takes --state FILE, and no PATH")
        check = verdict.check(watched.state_file, verdict.Limits(watched.warning, watched.critical))
        return show_check(check, as_json)
    refuse_given(("warning", "critical"), "--check")
    if (path is None) == (not watched.words):
        raise UsageProblem(reason="say what to watch: PATH, or --layer")
    if not options.half_life:
        raise UsageProblem(reason="--half-life: a time above 0 is needed")
    layers = watching.parse_layers(watched.words) if path is None else watching.layers_below(path)
    return _watch(layers, watching.probe_targets(watched.probes, layers, path), options, watched, as_json)


def _watch(
    layers: Sequence[Layer], probes: Sequence[Target], options: WatchOptions, watched: _Watched, as_json: bool
) -> int:
    """Runs a watch. Returns the exit status: 0 if it ended after --samples or, without --samples, by Ctrl-C."""
    from loader.operations import monitoring
    from loader.operations.storage import verdict
    from loader.operations.storage.watch import Watch

    last: State | None = None
    status = EXIT_OK
    try:
        with nullcontext() if as_json else screen() as draw, Watch(layers, options, probes) as watch:
            for last in watch.rounds():
                if watched.state_file is not None:
                    verdict.write(last, watched.state_file)
                if watched.metrics_file is not None:
                    monitoring.write(verdict.metrics(last), watched.metrics_file)
                if as_json:
                    show_json(last, indent=None)
                elif draw is not None:
                    draw(_HEADINGS, _rows(last), [last.told])
    except KeyboardInterrupt as stop:
        if last is None:
            raise
        number = getattr(signal, str(stop) or "SIGINT")
        if number != signal.SIGINT or options.samples is not None:
            status = 128 + number
    if last is not None and not as_json:
        show_table(_HEADINGS, [*_rows(last)])
        show("", *_notes(last), f"verdict: {last.told}")
    return status


_HEADINGS = ("milliseconds", "reads", "davg", "emax", "adds", "state")


def _rows(state: State) -> Iterator[tuple[str, ...]]:
    """Yields the cells of each layer and probe. The last cell is the result of `--check` without -w and -c."""
    from loader.operations.monitoring import Status
    from loader.operations.storage import verdict

    added = {row.layer: row.seconds for row in state.verdict}
    for row in state.rows:
        davg, emax = (_ms(row.figures.davg), _ms(row.figures.emax)) if row.figures else ("-", "-")
        adds = added.get(row.name) if row.on else None
        status, text = verdict.judge(row, state, verdict.Limits(), state.written)
        added_text, state_text = "-" if adds is None else _ms(adds), "ok" if status is Status.OK else text
        yield row.name, str(row.reads), davg, emax, added_text, state_text


def _notes(state: State) -> list[str]:
    """Returns each note once, with the names of the layers that have it."""
    notes: dict[str, list[str]] = {}
    for row in state.rows:
        failed = [f"{row.failed} failed, the last with: {row.error}"] if row.failed else []
        for note in (*row.notes, *failed):
            notes.setdefault(note, []).append(row.name)
    return [f"note: {', '.join(names)}: {note}" for note, names in notes.items()]


def _ms(seconds: float) -> str:
    return f"{seconds * 1000:.3f}"
