"""The native core: what happens once an entry, with the interpreter lock released.

Inputs are known by content: zstd and gzip are decompressed. Outputs whose name ends in .zst (a
further .partial is overlooked) are compressed. Outputs are readable by their owner only, and on the
disk when the call returns; after an error what was written so far stays. Every call ends soon after
`Counters.cancel()` with the code "cancelled", and on Ctrl-C. File descriptors are duplicated; the
caller closes their own. Results are read-only.

Classes of other modules that are arguments are read by their attributes.

Two DNs are the same when they differ in ASCII case, in spaces around `,` `=` `+`, in the way of
escaping (RFC 4514), or in the order of a multi-valued RDN. No schema is known here.
"""

from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Literal, TypeAlias, TypedDict, final, type_check_only

from loader.defaults import Resources
from loader.ldif import ArrangeTask
from loader.server.options import Search
from loader.sinks.changing import ReplayTask, SyncResult
from loader.sinks.mdb import BuildRules, LiveSource, Target
from loader.sinks.slapadd import SlicedLdif
from loader.sources.dit import PlanOptions, TreeSpec
from loader.sources.mdb import LdifFormat

_Path: TypeAlias = str | PathLike[str]

def version() -> str: ...

class NativeError(Exception):
    """What the core could not do; `str()` tells all, the attributes tell it apart.

    code is one of
      ldif.truncated    the input is cut: last line without its end, compressed stream without its end,
                        last record broken off
      ldif.syntax       not LDIF
      ldif.changetype   a change record other than `changetype: add`
      ldif.url          `attribute:< url`
      ldif.include      an `include:` line, which was not to be followed or cannot be
      ldif.encoding     UTF-16 or UTF-32, or a byte order mark
      ldif.version      `version:` other than 1
      ldif.too_large    a record of more than 256 MiB
      ldif.corrupt      a compressed input is damaged
      ldif.io           the operating system refused
      ldif.no_space     no space or quota for an output
      ldif.pipe         nobody reads the other end of the pipe any more
      tree.root_missing contextCSN was to be set, but the root entry is not there
      tree.not_empty    the output directory holds something
      schema.definition    a definition or setting that cannot be read; the message names it
      build.unproven       the form of something in the database is not known well enough
      build.empty          no entry at all
      build.too_many       more than 4,294,967,294 entries
      build.map_full       the database would outgrow the map size
      build.rejected       more entries were rejected than may be: path, line, dn and message are of the
                           first; all stand in the reject file
      build.missing_parents  as that, and all for want of a parent
      build.damaged        what was written does not read back; or a database that is read is damaged: page or
                           entry, and table, stand in the message
      internal             a bug: a thread panicked, or a call had no place where it was made
      mdb.no_such_base     the database has no entry of that name
      lmdb.foreign      no file of a released 64-bit LMDB
      lmdb.encrypted    an environment of LMDB 1.0 with encryption
      lmdb.checksums    an environment of LMDB 1.0 with page checksums
      lmdb.damaged      a data file with pages that make no sense; the message names page and table
      lmdb.no_space     no space or quota for a copy
      lmdb.full         a copy would outgrow its map size
      lmdb.stream       a stream of a copy that ends early or is garbled
      lmdb.misuse       a stream that is none of a copy, or goes on with another copy
      lmdb.io           the operating system refused
      build.duplicate      two parts of what is merged have an entry of the same name: dn
      ldap.connect      no connection: nobody there, or TLS failed before a word was said
      ldap.tls          StartTLS was refused, or its handshake failed
      ldap.bind         the bind was refused; `result` says how
      ldap.request      a search ended with the result code `result`; `dn`: as much of the base as is there
      ldap.lost         the connection broke, or the server closed it
      ldap.silent       the server owed an answer for too long
      ldap.protocol     what came is not LDAP
      template.syntax   a template that makes no sense; line and column stand in the message
      template.usage    a template that makes no sense with what was asked of it: a count, a suffix
      cancelled         `Counters.cancel()` was called
    """

    code: str
    path: str | None
    line: int | None
    dn: str | None
    result: int | None
    """Of ldap.*: the LDAP result code (RFC 4511, A.1), below 0 libldap's own (ldap.h); else None."""
    errno: int | None
    """What the operating system said; None where it is not to blame."""
    message: str

@final
class Counters:
    """Entries and uncompressed bytes read, summed over all calls that share it; cheap to read."""

    def __new__(cls) -> Counters: ...
    entries: int
    bytes: int
    files: list[tuple[str, int, str]]
    """LDIF files that were read from their beginning to their end: path, bytes as they lie on the disk, and XXH3 of
    128 bits of these in hexadecimal digits. Taken while they are read."""
    open_ends: list[str]  # LDIF files whose last line had no end
    stage: tuple[str, int, int]
    """Of a build: its stage ("read", "join", "write", "sync"), and how many parts of how many are done."""
    def limit(self, rate: int) -> None:
        """Searches of a Channel take no more entries a second from now on; 0 is without limit."""
    def cancel(self) -> None:
        """Ends all calls that share it, now and later."""

