"""The native core, which does the work per entry without the interpreter lock.

Inputs compressed by zstd or gzip are recognised by their content. An output is compressed by zstd if its name ends in
.zst or .zst.partial. Outputs have mode 0600, and are synced when the call returns; after an error, a partial output
remains. `Counters.cancel()` ends a call soon, with the code "cancelled"; Ctrl-C ends it, too. File descriptors are
duplicated, so the caller closes its own. Results are read-only. Objects of other modules are read by their attributes.
Functions without a docstring are described where `loader` calls them.

Two DNs are equal if they differ only in ASCII case, in spaces around `,` `=` `+`, in escaping (RFC 4514), or in the
order of a multi-valued RDN. No schema is used for this.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Literal, TypeAlias, final

from loader.defaults import Resources
from loader.ldif import ArrangeTask
from loader.server.options import Search
from loader.server.wire import Link
from loader.sinks.changing import LogQuery, ReplayTask, SyncResult
from loader.sinks.ldap import LoadOptions
from loader.sinks.mdb import BuildRules, LiveSource, Target
from loader.sinks.slapadd import Cut, MergeOptions, Slice, SlicedLdif
from loader.sources.dit import PlanOptions, TreeSpec
from loader.sources.mdb import LdifFormat
from loader.syncrepl import Syncrepl

_Path: TypeAlias = str | PathLike[str]
_Stamp: TypeAlias = tuple[str, Sequence[str]] | None  # The DN of the root entry, and its contextCSNs

def version() -> str: ...

class NativeError(Exception):
    """An error of the core. `str()` returns the whole message.

    The codes: `Code` in native/common/src/error.rs, `Phase` (ldap.*) in wire/src/error.rs, `ErrorKind` (lmdb.*) in
    lmdbfile/src/error.rs, and `Problem` (template.*) in synth/src/problem.rs. With build.rejected and
    build.missing_parents, path, line, dn and message describe the first rejection; the reject file has all.
    """

    code: str
    path: str | None
    line: int | None
    dn: str | None
    result: int | None  # Of ldap.*: the result code (RFC 4511, appendix A), or if negative, libldap's (ldap.h)
    errno: int | None  # None if the operating system did not cause the error
    message: str  # Without path, line and DN

@final
class Counters:
    """Counts the entries and uncompressed bytes that all calls with these counters have read; cheap to read."""

    def __new__(cls) -> Counters: ...
    entries: int
    bytes: int
    files: list[tuple[str, int, str]]
    """LDIF files that were read to their end: path, size on disk in bytes, 128-bit XXH3 of the file in hexadecimal."""
    open_ends: list[str]  # LDIF files whose last line has no line break
    stage: tuple[str, int, int]
    """The stage of a build ("read", "join", "write", "sync"), the parts done, and all parts (0 if unknown)."""
    def limit(self, rate: int) -> None:
        """Limits the searches of a Channel to `rate` entries per second from now on; 0 removes the limit."""
    def cancel(self) -> None:
        """Ends all calls with these counters, also calls that have not begun."""

@final
class ScanResult:
    entries: int
    bytes: int  # Uncompressed
    attributes: dict[str, tuple[str, int]]  # Attribute type in lower case -> (path, line) of its first use
    object_classes: dict[str, tuple[str, int]]  # Value in lower case -> (path, line) of its first use
    first_dn: str | None
    context_csns: list[str]  # All values of contextCSN, in the order of the input
    max_csns: dict[str, str]  # Server ID, three hexadecimal digits in lower case -> greatest entryCSN

@final
class Shard:
    entries: int
    bytes: int  # Before compression
    checksum: str  # As of an EntryDigests of the written file

@final
class Arrangement:
    entries: int  # Written entries
    duplicates: int  # Omitted entries: another kept entry has the same entryUUID or DN
    dropped: int  # Omitted entries, with `drop_orphans`: an ancestor is missing
    checksum: str  # As of an EntryDigests of all written files
    files: list[tuple[str, int, str]]  # In load order: name, entries, and the checksum of an EntryDigests
    taken: list[tuple[str, str]]  # Names of an output file and of the identical input file
    orphans: list[tuple[str, str, str]]
    """Each missing parent, as the first orphan below it spells it; this orphan; the orphan's entryUUID or "". Empty
    with `drop_orphans`, and without `name_orphans`."""
    renamed: list[str]  # entryUUIDs that occur with several DNs; may contain an entryUUID twice

@final
class EntryDigests:
    """Digests of the entries of a tree. Memory: 36 bytes and the DN for each entry. Unusable after an error."""

    def __new__(
        cls, ignore: Sequence[str], counters: Counters, *, memory: int = ..., scratch: _Path = ...
    ) -> EntryDigests:
        """Returns an empty tree that ignores the attributes `ignore`, which match in any case, with any options.
        Digests beyond `memory` bytes go to an unnamed file in the directory `scratch`."""
    entries: int
    checksum: str  # 32 hexadecimal digits; independent of the order of entries, attributes and values
    def add_path(self, path: _Path) -> None:
        """Adds the entries of a file. Raises ldif.truncated if the file looks truncated."""
    def diff(self, other: EntryDigests, limit: int) -> Difference:
        """Compares two trees, which must ignore the same attributes."""

@final
class Difference:
    only_left: int
    only_right: int
    changed: int
    samples: list[tuple[Literal["only-left", "only-right", "changed"], str]]  # The first `limit` DNs that differ
    subtrees: list[tuple[str | None, tuple[int, str], tuple[int, str], int]]
    """The `limit` subtrees with the most differences: DN, entries and checksum on each side, number of entries that
    differ. A subtree has all entries below the DN, a child of the base; without a DN, the base and its children."""

def dn_key(text: bytes) -> bytes | None:
    """Returns a key that is equal for DNs that slapd considers equal, as far as that is possible without a schema:
    values are compared like caseIgnoreMatch does, and the usual naming attributes have one name. RDNs are joined by
    commas, and no value contains an unescaped comma. Returns None if `text` is not a DN."""

def dn_parent(text: bytes) -> bytes:
    """Returns the parent's DN, as spelt; empty for a single RDN or an invalid DN."""

