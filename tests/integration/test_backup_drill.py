"""Drills: a real slapd on what was restored, as root and as slapd's account."""

from __future__ import annotations

import os
import pwd
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader.errors import NoEntry, ReadOnly, UsageProblem
from loader.operations.backup import manifest, repository
from loader.operations.backup.check import Status, check
from loader.operations.backup.options import Limits
from loader.server import private
from loader.server.session import Session
from loader.storage.files import Owner
from tests.support.backups import ONE_ENTRY, backup, drill_latest, forge, only, read_only, take
from tests.support.command import ditseed
from tests.support.require import require_root

pytestmark = pytest.mark.slapd
PEOPLE = "ou=people,dc=example,dc=com"
TREE = ONE_ENTRY + "".join(
    f"dn: ou={name}\nobjectClass: organizationalUnit\ndescription: {name}\n\n"
    for name in (PEOPLE[3:], *(f"unit{number},{PEOPLE}" for number in range(5)), "x,ou=unit1," + PEOPLE)
)


@pytest.fixture(scope="module")
def server(people_ldif: Path) -> Iterator[Slapd]:
    """A stopped provider, its files of slapd's account where the tests may give them to it."""
    has_account = os.geteuid() == 0 and "openldap" in {one.pw_name for one in pwd.getpwall()}
    with closing(Slapd(replication.provider().settings, user="openldap" if has_account else None)) as made:
        made.slapadd(people_ldif, "-w")
        yield made


@pytest.fixture
def repo(server: Slapd, tmp_path: Path) -> Path:
    take(server, tmp_path / "repo")
    return tmp_path / "repo"


def test_a_good_backup(repo: Path, server: Slapd, scratch: Path) -> None:
    assert "good" in backup("drill", repo, "latest", "--tmp", scratch).ok().out
    one = only(repo)
    found = repository.proofs(repo, one).drill
    assert found is not None
    assert (found.entries, found.lookups) == (one.entries, 200)
    assert found.context_csns == one.context_csns
    assert 0 < found.restore_seconds < 60
    after = check(repo, Limits(3600, drill_age=3600))
    assert after.status is Status.OK
    assert "drill_age=" in after.text()[0]
    assert not list(scratch.iterdir())


def test_what_is_not_as_the_manifest_says(repo: Path) -> None:
    one = only(repo)
    newer = one.context_csns[0].replace("20", "21", 1)
    forge(repo, one, entries=7, context_csns=(newer,))
    problem = drill_latest(repo).problem
    assert "slapd shows 1,029 entries, the manifest says 7" in problem
    assert newer in problem
    assert check(repo, Limits(3600)).status is Status.CRITICAL
    assert backup("drill", repo, "latest").status == 1


def test_without_a_configuration(server: Slapd, tmp_path: Path) -> None:
    one = take(server.database_dir, tmp_path)
    with pytest.raises(UsageProblem, match="--config"):
        drill_latest(tmp_path)
    assert drill_latest(tmp_path, config_path=server.config_path).is_good
    damaged = tmp_path / one.id / one.file
    damaged.write_bytes(bytes(damaged.stat().st_size))
    assert "its index" in drill_latest(tmp_path, config_path=server.config_path).problem


def test_slapd_is_never_root(repo: Path, server: Slapd, monkeypatch: pytest.MonkeyPatch) -> None:
    """As on a host that has not got the database."""
    require_root()
    for user, reason in (("root", "is root"), ("no-such-account", "no account"), ("nobody", "--tmp")):
        with pytest.raises(UsageProblem, match=reason):
            drill_latest(repo, user=user, scratch=repo if user == "nobody" else None)
    ran: list[Owner | None] = []
    running = private.running

    def watched(home: Path, owner: Owner | None, tmpdir: str | None = None) -> object:
        ran.append(owner)
        return running(home, owner, tmpdir)

    monkeypatch.setattr(private, "running", watched)
    away = server.database_dir.rename(server.database_dir.with_name("away"))
    try:
        assert drill_latest(repo).is_good
    finally:
        away.rename(server.database_dir)
    # Who owns the directory above may put another one there.
    above, nobody = server.database_dir.parent.stat(), pwd.getpwnam("nobody")
    owner = Owner.from_status(above) if above.st_uid else Owner(nobody.pw_uid, nobody.pw_gid)
    assert ran == [owner]


def test_whatever_the_umask_nobody_else_writes_in_our_directories(server: Slapd, tmp_path: Path) -> None:
    repo, exported = tmp_path / "far/repo", tmp_path / "away/export"
    copied, restored = tmp_path / "new/copy", tmp_path / "new/restored"
    env = {"DITSEED_STATE_DIR": str(tmp_path / "state/ditseed")}
    before = os.umask(0)
    try:
        for words in (
            ("backup", "run", "--init", "-R", repo, "--config", server.config_path),
            ("backup", "run", "--init", "-R", repo, "--config", server.config_path, "--incremental"),
            ("backup", "restore", "latest", "-R", repo, "--target", restored),
            ("clone", server.database_dir, copied),
            ("export", server.database_dir, "-o", exported),
            ("build", exported, "--config", server.config_path, "--target", tmp_path / "built"),
            ("generate", "tree", "people", "-n", 100, "-o", tmp_path / "g/tree"),
        ):
            ditseed(*words, env=env).ok()
    finally:
        os.umask(before)
    directories = [path for path in tmp_path.rglob("*") if path.is_dir()]
    assert {exported, copied, restored, repo, tmp_path / "g/tree"} <= {*directories}
    assert [path for path in tmp_path.rglob("*") if path.stat().st_mode & 0o022] == []


