"""Lines of one attribute that do not stand together become one attribute, as slapadd makes them without -q."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from fixtures.golden.case import server, settings
from fixtures.golden.records import SUFFIX, stamps, top
from fixtures.golden.tables import differences
from fixtures.trees import record
from tests.support.command import ditseed

pytestmark = pytest.mark.slapd

# As OpenLDAP's own tests/data/passwd.ldif has it, and worse.
PAIRS = [
    ("objectclass", "top"),
    ("dc", "x"),
    ("objectclass", "domain"),
    ("description", "one"),
    ("objectClass", "extensibleObject"),
    ("DESCRIPTION", "two"),
    ("cn", "a"),
    ("description;lang-de", "drei"),
    ("CN", "b"),
    ("description", "four"),
]


# The same attribute by all its names.
NAMED = [
    ("objectClass", "person"),
    *((name, f"value {n}") for n, name in enumerate(("cn", "sn", "commonName", "surname", "2.5.4.3"))),
    *(("cn;lang-de", "drei"), ("description", "x"), ("COMMONNAME;lang-de", "vier"), ("CN", "last")),
]


@pytest.fixture
def ldif(tmp_path: Path) -> Path:
    path = tmp_path / "scattered.ldif"
    dn = f"dc=x,{SUFFIX}"
    path.write_text(top() + record(dn, [*PAIRS, *stamps(dn)]))
    return path


@pytest.mark.parametrize("engine", ["native", "slapadd"])
def test_equal_to_plain_slapadd(ldif: Path, engine: str) -> None:
    wanted = settings("objectClass,cn eq", "description eq,sub")
    with closing(server(wanted)) as theirs, closing(server(wanted)) as ours:
        where = [*theirs.config_arguments, "-b", SUFFIX, "-l", str(ldif)]
        theirs.tool("slapadd", *where)
        command = ("build", ldif, "--config", ours.config_path, "-b", SUFFIX, "--engine", engine)
        ditseed(*command).ok()
        assert not differences(theirs.database_dir, ours.database_dir)


@pytest.mark.long
def test_several_names_of_one_attribute(tmp_path: Path) -> None:
    """Plain slapadd leaves such values apart; both engines do not."""
    path, wanted = tmp_path / "named.ldif", settings("cn,sn eq,sub")
    records = [record(dn, [*NAMED, *stamps(dn)]) for dn in (f"cn=value {n},{SUFFIX}" for n in (0, 2, 4))]
    path.write_text(top() + "".join(records))
    with closing(server(wanted)) as native, closing(server(wanted)) as slapadd:
        for target, engine in ((native, "native"), (slapadd, "slapadd")):
            where = ("--config", target.config_path, "-b", SUFFIX, "--engine", engine)
            ditseed("build", path, *where).ok()
        assert not differences(native.database_dir, slapadd.database_dir)