def records(
    text: bytes | int, keys: set[bytes] | None, most: int, counters: Counters
) -> list[tuple[str, list[tuple[str, bytes]]]]: ...
def scan(paths: Sequence[_Path], counters: Counters) -> ScanResult: ...
def shard(fd: int, out_path: _Path, drop: Sequence[str], counters: Counters) -> Shard:
    """Copies records without the attributes `drop`, which match in any case, with any options. Groups the values of an
    attribute. Omits `version:`, `changetype: add`, and comments between records. Keeps all other bytes."""

def parents_first(fd: int, out_path: _Path, scratch: _Path, counters: Counters) -> None: ...
def arrange(task: ArrangeTask, out_dir: _Path, counters: Counters) -> Arrangement:
    """Writes files into `out_dir` (new or empty) that slapadd can load in the order of their names.

    0000-interior.ldif[.zst] has the parents sorted by depth. NNNN.ldif[.zst] has the other entries of the Nth file of
    `paths` and `again`; it is not written if there are none. If entries have the same entryUUID or DN, one is kept: the
    last one in `again`, otherwise the one with the greatest entryCSN, or the last one of these. Only the entry `root`
    has a contextCSN. `counters` counts the input twice, because it is read twice. Memory: 64 bytes per entry, 80 at the
    peak. The same input gives the same bytes.
    """

@final
class LearnResult:
    """A template that generates trees like the one that was read."""

    template: str  # TOML. It contains no value of the source, nor a part of one.
    entries: int  # In the source
    main: int  # Entries of the kind that -n counts
    kinds: int
    left_out: int  # Entries of kinds that are too rare for the template

def learn(paths: Sequence[_Path], fd: int | None, jobs: int, counters: Counters) -> LearnResult:
    """Reads each input once, in bounded memory. The template does not depend on `jobs`. Raises build.empty if there is
    no entry."""

