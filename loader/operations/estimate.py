"""How large will the database be? A pilot load of the first entries tells; a formula over LDIF bytes would not know
the indexes."""

from __future__ import annotations

import functools
import subprocess
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

from loader import ldif, units
from loader.child import Child
from loader.errors import LoaderError, MaxsizeTooSmall
from loader.mdb import contents, meta
from loader.operations.publish import TargetDatabase
from loader.operations.tune.maxsize import recommended_size
from loader.operations.tune.target import require_stopped
from loader.piped import piped
from loader.progress import Meter
from loader.server import tools
from loader.storage import files

PILOT_BYTES = 8 << 20  # of LDIF: about 15,000 entries, a second or two
PILOT_MAXSIZE = 4 << 30
MARGIN = 1.25  # B-trees deepen and substring keys fill slower than they begin
SMALLEST = 1 << 20  # an empty database with its indexes


def needed(place: TargetDatabase, paths: Sequence[Path], entries: int, scratch: Path, meter: Meter) -> int:
    """Bytes the finished database will take, from above."""
    made = scratch / "pilot"
    files.remove_tree(made)
    made.mkdir(mode=0o700)
    try:
        settings = {"olcDbDirectory": [str(made).encode()], "olcDbMaxSize": [str(PILOT_MAXSIZE).encode()]}
        with place.private_configuration(scratch, settings) as copy:
            _load_some(copy, place.database.suffix, paths)
        facts, loaded = meta.read_meta(made), contents.entry_count(made)
        if not loaded:
            return SMALLEST  # nothing could be loaded; the real load will say why
        return SMALLEST + round(facts.pages * facts.page_size * MARGIN * entries / loaded)
    finally:
        files.remove_tree(made)


def _load_some(config: Path, suffix: str, paths: Sequence[Path]) -> None:
    """slapadd of the first records. Its complaints are left to the real load, which tells them better."""
    command = tools.server_tool("slapadd", "-q", "-c", "-s", "-F", str(config), "-b", suffix)
    with (
        piped(functools.partial(_join_into, paths), "pilot") as (descriptor, _),
        open(descriptor, "rb", closefd=False) as records,
    ):
        text = _whole_records(records.read(PILOT_BYTES))
    with Child(command, stdin=subprocess.PIPE) as child:
        assert child.process.stdin is not None
        with suppress(BrokenPipeError):
            child.process.stdin.write(text)
            child.process.stdin.close()
        child.wait()


def _join_into(paths: Sequence[Path], writer: int) -> None:
    with suppress(LoaderError):
        ldif.join(paths, writer, Meter("pilot"))


def _whole_records(text: bytes) -> bytes:
    """Up to the last blank line, unless the text is all there is."""
    if len(text) < PILOT_BYTES:
        return text
    return text[: text.rindex(b"\n\n") + 2]


def choose_maxsize(place: TargetDatabase, estimate: int, wanted: int | str | None, changing: bool = True) -> int:
    """The map size to load with. Raises MaxsizeTooSmall when what is configured or asked for cannot hold the data, and
    ServerRunning when a slapd.d must change (it does not unless `changing`) under a running slapd."""
    database = place.database
    if wanted == "auto":
        chosen = max(database.maxsize, recommended_size(estimate))
    else:
        chosen = database.maxsize if wanted is None else int(wanted)
    if chosen < estimate:
        raise MaxsizeTooSmall(maxsize=units.size(chosen), suffix=database.suffix, needed=units.size(estimate))
    if changing and place.config.is_directory and chosen != database.maxsize:
        require_stopped(place.config)
    return chosen
