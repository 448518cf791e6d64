"""The facts that the rules of `doctor` judge: a server of this host and its databases. Each fact is read when a rule
first needs it. If a fact cannot be read, the reason is recorded, and the other rules go on."""

from __future__ import annotations

import errno
import re
import shlex
import time
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from datetime import timezone
from functools import cached_property, partial
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from loader import backmdb, csn, dn, indexes, syncrepl
from loader.config import Config
from loader.config import Database as Configured
from loader.errors import AccountClosed, BadCredentials, LoaderError, MdbDamaged, NotLmdb, UsageProblem, of_system
from loader.mdb import contents, meta, readers
from loader.mdb.readers import Reader, Room
from loader.operations import leases, made_with
from loader.operations.backup import replay
from loader.operations.made_with import Fit
from loader.operations.tune.indexing import slapindex_command
from loader.operations.verify import core_target_of
from loader.progress import Meter
from loader.run import lease
from loader.run.lease import Lease
from loader.server import configuration, questions, tools
from loader.server.options import Connection
from loader.storage import files, holders, probes
from loader.storage.probes import Unmeasurable
from loader.storage.survey import Unseen

Fact = TypeVar("Fact")


class Request(msgspec.Struct, frozen=True):
    """`access`: how to bind to providers; its URI overrides that of olcSyncrepl. `quick`: skip the check of indexes."""

    suffix: str | None = None
    repo: Path | None = None
    access: Connection = Connection()
    quick: bool = False


class Slapd(msgspec.Struct, frozen=True):
    """`pid`: None if slapd is not running. `pid_file`: path of the pid file that a dead slapd left, or "". `silence`:
    why slapd does not answer, or "". `failed`: suffix and error of each database that slapd cannot read."""

    pid: int | None = None
    pid_file: str = ""
    silence: str = ""
    failed: tuple[tuple[str, str], ...] = ()


class Replication(msgspec.Struct, frozen=True):
    """A consumer and one provider. `stored`: contextCSN in the consumer's database. `shown`: contextCSN that the
    provider returned, or None. `age`: seconds since the newest stored change. `dead`: why the provider cannot be
    reached, or "". `refused`: the provider's error if it refuses the account of olcSyncrepl, or ""."""

    provider: str
    stored: tuple[str, ...]
    shown: tuple[str, ...] | None
    age: float | None
    dead: str = ""
    refused: str = ""

    @property
    def lag(self) -> float | None:
        """The consumer's lag in seconds, by CSN; the longest of all server IDs. None if the provider shows no
        contextCSN. Infinite if the consumer lacks one of the server IDs."""
        if self.shown is None:
            return None
        consumer_csns, provider_csns = csn.by_server(self.stored), csn.by_server(self.shown)
        behind = [
            (csn.time(text) - csn.time(consumer_csns[sid])).total_seconds() if sid in consumer_csns else float("inf")
            for sid, text in provider_csns.items()
            if text > consumer_csns.get(sid, "")
        ]
        return max(behind, default=0.0)


