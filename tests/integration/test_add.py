"""`ditseed add` into a running slapd: everything arrives, once, whatever the order, the form and the way."""

from __future__ import annotations

import gzip
import random
import time
from pathlib import Path

import pytest
import zstandard

from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import write_hard_tree
from loader import errors
from tests.support.adding import (
    SUFFIX,
    TOP,
    accounted,
    add,
    command,
    entry,
    facts,
    names,
    names_in,
    people,
    person,
    unit,
    write,
)
from tests.support.command import Done, piped
from tests.support.trees import tree

pytestmark = pytest.mark.slapd

USER_ATTRIBUTES = ("*",)


def test_everything_arrives(slapd_instance: Slapd, people_ldif: Path) -> None:
    told = facts(slapd_instance, people_ldif)
    assert accounted(told)
    assert told["added"] == told["read"] == people_ldif.read_text().count("\n\n")
    assert told["transactions"] > 0
    assert names(slapd_instance) == names_in(people_ldif.read_text())


def test_done_twice_it_does_nothing(slapd_instance: Slapd, people_ldif: Path) -> None:
    add(slapd_instance, people_ldif).ok()
    before = slapd_instance.context_csns(), slapd_instance.log_size()
    again = add(slapd_instance, people_ldif).ok()
    assert "load: done before" in again.err
    assert slapd_instance.context_csns() == before[0]
    assert not slapd_instance.log_lines(" ADD dn=", start=before[1])


def test_a_tree_of_everything_that_is_hard(slapd_instance: Slapd, tmp_path: Path) -> None:
    """Values and DNs come out as slapadd stores them."""
    path = tmp_path / "hard.ldif"
    write_hard_tree(path, SUFFIX)
    facts(slapd_instance, path)
    other = Slapd()
    try:
        other.slapadd(path)
        stored, expected = tree(slapd_instance.slapcat()), tree(other.slapcat())
    finally:
        other.close()
    assert stored.keys() == expected.keys()
    operational = ("entryUUID", "entryCSN", "creatorsName", "createTimestamp", "modifiersName")
    ours = (*operational, "modifyTimestamp", "contextCSN", "structuralObjectClass")
    for dn, lines in expected.items():
        plain = {line for line in lines if not line.startswith(ours)}
        assert {line for line in stored[dn] if not line.startswith(ours)} == plain, dn


@pytest.mark.parametrize("form", ["zst", "gz", "several", "stdin", "directory"])
def test_every_form_of_input(slapd_instance: Slapd, tmp_path: Path, form: str) -> None:
    text = TOP + unit("a") + people(50, f"ou=a,{SUFFIX}")
    if form == "zst":
        (tmp_path / "x.ldif.zst").write_bytes(zstandard.compress(text.encode()))
        add(slapd_instance, tmp_path / "x.ldif.zst").ok()
    elif form == "gz":
        (tmp_path / "x.ldif.gz").write_bytes(gzip.compress(text.encode()))
        add(slapd_instance, tmp_path / "x.ldif.gz").ok()
    elif form == "several":
        cut = text.index("dn: cn=p20,")
        one = write(tmp_path / "1.ldif", text[:cut])
        add(slapd_instance, one, write(tmp_path / "2.ldif", text[cut:])).ok()
    elif form == "directory":
        write(tmp_path / "1.ldif", text)
        add(slapd_instance, tmp_path).ok()
    else:
        _piped(slapd_instance, text, "-").ok()
    assert names(slapd_instance) == names_in(text)


def _piped(server: Slapd, text: str, *arguments: object) -> Done:
    return piped(text.encode(), *command(server, *arguments))


def test_a_stream_that_was_cut_is_noticed(slapd_instance: Slapd) -> None:
    """Its last record alone lacks what all others have."""
    stamped = [person(f"s{n}", SUFFIX, ("entryCSN", f"2026010100000{n}.000000Z#000000#000#000000")) for n in range(5)]
    text = TOP.rstrip() + "\nentryCSN: 20260101000000.000000Z#000000#000#000000\n\n" + "".join(stamped)
    done = _piped(slapd_instance, text[: text.rindex("entryCSN:")], "-")
    assert done.status == errors.LdifTruncated.exit_status, done


@pytest.mark.parametrize("jobs", [1, 3])
@pytest.mark.parametrize("order", ["reverse", "shuffled"])
def test_children_before_parents(slapd_instance: Slapd, tmp_path: Path, jobs: int, order: str) -> None:
    """Across batches and connections; in the end all of them are there."""
    deep, above = [TOP], SUFFIX
    for level in range(8):
        deep.append(unit(f"l{level}", above))
        above = f"ou=l{level},{above}"
        deep += [person(f"q{level}-{n}", above) for n in range(40)]
    chance = random.Random(7)
    shuffled = deep[::-1] if order == "reverse" else chance.sample(deep, len(deep))
    path = write(tmp_path / "late.ldif", *shuffled)
    told = facts(slapd_instance, path, "--jobs", jobs, "--batch", 10)
    assert told["added"] == len(deep)
    assert told["waited_for_parents"] > 0
    assert names(slapd_instance) == names_in("".join(deep))


