"""A password stays where it was given: in no argument list, environment, log, manifest, run directory or report."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.network import Proxy
from fixtures.slapd import Slapd
from fixtures.trees import write_people
from fixtures.waiting import until
from tests.support import adding, leaks
from tests.support.command import Done, arguments_of, environment, start
from tests.support.leaks import Watch

pytestmark = pytest.mark.slapd

PEOPLE = 400
SMALL = ("--pieces", "4", "--page", "50", "--jobs", "2")
LOOKS = 20  # that must have met the command, or nothing was looked at
FAULT = """
from loader.cli import main
from loader.server.session import Session
def broken(self):
    raise ValueError(f"{self.connection} {self.connection!r} {vars(self)}")
Session.base = broken
main()
"""


@pytest.fixture(scope="module")
def far(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Slapd, Proxy]]:
    """A provider behind a slow line, so that there is time to look."""
    server = replication.provider()
    ldif = tmp_path_factory.mktemp("secrets") / "people.ldif"
    write_people(ldif, server.suffix, PEOPLE)
    server.slapadd(ldif)
    with server, Proxy(server.uri, delay=0.05) as proxy:
        yield server, proxy


@dataclass(frozen=True)
class Place:
    """One command with a home, scratch and state directory of its own: whatever it writes is below `top`.

    who, password_file: the account, and the password that is given for it.
    """

    server: Slapd
    proxy: Proxy
    top: Path
    verb: str
    who: str
    password_file: Path

    @property
    def secret(self) -> bytes:
        return self.password_file.read_bytes()

    def environment(self, **more: str) -> dict[str, str]:
        names = ("HOME", "TMPDIR", "DITSEED_STATE_DIR", "XDG_STATE_HOME", "XDG_CACHE_HOME")
        for name in names:
            (self.top / name).mkdir(exist_ok=True)
        return environment({**{name: str(self.top / name) for name in names}, **more})

    def command(self, *options: object) -> list[str]:
        what = ("-b", self.server.suffix, "-o", self.top / "out", *SMALL, "--timeout", "read=5")
        if self.verb == "add":
            path = self.top / "more.ldif"
            path.write_text("".join(adding.unit(f"{self.top.name} {number}") for number in range(PEOPLE)))
            what = (path, "--run-dir", self.top / "run", "--max-rate", 2 * PEOPLE // 3)
        return arguments_of("-vv", self.verb, "-H", self.proxy.uri, "-D", self.who, *options, *what, "--json")

    def by_file(self, **more: str) -> subprocess.Popen[str]:
        return start(*self.command("-y", self.password_file)[1:], env=self.environment(**more), cwd=self.top)

    def typed(self) -> subprocess.Popen[str]:
        """At the prompt of -W, on a terminal that is the command's own."""
        ours, theirs = os.openpty()
        try:
            prefix = ("setsid", "--ctty", "--wait")
            process = start(*self.command("-W")[1:], prefix=prefix, stdin=theirs, env=self.environment(), cwd=self.top)
        finally:
            os.close(theirs)
        asked = b""
        while b"assword" not in asked:
            asked += os.read(ours, 1000)
        os.write(ours, self.secret + b"\n")
        return process

    def watched(self, process: subprocess.Popen[str]) -> Done:
        """To its end, under watch; nothing of what it said and showed is the password."""
        with Watch(self.secret, str(self.top)) as watch:
            done = self.ended(process)
        assert not watch.leaks
        assert max(watch.seen.values(), default=0) >= LOOKS
        return done

    def ended(self, process: subprocess.Popen[str], seconds: float = 300) -> Done:
        """The same without a watch."""
        out, err = process.communicate(timeout=seconds)
        assert leaks.in_files(self.top, self.secret) == []
        assert not leaks.in_text(out + err, self.secret)
        return Done(process.returncode, out, err)