class Server:
    """A configuration and the slapd that runs on it. `unseen`: facts that could not be read. `left_out`: facts that
    were not requested; they do not affect the status. Raises LoaderError if the suffix is unknown."""

    def __init__(self, config: Config, request: Request) -> None:
        self.config, self.request = config, request
        self.unseen: list[Unseen] = []
        self.left_out: list[Unseen] = []
        chosen = config.mdb_databases if request.suffix is None else (config.database(request.suffix),)
        self.databases = tuple(Database(self, database) for database in chosen)
        if not chosen:
            self.unseen.append(Unseen("databases", f"{config.where} has no mdb database"))
        if request.repo is None:
            self.left_out.append(Unseen("backups", "give their directory with -R"))
        if request.quick:
            self.left_out.append(Unseen("indexes", "ditseed doctor without --check checks them"))

    @property
    def path(self) -> str:
        return str(self.config.path)

    def read(self, what: str, read: Callable[[], Fact]) -> Fact | None:
        """Returns the result of `read`. If the fact cannot be read, returns None and adds `what` to `unseen`."""
        try:
            return read()
        except LoaderError as error:
            self.unseen.append(Unseen(what, str(error)))
        except OSError as error:
            self.unseen.append(Unseen(what, str(of_system(error, what))))
        return None

    @cached_property
    def release(self) -> tools.Release | None:
        return self.read("release of slapd", tools.require_release)

    @cached_property
    def leases(self) -> tuple[Lease, ...]:
        return tuple(self.read("leases", lease.abandoned) or ())

    @cached_property
    def slapd(self) -> Slapd | None:
        return self.read("whether slapd runs", self._slapd)

    def _slapd(self) -> Slapd:
        pid, reason = tools.slapd_on(self.config), ""
        if pid is not None:
            if tools.has_other_network(pid):
                reason = f"slapd (process {pid}) runs in another network namespace: run ditseed there"
        elif hidden := tools.unreadable_slapd():
            reason = f"the configuration of slapd (process {hidden}) cannot be seen: run ditseed as root"
        elif any(holders.locker(Path(database.directory)) == 0 for database in self.databases):
            reason = "slapd is in another container: run ditseed there, or set shareProcessNamespace in its pod"
        if reason:
            raise UsageProblem(reason=reason)
        if pid is None:
            return Slapd(pid_file=str(tools.stale_pid_file(self.config) or ""))
        answers = questions.answers_of(tools.uris(pid), [database.suffix for database in self.databases])
        return Slapd(pid, silence=answers.silence, failed=answers.failed)

    @cached_property
    def tune_options(self) -> tuple[str, str]:
        """Two parts of a `ditseed tune` command: the options that name this server; --apply, or "" for a slapd.conf."""
        pid = tools.slapd_on(self.config) if self.config.is_directory else None
        if pid is not None:
            return f"-H {shlex.quote(tools.ldapi_uri(pid))} -Y EXTERNAL", "--apply"
        return f"--config {shlex.quote(self.path)}", "--apply" if self.config.is_directory else ""


