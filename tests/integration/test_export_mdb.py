"""`ditseed export DIR`: the database is exported as slapcat has it, whatever it holds, parents first.

With `-o -` the same LDIF comes through a pipe, and no reader takes a part of it for the whole.
"""

from __future__ import annotations

import itertools
import os
import pty
import re
import shlex
import shutil
import signal
import stat
import subprocess
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from _pytest.mark import ParameterSet

from fixtures import replication
from fixtures.churn import Churn
from fixtures.golden.case import Case
from fixtures.golden.tables import differences
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from fixtures.trees import write_hard_tree, write_people
from loader import _native, errors, ldif
from loader.mdb import meta
from tests.golden.everything import CASES
from tests.support.command import Done, arguments_of, by_shell, ditseed, environment, start
from tests.support.dumped import Record, exported, orphans, records, together
from tests.support.golden import build, fresh, require_fitting, slapadd

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
BROKEN = "ditseed: the LDIF ends early"


def export(source: Path, out: Path, *more: object) -> Done:
    return ditseed("export", source, "-o", out, "--progress", "none", *more)


def assert_as_slapcat(server: Slapd, out: Path, *, in_order: bool = True) -> list[Record]:
    """Each record as slapcat has it; in_order: in that of its IDs too."""
    theirs = [together(record) for record in records(server.slapcat())]
    ours = exported(out)
    if in_order:
        assert ours == theirs
    assert sorted(ours) == sorted(theirs)
    return ours


def _loaded(home: Path, people: int) -> Slapd:
    write_people(home / "people.ldif", SUFFIX, people)
    write_hard_tree(home / "hard.ldif", SUFFIX)
    made = Slapd(Settings(), form="conf")
    made.slapadd(home / "people.ldif", "-w")
    made.slapadd((home / "hard.ldif").read_text().split("\n\n", 1)[1])
    return made