def join(
    paths: Sequence[_Path], fd: int, counters: Counters, stamp: _Stamp = None, aliases: Mapping[str, str] = ...
) -> int:
    """Copies records as `shard` does, each followed by a blank line; see `loader.ldif.join`. Without `stamp`, keeps
    contextCSN and entryCSN. `aliases` maps the name of an attribute to the name under which its values are grouped."""

@final
class Part:
    entries: int
    bytes: int  # LDIF, before compression
    files: list[str]
    sums: list[str]  # 128-bit XXH3 of each file, in hexadecimal

@final
class Synced:
    """The changes that a provider reported."""

    entries: int  # Changed entries
    present: int
    deleted: int
    repeated: list[bytes]  # entryUUIDs (16 bytes) that were reported more than once for existing entries
    cookie: bytes | None
    names_present: bool  # Whether entries that the provider did not report are deleted
    cut: bool  # Whether there were more changes than the maximum

@final
class Channel:
    """A bound connection that runs one search at a time; a failed search closes it. `loader.server.wire.reading`
    describes the searches. Referral objects are returned as entries; aliases are not dereferenced. The attributes
    `drop` match in any case, with any options. In LDIF, the values of an attribute are grouped; lines are not folded.
    """

    def __new__(cls, link: Link, counters: Counters) -> Channel: ...
    def close(self) -> None: ...
    def part(self, search: Search, directory: _Path, name: str, drop: Sequence[str], compress: bool) -> Part:
        """Writes for each file also FILE.rows, so that `arrange` need not read the records for an overview."""
    def feed(self, search: Search, feed: Feed, notes: _Path, drop: Sequence[str], copy: _Path | None) -> int:
        """notes: a file for DN, entryUUID and entryCSN of each entry with children. After an error, some results are in
        `feed`."""
    def file(self, search: Search, path: _Path, drop: Sequence[str]) -> Part: ...
    def sync(
        self, search: Search, cookie: bytes, most: int, files: tuple[_Path, _Path, _Path], drop: Sequence[str]
    ) -> Synced: ...
    def digest(self, search: Search, tree: EntryDigests) -> None: ...
    def discard(self, search: Search) -> None: ...

@final
class Schema:
    """The schema of a slapd."""

    def __new__(
        cls,
        definitions: Sequence[tuple[Literal["macro", "syntax", "attribute", "class", "rule"], str, bool]],
        options: Sequence[str],
        dynamic_objects: bool,
        password_policy: bool,
    ) -> Schema:
        """Parses values of olcObjectIdentifier, olcLdapSyntaxes, olcAttributeTypes, olcObjectClasses and
        olcDitContentRules in the order of `slapcat -n0`. True marks a definition that is compiled into slapd (in
        cn=schema,cn=config itself). options: olcAttributeOptions. dynamic_objects: the database has the overlay dds.
        password_policy: a database has the overlay ppolicy."""
    def facts(self) -> list[tuple[Literal["attribute", "class"], str, list[str], bool, str, str]]:
        """Returns for each attribute type and object class: the name, all names and the OID, whether it is compiled
        into slapd, and two texts for comparison with another schema: everything that decides the stored values, and
        everything else that decides the index keys."""

    def foreign(self) -> dict[str, str]:
        """Returns attribute type -> equality rule or syntax, if that is of another module than OpenLDAP's own."""

    def unknown(self, descriptions: Sequence[str]) -> list[str]:
        """Returns the descriptions whose attribute type or options are not in the schema."""

    def unproven(self, descriptions: Sequence[str]) -> dict[str, str]:
        """Returns attribute type -> rule or syntax, if ditseed does not know the stored form of its values."""

@final
class Selection:
    """The part of the provider's entries that a consumer stores, according to its syncrepl."""

    def __new__(
        cls, schema: Schema, suffix: str, root_dn: str | None, last_mod: bool, syncrepl: Syncrepl, evaluate: bool
    ) -> Selection:
        """suffix, root_dn, last_mod: of the consumer's database. Without `evaluate`, the provider applies the filter.
        Raises NativeError with build.unproven if only slapd itself can evaluate the filter."""
    def select(
        self, paths: Sequence[_Path], entries: _Path, glue: _Path, context_csns: Sequence[str], counters: Counters
    ) -> Selected:
        """Writes the records that a consumer stores, and the glue entries that it creates. Only the suffix entry has a
        contextCSN. Memory: the DNs of parents."""
    def request(self) -> list[str]:
        """Returns the attributes to request from the provider."""
    def left_out(self) -> list[str]:
        """Returns the attributes that the provider sends and the consumer does not store."""