def test_a_fifo_in_the_place_of_its_configuration(repo: Path, server: Slapd, monkeypatch: pytest.MonkeyPatch) -> None:
    """The account of slapd can put one there, for the directory has been given to it: it is removed, not read."""
    running = private.running

    @contextmanager
    def replaced(home: Path, owner: Owner | None, tmpdir: str | None = None) -> Iterator[Session]:
        with running(home, owner, tmpdir) as session:
            yield session
        home.rename(home.with_name("away"))
        os.mkfifo(home)

    monkeypatch.setattr(private, "running", replaced)
    assert drill_latest(repo).is_good


def test_a_repository_that_is_mounted_read_only(repo: Path, scratch: Path) -> None:
    """What is found is told and decides the status; only the record of it is missing, which is said."""
    require_root()
    one = only(repo)
    repository.init(repo)
    with read_only(repo):
        drilled = backup("drill", repo, "latest", "--tmp", scratch).ok()
        assert drilled.out.splitlines()[-1].split() == ["result", "good"]
        assert f"WARNING: {repo / one.id}: drilled-" in drilled.err
        assert "verified-" in backup("verify", repo).ok().err
        backup("prune", repo, "--keep-last", "1").refused(ReadOnly, f"{repo}/lock is on")
    assert repository.proofs(repo, one) == manifest.Proofs()
    damaged = repo / one.id / one.file
    damaged.write_bytes(bytes(damaged.stat().st_size))
    with read_only(repo):
        assert backup("verify", repo).status == 1


def test_the_wrong_delete_at_night(tmp_path: Path) -> None:
    """Parents come first: what was moved below a newer parent has the lesser ID, and slapcat goes by IDs."""
    with closing(replication.provider()) as server:
        server.slapadd(TREE)
        server.start()
        server.ldapmodify(
            f"dn: ou=unit1,{PEOPLE}\nchangetype: modrdn\nnewrdn: ou=moved\ndeleteoldrdn: 1\n"
            f"newsuperior: ou=unit4,{PEOPLE}\n\n"
        )
        take(server, tmp_path)
        whole = names(server)
        below = sorted((name for name in whole if name.endswith(PEOPLE)), key=len, reverse=True)
        for asked in (("--filter", "(ou=*)"), ("--dn", PEOPLE)):
            delete(server, below)
            found = backup("extract", tmp_path, "latest", *asked).ok()
            server.ldapadd(found.out)
            assert names(server) == whole
        assert f"extract: {len(below)} entries" in found.err
        gone = f"ou=unit2,{PEOPLE}"
        delete(server, [f"dn: {gone}"])
        server.ldapadd(backup("extract", tmp_path, "latest", "--filter", "(ou=unit2)").ok().out)
        assert names(server) == whole
    extract = ("extract", tmp_path, "latest")
    assert "entryUUID: " in backup(*extract, "--dn", gone, "--keep-operational").ok().out
    backup(*extract, "--filter", "(cn=nobody at all)").refused(NoEntry)
    nobody = backup(*extract, "--dn", f"ou=unit1,{PEOPLE}")
    nobody.refused(NoEntry, "--dn")
    place = tmp_path / only(tmp_path).id  # not where it was unpacked
    assert nobody.err.splitlines()[-2].startswith(f"ditseed: {place}: there is no")
    assert "slapcat ended with status 1: Invalid filter" in backup(*extract, "--filter", "(ou=*").err
    assert backup(*extract).status != 0


def test_what_a_module_keeps_from_clients_is_left_out(tmp_path: Path) -> None:
    """memberOf is of slapo-memberof's own schema, which is in no slapd.d; the overlay writes it again."""
    settings = Settings(modules=("back_mdb", "syncprov", "memberof"), overlays=("overlay memberof",))
    staff = f"dn: cn=staff,{PEOPLE}\nobjectClass: groupOfNames\nmember: ou=unit1,{PEOPLE}\n\n"
    with closing(Slapd(settings, form="config")) as server:
        server.slapadd(TREE)
        server.start()
        server.ldapadd(staff)
        take(server, tmp_path)
        whole = names(server)
        assert server.slapcat().count("memberOf: ") == 1
        delete(server, [f"dn: cn=staff,{PEOPLE}", f"dn: ou=x,ou=unit1,{PEOPLE}"])
        delete(server, [f"dn: ou=unit1,{PEOPLE}"])
        assert server.slapcat().count("memberOf: ") == 0
        unit1 = ("extract", tmp_path, "latest", "--dn", f"ou=unit1,{PEOPLE}")
        server.ldapadd(backup(*unit1).ok().out)
        server.ldapadd(backup("extract", tmp_path, "latest", "--filter", "(cn=staff)").ok().out)
        assert names(server) == whole
        assert server.slapcat().count("memberOf: ") == 1
        (tmp_path / only(tmp_path).id / "config.ldif").unlink()
        told = backup(*unit1).ok()
        assert "WARNING: attributes of modules" in told.err
        assert "memberOf: " in told.out


def names(server: Slapd) -> set[str]:
    return {line for line in server.slapcat().splitlines() if line.startswith("dn")}


def delete(server: Slapd, found: Sequence[str]) -> None:
    server.ldapmodify("".join(f"{name}\nchangetype: delete\n\n" for name in found))
