"""Verify: nothing is found in databases that slapd has worked on, and every damage that matters is found; exports and
clones of damaged ones are refused, or right. So it is with the slapd of here and with one of OpenLDAP 2.7 (LMDB 1.0).

Damage is random, seeded. Where a damaged database is called sound, LMDB itself reads all its tables (in a process
apart), and they must be those of the database before: then the damage hit bytes that mean nothing. Two things look
like other databases rather than damaged ones, and no reader can know: a value changed into another that slapd could
have stored, and a snapshot of an earlier moment that is whole.
"""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.chroots import chroot, missing_chroot
from fixtures.churn import Churn
from fixtures.damage import Damage
from fixtures.damage.in_bytes import META, PAGE
from fixtures.damage.in_rows import narrow_a_range
from fixtures.damage.reading import Reader
from fixtures.golden.case import Case, server_with, settings
from fixtures.golden.records import SUFFIX
from fixtures.golden.worn import CASE, of_2_7, wear
from fixtures.slapd import Slapd
from loader.mdb import meta
from loader.operations.options import VerifyOptions
from loader.operations.verify import VerifyReport, verify_database
from loader.progress import Progress
from tests.golden.everything import BY_NAME
from tests.support.damaged import Damaged, Steps, Worn, all_steps, campaign, mostly_verifying
from tests.support.golden import fresh, slapadd
from tests.support.require import require

pytestmark = pytest.mark.slapd

SHORT, MORE, LONG = 40, 100, 2000


@pytest.fixture(scope="module")
def server() -> Iterator[Slapd]:
    """Of the database that is changed for a while."""
    with closing(fresh(CASE)) as made:
        yield made


@pytest.fixture(scope="module", params=["here", "2.7"])
def worn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worn]:
    directory = tmp_path_factory.mktemp("worn")
    with closing(Reader()) as reader:
        if request.param == "here":
            made = request.getfixturevalue("server")
            yield Worn.of(wear(made), made, directory, reader)
            return
        # The slaptest of here writes its own default of index_hash64 into what it converts.
        with closing(server_with(CASE.settings, "index_hash64 on")) as made:
            yield Worn.of(of_2_7(), made, directory, reader)


def look(server: Slapd, place: Path, level: str = "indexes") -> VerifyReport:
    options = VerifyOptions(place, server.config_path, server.suffix, level, memory=32 << 20, jobs=2)
    return verify_database(options, Progress("none"))


@pytest.mark.long("here")
def test_a_database_that_slapd_has_worked_on_is_sound(worn: Worn, tmp_path: Path) -> None:
    """It has all that can be damaged: free pages, overflow pages, LEAF2, branches, sub-pages, and values apart."""
    facts = meta.read_meta(worn.sound.path)
    assert (facts.page_size, facts.free.entries > 1) == (PAGE, True)
    heads = range(META * PAGE, len(worn.sound.content), PAGE)
    at_flags = {1: 10, 3: 18}[facts.format]
    flags = {struct.unpack_from("<H", worn.sound.content, at + at_flags)[0] for at in heads}
    assert flags >= {0x01, 0x02, 0x04, 0x22}
    found = worn.look(worn.sound.path)
    assert (found.problems, found.entries) == ((), len(worn.tables["id2e"]))
    (tmp_path / "sound").mkdir()
    shutil.copy(worn.sound.path, tmp_path / "sound" / meta.DATA)
    undamaged = Damaged(worn, tmp_path / "sound", Damage("none", ""))
    assert undamaged.exported() == "exported"
    assert undamaged.cloned() == "cloned"


@pytest.mark.long
@pytest.mark.usefixtures("worn")
@pytest.mark.parametrize("worn", ["here"], indirect=True)
def test_beside_a_writer(server: Slapd) -> None:
    """The writer must not have come to its end before the last look."""
    server.start()
    try:
        with Churn(server, rate=2000, seed=3, harsh=True) as churn:
            for _ in range(10):
                begun = churn.changes()
                found = look(server, server.database_dir)
                assert found.sound, found.problems
                churn.wait_for(begun + 1)
    finally:
        server.stop()


@pytest.mark.long
@pytest.mark.parametrize("suite", ["bullseye", "trixie", "forky"])
def test_databases_of_other_versions_are_sound(suite: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """2.4.57; 2.6.10; 2.6.14, whose LMDB counts pages otherwise."""
    require(missing_chroot())
    other = chroot(suite)
    monkeypatch.setenv("DITSEED_TOOLS", other.tools)
    case = BY_NAME["broad"] if other.version.startswith("2.4.") else CASE
    with closing(fresh(case, other)) as server:
        slapadd(server, case.write(tmp_path))
        assert look(server, server.database_dir).sound
        server.start()
        with Churn(server, rate=2000, harsh=True) as churn:
            churn.wait_for(500)
        server.stop()
        found = look(server, server.database_dir)
        assert found.sound, found.problems


@pytest.mark.long
def test_ranges_stay_when_entries_go(tmp_path: Path) -> None:
    """Keys of 65,536 entries and more are ranges; after deletes they cover more than there is, which is right."""
    case = BY_NAME["ranges"]
    with closing(fresh(case)) as server:
        slapadd(server, case.write(tmp_path))
        server.start()
        names_ = [f"cn={number},{SUFFIX}" for number in (1, 2, 3, 40_000, 65_537, 65_536)]
        server.ldapmodify("".join(f"dn: {dn}\nchangetype: delete\n\n" for dn in names_))
        server.stop()
        found = look(server, server.database_dir)
        assert found.sound, found.problems
        path = tmp_path / meta.DATA
        shutil.copy(server.database_dir / meta.DATA, path)
        attribute, key, high = narrow_a_range(path)
        (problem,) = look(server, path).problems
        assert (problem.kind, problem.count) == ("indexes.missing", 1)
        (told,) = problem.examples
        assert (told.attribute, told.id) == (attribute, high)
        assert key.hex() in told.message


def test_a_configuration_that_the_file_does_not_follow(tmp_path: Path) -> None:
    made = Case("made", "", settings("cn,sn eq"), CASE.ldif)
    with closing(fresh(made)) as server:
        slapadd(server, made.write(tmp_path))
        for later, sound, words in (
            (settings("cn,sn eq", "uid eq"), False, "not in the file"),
            (settings("cn,sn eq,sub"), False, "lacks"),
            (settings("cn,sn eq", top_lines=("index_hash64 on",)), False, "other settings"),
            (settings("cn eq"), True, "sn is in the file, but not configured"),
        ):
            with closing(fresh(Case("later", "", later, CASE.ldif))) as other:
                options = VerifyOptions(server.database_dir, other.config_path, SUFFIX, "indexes")
                found = verify_database(options, Progress("none"))
            tables = [problem for problem in found.problems if problem.kind == "indexes.table"]
            texts = found.notes if sound else [str(one) for problem in tables for one in problem.examples]
            assert (found.sound, any(words in text for text in texts)) == (sound, True), (words, found)


@pytest.mark.parametrize(
    ("seeds", "steps"),
    [
        (range(SHORT), mostly_verifying),
        pytest.param(range(SHORT, MORE), all_steps, marks=pytest.mark.long),
        pytest.param(range(1000, 1000 + LONG), all_steps, marks=[pytest.mark.heavy, pytest.mark.timeout(0)]),
    ],
    ids=["forty", "more", "two thousand"],
)
def test_every_damage_that_matters_is_reported(worn: Worn, tmp_path: Path, seeds: range, steps: Steps) -> None:
    ends = campaign(worn, tmp_path, seeds, steps)
    assert ends["reported"] > len(seeds) * 0.6, ends