@pytest.fixture
def place(far: tuple[Slapd, Proxy], tmp_path: Path, request: pytest.FixtureRequest) -> Place:
    """For an export, or for `add`."""
    server, proxy = far
    if getattr(request, "param", "export") == "export":
        return Place(server, proxy, tmp_path, "export", "cn=replicator", server.replicator_password_file)
    return Place(server, proxy, tmp_path, "add", server.root_dn, server.password_file)


both = pytest.mark.parametrize("place", ["export", "add"], indirect=True)


@pytest.mark.rows(0, "by_file-add", "typed-export")
@both
@pytest.mark.parametrize("given", ["by_file", "typed"])
def test_a_run_shows_the_password_nowhere(place: Place, given: str) -> None:
    process: subprocess.Popen[str] = getattr(place, given)()
    facts = place.watched(process).ok().facts
    if place.verb == "add":
        assert facts["added"] == PEOPLE
        assert (place.top / "run").is_dir()
    else:
        assert facts["entries"] > PEOPLE
        assert (place.top / "out" / "manifest.json").exists()


@both
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_an_ended_run_leaves_none_behind(place: Place, number: signal.Signals) -> None:
    process = place.by_file()
    begun, seconds = (place.top / "run", 0.5) if place.verb == "add" else (place.top / "out/.ditseed/run.log", 0)
    until(begun.exists)
    time.sleep(seconds)
    process.send_signal(number)
    assert place.ended(process).status == (-number if number == signal.SIGKILL else 128 + number)


@pytest.mark.rows(2)
@pytest.mark.parametrize("point", ["read.start", "read.partition", "late.middle", "shards.middle"])
def test_a_killed_export_leaves_none_behind(place: Place, point: str) -> None:
    """Nor does what a resumption needs."""
    assert place.ended(place.by_file(DITSEED_KILL_AT=point)).status == -signal.SIGKILL
    assert (place.top / "out/.ditseed/run.log").exists()


def test_a_broken_connection_is_told_without_it(place: Place) -> None:
    """What the native core and libldap say of a line that stays dead."""
    process = place.by_file()
    until((place.top / "out" / ".ditseed" / "parts").exists)
    place.proxy.refuse()
    try:
        assert place.ended(process, 250).status in (12, 30, 36)
    finally:
        place.proxy.accept()


@both
@pytest.mark.parametrize("given", ["by_file", "typed"])
def test_a_refused_password_is_not_repeated(place: Place, given: str) -> None:
    """The root DN's, given for the replicator."""
    wrong = replace(place, who="cn=replicator", password_file=place.server.password_file)
    process: subprocess.Popen[str] = getattr(wrong, given)()
    assert wrong.ended(process).status == 31


def test_a_fault_of_our_own_is_written_down_without_it(place: Place) -> None:
    """The file for the bug report, made where an error that nobody foresaw comes up beside an open connection."""
    words = [sys.executable, "-c", FAULT, *place.command("-y", place.password_file)[1:]]
    its = {"env": place.environment(), "cwd": Path(__file__).parents[2]}
    process = subprocess.Popen(words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, **its)
    assert place.ended(process).status == 70
    assert list((place.top / "DITSEED_STATE_DIR" / "faults").iterdir())


@pytest.mark.parametrize("where", ["argv", "environ", "file"])
def test_the_watch_would_see_it(tmp_path: Path, where: str) -> None:
    """These tests can fail."""
    secret = b"Xq-7_watch-this-word"
    told = {"argv": ["sh", "-c", "sleep 1", secret.decode()]}.get(where, ["sleep", "1"])
    more = {"PW": secret.decode()} if where == "environ" else {}
    with Watch(secret, str(tmp_path)) as watch:
        subprocess.run(told, env={**os.environ, **more}, check=True)
    assert bool(watch.leaks) == (where != "file")
    if where == "file":
        (tmp_path / "x").write_bytes(b"\x00" + leaks.base64.b64encode(b"ab" + secret + b"c"))
        assert leaks.in_files(tmp_path, secret) == [str(tmp_path / "x")]