@pytest.fixture(scope="module")
def stopped(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    with closing(_loaded(tmp_path_factory.mktemp("stopped"), 1000)) as made:
        yield made


@pytest.fixture(scope="module")
def moved(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Slapd]:
    """The same with more people; old containers below newer ones, newer entries below those, and a chain that stands on
    its head."""
    with closing(_loaded(tmp_path_factory.mktemp("moved"), 3000)) as made:
        units = [f"ou=u{number},{SUFFIX}" for number in range(4)]
        made.start()
        made.ldapmodify("".join(map(_unit, units)))
        made.ldapmodify(_move(f"ou=people,{SUFFIX}", "ou=Folk", units[0]))
        made.ldapmodify(_unit(f"ou=newer,ou=Folk,{units[0]}"))
        for lower, upper in itertools.pairwise(units):
            made.ldapmodify(_move(lower, lower.partition(",")[0], upper))
        made.stop()
        yield made


def _move(dn: str, rdn: str, above: str) -> str:
    return f"dn: {dn}\nchangetype: modrdn\nnewrdn: {rdn}\ndeleteoldrdn: 1\nnewsuperior: {above}\n\n"


def _unit(dn: str) -> str:
    name = dn.partition(",")[0].partition("=")[2]
    return f"dn: {dn}\nchangetype: add\nobjectClass: organizationalUnit\nou: {name}\n\n"


def _parameter(case: Case) -> ParameterSet:
    return pytest.param(case, id=case.name, marks=[pytest.mark.heavy] if case.heavy else [])


@pytest.mark.rows(9)
@pytest.mark.long("deep")
@pytest.mark.parametrize("case", [_parameter(case) for case in CASES])
def test_every_golden_database(case: Case, tmp_path: Path) -> None:
    """Deep trees, odd DNs, large values, multival, sorted values, holes filled late, the empty suffix."""
    require_fitting(case)
    with closing(fresh(case)) as server:
        slapadd(server, case.write_oracle(tmp_path), *case.options)
        done = export(server.database_dir, tmp_path / "out", "--compress", "none").ok()
        assert re.search("^duplicates +0$", done.out, re.MULTILINE)
        assert_as_slapcat(server, tmp_path / "out", in_order=False)


@pytest.mark.parametrize("compress", ["zstd", "none"])
def test_a_stopped_server(stopped: Slapd, tmp_path: Path, compress: str) -> None:
    done = export(stopped.database_dir, tmp_path / "out", "--compress", compress, "--json").ok()
    made = assert_as_slapcat(stopped, tmp_path / "out")
    assert not list(orphans(made, "dc=com"))
    stored = [line.partition(": ")[2] for line in made[0] if line.startswith("contextCSN")]
    assert stored
    assert done.facts["context_csns"] == stored
    assert (done.facts["base"], done.facts["entries"]) == (SUFFIX, len(made))
    for path in (tmp_path / "out").glob("[0-9]*"):
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
    lock = stopped.database_dir / "lock.mdb"
    assert lock.stat().st_uid == (stopped.database_dir / "data.mdb").stat().st_uid


def test_an_attribute_in_several_places(tmp_path: Path) -> None:
    """As slapadd stores an LDIF whose values do not stand together; other entries stand around it."""
    person = "dn: cn={0},{1}\nobjectClass: person\ncn: {0}\n{2}sn: last\n\n"
    torn = "telephoneNumber: 1\nsn: {0}\ntelephoneNumber: 2\ndescription: {0}\ntelephoneNumber: 3\n"
    people = (person.format(n, SUFFIX, torn.format(n) if n % 3 == 1 else "") for n in range(30))
    top = f"dn: {SUFFIX}\nobjectClass: dcObject\nobjectClass: organization\ndc: example\no: x\n\n"
    with closing(Slapd(Settings(), form="conf")) as made:
        made.slapadd(top + "".join(people), "-q")
        export(made.database_dir, tmp_path / "out", "--compress", "none").ok()
        ditseed("compare", made.database_dir, tmp_path / "out").ok()
        assert any(record != together(record) for record in records(made.slapcat()))
        ours = assert_as_slapcat(made, tmp_path / "out")
        printed = (tmp_path / "out" / "0001.ldif").read_text()
        lines = printed.split("dn: cn=1,")[1].split("\n\n")[0].splitlines()
    kinds = [line.split(":")[0] for line in lines[1:]]
    assert all(kinds.count(a) == 1 or kinds[kinds.index(a) + kinds.count(a) - 1] == a for a in kinds)
    assert len(ours) == 31
    assert (kinds.count("telephoneNumber"), kinds.count("sn")) == (3, 2)


def test_a_branch(stopped: Slapd, tmp_path: Path) -> None:
    base = f"ou=people,{SUFFIX}"
    done = export(stopped.database_dir, tmp_path / "out", "-b", f"OU = People, {SUFFIX}", "--json").ok()
    ours = exported(tmp_path / "out")
    assert ours == [together(record) for record in records(stopped.slapcat()) if record[0].lower().endswith(base)]
    assert len(ours) > 1
    assert done.facts["base"].lower() == base


def test_a_directory_whose_name_is_not_utf_8(stopped: Slapd, tmp_path: Path) -> None:
    odd = tmp_path / os.fsdecode(b"odd\xff")
    shutil.copytree(stopped.database_dir, odd)
    export(odd, tmp_path / "out").ok()
    manifest = ldif.read_manifest(tmp_path / "out")
    assert manifest is not None
    assert manifest.source.endswith(r"odd\xff")


def test_renamed_and_moved(moved: Slapd, tmp_path: Path) -> None:
    done = export(moved.database_dir, tmp_path / "out", "--json").ok()
    made = assert_as_slapcat(moved, tmp_path / "out", in_order=False)
    assert not list(orphans(made, "dc=com"))
    assert any("entry above them is newer" in note for note in done.facts["notes"])


def test_a_parent_that_was_never_added_is_told(tmp_path: Path) -> None:
    """slapadd leaves a record without content for it, and ends with an error."""
    ldif, top = tmp_path / "hole.ldif", f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n"
    ldif.write_text(f"{top}dn: cn=x,ou=nowhere,{SUFFIX}\nobjectClass: device\ncn: x\n\n")
    with closing(Slapd(Settings(), form="conf")) as server:
        with pytest.raises(Exception, match="missing"):
            slapadd(server, ldif)
        done = export(server.database_dir, tmp_path / "out", "--json").ok()
        assert done.facts["entries"] == 2
        assert "1 entries are missing" in done.facts["notes"][0]
        assert_as_slapcat(server, tmp_path / "out")


@pytest.mark.long
def test_beside_a_writer(people_ldif: Path, tmp_path: Path) -> None:
    """Each export is the tree as it was in one moment: it loads, and no entry lacks its parent."""
    with closing(replication.provider()) as server:
        server.slapadd(people_ldif)
        with server:
            with Churn(server, rate=1000) as churn:
                for number in range(8):
                    churn.wait_for(churn.changes() + 100)
                    export(server.database_dir, tmp_path / str(number)).ok()
            export(server.database_dir, tmp_path / "end").ok()
            assert_as_slapcat(server, tmp_path / "end", in_order=False)
    for number in range(8):
        made = exported(tmp_path / str(number))
        assert not list(orphans(made, "dc=com"))
        assert len({record[0].lower() for record in made}) == len(made)
    with closing(Slapd(Settings(), form="conf")) as again:
        build(again, tmp_path / "7").ok()


def _used(server: Slapd) -> bytes:
    """What is used of a file that is as long as maxsize."""
    with (server.database_dir / "data.mdb").open("rb") as file:
        return file.read(meta.read_meta(server.database_dir).used)


def test_damage_names_page_and_table(stopped: Slapd, tmp_path: Path) -> None:
    path = tmp_path / "data.mdb"
    data = bytearray(_used(stopped))
    path.write_bytes(data)
    root = _native.Contents(path).tables["id2e"].root
    assert root is not None
    data[root * 4096 + 8 : root * 4096 + 16] = b"\xff" * 8
    path.write_bytes(data)
    export(tmp_path, tmp_path / "out").refused(errors.MdbDamaged, f"(page {root}, table id2e)")


def test_not_a_database(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    export(tmp_path / "empty", tmp_path / "out").refused(errors.UsageProblem)
    export(f"mdb:{tmp_path / 'empty'}", tmp_path / "out").refused(errors.NotLmdb)
    (tmp_path / "data.mdb").write_bytes(os.urandom(65536))
    export(tmp_path, tmp_path / "out").refused(errors.NotLmdb)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("option", "value", "error", "said"),
    [
        *(
            (option, value, errors.UsageProblem, f"{option} is only for a server, not for a database")
            for option, value in (("-H", "ldapi:///"), ("--pieces", 2), ("--max-rate", 5), ("--page", 9))
        ),
        ("-b", f"ou=nobody,{SUFFIX}", errors.NoEntry, f"there is no entry ou=nobody,{SUFFIX}"),
    ],
)
def test_options_that_are_refused(
    stopped: Slapd, tmp_path: Path, option: str, value: object, error: type[errors.LoaderError], said: str
) -> None:
    export(stopped.database_dir, tmp_path / "out", option, value).refused(error, said)


# --- through a pipe ---------------------------------------------------------------------------------


def _words(source: Path, *more: object) -> tuple[object, ...]:
    return ("export", source, "-o", "-", "--progress", "none", *more)


def _piped(*commands: list[str]) -> Done:
    """Through real pipes of a shell, as in the manual."""
    line = " | ".join(shlex.join(command) for command in commands)
    done = subprocess.run(["bash", "-o", "pipefail", "-c", line], capture_output=True, text=True, env=environment())
    return Done(done.returncode, done.stdout, done.stderr)


def _slapadd(server: Slapd) -> list[str]:
    where = [*server.config_arguments, "-b", SUFFIX]
    return [str(word) for word in server.installation.command("slapadd", "-q", *where)]


@pytest.mark.long
def test_as_the_files(moved: Slapd, tmp_path: Path) -> None:
    """Byte for byte, whatever the jobs and the compression; nothing else is on stdout."""
    out = tmp_path / "out"
    made = export(moved.database_dir, out, "--compress", "none", "--json").ok().facts
    files = "".join(path.read_text() for path in sorted(out.glob("*.ldif")))
    for jobs in (1, 2, 7):
        assert ditseed(*_words(moved.database_dir, "--jobs", jobs)).ok().out == files
    assert _piped(arguments_of(*_words(moved.database_dir, "--compress", "zstd")), ["zstdcat"]).ok().out == files
    told = ditseed(*_words(moved.database_dir, "--json")).ok().err
    assert f'"content_checksum": "{made["content_checksum"]}"' in told
    assert f'"entries": {made["entries"]}' in told


@pytest.mark.long
def test_into_slapadd_and_build(moved: Slapd) -> None:
    with closing(Slapd(Settings(), form="conf")) as theirs, closing(Slapd(Settings(), form="conf")) as ours:
        export = arguments_of(*_words(moved.database_dir))
        _piped(export, _slapadd(theirs)).ok()
        where = ("--config", ours.config_path, "-b", SUFFIX)
        _piped(export, arguments_of("build", "-", *where)).ok()
        assert sorted(records(theirs.slapcat())) == sorted(together(record) for record in records(moved.slapcat()))
        assert not differences(theirs.database_dir, ours.database_dir, frozenset())


@pytest.mark.long
def test_a_damaged_source_of_a_stream(moved: Slapd, tmp_path: Path) -> None:
    """A page of entries is gone, in the middle of what is read."""
    data = bytearray(_used(moved))
    page = data.rfind(b"user0002900@example.com") // 4096 * 4096
    data[page + 8 : page + 64] = b"\xff" * 56
    (tmp_path / "data.mdb").write_bytes(data)
    done = ditseed(*_words(tmp_path))
    done.refused(errors.MdbDamaged)
    assert BROKEN in done.out
    sender = arguments_of(*_words(tmp_path))
    with closing(Slapd(Settings(), form="conf")) as target:
        assert "could not parse entry" in _piped(sender, _slapadd(target)).err
        where = ("--config", target.config_path, "-b", SUFFIX, "--target", tmp_path / "new")
        assert errors.LdifTruncated.code in _piped(sender, arguments_of("build", "-", *where)).err
        assert not (tmp_path / "new" / "data.mdb").exists()


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_stopped(moved: Slapd, number: signal.Signals) -> None:
    """Its reader is slow, so that it waits in the middle."""
    process = start(*_words(moved.database_dir))
    assert process.stdout is not None
    process.stdout.read(1)
    process.send_signal(number)
    time.sleep(3)  # it hears the signal within 50 ms, later on a busy machine; then it waits 30 s for its reader
    rest, told = process.communicate()
    assert process.returncode == 128 + number
    assert errors.Cancelled.code in told
    assert rest.endswith("\n\n")
    assert BROKEN in rest


def test_a_reader_that_goes(moved: Slapd) -> None:
    done = _piped(arguments_of(*_words(moved.database_dir)), ["head", "-c", "1000"])
    done.refused(errors.ReaderGone, "hint: Look for the reason in that process's messages")
    assert len(done.out) == 1000


@pytest.mark.parametrize(
    ("redirected", "error", "words"),
    [
        ("> /dev/full", errors.NoSpace, "standard output"),
        (">&-", errors.UsageProblem, "closed"),
        ("--restart", errors.UsageProblem, "--restart is only for"),
        ("--timeout read=5", errors.UsageProblem, "--timeout is only for"),
        ("--page 9", errors.UsageProblem, "--page is only for a server"),
    ],
)
def test_wrong_uses(moved: Slapd, redirected: str, error: type[errors.LoaderError], words: str) -> None:
    done = by_shell(redirected, *_words(moved.database_dir))
    done.refused(error, words)
    assert not done.out


def test_a_server_is_exported_to_no_pipe() -> None:
    ditseed("export", "-H", "ldapi:///", "-b", SUFFIX, "-o", "-").refused(errors.UsageProblem, "give a directory")
    assert not Path("-").exists()


def test_no_packed_bytes_on_a_terminal(moved: Slapd) -> None:
    ours, theirs = pty.openpty()
    with open(ours, "rb", buffering=0), open(theirs, "wb", buffering=0) as terminal:
        done = ditseed(*_words(moved.database_dir, "--compress", "zstd"), stdout=terminal)
    done.refused(errors.UsageProblem, "which is a terminal")
