"""Gathers the facts of `doctor`. What cannot be looked at is named with its reason; everything else is looked at."""

from __future__ import annotations

import errno
import os
import pwd
import re
import shlex
import ssl
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import replace as changed
from datetime import timezone
from functools import partial
from pathlib import Path
from typing import TypeVar

import msgspec
from msgspec.structs import replace

from loader import backmdb, child, csn, dn, syncrepl
from loader import config as glue
from loader import indexes as configured_indexes
from loader.config import DEFAULT_MAXSIZE, Config
from loader.config import Database as Configured
from loader.errors import (
    AccountClosed,
    BadCredentials,
    LoaderError,
    MdbDamaged,
    NoSuchPath,
    NotLmdb,
    ToolFailed,
    UsageProblem,
    of_system,
)
from loader.mdb import contents, meta, readers, verify
from loader.operations import leases, made_with, room
from loader.operations.backup import check as backup_check
from loader.operations.doctor.facts import Backup, Barred, Certificate, Database, Drift, Facts, Kept, Replication, Slapd
from loader.operations.publish import REPLACED
from loader.operations.storage import check as storage_check
from loader.operations.verify import given_to_core
from loader.progress import Meter
from loader.run import lease
from loader.server import configuration, questions, tools
from loader.server.options import Connection
from loader.storage import files, probes
from loader.storage.probes import Unmeasurable
from loader.storage.survey import Unseen

_PLACES = ("/etc/ldap", "/etc/openldap", "/usr/local/etc/openldap", "/opt/ldap/etc/openldap")
USUAL = tuple(Path(place) / name for name in ("slapd.d", "slapd.conf") for place in _PLACES)
Fact = TypeVar("Fact")


class Request(msgspec.Struct, frozen=True):
    """`access`: how to ask providers; without a URI the one of syncrepl. `quick`: without the sample of the indexes."""

    suffix: str | None = None
    repo: Path | None = None
    access: Connection = Connection()
    quick: bool = False


class Looker:
    """Looks, and keeps two lists: what could not be looked at; and what was left out, which changes no status."""

    def __init__(self) -> None:
        self.unseen: list[Unseen] = []
        self.left_out: list[Unseen] = []

    def missed(self, what: str, why: str) -> None:
        self.unseen.append(Unseen(what, why))

    def at(self, what: str, look: Callable[[], Fact]) -> Fact | None:
        try:
            return look()
        except LoaderError as error:
            self.missed(what, str(error))
        except OSError as error:
            self.missed(what, str(of_system(error, what)))
        return None


def usual_place() -> Path:
    """Where OpenLDAP's and the distributions' packages have the configuration. Raises NoSuchPath."""
    place = next((path for path in USUAL if path.exists()), None)
    if place is None:
        raise NoSuchPath(path=f"{USUAL[0]} (say --config)")
    return place


def facts(place: Path, request: Request) -> Facts:
    """Raises LoaderError if the configuration cannot be read, or has no such database."""
    looker, config = Looker(), configuration.read(place)
    suffix = request.suffix
    chosen = config.mdb_databases if suffix is None else (config.database(suffix),)
    if not chosen:
        looker.missed("databases", f"{config.where} has no mdb database")
    if request.repo is None:
        looker.left_out.append(Unseen("backups", "give -R, the directory that holds them"))
    if request.quick:
        looker.left_out.append(Unseen("indexes", "ditseed doctor without --check looks at them"))
    suffixes = [one.suffix for one in chosen]
    reach = "whether slapd may reach its files"
    return Facts(
        config=str(place),
        server=_server(config),
        by_hand=not config.is_directory,
        databases=tuple(_database(config, one, request, looker) for one in chosen),
        release=_release(looker),
        leases=tuple(looker.at("leases", lease.left) or ()),
        certificates=tuple(_certificates(config, looker)),
        tls=looker.at("key and certificate", lambda: _unusable_pair(config)) or "",
        slapd=looker.at("whether slapd runs", lambda: _slapd(config, suffixes)),
        barred=looker.at(reach, lambda: _barred(config, chosen)) or (),
        has_server_id=bool(config.values("cn=config", "olcServerID")),
        is_check=request.quick,
        unseen=tuple(looker.unseen),
        left_out=tuple(looker.left_out),
    )


