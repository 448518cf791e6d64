"""Providers of several OpenLDAP versions whose answer to a seeded consumer is known, and what they really send."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import ldap

from fixtures import replication
from fixtures.chroots import Chroot
from fixtures.partial import with_log
from fixtures.replication import Refresh, refresh_report
from fixtures.slapd import Form, Slapd
from fixtures.slapd_config import Installation, Settings, peer_dn
from fixtures.trees import write_people
from fixtures.waiting import until
from tests.support.command import Done, ditseed
from tests.support.seeding import bind

PEOPLE = 2000
CHANGED = DELETED = 20
_MONITOR = "cn=Entries,cn=Statistics,cn=Monitor"


@dataclass(frozen=True)
class Provider:
    """A running provider. `tools`: variables with which ditseed uses the tools of its version of OpenLDAP."""

    server: Slapd
    tools: dict[str, str]

    @property
    def external(self) -> tuple[str, ...]:
        """Options of an account that may read cn=config and the whole tree."""
        return ("-H", self.server.ldapi_uri, "-Y", "EXTERNAL")

    @property
    def replicator(self) -> tuple[str, ...]:
        """Options of an account that may read the whole tree, but not cn=config."""
        return bind(self.server)

    @property
    def admin(self) -> tuple[str, ...]:
        """Options for --prepare-provider."""
        who, file = self.server.root_dn, str(self.server.password_file)
        by = [(f"--{name}-bind-dn", who, f"--{name}-password-file", file) for name in ("admin", "config")]
        return ("--prepare-provider", *by[0], *by[1])

    def seed(self, consumer: Slapd, *more: str, strategy: str = "search", env: dict[str, str] | None = None) -> Done:
        where = ("--config", str(consumer.config_path), "-b", consumer.suffix)
        words = ("replica", "seed", "--strategy", strategy, *where, *more)
        done = ditseed(*words, env={**self.tools, **(env or {})})
        consumer.own_files()
        return done

    def write(self) -> None:
        self.server.describe(f"written {time.monotonic_ns()}", f"ou=people,{self.server.suffix}")

    def set_session_log(self, size: int = 1000) -> None:
        # `add`, because slapd 2.4.57 crashes if an absent value is replaced.
        record = f"changetype: modify\nadd: olcSpSessionlog\nolcSpSessionlog: {size}\n"
        self.server.configure(f"dn: {self.syncprov}\n{record}")

    @property
    def session_log(self) -> list[bytes]:
        entry = self.server.search(
            "(objectClass=*)", ("olcSpSessionlog",), base=self.syncprov, scope=ldap.SCOPE_BASE, external=True
        )
        return entry[0][1].get("olcSpSessionlog", [])

    @property
    def syncprov(self) -> str:
        found = self.server.search("(objectClass=olcSyncProvConfig)", ("1.1",), base="cn=config", external=True)
        return found[-1][0]

    def change_and_delete(self) -> None:
        people = [name for name, _ in self.server.search("(uid=*)", ("1.1",))]
        with self.server.connection() as handle:
            for name in people[:DELETED]:
                handle.delete_s(name)
            for name in people[DELETED : DELETED + CHANGED]:
                handle.modify_s(name, [(ldap.MOD_REPLACE, "description", [b"changed"])])

    def entries_sent(self) -> int:
        """Returns the number of entries sent to all clients since the start, including the one read here."""
        found = self.server.search(
            "(objectClass=*)", ("monitorCounter",), base=_MONITOR, scope=ldap.SCOPE_BASE, external=True
        )
        return int(found[0][1]["monitorCounter"][0])

    def caught_up(self, consumer: Slapd) -> tuple[Refresh, int]:
        """Starts the consumer. Returns its first refresh, and the number of entries that the provider sent for it."""
        before = self.entries_sent()
        self.seconds_to_catch_up(consumer)
        # Subtracts the entry read for the contextCSN, and the one read here.
        return refresh_report(consumer)[0], self.entries_sent() - before - 2

    def seconds_to_catch_up(self, consumer: Slapd) -> float:
        """Starts the consumer. Returns the seconds until its contextCSN equals the provider's."""
        wanted = self.server.context_csns()
        began = time.monotonic()
        consumer.start()
        until(lambda: consumer.context_csns() == wanted, consumer.log_tail)
        return time.monotonic() - began


