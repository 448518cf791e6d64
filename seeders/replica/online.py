"""Strategy online: adds the entries over LDAP to a running, empty server that cannot be stopped.

The server accepts the entries as if replication delivered them (loader/operations/add/lending.py), so that they keep
the provider's entryUUID and entryCSN. contextCSN is written last. The operator then adds an olcSyncrepl, which fetches
only newer changes. Partial replicas cannot be seeded online, because the filter of that olcSyncrepl is not known."""

from __future__ import annotations

import hashlib
import json
import os
import shlex
from pathlib import Path

from msgspec import Struct, structs

from loader import config as glue
from loader import dn, ldif
from loader.config import Config, Database
from loader.defaults import state_dir
from loader.errors import GlueRefused, LoaderError, ReplicaNotEmpty, UsageProblem
from loader.operations import packaged
from loader.operations.add import STEPS as ADD_STEPS
from loader.operations.add import AddOptions, LoadedDatabase, add, is_still_loaded, lending, loaded_database
from loader.operations.build.steps import claimed_csns
from loader.operations.export import STEPS as EXPORT_STEPS
from loader.operations.tune import opened
from loader.progress import Meter, Progress
from loader.run.log import Report, killpoint, recorded
from loader.run.steps import Run
from loader.server import visibility
from loader.server.session import Session, session
from loader.storage import files
from seeders.replica.catchup import Preflight
from seeders.replica.options import SeedOptions
from seeders.replica.strategies import READING_TAKES, Strategy

_NO_CONTEXT = "Use the output of `ditseed export`, which always has one."
_ONLY_EMPTY = (
    "Stop slapd and give --strategy search --replace to replace the database (only an empty one is seeded online); "
    "`ditseed add --on-exists skip` adds the entries that are missing."
)
_NEXT = (
    "add olcSyncrepl (and olcUpdateRef) to the database, which then fetches what changed since. It must ask for "
    "everything (no filter, attrs ...), because the replica is a whole one"
)


def run_dir_of(uri: str | None, suffix: str | None, run_dir: Path | None) -> Path:
    """Returns --run-dir, or this consumer's run directory in the state directory if the option is not given."""
    key = hashlib.sha256(json.dumps([uri, suffix]).encode()).hexdigest()[:16]
    return run_dir.absolute() if run_dir else state_dir() / "seed" / key