@final
class ScanResult:
    entries: int
    bytes: int  # Uncompressed
    attributes: dict[str, tuple[str, int]]  # Attribute in lower case, without options -> (path, line) of its first use
    object_classes: dict[str, tuple[str, int]]  # Value in lower case -> (path, line) of its first use
    first_dn: str | None
    context_csns: list[str]  # All values of contextCSN in the order met
    max_csns: dict[str, str]  # Server ID, three hexadecimal digits in lower case -> its greatest entryCSN

@final
class Shard:
    entries: int
    bytes: int  # Written, before compression
    checksum: str  # That of a tree of the written file with nothing ignored

@final
class Arrangement:
    entries: int  # Written
    duplicates: int  # Left out, for a newer entry has their entryUUID or their DN
    dropped: int  # Left out with `drop_orphans`, for an ancestor of theirs is nowhere
    checksum: str  # That of a tree of all written files with nothing ignored
    files: list[tuple[str, int, str]]  # Name, entries and their checksum as of a tree, in the order in which they load
    taken: list[tuple[str, str]]
    """Files that hold a file of the input as it is: its name, and that of the one in the input."""
    orphans: list[tuple[str, str, str]]
    """(parent, child, entryUUID of the child or ""): parents that the input lacks, each once as its
    first child spells it, with that child. Empty with `drop_orphans`, and without `name_orphans`."""
    renamed: list[str]
    """entryUUIDs that were met under more than one DN; of each only the newest entry is written. Not distinct."""

@final
class EntryDigests:
    """Digest of a tree: 36 bytes an entry, and its DN. After an error it is of no use."""

    entries: int
    checksum: str  # 32 hexadecimal digits; the order of entries, attributes and values does not count
    def add_path(self, path: _Path) -> None:
        """A file; refused when it shows marks of having been cut."""
    def diff(self, other: EntryDigests, limit: int) -> Difference:
        """Only between trees that ignore the same attributes."""

@final
class Difference:
    only_left: int
    only_right: int
    changed: int
    samples: list[tuple[Literal["only-left", "only-right", "changed"], str]]
    """The first `limit` differing DNs, in the order of their text."""
    subtrees: list[tuple[str | None, tuple[int, str], tuple[int, str], int]]
    """The `limit` most different subtrees: DN, entries and checksum of each side, entries that differ.

    A subtree is what is below an entry that is directly below the base; without a name it is the base and what
    is directly below it.
    """

def dn_key(text: bytes) -> bytes | None:
    """Equal for DNs that slapd takes for equal, as far as can be told without a schema: values as caseIgnoreMatch
    compares them, the usual naming attributes under all their names. RDNs are joined by commas, and no value holds a
    bare one. None: not a DN."""

def dn_parent(text: bytes) -> bytes:
    """The DN above, as spelt; empty for a single RDN and for what is no DN."""

def records(
    text: bytes | int, keys: set[bytes] | None, most: int, counters: Counters
) -> list[tuple[str, list[tuple[str, bytes]]]]:
    """DN and attribute lines of records in order, at most so many; of each of `keys` (`dn_key`) the first. text: an int
    is a descriptor. All that is found is in memory."""

def scan(paths: Sequence[_Path], counters: Counters) -> ScanResult:
    """A first look at files; every base64 value is decoded, and cut files are refused."""

def shard(fd: int, out_path: _Path, drop: Sequence[str], counters: Counters) -> Shard:
    """Copies records without the attributes `drop` (any case, with any options).

    Other bytes stay as they are, but values of one attribute come out side by side, and comments
    between records, `version:` and `changetype: add` are left out.
    """

def parents_first(fd: int, out_path: _Path, scratch: _Path, counters: Counters) -> None:
    """Copies records sorted by depth, and otherwise in their order. Beyond 32 MiB of them it uses a nameless file in
    `scratch`."""

def arrange(task: ArrangeTask, out_dir: _Path, counters: Counters) -> Arrangement:
    """Makes files in `out_dir` (created, or empty) that slapadd can load in the order of their names.

    0000-interior.ldif[.zst] holds parents sorted by depth, NNNN.ldif[.zst] the rest of the Nth of
    `paths` and `again` (no file where there is no rest). Of entries with the same entryUUID or DN one
    stays: the last read from `again`, or else the one with the greatest entryCSN, of equals the later.
    The entry `root` gets exactly `context_csns`, no other entry any. Reads all twice, so `counters`
    counts all twice. Memory: 64 bytes an entry, 80 at the peak. Same input, same bytes.
    """

@final
class LearnResult:
    """A template that makes trees like one that was read."""

    template: str  # As TOML. No value of the source stands in it, nor a part of one.
    entries: int  # Of the source
    main: int  # Entries of the kind that -n counts
    kinds: int
    left_out: int  # Entries of which there were too few alike to be told

def learn(paths: Sequence[_Path], fd: int | None, jobs: int, counters: Counters) -> LearnResult:
    """Reads LDIF once, memory bounded, and then the descriptor. The same template whatever the jobs.

    Raises NativeError (build.empty: nothing to learn from).
    """

