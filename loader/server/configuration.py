"""Reads a slapd's configuration, with slapd's own tools or over LDAP. Also here: copies that slapd's tools may read,
the schema that is compiled into slapd and its modules, and whether the installed slapd accepts a configuration
(slaptest)."""

from __future__ import annotations

import itertools
import logging
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING

from loader import child, config, ldif, log, slapd_conf, values
from loader.config import Change, Config, Database, Entry
from loader.errors import (
    ConfigHidden,
    ConfigRefused,
    ConfigUnreadable,
    LoaderError,
    NoSuchBase,
    NoSuchPath,
    NotPermitted,
    ServerRefused,
    ToolFailed,
)
from loader.schema import ROOT
from loader.server import tools
from loader.server.options import line as ldif_line
from loader.slapd_conf import TextOf
from loader.storage import files, held, temporary
from loader.storage.files import Owner

if TYPE_CHECKING:
    from loader.server.session import Session  # python-ldap takes 40 ms to load

_log = logging.getLogger(__name__)


def read(path: Path) -> Config:
    """The configuration in `path`: a slapd.d directory, or a slapd.conf (converted in a scratch directory)."""
    return read_with_text(path)[0]


def read_with_text(path: Path) -> tuple[Config, bytes]:
    """The same, and what `dump` gives of it."""
    _log.info("reading the configuration %s", path)
    text = dump(path)
    entries = entries_of(text, path)
    if not path.is_dir():
        entries = slapd_conf.restored(entries, list(slapd_conf.statements(path, file_text)))
    return config.parse(path, entries), text


def file_text(path: Path) -> str | None:
    """Of a slapd.conf or a file that it includes; None when it cannot be read. Bytes that are not UTF-8 (comments in
    some old encoding) come back as they were. Raises FileUnsafe, for what another account has put in its place."""
    try:
        return files.read(path).decode("utf-8", "surrogateescape")
    except OSError:
        return None


def read_online(session: Session) -> Config:
    """The configuration a running server has. Raises ConfigHidden."""
    who, reason = session.connection.who, "nothing is shown"
    entries: list[Entry] = []
    try:
        entries += session.find("cn=config", "(objectClass=*)", ("*", "+"))
    except NoSuchBase:
        reason = "it is not there, or hidden"
    except ServerRefused as error:
        reason = str(error.facts["reason"])
    if not entries:
        raise ConfigHidden(uri=session.uri, who=who, reason=reason)
    return config.parse(Path("cn=config"), slapd_conf.require_readable(entries), session.uri)


def dump(path: Path) -> bytes:
    """cn=config as LDIF, without its log file (unlogged.py). Holds credentials: keep it out of sight.

    Raises NoSuchPath, NotPermitted, ConfigUnreadable.
    """
    require_readable(path)
    owner = tools.of_configuration(path, file_text)
    with readable(path, tools_tmpdir(), file_text, owner) as known:
        try:
            if path.is_dir():
                return tools.configuration("-F", str(known), owner=owner)
            with temporary.directory("config", tools_tmpdir()) as converted:
                tools.change_owner(owner, converted)
                # slapcat with both converts -f to -F, opens no other database, and fails where slaptest -u would too.
                return tools.configuration("-f", str(known), "-F", str(converted), owner=owner)
        except ToolFailed as error:
            reason = str(error.facts["reason"]).replace(str(known), str(path))
            raise ConfigUnreadable(path=path, reason=reason) from error


def require_readable(path: Path) -> None:
    """Raises NoSuchPath, NotPermitted."""
    try:
        path.stat()
    except FileNotFoundError:
        raise NoSuchPath(path=path) from None
    except PermissionError:
        raise NotPermitted(action="reach", path=path, owner="root") from None
    _require_access(path)
    # Packages make slapd.d itself readable to everybody, and what is in it to slapd's account alone. A directory comes
    # before what is in it; of a directory that is no slapd.d nothing is looked at.
    inside = path / "cn=config"
    for one in (path / "cn=config.ldif", inside, *inside.rglob("*")) if path.is_dir() else ():
        if one.suffix == ".ldif" or one.is_dir():
            _require_access(one)


def _require_access(path: Path) -> None:
    needed = os.R_OK | os.X_OK if path.is_dir() else os.R_OK
    if os.path.lexists(path) and not os.access(path, needed):
        raise NotPermitted(action="read", path=path, owner=_owner(path))


def _owner(path: Path) -> str:
    try:
        return path.owner()
    except KeyError:
        return str(path.stat().st_uid)  # of another host or container


def tools_tmpdir() -> str | None:
    """A scratch place that a tools prefix (a chroot, a container) sees under the same name; None for the usual one."""
    return os.environ.get("DITSEED_TOOLS_TMPDIR")


