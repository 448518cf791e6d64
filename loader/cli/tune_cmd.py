"""`ditseed tune`: settings of a server's databases, shown and changed."""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass, replace
from typing import Annotated

import click
from click import Choice

from loader import units
from loader.cli import leases
from loader.cli.access import connection_of
from loader.cli.options import Json, ProgressMode, keep_strongest, progress_of, refuse_given
from loader.cli.report import show, show_json, show_table
from loader.cli.tune_indexes_cmd import indexes_command
from loader.cli.tune_shown import Change, Further, show_settings, target_of
from loader.declared import Duration, Share, Size, Written
from loader.declared import command as declare
from loader.errors import EXIT_DIFFERENT, EXIT_OK, UsageProblem
from loader.operations.add import lending
from loader.operations.tune import maxsize, syncing
from loader.operations.tune.maxsize import Load, LoadPlan
from loader.operations.tune.target import Outcome, State
from loader.run import lease
from loader.server.options import Connection
from loader.sources import location
from loader.sources.sampling import SampleSize


@click.group("tune")
def command() -> None:
    """Show and change settings of a server's databases.

    Name the server either by --config (slapd.conf, or the slapd.d of a stopped slapd) or by -H and the other
    connection options (cn=config over LDAP). Nothing changes without --apply. The previous values are recorded:
    see `ditseed tune history`.

    \b
    Examples:
      ditseed tune maxsize -H ldapi:/// -Y EXTERNAL
      ditseed tune indexes --config /etc/ldap/slapd.d --add "uid eq" --apply
      ditseed tune sync -H ldapi:/// -Y EXTERNAL --nosync off --apply
    """


@declare("history")
def history_command(as_json: Json) -> None:
    """List what `tune` (and `build --maxsize`) changed, with the command that puts the old value back.

    \b
    Example:
      ditseed tune history
    """
    found = lease.changes()
    if as_json:
        show_json({"changes": [dataclasses.asdict(one) for one in found]})
        return
    for one in found:
        show(f"{one.time}  {one.by}  {one.target}  {one.database}  ({one.outcome.value})")
        before, after = ("; ".join(values) or "(not set)" for values in (one.before, one.after))
        show(f"  {one.attribute}: {before} -> {after}")
        if one.undo and one.outcome is not lease.Outcome.FAILED:
            show(f"  put back: {one.undo}")
    if not found:
        show("no changes are recorded")


_ANY = 1 << 62  # records: who asks for a share gets it


class Sampled(Written):
    """20000 or 5%."""

    name, kind = "sample", SampleSize

    def parse(self, text: str) -> SampleSize:
        if text.isdigit() and int(text):
            return SampleSize(int(text), 0.0, most=int(text))
        if not text.endswith("%"):
            raise UsageProblem(reason=f"{text} is no sample: write 20000 or 5%")
        return SampleSize(1, Share().parse(text), most=_ANY)


