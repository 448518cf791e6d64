"""What an operator gets wrong: a clear error with a hint, the exit status of the list, and nothing changed."""

from __future__ import annotations

import dataclasses
import os
import signal
import subprocess
import threading
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import ldap
import pytest
import zstandard

from fixtures.ports import free_port
from fixtures.replication import consumer
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader import errors
from loader.defaults import ENGINES
from tests.support.building import KINDS, engine_words
from tests.support.command import ditseed
from tests.support.disks import loop_filesystem
from tests.support.nobody import NOBODY
from tests.support.refusal import pasted, refused, text, where
from tests.support.seeding import Pair, consumer_of, pair

pytestmark = pytest.mark.slapd

PEOPLE = 600
USER = "uid=user0000001,ou=sales,ou=Lagos,ou=people,dc=example,dc=com"
PASSWORD = "of a user"


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with pair(tmp_path_factory.mktemp("bad"), PEOPLE) as made:
        made.prepare("ldif")
        _set_password(made.provider)
        yield made


@pytest.fixture
def both(shared: Pair) -> Iterator[Pair]:
    """The same provider and export, and a consumer of its own."""
    with consumer_of(shared) as made:
        yield made


def _set_password(provider: Slapd) -> None:
    """An account without privileges, for limits."""
    provider.ldapmodify(f"dn: {USER}\nchangetype: modify\nreplace: userPassword\nuserPassword: {PASSWORD}\n")


@pytest.fixture
def user(tmp_path: Path) -> tuple[str, ...]:
    path = tmp_path / "password"
    path.write_text(PASSWORD)
    return ("-D", USER, "-y", str(path))


# --- the provider -------------------------------------------------------------------------------


def _world_writable(path: Path) -> Path:
    path.mkdir()
    path.chmod(0o777)
    for parent in path.parents:
        if parent.name.startswith("pytest"):
            parent.chmod(0o755)
    return path


def test_a_provider_that_cannot_be_read(both: Pair, tmp_path: Path) -> None:
    """A wrong password, a password file that is missing or unreadable, a server that is down, no such base."""
    (tmp_path / "wrong").write_text("not it")
    who = ("-H", both.provider.uri, "-D", "cn=replicator", "-y")
    seed = ("replica", "seed", "--strategy", "search", *where(both), *who)
    assert "cn=replicator" in refused(both, errors.BadCredentials, *seed, tmp_path / "wrong").err
    assert str(tmp_path / "none") in refused(both, errors.NoSuchPath, *seed, tmp_path / "none").err
    tmp_path.chmod(0o777)
    secret = both.provider.replicator_password_file  # 0600, root's
    base, out, open_to_all = ("-b", both.provider.suffix), tmp_path / "out", _world_writable(tmp_path / "open")
    refused(both, errors.NotPermitted, "export", *who, secret, *base, "-o", open_to_all, prefix=NOBODY)
    refused(both, errors.BadCredentials, "export", *who, tmp_path / "wrong", *base, "-o", out / "1")
    nowhere = dataclasses.replace(both, uri=f"ldap://127.0.0.1:{free_port()}")
    for command in (nowhere.seed("search"), ("export", *nowhere.bind, *base, "-o", out / "2")):
        done = refused(both, errors.ServerDown, *command)
        assert str(nowhere.uri) in done.err
        assert "not connected" not in done.err  # ENOTCONN is of libldap's own question
    below = f"ou=nowhere,{both.provider.suffix}"
    done = refused(both, errors.NoSuchBase, "export", *both.bind, "-b", below, "-o", out / "3")
    assert below in done.err
    assert both.provider.suffix in done.err.partition("hint:")[2]
    assert not list(out.rglob("*.ldif*"))


@pytest.fixture(params=["size=100 size.prtotal=100", "size.pr=50", "size.prtotal=disabled"])
def limit(request: pytest.FixtureRequest, both: Pair) -> Iterator[str]:
    """Of the provider, until the end."""
    database = _main_database(both.provider)
    with both.provider.connection(external=True) as handle:
        before = handle.read_s(database, attrlist=["olcLimits"])["olcLimits"]
        handle.modify_s(database, [(ldap.MOD_ADD, "olcLimits", [f"users {request.param}".encode()])])
    yield request.param
    with both.provider.connection(external=True) as handle:
        handle.modify_s(database, [(ldap.MOD_REPLACE, "olcLimits", before)])


def _main_database(provider: Slapd) -> str:
    return str(provider.search(f"(olcSuffix={provider.suffix})", ("1.1",), base="cn=config", external=True)[0][0])


