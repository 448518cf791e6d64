"""Stores the new entries of an accesslog since the last run (`backup log`), and reads them back for `restore --until`.

Each run adds a segment: LDIF of the log entries in the order of their IDs, then a JSON file. LDIF without its JSON file
is ignored. Runs take no lock. Segments may overlap: the replay skips a log entry whose entryUUID it has already met.
"""

from __future__ import annotations

import datetime
import itertools
import logging
import os
import secrets
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from msgspec import Struct
from msgspec.structs import replace

from loader import age, csn, dn, plain
from loader.mdb import contents
from loader.mdb.contents import Contents
from loader.operations.backup import manifest, pack, replay, repository
from loader.operations.backup.manifest import LOG, SEGMENT, SEGMENT_TIME, Backup, Segment
from loader.operations.backup.options import LogOptions, Moment, Packing
from loader.operations.backup.repository import Repository
from loader.operations.backup.run import store_entries
from loader.progress import Meter, Progress
from loader.run.log import killpoint
from loader.server import configuration
from loader.sources.mdb import Part
from loader.storage import files, held
from loader.typed import Unfit

log = logging.getLogger(__name__)
_ROWS = 10_000  # log entries per read
_FORMER = 100  # segments among which a run looks for the last one of its log: other hosts may store segments here, too
_UUID = "entryUUID"


class LogReport(Struct, frozen=True):
    """The result of a run. `segment` is None if the log had no new entry. `behind`: seconds since the log was read;
    changes since then are not stored. `gap`: whether entries after the previous segment were purged before this run."""

    segment: str | None
    entries: int
    newest: str
    behind: float
    gap: bool


def run(options: LogOptions, progress: Progress) -> LogReport:
    """Stores the new entries of the log. Raises NoRepository, LogUnsuitable, NoSpace, RemoteFailed, and the errors of
    reading a database."""
    repo, when = repository.of(options.repo), datetime.datetime.now(datetime.timezone.utc)
    if not os.path.lexists(repo.path / repository.MARKER):
        raise repository.no_repository(plain.with_operator_names(repo.path))
    configured = configuration.read(options.config_path)
    database = configured.database(options.suffix)
    log_database = configured.database(replay.log_suffix(configured, database))
    for reason in replay.unreplayable(configured, database):
        log.warning("%s cannot be replayed: %s (`ditseed doctor` names what to set)", log_database.suffix, reason)
    directory = log_database.require_directory(options.config_path)
    names = _names(repo, database.suffix)
    with contents.reading(directory) as stored:
        segment = _news(repo, names, stored, Segment(when.isoformat(), database.suffix, log_database.suffix))
    gap, name = bool(names and segment.entries and segment.follows is None), None
    if segment.entries:
        if gap:
            text = "%s: changes since the last run were purged, so no restore can replay them: take a backup now, and "
            text += "set olcAccessLogPurge to more than the time between two runs"
            log.warning(text, log_database.suffix)
        name = _new_name(names, when, database.suffix)
        with files.explained(repo.path), progress.step("log") as meter:
            _store(repo, name, Part(directory, after=segment.after), options.packing, segment, meter)
    behind = (datetime.datetime.now(datetime.timezone.utc) - when).total_seconds()
    return LogReport(name, segment.entries, max(segment.reached, default=""), round(behind, 3), gap)


def _news(repo: Repository, names: Sequence[str], stored: Contents, segment: Segment) -> Segment:
    """Completes `segment`: the log entries after the previous segment of this log, or the whole log if the last entry
    of that segment is gone, because a restarted slapd reuses IDs that follow the last remaining entry."""
    suffix_id = contents.suffix_id(stored, segment.log) or 0
    log_uuid = next((value.decode() for value in stored.values(suffix_id, _UUID) or ()), "")
    purged = _purged(stored, segment.log)
    after, follows = 0, None
    for name in itertools.islice(reversed(names), _FORMER):
        former = _read(repo, name, segment.suffix)
        if former is not None and former.log_uuid == log_uuid:
            reached = csn.by_server(former.reached)
            rows = stored.first_values(former.last_id - 1, [_UUID], 1)
            is_there = rows == [(former.last_id, [former.last_uuid])]
            if (is_there or purged) and csn.is_covered_by(purged, reached):
                follows, after = reached, former.last_id if is_there else 0
            break
    count, last_id, last_uuid, newest = 0, after, "", dict[str, str]()
    while rows := stored.first_values(last_id, [_UUID, contents.ENTRY], _ROWS):
        count, (last_id, (last_uuid, _)) = count + len(rows), rows[-1]
        newest = csn.by_server([*newest.values(), *(text for _, (_, text) in rows)])
    return replace(
        segment,
        log_uuid=log_uuid,
        entries=count,
        after=after,
        last_id=last_id,
        last_uuid=last_uuid,
        reached=_merged(purged if follows is None else follows, newest),
        follows=None if follows is None else _merged(follows),
    )


def _purged(stored: Contents, suffix: str) -> dict[str, str]:
    """Maps each server ID to the newest CSN purged from the log: minCSN of the suffix entry, which slapd 2.4 lacks."""
    values = stored.values(contents.suffix_id(stored, suffix) or 0, "minCSN") or ()
    return csn.by_server(value.decode("ascii", "replace") for value in values)