def _release(looker: Looker) -> tools.Release | None:
    before = len(looker.unseen)
    release = looker.at("release of slapd", tools.release)
    if release is None and len(looker.unseen) == before:
        looker.missed("release of slapd", "slapd is not installed here, or does not say")
    return release


def _server(config: Config) -> str:
    """The options of `ditseed tune` that name this server."""
    pid = tools.slapd_on(config)
    if pid is not None and config.is_directory:
        return f"-H {shlex.quote(tools.ldapi_uri(pid))} -Y EXTERNAL"
    return f"--config {shlex.quote(str(config.path))}"


# --- a database ---------------------------------------------------------------------------------


def _database(config: Config, one: Configured, request: Request, looker: Looker) -> Database:
    database = _configured(config, one, request, looker)
    directory, suffix = one.directory, one.suffix
    if directory is None:
        looker.missed(suffix, "the configuration names no olcDbDirectory")
        return database
    has_dead = directory.is_dir() and _has_dead_readers(directory)
    damage = looker.at(f"{suffix}: data.mdb", lambda: _damage(directory, not has_dead))
    if damage:
        return replace(database, damage=damage)
    seen = looker.at(f"{suffix}: pages and readers", lambda: room.look(one))
    slots = looker.at(f"{suffix}: reader slots", lambda: _slots(directory)) or (0, 0)
    if has_dead:
        why = "to open the database clears the slots of dead readers, which --fix does first"
        looker.missed(f"{suffix}: tables, indexes, contextCSN", why)
    data_format = looker.at(f"{suffix}: data format", lambda: meta.read_meta(directory).format)
    is_sampled = not has_dead and not request.quick
    # slapd opens no file of another format, so what it would store there is no measure for the indexes.
    has_drift = is_sampled and tools.lmdb_format() in (None, data_format)
    drift = looker.at(f"{suffix}: indexes", lambda: _drift(config, one)) if has_drift else None
    report = looker.at(f"{suffix}: storage", lambda: storage_check.check_database(one, config.path))
    # In a container nobody can make tune2fs or lvs see the device, so a check would be UNKNOWN for ever.
    for unseen in report.situation.unseen if report else ():
        if unseen not in looker.left_out:
            looker.left_out.append(unseen)
    is_consumer = bool(one.consumer) and not has_dead
    return replace(
        database,
        slots=slots[0],
        slots_taken=slots[1],
        owner=meta.owner_of(meta.data_file(directory)),
        format=data_format,
        room=seen[0] if seen else None,
        readers=seen[1] if seen else (),
        storage=report.findings if report else (),
        kept=looker.at(f"{suffix}: old data files", lambda: _kept(directory)) or (),
        drift=drift,
        twins=_twins(one, directory, looker) if is_sampled else (),
        replication=_replication(config, one, directory, request.access, looker) if is_consumer else (),
    )


