"""Filters as the native core evaluates them, against what slapd itself answers, over many kinds of values."""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator
from pathlib import Path
from random import Random

import ldap
import pytest

from fixtures.filters import Filters
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader import _native, backmdb
from loader.server import configuration
from loader.sinks import mdb
from loader.syncrepl import Syncrepl

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
FEW, MANY = 300, 2500  # filters
OFFLINE = 40  # of the many, so many are asked of slapcat -a, too
SEED = int(os.environ.get("FILTER_SEED", "20260101"))

VALUES = {
    "cn": ["Ann  Lee", "ann lee", " Bob ", "Żółw", "ŻÓŁW x", "a\u0301e", "áe", "x*y", "(p)", "back\\slash", "ﬁne"],
    "sn": ["Lee", "O'Neil", "de  la  Cruz"],
    "sn;lang-de": ["Leh", "Großmann"],
    "sn;lang-de;lang-fr": ["Beide"],
    "description": ["one two three", "One", "ONE TWO", "1  2"],
    "telephoneNumber": ["+49 30 123-456", "+4930123456", "030 1"],
    "mail": ["a@example.com", "A@Example.COM", "b c@x"],
    "uidNumber": ["0", "7", "10", "-3", "123456789012345678901"],
    "gidNumber": ["5", "50"],
    "manager": [f"cn=Ann Lee,{SUFFIX}", "CN=bob , dc=Example,dc=com", "uid=a\\2Cb,dc=x"],
    "seeAlso": [f"cn=x+sn=y,{SUFFIX}", f"sn=Y+cn=X,{SUFFIX}"],
    "x121Address": ["12 34", "1234", "9"],
    "employeeType": ["clerk", "Engineer"],
    "userPassword": ["secret", "SECRET", "{SSHA}abc"],
    "jpegPhoto": ["bytes"],
    "roomNumber": ["1a", "1B"],
    "preferredLanguage": ["de"],
    "shadowLastChange": ["100"],
    "gecos": ["G E C", "g e c"],
    "homeDirectory": ["/home/a", "/HOME/A"],
}
ASKED = (
    *VALUES,
    *("name", "distinguishedName", "objectClass", "structuralObjectClass", "createTimestamp", "modifyTimestamp"),
    *("entryCSN", "entryUUID", "creatorsName", "commonName", "2.5.4.4", "SN", "sn;lang-fr", "sn;LANG-DE", "sn;x-y"),
    *("unknownType", "labeledURI", "serialNumber", "carLicense", "ou", "subschemaSubentry"),
)
MORE = {
    "objectClass": ["person", "INETORGPERSON", "2.5.6.6", "top", "nonesuch", "1.2.3", "alias", "posixAccount"],
    "structuralObjectClass": ["inetOrgPerson", "person", "account"],
    "createTimestamp": ["20200101000000Z", "20200601000000.5Z", "20200101000000+0200", "2020010100Z", "x"],
    "modifyTimestamp": ["20210101000000Z"],
    "entryCSN": ["20210101000000.000003Z#000000#001#000000", "20210101000000.000007Z#000000#000#000000"],
    "entryUUID": ["00000000-0000-4000-8000-000000000005", "8"],
    "creatorsName": [f"cn=admin,{SUFFIX}", "CN=Clerk"],
}


def entries(random: Random, count: int) -> str:
    made = [f"dn: {SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\no: Example\ndc: example\n"]
    return "\n".join([*made, *(_entry(random, number) for number in range(count))])


def _entry(random: Random, number: int) -> str:
    lines = [f"dn: uid=e{number},{SUFFIX}", "objectClass: inetOrgPerson", "objectClass: posixAccount"]
    lines += ["objectClass: shadowAccount", f"uid: e{number}", "cn: common", "sn: surname"]
    for name, values in VALUES.items():
        count = 1 if name in ("uidNumber", "gidNumber", "homeDirectory") else random.choice((0, 0, 1, 2))
        single = name in ("preferredLanguage", "shadowLastChange", "gecos")
        for value in random.sample(values, min(count, len(values), 1 if single else 9)):
            lines.append(f"{name}:: {base64.b64encode(value.encode()).decode()}")
    lines += [f"entryUUID: 00000000-0000-4000-8000-{number:012}", f"createTimestamp: 2020{number % 12 + 1:02}01000000Z"]
    lines += [f"entryCSN: 20210101000000.{number:06}Z#000000#00{number % 2}#000000"]
    return "\n".join(lines) + "\n"