def join(
    paths: Sequence[_Path],
    fd: int,
    counters: Counters,
    *,
    root: str | None = None,
    context_csns: Sequence[str] | None = None,
    aliases: Mapping[str, str] | None = None,
) -> int:
    """Writes the records of all files to `fd`, a blank line after each; returns their number.

    With `root` and `context_csns`, contextCSN as in `arrange`, and an entryCSN newer than what its
    server's contextCSN claims is held back to that; without, both stay as they are. Also regroups
    values and leaves out the same as `shard`; `aliases`: names of attributes, and those under whose values
    theirs are to stand.
    """

@type_check_only
class ConnectionOptions(TypedDict):
    """How to reach a server, and as whom; None leaves it to ldap.conf. start_tls: 1 try, 2 demand. connect_timeout
    (of a handshake, too), bind_timeout (of StartTLS and each step of a bind) and silence in seconds: so long may a
    server that owes an answer send not a byte, 0 is without limit.
    """

    uri: str | None
    bind_dn: str | None
    secret: bytes | None
    mechanism: str | None
    authcid: str | None
    authzid: str | None
    realm: str | None
    secprops: str | None
    as_written: bool
    start_tls: int
    connect_timeout: float
    bind_timeout: float
    silence: float

@final
class Part:
    entries: int
    bytes: int  # Of LDIF, before compression
    files: list[str]  # In their order
    sums: list[str]  # XXH3 of 128 bits of each, in hexadecimal digits

@final
class Synced:
    """What a provider told. names_present: whatever it did not name is gone. cut: there was more. repeated: entryUUIDs
    of 16 bytes that came more than once for entries that are there."""

    entries: int
    present: int
    deleted: int
    repeated: list[bytes]
    cookie: bytes | None
    names_present: bool
    cut: bool

@final
class Channel:
    """A bound connection, for one search at a time; a search that failed closes it. Everything over it is counted
    in `counters`. Referral objects are entries; aliases are not followed."""

    def __new__(cls, link: ConnectionOptions, counters: Counters) -> Channel: ...
    def close(self) -> None: ...
    def part(self, search: Search, directory: _Path, name: str, drop: Sequence[str], *, compress: bool) -> Part:
        """Everything that is found, in files `NAME-000.ldif[.zst]` and on of about 64 MiB of LDIF each.

        Attributes `drop` (any case, with any options) are left out, values of one attribute stand side by
        side, lines are not folded. Beside each file lies FILE.rows with what `arrange` would find out from
        its records. What an earlier try left under these names is gone.
        """
    def feed(self, search: Search, feed: Feed, notes: _Path, drop: Sequence[str], copy: _Path | None) -> int:
        """Everything that is found, as blocks to `feed`; how many entries. After an error some of them are there.

        notes: a file that gets name, entryUUID and entryCSN of the entries that have others below them. copy: a file
        that gets the LDIF too; compressed when its name ends in .zst. Both are on the disk when the call returns.
        """
    def file(self, search: Search, path: _Path, drop: Sequence[str]) -> Part:
        """The same into one file, without rows."""
    def sync(
        self, search: Search, cookie: bytes, most: int, files: tuple[_Path, _Path, _Path], drop: Sequence[str]
    ) -> Synced:
        """Content synchronisation (RFC 4533), refresh only: what is found now against what was at `cookie`.

        files: for whole entries, as LDIF, and for the entryUUIDs, of 16 bytes, of those present and those deleted. More
        than `most` whole entries end it; the channel is of no use then.
        """
    def digest(self, search: Search, tree: EntryDigests) -> None:
        """Adds every entry to `tree`; after an error that is of no use."""
    def discard(self, search: Search) -> None:
        """Receives every entry, and counts it."""

def tree(ignore: Sequence[str], counters: Counters, *, memory: int = ..., scratch: _Path | None = None) -> EntryDigests:
    """An empty tree that will overlook the attributes `ignore` (any case, with any options).

    What exceeds `memory`, in bytes, goes to a temporary file without a name in the directory `scratch`.
    """

@final
class Schema:
    """A slapd's schema."""

    def facts(self) -> list[tuple[Literal["attribute", "class"], str, list[str], bool, str, str]]:
        """Of each attribute type and object class: its name, all names with the OID, whether it is compiled into slapd,
        what of it decides what is stored, and what besides decides index keys: texts to be compared with another
        schema's."""

    def foreign(self) -> dict[str, str]:
        """Attribute types whose equality rule or syntax is not OpenLDAP's own -> that rule or syntax."""

    def unknown(self, descriptions: Sequence[str]) -> list[str]:
        """Those whose attribute type or options it does not know."""

    def unproven(self, descriptions: Sequence[str]) -> dict[str, str]:
        """Of the types of these descriptions, those whose values are stored in a way that is not known here."""

@final
class Selection:
    """What a consumer holds of its provider's entries, by its syncrepl."""

    def __new__(
        cls,
        schema: Schema,
        *,
        suffix: str,
        root_dn: str | None,
        last_mod: bool,
        base: str,
        scope: str,
        filter: str | None,
        attrs: Sequence[str],
        exattrs: Sequence[str],
        massage: str | None,
    ) -> Selection:
        """suffix, root_dn, last_mod: of the consumer's database. filter: RFC 4515; None: the provider evaluates it.

        Raises NativeError (build.unproven) for what slapd alone can answer.
        """
    def request(self) -> list[str]:
        """The attributes to ask the provider for."""
    def left_out(self) -> list[str]:
        """Attributes of what the provider sends that the consumer does not store."""

