"""Reads and changes a slapd configuration with slapd's own tools or over LDAP. Also makes copies that slapd's tools can
read safely, reads the schema compiled into slapd and its modules, and runs slaptest on a configuration."""

from __future__ import annotations

import itertools
import logging
import os
import re
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from loader import child, config, errors, ldif, log, slapd_conf, syncrepl
from loader.backmdb import ROOT
from loader.config import Change, Config, Database, Entry
from loader.server import tools
from loader.server.options import Connection
from loader.server.options import line as ldif_line
from loader.storage import files, held

if TYPE_CHECKING:
    from loader.server.session import Session  # python-ldap takes 40 ms to load

_log = logging.getLogger(__name__)

BY_HAND = "Nothing was changed. Change the setting by hand, and please report what this configuration looks like."


def read(path: Path) -> Config:
    """Returns the configuration in `path`: a slapd.d, or a slapd.conf, which is converted in a scratch directory."""
    return read_with_text(path)[0]


def read_with_text(path: Path) -> tuple[Config, bytes]:
    _log.info("reading the configuration %s", path)
    text = dump(path)
    entries = entries_of(text, path)
    if not path.is_dir():
        entries = slapd_conf.restored(entries, list(slapd_conf.statements(path)))
    return config.parse(path, entries), text


def read_online(session: Session) -> Config:
    """Returns a running server's configuration. Raises ConfigHidden if the account cannot read cn=config."""
    reason, entries = "nothing is shown", list[Entry]()
    try:
        entries += session.find("cn=config", "(objectClass=*)", ("*", "+"))
    except errors.NoSuchBase:
        reason = "it does not exist, or is hidden"
    except errors.ServerRefused as error:
        reason = str(error.facts["reason"])
    if not entries:
        raise errors.ConfigHidden(uri=session.uri, who=session.connection.who, reason=reason)
    return config.parse(Path("cn=config"), slapd_conf.require_readable(entries), session.uri)


def provider_of(value: str, where: str) -> Connection | None:
    """Returns the connection with which a value of olcSyncrepl binds to its provider; None if it uses no password.
    `where`: the configuration, for messages. Raises SyncreplUnreadable."""
    parsed, account = syncrepl.parse(value, where), syncrepl.account(value)
    if account is None:
        return None
    tls = 2 if account.start_tls else 0  # StartTLS must succeed, or the password would be sent in clear
    return Connection(parsed.provider, account.dn, password=account.password, start_tls=tls, base=parsed.searchbase)


def dump(path: Path) -> bytes:
    """Returns cn=config as LDIF, which has credentials but no olcLogFile. Raises ConfigUnreadable if slapcat fails."""
    require_readable(path)
    owner = tools.of_configuration(path)
    with readable(path, owner) as (copy, root):
        try:
            if path.is_dir():
                return tools.configuration("-F", str(copy), owner=owner)
            with files.temporary_directory("config", tools_tmpdir()) as slapd_d:
                tools.change_owner(owner, slapd_d)
                # With -f and -F slapcat converts FILE to DIR, opens no other database, and fails if slaptest -u would.
                return tools.configuration("-f", str(copy), "-F", str(slapd_d), owner=owner)
        except errors.ToolFailed as error:
            raise errors.ConfigUnreadable(path=path, reason=str(error.facts["reason"]).replace(root, "")) from error


def require_readable(path: Path) -> None:
    """Raises NoSuchPath if `path` does not exist, NotPermitted if this account cannot read all of the configuration."""
    try:
        path.stat()
    except FileNotFoundError:
        raise errors.NoSuchPath(path=path) from None
    except PermissionError:
        raise errors.NotPermitted(action="reach", path=path, owner="root") from None
    # In packages, all accounts may read slapd.d itself, but only slapd's account its contents. rglob yields a directory
    # before its contents, so the error names the topmost unreadable directory. Without cn=config it yields nothing.
    inside = path / "cn=config"
    for file in itertools.chain((path, path / _ENTRY, inside), inside.rglob("*")):  # evaluated lazily
        is_directory = file.is_dir()
        if file == path or file.suffix == ".ldif" or is_directory:
            needed = os.R_OK | os.X_OK if is_directory else os.R_OK
            if os.path.lexists(file) and not os.access(file, needed):
                raise errors.NotPermitted(action="read", path=file, owner=files.owner_name(file))


