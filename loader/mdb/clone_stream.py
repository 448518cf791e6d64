"""A copy through a pipe: one process sends the snapshot of an environment, another receives it, on this host or not.

The stream has a checksum for each block and one over all at its end. Where it breaks, the receiver keeps what came and
a line that tells how much of which copy that is (a token); given that, the sender leaves it out, if the snapshot is
still the same, and else sends all.
"""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from loader import units
from loader.errors import FULL, NoSpace, StreamBroken
from loader.mdb import copying, meta
from loader.mdb.copy import JOURNAL, PARTIAL, compact_copy, require_space
from loader.mdb.copying import CopySource
from loader.mdb.snapshot import image
from loader.progress import Meter
from loader.storage import files
from loader.storage.held import private


@dataclass(frozen=True)
class SendResult:
    """A stream that went out whole. skipped: bytes that the receiver had. length: of the file."""

    facts: meta.MetaPage
    skipped: int
    length: int


def send(source: Path, descriptor: int, token: str | None, meter: Meter) -> SendResult:
    """Send the environment in directory `source`. Raises StreamBroken when nobody listens any more."""
    with image(source) as held:
        what = CopySource(held.path, held.head, held.facts.used, held.path)
        return _send(what, held.facts, descriptor, token, meter)


@contextmanager
def compacted(source: Path, scratch: Path, meter: Meter) -> Iterator[Path]:
    """A compacted copy in a nameless file in directory `scratch`, under a name that holds while the body runs: in a
    stream meta pages come first, and tell what is known last. Raises NoSpace."""
    require_space(source, scratch)
    with tempfile.TemporaryFile(dir=scratch, prefix="ditseed-clone-") as file:
        made = Path(f"/proc/self/fd/{file.fileno()}")
        compact_copy(source, made, scratch, meter)
        yield made


def send_compacted(
    source: Path, made: Path, descriptor: int, token: str | None, meter: Meter
) -> SendResult:
    """As `send`, of what `compacted` has made: the same bytes whenever it is made of the same snapshot."""
    facts = meta.read_meta(made)
    with made.open("rb") as file:
        head = file.read(2 * facts.page_size)
    what = CopySource(made, head, facts.used, meta.data_file(source), compacted=True)
    return _send(what, facts, descriptor, token, meter)


def _send(
    what: CopySource, facts: meta.MetaPage, descriptor: int, token: str | None, meter: Meter
) -> SendResult:
    skipped = copying.send(what, descriptor, token, meter)
    return SendResult(facts, skipped, min(what.length, what.source.stat().st_size))


def receive(descriptor: int, home: Path, target: Path, meter: Meter) -> Path:
    """Receive for directory `target` into `home`/data.mdb.partial, mode 0600, which the caller publishes.

    Raises StreamBroken or NoSpace with the token that lets the sender go on; what has come stays.
    """
    partial = home / PARTIAL
    try:
        copying.receive(descriptor, partial, home / JOURNAL, meter)
    except StreamBroken as error:
        raise StreamBroken(**error.facts | {"advice": advice(home, target)}) from error
    except NoSpace as error:
        known = token(home)
        if known is None:
            raise
        lack = (
            f"{FULL}; what came stays: once there is room, the sender goes on with --skip {known}"
        )
        raise NoSpace(path=partial, lack=lack) from error
    return partial


def token(home: Path) -> str | None:
    """What a stream that broke has left in a workshop, for the sender. Raises DirectoryUnsafe."""
    try:
        with private(home, make=False) as place:
            return files.read(place.path / JOURNAL).decode().strip()
    except FileNotFoundError:
        return None


def forget(home: Path) -> None:
    """What has come is of no use."""
    for name in (JOURNAL, PARTIAL):
        (home / name).unlink(missing_ok=True)


def advice(home: Path, target: Path) -> str:
    """What to do after a stream that broke, for the operator."""
    known = token(home)
    if known is None:
        return "Nothing has come yet: look what the sender says."
    have = units.size(int(known.rpartition("-")[2]))
    sending, receiving = f"ditseed clone SOURCE - --skip {known}", f"ditseed clone - {target}"
    return f"{have} are there. Go on with: {sending} | ... {receiving}"
