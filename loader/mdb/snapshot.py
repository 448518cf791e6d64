"""Takes snapshots of databases, protected by a reader slot while the native core reads their pages.

A child process takes the reader slot through py-lmdb, which maps the file. The core reads the pages without mapping.
While the slot is taken, LMDB writes changed pages elsewhere (mdb_page_touch): it reuses a page only if all readers
began after the transaction that freed the page (mdb_find_oldest). The slot of a killed process stays taken until a
process opens the environment, as each child process here does.

`images` takes snapshots of several databases at one moment, for a backup set. An accesslog and its database are two
environments, so no transaction spans both. slapd commits a write first to the database and then to the log, and the log
has the writes in the same order (slapo-accesslog). The log's snapshot is taken first, so the database's snapshot has
every write that is in the log's snapshot. Then the next write is read from the log. If the database's snapshot lacks
that write, both snapshots have the same last write. Otherwise both are taken again."""

from __future__ import annotations

import json
import logging
import os
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from functools import cached_property
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from loader import csn, dn
from loader._native import Contents
from loader.errors import LockUnused, MdbBusy, MdbDamaged, NoCommonMoment
from loader.mdb import isolated, meta
from loader.mdb.environment import LOCK_UNUSED, Environment, Transaction, explained, opened
from loader.storage import files, holders
from loader.storage.held import checked_file

_log = logging.getLogger(__name__)
_IGNORED_LOCK = (MdbBusy, MdbDamaged)  # errors of a reader that may be due to a writer that ignores lock.mdb


class Snapshot(Struct, frozen=True, dict=True):
    """A data file with a reader slot. LMDB overwrites no page of the snapshot of transaction `txn`, nor of later
    snapshots. `page`: the snapshot's meta page; empty if the snapshot is not for a copy."""

    path: Path
    txn: int
    page: bytes = b""

    @cached_property
    def facts(self) -> meta.MetaPage:
        return meta.parse(self.page, str(self.path), alone=True)

    @property
    def head(self) -> bytes:
        """Both meta pages of an uncompacted copy, which are identical: LMDB can start from either."""
        return self.facts.of_copy()

    @contextmanager
    def contents(self) -> Iterator[Contents]:
        """Yields the contents of the snapshot or, if `page` is empty, perhaps of a later snapshot."""
        with meta.explained(self.path):
            yield Contents(self.path, meta=self.page) if self.page else Contents(self.path, txn=self.txn)

    def entries(self) -> int:
        """Returns the number of records in id2e, or 0 if there is no such table."""
        with self.contents() as contents:
            record = contents.tables.get("id2e")
        return record.entries if record else 0


@contextmanager
def protected(env: Path, clears: bool = True) -> Iterator[Snapshot]:
    """Yields the current snapshot of an environment directory, in use or not, or of a data file that no process writes.
    `clears`: first release the slots of dead processes. Raises NotLmdb, MdbProtected, MdbDamaged, NotPermitted,
    ReadersFull, NoSuchPath, LockUnused."""
    txn = meta.read_meta(env).txnid
    if env.is_dir():
        with _slot(env) as take:
            yield take("slot" if clears else "look")
    else:
        with checked_file(env) as path:
            yield Snapshot(path, txn)


@contextmanager
def image(env: Path) -> Iterator[Snapshot]:
    """Like `protected`, but for an environment directory only, and the snapshot can be copied. Also raises MdbBusy."""
    with _slot(env) as take:
        yield take("image")


@contextmanager
def _slot(env: Path) -> Iterator[Callable[[str], Snapshot]]:
    """Starts a child process that takes a reader slot of the environment directory `env`. Yields a function that
    replaces the previous snapshot by the current one. Its argument is "look"; or "slot", to release the slots of dead
    processes first; or "image", to read the meta page, too. Raises LockUnused if a writer does not use lock.mdb."""
    if env.is_dir():
        holders.require_lock_used(env)
    data = meta.data_file(env)
    with isolated.started(_serve_snapshots, env) as child:
        stdin, stdout = child.process.stdin, child.process.stdout
        assert stdin is not None
        assert stdout is not None

        def take(kind: str) -> Snapshot:
            with suppress(BrokenPipeError):  # `finish` reports why the child ended
                stdin.write(kind.encode() + b"\n")
                stdin.flush()
            line = stdout.readline()
            if not line:
                isolated.finish(child, data)
            facts = json.loads(line)
            return Snapshot(path, facts["txn"], bytes.fromhex(facts["page"]))

        def release() -> None:
            stdin.close()
            isolated.finish(child, data)

        try:
            with isolated.afterwards(release, _IGNORED_LOCK), checked_file(data) as path:
                yield take
        finally:  # the child must end: its slot blocks the reuse of pages
            with suppress(BrokenPipeError):
                stdin.close()
            child.process.wait()


@contextmanager
def unlocked(env: Path) -> Iterator[None]:
    """Lets the body read an environment directory without a reader slot. Raises LockUnused before the body if a writer
    ignores lock.mdb, and after the body if the file has changed while no process had lock.mdb locked."""
    holders.require_lock_used(env)
    txnid = meta.read_meta(env).txnid

    def require_unwritten() -> None:
        if meta.read_meta(env).txnid != txnid and holders.locker(env) is None:
            raise LockUnused(path=meta.data_file(env), reason=LOCK_UNUSED)

    with isolated.afterwards(require_unwritten, _IGNORED_LOCK):
        yield


