"""The rules of `doctor`. Each is a function that judges what looking.py has read, and has a row in docs/doctor.md.

Rules for causes precede rules for their effects: findings of one severity are printed in the order of the rules.
"""

from __future__ import annotations

import os
import pwd
import re
import shlex
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from msgspec.structs import replace

from loader import child, csn, units
from loader.config import DEFAULT_MAXSIZE
from loader.errors import ToolFailed, UsageProblem
from loader.mdb import meta, verify
from loader.mdb.readers import Room
from loader.operations.backup import check as backup_check
from loader.operations.doctor.looking import Database, Server
from loader.operations.monitoring import Status
from loader.operations.publish import REPLACED
from loader.operations.storage import check as storage_check
from loader.operations.storage.findings import Finding, Severity
from loader.progress import Meter
from loader.server import tools
from loader.storage import files

Findings = Iterator[Finding]
RULES: list[Callable[[Server], Findings]] = []
CRITICAL, WARNING, NOTE, OK = Severity.CRITICAL, Severity.WARNING, Severity.NOTE, Severity.OK

AVAILABLE_WARNING, AVAILABLE_CRITICAL = 0.20, 0.10  # share of maxsize that is available
BEHIND_WARNING, BEHIND_CRITICAL = 300.0, 3600.0  # seconds that a consumer is behind, by contextCSN
BACKUP_AGE = 26 * 3600.0  # seconds since the last backup, from which `backup` warns
_SHOWN = 5  # names listed in one finding
_DAY = 86_400.0
_MDB_5 = "slapd-mdb(5)"
_CONFIG_5 = "slapd-config(5)"
_VERIFY = "ditseed verify --verify indexes looks at every entry"
_LOG = "journalctl -u slapd -n 50"


def rule(name: str, source: str = "") -> Callable[[Callable[[Server], Findings]], None]:
    """Returns a decorator that registers a rule. A finding without a subject gets the path of the configuration."""

    def register(judge: Callable[[Server], Findings]) -> None:
        def judged(server: Server) -> Findings:
            for one in judge(server):
                yield replace(
                    one, rule=one.rule or name, subject=one.subject or server.path, source=one.source or source
                )

        RULES.append(judged)

    return register


def database_rule(name: str, source: str = "") -> Callable[[Callable[[Database], Findings]], None]:
    """Returns a decorator that registers a rule, which is called once for each database."""

    def register(judge: Callable[[Database], Findings]) -> None:
        @rule(name, source)
        def _of_each(server: Server) -> Findings:
            for database in server.databases:
                for one in judge(database):
                    yield replace(one, subject=database.suffix)

    return register


def finding(severity: Severity, what: str, why: str = "", *mend: str, subject: str = "") -> Finding:
    """Returns a finding whose rule name `rule` fills in. `mend`: commands. For OK, `why` and `mend` are dropped."""
    return Finding(severity, "", subject, what) if severity is OK else Finding(severity, "", subject, what, why, mend)


def graded(is_critical: bool, is_warning: bool = True) -> Severity:
    if is_critical:
        return CRITICAL
    return WARNING if is_warning else OK


def listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


# --- slapd and its files ------------------------------------------------------------------------


@database_rule("data", "docs/backup.md")
def _data(database: Database) -> Findings:
    if database.damage:
        server, directory = database.server, quote(database.directory)
        words = ("-R", str(server.request.repo or "REPO"), "--config", server.path, "-b", database.suffix, "--replace")
        yield finding(
            CRITICAL,
            database.damage,
            "slapd does not start on such a file, starts with an empty database, or answers with errors. If the volume "
            "of the database is not mounted, mount it; otherwise restore the file.",
            f"findmnt -T {directory}; ls -l {directory}",
            "systemctl stop slapd",
            shlex.join(["ditseed", "backup", "restore", "latest", *words]),
            "systemctl start slapd",
        )


class Barred(NamedTuple):
    """A file that slapd's account cannot use. `subject`: a suffix, "configuration" or "TLS". `verb`: "read" or "write".
    `is_own`: whether the account owns the file."""

    subject: str
    verb: str
    path: str
    is_own: bool


