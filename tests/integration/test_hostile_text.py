"""Text from outside reaches neither the terminal nor a log as it is: control characters, line breaks and bidirectional
controls are written out, long values are cut. Checked on the bytes that a process wrote."""

from __future__ import annotations

import base64
import json
import os
import re
import socketserver
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from loader.ldif import MANIFEST
from tests.support.adding import SUFFIX, TOP, write
from tests.support.command import piped

pytestmark = pytest.mark.slapd

TURNS = "\u202e\u2066\u200f\u061c"
# A title for the terminal, its screen cleared, a forged line, colours, C1, a turned direction.
HOSTILE = f"A\x1b]0;owned\x07\x1b[2J\r\nditseed: all is well [ok]\x00\x7f\x9b31m{TURNS}\x08Z"
RAW = re.compile(f"[\x00-\x09\x0b-\x1f\x7f-\x9f\u2028\u2029{TURNS}\u202a-\u202e\u2066-\u2069]")
LONG = "L" * 5000


def _run(*command: object, stdin: bytes = b"") -> tuple[int, str]:
    """Exit status, and all that it said; which must be UTF-8 and hold nothing that a terminal obeys."""
    done = piped(stdin, *command)
    said = done.out + done.err
    found = RAW.search(said)
    assert found is None, (found, said)
    lines = said.splitlines()
    assert not [one for one in lines if one.startswith(("ditseed: all is well", "Traceback")) or len(one) >= 4000], said
    assert done.status >= 0, said
    return done.status, said


def _put(tag: int, body: bytes) -> bytes:
    count = len(body)
    length = bytes([count]) if count < 128 else b"\x84" + count.to_bytes(4, "big")
    return bytes([tag]) + length + body


def _answer(asked: bytes, text: bytes, refuse: int) -> bytes:
    """A BER LDAPMessage for the one at the beginning of `asked`: its result has `text`. Binds succeed, if `refuse` is
    not that of a bind (0x60)."""
    at = 2 + (asked[1] & 0x7F if asked[1] & 0x80 else 0)
    number = asked[at : at + 2 + asked[at + 1]]
    operation = asked[at + 2 + asked[at + 1]]
    status = 53 if operation == refuse or refuse == 0 else 0
    kinds = {0x60: 0x61, 0x63: 0x65, 0x77: 0x78, 0x66: 0x67, 0x68: 0x69, 0x4A: 0x6B}
    if operation not in kinds:
        return b""
    result = _put(0x0A, bytes([status])) + _put(4, text) + _put(4, text)
    return _put(0x30, number + _put(kinds[operation], result))


@contextmanager
def _server(text: bytes, refuse: int) -> Iterator[str]:
    """LDAP by hand: slapd has no hostile words. Its matched DN and its diagnostic message are `text`."""

    class Talk(socketserver.BaseRequestHandler):
        def handle(self) -> None:
            with suppress(OSError, IndexError):
                while asked := self.request.recv(65536):
                    self.request.sendall(_answer(asked, text, refuse))

    with socketserver.ThreadingTCPServer(("127.0.0.1", 0), Talk) as listener:
        listener.daemon_threads = True
        threading.Thread(target=listener.serve_forever, args=(0.05,)).start()
        try:
            yield f"ldap://127.0.0.1:{listener.server_address[1]}"
        finally:
            listener.shutdown()


ASKING = {
    "export": f"export -H {{uri}} -b {SUFFIX} -o {{tmp}}/out",
    "add": "add {tmp}/x.ldif -H {uri}",
    "compare": f"compare {{uri}} {{tmp}}/x.ldif -b {SUFFIX}",
    "tune": f"tune maxsize -H {{uri}} -b {SUFFIX}",
    "release": f"replica release -H {{uri}} -b {SUFFIX}",
    "online": f"replica seed --strategy online --from {{tmp}}/x.ldif --consumer {{uri}} -b {SUFFIX}",
}


