"""`ditseed migrate`: what it keeps, what it refuses, what it foresees."""

from __future__ import annotations

import dataclasses
import os
import re
import shlex
import shutil
import textwrap
import time
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import pytest

from fixtures import openldap_27
from fixtures.churn import Churn
from fixtures.golden.reading import Database
from fixtures.golden.tables import differences
from fixtures.replication import SESSION_LOG, refresh_report, wait_in_sync
from fixtures.slapd import Form, ServerError, Slapd
from fixtures.slapd_config import Settings
from loader import errors
from loader.errors import LoaderError
from loader.mdb import meta
from tests.support.adding import SUFFIX, TOP, unit
from tests.support.command import Done, ditseed
from tests.support.disks import loop_filesystem
from tests.support.require import require_2_7
from tests.support.seeding import Pair, pair
from tests.support.trees import assert_same, tree

pytestmark = pytest.mark.slapd


@pytest.fixture
def old() -> Iterator[Slapd]:
    with closing(Slapd(Settings(indexes=("objectClass eq",)))) as server:
        yield server


@pytest.fixture
def new() -> Iterator[Slapd]:
    with closing(Slapd(Settings(indexes=("ou eq,sub", "entryUUID eq")))) as server:
        yield server


def _migrate(old: Slapd, new: Slapd, *more: object, **env: str) -> Done:
    return ditseed("migrate", old.database_dir, new.database_dir, "--config", new.config_path, *more, env=env)


def _refused(done: Done, kind: type[LoaderError], *words: str) -> str:
    done.refused(kind, *words)
    assert done.out == ""
    return done.err


def _nothing_was_made(new: Slapd) -> bool:
    return not (new.database_dir / "data.mdb").exists()


def _foreseen(old: Slapd, new: Slapd, words: str, kind: type[LoaderError]) -> str:
    """A dry run says these words; then it is refused, with what is returned, and nothing is made."""
    plan = _migrate(old, new, "--dry-run")
    assert (plan.status, words in plan.out) == (1, True), plan
    said = _refused(_migrate(old, new), kind)
    assert _nothing_was_made(new)
    return said


def test_all_is_kept_of_a_database_in_use(old: Slapd, new: Slapd) -> None:
    """Names, contextCSN, an entry whose parent is younger, and a value that breaks its syntax, which is counted;
    indexes as the new configuration says."""
    invalid = unit("b", f"ou=a,{SUFFIX}").replace("ou: b", "ou: b\ntelephoneNumber: \u00e9")
    old.slapadd(TOP + unit("a") + invalid, "-w")
    with old:
        old.ldapmodify(unit("late").replace("objectClass", "changetype: add\nobjectClass", 1))
        old.ldapmodify(
            f"dn: ou=a,{SUFFIX}\nchangetype: modrdn\nnewrdn: ou=moved\ndeleteoldrdn: 1\nnewsuperior: ou=late,{SUFFIX}\n"
        )
        facts = _migrate(old, new, "--json").ok().facts
        assert (facts["entries"], facts["compared"], facts.get("made_again")) == (4, "equal", None)
        assert facts["invalid values"] == ["1 of telephoneNumber (1.3.6.1.4.1.1466.115.121.1.50)"]
        assert new.slapcat() == old.slapcat()
    with new:
        (found,) = new.search("(ou=*ove*)", base=SUFFIX)
        assert found[0] == f"ou=moved,ou=late,{SUFFIX}"


@pytest.mark.long
def test_entry_ids_stay(old: Slapd, new: Slapd) -> None:
    """Where entries were deleted, too: there and back is the first, key by key."""
    old.slapadd(TOP + unit("a") + unit("b") + unit("c"))
    old.start()
    old.ldapmodify(f"dn: ou=a,{SUFFIX}\nchangetype: delete\n")
    old.stop()
    _migrate(old, new).ok()
    with closing(Database(old.database_dir)) as one, closing(Database(new.database_dir)) as other:
        for table in ("id2e", "dn2i", "ad2i"):
            assert list(one.rows(table)) == list(other.rows(table))
    with closing(Slapd(old.settings)) as again:
        _migrate(new, again).ok()
        assert not differences(old.database_dir, again.database_dir)
    ditseed("verify", new.database_dir, "--config", new.config_path, "--verify", "indexes").ok()
    with new:
        new.ldapmodify(unit("d").replace("objectClass", "changetype: add\nobjectClass", 1))
        assert [dn for dn, _ in new.search("(ou=d)", base=SUFFIX)] == [f"ou=d,{SUFFIX}"]


