"""`ditseed tune` as an operator meets it: its words, its JSON, its exit statuses; killed at any point, run again."""

from __future__ import annotations

import os
import shlex
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from fixtures.slapd import Slapd
from loader import errors
from loader.errors import LoaderError
from tests.support.command import Done, ditseed
from tests.support.nobody import NOBODY

pytestmark = [pytest.mark.slapd, pytest.mark.usefixtures("state")]

GIB = 1 << 30


@pytest.fixture
def stopped(people_ldif: Path) -> Iterator[Slapd]:
    server = Slapd()
    server.slapadd(people_ldif)
    yield server
    server.close()


@pytest.fixture(scope="module")
def running(people_ldif: Path) -> Iterator[Slapd]:
    server = Slapd()
    server.slapadd(people_ldif)
    with server:
        yield server


def tune(verb: str, server: Slapd, *words: object, **env: str) -> Done:
    """On the server's files, or, while it runs, over ldapi."""
    where = ("-H", server.ldapi_uri, "-Y", "EXTERNAL") if server.running else ("--config", server.config_path)
    return ditseed("tune", verb, *where, *words, env=env)


def maxsize(server: Slapd) -> int:
    found: int = tune("maxsize", server, "--json").ok().facts["databases"][0]["maxsize"]
    return found


def test_what_it_shows(stopped: Slapd) -> None:
    shown = tune("maxsize", stopped).ok().out
    assert "dc=example,dc=com" in shown
    assert "1.0 GiB" in shown
    shown = tune("indexes", stopped).ok().out
    assert next(line.split()[1:] for line in shown.splitlines() if "entryCSN" in line) == ["entryCSN", "eq", "1,029"]
    assert "off" in tune("sync", stopped).ok().out


def test_a_slapd_conf_is_left_to_the_operator() -> None:
    """No secret is shown: the lines beside the one to change are its rootpw."""
    with closing(Slapd(form="conf")) as server:
        before = server.config_path.read_bytes()
        runs = [tune("maxsize", server, "--maxsize", "2G", *more) for more in ((), ("--json",), ("--apply",))]
        assert [done.status for done in runs] == [0, 0, errors.ConfigNotEditable.exit_status]
        number = before.decode().splitlines().index(f"maxsize {GIB}") + 1
        told = f"{server.config_path}, line {number}, in place of `maxsize {GIB}`:\nmaxsize {2 * GIB}\n"
        assert told in runs[0].out
        assert told in runs[2].err
        assert "--apply" not in runs[0].out
        assert runs[1].facts["change"]["state"] == "by_hand"
        shown = "".join(done.out + done.err for done in runs)
        assert "rootpw" not in shown
        assert server.password_file.read_text() not in shown
        assert server.config_path.read_bytes() == before


@pytest.mark.long
def test_each_change_is_proposed_then_made_then_undone(stopped: Slapd) -> None:
    before = tune("indexes", stopped, "--json").ok().facts["databases"][0]["indexes"]
    changes = (
        "maxsize --maxsize 2G",
        "indexes --remove uid",
        "indexes --set sn,cn\\ eq --set uid\\ eq",
        "sync --nosync on",
    )
    for verb, *words in (*map(shlex.split, changes), ("indexes", "--set", "")):
        for dry in ((), ("--apply", "--dry-run")):
            shown = tune(verb, stopped, *words, *dry).ok().out
            assert "nothing was changed" in shown
            assert str(2 * GIB) in shown or verb != "maxsize"
        proposed = tune(verb, stopped, *words, "--json").ok().facts["change"]["undo"]
        shown = tune(verb, stopped, *words, "--apply").ok().out
        assert f"to restore the previous setting: {proposed}\n" in shown
        assert "\nchanged" in shown
        assert tune(verb, stopped, *words, "--apply", "--json").ok().facts["change"]["state"] == "unchanged"
        name, *undo = shlex.split(proposed)  # it is run as it is printed
        assert name == "ditseed"
        ditseed(*undo).ok()
    assert maxsize(stopped) == GIB
    assert tune("indexes", stopped, "--json").ok().facts["databases"][0]["indexes"] == before
    assert "off" in tune("sync", stopped).ok().out
    tune("maxsize", stopped, "--maxsize", "8M", "--apply").ok()
    (small,) = tune("maxsize", stopped, "--json").ok().facts["databases"]
    tune("maxsize", stopped, "--apply").ok()
    assert (small["maxsize"], small["recommended"], maxsize(stopped)) == (8 << 20, GIB, GIB)


