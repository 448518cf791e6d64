"""Settings changed on real servers (cn=config, slapd.d): the effect is real, and slapd starts after. For a slapd.conf
the lines to change are printed."""

from __future__ import annotations

import os
import re
import shlex
import shutil
import subprocess
import zlib
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import ldap
import pytest

from fixtures.chroots import chroot, missing_chroot
from fixtures.slapd import ServerError, Slapd
from fixtures.slapd_config import Installation, Settings
from fixtures.waiting import until
from loader import errors
from loader.config import Database
from loader.mdb import contents, meta
from loader.operations.options import IndexChange
from loader.operations.sizing import recommended_size
from loader.operations.tune import Outcome, State, indexing, maxsize, maxsize_plan, opened, syncing
from loader.server.options import Connection
from tests.support.command import ditseed
from tests.support.require import require

pytestmark = [pytest.mark.slapd, pytest.mark.usefixtures("state")]

GIB = 1 << 30
USER = "openldap" if os.geteuid() == 0 else None
INDEXES = ("objectClass eq", "entryUUID,entryCSN eq", "uid,mail eq")
PEOPLE = 1000


@dataclass(frozen=True)
class Place:
    """A server, and how its configuration is reached: offline or online."""

    server: Slapd
    where: Path | Connection

    @property
    def online(self) -> bool:
        return isinstance(self.where, Connection)

    def database(self) -> Database:
        with opened(self.where) as target:
            return target.config.database(None)

    def maxsize(self, size: int | str | None, apply: bool = True) -> Outcome:
        with opened(self.where) as target:
            return maxsize.change_maxsize(target, None, size, apply)

    def indexes(self, wish: IndexChange, apply: bool = True, reindex: bool = True) -> Outcome:
        with opened(self.where) as target:
            return indexing.change_indexes(target, None, wish, apply, reindex)

    def nosync(self, on: bool) -> Outcome:
        with opened(self.where) as target:
            return syncing.change(target, None, syncing.NOSYNC, syncing.ON if on else syncing.OFF, True)

    def serve(self) -> None:
        if not self.online:
            self.server.start()


def by_password(server: Slapd) -> Connection:
    return Connection(uri=server.uri, bind_dn=server.root_dn, password_file=str(server.password_file))


def granted(server: Slapd, right: str, *names: str) -> None:
    """cn=config, and what else is named, are the root DN's alone."""
    for name in (*names, "{0}config"):
        server.configure(
            f"dn: olcDatabase={name},cn=config\nchangetype: modify\nreplace: olcAccess\n"
            f'olcAccess: {{0}}to * by dn.exact="{server.root_dn}" {right} by * none\n'
        )


def by_ldapi(server: Slapd) -> Connection:
    return Connection(uri=server.ldapi_uri, mechanism="EXTERNAL")


@pytest.fixture(params=["slapd.d", "cn=config"])
def place(request: pytest.FixtureRequest, people_ldif: Path) -> Iterator[Place]:
    limits = (*Settings().limits, "limits users size.unchecked=500")
    lines = ("envflags nometasync",)
    settings = Settings(indexes=INDEXES, limits=limits, overlays=("overlay syncprov",), database_lines=lines)
    with closing(Slapd(settings, user=USER)) as server:
        server.slapadd(people_ldif)
        if request.param == "cn=config":
            yield Place(server.start(), by_ldapi(server))
        else:
            yield Place(server, server.config_path)


def files_of(server: Slapd) -> dict[str, tuple[bytes, int, int, int]]:
    """Content, owner, mode and time of everything in the configuration."""
    paths = [server.config_path, *server.config_path.rglob("*")]
    return {
        str(path): (
            b"" if path.is_dir() else path.read_bytes(),
            *(path.stat().st_uid, path.stat().st_mode, path.stat().st_mtime_ns),
        )
        for path in paths
    }


def owned_by_server(server: Slapd) -> bool:
    owner = server.home.stat().st_uid
    paths = [*server.config_path.rglob("*"), *(server.config_path, *server.database_dir.iterdir())]
    return all(path.stat().st_uid == owner for path in paths)


# --- maxsize ----------------------------------------------------------------------------------