@pytest.mark.parametrize(
    ("wanted", "why"),
    [
        (Settings(global_lines=("sortvals ou",)), "ou: sortvals"),
        (Settings(database_lines=("multival default 1,0",)), "multival"),
    ],
)
def test_what_would_be_stored_otherwise_is_made_again(old: Slapd, wanted: Settings, why: str) -> None:
    old.slapadd(TOP + unit("b").replace("ou: b", "ou: b\nou: a"))
    with closing(Slapd(wanted)) as new, closing(Slapd(wanted)) as oracle:
        facts = _migrate(old, new, "--json").ok().facts
        assert why in facts["made_again"]
        oracle.slapadd(old.slapcat())
        assert not differences(oracle.database_dir, new.database_dir)


@pytest.mark.long
def test_of_a_database_that_is_written_to_it_is_one_moment(old: Slapd, new: Slapd, people_ldif: Path) -> None:
    """The checksum of the snapshot is that of the new database, whatever comes meanwhile."""
    old.slapadd(people_ldif, "-w")
    with old, Churn(old, rate=500) as churn:
        churn.wait_for(20)
        facts = _migrate(old, new, "--json").ok().facts
        assert facts["compared"] == "equal"
        churn.wait_for(churn.changes() + 1)
    ditseed("verify", new.database_dir, "--verify", "tree").ok()
    assert len(re.findall("^dn:", new.slapcat(), re.MULTILINE)) == facts["entries"]


def test_a_new_directory_belongs_to_the_account_of_the_old_one(old: Slapd, tmp_path: Path) -> None:
    """A dry run leaves nothing of it."""
    old.slapadd(TOP)
    made = tmp_path / "above" / "made"
    command = ("migrate", old.database_dir, made, "--config", old.config_path)
    ditseed(*command, "--dry-run").ok()
    assert list(tmp_path.iterdir()) == []
    made.parent.mkdir()
    shutil.chown(old.database_dir, 12345, 12345)
    ditseed(*command).ok()
    assert {path.stat().st_uid for path in (made, made / "data.mdb")} == {12345}


@pytest.mark.parametrize("form", ["config", "conf"])
def test_a_missing_target_that_the_configuration_names(form: Form, old: Slapd) -> None:
    """Once done, it says so."""
    old.slapadd(TOP)
    with closing(Slapd(form=form)) as new:
        new.database_dir.rmdir()
        _migrate(old, new, "--dry-run").ok()
        _refused(_migrate(old, new, "-b", "dc=other"), errors.NoSuchSuffix)
        assert not new.database_dir.exists()
        assert re.search("^compared +equal$", _migrate(old, new).ok().out, re.MULTILINE)
        assert tree(new.slapcat()) == tree(old.slapcat())
        again = _migrate(old, new).ok()
        assert "done before" in again.out
        assert "nothing was done now" in again.err


@pytest.mark.long
def test_a_configuration_that_changed_meanwhile_counts(old: Slapd) -> None:
    old.slapadd(TOP)
    with closing(Slapd(Settings(indexes=()), form="conf")) as new:
        assert _migrate(old, new, DITSEED_KILL_AT="compare.start").status == -9
        assert "load: done before" in _migrate(old, new, DITSEED_KILL_AT="publish.start").err
        text = new.config_path.read_text()
        new.config_path.write_text(text.replace("maxsize ", "index dc eq\nmaxsize "))
        assert _migrate(old, new, "--json").ok().facts["tables"]["dc"] == 1
        assert "nothing was done now" in _migrate(old, new).ok().err
        new.config_path.write_text(text)
        _refused(_migrate(old, new), errors.TargetNotEmpty)


def test_what_does_not_equal_the_source_is_not_published(old: Slapd, new: Slapd) -> None:
    """Another database in the place of the one that was made."""
    old.slapadd(TOP + unit("a"))
    assert _migrate(old, new, DITSEED_KILL_AT="compare.start").status == -9
    made = new.database_dir / ".ditseed-migrate" / "environment" / "data.mdb"
    with closing(Slapd(new.settings)) as other:
        other.slapadd(old.slapcat().replace("\nou: a\n", "\nou: a\ndescription: x\n"))
        shutil.copyfile(other.database_dir / "data.mdb", made)
    compare = ("compare", old.database_dir, made.parent)
    _refused(_migrate(old, new), errors.MdbDamaged, f"`ditseed {shlex.join(map(str, compare))}`")
    assert f"ou=a,{SUFFIX}" in ditseed(*compare).out
    assert _nothing_was_made(new)


