"""The native core: the work per entry, with the interpreter lock released.

Inputs are recognised by their content: zstd and gzip are decompressed. Outputs whose name ends in .zst are compressed;
a trailing .partial is ignored for this. Outputs are readable by their owner only, and are synced when the call returns;
after an error, a partial output remains. Every call ends soon after `Counters.cancel()`, with the code "cancelled", and
on Ctrl-C. File descriptors are duplicated, so the caller closes its own. Results are read-only.

Arguments that are classes of other modules are read by their attributes.

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
    """An error of the core. `str()` gives the whole message; the attributes are for the program.

    code: see `Code` in native/common/src/error.rs, `Phase` (ldap.*) in wire/src/error.rs, `ErrorKind` (lmdb.*) in
    lmdbfile/src/error.rs, and `Problem` (template.*) in synth/src/problem.rs. With build.rejected and
    build.missing_parents, path, line, dn and message describe the first rejection; the reject file has all.
    """

    code: str
    path: str | None
    line: int | None
    dn: str | None
    result: int | None
    """The LDAP result code (RFC 4511, A.1) of an ldap.* error; if negative, one of libldap (ldap.h); else None."""
    errno: int | None
    """The errno that the operating system returned, or None if it did not cause the error."""
    message: str

@final
class Counters:
    """Counts the entries and uncompressed bytes read, summed over all calls that share the counters; cheap to read."""

    def __new__(cls) -> Counters: ...
    entries: int
    bytes: int
    files: list[tuple[str, int, str]]
    """LDIF files that were read from beginning to end: path, size on disk in bytes, and the 128-bit XXH3 of these bytes
    in hexadecimal, computed while reading."""
    open_ends: list[str]  # LDIF files whose last line has no line break
    stage: tuple[str, int, int]
    """For a build: the stage ("read", "join", "write", "sync"), the parts done, and all parts (0 if unknown)."""
    def limit(self, rate: int) -> None:
        """Limits the searches of a Channel to `rate` entries per second from now on; 0 removes the limit."""
    def cancel(self) -> None:
        """Ends all calls that share these counters, and all later ones."""

@final
class ScanResult:
    entries: int
    bytes: int  # Uncompressed
    attributes: dict[str, tuple[str, int]]  # Attribute in lower case, without options -> (path, line) of its first use
    object_classes: dict[str, tuple[str, int]]  # Value in lower case -> (path, line) of its first use
    first_dn: str | None
    context_csns: list[str]  # All values of contextCSN, in the order of the input
    max_csns: dict[str, str]  # Server ID, three hexadecimal digits in lower case -> its greatest entryCSN

@final
class Shard:
    entries: int
    bytes: int  # Written, before compression
    checksum: str  # Checksum of an EntryDigests of the written file that ignores no attribute

@final
class Arrangement:
    entries: int  # Written
    duplicates: int  # Entries left out because a newer entry has the same entryUUID or DN
    dropped: int  # With `drop_orphans`: entries left out because an ancestor is missing
    checksum: str  # Checksum of an EntryDigests of all written files that ignores no attribute
    files: list[tuple[str, int, str]]  # Name, entries and checksum (see EntryDigests), in load order
    taken: list[tuple[str, str]]
    """Output files that are an unchanged file of the input: name of the output, name of the input."""
    orphans: list[tuple[str, str, str]]
    """(parent, child, entryUUID of the child or ""): the missing parents, each once, as its first child spells it.
    Empty with `drop_orphans`, and without `name_orphans`."""
    renamed: list[str]
    """entryUUIDs read with more than one DN; only the newest entry of each is written. May repeat an entryUUID."""

@final
class EntryDigests:
    """Digests of the entries of a tree: 36 bytes and the DN for each. Unusable after an error."""

    entries: int
    checksum: str  # 32 hexadecimal digits; independent of the order of entries, attributes and values
    def add_path(self, path: _Path) -> None:
        """Adds the entries of a file; rejects a file that looks cut off."""
    def diff(self, other: EntryDigests, limit: int) -> Difference:
        """Compares two trees, which must ignore the same attributes."""

@final
class Difference:
    only_left: int
    only_right: int
    changed: int
    samples: list[tuple[Literal["only-left", "only-right", "changed"], str]]
    """The first `limit` DNs that differ, sorted."""
    subtrees: list[tuple[str | None, tuple[int, str], tuple[int, str], int]]
    """The `limit` subtrees that differ most: DN, entries and checksum on each side, number of entries that differ.

    A subtree begins at a child of the base. The subtree with the DN None is the base and its children.
    """

def dn_key(text: bytes) -> bytes | None:
    """Returns a key that is equal for DNs that slapd considers equal, as far as that is possible without a schema:
    values are compared like caseIgnoreMatch does, and the usual naming attributes have one name. RDNs are joined by
    commas, and no value contains an unescaped comma. Returns None if `text` is not a DN."""

def dn_parent(text: bytes) -> bytes:
    """Returns the parent's DN, as spelt; empty for a single RDN or an invalid DN."""