@pytest.mark.rows(4)
@pytest.mark.parametrize("point", ["tune.before-change", "tune.changed"])
@pytest.mark.parametrize("online", [False, True])
def test_killed_and_run_again(point: str, online: bool, people_ldif: Path) -> None:
    server = Slapd()
    server.slapadd(people_ldif)
    try:
        if online:
            server.start()
        words = ("--add", "description eq", "--apply")
        assert tune("indexes", server, *words, DITSEED_KILL_AT=point).status == -9
        again = tune("indexes", server, *words, "--json").ok().facts["change"]["state"]
        assert again == ("unchanged" if point == "tune.changed" else "changed")
        (found,) = tune("indexes", server, "--json").ok().facts["databases"]
        assert found["indexes"]["description"]["kinds"] == ["eq"]
        assert not list(server.home.rglob("*.partial"))
        if not online:
            assert found["keys"]["description"] > 0
            server.start()
    finally:
        server.close()


ERRORS: list[tuple[str, tuple[str, ...], type[LoaderError], str]] = [
    ("maxsize", ("--config", "{home}/none"), errors.NoSuchPath, "no such file"),
    ("maxsize", ("--config", "{home}/data"), errors.ConfigUnreadable, "cannot read"),
    ("maxsize", ("--config", "{home}/rootpw"), errors.ConfigUnreadable, "rootpw"),
    ("maxsize", ("--config", "{config}", "--maxsize", "2G", "--apply"), errors.ServerRunning, "ldapi:///"),
    ("maxsize", ("{ldapi}", "--maxsize", "lots"), errors.UsageProblem, "not a size"),
    ("maxsize", ("{ldapi}", "--maxsize", "1k", "--apply"), errors.MaxsizeTooSmall, "auto"),
    ("maxsize", ("{ldapi}", "-b", "dc=none"), errors.NoSuchSuffix, "dc=example,dc=com"),
    ("maxsize", (), errors.UsageProblem, "--config"),
    ("maxsize", ("{ldapi}", "--config", "{config}"), errors.UsageProblem, "either"),
    ("indexes", ("{ldapi}", "--apply"), errors.UsageProblem, "--add"),
    ("indexes", ("{ldapi}", "--add", "sn"), errors.UsageProblem, "sn eq"),
    ("indexes", ("{ldapi}", "--add", "sn eq, sub"), errors.UsageProblem, "no space"),
    ("indexes", ("{ldapi}", "--add", "nosuch eq", "--apply"), errors.ConfigRefused, '"nosuch" undefined'),
    ("sync", ("{ldapi}", "--apply"), errors.UsageProblem, "--nosync"),
    ("sync", ("{ldapi}", "--nosync", "maybe"), errors.UsageProblem, "maybe"),
    ("sync", ("-H", "ldap://127.0.0.1:1", "-Y", "EXTERNAL"), errors.ServerDown, "127.0.0.1:1"),
    ("sync", ("-H", "{uri}", "-D", "{root}", "-y", "{home}/slapd.conf"), errors.BadCredentials, "-y"),
    ("sync", ("-H", "{uri}", "-D", "{root}", "-y", "{home}/rootpw"), errors.ConfigHidden, "ldapi:///"),
]


@pytest.mark.parametrize(("verb", "words", "error", "said"), ERRORS)
def test_errors(running: Slapd, verb: str, words: tuple[str, ...], error: type[LoaderError], said: str) -> None:
    given: list[str] = []
    for word in words:
        if word == "{ldapi}":
            given += ["-H", running.ldapi_uri, "-Y", "EXTERNAL"]
        else:
            names = {"home": running.home, "config": running.config_path}
            given.append(word.format(**names, uri=running.uri, root=running.root_dn))
    before = maxsize(running)
    done = ditseed("tune", verb, *given)
    assert done.status == error.exit_status, done.err
    assert said in done.err
    assert "Traceback" not in done.err
    assert maxsize(running) == before


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to become somebody else")
def test_an_ordinary_user_is_told(stopped: Slapd) -> None:
    done = ditseed("tune", "maxsize", "--config", stopped.config_path, prefix=NOBODY)
    assert done.status == errors.NotPermitted.exit_status, done.err
    assert "Run as root" in done.err
