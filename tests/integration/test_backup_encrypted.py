"""Encrypted backups of real databases: there and back, without the right identity, damaged, killed, and looked
through for what nobody else may read."""

from __future__ import annotations

import os
import re
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.slapd import Slapd
from loader.errors import BackupDamaged, BackupEncrypted, ManifestBroken
from loader.operations.backup import repository
from tests.support.backups import ONE_ENTRY, backup, flip, forge, forge_file, only
from tests.support.backups import put_back as look_at
from tests.support.backups import take as take_plain
from tests.support.command import Done
from tests.support.keys import Key, generated
from tests.support.require import require
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd
Keys = tuple[Key, Key, Key]
PAGE = (Path(__file__).parents[2] / "docs/backup-remote.md").read_text()


@pytest.fixture(scope="module")
def source(people_ldif: Path) -> Iterator[Slapd]:
    """A stopped consumer with 1,029 entries, and a password for its provider, which is never started."""
    with closing(replication.provider()) as provider, closing(replication.consumer(provider)) as made:
        made.slapadd(people_ldif, "-w")
        yield made


@pytest.fixture
def other(source: Slapd) -> Iterator[Slapd]:
    """Stopped and empty, of the same kind."""
    with closing(Slapd(source.settings)) as made:
        yield made


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Keys:
    """Of two recipients, and of nobody."""
    home = tmp_path_factory.mktemp("keys")
    return generated(home / "first"), generated(home / "second"), generated(home / "other")


