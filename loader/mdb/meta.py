"""What a data.mdb says about itself: its two meta pages and its list of tables, read as bytes.

No liblmdb: a hostile or cut file gives an error here, where a memory map would end the process.
Layout: OpenLDAP's liblmdb/mdb.c, MDB_page, MDB_meta and MDB_db, 64-bit; format 1 is LMDB 0.9, format 3 is LMDB 1.0.
"""

from __future__ import annotations

import errno
import logging
import os
import struct
from dataclasses import dataclass
from pathlib import Path

from loader import naming, units
from loader.errors import (
    FULL,
    FULL_ERRNOS,
    LoaderError,
    MdbDamaged,
    MdbProtected,
    NoSpace,
    NoSuchPath,
    NotLmdb,
    NotPermitted,
    SystemFailed,
)
from loader.storage import files

_log = logging.getLogger(__name__)
DATA = "data.mdb"
MAGIC = 0xBEEFC0DE
LONGEST_PAGE = 65536

_HEADERS = {16: 1, 24: 3}  # length of a page header -> data format
_META_FLAG = 0x08
_ENCRYPTED = 0x2000  # of an environment of LMDB 1.0, among the flags of the free pages' table
_NO_PAGE = 2**64 - 1
_META = struct.Struct("=IIQQ")  # magic, version, address, map size
_TABLE = struct.Struct(
    "=IHHQQQQQ"
)  # pad, flags, depth, branch, leaf and overflow pages, entries, root
_TAIL = struct.Struct("=QQ")  # last page, transaction
META_BYTES = _META.size + 2 * _TABLE.size + _TAIL.size
HEAD_BYTES = LONGEST_PAGE + max(_HEADERS) + META_BYTES  # enough of a file for both meta pages


@dataclass(frozen=True)
class Table:
    """One B+tree of the file. `root` is a page number; None while it is empty."""

    entries: int
    depth: int
    root: int | None


@dataclass(frozen=True)
class MetaPage:
    """The newest whole meta page. `pages`: up to the last one ever used, free ones included."""

    format: int
    page_size: int  # bytes
    map_size: int  # bytes; slapd's maxsize when it last wrote
    pages: int
    txnid: int
    free: Table  # pages that can be used again, by the transaction that freed them
    main: Table  # the table of tables

    @property
    def used(self) -> int:
        """Bytes that hold anything; a sparse file shows more."""
        return self.pages * self.page_size

    @property
    def header(self) -> int:
        """Bytes of a page header."""
        return {kind: size for size, kind in _HEADERS.items()}[self.format]


def data_file(place: Path) -> Path:
    """`place` is an environment directory, or the data file itself (a copy under another name)."""
    return place / DATA if place.is_dir() else place


def is_data_file(path: Path) -> bool:
    """Does it look like one, by its name or by its first page?"""
    if path.suffix == ".mdb":
        return True
    with files.reading(path) as file:
        return _header_of(file.read(max(_HEADERS) + 4)) is not None


def read_meta(place: Path) -> MetaPage:
    """Of an environment directory or data file. Raises NoSuchPath, NotPermitted, NotLmdb, MdbProtected, MdbDamaged."""
    path = data_file(place)
    try:
        with files.reading(path) as file:
            found = parse(file.read(HEAD_BYTES), str(path))
    except FileNotFoundError:
        raise NoSuchPath(path=path) from None
    except PermissionError:
        raise NotPermitted(action="read", path=path, owner=owner_of(path)) from None
    except OSError as error:
        raise SystemFailed(path=path, reason=error.strerror) from error
    _log.info(
        "%s: %s in use, transaction %d",
        naming.with_operator_paths(str(path)),
        units.size(found.used),
        found.txnid,
    )
    return found


def system_error(number: int, path: Path) -> LoaderError:
    """The error for an errno that the native core met."""
    if number in (errno.EACCES, errno.EPERM):
        return NotPermitted(action="open", path=path, owner=owner_of(path))
    if number in FULL_ERRNOS:
        return NoSpace(path=path, lack=FULL)
    return SystemFailed(path=path, reason=os.strerror(number))


def owner_of(path: Path) -> str:
    """A name for a message."""
    try:
        return path.owner()
    except (OSError, KeyError):
        return "its owner"


def parse(head: bytes, origin: str) -> MetaPage:
    """From the first HEAD_BYTES of a file."""
    header = _find_header(head, origin)
    first = _parse_one(head, 0, header, origin)
    _require_plain(head, first, origin)
    second = _parse_one(head, first.page_size, header, origin)
    if second.page_size != first.page_size:
        raise MdbDamaged(path=origin, reason="its two meta pages disagree about the page size")
    return second if second.txnid > first.txnid else first