@final
class SearchGroup:
    """Searches that differ in their assertion values only."""

    filter: str  # With `x` for each value; a substring that is too short for an index is shown by its length
    searches: int
    indexed: bool  # Whether slapd finds all candidates in indexes
    used: list[tuple[str, str]]  # Indexes: the attribute as configured, and the type (pres, eq, approx, sub)
    lacking: list[tuple[str, str]]  # Missing indexes: attribute description and type
    seconds: float  # etime in total, of the searches whose result is in the log

@final
class SearchesFound:
    groups: list[SearchGroup]
    lines: int
    of_base: int  # Searches with scope base, which need no index and are in no group
    elsewhere: int  # Searches in other databases
    unreadable: int  # Filters that cannot be parsed
    others: int  # Searches that would need more than 50,000 groups

def searches(
    paths: Sequence[_Path],
    filters: bool,
    schema: Schema,
    database: tuple[str, Sequence[tuple[str, Sequence[str]]], tuple[int, int, int]],
    counters: Counters,
) -> SearchesFound:
    """Reads slapd's log; with `filters`, files with one filter per line. database: suffix, indexes (attribute
    description, kinds), and `substr` of its `Settings`. Memory: at most 50,000 filters, without their values."""

@final
class IndexCost:
    name: str
    pages: int  # Including those of the sub-databases with the IDs of keys
    keys: int
    records: int  # IDs, and three for each range
    ranges: int  # Keys that have a range instead of IDs

@final
class TableRecord:
    """A B+tree of a data file."""

    entries: int
    depth: int
    pages: int  # Branch, leaf and overflow pages, without those of sub-databases of duplicates
    root: int | None  # The root page; None if the tree is empty

@final
class MetaPage:
    """The newer of the two meta pages in `start`, the first bytes of a data file; with `alone`, `start` is one page.
    Raises lmdb.foreign, lmdb.encrypted, lmdb.checksums, lmdb.damaged."""

    def __new__(cls, start: bytes, alone: bool) -> MetaPage: ...
    format: int  # 1 is LMDB 0.9, 3 is LMDB 1.0
    page_size: int  # Bytes
    map_size: int  # Bytes; slapd's maxsize at its last write
    pages: int  # Up to the last page ever used, including free pages
    used: int  # Bytes of these pages; a sparse file has a greater size
    txnid: int
    free: TableRecord  # The free list: reusable pages, by the transaction that freed them
    main: TableRecord  # The main database, which lists the tables
    def page(self, number: int, txnid: int, map_size: int) -> bytes:
        """Returns this meta page as bytes, with another page number, transaction and map size."""
    def of_copy(self) -> bytes:
        """Returns both meta pages for a plain copy of the snapshot."""

@final
class Contents:
    """Reads single facts from a snapshot of a data file. txn: the transaction of a reader slot that the caller keeps,
    or None if nobody writes to the file. meta: the meta page of the snapshot; without it, the newest snapshot is read.
    All methods raise lmdb.damaged, build.damaged or lmdb.io."""

    def __new__(cls, path: _Path, *, txn: int | None = None, meta: bytes | None = None) -> Contents: ...
    tables: dict[str, TableRecord]
    def freed(self, since: int) -> dict[int, int]:
        """Returns transaction ID -> number of its freed pages that are still free, for transactions from `since` on."""
    def attributes(self) -> dict[int, str]:
        """Returns number in ad2i -> attribute description."""
    def suffixes(self) -> list[tuple[str, int]]:
        """Returns the normalised suffixes with their entry IDs."""
    def last_id(self) -> int:
        """Returns the greatest entry ID, or 0 if there is no entry."""
    def values(self, id: int, name: str) -> list[bytes] | None:
        """Returns the values of an attribute, including those in id2v, or None if there is no entry with this ID."""
    def first_values(self, after: int, names: Sequence[str], most: int) -> list[tuple[int, list[str]]]:
        """Returns, of at most `most` entries after the ID `after`, the ID and the first value of each attribute in
        `names`, or "" if the entry has no value."""
    def newest_csns(self, stop: str | None, most: int | None = None) -> list[str]:
        """Returns the greatest entryCSN of each server ID. Follows the index on entryCSN backwards to the second of
        `stop`, and reads at most `most` entries, in a second those with the highest IDs. Without an index, reads all
        entries."""
    def csns_after(self, since: str) -> list[tuple[int, str]]:
        """Returns ID and entryCSN of each entry whose entryCSN is greater than `since`."""
    def index_counts(self, name: str) -> list[tuple[bytes, int]]:
        """Returns the keys of an index with the number of IDs of each."""
    def probe(self) -> None:
        """Reads the first and the last record of every table."""