@rule("access", "slapd(8), -u")
def _access(server: Server) -> Findings:
    account, barred = server.look("whether slapd may reach its files", lambda: _barred(server)) or ("", [])
    for subject in dict.fromkeys(one.subject for one in barred):
        for verb in ("read", "write"):
            chosen = [one for one in barred if (one.subject, one.verb) == (subject, verb)]
            if chosen:
                is_mild = subject == "configuration" and verb == "write"
                yield finding(
                    WARNING if is_mild else CRITICAL,
                    f"slapd's account {account} cannot {verb} {listed([one.path for one in chosen])}",
                    "Its changes of cn=config fail."
                    if is_mild
                    else "slapd does not start again. A tool that root ran without `runuser -u` leaves such files.",
                    *_grants(account, chosen),
                    subject=subject,
                )


def _grants(account: str, barred: Sequence[Barred]) -> Iterator[str]:
    if barred[0].subject == "TLS":
        yield from (f"setfacl -m u:{account}:r {quote(one.path)}" for one in barred)
        return
    foreign = [one.path for one in barred if not one.is_own]
    own = [one.path for one in barred if one.is_own]
    if foreign:
        yield shlex.join(["chown", "-h", f"{account}:", "--", *foreign])
    if own:
        yield shlex.join(["chmod", "u+rwX", "--", *own])


def _barred(server: Server) -> tuple[str, list[Barred]]:
    """Returns the name of slapd's account ("" for root), and the files that it needs but cannot read or write."""
    config = server.config
    by_suffix = {
        one.suffix: [directory, directory / meta.DATA, directory / "lock.mdb"]
        for one in server.databases
        if (directory := one.configured.directory) is not None
    }
    account = _account(server, [path for paths in by_suffix.values() for path in paths])
    if account is None:
        return "", []
    if os.geteuid() not in (0, account.pw_uid):
        raise UsageProblem(reason=f"only root, or {account.pw_name} itself, can tell")
    itself = ("-maxdepth", "0")
    barred: list[Barred] = []
    for suffix, paths in by_suffix.items():
        if paths[0].is_dir():
            barred += _barred_of(account, suffix, paths, *itself)
    own = list(_barred_of(account, "configuration", [config.path]))
    # slapd never writes to slapd.conf, to TLS files, or to a slapd.d whose top directory is read-only.
    is_closed = any((one.path, one.verb) == (server.path, "write") for one in own)
    if is_closed or not config.is_directory:
        own = [one for one in own if one.verb == "read"]
    tls = _barred_of(account, "TLS", _tls_files(server, "Certificate", "CertificateKey", "CACertificate"), *itself)
    return account.pw_name, [*barred, *own, *(one for one in tls if one.verb == "read")]


def _account(server: Server, of_databases: Sequence[Path]) -> pwd.struct_passwd | None:
    """Returns the account of the running slapd, else the non-root owner of most of its files; None for root."""
    config = server.config
    pid = tools.slapd_on(config)
    uid = None if pid is None else tools.account_of(pid)
    if uid is None:
        own = [config.path, config.path / "cn=config.ldif", *of_databases]
        owners = Counter(path.stat().st_uid for path in own if path.exists())
        uid = max(owners, key=lambda one: (one != 0, owners[one]), default=0)
    try:
        return pwd.getpwuid(uid) if uid else None
    except KeyError:
        raise UsageProblem(reason=f"user ID {uid}, as which slapd runs, has no name here") from None