class Database:
    """A database of the configuration. `name`: type and number in cn=config (`mdb1`)."""

    def __init__(self, server: Server, configured: Configured) -> None:
        self.server, self.configured = server, configured
        self.suffix, self.directory = configured.suffix, str(configured.directory)
        self.name = re.sub(r"^olcDatabase=\{?(\d*)\}?(\w+),.*$", r"\2\1", configured.entry_dn, flags=re.I)

    def read(self, what: str, read: Callable[[], Fact]) -> Fact | None:
        return self.server.read(f"{self.suffix}: {what}", read)

    def read_data(self, what: str, read: Callable[[Path], Fact]) -> Fact | None:
        """Calls `read` with the database directory. Returns None if it fails, or if data.mdb is missing or damaged."""
        return self.read(what, partial(read, self.data)) if self.data else None

    def tune_command(self, verb: str, *words: str) -> str:
        """Returns a `ditseed tune` command for this database."""
        options, apply = self.server.tune_options
        return " ".join(("ditseed tune", verb, options, "-b", shlex.quote(self.suffix), *words, apply)).strip()

    def slapindex(self, *attributes: str) -> tuple[str, ...]:
        """Returns commands that stop slapd, run slapindex as the account that owns the data, and start slapd."""
        command = slapindex_command(self.server.config, self.configured, attributes, "-t")
        owner = files.owner_name(meta.data_file(Path(self.directory)))
        if owner not in ("", "root"):
            command = f"runuser -u {shlex.quote(owner)} -- {command}"
        return ("systemctl stop slapd", command, "systemctl start slapd")

    @cached_property
    def is_multi_provider(self) -> bool:
        entry = self.server.config.reader(self.configured.entry_dn)
        return entry.flag("olcMultiProvider", False) or entry.flag("olcMirrorMode", False)

    @cached_property
    def lacking_indexes(self) -> tuple[str, ...]:
        return tuple(indexes.lacking_for_sync(indexes.parse(self.configured.indexes)))

    @cached_property
    def idlexp(self) -> int | None:
        with suppress(LoaderError):  # `drift` reports the error
            return backmdb.settings(self.server.config, self.configured).idlexp
        return None

    @cached_property
    def limits(self) -> tuple[str, ...]:
        """The values of olcLimits and, last, the olcSizeLimit for accounts without olcLimits ("" if it is not set)."""
        config, entry = self.server.config, self.configured.entry_dn
        sizes = config.reader("cn=config", backmdb.FRONTEND, entry).all("olcSizeLimit")  # the database overrides
        return (*config.values(entry, "olcLimits"), next(reversed(sizes), ""))

    @cached_property
    def nosync_holder(self) -> str:
        """The purpose or owner of a nosync lease in force, such as a running load. "" if there is no lease."""
        active = self.read("leases", lambda: lease.active(leases.identity(self.server.config), "nosync")) or ()
        return next((lent.why or lent.by for lent in active if lent.database == self.suffix), "")

    @cached_property
    def is_replicated(self) -> bool:
        """Whether the database is a provider or a consumer. An accesslog is neither."""
        return not self.is_log and bool(self.configured.consumer or "syncprov" in self.configured.overlays)

    @cached_property
    def is_log(self) -> bool:
        return any(dn.key(log) == dn.key(self.suffix) for _, log, _ in self.server.config.logs)

    @cached_property
    def unreplayable(self) -> list[str]:
        """Why `backup restore --until` refuses the database. Empty if the configuration cannot be interpreted."""
        with suppress(LoaderError):  # `drift` reports the error
            return replay.unreplayable(self.server.config, self.configured)
        return []

    @cached_property
    def data(self) -> Path | None:
        """The database directory. None if data.mdb is missing or damaged."""
        if self.configured.directory is None:
            self.server.unseen.append(Unseen(self.suffix, "the configuration names no olcDbDirectory"))
        return None if self.damage else self.configured.directory

    @cached_property
    def tables(self) -> Path | None:
        """The database directory. None if data.mdb is missing or damaged, or if opening it would clear dead readers."""
        if self.data is not None and self._has_dead_readers:
            why = "opening the database would clear the slots of dead readers; do that first with --fix"
            self.server.unseen.append(Unseen(f"{self.suffix}: tables, indexes, contextCSN", why))
            return None
        return self.data

    @cached_property
    def _has_dead_readers(self) -> bool:
        """Whether reader slots of dead processes prevent the reuse of pages. Then the database must not be opened
        before `seen` has reported the slots, because opening clears them. True if the slots cannot be read."""
        directory = self.configured.directory
        if directory is None or not directory.is_dir():
            return False
        newest = None
        try:
            newest = meta.read_meta(directory).txnid
            return any(not slot.is_alive and (slot.txnid or newest) < newest for slot in readers.slots(directory))
        except (LoaderError, OSError):
            return newest is not None  # if the meta pages are unreadable, LMDB does not open the database

    @cached_property
    def damage(self) -> str:
        """What a short check finds wrong with data.mdb, or ""."""
        directory = self.configured.directory
        if directory is None:
            return ""
        return self.read("data.mdb", lambda: _damage(directory, not self._has_dead_readers)) or ""

    @cached_property
    def seen(self) -> tuple[Room, tuple[Reader, ...]] | None:
        return self.read_data("pages and readers", lambda _: readers.measure(self.configured))

    @cached_property
    def room(self) -> Room | None:
        return self.seen[0] if self.seen else None

    @cached_property
    def readers(self) -> tuple[Reader, ...]:
        return self.seen[1] if self.seen else ()

    @cached_property
    def slots(self) -> tuple[int, int]:
        """The number of reader slots in lock.mdb, and the number of slots of living processes."""
        slots = self.read_data("reader slots", lambda path: (readers.capacity(path), readers.slots(path)))
        return (slots[0], sum(slot.is_alive for slot in slots[1])) if slots else (0, 0)

    @cached_property
    def format(self) -> int | None:
        return self.read_data("data format", lambda directory: meta.read_meta(directory).format)

    @cached_property
    def drift(self) -> Fit | None:
        """How a sample of the entries fits the configured indexes and schema. None if this was not checked."""
        config, database, directory = self.server.config, self.configured, self.tables
        # The indexes are not compared if the installed slapd cannot open the database's data format.
        if self.server.request.quick or directory is None or tools.lmdb_format() not in (None, self.format):
            return None

        def read_fact(directory: Path) -> Fit:
            settings = core_target_of(config, database, directory).settings
            if settings.multival and meta.read_meta(directory).used > made_with.ALL_UP_TO:
                reason = "multival requires a check of every entry: ditseed verify --verify indexes"
                raise UsageProblem(reason=reason)
            return made_with.look(directory, config, database, Meter("indexes"), whole=False)

        return self.read("indexes", partial(read_fact, directory))

    @cached_property
    def replication(self) -> tuple[Replication, ...]:
        directory = self.tables if self.configured.consumer else None
        if directory is None:
            return ()
        stored = self.read("contextCSN", lambda: tuple(contents.context_csns(directory, self.suffix)))
        return () if stored is None else self.read("syncrepl", lambda: tuple(self._providers(stored))) or ()

    def _providers(self, stored: tuple[str, ...]) -> Iterator[Replication]:
        access, keys = self.server.request.access, set[tuple[str, str]]()
        for value in self.server.config.values(self.configured.entry_dn, "olcSyncrepl"):
            parsed = syncrepl.parse(value, self.server.config.where)
            uri, base = access.uri or parsed.provider, parsed.searchbase
            if (uri, base) in keys:
                continue
            keys.add((uri, base))
            login = configuration.provider_of(value, self.server.config.where)
            yield self._provider(login, replace(access, uri=uri, base=base), stored)

    def _provider(self, login: Connection | None, override: Connection, stored: tuple[str, ...]) -> Replication:
        """Reads the provider's contextCSN as `override` (command line) or else as `login` (olcSyncrepl). In any case
        binds as `login`, because replication needs that account."""
        is_explicit = login is None or login.uri != override.uri or bool(override.bind_dn or override.mechanism)
        shown: tuple[str, ...] | None = None
        dead = refused = ""
        for account in ([login] if login else []) + ([override] if is_explicit else []):
            assert account.base is not None
            try:
                with questions.hurried(account) as session:
                    csns = tuple(session.context_csns(account.base))
                    shown = csns if account.uri == override.uri else shown
            except questions.DEAD as error:
                dead = str(error)
            except LoaderError as error:
                if account is login and isinstance(error, BadCredentials | AccountClosed):
                    refused = str(error)
                else:
                    what = f"{self.suffix}: contextCSN of {account.uri} as {account.who}"
                    self.server.unseen.append(Unseen(what, str(error)))
        newest = csn.time(max(stored)).replace(tzinfo=timezone.utc).timestamp() if stored else None
        age = None if newest is None else max(0.0, time.time() - newest)
        return Replication(str(override.uri), stored, shown, age, dead, refused)


