"""The rules of `doctor`. Each rule is a function that judges facts, and has a row in docs/doctor.md."""

from __future__ import annotations

import os
import pwd
import re
import shlex
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from itertools import chain
from pathlib import Path
from shlex import quote
from typing import NamedTuple

from msgspec.structs import replace

from loader import child, csn, units
from loader.config import DEFAULT_MAXSIZE
from loader.declared import AuditResources
from loader.errors import ToolFailed, UsageProblem
from loader.mdb import meta, verify
from loader.operations.backup import check as backup_check
from loader.operations.backup import replay
from loader.operations.backup.options import Limits
from loader.operations.doctor.facts import Database, Server
from loader.operations.monitoring import Status
from loader.operations.publish import REPLACED
from loader.operations.storage import check as storage_check
from loader.operations.storage.findings import Finding, Severity
from loader.operations.tune.syncing import has_timed_checkpoint
from loader.progress import Meter
from loader.server import tools
from loader.storage import files

Findings = Iterator[Finding]
CRITICAL, WARNING, NOTE, OK = Severity.CRITICAL, Severity.WARNING, Severity.NOTE, Severity.OK

AVAILABLE_WARNING, AVAILABLE_CRITICAL = 0.20, 0.10  # available share of maxsize
BEHIND_WARNING, BEHIND_CRITICAL = 300.0, 3600.0  # seconds that a consumer is behind, by contextCSN
BACKUP_AGE = 26 * 3600.0  # seconds; an older last backup is a finding
_SHOWN = 5  # names listed in one finding
_DAY = 86_400.0
SHARED_ID = (
    "Providers that share a server ID mistake each other's changes for their own, and lose them.",
    "# set a different olcServerID in cn=config of each provider, 1 to 4095",
)
_LOG = "journalctl -u slapd -n 50"

# Maps a document to the rules whose reasons it supports.
_SOURCES = {
    "docs/add.md": ("lease",),
    "docs/restore.md": ("accesslog", "data", "kept"),
    "docs/backup-checks.md": ("backup",),
    "slapd(8)": ("access", "slapd"),
    "slapd's log has LMDB's error": ("slapd.database",),
    "slapd-mdb(5), maxsize": ("maxsize", "maxsize.unset"),
    "slapd-mdb(5), dbnosync and envflags": ("sync", "writemap"),
    "slapd-config(5), olcSyncrepl": ("replication", "replication.dead", "replication.refused"),
    "slapd-config(5), olcTLSCertificateFile": ("certificate", "certificate.key"),
    "slapd-config(5), olcServerID": ("server_id",),
    "slapd-config(5), olcLimits": ("limits",),
    "slapo-syncprov(5)": ("indexes.sync", "replication.ahead"),
    "lmdb.h, mdb_reader_check": ("readers.full", "readers.dead", "readers.oldest"),
    "lmdb.h, MDB_VERSION_MISMATCH": ("format",),
    "OpenLDAP, servers/slapd/entry.c; seen with 2.6.14": ("release.scattered_values",),
    "seen with 2.5.13 and 2.6.14": ("release.continue",),
    "OpenLDAP, servers/slapd/back-mdb/idl.c": ("idlexp",),
    "RFC 4530": ("shared_uuid",),
    "ditseed verify --verify indexes checks every entry": ("indexes", "schema", "made_otherwise"),
    "": ("storage.*",),  # `storage check` names the source of each finding
}
SOURCES = {rule: source for source, rules in _SOURCES.items() for rule in rules}


def judged(server: Server) -> tuple[Finding, ...]:
    """Returns all findings, the worst first. Findings of one severity keep the order of this code: causes before
    effects."""
    findings = [*_of_each(server, _data), *_access(server), *_slapd(server), *_leases(server)]
    findings += _of_each(
        server, _room, _readers, _durability, _format, _contents, _replication, _backups, _settings, _accesslog
    )
    findings += [*_storage(server), *_certificates(server), *_releases(server)]
    named = (replace(each, subject=each.subject or server.path) for each in findings)
    return tuple(sorted(named, key=lambda each: -each.severity.rank))


def _of_each(server: Server, *rules: Callable[[Database], Findings]) -> Findings:
    for database in server.databases:
        for each in chain.from_iterable(rule(database) for rule in rules):
            yield replace(each, subject=database.suffix)


def finding(rule: str, severity: Severity, what: str, why: str = "", *mend: str, subject: str = "") -> Finding:
    """Returns a finding; if its severity is OK, without `why` and `mend`. `_of_each` sets `subject` to the suffix;
    `judged` replaces a `subject` of "" by the path of the configuration."""
    if severity is OK:
        why, mend = "", ()
    return Finding(severity, rule, subject, what, why, mend, SOURCES[rule])


