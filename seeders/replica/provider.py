"""What a provider's own cn=config tells of its syncprov, as far as the account may read it."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator
from dataclasses import dataclass

from loader import csn, dn
from loader.config import Config, Database
from loader.errors import ConfigHidden, LoaderError
from loader.server import configuration, configuration_write
from loader.server.session import Session

SESSION_LOG = "olcSpSessionlog"
_SYNCPROV = re.compile(r"olcOverlay=(\{-?\d+\})?syncprov,", re.IGNORECASE)
_SETTLED = 60  # seconds that slapd must have run for its counters to tell a rate
_WRITES = ("Add", "Modify", "Modrdn", "Delete")


@dataclass(frozen=True)
class Syncprov:
    """slapo-syncprov of one database. `session_log`: writes it holds, 0 without. `log_base`: the accesslog it answers
    from in its place (olcSpSessionlogSource). `changed`: the entryCSN of its entry in cn=config. `writes_itself`: no
    shadow, so that its own server ID comes into the contextCSN. `server_ids`: of all providers that may write."""

    entry_dn: str
    database: Database
    session_log: int
    log_base: str | None
    nopresent: bool
    changed: str
    writes_itself: bool
    server_ids: frozenset[str]
    keeps_changes: bool

    @property
    def logs(self) -> bool:
        return bool(self.session_log) or self.log_base is not None


def read(server: Session, suffix: str) -> Syncprov | None:
    """Of the database of `suffix`; None where cn=config, or a syncprov of it, is not to be seen."""
    try:
        config = configuration.read_online(server)
    except ConfigHidden:
        return None
    return of(config, suffix)


def of(config: Config, suffix: str) -> Syncprov | None:
    return next(_found(config, suffix), None)


def _found(config: Config, suffix: str) -> Iterator[Syncprov]:
    for database in config.databases:
        if not any(dn.key(suffix) == dn.key(own) for own in database.suffixes):
            continue
        below = "," + database.entry_dn.lower()
        for name, _ in config.entries:
            if _SYNCPROV.match(name) and name.lower().endswith(below):
                yield _syncprov(config, database, name)


def _syncprov(config: Config, database: Database, name: str) -> Syncprov:
    own, base = config.reader(name), config.reader(database.entry_dn)
    multi = base.flag("olcMultiProvider", False) or base.flag("olcMirrorMode", False)
    return Syncprov(
        entry_dn=name,
        database=database,
        session_log=own.number(SESSION_LOG, 0),
        log_base=own.dn("olcSpSessionlogSource"),
        nopresent=own.flag("olcSpNoPresent", False),
        changed=next(iter(own.stored("entryCSN")), ""),
        writes_itself=multi or not database.consumer,
        server_ids=frozenset(_server_ids(config)) if multi else frozenset(),
        keeps_changes=configuration_write.keeps_changes(config),
    )


def _server_ids(config: Config) -> Iterator[str]:
    """All that are configured, each with the URL of its listener, as three hex digits."""
    for words in config.reader("cn=config").words("olcServerID"):
        text = words[0] if words else ""
        if re.fullmatch(r"(0[xX])?[0-9a-fA-F]+", text):
            yield f"{int(text, 10 if text.isdigit() else 16):03x}"


def started(server: Session) -> datetime.datetime | None:
    """When slapd was started, in UTC without a zone, as its monitor tells; None where it does not tell us."""
    text = _monitored(server, "cn=Start,cn=Time,cn=Monitor", "monitorTimestamp")
    try:
        return datetime.datetime.strptime(text, "%Y%m%d%H%M%SZ") if text else None
    except ValueError:
        return None


def writes_per_second(server: Session) -> float | None:
    """On the average since slapd was started; None where its monitor does not tell us, or not yet."""
    uptime = _monitored(server, "cn=Uptime,cn=Time,cn=Monitor", "monitoredInfo")
    counts = [_monitored(server, f"cn={name},cn=Operations,cn=Monitor", "monitorOpCompleted") for name in _WRITES]
    if not uptime or not all(counts) or int(uptime) < _SETTLED:
        return None
    return sum(map(int, counts)) / int(uptime)


def _monitored(server: Session, entry: str, attribute: str) -> str:
    try:
        found = server.read(entry, [attribute]).get(attribute.lower(), [])
    except LoaderError:
        return ""
    return found[0].decode() if found else ""


def accesslog_reaches_back(server: Session, log_base: str, claimed: list[str], sid: str) -> bool | None:
    """Does an accesslog reach back to what is claimed of a server ID (its minCSN)? None where it cannot be read."""
    try:
        values = server.read(log_base, ["minCSN"]).get("mincsn", [])
    except LoaderError:
        return None
    least = csn.by_server(value.decode() for value in values).get(sid)
    return least is not None and csn.by_server(claimed).get(sid, "") >= least
