"""LDIF (RFC 2849) in bulk: the door to the native core, and its errors made ours.

Blocks of whole records flow inside the core, without the GIL; Python sees counts and checksums.
"""

from __future__ import annotations

import errno
import tempfile
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import _native, dn, resources
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
    # A file of another version than 1 is whole and readable, too.
    **dict.fromkeys(("ldif.syntax", "ldif.url", "ldif.changetype", "ldif.version"), LdifSyntax),
}
SUFFIXES = (".ldif", ".ldif.zst", ".ldif.gz", ".ldf")

Translate = Callable[[_native.NativeError], LoaderError | None]


@contextmanager
def with_counters(meter: Meter, origin: str = "", translate: Translate | None = None) -> Iterator[Counters]:
    """Counters that `meter` adds up while a native call runs; the call's errors leave as LoaderErrors: as `translate`
    has them, and where that returns None, as errors of reading LDIF."""
    counters = Counters()
    with meter.counting(counters):
        try:
            yield counters
        except _native.NativeError as error:
            raise (translate and translate(error)) or as_loader_error(error, origin) from error


Rejected = tuple[str | None, int | None, str, str]  # file, line, DN and reason of a rejected record, as runs keep them


def rejected(one: Rejection) -> Rejected:
    return one.path and str(one.path), one.line, one.dn, one.reason


def of_the_disk(error: _native.NativeError) -> bool:
    """EIO."""
    return error.errno == errno.EIO


def as_loader_error(error: _native.NativeError, origin: str) -> LoaderError:
    """The LoaderError for a native one."""
    path, line, reason = error.path or origin, error.line or 0, error.message
    if error.code == "internal":
        raise error  # a bug, which the command line reports as one, with what led to it
    if error.code in _AT_A_LINE:
        return _AT_A_LINE[error.code](path=path, line=line, reason=reason)
    if error.code == "ldif.encoding":
        return LdifEncoding(path=path, reason=reason)
    if error.code == "build.empty":
        return NothingToLearn(reason=error.message)
    if error.code == "build.too_many":
        return TooManyEntries(path=path or "the input", reason=reason)
    if error.code == "cancelled":
        return Cancelled(signal="the watch over this step")
    if error.code == "ldif.no_space":
        return NoSpace(path=path, lack=FULL)
    if of_the_disk(error):
        return SystemFailed(path=path, reason=reason)
    return LdifUnreadable(path=path, reason=reason)


def scan(paths: Sequence[Path], meter: Meter) -> ScanResult:
    """Count entries; collect the attributes and object classes in use; check that every file is whole."""
    with with_counters(meter) as counters:
        return _native.scan([str(path) for path in paths], counters)


def shard(descriptor: int, target: Path, drop: Sequence[str], meter: Meter, origin: str) -> Shard:
    """Copy records from a descriptor into a file (compressed when it ends in .zst), leaving out attributes."""
    with with_counters(meter, origin) as counters:
        return _native.shard(descriptor, str(target), list(drop), counters)


def parents_first(descriptor: int, target: Path, scratch: Path, meter: Meter, origin: str) -> None:
    """Copy records from a descriptor into a file, each after its parent, if that is among them."""
    with with_counters(meter, origin) as counters:
        _native.parents_first(descriptor, str(target), str(scratch), counters)


@dataclass(frozen=True)
class ArrangeTask:
    """Shards to make loadable: `paths` were read side by side, `again` after them, one by one (later is newer).

    `root` gets exactly `context_csns`. With `drop_orphans` entries whose parent is nowhere are left out, and counted.
    """

    paths: Sequence[Path]
    again: Sequence[Path]
    root: str
    context_csns: Sequence[str]
    compress: bool
    drop_orphans: bool = False
    name_orphans: bool = True


def arrange(task: ArrangeTask, out: Path, meter: Meter) -> Arrangement:
    """Write shards that slapadd can take one after another into the empty directory `out`: each entry once, parents
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
    """Write the records of all files to a descriptor; how many. LdifUnreadable when the reader goes away.

    With `context_csns` the entry `root` gets exactly these, and entries newer than them are held back to them: what a
    consumer is seeded with must not be newer than its cookie, or it ignores their deletion (claim.rs tells why).
    Values of one attribute come out side by side, also under several names: `aliases`, of `loader.schema.synonyms`.
    """
    texts = [str(path) for path in paths]
    with with_counters(meter) as counters:
        root = None if context_csns is None else root
        return _native.join(texts, descriptor, counters, root=root, context_csns=context_csns, aliases=aliases)


def learn(paths: Sequence[Path], descriptor: int | None, jobs: int, meter: Meter) -> LearnResult:
    """A template that makes trees like that of the files and the descriptor. Raises NothingToLearn."""
    with with_counters(meter) as counters:
        return _native.learn([str(path) for path in paths], descriptor, jobs, counters)


def records(
    text: bytes | int, origin: str, names: Collection[str] | None = None, most: int = 0
) -> list[tuple[str, Mapping[str, Sequence[bytes]]]]:
    """DN and attributes of the records of a text or descriptor, in order: the first with each of these names, or all;
    at `most` so many, if not 0."""
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
    """An empty digest of a tree, to be filled in the body; attributes named in `ignore` do not count. Two of them use
    the memory for sorting, and then temporary files in $TMPDIR."""
    memory = resources.sorting_memory() // 2
    with with_counters(meter, origin) as counters:
        yield _native.tree(list(ignore), counters, memory=memory, scratch=tempfile.gettempdir())


def files_of(paths: Sequence[Path]) -> list[Path]:
    """LDIF files named on a command line; a directory stands for the LDIF files in it, by name. loader/exports.py knows
    manifests besides."""
    found: list[Path] = []
    for path in paths:
        if not path.is_dir():
            found.append(path)
            continue
        inside = sorted(one for one in path.iterdir() if one.name.endswith(SUFFIXES))
        if not inside:
            raise UsageProblem(reason=f"{path}: no LDIF files in this directory")
        found += inside
    return found
