"""Backups that share their pages: what a changed database adds, what comes back, what damage and kills do."""

from __future__ import annotations

import base64
import dataclasses
import random
import shutil
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import NamedTuple
from unittest.mock import Mock

import pytest
from msgspec import structs

from fixtures import replication
from fixtures.slapd import Slapd
from loader.errors import BackupDamaged, ManifestBroken, NoSpace
from loader.mdb import contents
from loader.operations.backup import manifest, pack, repository, restore
from loader.operations.backup.check import Status, check
from loader.operations.backup.manifest import PAGES, Backup
from loader.operations.backup.options import Limits, Policy
from loader.operations.backup.pack import PageMap
from loader.progress import Meter
from tests.support.backups import ONE_ENTRY, assert_all_good, flip, forge, forge_file, put_back, recorded, take, verify
from tests.support.disks import loop_filesystem

pytestmark = pytest.mark.slapd
PEOPLE = 4000
SUFFIX = "dc=example,dc=com"


def stored_bytes(repo: Path) -> int:
    return sum(path.stat().st_size for path in (repo / PAGES).iterdir())


class Chain(NamedTuple):
    """Incremental backups of a database that changed between them, and a full one of each moment."""

    server: Slapd
    repo: Path
    fulls: Path
    links: tuple[Backup, ...]


def person(number: int) -> str:
    return (
        f"dn: uid=p{number:05},{SUFFIX}\nobjectClass: inetOrgPerson\nuid: p{number:05}\n"
        f"cn: Person {number:05}\nsn: Person\nmail: p{number:05}@example.com\n"
        f"userPassword: {random.Random(number).getrandbits(512):x}\n\n"
    )