def entry_with(entry: bytes, number: int, values: Sequence[bytes], normals: bool) -> bytes:
    """Returns the id2e value `entry` with these values of an attribute, which replace its values or follow all other
    attributes. With `normals`, they also replace its normalised values; otherwise it gets none. Raises build.damaged if
    `entry` is not an id2e value, build.unproven if the values to replace are in id2v."""

def new_entry(flags: int, attributes: Sequence[tuple[int, Sequence[bytes]]]) -> bytes:
    """Returns an id2e value. flags: of the object classes. attributes: number in ad2i, and values."""

@final
class IndexCosts:
    page_size: int
    pages: int  # In the file, up to the last page in use
    tables: list[IndexCost]  # All indexes, sorted by name

def index_costs(path: _Path, counters: Counters, txn: int) -> IndexCosts: ...
def shared_uuids(
    path: _Path, counters: Counters, limits: Resources, txn: int | None, limit: int
) -> list[tuple[str, str, str]]: ...

@final
class Selected:
    read: int
    kept: int  # Selected entries, without glue entries
    glue: int  # Glue entries, for ancestors that were not selected

@final
class Rejection:
    path: str | None  # None for a stream
    line: int
    dn: str
    reason: str

@final
class Built:
    entries: int  # In the database
    read: int
    duplicates: int  # Omitted copies of entries
    dropped: int  # Omitted entries: their parent was deleted
    stale: list[int]  # IDs of outdated copies of entries, which are in id2e, but in no other table
    rejected: int
    rejections: list[Rejection]  # The first hundred, in input order
    misfits: list[tuple[str, str, int]]
    """Attribute description, syntax, and number of values that violate the syntax; empty unless these are counted."""
    completed: str  # What the build added to the checksum of the entries, modulo 2^128; 0 unless `account`
    bytes: int  # Size of the file
    pages: int
    tables: dict[str, int]  # Table -> number of values
    phases: dict[str, float]  # Stage -> seconds

@final
class Database:
    """The slapd configuration of one database (slapd-mdb(5), slapd-config(5))."""

    def __new__(cls, target: Target) -> Database: ...

@final
class Feed:
    """A bounded queue of LDIF blocks from connections to a build: the faster side waits."""

    def __new__(cls) -> Feed: ...
    def close(self) -> None:
        """Marks the end of the input."""
    def break_off(self) -> None:
        """Makes both sides fail with the code "cancelled", because one of them has failed."""
    def repeat(self) -> None:
        """Tells the build that entries may come more than once."""

def build(
    inputs: Sequence[_Path | int | Feed],
    out_path: _Path,
    database: Database,
    rules: BuildRules,
    limits: Resources,
    live: LiveSource | None,
    counters: Counters,
) -> Built:
    """Builds the data file that `slapadd -q` would build from this LDIF, key by key. The same input and rules give the
    same file. Data beyond `limits.memory` is sorted in unnamed files. With `live`, one copy of each entry is kept."""

@final
class SplitResult:
    entries: int
    newest: dict[str, str]  # Server ID, three hexadecimal digits in lower case -> greatest entryCSN