def drawn(random: Random, count: int) -> Iterator[str]:
    base = {"commonName": "cn", "2.5.4.4": "sn", "SN": "sn", "name": "cn", "distinguishedName": "manager"}
    known, any_value = {**VALUES, **MORE}, [value for values in VALUES.values() for value in values]
    asked = [(name, known.get(base.get(name, name), any_value)) for name in ASKED]
    filters = Filters(random, asked, ("=*", "=", "=", "*", "*", ">=", "<=", ":="))
    return (filters.drawn() for _ in range(count))


@pytest.fixture(scope="module")
def server() -> Iterator[Slapd]:
    made = Slapd(Settings(indexes=("objectClass eq",)))
    made.slapadd(entries(Random(SEED), 60))
    with made:
        yield made


@pytest.fixture(scope="module")
def known(server: Slapd) -> _native.Schema:
    config = configuration.read(server.config_path)
    settings = backmdb.settings(config, config.database(SUFFIX))
    definitions = backmdb.definitions(config, configuration.read_compiled_schema(config))
    return mdb.schema(definitions, settings.attribute_options, False)


def selection(known: _native.Schema, where: str) -> _native.Selection:
    syncrepl = Syncrepl(rid="001", provider="", searchbase=SUFFIX, filter=where)
    return _native.Selection(known, SUFFIX, root_dn=None, last_mod=False, syncrepl=syncrepl, evaluate=True)


def selected(known: _native.Schema, where: str, source: Path, scratch: Path) -> set[str]:
    out = scratch / "out.ldif"
    selection(known, where).select([source], out, scratch / "glue.ldif", [], _native.Counters())
    return names(out.read_text())


def names(text: str) -> set[str]:
    return {line[4:] for line in text.splitlines() if line.startswith("dn: ")}


@pytest.mark.rows(1)
@pytest.mark.parametrize(("filters", "offline"), [(FEW, 4), (MANY, OFFLINE)], ids=["few", "many"])
def test_the_core_answers_as_slapd_does(
    server: Slapd, known: _native.Schema, tmp_path: Path, filters: int, offline: int
) -> None:
    source = tmp_path / "all.ldif"
    source.write_text(server.slapcat())
    wrong, split, refused = [], 0, 0
    with server.connection() as handle:
        for number, where in enumerate(drawn(Random(SEED), filters)):
            try:
                found = selected(known, where, source, tmp_path)
            except _native.NativeError:
                refused += 1
                continue
            wanted = {dn for dn, _ in handle.search_s(SUFFIX, ldap.SCOPE_SUBTREE, where, ["1.1"])}
            split += 0 < len(wanted) < 61
            if found != wanted:
                wrong.append((where, sorted(found ^ wanted)[:3], len(found), len(wanted)))
            if number < offline:
                assert names(server.slapcat("-a", where)) == wanted, where
    assert not wrong, f"{len(wrong)} of {filters} (seed {SEED}): {wrong[:10]}"
    assert split > filters / 6, "most filters told nothing apart"
    assert refused < filters / 10, refused


@pytest.mark.parametrize(
    "where",
    [
        *("(cn~=ann)", "(hasSubordinates=TRUE)", f"(entryDN={SUFFIX})", "(postalAddress=a$b)", "(ou:dn:=people)"),
        *("(cn:caseExactMatch:=Ann)", "(:caseExactMatch:=Ann)", "(cn=a", "(&(cn=a)", "cn", "(cn=a)(sn=b)"),
        *("(objectClass:=person)", "(uniqueMember=cn=a)", "(!" * 2000 + "(cn=a)" + ")" * 2000),
    ],
)
def test_what_it_cannot_answer_is_refused(known: _native.Schema, where: str) -> None:
    with pytest.raises(_native.NativeError) as raised:
        selection(known, where)
    assert raised.value.code == "build.unproven"