def graded(is_critical: bool, is_warning: bool = True) -> Severity:
    if is_critical:
        return CRITICAL
    return WARNING if is_warning else OK


listed = partial(units.listed, most=_SHOWN, last=" ")


def _data(database: Database) -> Findings:
    if database.damage:
        server, directory = database.server, quote(database.directory)
        words = ("-R", str(server.request.repo or "REPO"), "--config", server.path, "-b", database.suffix, "--replace")
        restore = shlex.join(["ditseed", "backup", "restore", "latest", *words])
        mend = (f"findmnt -T {directory}; ls -l {directory}", "systemctl stop slapd", restore, "systemctl start slapd")
        why = "slapd does not start, starts without entries, or answers with errors. Mount its volume, or restore."
        yield finding("data", CRITICAL, database.damage, why, *mend)


# Maps (subject, verb) to the files that slapd's account cannot access in this way, and each file to whether the account
# owns it. Subject: a suffix, "configuration" or "TLS". Verb: "read" or "write".
Denied = dict[tuple[str, str], dict[str, bool]]


def _access(server: Server) -> Findings:
    account, denied = server.read("whether slapd may reach its files", lambda: _denied(server)) or ("", {})
    for (subject, verb), paths in denied.items():
        own_paths, other_paths = ([path for path in paths if paths[path] is is_own] for is_own in (True, False))
        mend = [shlex.join(["chown", "-h", f"{account}:", "--", *other_paths])] if other_paths else []
        mend += [shlex.join(["chmod", "u+rwX", "--", *own_paths])] if own_paths else []
        if subject == "TLS":
            mend = [f"setfacl -m u:{account}:r {quote(path)}" for path in own_paths + other_paths]
        severity = CRITICAL
        why = "Once stopped, slapd cannot start. Such files usually come from tools that root ran without `runuser -u`."
        if (subject, verb) == ("configuration", "write"):
            severity, why = WARNING, "slapd cannot store changes of cn=config."
        what = f"slapd's account {account} cannot {verb} {listed(own_paths + other_paths)}"
        yield finding("access", severity, what, why, *mend, subject=subject)


def _denied(server: Server) -> tuple[str, Denied]:
    """Returns the name of slapd's account ("" for root), and files that it needs, but cannot read or write."""
    config, by_suffix = server.config, dict[str, list[Path]]()
    for database in server.databases:
        if directory := database.configured.directory:
            by_suffix[database.suffix] = [directory, directory / meta.DATA, directory / "lock.mdb"]
    # The account of the running slapd, else the account (not root, if possible) that owns most of its files.
    pid = tools.slapd_on(config)
    uid = None if pid is None else tools.account_of(pid)
    if uid is None:
        paths = (config.path, config.path / "cn=config.ldif", *chain.from_iterable(by_suffix.values()))
        owners = Counter(path.stat().st_uid for path in paths if path.exists())
        uid = max(owners, key=lambda owner: (owner != 0, owners[owner]), default=0)
    if uid == 0:
        return "", {}
    try:
        account = pwd.getpwuid(uid)
    except KeyError:  # usual in a container; a name is needed only if root runs setpriv (`_denied_to`)
        if os.geteuid() != uid:
            raise UsageProblem(reason=f"slapd runs as user ID {uid}, which has no name on this host") from None
        account = pwd.struct_passwd((str(uid), "", uid, os.getegid(), "", "/", ""))
    if os.geteuid() not in (0, uid):
        raise UsageProblem(reason=f"only root, or {account.pw_name} itself, can tell")

    denied: Denied = {}
    for suffix, needed in by_suffix.items():
        if needed[0].is_dir():
            denied |= _denied_to(account, suffix, needed, "-maxdepth", "0")
    denied |= _denied_to(account, "configuration", [config.path])
    tls = _tls_files(server, "Certificate", "CertificateKey", "CACertificate")
    denied |= _denied_to(account, "TLS", tls, "-maxdepth", "0")
    # slapd does not write to slapd.conf, to TLS files, or to a slapd.d with a read-only top directory.
    denied.pop(("TLS", "write"), None)
    if not config.is_directory or server.path in denied.get(("configuration", "write"), ()):
        denied.pop(("configuration", "write"), None)
    return account.pw_name, denied


