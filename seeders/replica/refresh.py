"""`replica refresh`: applies the provider's changes and deletions to the database of a stopped consumer.

The provider gets the same search as from slapd's own consumer (RFC 4533), with the database's contextCSN as cookie. The
answer and the new contextCSN are written in one transaction. So a database that was seeded long ago is only minutes old
when its slapd starts. Deletions are applied even if the provider has no session log."""

from __future__ import annotations

import re
import shlex
import time
import uuid
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

import msgspec

from loader import backmdb, config, csn, defaults, dn, errors, syncrepl
from loader.mdb import contents, meta
from loader.operations import live, made_with
from loader.operations.build import target_database
from loader.operations.publish import TargetDatabase
from loader.operations.verify import core_database_of, core_target_of
from loader.progress import Meter, Progress
from loader.run.log import Counted, Report, killpoint, recorded, report_of
from loader.run.steps import Run, open_run
from loader.server import questions, sync, wire
from loader.server.options import Connection, Search
from loader.server.session import first_value, session
from loader.sinks import changing
from loader.sinks.mdb import Resources
from loader.sources import ldap as source
from loader.storage import files
from seeders.replica.options import RefreshOptions

VERB = "replica refresh"
RUN_DIR = ".ditseed-refresh"  # in the database directory
STEPS = ("preflight", "sync", "apply", "check")
_ANEW = "Seed the replica anew (ditseed replica seed --replace)."
_START = "Start slapd."
MOST = 2  # if more than 1/MOST of the entries have changed, RefreshUseless is raised, because a new seeding is faster
LEAST = 1000  # with this number of changed entries or fewer, the run continues, whatever their share is
_FILES = CHANGED, PRESENT, DELETED = "changed.ldif", "present.uuids", "deleted.uuids"
_SCRATCH = "sort"
LOOKS = 50  # maximum passes; if containers still change then, the tree is being reorganized, and TreeRestless is raised


class Start(msgspec.Struct, frozen=True, omit_defaults=True):
    """Facts of the preflight. `base`: the suffix as the provider spells it. `reached`: contextCSN of the database.
    `context_csns`: contextCSN of the provider. `held`: number of entries in the database. `attributes`: those to
    request from the provider. `started`: Unix time."""

    base: str
    reached: list[str]
    context_csns: list[str]
    held: int
    attributes: list[str]
    started: float = 0.0


class Synced(msgspec.Struct, frozen=True):
    """Summary of the provider's answer. `sent`: number of changed entries. `present`, `named_deleted`: numbers of
    entryUUIDs of unchanged and of deleted entries. `names_present`: the answer has a present phase, so entries that it
    does not name are deleted. `claimed`: the contextCSN in the provider's cookie."""

    sent: int
    present: int
    named_deleted: int
    names_present: bool
    claimed: list[str]


def refresh(
    options: RefreshOptions, progress: Progress, timeouts: Mapping[str, float], restart: bool = False
) -> Report:
    """Runs a refresh, or resumes an unfinished one. Returns the facts for the report."""
    place = _refreshable(options)
    run_dir = options.run_dir.absolute() if options.run_dir else place.directory / RUN_DIR
    with recorded(run_dir) as catalogue:
        anew = restart or catalogue is None or catalogue.is_done("check")
    identity = {
        "config": str(options.config_path.absolute()),
        "suffix": options.suffix,
        "provider": options.connection.identity(),
    }
    with open_run(run_dir, VERB, identity, progress, timeouts, anew) as run:
        start = run.do("preflight", lambda meter: preflight(options, place, time.time()), Start)
        work = RefreshSteps(options, run, place, start)
        work.require_same()
        synced = run.do("sync", work.sync, Synced)
        applied = run.do("apply", lambda meter: work.apply(meter, synced), Report)
        checked = run.do("check", lambda meter: work.check(synced), Counted)
        work.clear()
        facts = {
            "context_csns": synced.claimed,
            "since": start.reached,
            "sent": synced.sent,
            "present": synced.present,
            "seconds": round(sum(step.seconds for step in run.catalogue.steps()), 3),
        }
        return report_of(facts, applied, checked, {"run_dir": str(run_dir)})


