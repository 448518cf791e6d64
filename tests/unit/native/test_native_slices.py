"""Cutting an LDIF for several slapadds: which entries are shared, where slices begin, what each is fed."""

from __future__ import annotations

import gzip
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import zstandard

from loader.ldif import with_counters
from loader.progress import Meter
from loader.sinks.slapadd import Plan, Slice, SlicedLdif

SUFFIX = "dc=example,dc=com"
NOW = "20260102030405Z"


def _record(dn: str, *lines: str) -> str:
    return "\n".join([f"dn: {dn}", "objectClass: device", *lines]) + "\n\n"


@dataclass
class Cut:
    source: SlicedLdif
    plan: Plan

    def piece(self, number: int, now: str | None = NOW, claimed: list[str] | None = None) -> Slice:
        ends = [*(cut[3] for cut in self.plan.cuts[1:]), self.plan.leaves]
        shared, cut, stamp = self.plan.shared, self.plan.cuts[number], (SUFFIX, claimed) if claimed else None
        return Slice(
            self.source, shared, cut, ends[number] - cut[3], now, server_id=5, first=0, stamp=stamp, aliases={}
        )

    def fed(self, number: int, directory: Path, **more: Any) -> str:
        with (directory / "fed").open("wb") as file, with_counters(Meter("feed")) as counters:
            self.piece(number, **more).feed(file.fileno(), counters)
        return (directory / "fed").read_text()


def _cut(directory: Path, count: int, *paths: Path, suffixes: tuple[str, ...] = (SUFFIX,)) -> Cut:
    source = SlicedLdif(paths, suffixes, directory / "shared.ldif")
    return Cut(source, source.plan(count, Meter("plan")))


def _names(text: str) -> list[str]:
    return re.findall(r"^dn: (?:cn=)?([^,\n]*)", text, re.MULTILINE)


@pytest.fixture
def three(tmp_path: Path) -> list[Path]:
    """Ten leaves below two containers, one of which comes late, in a plain, a zstd and a gzip file."""
    texts = [
        _record(SUFFIX) + "".join(_record(f"cn={n},cn=late,{SUFFIX}") for n in range(3)),
        "# a comment\n\n" + "".join(_record(f"cn={n}, CN=Late ,{SUFFIX}") for n in range(3, 7)),
        _record(f"cn=late,{SUFFIX}") + "".join(_record(f"cn={n},{SUFFIX}") for n in range(7, 10)),
    ]
    paths = [tmp_path / name for name in ("1.ldif", "2.ldif.zst", "3.ldif.gz")]
    paths[0].write_text(texts[0])
    paths[1].write_bytes(zstandard.compress(texts[1].encode()))
    paths[2].write_bytes(gzip.compress(texts[2].encode()))
    return paths


@pytest.mark.parametrize("count", [1, 2, 3, 7, 10])
def test_each_leaf_is_in_one_slice_and_the_parents_in_all(three: list[Path], tmp_path: Path, count: int) -> None:
    cut = _cut(tmp_path, count, *three)
    assert (cut.plan.shared, cut.plan.leaves, cut.plan.unknown) == (2, 10, 0)
    assert len(cut.plan.cuts) == count
    leaves = []
    for number in range(count):
        names = _names(cut.fed(number, tmp_path))
        assert names[:2] == ["dc=example", "late"]
        assert len(names[2:]) in (10 // count, 10 // count + 1)
        leaves += names[2:]
    assert leaves == [str(number) for number in range(10)]
    assert cut.source.shared.stat().st_mode & 0o777 == 0o600


def test_parents_that_no_entry_is_are_counted(three: list[Path], tmp_path: Path) -> None:
    orphan = tmp_path / "4.ldif"
    orphan.write_text(_record(f"cn=x,cn=nowhere,{SUFFIX}") + _record(f"cn=y,cn=nowhere,{SUFFIX}"))
    assert _cut(tmp_path, 2, *three, orphan).plan.unknown == 1
    assert _cut(tmp_path, 2, *three, suffixes=("o=other",)).plan.unknown == 1


def test_what_an_entry_lacks_is_made_and_what_it_has_stays(tmp_path: Path) -> None:
    ldif = tmp_path / "some.ldif"
    own = "entryCSN: 20250101000000.000000Z#000000#001#000000"
    ldif.write_text(_record(SUFFIX) + _record(f"cn=a,{SUFFIX}", own) + _record(f"cn=b,{SUFFIX}"))
    cut = _cut(tmp_path, 2, ldif)
    first, second = (cut.fed(number, tmp_path) for number in range(2))
    csns = re.findall(r"^entryCSN: (.*)", first + second, re.MULTILINE)
    made = "20260102030405.000000Z#{:06x}#005#000000".format
    assert csns == [made(0), own.removeprefix("entryCSN: "), made(0), made(2)]
    for text in (first, second):
        for name in ("createTimestamp", "modifyTimestamp"):
            assert re.findall(rf"^{name}: (.*)", text, re.MULTILINE) == [NOW, NOW]
    uuids = re.findall(r"^entryUUID: (.*)", first + second, re.MULTILINE)
    assert len(set(uuids)) == 3
    assert uuids[0] == uuids[2]
    assert "entry" not in cut.fed(1, tmp_path, now=None)


def test_a_claim_is_stamped_and_not_exceeded(tmp_path: Path) -> None:
    claimed = "20250601000000.000000Z#000000#005#000000"
    newer = "20250701000000.000000Z#000000#005#000000"
    ldif = tmp_path / "some.ldif"
    newer_ones = _record(SUFFIX, f"contextCSN: {newer}") + _record(f"cn=a,{SUFFIX}", f"entryCSN: {newer}")
    ldif.write_text(newer_ones + _record(f"cn=b,{SUFFIX}"))
    cut = _cut(tmp_path, 2, ldif)
    for number in range(2):
        text = cut.fed(number, tmp_path, claimed=[claimed])
        assert re.findall(r"^contextCSN: (.*)", text, re.MULTILINE) == [claimed]
        # Those that are made would be newer, too.
        assert re.findall(r"^entryCSN: (.*)", text, re.MULTILINE) == [claimed, claimed]


def test_a_line_of_what_was_fed_is_found_in_the_input(three: list[Path], tmp_path: Path) -> None:
    cut = _cut(tmp_path, 3, *three)
    for number in range(3):
        lines = cut.fed(number, tmp_path).split("\n")
        with with_counters(Meter("find")) as counters:
            for at, line in enumerate(lines, 1):
                if line.startswith("dn:"):
                    path, told, dn = cut.piece(number).find_line(at, counters) or ("", 0, "")
                    assert line == f"dn: {dn}"
                    assert _lines(Path(path))[told - 1] == line
            assert cut.piece(number).find_line(10**6, counters) is None


def _lines(path: Path) -> list[str]:
    unpack = {".gz": gzip.decompress, ".zst": zstandard.decompress}.get(path.suffix, bytes)
    return unpack(path.read_bytes()).decode().split("\n")
