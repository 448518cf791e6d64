"""A server with SASL accounts, a Kerberos realm, and commands that bind with them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from fixtures import replication
from fixtures.kerberos import Realm
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.tls import Authority
from loader.errors import LoaderError
from tests.support.command import Done, ditseed

READER = "reader"  # account that authz-regexp maps to the root DN of the server's database
SERVICE = "ldap/localhost"
VERBS = ("export", "add", "seed", "online")  # verbs that bind to a server


@dataclass(frozen=True)
class Kerberized:
    """A provider that accepts tickets. `held`: an environment with a ticket."""

    server: Slapd
    realm: Realm
    user_keytab: Path
    held: Mapping[str, str]

    @property
    def uri(self) -> str:
        return by_name(self.server.uri)

    @property
    def bind(self) -> tuple[str, ...]:
        return ("-H", self.uri, "-Y", "GSSAPI", "-N")

    def run(self, *arguments: object, env: Mapping[str, str] | None = None) -> Done:
        return ditseed(*arguments, env={**self.held, **(env or {})})

    def export(self, out: Path, *more: object, env: Mapping[str, str] | None = None) -> Done:
        where = ("-b", self.server.suffix, "-o", out, "--json")
        return self.run("export", *self.bind, *where, *more, env=env)


def by_name(uri: str) -> str:
    """Returns the URI with a host name, because a principal has a name, not an address."""
    return uri.replace("127.0.0.1", "localhost")


def mapping(suffix: str, *more: str) -> tuple[str, ...]:
    """Returns lines of slapd.conf that map READER to the root DN, which sees everything."""
    regexp = f'authz-regexp "uid={READER},(cn=[^,]*,)*cn=auth" "cn=admin,{suffix}"'
    return ("sasl-host localhost", regexp, *more)


@contextmanager
def kerberized(ldif: Path, *lines: str, authority: Authority | None = None) -> Iterator[Kerberized]:
    """Yields a provider in a new realm, with the entries of `ldif`. `lines`: additional lines of slapd.conf."""
    with Realm() as realm:
        settings = Settings(
            global_lines=mapping(Settings().suffix, *lines), tls=authority.valid() if authority else None
        )
        service = realm.installation(realm.keytab(SERVICE))
        server = replication.provider(settings, installation=service)
        server.slapadd(ldif)
        user = realm.keytab(READER)
        with server:
            yield Kerberized(server, realm, user, realm.ticket(READER, user, "cache"))


def commands(uri: str, suffix: str, consumer: Slapd, home: Path) -> dict[str, tuple[object, ...]]:
    """Returns a command for each of VERBS, without bind options. The consumer must be stopped."""
    ldif = home / "one.ldif"
    ldif.write_text(f"dn: ou=one,{suffix}\nobjectClass: organizationalUnit\nou: one\n")
    where = ("-H", uri, "-b", suffix)
    return {
        "export": ("export", *where, "-o", home / "out"),
        "add": ("add", ldif, *where),
        "seed": ("replica", "seed", "--strategy", "search", *where, "--config", consumer.config_path),
        "online": ("replica", "seed", "--strategy", "online", *where, "--consumer", uri, "--run-dir", home / "run"),
    }


def refused(done: Done, kind: type[LoaderError], message: str, hint: str) -> None:
    """Asserts an error whose message and hint match these regular expressions."""
    told = done.refused(kind)
    assert re.search(message, done.err), done
    assert re.search(hint, told), done
    if done.out:  # with --json
        assert done.facts["error"]["code"] == kind.code, done