def _configured(config: Config, one: Configured, request: Request, looker: Looker) -> Database:
    """What the configuration, the leases and the backups say of a database."""
    own = config.reader(one.entry_dn)
    is_log = any(dn.key(log) == dn.key(one.suffix) for _, log in config.logs)
    is_replicated = not is_log and (one.consumer or "syncprov" in one.overlays)
    repo = request.repo
    frontend_first = config.reader("cn=config", backmdb.FRONTEND, one.entry_dn)
    return Database(
        name=re.sub(r"^olcDatabase=\{?(\d*)\}?(\w+),.*$", r"\2\1", one.entry_dn, flags=re.I),
        suffix=one.suffix,
        directory=str(one.directory),
        maxsize=one.maxsize,
        nosync=one.nosync,
        env_flags=one.env_flags,
        checkpoint=one.checkpoint,
        overlays=tuple(one.overlays),
        limits=config.values(one.entry_dn, "olcLimits"),
        size_limit=next(reversed(frontend_first.all("olcSizeLimit")), ""),
        idlexp=_idlexp(config, one),
        is_glued=bool(glue.subordinates(config, one)),
        lent=looker.at("leases", lambda: _nosync_holder(config, one.suffix)) or "",
        backup=looker.at(f"{one.suffix}: backups", lambda: _backup(repo, one.suffix)) if repo else None,
        is_maxsize_set=one.maxsize != DEFAULT_MAXSIZE,
        is_multi_provider=own.flag("olcMultiProvider", False) or own.flag("olcMirrorMode", False),
        lacking=tuple(_lacking_indexes(one)) if is_replicated else (),
    )


def _lacking_indexes(one: Configured) -> list[str]:
    return configured_indexes.lacking_for_sync(configured_indexes.parse(one.indexes))


def _nosync_holder(config: Config, suffix: str) -> str:
    """Who has nosync as a lease that lasts, such as a load that runs; empty: nobody."""
    lasting = lease.lasting(leases.identity(config), "nosync")
    return next((one.why or one.by for one in lasting if one.database == suffix), "")


def _idlexp(config: Config, one: Configured) -> int | None:
    try:
        return backmdb.settings(config, one).idlexp
    except LoaderError:
        return None  # _drift reports why


def _backup(repo: Path, suffix: str) -> Backup:
    """What `backup check` says, with the age that it allows. Raises LoaderError, OSError if it cannot know anything."""
    result = backup_check.judged(repo, backup_check.Limits(26 * 3600.0), suffix)
    return Backup(str(repo), int(result.status), result.reason)


def _kept(directory: Path) -> tuple[Kept, ...]:
    """Data files that a restore has kept, the oldest first."""
    name = re.compile(re.escape(REPLACED) + r"\d{8}T\d{6}Z(-\d+)?", re.ASCII)
    paths = sorted(path for path in directory.iterdir() if name.fullmatch(path.name))
    return tuple(Kept(path.name, 512 * path.lstat().st_blocks) for path in paths)


def _slots(directory: Path) -> tuple[int, int]:
    """How many reader slots lock.mdb has, and how many of them living processes have."""
    return readers.capacity(directory), sum(one.is_alive for one in readers.slots(directory))


def _has_dead_readers(directory: Path) -> bool:
    """Do dead ones keep pages? They are for --fix to find. True if nobody knows; room reports why."""
    try:
        newest = meta.read_meta(directory).txnid
    except (LoaderError, OSError):
        return False  # nor can it be opened
    try:
        slots = readers.slots(directory)
        return any(not one.is_alive and (one.txnid or newest) < newest for one in slots)
    except (LoaderError, OSError):
        return True


def _damage(directory: Path, is_opened: bool) -> str:
    """What is wrong with data.mdb, as far as a short look tells; empty: nothing. `is_opened`: tables may be read, which
    clears slots of dead readers. Raises LoaderError, OSError if it cannot be looked at."""
    path = meta.data_file(directory)
    if not directory.is_dir():
        return f"there is no directory {directory}"
    if not path.exists():
        return f"there is no {path}"
    failure = _read_failure(path)
    if failure:
        return failure
    try:
        page = meta.read_meta(directory)
        lost = page.used - path.stat().st_size
        if lost > 0:
            # LMDB does not write pages at the end that a transaction took and freed again.
            free = sum(readers.free_list(directory)[1].values()) * page.page_size
            if lost > free or lost % page.page_size:
                raise MdbDamaged(path=path, reason=f"it was cut: {lost} bytes at its end are gone")
        if is_opened:
            contents.probe(directory)
    except (MdbDamaged, NotLmdb) as error:
        if str(error.facts.get("path", "")).endswith("lock.mdb"):
            raise
        return str(error)
    return ""