@pytest.mark.rows(12)
@pytest.mark.parametrize("bind", [True, False], ids=["of the bind", "of the search"])
@pytest.mark.parametrize("verb", ASKING)
@pytest.mark.parametrize("text", [HOSTILE.encode(), b"\xff\xfe\x1b[31m\xc3", (HOSTILE + LONG).encode()])
def test_the_diagnostic_message_of_a_server(tmp_path: Path, verb: str, bind: bool, text: bytes) -> None:
    (tmp_path / "x.ldif").write_text(TOP)
    with _server(text, 0x60 if bind else 0x63) as uri:
        status, said = _run(*ASKING[verb].format(uri=uri, tmp=tmp_path).split())
    if verb != "release":  # which then knows of no lease
        assert status != 0
        assert "hint:" in said


def _base64(text: str) -> str:
    return base64.b64encode(text.encode("utf-8", "surrogateescape")).decode()


def _ldif(path: Path, name: str) -> Path:
    """A DN, a value and an attribute description that somebody made up."""
    escaped = "".join(one if one.isalnum() else f"\\{ord(one):02x}" for one in name if ord(one) < 128)
    dn = f"cn={name},{SUFFIX}".replace("\x00", "")
    records = [
        TOP.strip(),
        f"dn:: {_base64(dn)}\nobjectClass: person\ncn:: {_base64(name)}\nsn: x\nunknown{LONG[:300]}:: {_base64(name)}",
        f"dn: cn={escaped},{SUFFIX}\nobjectClass:: {_base64(name)}\ncn: x\nsn: x",
    ]
    path.write_text("\n\n".join(records) + "\n")
    return path


SEED = f"replica seed --strategy ldif --from {{path}} --config {{config}} -b {SUFFIX}"
LOADING = {
    "build": f"build {{path}} --config {{config}} -b {SUFFIX} --max-rejects 9",
    "build, slapadd": f"build {{path}} --config {{config}} -b {SUFFIX} --engine slapadd",
    "add": "add {path} -H {ldapi} -Y EXTERNAL --max-rejects 9",
    "compare": "compare {path} {top} --limit 9",
    "learn": "generate learn {path} -o {path}.toml",
    "seed": SEED,
    "dry run": f"{SEED} --dry-run",
}


@pytest.mark.rows(7)
@pytest.mark.parametrize("name", [HOSTILE, HOSTILE + LONG, "a\x1b[2J\x00" + TURNS])
@pytest.mark.parametrize("verb", LOADING)
def test_hostile_names_and_values(tmp_path: Path, verb: str, name: str) -> None:
    path = _ldif(tmp_path / "x.ldif", name)
    with closing(Slapd()) as server:
        if verb == "add":
            server.start()
        names = {"path": path, "config": server.config_path, "ldapi": server.ldapi_uri}
        _run(*LOADING[verb].format(**names, top=write(tmp_path / "top.ldif", TOP)).split())
    for rejects in tmp_path.rglob("rejects.ldif"):
        comments = [one for one in rejects.read_text().splitlines() if one.startswith("#")]
        assert not RAW.search("".join(comments))


def test_json_holds_what_is_there(tmp_path: Path) -> None:
    name = HOSTILE.replace("\x00", "")
    (tmp_path / "x.ldif").write_text(f"{TOP}\ndn:: {_base64(f'cn={name},{SUFFIX}')}\ncn: x\n")
    _, said = _run("compare", tmp_path / "x.ldif", write(tmp_path / "top.ldif", TOP), "--json", "--progress", "none")
    assert json.loads(said)["samples"][0]["dn"] == f"cn={name},{SUFFIX}"


