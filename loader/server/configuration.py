"""Reading a slapd's configuration with slapd's own tools, and making private copies of it for offline work."""

from __future__ import annotations

import io
import os
import shutil
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import ldif

from loader import config
from loader.config import Config, Database, Entry
from loader.errors import ConfigUnreadable, NoSuchPath, NotPermitted, ToolFailed
from loader.server import tools


def read(path: Path) -> Config:
    """The configuration in `path`: a slapd.d directory, or a slapd.conf (converted in a scratch directory)."""
    return config.parse(path, entries_of(dump(path)))


def dump(path: Path) -> bytes:
    """cn=config as LDIF. Holds credentials: keep it out of sight."""
    if not path.exists():
        raise NoSuchPath(path=path)
    if not os.access(path, os.R_OK):
        raise NotPermitted(action="read", path=path, owner=path.owner())
    try:
        if path.is_dir():
            return tools.run("slapcat", "-n0", "-F", str(path))
        with tempfile.TemporaryDirectory(prefix="ditseed-config-", dir=scratch()) as converted:
            # -n0: convert, but open no database; with -u it would convert nothing.
            tools.run("slaptest", "-n0", "-f", str(path), "-F", converted)
            return tools.run("slapcat", "-n0", "-F", converted)
    except ToolFailed as error:
        raise ConfigUnreadable(path=path, reason=error.facts["reason"]) from error


def scratch() -> str | None:
    """A scratch place that a tools prefix (a chroot, a container) sees under the same name; None for the usual one."""
    return os.environ.get("DITSEED_TOOLS_TMPDIR")


def entries_of(text: bytes) -> list[Entry]:
    """LDIF records, in order."""
    records = ldif.LDIFRecordList(io.BytesIO(text))
    records.parse()
    return list(records.all_records)


def text_of(entries: Sequence[Entry]) -> bytes:
    """Entries as LDIF."""
    out = io.StringIO()
    writer = ldif.LDIFWriter(out, cols=10**9)
    for name, attributes in entries:
        writer.unparse(name, {key: list(values) for key, values in attributes.items()})
    return out.getvalue().encode()


@contextmanager
def private_copy(
    source: Config, database: Database, settings: Mapping[str, Sequence[bytes]], place: Path
) -> Iterator[Path]:
    """A slapd.d below `place` in which `database` has other `settings` (olcDbDirectory, olcDbMaxSize ...).

    The operator's own configuration is never touched. It holds credentials: mode 0700, removed at the end.
    """
    copy = place / "slapd.d"
    shutil.rmtree(copy, ignore_errors=True)
    copy.mkdir(mode=0o700, parents=True)
    try:
        changed = [_with(entry, settings) if entry[0] == database.entry_dn else entry for entry in source.entries]
        _load(copy, text_of(changed), source.path)
        yield copy
    finally:
        shutil.rmtree(copy, ignore_errors=True)


def _load(directory: Path, text: bytes, origin: Path) -> None:
    try:
        tools.run("slapadd", "-n0", "-F", str(directory), stdin=text)
    except ToolFailed as error:
        raise ConfigUnreadable(path=origin, reason=error.facts["reason"]) from error


def _with(entry: Entry, settings: Mapping[str, Sequence[bytes]]) -> Entry:
    name, attributes = entry
    replaced = {key.lower() for key in settings}
    kept = {key: values for key, values in attributes.items() if key.lower() not in replaced}
    return name, {**kept, **{key: values for key, values in settings.items() if values}}