def tools_tmpdir() -> str | None:
    """Returns a directory for temporary files that DITSEED_TOOLS sees under the same path; None: use the default."""
    return os.environ.get("DITSEED_TOOLS_TMPDIR")


def entries_of(text: bytes, origin: Path) -> list[Entry]:
    """Returns the entries in the LDIF `text`, in order. Raises ConfigUnreadable, which names `origin`."""
    try:
        return ldif.records(text, "cn=config")
    except errors.LoaderError as error:
        raise errors.ConfigUnreadable(path=origin, reason=f"its LDIF cannot be read: {error}") from error


def load(directory: Path, entries: Sequence[Entry], origin: Path, owner: files.Owner | None = None) -> None:
    """Writes the entries as a slapd.d into the empty `directory`. slapadd runs as `owner`, which must own `directory`
    and the database directories that the entries name. Raises ConfigUnreadable, which names `origin`."""
    text = ""
    for name, attributes in entries:
        text += ldif_line("dn", name.encode()) + "\n"
        for key, texts in attributes.items():
            if key.lower() == "olcdbdirectory":  # slapd needs quotes around a path with spaces
                texts = [os.fsencode(config.value_of_single(os.fsdecode(value))) for value in texts]
            text += "".join(f"{ldif_line(key, value)}\n" for value in texts)
        text += "\n"
    try:
        tools.run("slapadd", "-n0", "-F", str(directory), stdin=text.encode(), owner=owner)
    except errors.ToolFailed as error:
        raise errors.ConfigUnreadable(path=origin, reason=error.facts["reason"]) from error


# Every tool of slapd opens the log file as soon as it reads the setting `logfile`: OpenLDAP 2.4 and 2.5 overwrite the
# file from the beginning (bconfig.c), 2.6 appends (logging.c). So the tools read copies without that setting.
_ENTRY = "cn=config.ldif"
_VALUE = re.compile(rb"^olcLogFile:.*\n(?: .*\n)*", re.MULTILINE | re.IGNORECASE)
_CHECKSUM = re.compile(rb"\A(?:#.*\n)+")  # the comment lines at the top of the file, with slapd's CRC32


@contextmanager
def readable(path: Path, owner: files.Owner | None = None) -> Iterator[tuple[Path, str]]:
    """Yields a path for slapd's tools: `path` itself, or the path of a copy that `owner` can read but not change. A
    copy is made if the configuration names a log file, or if `owner` may not read it. Also yields the directory in
    front of the copied path ("" without a copy), so that the caller can remove it from messages."""
    if path.is_dir():
        text = files.read(path / _ENTRY) if (path / _ENTRY).exists() else b""
        has_log = _VALUE.search(text) is not None
        sources = [file for file in (path, *path.rglob("*")) if file.is_dir() or file.suffix == ".ldif"]
    else:
        statements = list(slapd_conf.statements(path))
        has_log = any(directive.keyword == "logfile" for directive in statements)
        sources = [path, *{directive.file for directive in statements} - {path}]
    if not has_log and (owner is None or tools.may_read(owner, sources)):
        yield path, ""
        return
    with files.temporary_directory("read", tools_tmpdir()) as root:
        copy = Path(f"{root}{os.path.abspath(path)}")
        copy.parent.mkdir(parents=True, exist_ok=True)
        if path.is_dir():
            copy_directory(path, copy)
            if has_log:
                write(copy / _ENTRY, _VALUE.sub(b"", _CHECKSUM.sub(b"", text)))
        else:
            for file, content in slapd_conf.copies(path, str(root), "logfile").items():
                file.parent.mkdir(parents=True, exist_ok=True)
                write(file, content.encode("utf-8", "surrogateescape"))
        tools.let_read(owner, root)
        yield copy, str(root)


def copy_directory(source: Path, copy: Path) -> None:
    """Copies those files of a slapd.d that slapd reads. When root copies, a link that another account owns is refused,
    because it could lead to any file. Raises FileUnsafe, DirectoryUnsafe, OSError."""
    copy.mkdir(mode=0o700)
    with held.opened(source) as directory:
        for name in os.listdir(directory.descriptor):
            path = directory.path / name
            if name.endswith(".ldif"):
                write(copy / name, files.read(path))
            elif path.is_dir():
                copy_directory(path, copy / name)