def _damage(directory: Path, may_open: bool) -> str:
    """Returns what is wrong with data.mdb, or "". With `may_open`, also reads tables: LMDB then clears dead readers."""
    path = meta.data_file(directory)
    if not directory.is_dir():
        return f"there is no directory {directory}"
    if not path.exists():
        return f"there is no {path}"
    try:  # Direct I/O: slapd and all other checks may read from the page cache although the disk is dead.
        with closing(probes.open_reader(path)) as reader:
            reader.measure()
    except (Unmeasurable, LoaderError):
        pass  # the file system does not support direct I/O
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return f"{path}: a read from the disk failed: {error.strerror}"
    try:
        page = meta.read_meta(directory)
        lost_bytes = page.used - path.stat().st_size
        if lost_bytes > 0:
            # Free pages at the end may be missing: LMDB never writes a page that one transaction allocates and frees.
            free = sum(readers.free_list(directory)[1].values()) * page.page_size
            if lost_bytes > free or lost_bytes % page.page_size:
                raise MdbDamaged(path=path, reason=f"it was cut: {lost_bytes} bytes at its end are gone")
        if may_open:
            contents.probe(directory)
    except (MdbDamaged, NotLmdb) as error:
        if str(error.facts.get("path", "")).endswith("lock.mdb"):
            raise
        return str(error)
    return ""
