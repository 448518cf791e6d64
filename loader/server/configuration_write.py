"""Making a changed configuration with slapd's own tools, beside the real one; and changing cn=config over LDAP.

Files are put in place by the caller: nothing here touches the operator's own.
"""

from __future__ import annotations

import itertools
import re
import zlib
from collections.abc import Iterator, Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from loader import config
from loader.config import Change, Config, Database
from loader.errors import ConfigRefused, ConfigUnreadable, ServerRefused
from loader.server import configuration, limits, tools
from loader.storage import temporary

if TYPE_CHECKING:
    from loader.server.session import Session  # python-ldap takes 40 ms to load

_LINES = re.compile(rb"[^\n]*\n(?: [^\n]*\n)*")  # with those that continue them
_CRC = re.compile(rb"# CRC32 [0-9a-f]{8}")  # of what follows the comments, as slapd writes it
BY_VALUE = ("olcDbIndex",)  # deleted and added value by value, so that slapd indexes only what is new


def edited(entry: bytes, source: Config, changes: Sequence[Change]) -> bytes:
    """The file of an entry of slapd.d with changed settings; every other line stays as it is, so that nothing but the
    changes can get into the operator's configuration.

    Not written by slapmodify: OpenLDAP 2.4 has none, and 2.5 and 2.6 give the entry a new entryUUID.
    """
    settings = {one.attribute: [value.encode() for value in one.after] for one in changes}
    settings |= _stamp(source)
    replaced = {name.lower().encode() for name in settings}
    lines = _LINES.findall(entry.rstrip(b"\n") + b"\n")
    head = list(itertools.takewhile(lambda line: line.startswith(b"#"), lines))
    kept = [line for line in lines[len(head) :] if _name(line) not in replaced]
    new = [f"{limits.line(name, value)}\n".encode() for name, values in settings.items() for value in values]
    body = b"".join([*kept, *new])
    return _CRC.sub(b"# CRC32 %08x" % zlib.crc32(body), b"".join(head)) + body


def _name(line: bytes) -> bytes:
    """Of the attribute that a line of LDIF has a value of; a line that is empty or a comment has none."""
    return line.partition(b":")[0].partition(b";")[0].lower()


def _stamp(source: Config) -> dict[str, list[bytes]]:
    """What slapd itself would note about a change."""
    now = datetime.now(timezone.utc)
    csn = f"{now:%Y%m%d%H%M%S}.{now.microsecond:06}Z#000000#{source.server_id or 0:03x}#000000"
    return {"modifyTimestamp": [f"{now:%Y%m%d%H%M%SZ}".encode()], "entryCSN": [csn.encode()]}


def entry_file(directory: Path, database: Database) -> Path:
    """Where a slapd.d keeps the entry of a database (back-ldif's layout)."""
    name = database.entry_dn.partition(",")[0]
    return directory / "cn=config" / f"{name}.ldif"


def check_directory(source: Config, database: Database, entry: bytes, changes: Sequence[Change]) -> Config:
    """What slapd's tools read of a slapd.d like `source`, with `entry` as the file of the database. They cannot change
    it. Raises ConfigRefused."""
    with temporary.directory("tune", configuration.tools_tmpdir()) as scratch:
        copy = scratch / "slapd.d"
        configuration.copy_directory(source.path, copy)
        configuration.write(entry_file(copy, database), entry)
        tools.let_read(tools.of_configuration(copy, configuration.file_text), scratch)
        try:
            return configuration.read(copy)
        except ConfigUnreadable as error:
            reason = str(error.facts["reason"]).replace(str(copy), str(source.path))
            raise _refused(str(source.path), changes, reason) from error


def modify(session: Session, entry_dn: str, changes: Sequence[Change]) -> None:
    """Change an entry of cn=config of a running server, all or nothing. Raises ConfigRefused with slapd's words."""
    try:
        session.modify(entry_dn, [one for change in changes for one in _modifications(change)])
    except ServerRefused as error:
        raise _refused(session.uri, changes, error.facts["reason"]) from error


_ADD, _DELETE, _REPLACE = range(3)  # RFC 4511, 4.6
Modification = tuple[int, str, list[bytes] | None]


def _modifications(change: Change) -> Iterator[Modification]:
    """Never an empty replace: slapd refuses that of an absent attribute. Nor one of an absent olcUpdateDN, which slapd
    then takes for one that is there, or of an absent olcSpSessionlog, of which slapd 2.4.57 dies."""
    before, after = _bytes(change.before), _bytes(change.after)
    if change.attribute in BY_VALUE:
        gone, come = [v for v in before if v not in after], [v for v in after if v not in before]
        if gone:
            yield _DELETE, change.attribute, gone
        if come:
            yield _ADD, change.attribute, come
    elif after:
        yield _REPLACE if before else _ADD, change.attribute, after
    elif before:
        yield _DELETE, change.attribute, None


def _bytes(values: Sequence[str]) -> list[bytes]:
    return [value.encode() for value in values]


def change_record(entry_dn: str, changes: Sequence[Change]) -> str:
    """The change of an entry as an LDIF record, for people."""
    words = {_DELETE: "delete", _ADD: "add", _REPLACE: "replace"}
    lines = [f"dn: {entry_dn}", "changetype: modify"]
    for kind, name, values in (one for change in changes for one in _modifications(change)):
        lines += [f"{words[kind]}: {name}", *(limits.line(name, v) for v in values or []), "-"]
    return "\n".join(lines) + "\n"


def keeps_changes(found: Config) -> bool:
    """Will a running server's changes outlive it? One that reads slapd.conf keeps cn=config in memory alone."""
    from_text = found.values("cn=config", "olcConfigFile")
    return not from_text or bool(found.values("cn=config", "olcConfigDir"))


def _refused(path: str, changes: Sequence[Change], reason: object) -> ConfigRefused:
    named = " and ".join(dict.fromkeys(one.attribute for one in changes))
    return ConfigRefused(path=path, attribute=named, reason=reason)


def other_differences(before: Config, after: Config, changed: Database) -> list[str]:
    """Settings that differ beyond the mdb settings of `changed`: "DN attribute"; none may."""
    old, new = before.settings, after.settings
    ours = {(changed.entry_dn.lower(), name.lower()) for name in config.TUNED}
    return sorted(" ".join(key) for key in old.keys() | new.keys() if old.get(key) != new.get(key) and key not in ours)
