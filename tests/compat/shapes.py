"""The topologies: which servers there are, who follows whom, and how a replica is configured."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

from fixtures import replication
from fixtures.compat.topologies import Topology
from fixtures.replication import wait_in_sync
from fixtures.slapd import Slapd
from fixtures.slapd_config import REPLICATOR, Settings, peer_dn
from fixtures.tls import Authority
from tests.compat.replicas import INDEXES, SECOND, SYNCPROV, TIMEOUT, TOUCH, Lines, Site, configure

LOG = "cn=log"
LIMITS = f'limits dn.exact="{REPLICATOR}" size=unlimited size.prtotal=unlimited time=unlimited'
ACCESS = f'access to * by dn.exact="{peer_dn()}" manage by * read'
BELOW = "ou=people"
DELTA = f'logbase="{LOG}" logfilter="(&(objectClass=auditWriteObject)(reqResult=0))" syncdata=accesslog'


@contextmanager
def site(topology: Topology, place: Path, people: int) -> Iterator[Site]:
    """Its servers running and filled."""
    with ExitStack() as stack:
        made = Site(topology, place, people, stack)
        SHAPES[topology.shape](made)
        time.sleep(0.1)
        yield made


def _provider(made: Site, overlays: Lines = lambda home: (SYNCPROV,), *more: str) -> None:
    """more: suffixes beside the plain one."""
    made.source = made.provider(1, overlays)
    for suffix in (Settings.suffix, *more):
        made.fill(made.source, suffix)
    made.source.start()
    # The change makes a contextCSN, and syncprov stores it when it stops.
    for suffix in (Settings.suffix, *more):
        made.source.ldapmodify(TOUCH.format(suffix))
    made.source.restart()
    made.writers = [made.source]


def _plain(made: Site) -> None:
    options = made.topology.options
    if "{certificate}" in options:
        made.settings = dataclasses.replace(made.settings, tls=Authority(made.place / "ca").valid())
    _provider(made)
    if tls := made.settings.tls:
        where = {"{certificate}": tls.certificate, "{key}": tls.key, "{ca}": tls.ca, "{directory}": tls.ca.parent}
        for word, path in where.items():
            options = options.replace(word, str(path))
    options = options.replace("{ldapi}", made.source.ldapi_uri).replace("{peer}", peer_dn())
    made.lines = (syncrepl(made.source, options), f"updateref {made.source.uri}")
    if found := re.search(r'suffixmassage="([^"]*)"', options):
        made.suffix = found[1]


def _delta(made: Site) -> None:
    _provider(made, lambda home: (SYNCPROV, _log(home)))
    made.lines = (syncrepl(made.source, DELTA), f"updateref {made.source.uri}")


def _as_provider(made: Site, overlays: Lines, *sources: str) -> None:
    """Replicas are providers of their own, with a server ID that nobody else has."""
    made.settings = dataclasses.replace(made.settings, server_id=3)
    made.overlays = overlays
    made.lines = (*sources, "multiprovider on")


def _mirror(made: Site) -> None:
    _provider(made)
    _as_provider(made, lambda home: (SYNCPROV,), syncrepl(made.source))


def _multi(made: Site, delta: str = "", overlays: Lines | None = None) -> None:
    """Two that follow each other; replicas follow both."""
    with_log = overlays or (lambda home: (SYNCPROV,))
    _provider(made, with_log)
    second = made.provider(2, with_log).start()
    for one, other in ((second, made.source), (made.source, second)):
        configure(one, one.suffix, (syncrepl(other, delta), "multiprovider on"))
        wait_in_sync(made.source, second, TIMEOUT)
    made.writers = [made.source, second]
    _as_provider(made, with_log, syncrepl(made.source, delta, 1), syncrepl(second, delta, 2))


def _delta_multi(made: Site) -> None:
    _multi(made, DELTA, lambda home: (SYNCPROV, _log(home)))


def _cascade(made: Site) -> None:
    """What is read is a replica itself."""
    _provider(made)
    top = made.source
    middle = made.provider(0, lambda home: (SYNCPROV,), database_lines=(syncrepl(top),)).start()
    wait_in_sync(top, middle, TIMEOUT)
    made.source = middle
    made.lines = (syncrepl(middle), f"updateref {middle.uri}")


def _glued(made: Site) -> None:
    """People in a database of their own, below the other one; replicas are cut the same way."""
    made.before = lambda home: (_database(home, "below", f"{BELOW},{Settings.suffix}", "subordinate"),)
    # Else syncprov stands below the glue, and sees the superior database alone (slapd.conf(5)).
    _provider(made, lambda home: ("overlay glue", SYNCPROV))
    made.lines = (syncrepl(made.source), f"updateref {made.source.uri}")


def _several(made: Site) -> None:
    """A second database, with a tree and a provider's overlay of its own."""
    _provider(made, lambda home: (SYNCPROV, _database(home, "second", SECOND, SYNCPROV)), SECOND)
    made.second = (syncrepl(made.source, f'searchbase="{SECOND}"', 2),)
    made.overlays = lambda home: (_database(home, "second", SECOND, *made.second),)
    made.lines = (syncrepl(made.source), f"updateref {made.source.uri}")


def _database(home: Path, name: str, suffix: str, *lines: str) -> str:
    (home / name).mkdir(parents=True, exist_ok=True)
    own = ("database mdb", f"suffix {suffix}", f"rootdn cn=admin,{Settings.suffix}", "maxsize 67108864")
    return "\n".join((*own, f"directory {home / name}", f"index {INDEXES[0]}", *lines, LIMITS, ACCESS))


SHAPES: dict[str, Callable[[Site], None]] = {
    "plain": _plain,
    "delta": _delta,
    "mirror": _mirror,
    "multi": _multi,
    "delta_multi": _delta_multi,
    "cascade": _cascade,
    "glued": _glued,
    "several": _several,
}


def syncrepl(source: Slapd, options: str = "", rid: int = 1) -> str:
    """The plain line, with the options in the place of those that it has already."""
    line = replication.syncrepl(source, source.uri).replace("rid=001", f"rid={rid:03d}")
    for name in re.findall(r"(\S+)=", options):
        line = re.sub(rf'\s{re.escape(name)}=("[^"]*"|\S+)', "", line)
    return f"{line} {options}".rstrip()


def _log(home: Path) -> str:
    """The accesslog overlay and, behind it, its database, which is read as the data is."""
    (home / "audit").mkdir(parents=True, exist_ok=True)
    return (
        f"overlay accesslog\nlogdb {LOG}\nlogops writes\nlogsuccess TRUE\n"
        f"database mdb\nsuffix {LOG}\nrootdn {LOG}\ndirectory {home}/audit\nmaxsize 67108864\n"
        f"index objectClass,entryCSN,reqStart,reqResult,reqDN eq\n{LIMITS}\n"
        "overlay syncprov\nsyncprov-reloadhint TRUE\nsyncprov-nopresent TRUE"
    )
