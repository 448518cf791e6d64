"""Strategy online: entries go into a running, empty server that cannot be stopped, over LDAP.

The server takes them as replication would bring them (loader/operations/add/shadow.py), so that entryUUID and entryCSN
are the provider's; the contextCSN is written last. Whoever then adds olcSyncrepl to it gets what changed since.
Nothing tells yet what that will ask for, so it is always a whole replica: partial ones are seeded while stopped.
"""

from __future__ import annotations

import dataclasses
import hashlib
import json
import os
import shlex
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from loader import csn, exports, glue, ldif
from loader.config import Config, Database
from loader.defaults import state_dir
from loader.errors import GlueRefused, LoaderError, NoContextCSN, ReplicaNotEmpty, UsageProblem
from loader.operations import empty_suffix, hidden_values, packaged
from loader.operations.add import STEPS as ADD_STEPS
from loader.operations.add import AddOptions, add, shadow
from loader.operations.export import STEPS as EXPORT_STEPS
from loader.operations.export import ExportOptions, export_steps, trial_plan
from loader.operations.tune.target import opened
from loader.progress import Meter, Progress
from loader.run.catalogue import Facts
from loader.run.killpoint import killpoint
from loader.run.steps import Run, open_run
from loader.server import writing
from loader.server.options import Connection
from loader.server.session import Session, session
from loader.storage import files
from seeders.replica import forecast, preparing
from seeders.replica.preparing import Admin

VERB = "replica seed online"
STEPS = ("preflight", *EXPORT_STEPS, "join", *ADD_STEPS, "claim")
_NO_CONTEXT = "Use the output of `ditseed export`, which always has one."
_ONLY_EMPTY = (
    "Stop slapd and give --strategy search --replace to replace the database (only an empty one is seeded online); "
    "`ditseed add --on-exists skip` adds to what is there."
)
_JOINED = "joined.ldif"
_WHOLE = "It must ask for everything (no filter, attrs ...): the replica is a whole one"


@dataclass(frozen=True)
class OnlineOptions:
    """From a provider, or from LDIF or an export directory (`source`), into a running server (`consumer`, its base)."""

    consumer: Connection
    provider: Connection | None = None
    source: tuple[Path, ...] = ()
    run_dir: Path | None = None
    jobs: int = 2
    pieces: int = 0
    page: int = 0
    nosync: bool = False
    allow_hidden: bool = False
    admin: Admin | None = None  # --prepare-provider

    @property
    def directory(self) -> Path:
        """Where the run keeps its state."""
        if self.run_dir is not None:
            return self.run_dir.absolute()
        text = json.dumps([self.consumer.uri, self.consumer.base])
        return state_dir() / "seed" / hashlib.sha256(text.encode()).hexdigest()[:16]

    def identity(self) -> dict[str, object]:
        """What must not change between a run and its resumption."""
        return {
            "consumer": self.consumer.identity(),
            "provider": self.provider.identity() if self.provider else None,
            "source": [str(path.absolute()) for path in self.source],
        }

    def reading(self, output: Path, suffix: str) -> ExportOptions:
        """How the provider is read."""
        assert self.provider is not None, "entries come from LDIF"
        provider = dataclasses.replace(self.provider, base=self.provider.base or suffix)
        return ExportOptions(provider, output, self.jobs, self.pieces, page=self.page)

    def require_fitting(self) -> None:
        if (self.provider is None) == (not self.source):
            raise UsageProblem(
                reason="--strategy online takes the entries from a provider (-H) or from LDIF (--from), one of them"
            )


def seed(
    options: OnlineOptions,
    progress: Progress,
    timeouts: Mapping[str, float],
    restart: bool = False,
) -> Facts:
    """Run or resume; the facts for the report. Once done, it does nothing."""
    options.require_fitting()
    shadow.give_back_standing(options.consumer)
    with open_run(options.directory, VERB, options.identity(), progress, timeouts, restart) as run:
        work = _OnlineSteps(options, run)
        preflight = run.do("preflight", work.preflight)
        known = run.catalogue.found("claim")
        if known is not None:
            return _report(options, {**known, **forecast.told(preflight, known["entries"])})
        exported = work.export(preflight["suffix"])
        joined = run.do("join", lambda meter: work.join(meter, exported, preflight["suffix"]))
        with shadow.update_dn_set(options.consumer, preflight["suffix"]):
            added = add(work.adding(), progress, dict(timeouts))
            facts = {"entries": added["added"] + added["present"], **joined}
            run.do("claim", lambda meter: work.claim(preflight["suffix"], facts))
        files.remove_tree(run.directory / "export")
        work.joined.unlink(missing_ok=True)
        told = {**forecast.told(preflight, facts["entries"]), **run.told_before()}
        return _report(options, {**facts, **told})


def plan(options: OnlineOptions, progress: Progress) -> Facts:
    """The questions that change nothing."""
    options.require_fitting()
    facts = preflight(options, prepare=False)
    if options.provider is not None:
        reading = options.reading(options.directory, facts["suffix"])
        with progress.step("plan") as meter:
            trial_plan(reading, meter)
    return {**facts, "dry_run": "nothing was changed"}