def _require_plain(head: bytes, facts: MetaPage, origin: str) -> None:
    """LMDB 1.0 tells the size of its checksums in the last two bytes of page 0, and encryption in a flag."""
    if facts.format != 3:
        return
    (flags,) = struct.unpack_from("=H", head, facts.header + _META.size + 4)
    if flags & _ENCRYPTED:
        raise MdbProtected(path=origin, what="encryption")
    if head[facts.page_size - 2 : facts.page_size] != bytes(2):
        raise MdbProtected(path=origin, what="page checksums")


def of_page(page: bytes, origin: str) -> MetaPage:
    """From a meta page alone."""
    return _parse_one(page, 0, _find_header(page, origin), origin)


def renumbered(page: bytes, facts: MetaPage, number: int, txnid: int) -> bytes:
    """A meta page with another number and transaction, which says the same else."""
    copy = bytearray(page)
    struct.pack_into("=Q", copy, 0, number)
    struct.pack_into("=Q", copy, facts.header + META_BYTES - 8, txnid)
    return bytes(copy)


def _find_header(head: bytes, origin: str) -> int:
    found = _header_of(head)
    if found is None:
        reason = "empty" if not head else "the magic number of a 64-bit LMDB file is not there"
        raise NotLmdb(path=origin, reason=reason)
    return found


def _header_of(head: bytes) -> int | None:
    magic = struct.pack("=I", MAGIC)
    return next((size for size in _HEADERS if head[size : size + 4] == magic), None)


def _parse_one(head: bytes, start: int, header: int, origin: str) -> MetaPage:
    page = head[start : start + header + META_BYTES]
    if len(page) < header + META_BYTES:
        raise MdbDamaged(path=origin, reason="the file ends within its meta pages")
    magic, version, _, map_size = _META.unpack_from(page, header)
    (flags,) = struct.unpack_from("=H", page, header - 6)
    if magic != MAGIC or not flags & _META_FLAG:
        raise MdbDamaged(path=origin, reason=f"no meta page at byte {start}")
    if version != _HEADERS[header]:
        raise NotLmdb(path=origin, reason=f"data format {version} is of no released LMDB")
    at = header + _META.size
    (page_size,) = struct.unpack_from("=I", page, at)
    if page_size & (page_size - 1) or not 512 <= page_size <= LONGEST_PAGE:
        raise MdbDamaged(path=origin, reason=f"page size {page_size}")
    last, txnid = _TAIL.unpack_from(page, at + 2 * _TABLE.size)
    if last < 1 or (last + 1) * page_size > 2**63:
        raise MdbDamaged(path=origin, reason=f"last page {last}")
    free, main = _table(page, at), _table(page, at + _TABLE.size)
    return MetaPage(version, page_size, map_size, last + 1, txnid, free, main)


def _table(page: bytes, at: int) -> Table:
    _, _, depth, _, _, _, entries, root = _TABLE.unpack_from(page, at)
    return Table(entries, depth, None if root == _NO_PAGE else root)


def entries_in(path: Path, facts: MetaPage) -> int | None:
    """Entries of the snapshot that `facts` tell of; None where the list of tables takes more than a page (over 50
    indexes)."""
    if facts.main.root is None:
        return 0
    with files.reading(path) as file:
        page = os.pread(file.fileno(), facts.page_size, facts.main.root * facts.page_size)
    tables = tables_on(page, facts) if len(page) == facts.page_size else None
    return tables["id2e"].entries if tables and "id2e" in tables else None


def tables_on(page: bytes, facts: MetaPage) -> dict[str, Table] | None:
    """The tables listed on a leaf page of the main tree; None when it is no leaf."""
    (flags,) = struct.unpack_from("=H", page, facts.header - 6)
    (lower,) = struct.unpack_from("=H", page, facts.header - 4)
    if not flags & 0x02 or lower > len(page):
        return None
    # Format 3 counts `lower` and the node offsets from the end of the header (PAGEBASE).
    base = facts.header if facts.format == 3 else 0
    count = (lower + base - facts.header) // 2
    try:
        offsets = struct.unpack_from(f"={count}H", page, facts.header)
        return dict(_node(page, offset + base, facts.format) for offset in offsets)
    except struct.error:
        return None


def _node(page: bytes, at: int, data_format: int) -> tuple[str, Table]:
    """MDB_node: data size in two halves, flags, key size, key, data.

    In format 3 names end with a NUL, and data begins at an even place.
    """
    (key_size,) = struct.unpack_from("=H", page, at + 6)
    key = page[at + 8 : at + 8 + key_size].rstrip(b"\0")
    data = at + 8 + key_size + (key_size % 2 if data_format == 3 else 0)
    return key.decode("ascii", "replace"), _table(page, data)
