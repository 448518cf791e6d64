"""`ditseed tune`: shows and changes settings of a server's databases."""

from __future__ import annotations

import dataclasses
import shlex
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import click
from click import Choice
from msgspec.structs import replace

from loader import units
from loader.cli import ending
from loader.cli.access import ServerOptions, connection_of
from loader.cli.options import DryRun, Json, ProgressMode, is_given, keep_strongest, progress_of, refuse_given
from loader.cli.report import show, show_json, show_table
from loader.declared import Duration, OptionalConfig, Share, Size, declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK, UsageProblem
from loader.operations.options import FLAGS, NONE, OFF, ON, IndexChange, SearchSources
from loader.server.options import Connection

if TYPE_CHECKING:
    from loader.operations.tune import Outcome, Target
    from loader.operations.tune.indexing import Costs, IndexSettings, Usage
    from loader.operations.tune.maxsize import LoadPlan, MapUsage
    from loader.operations.tune.syncing import SyncSettings

    _Part = tuple[str, LoadPlan | Costs | Usage, Callable[[], None]]  # key in the JSON, facts, print function


@click.group("tune")
def command() -> None:
    """Show and change settings of a server's databases.

    Name the server either by --config (slapd.conf, or the slapd.d of a stopped slapd) or by -H and the other connection
    options (cn=config over LDAP). Nothing changes without --apply. Each change is shown with the command that restores
    the previous setting.

    \b
    Examples:
      ditseed tune maxsize -H ldapi:/// -Y EXTERNAL
      ditseed tune indexes --config /etc/ldap/slapd.d --add "uid eq" --apply
      ditseed tune sync -H ldapi:/// -Y EXTERNAL --nosync off --apply
    """


@dataclass(frozen=True, kw_only=True)
class Change(ServerOptions):
    config_path: OptionalConfig = None
    apply: Annotated[
        bool,
        "Make the change; without --apply, it is only shown. A slapd.conf is never edited: the lines to change are "
        "shown.",
    ] = False
    dry_run: DryRun = False
    as_json: Json = False

    @property
    def applies(self) -> bool:
        return self.apply and not self.dry_run

    @property
    def is_requested(self) -> bool:
        return self.apply or self.dry_run

    @contextmanager
    def target(self) -> Iterator[Target]:
        """Opens the server or configuration. With --apply, first restores settings that a killed `ditseed add` has left
        changed on the server."""
        from loader.operations.add import lending
        from loader.operations.tune import opened

        change = keep_strongest(self, ("config_path", "uri"))
        path = change.config_path
        account = [name for name in ("bind_dn", "mechanism") if getattr(change, name)]
        if (path is not None) == (bool(change.uri) or any(path is None or is_given(name) for name in account)):
            raise UsageProblem(
                reason="say which server: either --config slapd.d or slapd.conf, or -H ldapi:/// -Y EXTERNAL"
            )
        where: Path | Connection = connection_of(change) if path is None else path
        if change.applies and isinstance(where, Connection):
            lending.release(where)
        with opened(where) as target:
            yield target


def _show_settings(
    target: Target,
    settings: Sequence[MapUsage] | Sequence[IndexSettings] | Sequence[SyncSettings],
    headings: Sequence[str],
    rows: Iterable[Sequence[str]],
    outcome: Outcome | None,
    as_json: bool,
    parts: Sequence[_Part] = (),
) -> None:
    if as_json:
        more = {name: facts for name, facts, _ in parts}
        show_json({"target": target.config.where, "databases": settings, "change": outcome, **more})
        return
    show_table(headings, list(rows))
    for _, _, show_part in parts:
        show_part()
    show(*(f"{database.suffix}: {note}" for database in settings for note in database.notes))
    if outcome is None:
        return
    from loader.operations.tune import EDIT, State

    words = {
        State.UNCHANGED: "unchanged: this is the present setting",
        State.PROPOSED: "nothing was changed; --apply makes this change",
        State.BY_HAND: f"nothing was changed. {EDIT}",
        State.CHANGED: "changed",
    }
    show("", *(outcome.difference.split("\n") if outcome.difference else ()), words[outcome.state])
    show(*(f"note: {note}" for note in outcome.notes))
    if outcome.undo:
        show(f"to restore the previous setting: {outcome.undo}")


