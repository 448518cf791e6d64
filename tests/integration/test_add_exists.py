"""`ditseed add` where entries are there already: --on-exists, in all of its four ways."""

from __future__ import annotations

from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from loader import errors
from tests.support.adding import OPERATIONAL, SUFFIX, TOP, accounted, add, entry, facts, names, people, person, write

pytestmark = pytest.mark.slapd

ONE = f"cn=one,{SUFFIX}"
OLD, NEW = "20200101000000.000000Z#000000#000#000000", "20991231000000.000000Z#000000#000#000000"


@pytest.fixture
def held(slapd_instance: Slapd) -> Slapd:
    """A server that has the top, `one`, and some of the people."""
    more = (("description", "old"), ("telephoneNumber", "1"))
    slapd_instance.ldapadd(TOP + person("one", SUFFIX, *more) + people(7))
    return slapd_instance


@pytest.fixture
def ldif(tmp_path: Path) -> Path:
    """The same, `one` otherwise, and more."""
    one = person("one", SUFFIX, ("description", "new"), sn="Changed")
    return write(tmp_path / "x.ldif", TOP, one, people(20))


def _description(server: Slapd) -> list[bytes]:
    return entry(server, ONE)["description"]


def test_an_error(held: Slapd, ldif: Path, tmp_path: Path) -> None:
    """What is there is rejected, and stays as it is; all else is added."""
    kept = tmp_path / "kept.ldif"
    done = add(held, ldif, "--max-rejects", 9, "--rejects", kept, "--json")
    assert done.status == errors.EXIT_DIFFERENT, done
    told = done.facts
    assert (told["added"], told["rejected"]) == (13, 9)
    assert accounted(told)
    assert kept.read_text().count("# entryAlreadyExists (68)\n") == 9
    assert f"# {ldif}, line 5\n" in kept.read_text()
    assert _description(held) == [b"old"]
    assert len(names(held)) == 22


def test_an_error_too_many(held: Slapd, ldif: Path) -> None:
    done = add(held, ldif, "--max-rejects", 8)
    assert done.status == errors.AddRefused.exit_status, done
    assert "entryAlreadyExists (68)" in done.err


def test_skipped(held: Slapd, ldif: Path) -> None:
    told = facts(held, ldif, "--on-exists", "skip")
    assert (told["added"], told["present"], told["replaced"]) == (13, 9, 0)
    assert _description(held) == [b"old"]


def test_replaced(held: Slapd, ldif: Path) -> None:
    """The user attributes become those of the LDIF; what is equal is not touched."""
    before = entry(held, f"cn=p1,{SUFFIX}")["entryCSN"]
    told = facts(held, ldif, "--on-exists", "replace")
    assert (told["added"], told["present"], told["replaced"]) == (13, 8, 1)
    found = entry(held, ONE)
    assert (found["description"], found["sn"]) == ([b"new"], [b"Changed"])
    assert "telephoneNumber" not in found
    assert entry(held, f"cn=p1,{SUFFIX}")["entryCSN"] == before


def test_a_replacement_that_the_server_refuses(held: Slapd, tmp_path: Path) -> None:
    """Its structural object class cannot change."""
    text = f"dn: {ONE}\nobjectClass: organizationalRole\ncn: one\n\n"
    path, kept = write(tmp_path / "x.ldif", text, people(3)), tmp_path / "kept.ldif"
    options = ("--on-exists", "replace", "--max-rejects", 1, "--rejects", kept, "--json")
    done = add(held, path, *options)
    assert (done.status, done.facts["rejected"], done.facts["present"]) == (1, 1, 3), done
    assert "# objectClassModsProhibited (69): structural object class" in kept.read_text()


@pytest.mark.parametrize(
    ("stamp", "replaced"),
    [
        (("entryCSN", OLD), 0),
        (("entryCSN", NEW), 1),
        (("modifyTimestamp", "20200101000000Z"), 0),
        (("modifyTimestamp", "20991231000000Z"), 1),
        (("description", "without a stamp"), 0),
    ],
    ids=lambda value: str(value),
)
def test_newer(held: Slapd, tmp_path: Path, stamp: tuple[str, str], replaced: int) -> None:
    one = person("one", SUFFIX, ("description", "new"), stamp)
    path = write(tmp_path / "x.ldif", one, people(20))
    told = facts(held, path, "--on-exists", "newer")
    assert (told["replaced"], told["present"]) == (replaced, 8 - replaced)
    assert (b"new" in _description(held)) == bool(replaced)


def test_one_dn_twice(slapd_instance: Slapd, tmp_path: Path) -> None:
    """The first one stays."""
    again = person("p3", SUFFIX, ("description", "again"))
    path, kept = write(tmp_path / "x.ldif", TOP, people(9), again), tmp_path / "kept.ldif"
    done = add(slapd_instance, path, "--max-rejects", 1, "--rejects", kept, "--json")
    assert (done.status, done.facts["added"], done.facts["rejected"]) == (1, 10, 1), done
    assert "description: again" in kept.read_text()
    assert "description" not in entry(slapd_instance, f"cn=p3,{SUFFIX}")


def test_other_spellings_are_the_same_entry(held: Slapd, tmp_path: Path) -> None:
    """Of the DN, and of attribute names."""
    text = f"dn: CN=one , {SUFFIX.upper()}\nobjectClass: person\ncommonName: one\nsurname: Test\n"
    path = write(tmp_path / "x.ldif", text + "description: old\ntelephoneNumber: 1\n\n")
    told = facts(held, path, "--on-exists", "replace")
    assert (told["present"], told["replaced"]) == (1, 0)


@pytest.mark.parametrize("how", ["replace", "newer"])
def test_operational_attributes_that_clients_set(held: Slapd, tmp_path: Path, how: str) -> None:
    """Servers show the `ref` of a referral, or a subtreeSpecification, to those only who name it."""
    ldif = write(tmp_path / "x.ldif", *OPERATIONAL)
    assert facts(held, ldif)["added"] == 2
    assert facts(held, ldif, "--restart", "--on-exists", how)["present"] == 2
    ldif.write_text(ldif.read_text().replace("ldap://a/", "ldap://b/"))
    assert facts(held, ldif, "--restart", "--on-exists", "replace")["replaced"] == 1