def _lift(provider: Slapd, words: str) -> None:
    """Paste what stands below the hint into a shell; slapd's socket is not at its usual place here."""
    text = pasted(words).replace("ldapi:///", provider.ldapi_uri)
    subprocess.run(["sh", "-eu"], input=text, text=True, check=True, stdout=subprocess.DEVNULL)


@pytest.mark.rows(1)
def test_a_limit_of_the_provider(both: Pair, user: tuple[str, ...], tmp_path: Path, limit: str) -> None:
    """The message names limit, account and setting, which makes the export work. test_limits.py: without pages."""
    bind = ("-H", both.provider.uri, *user)
    # One connection, so that its one search is larger than the limit.
    export = ("export", *bind, "-b", both.provider.suffix, "-o", tmp_path / "out", "--jobs", 1)
    done = refused(both, errors.LimitTooLow, *export)
    assert ("the size limit" if limit.startswith("size=") else "a limit on paged") in done.err
    assert f" of {USER} is too low" in done.err
    seed = ("replica", "seed", "--strategy", "search", "--allow-hidden", *where(both))
    refused(both, errors.LimitTooLow, *seed, *bind, "--jobs", 1)
    _lift(both.provider, done.err)
    both.provider.restart()  # slapd 2.5 minds the new order only then
    ditseed(*export).ok()


@pytest.mark.long
def test_the_time_limit_of_the_provider(tmp_path: Path, user: tuple[str, ...]) -> None:
    """A provider that stands still in the middle of a search meets its own time limit."""
    with pair(tmp_path, 20_000) as both:
        _set_password(both.provider)
        database = f"dn: {_main_database(both.provider)}\nchangetype: modify\n"
        unlimited = "add: olcSizeLimit\nolcSizeLimit: unlimited\n"
        both.provider.configure(f"{database}{unlimited}-\nadd: olcTimeLimit\nolcTimeLimit: 1\n")
        export = ("export", "-H", both.provider.uri, *user, "-b", both.provider.suffix, "--jobs", 1)
        with _standing_still_in_a_search(both.provider):
            done = refused(both, errors.LimitTooLow, *export, "-o", tmp_path / "out")
        assert f"the time limit of {USER}" in done.err
        _lift(both.provider, done.err)
        with _standing_still_in_a_search(both.provider, times=2):
            ditseed(*export, "-o", tmp_path / "out").ok()


@contextmanager
def _standing_still_in_a_search(provider: Slapd, times: int = 1000) -> Iterator[None]:
    """For more than two seconds (slapd counts whole ones), when it has begun to read many entries: each time up to
    `times`, for a search that met the limit is tried again in pages."""
    ended, stood = threading.Event(), threading.Event()
    mark = provider.log_size()

    def watch() -> None:
        searches = 0
        while searches < times and not ended.wait(0.001):
            begun = len(provider.log_lines(r"SRCH attr=\* \+", mark))
            if begun > searches:
                searches = begun
                os.kill(provider.pid, signal.SIGSTOP)
                ended.wait(2.2)
                os.kill(provider.pid, signal.SIGCONT)
                stood.set()

    watcher = threading.Thread(target=watch)
    watcher.start()
    try:
        yield
    finally:
        ended.set()
        watcher.join()
    assert stood.is_set()


# --- the consumer's configuration ---------------------------------------------------------------


def test_a_suffix_that_is_not_in_the_configuration(both: Pair) -> None:
    seed = ("replica", "seed", "--strategy", "search", *both.bind)
    other = ("--config", both.consumer.config_path, "-b", "dc=other")
    done = refused(both, errors.NoSuchSuffix, *seed, *other)
    assert "dc=example,dc=com" in done.err
    refused(both, errors.NoSuchSuffix, "build", both.export_dir, *other)


def test_a_configuration_that_is_not_there_or_broken(both: Pair, tmp_path: Path) -> None:
    """As one of OpenLDAP 2.7, in which back-mdb is no module, read by Debian's slapd: the hint names the variable."""
    path, text = tmp_path / "slapd.conf", (both.consumer.home / "slapd.conf").read_text()
    build = ("build", both.export_dir, "--config", path)
    refused(both, errors.NoSuchPath, *build)
    path.write_text(f"{text}\nnonsense here\n")
    done = refused(both, errors.ConfigUnreadable, *build)
    assert "nonsense" in done.err
    assert "DITSEED_TOOLS" not in done.err
    path.write_text(text.replace("database mdb", "database frobnicate"))
    assert "DITSEED_TOOLS='env PATH=" in refused(both, errors.ConfigUnreadable, *build).err


