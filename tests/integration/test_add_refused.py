"""`ditseed add` when the server does not take an entry, or a connection: only the guilty suffer, and are told of."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import record
from loader import errors
from tests.support.adding import SUFFIX, TOP, accounted, add, facts, names, people, person, unit, write
from tests.support.command import ditseed as _ditseed

pytestmark = pytest.mark.slapd


@pytest.mark.long("1-1", "3-1")
@pytest.mark.parametrize("batch", ["auto", "1"])
@pytest.mark.parametrize("jobs", [1, 3])
def test_only_the_guilty_are_rejected(slapd_instance: Slapd, tmp_path: Path, batch: str, jobs: int) -> None:
    """Of the schema, of a syntax, of a name, in the middle of others; with the server's words, file and line."""
    texts = [TOP, people(300)]
    for number in range(4):
        texts += [person(f"bad{number}", sn=None), people(50, prefix=f"m{number}-")]
    texts += [person("worse", SUFFIX, ("seeAlso", "no dn")), people(30, prefix="last")]
    texts.append(person("unknown", SUFFIX, ("noSuchAttribute", "x")))
    path, kept = write(tmp_path / "x.ldif", *texts), tmp_path / "rejects.ldif"
    options = ("--max-rejects", 6, "--rejects", kept, "--jobs", jobs, "--batch", batch, "--json")
    done = add(slapd_instance, path, *options)
    assert done.status == errors.EXIT_DIFFERENT, done
    told = done.facts
    assert (told["added"], told["rejected"]) == (531, 6)
    assert accounted(told)
    words = kept.read_text()
    assert words.count("# objectClassViolation (65): object class 'person' requires attribute 'sn'") == 4
    assert "# invalidAttributeSyntax (21): seeAlso: value #0 invalid per syntax" in words
    assert "# undefinedAttributeType (17): noSuchAttribute: attribute type undefined" in words
    line = "".join(texts)[: "".join(texts).index("dn: cn=bad2,")].count("\n") + 1
    assert f"# {path}, line {line}\ndn: cn=bad2,{SUFFIX}\n" in words
    assert kept.stat().st_mode & 0o777 == 0o600
    assert len(names(slapd_instance)) == 531


@pytest.mark.parametrize("batch", ["auto", "1"])
def test_a_map_that_is_full_is_named_with_its_setting(tmp_path: Path, batch: str) -> None:
    """slapd says what failed ("index generation failed", "txn_commit failed"), and not why."""
    large = ("description", "x" * 2000)
    texts = [TOP, *(person(f"p{number}", SUFFIX, large) for number in range(1000))]
    with Slapd(Settings(maxsize=1 << 20)) as server:
        done = add(server, write(tmp_path / "x.ldif", *texts), "--batch", batch)
    assert done.status == errors.AddRefused.exit_status, done
    assert "other (80)" in done.err
    assert "maxsize" in done.err.partition("\nhint: ")[2]


def test_what_was_stored_can_be_read_after_a_restart(tmp_path: Path) -> None:
    """A transaction that fails must not be the first to use an attribute: slapd would forget its name."""
    odd = ("telephoneNumber", "title", "street", "l", "postalCode", "description")
    with Slapd() as server:
        texts = [TOP]
        for name in odd:
            texts.append(_inet(f"bad-{name}", ((name, "1"),), surname=False))
            texts += [_inet(f"{name}{number}", ((name, "1"),)) for number in range(20)]
        told = add(server, write(tmp_path / "x.ldif", *texts), "--max-rejects", 6, "--json").facts
        assert (told["added"], told["rejected"]) == (121, 6)
        before = server.search()
        server.restart()
        assert server.search() == before
        for name in odd:
            assert len(server.search(f"({name}=*)")) == 20


def _inet(name: str, more: tuple[tuple[str, str], ...], surname: bool = True) -> str:
    sn = [("sn", "x")] if surname else []
    return record(f"cn={name},{SUFFIX}", [("objectClass", "inetOrgPerson"), ("cn", name), *sn, *more])


