"""LDIF (RFC 2849) in bulk: calls the native core, and translates its errors.

The core processes blocks of whole records without the GIL; Python gets only counts and checksums. An operator may name
LDIF files, directories and exports; the files of an export must match its manifest.json.
"""

from __future__ import annotations

import errno
import stat
import tempfile
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import xxhash
from msgspec import Struct, json

from loader import _native, defaults, dn, typed
from loader._native import Arrangement, Counters, Difference, EntryDigests, LearnResult, Rejection, ScanResult, Shard
from loader.errors import (
    FULL,
    Cancelled,
    IncludeRefused,
    LdifEncoding,
    LdifSyntax,
    LdifTruncated,
    LdifUnreadable,
    LoaderError,
    ManifestBroken,
    NoSpace,
    NothingToLearn,
    SystemFailed,
    TooManyEntries,
    UsageProblem,
)
from loader.progress import Meter
from loader.storage import files
from loader.typed import Count, Csn, Digest32, Name, Unfit

__all__ = ["Arrangement", "Counters", "Difference", "EntryDigests", "LearnResult", "ScanResult", "Shard"]

# Code of a native error that names a line -> the error that it becomes.
_AT_A_LINE: dict[str, type[LoaderError]] = {
    "ldif.truncated": LdifTruncated,
    "ldif.include": IncludeRefused,
    # A file of another LDIF version than 1 is complete and readable, so its error names a line, too.
    **dict.fromkeys(("ldif.syntax", "ldif.url", "ldif.changetype", "ldif.version"), LdifSyntax),
}
SUFFIXES = (".ldif", ".ldif.zst", ".ldif.gz", ".ldf")

Translate = Callable[[_native.NativeError], Exception | None]


@contextmanager
def with_counters(meter: Meter, origin: str = "", translate: Translate | None = None) -> Iterator[Counters]:
    """Yields counters for a native call, and adds them to `meter`. `translate`: converts an error of the call, or
    returns None; then `as_loader_error` converts it."""
    counters = Counters()
    with meter.counting(counters):
        try:
            yield counters
        except _native.NativeError as error:
            raise (translate and translate(error)) or as_loader_error(error, origin) from error


Rejected = tuple[str | None, int | None, str, str]  # file, line, DN and reason of a rejected record, as runs store it


def rejected(record: Rejection) -> Rejected:
    return record.path and str(record.path), record.line, record.dn, record.reason


def is_disk_failure(error: _native.NativeError) -> bool:
    """Returns whether the error is EIO, which a failing disk causes."""
    return error.errno == errno.EIO


def as_loader_error(error: _native.NativeError, origin: str) -> LoaderError:
    path, reason = error.path or origin, error.message
    if error.code in _AT_A_LINE:
        return _AT_A_LINE[error.code](path=path, line=error.line or 0, reason=reason)
    match error.code:
        case "internal":
            raise error  # a bug, which the command line reports with its causes
        case "ldif.encoding":
            return LdifEncoding(path=path, reason=reason)
        case "build.empty":
            return NothingToLearn(reason=reason)
        case "build.too_many":
            return TooManyEntries(path=path or "the input", reason=reason)
        case "cancelled":
            return Cancelled(signal="the timeout of this step")
        case "ldif.no_space":
            return NoSpace(path=path, lack=FULL)
    return (SystemFailed if is_disk_failure(error) else LdifUnreadable)(path=path, reason=reason)


def type_of(description: str) -> str:
    """Returns the attribute type of an attribute description: without its options, in lower case."""
    return description.partition(";")[0].lower()


def scan(paths: Sequence[Path], meter: Meter) -> ScanResult:
    """Counts entries, collects the attributes and object classes in use, and checks that every file is complete."""
    with with_counters(meter) as counters:
        return _native.scan([str(path) for path in paths], counters)


def shard(descriptor: int, target: Path, drop: Sequence[str], meter: Meter, origin: str) -> Shard:
    """Copies records from a descriptor to a file (compressed if named *.zst), without the attributes in `drop`."""
    with with_counters(meter, origin) as counters:
        return _native.shard(descriptor, str(target), list(drop), counters)


def parents_first(descriptor: int, target: Path, scratch: Path, meter: Meter, origin: str) -> None:
    """Copies records from a descriptor to a file, each after its parent if the parent is among them."""
    with with_counters(meter, origin) as counters:
        _native.parents_first(descriptor, str(target), str(scratch), counters)


class ArrangeTask(Struct, frozen=True):
    """The input of `arrange`. `paths`: shards to read in parallel. `again`: shards with newer versions of entries. They
    are read afterwards in this order, and the last version of an entry counts. `root`: DN of the entry that gets
    exactly `context_csns`. `drop_orphans`: leave out orphans, and count them."""

    paths: Sequence[Path]
    again: Sequence[Path]
    root: str
    context_csns: Sequence[str]
    compress: bool
    drop_orphans: bool = False
    name_orphans: bool = True