def test_maxsize(place: Place) -> None:
    """Proposed, then changed once; less than the data is refused; auto is what is recommended."""
    server = place.server
    paths = [path for path in (server.config_path, *server.config_path.rglob("*")) if path.is_file()]
    for path in paths:
        path.chmod(0o640)  # as no tool of slapd's would
    before = files_of(server)
    proposal = place.maxsize(3 * GIB, apply=False)
    assert proposal.state is State.PROPOSED
    assert str(3 * GIB) in proposal.difference
    assert files_of(server) == before
    assert place.maxsize(3 * GIB).state is State.CHANGED
    assert {path.stat().st_mode & 0o777 for path in paths} == {0o640} or place.online
    before = files_of(server)
    assert place.maxsize(3 * GIB).state is State.UNCHANGED
    with pytest.raises(errors.MaxsizeTooSmall):
        place.maxsize(4096)
    assert files_of(server) == before
    assert place.database().maxsize == 3 * GIB
    place.maxsize(1 << 23)
    with opened(place.where) as target:
        (found,) = maxsize.map_usages(target, None)
    assert found.used is not None
    assert found.recommended == recommended_size(found.used) == GIB
    assert place.maxsize("auto").state is State.CHANGED
    assert place.database().maxsize == GIB
    assert owned_by_server(server)
    place.serve()
    assert len(server.search("(uid=*)", ("uid",))) == PEOPLE


def test_a_full_map_takes_entries_again_at_once() -> None:
    """Online, without a restart: the map of the running server grows."""
    server = Slapd(Settings(maxsize=1 << 20))
    server.slapadd("dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n")
    with server:
        entry = f"dn: cn={{}},dc=example,dc=com\nobjectClass: organizationalRole\ndescription: {'x' * 5000}\n\n"
        with pytest.raises(ServerError):
            server.ldapadd("".join(entry.format(f"entry{number}") for number in range(500)))
        with opened(by_ldapi(server)) as target:
            assert maxsize.map_usages(target, None)[0].notes
            maxsize.change_maxsize(target, None, GIB, True)
        server.ldapadd("".join(entry.format(f"again{number}") for number in range(500)))
        assert meta.read_meta(server.database_dir).map_size == GIB
        assert meta.read_meta(server.database_dir).used > 1 << 20


# --- indexes ----------------------------------------------------------------------------------


def test_a_new_index_is_whole_and_used(place: Place) -> None:
    """slapd says what it does not know, and nothing is changed then."""
    before = files_of(place.server)
    for line, words in [("nosuch eq", 'index attribute "nosuch" undefined'), ("sn some", 'index type "some"')]:
        with pytest.raises(errors.ConfigRefused) as caught:
            place.indexes(IndexChange(add=(line,)))
        assert words in str(caught.value)
        assert "/tmp/ditseed" not in str(caught.value)
    assert files_of(place.server) == before
    wish = IndexChange(add=("sn eq,sub",), remove=("mail",))
    assert place.indexes(wish).state is State.CHANGED
    assert place.indexes(wish).state is State.UNCHANGED
    assert owned_by_server(place.server)
    place.serve()
    entries = place.server.search("(sn=*)", ("sn",))
    one = entries[0][1]["sn"][0].decode()
    if place.online:
        until(lambda: is_indexed(place.server, f"(sn={one})"))
    found = place.server.search(f"(sn={one})", ("1.1",), external=True)
    equal = [dn for dn, values in entries if one in [value.decode() for value in values["sn"]]]
    assert sorted(dn for dn, _ in found) == sorted(equal)
    assert not is_indexed(place.server, "(mail=nobody@example.com)")


def test_commands_of_notes(people_ldif: Path) -> None:
    """They take out the keys of a kind that was removed, and make an index that --no-reindex has left."""
    with closing(Slapd(Settings(indexes=("cn,sn eq,sub",)), user=USER)) as server:
        server.slapadd(people_ldif)
        place = Place(server, server.config_path)
        wish = IndexChange(remove=("cn sub", "sn"), add=("sn eq",))
        (note,) = place.indexes(wish).notes
        assert "removed kinds stay in the file (cn)" in note  # the table of sn is made anew
        verify = ("verify", server.database_dir, "--verify", "indexes", "--config", server.config_path, "--json")
        assert "indexes.too_much" in {one["kind"] for one in ditseed(*verify).facts["problems"]}
        server.tool("slapindex", *shlex.split(note.partition("slapindex ")[2]))
        assert "indexes.too_much" not in {one["kind"] for one in ditseed(*verify).facts["problems"]}
        found = place.indexes(IndexChange(add=("description eq",)), reindex=False)
        assert "description" not in contents.indexes(server.database_dir)
        (command,) = [note.partition(": ")[2] for note in found.notes if "slapindex" in note]
        server.tool(*command.split())
        assert contents.indexes(server.database_dir)["description"] > 0


