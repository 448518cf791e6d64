"""The map size in a file: both meta pages, nothing else, never less than what is used."""

from __future__ import annotations

from pathlib import Path

import lmdb

from loader.mdb import edits, meta


def made(home: Path) -> Path:
    with lmdb.open(str(home), map_size=1 << 20) as environment, environment.begin(write=True) as put:
        put.put(b"key", b"value")
    return home / "data.mdb"


def test_both_meta_pages_and_nothing_else(tmp_path: Path) -> None:
    path = made(tmp_path)
    before = path.read_bytes()
    edits.set_map_size(path, 1 << 30)
    assert meta.read_meta(path).map_size == 1 << 30
    with lmdb.open(str(tmp_path), readonly=True) as environment, environment.begin() as transaction:
        assert transaction.get(b"key") == b"value"
    after = path.read_bytes()
    changed = [at for at, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    page = meta.read_meta(path).page_size
    assert {at // page for at in changed} == {0, 1}
    assert len(changed) <= 16


def test_never_less_than_what_is_used(tmp_path: Path) -> None:
    path = made(tmp_path)
    edits.set_map_size(path, 1)
    facts = meta.read_meta(path)
    assert facts.map_size == facts.used