def records(
    text: bytes | int, keys: set[bytes] | None, most: int, counters: Counters
) -> list[tuple[str, list[tuple[str, bytes]]]]:
    """Returns DN and attribute lines of at most `most` records in order; with `keys` (see `dn_key`), the first record
    of each key. `text`: LDIF, or a file descriptor. The result is held in memory."""

def scan(paths: Sequence[_Path], counters: Counters) -> ScanResult:
    """Reads the files for a first overview; decodes every base64 value, and rejects files that are cut off."""

def shard(fd: int, out_path: _Path, drop: Sequence[str], counters: Counters) -> Shard:
    """Matches the attributes `drop` in any case, with any options. Keeps all other bytes, except that it groups the
    values of an attribute, and leaves out comments between records, `version:` and `changetype: add`."""

def parents_first(fd: int, out_path: _Path, scratch: _Path, counters: Counters) -> None:
    """Copies records sorted by depth, keeping their order within a depth. Records beyond 32 MiB go to an unnamed file
    in `scratch`."""

def arrange(task: ArrangeTask, out_dir: _Path, counters: Counters) -> Arrangement:
    """Writes files into `out_dir` (new or empty) that slapadd can load in the order of their names.

    0000-interior.ldif[.zst] has the parents sorted by depth; NNNN.ldif[.zst] has the remaining entries of the Nth file
    of `paths` and `again`, and is not written if none remain. Of entries with the same entryUUID or DN, one is kept:
    the last one read from `again`, otherwise the one with the greatest entryCSN, and among equals the last. The entry
    `root` gets exactly `context_csns`, and no other entry has a contextCSN. The input is read twice, so `counters`
    counts it twice. Memory: 64 bytes per entry, 80 at the peak. The same input gives the same bytes.
    """

@final
class LearnResult:
    """A template that generates trees like the one that was read."""

    template: str  # As TOML. It contains no value of the source, nor a part of one.
    entries: int  # In the source
    main: int  # Entries of the kind that -n counts
    kinds: int
    left_out: int  # Entries that the template does not represent, because their kinds are too rare

def learn(paths: Sequence[_Path], fd: int | None, jobs: int, counters: Counters) -> LearnResult:
    """Reads each input once and in bounded memory. The template does not depend on `jobs`. Raises build.empty if there
    is no entry."""

def join(
    paths: Sequence[_Path], fd: int, counters: Counters, stamp: _Stamp = None, aliases: Mapping[str, str] = ...
) -> int:
    """Writes the records of `loader.ldif.join`, each followed by a blank line. Without `stamp`, keeps contextCSN and
    entryCSN. Groups values and leaves out lines as `shard` does. `aliases` maps the name of an attribute to the name
    under which its values are grouped."""

@final
class Part:
    entries: int
    bytes: int  # LDIF, before compression
    files: list[str]  # In order
    sums: list[str]  # 128-bit XXH3 of each file, in hexadecimal