def change(server: Slapd, link: int) -> None:
    """1 % of the entries: most modified, one added, one deleted."""
    numbers = [(link * 37 + one * 101) % PEOPLE for one in range(PEOPLE // 100)]
    names = [f"dn: uid=p{number:05},{SUFFIX}\nchangetype: " for number in numbers]
    modified = [f"{name}modify\nreplace: title\ntitle: at {link}\n\n" for name in names[:-1]]
    added = person(PEOPLE + link).replace("\nobject", "\nchangetype: add\nobject", 1)
    server.ldapmodify("".join([*modified, f"{names[-1]}delete\n\n", added]))


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Chain]:
    """Three links. Copy the repository before you change it."""
    home = tmp_path_factory.mktemp("chain")
    with closing(replication.provider()) as server:
        server.slapadd(ONE_ENTRY + "".join(map(person, range(PEOPLE))), "-q")
        with server:
            links = []
            for link in range(3):
                if link:
                    change(server, link)
                links.append(take(server, home / "repo", incremental=True))
                take(server, home / "fulls")
            yield Chain(server, home / "repo", home / "fulls", tuple(links))


@pytest.fixture
def repo(made: Chain, tmp_path: Path) -> Path:
    return shutil.copytree(made.repo, tmp_path / "repo")


def test_each_link_is_the_full_backup_of_its_moment(made: Chain, tmp_path: Path) -> None:
    """And stores what has changed, and no more."""
    fulls = repository.listing(made.fulls).backups
    first, *others = made.links
    assert first.stored_bytes == fulls[0].stored_bytes
    for link in others:
        assert link.stored_bytes < first.stored_bytes / 10
        assert len(link.packs) > 1
    for link, full in zip(made.links, fulls, strict=True):
        place, other = tmp_path / link.id, tmp_path / f"full-{full.id}"
        put_back(made.repo, place, link.id)
        put_back(made.fulls, other, full.id)
        assert (place / "data.mdb").read_bytes() == (other / "data.mdb").read_bytes()
        assert contents.entry_count(place) == link.entries
    assert assert_all_good(made.repo) == [one.id for one in made.links]
    assert check(made.repo, Limits(3600)).status is Status.OK


def test_what_all_share_is_read_once(repo: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """And where it is damaged, every backup that needs it is."""
    backups = repository.listing(repo).backups
    for module in (manifest, pack):
        monkeypatch.setattr(module, "CHUNK", 64 << 10)
    compare = Mock(wraps=pack._require_sum)
    for one in backups:
        files = tuple(recorded(repo / one.id / file.name) for file in one.files)
        forge(repo, one, files=files, packs=tuple(recorded(repo / PAGES / use.name) for use in one.packs))
    backups = repository.listing(repo).backups
    monkeypatch.setattr(pack, "_require_sum", compare)
    found = verify(repo)
    assert [one.backup for one in found if not one.is_whole] == [], found
    chunks = {(name, number) for one in backups for name, stored in one.stored() for number in range(len(stored.sums))}
    # Threads compare; they may lose an increment of `call_count`, but no call of this list.
    assert len(compare.call_args_list) == len(chunks) > len(backups) * 3
    flip(repo / PAGES / backups[0].packs[0].name, 100)
    assert not any(one.is_good for one in verify(repo))


def test_a_part_is_not_taken_for_all_that_was_verified(made: Chain, repo: Path) -> None:
    """Of a small link a part of what it shares is more than what it stored itself."""
    last = made.links[-1]
    read = pack.verify(repo, last, lambda number: number != 1, {}, Meter("verify"))
    assert last.stored_bytes < read < last.needed_bytes
    for sample, is_proven in ((0.0, False), (1.0, True)):
        (found,) = verify(repo, last.id, sample=sample)
        assert found.is_good
        assert repository.proofs(repo, last).is_proven == is_proven


@pytest.mark.parametrize("case", ["missing", "short", "swapped", "link"])
def test_a_pack_that_is_not_the_right_one_is_refused(made: Chain, repo: Path, tmp_path: Path, case: str) -> None:
    last = made.links[-1]
    path = repo / PAGES / last.packs[-1].name
    other = next(one for one in path.parent.iterdir() if one != path)
    content = path.read_bytes()
    path.unlink()
    if case == "short":
        path.write_bytes(content[:-1])
    elif case == "swapped":
        path.write_bytes(other.read_bytes())
    elif case == "link":
        (tmp_path / "outside").write_bytes(content)
        path.symlink_to(tmp_path / "outside")
    with pytest.raises(BackupDamaged):
        put_back(repo, tmp_path / "there", last.id)
    assert not (tmp_path / "there" / "data.mdb").exists()
    if case != "link":
        assert check(repo, Limits(3600)).status is Status.CRITICAL


def forge_map(repo: Path, backup: Backup, found: PageMap) -> None:
    """Whoever forges the map forges the manifest too."""
    names = {use.name for use in found.packs}
    packs = tuple(one for one in backup.packs if one.name in names)
    forge_file(repo, backup, manifest.MAP, found.text(), packs=packs)


def test_a_forged_list_or_map(made: Chain, repo: Path, tmp_path: Path) -> None:
    """A list leads out of the repository; a map leaves a pack out; or what is put together has not its checksum."""
    last = made.links[-1]
    for name in ("../outside", "outside.pack", "0" * 63 + "/.pack"):
        forge(repo, last, packs=(*last.packs[:-1], structs.replace(last.packs[-1], name=name)))
        with pytest.raises(ManifestBroken):
            put_back(repo, tmp_path / "there", last.id)
    forge(repo, last)
    found = pack.read_map(repo / last.id, last)
    first = structs.replace(found.pieces[0], xxh3="0" * 32)
    forge_map(repo, last, dataclasses.replace(found, pieces=(first, *found.pieces[1:])))
    with pytest.raises(BackupDamaged, match="checksum of piece 0"):
        put_back(repo, tmp_path / "there", last.id)
    for number in range(len(found.packs)):
        left = found.packs[:number] + found.packs[number + 1 :]
        forge_map(repo, last, dataclasses.replace(found, packs=left))
        with pytest.raises(BackupDamaged, match="does not have"):
            put_back(repo, tmp_path / "there", last.id)
    again = pack.previous(repo, repository.find(repo, last.id))
    assert (again.own, again.uses) == (0, ()), "the next backup stores all pages"


def test_a_restore_onto_a_disk_that_is_too_small(made: Chain, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refused beforehand; or by the write itself, where the room goes just then."""
    with loop_filesystem(2) as disk:
        with pytest.raises(NoSpace, match="needed"):
            put_back(made.repo, disk / "there", made.links[-1].id)
        assert not (disk / "there").exists()
        monkeypatch.setattr(restore, "require_space", lambda *told: 0)
        with pytest.raises(NoSpace):
            put_back(made.repo, disk / "there", made.links[-1].id)
        assert not list(disk.rglob("data.mdb*"))


def test_pruning_removes_what_nobody_needs(made: Chain, repo: Path, tmp_path: Path) -> None:
    """While a backup cannot be read, nothing."""
    before, copy = stored_bytes(repo), shutil.copytree(repo, tmp_path / "copy")
    (copy / made.links[0].id / "manifest.json").write_text("{}")
    repository.prune(copy, Policy(last=1))
    assert stored_bytes(copy) == before
    found = repository.prune(repo, Policy(last=1))
    assert found.removed == tuple(one.id for one in made.links[:-1])
    last = made.links[-1]
    assert {path.name for path in (repo / PAGES).iterdir()} == {one.name for one in last.packs}
    assert stored_bytes(repo) == sum(one.bytes for one in last.packs)
    assert found.freed == before - stored_bytes(repo)
    put_back(repo, tmp_path / "there", last.id)


def test_after_damage_all_pages_are_stored_again(made: Chain, repo: Path) -> None:
    last = made.links[-1]
    (repo / last.id / "pages.map").write_bytes(b"")
    again = take(made.server, repo, incremental=True)
    assert again.stored_bytes > made.links[0].stored_bytes * 0.9
    assert verify(repo, again.id)[0].is_good
    again = take(made.server, repo, incremental=True)  # nothing new takes nearly nothing
    assert again.stored_bytes < 1000 + made.links[0].stored_bytes / 100
    assert verify(repo, again.id)[0].is_good


def test_pages_that_are_the_same_count_once(made: Chain, repo: Path, tmp_path: Path) -> None:
    """A large value has pages without a number; of zeros, all are the same."""
    photo = base64.b64encode(bytes(200_000)).decode()

    for numbers in (range(PEOPLE + 100, PEOPLE + 101), range(PEOPLE + 101, PEOPLE + 108)):
        made.server.ldapadd("".join(f"{person(number)[:-1]}jpegPhoto:: {photo}\n\n" for number in numbers))
        last = take(made.server, repo, incremental=True)
    assert all(use.used <= use.pages for use in pack.read_map(repo / last.id, last).packs)
    put_back(repo, tmp_path / "there", last.id)
    assert contents.entry_count(tmp_path / "there") == last.entries