@pytest.mark.parametrize(
    ("wish", "notes"),
    [
        (IndexChange(remove=("commonName",)), [r"commonName: .*nothing to remove"]),  # another name of cn
        (IndexChange(remove=("cn sub", "cn eq")), [r"cn sub: .*nothing to remove"]),
        (IndexChange(wanted=("cn eq", "entryCSN eq")), ["entryUUID eq: needed as soon as"]),
        (IndexChange(remove=("cn",)), []),
    ],
)
def test_what_a_proposal_tells(wish: IndexChange, notes: list[str]) -> None:
    with closing(Slapd(Settings(indexes=("cn eq", "entryUUID,entryCSN eq")))) as server:
        told = Place(server, server.config_path).indexes(wish, apply=False).notes
    assert [re.match(*pair) is not None for pair in zip(notes, told, strict=True)] == [True] * len(notes)


def is_indexed(server: Slapd, filter: str) -> bool:
    """Without an index a search must look at more entries than size.unchecked allows."""
    try:
        server.search(filter, ("1.1",), external=True)
    except ldap.ADMINLIMIT_EXCEEDED:
        return False
    return True


@pytest.mark.long("slapd.d")
def test_the_whole_list(place: Place) -> None:
    wanted = ("default eq", "objectClass", "uid,cn eq,pres", "entryCSN,entryUUID eq")
    assert place.indexes(IndexChange(wanted=wanted)).state is State.CHANGED
    assert place.indexes(IndexChange(wanted=wanted)).state is State.UNCHANGED
    assert place.indexes(IndexChange(wanted=("objectClass eq",))).state is State.CHANGED
    assert place.database().indexes == ("objectClass eq",)
    with opened(place.where) as target:
        (found,) = indexing.index_settings(target, None)
    assert found.missing_for_sync == ("entryCSN eq", "entryUUID eq")
    assert "syncprov" in found.notes[0]
    place.serve()
    assert place.server.search("(uid=*)", ("uid",))


# --- syncing ----------------------------------------------------------------------------------


@pytest.mark.parametrize("lines", [("dbnosync", "envflags nosync nometasync"), ("envflags nosync nometasync",)])
def test_nosync_goes_off_and_on(lines: tuple[str, ...]) -> None:
    """As a flag, too, and the other flags stay."""
    online = len(lines) == 1
    with closing(Slapd(Settings(database_lines=lines))) as server:
        place = Place(server.start(), by_ldapi(server)) if online else Place(server, server.config_path)
        assert place.database().nosync
        for on in (False, True, False):
            assert place.nosync(on).state is State.CHANGED
            assert place.nosync(on).state is State.UNCHANGED
            assert (place.database().nosync, place.database().env_flags) == (on, ("nometasync",))
        server.restart()
        assert not Place(server, by_ldapi(server)).database().nosync


def test_syncs_stop_and_start_while_it_runs() -> None:
    """Counted by the kernel: fdatasync calls of the server."""
    require(None if shutil.which("strace") else "strace is not installed")
    with Slapd() as server:
        server.ldapadd("dn: dc=example,dc=com\nobjectClass: domain\ndc: example\n")
        place = Place(server, by_ldapi(server))
        place.nosync(True)
        assert syncs(server, "on") == 0
        place.nosync(False)
        assert syncs(server, "off") >= 5


