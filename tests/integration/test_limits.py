"""A limit that ends a reading: what the hint says, pasted as it stands, lifts it for that identity alone."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures.passwords import write_private
from fixtures.replication import provider
from fixtures.slapd import Slapd
from fixtures.slapd_config import DATABASE, Settings
from fixtures.trees import record, write_people
from loader.errors import LimitTooLow
from tests.support.command import ditseed
from tests.support.nobody import NOBODY
from tests.support.refusal import pasted
from tests.support.require import require
from tests.support.sasl import by_name

pytestmark = pytest.mark.slapd

PEOPLE = 300
WORD = "of a user"
SUFFIX = Settings().suffix
ODD = f"cn=Zoë \\22Q\\22 \\2B 1\\2C two,{SUFFIX}"  # as slapd writes it
OTHER = f"cn=other,{SUFFIX}"
READERS = {ODD: 'Zoë "Q" + 1, two', OTHER: "other"}
STANDING = (
    f'dn.exact="{OTHER}" size=50',
    f'dn.exact="cn=Zoë,{SUFFIX}" size=70',  # ldapsearch prints it in base64
    "users size=100",
    "anonymous size=100",
)


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Slapd]:
    made = provider(
        Settings(
            modules=("back_mdb", "syncprov"),
            global_lines=(
                "sasl-secprops none",
                "sasl-host localhost",
                f'authz-regexp "uid=other,(cn=[^,]*,)*cn=auth" "{OTHER}"',
            ),
        )
    )
    ldif = tmp_path / "people.ldif"
    write_people(ldif, SUFFIX, PEOPLE)
    with ldif.open("a", encoding="utf-8") as file:
        for dn, cn in READERS.items():
            file.write(record(dn, [("objectClass", "person"), ("cn", cn), ("sn", "x"), ("userPassword", WORD)]))
    made.slapadd(ldif)
    with made:
        yield made


def _seen(server: Slapd, dn: str | None) -> int:
    who = ("-D", dn, "-w", WORD) if dn else ()
    command = server.installation.command("ldapsearch", "-x", "-H", server.ldapi_uri, *who, "-b", SUFFIX, "-LLL", "1.1")
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.count("dn:")


def _bind(server: Slapd, way: str, home: Path) -> tuple[str | None, tuple[object, ...]]:
    """The DN that slapd takes one for, None for nobody; and the options."""
    peer = "gidNumber={}+uidNumber={},cn=peercred,cn=external,cn=auth"
    password = home / "password"
    write_private(password, WORD)
    external = ("-H", server.ldapi_uri, "-Y", "EXTERNAL")
    ways: dict[str, tuple[str | None, tuple[object, ...]]] = {
        "external": (peer.format(os.getegid(), os.geteuid()), external),
        "nobody": (peer.format(65534, 65534), external),
        "simple": (ODD, ("-H", server.uri, "-D", ODD, "-y", password)),
        "scram": (OTHER, ("-H", by_name(server.uri), "-Y", "SCRAM-SHA-256", "-U", "other", "-y", password)),
        "anonymous": (None, ("-H", server.uri)),
    }
    return ways[way]


@pytest.mark.rows(1, "external-others")
@pytest.mark.long("anonymous-no others", "nobody-no others", "scram-no others", "simple-no others")
@pytest.mark.parametrize("standing", [(), STANDING], ids=["no others", "others"])
@pytest.mark.parametrize("way", ["external", "nobody", "simple", "scram", "anonymous"])
def test_what_is_printed_lifts_it_for_nobody_else(
    server: Slapd, tmp_path: Path, way: str, standing: tuple[str, ...]
) -> None:
    """The other limits stay, in their order, and the new one applies without a restart."""
    require(None if os.geteuid() == 0 else "only root can become somebody else")
    who, bind = _bind(server, way, tmp_path)
    values = "".join(f"olcLimits: {{{n}}}{one}\n" for n, one in enumerate(standing))
    change = f"dn: {DATABASE}\nchangetype: modify\nreplace: olcLimits\n{values}-\n"
    server.configure(f"{change}replace: olcSizeLimit\nolcSizeLimit: 100\n")
    before = {dn: _seen(server, dn) for dn in (*READERS, None) if dn != who}
    assert set(before.values()) <= {50, 100}
    with tempfile.TemporaryDirectory() as place:  # tmp_path lets nobody in
        os.chmod(place, 0o777)
        env = {"DITSEED_STATE_DIR": place}
        command = ("export", *bind, "-b", SUFFIX, "-o", f"{place}/out", "--jobs", 1)
        prefix = NOBODY if way == "nobody" else ()
        done = ditseed(*command, prefix=prefix, env=env)
        done.refused(LimitTooLow, f" of {who or 'anonymous'} is too low")
        text = pasted(done.err).replace("ldapi:///", server.ldapi_uri)
        subprocess.run(["sh", "-eu"], input=text, text=True, check=True, stdout=subprocess.DEVNULL)
        ((_, values),) = server.search("(olcLimits=*)", ("olcLimits",), base=DATABASE, external=True)
        first, *others = [value.decode() for value in values["olcLimits"]]
        assert first.startswith(f'{{0}}dn.exact="{who}" ' if who else "{0}anonymous ")
        left = [one for one in standing if who or not one.startswith("anonymous ")]
        assert [one.partition("}")[2] for one in others] == left
        ditseed(*command, prefix=prefix, env=env).ok()
    assert {dn: _seen(server, dn) for dn in before} == before
