"""A real server that is read, and its replicas, filled by syncrepl or by `replica seed`: which servers each topology
has, who follows whom, and how a replica is configured."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import ldap

from fixtures import partial
from fixtures.compat.topologies import CLONE, LDIF, ONLINE, Topology
from fixtures.partial import DELTA, LOG
from fixtures.replication import following, syncrepl, wait_in_sync
from fixtures.slapd import Slapd
from fixtures.slapd_config import REPLICATOR, Settings, peer_dn
from fixtures.tls import Authority
from fixtures.waiting import until
from tests.support.command import Done, ditseed
from tests.support.seeding import bind, online

MODULES = ("back_mdb", "syncprov", "accesslog")
SYNCPROV = "overlay syncprov\nsyncprov-checkpoint 100 1\nsyncprov-sessionlog 100000"
SECOND = "o=second"


Lines = Callable[[Path], tuple[str, ...]]


@dataclass
class Site:
    """source: what is read. writers: who takes changes. lines: of a replica's database, which make it one.

    before, overlays: lines of a server before its databases, and behind what stands in the plain one.
    suffix: of a replica. second: lines of its second database, if there is one; that has the suffix SECOND.
    """

    topology: Topology
    place: Path
    people: int
    stack: ExitStack
    source: Slapd = field(init=False)
    writers: list[Slapd] = field(init=False)
    lines: tuple[str, ...] = ()
    settings: Settings = field(default_factory=lambda: Settings(modules=MODULES, indexes=INDEXES, maxsize=64 << 20))
    overlays: Lines = lambda home: ()
    before: Lines = lambda home: ()
    suffix: str = Settings.suffix
    second: tuple[str, ...] = ()
    number: int = 0

    def home(self) -> Path:
        self.number += 1
        return self.place / f"s{self.number}"

    def provider(self, server_id: int, overlays: Lines, **more: object) -> Slapd:
        """Running and empty."""
        home = self.home()
        own = {"server_id": server_id, "overlays": overlays(home), "global_lines": self.before(home)}
        wanted = dataclasses.replace(self.settings, **own, **more)  # type: ignore[arg-type]
        made = Slapd(wanted, directory=home)
        self.stack.callback(made.close)
        return made

    def fill(self, server: Slapd, suffix: str = Settings.suffix) -> None:
        """Not with -w: with glued databases slapadd 2.5.13 breaks down then."""
        where = [*server.config_arguments, "-b", suffix, "-S", "1"]
        server.tool("slapadd", "-q", *where, stdin=partial.tree(suffix, self.people).encode())

    def replica(self, lines: tuple[str, ...]) -> Slapd:
        """Stopped and empty; without lines none of its databases is a consumer."""
        home = self.home()
        overlays = self.overlays(home)
        if not lines:
            overlays = tuple(re.sub(r"^syncrepl .*\n?", "", one, flags=re.MULTILINE) for one in overlays)
        own = {"suffix": self.suffix, "global_lines": self.before(home), "overlays": overlays}
        database_lines = (*self.settings.database_lines, *lines)
        wanted = dataclasses.replace(self.settings, **own, database_lines=database_lines)  # type: ignore[arg-type]
        made = Slapd(wanted, directory=home)
        self.stack.callback(made.close)
        return made

    def natural(self) -> Slapd:
        """Running, filled by syncrepl."""
        made = self.replica(self.lines).start()
        self.wait(made)
        return made

    def suffixes(self, server: Slapd) -> list[str]:
        return [server.suffix, *([SECOND] if self.second else [])]

    def wait(self, one: Slapd) -> None:
        """Until it has caught up with the source, in every database."""
        wait_in_sync(self.source, one)
        if self.second:
            until(lambda: _context(self.source) == _context(one), one.log_tail)

    def change(self, count: int) -> None:
        """Spread over the writers, in turn: each sees what the others wrote before it goes on."""
        changes = list(partial.changes(Settings.suffix, self.people, count, seed=1))
        share = -(-count // len(self.writers))
        for number, writer in enumerate(self.writers):
            writer.ldapmodify("\n".join(changes[number * share : (number + 1) * share]))
            for other in {*self.writers, self.source} - {writer}:
                wait_in_sync(writer, other)


INDEXES = ("objectClass,entryUUID,entryCSN,uid eq",)


def configure(server: Slapd, suffix: str, lines: tuple[str, ...]) -> None:
    """What slapd.conf would say of its database, said to the running server."""
    ((entry, _),) = server.search(f"(olcSuffix={suffix})", ("1.1",), base="cn=config", external=True)
    names = {"syncrepl": "olcSyncrepl", "multiprovider": "olcMultiProvider"}
    words = [line.partition(" ") for line in lines]
    given = [(names[word], "TRUE" if rest == "on" else rest) for word, _, rest in words if word in names]
    parts = "".join(f"add: {name}\n{name}: {value}\n-\n" for name, value in given)
    server.configure(f"dn: {entry}\nchangetype: modify\n{parts}")


def _context(server: Slapd) -> list[bytes]:
    ((_, values),) = server.search(attributes=("contextCSN",), base=SECOND, scope=ldap.SCOPE_BASE)
    return values.get("contextCSN", [])


LIMITS = f'limits dn.exact="{REPLICATOR}" size=unlimited size.prtotal=unlimited time=unlimited'
ACCESS = f'access to * by dn.exact="{peer_dn()}" manage by * read'
BELOW = "ou=people"


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
        made.source.describe("touched", suffix)
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
    made.lines = following(made.source, options)
    if found := re.search(r'suffixmassage="([^"]*)"', options):
        made.suffix = found[1]


def _delta(made: Site) -> None:
    _provider(made, lambda home: (SYNCPROV, _log(home)))
    made.lines = following(made.source, DELTA)


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
        wait_in_sync(made.source, second)
    made.writers = [made.source, second]
    _as_provider(made, with_log, syncrepl(made.source, delta), syncrepl(second, f"{delta} rid=002"))


def _cascade(made: Site) -> None:
    """What is read is a replica itself."""
    _provider(made)
    top = made.source
    middle = made.provider(0, lambda home: (SYNCPROV,), database_lines=(syncrepl(top),)).start()
    wait_in_sync(top, middle)
    made.source = middle
    made.lines = following(middle)


def _glued(made: Site) -> None:
    """People in a database of their own, below the other one; replicas are cut the same way."""
    made.before = lambda home: (_database(home, "below", f"{BELOW},{Settings.suffix}", "subordinate"),)
    # Else syncprov stands below the glue, and sees the superior database alone (slapd.conf(5)).
    _provider(made, lambda home: ("overlay glue", SYNCPROV))
    made.lines = following(made.source)


def _several(made: Site) -> None:
    """A second database, with a tree and a provider's overlay of its own."""
    _provider(made, lambda home: (SYNCPROV, _database(home, "second", SECOND, SYNCPROV)), SECOND)
    made.second = (syncrepl(made.source, f'searchbase="{SECOND}" rid=002'),)
    made.overlays = lambda home: (_database(home, "second", SECOND, *made.second),)
    made.lines = following(made.source)