@declare("maxsize")
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
        "LDIF, an export, a database directory or the URI of a server that is to be loaded: builds a sample of it in a "
        "temporary directory, and computes the size from that.",
    ],
    sample_size: Annotated[
        SampleSize | None,
        "--sample-size N|SHARE",
        Sampled(),
        "With --for: entries of the sample, 20000 or 5% (default: 1%, and at least 10,000).",
    ],
    change: Change,
    growth: Annotated[
        float, Share(most=1000.0, zero=True), {"default": "50%"}, "With --for: growth to be expected after the load."
    ] = 0.5,
    progress_mode: ProgressMode = "auto",
) -> None:
    """Show how large each database is and may become; set maxsize.

    The recommendation is three times the bytes in use, in whole GiB, and never less than what is configured. With --for
    it is the sum of what the load takes and the room that slapd needs beside it.

    \b
    Examples:
      ditseed tune maxsize --config /etc/ldap/slapd.conf
      ditseed tune maxsize --config /etc/ldap/slapd.d --for /srv/export --growth 20% --apply
      ditseed tune maxsize --config /etc/ldap/slapd.d --for ldap://provider -D cn=reader,dc=example,dc=com -y /root/pw
      ditseed tune maxsize -H ldapi:/// -Y EXTERNAL -b dc=example,dc=com --maxsize 250G --apply
    """
    if source is None:
        refuse_given(("growth", "sample_size"), "--for")
    provider = None if source is None else _provider(source, change)
    if provider is not None:  # whose account it is
        change = replace(keep_strongest(change, ("config_path", "uri")), uri=None, bind_dn=None, mechanism=None)
    suffix = change.base
    with target_of(change) as target:
        found = maxsize.standings(target, suffix)
        load = None
        if source is not None:
            database = target.config.database(suffix)
            progress = progress_of(progress_mode)
            planned = Load(source, sample_size or SampleSize(), growth, provider)
            load = maxsize.plan_load(target, database, planned, progress)
            if size in (None, "auto"):
                size = load.recommended if change.is_wanted or size else None
        outcome = (
            maxsize.change_maxsize(target, suffix, size, change.applies)
            if change.is_wanted or size is not None
            else None
        )
    more = [] if load is None else [Further("load", load, lambda: _show_load(load))]
    show_settings(target, found, outcome, change.as_json, _MAXSIZE, map(_maxsize_row, found), more)


def _provider(source: str, change: Change) -> Connection | None:
    """Of a server that is to be loaded; the account is one of that server."""
    if location.locate(source, *location.Kind).kind is not location.Kind.SERVER:
        return None
    if change.config_path is None:
        raise UsageProblem(
            reason=f"--for {source} is for --config; -D, -y and -Y are then of an account at that server"
        )
    return connection_of(replace(keep_strongest(change, ("config_path", "uri")), uri=source))


_MAXSIZE = ("suffix", "maxsize", "map size", "used", "file", "on disk", "disk free", "recommended")


def _maxsize_row(one: maxsize.MapUsage) -> list[str]:
    sizes = (one.maxsize, one.map_size, one.used, one.apparent, one.allocated, one.free, one.recommended)
    return [one.suffix, *("-" if count is None else units.size(count) for count in sizes)]


def _show_load(plan: LoadPlan) -> None:
    load = plan.load
    show("", f"sample: {units.number(load.sampled)} of {units.number(load.entries)} entries ({load.how})")
    if load.rejected:
        show(f"note: {units.number(load.rejected)} of the sample were rejected, and are not counted")
    for note in plan.notes:
        show(f"note: {note}")
    rows = [(one.name, units.size(one.sample), units.size(one.bytes), one.how) for one in load.tables]
    show_table(("table", "in the sample", "after the load", "computed"), rows)
    show(f"a build takes about {units.duration(load.seconds)} on this host", "")
    show_table(("maxsize for", "bytes", "because"), [(one.what, units.size(one.bytes), one.why) for one in plan.terms])
    show(
        f"now {units.size(plan.now)}, after the load {units.size(plan.after)}, in all {units.size(plan.needed)}; "
        f"configured {units.size(plan.maxsize)}, recommended {units.size(plan.recommended)}"
    )


class EnvFlags(Written):
    """Flags of an LMDB environment, with commas between them; none. In the order of their names."""

    name, kind = "flags", tuple

    def parse(self, text: str) -> tuple[str, ...]:
        flags = {word for word in text.lower().replace(",", " ").split() if word != "none"}
        if not flags.issubset(syncing.FLAGS):
            raise UsageProblem(reason=f"{text} has other flags than {', '.join(syncing.FLAGS)}")
        return tuple(sorted(flags))


class Checkpoint(Written):
    """KBYTES MINUTES (slapd-mdb(5)); none."""

    name, kind = "checkpoint", tuple

    def parse(self, text: str) -> tuple[str, ...]:
        words = [] if text.lower() == "none" else text.split()
        if len(words) not in (0, 2) or not all(map(str.isdecimal, words)) or not text.strip():
            raise UsageProblem(reason=f"{text} is not 'KBYTES MINUTES', nor none")
        return tuple(words)