def syncs(server: Slapd, name: str) -> int:
    trace = server.home / f"trace-{name}"
    watch = ["strace", "-f", "-e", "trace=fdatasync,fsync,msync", "-o", str(trace), "-p", str(server.pid)]
    with subprocess.Popen(watch, stderr=subprocess.PIPE) as tracer:
        assert tracer.stderr is not None
        tracer.stderr.readline()  # "attached"
        for number in range(5):
            server.ldapadd(
                f"dn: ou={name}{number},{server.suffix}\nobjectClass: organizationalUnit\nou: {name}{number}\n"
            )
        tracer.terminate()
        tracer.wait()
    return sum("sync(" in line for line in trace.read_text().splitlines())


# --- what is refused --------------------------------------------------------------------------


def test_an_index_that_slapd_may_not_end_is_told_of() -> None:
    """Also when the command is given again after slapd was gone: it may have had the change and not made the index."""
    with Slapd() as server:
        place, wish = Place(server, by_ldapi(server)), IndexChange(add=("description eq",))
        first = place.indexes(wish)
        server.kill9()
        server.start()
        again = place.indexes(wish)
        gone = place.indexes(IndexChange(remove=("description",)))
    assert (first.state, again.state) == (State.CHANGED, State.UNCHANGED)
    for outcome in (first, again):
        assert any("verify --verify indexes" in note for note in outcome.notes)
    assert not gone.notes


def test_a_running_server_is_asked_over_ldap() -> None:
    with Slapd(user=USER) as server:
        before = files_of(server)
        with pytest.raises(errors.ServerRunning, match=str(server.pid)):
            Place(server, server.config_path).maxsize(3 * GIB)
        assert files_of(server) == before
        (server.home / "slapd.pid").unlink()  # its command line and its locks tell, too
        with pytest.raises(errors.ServerRunning):
            Place(server, server.config_path).nosync(True)


def test_who_may_see_but_not_change(slapd_instance: Slapd) -> None:
    granted(slapd_instance, "read")
    with pytest.raises(errors.ConfigRefused) as caught:
        Place(slapd_instance, by_password(slapd_instance)).maxsize(3 * GIB)
    assert "Insufficient access" in str(caught.value)


def test_files_of_another_host_are_not_looked_at(slapd_instance: Slapd) -> None:
    granted(slapd_instance, "manage")
    with opened(by_password(slapd_instance)) as target:
        (found,) = maxsize.map_usages(target, None)
        assert (found.maxsize, found.used, found.recommended) == (GIB, None, None)
        with pytest.raises(errors.UsageProblem, match="monitor does not show"):
            maxsize.change_maxsize(target, None, "auto", True)
        assert maxsize.change_maxsize(target, None, 2 * GIB, True).state is State.CHANGED


def test_the_monitor_tells_of_another_host(slapd_instance: Slapd) -> None:
    """What the file itself says, asked of slapd: over ldap:// its host may be any."""
    server = slapd_instance
    granted(server, "manage", "{1}monitor")
    remote = by_password(server)
    facts = meta.read_meta(server.database_dir)
    with opened(remote) as target:
        (found,) = maxsize.map_usages(target, None)
        assert (found.map_size, found.used, found.free) == (GIB, facts.used, None)
        assert found.recommended == recommended_size(facts.used)
        with pytest.raises(errors.MaxsizeTooSmall):
            maxsize.change_maxsize(target, None, 4096, True)
        assert maxsize.change_maxsize(target, None, "auto", True).state is State.UNCHANGED
        assert maxsize.change_maxsize(target, None, 1 << 23, True).state is State.CHANGED
    with opened(remote) as target:
        (smaller,) = maxsize.map_usages(target, None)
    assert (smaller.map_size, smaller.used) == (1 << 23, facts.used)


@pytest.fixture
def two(tmp_path: Path) -> Iterator[Slapd]:
    """Two databases with data, and one that an accesslog overlay writes to."""
    other, log = tmp_path / "other", tmp_path / "log"
    other.mkdir()
    log.mkdir()
    lines = (
        *("database mdb", f"suffix dc=other,dc=com\ndirectory {other}", "maxsize 20971520", "index cn eq"),
        *("database mdb", f"suffix cn=changes\ndirectory {log}", "index reqStart eq"),
    )
    with closing(Slapd(Settings(modules=("back_mdb", "syncprov", "accesslog"), database_lines=lines))) as server:
        yield server


