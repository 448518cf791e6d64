"""Entries of a backup as LDIF that ldapadd takes: a subtree, or what a filter matches."""

from __future__ import annotations

import logging
import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import ldif, overlays, resources, schema, standard
from loader.age import Identities
from loader.child import Child
from loader.errors import LoaderError, NoEntry, UsageProblem
from loader.mdb import meta
from loader.operations.add import PROTECTED
from loader.operations.backup import configured, encryption, repository
from loader.operations.backup.contents import Contents
from loader.operations.backup.manifest import Backup
from loader.operations.backup.repository import Bring, Which, there
from loader.progress import Meter, Progress
from loader.server import account, compiled_schema, configuration, private, tools
from loader.sources import mdb
from loader.sources.mdb import Part
from loader.storage import files, temporary
from loader.storage.files import Owner

log = logging.getLogger(__name__)

# Of slapo-ppolicy and slapo-lastbind: NO-USER-MODIFICATION.
_OF_OVERLAYS = (
    *("pwdchangedtime", "pwdaccountlockedtime", "pwdfailuretime", "pwdhistory", "pwdgraceusetime"),
    *("pwdlastsuccess", "pwdaccounttmplockoutend", "authtimestamp"),
)


@dataclass(frozen=True)
class ExtractOptions:
    """`dn`: with all below it. `where`: an LDAP filter; one of the two.
    config_path: for a filter and a backup without a configuration. identities: files of keys."""

    repo: Path
    which: Which
    suffix: str | None = None
    dn: str | None = None
    where: str | None = None
    keep_operational: bool = False
    config_path: Path | None = None
    scratch: Path | None = None
    identities: tuple[Path, ...] = ()


def extract(options: ExtractOptions, progress: Progress, bring: Bring = there) -> int:
    """Write them to standard output; how many. Raises NoEntry, NoSuchBackup, BackupDamaged."""
    if (options.dn is None) == (options.where is None):
        raise UsageProblem(reason="say which entries: --dn DN, or --filter FILTER")
    descriptor = standard.output("LDIF", readable=True)
    with files.explained(options.repo):
        backup = repository.find(options.repo, options.which, options.suffix)
        identities = encryption.unlocked(options.repo, backup, options.identities)
        bring(backup)
    top = options.scratch or Path(configuration.tools_tmpdir() or tempfile.gettempdir())
    files.require_space(top, backup.room)
    with temporary.directory("extract", top) as place, files.explained(top):
        data = place / "data"
        data.mkdir(mode=0o700)
        contents = Contents(options.repo, backup, identities, options.config_path)
        contents.put(data / meta.DATA, progress)
        with tempfile.TemporaryFile(dir=top) as made:
            with (
                progress.step("extract") as meter,
                _read(options, backup, place, identities, meter) as source,
            ):
                target = Path(f"/proc/self/fd/{made.fileno()}")
                # The meter counts entries where they are read; this is one more pass over the same.
                found = ldif.shard(
                    source, target, _left_out(options, backup, identities), Meter("copy"), backup.id
                )
            if not found.entries:
                raise _missing(options, backup)
            made.seek(0)
            with os.fdopen(descriptor, "wb", closefd=False) as out:
                shutil.copyfileobj(made, out)
    return found.entries


def _missing(options: ExtractOptions, backup: Backup) -> NoEntry:
    """In words of the repository: where the backup was unpacked is gone by then."""
    return NoEntry(path=options.repo / backup.id, dn=options.where or options.dn)


def _left_out(options: ExtractOptions, backup: Backup, identities: Identities | None) -> list[str]:
    """What a server takes from no client."""
    if options.keep_operational:
        return []
    known = {*PROTECTED, *_OF_OVERLAYS, *map(str.lower, overlays.COMPUTED)}
    return sorted(known | _protected(options, backup, identities))


def _protected(options: ExtractOptions, backup: Backup, identities: Identities | None) -> set[str]:
    """By the schema of the configuration and of the modules that it loads, such as memberOf of slapo-memberof. Without
    either, the entries are of use as well."""
    if options.config_path is None and not backup.with_config:
        return set()
    try:
        found = configured.of(options.repo, backup, options.config_path, identities)
        return set(schema.protected(schema.definitions(found, compiled_schema.of_modules(found))))
    except LoaderError as error:
        log.warning("not known which attributes of modules no client may set: %s", error)
        return set()


@contextmanager
def _read(
    options: ExtractOptions,
    backup: Backup,
    place: Path,
    identities: Identities | None,
    meter: Meter,
) -> Iterator[int]:
    """A descriptor that gives the LDIF."""
    if options.where is not None:
        with _filtered(options, backup, place, identities, meter) as source:
            yield source
        return
    with tempfile.TemporaryFile(dir=place) as file:
        part = Part(place / "data", options.dn)
        try:
            mdb.stream(part, file.fileno(), False, resources.processors(), meter)
        except NoEntry as error:
            raise _missing(options, backup) from error
        file.seek(0)
        yield file.fileno()


@contextmanager
def _filtered(
    options: ExtractOptions,
    backup: Backup,
    place: Path,
    identities: Identities | None,
    meter: Meter,
) -> Iterator[int]:
    """slapcat knows every filter that slapd does; of -s it dies in 2.5.13, so the whole tree is searched. It writes
    entries in the order of their IDs, so after a rename to a newer parent a child comes before that."""
    found = configured.of(options.repo, backup, options.config_path, identities)
    database = found.database(backup.suffix)
    owner = account.of_directories([database.directory] if database.directory else [])
    settings = {"olcDbDirectory": [bytes(place / "data")]}
    words = ["-o", "ldif-wrap=no", "-b", backup.suffix, "-a", options.where or ""]
    with private.configured(found, database, place, settings) as home:
        account.change_owner(owner, place)
        owned = owner or Owner(0, 0)
        command = tools.server_tool_as(owned.uid, owned.gid, "slapcat", "-F", str(home), *words)
        top = place.parent
        with tempfile.TemporaryFile(dir=top) as told, tempfile.TemporaryFile(dir=top) as file:
            with Child(command, stdout=told) as child:
                child.check()
            told.seek(0)
            target = Path(f"/proc/self/fd/{file.fileno()}")
            ldif.parents_first(told.fileno(), target, top, meter, backup.id)
            yield file.fileno()