@final
class Synced:
    """The changes that a provider reported. `names_present`: entries that it did not report are deleted. `cut`: there
    were more. `repeated`: entryUUIDs (16 bytes) that were reported more than once for existing entries."""

    entries: int
    present: int
    deleted: int
    repeated: list[bytes]
    cookie: bytes | None
    names_present: bool
    cut: bool

@final
class Channel:
    """A bound connection that runs one search at a time; a failed search closes it. Its traffic is counted in
    `counters`. Referral objects are returned as entries; aliases are not dereferenced. The attributes `drop` are
    matched in any case, with any options. In LDIF, the values of an attribute are grouped, and lines are not folded.

    `loader.server.wire.Reader` describes the searches."""

    def __new__(cls, link: Link, counters: Counters) -> Channel: ...
    def close(self) -> None: ...
    def part(self, search: Search, directory: _Path, name: str, drop: Sequence[str], compress: bool) -> Part:
        """Beside each file, FILE.rows has the facts that `arrange` would extract from its records."""
    def feed(self, search: Search, feed: Feed, notes: _Path, drop: Sequence[str], copy: _Path | None) -> int:
        """After an error, `feed` has had some results. notes: a file for the DN, entryUUID and entryCSN of each entry
        with children. Both files are synced when the call returns."""
    def file(self, search: Search, path: _Path, drop: Sequence[str]) -> Part: ...
    def sync(
        self, search: Search, cookie: bytes, most: int, files: tuple[_Path, _Path, _Path], drop: Sequence[str]
    ) -> Synced: ...
    def digest(self, search: Search, tree: EntryDigests) -> None: ...
    def discard(self, search: Search) -> None: ...

def tree(ignore: Sequence[str], counters: Counters, *, memory: int = ..., scratch: _Path | None = None) -> EntryDigests:
    """Returns an empty tree that ignores the attributes `ignore` (matched in any case, with any options).

    What exceeds `memory` bytes goes to an unnamed temporary file in the directory `scratch`.
    """

@final
class Schema:
    """The schema of a slapd."""

    def facts(self) -> list[tuple[Literal["attribute", "class"], str, list[str], bool, str, str]]:
        """Returns for each attribute type and object class: its name, all names with the OID, whether it is compiled
        into slapd, a text with everything that decides what is stored, and a text with what decides index keys besides.
        The texts are for comparison with those of another schema."""

    def foreign(self) -> dict[str, str]:
        """Returns attribute types whose equality rule or syntax is not OpenLDAP's own -> that rule or syntax."""

    def unknown(self, descriptions: Sequence[str]) -> list[str]:
        """Returns the descriptions whose attribute type or options are not in the schema."""

    def unproven(self, descriptions: Sequence[str]) -> dict[str, str]:
        """Returns the attribute types of `descriptions` whose stored form is unknown to ditseed."""

@final
class Selection:
    """The part of the provider's entries that a consumer holds, according to its syncrepl."""

    def __new__(
        cls, schema: Schema, suffix: str, root_dn: str | None, last_mod: bool, syncrepl: Syncrepl, evaluate: bool
    ) -> Selection:
        """suffix, root_dn, last_mod: of the consumer's database. Without `evaluate`, the provider applies the filter.
        Raises NativeError with build.unproven if only slapd itself can evaluate the filter."""
    def request(self) -> list[str]:
        """Returns the attributes to request from the provider."""
    def left_out(self) -> list[str]:
        """Returns the attributes that the provider sends and the consumer does not store."""

@final
class SearchGroup:
    """Searches that differ in their assertion values only."""

    filter: str  # With `x` for each value; a substring that is too short for an index is shown by its length
    searches: int
    indexed: bool  # Whether slapd finds the candidates by indexes alone
    used: list[tuple[str, str]]  # Indexes: the attribute as it is configured, and the type (pres, eq, approx, sub)
    lacking: list[tuple[str, str]]  # Indexes that are missing, by attribute description
    seconds: float  # etime in total, of the searches whose result is in the log