def _denied_to(account: pwd.struct_passwd, subject: str, paths: Iterable[Path], *options: str) -> Denied:
    """Returns the files that `account` may not read or write. Runs find(1) as the account, because find uses access(2),
    which respects ACLs and read-only mounts."""
    existing = [str(path) for path in paths if path.exists()]
    denied: Denied = {}
    if not existing:
        return denied
    # find prints a letter before each path: r: unreadable, w: not writable, x: a directory that cannot be entered.
    tests = "! -readable -printf r%p\\0 -o ! -writable -printf w%p\\0 -o -type d ! -executable -printf x%p\\0"
    command = ["find", "-H", *existing, *options, *tests.split(" ")]
    if os.geteuid() != account.pw_uid:
        ids = (f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups")
        command = ["setpriv", *ids, "--pdeathsig=KILL", "--", *command]
    answer = child.run(command)
    lines = [os.fsdecode(line) for line in answer.out.split(b"\0") if line]
    if answer.status != 0:
        # Exit status 1: setpriv failed, or find could not enter a directory, which it then names on stderr.
        lines = lines or [f"r{path}" for path in existing if any(path in word for word in answer.stderr_lines)]
        if answer.status != 1 or not lines:
            raise ToolFailed(tool="find", status=answer.status, reason="; ".join(answer.stderr_lines[-2:]))
    for line in lines:
        path, verb = line[1:], "write" if line[0] == "w" else "read"
        denied.setdefault((subject, verb), {})[path] = Path(path).lstat().st_uid == account.pw_uid
    return denied


def _slapd(server: Server) -> Findings:
    slapd = server.slapd
    if slapd is None:
        return
    if slapd.pid is None:
        what, why = "slapd is not running", "No process on this host uses this configuration."
        if slapd.pid_file:
            what += f"; its pid file {slapd.pid_file} is still there: it did not stop, it died"
        severity = graded(server.request.quick or bool(slapd.pid_file))
        yield finding("slapd", severity, what, why, f"systemctl status slapd; {_LOG}", "systemctl start slapd")
    elif slapd.silence:
        what = f"slapd (process {slapd.pid}) does not answer: {slapd.silence}"
        why = "It did not return the root DSE at any URI of its option -h."
        yield finding("slapd", CRITICAL, what, why, _LOG, f"# what it waits for: gdb -p {slapd.pid} -batch -ex bt")
    else:
        yield finding("slapd", OK, f"slapd (process {slapd.pid}) runs and answers")
    for suffix, words in slapd.failed:
        what = f"slapd cannot read the database: {words}"
        why = "slapd answers, but a search for the entry of the suffix fails."
        yield finding("slapd.database", CRITICAL, what, why, _LOG, subject=suffix)


def _room(database: Database) -> Findings:
    room, maxsize = database.room, database.configured.maxsize
    if room is None:
        return
    share = room.available / room.maxsize if room.maxsize else 0.0
    # If every reader is up to date, room.growth is None: LMDB then reuses freed pages, and the file hardly grows.
    seconds = room.available / room.growth if room.growth else float("inf")
    is_disk_short = room.disk_free < room.maxsize - room.used
    what = (
        f"{units.size(room.available)} of maxsize {units.size(room.maxsize)} are available ({100 * share:.0f} %): "
        f"{units.size(room.unused)} unused, {units.size(room.reusable)} free for reuse"
    )
    mend = []
    if room.held:
        what += f"; {units.size(room.held)} more once the oldest reader ends"
        mend.append("# end the oldest reader (below): its pages can then be reused")
    if is_disk_short:
        what += f"; the disk has room for {units.size(room.disk_free)} only"
        mend.append(f"df -h {quote(database.directory)}  # make room there")
    else:
        new_size = "auto" if room.maxsize < room.used * 3 else f"{2 * room.maxsize >> 20}M"
        mend.append(database.tune_command("maxsize", "--maxsize", new_size))
    if seconds < float("inf"):
        what += f"; full in about {units.duration(seconds)} at the present rate of writes"
    if maxsize < room.used:
        what += f"; {units.size(maxsize)} are configured, less than the bytes in use, which LMDB maps in any case"
    why = "Without unused or reusable pages, slapd refuses every write (MDB_MAP_FULL)."
    if database.is_log:
        why = "Without unused or reusable pages, slapd still makes changes, but logs none of them (MDB_MAP_FULL)."
    is_critical = share < AVAILABLE_CRITICAL or seconds < 300.0
    severity = graded(is_critical, share < AVAILABLE_WARNING or seconds < 900.0 or maxsize < room.used)
    yield finding("maxsize", severity, what, why, *mend)


def _readers(database: Database) -> Findings:
    slots, used = database.slots
    if used >= 0.90 * slots > 0:
        why = "Without a free slot slapd answers searches with MDB_READERS_FULL, and no tool can read the database."
        yield finding(
            "readers.full",
            graded(used >= slots),
            f"running processes occupy {used} of {slots} reader slots",
            why,
            f"fuser -v {quote(f'{database.directory}/lock.mdb')}  # end the readers that are not needed",
            "# or raise olcDbMaxReaders, end all processes that have the database open, and: systemctl restart slapd",
        )
    alive = [reader for reader in database.readers if reader.is_alive]
    if dead := [reader for reader in database.readers if not reader.is_alive]:
        lag = max(reader.lag for reader in dead)
        pids = ", ".join(dict.fromkeys(str(reader.pid) for reader in dead))
        # Any killed process may leave a slot. A slot that does not lag is harmless.
        severity = WARNING if lag else NOTE
        what = f"reader slots of dead processes ({pids}), the oldest {units.number(lag)} transactions behind"
        why = "A killed slapcat or backup keeps its slot, and all pages freed since, until LMDB checks the slots."
        fix = shlex.join(["ditseed", "doctor", "--config", database.server.path, "--fix"])
        yield finding("readers.dead", severity, what, why, fix)
    if not alive:
        return
    oldest, room = max(alive, key=lambda reader: reader.lag), database.room
    what = f"the oldest reader, {oldest.process or 'a process'} (process {oldest.pid}), is {oldest.lag:,} transactions"
    what += f" behind, keeps {units.size(room.held)} from reuse" if room and room.held else " behind"
    why = "LMDB does not reuse pages that were freed after the oldest reader began, so every write enlarges the file."
    end = (f"ps -fp {oldest.pid}  # is it still needed?", f"kill {oldest.pid} || kill -9 {oldest.pid}")
    if oldest.process == "slapd":
        end = (
            "# a long search in slapd; find the connection, and end its client:",
            "ldapsearch -Q -LLL -Y EXTERNAL -H ldapi:/// -b cn=Connections,cn=Monitor monitorConnectionOpsExecuting",
        )
    severity = WARNING if room is not None and room.held >= 0.10 * room.maxsize else OK
    yield finding("readers.oldest", severity, what, why, *end)


def _leases(server: Server) -> Findings:
    for lease in server.leases:
        # A larger session log stays after a run on purpose, until `replica release` shrinks it.
        severity = NOTE if lease.kind == "sessionlog" else WARNING
        what = f"{lease.kind} at {lease.target} was changed by a run of {lease.taken} and not restored"
        why = "The run was killed, or could not reach the server when it ended."
        yield finding("lease", severity, what, why, lease.undo, subject=lease.database)


def _durability(database: Database) -> Findings:
    configured = database.configured
    flags = {flag.lower() for flag in configured.env_flags}
    if configured.nosync:
        is_flushed = has_timed_checkpoint(configured)
        setter = "not set by a run of ditseed"
        if ("nosync", database.suffix) in [(lease.kind, lease.database) for lease in database.server.leases]:
            setter = "left by a run"
        if database.nosync_holder:
            setter = f"lent for {database.nosync_holder}"
        checkpoint = f"checkpoint {configured.checkpoint}" if is_flushed else "no checkpoint"
        what = f"nosync{', writemap' if 'writemap' in flags else ''}, {checkpoint}, {setter}"
        why = "A crash of the host can lose the last changes, or damage the database. nosync is for loads only."
        severity = graded("writemap" in flags or not is_flushed)
        yield finding("sync", severity, what, why, database.tune_command("sync", "--nosync", "off"))
    elif {"mapasync", "writemap"} <= set(flags):  # LMDB ignores mapasync without writemap
        what = "envflags mapasync and writemap: commits are flushed only when the kernel decides to"
        why = "A crash of the host can lose the last changes, or damage the database."
        mend = "# remove mapasync from olcDbEnvFlags of the database, and restart slapd"
        yield finding("sync", WARNING, what, why, mend)
    elif "writemap" not in flags:
        yield finding("sync", OK, "commits are synced to the disk")
    if "writemap" in flags:
        what = "envflags writemap: slapd writes into its memory map"
        why = "A stray write of slapd or a module damages the file, and a full disk kills slapd by SIGBUS."
        mend = "# remove writemap from olcDbEnvFlags of the database, and restart slapd"
        yield finding("writemap", NOTE, what, why, mend)


def _releases(server: Server) -> Findings:
    release, build = server.release or (0, 0, 0), f"ditseed build FILE.ldif --config {server.path}"
    subject = "slapd {}.{}.{}".format(*release)
    if (2, 6, 11) <= release <= (2, 6, 14):
        what = "its slapadd -q damages entries if other attributes separate the values of an attribute in the LDIF"
        why = "If A, B and A again follow each other, values of B are added to A. `ditseed build` does not do this."
        mend = ("# instead of slapadd -q:", build)
        yield finding("release.scattered_values", NOTE, what, why, *mend, subject=subject)
    if (2, 5, 0) <= release < (2, 7, 0):
        what = "its slapadd -q -c loses valid entries along with an invalid one"
        why = "With -q an error discards the whole batch of up to 500 entries, and -c continues after it."
        mend = ("# instead of slapadd -q -c:", f"{build} --max-rejects 100")
        yield finding("release.continue", NOTE, what, why, *mend, subject=subject)


def _format(database: Database) -> Findings:
    release, data_format = database.server.release, database.format
    if release is not None and data_format is not None:
        readable = 1 if release < (2, 7, 0) else 3
        name = "OpenLDAP {}.{}.{}".format(*release)
        new, old = quote(database.directory), quote(f"{database.directory}.old")
        what = f"data.mdb has data format {data_format}"
        if data_format == readable:
            yield finding("format", OK, f"{what}, which {name} reads")
        else:
            what += f"; {name}, which is installed, reads format {readable}"
            why = "slapd does not open the other format: OpenLDAP 2.4 to 2.6 (LMDB 0.9) has 1, 2.7 (LMDB 1.0) has 3."
            migrate = f"ditseed migrate {old} {new} --config {database.server.path} -b {quote(database.suffix)}"
            yield finding("format", CRITICAL, what, why, f"mv {new} {old}", migrate)
    if database.idlexp is not None and database.idlexp > 16:
        what = f"idlexp {database.idlexp}: index keys have lists of up to {2**database.idlexp - 1:,} IDs"
        why = "A slapd with a smaller idlexp overruns its buffer: set it on all servers that get a copy."
        yield finding("idlexp", NOTE, what, why)


def _contents(database: Database) -> Findings:
    directory = None if database.server.request.quick else database.tables
    # Without an index of entryUUID, the search for duplicates would read every entry.
    if directory is not None and "entryUUID eq" not in database.lacking_indexes:
        look = partial(verify.shared_uuids, directory, AuditResources(), Meter("entryUUIDs"))
        for uuid, first, other in database.read("entryUUIDs", look) or ():
            what = f"{first} and {other} share the entryUUID {uuid}"
            why = "Replication cannot tell them apart: if one is deleted, a replica may remove the other."
            mend = "# delete one of them and add it again: slapd generates a new entryUUID"
            yield finding("shared_uuid", WARNING, what, why, mend)
    drift = database.drift
    if drift is None:
        return
    if rebuild := [name for name in drift.rebuild if name not in drift.left_out]:
        what = f"the index of {listed(rebuild)} lacks entries or has too many"
        why = "Searches that use it miss entries without an error. The database was loaded with another configuration."
        # If several attributes are given, slapindex may skip some. If none is given, it rebuilds all indexes.
        attributes = rebuild if len(rebuild) == 1 else ()
        yield finding("indexes", WARNING, what, why, *database.slapindex(*attributes))
    elif not (drift.unknown or drift.otherwise):
        left_out = f"; not looked at: {listed(drift.left_out)}" if drift.left_out else ""
        yield finding("indexes", OK, f"its indexes agree with a sample of {drift.entries} entries{left_out}")
    if drift.unknown:
        what = f"the schema lacks {listed(drift.unknown)}, which entries have"
        why = "slapd cannot decode such entries, or shows them incompletely."
        mend = "# load the schema that defines them into the configuration"
        yield finding("schema", WARNING, what, why, mend)
    if drift.otherwise:
        what = f"made with another configuration: {listed(drift.otherwise)}"
        why = "Searches may miss entries. Only index tables can be rebuilt in place; rebuild the database from LDIF."
        build = f"ditseed build /srv/export --config {database.server.path} -b {database.suffix} --replace"
        export = f"ditseed export {database.directory} -o /srv/export"
        yield finding("made_otherwise", WARNING, what, why, export, build)


def _replication(database: Database) -> Findings:
    consumer = database.replication
    for link in consumer:
        if link.refused:
            what = f"the provider refuses the account of olcSyncrepl ({link.refused})"
            why = "The consumer receives no changes until binddn and credentials fit an account of the provider."
            mend = "# set binddn and credentials in olcSyncrepl of the database, or the password at the provider"
            yield finding("replication.refused", CRITICAL, what, why, mend)
        if link.dead:
            what = f"the provider {link.provider} cannot be reached: {link.dead}"
            why = "The consumer receives no changes from it."
            ask = f"ldapsearch -x -LLL -H {quote(link.provider)} -s base -b '' namingContexts"
            yield finding("replication.dead", graded(all(each.dead for each in consumer)), what, why, ask)
        seconds = link.lag
        if seconds is not None:
            what = f"is {units.duration(seconds)} behind" if 0 < seconds < float("inf") else "is not behind"
            if seconds == float("inf"):
                what = "has seen no change from one of the server IDs of"
            what += f" {link.provider}, by contextCSN"
            why = "The consumer receives no changes, or receives them more slowly than they are made."
            compare = f"ditseed replica verify -H {link.provider} -b {database.suffix} --consumer ldapi:///"
            severity = graded(seconds >= BEHIND_CRITICAL, seconds >= BEHIND_WARNING)
            yield finding("replication", severity, what, why, "# slapd's log says why, with loglevel sync:", compare)
        elif not (link.dead or link.refused):
            age = link.age
            stored = "has no contextCSN" if age is None else f"has seen changes until {units.duration(age)} ago"
            what = f"a consumer of {link.provider}, which did not show its contextCSN; the consumer {stored}"
            why = "The consumer is behind only if the provider has changed since."
            yield finding("replication", NOTE, what, why, "ditseed doctor -H PROVIDER -D DN -y FILE")
    # Not judged: a multi-provider, which accepts writes itself; a consumer if any provider shows no contextCSN.
    if database.is_multi_provider or not all(link.shown for link in consumer):
        return
    shown = csn.by_server(text for link in consumer for text in link.shown or ())
    newest = csn.by_server(text for link in consumer for text in link.stored)
    if ahead := [sid for sid, text in sorted(newest.items()) if sid in shown and text > shown[sid]]:
        names = ", ".join(dict.fromkeys(link.provider for link in consumer))
        what = f"has newer changes from server ID {', '.join(ahead)} than its provider {names}, by contextCSN"
        why = "The provider was restored from an older backup. syncprov refuses a newer consumer, or the two differ."
        seed = "ditseed replica seed --help  # or restore the provider from a newer backup"
        check = "# if the provider is right, seed this consumer again:"
        yield finding("replication.ahead", CRITICAL, what, why, check, seed)


def _storage(server: Server) -> Findings:
    """Yields the findings of `storage check` from warnings up; if databases share a volume, each finding once."""
    reported = set[Finding]()
    for database in server.databases:
        look = partial(storage_check.check_database, database.configured, server.config.path)
        report = database.read("storage", look) if database.data else None
        # Facts that `storage check` cannot read do not affect the status: tune2fs and lvs see no device in a container.
        server.left_out += [fact for fact in (report.situation.unseen if report else ()) if fact not in server.left_out]
        for each in report.findings if report else ():
            # doctor's own rules `maxsize` and `sync` replace maxsize.used and nosync of `storage check`.
            is_own_rule = each.rule in ("maxsize.used", "nosync")
            if each.severity.rank >= WARNING.rank and not is_own_rule and each not in reported:
                reported.add(each)
                why = f"{each.why} All findings: ditseed storage check {database.directory}".strip()
                yield replace(each, rule=f"storage.{each.rule}", why=why)


def _backups(database: Database) -> Findings:
    repo = database.server.request.repo
    if repo is not None:
        check = partial(backup_check.judged, repo, Limits(BACKUP_AGE), database.suffix)
        if result := database.read("backups", check):
            severity = graded(result.status == Status.CRITICAL, result.status != Status.OK)
            why = "Without a usable recent backup, a single fault loses the database."
            words = ("--config", database.server.path, "-b", database.suffix, "-R", str(repo))
            run = shlex.join(["ditseed", "backup", "run", *words])
            yield finding("backup", severity, f"backup in {repo}: {result.reason}", why, run)
    name = re.compile(re.escape(REPLACED) + r"\d{8}T\d{6}Z(-\d+)?", re.ASCII)
    if paths := database.read_data(
        "old data files", lambda where: sorted(path for path in where.iterdir() if name.fullmatch(path.name))
    ):
        size = units.size(sum(files.allocated_bytes(path) for path in paths))
        what = f"{len(paths)} old data files kept by `restore --replace`, {size} on the disk"
        why = "slapd does not use them, and nothing else frees their space."
        yield finding("kept", NOTE, what, why, *(shlex.join(["rm", "--", str(path)]) for path in paths))


def _tls_files(server: Server, *kinds: str) -> list[Path]:
    """Returns the configured paths of TLS files. `kinds`: Certificate, CertificateKey, CACertificate."""
    names = [f"olcTLS{kind}File" for kind in kinds]
    return [Path(value) for name in names for value in server.config.values("cn=config", name)]


class Certificate(NamedTuple):
    """`remaining`: seconds until the certificate expires. `is_one_of_many`: the file has more certificates, of which
    slapd may use only some."""

    subject: str
    remaining: float
    is_one_of_many: bool


def _certificates(server: Server) -> Findings:
    if reason := server.read("key and certificate", lambda: _unusable_pair(server)):
        why = "slapd does not start with it, or refuses all TLS connections."
        mend = "# set olcTLSCertificateFile and olcTLSCertificateKeyFile to a certificate and its own key"
        yield finding("certificate.key", CRITICAL, reason, why, mend)
    for path in _tls_files(server, "Certificate", "CACertificate"):
        for certificate in server.read(f"certificates of {path}", partial(certificates_of, path)) or ():
            life = certificate.remaining
            expiry = f"has expired {units.duration(-life)} ago" if life <= 0 else f"expires in {life / _DAY:.0f} days"
            severity = graded(life < 7 * _DAY and not certificate.is_one_of_many, life < 30 * _DAY)
            what = f"{certificate.subject or 'certificate'} {expiry}"
            why = "Clients and consumers refuse a server with an expired certificate."
            mend = f"openssl x509 -noout -text -in {quote(str(path))}"
            yield finding("certificate", severity, what, why, mend, "# renew it, and restart slapd", subject=str(path))


def _unusable_pair(server: Server) -> str:
    """Returns why slapd cannot use its certificate. "" if slapd can use it, or has none."""
    pair = _tls_files(server, "Certificate", "CertificateKey")
    for path in (*pair, *_tls_files(server, "CACertificate")):
        if not path.exists():
            return f"there is no {path}"
    if len(pair) != 2:
        return ""
    certificate, key = pair
    # openssl fails on a key with a passphrase. slapd cannot use such a key either.
    public_key = _openssl(certificate, "x509", "-noout", "-pubkey")
    if public_key != _openssl(key, "pkey", "-pubout", "-passin", "pass:"):
        return f"the key {key} does not belong to the certificate {certificate}"
    return ""


def _openssl(path: Path, *arguments: str, pem: bytes | None = None) -> bytes:
    """Returns the output of openssl for the input `pem`, or for the file `path` if `pem` is None. Raises ToolFailed."""
    answer = child.run(["openssl", *arguments], stdin=files.read(path) if pem is None else pem)
    if answer.status != 0:
        reason = f"{path}: {'; '.join(answer.stderr_lines[-2:])}"
        raise ToolFailed(tool="openssl", status=answer.status, reason=reason)
    return answer.out


def certificates_of(path: Path) -> list[Certificate]:
    pem = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
    blocks = pem.findall(files.read(path))[:20]  # at most 20, because a CA bundle may have hundreds
    if not blocks:
        raise UsageProblem(reason=f"{path} has no certificate in PEM format")
    certificates = []
    for block in blocks:
        output = _openssl(path, "x509", "-noout", "-subject", "-enddate", "-nameopt", "RFC2253", pem=block)
        fields = dict(line.partition("=")[::2] for line in output.decode("utf-8", "replace").splitlines())
        try:
            remaining = ssl.cert_time_to_seconds(fields["notAfter"]) - time.time()
        except (KeyError, ValueError):
            raise ToolFailed(tool="openssl", status=0, reason=f"{path}: no date") from None
        certificates.append(Certificate(fields.get("subject", "").strip(), remaining, len(blocks) > 1))
    return certificates


def _settings(database: Database) -> Findings:
    configured, lacking_indexes = database.configured, database.lacking_indexes
    if configured.maxsize == DEFAULT_MAXSIZE:
        what = "maxsize was never set: it is slapd's default of 10 MiB"
        why = "A few thousand entries fill it, and then slapd refuses every write (MDB_MAP_FULL)."
        yield finding("maxsize.unset", WARNING, what, why, database.tune_command("maxsize", "--maxsize", "auto"))
    if database.is_replicated and lacking_indexes:
        what = f"the configuration has no index {', no index '.join(lacking_indexes)}"
        why = "syncprov searches by entryCSN and syncrepl by entryUUID: without an index slapd evaluates every entry."
        words = [word for index in lacking_indexes for word in ("--add", quote(index))]
        yield finding("indexes.sync", WARNING, what, why, database.tune_command("indexes", *words))
    if database.is_multi_provider and not database.server.config.values("cn=config", "olcServerID"):
        what = "olcServerID is not set, but the database has several providers (olcMultiProvider, olcMirrorMode)"
        yield finding("server_id", CRITICAL, what, *SHARED_ID)
    sizes = [f"{key}={none}" for key in ("size", "size.hard") for none in ("unlimited", "-1")]
    sizes.append("size.prtotal=unlimited")
    *limits, size_limit = (value.lower() for value in database.limits)
    is_unlimited = any(word in value for value in limits for word in sizes)
    is_unlimited |= not {"unlimited", "-1", *sizes}.isdisjoint(size_limit.split())
    if "syncprov" in configured.overlays and not is_unlimited:
        what = "neither olcSizeLimit nor olcLimits lets an account read all entries (500 by default)"
        why = "Only the root DN can read all entries; a consumer or `ditseed export` cannot. Put the rule first."
        export = "ditseed export -H ldap://HOST -D DN -y FILE -o /srv/export  # its hint has the commands for DN"
        yield finding("limits", NOTE, what, why, export)


_AGE = re.compile(r"(?:(\d+)\+)?(\d+):(\d+)(?::(\d+))?")  # [days+]hours:minutes[:seconds]: log_age_parse in accesslog.c


def _accesslog(database: Database) -> Findings:
    """Judges whether `backup restore --until` can replay the database's accesslog and prove it complete."""
    config, refused, (where, _) = database.server.config, database.unreplayable, database.server.tune_options
    where = where if where.startswith("-H") else "-H ldapi:/// -Y EXTERNAL"
    for log, overlay in replay.logs_of(config, database.configured):
        entry = config.reader(overlay)
        values = (entry.words(f"olcAccessLog{name}") for name in ("Ops", "OldAttr", "Purge"))
        ops, attributes, purge = ([*chain(*words)] for words in values)
        unlogged, _ = replay.unlogged(entry, database.suffix)
        has_old = "".join(entry.all("olcAccessLogOld")).lower() == "(objectclass=*)"
        age, kept = _AGE.fullmatch(" ".join(purge[:1])), 2 * _DAY
        if age:
            kept = sum(int(part or 0) * size for part, size in zip(age.groups(), (_DAY, 3600, 60, 1), strict=True))
        has_csn = "entrycsn" in map(str.lower, attributes)
        hides_failures = entry.flag("olcAccessLogSuccess", False)
        # Columns: whether a setting is wrong; the problem; the name of the setting; its right value.
        rows = (
            (bool(unlogged), unlogged, "Ops", " ".join([*ops, "writes"])),
            (hides_failures, "logsuccess hides rollbacks", "Success", "FALSE"),
            (not has_old, "logold is not (objectClass=*)", "Old", "(objectClass=*)"),
            (not has_csn, "logoldattr lacks entryCSN", "OldAttr", " ".join([*attributes, "entryCSN"])),
            (kept < 2 * _DAY, f"logpurge after {units.duration(kept)}", "Purge", "14+00:00 1+00:00"),
        )
        changes = [(overlay, f"olcAccessLog{name}", value) for is_wrong, _, name, value in rows if is_wrong]
        if replay.LASTMOD in refused:
            changes.append((database.configured.entry_dn, "olcLastMod", "TRUE"))
        mend = [f"# first: (reqResult=0) in logfilter of olcSyncrepl, at consumers of {log}"] if hides_failures else []
        for entry_dn, name, value in changes:
            text = quote(f"dn: {entry_dn}\\nchangetype: modify\\nreplace: {name}\\n{name}: {value}\\n")
            line = f"# in slapd.conf: {name[3:].replace('Access', '').lower()} {value}"
            mend.append(f"printf {text} | ldapmodify -Q {where}" if config.is_directory else line)
        if is_unordered := replay.REQMOD.format(log) in refused:
            mend.append(f"# remove reqMod from olcDbMultival of {log}, and begin a new log")
        if problems := dict.fromkeys([*refused, *(problem for is_wrong, problem, *_ in rows if is_wrong)]):
            what = f"`backup restore --until` cannot replay {log}, or not prove it complete: {'; '.join(problems)}"
            why = "Without its log, the database can be restored to the moment of a backup only."
            yield finding("accesslog", CRITICAL if is_unordered else NOTE, what, why, *mend)