def _barred_of(account: pwd.struct_passwd, subject: str, paths: Sequence[Path], *options: str) -> Iterator[Barred]:
    """Runs find(1) as the account, which tests files by access(2): that call respects ACLs and read-only mounts."""
    present = [path for path in paths if path.exists()]
    if not present:
        return
    # find prints a letter before each path: r: unreadable, w: not writable, x: a directory that cannot be entered.
    tests = "! -readable -printf r%p\\0 -o ! -writable -printf w%p\\0 -o -type d ! -executable -printf x%p\\0"
    command = ["find", "-H", *map(str, present), *options, *tests.split(" ")]
    if os.geteuid() != account.pw_uid:
        ids = (f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups")
        command = ["setpriv", *ids, "--pdeathsig=KILL", "--", *command]
    answer = child.ask(command)
    lines = [os.fsdecode(line) for line in answer.out.split(b"\0") if line]
    if answer.status != 0:
        # Status 1 is of find, which names a file below a directory that the account cannot enter, or of setpriv itself.
        out = [f"r{path}" for path in present if any(f"{path}" in word for word in answer.words)]
        if answer.status != 1 or not (lines or out):
            reason = "; ".join(answer.words[-2:])
            raise ToolFailed(tool="find", status=answer.status, reason=reason)
        lines = lines or out
    for line in lines:
        path, verb = line[1:], "write" if line[0] == "w" else "read"
        yield Barred(subject, verb, path, Path(path).lstat().st_uid == account.pw_uid)


@rule("slapd", "slapd(8)")
def _slapd(server: Server) -> Findings:
    slapd = server.slapd
    if slapd is None:
        return
    if slapd.pid is None:
        died = f"; its pid file {slapd.pid_file} is still there: it did not stop, it died"
        yield finding(
            graded(server.request.quick or bool(slapd.pid_file)),
            "slapd is not running" + (died if slapd.pid_file else ""),
            "No process of this host was started on this configuration.",
            f"systemctl status slapd; {_LOG}",
            "systemctl start slapd",
        )
    elif slapd.silence:
        yield finding(
            CRITICAL,
            f"slapd (process {slapd.pid}) does not answer: {slapd.silence}",
            "It was asked for the root DSE at the URIs of its option -h.",
            _LOG,
            f"# what it waits for: gdb -p {slapd.pid} -batch -ex bt",
        )
    else:
        yield finding(OK, f"slapd (process {slapd.pid}) runs and answers")


@rule("slapd.database", "slapd's log tells LMDB's error")
def _slapd_database(server: Server) -> Findings:
    for suffix, words in server.slapd.failed if server.slapd else ():
        yield finding(
            CRITICAL,
            f"slapd cannot read the database: {words}",
            "slapd answers, but a search for the entry of the suffix fails.",
            _LOG,
            subject=suffix,
        )


# --- the map and its readers --------------------------------------------------------------------


@database_rule("maxsize", f"{_MDB_5}, maxsize; lmdb.h, MDB_MAP_FULL")
def _room(database: Database) -> Findings:
    room, maxsize = database.room, database.configured.maxsize
    if room is None:
        return
    share = room.available / room.maxsize if room.maxsize else 0.0
    # The file grows with every transaction only while a reader lags.
    seconds = room.available / room.growth if room.growth else float("inf")
    severity = graded(
        share < AVAILABLE_CRITICAL or seconds < 300.0,
        share < AVAILABLE_WARNING or seconds < 900.0 or maxsize < room.used,
    )
    what = (
        f"{units.size(room.available)} of maxsize {units.size(room.maxsize)} are available ({100 * share:.0f} %): "
        f"{units.size(room.unused)} unused, {units.size(room.reusable)} free to be used again"
    )
    if room.held:
        what += f"; {units.size(room.held)} more once the oldest reader ends"
    if room.disk_free < room.maxsize - room.used:
        what += f"; the disk has room for {units.size(room.disk_free)} only"
    if seconds < float("inf"):
        what += f"; full in about {units.duration(seconds)} at the present rate of writes"
    if maxsize < room.used:
        what += f"; {units.size(maxsize)} are configured, less than what is used, which LMDB maps in any case"
    yield finding(
        severity,
        what,
        "slapd refuses every write (MDB_MAP_FULL) once there are neither unused pages nor free ones that it may use "
        "again. Pages that were freed since the oldest reader began are not among those.",
        *_more_room(database, room),
    )


def _more_room(database: Database, room: Room) -> Iterator[str]:
    if room.held:
        yield "# end the oldest reader (below): it gives back the pages that it keeps"
    if room.disk_free < room.maxsize - room.used:
        yield f"df -h {quote(database.directory)}  # make room there"
        return
    wanted = "auto" if room.maxsize < room.used * 3 else f"{2 * room.maxsize >> 20}M"
    yield database.tune("maxsize", "--maxsize", wanted)


@database_rule("readers.full", "lmdb.h, MDB_READERS_FULL")
def _reader_slots(database: Database) -> Findings:
    slots, used = database.slots
    if used >= 0.90 * slots > 0:
        yield finding(
            graded(used >= slots),
            f"{used} of {slots} reader slots are taken by processes that run",
            "Without a free slot slapd answers searches with an error (MDB_READERS_FULL), and no tool can read the "
            "database. maxreaders of the database sets their number when slapd starts, and nobody else has it open.",
            f"fuser -v {quote(f'{database.directory}/lock.mdb')}  # who reads? end those that are not wanted",
            "# or set a greater olcDbMaxReaders (maxreaders), then: systemctl restart slapd",
        )


@database_rule("readers.dead", "lmdb.h, mdb_reader_check")
def _dead_readers(database: Database) -> Findings:
    dead = [reader for reader in database.readers if not reader.is_alive]
    if dead:
        lag = max(reader.lag for reader in dead)
        pids = ", ".join(dict.fromkeys(str(reader.pid) for reader in dead))
        yield finding(
            # A slot that does not lag keeps no page from reuse, and any process that is killed may leave such a slot.
            WARNING if lag else NOTE,
            f"reader slots of processes that are gone ({pids}), the oldest {units.number(lag)} transactions behind",
            "A process that was killed while it read (slapcat, a backup) keeps its slot, and with it every page that "
            "was freed since, until somebody has LMDB look for it. slapd itself only does that when no slot is free.",
            shlex.join(["ditseed", "doctor", "--config", database.server.path, "--fix"]),
        )


@database_rule("readers.oldest", "lmdb.h, mdb_reader_check")
def _oldest_reader(database: Database) -> Findings:
    room, alive = database.room, [reader for reader in database.readers if reader.is_alive]
    if not alive:
        return
    oldest = max(alive, key=lambda reader: reader.lag)
    is_much = room is not None and room.held >= 0.10 * room.maxsize
    kept = f", keeps {units.size(room.held)} from being used again" if room and room.held else ""
    end = (f"ps -fp {oldest.pid}  # is it still wanted?", f"kill {oldest.pid} || kill -9 {oldest.pid}")
    if oldest.process == "slapd":
        end = (
            "# a long search of slapd itself; find its connection, and end that client:",
            "ldapsearch -Q -LLL -Y EXTERNAL -H ldapi:/// -b cn=Connections,cn=Monitor monitorConnectionOpsExecuting",
        )
    yield finding(
        WARNING if is_much else OK,
        f"the oldest reader, {oldest.process or 'a process'} (process {oldest.pid}), is "
        f"{units.number(oldest.lag)} transactions behind{kept}",
        "LMDB uses no page again that was freed after the oldest reader began, so the file grows by every write "
        "meanwhile.",
        *end,
    )


# --- what a crash would lose --------------------------------------------------------------------


@rule("lease", "docs/add.md")
def _leases(server: Server) -> Findings:
    for lease in server.leases:
        yield finding(
            # A larger session log is meant to stay after the run: `replica release` shrinks it.
            NOTE if lease.kind == "sessionlog" else WARNING,
            f"{lease.kind} at {lease.target} is as a run of {lease.taken} has set it, which did not put it back",
            "The run was killed, or could not reach the server at its end.",
            lease.undo,
            subject=lease.database,
        )


@database_rule("sync", f"{_MDB_5}, dbnosync and envflags")
def _sync(database: Database) -> Findings:
    configured = database.configured
    flags = {flag.lower() for flag in configured.env_flags}
    if configured.nosync:
        minutes = (configured.checkpoint or "").split()[1:]
        is_flushed = len(minutes) == 1 and minutes[0].isdigit() and int(minutes[0]) > 0
        left = [(lease.kind, lease.database) for lease in database.server.leases]
        holder = database.nosync_holder
        setter = "left by a run" if ("nosync", database.suffix) in left else "and no run of ditseed has set it"
        yield finding(
            graded("writemap" in flags or not is_flushed),
            f"nosync{', writemap' if 'writemap' in flags else ''}, "
            f"{f'checkpoint {configured.checkpoint}' if is_flushed else 'no checkpoint'}, "
            f"{f'lent for {holder}' if holder else setter}",
            "A crash of the host can lose what was written last, or damage the whole database. nosync is for a load "
            "that can be done again. Of the checkpoint only the minutes count.",
            database.tune("sync", "--nosync", "off"),
        )
    elif "mapasync" in flags:
        yield finding(
            WARNING,
            "envflags mapasync: commits are flushed when the system likes",
            "A crash of the host can lose what was written last, or damage the database.",
            "# remove mapasync from olcDbEnvFlags of the database, and restart slapd",
        )
    elif "writemap" not in flags:
        yield finding(OK, "commits are synced to the disk")


@database_rule("writemap", f"{_MDB_5}, dbnosync and envflags")
def _writemap(database: Database) -> Findings:
    if "writemap" in map(str.lower, database.configured.env_flags):
        yield finding(
            NOTE,
            "envflags writemap: slapd writes into its memory map",
            "A stray write of slapd or a module damages the file, and a full disk ends slapd with SIGBUS instead of an "
            "error.",
            "# remove writemap from olcDbEnvFlags of the database, and restart slapd",
        )


# --- slapd's release ----------------------------------------------------------------------------


@rule("release.scattered_values", "OpenLDAP, servers/slapd/entry.c; seen with 2.6.14")
def _scattered_values(server: Server) -> Findings:
    if server.release and (2, 6, 11) <= server.release <= (2, 6, 14):
        yield finding(
            NOTE,
            "its slapadd -q damages entries whose values of one attribute do not stand together in the LDIF",
            "An attribute A, then B, then A again: the values of B are added to A, and B is gone. OpenLDAP 2.6.11 to "
            "2.6.14 do this. `ditseed build` does not, and writes the same database.",
            "# instead of slapadd -q:",
            f"ditseed build FILE.ldif --config {server.path}",
            subject="slapd {}.{}.{}".format(*server.release),
        )


@rule("release.continue", "seen with 2.5.13 and 2.6.14")
def _continue(server: Server) -> Findings:
    if server.release and (2, 5, 0) <= server.release < (2, 7, 0):
        yield finding(
            NOTE,
            "its slapadd -q -c loses good entries beside each bad one",
            "With -q an error (a DN that is there already) gives up the whole batch of up to 500 entries, and -c "
            "goes on after it. Without -q only the bad entry is left out.",
            "# instead of slapadd -q -c:",
            f"ditseed build FILE.ldif --config {server.path} --max-rejects 100",
            subject="slapd {}.{}.{}".format(*server.release),
        )


@database_rule("format", "lmdb.h, MDB_VERSION_MISMATCH")
def _format(database: Database) -> Findings:
    release, data_format = database.server.release, database.format
    if release is None or data_format is None:
        return
    readable = 1 if release < (2, 7, 0) else 3
    name = "OpenLDAP {}.{}.{}".format(*release)
    if data_format == readable:
        yield finding(OK, f"data.mdb has data format {data_format}, which {name} reads")
        return
    new, old = quote(database.directory), quote(f"{database.directory}.old")
    yield finding(
        CRITICAL,
        f"data.mdb has data format {data_format}; {name}, which is installed, reads format {readable}",
        "OpenLDAP 2.4 to 2.6 (LMDB 0.9) read format 1, OpenLDAP 2.7 (LMDB 1.0) reads format 3. slapd does not start "
        "on the other one. ditseed makes the database again in the format of this one.",
        f"mv {new} {old}",
        f"ditseed migrate {old} {new} --config {database.server.path} -b {quote(database.suffix)}",
    )


@database_rule("idlexp", "OpenLDAP, servers/slapd/back-mdb/idl.c")
def _idlexp(database: Database) -> Findings:
    if database.idlexp is not None and database.idlexp > 16:
        yield finding(
            NOTE,
            f"idlexp {database.idlexp}: index keys have lists of up to {2**database.idlexp - 1:,} IDs",
            "A slapd that opens this database, or a copy of it, with a smaller idlexp copies such a list past the end "
            "of its buffer. Set the same idlexp on every server that gets a copy; to lower it, make the indexes again.",
        )


# --- contents of the database -------------------------------------------------------------------


@database_rule("shared_uuid", "RFC 4530")
def _shared_uuids(database: Database) -> Findings:
    directory = None if database.server.request.quick else database.tables
    # Without an index of entryUUID, the search for duplicates would read every entry.
    if directory is None or "entryUUID eq" in database.lacking_indexes:
        return
    look = partial(verify.shared_uuids, directory, verify.Resources(), Meter("entryUUIDs"))
    for uuid, first, other in database.look("entryUUIDs", look) or ():
        yield finding(
            WARNING,
            f"{first} and {other} share the entryUUID {uuid}",
            "Replication cannot tell them apart: deleting one of them removes either from a replica. slapadd loads "
            "such entries from LDIF.",
            "# delete one of them and add it again: slapd gives it an entryUUID of its own",
        )


@database_rule("indexes", _VERIFY)
def _indexes(database: Database) -> Findings:
    drift = database.drift
    if drift is None:
        return
    rebuild = [name for name in drift.rebuild if name not in drift.left_out]
    if rebuild:
        # Given several attributes, slapindex may skip some of them; given none, it rebuilds all indexes.
        named = rebuild if len(rebuild) == 1 else ()
        yield finding(
            WARNING,
            f"the index of {listed(rebuild)} lacks or has too many entries",
            "A search by these attributes misses entries, without any error. The configuration was changed while slapd "
            "was stopped, or the load that made the file had another one.",
            *database.slap("slapindex", "-q", "-t", *named),
        )
    elif not (drift.unknown or drift.otherwise):
        left_out = f"; not looked at: {listed(drift.left_out)}" if drift.left_out else ""
        yield finding(OK, f"its indexes hold what a sample of {drift.entries} entries says{left_out}")


@database_rule("schema", _VERIFY)
def _schema(database: Database) -> Findings:
    if database.drift and database.drift.unknown:
        yield finding(
            WARNING,
            f"the configuration does not know {listed(database.drift.unknown)}, which entries have",
            "slapd cannot decode such an entry, or shows it without them.",
            "# load the schema that defines them into the configuration",
        )


@database_rule("made_otherwise", _VERIFY)
def _made_otherwise(database: Database) -> Findings:
    if database.drift and database.drift.otherwise:
        yield finding(
            WARNING,
            f"made with another configuration: {listed(database.drift.otherwise)}",
            "slapd trusts that the file was made with the configuration that it has, and searches may miss entries. "
            "Index tables can be made again, this cannot: it takes LDIF.",
            f"ditseed export {database.directory} -o /srv/export",
            f"ditseed build /srv/export --config {database.server.path} -b {database.suffix} --replace",
        )


# --- replication --------------------------------------------------------------------------------


@database_rule("replication.refused", f"{_CONFIG_5}, olcSyncrepl")
def _refused(database: Database) -> Findings:
    for refused in (one.refused for one in database.replication if one.refused):
        yield finding(
            CRITICAL,
            f"the provider refuses the account of olcSyncrepl ({refused})",
            "The consumer receives no change until binddn and credentials of olcSyncrepl are those of an account "
            "there.",
            "# set binddn and credentials in olcSyncrepl of the database, or the password at the provider",
        )


@database_rule("replication.dead", f"{_CONFIG_5}, olcSyncrepl")
def _dead(database: Database) -> Findings:
    dead = [one for one in database.replication if one.dead]
    for one in dead:
        yield finding(
            graded(len(dead) == len(database.replication)),
            f"the provider {one.provider} cannot be reached: {one.dead}",
            "The consumer receives no change from it.",
            f"ldapsearch -x -LLL -H {quote(one.provider)} -s base -b '' namingContexts",
        )


@database_rule("replication", f"{_CONFIG_5}, olcSyncrepl")
def _behind(database: Database) -> Findings:
    for one in database.replication:
        seconds = one.lag
        if seconds is None and (one.dead or one.refused):
            continue
        if seconds is None:
            stored = "has no contextCSN" if one.age is None else f"has seen changes until {units.duration(one.age)} ago"
            yield finding(
                NOTE,
                f"a consumer of {one.provider}, which did not show its contextCSN; it {stored}",
                "Whether that is behind depends on whether the provider has changed since.",
                "ditseed doctor -H PROVIDER -D DN -y FILE",
            )
            continue
        what = f"is {units.duration(seconds)} behind" if 0 < seconds < float("inf") else "is not behind"
        if seconds == float("inf"):
            what = "has seen no change of one of the server IDs of"
        what = f"{what} {one.provider}, by contextCSN"
        if seconds < BEHIND_WARNING:
            yield finding(OK, what)
            continue
        yield finding(
            graded(seconds >= BEHIND_CRITICAL),
            what,
            "The consumer does not receive changes, or not as fast as they are made.",
            "# slapd's log says why, with loglevel sync; then:",
            f"ditseed replica verify -H {one.provider} -b {database.suffix} --consumer ldapi:///",
        )


@database_rule("replication.ahead", "slapo-syncprov(5)")
def _ahead(database: Database) -> Findings:
    """Yields nothing if a provider shows no contextCSN or the database accepts writes: it may then be newer."""
    consumer = database.replication
    if database.is_multi_provider or not all(one.shown for one in consumer):
        return
    theirs = csn.by_server(text for one in consumer for text in one.shown or ())
    ours = csn.by_server(text for one in consumer for text in one.stored)
    ahead = [sid for sid, text in sorted(ours.items()) if sid in theirs and text > theirs[sid]]
    if ahead:
        names = ", ".join(dict.fromkeys(one.provider for one in consumer))
        yield finding(
            CRITICAL,
            f"has newer changes of server ID {', '.join(ahead)} than its provider {names}, by contextCSN",
            "The provider was restored from an older backup. syncprov refuses a consumer that is newer, or the two "
            "stay different.",
            "# is the provider right? then seed this consumer again:",
            "ditseed replica seed --help  # or restore the provider from a newer backup",
        )


# --- storage, backups, certificates -------------------------------------------------------------


@rule("storage.*")
def _storage(server: Server) -> Findings:
    """Yields warnings and worse of `storage check`. Databases on one volume share findings, which are printed once."""
    seen = set[Finding]()
    for database in server.databases:
        look = partial(storage_check.check_database, database.configured, server.config.path)
        report = database.look("storage", look) if database.data else None
        # What `storage check` could not read is only listed: in a container tune2fs and lvs never see the device.
        server.left_out += [one for one in (report.situation.unseen if report else ()) if one not in server.left_out]
        for one in report.findings if report else ():
            is_bad = one.severity.rank >= WARNING.rank
            # The rules `maxsize` and `sync` above judge these two in more detail.
            if is_bad and one not in seen and one.rule not in ("maxsize.used", "nosync"):
                seen.add(one)
                why = f"{one.why} All of it: ditseed storage check {database.directory}".strip()
                yield replace(one, rule=f"storage.{one.rule}", why=why)


@database_rule("kept", "docs/backup.md")
def _kept(database: Database) -> Findings:
    directory = database.data
    if directory is None:
        return
    name = re.compile(re.escape(REPLACED) + r"\d{8}T\d{6}Z(-\d+)?", re.ASCII)
    paths = database.look(
        "old data files", lambda: sorted(filter(lambda path: name.fullmatch(path.name), directory.iterdir()))
    )
    if paths:
        size = units.size(sum(files.allocated_bytes(path) for path in paths))
        yield finding(
            NOTE,
            f"old data files that a restore has kept: {len(paths)}, {size} on the disk",
            "`ditseed backup restore --replace` keeps the data file that it replaces, in case it is needed again. "
            "slapd does not use it, and nothing but these commands frees its space.",
            *(shlex.join(["rm", "--", str(path)]) for path in paths),
        )


@database_rule("backup", "docs/backup.md")
def _backup(database: Database) -> Findings:
    repo = database.server.request.repo
    if repo is None:
        return
    look = partial(backup_check.judged, repo, backup_check.Limits(BACKUP_AGE), database.suffix)
    result = database.look("backups", look)
    if result is None:
        return
    words = ("--config", database.server.path, "-b", database.suffix, "-R", str(repo))
    yield finding(
        graded(result.status == Status.CRITICAL, result.status != Status.OK),
        f"backup in {repo}: {result.reason}",
        "A database without a usable backup of the last night is one fault from lost.",
        shlex.join(["ditseed", "backup", "run", *words]),
    )


def _tls_files(server: Server, *kinds: str) -> list[Path]:
    """Returns the paths of the configured files. `kinds`: Certificate, CertificateKey, CACertificate."""
    names = [f"olcTLS{kind}File" for kind in kinds]
    return [Path(value) for name in names for value in server.config.values("cn=config", name)]


@rule("certificate.key", f"{_CONFIG_5}, olcTLSCertificateKeyFile")
def _certificate_key(server: Server) -> Findings:
    reason = server.look("key and certificate", lambda: _unusable_pair(server))
    if reason:
        yield finding(
            CRITICAL,
            reason,
            "slapd does not start with it, or answers no client that wants TLS.",
            "# put the files of one certificate into olcTLSCertificateFile and olcTLSCertificateKeyFile",
        )


def _unusable_pair(server: Server) -> str:
    """Returns why slapd cannot use its certificate; "" if it can, or has no certificate."""
    pair = _tls_files(server, "Certificate", "CertificateKey")
    for path in (*pair, *_tls_files(server, "CACertificate")):
        if not path.exists():
            return f"there is no {path}"
    if len(pair) != 2:
        return ""
    certificate, key = pair
    # openssl fails on a key with a passphrase as on a file without a key; slapd can use neither.
    own = _openssl(certificate, "x509", "-noout", "-pubkey")
    if own != _openssl(key, "pkey", "-pubout", "-passin", "pass:"):
        return f"the key {key} is not that of the certificate {certificate}"
    return ""


def _openssl(path: Path, *arguments: str, pem: bytes | None = None) -> bytes:
    """Returns the output of openssl for `pem`, or for the file if `pem` is None. Raises ToolFailed if openssl fails."""
    answer = child.ask(["openssl", *arguments], stdin=files.read(path) if pem is None else pem)
    if answer.status != 0:
        reason = f"{path}: {'; '.join(answer.words[-2:])}"
        raise ToolFailed(tool="openssl", status=answer.status, reason=reason)
    return answer.out


class Certificate(NamedTuple):
    """`left`: seconds until it expires. `is_one_of_many`: its file has several CAs, not all of which may be in use."""

    subject: str
    left: float
    is_one_of_many: bool


@rule("certificate", f"{_CONFIG_5}, olcTLSCertificateFile")
def _certificates(server: Server) -> Findings:
    for path in _tls_files(server, "Certificate", "CACertificate"):
        for one in server.look(f"certificates of {path}", partial(certificates_of, path)) or ():
            severity = graded(one.left < 7 * _DAY and not one.is_one_of_many, one.left < 30 * _DAY)
            expiry = f"expires in {one.left / _DAY:.0f} days"
            if one.left <= 0:
                expiry = f"has expired {units.duration(-one.left)} ago"
            yield finding(
                severity,
                f"{one.subject or 'certificate'} {expiry}",
                "Clients, consumers among them, refuse a server with an expired one.",
                f"openssl x509 -noout -text -in {quote(str(path))}",
                "# renew it, and restart slapd",
                subject=str(path),
            )


def certificates_of(path: Path) -> list[Certificate]:
    pem = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
    blocks = pem.findall(files.read(path))[:20]  # the many CAs of a distribution's bundle are not judged
    if not blocks:
        raise UsageProblem(reason=f"{path} has no certificate in PEM form")
    certificates = []
    for block in blocks:
        shown = _openssl(path, "x509", "-noout", "-subject", "-enddate", "-nameopt", "RFC2253", pem=block)
        fields = dict(line.partition("=")[::2] for line in shown.decode("utf-8", "replace").splitlines())
        try:
            left = ssl.cert_time_to_seconds(fields["notAfter"]) - time.time()
        except (KeyError, ValueError):
            raise ToolFailed(tool="openssl", status=0, reason=f"{path}: no date") from None
        certificates.append(Certificate(fields.get("subject", "").strip(), left, len(blocks) > 1))
    return certificates


# --- what the configuration lacks ---------------------------------------------------------------


@database_rule("maxsize.unset", f"{_MDB_5}, maxsize")
def _maxsize_unset(database: Database) -> Findings:
    if database.configured.maxsize == DEFAULT_MAXSIZE:
        yield finding(
            WARNING,
            "maxsize was never set: it is slapd's default of 10 MiB",
            "A few thousand entries fill that, and then slapd refuses every write (MDB_MAP_FULL).",
            database.tune("maxsize", "--maxsize", "auto"),
        )


@database_rule("indexes.sync", "slapo-syncprov(5)")
def _sync_indexes(database: Database) -> Findings:
    if database.is_replicated and database.lacking_indexes:
        added = [word for index in database.lacking_indexes for word in ("--add", quote(index))]
        yield finding(
            WARNING,
            f"the configuration has no index {', no index '.join(database.lacking_indexes)}",
            "syncprov searches by entryCSN and syncrepl by entryUUID: without an index slapd looks at every entry for "
            "each such search.",
            database.tune("indexes", *added),
        )


@database_rule("server_id", f"{_CONFIG_5}, olcServerID")
def _server_id(database: Database) -> Findings:
    if database.is_multi_provider and not database.server.has_id:
        yield finding(
            CRITICAL,
            "olcServerID is not set, and the database is of several providers (olcMultiProvider, olcMirrorMode)",
            "Two providers that both write as server ID 0 take each other's changes for their own, and lose them.",
            "# give each provider a number of its own, 1 to 4095: olcServerID in cn=config",
        )


@database_rule("limits", f"{_CONFIG_5}, olcLimits")
def _limits(database: Database) -> Findings:
    sizes = [f"{key}={none}" for key in ("size", "size.hard") for none in ("unlimited", "-1")]
    sizes.append("size.prtotal=unlimited")
    *named, everybody = (value.lower() for value in database.limits)
    is_unlimited = any(word in value for value in named for word in sizes)
    is_unlimited |= not {"unlimited", "-1", *sizes}.isdisjoint(everybody.split())
    if "syncprov" in database.configured.overlays and not is_unlimited:
        yield finding(
            NOTE,
            "neither olcSizeLimit nor olcLimits lets an account read all of it (500 entries by default)",
            "Only the root DN can read all of it: neither a consumer nor `ditseed export` with an account of its "
            "own can. The rule belongs before all others of the database.",
            "ditseed export -H ldap://HOST -D DN -y FILE -o /srv/export  # its hint has the commands for DN",
        )
