"""The campaign believes no refusal: what it names must be in the file, or in what was drawn."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from fixtures.campaign.copies import refusals
from fixtures.campaign.copies.refusals import Refusal, Untrue
from fixtures.campaign.copies.shapes import VARIANTS, Shape
from fixtures.campaign.ran import Ended
from fixtures.slapd import Slapd

pytestmark = pytest.mark.slapd

PLAIN = Shape(indexes={"cn": ("eq",)})
FEW = replace(PLAIN, multival={"mail": (2, 1), "default": (3, 1)})
SUBSTRINGS = replace(PLAIN, indexes={"cn": ("eq", "sub")})
OTHER_RULE = replace(PLAIN, variants={**dict.fromkeys(VARIANTS, 0), "myText": 1})
LACKS = replace(PLAIN, lacks=frozenset({"myExtra"}), options="lang-")
LONG = replace(PLAIN, numbers={"index_intlen": 20})
APART = (
    "ID 2: cn=a,dc=example,dc=com: {}: {} values in the entry, where multival puts more than {} into id2v; the next "
    "change of the entry loses them"
)
STORED = "myText is stored by SYNTAX 1.2 EQUALITY a, and the configuration has SYNTAX 1.2 EQUALITY b"
NORMAL = "ID 2: cn=a,dc=example,dc=com: {}: the normal form of a value is not that of the value"
OTHERWISE = "/d/data.mdb: made with another configuration than /d/slapd.d: "
MISSING = "the configuration /d/slapd.d does not know "
INDEX = "/d: cannot refresh the database: entries are missing in the index of {}, which was configured later"
TRUE = [
    (FEW, OTHERWISE + APART.format("mail", 3, 2), refusals.MULTIVAL),
    (FEW, OTHERWISE + APART.format("description;lang-de", 4, 3), refusals.MULTIVAL),
    (OTHER_RULE, OTHERWISE + STORED + "; " + NORMAL.format("myText"), refusals.SCHEMA),
    (LACKS, MISSING + "myExtra; description;x-foo-1", refusals.MISSING),
    (LONG, "the indexes cannot be rebuilt for comparison: index_intlen is 20, more than 8", refusals.INTLEN),
    (SUBSTRINGS, INDEX.format("cn"), refusals.INDEX),
]
UNTRUE = [
    (FEW, OTHERWISE + APART.format("mail", 4, 2)),  # there are 3
    (FEW, OTHERWISE + APART.format("mail", 3, 1)),  # of another limit
    (FEW, OTHERWISE + APART.format("cn", 1, 3)),
    (PLAIN, OTHERWISE + APART.format("mail", 3, 2)),
    (PLAIN, OTHERWISE + STORED),
    (OTHER_RULE, OTHERWISE + NORMAL.format("cn")),
    (LACKS, MISSING + "myExtra; sn"),
    (PLAIN, MISSING + "description;x-foo-1"),
    (PLAIN, "the indexes cannot be rebuilt for comparison: index_intlen is 20, more than 8"),
    (PLAIN, INDEX.format("cn")),
    (SUBSTRINGS, INDEX.format("cn, sn")),
    (PLAIN, "/d: cannot refresh the database: the moon is full"),
    (PLAIN, OTHERWISE),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with closing(Slapd(PLAIN.settings(tmp_path_factory.mktemp("shape")))) as server:
        top = f"dn: {server.suffix}\nobjectClass: domain\ndc: example\n\n"
        entry = f"dn: cn=a,{server.suffix}\nobjectClass: inetOrgPerson\ncn: a\nsn: s\n"
        mails = "".join(f"mail: {number}@x\n" for number in range(3))
        more = "".join(f"description;lang-de: {number}\n" for number in range(4))
        server.slapadd(f"{top}{entry}{mails}{more}")
        yield server.database_dir / "data.mdb"


def reasons(asked: Shape, data: Path, message: str) -> tuple[str, ...]:
    done = Ended(1, "", f"WARNING: x\nditseed: {message} [a.code]\nhint: y\n")
    return Refusal(PLAIN, asked, data, changed=False).reasons(done)


@pytest.mark.parametrize(("asked", "message", "reason"), TRUE)
def test_a_true_one(asked: Shape, message: str, reason: str, data: Path) -> None:
    assert reasons(asked, data, message) == (reason,)


@pytest.mark.parametrize(("asked", "message"), UNTRUE)
def test_an_untrue_one(asked: Shape, message: str, data: Path) -> None:
    with pytest.raises(Untrue):
        reasons(asked, data, message)


def test_what_verify_found(data: Path) -> None:
    told = {"message": "the schema does not know the attribute", "id": 2, "dn": "cn=a"}
    found = {"kind": "indexes.schema", "told": [{**told, "attribute": "myExtra"}]}
    done = Ended(1, json.dumps({"problems": [found]}), "ditseed: verify found x [verify.unsound]")
    assert Refusal(PLAIN, LACKS, data, changed=False).reasons(done) == (refusals.MISSING,)
    with pytest.raises(Untrue, match="knows myExtra"):
        Refusal(PLAIN, PLAIN, data, changed=False).reasons(done)