def entries_of(text: bytes, origin: Path) -> list[Entry]:
    """LDIF records, in order. Raises ConfigUnreadable, naming `origin`."""
    try:
        return ldif.records(text, "cn=config")
    except LoaderError as error:
        reason = f"its LDIF cannot be read: {error}"
        raise ConfigUnreadable(path=origin, reason=reason) from error


def text_of(entries: Sequence[Entry]) -> bytes:
    """Entries as LDIF. A directory may be given as a bare path."""
    text = ""
    for name, attributes in entries:
        text += ldif_line("dn", name.encode()) + "\n"
        for key, texts in attributes.items():
            text += "".join(f"{ldif_line(key, _written(key, one))}\n" for one in texts)
        text += "\n"
    return text.encode()


def _written(name: str, value: bytes) -> bytes:
    if name.lower() != "olcdbdirectory":
        return value
    return os.fsencode(values.as_single(os.fsdecode(value)))


def load(directory: Path, entries: Sequence[Entry], origin: Path, owner: Owner | None = None) -> None:
    """Make a slapd.d of entries, in the empty `directory` (of `owner`, where the entries name database directories of
    that account). Raises ConfigUnreadable, naming `origin`."""
    try:
        tools.run("slapadd", "-n0", "-F", str(directory), stdin=text_of(entries), owner=owner)
    except ToolFailed as error:
        raise ConfigUnreadable(path=origin, reason=error.facts["reason"]) from error


# --- hidden config ---------------------------------------------------------------------------------------------------
#
# A configuration as slapd's tools may read it: without the log file, which they would empty.
#
# Every tool opens the file that `logfile` names as soon as it reads the line: 2.4 and 2.5 for writing from its
# beginning (bconfig.c), 2.6 at its end (logging.c).


_ENTRY = "cn=config.ldif"
_VALUE = re.compile(rb"^olcLogFile:.*\n(?: .*\n)*", re.MULTILINE | re.IGNORECASE)
_CHECKSUM = re.compile(rb"\A(?:#.*\n)+")  # of the file as slapd wrote it


@contextmanager
def readable(path: Path, scratch: str | None, text_of: TextOf, owner: Owner | None = None) -> Iterator[Path]:
    """A slapd.d or slapd.conf: `path` itself, or where it names a log file, or `owner` may not read it, a copy, which
    `owner` can read and not change."""
    kept = _entry(path) if path.is_dir() else _text(path, text_of, owner)
    if kept is None and (owner is None or tools.may_read(owner, _read(path, text_of))):
        yield path
        return
    with temporary.directory("read", scratch) as place:
        copy = Path(place, path.name)
        if path.is_dir():
            copy_directory(path, copy)
        if kept is not None:
            write(copy / _ENTRY if path.is_dir() else copy, kept)
        tools.let_read(owner, Path(place))
        yield copy


def copy_directory(source: Path, copy: Path) -> None:
    """What slapd reads of a slapd.d. As root, links of another account, such as slapd's, are refused: they could lead
    to any file of root's. Raises FileUnsafe, DirectoryUnsafe, OSError."""
    copy.mkdir(mode=0o700)
    with held.opened(source) as directory:
        for name in os.listdir(directory.descriptor):
            path = directory.path / name
            if name.endswith(".ldif"):
                write(copy / name, files.read(path))
            elif path.is_dir():
                copy_directory(path, copy / name)


def _entry(path: Path) -> bytes | None:
    """cn=config without the log file; None where it names none."""
    text = files.read(path / _ENTRY) if (path / _ENTRY).exists() else b""
    kept = _VALUE.sub(b"", _CHECKSUM.sub(b"", text))
    return kept if _VALUE.search(text) else None


def _text(path: Path, text_of: TextOf, owner: Owner | None) -> bytes | None:
    """Of a slapd.conf, likewise; with what it includes in it only where `owner` may not read that: schema gets its
    names from the files."""
    text = slapd_conf.without(path, "logfile", text_of)
    if owner is not None and not tools.may_read(owner, _read(path, text_of)):
        included = _read(path, text_of)[1:]
        if included and not tools.may_read(owner, included):
            text = slapd_conf.whole(path, "logfile", text_of)
        text = text_of(path) if text is None else text
    return None if text is None else text.encode("utf-8", "surrogateescape")


def _read(path: Path, text_of: TextOf) -> list[Path]:
    """The files that a tool reads."""
    if not path.is_dir():
        return [path, *{one.file for one in slapd_conf.statements(path, text_of)} - {path}]
    return [file for file in (path, *path.rglob("*")) if file.is_dir() or file.suffix == ".ldif"]