def write(path: Path, text: bytes) -> None:
    """Writes a new file of mode 0600; a file that is already at `path` is removed first."""
    path.unlink(missing_ok=True)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(text)


def read_compiled_schema(source: Config) -> list[Entry]:
    """Returns the entry with the schema of the installed slapd and of the configuration's modules."""
    if not source.is_directory:  # a converted slapd.conf already contains the compiled schema
        return [entry for entry in source.entries if entry[0].lower() == ROOT]
    return of_modules(source)


def of_modules(source: Config) -> list[Entry]:
    """Returns the schema that slapcat prints for a slapd.conf with nothing but the modules. Raises ConfigUnreadable."""
    lines = [
        " ".join([keyword, *map(config.line_of_word, words)]) + "\n"
        for name, _ in source.entries
        for keyword, setting in (("modulepath", "olcModulePath"), ("moduleload", "olcModuleLoad"))
        for words in source.reader(name).words(setting)
    ]
    with files.temporary_directory("schema", tools_tmpdir()) as scratch:
        text, slapd_d = scratch / "slapd.conf", scratch / "slapd.d"
        text.write_bytes(os.fsencode("".join(lines)))
        slapd_d.mkdir(mode=0o700)
        try:
            dumped = tools.configuration("-f", str(text), "-F", str(slapd_d))
        except errors.ToolFailed as error:
            raise errors.ConfigUnreadable(path=source.path, reason=error.facts["reason"]) from error
    return [entry for entry in entries_of(dumped, source.path) if entry[0].lower() == ROOT]


class Acceptance(NamedTuple):
    """The answer of the installed slapd's slaptest. `lines`: its whole output, with passwords blanked."""

    accepted: bool
    lines: tuple[str, ...]


def slaptest(path: Path) -> Acceptance:
    """Runs slaptest -u, which opens no database. Raises ToolMissing, NoSuchPath, NotPermitted."""
    require_readable(path)
    owner = tools.of_configuration(path)
    with readable(path, owner) as (copy, root):
        options = ("-u", "-F" if path.is_dir() else "-f", str(copy))
        result = child.run(tools.server_tool_as(owner, "slaptest", *options))
        lines = (log.redact(line.replace(root, "")) for line in result.stderr_lines)
    return Acceptance(result.status == 0, tuple(line for line in lines if line.strip()))


_LINES = re.compile(rb"[^\n]*\n(?: [^\n]*\n)*")  # a line with its continuation lines
_CRC = re.compile(rb"# CRC32 [0-9a-f]{8}")  # slapd's checksum of the text after the comments


def edited(entry: bytes, source: Config, changes: Sequence[Change]) -> bytes:
    """Returns the file of a slapd.d entry with changed settings; all other lines stay the same. slapmodify is not used:
    OpenLDAP 2.4 lacks it, and in 2.5 and 2.6 it gives the entry a new entryUUID."""
    settings = {change.attribute: [value.encode() for value in change.after] for change in changes}
    # The operational attributes that slapd itself would write.
    now = datetime.now(timezone.utc)
    csn = f"{now:%Y%m%d%H%M%S}.{now.microsecond:06}Z#000000#{source.server_id or 0:03x}#000000"
    settings |= {"modifyTimestamp": [f"{now:%Y%m%d%H%M%SZ}".encode()], "entryCSN": [csn.encode()]}
    replaced = {name.lower().encode() for name in settings}
    lines = _LINES.findall(entry.rstrip(b"\n") + b"\n")
    head = list(itertools.takewhile(lambda line: line.startswith(b"#"), lines))
    # A line begins with the attribute type, perhaps with options.
    other_lines = [
        line for line in lines[len(head) :] if re.split(b"[:;]", line, maxsplit=1)[0].lower() not in replaced
    ]
    new_lines = [f"{ldif_line(name, value)}\n".encode() for name, values in settings.items() for value in values]
    body = b"".join([*other_lines, *new_lines])
    return _CRC.sub(b"# CRC32 %08x" % zlib.crc32(body), b"".join(head)) + body


