"""A real server that is read, and its replicas, filled by syncrepl or by `replica seed`."""

from __future__ import annotations

import dataclasses
import re
import time
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path

import ldap

from fixtures.compat import changes
from fixtures.compat.topologies import Topology
from fixtures.replication import wait_in_sync
from fixtures.slapd import ServerError, Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import write_people

MODULES = ("back_mdb", "syncprov", "accesslog")
SYNCPROV = "overlay syncprov\nsyncprov-checkpoint 100 1\nsyncprov-sessionlog 100000"
SECOND = "o=second"
TOUCH = "dn: {}\nchangetype: modify\nadd: description\ndescription: touched\n"
TIMEOUT = 300.0


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
    done: int = 0

    # --- servers ------------------------------------------------------------------------------

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
        ldif = self.place / "people.ldif"
        write_people(ldif, suffix, self.people)
        where = [*server.config_arguments, "-b", suffix, "-S", "1"]
        server.tool("slapadd", "-q", *where, "-l", ldif)

    def replica(self, lines: tuple[str, ...]) -> Slapd:
        """Stopped and empty; without lines none of its databases is a consumer."""
        home = self.home()
        overlays = [
            re.sub(r"^syncrepl .*\n?", "", one, flags=re.MULTILINE) if not lines else one for one in self.overlays(home)
        ]
        wanted = dataclasses.replace(
            self.settings,
            suffix=self.suffix,
            global_lines=self.before(home),
            overlays=tuple(overlays),
            database_lines=(*self.settings.database_lines, *lines),
        )
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
        wait_in_sync(self.source, one, TIMEOUT)
        deadline = time.monotonic() + TIMEOUT
        while self.second and _context(self.source) != _context(one):
            if time.monotonic() > deadline:
                raise ServerError(f"{SECOND} has not caught up")
            time.sleep(0.05)

    # --- changes ------------------------------------------------------------------------------

    def change(self, count: int) -> None:
        """Spread over the writers, in turn: each sees what the others wrote before it goes on."""
        share = -(-count // len(self.writers))
        for writer in self.writers:
            writer.ldapmodify(changes.ldif(Settings.suffix, self.people, self.done, share))
            self.done += share
            for other in {*self.writers, self.source} - {writer}:
                wait_in_sync(writer, other, TIMEOUT)


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