def plan(options: RefreshOptions) -> Report:
    """Runs the preflight only, and changes nothing. Returns its facts."""
    return report_of(preflight(options, _refreshable(options)), {"dry_run": "nothing was changed"})


def _refreshable(options: RefreshOptions) -> TargetDatabase:
    """Returns the database. Raises RefreshRefused, PartialReplica or another error if a slapd is running on the
    database, or if the database is a partial replica or one of several databases of a replica."""
    place = target_database(options.config_path, options.suffix, replace=True)
    if not place.data.exists():
        raise _refused(place, "there is no database yet", _ANEW)
    place.require_free()
    if meta.read_meta(place.directory).format != 1:
        raise _refused(place, "its file has the data format of LMDB 1.0", _START)
    if backmdb.has_subentry(place.config, place.database):
        raise _refused(place, "sync_use_subentry keeps contextCSN in another entry", _START)
    for part in config.subordinates(place.config, place.database):
        raise _refused(place, f"the database of {part.suffix} is glued to it", _START)
    if config.is_subordinate(place.config, place.database):
        raise _refused(place, "it is glued to another one", _START)
    consumer = syncrepl.of_database(place.config, place.database, options.connection.uri)
    if consumer and (narrow := consumer.narrowing(place.database.suffix)):
        reason = "a partial replica is not refreshed offline"
        advice = "Start slapd: its own refresh brings the rest."
        facts = {"config": options.config_path, "rid": consumer.rid, "options": ", ".join(narrow)}
        raise errors.PartialReplica(**facts, reason=reason, advice=advice)
    return place


def _refused(place: TargetDatabase, reason: str, advice: str) -> errors.RefreshRefused:
    return errors.RefreshRefused(path=place.directory, reason=reason, advice=advice)


def preflight(options: RefreshOptions, place: TargetDatabase, started: float = 0.0) -> Start:
    """Reads the contextCSN of the database and of the provider. Raises RefreshRefused if the provider lacks changes
    that the database has, and other errors if the database or the tree does not permit a refresh."""
    suffix, directory = place.database.suffix, place.directory
    try:
        core_database_of(place.config, place.database, directory)
    except errors.IndexesUnknown as error:
        raise _refused(place, str(error.facts["reason"]), _START) from error

    # A sample of the entries must be stored and indexed as the configuration requires.
    fit = made_with.look(directory, place.config, place.database, Meter("look"), whole=False)
    fit.require(place.data, place.config, _ANEW)
    if fit.rebuild:
        where = ["-F" if place.config.is_directory else "-f", str(options.config_path)]
        # If several attributes are named, slapindex may skip some of them. Without names it rebuilds all indexes.
        named = fit.rebuild if len(fit.rebuild) == 1 else ()
        # -t empties each index first, so that no keys of the old index settings remain.
        command = ["slapindex", "-t", *where, "-b", suffix, *named]
        reason = f"entries are missing in the index of {', '.join(fit.rebuild)}, which was configured later"
        advice = f"Run {shlex.join(command)} as slapd's account, then the same command again; or start slapd."
        raise _refused(place, reason, advice)

    reached = contents.context_csns(directory, suffix)
    if not reached:
        raise errors.NoContextCSN(where=directory, suffix=suffix, advice=_ANEW, commands=())
    with session(options.connection) as provider:
        base = provider.stored_dn(suffix)
        csns = live.context_csns(provider, base) or provider.context_csns(base)
        if not csn.is_covered_by(csn.by_server(reached), csn.by_server(csns)):
            reason = f"the provider ({', '.join(csns)}) is behind the database ({', '.join(reached)})"
            raise _refused(place, reason, "Give the provider from which it was filled.")
        if provider.offers_subentries(base) and provider.find(base, "(objectClass=*)", subentries=True):
            raise _refused(place, "the provider holds subentries (RFC 3672)", _ANEW)
        attributes = questions.everything(provider)
    return Start(base, reached, csns, contents.entry_count(directory), list(attributes), started)