@final
class SearchesFound:
    groups: list[SearchGroup]
    lines: int
    of_base: int  # Searches with scope base, which need no index and are in no group
    elsewhere: int  # Searches in other databases
    unreadable: int  # Filters that cannot be parsed
    others: int  # Searches beyond the 50,000 groups that are distinguished

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
    pages: int  # Of the index's tree and of the subtrees that hold the IDs of keys
    keys: int
    records: int  # Each is an ID, or one of the three records of a range
    ranges: int  # Keys with a range

@final
class TableRecord:
    """A B+tree of a data file. root: its root page, or None if it is empty. pages: branch, leaf and overflow pages,
    without those of the sub-databases of its duplicates."""

    entries: int
    depth: int
    pages: int
    root: int | None

@final
class MetaPage:
    """The newer of the two meta pages at the beginning of a data file, or, with `alone`, the only one, in `start`.

    Raises NativeError (lmdb.foreign, lmdb.encrypted, lmdb.checksums, lmdb.damaged).
    """

    def __new__(cls, start: bytes, alone: bool) -> MetaPage: ...
    format: int  # 1 is LMDB 0.9, 3 is LMDB 1.0
    page_size: int  # Bytes
    map_size: int  # Bytes; slapd's maxsize at its last write
    pages: int  # Up to the last page ever used, free pages included
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

    All methods raise NativeError with lmdb.damaged, build.damaged or lmdb.io.
    """

    def __new__(cls, path: _Path, *, txn: int | None = None, meta: bytes | None = None) -> Contents: ...
    tables: dict[str, TableRecord]
    def freed(self, since: int) -> dict[int, int]:
        """Returns transaction ID -> number of its freed pages that are still free, for transactions from `since` on."""
    def attributes(self) -> dict[int, str]:
        """Returns the attribute descriptions in ad2i by their numbers."""
    def suffixes(self) -> list[tuple[str, int]]:
        """Returns the normalised suffixes with their entry IDs."""
    def last_id(self) -> int:
        """Returns the greatest entry ID, or 0 if there is no entry."""
    def values(self, id: int, name: str) -> list[bytes] | None:
        """Returns the values of an attribute, including those in id2v, or None if there is no entry with this ID."""
    def first_values(self, after: int, names: Sequence[str], most: int) -> list[tuple[int, list[str]]]:
        """Returns, for at most `most` entries after the ID `after`, the ID and the first value of each attribute in
        `names`; the value is empty if the entry has none."""
    def newest_csns(self, stop: str | None, most: int | None = None) -> list[str]:
        """Returns the greatest entryCSN of each server ID. Follows the index on entryCSN backwards to the second of
        `stop`, and reads at most `most` entries, those with the highest IDs in a second. Without an index, reads all
        entries."""
    def csns_after(self, since: str) -> list[tuple[int, str]]:
        """Returns ID and entryCSN of each entry whose entryCSN is greater than `since`."""
    def index_counts(self, name: str) -> list[tuple[bytes, int]]:
        """Returns the keys of an index with the number of IDs of each."""
    def probe(self) -> None:
        """Reads the first and the last record of every table."""

def entry_with(entry: bytes, number: int, values: Sequence[bytes], normals: bool) -> bytes:
    """Returns the id2e value `entry` with these values of an attribute, in its place or after all others. normals: the
    normalised values equal them if the attribute has any; otherwise it has none.

    Raises NativeError with build.damaged if `entry` is no entry, build.unproven if the values are in id2v.
    """

def new_entry(flags: int, attributes: Sequence[tuple[int, Sequence[bytes]]]) -> bytes:
    """Returns the id2e value of an entry with these object class flags and, for each attribute, its number in ad2i and
    its values."""

@final
class IndexCosts:
    page_size: int
    pages: int  # In the file, up to the last page in use
    tables: list[IndexCost]  # All indexes, sorted by name

def index_costs(path: _Path, counters: Counters, txn: int) -> IndexCosts:
    """Measures the indexes of a data file. txn: the transaction of a reader slot that the caller keeps."""

def shared_uuids(
    path: _Path, counters: Counters, limits: Resources, txn: int | None, limit: int
) -> list[tuple[str, str, str]]:
    """Returns the first `limit` entryUUIDs of a data file that several entries have, with the DNs of two of these.

    limits: for sorting if there is no index on entryUUID with a posting for each entry."""

@final
class Selected:
    read: int
    kept: int  # Of the entries read
    glue: int  # Glue entries for ancestors that were not selected; not counted in `kept`

def select(
    paths: Sequence[_Path],
    entries: _Path,
    glue: _Path,
    selection: Selection,
    context_csns: Sequence[str],
    counters: Counters,
) -> Selected:
    """Writes the records that a consumer holds, and the glue entries that it creates. No entry but that of the suffix
    has a contextCSN. Memory: the DNs of parents."""

def schema(
    definitions: Sequence[tuple[Literal["macro", "syntax", "attribute", "class", "rule"], str, bool]],
    options: Sequence[str],
    dynamic_objects: bool,
    password_policy: bool,
) -> Schema:
    """Parses values of olcObjectIdentifier, olcLdapSyntaxes, olcAttributeTypes, olcObjectClasses and olcDitContentRules
    in the order of `slapcat -n0`; True marks a definition in cn=schema,cn=config itself, which is compiled into slapd.
    `options`: olcAttributeOptions. `dynamic_objects`: the database has the overlay dds. `password_policy`: some
    database has the overlay ppolicy.
    """

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
    duplicates: int  # Entries left out because another copy of them was kept
    dropped: int  # Entries left out because their parent was deleted
    stale: list[int]  # IDs of entries that a newer copy has replaced: they are still in id2e, and in no other table
    rejected: int
    rejections: list[Rejection]  # The first hundred, in input order
    misfits: list[tuple[str, str, int]]
    """(attribute description, syntax, number of values that violate the syntax); only with "count"."""
    completed: str  # What generated attributes added to the checksum of the entries, modulo 2^128; 0 unless `account`
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
        """Aborts after a failure to read or build: both ends fail with the code `cancelled`."""
    def repeat(self) -> None:
        """Allows entries to come more than once."""

def build(
    inputs: Sequence[_Path | int | Feed],
    out_path: _Path,
    database: Database,
    rules: BuildRules,
    limits: Resources,
    live: LiveSource | None,
    counters: Counters,
) -> Built:
    """Builds the data file of a database from LDIF: key by key as `slapadd -q` would. The same input and rules give the
    same file. Sorting uses unnamed files beyond `limits.memory`. Of entries that are read more than once, also by the
    functions of `live`, one is kept."""

@final
class SplitResult:
    entries: int
    newest: dict[str, str]  # Server ID, three hexadecimal digits in lower case -> its greatest entryCSN

def split(
    inputs: Sequence[_Path | int],
    schema: Schema,
    shares: Sequence[tuple[Sequence[str], _Path]],
    counters: Counters,
    file_urls: bool,
    claim: _Stamp,
) -> list[SplitResult]:
    """Each record goes unchanged to the database with the longest suffix above it; the first database also gets records
    that cannot be parsed. With `claim`, entries of the other databases lose their contextCSN."""

def verify(path: _Path, database: Database, limits: Resources, counters: Counters, full: bool, new: bool) -> int:
    """Checks the counts of a data file, and a sample of entries with their postings in every index. With `full`, checks
    every page and every entry, and rebuilds and compares every index. Raises build.damaged with the problem."""

@final
class Sample:
    """text: LDIF, parents first. records: entries of the database, and parents that were never added. windows: number
    of evenly spaced ranges of consecutive IDs; None: all entries."""

    text: bytes
    records: int
    windows: int | None

@final
class Exported:
    entries: int
    holes: int  # Parents that were never added, and so are in no file
    late: int  # Entries with a lower ID than their parent; they are in the last files
    bytes: int  # LDIF, before compression
    checksum: str  # Checksum of an EntryDigests of all files that ignores no attribute
    files: list[tuple[str, str, int, str]]
    """Name, 128-bit XXH3 in hexadecimal, entries and their checksum (see EntryDigests), in load order."""
    base: str  # DN of the base or the suffix, as the database spells it; "" if it has several suffixes
    context_csns: list[str]  # Of the suffix entry, as stored
    ranges: int

@final
class Dump:
    """A snapshot of a back-mdb database, read from the pages of its data file by `jobs` workers, without schema or
    configuration.

    txn: the transaction of a reader slot that the caller keeps; the newest snapshot is read, and stays intact as long
    as the slot is kept. None: nobody writes to the file. base: DN of the root of the subtree to read. after: entries
    up to this ID are left out. Damage raises build.damaged.
    """

    def __new__(cls, path: _Path, txn: int | None, base: str | None, jobs: int, after: int) -> Dump: ...
    def export(self, directory: _Path, ldif_format: LdifFormat, counters: Counters) -> Exported:
        """Writes `0001.ldif[.zst]`, `0002...`: parents first, lines not folded, the values of an attribute grouped. The
        same database gives the same bytes."""
    def stream(self, fd: int, ldif_format: LdifFormat, scratch: _Path, counters: Counters) -> Exported: ...
    def digest(self, tree: EntryDigests, counters: Counters) -> None:
        """Adds every entry to `tree`, which is unusable after an error."""
    def sample(self, counters: Counters, least: int, share: float, most: int) -> Sample:
        """Reads all entries if there are fewer than twice as many as the sample has."""
    def pick(self, names: Sequence[str], counters: Counters) -> bytes: ...

@final
class Seen:
    """Facts about the pages of a copy, collected for `audit` while copying: 130 bytes of memory per page."""

    def __new__(cls, source: _Path, meta: bytes) -> Seen:
        """Prepares for the snapshot of the meta page `meta` of `source`. The caller must keep a reader slot on it."""

@final
class PagePacks:
    """Packs of pages: number, path, name for errors, entries of the frames. transaction: of every page, in format 3."""

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
        """Writes the backup with the pack `own` to an empty file: both meta pages, then the segments (runs, own pages
        before the segment, pages), each verified by SHA-256 (32 bytes) or XXH3 (16 bytes)."""

@final
class KnownPages:
    """An index of pages by content ID: 60 bytes of memory per page. Empty without packs."""

    def __new__(
        cls, packs: PagePacks | None, segments: Sequence[tuple[bytes, int, int]], own: int, again: int
    ) -> KnownPages:
        """Indexes the pages of the backup that consists of `segments`. Up to `again` pages in sparsely used frames
        count as new, so that they are stored again."""

    def sift(
        self, data: PageBlock, first: int, own: int, page_size: int, transaction: int | None, level: int
    ) -> tuple[tuple[bytes, bytes, bytes, bytes], int]:
        """Returns the runs of these pages, the frames of new pages, their entries, and an XXH3; number of new pages."""

    def used(self) -> list[tuple[int, int]]:
        """Returns for each pack how many of its pages were reused, or are the base of a page stored as a difference."""

def clone_plain(source: _Path, target: _Path, head: bytes, length: int, counters: Counters, seen: Seen | None) -> int:
    """Returns the bytes of the copy, synced. The file may be written to if a reader slot keeps the snapshot."""

def clone_compact(source: _Path, target: _Path, meta: bytes, counters: Counters) -> int:
    """Checks all tables as `audit` does at level pages. Returns the bytes of the copy, synced. The caller must keep a
    reader slot on the snapshot of the meta page `meta`."""

@final
class PageBlock:
    """Whole pages, in memory that is reused once the block is dropped."""

    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...
    def compressed(self, level: int) -> bytes:
        """Returns the block as one zstd frame, with the number of pages and a checksum."""

@final
class PageBlocks:
    """The blocks of `compact_in_pieces`, for another thread: `size` bytes (a multiple of 64 KiB), the last one less."""

    def __new__(cls, size: int) -> PageBlocks: ...
    def take(self) -> PageBlock | None:
        """Waits for the next block and returns it, or None if no more will come, also after an error."""

    def close(self) -> None:
        """Stops the transfer: `compact_in_pieces` fails with EPIPE."""

def compact_in_pieces(source: _Path, pieces: PageBlocks, meta: bytes, counters: Counters) -> bytes:
    """Passes the copy of `clone_compact` in blocks to `pieces`: all pages but the two meta pages, which it returns."""

def clone_send(
    source: _Path, fd: int, head: bytes, length: int, part: str | None, counters: Counters, compacted: bool
) -> int:
    """Sends the copy of `clone_plain` to `fd`, with checksums, but without the bytes that `part` lists if that belongs
    to the same copy. compacted: `source` is a result of `clone_compact`. Returns the byte where it began. Raises
    ValueError if `part` was not written by a receiver.
    """

def clone_receive(fd: int, target: _Path, journal: _Path, counters: Counters) -> int:
    """Returns the bytes of the copy, synced. After an error, `journal` holds the `part` that was received; a resumed
    stream goes to the same files."""

_Finding: TypeAlias = tuple[str, int | None, str | None, str | None, str | None, int | None]

@final
class AuditReport:
    """The database is sound if `problems` is empty: (kind, such as "tree.entry", number, the first ones in full). A
    finding has the fields of `loader.mdb.verify.Finding`, with as many RDNs of the DN as the tree still gives. txn: of
    the checked snapshot."""

    entries: int
    txn: int
    problems: list[tuple[str, int, list[_Finding]]]
    drifted: list[str]  # Index tables that lead searches to wrong results and must be rebuilt
    left_out: list[str]  # Configured index tables that were not checked
    notes: list[str]

@final
class Refreshed:
    """renamed: part of `modified`. kept: deleted, but have children. unsettled: entryUUIDs; if any, nothing changed."""

    added: int
    modified: int
    renamed: int
    deleted: int
    kept: int
    unsettled: list[bytes]

def refresh(
    directory: _Path,
    database: Database,
    sent: SyncResult,
    now: str,
    limits: Resources,
    allowed: int,
    counters: Counters,
) -> Refreshed:
    """Of changed entries with the same entryUUID, the last one counts. allowed: a descriptor; the transaction is
    committed when a byte arrives on it, and aborted at its end of file."""

@final
class Gap:
    """An operation that does not fit the entries. proven: the CSN up to which the log is complete; empty: none."""

    dn: str
    csn: str
    start: str
    reason: str
    proven: str

@final
class Replayed:
    """applied, checked: operations up to the moment, and later ones. last: CSN of the last applied operation.
    created: createTimestamp of the log's suffix entry. overlaps: server IDs of which the log has an
    operation that the database has, too.
    dependent: reqStart and DN of operations that depend on one that was left out."""

    applied: int
    changed: int
    deleted: int
    last: str
    context_csns: list[str]
    until: str
    log_start: str
    log_end: str
    min_csns: list[str]
    created: str
    overlaps: list[str]
    gaps: list[Gap]
    dependent: list[tuple[str, str]]
    skipped: int

def replay(
    path: _Path, database: Database, log: Sequence[_Path], options: ReplayTask, counters: Counters
) -> Replayed: ...

@final
class FoundChanges:
    """text: LDIF records of log entries in the order of their CSNs. matching: for each, whether it matches the query;
    if not, it comes later and may concern the same entries. log_start: the oldest CSN in the log."""

    text: bytes
    matching: list[bool]
    log_start: str

def logged(log: Sequence[_Path], query: LogQuery, counters: Counters) -> FoundChanges:
    """Leaves out failed and rolled-back operations."""

def reindex(path: _Path, database: Database, attributes: Sequence[str], limits: Resources, counters: Counters) -> None:
    """Replaces either all of these indexes or none. Raises build.unproven if the keys of an index are not known well
    enough."""

@final
class Transferred:
    """checksum: of the copied records. tables: table -> number of values. misfits: see `Built`."""

    entries: int
    checksum: str
    tables: dict[str, int]
    misfits: list[tuple[str, str, int]]

def transfer(
    path: _Path, txn: int | None, out: _Path, database: Database, limits: Resources, counters: Counters
) -> Transferred:
    """Writes entries and DNs unchanged, with their IDs, in the format of `database`, with rebuilt indexes. Raises
    build.unproven if an entry is not stored as the slapd of `database` would store it."""

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
    """Checks a data file as `loader.mdb.verify.audit` does. The levels are meta, pages, tree and indexes; each includes
    those before it. txn: the transaction of a reader slot that the caller keeps; None for a file that nobody writes to.
    limit: reported problems of each kind."""

@final
class Loaded:
    """Counts that include earlier runs with the same journal: read = added + present + replaced + rejected."""

    read: int
    added: int
    present: int  # Existed already, and were left unchanged
    replaced: int
    rejected: int
    rejections: list[Rejection]  # The first hundred, in input order
    orphans: bool  # Whether a missing parent was the reason of every rejection
    stopped: bool  # Whether reading stopped early, because more entries were rejected than allowed
    before: int  # Entries that earlier runs completed
    left_out: int  # Values that were not sent
    deferred: int  # Entries that came before their parents
    named: int  # Entries that waited for entries that they name
    reconnects: int
    transactions: int
    largest: int  # Entries of the largest transaction

def add(inputs: Sequence[_Path | int], link: Link, counters: Counters, options: LoadOptions) -> Loaded:
    """Returns when each entry has an answer. If the server stays unreachable, raises an ldap.* error; the journal then
    has the completed entries."""

_Location: TypeAlias = tuple[str, int, str]

@final
class Plan:
    shared: int  # Entries with children, which are in every slice
    leaves: int
    unknown: int  # Missing parents, as far as DNs can be compared without a schema
    cuts: list[Cut]  # Where each slice begins: index of the file, uncompressed byte, line, leaf entries before it

def plan(ldif: SlicedLdif, shards: int, counters: Counters) -> Plan:
    """Reads the input twice. Writes the shared entries, parents first, and chooses up to `shards` slices."""

def feed_slice(slice: Slice, fd: int, counters: Counters) -> tuple[int, bool]: ...
def find_line(slice: Slice, line: int, counters: Counters) -> _Location | None: ...
def find_name(ldif: SlicedLdif, dn: str, counters: Counters) -> list[_Location]:
    """Returns path, line and DN of the first two records with that DN."""

def merge(paths: Sequence[_Path], out_path: _Path, options: MergeOptions, counters: Counters) -> int:
    """Merges the data files that slapadd built from slices, in order. A damaged part raises an error."""

@final
class Template:
    """A parsed template: `spec` and an entry's number determine the bytes of the entry. otherwise: the count for the
    kind of entry without a count of its own, if `spec.entries` is None.
    """

    def __new__(cls, spec: TreeSpec, otherwise: int | None) -> Template: ...
    entries: int  # In the whole tree, with the suffix and the branches
    suffix: str
    description: str
    fingerprint: str  # Of the content of the template and its lists: equal if they say the same
    kinds: list[tuple[str, int, int]]  # Name, number of the first entry, and number of entries of each kind
    def entry(self, number: int) -> bytes:
        """Returns the record of an entry and a blank line. Raises IndexError if there is no such entry."""
    def write(self, fd: int, first: int, end: int, jobs: int, counters: Counters, compress: bool) -> None:
        """Writes entries `first` to `end`-1 as LDIF. The bytes do not depend on `jobs`, the number of threads."""
    def shard(self, path: _Path, first: int, end: int, jobs: int, counters: Counters) -> Shard: ...
    def plan(self, options: PlanOptions, fd: int, jobs: int, counters: Counters) -> None:
        """Writes the operations of clients on the tree, as lines of JSON, or the changes among them as LDIF."""