@declare("maxsize", command)
def maxsize_command(
    size: Annotated[
        int | str | None,
        "--maxsize",
        Size(auto=True),
        "The new maxsize; `auto` computes it (the default with --apply).",
    ],
    source: Annotated[
        str | None,
        "--for SOURCE",
        "What will be loaded: LDIF, an export, a database directory or the URI of a server. Builds a sample of it in a "
        "temporary directory, and computes the size from that.",
    ],
    change: Change,
    growth: Annotated[
        float, Share(most=1000.0, zero=True), {"default": "50%"}, "With --for: expected growth after the load."
    ] = 0.5,
    progress_mode: ProgressMode = "auto",
) -> None:
    """Show how large each database is and may become; set maxsize.

    The recommended maxsize is three times the bytes in use, in whole GiB, and never less than the configured maxsize.
    With --for, it is the size after the load plus the room that slapd needs to work.

    \b
    Examples:
      ditseed tune maxsize --config /etc/ldap/slapd.conf
      ditseed tune maxsize --config /etc/ldap/slapd.d --for /srv/export --growth 20% --apply
      ditseed tune maxsize --config /etc/ldap/slapd.d --for ldap://provider -D cn=reader,dc=example,dc=com -y /root/pw
      ditseed tune maxsize -H ldapi:/// -Y EXTERNAL -b dc=example,dc=com --maxsize 250G --apply
    """
    from loader.operations.tune import maxsize
    from loader.sources import location

    if source is None:
        refuse_given(("growth",), "--for")
    provider = None
    if source is not None and location.locate(source, *location.Kind).kind is location.Kind.SERVER:
        if change.config_path is None:
            reason = f"--for {source} is for --config; -D, -y and -Y are then of an account at that server"
            raise UsageProblem(reason=reason)
        alone = keep_strongest(change, ("config_path", "uri"))
        provider = connection_of(dataclasses.replace(alone, uri=source))
        change = dataclasses.replace(alone, uri=None, bind_dn=None, mechanism=None)
    suffix, outcome = change.base, None
    parts: list[_Part] = []
    with change.target() as target:
        usage = maxsize.map_usages(target, suffix)
        if source is not None:
            database = target.config.database(suffix)
            load = maxsize.plan_load(
                target, database, maxsize.Load(source, growth, provider), progress_of(progress_mode)
            )
            parts.append(("load", load, partial(_show_load, load)))
            if size in (None, "auto"):
                size = load.recommended if change.is_requested or size else None
        if change.is_requested or size is not None:
            outcome = maxsize.change_maxsize(target, suffix, size, change.applies)
    headings = ("suffix", "maxsize", "map size", "used", "disk free", "recommended")
    sizes = [(each.suffix, (each.maxsize, each.map_size, each.used, each.free, each.recommended)) for each in usage]
    rows = [[name, *("-" if size is None else units.size(size) for size in row)] for name, row in sizes]
    _show_settings(target, usage, headings, rows, outcome, change.as_json, parts)


def _show_load(plan: LoadPlan) -> None:
    load = plan.load
    show("", f"sample: {units.number(load.sampled)} of {units.number(load.entries)} entries ({load.how})")
    if load.rejected:
        show(f"note: {units.number(load.rejected)} of the sample were rejected, and are not counted")
    show(*(f"note: {note}" for note in plan.notes))
    show_table(("table", "after the load"), [(table.name, units.size(table.bytes)) for table in load.tables])
    show(f"a build takes about {units.duration(load.seconds)} on this host", "")
    terms = [(term.what, units.size(term.bytes), term.why) for term in plan.terms]
    show_table(("maxsize for", "bytes", "because"), terms)
    show(
        f"now {units.size(plan.now)}, after the load {units.size(plan.after)}; "
        f"configured {units.size(plan.maxsize)}, recommended {units.size(plan.recommended)}"
    )


def _flags(text: str) -> str:
    """Returns the flags of --envflags in order, or NONE. Raises UsageProblem."""
    flags = {word for word in text.lower().replace(",", " ").split() if word != NONE}
    if not flags.issubset(FLAGS):
        raise UsageProblem(reason=f"--envflags {text}: the flags are {', '.join(FLAGS)}")
    return ",".join(sorted(flags)) or NONE


def _checkpoint(text: str) -> str:
    words = text.lower().split()
    if words != [NONE] and (len(words) != 2 or not all(map(str.isdecimal, words))):
        raise UsageProblem(reason=f"--checkpoint {text} is neither 'KBYTES MINUTES' nor none")
    return " ".join(words)