def _read_failure(path: Path) -> str:
    """Why the disk does not give the file; empty if it does, or if no direct read of it can be made. On a dead disk
    slapd goes on from the page cache, where every other look finds the pages, too."""
    try:
        with closing(probes.opened(path)) as reader:
            reader.once()
    except (Unmeasurable, LoaderError):
        return ""
    except OSError as error:
        if error.errno != errno.EIO:
            raise
        return f"{path}: a read from the disk failed: {error.strerror}"
    return ""


def _drift(config: Config, one: Configured) -> Drift:
    """Raises LoaderError: NotProven if the native core does not know what the configuration makes."""
    assert one.directory is not None
    settings = given_to_core(config, one, one.directory).settings
    if settings.multival and meta.read_meta(one.directory).used > made_with.ALL_UP_TO:
        verify_all = "ditseed verify --verify indexes looks at every entry"
        raise UsageProblem(reason=f"multival takes a look at every entry: {verify_all}")
    found = made_with.look(one.directory, config, one, Meter("indexes"), whole=False)
    rebuild = tuple(name for name in found.rebuild if name not in found.left_out)
    return Drift(found.entries, rebuild, found.unknown, found.otherwise, found.left_out)


def _twins(one: Configured, directory: Path, looker: Looker) -> tuple[tuple[str, str, str], ...]:
    """Entries that share an entryUUID. Without its index, that would take a look at each entry."""
    if "entryUUID eq" in _lacking_indexes(one):
        return ()
    look = partial(verify.shared_uuids, directory, verify.Resources(), Meter("entryUUIDs"))
    return tuple(looker.at(f"{one.suffix}: entryUUIDs", look) or ())


# --- replication --------------------------------------------------------------------------------


def _replication(
    config: Config, one: Configured, directory: Path, access: Connection, looker: Looker
) -> tuple[Replication, ...]:
    """One for each provider."""
    stored = looker.at(f"{one.suffix}: contextCSN", lambda: tuple(contents.context_csns(directory, one.suffix)))
    if stored is None:
        return ()

    def ask() -> Iterator[Replication]:
        asked: set[tuple[str, str]] = set()
        for value in config.values(one.entry_dn, "olcSyncrepl"):
            parsed = syncrepl.parse(value, config.where)
            uri = access.uri or parsed.provider
            if (uri, parsed.searchbase) not in asked:
                asked.add((uri, parsed.searchbase))
                given = changed(access, uri=uri, base=parsed.searchbase)
                yield _provider(_own_account(parsed, value), given, stored, one.suffix, looker)

    return looker.at(f"{one.suffix}: syncrepl", lambda: tuple(ask())) or ()


def _provider(
    own: Connection | None, given: Connection, stored: tuple[str, ...], suffix: str, looker: Looker
) -> Replication:
    """Asks a provider as the account of the command line (`given`), else as that of olcSyncrepl (`own`, if that binds
    with a password); in any case whether it takes the latter."""
    is_given = own is None or own.uri != given.uri or bool(given.bind_dn or given.mechanism)
    shown: tuple[str, ...] | None = None
    dead = refused = ""
    for one in ([own] if own else []) + ([given] if is_given else []):
        assert one.base is not None
        try:
            with questions.hurried(one) as server:
                csns = tuple(server.context_csns(one.base))
        except questions.DEAD as error:
            dead = str(error)
        except LoaderError as error:
            if one is own and isinstance(error, BadCredentials | AccountClosed):
                refused = str(error)
            else:
                looker.missed(f"{suffix}: contextCSN of {one.uri} as {one.who}", str(error))
        else:
            shown = csns if one.uri == given.uri else shown
    newest = max(stored, default=None)
    age = None
    if newest is not None:
        written = csn.time(newest).replace(tzinfo=timezone.utc).timestamp()
        age = max(0.0, time.time() - written)
    return Replication(str(given.uri), stored, shown, age, dead, refused)


