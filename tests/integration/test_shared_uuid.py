"""Entries that share their entryUUID: slapadd takes them, and each is an entry of its own."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

from loader.errors import SharedUuid
from tests.support.command import ditseed
from tests.support.seeding import Pair, pair
from tests.support.stopping import begin
from tests.support.trees import assert_same

pytestmark = pytest.mark.slapd

TWINS = ("cn=one,dc=example,dc=com", "cn=two,dc=example,dc=com")
PERSON = "objectClass: person\nsn: twin\nentryUUID: 11111111-2222-4333-8444-555555555555\n"


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("twins"), 20) as made:
        provider = made.provider
        ldif = made.scratch / "twins.ldif"
        ldif.write_text("\n".join(f"dn: {dn}\n{PERSON}" for dn in TWINS))
        provider.stop()
        provider.slapadd(ldif)
        provider.start()
        # Its CSN goes beyond those of slapadd's entries into contextCSN, which slapadd left as it was.
        provider.ldapmodify(_change(TWINS[0], "later"))
        yield made


def _change(dn: str, description: str) -> str:
    return f"dn: {dn}\nchangetype: modify\nreplace: description\ndescription: {description}\n"


def _expect_named(status: int, err: str) -> None:
    assert status == SharedUuid.exit_status, err
    assert "11111111-2222-4333-8444-555555555555" in err
    assert all(dn in err for dn in TWINS), err


def test_an_export_is_refused_with_both_names(both: Pair, tmp_path: Path) -> None:
    done = ditseed("export", *both.bind, "-b", both.provider.suffix, "-o", tmp_path / "out")
    _expect_named(done.status, done.err)
    assert not list((tmp_path / "out").glob("*.ldif*"))


def test_a_seeding_by_way_of_an_export_is_refused(both: Pair) -> None:
    done = ditseed(*both.seed("search", "--keep-export", both.scratch / "kept"))
    _expect_named(done.status, done.err)
    assert not (both.consumer.database_dir / "data.mdb").exists()


def test_one_that_changed_while_it_was_read_does_not_overtake_the_other(both: Pair) -> None:
    seeding = begin(both, ("plan.recorded",))
    seeding.wait_for_stop()
    both.provider.ldapmodify(_change(TWINS[0], "changed"))
    seeding.go_on()
    _, err = seeding.process.communicate(timeout=300)
    _expect_named(seeding.process.returncode, err)
    assert not (both.consumer.database_dir / "data.mdb").exists()


def test_a_seeding_at_once_has_both(both: Pair) -> None:
    ditseed(*both.seed("search", "--restart")).ok()
    assert_same(both.provider, both.consumer)
    names = re.findall(r"(?m)^dn: (cn=(?:one|two),.*)$", both.consumer.slapcat())
    assert sorted(names) == sorted(TWINS)