@declare("sync", command)
def sync_command(
    nosync: Annotated[
        str | None, Choice([ON, OFF]), "on: slapd no longer syncs commits to disk; off: it does so again."
    ],
    envflags: Annotated[
        str | None, f"Flags of the environment, with commas between them, or none: {', '.join(FLAGS)}."
    ],
    checkpoint: Annotated[str | None, "'KBYTES MINUTES', or none: when slapd syncs commits despite nosync."],
    lease: Annotated[
        float | None,
        Duration(),
        "Over LDAP: time after which the change is undone (90m, 4h); the next boot undoes it at the latest.",
    ],
    why: Annotated[str | None, "--why TEXT", "With --lease: its purpose, which is shown with the lease."],
    give_back: Annotated[
        bool, "Restore the settings that killed runs or expired leases have left changed on this host's servers."
    ],
    change: Change,
) -> int:
    """Show whether commits are synced to disk (nosync, envflags, checkpoint); change one of the three.

    nosync makes a load faster, but while it is on, a crash of the host can lose or damage the database.

    \b
    Examples:
      ditseed tune sync --config /etc/ldap/slapd.d
      ditseed tune sync -H ldapi:/// -Y EXTERNAL --nosync off --apply
      ditseed tune sync -H ldapi:/// -Y EXTERNAL --nosync on --lease 4h --why "load of March" --apply
      ditseed tune sync -H ldapi:/// -Y EXTERNAL --checkpoint "1024 5" --apply
      ditseed tune sync --give-back
    """
    if give_back:
        results = ending.restore_local_leases()
        show(*results or ["servers of this host have no expired or abandoned lease of nosync, envflags or checkpoint"])
        return EXIT_OK if all(result.endswith("restored") for result in results) else EXIT_DIFFERENT
    from loader.operations.add import lending
    from loader.operations.tune import State, syncing

    values = {
        syncing.NOSYNC: nosync,
        syncing.ENV_FLAGS: None if envflags is None else _flags(envflags),
        syncing.CHECKPOINT: None if checkpoint is None else _checkpoint(checkpoint),
    }
    changes = [(kind, value) for kind, value in values.items() if value is not None]
    if len(changes) > 1:
        raise UsageProblem(reason="give only one of --nosync, --envflags and --checkpoint")
    if change.is_requested and not changes:
        raise UsageProblem(reason="say what to change: --nosync, --envflags, or --checkpoint")
    if why is not None and lease is None:
        raise UsageProblem(reason="--why is for --lease")
    is_lendable = changes and changes[0] != (syncing.NOSYNC, OFF) and change.config_path is None
    if lease is not None and not is_lendable:
        raise UsageProblem(reason="--lease needs a setting of a running server (-H), and is refused with --nosync off")

    lender = connection_of(change) if change.applies and lease is not None else None
    outcome = None
    with change.target() as target:
        settings = syncing.syncing(target, change.base)
        # If there is a lease, only `lending.lend` below makes the change, after it has recorded the lease.
        for kind, value in changes:
            outcome = syncing.change(target, change.base, kind, value, change.applies and lender is None)
    if outcome and lender is not None and lease is not None:
        lending.lend(lender, *changes[0], lease, why or "")
        outcome = replace(outcome, state=State.CHANGED, undo="")
    rows = [
        (each.suffix, "on" if each.nosync else "off", " ".join(each.env_flags) or "none", each.checkpoint or "none")
        for each in settings
    ]
    headings = ("suffix", "nosync", "envflags", "checkpoint")
    _show_settings(target, settings, headings, rows, outcome, change.as_json)
    return EXIT_OK


_SHOWN = 20  # maximum rows of a table that are printed