@pytest.mark.long
def test_a_database_in_the_way_is_refused(old: Slapd, new: Slapd) -> None:
    """Nor does a finished migration hide what was written later."""
    old.slapadd(TOP + unit("a"))
    new.slapadd(TOP)
    for name in ("b", "c"):  # which is written since it was killed, and not lost
        before = new.slapcat()
        _refused(_migrate(old, new), errors.TargetNotEmpty)
        assert new.slapcat() == before
        assert _migrate(old, new, "--replace", DITSEED_KILL_AT="compare.start").status == -9
        old.slapadd(unit(name))
        _migrate(old, new, "--replace").ok()
        assert tree(new.slapcat()) == tree(old.slapcat())
        old.slapadd(unit(f"{name} since"))


def test_a_source_that_is_empty_or_lacks_its_suffix_entry_is_refused(old: Slapd, new: Slapd) -> None:
    """slapadd says so, too, and leaves what it was given."""
    old.start()
    old.stop()
    _refused(_migrate(old, new), errors.EmptyInput)
    assert _nothing_was_made(new)
    with pytest.raises(ServerError, match="entries missing"):
        old.slapadd(unit("a"))
    assert "`ditseed build`" in _foreseen(old, new, "parent entries are missing", errors.MissingParents)


def test_another_suffix_and_the_source_itself_are_refused(old: Slapd) -> None:
    old.slapadd(TOP)
    _refused(_migrate(old, old), errors.UsageProblem, "is the source itself")
    with closing(Slapd(Settings(suffix="dc=other,dc=org"))) as new:
        _refused(_migrate(old, new), errors.NoSuchSuffix, SUFFIX)
        _refused(_migrate(old, new, "-b", "dc=other,dc=org"), errors.NoSuchSuffix)
        assert _nothing_was_made(new)


def test_what_the_new_schema_lacks_is_named(tmp_path: Path, new: Slapd) -> None:
    schema = tmp_path / "own.schema"
    schema.write_text(
        "attributetype ( 1.3.6.1.4.1.55555.1 NAME 'ownNumber' SUP name )\n"
        "attributetype ( 1.3.6.1.4.1.55555.2 NAME 'ownName' SUP name )\n"
        "objectclass ( 1.3.6.1.4.1.55555.3 NAME 'ownThing' SUP top AUXILIARY MAY ( ownNumber $ ownName ) )\n"
    )
    with closing(Slapd(Settings(schema=(schema,)))) as old:
        top = TOP.replace("dc: example", "objectClass: ownThing\nownNumber: 1\ndc: example")
        old.slapadd(top + unit("a").replace("ou: a", "objectClass: ownThing\nownName: 1\nou: a"))
        said = _foreseen(old, new, "ownNumber, ownName", errors.SchemaMissing)
        assert "ownNumber, ownName, ownthing [" in said


@pytest.mark.long
def test_an_entry_that_the_new_schema_forbids_is_named(old: Slapd, new: Slapd) -> None:
    old.slapadd(TOP + unit("wrong").replace("ou: wrong", "ou: wrong\nmail: a@b.c"), "-s")
    refusal = f"ou=wrong,{SUFFIX} was refused"
    said = _foreseen(old, new, refusal, errors.MadeOtherwise)
    kept = new.database_dir / ".ditseed-migrate" / "rejects.ldif"
    assert refusal in said
    assert f"the entry is in {kept}" in said
    assert "mail: a@b.c" in kept.read_text()


@pytest.mark.long
def test_a_plan_writes_nothing(old: Slapd, new: Slapd, people_ldif: Path) -> None:
    old.slapadd(people_ldif)
    told = _migrate(old, new, "--dry-run", "--json").ok().facts
    assert (told["entries"], told["accepted"], told["lacking"]) == (1029, True, [])
    assert told["needed"] > 1 << 19
    assert told["seconds"] > 0
    assert re.search("^accepted +yes$", _migrate(old, new, "--dry-run").ok().out, re.MULTILINE)
    assert not list(new.database_dir.iterdir())


