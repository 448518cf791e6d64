"""Clone through a pipe: `clone SRC -` on one host, `clone - DST` on the other."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from loader import standard
from loader.errors import LoaderError
from loader.mdb import copy, meta, verify
from loader.mdb.contents import summarise
from loader.mdb.copy import SendResult
from loader.operations.clone import CloneOptions, require_source
from loader.operations.target import (
    BuildDirectory,
    build_directory,
    checked,
    put,
    require_target,
    workshop_of,
)
from loader.progress import Progress
from loader.run.log import killpoint
from loader.storage import files

MODE = 0o600  # of what is received


@dataclass(frozen=True)
class SendReport:
    """A stream that went out whole. Bytes, seconds; skipped: what the receiver had."""

    source: str
    format: int
    txnid: int
    length: int
    skipped: int
    seconds: float


@dataclass(frozen=True)
class ReceivePlan:
    """What is there before anything is received. have: bytes of a stream that broke; token: for `--skip`."""

    target: str
    have: int
    token: str | None
    free: int
    replaces: bool


@dataclass(frozen=True)
class ReceiveReport:
    """A finished clone. Bytes, seconds; contextCSN as stored in it."""

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


def send(options: CloneOptions, progress: Progress) -> SendReport:
    """Send to stdout. The stream is not for people's eyes: refuses a terminal."""
    descriptor = standard.output("the copy")
    source, token = options.source, options.token
    require_source(source)
    with progress.step("look") as meter:
        verify.require_end(source, meter)
    if options.compact:
        sent, seconds = _send_compacted(options, descriptor, progress)
    else:
        with progress.step("send") as meter:
            sent = copy.send(source, descriptor, token, meter)
            seconds = meter.seconds
    if token is not None and not sent.skipped:
        progress.say(f"{source} has changed since, or --compact was not as before: all was sent")
    facts = sent.facts
    return SendReport(str(source), facts.format, facts.txnid, sent.length, sent.skipped, seconds)


def _send_compacted(
    options: CloneOptions, descriptor: int, progress: Progress
) -> tuple[SendResult, float]:
    scratch = options.scratch or Path(tempfile.gettempdir())
    with ExitStack() as holding:
        with files.explained(scratch), progress.step("compact") as meter:
            made = holding.enter_context(copy.compacted(options.source, scratch, meter))
            seconds = meter.seconds
        with progress.step("send") as meter:
            sent = copy.send_compacted(options.source, made, descriptor, options.token, meter)
            return sent, seconds + meter.seconds


def plan(options: CloneOptions) -> ReceivePlan:
    """Nothing is read from stdin."""
    with files.explained(options.target):
        require_target(options.target, options.replace)
        known = copy.token(workshop_of(options.target))
        return ReceivePlan(
            target=str(options.target),
            have=int(known.rpartition("-")[2]) if known else 0,
            token=known,
            free=files.free_bytes(options.target),
            replaces=meta.data_file(options.target).exists(),
        )


def receive(options: CloneOptions, progress: Progress) -> ReceiveReport:
    """Receive from stdin. Whatever stops it, the target holds the database that it held before."""
    descriptor = standard.input("the copy")
    plan(options)
    like = files.existing(options.target)
    with files.explained(options.target), build_directory(options.target, like) as place:
        return _receive(options, descriptor, progress, place)


def _receive(
    options: CloneOptions, descriptor: int, progress: Progress, place: BuildDirectory
) -> ReceiveReport:
    try:
        with progress.step("receive") as meter:
            partial = copy.receive(descriptor, place.home, options.target, meter)
            seconds = meter.seconds
    except KeyboardInterrupt:
        progress.say(copy.advice(place.home, options.target))
        raise
    killpoint("clone.received")
    try:
        verified = checked(partial, options.verify, progress)
        outline = summarise(partial, newest=False)
        facts, sizes = meta.read_meta(partial), copy.Sizes.of(partial)
        put(partial, place.target, MODE, options.replace)
    except LoaderError:
        copy.forget(place.home)
        raise
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