@declare("indexes", command)
def indexes_command(
    requested: IndexChange,
    no_reindex: Annotated[bool, "Offline: only change the configuration, and print the slapindex command to run."],
    searches: SearchSources,
    with_costs: Annotated[
        bool,
        "--costs",
        "Show the cost of each index: bytes, keys, and keys whose entry IDs have become ranges; with --stats-log or "
        "--filters, unused indexes come first.",
    ],
    change: Change,
    progress_mode: ProgressMode = "auto",
) -> None:
    """Show which attributes are indexed and which indexes replication lacks; change the list.

    Over LDAP, slapd builds new indexes itself, in the background. Offline, ditseed builds them before the
    configuration changes, so that slapd never relies on an incomplete index.

    \b
    Examples:
      ditseed tune indexes -H ldapi:/// -Y EXTERNAL
      ditseed tune indexes --config /etc/ldap/slapd.d --costs --stats-log /var/log/slapd.log
      ditseed tune indexes --config /etc/ldap/slapd.d --add "entryUUID,entryCSN eq" --apply
    """
    from loader.operations.tune import indexing

    is_changed = requested != IndexChange()
    if change.is_requested and not is_changed:
        raise UsageProblem(reason="say what to change: --set, --add or --remove")
    suffix, outcome, progress = change.base, None, progress_of(progress_mode)
    parts: list[_Part] = []
    with change.target() as target:
        settings = indexing.index_settings(target, suffix)
        if searches or with_costs:
            database, where = target.config.database(suffix), target.arguments
            use = indexing.usage(target, database, searches, progress) if searches else None
            if with_costs:
                costs = indexing.costs(target, database, use, progress)
                parts.append(("costs", costs, partial(_show_costs, costs, where)))
            if use is not None:
                parts.append(("use", use, partial(_show_usage, use, where)))
        if is_changed:
            outcome = indexing.change_indexes(*(target, suffix, requested, change.applies, not no_reindex, progress))
    rows = []
    for each in settings:
        counts = {name.lower(): units.number(count) for name, count in each.keys.items()}
        for key, index in each.indexes.items():
            rows.append((each.suffix, index.attribute, ",".join(index.kinds), counts.get(key.partition(";")[0], "-")))
    headings = ("suffix", "attribute", "index", "records")
    _show_settings(target, settings, headings, rows, outcome, change.as_json, parts)


def _change_command(suffix: str, where: Sequence[str], option: str, names: Sequence[str]) -> str:
    words = [word for name in names for word in (option, name)]
    return shlex.join(["ditseed", "tune", "indexes", *where, "-b", suffix, *words, "--apply"])


def _show_costs(costs: Costs, where: Sequence[str]) -> None:
    total = units.size(sum(table.bytes for table in costs.tables))
    show("", f"the indexes of {costs.suffix} take {total} of {units.size(costs.used)} in use")
    rows = []
    for table in costs.tables:
        name, remark = ", ".join(table.indexes), f"not used: {', '.join(table.unused)}" if table.unused else ""
        remark = "not configured" if not name else "not used" if table.is_unused else remark
        counts = map(units.number, (table.keys, table.records, table.ranges))
        rows.append((name or table.attribute, units.size(table.bytes), f"{table.share:.1%}", *counts, remark))
    show_table(("index", "takes", "of the file", "keys", "records", "ranges", ""), rows)
    if ranges := sum(table.ranges for table in costs.tables):
        most = units.number((1 << costs.idlexp) - 1)
        show(
            f"note: {units.number(ranges)} keys had more than {most} entries (idlexp {costs.idlexp}) and are ranges: a "
            "search by such a key evaluates every entry from its first to its last"
        )
    if any(not table.indexes for table in costs.tables):
        show("note: the table of an index that is no longer configured stays until the database is rebuilt")
    if unused := [name for table in costs.tables for name in table.unused or ()]:
        show(f"to remove the unused indexes: {_change_command(costs.suffix, where, '--remove', unused)}")


def _show_usage(use: Usage, where: Sequence[str]) -> None:
    summary = f"{units.number(use.searches)} searches below {use.suffix}"
    if use.of_base:
        summary += f", and {units.number(use.of_base)} of a single entry by its DN, which need no index"
    show("", summary)
    if use.searches:
        rows = [
            (
                *(index.attribute, index.kind, units.number(index.searches)),
                "replication needs it" if index.needed_for_sync else "" if index.searches else "not used",
            )
            for index in use.indexes
        ]
        show_table(("index", "kind", "used by", ""), rows)
        unindexed = f"{units.number(use.unindexed)} searches evaluate every entry in their scope"
        show("", unindexed if use.unindexed else "every search is served by indexes")
    if use.missing:
        shown = use.missing[:_SHOWN]
        rows = [
            (row.index, units.number(row.searches), units.duration(row.seconds) if row.seconds else "-", row.filter)
            for row in shown
        ]
        show_table(("missing index", "searches", "which took", "such as"), rows)
        if len(use.missing) > _SHOWN:
            show(f"and {units.number(len(use.missing) - _SHOWN)} more (--json has all)")
        show(f"to add these: {_change_command(use.suffix, where, '--add', [row.index for row in shown])}")
    show(*(f"note: {note}" for note in use.notes))
