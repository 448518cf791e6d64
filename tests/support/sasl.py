"""A server with accounts of SASL, a realm of Kerberos, and the commands that come in through them."""

from __future__ import annotations

import json
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

READER = "reader"  # the root DN of the server's database, by authz-regexp
SERVICE = "ldap/localhost"
VERBS = ("export", "add", "seed", "online")  # that ask a server


@dataclass(frozen=True)
class Kerberized:
    """A provider that accepts tickets. `held`: the environment of whoever holds one."""

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
    """A principal has a name, no address."""
    return uri.replace("127.0.0.1", "localhost")


def mapping(suffix: str, *more: str) -> tuple[str, ...]:
    """Lines of slapd.conf: the reader is the root DN, which sees everything."""
    regexp = f'authz-regexp "uid={READER},(cn=[^,]*,)*cn=auth" "cn=admin,{suffix}"'
    return ("sasl-host localhost", regexp, *more)


@contextmanager
def kerberized(ldif: Path, *lines: str, authority: Authority | None = None) -> Iterator[Kerberized]:
    """A realm, and a provider in it with such entries; `lines` of slapd.conf besides."""
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
    """Each of VERBS against that server, without its bind; the consumer stands still."""
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
    """That error, with such words in its message and its hint (expressions), and no traceback."""
    said = f"{done}"
    assert done.status == kind.exit_status, said
    told = json.loads(done.out) if done.out else {"error": {"code": kind.code}}  # with --json
    assert told["error"]["code"] == kind.code, said
    assert f"[{kind.code}]" in done.err, said
    assert re.search(message, done.err), said
    assert re.search(f"^hint: .*{hint}", done.err, re.MULTILINE), said
    assert "Traceback" not in done.err, said