def test_maxsize_too_small(both: Pair) -> None:
    wanted = dataclasses.replace(both.provider.settings, overlays=(), server_id=None, maxsize=1 << 20)
    with closing(consumer(both.provider, wanted)) as server:
        small = dataclasses.replace(both, consumer=server)
        done = refused(small, errors.MaxsizeTooSmall, *small.seed("clone"))
        assert "1.0 MiB" in done.err
        for engine in ENGINES:
            for strategy in ("search", "ldif"):
                # The run of the first engine is not gone on with by the second.
                again = ("--engine", engine, "--restart")
                assert "1.0 MiB" in refused(small, errors.MaxsizeTooSmall, *small.seed(strategy), *again).err
            by = (*where(small), "--engine", engine, "--maxsize", "900k")
            for dry in ((), ("--dry-run",)):
                refused(small, errors.MaxsizeTooSmall, "build", both.export_dir, *by, *dry)


def test_schema_that_slapadd_lacks(both: Pair, tmp_path: Path) -> None:
    path = tmp_path / "odd.ldif"
    top = text(both.provider.suffix, objectClass="domain", dc="example")
    for line in ("objectClass: strangeThing", "strangeThing: x"):
        path.write_text(f"{top}dn: cn=odd,{both.provider.suffix}\nobjectClass: device\n{line}\ncn: odd\n\n")
        done = refused(both, errors.SchemaMissing, "build", path, *where(both), "--engine", "slapadd")
        assert "strangething" in done.err.lower()
        assert f"{path}, line " in done.err


# --- the target ---------------------------------------------------------------------------------


@pytest.mark.long
def test_a_target_that_is_not_empty_or_in_use(both: Pair) -> None:
    """In use: also with --replace, and also while slapd has not written an entry yet."""
    both.consumer.slapadd(text(both.consumer.suffix, objectClass="domain", dc="example"))
    for strategy in ("search", "ldif", "clone"):
        assert "--replace" in refused(both, errors.TargetNotEmpty, *both.seed(strategy)).err
    refused(both, errors.TargetNotEmpty, "build", both.export_dir, *where(both))
    for path in both.consumer.database_dir.glob("*.mdb"):
        path.unlink()
    with both.consumer:
        for strategy in ("search", "ldif", "clone"):
            done = ditseed(*both.seed(strategy, "--replace"))
            done.refused(errors.TargetInUse, f"process {both.consumer.pid}")


def test_not_permitted(both: Pair, tmp_path: Path) -> None:
    """As nobody, with an LDIF that everybody can read: the configuration is root's, and then the database directory."""
    path = _world_writable(tmp_path / "open") / "all.ldif"
    path.write_text(both.provider.slapcat())
    path.chmod(0o644)
    build = ("build", path, *where(both))
    assert "root" in refused(both, errors.NotPermitted, *build, prefix=NOBODY).err
    for path in (both.consumer.config_path, *both.consumer.config_path.rglob("*")):
        path.chmod(0o755)
    refused(both, errors.NotPermitted, *build, prefix=NOBODY)


@contextmanager
def _nearly_full(left: int) -> Iterator[Path]:
    """A file system with `left` bytes of room."""
    with loop_filesystem(4) as disk:
        status = os.statvfs(disk)
        (disk / "filler").write_bytes(bytes(status.f_bfree * status.f_frsize - left))
        yield disk


@pytest.fixture
def cramped(both: Pair) -> Iterator[Pair]:
    """The consumer's database directory on such a file system."""
    target = both.consumer.database_dir
    with _nearly_full(1 << 20) as disk:
        subprocess.run(["mount", "--bind", disk, target], check=True)
        try:
            yield both
        finally:
            subprocess.run(["umount", target], check=True)


@pytest.mark.parametrize("strategy", ["search", "ldif", "clone"])
def test_no_space_for_a_seed(cramped: Pair, strategy: str) -> None:
    home = cramped.consumer.database_dir / ".ditseed-seed"
    if strategy == "search":
        assert "needed" in refused(cramped, errors.NoSpace, *cramped.seed(strategy, "--dry-run")).err
    done = refused(cramped, errors.NoSpace, *cramped.seed(strategy))
    assert strategy != "search" or not [*home.glob("parts"), *home.glob("environment/*")]
    if home.exists():
        assert f"of that disk, in {home}:" in done.err, done


