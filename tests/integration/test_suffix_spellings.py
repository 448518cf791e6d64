"""A suffix with escaped characters, and `-b` in every spelling that slapd takes for the same DN."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.slapd import Form, Slapd
from fixtures.slapd_config import Settings
from tests.support.command import Done, ditseed

pytestmark = pytest.mark.slapd

COMMA, HASH = r"o=Foo\, Inc.,c=US", r"o=\#1 Foo,c=US"
SPELLINGS = (
    COMMA,
    r"o=foo\2C inc.,c=us",
    r'O = "Foo, Inc." , C=us',
    r"organizationName=Foo\, Inc.,countryName=US",
    r"2.5.4.10=Foo\2c  Inc.;c=US",
)
RECORDS = """\
dn: {suffix}
objectClass: organization
o: {value}

dn: ou=People,{suffix}
objectClass: organizationalUnit
ou: People

dn: uid=a,ou=People,{suffix}
objectClass: inetOrgPerson
uid: a
cn: a
sn: b
userPassword: x

"""


def ldif(place: Path, suffix: str, value: str) -> Path:
    path = place / "in.ldif"
    path.write_text(RECORDS.format(suffix=suffix, value=value))
    return path


@pytest.fixture(scope="module")
def loaded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    """A provider, running, of three entries."""
    server = replication.provider(Settings(suffix=COMMA))
    server.slapadd(ldif(tmp_path_factory.mktemp("in"), COMMA, "Foo, Inc."), "-w")
    with server:
        yield server


def bound(server: Slapd, base: str) -> list[object]:
    return ["-H", server.uri, "-D", server.root_dn, "-y", server.password_file, "-b", base]


def run(*arguments: object) -> Done:
    return ditseed(*arguments, "--progress", "none").ok()


@pytest.mark.long
@pytest.mark.parametrize("base", SPELLINGS)
def test_reading(loaded: Slapd, base: str, tmp_path: Path) -> None:
    run("export", *bound(loaded, base), "-o", tmp_path / "server")
    run("export", loaded.database_dir, "-b", base, "-o", tmp_path / "database")
    below = run("export", loaded.database_dir, "-b", f"OU=people,{base}", "-o", tmp_path / "below")
    assert "entries     2\n" in below.out
    for made in (tmp_path / "server", tmp_path / "database", loaded.config_path):
        run("compare", loaded.uri, made, *bound(loaded, base)[2:])
    run("verify", "--config", loaded.config_path, "-b", base, "--verify", "indexes")


@pytest.mark.long
@pytest.mark.parametrize("engine", ["native", "slapadd"])
@pytest.mark.parametrize("base", [SPELLINGS[2], SPELLINGS[-1]])
def test_building(loaded: Slapd, base: str, engine: str, form: Form, tmp_path: Path) -> None:
    run("export", loaded.database_dir, "-o", tmp_path / "out")
    with closing(Slapd(Settings(suffix=COMMA), form=form)) as server:
        where = ("--config", server.config_path, "-b", base)
        run("build", tmp_path / "out", *where, "--engine", engine)
        assert sorted(server.slapcat().split("\n\n")) == sorted(loaded.slapcat().split("\n\n"))
        apply = ("--apply",) if form == "config" else ()
        assert "maxsize" in ditseed("tune", "maxsize", *where, "--maxsize", "2G", *apply).ok().out
        told = ditseed("tune", "indexes", *where, "--add", "description eq", *apply).ok().out
        assert "description eq" in told


@pytest.mark.long
@pytest.mark.parametrize("strategy", ["search", "ldif", "clone"])
@pytest.mark.parametrize("base", [SPELLINGS[0], SPELLINGS[-1]])
def test_seeding(loaded: Slapd, base: str, strategy: str, tmp_path: Path) -> None:
    """The consumer goes on from there."""
    run("export", *bound(loaded, base), "-o", tmp_path / "out")
    of = {"search": [], "ldif": ["--from", tmp_path / "out"], "clone": ["--from", loaded.database_dir]}
    with closing(replication.consumer(loaded)) as replica:
        where = ("--config", replica.config_path, *of[strategy])
        run("replica", "seed", "--strategy", strategy, *bound(loaded, base), *where)
        replica.start()
        replication.wait_in_sync(loaded, replica)
        run("compare", loaded.uri, replica.config_path, *bound(loaded, base)[2:])


@pytest.mark.rows(2)
@pytest.mark.parametrize("base", [HASH, r"o=\231 foo,C=us"])
def test_a_number_sign(base: str, form: Form, tmp_path: Path) -> None:
    text = ldif(tmp_path, HASH, "#1 Foo")
    with closing(Slapd(Settings(suffix=HASH), form=form)) as server:
        run("build", text, "--config", server.config_path, "-b", base)
        run("verify", "--config", server.config_path, "-b", base, "--verify", "indexes")
        assert server.slapcat().count("dn: ") == 3