def write(path: Path, text: bytes) -> None:
    """A new file of mode 0600 in the place of another."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)


# --- compiled schema -------------------------------------------------------------------------------------------------
#
# The schema that is compiled into the slapd at hand, and into the modules that a configuration loads.


def read_compiled_schema(source: Config) -> list[Entry]:
    """Raises ConfigUnreadable."""
    if not source.is_directory:  # it was converted just so when it was read
        return [entry for entry in source.entries if entry[0].lower() == ROOT]
    return of_modules(source)


def of_modules(source: Config) -> list[Entry]:
    """Asked of slapcat, which converts a slapd.conf with nothing but the modules. Raises ConfigUnreadable."""
    with temporary.directory("schema", tools_tmpdir()) as place:
        text, converted = Path(place, "slapd.conf"), Path(place, "slapd.d")
        text.write_bytes(os.fsencode("".join(f"{line}\n" for line in _lines(source))))
        converted.mkdir(mode=0o700)
        try:
            found = tools.configuration("-f", str(text), "-F", str(converted))
        except ToolFailed as error:
            raise ConfigUnreadable(path=source.path, reason=error.facts["reason"]) from error
    return [entry for entry in entries_of(found, source.path) if entry[0].lower() == ROOT]


def _lines(source: Config) -> Iterator[str]:
    """The modules in the order in which slapd loads them; each entry may have a path of its own."""
    for name, _ in source.entries:
        found = source.reader(name)
        for path in found.words("olcModulePath"):
            yield _line("modulepath", path)
        for module in found.words("olcModuleLoad"):
            yield _line("moduleload", module)


def _line(keyword: str, said: Sequence[str]) -> str:
    return " ".join([keyword, *map(values.as_line, said)])


# --- acceptance ------------------------------------------------------------------------------------------------------
#
# Does the installed slapd accept a configuration? Its own slaptest is asked.


@dataclass(frozen=True)
class Acceptance:
    """`lines`: all that slaptest said, warnings of an accepted configuration too; passwords are blanked."""

    accepted: bool
    lines: tuple[str, ...]


def slaptest(path: Path) -> Acceptance:
    """Of a slapd.d or slapd.conf; no database is opened (-u). Raises ToolMissing, NoSuchPath, NotPermitted."""
    require_readable(path)
    text_of, scratch = file_text, tools_tmpdir()
    owner = tools.of_configuration(path, text_of)
    with readable(path, scratch, text_of, owner) as known:
        how = ("-u", "-F" if path.is_dir() else "-f", str(known))
        uid, gid = (owner.uid, owner.gid) if owner else (0, 0)
        answer = child.ask(tools.server_tool_as(uid, gid, "slaptest", *how))
        lines = (log.redact(line.replace(str(known), str(path))) for line in answer.words)
    return Acceptance(answer.status == 0, tuple(line for line in lines if line.strip()))


# --- changes ---------------------------------------------------------------------------------------------------------
#
# A changed configuration is made with slapd's own tools, beside the real one, or over LDAP. Files are put in place by
# the caller: nothing here touches the operator's own.


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
    new = [f"{ldif_line(name, value)}\n".encode() for name, values in settings.items() for value in values]
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
    with temporary.directory("tune", tools_tmpdir()) as scratch:
        copy = scratch / "slapd.d"
        copy_directory(source.path, copy)
        write(entry_file(copy, database), entry)
        tools.let_read(tools.of_configuration(copy, file_text), scratch)
        try:
            return read(copy)
        except ConfigUnreadable as error:
            reason = str(error.facts["reason"]).replace(str(copy), str(source.path))
            raise _refusal(str(source.path), changes, reason) from error


def modify(session: Session, entry_dn: str, changes: Sequence[Change]) -> None:
    """Change an entry of cn=config of a running server, all or nothing. Raises ConfigRefused with slapd's words."""
    try:
        session.modify(entry_dn, [one for change in changes for one in _modifications(change)])
    except ServerRefused as error:
        raise _refusal(session.uri, changes, error.facts["reason"]) from error


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
    for kind, name, of in (one for change in changes for one in _modifications(change)):
        lines += [f"{words[kind]}: {name}", *(ldif_line(name, value) for value in of or []), "-"]
    return "\n".join(lines) + "\n"


def keeps_changes(found: Config) -> bool:
    """Will a running server's changes outlive it? One that reads slapd.conf keeps cn=config in memory alone."""
    from_text = found.values("cn=config", "olcConfigFile")
    return not from_text or bool(found.values("cn=config", "olcConfigDir"))


def _refusal(path: str, changes: Sequence[Change], reason: object) -> ConfigRefused:
    named = " and ".join(dict.fromkeys(one.attribute for one in changes))
    return ConfigRefused(path=path, attribute=named, reason=reason)


def other_differences(before: Config, after: Config, changed: Database) -> list[str]:
    """Settings that differ beyond the mdb settings of `changed`: "DN attribute"; none may."""
    old, new = before.settings, after.settings
    ours = {(changed.entry_dn.lower(), name.lower()) for name in config.TUNED}
    return sorted(" ".join(key) for key in old.keys() | new.keys() if old.get(key) != new.get(key) and key not in ours)
