"""Does slapd run and answer, may its account reach its files, and is data.mdb the file of a database?"""

from __future__ import annotations

import errno
import os
import pwd
import shlex
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import closing
from pathlib import Path

from loader import child
from loader.config import Config
from loader.config import Database as Configured
from loader.errors import LoaderError, MdbDamaged, NotLmdb, ToolFailed, UsageProblem
from loader.mdb import free_list, meta, readers
from loader.mdb import look as contents
from loader.operations.doctor.facts import Barred, Database, Facts, Slapd
from loader.operations.storage.findings import Finding, Severity
from loader.server import answering, running
from loader.storage import direct
from loader.storage.timed import Unmeasurable

_SHOWN = 5
_TLS = ("olcTLSCertificateFile", "olcTLSCertificateKeyFile", "olcTLSCACertificateFile")
# One letter for what the account may not do with a file. access(2) knows ACLs and mounts that are read-only.
_TESTS = "! -readable -printf r%p\\0 -o ! -writable -printf w%p\\0 -o -type d ! -executable -printf x%p\\0"


def look(config: Config, suffixes: Sequence[str]) -> Slapd:
    """Raises LoaderError if a slapd may run, and cannot be asked from here."""
    pid = running.slapd_on(config)
    if pid is None:
        hidden = running.unreadable()
        if hidden is not None:
            raise UsageProblem(
                reason=f"the configuration of slapd (process {hidden}) cannot be seen: run it as root"
            )
        left = running.left_pid_file(config)
        return Slapd(pid_file="" if left is None else str(left))
    if running.is_elsewhere(pid):
        raise UsageProblem(
            reason=f"slapd (process {pid}) runs in a network namespace of its own: run it there"
        )
    answers = answering.of(running.uris(pid), suffixes)
    return Slapd(pid, silence=answers.silence, failed=answers.failed)


def account(config: Config, databases: Sequence[Configured]) -> pwd.struct_passwd | None:
    """That of the slapd that runs, else the one that most of its files belong to; None if they are all root's."""
    pid = running.slapd_on(config)
    uid = None if pid is None else running.account_of(pid)
    if uid is None:
        owners = Counter(path.stat().st_uid for path in _own(config, databases) if path.exists())
        uid = max(owners, key=lambda one: (one != 0, owners[one]), default=0)
    try:
        return pwd.getpwuid(uid) if uid else None
    except KeyError:
        raise UsageProblem(reason=f"user ID {uid}, as which slapd runs, has no name here") from None


def _own(config: Config, databases: Sequence[Configured]) -> Iterator[Path]:
    yield config.path
    yield config.path / "cn=config.ldif"
    for one in databases:
        if one.directory is not None:
            yield from (one.directory, *_files(one.directory))


def _files(directory: Path) -> tuple[Path, ...]:
    return (directory / meta.DATA, directory / "lock.mdb")


def barred(config: Config, databases: Sequence[Configured]) -> tuple[Barred, ...]:
    """Files that slapd's account cannot read or write. Raises LoaderError."""
    who = account(config, databases)
    if who is None:
        return ()
    if os.geteuid() not in (0, who.pw_uid):
        raise UsageProblem(reason=f"only root, or {who.pw_name} itself, can tell")
    found: list[Barred] = []
    for one in databases:
        if one.directory is not None and one.directory.is_dir():
            places = (one.directory, *_files(one.directory))
            found += _barred(who, one.suffix, places, "-maxdepth", "0")
    found += _barred(who, "configuration", [config.path])
    tls = [Path(value) for name in _TLS for value in config.values("cn=config", name)]
    found += _barred(who, "TLS", tls, "-maxdepth", "0")
    closed = config.is_directory and any(
        (one.path, one.verb) == (str(config.path), "write") for one in found
    )
    return tuple(one for one in found if one.verb == "read" or _is_written(config, one, closed))


def _is_written(config: Config, one: Barred, closed: bool) -> bool:
    """Does slapd write to it? Not to slapd.conf and TLS files; nor to a slapd.d that is read-only as a whole."""
    if one.subject == "configuration":
        return config.is_directory and not closed
    return one.subject != "TLS"


def _barred(
    who: pwd.struct_passwd, subject: str, places: Sequence[Path], *options: str
) -> Iterator[Barred]:
    there = [path for path in places if path.exists()]
    if not there:
        return
    asked = ["find", "-H", *map(str, there), *options, *_TESTS.split(" ")]
    if os.geteuid() != who.pw_uid:
        ids = (f"--reuid={who.pw_uid}", f"--regid={who.pw_gid}", "--init-groups")
        asked = ["setpriv", *ids, "--pdeathsig=KILL", "--", *asked]
    answer = child.ask(asked)
    said = [os.fsdecode(one) for one in answer.out.split(b"\0") if one]
    if answer.status != 0:
        # find ends with 1 if a directory above keeps the account out, and names the file; so may setpriv, for itself.
        out = [f"r{path}" for path in there if any(f"{path}" in word for word in answer.words)]
        if answer.status != 1 or not (said or out):
            reason = "; ".join(answer.words[-2:])
            raise ToolFailed(tool="find", status=answer.status, reason=reason)
        said = said or out
    for line in said:
        path = Path(line[1:])
        own = path.lstat().st_uid == who.pw_uid
        yield Barred(subject, line[1:], "write" if line[0] == "w" else "read", who.pw_name, own)