@pytest.mark.long("1")
@pytest.mark.parametrize("batch", ["auto", "1", "7"])
def test_many_containers_over_many_connections(slapd_instance: Slapd, tmp_path: Path, batch: str) -> None:
    """Each begins a batch that others depend on. No child has to be tried twice."""
    texts = [TOP]
    for number in range(60):
        texts.append(unit(f"u{number}"))
        texts += [person(f"c{number}-{n}", f"ou=u{number},{SUFFIX}") for n in range(9)]
    told = facts(slapd_instance, write(tmp_path / "x.ldif", *texts), "--jobs", 4, "--batch", batch)
    assert told["added"] == len(texts)
    assert told["waited_for_parents"] == 0
    assert bool(told["transactions"]) == (batch != "1")


def test_a_parent_that_never_comes(slapd_instance: Slapd, tmp_path: Path) -> None:
    lost = f"ou=nowhere,{SUFFIX}"
    text = TOP + person("lost", lost) + person("below", f"cn=lost,{lost}") + people(30)
    path, kept = write(tmp_path / "x.ldif", text), tmp_path / "rejects.ldif"
    done = add(slapd_instance, path, "--max-rejects", 2, "--rejects", kept, "--json")
    assert done.status == errors.EXIT_DIFFERENT, done
    assert (done.facts["added"], done.facts["rejected"]) == (31, 2)
    assert kept.read_text().count("# noSuchObject (32)") == 2


def test_operational_attributes_stay_at_home(slapd_instance: Slapd, tmp_path: Path) -> None:
    """And the server's own are made."""
    uuid = "11111111-2222-4333-8444-555555555555"
    stamps = (("entryUUID", uuid), ("createTimestamp", "20200101000000Z"), ("entryDN", "cn=x"))
    path = write(tmp_path / "x.ldif", TOP, person("one", SUFFIX, *stamps))
    told = facts(slapd_instance, path)
    assert told["values_left_out"] == 3
    assert entry(slapd_instance, f"cn=one,{SUFFIX}")["entryUUID"] != [uuid.encode()]


def test_operational_attributes_on_request(slapd_instance: Slapd, tmp_path: Path) -> None:
    """With the relax control, those that slapd lets a manager set."""
    uuid = "11111111-2222-4333-8444-555555555555"
    csn = "20200101000000.000000Z#000000#000#000000"
    stamps = (
        *(("entryUUID", uuid), ("createTimestamp", "20200101000000Z"), ("entryCSN", csn)),
        *(("creatorsName", "cn=somebody"), ("structuralObjectClass", "person")),
    )
    path = write(tmp_path / "x.ldif", TOP, person("one", SUFFIX, *stamps), people(5))
    told = facts(slapd_instance, path, "--keep-operational")
    found = entry(slapd_instance, f"cn=one,{SUFFIX}")
    assert found["entryUUID"] == [uuid.encode()]
    assert found["createTimestamp"] == [b"20200101000000Z"]
    assert found["creatorsName"] == [b"cn=somebody"]
    assert found["entryCSN"] != [csn.encode()]
    assert told["values_left_out"] == 2


def test_no_faster_than_asked(slapd_instance: Slapd, tmp_path: Path) -> None:
    path = write(tmp_path / "x.ldif", TOP, people(299))
    began = time.monotonic()
    facts(slapd_instance, path, "--max-rate", 100)
    assert time.monotonic() - began > 1.9


def test_dry_run_adds_nothing(slapd_instance: Slapd, tmp_path: Path) -> None:
    path = write(tmp_path / "x.ldif", TOP, person("one", SUFFIX, ("entryUUID", "x")))
    told = facts(slapd_instance, path, "--dry-run")
    assert (told["entries"], told["transactions"]) == (2, True)
    assert told["left_out"] == ["entryuuid"]
    assert not slapd_instance.log_lines(" ADD dn=")


def test_values_of_one_attribute_apart(slapd_instance: Slapd, tmp_path: Path) -> None:
    text = record_apart()
    facts(slapd_instance, write(tmp_path / "x.ldif", TOP, text))
    found = entry(slapd_instance, f"cn=apart,{SUFFIX}")
    assert sorted(found["description"]) == [b"one", b"two"]


def record_apart() -> str:
    lines = ("objectClass: person", "description: one", "cn: apart", "DESCRIPTION: two", "sn: x")
    return "\n".join([f"dn: cn=apart,{SUFFIX}", *lines]) + "\n\n"


def test_a_server_with_two_databases(short_tmp: Path, tmp_path: Path) -> None:
    """No transaction spans both."""
    other = short_tmp / "other"
    other.mkdir(mode=0o700)
    with_other = Slapd(directory=short_tmp / "server", form="conf")
    try:
        conf = with_other.home / "slapd.conf"
        lines = ("database mdb", 'suffix "o=other"', f"directory {other}", f'rootdn "{with_other.root_dn}"')
        conf.write_text("\n".join([conf.read_text(), *lines, ""]))
        there = TOP + "dn: o=other\nobjectClass: organization\no: other\n\n"
        mixed = "".join(person(f"m{n}", SUFFIX if n % 3 else "o=other") for n in range(60))
        with with_other:
            told = facts(with_other, write(tmp_path / "x.ldif", there, mixed))
            assert told["added"] == 62
            assert len(with_other.search(base="o=other", attributes=("1.1",))) == 21
    finally:
        with_other.close()


@pytest.mark.long
def test_large_and_small_batches_make_the_same(people_ldif: Path) -> None:
    found = []
    for options in (("--batch", 1), ("--batch", 13, "--jobs", 3), ()):
        with Slapd(Settings()) as server:
            facts(server, people_ldif, *options)
            found.append(
                sorted((dn, sorted(values.items())) for dn, values in server.search(attributes=USER_ATTRIBUTES))
            )
    assert found[0] == found[1] == found[2]
