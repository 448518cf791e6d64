"""Indexes made again from a stored database: each table is the one that slapindex makes of it, either snapshot of the
file is whole, and every page is accounted for. Those of OpenLDAP 2.7 (LMDB 1.0) are the ones that slapadd of 2.7.0 made
(fixtures/golden/of-2.7), and, where a 2.7 is installed, those of its slapindex."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from pathlib import Path

import pytest
from msgspec import structs

from fixtures import openldap_27
from fixtures.golden.case import Case, server_with
from fixtures.golden.of_2_7 import ALL, Made
from fixtures.golden.tables import differences
from fixtures.limits import loop_filesystem, missing_loop_filesystem
from fixtures.slapd import Slapd
from loader import indexes
from loader.declared import AuditResources
from loader.defaults import ENV_KILL_AT
from loader.errors import LoaderError, MapFull, NoSpace, NotProven, OtherFormat, TargetInUse
from loader.mdb import contents, edits, environment, meta
from loader.mdb.meta import DATA
from loader.mdb.verify import audit, verify
from loader.operations import made_with
from loader.operations.verify import core_database_of, core_target_of
from loader.progress import Meter
from loader.server import configuration
from loader.sinks import changing as core
from loader.sinks.mdb import Resources
from tests.golden.everything import BY_NAME, PARAMETERS
from tests.golden.test_versions import CHANGES, NEW
from tests.support.command import ditseed
from tests.support.golden import fresh, require_fitting, slapadd
from tests.support.require import require_2_7

pytestmark = pytest.mark.slapd

UNKNOWN = "authzTo"  # it has no index keys


@contextmanager
def loaded(case: Case, directory: Path) -> Iterator[Slapd]:
    ldif = case.write(directory) if case.oracle is None else case.write_oracle(directory)
    with closing(fresh(case)) as server:
        slapadd(server, ldif, *case.options)
        yield server


def rebuild(
    server: Slapd,
    attributes: Sequence[str],
    scratch: Path,
    map_size: int = 0,
    place: Path | None = None,
    memory: int = 65536,
) -> None:
    """`memory`: KiB."""
    config = configuration.read(server.config_path)
    target = core_target_of(config, config.database(server.suffix), server.database_dir)
    target = structs.replace(target, map_size=map_size or target.map_size)
    resources = Resources(memory << 10, 2, scratch)
    core.rebuild(place or server.database_dir, target, tuple(attributes), resources, Meter("index"))


@pytest.mark.rows(6, "suffix-root-context")
@pytest.mark.parametrize("case", PARAMETERS)
def test_equal_to_slapindex(case: Case, tmp_path: Path) -> None:
    require_fitting(case)
    with loaded(case, tmp_path) as server:
        found, ours = configuration.read(server.config_path).database(server.suffix), server.database_dir
        parsed = indexes.parse(found.indexes)
        attributes = [one.attribute for key, one in parsed.items() if key != indexes.DEFAULT]
        if not attributes:
            pytest.skip("a case without an index")
        rebuild(server, attributes, tmp_path)
        shutil.copytree(ours, tmp_path / "ours")
        edits.empty_indexes(ours, [name.partition(";")[0] for name in attributes])
        server.tool("slapindex", "-q", *server.config_arguments, "-b", server.suffix)
        found = differences(ours, tmp_path / "ours")
    assert not found, f"{case.shows}:\n" + "\n".join(found)


MADE = ["cn", "sn", "uid"]
POINTS = {"index.written": False, "index.synced": False, "index.switched": True}
HOLDER = """
import sys, lmdb
held = lmdb.open(sys.argv[1], create=False, max_dbs=64)
print("open", flush=True)
sys.stdin.read()
"""


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Slapd]:
    with loaded(BY_NAME["broad"], tmp_path) as made:
        yield made


def require_whole(server: Slapd) -> None:
    """Each page is in one table or free, and each index is that of the entries."""
    words = ("--config", server.config_path, "-b", server.suffix, "--verify", "indexes")
    ditseed("verify", *words).ok()


@pytest.mark.long
def test_liblmdb_and_slapd_go_on_with_it(server: Slapd, tmp_path: Path) -> None:
    """An index that was emptied is whole again, and one that was not named stays empty. Then all, twice, so that there
    are pages to be freed, and lists of free pages from before; then slapd uses them."""
    place, indexed = server.database_dir, contents.indexes(server.database_dir)
    edits.empty_indexes(place, ["cn", "sn"])
    rebuild(server, ["cn"], tmp_path)
    assert contents.indexes(place) == {**indexed, "sn": 0}
    assert indexed["cn"] > 0
    before = meta.read_meta(place)
    for _ in range(2):
        rebuild(server, MADE, tmp_path)
        require_whole(server)
    assert meta.read_meta(place).txnid == before.txnid + 2
    for command in (["mdb_stat", "-eff"], ["mdb_dump", "-a"]):
        if shutil.which(command[0]) is None and "CI" not in os.environ:
            pytest.skip("lmdb-utils are not installed")
        subprocess.run([*command, "-n", str(place / meta.DATA)], stdout=subprocess.DEVNULL, check=True)
    server.start()
    dns = [f"cn=after {number},{server.suffix}" for number in range(1000)]
    record = "dn: {0}\nobjectClass: person\ncn: after\nsn: {1}\n\n"
    server.ldapadd("".join(record.format(dn, at) for at, dn in enumerate(dns)))
    change = "dn: {0}\nchangetype: modify\nreplace: sn\nsn: changed\n\n"
    server.ldapmodify("".join(change.format(dn) for dn in dns[::2]))
    server.ldapmodify("".join(f"dn: {dn}\nchangetype: delete\n\n" for dn in dns[:700]))
    server.stop()
    require_whole(server)
    rebuild(server, MADE, tmp_path)
    require_whole(server)


@pytest.mark.long
@pytest.mark.parametrize("point", POINTS)
def test_killed(server: Slapd, tmp_path: Path, point: str, monkeypatch: pytest.MonkeyPatch) -> None:
    place = server.database_dir
    edits.empty_indexes(place, ["cn"])
    old, before = (place / meta.DATA).read_bytes(), meta.read_meta(place)
    monkeypatch.setenv(ENV_KILL_AT, point)
    with pytest.raises(LoaderError):
        rebuild(server, MADE, tmp_path)
    monkeypatch.delenv(ENV_KILL_AT)
    assert (contents.indexes(place)["cn"] > 0) == POINTS[point]
    if not POINTS[point]:
        assert (place / meta.DATA).read_bytes()[: before.used] == old[: before.used]
        rebuild(server, MADE, tmp_path)
    require_whole(server)


def test_what_is_refused_changes_nothing(server: Slapd, tmp_path: Path) -> None:
    """Keys that the core does not know; a map too small; somebody else who has it open."""
    place = server.database_dir
    before = (place / DATA).read_bytes()
    config = configuration.read(server.config_path)
    database = config.database(server.suffix)
    odd = structs.replace(database, indexes=(*database.indexes, f"{UNKNOWN} eq"))
    given, means = core_target_of(config, odd, place), Resources(64 << 20, 2, tmp_path)
    for name in (UNKNOWN, "no-such-attribute"):
        with pytest.raises(NotProven):
            core.rebuild(place, given, (name,), means, Meter("index"))
    with pytest.raises(MapFull):
        rebuild(server, MADE, tmp_path, meta.read_meta(place).used + 8192)
    command = [sys.executable, "-c", HOLDER, place]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"open\n"
        with pytest.raises(TargetInUse):
            rebuild(server, MADE, tmp_path)
    assert (place / DATA).read_bytes() == before


@pytest.mark.long
@pytest.mark.skipif(missing_loop_filesystem() is not None, reason=str(missing_loop_filesystem()))
def test_a_full_disk_changes_nothing(server: Slapd, tmp_path: Path) -> None:
    """And what was written in vain is given back."""
    origin = server.database_dir / meta.DATA
    with loop_filesystem((origin.stat().st_size >> 20) + 24) as disk:
        copy = disk / meta.DATA
        shutil.copyfile(origin, copy)
        os.truncate(copy, meta.read_meta(copy).used)  # what it has beyond would be room
        (disk / environment.LOCK).write_bytes(bytes(16 << 10))
        with open(disk / "filler", "wb", buffering=0) as file:
            for size in (1 << 20, 4 << 10):
                with suppress(OSError):
                    while file.write(bytes(size)) == size:
                        os.fsync(file)
            file.truncate(file.tell() - (8 << 10))  # all but this room is taken
            os.fsync(file)
        before = copy.read_bytes()
        with pytest.raises(NoSpace):
            rebuild(server, MADE, tmp_path, place=disk)
        assert copy.read_bytes() == before


def test_what_does_not_fit_into_memory_is_sorted_in_files(server: Slapd, tmp_path: Path) -> None:
    """The tables are the same, and without a place for the files it cannot be done."""
    rebuild(server, MADE, tmp_path)
    shutil.copytree(server.database_dir, tmp_path / "ample")
    rebuild(server, MADE, tmp_path, memory=16)
    assert not differences(server.database_dir, tmp_path / "ample")
    with pytest.raises(LoaderError, match="nowhere"):
        rebuild(server, MADE, tmp_path / "nowhere", memory=16)


# --- OpenLDAP 2.7 -----------------------------------------------------------------------------------


@contextmanager
def of_2_7(made: Made, *lines: str) -> Iterator[Slapd]:
    """A server of here with a database of 2.7; its slaptest converts with its own default of index_hash64."""
    with closing(server_with(made.case.settings, *(lines or ("index_hash64 on",)))) as found:
        found.database_dir.rmdir()
        made.unpack(found.database_dir)
        yield found


def look(there: Slapd) -> made_with.Fit:
    config = configuration.read(there.config_path)
    return made_with.look(there.database_dir, config, config.database(there.suffix), Meter("look"))


def problems(there: Slapd) -> set[str]:
    """`ditseed verify` refuses the file: the slapd of here cannot open it."""
    config, place = configuration.read(there.config_path), there.database_dir
    known = core_database_of(config, config.database(there.suffix), place)
    report = audit(place, "indexes", AuditResources(), Meter("verify"), known)
    assert report.notes == ()
    return {one.kind for one in report.problems}


@pytest.mark.long
@pytest.mark.parametrize("made", ALL.values(), ids=ALL)
def test_equal_to_what_slapadd_of_2_7_made(made: Made, tmp_path: Path) -> None:
    """What lacks there is found. Other hashes are, too: `index_hash64 off` is no default of 2.7."""
    with of_2_7(made) as there:
        assert (problems(there), look(there).rebuild) == (set(), ())
        attributes = list(contents.indexes(there.database_dir))
        assert "objectClass" in attributes
        edits.empty_indexes(there.database_dir, attributes[:1])
        assert problems(there) == {"indexes.table", "indexes.missing"}
        found = look(there)
        assert (found.rebuild, found.otherwise, found.unknown) == (tuple(attributes[:1]), (), ())
        edits.empty_indexes(there.database_dir, attributes)
        rebuild(there, attributes, tmp_path)
        assert look(there).rebuild == ()
        verify(there.database_dir, "tree", Meter("verify"))
        assert differences(made.unpack(tmp_path / "first"), there.database_dir) == []
    with of_2_7(made, "index_hash64 off") as there:
        assert "objectClass" in look(there).rebuild


def test_a_configuration_of_another_format_is_refused_once() -> None:
    """Not with a problem for each entry, and a slapindex that would damage the file."""
    with of_2_7(ALL["bare"]) as there:
        for place in ((), (there.database_dir,)):
            done = ditseed("verify", *place, "--config", there.config_path)
            done.refused(OtherFormat, "format 3")
            assert done.out == ""
        ditseed("verify", there.database_dir).ok()


def test_doctor_looks_at_the_indexes_of_2_7() -> None:
    """Where slapd opens the file: one of 2.4 to 2.6 does not."""
    require_2_7()
    with of_2_7(ALL["most"]) as there:
        for emptied, words in (
            ([], "its indexes agree with a sample"),
            (["objectClass"], "the index of objectClass lacks"),
        ):
            edits.empty_indexes(there.database_dir, emptied)
            env = {"DITSEED_TOOLS": openldap_27.tools()}
            findings = ditseed("doctor", "--config", there.config_path, "--json", env=env).facts["findings"]
            (told,) = [one["what"] for one in findings if one["rule"] == "indexes"]
            assert words in told


@pytest.mark.long
@pytest.mark.parametrize("made", ALL.values(), ids=ALL)
def test_a_real_2_7_goes_on_with_them(made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In a database that slapd itself has written to, so that it has free pages."""
    require_2_7()
    env, by_slapindex, copy = {"DITSEED_TOOLS": openldap_27.tools()}, tmp_path / "by-slapindex", tmp_path / "copy"
    with closing(made.server()) as installed:
        slapadd(installed, made.case.write_oracle(tmp_path))
        with installed:
            installed.ldapmodify(CHANGES)
            installed.stop()
            attributes = list(contents.indexes(installed.database_dir))
            ditseed("clone", installed.database_dir, copy, env=env).ok()
            edits.empty_indexes(installed.database_dir, attributes)
            installed.tool("slapindex", "-q", *installed.config_arguments, "-b", installed.suffix)
            shutil.copytree(installed.database_dir, by_slapindex)
            shutil.copy(copy / meta.DATA, installed.database_dir)
            edits.empty_indexes(installed.database_dir, attributes)
            with monkeypatch.context() as patch:
                patch.setenv("DITSEED_TOOLS", env["DITSEED_TOOLS"])
                rebuild(installed, attributes, tmp_path)
            assert differences(by_slapindex, installed.database_dir) == []
            installed.start()
            assert installed.search("(objectClass=organizationalRole)", ("1.1",))
            installed.ldapmodify(f"dn: {NEW}\nchangetype: delete\n")
            installed.ldapmodify(CHANGES)
            installed.stop()
            ditseed("verify", "--config", installed.config_path, "--verify", "indexes", env=env).ok()
