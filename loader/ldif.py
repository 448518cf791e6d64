"""LDIF (RFC 2849) in bulk: calls the native core, and translates its errors.

The core processes blocks of whole records without the GIL; Python sees only counts and checksums.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import _native, defaults, dn
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
    NoSpace,
    NothingToLearn,
    SystemFailed,
    TooManyEntries,
    UsageProblem,
)
from loader.progress import Meter

__all__ = ["Arrangement", "Counters", "Difference", "EntryDigests", "LearnResult", "ScanResult", "Shard"]

_AT_A_LINE: dict[str, type[LoaderError]] = {
    "ldif.truncated": LdifTruncated,
    "ldif.include": IncludeRefused,
    # An LDIF file with another version than 1 is complete and readable, so its error names a line as well.
    **dict.fromkeys(("ldif.syntax", "ldif.url", "ldif.changetype", "ldif.version"), LdifSyntax),
}
SUFFIXES = (".ldif", ".ldif.zst", ".ldif.gz", ".ldf")

Translate = Callable[[_native.NativeError], Exception | None]


@contextmanager
def with_counters(meter: Meter, origin: str = "", translate: Translate | None = None) -> Iterator[Counters]:
    """Yields counters for a native call, included in `meter`. Turns the call's errors into the result of `translate`,
    or if that is None, into the LoaderErrors of reading LDIF."""
    counters = Counters()
    with meter.counting(counters):
        try:
            yield counters
        except _native.NativeError as error:
            raise (translate and translate(error)) or as_loader_error(error, origin) from error


Rejected = tuple[str | None, int | None, str, str]  # file, line, DN and reason of a rejected record, as runs store it


def rejected(one: Rejection) -> Rejected:
    return one.path and str(one.path), one.line, one.dn, one.reason


def of_the_disk(error: _native.NativeError) -> bool:
    """Whether the error is EIO, a failing disk."""
    return error.errno == errno.EIO


def as_loader_error(error: _native.NativeError, origin: str) -> LoaderError:
    path, reason = error.path or origin, error.message
    if error.code in _AT_A_LINE:
        return _AT_A_LINE[error.code](path=path, line=error.line or 0, reason=reason)
    match error.code:
        case "internal":
            raise error  # a bug: the command line reports it as such, with its causes
        case "ldif.encoding":
            return LdifEncoding(path=path, reason=reason)
        case "build.empty":
            return NothingToLearn(reason=reason)
        case "build.too_many":
            return TooManyEntries(path=path or "the input", reason=reason)
        case "cancelled":
            return Cancelled(signal="the watch over this step")
        case "ldif.no_space":
            return NoSpace(path=path, lack=FULL)
    return (SystemFailed if of_the_disk(error) else LdifUnreadable)(path=path, reason=reason)


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


@dataclass(frozen=True)
class ArrangeTask:
    """Shards to make loadable. `paths`: read in parallel. `again`: read later, one after another (later is newer).

    `root`: DN of the entry that gets exactly `context_csns`. `drop_orphans`: leave out orphans, and count them.
    """

    paths: Sequence[Path]
    again: Sequence[Path]
    root: str
    context_csns: Sequence[str]
    compress: bool
    drop_orphans: bool = False
    name_orphans: bool = True


def arrange(task: ArrangeTask, out: Path, meter: Meter) -> Arrangement:
    """Writes shards to the empty directory `out`, which slapadd can load one after another: each entry once, parents
    first."""
    with with_counters(meter) as counters:
        return _native.arrange(
            [str(path) for path in task.paths],
            [str(path) for path in task.again],
            str(out),
            task.root,
            list(task.context_csns),
            counters,
            compress=task.compress,
            drop_orphans=task.drop_orphans,
            name_orphans=task.name_orphans,
        )


def join(
    paths: Sequence[Path],
    descriptor: int,
    meter: Meter,
    context_csns: Sequence[str] | None = None,
    root: str | None = None,
    aliases: Mapping[str, str] | None = None,
) -> int:
    """Writes the records of all files to a descriptor. Returns their number. Raises LdifUnreadable if the reader ends.

    With `context_csns` the entry `root` gets exactly these, and the entryCSN of newer entries is lowered to them:
    a consumer ignores the deletion of entries newer than its cookie (claim.rs explains why). The values of an attribute
    are written side by side, even if it occurs under several names: `aliases`, from `loader.schema.synonyms`.
    """
    texts, root = [str(path) for path in paths], None if context_csns is None else root
    with with_counters(meter) as counters:
        return _native.join(texts, descriptor, counters, root=root, context_csns=context_csns, aliases=aliases)


def learn(paths: Sequence[Path], descriptor: int | None, jobs: int, meter: Meter) -> LearnResult:
    """Returns a template for trees like that in the files and the descriptor. Raises NothingToLearn."""
    with with_counters(meter) as counters:
        return _native.learn([str(path) for path in paths], descriptor, jobs, counters)


def records(
    text: bytes | int, origin: str, names: Collection[str] | None = None, most: int = 0
) -> list[tuple[str, Mapping[str, Sequence[bytes]]]]:
    """Returns DN and attributes of the records in a text or descriptor, in order. `names`: only the first record with
    each of these DNs. `most`: maximum number of records; 0: no limit."""
    keys = None if names is None else {dn.key(name).encode("utf-8", "surrogateescape") for name in names}
    with with_counters(Meter("records"), origin) as counters:
        found = _native.records(text, keys, most or len(keys or ()), counters)
    parsed: list[tuple[str, Mapping[str, Sequence[bytes]]]] = []
    for name, lines in found:
        attributes: dict[str, list[bytes]] = {}
        for description, value in lines:
            attributes.setdefault(description, []).append(value)
        parsed.append((name, attributes))
    return parsed


@contextmanager
def digesting(ignore: Sequence[str], meter: Meter, origin: str = "") -> Iterator[EntryDigests]:
    """Yields an empty digest of a tree, to be filled in the body. Attributes in `ignore` do not count. A digest uses
    half of the sorting memory, because two are compared, and beyond it temporary files in $TMPDIR."""
    memory = defaults.sorting_memory() // 2
    with with_counters(meter, origin) as counters:
        yield _native.tree(list(ignore), counters, memory=memory, scratch=tempfile.gettempdir())


def files_of(paths: Sequence[Path]) -> list[Path]:
    """Returns the LDIF files named on a command line. A directory stands for the LDIF files in it, sorted by name;
    loader/exports.py handles manifests. Raises UsageProblem for a directory without LDIF files."""
    files: list[Path] = []
    for path in paths:
        inside = sorted(one for one in path.iterdir() if one.name.endswith(SUFFIXES)) if path.is_dir() else [path]
        if not inside:
            raise UsageProblem(reason=f"{path}: no LDIF files in this directory")
        files += inside
    return files
