"""A backup that stores only the pages that the one before it does not have.

Pages are known by their content without their number, for a compacted copy numbers them anew. A page that has changed a
little is stored as what differs from the former one, in whatever pack that is. No backup needs another one, only packs.
So that a restore does not unpack frames of old packs for a few pages each, pages of nearly empty frames and of the
packs that are used least are stored again, a few in each backup.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from loader import units
from loader.errors import BackupDamaged, NoSuchPath
from loader.mdb.copy import PageBlock
from loader.mdb.pages import Known, PageStream, Shape, Sifted
from loader.operations.backup import manifest, pack, packs, page_list, repository
from loader.operations.backup.manifest import Backup
from loader.operations.backup.output import Output
from loader.operations.backup.pack import Packing
from loader.operations.backup.page_list import PackUse, PageList, PagePiece
from loader.operations.backup.parallel import in_order, sha256
from loader.operations.backup.repository import Bring, there
from loader.progress import Meter
from loader.run.killpoint import killpoint
from loader.storage import files, held

log = logging.getLogger(__name__)
FIRST_PAGE = 2  # behind both meta pages
PACK = "pages.pack"  # in the backup's own directory, until it is published
_AGAIN = 50  # one in so many pages is stored again, at most


@dataclass(frozen=True)
class Earlier:
    """The backup whose pages are shared. own: the number of the new pack."""

    known: Known
    packs: tuple[PackUse, ...] = ()
    own: int = 0


def earlier(repo: Path, suffix: str, bring: Bring = there) -> Earlier:
    """The last incremental one of this suffix; none where it is damaged, for what is stored then has to be whole
    without it."""
    found = [one for one in repository.listing(repo, suffix).backups if one.shares_pages]
    if not found:
        return Earlier(Known())
    try:
        bring(found[-1])
        return _known(repo, found[-1])
    except (BackupDamaged, NoSuchPath) as error:
        log.warning("no pages are shared with %s, all are stored: %s", found[-1].id, error)
        return Earlier(Known())


def _known(repo: Path, backup: Backup) -> Earlier:
    """Raises BackupDamaged, NoSuchPath."""
    listed = page_list.read(repo / backup.id, backup)
    found = page_list.read_map(repo / backup.id, listed)
    there = packs.opened(repo, listed.packs, listed.shape)
    again = sum(use.used for use in listed.packs) // _AGAIN
    pages = Known.of(there, found.segments, again)
    return Earlier(pages, listed.packs, listed.own + 1)


def _shape(stream: PageStream) -> Shape:
    """A compacted copy's pages are of the transaction before that of its meta pages."""
    facts = stream.facts
    return Shape(facts.page_size, None if facts.format == 1 else max(0, facts.txnid - 1))


def _numbered(stream: PageStream, how: Packing) -> Iterator[tuple[int, PageBlock]]:
    first = FIRST_PAGE
    for piece in pack.paced(stream.pieces(), how.throttle):
        yield first, piece
        first += len(piece) // stream.facts.page_size


def store(
    stream: PageStream, out: Output, home: Path, before: Earlier, how: Packing, meter: Meter
) -> PageList:
    """Write the new pages to `out` and the map into `home`; nothing is published yet. Raises NoSpace, RemoteFailed."""
    facts, shape = stream.facts, _shape(stream)
    pieces, runs, entries, fresh = [], [], [], 0

    def sifted(one: tuple[int, PageBlock]) -> tuple[Sifted, int]:
        first, data = one
        return before.known.sift(data, first, before.own, shape, how.level), len(data)

    for found, length in in_order(sifted, _numbered(stream, how)):
        out.append(found.frames)
        pieces.append(PagePiece(length, len(found.runs), found.fresh, found.xxh3))
        runs.append(found.runs)
        entries.append(found.entries)
        fresh += found.fresh
        meter.note = f"{units.size(stream.size)}, {units.size(out.size)} stored"
        killpoint("copy.middle")
    index = packs.index(entries)
    out.append(packs.ending(index))
    own = PackUse(before.own, sha256(index), out.size, fresh, fresh)
    used = before.known.used()
    uses = [replace(use, used=used[use.number]) for use in before.packs if used.get(use.number, 0)]
    content = page_list.pack_map(stream.head, runs)
    files.write_durably(home / manifest.MAP, content, 0o600)
    return PageList(
        page_size=facts.page_size,
        transaction=shape.transaction,
        own=before.own,
        packs=tuple(uses + [own] * (own.pages > 0)),
        pieces=tuple(pieces),
        map_bytes=len(content),
        map_sha256=sha256(content),
    )


def is_begun(repo: Path) -> bool:
    """Whether there are pages to share."""
    return (repo / packs.PAGES).is_dir()


def publish(repo: Path, home: Path, made: PageList) -> None:
    """Put the new pack into its place. Until a backup needs it, the next run removes it."""
    for use in made.packs:
        if use.number == made.own:
            with held.private(repo / packs.PAGES) as place:
                place.take(home / PACK, packs.name(use))
            return
    (home / PACK).unlink()