def test_the_right_one_of_several_databases(two: Slapd) -> None:
    with opened(two.config_path) as target:
        assert len(maxsize.map_usages(target, None)) == 3
        with pytest.raises(errors.ManySuffixes):
            maxsize.change_maxsize(target, None, 2 * GIB, True)
        maxsize.change_maxsize(target, "dc=Other, dc=com", 2 * GIB, True)
    with opened(two.config_path) as target:
        assert [one.maxsize for one in target.config.mdb_databases] == [GIB, 2 * GIB, 10_485_760]
        indexing.change_indexes(target, "cn=changes", IndexChange(add=("reqEnd eq",)), True)
    with opened(two.config_path) as target:
        assert target.config.database("cn=changes").indexes == ("reqStart eq", "reqEnd eq")
        assert target.config.database("dc=other,dc=com").indexes == ("cn eq",)
    two.start()


# --- slapd.conf -------------------------------------------------------------------------------


def test_a_slapd_conf_is_never_edited(people_ldif: Path, tmp_path: Path) -> None:
    """Its lines are printed, also as the hint of --apply; put there, they do what was wanted."""
    lines = ("dbnosync", "envflags nometasync", "envflags nosync nordahead")
    with closing(Slapd(Settings(indexes=INDEXES, database_lines=lines), form="conf")) as server:
        server.slapadd(people_ldif)
        ours = tmp_path / "ours.conf"
        head, section = server.config_path.read_text().split("database mdb\n")
        ours.write_text(f"database mdb\n{section}")
        server.config_path.write_text(f"{head}include {ours}\n")
        place = Place(server, server.config_path)
        wish = IndexChange(add=("sn eq,sub",), remove=("mail",))
        server.start()  # nothing is written: slapd may run
        with pytest.raises(errors.ConfigNotEditable) as caught:
            Place(server, by_ldapi(server)).maxsize(2 * GIB)  # which it would forget
        assert str(server.config_path) in str(caught.value.advice())
        told = place.indexes(wish, apply=False)
        assert told.state is State.BY_HAND
        before, texts = files_of(server), ours.read_bytes()
        for change in (lambda: place.maxsize(3 * GIB), lambda: place.nosync(False)):
            refuse_and_follow(change, ours)
        refuse_and_follow(lambda: place.indexes(wish), ours)
        assert files_of(server) == before
        assert texts != ours.read_bytes()
        server.stop()
        (command,) = [note.partition(": ")[2] for note in told.notes if "before slapd" in note]
        server.tool(*shlex.split(command))
        assert [place.maxsize(3 * GIB).state, place.nosync(False).state] == [State.UNCHANGED] * 2
        assert place.indexes(wish).state is State.UNCHANGED
        found = place.database()
        assert (found.maxsize, found.nosync) == (3 * GIB, False)
        assert sorted(found.env_flags) == ["nometasync", "nordahead"]
        assert contents.indexes(server.database_dir)["sn"] > 0
        server.start()


def refuse_and_follow(change: Callable[[], Outcome], file: Path) -> None:
    """The change is refused; puts the lines of the hint into the file, from its end to its beginning."""
    before = file.read_bytes()
    with pytest.raises(errors.ConfigNotEditable) as caught:
        change()
    assert file.read_bytes() == before
    hint = str(caught.value.advice())
    places = re.findall(rf"^{file}, line (\d+)(?: to (\d+))?, (\w+)[^\n]*((?:\n[a-z]+ [^\n:]*$)*)", hint, re.MULTILINE)
    assert places
    text = file.read_text().splitlines()
    for first, last, does, new in sorted(places, key=lambda one: int(one[0]), reverse=True):
        end = int(last or first)
        start = end if does == "after" else int(first) - 1
        text[start:end] = new.split() and new.strip("\n").split("\n")
    file.write_text("\n".join(text) + "\n")


