"""How long the provider remembers what changed: its session log, or the purge of the accesslog that answers in its
place. A seed that takes longer than that to be started is sent the entryUUIDs of all entries."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from loader import dn, units
from loader.config import Config
from loader.errors import LoaderError
from loader.server import configuration
from loader.server.options import Connection
from loader.server.session import session
from seeders.replica import provider as providers

_AGE = re.compile(
    r"(?:(\d{1,5})\+)?(\d{1,2}):(\d\d)(?::(\d\d))?\Z"
)  # slapo-accesslog(5): [ddd+]hh:mm[:ss]


@dataclass(frozen=True)
class Window:
    """seconds: for which changes are remembered from now on."""

    seconds: float
    what: str

    def too_short(self, needed: float) -> str | None:
        """Why, where it is shorter than so many seconds."""
        if needed <= self.seconds:
            return None
        return (
            f"{self.what}, which is shorter than the {units.duration(needed)} until the consumer is started: it "
            "would be sent the entryUUIDs of all entries"
        )


def of(provider: Connection, base: str, log_base: str | None) -> Window | None:
    """The shortest that is known; None where nothing tells."""
    try:
        with session(provider) as server:
            suffix = server.context_of(base)
            known, rate = providers.read(server, suffix), providers.writes_per_second(server)
            config = configuration.read_online(server)
    except LoaderError:
        return None
    found = list(_purges(config, log_base or (known.log_base if known else None)))
    if known and known.session_log and rate and not log_base:
        held = units.number(known.session_log)
        lasts = known.session_log / rate
        what = f"the session log holds {held} writes, at {rate:,.1f}/s those of {units.duration(lasts)}"
        found.append(Window(lasts, what))
    return min(found, key=lambda one: one.seconds, default=None)


def _purges(config: Config, log_base: str | None) -> Iterator[Window]:
    for name, _ in config.entries:
        reader = config.reader(name)
        if log_base is None or dn.key(log_base) not in map(dn.key, reader.dns("olcAccessLogDB")):
            continue
        for words in reader.words("olcAccessLogPurge"):
            age = age_of(words[0]) if words else None
            if age is not None:
                what = f"{log_base} is purged of what is older than {units.duration(age)}"
                yield Window(age, what)


def age_of(text: str) -> float | None:
    """Seconds of slapo-accesslog's [ddd+]hh:mm[:ss]; None for what is none."""
    found = _AGE.match(text)
    if found is None:
        return None
    days, hours, minutes, seconds = (int(one or 0) for one in found.groups())
    return float(((days * 24 + hours) * 60 + minutes) * 60 + seconds)
