"""`ditseed replica refresh` with other OpenLDAP versions on both sides: each session log answers in its own way."""

from __future__ import annotations

from contextlib import closing
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.chroots import chroot, missing_chroot
from fixtures.slapd_config import Installation, Settings
from fixtures.trees import write_people
from tests.integration.test_refresh import changes, command, containers, followed
from tests.support.command import ditseed
from tests.support.require import require
from tests.support.seeding import Pair
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd


@pytest.mark.rows(1)
@pytest.mark.parametrize("session_log", [0, 100_000], ids=["present", "delete"])
@pytest.mark.parametrize("suite", ["bullseye", "trixie", "forky"])
def test_changes_of_every_kind(short_tmp: Path, suite: str, session_log: int) -> None:
    require(missing_chroot())
    there = chroot(suite)
    installation, env = Installation(there.prefix), {"DITSEED_TOOLS": there.tools}
    # Debian's 2.4 has the monitor as a module.
    modules = (*Settings().modules, *(("back_monitor",) if suite == "bullseye" else ()))
    settings = Settings(modules=modules)
    source = replication.provider(settings, session_log=session_log, installation=installation)
    write_people(short_tmp / "people.ldif", source.suffix, 500)
    source.slapadd(short_tmp / "people.ldif")
    with source, closing(replication.consumer(source, installation=installation)) as target:
        both = Pair(source, target, short_tmp)
        source.ldapmodify(f"dn: {source.suffix}\nchangetype: modify\nreplace: description\ndescription: x\n")
        ditseed(*both.seed("search"), env=env).ok()
        for change in (changes(source), containers(source.suffix)):
            source.ldapmodify(change)
            found = ditseed(*command(both), env=env).ok().facts
            assert found["deleted"]
            assert_same(source, target)
            where = ("--config", target.config_path, "-b", target.suffix, "--verify", "indexes")
            ditseed("verify", *where, env=env).ok()
        followed(both)
