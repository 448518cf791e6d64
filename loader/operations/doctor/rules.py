"""The rules of `doctor`: each judges the facts that looking.py gathered, and has a row in docs/doctor.md.

The causes come before their effects, because findings of one severity are printed in the order of the rules.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from msgspec.structs import replace

from loader import csn, units
from loader.operations.doctor.facts import Barred, Database, Drift, Facts, Replication
from loader.operations.monitoring import Status
from loader.operations.room import Reader, Room
from loader.operations.storage.findings import Finding, Severity

Findings = Iterator[Finding]
RULES: list[Callable[[Facts], Findings]] = []

_SHOWN = 5  # names in one finding
_DAY = 86_400.0
AVAILABLE_WARNING, AVAILABLE_CRITICAL = 0.20, 0.10  # of maxsize
BEHIND_WARNING, BEHIND_CRITICAL = 300.0, 3600.0  # seconds, by contextCSN
_MDB_5 = "slapd-mdb(5)"
_CONFIG_5 = "slapd-config(5)"


def _rule(function: Callable[[Facts], Findings]) -> Callable[[Facts], Findings]:
    RULES.append(function)
    return function


def _database_rule(function: Callable[[Facts, Database], Findings]) -> None:
    def of_each(facts: Facts) -> Findings:
        for database in facts.databases:
            yield from function(facts, database)

    RULES.append(of_each)


def _graded(is_critical: bool, is_warning: bool) -> Severity:
    if is_critical:
        return Severity.CRITICAL
    return Severity.WARNING if is_warning else Severity.OK


def _listed(names: Sequence[str]) -> str:
    more = f" and {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


# --- slapd and its files ------------------------------------------------------------------------


@_database_rule
def _data(facts: Facts, database: Database) -> Findings:
    if not database.damage:
        return
    words = ("--config", facts.config, "-b", database.suffix, "--replace")
    repo = database.backup.repo if database.backup else "REPO"
    directory = shlex.quote(database.directory)
    yield Finding(
        Severity.CRITICAL,
        "data",
        database.suffix,
        database.damage,
        "slapd does not start on such a file, starts with an empty database, or answers with errors. If the volume of "
        "the database is not mounted, mount it; otherwise restore the file.",
        (
            f"findmnt -T {directory}; ls -l {directory}",
            "systemctl stop slapd",
            shlex.join(["ditseed", "backup", "restore", "latest", "-R", repo, *words]),
            "systemctl start slapd",
        ),
        "docs/backup.md",
    )


@_rule
def _access(facts: Facts) -> Findings:
    for subject in dict.fromkeys(one.subject for one in facts.barred):
        for verb in ("read", "write"):
            files = [one for one in facts.barred if (one.subject, one.verb) == (subject, verb)]
            if files:
                yield _barred(subject, verb, files)


def _barred(subject: str, verb: str, files: Sequence[Barred]) -> Finding:
    account = files[0].account
    is_mild = subject == "configuration" and verb == "write"
    return Finding(
        Severity.WARNING if is_mild else Severity.CRITICAL,
        "access",
        subject,
        f"slapd's account {account} cannot {verb} {_listed([one.path for one in files])}",
        "Its changes of cn=config fail."
        if is_mild
        else "slapd does not start again. A tool that root ran without `runuser -u` leaves such files.",
        tuple(_grants(subject, account, files)),
        "slapd(8), -u",
    )


def _grants(subject: str, account: str, files: Sequence[Barred]) -> Iterator[str]:
    if subject == "TLS":
        yield from (f"setfacl -m u:{account}:r {shlex.quote(one.path)}" for one in files)
        return
    foreign = [one.path for one in files if not one.is_own]
    own = [one.path for one in files if one.is_own]
    if foreign:
        yield shlex.join(["chown", "-h", f"{account}:", "--", *foreign])
    if own:
        yield shlex.join(["chmod", "u+rwX", "--", *own])


@_rule
def _slapd(facts: Facts) -> Findings:
    slapd, log = facts.slapd, "journalctl -u slapd -n 50"
    if slapd is None:
        return
    if slapd.pid is None:
        died = f"; its pid file {slapd.pid_file} is still there: it did not stop, it died"
        yield Finding(
            _graded(facts.is_check or bool(slapd.pid_file), True),
            "slapd",
            facts.config,
            "slapd is not running" + (died if slapd.pid_file else ""),
            "No process of this host was started on this configuration.",
            (f"systemctl status slapd; {log}", "systemctl start slapd"),
            "slapd(8)",
        )
    elif slapd.silence:
        yield Finding(
            Severity.CRITICAL,
            "slapd",
            facts.config,
            f"slapd (process {slapd.pid}) does not answer: {slapd.silence}",
            "It was asked for the root DSE at the URIs of its option -h.",
            (log, f"# what it waits for: gdb -p {slapd.pid} -batch -ex bt"),
            "slapd(8)",
        )
    else:
        what = f"slapd (process {slapd.pid}) runs and answers"
        yield Finding(Severity.OK, "slapd", facts.config, what)
    for suffix, words in slapd.failed:
        yield Finding(
            Severity.CRITICAL,
            "slapd.database",
            suffix,
            f"slapd cannot read the database: {words}",
            "slapd answers, but a search for the entry of the suffix fails.",
            (log,),
            "slapd's log tells LMDB's error",
        )


# --- the map and its readers --------------------------------------------------------------------


@_database_rule
def _room(facts: Facts, database: Database) -> Findings:
    room = database.room
    if room is None:
        return
    share = room.available / room.maxsize if room.maxsize else 0.0
    # Only while a reader lags does the file grow by every transaction.
    seconds = room.available / room.growth if room.growth else float("inf")
    severity = _graded(
        share < AVAILABLE_CRITICAL or seconds < 300.0,
        share < AVAILABLE_WARNING or seconds < 900.0 or database.maxsize < room.used,
    )
    yield Finding(
        severity,
        "maxsize",
        database.suffix,
        _available(database, room, share, seconds),
        "slapd refuses every write (MDB_MAP_FULL) once there are neither unused pages nor free ones that it may use "
        "again. Pages that were freed since the oldest reader began are not among those.",
        () if severity is Severity.OK else tuple(_more_room(facts, database, room)),
        f"{_MDB_5}, maxsize; lmdb.h, MDB_MAP_FULL",
    )


def _available(database: Database, room: Room, share: float, seconds: float) -> str:
    text = (
        f"{units.size(room.available)} of maxsize {units.size(room.maxsize)} are available ({100 * share:.0f} %): "
        f"{units.size(room.unused)} unused, {units.size(room.reusable)} free to be used again"
    )
    if room.held:
        text += f"; {units.size(room.held)} more once the oldest reader ends"
    if room.disk_free < room.maxsize - room.used:
        text += f"; the disk has room for {units.size(room.disk_free)} only"
    if seconds < float("inf"):
        text += f"; full in about {units.duration(seconds)} at the present rate of writes"
    if database.maxsize < room.used:
        text += f"; {units.size(database.maxsize)} are configured, less than what is used, which LMDB maps in any case"
    return text


def _more_room(facts: Facts, database: Database, room: Room) -> Iterator[str]:
    if room.held:
        yield "# end the oldest reader (below): it gives back the pages that it keeps"
    if room.disk_free < room.maxsize - room.used:
        yield f"df -h {shlex.quote(database.directory)}  # make room there"
        return
    wanted = "auto" if room.maxsize < room.used * 3 else f"{2 * room.maxsize >> 20}M"
    yield from facts.tuned("maxsize", "-b", shlex.quote(database.suffix), "--maxsize", wanted)


@_database_rule
def _reader_slots(facts: Facts, database: Database) -> Findings:
    used, slots = database.slots_taken, database.slots
    if used >= 0.90 * slots > 0:
        yield Finding(
            _graded(used >= slots, True),
            "readers.full",
            database.suffix,
            f"{used} of {slots} reader slots are taken by processes that run",
            "Without a free slot slapd answers searches with an error (MDB_READERS_FULL), and no tool can read the "
            "database. maxreaders of the database sets their number when slapd starts, and nobody else has it open.",
            (
                f"fuser -v {shlex.quote(f'{database.directory}/lock.mdb')}  # who reads? end those that are not wanted",
                "# or set a greater olcDbMaxReaders (maxreaders), then: systemctl restart slapd",
            ),
            "lmdb.h, MDB_READERS_FULL",
        )
    dead = [one for one in database.readers if not one.is_alive]
    if dead:
        lag = max(one.lag for one in dead)
        pids = ", ".join(dict.fromkeys(str(one.pid) for one in dead))
        yield Finding(
            # A slot that does not lag keeps no page: a process that is killed now and then leaves one.
            Severity.WARNING if lag else Severity.NOTE,
            "readers.dead",
            database.suffix,
            f"reader slots of processes that are gone ({pids}), the oldest {units.number(lag)} transactions behind",
            "A process that was killed while it read (slapcat, a backup) keeps its slot, and with it every page that "
            "was freed since, until somebody has LMDB look for it. slapd itself only does that when no slot is free.",
            (shlex.join(["ditseed", "doctor", "--config", facts.config, "--fix"]),),
            "lmdb.h, mdb_reader_check",
        )


@_database_rule
def _oldest_reader(_facts: Facts, database: Database) -> Findings:
    room, alive = database.room, [one for one in database.readers if one.is_alive]
    if not alive:
        return
    oldest = max(alive, key=lambda one: one.lag)
    is_much = room is not None and room.held >= 0.10 * room.maxsize
    held = f", keeps {units.size(room.held)} from being used again" if room and room.held else ""
    yield Finding(
        Severity.WARNING if is_much else Severity.OK,
        "readers.oldest",
        database.suffix,
        f"the oldest reader, {oldest.process or 'a process'} (process {oldest.pid}), is "
        f"{units.number(oldest.lag)} transactions behind{held}",
        "LMDB uses no page again that was freed after the oldest reader began, so the file grows by every write "
        "meanwhile.",
        _ended(oldest) if is_much else (),
        "lmdb.h, mdb_reader_check",
    )


def _ended(reader: Reader) -> tuple[str, ...]:
    if reader.process == "slapd":
        return (
            "# a long search of slapd itself; find its connection, and end that client:",
            "ldapsearch -Q -LLL -Y EXTERNAL -H ldapi:/// -b cn=Connections,cn=Monitor monitorConnectionOpsExecuting",
        )
    return (f"ps -fp {reader.pid}  # is it still wanted?", f"kill {reader.pid} || kill -9 {reader.pid}")


# --- what a crash would lose --------------------------------------------------------------------


@_rule
def _leases(facts: Facts) -> Findings:
    for one in facts.leases:
        yield Finding(
            # `replica release` shrinks a session log again, so that one is meant to stay.
            Severity.NOTE if one.kind == "sessionlog" else Severity.WARNING,
            "lease",
            one.database,
            f"{one.kind} at {one.target} is as a run of {one.taken} has set it, which did not put it back",
            "The run was killed, or could not reach the server at its end.",
            (one.undo,),
            "docs/add.md",
        )


@_database_rule
def _sync(facts: Facts, database: Database) -> Findings:
    flags = {flag.lower() for flag in database.env_flags}
    source = f"{_MDB_5}, dbnosync and envflags"
    if database.nosync:
        minutes = (database.checkpoint or "").split()[1:]
        is_flushed = len(minutes) == 1 and minutes[0].isdigit() and int(minutes[0]) > 0
        is_left = any((one.kind, one.database) == ("nosync", database.suffix) for one in facts.leases)
        setter = "left by a run" if is_left else "and no run of ditseed has set it"
        yield Finding(
            _graded("writemap" in flags or not is_flushed, True),
            "sync",
            database.suffix,
            f"nosync{', writemap' if 'writemap' in flags else ''}, "
            f"{f'checkpoint {database.checkpoint}' if is_flushed else 'no checkpoint'}, "
            f"{f'lent for {database.lent}' if database.lent else setter}",
            "A crash of the host can lose what was written last, or damage the whole database. nosync is for a load "
            "that can be done again. Of the checkpoint only the minutes count.",
            facts.tuned("sync", "-b", shlex.quote(database.suffix), "--nosync", "off"),
            source,
        )
    elif "mapasync" in flags:
        yield Finding(
            Severity.WARNING,
            "sync",
            database.suffix,
            "envflags mapasync: commits are flushed when the system likes",
            "A crash of the host can lose what was written last, or damage the database.",
            ("# remove mapasync from olcDbEnvFlags of the database, and restart slapd",),
            source,
        )
    elif "writemap" not in flags:
        yield Finding(Severity.OK, "sync", database.suffix, "commits are synced to the disk")
    if "writemap" in flags:
        yield Finding(
            Severity.NOTE,
            "writemap",
            database.suffix,
            "envflags writemap: slapd writes into its memory map",
            "A stray write of slapd or a module damages the file, and a full disk ends slapd with SIGBUS instead of an "
            "error.",
            ("# remove writemap from olcDbEnvFlags of the database, and restart slapd",),
            source,
        )


# --- slapd's release ----------------------------------------------------------------------------


@_rule
def _release(facts: Facts) -> Findings:
    if facts.release is None:
        return
    name = "slapd {}.{}.{}".format(*facts.release)
    build = f"ditseed build FILE.ldif --config {facts.config}"
    if (2, 6, 11) <= facts.release <= (2, 6, 14):
        yield Finding(
            Severity.NOTE,
            "release.scattered_values",
            name,
            "its slapadd -q damages entries whose values of one attribute do not stand together in the LDIF",
            "An attribute A, then B, then A again: the values of B are added to A, and B is gone. OpenLDAP 2.6.11 to "
            "2.6.14 do this. `ditseed build` does not, and writes the same database.",
            ("# instead of slapadd -q:", build),
            "OpenLDAP, servers/slapd/entry.c; seen with 2.6.14",
        )
    if (2, 5, 0) <= facts.release < (2, 7, 0):
        yield Finding(
            Severity.NOTE,
            "release.continue",
            name,
            "its slapadd -q -c loses good entries beside each bad one",
            "With -q an error (a DN that is there already) gives up the whole batch of up to 500 entries, and -c "
            "goes on after it. Without -q only the bad entry is left out.",
            ("# instead of slapadd -q -c:", f"{build} --max-rejects 100"),
            "seen with 2.5.13 and 2.6.14",
        )


@_database_rule
def _format(facts: Facts, database: Database) -> Findings:
    if facts.release is None or database.format is None:
        return
    readable = 1 if facts.release < (2, 7, 0) else 3
    name = "OpenLDAP {}.{}.{}".format(*facts.release)
    if database.format == readable:
        what = f"data.mdb has data format {database.format}, which {name} reads"
        yield Finding(Severity.OK, "format", database.suffix, what)
        return
    new, old = shlex.quote(database.directory), shlex.quote(f"{database.directory}.old")
    yield Finding(
        Severity.CRITICAL,
        "format",
        database.suffix,
        f"data.mdb has data format {database.format}; {name}, which is installed, reads format {readable}",
        "OpenLDAP 2.4 to 2.6 (LMDB 0.9) read format 1, OpenLDAP 2.7 (LMDB 1.0) reads format 3. slapd does not start "
        "on the other one. ditseed makes the database again in the format of this one.",
        (f"mv {new} {old}", f"ditseed migrate {old} {new} --config {facts.config} -b {shlex.quote(database.suffix)}"),
        "lmdb.h, MDB_VERSION_MISMATCH",
    )


@_database_rule
def _idlexp(_facts: Facts, database: Database) -> Findings:
    if database.idlexp is not None and database.idlexp > 16:
        yield Finding(
            Severity.NOTE,
            "idlexp",
            database.suffix,
            f"idlexp {database.idlexp}: index keys have lists of up to {2**database.idlexp - 1:,} IDs",
            "A slapd that opens this database, or a copy of it, with a smaller idlexp copies such a list past the end "
            "of its buffer. Set the same idlexp on every server that gets a copy; to lower it, make the indexes again.",
            source="OpenLDAP, servers/slapd/back-mdb/idl.c",
        )


# --- what is stored -----------------------------------------------------------------------------


@_database_rule
def _shared_uuids(_facts: Facts, database: Database) -> Findings:
    for uuid, first, other in database.twins:
        yield Finding(
            Severity.WARNING,
            "shared_uuid",
            database.suffix,
            f"{first} and {other} share the entryUUID {uuid}",
            "Replication cannot tell them apart: deleting one of them removes either from a replica. slapadd loads "
            "such entries from LDIF.",
            ("# delete one of them and add it again: slapd gives it an entryUUID of its own",),
            "RFC 4530",
        )


@_database_rule
def _drift(facts: Facts, database: Database) -> Findings:
    drift = database.drift
    if drift is None:
        return
    yield from _differing(facts, database, drift)
    if not (drift.rebuild or drift.unknown or drift.otherwise):
        what = f"its indexes hold what a sample of {drift.entries} entries says"
        if drift.left_out:
            what += f"; not looked at: {_listed(drift.left_out)}"
        yield Finding(Severity.OK, "indexes", database.suffix, what)


def _differing(facts: Facts, database: Database, drift: Drift) -> Findings:
    source = "ditseed verify --verify indexes looks at every entry"
    if drift.rebuild:
        # Of several attributes slapindex may leave some out.
        named = drift.rebuild if len(drift.rebuild) == 1 else ()
        yield Finding(
            Severity.WARNING,
            "indexes",
            database.suffix,
            f"the index of {_listed(drift.rebuild)} lacks or has too many entries",
            "A search by these attributes misses entries, without any error. The configuration was changed while slapd "
            "was stopped, or the load that made the file had another one.",
            facts.slap("slapindex", database, "-q", "-t", *named),
            source,
        )
    if drift.unknown:
        yield Finding(
            Severity.WARNING,
            "schema",
            database.suffix,
            f"the configuration does not know {_listed(drift.unknown)}, which entries have",
            "slapd cannot decode such an entry, or shows it without them.",
            ("# load the schema that defines them into the configuration",),
            source,
        )
    if drift.otherwise:
        yield Finding(
            Severity.WARNING,
            "made_otherwise",
            database.suffix,
            f"made with another configuration: {_listed(drift.otherwise)}",
            "slapd trusts that the file was made with the configuration that it has, and searches may miss entries. "
            "Index tables can be made again, this cannot: it takes LDIF.",
            (
                f"ditseed export {database.directory} -o /srv/export",
                f"ditseed build /srv/export --config {facts.config} -b {database.suffix} --replace",
            ),
            source,
        )


# --- replication --------------------------------------------------------------------------------


@_database_rule
def _replication(_facts: Facts, database: Database) -> Findings:
    source = f"{_CONFIG_5}, olcSyncrepl"
    for one in database.replication:
        if one.refused:
            yield Finding(
                Severity.CRITICAL,
                "replication.refused",
                database.suffix,
                f"the provider refuses the account of olcSyncrepl ({one.refused})",
                "The consumer receives no change until binddn and credentials of olcSyncrepl are those of an account "
                "there.",
                ("# set binddn and credentials in olcSyncrepl of the database, or the password at the provider",),
                source,
            )
        if one.dead:
            others = any(not other.dead for other in database.replication)
            yield Finding(
                Severity.WARNING if others else Severity.CRITICAL,
                "replication.dead",
                database.suffix,
                f"the provider {one.provider} cannot be reached: {one.dead}",
                "The consumer receives no change from it.",
                (f"ldapsearch -x -LLL -H {shlex.quote(one.provider)} -s base -b '' namingContexts",),
                source,
            )
        if one.shown is not None or not (one.dead or one.refused):
            yield _behind(database, one, source)


def lag(one: Replication) -> float | None:
    """Seconds between the provider's newest change and ours, of the server ID that is furthest behind; None where the
    provider shows nothing, infinite where we have seen nothing of a server ID."""
    if one.shown is None:
        return None
    ours, theirs = csn.by_server(one.stored), csn.by_server(one.shown)
    behind = [
        (csn.time(text) - csn.time(ours[sid])).total_seconds() if sid in ours else float("inf")
        for sid, text in theirs.items()
        if text > ours.get(sid, "")
    ]
    return max(behind, default=0.0)


def _behind(database: Database, one: Replication, source: str) -> Finding:
    seconds = lag(one)
    if seconds is None:
        stored = "has no contextCSN" if one.age is None else f"has seen changes until {units.duration(one.age)} ago"
        return Finding(
            Severity.NOTE,
            "replication",
            database.suffix,
            f"a consumer of {one.provider}, which did not show its contextCSN; it {stored}",
            "Whether that is behind depends on whether the provider has changed since.",
            ("ditseed doctor -H PROVIDER -D DN -y FILE",),
            source,
        )
    what = f"is {units.duration(seconds)} behind" if 0 < seconds < float("inf") else "is not behind"
    if seconds == float("inf"):
        what = "has seen no change of one of the server IDs of"
    what = f"{what} {one.provider}, by contextCSN"
    if seconds < BEHIND_WARNING:
        return Finding(Severity.OK, "replication", database.suffix, what, source=source)
    return Finding(
        _graded(seconds >= BEHIND_CRITICAL, True),
        "replication",
        database.suffix,
        what,
        "The consumer does not receive changes, or not as fast as they are made.",
        (
            "# slapd's log says why, with loglevel sync; then:",
            f"ditseed replica verify -H {one.provider} -b {database.suffix} --consumer ldapi:///",
        ),
        source,
    )


@_database_rule
def _ahead(_facts: Facts, database: Database) -> Findings:
    """Nothing if a provider is silent or the database is written to here, for either may have the newer change."""
    consumer = database.replication
    if database.is_multi_provider or not all(one.shown for one in consumer):
        return
    theirs = csn.by_server(text for one in consumer for text in one.shown or ())
    ours = csn.by_server(text for one in consumer for text in one.stored)
    ahead = [sid for sid, text in sorted(ours.items()) if sid in theirs and text > theirs[sid]]
    if ahead:
        names = ", ".join(dict.fromkeys(one.provider for one in consumer))
        yield Finding(
            Severity.CRITICAL,
            "replication.ahead",
            database.suffix,
            f"has newer changes of server ID {', '.join(ahead)} than its provider {names}, by contextCSN",
            "The provider was restored from an older backup. syncprov refuses a consumer that is newer, or the two "
            "stay different.",
            (
                "# is the provider right? then seed this consumer again:",
                "ditseed replica seed --help  # or restore the provider from a newer backup",
            ),
            "slapo-syncprov(5)",
        )


# --- storage, backups, certificates -------------------------------------------------------------


@_rule
def _storage(facts: Facts) -> Findings:
    """What `storage check` calls a warning or worse; once for databases of one volume."""
    seen = set()
    for database in facts.databases:
        for one in database.storage:
            is_bad = one.severity.rank >= Severity.WARNING.rank
            # The rules above know more of these two.
            if is_bad and one not in seen and one.rule not in ("maxsize.used", "nosync"):
                seen.add(one)
                why = f"{one.why} All of it: ditseed storage check {database.directory}".strip()
                yield replace(one, rule=f"storage.{one.rule}", why=why)


@_database_rule
def _kept(_facts: Facts, database: Database) -> Findings:
    if database.kept:
        size = units.size(sum(one.allocated for one in database.kept))
        paths = [str(Path(database.directory) / one.name) for one in database.kept]
        yield Finding(
            Severity.NOTE,
            "kept",
            database.suffix,
            f"old data files that a restore has kept: {len(paths)}, {size} on the disk",
            "`ditseed backup restore --replace` keeps the data file that it replaces, in case it is needed again. "
            "slapd does not use it, and nothing but these commands frees its space.",
            tuple(shlex.join(["rm", "--", path]) for path in paths),
            "docs/backup.md",
        )


@_database_rule
def _backup(facts: Facts, database: Database) -> Findings:
    backup = database.backup
    if backup is None:
        return
    what = f"backup in {backup.repo}: {backup.reason}"
    if backup.status == Status.OK:
        yield Finding(Severity.OK, "backup", database.suffix, what, source="docs/backup.md")
        return
    words = ("--config", facts.config, "-b", database.suffix, "-R", backup.repo)
    yield Finding(
        _graded(backup.status == Status.CRITICAL, True),
        "backup",
        database.suffix,
        what,
        "A database without a usable backup of the last night is one fault from lost.",
        (shlex.join(["ditseed", "backup", "run", *words]),),
        "docs/backup.md",
    )


@_rule
def _tls(facts: Facts) -> Findings:
    if facts.tls:
        yield Finding(
            Severity.CRITICAL,
            "certificate.key",
            facts.config,
            facts.tls,
            "slapd does not start with it, or answers no client that wants TLS.",
            ("# put the files of one certificate into olcTLSCertificateFile and olcTLSCertificateKeyFile",),
            f"{_CONFIG_5}, olcTLSCertificateKeyFile",
        )
    for one in facts.certificates:
        severity = _graded(one.left < 7 * _DAY and not one.is_one_of_many, one.left < 30 * _DAY)
        expiry = f"expires in {one.left / _DAY:.0f} days"
        if one.left <= 0:
            expiry = f"has expired {units.duration(-one.left)} ago"
        is_well = severity is Severity.OK
        yield Finding(
            severity,
            "certificate",
            one.file,
            f"{one.subject or 'certificate'} {expiry}",
            "" if is_well else "Clients, consumers among them, refuse a server with an expired one.",
            ()
            if is_well
            else (f"openssl x509 -noout -text -in {shlex.quote(one.file)}", "# renew it, and restart slapd"),
            f"{_CONFIG_5}, olcTLSCertificateFile",
        )


# --- what the configuration lacks ---------------------------------------------------------------


@_database_rule
def _lacking(facts: Facts, database: Database) -> Findings:
    suffix = shlex.quote(database.suffix)
    if not database.is_maxsize_set:
        yield Finding(
            Severity.WARNING,
            "maxsize.unset",
            database.suffix,
            "maxsize was never set: it is slapd's default of 10 MiB",
            "A few thousand entries fill that, and then slapd refuses every write (MDB_MAP_FULL).",
            facts.tuned("maxsize", "-b", suffix, "--maxsize", "auto"),
            f"{_MDB_5}, maxsize",
        )
    if database.lacking:
        added = [word for index in database.lacking for word in ("--add", shlex.quote(index))]
        yield Finding(
            Severity.WARNING,
            "indexes.sync",
            database.suffix,
            f"the configuration has no index {', no index '.join(database.lacking)}",
            "syncprov searches by entryCSN and syncrepl by entryUUID: without an index slapd looks at every entry for "
            "each such search.",
            facts.tuned("indexes", "-b", suffix, *added),
            "slapo-syncprov(5)",
        )
    if database.is_multi_provider and not facts.has_server_id:
        yield Finding(
            Severity.CRITICAL,
            "server_id",
            database.suffix,
            "olcServerID is not set, and the database is of several providers (olcMultiProvider, olcMirrorMode)",
            "Two providers that both write as server ID 0 take each other's changes for their own, and lose them.",
            ("# give each provider a number of its own, 1 to 4095: olcServerID in cn=config",),
            f"{_CONFIG_5}, olcServerID",
        )
    if "syncprov" in database.overlays and not _is_unlimited(database):
        yield Finding(
            Severity.NOTE,
            "limits",
            database.suffix,
            "neither olcSizeLimit nor olcLimits lets an account read all of it (500 entries by default)",
            "Only the root DN can read all of it: neither a consumer nor `ditseed export` with an account of its "
            "own can. The rule belongs before all others of the database.",
            ("ditseed export -H ldap://HOST -D DN -y FILE -o /srv/export  # its hint has the commands for DN",),
            f"{_CONFIG_5}, olcLimits",
        )


def _is_unlimited(database: Database) -> bool:
    sizes = [f"{key}={none}" for key in ("size", "size.hard") for none in ("unlimited", "-1")]
    sizes.append("size.prtotal=unlimited")
    if any(word in value.lower() for value in database.limits for word in sizes):
        return True
    everybody = database.size_limit.lower().split()
    return not {"unlimited", "-1", *sizes}.isdisjoint(everybody)
