"""What a name on a command line stands for, and what is said if a verb cannot take it."""

from __future__ import annotations

import os
import struct
from pathlib import Path

import pytest

from loader.errors import ManifestBroken, NoSuchPath, NoSuchTemplate, NotPermitted, UsageProblem
from loader.ldif import RUN_DIR
from loader.mdb.meta import MAGIC
from loader.sources.location import Kind, ldif_inputs, locate
from tests.support.command import ditseed
from tests.support.generating import PEOPLE

RECORD = "dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n"


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """One of each kind, in the working directory."""
    monkeypatch.chdir(tmp_path)
    for name in ("a.ldif", "b.ldif", "slapd.conf", "ours.toml", "ldif/1.ldif"):
        Path(name).parent.mkdir(exist_ok=True)
        Path(name).write_text(RECORD)
    for name in ("database/data.mdb", "slapd.d/cn=config.ldif"):
        Path(name).parent.mkdir()
        Path(name).write_bytes(b"")
    Path("copy").write_bytes(bytes(16) + struct.pack("=I", MAGIC) + bytes(100))
    Path("empty").mkdir()
    os.mkfifo("pipe")
    return tmp_path


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        *((text, Kind.SERVER) for text in ("ldap://host", "LDAPI:///")),
        *((text, Kind.DATABASE) for text in ("database", "mdb:empty")),
        *((text, Kind.DATA_FILE) for text in ("database/data.mdb", "copy")),
        *((text, Kind.CONFIGURATION) for text in ("slapd.d", "slapd.conf")),
        ("ours.toml", Kind.TEMPLATE),
        *((text, Kind.LDIF) for text in ("a.ldif", "ldif", "*.ldif")),
        *((text, Kind.STREAM) for text in ("-", "pipe", "/dev/null")),
    ],
)
def test_each_kind_is_known_and_refused_by_its_name(text: str, kind: Kind) -> None:
    assert locate(text, *Kind).kind is kind
    with pytest.raises(UsageProblem) as caught:
        locate(text, *(one for one in Kind if one is not kind))
    assert f"{text} is {'not a database' if text == 'ldif' else kind.value}" in str(caught.value)


def test_paths() -> None:
    assert locate("*.ldif", Kind.LDIF).paths == (Path("a.ldif"), Path("b.ldif"))
    assert locate("mdb:empty", Kind.DATABASE).path == Path("empty")
    assert ldif_inputs(["ldif", "-", "?.ldif"]) == tuple(map(Path, ("ldif", "-", "a.ldif", "b.ldif")))


def test_a_template_is_found_by_its_name_or_its_path() -> None:
    found = locate("people", Kind.TEMPLATE)
    assert (found.path, bool(found.lists)) == (PEOPLE, True)
    assert locate("ours.toml", Kind.TEMPLATE).path == Path("ours.toml")
    with pytest.raises(UsageProblem, match="; a template is expected here"):
        locate("database", Kind.TEMPLATE)
    with pytest.raises(NoSuchTemplate):
        locate("poeple", Kind.TEMPLATE)


@pytest.mark.parametrize("text", ["nowhere", "nowhere/*.ldif", "people", "a.ldif/x"])
def test_nothing_of_that_name(text: str) -> None:
    with pytest.raises(NoSuchPath):
        locate(text, *Kind)


def test_what_is_there_and_cannot_be_read() -> None:
    with pytest.raises(UsageProblem, match="no LDIF files in this directory"):
        locate("empty", *Kind)
    (Path("ldif") / RUN_DIR).mkdir()
    with pytest.raises(ManifestBroken, match="has not ended"):
        locate("ldif", *Kind)
    if os.geteuid() != 0:
        Path("a.ldif").chmod(0)
        with pytest.raises(NotPermitted):
            locate("a.ldif", Kind.LDIF)


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("build database --config slapd.d", "database is a database directory: `ditseed export`"),
        ("build ldap://host --config slapd.d", "ldap://host is a server: give it with -H"),
        ("build slapd.d --config slapd.d", "slapd.d is a configuration of slapd"),
        ("add ours.toml -H ldapi:///", "ours.toml is a template: give it with --from"),
        ("export a.ldif -o out", "a.ldif is LDIF: `ditseed build`"),
        ("export ldif -o out", "ldif is not a database directory: it contains no data.mdb"),
        ("generate learn slapd.d -o t.toml", "slapd.d is a configuration of slapd"),
        ("generate learn a.ldif database -o t.toml", "database is a database directory"),
        ("generate ldap://host", "ldap://host is a server"),
        ("verify a.ldif", "a.ldif is LDIF"),
        ("verify slapd.d", "slapd.d is a configuration of slapd"),
        ("compare a.ldif copy", "copy is a data file of LMDB"),
        ("compare pipe a.ldif --show-attributes", "pipe is a stream: save it to a file first"),
        ("compare - -", "- (standard input) is given twice"),
    ],
)
def test_every_verb_refuses_what_it_cannot_take(command: str, said: str) -> None:
    ditseed(*command.split()).refused(UsageProblem, said)
    assert not Path("out").exists()