@pytest.mark.skipif(os.geteuid() != 0, reason="needs root, to give files away")
def test_the_account_of_slapd_adds_nothing_to_root_s_configuration(
    scratch: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """slapcat runs as that account, which so can change the copy once it has been read."""
    slapcat = shutil.which("slapcat")
    script = f"""#!/bin/sh
{slapcat} "$@"; status=$?
while [ $# -gt 1 ]; do [ "$1" = -F ] && directory=$2; shift; done
for file in "$directory/cn=config/"*mdb.ldif; do
    echo "olcRootPW: planted" >> "$file" || chmod u+w "$file" || echo tried >> {scratch}/tried
done 2> /dev/null
exit $status
"""
    (scratch / "slapcat").write_text(script)
    (scratch / "slapcat").chmod(0o755)
    (scratch / "tried").touch()
    (scratch / "tried").chmod(0o666)
    with closing(Slapd(user=USER)) as server:
        group = server.home.stat().st_gid
        for path in (server.config_path, *server.config_path.rglob("*")):
            os.chown(path, 0, group)
            path.chmod(0o750 if path.is_dir() else 0o640)
        (file,) = server.config_path.rglob("*mdb.ldif")
        before = file.read_bytes()
        monkeypatch.setenv("PATH", f"{scratch}:{os.environ['PATH']}")
        assert Place(server, server.config_path).maxsize(3 * GIB).state is State.CHANGED
        after = file.read_bytes()
    assert (scratch / "tried").read_text()
    names = {line.partition(b": ")[0] for line in set(before.split(b"\n")) ^ set(after.split(b"\n"))}
    names = {name for name in names if not name.startswith(b"# CRC32")}
    assert names - {b"modifyTimestamp"} == {b"olcDbMaxSize", b"entryCSN"}
    for text in (before, after):  # as slapd writes it: over what follows the comments
        head, body = text[: text.index(b"dn:")], text[text.index(b"dn:") :]
        assert f"# CRC32 {zlib.crc32(body):08x}".encode() in head


def test_somebody_else_is_not_overwritten() -> None:
    with closing(Slapd()) as server, opened(server.config_path) as target:
        plan = maxsize_plan(target, target.config.database(None), 3 * GIB)
        _, publish = target.prepare(plan)
        assert publish
        (file,) = server.config_path.rglob("*mdb.ldif")
        file.write_bytes(file.read_bytes() + b"\n")
        with pytest.raises(errors.ConfigNotEditable):
            publish()
        assert file.read_bytes().endswith(b"\n\n")


@pytest.mark.long
@pytest.mark.parametrize("suite", ["bullseye", "trixie", "forky"])
def test_other_versions(suite: str, people_ldif: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """2.4 has no slapmodify, and a monitor that is a module; slapd runs below another root directory."""
    require(missing_chroot())
    other = chroot(suite)
    monkeypatch.setenv("DITSEED_TOOLS", other.tools)
    modules = (*Settings().modules, *(["back_monitor"] if other.version < "2.5" else []))
    server = Slapd(Settings(modules=modules), installation=Installation(other.prefix))
    server.slapadd(people_ldif)
    with server:
        with pytest.raises(errors.ServerRunning):
            Place(server, server.config_path).maxsize(3 * GIB)
        assert Place(server, by_ldapi(server)).maxsize(2 * GIB).state is State.CHANGED
        server.stop()
        place = Place(server, server.config_path)
        assert place.maxsize(3 * GIB).state is State.CHANGED
        assert place.indexes(IndexChange(add=("sn eq",), remove=("mail",))).state is State.CHANGED
        assert place.nosync(True).state is State.CHANGED
        assert place.nosync(False).state is State.CHANGED
        assert contents.indexes(server.database_dir)["sn"] > 0
        server.start()
        database = Place(server, by_ldapi(server)).database()
        assert (database.maxsize, database.nosync) == (3 * GIB, False)


@pytest.mark.long
def test_an_index_that_does_not_fit_changes_nothing(people_ldif: Path) -> None:
    wish = IndexChange(add=("cn,sn,description eq,sub",))
    with closing(Slapd(Settings(indexes=INDEXES), user=USER)) as server:
        server.slapadd(people_ldif)
        place = Place(server, server.config_path)
        place.maxsize(meta.read_meta(server.database_dir).used + 8192)
        before = files_of(server)
        with pytest.raises(errors.MapFull) as caught:
            place.indexes(wish)
        assert "tune maxsize" in str(caught.value.advice())
        assert files_of(server) == before
        place.maxsize("auto")
        assert place.indexes(wish).state is State.CHANGED
        server.start()
        assert len(server.search("(uid=*)", ("uid",))) == PEOPLE