def test_a_plan_tells_what_the_new_slapd_does_not_accept(old: Slapd) -> None:
    old.slapadd(TOP)
    with closing(Slapd(form="conf")) as new:
        with new.config_path.open("a") as file:
            file.write("no-such-setting on\n")
        _foreseen(old, new, "no-such-setting", errors.ConfigUnreadable)


@pytest.mark.long
def test_a_map_that_is_too_small_is_foreseen(old: Slapd, people_ldif: Path) -> None:
    old.slapadd(people_ldif)
    with closing(Slapd(Settings(maxsize=1 << 20))) as new:
        _foreseen(old, new, "maxsize", errors.MaxsizeTooSmall)
        _migrate(old, new, "--maxsize", "auto").ok()
        assert tree(new.slapcat()) == tree(old.slapcat())


def test_a_disk_that_is_too_small_is_left_as_it_is(old: Slapd, new: Slapd) -> None:
    """Unless it is asked to go on."""
    names = "".join(f"member: cn=u{number},{SUFFIX}\n" for number in range(200_000))
    old.slapadd(f"{TOP}dn: cn=all,{SUFFIX}\nobjectClass: groupOfNames\ncn: all\n{names}")
    with loop_filesystem(4) as disk:
        migrate = ("migrate", old.database_dir, disk / "new", "--config", new.config_path)
        before = os.statvfs(disk).f_bavail
        done = ditseed(*migrate, "--dry-run")
        assert (done.status, "free" in done.out.partition("problems")[2]) == (1, True), done
        _refused(ditseed(*migrate), errors.NoSpace, "needed")
        assert os.statvfs(disk).f_bavail > 0.9 * before
        ditseed(*migrate, "--dry-run", "--no-space-check").ok()
        _refused(ditseed(*migrate, "--no-space-check"), errors.NoSpace, "left")
        assert not (disk / "new" / "data.mdb").exists()


@pytest.mark.long
def test_another_database_of_the_same_transaction_is_not_done(old: Slapd, new: Slapd, tmp_path: Path) -> None:
    """What ditseed builds always has transaction 1, and cp leaves the inode as it is."""
    ldif = tmp_path / "x.ldif"
    for entries, text, more in ((1, TOP, ()), (2, TOP + unit("a"), ("--replace",))):
        ldif.write_text(text)
        ditseed("build", ldif, "--config", old.config_path, "--target", tmp_path / str(entries)).ok()
        shutil.copyfile(tmp_path / str(entries) / "data.mdb", old.database_dir / "data.mdb")
        assert _migrate(old, new, "--json", *more).ok().facts["entries"] == entries


# --- docs/upgrade.md, walked through with a real 2.7 while a writer changes the provider; and the way back. Only names
# and paths are those of the test.

UP, BACK = (Path(__file__).parents[2] / "docs/upgrade.md").read_text().split("## The way back")
SYNCPROV = f"overlay syncprov\nsyncprov-checkpoint 100 1\nsyncprov-sessionlog {SESSION_LOG}"
A_CHANGE = "dn: {}\nchangetype: modify\nreplace: o\no: changed\n"


@dataclass(frozen=True)
class Busy:
    """A provider of so many people; rate: changes a second, `least` at least. settings: of both. prefix: of the
    commands, which run on the provider's own processors."""

    people: int
    rate: float
    least: float = 0.0
    settings: Settings | None = None
    prefix: tuple[str, ...] = ()