def arrange(task: ArrangeTask, out: Path, meter: Meter) -> Arrangement:
    """Writes shards for slapadd into the empty directory `out`: each entry once, parents first, also across shards."""
    with with_counters(meter) as counters:
        return _native.arrange(task, out, counters)


def join(
    paths: Sequence[Path],
    descriptor: int,
    meter: Meter,
    context_csns: Sequence[str] | None = None,
    root: str | None = None,
    aliases: Mapping[str, str] | None = None,
) -> int:
    """Writes the records of all files to a descriptor. Returns their number. Raises LdifUnreadable if the pipe breaks.

    The entry `root` gets `context_csns`. Newer entryCSNs are set back to `context_csns`, because a consumer ignores the
    deletion of an entry that is newer than its cookie (claim.rs explains why). All values of an attribute are written
    together, even if the record uses several names (`aliases`, from `loader.backmdb.synonyms`) of the attribute."""
    texts = [str(path) for path in paths]
    stamp = None if root is None or context_csns is None else (root, context_csns)
    with with_counters(meter) as counters:
        return _native.join(texts, descriptor, counters, stamp, aliases or {})


def learn(paths: Sequence[Path], descriptor: int | None, jobs: int, meter: Meter) -> LearnResult:
    """Returns a template for trees like the one in the files and the descriptor. Raises NothingToLearn."""
    with with_counters(meter) as counters:
        return _native.learn([str(path) for path in paths], descriptor, jobs, counters)


def records(
    text: bytes | int, origin: str, names: Collection[str] | None = None, most: int = 0
) -> list[tuple[str, Mapping[str, Sequence[bytes]]]]:
    """Returns the DN and attributes of each record in a text or descriptor, in order. `names`: only the first
    record with each of these DNs. `most`: maximum number of records; 0: no limit."""
    keys = None if names is None else {dn.key(name).encode("utf-8", "surrogateescape") for name in names}
    with with_counters(Meter("records"), origin) as counters:
        records = _native.records(text, keys, most or len(keys or ()), counters)
    parsed: list[tuple[str, Mapping[str, Sequence[bytes]]]] = []
    for name, lines in records:
        attributes: dict[str, list[bytes]] = {}
        for description, value in lines:
            attributes.setdefault(description, []).append(value)
        parsed.append((name, attributes))
    return parsed


@contextmanager
def digesting(ignore: Sequence[str], meter: Meter) -> Iterator[EntryDigests]:
    """Yields an empty digest of a tree for the body to fill, without the attributes in `ignore`. A digest may use half
    of the sorting memory, because a comparison has two digests. A larger digest also uses files in $TMPDIR."""
    memory = defaults.sorting_memory() // 2
    with with_counters(meter) as counters:
        yield _native.EntryDigests(list(ignore), counters, memory=memory, scratch=tempfile.gettempdir())


FORMAT = 3
MANIFEST = "manifest.json"


class ShardFile(Struct, frozen=True):
    """One LDIF file of an export. `checksum`: XXH3 (128 bits, `xxhsum -H2`) of the stored, perhaps compressed file, to
    detect damage, not forgery. `content_checksum`: of the entries, independent of their order."""

    name: Name
    bytes: Count
    checksum: Digest32
    entries: Count
    content_checksum: Digest32


class Manifest(Struct, frozen=True):
    """An export. `shards`: in loading order, parents first. `entries` and `content_checksum` are the sums over all
    shards, so that a reader notices if a shard was removed from the list."""

    base: str
    entries: Count
    content_checksum: Digest32  # of the entries, independent of their order
    context_csns: tuple[Csn, ...]  # contextCSN of the provider when the export began
    shards: tuple[ShardFile, ...]
    source: str
    started: str  # UTC
    finished: str
    partitions: str  # text for people: how the tree was partitioned
    duplicates: Count = 0
    dropped: Count = 0  # entries left out because their parent was gone at the end
    notes: tuple[str, ...] = ()  # text for people: data that may be missing
    hidden: tuple[str, ...] = ()  # the notes that make the export unfit for a replica
    format: int = FORMAT

    def paths(self, directory: Path) -> list[Path]:
        return [directory / shard.name for shard in self.shards]

    def text(self) -> bytes:
        return json.format(json.encode(self)) + b"\n"


def checksum_of(path: Path) -> str:
    """Returns the XXH3 (128 bits) of the stored file, in hexadecimal digits."""
    digest = xxhash.xxh3_128()
    with files.reading(path) as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def total_of(checksums: Iterable[str]) -> str:
    """Returns the content checksum of several shards: the sum of `checksums`, modulo 2^128."""
    return f"{sum(int(text, 16) for text in checksums) % (1 << 128):032x}"