def _merged(*csns: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(contents.ordered(csn.by_server(text for each in csns for text in each.values()).values()))


def _store(repo: Repository, name: str, part: Part, packing: Packing, segment: Segment, meter: Meter) -> None:
    data, record = packing.stored_name(f"{name}.ldif.zst"), f"{name}.json"
    with held.private(repo.path / LOG) as directory:
        try:
            stored, _ = store_entries(part, directory.path / f"{name}.ldif.zst", packing, meter)
            repo.keep(f"{LOG}/{data}")
            killpoint("log.data")
            with contents.reading(part.directory) as after:  # entries may have been purged during this run
                if not csn.is_covered_by(_purged(after, segment.log), csn.by_server(segment.follows or ())):
                    segment = replace(segment, follows=None)
            recipients = packing.recipients.names if packing.recipients else ()
            segment = manifest.sealed(replace(segment, files=(stored,), recipients=recipients))
            files.write_durably(directory.path / record, manifest.text(segment), 0o600)
            repo.keep(f"{LOG}/{record}")
            killpoint("log.stored")
        except BaseException:
            directory.remove(record)
            directory.remove(data)
            raise


def _new_name(names: Sequence[str], when: datetime.datetime, suffix: str) -> str:
    """Returns a segment name that is sorted after all others, even if the clock has gone back."""
    if names:
        last = datetime.datetime.strptime(names[-1].partition("-")[0], SEGMENT_TIME)
        when = max(when, last.replace(tzinfo=datetime.timezone.utc) + datetime.timedelta(microseconds=1))
    return f"{when:{SEGMENT_TIME}}-{repository.slug(suffix)}-{secrets.token_hex(4)}"


def _names(repo: Repository, suffix: str) -> list[str]:
    matches = map(SEGMENT.fullmatch, repo.logged())
    return [match[0] for match in matches if match and match[2] == repository.slug(suffix) and match[3] == "json"]


def _read(repo: Repository, name: str, suffix: str) -> Segment | None:
    """Returns a segment. Returns None if it was removed, has another suffix, or is damaged, which leaves a gap."""
    try:
        repo.bring_segment(name)
        segment: Segment = manifest.read_sealed(repo.path / LOG / name, Segment)
    except FileNotFoundError:
        return None
    except Unfit as error:
        log.warning("%s is ignored: it %s", plain.with_operator_paths(str(repo.path / LOG / name)), error)
        return None
    return segment if dn.key(segment.suffix) == dn.key(suffix) else None


def reaches(segment: Segment, moment: Moment) -> bool:
    """Returns whether the log is stored up to the moment. CSNs are compared only if the moment was given as a CSN: a
    reqStart tells nothing about CSNs of the same second."""
    return segment.end >= moment.time or (moment.text == moment.csn and _leads_to(segment) >= moment.csn)


def _leads_to(segment: Segment) -> str:
    """Returns the last moment up to which the log is complete. With several server IDs, this is not the newest CSN,
    because a change of another server may be logged late."""
    return segment.reached[0] if len(segment.reached) == 1 else f"{segment.end:%Y%m%d%H%M%S.%fZ}"


def chain(repo: Repository, backup: Backup, moment: Moment) -> tuple[list[Segment], str]:
    """Returns a gapless series of segments up to the moment or the last segment, if possible from changes that the
    backup has. Also returns the moment at which a gap after the backup begins, or "" if there is no such gap."""
    known = csn.by_server([*backup.context_csns, *backup.newest_csns])
    names, every, before = _names(repo, backup.suffix), list[Segment](), ""
    end = min(bisect_left(names, f"{moment.time:{SEGMENT_TIME}}"), len(names) - 1)
    while 0 <= end < len(names) - 1:
        segment = _read(repo, names[end], backup.suffix)
        if segment is not None and reaches(segment, moment):
            break
        end += 1
    for name in reversed(names[: end + 1]):
        segment = _read(repo, name, backup.suffix)
        if segment is None:
            continue
        if every and segment.log_uuid != every[-1].log_uuid:  # it is from another host's log, or from an earlier log
            before = before or _leads_to(segment)
            continue
        follows = every[-1].follows if every else ()
        if follows is None or not csn.is_covered_by(csn.by_server(follows), csn.by_server(segment.reached)):
            before = _leads_to(segment)
            break
        every.append(segment)
        before = ""
        if segment.follows is not None and csn.is_covered_by(csn.by_server(segment.follows), known):
            break
    return every[::-1], before if before > max(known.values(), default="") else ""


@contextmanager
def opened(
    repo: Repository, every: Sequence[Segment], identities: tuple[Path, ...], scratch: Path
) -> Iterator[tuple[Path, ...]]:
    """Yields the LDIF files of segments, decrypted to the directory `scratch` if they are encrypted. Raises
    BackupDamaged, BackupEncrypted, NoSpace, RemoteFailed."""
    directory = repo.path / LOG
    repo.bring((f"{LOG}/{segment.file}", segment.files[0]) for segment in every)
    keys = age.identities(identities) if identities and any(segment.is_encrypted for segment in every) else None
    with ExitStack() as stack:
        paths = []
        for number, segment in enumerate(every):
            pack.require_sums(directory / segment.file, segment.files[0])
            paths.append(stack.enter_context(pack.plain(directory, segment, keys, scratch / f"{number}.ldif.zst")))
        yield tuple(paths)
