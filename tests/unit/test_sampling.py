"""Samples of compressed LDIF that is not read to its end."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from random import Random

import pytest
import zstandard

from loader.errors import EmptyInput
from loader.sources import sampling
from loader.sources.sampling import SampleSize

RECORDS = 20_000
RANDOM = Random(1)
TEXT = b"".join(
    b"dn: cn=u%d,dc=example,dc=com\nobjectClass: device\ncn: u%d\ndescription: %x\n\n"
    % (number, number, RANDOM.getrandbits(800))
    for number in range(RECORDS)
)


@pytest.mark.parametrize("compress", [gzip.compress, zstandard.compress])
def test_the_first_records_of_each_file(tmp_path: Path, compress: Callable[[bytes], bytes]) -> None:
    paths = [tmp_path / "a.ldif", tmp_path / "b.ldif"]
    for path in paths:
        path.write_bytes(compress(TEXT))
    found = sampling.of_heads(paths, None, SampleSize(500, 0.0))
    assert len(found.names) < RECORDS / 4
    assert found.names.count("cn=u0,dc=example,dc=com") == 2
    assert found.text.endswith(b"\n\n")
    assert not found.is_counted
    assert found.total == pytest.approx(2 * RECORDS, rel=0.1)
    assert sampling.of_heads(paths, 2 * RECORDS, SampleSize(500, 0.0)).total == 2 * RECORDS


def test_no_record_is_no_sample(tmp_path: Path) -> None:
    (tmp_path / "a.ldif.gz").write_bytes(gzip.compress(b"\n\n"))
    with pytest.raises(EmptyInput):
        sampling.of_heads([tmp_path / "a.ldif.gz"], None, SampleSize(500, 0.0))