class RefreshSteps(msgspec.Struct, frozen=True):
    """The bodies of the steps. Each step can be repeated from its beginning."""

    options: RefreshOptions
    run: Run
    place: TargetDatabase
    start: Start

    @property
    def provider(self) -> Connection:
        return self.options.connection

    def _path(self, name: str) -> Path:
        return self.run.directory / name

    def require_same(self) -> None:
        """Raises RunMismatch if another program changed the database's contextCSN since this run began."""
        synced = self.run.catalogue.facts_of("sync", Synced)
        is_applied = self.run.catalogue.is_done("apply") or (synced is not None and self._is_applied(synced))
        if not is_applied and self._context_csns() != self.start.reached:
            raise errors.RunMismatch(path=self.run.directory, differences="the database's contextCSN")

    def _context_csns(self) -> list[str]:
        return contents.context_csns(self.place.directory, self.place.database.suffix)

    def _is_applied(self, synced: Synced) -> bool:
        """Returns whether the transaction was committed. A killed run may have committed it without recording that."""
        return self._context_csns() == synced.claimed != self.start.reached

    def sync(self, meter: Meter) -> Synced:
        """Searches the provider once. First removes the files of an earlier attempt, which had an older answer."""
        self.clear()
        most = max(LEAST, self.start.held // MOST)
        search = Search(self.start.base, attributes=tuple(self.start.attributes))
        paths = self._path(CHANGED), self._path(PRESENT), self._path(DELETED)
        cookie = sync.cookie_of(self.start.reached).encode()
        with wire.reading(self.provider, meter, search.base) as (channel, _):
            answer = channel.sync(search, cookie, most, paths, source.DROPPED)
        killpoint("sync.middle")
        if answer.cut:
            raise errors.RefreshUseless(uri=self.provider.uri, sent=answer.entries, held=self.start.held)
        if answer.repeated:  # entryUUIDs sent twice: two entries share one, or an entry was changed or moved meanwhile
            with session(self.provider) as provider:
                live.require_unshared(provider, search.base, answer.repeated, subentries=False)
        claimed = self.start.reached
        if answer.cookie:
            csns = re.search(r"(?:^|,)csn=([^,]*)", answer.cookie.decode())
            claimed = contents.ordered(csn.by_server(csns[1].split(";") if csns else ()).values())
        return Synced(answer.entries, answer.present, answer.deleted, answer.names_present, claimed)

    def apply(self, meter: Meter, synced: Synced) -> Report:
        """Applies the answer in one transaction, after ChangedContainers has found no more changed container. Raises
        TreeRestless if entries cannot be applied after LOOKS passes."""
        if self._is_applied(synced):
            return {"applied": "before the run was interrupted"}
        if synced.claimed == self.start.reached and not synced.sent:
            return {"added": 0, "modified": 0, "renamed": 0, "deleted": 0}
        place, scratch, containers = self.place, self._path(_SCRATCH), ChangedContainers(self, synced, meter)
        memory = Resources(defaults.sorting_memory(), defaults.processors(), scratch)
        spec = core_target_of(place.config, place.database, place.directory)
        started = time.strftime("%Y%m%d%H%M%SZ", time.gmtime(self.start.started))

        def require_all_visible() -> None:  # takes long, so `changing.refresh` runs it in parallel
            if not self.options.allow_hidden:
                with session(self.provider) as provider:
                    live.require_all_visible(provider, self.start.base, own=place.database.overlays)

        containers.settle()
        for _ in range(LOOKS):
            result = changing.SyncResult(
                changed=[self._path(CHANGED), *containers.files],
                present=self._path(PRESENT) if synced.names_present else None,
                deleted=[self._path(DELETED)],
                lost=sorted(containers.lost),
                reached=self.start.reached,
                claimed=synced.claimed,
            )
            with files.workspace(scratch):
                killpoint("apply.middle")
                changes = changing.refresh(place.directory, spec, result, started, memory, require_all_visible, meter)
            counts, unsettled = changes
            if not unsettled:
                return dict(counts)
            if containers.look_up(unsettled):
                containers.settle()
        raise errors.TreeRestless(base=self.start.base, passes=LOOKS)

    def check(self, synced: Synced) -> Counted:
        """Raises MdbDamaged if the database lacks the new contextCSN, or if dn2i has a wrong number of records. dn2i
        must have one record for the root, and two for each entry in id2e."""
        now, claimed = self._context_csns(), synced.claimed
        if now != claimed:
            raise errors.MdbDamaged(path=self.place.data, reason=f"its contextCSN is {now}, not {claimed}")
        entries, nodes = contents.row_counts(self.place.directory, ("id2e", "dn2i"))
        if nodes != 2 * entries + 1:
            raise errors.MdbDamaged(path=self.place.data, reason=f"{entries} entries, but {nodes} records in dn2i")
        return Counted(entries)

    def clear(self) -> None:
        """Removes the files of this run."""
        for path in (*self.run.directory.glob("again-*"), *map(self._path, _FILES)):
            path.unlink(missing_ok=True)
        files.remove_tree(self._path(_SCRATCH))


class ChangedContainers(msgspec.Struct):
    """Reads changed entries again if a container above them moves during a refresh. The provider sends each changed
    entry with its DN at that moment. If a container is renamed meanwhile, the answer mixes old and new DNs. So the
    changed entries below each changed container are read again, until a pass finds no changed container.

    `files`: LDIF of the entries that were read again, oldest first. `lost`: entryUUIDs of entries that were deleted or
    changed after the claimed contextCSN. They are left out, because syncrepl will deliver these changes."""

    steps: RefreshSteps
    synced: Synced
    meter: Meter
    files: list[Path] = []
    lost: set[bytes] = set()
    _since: Sequence[str] = ()

    def settle(self) -> None:
        """Reads the entries below changed containers again, until a pass finds no changed container. Raises
        TreeRestless if containers still change after LOOKS passes."""
        provider, base = self.steps.provider, self.steps.start.base
        since, look = self._since or self.synced.claimed, self.steps.run.directory / "again-look.ldif"
        for _ in range(LOOKS):
            with session(provider) as server:
                now = live.context_csns(server, base)
            tops: list[str] = []
            if now != list(since):
                moved = live.changed_containers(provider, Search(base), (since, now), look, self.meter)
                # The suffix is left out: it cannot be renamed, and the whole tree is below it.
                tops = live.topmost([name for name in moved if dn.key(name) != dn.key(base)])
            for top in tops:
                with suppress(errors.NoSuchBase):  # the container moved once more; the next pass finds it
                    self._read(Search(top, live.newer(self.steps.start.reached, now)))
            since = self._since = now
            if not tops:
                return
        raise errors.TreeRestless(base=base, passes=LOOKS)

    def _read(self, search: Search) -> None:
        path = self.steps.run.directory / f"again-{len(self.files):05}.ldif"
        source.fetch(self.steps.provider, search, path, self.meter)
        self.files.append(path)

    def look_up(self, unsettled: Sequence[bytes]) -> bool:
        """Looks up entries (`unsettled`: their entryUUIDs) that could not be applied because their parent is missing or
        another entry has their DN. Adds an entry to `lost` if it is gone, or if it changed after the claimed contextCSN
        and has no subordinates. Reads the other entries again, with all their superior entries. Returns whether any
        entry was read again."""
        self.lost.difference_update(unsettled)
        base, claimed, has_read = self.steps.start.base, csn.by_server(self.synced.claimed), False
        attributes = ("entryUUID", "entryCSN", "hasSubordinates")
        for at in range(0, len(unsettled), live.AT_ONCE):
            uuids = unsettled[at : at + live.AT_ONCE]
            with session(self.steps.provider) as server:
                existing = server.find(base, live.with_uuids(uuids), attributes)
            needed = {
                uuid.UUID(first_value(entry, "entryuuid")).bytes: name
                for name, entry in existing
                if first_value(entry, "hassubordinates") == "TRUE"
                or csn.is_covered_by(csn.by_server([first_value(entry, "entrycsn")]), claimed)
            }
            self.lost.update(set(uuids) - needed.keys())
            if not needed:
                continue
            superiors: set[str] = set()
            for name in needed.values():
                parent = dn.parent(name)
                while parent and dn.key(parent) != dn.key(base) and parent not in superiors:
                    superiors.add(parent)
                    parent = dn.parent(parent)
            for name in sorted(superiors):
                with suppress(errors.NoSuchBase):
                    self._read(Search(name, scope="base"))
            self._read(Search(base, live.with_uuids(needed)))
            has_read = True
        return has_read