@final
class SearchGroup:
    """Searches that differ in their values only."""

    filter: str  # With `x` for each value; a piece of a substring that is too short for an index has its length
    searches: int
    indexed: bool  # slapd finds the candidates by indexes alone
    used: list[tuple[str, str]]  # Indexes: the attribute as it is configured, and the kind (pres, eq, approx, sub)
    lacking: list[tuple[str, str]]  # Indexes that would serve it, by attribute description
    answered: int  # Of those whose results are known
    entries: int  # Found by those that are answered, in all
    seconds: float  # etime of those that are answered, in all; 0 where the log does not tell it

@final
class SearchesFound:
    groups: list[SearchGroup]
    lines: int
    of_base: int  # Searches with the scope base, which need no index; not among the groups
    elsewhere: int  # In other databases
    unreadable: int  # Filters that cannot be read
    others: int  # Beyond the kinds of searches that are told apart (50,000)

def searches(
    paths: Sequence[_Path],
    schema: Schema,
    counters: Counters,
    *,
    filters: bool,
    suffix: str,
    indexes: Sequence[tuple[str, Sequence[str]]],
    substr: tuple[int, int, int],
) -> SearchesFound:
    """Reads slapd's log, or with `filters` a filter on each line; files may be compressed (zstd, gzip). `substr`: as of
    `Database`. Memory: the distinct filters without their values, at most 50,000."""

@final
class IndexCost:
    name: str
    pages: int  # Those of its tree, and of the trees that the IDs of keys have
    keys: int
    records: int  # Each is an ID, or one of the three of a range
    ranges: int  # Keys with a range

@final
class TableRecord:
    """A B+tree of a data file. root: its page, None while it is empty. pages: branch, leaf and overflow pages, without
    those of the trees that values have of their own."""

    entries: int
    depth: int
    pages: int
    root: int | None

@final
class MetaPage:
    """The newer of the two meta pages at the beginning of a data file, or the one in `start` if it is `alone`.

    Raises NativeError (lmdb.foreign, lmdb.encrypted, lmdb.checksums, lmdb.damaged).
    """

    def __new__(cls, start: bytes, *, alone: bool = False) -> MetaPage: ...
    format: int  # 1 is LMDB 0.9, 3 is LMDB 1.0
    page_size: int  # Bytes
    map_size: int  # Bytes; slapd's maxsize when it last wrote
    pages: int  # Up to the last one ever used, free ones included
    used: int  # Bytes of these pages; a sparse file shows more
    txnid: int
    free: TableRecord  # Pages that can be used again, by the transaction that freed them
    main: TableRecord  # The table of tables
    def page(self, number: int, txnid: int, map_size: int) -> bytes:
        """A whole meta page of another number, transaction and map size, which says the same else."""
    def of_copy(self) -> bytes:
        """Both meta pages of a copy of the snapshot as it stands."""

@final
class Contents:
    """Reads single facts of a snapshot of a data file. txn: the transaction for which a reader slot is held, None if
    nobody writes; it reads the newest snapshot. meta: the meta page of the snapshot, if that one is wanted.

    All calls raise NativeError (lmdb.damaged, build.damaged, lmdb.io).
    """

    def __new__(cls, path: _Path, *, txn: int | None = None, meta: bytes | None = None) -> Contents: ...
    tables: dict[str, TableRecord]
    def freed(self, since: int) -> dict[int, int]:
        """The transactions from `since` on that have freed pages, and how many of these are not used again."""
    def attributes(self) -> dict[int, str]:
        """The attribute descriptions of ad2i by their numbers."""
    def suffixes(self) -> list[tuple[str, int]]:
        """Normalised, with their entry IDs."""
    def last_id(self) -> int:
        """The greatest entry ID, 0 if there is none."""
    def values(self, id: int, name: str) -> list[bytes] | None:
        """Of an attribute of an entry, also those in id2v; None if there is no such entry."""
    def first_values(self, after: int, names: Sequence[str], most: int) -> list[tuple[int, list[str]]]:
        """Of at most `most` entries behind the ID `after`: the ID, and the first value of each of these attributes,
        empty where an entry has none."""
    def newest_csns(self, stop: str | None = None, most: int | None = None) -> list[str]:
        """The greatest entryCSN of each server ID, by the index of entryCSN from its last second back to that of
        `stop`, and of at most `most` entries, those with the highest IDs of a second. Without an index all entries are
        read."""
    def csns_after(self, since: str) -> list[tuple[int, str]]:
        """IDs of the entries whose entryCSN is greater, and it."""
    def index_counts(self, name: str) -> list[tuple[bytes, int]]:
        """The keys of an index, and how many IDs each has."""
    def probe(self) -> None:
        """Reads the first and the last record of every table."""

def entry_with(entry: bytes, number: int, values: Sequence[bytes], *, normals: bool) -> bytes:
    """The value in id2e with these values of one attribute, in its place or behind all others. normals: its normal
    forms are the same values if it had any; else it has none.

    Raises NativeError (build.damaged: no entry; build.unproven: the values are in id2v).
    """