def split(
    inputs: Sequence[_Path | int],
    schema: Schema,
    shares: Sequence[tuple[Sequence[str], _Path]],
    counters: Counters,
    file_urls: bool,
    claim: _Stamp,
) -> list[SplitResult]:
    """Writes each record unchanged for the database whose suffix above it is the longest. The first database also gets
    records that cannot be parsed. With `claim`, entries of the other databases lose their contextCSN."""

def verify(path: _Path, database: Database, limits: Resources, counters: Counters, full: bool, new: bool) -> int: ...

@final
class Sample:
    text: bytes  # LDIF, parents first
    records: int  # Entries of the database, and placeholders for parents that were never added
    windows: int | None  # Evenly spaced ranges of consecutive IDs that were read; None: all entries

@final
class Exported:
    entries: int
    holes: int  # Parents that were never added, and so are in no file
    late: int  # Entries with a lower ID than their parent; they are in the last files
    bytes: int  # LDIF, before compression
    checksum: str  # As of an EntryDigests of all files
    files: list[tuple[str, str, int, str]]
    """In load order: name, 128-bit XXH3 in hexadecimal, entries, and the checksum of an EntryDigests."""
    base: str  # DN of the base or the suffix, as the database spells it; "" if it has several suffixes
    context_csns: list[str]  # Of the suffix entry, as stored
    ranges: int  # Of entry IDs, which the workers read in parallel

@final
class Dump:
    """A snapshot of a back-mdb database, which `jobs` workers read from the pages of its data file, without schema or
    configuration. txn: as for Contents. base: DN of the root of the subtree to read; None: all entries. after: entries
    up to this ID are omitted. All methods raise build.damaged."""

    def __new__(cls, path: _Path, txn: int | None, base: str | None, jobs: int, after: int) -> Dump: ...
    def export(self, directory: _Path, ldif_format: LdifFormat, counters: Counters) -> Exported:
        """Writes 0001.ldif[.zst], 0002.ldif[.zst] ...: parents first, lines not folded, the values of an attribute
        grouped. The same database gives the same bytes."""
    def stream(self, fd: int, ldif_format: LdifFormat, scratch: _Path, counters: Counters) -> Exported: ...
    def digest(self, tree: EntryDigests, counters: Counters) -> None:
        """Adds every entry to `tree`, which is unusable after an error."""
    def sample(self, counters: Counters, least: int, share: float, most: int) -> Sample:
        """Reads all entries if there are fewer than twice as many as the sample has."""
    def pick(self, names: Sequence[str], counters: Counters) -> bytes: ...

@final
class Seen:
    """Facts about the pages of a snapshot, which `clone_plain` collects for `audit`. Memory: 130 bytes per page."""

    def __new__(cls, source: _Path, meta: bytes) -> Seen:
        """meta: the meta page of the snapshot, whose reader slot the caller keeps."""

@final
class PagePacks:
    """packs: number, path, name in errors, index entries. transaction: the transaction ID of all pages, in format 3."""

    def __new__(
        cls, packs: Sequence[tuple[int, _Path, _Path, bytes]], page_size: int, transaction: int | None
    ) -> PagePacks: ...
    def restore(
        self,
        head: bytes,
        pieces: Sequence[tuple[tuple[bytes, int, int], bytes]],
        own: int,
        fd: int,
        threads: int,
        counters: Counters,
    ) -> None:
        """Writes a backup to an empty file: `head` (both meta pages), then the segments. own: number of the backup's
        pack. pieces: each segment (runs, number of own pages before it, number of pages), and its XXH3 (16 bytes)."""

@final
class KnownPages:
    """An index of pages by their content; empty without packs. Memory: 60 bytes per page."""

    def __new__(
        cls, packs: PagePacks | None, segments: Sequence[tuple[bytes, int, int]], own: int, again: int
    ) -> KnownPages:
        """Indexes the pages of the backup that consists of `segments`. Up to `again` pages in hardly used frames count
        as new, so that they are stored again."""
    def sift(
        self, data: PageBlock, first: int, own: int, page_size: int, transaction: int | None, level: int
    ) -> tuple[tuple[bytes, bytes, bytes, bytes], int]:
        """Returns the runs of these pages, the frames of the new ones, the frames' index entries, the XXH3 of `data`;
        and the number of new pages."""
    def used(self) -> list[tuple[int, int]]:
        """Returns for each pack how many of its pages were reused, or are the base of a page stored as a difference."""