@pytest.mark.long
def test_many_guilty_entries(slapd_instance: Slapd, tmp_path: Path) -> None:
    """Every third one."""
    texts = [TOP, *(person(f"x{n}", sn=None if n % 3 == 0 else "x") for n in range(600))]
    told = add(slapd_instance, write(tmp_path / "x.ldif", *texts), "--max-rejects", 200, "--json").facts
    assert (told["added"], told["rejected"]) == (401, 200)
    assert len(names(slapd_instance)) == 401


def test_too_many_end_the_load_with_counts(slapd_instance: Slapd, tmp_path: Path) -> None:
    """And mended, the same command goes on: what was added is ours."""
    texts = [TOP, people(100), person("bad", sn=None), people(100, prefix="late")]
    path = write(tmp_path / "x.ldif", *texts)
    done = add(slapd_instance, path)
    assert done.status == errors.AddRefused.exit_status, done
    assert f"cn=bad,{SUFFIX} was refused: objectClassViolation (65)" in done.err
    assert "(1 refused, " in done.err
    assert "Traceback" not in done.err
    path.write_text(path.read_text().replace(person("bad", sn=None), person("bad")))
    told = facts(slapd_instance, path)
    assert (told["read"], told["added"], told["rejected"]) == (202, 202, 0)
    assert len(names(slapd_instance)) == 202


def test_children_of_a_rejected_entry(slapd_instance: Slapd, tmp_path: Path) -> None:
    bad = record(f"ou=bad,{SUFFIX}", [("objectClass", "organizationalUnit"), ("ou", "bad"), ("sn", "x")])
    below = f"ou=bad,{SUFFIX}"
    texts = [TOP, bad, people(40, below), unit("good"), people(40, f"ou=good,{SUFFIX}")]
    path = write(tmp_path / "x.ldif", *texts)
    done = add(slapd_instance, path, "--max-rejects", 41, "--batch", 16, "--json")
    assert (done.facts["added"], done.facts["rejected"]) == (42, 41), done
    assert len(names(slapd_instance)) == 42


def test_access_control(tmp_path: Path) -> None:
    """Somebody who may write only below one container."""
    writer, secret = f"cn=writer,{SUFFIX}", "not-a-real-secret"
    with Slapd() as server:
        account = person("writer", SUFFIX, ("userPassword", secret))
        server.ldapadd(TOP + account + unit("open") + unit("closed"))
        server.configure(_acl_first(writer))
        texts = [
            people(20, f"ou=open,{SUFFIX}"),
            people(2, f"ou=closed,{SUFFIX}"),
            people(20, f"ou=open,{SUFFIX}", "more"),
        ]
        path, kept = write(tmp_path / "x.ldif", *texts), tmp_path / "kept.ldif"
        (tmp_path / "pw").write_text(secret)
        options = ("--max-rejects", 2, "--rejects", kept, "--json")
        who = ("-H", server.uri, "-D", writer, "-y", tmp_path / "pw")
        done = _ditseed("add", path, *who, *options)
        assert (done.status, done.facts["added"], done.facts["rejected"]) == (1, 40, 2), done
        assert kept.read_text().count("# insufficientAccessRights (50): no write access to parent") == 2


def _acl_first(writer: str) -> str:
    return (
        "dn: olcDatabase={3}mdb,cn=config\nchangetype: modify\nadd: olcAccess\n"
        f'olcAccess: {{0}}to dn.subtree="ou=open,{SUFFIX}" by dn.exact="{writer}" write by * break\n'
    )