def new_entry(flags: int, attributes: Sequence[tuple[int, Sequence[bytes]]]) -> bytes:
    """The value in id2e of an entry with these object class flags, and of each attribute its number in ad2i and
    values."""

@final
class IndexCosts:
    page_size: int
    pages: int  # Of the file, up to the last in use
    tables: list[IndexCost]  # All indexes by name

def index_costs(path: _Path, counters: Counters, *, txn: int) -> IndexCosts:
    """Of a data file; txn: that of the reader's slot which is held."""

def shared_uuids(
    path: _Path, counters: Counters, limits: Resources, *, txn: int | None, limit: int
) -> list[tuple[str, str, str]]:
    """The first `limit` entryUUIDs that several entries of a data file have, each with the DNs of two of them.

    limits: for sorting where no index on entryUUID has a posting for each entry."""

@final
class Selected:
    read: int
    kept: int  # Of those read
    glue: int  # Entries made for ancestors that were not selected; not among those

def select(
    paths: Sequence[_Path],
    entries: _Path,
    glue: _Path,
    selection: Selection,
    context_csns: Sequence[str],
    counters: Counters,
) -> Selected:
    """Writes what a consumer holds of the records in `paths` to the file `entries`, and the glue entries that it makes
    to `glue`. The entry of the suffix gets `context_csns`, and no other entry any. Memory: the names of parents."""