def test_a_database_with_such_names(tmp_path: Path) -> None:
    dn, cn = (_base64(one) for one in (f"cn=a{TURNS}\x1b[2J\x07b,{SUFFIX}", f"a{TURNS}\x1b[2J\x07b"))
    with closing(Slapd()) as made:
        made.slapadd(f"{TOP}\ndn:: {dn}\nobjectClass: device\ncn:: {cn}\n")
        status, said = _run("compare", made.database_dir, write(tmp_path / "top.ldif", TOP))
        assert status == 1
        assert "\\u202e" in said
        _run("verify", made.database_dir, "--verify", "tree")
        _run("export", made.database_dir, "-b", f"cn=nowhere{TURNS}\x1b[2J,{SUFFIX}", "-o", tmp_path / "o")


NAMES = [b"a\x1b[2J\nditseed: all is well\xe2\x80\xae", b"not\xff\xfeUTF-8\x1b]0;x\x07"]
FILES: dict[str, Callable[[str, Path], tuple[object, ...]]] = {
    "build": lambda place, tmp: ("build", f"{place}/x.ldif", "--config", f"{place}/slapd.d"),
    "compare": lambda place, tmp: ("compare", f"{place}/x.ldif", f"{place}/none"),
    "export": lambda place, tmp: ("export", place, "-o", tmp / "out"),
    "clone": lambda place, tmp: ("clone", place, tmp / "out"),
    "verify": lambda place, tmp: ("verify", place),
    "learn": lambda place, tmp: ("generate", "learn", f"{place}/x.ldif", "-o", "-"),
    "generate": lambda place, tmp: ("generate", f"{place}/x.ldif", "-n", "3", "-o", "-"),
    "backup": lambda place, tmp: ("backup", "list", "-R", place),
    "option": lambda place, tmp: ("export", f"--{place}"),
}


@pytest.mark.rows(6)
@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("verb", FILES)
def test_names_of_files(tmp_path: Path, verb: str, name: bytes) -> None:
    place = os.fsdecode(os.fsencode(tmp_path) + b"/" + name)
    Path(place).mkdir()
    (Path(place) / "x.ldif").write_text("dn: nonsense\nno colon\n")
    status, _ = _run(*FILES[verb](place, tmp_path))
    assert status != 0 or verb == "backup"


def test_a_manifest(tmp_path: Path) -> None:
    place = tmp_path / "export"
    place.mkdir()
    (place / "0001.ldif").write_text(TOP)
    facts = dict.fromkeys(("base", "source", "started", "finished", "content_checksum"), HOSTILE)
    shard = {"name": HOSTILE, "bytes": 1, "sha256": HOSTILE}
    more = {"format": 1, "entries": 1, "context_csns": [HOSTILE], "notes": [HOSTILE]}
    made = {**facts, **more, "shards": [shard], "hidden": [HOSTILE], "partitions": HOSTILE}
    (place / MANIFEST).write_text(json.dumps(made))
    with closing(Slapd()) as server:
        for words in (
            ("add", place, "-H", server.uri),
            ("compare", place, place),
            SEED.format(path=place, config=server.config_path).split(),
        ):
            status, _ = _run(*words)
            assert status != 0


@pytest.mark.parametrize(
    "text", [f'suffix = "{TURNS}"\n', f"# {HOSTILE}\nnonsense = 1\n", f"[{LONG}]\nx = '\x1b[2J'\n"]
)
def test_a_template(tmp_path: Path, text: str) -> None:
    (tmp_path / "t.toml").write_text(text, newline="")
    status, _ = _run("generate", tmp_path / "t.toml", "-n", "3", "-o", "-")
    assert status != 0


def test_what_slapd_says_of_its_configuration(tmp_path: Path) -> None:
    """slaptest quotes the line that it does not understand."""
    path = tmp_path / "slapd.conf"
    path.write_text(f"nonsense{TURNS}\x1b[2J\x07 x\ndatabase mdb\nsuffix {SUFFIX}\n")
    for words in (("build", write(tmp_path / "top.ldif", TOP)), ("verify",), ("tune", "maxsize")):
        status, said = _run(*words, "--config", path)
        assert status != 0
        assert "nonsense" in said