def _own_account(one: syncrepl.Syncrepl, value: str) -> Connection | None:
    account = syncrepl.account(value)
    if account is None:
        return None
    return Connection(
        uri=one.provider,
        bind_dn=account.dn,
        password=account.password,
        start_tls=2 if account.start_tls else 0,  # else the password would go out in clear
        base=one.searchbase,
    )


# --- TLS ----------------------------------------------------------------------------------------


def _tls_files(config: Config, *kinds: str) -> list[Path]:
    """`kinds`: Certificate, CertificateKey, CACertificate."""
    names = [f"olcTLS{kind}File" for kind in kinds]
    return [Path(value) for name in names for value in config.values("cn=config", name)]


def _certificates(config: Config, looker: Looker) -> Iterator[Certificate]:
    for path in _tls_files(config, "Certificate", "CACertificate"):
        yield from looker.at(f"certificates of {path}", partial(_certificates_of, path)) or ()


def _certificates_of(path: Path) -> tuple[Certificate, ...]:
    pem = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.DOTALL)
    blocks = pem.findall(files.read(path))[:20]  # a distribution's bundle of CAs is its own matter
    if not blocks:
        raise UsageProblem(reason=f"{path} has no certificate in PEM form")
    return tuple(_certificate(path, block, len(blocks) > 1) for block in blocks)


def _certificate(path: Path, pem: bytes, is_one_of_many: bool) -> Certificate:
    command = ["openssl", "x509", "-noout", "-subject", "-enddate", "-nameopt", "RFC2253"]
    answer = child.ask(command, stdin=pem)
    lines = answer.out.decode("utf-8", "replace").splitlines()
    fields = dict(line.partition("=")[::2] for line in lines)
    try:
        expires = ssl.cert_time_to_seconds(fields["notAfter"])
    except (KeyError, ValueError):
        reason = "; ".join(answer.words[-2:]) or "no date"
        raise ToolFailed(tool="openssl", status=answer.status, reason=f"{path}: {reason}") from None
    subject = fields.get("subject", "").strip()
    return Certificate(str(path), subject, expires - time.time(), is_one_of_many)


def _unusable_pair(config: Config) -> str:
    """Why slapd cannot use its certificate; empty if it can, or has none."""
    pair = _tls_files(config, "Certificate", "CertificateKey")
    for path in (*pair, *_tls_files(config, "CACertificate")):
        if not path.exists():
            return f"there is no {path}"
    if len(pair) != 2:
        return ""
    certificate, key = pair
    # A key with a passphrase, which slapd cannot use either, is answered as one that is none.
    own = _public_key(certificate, "x509", "-noout", "-pubkey")
    if own != _public_key(key, "pkey", "-pubout", "-passin", "pass:"):
        return f"the key {key} is not that of the certificate {certificate}"
    return ""


def _public_key(path: Path, *arguments: str) -> bytes:
    answer = child.ask(["openssl", *arguments], stdin=files.read(path))
    if answer.status != 0:
        reason = f"{path}: {'; '.join(answer.words[-2:])}"
        raise ToolFailed(tool="openssl", status=answer.status, reason=reason)
    return answer.out


# --- slapd and its account ----------------------------------------------------------------------


def _slapd(config: Config, suffixes: Sequence[str]) -> Slapd:
    """Raises UsageProblem if a slapd may run, and cannot be asked from here."""
    pid = tools.slapd_on(config)
    if pid is None:
        hidden = tools.unreadable()
        if hidden is not None:
            raise UsageProblem(reason=f"the configuration of slapd (process {hidden}) cannot be seen: run it as root")
        pid_file = tools.left_pid_file(config)
        return Slapd(pid_file="" if pid_file is None else str(pid_file))
    if tools.is_elsewhere(pid):
        raise UsageProblem(reason=f"slapd (process {pid}) runs in a network namespace of its own: run it there")
    answers = questions.of(tools.uris(pid), suffixes)
    return Slapd(pid, silence=answers.silence, failed=answers.failed)