class Online(Strategy):
    takes = READING_TAKES | {"consumer", "source", "nosync"}
    steps = ("preflight", *EXPORT_STEPS, "join", *ADD_STEPS, "claim")
    verb = "replica seed online"
    reads_ldif = True

    def __init__(self, options: SeedOptions) -> None:
        if options.consumer is None:
            raise UsageProblem(reason="--strategy online needs the running consumer: --consumer URI")
        if (options.connection is None) == (not options.source):
            reason = "--strategy online takes the entries either from a provider (-H) or from LDIF (--from)"
            raise UsageProblem(reason=reason)
        super().__init__(options)
        self.server = structs.replace(options.consumer, base=options.suffix)

    @property
    def run_dir(self) -> Path:
        return run_dir_of(self.server.uri, self.server.base, self.options.run_dir)

    @property
    def identity(self) -> dict[str, object]:
        provider = self.options.connection
        return {
            "consumer": self.server.identity(),
            "provider": provider.identity() if provider else None,
            "source": [str(path.absolute()) for path in self.options.source],
        }

    def begins_anew(self, restart: bool) -> bool:
        """Returns True for --restart, or if the server no longer has the database that a finished run loaded. In the
        second case, first checks the consumer, because the caller then discards the finished run."""
        if restart:
            return True
        with recorded(self.run_dir) as catalogue:
            claimed = catalogue.facts_of("claim", _Claimed) if catalogue else None
        if claimed is None or is_still_loaded(self.server, claimed.bound):
            return False
        self.consumer()
        return True

    def begin(self, run: Run, anew: bool) -> None:
        lending.release(self.server, lending.UPDATE_DN)

    def consumer(self) -> tuple[Config, Database]:
        """Returns the consumer's database. Raises an error if it does not exist, is not empty, or is a replica."""
        with opened(self.server) as target:
            config, database = target.config, target.config.database(self.server.base)
            lending.require_free(config, database)
        for part in glue.subordinates(config, database):
            # slapd lets an updatedn write replication-only attributes, but only in the one database it belongs to.
            reason = f"the database of {part.suffix} holds a part of the same tree, which only an offline seed can fill"
            advice = "Stop that server, and use --strategy search or ldif."
            raise GlueRefused(suffix=database.suffix, reason=reason, advice=advice)
        if not dn.key(database.suffix):
            reason = (
                "--strategy online cannot seed a database with the empty suffix: no client can write the entry with "
                "its contextCSN; use --strategy search, ldif or clone"
            )
            raise UsageProblem(reason=reason)
        with session(self.server) as server:
            if server.exists(database.suffix):
                raise _not_empty(server, config.where, database)
            visibility.require_may_add_first_entry(server, config, database)
        return config, database

    def context_csns(self, provider: Session, base: str) -> list[str]:
        """Returns the contextCSN of the base entry, because only this entry of the LDIF has a contextCSN."""
        return provider.context_csns(base)

    def plan(self, suffix: str, progress: Progress) -> Report:
        return {} if self.options.source else super().plan(suffix, progress)

    def run(self, run: Run) -> Report:
        """Runs the steps, each of which can be repeated from its beginning."""
        joined, exported = run.directory / "joined.ldif", run.directory / "export"
        preflight = run.catalogue.facts_of("preflight", Preflight)
        assert preflight is not None
        suffix, source = preflight.suffix, self.options.source or (exported,)

        def claim(_: Meter) -> _Claimed:
            # contextCSN is written last, so that syncrepl never takes a partial load for a complete one.
            killpoint("claim.middle")
            with session(self.server) as server:
                server.replace(suffix, {"contextCSN": [text.encode() for text in csns]})
            return _Claimed(csns, added.added + added.present, loaded_database(self.server, suffix))

        claimed = run.catalogue.facts_of("claim", _Claimed)
        if claimed is None:
            if not self.options.source and not run.catalogue.is_done("join"):
                self.read_provider(self.reading(suffix, exported), run)
            csns = run.do("join", lambda meter: _join(source, joined, suffix, meter), list[str])
            with lending.update_dn_set(self.server, suffix):
                run_dir, nosync = run.directory / "add", self.options.nosync
                adding = AddOptions(self.server, (joined,), nosync=nosync, as_replication=True, run_dir=run_dir)
                added = add(adding, run.progress, dict(run.timeouts))
                claimed = run.do("claim", claim, _Claimed)
        files.remove_tree(exported)
        joined.unlink(missing_ok=True)
        return {"entries": claimed.entries, "context_csns": claimed.context_csns, "next": _NEXT}


def _join(source: tuple[Path, ...], joined: Path, suffix: str, meter: Meter) -> list[str]:
    """Joins the LDIF into one file, and lowers each entryCSN that is newer than the LDIF's contextCSN. Returns the
    contextCSN."""
    with ldif.verified_inputs(source, meter) as paths:
        scan = ldif.scan(paths, meter)
    ldif.require_read(source, scan.entries)
    claimed = claimed_csns(scan, source[0], suffix, write_context=False, advice=_NO_CONTEXT)
    descriptor = os.open(joined, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        with ldif.verified_inputs(source, meter) as paths:
            ldif.join(paths, file.fileno(), meter, claimed, suffix)
        os.fsync(file.fileno())
    return claimed


def _not_empty(server: Session, where: str, database: Database) -> ReplicaNotEmpty:
    """Returns the error for a database with entries. If all are from slapd's package, it says how to delete them."""
    suffix, what, advice = database.suffix, "entries already", _ONLY_EMPTY
    try:
        entries, whole = server.first(suffix, packaged.MOST + 1, ["*", "+"])
    except LoaderError:
        entries, whole = [], False
    parts = [(name, {key: set(values) for key, values in entry.items()}) for name, entry in entries]
    if whole and packaged.is_unchanged(parts):
        what = "the entry that installing slapd made, and none of yours"
        admin = shlex.quote(database.root_dn or "ROOTDN")
        names = " ".join(shlex.quote(name) for name, _ in reversed(parts))
        advice = (
            "Delete it as the root DN of that database, then give the same command again: "
            f"ldapdelete -x -W -D {admin} -H {shlex.quote(server.uri)} {names} "
            "(slapd 2.4 cannot delete the entry of a suffix: stop it, and use --strategy search --replace)"
        )
    return ReplicaNotEmpty(where=where, suffix=suffix, what=what, advice=advice)


class _Claimed(Struct, frozen=True):
    """The result of the last step. `bound`: the identity of the loaded database; None if unknown."""

    context_csns: list[str]
    entries: int
    bound: LoadedDatabase | None
