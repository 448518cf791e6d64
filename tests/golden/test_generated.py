"""Operational values that ditseed makes: they cannot equal slapadd's, so their shape and sense are shown here."""

from __future__ import annotations

import re
import uuid
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.golden.blobs import Attribute, Blob
from fixtures.golden.case import server, settings, tree
from fixtures.golden.operational import nothing_given
from fixtures.golden.reading import Database
from fixtures.golden.shapes import children_first
from tests.support.golden import build

pytestmark = pytest.mark.slapd

CSN = re.compile(rb"(\d{14})\.(\d{6})Z#([0-9a-f]{6})#([0-9a-f]{3})#000000")
TIME = re.compile(rb"\d{14}Z")


def _made(directory: Path, *options: str) -> list[dict[str, Attribute]]:
    """Attributes of each entry without any given, in the order of entry IDs."""
    ldif = directory / "bare.ldif"
    kept = [line for line in tree(nothing_given, children_first).split("\n") if not _is_stamp(line)]
    ldif.write_text("\n".join(kept))
    with closing(server(settings("entryUUID,entryCSN eq"))) as target:
        build(target, ldif, *options).ok()
        with closing(Database(target.database_dir)) as database:
            return [_attributes(blob) for blob in database.entries().values()]


def _is_stamp(line: str) -> bool:
    return line.startswith(("entryUUID", "entryCSN", "createTimestamp", "modifyTimestamp"))


def _attributes(blob: Blob | None) -> dict[str, Attribute]:
    assert blob is not None
    return {one.name: one for one in blob.attributes}


def test_uuids_are_valid_and_no_two_alike(tmp_path: Path) -> None:
    found = [entry["entryUUID"] for entry in _made(tmp_path)]
    values = {one.values[0] for one in found}
    assert len(values) == len(found) > 15
    for one in found:
        parsed = uuid.UUID(one.values[0].decode())
        assert parsed.variant == uuid.RFC_4122
        assert str(parsed).encode() == one.values[0], "lower case"
        assert one.normalised == (parsed.bytes,)


def test_csns_rise_and_bear_the_server(tmp_path: Path) -> None:
    found = [entry["entryCSN"].values[0] for entry in _made(tmp_path, "-S", "42")]
    assert len(set(found)) == len(found)
    for value in found:
        match = CSN.fullmatch(value)
        assert match, value
        assert match[4] == b"02a"


def test_times_are_those_of_the_csn(tmp_path: Path) -> None:
    for entry in _made(tmp_path):
        created, modified = entry["createTimestamp"].values[0], entry["modifyTimestamp"].values[0]
        assert TIME.fullmatch(created)
        assert created == modified == entry["entryCSN"].values[0][:14] + b"Z"
        for name in ("createTimestamp", "modifyTimestamp", "entryCSN"):
            assert entry[name].normalised is None
