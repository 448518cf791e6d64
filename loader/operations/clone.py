"""Clones a database directory, on which slapd may be running. The copy of data.mdb is written into a subdirectory of
the target, checked, and then renamed. lock.mdb is not copied.

`clone SOURCE -` sends a clone through a pipe, and `clone - TARGET` receives the clone on another host."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Literal

from msgspec import Struct, structs
from msgspec.structs import replace

from loader import standard
from loader.errors import LoaderError, NotLmdb, UsageProblem
from loader.mdb import copy, meta, verify
from loader.mdb.contents import summarise
from loader.mdb.copy import CopyMode
from loader.mdb.verify import Verified
from loader.operations.options import CloneOptions
from loader.operations.publish import WORKSHOP, BuildDirectory, build_directory, checked, put, require_target
from loader.progress import Progress
from loader.run.log import Report, killpoint
from loader.storage import files, holders


class ClonePlan(Struct, frozen=True):
    """What a clone would do. Sizes are in bytes. `free`: free space of the target's file system."""

    source: str
    target: str
    format: int
    txnid: int
    source_apparent: int
    source_allocated: int
    needed: int
    free: int
    replaces: bool
    verify: str


class ReceiveReport(Struct, frozen=True):
    """A finished clone. Sizes are in bytes. `context_csns`: the contextCSN that is stored in the clone."""

    target: str
    format: int
    txnid: int
    entries: int
    suffixes: tuple[str, ...]
    context_csns: tuple[str, ...]
    target_apparent: int
    target_allocated: int
    verified: str
    seconds: float


class CloneReport(ReceiveReport, frozen=True, kw_only=True):
    """`shared`: whether the clone shares blocks with the source. `transactions`: number of transactions that the
    source's slapd committed during the copy. `grown`: bytes by which the source grew meanwhile."""

    source: str
    source_apparent: int
    source_allocated: int
    compact: bool
    shared: bool
    transactions: int
    grown: int


def plan(options: CloneOptions) -> ClonePlan:
    """Returns what a clone would do, after all checks that a clone makes before it writes."""
    source, target = options.source, options.target
    if options.compact and options.reflink == "always":
        raise UsageProblem(reason="--compact writes every page anew: no blocks can be shared")
    require_source(source)
    with files.explained(target):
        if target.exists() and source.samefile(target):
            raise UsageProblem(reason=f"{target} is the source itself")
        require_target(target, options.replace)
    facts, sizes = meta.read_meta(source), copy.Sizes.of(meta.data_file(source))
    needed = 0 if options.reflink == "always" else min(facts.used, sizes.allocated)
    return ClonePlan(
        source=str(source),
        target=str(target),
        format=facts.format,
        txnid=facts.txnid,
        source_apparent=sizes.apparent,
        source_allocated=sizes.allocated,
        needed=needed,
        free=require_space(target, needed),
        replaces=meta.data_file(target).exists(),
        verify=options.verify or verify.default_level(source),
    )


def clone(options: CloneOptions, progress: Progress) -> CloneReport:
    """Clones a directory. If the clone is interrupted, the target is unchanged, and the same call starts over."""
    planned, source = plan(options), options.source
    # If a process has the source open, blocks are shared only on request, because each later write to a shared block
    # allocates a new block, which fragments the live file.
    shared: Literal["never", "try", "must"] = "must" if options.reflink == "always" else "never"
    if options.reflink == "auto" and not options.compact and holders.holder(source) is None:
        shared = "try"
    checks_pages = options.verify is None and planned.verify == "pages"
    with files.explained(options.target), build_directory(options.target, source) as build:
        try:
            before = meta.read_meta(source)
            with progress.step("copy") as meter:
                copied = copy.hot_copy(source, build.home, meter, CopyMode(options.compact, shared, checks_pages))
                seconds, after = meter.seconds, meta.read_meta(source)
            killpoint("clone.copied")
            if checks_pages and copied.sound:  # the core checked the pages during the copy
                verified = replace(checked(copied.path, "quick", progress), level="pages")
            else:
                verified = checked(copied.path, planned.verify, progress, copied.seen)
            received = _put(copied.path, options, build, copied.mode, verified, seconds)
        except BaseException:  # no partial file may stay, even if a signal ends the clone
            copy.forget(build.home)
            raise
    return CloneReport(
        **structs.asdict(received),
        source=planned.source,
        source_apparent=copied.source.apparent,
        source_allocated=copied.source.allocated,
        compact=options.compact,
        shared=copied.shared,
        transactions=after.txnid - copied.facts.txnid,
        grown=after.used - before.used,
    )