def paste(block: str, server: Slapd) -> None:
    """Runs printed commands, with a password file instead of the prompt."""
    script = block.replace(" -W ", f" -y {server.password_file} ").replace("DN-THAT-MAY-WRITE", server.root_dn)
    script = script.replace("ldapi:///", server.ldapi_uri)
    subprocess.run(["sh", "-eu", "-c", script], check=True, env=server.installation.environment())


def block_of(stderr: str) -> str:
    """Returns the commands in a warning."""
    text = stderr.partition("do this on the provider first")[2].partition("\n")[2]
    return text.partition("\nEOF\nWARNING")[0] if "\nEOF\nWARNING" in text else text[: text.rindex("EOF") + 4]


@dataclass(frozen=True)
class Situation:
    """`answer`: what a consumer seeded then is sent. `syncprov`: lines of slapd.conf. `loaded`: the server ID in
    the entries' CSNs. `then`: changes the running provider before the seeding. `accesslog`: it has one."""

    answer: str
    syncprov: str = ""
    loaded: int = 1
    then: Callable[[Provider], None] = lambda provider: None
    accesslog: bool = False


def _set_and_written(provider: Provider) -> None:
    provider.set_session_log()
    provider.write()


SITUATIONS = {
    "no session log": Situation("present"),
    "set, no write since": Situation("present", then=Provider.set_session_log),
    "set, and one write": Situation("changes", then=_set_and_written),
    "in the configuration": Situation("changes", "syncprov-sessionlog 1000"),
    "own server ID lacking": Situation("whole", "syncprov-sessionlog 1000", loaded=0),
}


@contextmanager
def provider(
    other: Chroot | None, scratch: Path, situation: Situation, people: int = PEOPLE, form: Form = "config"
) -> Iterator[Provider]:
    modules = Settings().modules
    if other and other.version.startswith("2.4."):
        modules = (*modules, "back_monitor")
    installation = Installation(prefix=other.prefix) if other else None
    overlays = (f"overlay syncprov\n{situation.syncprov}",)
    lifted = f'limits dn.exact="{peer_dn()}" size=unlimited size.prtotal=unlimited time=unlimited'
    limits = (*Settings().limits, lifted)
    settings = Settings(modules=modules, server_id=1, overlays=overlays, limits=limits)
    if situation.accesslog:
        settings = with_log(scratch / "log", settings)
    ldif = scratch / "people.ldif"
    write_people(ldif, settings.suffix, people)
    with closing(Slapd(settings, form=form, installation=installation)) as server:
        where = (*server.config_arguments, "-b", server.suffix)
        server.tool("slapadd", "-q", "-w", *where, "-S", str(situation.loaded), "-l", ldif)
        server.own_files()
        _wait_for_another_second()
        server.start()
        _wait_for_another_second()
        _let_admin_configure(server)
        made = Provider(server, {"DITSEED_TOOLS": other.tools} if other else {})
        situation.then(made)
        yield made


def _wait_for_another_second() -> None:
    """Waits, because cn=Monitor has slapd's start in whole seconds: a change in that second may be older or newer."""
    time.sleep(1.05)


def _let_admin_configure(server: Slapd) -> None:
    rule = f'to * by dn.exact="{peer_dn()}" manage by dn.exact="{server.root_dn}" manage by * none'
    record = f"changetype: modify\nreplace: olcAccess\nolcAccess: {{0}}{rule}\n"
    server.configure(f"dn: olcDatabase={{0}}config,cn=config\n{record}")


def consumer(of: Provider, options: str = "", **changed: object) -> closing[Slapd]:
    """Closes a stopped consumer whose syncrepl has additional options."""
    settings = replication.as_consumer(of.server.settings, global_lines=(), **changed)
    return closing(replication.consumer(of.server, settings, installation=of.server.installation, options=options))