def preflight(options: OnlineOptions, prepare: bool = True) -> Facts:
    """Is the server there, empty, and nobody's replica; does the provider hold the same suffix?"""
    with opened(options.consumer) as target:
        database = target.config.database(options.consumer.base)
        shadow.require_free(target.config, database)
        _require_one(target.config, database)
        config, suffix, where = target.config, database.suffix, target.config.where
        if empty_suffix.is_empty(suffix):
            raise UsageProblem(
                reason="--strategy online cannot seed a database with the empty suffix: its contextCSN stands in an "
                "entry that no client can write; use --strategy search, ldif or clone"
            )
    with session(options.consumer) as server:
        if server.exists(suffix):
            raise _not_empty(server, where, database)
        writing.require_first(server, config, database)
    if options.provider is None:
        for one in options.source:
            if not options.allow_hidden:
                hidden_values.require_whole(one)
        forecast.without_provider()
        return {"suffix": suffix}
    with session(options.provider) as provider:
        provider.read(options.provider.base or suffix, ["1.1"])
        if not options.allow_hidden:
            hidden_values.require_all_visible(
                provider, options.provider.base or suffix, own=database.overlays
            )
        csns = provider.context_csns(suffix)
    if options.admin and prepare:
        preparing.prepare(options.admin, suffix)
        with session(options.provider) as provider:
            csns = provider.context_csns(suffix)
    found = forecast.forecast(options.provider, suffix, csns, config)
    return {"suffix": suffix, "context_csns": csns, **found}


def _not_empty(server: Session, where: str, database: Database) -> ReplicaNotEmpty:
    """With what the package of slapd leaves there told from data that somebody may need."""
    suffix = database.suffix
    try:
        entries, whole = server.first(suffix, packaged.MOST + 1, ["*", "+"])
    except LoaderError:
        entries, whole = [], False
    found = [(name, {key: set(values) for key, values in one.items()}) for name, one in entries]
    if not (whole and packaged.is_all(found)):
        return ReplicaNotEmpty(
            where=where, suffix=suffix, what="entries already", advice=_ONLY_EMPTY
        )
    admin = shlex.quote(database.root_dn or "ROOTDN")
    names = " ".join(shlex.quote(name) for name, _ in reversed(found))
    advice = (
        "Delete it as the root DN of that database, then give the same command again: "
        f"ldapdelete -x -W -D {admin} -H {shlex.quote(server.uri)} {names} "
        "(slapd 2.4 cannot delete the entry of a suffix: stop it, and use --strategy search --replace)"
    )
    what = "the entry that installing slapd made, and none of yours"
    return ReplicaNotEmpty(where=where, suffix=suffix, what=what, advice=advice)


def _require_one(config: Config, database: Database) -> None:
    """slapd lets the updatedn of one database write what only replication may, and only into that one."""
    for one in glue.subordinates(config, database):
        reason = f"the database of {one.suffix} holds a part of the same tree, which only an offline seed can fill"
        advice = "Stop that server, and use --strategy search or ldif."
        raise GlueRefused(suffix=database.suffix, reason=reason, advice=advice)


def _report(options: OnlineOptions, facts: Facts) -> Facts:
    advice = (
        "add olcSyncrepl (and olcUpdateRef) to the database; it fetches what changed since. "
        + _WHOLE
    )
    return {**facts, "next": advice, "run_dir": str(options.directory)}


@dataclass(frozen=True)
class _OnlineSteps:
    """The steps' bodies. Each can be done again from its beginning."""

    options: OnlineOptions
    run: Run

    @property
    def joined(self) -> Path:
        return self.run.directory / _JOINED

    def preflight(self, meter: Meter) -> Facts:
        return preflight(self.options)

    def export(self, suffix: str) -> tuple[Path, ...]:
        """The provider's entries as LDIF; the LDIF that is there already."""
        if self.options.provider is None:
            return self.options.source
        where = self.run.directory / "export"
        if self.run.catalogue.found("join") is None:
            where.mkdir(exist_ok=True)
            export_steps(self.options.reading(where, suffix), self.run)
        if not self.options.allow_hidden:
            hidden_values.require_whole(where)
        return (where,)

    def join(self, meter: Meter, source: tuple[Path, ...], suffix: str) -> Facts:
        """One file, in which nothing is newer than the contextCSN that the replica will claim."""
        with exports.held(source, meter) as paths:
            scan = ldif.scan(paths, meter)
        exports.require_entries(source, scan.entries)
        claimed = sorted(csn.by_server(scan.context_csns).values())
        if not claimed:
            raise NoContextCSN(where=source[0], suffix=suffix, advice=_NO_CONTEXT)
        opener = os.open(self.joined, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        with os.fdopen(opener, "wb") as file:
            with exports.held(source, meter) as paths:
                ldif.join(paths, file.fileno(), meter, claimed, suffix)
            os.fsync(file.fileno())
        return {"context_csns": claimed}

    def adding(self) -> AddOptions:
        return AddOptions(
            self.options.consumer,
            (self.joined,),
            nosync=self.options.nosync,
            as_replication=True,
            run_dir=self.run.directory / "add",
        )

    def claim(self, suffix: str, facts: Facts) -> Facts:
        """The contextCSN last: without it no syncrepl takes a part for the whole."""
        killpoint("claim.middle")
        with session(self.options.consumer) as server:
            server.replace(suffix, {"contextCSN": [one.encode() for one in facts["context_csns"]]})
        return facts