@pytest.fixture(scope="module")
def taken(source: Slapd, keys: Keys, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one backup for two recipients, one of them in a file. Copy it to change it."""
    home = tmp_path_factory.mktemp("taken")
    (home / "recipients").write_text(f"# ours\n{keys[1].public}\n")
    take(source, home / "repo", keys[0], more=("--recipients-file", home / "recipients")).ok()
    return home / "repo"


@pytest.fixture
def repo(taken: Path, tmp_path: Path) -> Path:
    return shutil.copytree(taken, tmp_path / "repo")


def take(source: Slapd, repo: object, *keys: Key, more: tuple[object, ...] = (), **environment: str) -> Done:
    given = [word for key in keys for word in ("--recipient", key.public)]
    return backup("run", repo, "--init", "--config", source.config_path, "--json", *given, *more, **environment)


def put_back(repo: object, target: Slapd, *keys: Key) -> Done:
    given = [word for key in keys for word in ("--identity", key.path)]
    return backup("restore", repo, "latest", "--config", target.config_path, "--replace", *given)


def stored(repo: Path) -> bytes:
    """All that is there, lines of LDIF unfolded."""
    content = b"".join(path.read_bytes() for path in repo.rglob("*") if path.is_file())
    return content.replace(b"\n ", b"")


def test_a_recipient_restores_the_same_database(source: Slapd, other: Slapd, taken: Path, keys: Keys) -> None:
    assert only(taken).recipients == (keys[0].public, keys[1].public)
    put_back(taken, other, keys[2], keys[1]).ok()
    assert_same(source, other)


def test_what_needs_no_identity(repo: Path, keys: Keys) -> None:
    (one,) = backup("list", repo, "--json").ok().facts["backups"]
    assert [file["name"] for file in one["files"]] == ["pages.map.age", "pages.pack.age", "config.ldif.age"]
    assert (repo / one["id"] / "config.ldif.age").is_file()
    shown = backup("show", repo, "latest").ok().out
    assert all((key.public in shown) is (key is not keys[2]) for key in keys)
    assert backup("check", repo).status == 0
    assert "good" in backup("verify", repo).ok().out
    backup("prune", repo, "--keep-last", 1).ok()
    assert only(repo)


def source_password(source: Slapd) -> bytes:
    found = re.search(r'credentials="([^"]+)"', "\n".join(source.settings.database_lines))
    assert found is not None
    return found[1].encode()


def test_nothing_of_the_data_or_the_configuration_can_be_read(source: Slapd, taken: Path, tmp_path: Path) -> None:
    """Each is found in a backup that is not encrypted. Nor is there a checksum, which would tell of a guess."""
    backup = take_plain(source, tmp_path)
    sums = [one.encode() for stored_file in backup.files for one in stored_file.sums]
    assert len(sums) == 3
    plain, encrypted = stored(tmp_path), stored(taken)
    for secret in (source_password(source), b"ditseed pack 1", b"olcRootPW", *sums):
        assert (secret in plain, secret in encrypted) == (True, False), secret
    assert b"AGE-SECRET" not in encrypted


def test_without_the_right_identity_nothing_changes(other: Slapd, repo: Path, keys: Keys, tmp_path: Path) -> None:
    other.slapadd(ONE_ENTRY)
    before, files = other.slapcat(), sorted(os.listdir(other.database_dir))
    for given, wanted in (((), "no identity is given"), (("--identity", keys[2].path), "is one of its recipients")):
        for verb, words in (
            ("restore", ("latest", "--config", other.config_path, "--replace")),
            ("extract", ("latest", "--dn", other.suffix)),
            ("drill", ("latest",)),
        ):
            backup(verb, repo, *words, *given).refused(BackupEncrypted, wanted, "--identity FILE")
    backup("restore", repo, "latest", "--target", tmp_path / "look", "--dry-run").refused(BackupEncrypted)
    assert other.slapcat() == before
    assert sorted(os.listdir(other.database_dir)) == files
    assert not list(repo.glob("*/*ed.json"))


@pytest.mark.long
def test_an_identity_is_not_told(repo: Path, keys: Keys, tmp_path: Path) -> None:
    secret = keys[0].path.read_text().splitlines()[1]
    bad = tmp_path / "bad"
    bad.touch(0o600)
    bad.write_text(secret[:-1])
    words = ("extract", repo, "latest", "--dn", "dc=example,dc=com", "-v", "--log-file", log := tmp_path / "log")
    done = [backup(*words, "--identity", path) for path in (bad, keys[2].path, keys[0].path)]
    assert [one.status for one in done] == [3, BackupEncrypted.exit_status, 0]
    assert done[-1].out.startswith("dn: dc=example,dc=com\n")
    chosen = ("extract", repo, "latest", "--identity", keys[0].path, "--filter", "(ou=people)")
    assert backup(*chosen).ok().out.count("dn: ") == 1
    told = "".join(one.out + one.err for one in done) + log.read_text()
    assert secret[16:40] not in told
    assert keys[2].path.read_text().splitlines()[1][16:40] not in told


def test_damage(repo: Path, keys: Keys, tmp_path: Path) -> None:
    """In a stanza, which is then for nobody ("A", "B") or not base64 ("|"). A forger's checksums and seals fit; age
    notices."""
    made = only(repo)
    path = repo / made.id / made.file
    stored = path.read_bytes()
    for character in b"A", b"B", b"|":
        path.write_bytes(stored[:40] + character + stored[41:])
        if path.read_bytes() != stored:
            assert backup("verify", repo).status == 1
            with pytest.raises(BackupDamaged, match="sha256"):
                look_at(repo, tmp_path / "look", identities=(keys[0].path,))
    path.write_bytes(stored)
    flip(path, -1)
    forge_file(repo, made, made.file, path.read_bytes())
    with pytest.raises(BackupDamaged, match="cannot be decrypted"):
        look_at(repo, tmp_path / "look", identities=(keys[0].path,))
    assert not (tmp_path / "look/data.mdb").exists()
    for facts in ({"recipients": ()}, {"is_ldif": True}, {"recipients": ("a\nb",)}):
        forge(repo, made, **facts)
        assert [type(one) for one in repository.listing(repo).broken] == [ManifestBroken]


@pytest.mark.long
def test_what_a_killed_run_leaves_can_not_be_read_either(source: Slapd, keys: Keys, tmp_path: Path) -> None:
    assert take(source, tmp_path, keys[0], DITSEED_KILL_AT="copy.middle").status == -signal.SIGKILL
    assert len(repository.unfinished_backups(tmp_path)) == 1
    assert source_password(source) not in stored(tmp_path)


def test_the_page_says_how_it_is_read_without_ditseed(source: Slapd, other: Slapd, keys: Keys, tmp_path: Path) -> None:
    """One of entries."""
    missing = [tool for tool in ("age", "zstd") if shutil.which(tool) is None]
    require(f"{' and '.join(missing)} of Debian's packages" if missing else None)
    take(source, tmp_path / "repo", keys[1], more=("--kind", "ldif")).ok()
    (lines,) = [block for block in PAGE.split("```") if "data.ldif.zst.age" in block and "age -d" in block]
    (place,) = (tmp_path / "repo").glob("*Z-*")
    told = {"IDENTITY": str(keys[1].path), "TARGET": str(tmp_path)}
    subprocess.run(["bash", "-c", lines], cwd=place, env={**os.environ, **told}, check=True)
    assert source_password(source) in stored(tmp_path)
    other.slapadd((tmp_path / "data.ldif").read_text())
    assert_same(source, other)
