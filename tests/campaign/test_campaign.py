"""The campaigns' own judgement, on a checkout and a schema made here; and, with -m heavy, whole campaigns.

DITSEED_OPENLDAP_SOURCE=~/src/openldap pytest tests/campaign -m heavy -s
"""

from __future__ import annotations

import os
import re
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, nullcontext
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest

from fixtures.campaign import build_and_compare, verdict
from fixtures.campaign.build_and_compare import Environment, Trial
from fixtures.campaign.copies import pair, refusals
from fixtures.campaign.copies.refusals import Refusal, Untrue
from fixtures.campaign.copies.shapes import VARIANTS, Shape
from fixtures.campaign.ran import Ended
from fixtures.campaign.schemas import compared, found_in, loaded
from fixtures.golden.case import server, settings
from fixtures.golden.records import SUFFIX, entry, golden, top
from fixtures.slapd import Slapd
from loader.mdb.verify import AuditReport, Finding, Problem
from tests.support.require import require

pytestmark = pytest.mark.slapd

CAMPAIGN = Path(__file__).parents[2] / "bin" / "campaign"
SOURCE = os.environ.get("DITSEED_OPENLDAP_SOURCE", "")
NO_SOURCE = "DITSEED_OPENLDAP_SOURCE names no checkout of the OpenLDAP that is installed"


@pytest.mark.heavy
@pytest.mark.timeout(0)
@pytest.mark.parametrize(
    ("words", "counted", "least"),
    [
        pytest.param(
            *(f"openldap {SOURCE}", r"^\w+ +(\d+) ", 101), marks=pytest.mark.skipif(not SOURCE, reason=NO_SOURCE)
        ),
        ("schemas", r"^(\d+) configurations or schemas", 90),  # of Debian's packages, which apt-get downloads once
        ("copies", r"^(\d+) pairs", pair.PAIRS),
        ("faults", r"^(\d+) runs", 500),
        ("swaps --seconds 7200", r"^all +(\d+) ", 1),
    ],
)
def test_a_whole_campaign(words: str, counted: str, least: int) -> None:
    command = [str(CAMPAIGN), "--jobs", str(os.cpu_count()), *words.split()]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    print(done.stdout)
    if done.returncode == 2 and "usage: " not in done.stderr:
        require(done.stderr.strip())
    assert done.returncode == 0, done.stderr
    assert sum(map(int, re.findall(counted, done.stdout, re.MULTILINE))) >= least


# --- one configuration, one LDIF ---

SCHEMA = """attributetype ( 1.3.6.1.4.1.4203.666.11.98.1 NAME 'ownText' SUP name )
objectclass ( 1.3.6.1.4.1.4203.666.11.98.2 NAME 'ownClass' SUP top STRUCTURAL MUST cn MAY ( ownText $ memberUid ) )
"""


X = f"cn=x,{SUFFIX}"
BAD = [("objectClass", "gEntry"), ("cn", "x"), ("gBoolean", "perhaps")]
SCATTERED = [("objectClass", "device"), ("cn", "x"), ("description", "a"), ("l", "b"), ("description", "c")]
ALL_EQUAL = dict.fromkeys(("native", "slapadd", "export", "verify"), verdict.EQUAL)
# LDIF, the index that slapadd's side has (ditseed's has `cn eq`), and how the looks come out.
TRIALS = {
    "equal": (top() + golden(X), "cn eq", ALL_EQUAL),
    "what differs": (
        *(top() + golden(X, cn="long enough"), "cn eq,sub"),
        ALL_EQUAL | dict.fromkeys(("native", "slapadd"), verdict.DIFFERS),
    ),
    "a late refusal": (top() + entry(X, BAD), "cn eq", ALL_EQUAL | {"native": verdict.LATE}),
    "what slapadd refuses": ("dn: cn=x\nobjectClass: device\n", "cn eq", {"native": verdict.SKIPPED}),
    # slapadd -q leaves two attributes; slapadd without -q says how the entry should be.
    "values that stand apart": (top() + entry(X, SCATTERED), "cn eq", ALL_EQUAL),
}


@pytest.mark.rows(0, "what slapadd refuses")
@pytest.mark.parametrize("name", TRIALS)
def test_it_comes_out_as_it_is(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build_and_compare, "UNREAD", 1)
    text, oracle, outcomes = TRIALS[name]
    ldif = tmp_path / "in.ldif"
    ldif.write_text(text)
    with ExitStack() as stack:
        servers = [stack.enter_context(closing(server(settings(index)))) for index in (oracle, "cn eq", "cn eq")]
        found = list(Trial("conf", "in.ldif", ldif, SUFFIX, *map(Environment.of, servers)).verdicts())
    assert {one.look: one.outcome for one in found} == outcomes
    assert {one.oracle for one in found} == {verdict.MERGED if "apart" in name else ""}
    assert ("apart" in name) == (f"(compared with {verdict.MERGED})" in verdict.table(found))