def damage(directory: Path, is_opened: bool) -> str:
    """What is wrong with data.mdb, as far as a short look tells; empty: nothing. `is_opened`: tables may be read, which
    clears slots of dead readers. Raises LoaderError, OSError if it cannot be looked at."""
    path = meta.data_file(directory)
    if not directory.is_dir():
        return f"there is no directory {directory}"
    if not path.exists():
        return f"there is no {path}"
    failed = _failed_read(path)
    if failed:
        return failed
    try:
        facts = meta.read_meta(directory)
        lost = facts.used - path.stat().st_size
        if lost > 0:
            # LMDB does not write pages at the end that a transaction took and freed again.
            free = sum(free_list.read(directory)[1].values()) * facts.page_size
            if lost > free or lost % facts.page_size:
                raise MdbDamaged(path=path, reason=f"it was cut: {lost} bytes at its end are gone")
        if is_opened:
            contents.probe(directory)
    except (MdbDamaged, NotLmdb) as error:
        if str(error.facts.get("path", "")).endswith("lock.mdb"):
            raise
        return str(error)
    return ""


def _failed_read(path: Path) -> str:
    """Why the disk does not give the file; empty if it does, or if no direct read of it can be made. Raises OSError if
    the file cannot be opened. On a dead disk slapd goes on from the page cache, where every other look finds the pages,
    too."""
    try:
        with closing(direct.opened(path)) as reader:
            reader.once()
    except (Unmeasurable, LoaderError):
        return ""
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return f"{path}: a read from the disk failed: {error.strerror}"
    return ""


def has_dead_readers(directory: Path) -> bool:
    """Dead ones that keep pages, which --fix shall find; unknown counts as that. Raises nothing: who looks at the
    readers tells why they cannot be seen."""
    try:
        newest = meta.read_meta(directory).txnid
    except (LoaderError, OSError):
        return False  # nor can it be opened
    try:
        slots = readers.slots(directory)
        return any(not one.is_alive and (one.txnid or newest) < newest for one in slots)
    except (LoaderError, OSError):
        return True


def findings(facts: Facts) -> Iterator[Finding]:
    """The causes first, for slapd may not run because of them."""
    for database in facts.databases:
        if database.damage:
            yield _damaged(facts, database)
    for subject in dict.fromkeys(one.subject for one in facts.barred):
        for verb in ("read", "write"):
            those = [one for one in facts.barred if (one.subject, one.verb) == (subject, verb)]
            if those:
                yield _access(subject, verb, those)
    if facts.slapd is not None:
        yield from _process(facts, facts.slapd)


def _process(facts: Facts, one: Slapd) -> Iterator[Finding]:
    if one.pid is None:
        why = (
            f"its pid file {one.pid_file} is still there: it did not stop, it died"
            if one.pid_file
            else ""
        )
        yield Finding(
            Severity.CRITICAL if facts.is_check or one.pid_file else Severity.WARNING,
            "slapd",
            facts.config,
            "slapd is not running" + (f"; {why}" if why else ""),
            "No process of this host was started on this configuration.",
            ("systemctl status slapd; journalctl -u slapd -n 50", "systemctl start slapd"),
            "slapd(8)",
        )
    elif one.silence:
        yield Finding(
            Severity.CRITICAL,
            "slapd",
            facts.config,
            f"slapd (process {one.pid}) does not answer: {one.silence}",
            "It was asked for the root DSE at the URIs of its option -h.",
            ("journalctl -u slapd -n 50", f"# what it waits for: gdb -p {one.pid} -batch -ex bt"),
            "slapd(8)",
        )
    else:
        yield Finding(
            Severity.OK, "slapd", facts.config, f"slapd (process {one.pid}) runs and answers"
        )
    for suffix, words in one.failed:
        yield Finding(
            Severity.CRITICAL,
            "slapd.database",
            suffix,
            f"slapd cannot read the database: {words}",
            "slapd answers, but a search for the entry of the suffix fails.",
            ("journalctl -u slapd -n 50",),
            "slapd's log tells LMDB's error",
        )


def _damaged(facts: Facts, database: Database) -> Finding:
    words = ("--config", facts.config, "-b", database.suffix, "--replace")
    repo = database.backup.repo if database.backup else "REPO"
    restore = shlex.join(["ditseed", "backup", "restore", "latest", "-R", repo, *words])
    return Finding(
        Severity.CRITICAL,
        "data",
        database.suffix,
        database.damage,
        "slapd does not start on such a file, starts with an empty database, or answers with errors. If the volume of "
        "the database is not mounted, mount it; otherwise restore the file.",
        (
            f"findmnt -T {shlex.quote(database.directory)}; ls -l {shlex.quote(database.directory)}",
            "systemctl stop slapd",
            restore,
            "systemctl start slapd",
        ),
        "docs/backup.md",
    )


def _access(subject: str, verb: str, those: Sequence[Barred]) -> Finding:
    account = those[0].account
    names = ", ".join(one.path for one in those[:_SHOWN])
    more = f" and {len(those) - _SHOWN} more" if len(those) > _SHOWN else ""
    mild = subject == "configuration" and verb == "write"
    return Finding(
        Severity.WARNING if mild else Severity.CRITICAL,
        "access",
        subject,
        f"slapd's account {account} cannot {verb} {names}{more}",
        "Its changes of cn=config fail."
        if mild
        else "slapd does not start again. A tool that root ran without `runuser -u` leaves such files.",
        tuple(_mend(subject, account, those)),
        "slapd(8), -u",
    )


def _mend(subject: str, account: str, those: Sequence[Barred]) -> Iterator[str]:
    if subject == "TLS":
        for one in those:
            yield f"setfacl -m u:{account}:r {shlex.quote(one.path)}"
        return
    foreign = [one.path for one in those if not one.is_own]
    own = [one.path for one in those if one.is_own]
    if foreign:
        yield shlex.join(["chown", "-h", f"{account}:", "--", *foreign])
    if own:
        yield shlex.join(["chmod", "u+rwX", "--", *own])
