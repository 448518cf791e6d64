"""Where slapadd is plainly wrong and ditseed right: what slapadd makes is shown, so that a mended one is noticed."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from fixtures.golden.case import server, settings
from fixtures.golden.ranges import LIMIT, UUID
from fixtures.golden.reading import Database
from fixtures.golden.records import SUFFIX, entry, top, unit
from fixtures.slapd import ServerError, Slapd
from fixtures.trees import record
from tests.support.golden import build, slapadd

pytestmark = pytest.mark.slapd


def _late_parent() -> str:
    """65,535 entries with one word, and then their parent with it and with another one."""
    parts = [top()]
    fixed = [(name, value) for name, value in (("entryCSN", "20240101000000.000000Z#000000#001#000000"),)]
    pairs = [("objectClass", "gEntry"), ("cn", "x"), ("description", "crowd"), *fixed]
    for number in range(1, LIMIT + 1):
        given = [*pairs, ("entryUUID", UUID.format(number))]
        parts.append(record(f"cn={number},ou=late,{SUFFIX}", given))
    words = [("description", "crowd"), ("description", "one"), ("description", "two")]
    parts.append(entry(f"ou=late,{SUFFIX}", [("objectClass", "gEntry"), ("cn", "x"), *words]))
    return "".join(parts)


def _short_lists(target: Slapd) -> list[list[int]]:
    with closing(Database(target.database_dir)) as database:
        return sorted(ids for ids in database.index("description").values() if len(ids) < 3)


@pytest.mark.long
def test_a_late_parent_beside_a_list_that_becomes_a_range(tmp_path: Path) -> None:
    """slapadd puts what is left of that attribute's keys under the highest ID (servers/slapd/back-mdb/idl.c)."""
    ldif = tmp_path / "late.ldif"
    ldif.write_text(_late_parent())
    wanted = settings("description eq", maxsize=256 << 20)
    parent, highest = 2, LIMIT + 2
    with closing(server(wanted)) as theirs, closing(server(wanted)) as ours:
        slapadd(theirs, ldif)
        build(ours, ldif).ok()
        assert _short_lists(theirs) == [[highest], [highest]]
        assert _short_lists(ours) == [[parent], [parent]]


def test_a_batch_that_breaks_off(tmp_path: Path) -> None:
    """`slapadd -q -c` loses up to 500 good entries with a bad one; ditseed none."""
    ldif = tmp_path / "batch.ldif"
    units = [unit(f"ou=n{number},{SUFFIX}") for number in range(300)]
    ldif.write_text(top() + "".join(units[:200]) + units[7] + "".join(units[200:]))
    with closing(server(settings())) as theirs, closing(server(settings())) as ours:
        where = [*theirs.config_arguments, "-b", SUFFIX, "-l", str(ldif)]
        with pytest.raises(ServerError, match="slapadd ended"):
            theirs.tool("slapadd", "-q", "-c", *where)
        assert len(_entries(theirs)) < 200
        assert build(ours, ldif, "--max-rejects", 1).status == 1
        assert len(_entries(ours)) == 301


def _entries(target: Slapd) -> dict[str, object]:
    with closing(Database(target.database_dir)) as database:
        return {dn: blob for dn, blob in database.entries().items() if blob}