def _database(home: Path, name: str, suffix: str, *lines: str) -> str:
    (home / name).mkdir(parents=True, exist_ok=True)
    own = ("database mdb", f"suffix {suffix}", f"rootdn cn=admin,{Settings.suffix}", "maxsize 67108864")
    return "\n".join((*own, f"directory {home / name}", f"index {INDEXES[0]}", *lines, LIMITS, ACCESS))


SHAPES: dict[str, Callable[[Site], None]] = {
    "plain": _plain,
    "delta": _delta,
    "mirror": _mirror,
    "multi": _multi,
    "delta_multi": lambda made: _multi(made, DELTA, lambda home: (SYNCPROV, _log(home))),
    "cascade": _cascade,
    "glued": _glued,
    "several": _several,
}


def _log(home: Path) -> str:
    """The accesslog overlay and, behind it, its database, which is read as the data is."""
    (home / "audit").mkdir(parents=True, exist_ok=True)
    return (
        f"overlay accesslog\nlogdb {LOG}\nlogops writes\nlogsuccess TRUE\n"
        f"database mdb\nsuffix {LOG}\nrootdn {LOG}\ndirectory {home}/audit\nmaxsize 67108864\n"
        f"index objectClass,entryCSN,reqStart,reqResult,reqDN eq\n{LIMITS}\n"
        "overlay syncprov\nsyncprov-reloadhint TRUE\nsyncprov-nopresent TRUE"
    )


WORK = r"^(start|read|select|scan|slice|copy|load): "  # steps that ask for entries, or look at them


def seeded(site: Site, strategy: str) -> tuple[Slapd, Done]:
    """Stopped, or running when seeded so; what the last command said."""
    made = site.replica(() if strategy == ONLINE else site.lines)
    if strategy == ONLINE:
        made.start()
    done = Done(0, "", "")
    for theirs, own in zip(site.suffixes(site.source), site.suffixes(made), strict=True):
        if done.status == 0:
            done = _seed(site, strategy, made, theirs, own)
    return made, done


def _seed(site: Site, strategy: str, made: Slapd, theirs: str, own: str) -> Done:
    bound = (*bind(site.source), "-b", theirs)
    if strategy == ONLINE:
        done = ditseed(*online(site.source, made, *bound), env={"DITSEED_STATE_DIR": str(made.home / "state")})
        if done.status == 0:
            configure(made, theirs, site.second if theirs == SECOND else site.lines)
        return done
    more: tuple[object, ...] = bound
    if strategy == CLONE:
        more = (*bound, "--from", site.source.home / "second" if theirs == SECOND else site.source.database_dir)
    elif strategy == LDIF:
        out = made.home / f"export-{theirs}"
        ditseed("export", *bound, "-o", out).ok()
        more = ("--from", out)
    return ditseed("replica", "seed", "--strategy", strategy, *more, "--config", made.config_path, "--suffix", own)


def unlike(made: Site, natural: Slapd, other: Slapd) -> list[str]:
    """What the two hold that is not the same."""
    differences: list[str] = []
    for suffix in made.suffixes(natural):
        expected = partial.stored(natural, "-b", suffix)
        assert expected, "an empty database proves nothing"
        differences += partial.differences(expected, partial.stored(other, "-b", suffix), ("contextCSN",))
    return differences