@dataclass(frozen=True, kw_only=True)
class _Syncing:
    nosync: Annotated[
        str | None,
        Choice([syncing.ON, syncing.OFF]),
        "on: slapd no longer syncs commits to disk; off: it does so again.",
    ] = None
    envflags: Annotated[
        tuple[str, ...] | None,
        EnvFlags(),
        f"Flags of the environment, with commas between them, or none: {', '.join(syncing.FLAGS)}.",
    ] = None
    checkpoint: Annotated[
        tuple[str, ...] | None, Checkpoint(), "'KBYTES MINUTES', or none: how often slapd syncs what nosync has left."
    ] = None
    lease: Annotated[
        float | None,
        Duration(),
        "Over LDAP: the change is for so long only (90m, 4h), and until the next boot at most.",
    ] = None
    why: Annotated[str | None, "--why TEXT", "With --lease: what it is for. It is shown beside it."] = None
    give_back: Annotated[
        bool, "Put back what killed runs, and leases that have ended, left changed at the servers of this host."
    ] = False

    def wanted(self, is_wanted: bool) -> tuple[str, str] | None:
        """The setting to change, and its new value."""
        values = {kind: _said(kind, getattr(self, kind)) for kind in syncing.SETTINGS}
        wanted = [(kind, value) for kind, value in values.items() if value is not None]
        if len(wanted) > 1:
            raise UsageProblem(reason="one of --nosync, --envflags and --checkpoint at a time")
        if is_wanted and not wanted:
            raise UsageProblem(reason="say what to change: --nosync, --envflags, or --checkpoint")
        return wanted[0] if wanted else None

    def require_lendable(self, wanted: tuple[str, str] | None, is_offline: bool) -> None:
        if self.why is not None and self.lease is None:
            raise UsageProblem(reason="--why is for --lease")
        if self.lease is not None and (wanted in (None, (syncing.NOSYNC, syncing.OFF)) or is_offline):
            raise UsageProblem(reason="--lease is for a setting of a running server (-H), and for --nosync on")


@declare("sync")
def sync_command(options: _Syncing, change: Change) -> int:
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
    if options.give_back:
        return _give_back()
    wanted = options.wanted(change.is_wanted)
    options.require_lendable(wanted, change.config_path is not None)
    lent_by = connection_of(change) if change.applies and options.lease is not None else None
    with target_of(change) as target:
        found = syncing.syncing(target, change.base)
        # A lease is written down before the setting is changed.
        applies = change.applies and lent_by is None
        outcome = wanted and syncing.change(target, change.base, *wanted, applies)
    if outcome and wanted and lent_by is not None and options.lease is not None:
        lending.lend(lent_by, *wanted, options.lease, options.why or "")
        outcome = Outcome(State.CHANGED, outcome.difference, outcome.notes)
    headings = ("suffix", "nosync", "envflags", "checkpoint")
    show_settings(target, found, outcome, change.as_json, headings, map(_sync_row, found))
    return EXIT_OK


def _said(kind: str, value: str | tuple[str, ...] | None) -> str | None:
    """As the configuration has it; `none` of flags, or of a checkpoint."""
    if not isinstance(value, tuple):
        return value
    return ("," if kind == syncing.ENV_FLAGS else " ").join(value) or syncing.NONE


def _give_back() -> int:
    """1 where something is still left."""
    told = leases.give_back_local()
    none = "no lease of nosync, envflags or checkpoint that has ended is left at servers of this host"
    show(*(told or [none]))
    return EXIT_OK if all(one.endswith("put back") for one in told) else EXIT_DIFFERENT


def _sync_row(one: syncing.SyncSettings) -> tuple[str, str, str, str]:
    flags, nosync = " ".join(one.env_flags) or "none", "on" if one.nosync else "off"
    return one.suffix, nosync, flags, one.checkpoint or "none"


for one in (history_command, indexes_command, maxsize_command, sync_command):
    command.add_command(one)