# --- several databases at one moment ---------------------------------------------------------------

PATIENCE = 60.0  # seconds after which NoCommonMoment is raised
_INTERVAL = 0.01  # seconds between two reads of the log
_LOG_DELAY = 5.0  # maximum seconds between the commit of a write and its entry in the log
_SET_CSN = {"add", "modify", "modrdn"}  # values of reqType for operations that set the entry's entryCSN
_WRITES = _SET_CSN | {"delete"}
_READ_ENTRIES = 1000  # log entries per read
_ENTRY_CSN = "entryCSN"


class AccessLog(Struct, frozen=True):
    """`log`: directory of an accesslog. `database`, `suffix`: directory and suffix of the database that it records."""

    log: Path
    database: Path
    suffix: str


@contextmanager
def images(
    directories: Sequence[Path], logs: Sequence[AccessLog] = (), patience: float = PATIENCE
) -> Iterator[list[Snapshot]]:
    """Yields the snapshots of environment directories, in use or not, in their order. Raises NoCommonMoment after
    `patience` seconds, and the errors of `image`."""
    with ExitStack() as stack:
        takes = {env: stack.enter_context(_slot(env)) for env in directories}
        logs_first = dict.fromkeys([*(log.log for log in logs), *takes])
        end = time.monotonic() + patience
        while True:
            snapshots = {env: takes[env]("image") for env in logs_first}
            lagging_log = next((log for log in logs if not _agrees(log, snapshots)), None)
            if lagging_log is None:
                break
            if time.monotonic() > end:
                raise NoCommonMoment(path=lagging_log.log, suffix=lagging_log.suffix, seconds=round(patience))
        for log in logs:
            if not _has_csn_index(snapshots[log.database]):
                text = "%s has no index of entryCSN, so ditseed cannot check that its accesslog has the same last write"
                _log.warning(text, log.suffix)
        yield [snapshots[env] for env in directories]


def _has_csn_index(snapshot: Snapshot) -> bool:
    with snapshot.contents() as contents:
        return _ENTRY_CSN in contents.tables


def _agrees(log: AccessLog, snapshots: dict[Path, Snapshot]) -> bool:
    """Returns whether both snapshots have the same last write. Waits up to `_LOG_DELAY` seconds for a later write."""
    database = snapshots[log.database]
    if not _has_csn_index(database):
        return True
    end = time.monotonic() + (_LOG_DELAY if holders.holder(log.log) is not None else 0.0)
    while (write := _first_write(snapshots[log.log], log.suffix)) is None:
        if time.monotonic() > end:
            return True
        time.sleep(_INTERVAL)
    kind, text = write
    server = csn.server_id(text)
    if kind not in _SET_CSN or server is None:
        return False
    with database.contents() as contents:
        newest_csns = csn.by_server(contents.newest_csns(text))
    return newest_csns.get(server, "") < text


def _first_write(log: Snapshot, suffix: str) -> tuple[str, str] | None:
    """Returns reqType and entryCSN of the first write below `suffix` that was logged after the log's snapshot, or None.
    The entry IDs of a log ascend with time."""
    with log.contents() as contents:
        last_id = contents.last_id()
    with replace(log, page=b"").contents() as contents:
        while entries := contents.first_values(last_id, ["reqType", "reqDN", _ENTRY_CSN], _READ_ENTRIES):
            for _, (kind, name, text) in entries:
                if kind in _WRITES and text and dn.is_below(name, suffix):
                    return kind, text
            last_id = entries[-1][0]
    return None


# --- in the child process ------------------------------------------------------------------------

_TRIES = 10_000  # maximum number of attempts to read a meta page that a busy writer may overwrite


def _serve_snapshots(directory: Path) -> None:
    """Takes a snapshot for each line of stdin, until stdin ends."""
    path = meta.data_file(directory)
    with opened(directory) as environment, explained(path), os.fdopen(os.dup(0), "rb") as lines:
        transaction: Transaction = None
        try:
            for line in lines:
                if transaction is not None:
                    transaction.abort()
                if line != b"look\n":
                    environment.reader_check()
                page = b""
                if line == b"image\n":
                    transaction, page = _begin(environment, path)
                else:
                    transaction = environment.begin()
                isolated.send({"txn": int(transaction.id()), "page": page.hex()})
        finally:
            if transaction is not None:
                transaction.abort()


def _begin(environment: Environment, path: Path) -> tuple[Transaction, bytes]:
    """Returns a read transaction and its meta page, which the second commit after the transaction overwrites. So the
    attempt is repeated if a transaction was committed meanwhile. Raises MdbBusy after `_TRIES` attempts."""
    for _ in range(_TRIES):
        transaction = environment.begin()
        txnid = int(transaction.id())
        with files.reading(path) as file:
            head = os.pread(file.fileno(), meta.HEAD_BYTES, 0)
        size = meta.parse(head, str(path)).page_size
        page = head[txnid % 2 * size :][:size]
        is_last = int(environment.info()["last_txnid"]) == txnid
        if is_last and meta.parse(page, str(path), alone=True).txnid == txnid:
            return transaction, page
        transaction.abort()
    raise MdbBusy(path=path, tries=_TRIES)
