"""Samples of LDIF: of the common records every nth, and of the large ones as many as tell their size."""

from __future__ import annotations

import base64
import gzip
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import zstandard

from loader.errors import EmptyInput, LdifTruncated, LdifUnreadable, LoaderError
from loader.progress import Meter
from loader.sources import sampling
from loader.sources.sampling import Sample, SampleSize

RECORDS = 10_000
RANDOM = Random(1)
SMALL = SampleSize(500, 0.0)


def person(number: int, more: bytes = b"") -> bytes:
    head = b"dn: cn=u%d,dc=example,dc=com\nobjectClass: device\ncn: u%d\n" % (number, number)
    return head + b"description: %x\n" % RANDOM.getrandbits(800) + more + b"\n"


PEOPLE = b"".join(map(person, range(RECORDS)))
GROUP = (
    b"dn: cn=all,dc=example,dc=com\nobjectClass: groupOfNames\ncn: all\n"
    + b"".join(b"member: cn=u%d,dc=example,dc=com\n" % number for number in range(50_000))
    + b"\n"
)
PHOTO = b"jpegPhoto:: " + base64.b64encode(RANDOM.randbytes(30_000)) + b"\n"
PHOTOS = b"".join(person(RECORDS + number, PHOTO) for number in range(100))


@pytest.fixture(autouse=True)
def few_large(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_LARGE", 512 << 10)


def taken(path: Path, known: int | None = None, wanted: SampleSize = SMALL) -> Sample:
    return sampling.of_files([path], known, wanted, Meter("sample"))


@pytest.mark.parametrize("compress", [bytes, gzip.compress, zstandard.compress])
@pytest.mark.parametrize(
    ("text", "more"),
    [(PEOPLE + GROUP, 1), (GROUP + PEOPLE, 1), (PEOPLE + PHOTOS, 100), (PHOTOS + PEOPLE, 100)],
    ids=["group", "groupfirst", "photos", "photosfirst"],
)
def test_large_records_count_for_themselves(
    tmp_path: Path, text: bytes, more: int, compress: Callable[[bytes], bytes]
) -> None:
    path = tmp_path / "all.ldif"
    path.write_bytes(compress(text))
    found = taken(path)
    assert (found.total, found.is_counted) == (RECORDS + more, True)
    assert found.common == RECORDS
    assert 500 < len(found.names) < 1500
    assert 500 < len(taken(path, wanted=SampleSize(1, 0.5, most=1000)).names) < 2500  # it is held in memory
    assert [one.total for one in found.larger] == [more]
    assert found.ldif_bytes == pytest.approx(len(text), rel=0.02)


def test_windows_of_a_long_file_hold_large_records_as_often_as_others(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A photo is longer than a window. The windows lie over all of the input."""
    monkeypatch.setattr(sampling, "_CHUNK", 16 << 10)
    wanted = SampleSize(500, 0.0, whole=1 << 20, windows=400)
    people = [person(number, PHOTO if number % 50 == 0 else b"") for number in range(2000)]
    text = b"".join(people)
    path = tmp_path / "all.ldif"
    path.write_bytes(text)
    found = taken(path, wanted=wanted)
    assert not found.is_counted
    assert found.total == pytest.approx(2000, rel=0.5)
    assert found.ldif_bytes == pytest.approx(len(text), rel=0.25)
    path.write_bytes(text.replace(b"\n", b"\r\n"))
    assert taken(path, wanted=wanted).ldif_bytes == pytest.approx(len(text), rel=0.25)
    path.write_bytes(PEOPLE)
    names = taken(path, wanted=wanted).names[::50]
    numbers = [int(name.partition(",")[0].removeprefix("cn=u")) for name in names]
    assert numbers == sorted(numbers)
    assert numbers[0] < 0.1 * RECORDS < 0.8 * RECORDS < numbers[-1]


@pytest.mark.parametrize("line", [b"\n", b"\r\n"])
def test_what_is_no_entry_is_not_counted(tmp_path: Path, line: bytes) -> None:
    path = tmp_path / "all.ldif"
    head = b"version: 1\n\n# by hand\n\n\n\n# the first\n" + person(1)
    path.write_bytes((head + person(2) + b"\n\n" + person(3).rstrip(b"\n")).replace(b"\n", line))
    found = taken(path)
    assert (found.total, [name.split(",")[0] for name in found.names]) == (3, ["cn=u1", "cn=u2", "cn=u3"])


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_a_reading_that_takes_too_long_is_extrapolated(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    path = tmp_path / "a.ldif"
    path.write_bytes(compress(PEOPLE))
    hasty = SampleSize(500, 0.0, seconds=0.0)
    found = taken(path, wanted=hasty)
    assert not found.is_counted
    assert found.how.endswith(" KiB of LDIF")
    assert found.total == pytest.approx(RECORDS, rel=0.1)
    assert taken(path, 2 * RECORDS, hasty).total == 2 * RECORDS


def test_a_part_stands_for_all_and_where_all_are_large_they_are_common(tmp_path: Path) -> None:
    path = tmp_path / "part.ldif"
    path.write_bytes(PHOTOS)
    found = taken(path)
    assert (found.common, found.larger) == (100, ())
    assert found.ldif_bytes == pytest.approx(len(PHOTOS), rel=0.01)
    path.write_bytes(PEOPLE + PHOTOS[: len(PHOTOS) // 2])
    found = sampling.of_part([path], 2 * (RECORDS + 50), SMALL, "a half")
    assert found.total == 2 * (RECORDS + 50)
    assert found.ldif_bytes == pytest.approx(2 * (len(PEOPLE) + len(PHOTOS) / 2), rel=0.1)


@pytest.mark.parametrize(
    ("name", "content", "error", "words"),
    [
        ("a.ldif.gz", gzip.compress(b"\n\n"), EmptyInput, "no entries"),
        ("a.ldif.zst", zstandard.compress(PEOPLE)[:-100], LdifTruncated, r"a\.ldif\.zst"),
        ("a.ldif.gz", gzip.compress(PEOPLE)[:-1000], LdifUnreadable, r"a\.ldif\.gz"),
    ],
    ids=["no record", "cut within a frame", "damaged"],
)
def test_what_gives_no_sample(tmp_path: Path, name: str, content: bytes, error: type[LoaderError], words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(error, match=words):
        taken(tmp_path / name)