def read_manifest(directory: Path) -> Manifest | None:
    """Returns the manifest of an export directory, or None. Raises ManifestBroken if it is invalid."""
    path = directory / MANIFEST
    try:
        manifest = typed.read(path, Manifest, FORMAT)
    except FileNotFoundError:
        return None
    except Unfit as error:
        raise ManifestBroken(path=path, reason=error) from error
    names = [shard.name for shard in manifest.shards]
    entries = sum(shard.entries for shard in manifest.shards)
    if len({*names}) != len(names):
        reason = "names a file twice"
    elif {".", ".."} & {*names}:
        reason = "names a directory"
    elif entries != manifest.entries:
        reason = f"promises {manifest.entries:,} entries, but the files on its list hold {entries:,}"
    elif total_of(shard.content_checksum for shard in manifest.shards) != manifest.content_checksum:
        reason = "the content checksums of the files on its list do not add up to that of the whole"
    else:
        return manifest
    raise ManifestBroken(path=path, reason=reason)


def require_manifest(directory: Path) -> Manifest:
    """Returns the manifest of a finished export. Raises ManifestBroken if it is missing or invalid."""
    manifest = read_manifest(directory)
    if manifest is None:
        reason = "is missing, although the export has ended; --restart repeats the export"
        raise ManifestBroken(path=directory / MANIFEST, reason=reason)
    return manifest


def require_files(manifest: Manifest, directory: Path) -> None:
    """Raises ManifestBroken if a shard in `directory` is missing, not a regular file, or of another size."""
    for shard in manifest.shards:
        path = directory / shard.name
        try:
            status = path.lstat()
        except FileNotFoundError:
            raise ManifestBroken(path=path, reason="is missing") from None
        if not stat.S_ISREG(status.st_mode):
            raise ManifestBroken(path=path, reason="is not a regular file")
        if status.st_size != shard.bytes:
            raise ManifestBroken(path=path, reason=f"has {status.st_size:,} bytes, the manifest says {shard.bytes:,}")


# --- LDIF files that an operator names -------------------------------------------------------------
#
# All LDIF is read through these functions. They compare the manifest with the names and sizes of the files before the
# files are read, and afterwards with the checksums that the core computed while it read.

RUN_DIR = ".ditseed"  # run directory of an export, in the export directory


def input_files(sources: Iterable[Path]) -> list[Path]:
    """Returns the LDIF files in loading order: for a directory with a manifest, its shards; for another directory, its
    LDIF files, sorted by name. Raises ManifestBroken; UsageProblem for a directory without LDIF files."""
    return [path for source in sources for path in _files(source, _manifest(source))]


def entries_of(sources: Sequence[Path]) -> int | None:
    """Returns the number of entries in the manifests; None if a source has no manifest."""
    manifests = [manifest for manifest in map(_manifest, sources) if manifest]
    complete = manifests and len(manifests) == len(sources)
    return sum(manifest.entries for manifest in manifests) if complete else None


def require_read(sources: Sequence[Path], read: int) -> None:
    """Raises ManifestBroken if the manifests promise more or fewer entries than `read`, the number of entries read."""
    promised = entries_of(sources)
    if promised not in (None, read):
        reason = f"promises {promised:,} entries, but {read:,} were read"
        raise ManifestBroken(path=sources[0] / MANIFEST, reason=reason)


@contextmanager
def verified_inputs(sources: Sequence[Path], meter: Meter) -> Iterator[list[Path]]:
    """Yields the LDIF files. Native calls of the body that count into `meter` must read them completely. Raises
    ManifestBroken after the body if a shard differed from its manifest, or was not read to its end."""
    manifests = {path: _manifest(path) for path in sources}
    before = len(meter.files)
    yield [file for path in sources for file in _files(path, manifests[path])]
    expected = {
        str(path / shard.name): shard for path, manifest in manifests.items() if manifest for shard in manifest.shards
    }
    read = [file for file in meter.files[before:] if file[0] in expected]
    for path, size, checksum in read:
        shard = expected[path]
        if (size, checksum) != (shard.bytes, shard.checksum):
            raise ManifestBroken(path=path, reason="differs from the manifest: other checksum")
    for path in expected.keys() - {path for path, _, _ in read}:
        raise ManifestBroken(path=path, reason="was not read to its end")


def _files(path: Path, manifest: Manifest | None) -> list[Path]:
    if manifest:
        return manifest.paths(path)
    ldif = sorted(file for file in path.iterdir() if file.name.endswith(SUFFIXES)) if path.is_dir() else [path]
    if not ldif:
        raise UsageProblem(reason=f"{path}: no LDIF files in this directory")
    return ldif


def _manifest(path: Path) -> Manifest | None:
    """Returns the manifest of an export; None for other LDIF. Raises ManifestBroken."""
    if not path.is_dir():
        return None
    manifest = read_manifest(path)
    if manifest is not None:
        require_files(manifest, path)
    elif (path / RUN_DIR).is_dir():
        raise ManifestBroken(path=path / MANIFEST, reason="is missing: the export into this directory has not ended")
    return manifest
