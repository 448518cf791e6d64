"""How a tree is cut that slapadd loaded within a second or so: evenly, and from no more than its first entries."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.slapd import Slapd
from fixtures.trees import Load, write_people
from tests.support.command import ditseed
from tests.support.killing import KILL_AT

pytestmark = pytest.mark.slapd

PEOPLE = 20_000
LOOKED = 2500  # entries: those of the sample, and what access control is judged by
BUSY = "dn: {}\nchangetype: modify\nreplace: description\ndescription: since the load\n"


@pytest.fixture(scope="module")
def source(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    """Loaded by server ID 000, in use since; its monitor does not show how many entries there are."""
    ldif = tmp_path_factory.mktemp("ldif") / "people.ldif"
    with closing(replication.provider()) as made:
        write_people(ldif, made.suffix, PEOPLE, load=Load(time.time() - 1, 0))
        made.slapadd(ldif, "-S", "0", "-w")
        with made:
            made.ldapmodify(BUSY.format(made.suffix))
            yield made


def _sent(source: Slapd, mark: int) -> list[int]:
    """Entries sent by each search since."""
    lines = source.log_lines("SEARCH RESULT.* nentries=", mark)
    return [int(found[1]) for line in lines if (found := re.search(r"nentries=(\d+)", line))]


def _export(source: Slapd, out: Path, point: str) -> str:
    bind = ("-H", source.uri, "-D", "cn=replicator", "-y", source.replicator_password_file)
    asked = ("export", *bind, "-b", source.suffix, "-o", out, "--jobs", 2, "--compress", "none")
    done = ditseed(*asked, env={KILL_AT: point})
    assert done.status == -9, done
    return done.err


def test_pieces_are_even_and_hold_every_entry(source: Slapd, tmp_path: Path) -> None:
    """Planning looks at few of them."""
    out, mark = tmp_path / "out", source.log_size()
    _export(source, out, "plan.recorded")
    assert sum(_sent(source, mark)) < LOOKED
    mark = source.log_size()
    said = _export(source, out, "read.recorded")
    assert "2 ranges of entryUUID (loaded in bulk)" in said
    large = sorted(_sent(source, mark))[-2:]
    assert sum(large) == len(re.findall("^dn:", source.slapcat(), re.M))
    assert max(large) < 2 * min(large)