def clone_plain(
    source: _Path, target: _Path, head: bytes, length: int, counters: Counters, seen: Seen | None
) -> None: ...
def clone_compact(source: _Path, target: _Path, meta: bytes, counters: Counters) -> None: ...

@final
class PageBlock:
    """Whole pages, in memory that is reused once the block is dropped."""

    def __len__(self) -> int: ...

@final
class PageBlocks:
    """Passes blocks of `size` bytes (a multiple of 64 KiB; the last may be less) between threads."""

    def __new__(cls, size: int) -> PageBlocks: ...
    def take(self) -> PageBlock | None:
        """Waits for the next block and returns it. Returns None after the last block, and after an error."""
    def close(self) -> None:
        """Makes `compact_in_pieces` fail with EPIPE."""

def compact_in_pieces(source: _Path, pieces: PageBlocks, meta: bytes, counters: Counters) -> bytes:
    """Sends a compacted copy (see `clone_compact`) to `pieces`, without the two meta pages, and returns these."""

def clone_send(
    source: _Path, fd: int, head: bytes, length: int, part: str | None, counters: Counters, compacted: bool
) -> int:
    """Sends the copy of `clone_plain` to `fd`, with checksums. Skips the bytes that the receiver has, if its token
    `part` is of the same copy, and returns their number. compacted: `source` is a result of `clone_compact`. Raises
    ValueError if `part` is not a token."""

def clone_receive(fd: int, target: _Path, journal: _Path, counters: Counters) -> None: ...

_Finding: TypeAlias = tuple[str, int | None, str | None, str | None, str | None, int | None]

@final
class AuditReport:
    entries: int
    txn: int  # Of the checked snapshot
    problems: list[tuple[str, int, list[_Finding]]]
    """Kind (such as "tree.entry"), number, and the first findings: the fields of `loader.mdb.verify.Finding`. A damaged
    tree may give the last RDNs of a DN only. The database is sound if there are no problems."""
    drifted: list[str]  # Index tables by which searches miss entries, so they must be rebuilt
    left_out: list[str]  # Configured index tables that were not checked
    notes: list[str]

@final
class Refreshed:
    added: int
    modified: int
    renamed: int  # Modified entries whose DN changed
    deleted: int
    kept: int  # Entries that the provider deleted, but that have children here
    unsettled: list[bytes]  # entryUUIDs of entries whose DN is taken or whose parent is missing; then nothing changed

def refresh(
    directory: _Path,
    database: Database,
    sent: SyncResult,
    now: str,
    limits: Resources,
    allowed: int,
    counters: Counters,
) -> Refreshed: ...

@final
class Gap:
    """An operation that does not fit the entries, so that the log lacks an operation or has a wrong one."""

    dn: str
    csn: str
    start: str  # reqStart
    reason: str
    proven: str  # The CSN up to which the log is complete; "" if there is none

@final
class Replayed:
    applied: int  # Operations
    changed: int  # Entries
    deleted: int  # Entries
    last: str  # CSN of the last applied operation
    context_csns: list[str]
    until: str  # CSN
    log_start: str  # The oldest CSN in the log
    log_end: str  # The newest CSN in the log
    min_csns: list[str]  # minCSN of the log's suffix entry
    created: str  # createTimestamp of the log's suffix entry
    overlaps: list[str]  # Server IDs of operations in the log that the database has already
    gaps: list[Gap]
    dependent: list[tuple[str, str]]  # reqStart and DN of operations that depend on a skipped operation
    skipped: int

def replay(
    path: _Path, database: Database, log: Sequence[_Path], options: ReplayTask, counters: Counters
) -> Replayed: ...

@final
class FoundChanges:
    text: bytes  # LDIF records of log entries in the order of their CSNs
    matching: list[bool]  # False for a later operation that does not match, but may concern the same entries
    log_start: str  # The oldest CSN in the log

