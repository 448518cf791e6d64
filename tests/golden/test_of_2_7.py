"""OpenLDAP 2.7: what the core writes equals the databases of fixtures/golden/of-2.7, which slapadd of 2.7.0 made; and,
where a 2.7 is installed, what its slapadd makes now, and slapd goes on with it."""

from __future__ import annotations

import dataclasses
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from fixtures import openldap_27
from fixtures.golden.of_2_7 import EVERY, LONG, Made
from fixtures.golden.records import SUFFIX
from fixtures.golden.tables import differences
from loader import backmdb, schema
from loader.errors import MadeOtherwise
from loader.mdb import meta
from loader.mdb.verify import verify
from loader.progress import Meter
from loader.server import configuration
from loader.sinks import mdb
from tests.support.command import ditseed
from tests.support.golden import fresh, slapadd

pytestmark = pytest.mark.slapd

_NEW = f"cn=new,{SUFFIX}"
_CHANGES = f"""dn: {_NEW}
changetype: add
objectClass: organizationalRole
cn: new

dn: {_NEW}
changetype: modify
add: description
description: changed

"""


def _target(made: Made) -> mdb.Target:
    """The case as the slapd at hand reads it, and what 2.7 does otherwise."""
    with closing(fresh(made.case)) as server:
        config = configuration.read(server.config_path)
        database = config.database(server.suffix)
        found = backmdb.settings(config, database, of_2_7=True)
        found = dataclasses.replace(found, hash64=True, page_size=made.page_size)
        definitions, effects = tuple(mdb.definitions_of(config)), schema.effects(config, database)
    return mdb.Target(found, definitions, effects, ("id2v", "ixck"), database.maxsize, server_id=0)


@pytest.mark.parametrize("name", EVERY)
def test_equal_to_what_slapadd_of_2_7_made(name: str, tmp_path: Path) -> None:
    made, ours = EVERY[name], tmp_path / "ours"
    ours.mkdir()
    rules = mdb.BuildRules("20260102030405Z", tmp_path / "rejects")
    limits = mdb.Resources(256 << 20, 2, tmp_path)
    ldif = made.case.write(tmp_path)
    mdb.build(_target(made), [ldif], ours / meta.DATA, rules, limits, Meter("load"))
    facts = meta.read_meta(ours)
    assert (facts.format, facts.page_size) == (3, made.page_size)
    found = differences(made.unpack(tmp_path / "theirs"), ours, made.case.unforeseen)
    assert not found, "\n".join(found)


@pytest.mark.parametrize("engine", ["native", "slapadd"])
@pytest.mark.parametrize("name", EVERY)
def test_a_real_2_7(name: str, engine: str, tmp_path: Path) -> None:
    reason = openldap_27.missing()
    if reason:  # in CI, too: no distribution has it
        pytest.skip(reason)
    made = EVERY[name]
    known = made.case.write_oracle(tmp_path)
    ldif = made.case.write(tmp_path) if engine == "native" else known
    with closing(made.server()) as oracle, closing(made.server()) as ours:
        slapadd(oracle, known)
        where = ("--config", ours.config_path, "-b", ours.suffix, "--engine", engine)
        ditseed("build", ldif, *where, env={"DITSEED_TOOLS": openldap_27.tools()}).ok()
        found = differences(oracle.database_dir, ours.database_dir, made.case.unforeseen)
        assert not found, "\n".join(found)
        assert ours.slapcat() == oracle.slapcat()
        with ours:
            ours.ldapmodify(_CHANGES)
            assert "description: changed" in ours.slapcat()
            ours.ldapmodify(f"dn: {_NEW}\nchangetype: delete\n")
            ours.stop()
            verify(ours.database_dir, "tree", Meter("verify"))
            dump = f"{openldap_27.prefix()}/bin/mdb_dump"
            told = subprocess.run([dump, "-a", ours.database_dir], capture_output=True, check=True)
            assert b"database=dn2i" in told.stdout


def test_what_format_1_has_no_room_for_is_refused(tmp_path: Path) -> None:
    there = LONG.unpack(tmp_path / "there")
    with closing(fresh(LONG.case)) as here:
        done = ditseed("migrate", there, here.database_dir, "--config", here.config_path)
        assert done.status == MadeOtherwise.exit_status
        assert "the RDN is too long for the database: about 245 bytes are the most" in done.err
        assert not (here.database_dir / meta.DATA).exists()