class Walk:
    """Through one of the two ways: from the provider of `both` to its consumer."""

    def __init__(self, text: str, both: Pair, env: Mapping[str, str], prefix: tuple[str, ...] = ()) -> None:
        """prefix: of the commands of ditseed."""
        self.text, self.both, self.prefix = text, both, prefix
        self.old, self.new = both.provider, both.consumer
        if text is BACK:
            self.old, self.new = self.new, self.old
        password = both.consumer.replicator_password_file
        self.env = {**env, "DITSEED_CONSUMER_PASSWORD_FILE": str(password)}

    def run(self, number: int) -> Done:
        text = textwrap.dedent(self.text).replace("\\\n", " ")
        lines = re.findall(r"^ *(?:env -u DITSEED_TOOLS )?ditseed (.*)", text, re.MULTILINE)
        words = shlex.split(self._here(lines[number]))
        return ditseed(*words, env=self.env, prefix=self.prefix)

    def change(self, number: int) -> str:
        blocks = re.findall(r"<<'END'\n(.*?)END\n", self.text, re.DOTALL)
        return self._here(textwrap.dedent(blocks[number]))

    def _here(self, text: str) -> str:
        """With what the test has in the place of the example's names."""
        provider, consumer = self.both.provider, self.both.consumer
        (entry,) = consumer.config_path.glob("cn=config/olcDatabase={*}mdb.ldif")
        names = {
            "ldap://localhost:3890": consumer.uri,
            "ldap://localhost": provider.uri,
            "cn=replicator,dc=example,dc=com": "cn=replicator",
            "/root/replicator.pw": provider.replicator_password_file,
            "SECRET": provider.replicator_password_file.read_text(),
            "/opt/openldap/etc/slapd.d": self.new.config_path,
            "/etc/ldap/slapd.d": self.old.config_path,
            "/var/lib/ldap": self.old.database_dir,
            "/srv/ldap-2.7": self.new.database_dir,
            "{1}mdb": entry.stem.partition("=")[2],
        }
        for name, mine in names.items():
            text = text.replace(name, str(mine))
        return text


def _seed_and_follow(walk: Walk, seeding: int, wanted: int, busy: Busy) -> None:
    """Beside a writer; in the end both are equal."""
    provider, consumer = walk.both.provider, walk.both.consumer
    a_while = int(0.4 * busy.rate)
    with Churn(provider, rate=busy.rate, seed=seeding + 1) as churn:
        churn.wait_for(a_while)
        began, before = time.monotonic(), churn.changes()
        done = walk.run(seeding).ok()
        assert re.search(r"^converted +data format", done.out, re.MULTILINE), done
        assert meta.read_meta(consumer.database_dir).format == wanted
        consumer.start()
        churn.wait_for(churn.changes() + a_while)
        made, seconds = churn.changes() - before, time.monotonic() - began
    wait_in_sync(provider, consumer)
    assert_same(provider, consumer)
    refreshes = refresh_report(consumer)
    assert refreshes
    assert all(one.cookie and one.sent <= busy.people // 2 for one in refreshes), refreshes
    assert made >= seconds * busy.least, f"{made} in {seconds} s"
    print(f"{made} changes in {seconds:.1f} s ({made / seconds:.0f}/s), then {refreshes}")


def _take_over(walk: Walk, up: Walk) -> None:
    """Step 6, as `up` has it: the provider refuses writes, and both are equal before the consumer accepts them."""
    provider, consumer = walk.both.provider, walk.both.consumer
    provider.configure(up.change(0))
    with pytest.raises(ServerError, match=r"read-only|restricted"):
        provider.ldapmodify(A_CHANGE.format(provider.suffix))
    assert "equal" in up.run(2).ok().out
    consumer.configure(up.change(1))
    provider.stop()
    consumer.ldapmodify(A_CHANGE.format(consumer.suffix))


@pytest.mark.long
@pytest.mark.parametrize(
    "busy",
    [
        pytest.param(Busy(2000, 50.0), id="short"),
        pytest.param(
            # A disk that 500 changes a second can be waited for is not everywhere.
            Busy(
                *(100_000, 1000.0, 500.0),
                settings=Settings(database_lines=("dbnosync",), loglevel="sync"),
                prefix=("nice", "-n", "19"),
            ),
            marks=[pytest.mark.heavy, pytest.mark.timeout(0)],
            id="heavy",
        ),
    ],
)
def test_up_and_back(busy: Busy, short_tmp: Path) -> None:
    require_2_7()
    newer = openldap_27.installation()
    with pair(short_tmp, busy.people, overlays=(SYNCPROV,), after=newer, wanted=busy.settings) as both:
        up = Walk(UP, both, {"DITSEED_TOOLS": openldap_27.tools()}, busy.prefix)
        assert "converted" in up.run(0).ok().out
        assert not list(both.consumer.database_dir.iterdir())
        _seed_and_follow(up, 1, 3, busy)
        _take_over(up, up)
        both = dataclasses.replace(both, provider=both.consumer, consumer=both.provider)
        back = Walk(BACK, both, {}, busy.prefix)
        place = both.consumer.config_arguments
        both.consumer.tool("slapmodify", "-n0", *place, stdin=back.change(0).encode())
        _seed_and_follow(back, 0, 1, busy)
        _take_over(back, Walk(UP, both, {}))