def schema(
    definitions: Sequence[tuple[Literal["macro", "syntax", "attribute", "class", "rule"], str, bool]],
    options: Sequence[str],
    *,
    dynamic_objects: bool = False,
    password_policy: bool = False,
) -> Schema:
    """From values of olcObjectIdentifier, olcLdapSyntaxes, olcAttributeTypes, olcObjectClasses and
    olcDitContentRules in the order of `slapcat -n0`; True: it stands in cn=schema,cn=config itself, so it
    is compiled into slapd. `options`: olcAttributeOptions. `dynamic_objects`: the database has the overlay
    dds. `password_policy`: some database has the overlay ppolicy.
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
    duplicates: int  # Entries left out, for they were read twice
    dropped: int  # Entries left out, for their parent is gone
    stale: list[int]  # IDs of entries that a newer copy has overtaken: id2e still has them, and no other table
    rejected: int
    rejections: list[Rejection]  # The first hundred, in the order of the input
    misfits: list[tuple[str, str, int]]
    """(attribute description, syntax, values read that the syntax forbids), of "count" alone."""
    completed: str  # What completing the entries added to the checksum of their tree, modulo 2^128; 0 unless `account`
    bytes: int  # Of the file
    pages: int
    tables: dict[str, int]  # Sub-database -> values in it
    phases: dict[str, float]  # Stage -> seconds

@final
class Database:
    """What slapd is configured to do with one database (slapd-mdb(5), slapd-config(5))."""

    def __new__(cls, target: Target) -> Database: ...

@final
class Feed:
    """Blocks of LDIF on their way from connections to a build, bounded: whoever is faster waits."""

    def __new__(cls) -> Feed: ...
    def close(self) -> None:
        """All has been read."""
    def break_off(self) -> None:
        """Reading or building failed: both ends stop, with an error of the code `cancelled`."""
    def repeat(self) -> None:
        """Some entries may come more than once."""

def build(
    inputs: Sequence[_Path | int | Feed],
    out_path: _Path,
    database: Database,
    rules: BuildRules,
    limits: Resources,
    live: LiveSource | None,
    counters: Counters,
) -> Built:
    """Builds the data file of a database from LDIF: key by key what `slapadd -q` makes.

    inputs: files, or descriptors of streams, in their order. out_path: made anew, mode 0600, synced when the
    call returns; the same input and rules give the same file. More than `limits.memory` for sorting goes to nameless
    files. Of entries that are read more than once, also by the functions of `live`, one is kept.
    """

@final
class SplitResult:
    entries: int
    newest: dict[str, str]  # Server ID, three hexadecimal digits in lower case -> its greatest entryCSN

def split(
    inputs: Sequence[_Path | int],
    schema: Schema,
    shares: Sequence[tuple[Sequence[str], _Path]],
    counters: Counters,
    *,
    file_urls: bool,
    root: str | None = None,
    claimed: Sequence[str] | None = None,
) -> list[SplitResult]:
    """Divides LDIF among databases: each record goes, as it stands, to the one whose suffix is the longest above it.

    shares: the suffixes of each, and the file it gets. The first one gets besides whatever is below none of them or
    cannot be read. With `claimed`, the contextCSN that the entry `root` will have, no entry of the others keeps a
    contextCSN or a newer entryCSN.
    """

def verify(path: _Path, database: Database, limits: Resources, counters: Counters, *, full: bool, new: bool) -> int:
    """The entries of a finished data file that nobody writes to.

    A look at its counts and a sample of entries, each looked for in every index; `full` at every page, at
    every entry, and every index is made again and compared. new: the file is as the build wrote it.
    NativeError build.damaged says what is wrong.
    """

@final
class Sample:
    """text: LDIF, parents first. records: entries of the database, and parents that were never added. windows: of
    consecutive IDs, at even places; None: all entries."""

    text: bytes
    records: int
    windows: int | None

@final
class Exported:
    entries: int
    holes: int  # Parents that were never added; they stand nowhere
    late: int  # Entries below one that comes after them in the order of IDs; they stand in the last files
    bytes: int  # Of LDIF, before compression
    checksum: str  # That of a tree of all files with nothing ignored
    files: list[tuple[str, str, int, str]]
    """Name, XXH3 of 128 bits in hexadecimal digits, entries and their checksum as of a tree; in the order in which
    they load."""
    base: str  # DN of the base, or of the suffix, as the database spells it; "" where it has several
    context_csns: list[str]  # Of the suffix, as stored
    ranges: int

@final
class Dump:
    """A snapshot of a database of back-mdb, read from the pages of its data file by `jobs` workers; no schema and no
    configuration is needed.

    txn: the transaction of which somebody holds a reader's slot; the newest snapshot is read, and stays whole as long
    as it is held. None: nobody writes to the file. base: DN of the entry that with all below it is wanted. Damage is
    build.damaged.
    """

    def __new__(cls, path: _Path, *, txn: int | None, base: str | None, jobs: int) -> Dump: ...
    def export(self, directory: _Path, ldif_format: LdifFormat, counters: Counters) -> Exported:
        """Files `0001.ldif[.zst]` and on in the empty `directory`: parents first, lines not folded, values of one
        attribute side by side. Same database, same bytes."""
    def stream(self, fd: int, ldif_format: LdifFormat, scratch: _Path, counters: Counters) -> Exported:
        """What `export` writes, into a descriptor. After an error that is not the reader's (ldif.pipe) it ends with
        what no reader of LDIF takes. scratch: a directory for a nameless file."""
    def digest(self, tree: EntryDigests, counters: Counters) -> None:
        """Adds every entry to `tree`; after an error that is of no use."""
    def sample(self, counters: Counters, *, least: int, share: float, most: int) -> Sample:
        """At least so many entries, and that share of all, but at most so many; all, where there are not twice as
        many."""
    def pick(self, names: Sequence[str], counters: Counters) -> bytes:
        """The entries of these DNs as LDIF, as far as they are there."""

@final
class Seen:
    """What the pages of a copy are, noted while they are copied, for `audit`: 130 bytes of memory for each."""

    def __new__(cls, source: _Path, meta: bytes) -> Seen:
        """Of the snapshot that the meta page `meta` of `source` tells of. A reader has to hold it meanwhile."""

@final
class PagePacks:
    """Packs of pages: number, path, name for errors, entries of its frames. transaction: of every page, in format 3."""

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
        """Writes the backup with pack `own` to an empty file: both meta pages, then segments (runs, own pages
        before it, pages), each found to have its SHA-256 (32 bytes) or XXH3 (16)."""

@final
class KnownPages:
    """Pages by their ids: 60 bytes of memory for each. Without packs, none."""

    def __new__(
        cls, packs: PagePacks | None, segments: Sequence[tuple[bytes, int, int]], own: int, *, again: int
    ) -> KnownPages:
        """Of the backup that consists of these segments. again: so many of its pages, at most, are
        left out, those of the frames that are used least."""

    def sift(
        self, data: PageBlock, first: int, own: int, *, page_size: int, transaction: int | None, level: int
    ) -> tuple[tuple[bytes, bytes, bytes, bytes], int]:
        """Whole pages as runs, frames of those that are new, the entries of these, XXH3 of all; how many are new."""

    def used(self) -> list[tuple[int, int]]:
        """Of each pack, how many pages were found again, or are the base of one that is stored as a difference."""

def clone_plain(
    source: _Path, target: _Path, head: bytes, length: int, counters: Counters, *, seen: Seen | None
) -> int:
    """Copies a data file to `target` as it stands, holes left out: `head`, which is both meta pages, then what the
    file has up to `length`. Returns the bytes of the copy, synced. Right for a file that is written to as long as a
    reader holds the snapshot that `head` tells of. seen: gets to know its pages.
    """

def clone_compact(source: _Path, target: _Path, meta: bytes, counters: Counters) -> int:
    """Writes the snapshot that the meta page `meta` tells of to `target`: its pages in order, none of them free.

    All tables are checked as `audit` does at level pages. Returns the bytes of the copy, synced. A reader
    has to hold the snapshot.
    """

@final
class PageBlock:
    """Whole pages. Its memory is used again once it is gone."""

    def __len__(self) -> int: ...
    def __bytes__(self) -> bytes: ...
    def compressed(self, level: int) -> bytes:
        """As one frame of zstd, with their number and a checksum."""

@final
class PageBlocks:
    """What `compact_in_pieces` makes, for another thread: of `size` bytes, a multiple of 64 KiB, the last shorter."""

    def __new__(cls, size: int) -> PageBlocks: ...
    def take(self) -> PageBlock | None:
        """The next; None when no more comes, for whatever reason. Waits for it."""

    def close(self) -> None:
        """No more are taken: `compact_in_pieces` fails with EPIPE."""

def compact_in_pieces(source: _Path, pieces: PageBlocks, meta: bytes, counters: Counters) -> bytes:
    """The same copy, to whoever takes the pieces: all pages but the two meta pages, which it returns."""

def clone_send(
    source: _Path, fd: int, head: bytes, length: int, part: str | None, counters: Counters, *, compacted: bool
) -> int:
    """Sends what `clone_plain` would copy to `fd`, with checksums; without what `part` says is there, if that is of the
    same copy. compacted: `source` is what `clone_compact` made. Returns the byte that it began with. ValueError: `part`
    is nothing that a receiver has written.
    """

def clone_receive(fd: int, target: _Path, journal: _Path, counters: Counters) -> int:
    """Receives what `clone_send` sends into `target`. Returns the bytes of the copy, synced. After an error `journal`
    holds the `part` that is there; a stream that goes on goes into the same files.
    """

@final
class Finding:
    """A problem of a database. id: of the entry; dn: as far up as the tree tells it; page: its number."""

    message: str
    id: int | None
    dn: str | None
    attribute: str | None
    table: str | None
    page: int | None

@final
class Problem:
    """All problems of a kind, such as "tree.entry": the first are told."""

    kind: str
    count: int
    told: list[Finding]

@final
class AuditReport:
    """Sound, if there are no problems. txn: of the snapshot that was looked at."""

    entries: int
    txn: int
    problems: list[Problem]
    drifted: list[str]  # Index tables by which searches do not find what they should: they have to be made again
    left_out: list[str]  # Index tables that are configured, and were not looked at
    notes: list[str]

@final
class Refreshed:
    """renamed: among the modified. kept: gone, but for entries below them. unsettled: entryUUIDs; nothing was done."""

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
    """Brings a database that no process has open up to date, in one transaction.

    Of changed entries with the same entryUUID the last counts. allowed: a descriptor; a byte from it lets the
    transaction be committed, its end does not.
    """

class Gap:
    """An operation that does not fit the entries. proven: the CSN up to which the log is complete; empty: none."""

    dn: str
    csn: str
    start: str
    reason: str
    proven: str

class Replayed:
    """applied, checked: operations up to the moment, and later ones. last: CSN of the last applied operation.
    created: createTimestamp of the log's suffix entry. overlaps: server IDs of which the log has an
    operation that the database has, too.
    dependent: reqStart and DN of operations that depend on one that was left out."""

    applied: int
    checked: int
    contained: int
    foreign: int
    failed: int
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

def replay(path: _Path, database: Database, log: Sequence[_Path], options: ReplayTask, counters: Counters) -> Replayed:
    """Replays a cn=accesslog, which the LDIF files `log` contain, on the entries of the data file `path`.

    The data file is only read. Writes the changed entries, and the entryUUIDs of deleted entries, to files.
    """

@final
class Reindexed:
    """entries: those that were read. tables: index table -> values in it."""

    entries: int
    tables: dict[str, int]

def reindex(
    path: _Path, database: Database, attributes: Sequence[str], limits: Resources, counters: Counters
) -> Reindexed:
    """Makes the tables of these attributes' indexes again in a data file that no process has open: all of them are
    there afterwards, or what was before. Code build.unproven, and nothing changed, where the keys of an index are not
    known well enough.
    """

@final
class Transferred:
    """checksum: of the records that were copied. tables: table -> values in it. misfits as in `Built`."""

    entries: int
    checksum: str
    tables: dict[str, int]
    misfits: list[tuple[str, str, int]]

def transfer(
    path: _Path, txn: int | None, out: _Path, database: Database, limits: Resources, counters: Counters
) -> Transferred:
    """Makes the data file `out` from the snapshot `txn` of the file `path`: its entries and names as they are, with
    their IDs, in the format of `database`, whose indexes are made anew. Synced when this returns.

    Code build.unproven where an entry is not stored as the slapd of `database` would store it.
    """

def records_checksum(path: _Path, counters: Counters, *, jobs: int) -> str:
    """Of all records of a data file that `transfer` copies, in whatever order; nobody writes to it."""

def audit(
    path: _Path,
    counters: Counters,
    limits: Resources,
    *,
    level: str,
    sample: int,
    txn: int | None,
    database: Database | None,
    seen: Seen | None,
    limit: int,
) -> AuditReport:
    """Is a data file sound? Levels are meta, pages, tree and indexes; each looks at what those before it do.

    seen: what was noted when the file was written; none of these pages is read again.
    txn: the transaction on whose snapshot the caller holds a reader slot; None for a file that nobody writes to.
    database: of level indexes. sample: at that level so many entries are held against the schema and looked for in
    every index, and nothing else is done; 0: all of it. limit: problems of each kind that are told. Damage of the
    file is in the verdict, never an error.
    """

@type_check_only
class LoadOptions(TypedDict):
    """What `add` is asked to do.

    batch: entries a transaction; 0 finds out, 1 makes none. window: requests that may wait for their answers on a
    connection, on a quick way to the server and at most. exists: of an entry whose DN is there already. leave_out:
    attributes (any case, with any options). contexts: the server's suffixes. aliases: (other name, name that the
    server shows) in lower case. rejects: LDIF of rejected entries with their reasons, made when there is one.
    max_rate: entries a second, 0 is without limit. journal: made, or gone on with. all_uncertain: any entry may have
    been added by an earlier load. references: attributes that name entries, after which an entry is sent; singly:
    outside of transactions. memory: bytes for entries that wait for others; what is more goes to nameless files in
    `scratch`. patience: seconds that a server which is gone is tried again.
    """

    jobs: int
    batch: int
    transactions: bool
    window: tuple[int, int]
    exists: str
    leave_out: Sequence[str]
    relax: bool
    contexts: Sequence[str]
    aliases: Sequence[tuple[str, str]]
    references: Sequence[str]
    singly: bool
    max_rejects: int
    rejects: str
    max_rate: int
    journal: str
    all_uncertain: bool
    memory: int
    scratch: str
    patience: float

@final
class Loaded:
    """Counts, of earlier runs with the same journal too: read = added + present + replaced + rejected."""

    read: int
    added: int
    present: int  # There already, and left as they were
    replaced: int
    rejected: int
    rejections: list[Rejection]  # The first hundred, in the order of the input
    orphans: bool  # All were rejected for want of a parent
    stopped: bool  # More were rejected than may be, so not all was read
    before: int  # Entries that earlier runs were done with
    left_out: int  # Values that were not sent
    deferred: int  # Entries that came before their parents
    named: int  # Entries that waited for those that they name
    reconnects: int
    transactions: int
    largest: int  # Entries in the largest transaction

def add(inputs: Sequence[_Path | int], link: ConnectionOptions, counters: Counters, options: LoadOptions) -> Loaded:
    """Adds all entries to a running server. Ends when it has an answer to each, or with an error ldap.*, when the
    server is gone for good: what is done stands in the journal.
    """

_Cut: TypeAlias = tuple[int, int, int, int]
_Place: TypeAlias = tuple[str, int, str]

@final
class Plan:
    shared: int  # Entries with children, which every slice has
    leaves: int
    unknown: int  # Parents that no entry is, as far as names tell without a schema
    cuts: list[_Cut]  # Where each slice begins: index of the file, uncompressed byte, line, leaves before it

def plan(ldif: SlicedLdif, shards: int, counters: Counters) -> Plan:
    """Reads all twice. Writes the shared entries, parents first; chooses up to `shards` slices."""

@final
class Slice:
    """A slice of a plan: the shared entries, then `own` others from `cut` on.

    now: entries get the entryUUID, timestamps and entryCSN that they lack; None: they do not. context_csns: exactly
    those of `root`, which no entryCSN may exceed. aliases: as in `join`. first: the number of the
    first entryCSN that is made.
    """

    def __new__(
        cls,
        ldif: SlicedLdif,
        *,
        shared: int,
        cut: _Cut,
        own: int,
        now: str | None,
        server_id: int,
        root: str | None = None,
        context_csns: Sequence[str] | None = None,
        aliases: Mapping[str, str] | None = None,
        first: int = 0,
    ) -> Slice: ...
    def feed(self, fd: int, counters: Counters) -> tuple[int, bool]:
        """Writes it as slapadd shall read it. How many of its own there were, and whether `root` was there."""
    def find_line(self, line: int, counters: Counters) -> _Place | None:
        """Path, line and DN of the input's record that stands at a line of what `feed` writes."""