def test_an_entry_that_the_server_hangs_up_on(tmp_path: Path) -> None:
    """Larger than sockbuf_max_incoming_auth: slapd closes the connection without a word."""
    limit = ("sockbuf_max_incoming_auth 65536",)
    large = person("large", SUFFIX, ("description", "x" * 100_000))
    with Slapd(Settings(global_lines=limit)) as server:
        path, kept = (
            write(tmp_path / "x.ldif", TOP, people(60), large, people(60, prefix="q")),
            tmp_path / "kept.ldif",
        )
        done = add(server, path, "--max-rejects", 1, "--rejects", kept, "--json")
        assert (done.status, done.facts["added"], done.facts["rejected"]) == (1, 121, 1), done
        assert "# the server closes the connection when this entry is sent (100" in kept.read_text()
        assert len(names(server)) == 121


@pytest.mark.long
def test_slapd_is_not_asked_for_more_than_it_takes_at_once(slapd_instance: Slapd, tmp_path: Path) -> None:
    """It would note each request that has to wait, and hang up when there are many."""
    facts(slapd_instance, write(tmp_path / "x.ldif", TOP, people(2000)))
    assert len(slapd_instance.log_lines("deferring operation")) < 500


@pytest.mark.parametrize("batch", ["auto", "1"])
def test_a_database_without_transactions(short_tmp: Path, tmp_path: Path, batch: str) -> None:
    """slapd offers them, back-ldif has none."""
    place = short_tmp / "ldif"
    place.mkdir(mode=0o700)
    server = Slapd(directory=short_tmp / "server", form="conf")
    try:
        conf = server.home / "slapd.conf"
        lines = ("database ldif", 'suffix "o=files"', f"directory {place}", f'rootdn "{server.root_dn}"')
        conf.write_text("\n".join([conf.read_text(), *lines, ""]))
        top = record("o=files", [("objectClass", "organization"), ("o", "files")])
        texts = [top, people(50, "o=files"), person("bad", "o=files", sn=None), people(50, "o=files", "q")]
        with server:
            told = add(server, write(tmp_path / "x.ldif", *texts), "--max-rejects", 1, "--batch", batch, "--json").facts
            assert (told["added"], told["rejected"], told["transactions"]) == (101, 1, 0)
            assert len(server.search(base="o=files", attributes=("1.1",))) == 101
    finally:
        server.close()


@pytest.mark.parametrize(
    ("change", "error"),
    [(("-H", "ldap://127.0.0.1:1"), errors.ServerDown), (("-D", "cn=nobody,dc=example,dc=com"), errors.BadCredentials)],
    ids=["down", "credentials"],
)
def test_a_server_that_cannot_be_had(
    slapd_instance: Slapd, tmp_path: Path, change: tuple[str, str], error: type[errors.LoaderError]
) -> None:
    path = write(tmp_path / "x.ldif", TOP)
    done = add(slapd_instance, path)
    done = _ditseed(
        "add", path, "-H", slapd_instance.uri, "-D", slapd_instance.root_dn, "-y", slapd_instance.password_file, *change
    )
    assert done.status == error.exit_status, done
    assert f"[{error.code}]" in done.err


@pytest.mark.long
def test_a_refusal_of_an_export_is_told_as_it_is(slapd_instance: Slapd, tmp_path: Path) -> None:
    """The manifest is held to what was read, and after a refusal not all was."""
    path, out = write(tmp_path / "x.ldif", TOP, people(6000)), tmp_path / "out"
    add(slapd_instance, path).ok()
    _ditseed("export", slapd_instance.database_dir, "-o", out).ok()
    done = add(slapd_instance, out, "--batch", 1, "--jobs", 1)
    assert done.status == errors.AddRefused.exit_status, done
    assert "entryAlreadyExists" in done.err
    assert "--on-exists" in done.err


def test_a_value_that_is_a_url(slapd_instance: Slapd, tmp_path: Path) -> None:
    path = write(tmp_path / "x.ldif", f"{TOP.rstrip()}\ndescription:< file:///etc/hostname\n")
    done = add(slapd_instance, path)
    assert "[ldif.syntax]" in done.err, done
    line = path.read_text().splitlines().index("description:< file:///etc/hostname") + 1
    assert f"{path}, line {line}: the value of description is a URL" in done.err
    assert "--allow-file-urls" in done.err