@pytest.mark.long
def test_a_schema_with_what_it_needs(tmp_path: Path) -> None:
    (tmp_path / "own.schema").write_text(SCHEMA)
    (tmp_path / "more.schema").write_text("attributetype ( 1.3.6.1.4.1.4203.666.11.98.3 NAME 'ownMore' SUP ownText )\n")
    (tmp_path / "lost.schema").write_text("attributetype ( 1.3.6.1.4.1.4203.666.11.98.4 NAME 'ownLost' SUP nowhere )\n")
    files = found_in("package", tmp_path)
    assert [file.name for file in files] == ["package/lost.schema", "package/more.schema", "package/own.schema"]
    lost, more, own = files
    one = loaded(more, files)
    assert one.before == (own,)
    assert [found.outcome for found in compared(one, tmp_path)] == [verdict.EQUAL] * 4
    assert "nowhere" in loaded(lost, files).lacks


# --- files under another configuration ---


# Seeds of pairs that come out alike in every run: all indexes are made again; an object class is missing.
@pytest.mark.long
@pytest.mark.parametrize(("seed", "outcome"), [(2014, verdict.EQUAL), (1013, verdict.REFUSED)])
def test_one_pair(seed: int, outcome: str) -> None:
    found = list(pair.trials(1, seed))
    assert [one.outcome for one in found] == [outcome], pair.table(found)


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
STORED = "myText is stored according to SYNTAX 1.2 EQUALITY a, but the configuration has SYNTAX 1.2 EQUALITY b"
NORMAL = "ID 2: cn=a,dc=example,dc=com: {}: the normal form of a value is not that of the value"
OTHERWISE = "/d/data.mdb: made with another configuration than /d/slapd.d: "
MISSING = "the configuration /d/slapd.d does not know "
INDEX = "/d: cannot refresh the database: entries are missing in the index of {}, which was configured later"
# Asked configuration, message, and what the reason is called; None: the message is not true.
MESSAGES = [
    (FEW, OTHERWISE + APART.format("mail", 3, 2), refusals.MULTIVAL),
    (FEW, OTHERWISE + APART.format("description;lang-de", 4, 3), refusals.MULTIVAL),
    (OTHER_RULE, OTHERWISE + STORED + "; " + NORMAL.format("myText"), refusals.SCHEMA),
    (LACKS, MISSING + "myExtra; description;x-foo-1", refusals.MISSING),
    (LONG, "the indexes cannot be rebuilt for comparison: index_intlen is 20, more than 8", refusals.INTLEN),
    (SUBSTRINGS, INDEX.format("cn"), refusals.INDEX),
    (FEW, OTHERWISE + APART.format("mail", 4, 2), None),  # there are 3
    (FEW, OTHERWISE + APART.format("mail", 3, 1), None),  # of another limit
    (FEW, OTHERWISE + APART.format("cn", 1, 3), None),
    (PLAIN, OTHERWISE + APART.format("mail", 3, 2), None),
    (PLAIN, OTHERWISE + STORED, None),
    (OTHER_RULE, OTHERWISE + NORMAL.format("cn"), None),
    (LACKS, MISSING + "myExtra; sn", None),
    (PLAIN, MISSING + "description;x-foo-1", None),
    (PLAIN, "the indexes cannot be rebuilt for comparison: index_intlen is 20, more than 8", None),
    (PLAIN, INDEX.format("cn"), None),
    (SUBSTRINGS, INDEX.format("cn, sn"), None),
    (PLAIN, "/d: cannot refresh the database: the moon is full", None),
    (PLAIN, OTHERWISE, None),
]


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with closing(Slapd(PLAIN.settings(tmp_path_factory.mktemp("shape")))) as server:
        pairs = [("objectClass", "inetOrgPerson"), ("cn", "a"), ("sn", "s")]
        pairs += [("mail", f"{number}@x") for number in range(3)]
        pairs += [("description;lang-de", str(number)) for number in range(4)]
        server.slapadd(top() + entry(f"cn=a,{SUFFIX}", pairs))
        yield server.database_dir / "data.mdb"


@pytest.mark.parametrize(("asked", "message", "reason"), MESSAGES)
def test_no_refusal_is_believed(asked: Shape, message: str, reason: str | None, data: Path) -> None:
    """What it names must be in the file, or in what was drawn."""
    done = Ended(1, "", f"WARNING: x\nditseed: {message} [a.code]\nhint: y\n")
    with pytest.raises(Untrue) if reason is None else nullcontext():
        assert Refusal(PLAIN, asked, data, changed=False).reasons(done) == (reason,)


def test_what_verify_found(data: Path) -> None:
    finding = Finding("the schema does not know the attribute", id=2, dn="cn=a", attribute="myExtra")
    report = AuditReport(entries=2, txn=1, problems=(Problem("indexes.schema", 1, (finding,)),))
    done = Ended(1, msgspec.json.encode(report).decode(), "ditseed: verify found x [verify.unsound]")
    assert Refusal(PLAIN, LACKS, data, changed=False).reasons(done) == (refusals.MISSING,)
    with pytest.raises(Untrue, match="knows myExtra"):
        Refusal(PLAIN, PLAIN, data, changed=False).reasons(done)