def replacement(source: Config, database: Database, changes: Sequence[Change]) -> tuple[Path, bytes, bytes, Database]:
    """Prepares a change of the slapd.d `source`. Returns the file of the database's entry, its present content, its new
    content, and the database as slapd's tools read it from a changed copy. Raises ConfigRefused if the tools reject the
    copy, ConfigNotEditable if the change would alter anything else."""
    name = Path("cn=config") / f"{database.entry_dn.partition(',')[0]}.ldif"
    path = source.path / name
    if not path.is_file():
        raise not_editable(path, "no such file in slapd.d")
    old = files.read(path)
    new = edited(old, source, changes)
    with files.temporary_directory("tune", tools_tmpdir()) as scratch:
        copy = scratch / "slapd.d"
        copy_directory(source.path, copy)
        write(copy / name, new)
        tools.let_read(tools.of_configuration(copy), scratch)
        try:
            after = read(copy)
        except errors.ConfigUnreadable as error:
            reason = str(error.facts["reason"]).replace(str(copy), str(source.path))
            raise _refusal(str(source.path), changes, reason) from error
    before, now = source.settings, after.settings
    names = {*slapd_conf.KEYWORDS, *(change.attribute for change in changes)}
    editable = {(database.entry_dn.lower(), name.lower()) for name in names}
    others = sorted(
        " ".join(key) for key in before.keys() | now.keys() if before.get(key) != now.get(key) and key not in editable
    )
    changed = next((other for other in after.databases if other.entry_dn == database.entry_dn), None)
    if others or changed is None:
        raise not_editable(source.path, f"the change would alter {', '.join(others[:5]) or database.entry_dn} too")
    return path, old, new, changed


def not_editable(
    path: Path | str, reason: str, lines: tuple[str, ...] = (), advice: str = BY_HAND
) -> errors.ConfigNotEditable:
    return errors.ConfigNotEditable(path=path, reason=reason, advice=advice, lines=lines)


def modify(session: Session, entry_dn: str, changes: Sequence[Change]) -> None:
    """Changes an entry of a running server's cn=config in one operation. Raises ConfigRefused with slapd's message."""
    try:
        session.modify(entry_dn, [each for change in changes for each in _modifications(change)])
    except errors.ServerRefused as error:
        raise _refusal(session.uri, changes, error.facts["reason"]) from error


_ADD, _DELETE, _REPLACE = range(3)  # RFC 4511, 4.6


def _modifications(change: Change) -> Iterator[tuple[int, str, list[bytes] | None]]:
    """Yields the modifications for a change. An absent attribute is added, not replaced: slapd refuses to replace it by
    no value, mistakes an absent olcUpdateDN for a present one, and crashes (2.4.57) for olcSpSessionlog."""
    before, after = ([value.encode() for value in values] for values in (change.before, change.after))
    if change.attribute == "olcDbIndex":  # value by value, so that slapd builds only the new indexes
        removed, added = [v for v in before if v not in after], [v for v in after if v not in before]
        if removed:
            yield _DELETE, change.attribute, removed
        if added:
            yield _ADD, change.attribute, added
    elif after:
        yield _REPLACE if before else _ADD, change.attribute, after
    elif before:
        yield _DELETE, change.attribute, None


def change_record(entry_dn: str, changes: Sequence[Change]) -> str:
    verbs = {_DELETE: "delete", _ADD: "add", _REPLACE: "replace"}
    lines = [f"dn: {entry_dn}", "changetype: modify"]
    for kind, name, values in (each for change in changes for each in _modifications(change)):
        lines += [f"{verbs[kind]}: {name}", *(ldif_line(name, value) for value in values or []), "-"]
    return "\n".join(lines) + "\n"


def keeps_changes(source: Config) -> bool:
    """Returns True if changes of cn=config survive a restart; with a slapd.conf they exist only in slapd's memory."""
    return not source.values("cn=config", "olcConfigFile") or bool(source.values("cn=config", "olcConfigDir"))


def _refusal(path: str, changes: Sequence[Change], reason: object) -> errors.ConfigRefused:
    names = " and ".join(dict.fromkeys(change.attribute for change in changes))
    return errors.ConfigRefused(path=path, attribute=names, reason=reason)
