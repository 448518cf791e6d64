"""A database of OpenLDAP 2.7 under a configuration that asks for more indexes: the core makes them, as slapadd of 2.7
does for the same entries, and slapd 2.7 goes on with the file."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from fixtures import openldap_27
from fixtures.golden.tables import differences
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import write_people
from loader.mdb import contents
from loader.mdb.meta import DATA
from tests.support.command import ditseed

pytestmark = pytest.mark.slapd

PEOPLE = 400
FEW = ("uid eq",)
MORE = ("uid,entryUUID eq", "cn,sn pres,eq,sub,approx")


@pytest.fixture(scope="module")
def ldif(tmp_path_factory: pytest.TempPathFactory) -> Path:
    found = tmp_path_factory.mktemp("ldif") / "people.ldif"
    write_people(found, Settings.suffix, PEOPLE)
    return found


@pytest.fixture
def servers(ldif: Path) -> Iterator[tuple[Slapd, Slapd, Slapd]]:
    """With few indexes and the entries; with more, empty; with more, and what slapadd makes of the first one's."""
    reason = openldap_27.missing()
    if reason:  # in CI, too: no distribution has it
        pytest.skip(reason)
    with ExitStack() as stack:
        made, consumer, oracle = (
            Slapd(Settings(indexes=indexes), installation=openldap_27.installation()) for indexes in (FEW, MORE, MORE)
        )
        for one in (made, consumer, oracle):
            stack.callback(one.close)
        made.slapadd(ldif, "-w")
        text = made.slapcat()
        (made.database_dir / DATA).unlink()  # slapadd stores other normal forms of what it makes itself
        made.slapadd(text)
        oracle.slapadd(text)
        yield made, consumer, oracle


def _goes_on(server: Slapd) -> None:
    """Most entries are changed, so that LMDB uses the freed pages, and every index is held against the entries."""
    where = ("--config", server.config_path)
    server.start()
    for round_ in range(3):
        server.ldapmodify(
            "".join(
                f"dn: {dn}\nchangetype: modify\nreplace: sn\nsn: changed {round_} {number}\n\n"
                for number, (dn, _) in enumerate(server.search("(uid=*)", ("1.1",))[:300])
            )
        )
    server.stop()
    env = {"DITSEED_TOOLS": openldap_27.tools()}
    ditseed("verify", *where, "--verify", "indexes", env=env).ok()


@pytest.mark.parametrize("how", ["clone", "restore"])
def test_a_copy_has_the_indexes_of_its_configuration(
    how: str, servers: tuple[Slapd, Slapd, Slapd], tmp_path: Path
) -> None:
    (made, consumer, oracle), env = servers, {"DITSEED_TOOLS": openldap_27.tools()}
    where = ("--config", consumer.config_path)
    words: tuple[object, ...] = ("replica", "seed", "--strategy", "clone", "--from", made.database_dir)
    if how == "restore":
        ditseed("backup", "run", "--init", "--config", made.config_path, "-R", tmp_path, env=env).ok()
        words = ("backup", "restore", "latest", "-R", tmp_path)
    done = ditseed(*words, *where, env=env).ok()
    assert "slapindex" not in done.out + done.err
    found = differences(oracle.database_dir, consumer.database_dir)
    # A seed by clone writes the contextCSN into the suffix entry again.
    other = [line for line in found if how == "restore" or not line.startswith("id2e: ")]
    assert not other, "\n".join(found)
    _goes_on(consumer)


def test_new_indexes_are_made_by_the_core(servers: tuple[Slapd, Slapd, Slapd]) -> None:
    (made, _, oracle), env = servers, {"DITSEED_TOOLS": openldap_27.tools()}
    where = ("--config", made.config_path, "--apply")
    done = ditseed("tune", "indexes", *where, "--add", "entryUUID eq", "--add", MORE[1], env=env)
    assert "slapindex" not in done.ok().out + done.err
    assert contents.indexes(made.database_dir) == contents.indexes(oracle.database_dir)
    found = differences(oracle.database_dir, made.database_dir)
    assert not found, "\n".join(found)
    _goes_on(made)