def _account(config: Config, databases: Sequence[Configured]) -> pwd.struct_passwd | None:
    """The account of the slapd that runs, else the one that most of its files belong to; None if that is root."""
    pid = tools.slapd_on(config)
    uid = None if pid is None else tools.account_of(pid)
    if uid is None:
        own = [config.path, config.path / "cn=config.ldif"]
        own += [path for one in databases for path in _files(one)]
        owners = Counter(path.stat().st_uid for path in own if path.exists())
        uid = max(owners, key=lambda one: (one != 0, owners[one]), default=0)
    try:
        return pwd.getpwuid(uid) if uid else None
    except KeyError:
        raise UsageProblem(reason=f"user ID {uid}, as which slapd runs, has no name here") from None


def _files(database: Configured) -> tuple[Path, ...]:
    directory = database.directory
    if directory is None:
        return ()
    return (directory, directory / meta.DATA, directory / "lock.mdb")


def _barred(config: Config, databases: Sequence[Configured]) -> tuple[Barred, ...]:
    """Files that slapd's account cannot read or write, but should."""
    account = _account(config, databases)
    if account is None:
        return ()
    if os.geteuid() not in (0, account.pw_uid):
        raise UsageProblem(reason=f"only root, or {account.pw_name} itself, can tell")
    itself = ("-maxdepth", "0")
    barred: list[Barred] = []
    for one in databases:
        if one.directory is not None and one.directory.is_dir():
            barred += _barred_of(account, one.suffix, _files(one), *itself)
    own = list(_barred_of(account, "configuration", [config.path]))
    # slapd writes neither to slapd.conf nor to a slapd.d that is read-only as a whole, nor to TLS files.
    is_closed = (str(config.path), "write") in [(one.path, one.verb) for one in own]
    if is_closed or not config.is_directory:
        own = [one for one in own if one.verb == "read"]
    tls = _tls_files(config, "Certificate", "CertificateKey", "CACertificate")
    of_tls = _barred_of(account, "TLS", tls, *itself)
    return (*barred, *own, *(one for one in of_tls if one.verb == "read"))


def _barred_of(account: pwd.struct_passwd, subject: str, places: Sequence[Path], *options: str) -> Iterator[Barred]:
    """Has find(1) test the files as the account, because access(2) knows ACLs and read-only mounts."""
    present = [path for path in places if path.exists()]
    if not present:
        return
    # One letter in front of each path for what the account may not do with it.
    tests = "! -readable -printf r%p\\0 -o ! -writable -printf w%p\\0 -o -type d ! -executable -printf x%p\\0"
    command = ["find", "-H", *map(str, present), *options, *tests.split(" ")]
    if os.geteuid() != account.pw_uid:
        ids = (f"--reuid={account.pw_uid}", f"--regid={account.pw_gid}", "--init-groups")
        command = ["setpriv", *ids, "--pdeathsig=KILL", "--", *command]
    answer = child.ask(command)
    lines = [os.fsdecode(one) for one in answer.out.split(b"\0") if one]
    if answer.status != 0:
        # find ends with 1 if a directory above keeps the account out, and names the file; so may setpriv, for itself.
        out = [f"r{path}" for path in present if any(f"{path}" in word for word in answer.words)]
        if answer.status != 1 or not (lines or out):
            reason = "; ".join(answer.words[-2:])
            raise ToolFailed(tool="find", status=answer.status, reason=reason)
        lines = lines or out
    for line in lines:
        path, verb = line[1:], "write" if line[0] == "w" else "read"
        is_own = Path(path).lstat().st_uid == account.pw_uid
        yield Barred(subject, path, verb, account.pw_name, is_own)
