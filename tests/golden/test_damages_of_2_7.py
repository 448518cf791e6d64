"""Damaged databases of OpenLDAP 2.7 (LMDB 1.0, data format 3): verify, export and clone refuse them, or are right.

The sound one is fixtures/golden/of-2.7/worn.zst, which slapd 2.7.0 has changed for a while."""

from __future__ import annotations

import shutil
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.damage import Damage
from fixtures.damage.in_bytes import META, PAGE
from fixtures.damage.reading import Reader
from fixtures.golden import worn as kept
from fixtures.golden.case import server_with
from loader.mdb import meta
from tests.support.damaged import Damaged, Worn, by_end, campaign, one_step, show

pytestmark = pytest.mark.slapd

SHORT, MORE, LONG, PARTS = 20, 100, 2000, 4


@pytest.fixture(scope="module")
def worn(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Worn]:
    """Its configuration as the slaptest of here converts it, which writes its own default of index_hash64."""
    with closing(server_with(kept.CASE.settings, "index_hash64 on")) as here, closing(Reader()) as reader:
        yield Worn.of(kept.of_2_7(), here, tmp_path_factory.mktemp("worn"), reader)


def test_nothing_is_found_in_the_sound_one(worn: Worn, tmp_path: Path) -> None:
    """It has all that can be damaged: free pages, overflow pages, LEAF2, branches, sub-pages, and values apart."""
    facts = meta.read_meta(worn.sound.path)
    assert (facts.format, facts.page_size, facts.free.entries > 1) == (3, PAGE, True)
    heads = range(META * PAGE, len(worn.sound.content), PAGE)
    flags = {struct.unpack_from("<H", worn.sound.content, at + 18)[0] for at in heads}
    assert flags >= {0x01, 0x02, 0x04, 0x22}
    found = worn.look(worn.sound.path)
    assert (found.problems, found.entries) == ((), len(worn.tables["id2e"]))
    (tmp_path / "sound").mkdir()
    shutil.copy(worn.sound.path, tmp_path / "sound" / meta.DATA)
    undamaged = Damaged(worn, tmp_path / "sound", Damage("none", ""))
    assert undamaged.exported() == "exported"
    assert undamaged.cloned() == "cloned"


def test_no_damage_is_passed_over(worn: Worn, tmp_path: Path) -> None:
    ends = by_end(campaign(worn, tmp_path, range(SHORT), one_step))
    assert ends["reported"] > SHORT // 3 * 0.6


@pytest.mark.long
def test_more_damages(worn: Worn, tmp_path: Path) -> None:
    seeds = range(SHORT, MORE)
    assert by_end(campaign(worn, tmp_path, seeds))["reported"] > len(seeds) * 0.6


@pytest.mark.heavy
@pytest.mark.timeout(0)
@pytest.mark.parametrize("part", range(PARTS))
def test_two_thousand_damages(part: int, worn: Worn, tmp_path: Path) -> None:
    seeds = range(1000 + part, 1000 + LONG, PARTS)
    ends = campaign(worn, tmp_path, seeds)
    show(ends)
    assert by_end(ends)["reported"] > len(seeds) * 0.6
