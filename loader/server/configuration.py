"""Reading a slapd's configuration, with slapd's own tools or over LDAP; making a slapd.d of it."""

from __future__ import annotations

import logging
import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loader import config, conversion, ldif, slapd_conf, words
from loader.config import Config, Entry
from loader.errors import (
    ConfigHidden,
    ConfigUnreadable,
    LoaderError,
    NoSuchBase,
    NoSuchPath,
    NotPermitted,
    ServerRefused,
    ToolFailed,
)
from loader.server import account, hidden_config, shell_commands, tools
from loader.storage import files, temporary
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
        entries = conversion.restored(entries, list(slapd_conf.statements(path, file_text)))
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
    return config.parse(Path("cn=config"), conversion.require_readable(entries), session.uri)


def dump(path: Path) -> bytes:
    """cn=config as LDIF, without its log file (unlogged.py). Holds credentials: keep it out of sight.

    Raises NoSuchPath, NotPermitted, ConfigUnreadable.
    """
    require_readable(path)
    owner = account.of_configuration(path, file_text)
    with hidden_config.readable(path, tools_tmpdir(), file_text, owner) as known:
        try:
            if path.is_dir():
                return tools.configuration("-F", str(known), owner=owner)
            with temporary.directory("config", tools_tmpdir()) as converted:
                account.change_owner(owner, converted)
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
        text += shell_commands.line("dn", name.encode()) + "\n"
        for key, values in attributes.items():
            text += "".join(f"{shell_commands.line(key, _written(key, one))}\n" for one in values)
        text += "\n"
    return text.encode()


def _written(name: str, value: bytes) -> bytes:
    if name.lower() != "olcdbdirectory":
        return value
    return os.fsencode(words.as_single(os.fsdecode(value)))


def load(
    directory: Path, entries: Sequence[Entry], origin: Path, owner: Owner | None = None
) -> None:
    """Make a slapd.d of entries, in the empty `directory` (of `owner`, where the entries name database directories of
    that account). Raises ConfigUnreadable, naming `origin`."""
    try:
        tools.run("slapadd", "-n0", "-F", str(directory), stdin=text_of(entries), owner=owner)
    except ToolFailed as error:
        raise ConfigUnreadable(path=origin, reason=error.facts["reason"]) from error