def _put(
    partial: Path, options: CloneOptions, build: BuildDirectory, mode: int, verified: Verified, seconds: float
) -> ReceiveReport:
    """Moves a checked file into the target, and returns the report."""
    outline, facts, sizes = summarise(partial, newest=False), meta.read_meta(partial), copy.Sizes.of(partial)
    put(partial, build.target, mode, options.replace)
    return ReceiveReport(
        target=str(options.target),
        format=facts.format,
        txnid=facts.txnid,
        entries=outline.entries,
        suffixes=outline.suffixes,
        context_csns=outline.context_csns,
        target_apparent=sizes.apparent,
        target_allocated=sizes.allocated,
        verified=verified.level,
        seconds=seconds,
    )


def require_source(directory: Path) -> None:
    """Raises NoSuchPath, NotLmdb or NotPermitted if `directory` is not a readable LMDB environment."""
    files.require_readable(directory)
    if not directory.is_dir():
        raise NotLmdb(path=directory, reason="give the directory that holds data.mdb")
    meta.read_meta(directory)
    holders.require_lock_used(directory)


def require_space(directory: Path, needed: int) -> int:
    """Returns the free bytes for a new data file. The partial file of a killed run counts as free, because the new run
    overwrites that file. Raises NoSpace if less than `needed` bytes are free."""
    return files.require_space(directory, needed, leftover=directory / WORKSHOP / copy.PARTIAL)


class SendReport(Struct, frozen=True):
    """A stream that was sent completely. `length`: bytes of the file. `skipped`: bytes that the target already had."""

    source: str
    format: int
    txnid: int
    length: int
    skipped: int
    seconds: float


def send(options: CloneOptions, progress: Progress) -> SendReport:
    """Sends the clone to stdout. Raises UsageProblem if stdout is a terminal."""
    descriptor = standard.output("the copy")
    source, token = options.source, options.token
    require_source(source)
    with progress.step("look") as meter:
        verify.require_end(source, meter)
    seconds = 0.0
    with ExitStack() as stack:
        compacted = None
        if options.compact:
            scratch = options.scratch or Path(tempfile.gettempdir())
            with files.explained(scratch), progress.step("compact") as meter:
                compacted = stack.enter_context(copy.compacted(source, scratch, meter))
                seconds = meter.seconds
        with progress.step("send") as meter:
            facts, length, skipped = copy.send(source, descriptor, token, meter, compacted)
            seconds += meter.seconds
    if token is not None and not skipped:
        progress.say(f"everything was sent: {source} has changed since, or --compact differs from the first attempt")
    return SendReport(str(source), facts.format, facts.txnid, length, skipped, seconds)


def plan_pipe(options: CloneOptions) -> Report:
    """Returns the state of the target, without reading stdin. `have`: number of bytes that a broken stream left in the
    target. `token`: argument of --skip, with which the sender skips these bytes."""
    with files.explained(options.target):
        require_target(options.target, options.replace)
        token = copy.token(options.target / WORKSHOP)
        return {
            "target": str(options.target),
            "have": int(token.rpartition("-")[2]) if token else 0,
            "token": token,
            "free": files.free_bytes(options.target),
            "replaces": meta.data_file(options.target).exists(),
        }


def receive(options: CloneOptions, progress: Progress) -> ReceiveReport:
    """Receives a clone from stdin. If the transfer is interrupted, the target is unchanged."""
    descriptor = standard.input("the copy")
    plan_pipe(options)
    like = files.existing(options.target)
    with files.explained(options.target), build_directory(options.target, like) as build:
        try:
            with progress.step("receive") as meter:
                partial = copy.receive(descriptor, build.home, options.target, meter)
                seconds = meter.seconds
        except KeyboardInterrupt:
            progress.say(copy.advice(build.home, options.target))
            raise
        killpoint("clone.received")
        try:
            verified = checked(partial, options.verify, progress)
            return _put(partial, options, build, 0o600, verified, seconds)
        except LoaderError:
            copy.forget(build.home)
            raise