def logged(log: Sequence[_Path], query: LogQuery, counters: Counters) -> FoundChanges:
    """Omits failed and rolled-back operations."""

def reindex(
    path: _Path, database: Database, attributes: Sequence[str], limits: Resources, counters: Counters
) -> None: ...

@final
class Transferred:
    entries: int
    checksum: str  # Of the copied records
    tables: dict[str, int]  # Table -> number of values
    misfits: list[tuple[str, str, int]]  # As in Built

def transfer(
    path: _Path, txn: int | None, out: _Path, database: Database, limits: Resources, counters: Counters
) -> Transferred: ...
def records_checksum(path: _Path, counters: Counters, jobs: int) -> str: ...
def audit(
    path: _Path,
    counters: Counters,
    limits: Resources,
    level: str,
    sample: int,
    txn: int | None,
    database: Database | None,
    seen: Seen | None,
    limit: int,
) -> AuditReport:
    """Checks a data file; see `loader.mdb.verify.audit`. The levels are meta, pages, tree and indexes; each includes
    the levels before it. txn: as for Contents. limit: maximum number of reported findings of each kind."""

@final
class Loaded:
    """The counts include earlier runs with the same journal: read = added + present + replaced + rejected."""

    read: int
    added: int
    present: int  # Entries that existed already, and were not changed
    replaced: int
    rejected: int
    rejections: list[Rejection]  # The first hundred, in input order
    orphans: bool  # Whether all rejected entries lack their parent
    stopped: bool  # Whether reading stopped early, because more entries were rejected than allowed
    before: int  # Entries that earlier runs completed
    left_out: int  # Values that were not sent
    deferred: int  # Entries that came before their parents
    named: int  # Entries that waited for entries that they name
    reconnects: int
    transactions: int
    largest: int  # Entries of the largest transaction

def add(inputs: Sequence[_Path | int], link: Link, counters: Counters, options: LoadOptions) -> Loaded:
    """Returns when the server has answered for each entry. If the server stays unreachable, raises an ldap.* error; the
    journal then has the completed entries."""

_Location: TypeAlias = tuple[str, int, str]

@final
class Plan:
    shared: int  # Entries with children, which are in every slice
    leaves: int
    unknown: int  # Missing parents, as far as DNs can be compared without a schema
    cuts: list[Cut]  # The start of each slice

def plan(ldif: SlicedLdif, shards: int, counters: Counters) -> Plan: ...
def feed_slice(slice: Slice, fd: int, counters: Counters) -> tuple[int, bool]: ...
def find_line(slice: Slice, line: int, counters: Counters) -> _Location | None: ...
def find_name(ldif: SlicedLdif, dn: str, counters: Counters) -> list[_Location]:
    """Returns path, line and DN of the first two records with that DN."""

def merge(paths: Sequence[_Path], out_path: _Path, options: MergeOptions, counters: Counters) -> int: ...

@final
class Template:
    """A compiled template: `spec` and an entry's number determine the bytes of the entry. otherwise: replaces
    `spec.entries` if that is None."""

    def __new__(cls, spec: TreeSpec, otherwise: int | None) -> Template: ...
    entries: int  # In the whole tree, including the suffix and the branches
    suffix: str
    description: str
    fingerprint: str  # Equal for templates with the same meaning, including their lists
    kinds: list[tuple[str, int, int]]  # Name, number of the first entry, and number of entries of each kind
    def entry(self, number: int) -> bytes:
        """Returns the record of an entry and a blank line. Raises IndexError if there is no such entry."""
    def write(self, fd: int, first: int, end: int, jobs: int, counters: Counters, compress: bool) -> None:
        """Writes entries `first` to `end`-1 as LDIF. The bytes do not depend on `jobs`, the number of threads."""
    def shard(self, path: _Path, first: int, end: int, jobs: int, counters: Counters) -> Shard: ...
    def plan(self, options: PlanOptions, fd: int, jobs: int, counters: Counters) -> None:
        """Writes the operations of clients on the tree, as lines of JSON, or the changes among them as LDIF."""