def find_name(ldif: SlicedLdif, dn: str, counters: Counters) -> list[_Place]:
    """The first two records of that name."""

@final
class Merged:
    entries: int
    bytes: int  # Of the file
    pages: int
    tables: dict[str, int]  # Sub-database -> values in it

def merge(
    paths: Sequence[_Path],
    out_path: _Path,
    counters: Counters,
    *,
    shared: int,
    map_size: int,
    idlexp: int,
    context: str | None,
    jobs: int,
) -> Merged:
    """Makes one data file of those that slapadd made of slices, in their order; synced when the call returns.

    shared: entries that all have. context: the suffix whose entry gets contextCSN, as with slapadd -w. jobs: threads
    that read. A damaged part is an error.
    """

@final
class Template:
    """A template made ready: the bytes of every entry follow from `spec`, and from its number. otherwise: the count for
    the kind of entry that has none of its own, if `spec.entries` is None.
    """

    def __new__(cls, spec: TreeSpec, otherwise: int | None) -> Template: ...
    entries: int  # All of the tree, the suffix and the branches included
    suffix: str
    description: str
    fingerprint: str  # Of what the template and its lists say: the same for two files that say the same
    kinds: list[tuple[str, int, int]]  # Name, number of the first entry, and entries of each
    def entry(self, number: int) -> bytes:
        """The record of one entry, with the empty line behind it. Raises IndexError."""
    def write(self, fd: int, first: int, end: int, jobs: int, counters: Counters, *, compress: bool = False) -> None:
        """Entries `first` to `end`-1 as LDIF (zstd if wanted), made by `jobs` threads.

        The bytes do not depend on how many.
        """
    def shard(self, path: _Path, first: int, end: int, jobs: int, counters: Counters) -> Shard:
        """The same into a file."""
    def plan(self, options: PlanOptions, fd: int, jobs: int, counters: Counters) -> None:
        """What clients do with the tree: lines of JSON, or LDIF of the changes among them."""