def test_a_clone_of_another_suffix(both: Pair) -> None:
    """Refused before the copy."""
    with closing(Slapd(Settings(suffix="dc=other"))) as other:
        other.slapadd(text("dc=other", objectClass="domain", dc="other"))
        seed = ("replica", "seed", "--strategy", "clone", "--from", other.database_dir, *where(both))
        for more in ((), ("--dry-run",)):
            done = refused(both, errors.NoSuchSuffix, *seed, *more)
            assert "dc=other" in done.err
            assert "copy:" not in done.err


def test_no_space_for_a_build(cramped: Pair) -> None:
    """Foreseen: nothing is written, but on request, until the disk is full."""
    build = ("build", cramped.export_dir, *where(cramped), "--maxsize", "1G")
    for dry in ((), ("--dry-run",)):
        done = refused(cramped, errors.NoSpace, *build, *dry)
        assert "needed" in done.err
    assert not list(cramped.consumer.database_dir.glob(".ditseed-build/environment/*"))
    assert "needed" not in refused(cramped, errors.NoSpace, *build, "--no-space-check").err


@pytest.mark.long
def test_no_space_for_an_export(both: Pair) -> None:
    with _nearly_full(100_000) as disk:
        out = disk / "out"
        export = ("export", *both.bind, "-b", both.provider.suffix, "-o", out)
        refused(both, errors.NoSpace, *export)
        assert not (out / "manifest.json").exists()
        (disk / "filler").unlink()
        ditseed(*export).ok()


# --- LDIF that is cut, empty, of another place, or that the consumer cannot take --------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_an_ldif_that_was_cut(both: Pair, tmp_path: Path, engine: str) -> None:
    """After a line in a record, or in a compressed file. Rejects do not make up for what is not there."""
    whole, by = both.provider.slapcat().encode(), (*where(both), "--engine", engine)
    path, packed = tmp_path / "cut.ldif", tmp_path / "cut.ldif.zst"
    path.write_bytes(whole[: whole.index(b"\n", whole.index(b"\ntelephoneNumber", len(whole) // 2) + 1) + 1])
    packed.write_bytes(zstandard.compress(whole)[:-9])
    rejects = ("--max-rejects", 1000) if engine == "native" else ()
    for cut in (path, packed):
        assert str(cut) in refused(both, errors.LdifTruncated, "build", cut, *by, *rejects).err
    refused(both, errors.LdifTruncated, "replica", "seed", "--strategy", "ldif", "--from", path, *by)


@pytest.mark.parametrize("engine", ENGINES)
def test_an_ldif_that_is_empty_or_none(both: Pair, tmp_path: Path, engine: str) -> None:
    path, by = tmp_path / "in.ldif", (*where(both), "--engine", engine)
    refused(both, errors.NoSuchPath, "build", path, *by)
    wrong = {"": errors.EmptyInput, "# only a comment\n\n": errors.EmptyInput, "this is no LDIF\n\n": errors.LdifSyntax}
    for content, error in wrong.items():
        path.write_text(content)
        refused(both, error, "build", path, *by)
    (tmp_path / "none").mkdir()
    refused(both, errors.UsageProblem, "build", tmp_path / "none", *by)


@pytest.mark.parametrize("engine", KINDS)
def test_an_ldif_of_another_suffix_or_without_parents(both: Pair, tmp_path: Path, engine: str) -> None:
    path = tmp_path / "other.ldif"
    path.write_text(text("dc=other", objectClass="domain", dc="other"))
    by = (*where(both), *engine_words(engine))
    error = errors.EntryRefused if engine == "native" else errors.NoSuchSuffix
    assert "dc=other" in refused(both, error, "build", path, *by).err
    orphan = text(f"ou=a,ou=nowhere,{both.provider.suffix}", objectClass="organizationalUnit", ou="a")
    path.write_text(text(both.provider.suffix, objectClass="domain", dc="example") + orphan)
    said = refused(both, errors.MissingParents, "build", path, *by).err
    assert f"the first is ou=nowhere,{both.provider.suffix}" in said


def test_an_ldif_without_context_csn(both: Pair, tmp_path: Path) -> None:
    path = tmp_path / "none.ldif"
    path.write_text(text(both.provider.suffix, objectClass="domain", dc="example"))
    seed = ("replica", "seed", "--strategy", "ldif", "--from", path, *where(both))
    assert "-w" in refused(both, errors.NoContextCSN, *seed).err
