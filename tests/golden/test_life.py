"""A built database in use: slapd changes it, and every tool is content."""

from __future__ import annotations

import re
import shutil
import subprocess
import sys
import uuid
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.golden.case import Case, server, settings, tree
from fixtures.golden.cases import INDEXES, mixed
from fixtures.golden.operational import nothing_given
from fixtures.golden.reading import Database
from fixtures.golden.records import SUFFIX
from fixtures.golden.shapes import children_first
from fixtures.golden.tables import differences
from fixtures.slapd import Slapd
from tests.support.golden import build, fresh, slapadd

pytestmark = pytest.mark.slapd

CASE = Case("life", "searched and changed", settings(*INDEXES, database=("multival seeAlso,gDn 3,1",)), mixed)


@pytest.fixture
def ours(tmp_path: Path) -> Iterator[Slapd]:
    with closing(fresh(CASE)) as made:
        build(made, CASE.write(tmp_path)).ok()
        yield made


def _tool(*command: object) -> str:
    done = subprocess.run(list(map(str, command)), capture_output=True, text=True, check=False)
    assert done.returncode == 0, f"{command}: {done.stdout}\n{done.stderr}"
    return done.stdout + done.stderr


def test_every_tool_is_content(ours: Slapd, tmp_path: Path) -> None:
    """Those of LMDB find the file as long as its pages. py-lmdb verifies each; it knows default comparisons only, so
    it is asked about a database without id2v rows. slapindex makes every index again, and nothing changes."""
    place, oracle = ours.database_dir, tmp_path / "oracle"
    with closing(fresh(CASE)) as made:
        slapadd(made, CASE.write(tmp_path))
        shutil.copytree(made.database_dir, oracle)
    stat = _tool("mdb_stat", "-a", "-e", "-f", "-r", place)
    assert "Status of gInteger" in stat
    told = {name.strip(): value.strip() for name, _, value in (line.partition(":") for line in stat.splitlines())}
    assert (place / "data.mdb").stat().st_size == int(told["Number of pages used"]) * int(told["Page size"])
    assert int(told["Map size"]) == CASE.settings.maxsize
    for name, options in (("compact", ["-c"]), ("plain", [])):
        (tmp_path / name).mkdir()
        _tool("mdb_copy", *options, place, tmp_path / name)
        assert not differences(oracle, tmp_path / name)
    _tool("mdb_dump", "-a", place)
    assert "verify: OK" in _tool(sys.executable, "-m", "lmdb", "verify", "-e", place)
    ours.tool("slapindex", "-q", *ours.config_arguments, "-b", SUFFIX)
    assert not differences(oracle, place)


def test_changes_of_every_kind(ours: Slapd) -> None:
    """Then again every index is what slapindex makes of the entries."""
    base = f"ou=each,{SUFFIX}"
    ours.start()
    ours.ldapadd(f"dn: cn=new,{base}\nobjectClass: gEntry\ncn: new\ngInteger: 5\ngIgnore: Fresh Text\n")
    changes = {
        "all gIgnore": "modify\nadd: gIgnore\ngIgnore: another one\n-\ndelete: gIgnore\ngIgnore: plain text\n-",
        "all gDn": "modify\nreplace: gDn\n" + "\n".join(f"gDn: cn=n{n},dc=x" for n in range(9)),
        "gBoolean 0": "delete",
        "gBoolean 1": f"modrdn\nnewrdn: cn=Renamed\ndeleteoldrdn: 1\nnewsuperior: ou=sounds,{SUFFIX}",
    }
    ours.ldapmodify("".join(f"dn: cn={name},{base}\nchangetype: {what}\n\n" for name, what in changes.items()))
    assert ours.search("(gIgnore=*sh tex*)", ("1.1",)) == [(f"cn=new,{base}", {})]
    assert ours.search("(cn=renamed)", ("1.1",)) == [(f"cn=Renamed,ou=sounds,{SUFFIX}", {})]
    assert not ours.search("(cn=gBoolean 0)", ("1.1",), base=base)
    # Many small adds: pages split and merge.
    base = f"ou=sounds,{SUFFIX}"
    more = f"description: {'text ' * 90}"
    grown = "dn: cn=grown {0},{1}\nobjectClass: gEntry\ncn: grown {0}\n{2}{0}\n\n"
    ours.ldapadd("".join(grown.format(n, base, more) for n in range(150)))
    assert len(ours.search("(cn=grown*)", ("1.1",))) == 150
    ours.ldapmodify("".join(f"dn: cn=grown {n},{base}\nchangetype: delete\n\n" for n in range(0, 150, 2)))
    assert len(ours.search("(cn=grown*)", ("1.1",))) == 75
    ours.stop()
    _tool("mdb_stat", "-a", "-f", ours.database_dir)
    before = ours.home / "before"
    shutil.copytree(ours.database_dir, before)
    ours.tool("slapindex", "-q", *ours.config_arguments, "-b", ours.suffix)
    assert not differences(before, ours.database_dir)


def test_operational_values_that_are_made(tmp_path: Path) -> None:
    """They cannot equal slapadd's: UUIDs are valid, no two alike, CSNs rise and bear the server, times are theirs."""
    made = ("entryUUID", "entryCSN", "createTimestamp", "modifyTimestamp")
    kept = [line for line in tree(nothing_given, children_first).split("\n") if not line.startswith(made)]
    ldif = tmp_path / "bare.ldif"
    ldif.write_text("\n".join(kept))
    with closing(server(settings("entryUUID,entryCSN eq"))) as target:
        build(target, ldif, "-S", "42").ok()
        with closing(Database(target.database_dir)) as database:
            blobs = list(database.entries().values())
    entries = [{one.name: one for one in blob.attributes} for blob in blobs]
    for name in ("entryUUID", "entryCSN"):
        assert len({entry[name].values[0] for entry in entries}) == len(entries) > 15
    for entry in entries:
        identity, (value,) = entry["entryUUID"], entry["entryCSN"].values
        parsed = uuid.UUID(identity.values[0].decode())
        assert parsed.variant == uuid.RFC_4122
        assert str(parsed).encode() == identity.values[0], "lower case"
        assert identity.normalised == (parsed.bytes,)
        assert re.fullmatch(rb"\d{14}\.\d{6}Z#[0-9a-f]{6}#02a#000000", value), value
        for name in made[2:]:
            assert entry[name].values[0] == value[:14] + b"Z"
        assert {entry[name].normalised for name in made[1:]} == {None}
