"""maxsize computed from a sample of LDIF, of a database or of a server, against the database that is then built."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import replace
from pathlib import Path
from random import Random

import pytest
from msgspec import structs

from fixtures import replication
from fixtures.slapd import Slapd
from fixtures.slapd_config import REPLICATOR, Settings
from loader.errors import EmptyInput, LoaderError, MaxsizeTooSmall
from loader.mdb import meta
from loader.operations import export, sizing
from loader.operations.build import native
from loader.operations.tune import Target, opened
from loader.operations.tune.maxsize import Load, LoadPlan, plan_load
from loader.progress import Meter, Progress
from loader.server import questions
from loader.server.options import Connection
from loader.server.session import session
from loader.sources import planner, sampling
from loader.sources.location import LdifFiles
from loader.sources.sampling import SampleSize
from seeders.replica import seed
from seeders.replica.options import SeedOptions
from seeders.replica.strategies import Search
from tests.support import generating
from tests.support.command import Done, ditseed
from tests.support.killing import KILL_AT
from tests.support.seeding import bind

pytestmark = pytest.mark.slapd

PEOPLE = 100_000
SMALL = SampleSize(2000, 0.0)
INDEXES = ("objectClass,entryUUID,entryCSN,uid,mail eq", "cn,sn eq,sub")


@pytest.fixture(scope="module")
def ldif(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("people") / "people.ldif"
    path.write_bytes(generating.text_of(generating.people(PEOPLE), jobs=2))
    return path


@pytest.fixture(scope="module")
def server() -> Iterator[Slapd]:
    with closing(Slapd(Settings(indexes=INDEXES, maxsize=8 << 30), form="conf")) as made:
        yield made


@pytest.fixture(scope="module")
def built(server: Slapd, ldif: Path) -> int:
    """Bytes that the database takes."""
    ditseed("build", ldif, "--config", server.config_path, "--verify", "none").ok()
    return meta.read_meta(server.database_dir).used


def plan(server: Slapd, source: Path, size: SampleSize = SMALL) -> LoadPlan:
    with opened(server.config_path) as target:
        database = target.config.database(None)
        return plan_load(target, database, Load(str(source), 0.5, sample=size), Progress())


@pytest.mark.long
def test_from_a_fiftieth_of_the_ldif(server: Slapd, ldif: Path, built: int) -> None:
    found = plan(server, ldif)
    assert 1000 < found.load.sampled < 6000
    assert found.load.entries == pytest.approx(PEOPLE, rel=0.02)
    assert found.load.bytes == pytest.approx(built, rel=0.15)


@pytest.mark.long
def test_from_the_database_that_is_there(server: Slapd, built: int) -> None:
    """What is read is not counted twice."""
    found = plan(server, server.database_dir)
    assert found.load.is_counted
    assert found.load.sampled == pytest.approx(SMALL.records, rel=0.05)
    assert found.load.how == f"{SMALL.records // 64} windows of entry IDs"
    assert (found.now, found.after) == (built, found.load.bytes)
    assert found.load.bytes == pytest.approx(built, rel=0.15)


def test_over_ldap_what_is_there_is_not_known(server: Slapd, ldif: Path, built: int) -> None:
    """Pages of a reader are those of slapd: `dbpagesize` of 2.7."""
    with opened(server.config_path) as here:
        config, own = here.config, here.config.database(None).entry_dn.lower()

    def planned(**more: list[bytes]) -> LoadPlan:
        entries = ((name, {**values, **more} if name.lower() == own else values) for name, values in config.entries)
        there = Target(replace(config, entries=tuple(entries)), (), local=False)
        return plan_load(there, there.config.database(None), Load(str(ldif), 0.5, sample=SMALL), Progress())

    plans = planned(), planned(olcDbPageSize=[b"32768"])
    assert plans[0].now == 0
    assert "the present database is not counted" in plans[0].notes[-1]
    terms, large = ({one.what: one.bytes for one in found.terms} for found in plans)
    assert "present entries" not in terms
    assert large["longest reader"] == 8 * terms["longest reader"]


def test_the_recommendation_is_the_sum_of_its_terms(server: Slapd, ldif: Path, built: int) -> None:
    words = ("--for", ldif, "--growth", "1000%", "--json")
    done = ditseed("tune", "maxsize", "--config", server.config_path, *words)
    load = done.ok().facts["load"]
    needed = sum(term["bytes"] for term in load["terms"])
    assert load["after"] == load["load"]["bytes"] + built  # it is added to what is there
    assert load["recommended"] == max(8, -(-needed // (1 << 30))) << 30


def test_a_sample_of_a_database_is_bounded(server: Slapd, built: int) -> None:
    found = sampling.of_database(server.database_dir, SampleSize(1, 0.5, most=1000), Meter("sample"))
    assert 500 < len(found.names) < 2500, found.how


@pytest.mark.long
def test_a_build_that_would_not_fit_is_refused_before_it_reads(server: Slapd, ldif: Path) -> None:
    words = ("--config", server.config_path, "--replace", "--maxsize", "150M", "--progress", "json")
    done = ditseed("build", ldif, *words)
    assert done.status == MaxsizeTooSmall.exit_status, done
    needed = re.search(r"about (\d+\.\d) MiB", done.err)
    assert needed
    assert 150 < float(needed[1]) < 220
    assert not (server.database_dir / ".ditseed-build" / "environment").exists()


def test_an_add_that_would_not_fit_sends_nothing(ldif: Path, tmp_path: Path) -> None:
    with Slapd(Settings(indexes=INDEXES, maxsize=100 << 20)) as server:
        words = ("add", ldif, "-H", server.ldapi_uri, "-Y", "EXTERNAL")
        done = ditseed(*words, env={"DITSEED_STATE_DIR": str(tmp_path)})
        assert done.status == MaxsizeTooSmall.exit_status, done
        assert server.slapcat() == ""


def _skewed(kind: str, suffix: str) -> str:
    """People, and a group or photos that have most of the bytes."""
    person = "dn: uid={0},{1}\nobjectClass: inetOrgPerson\ncn: Name {0}\nsn: {0}\n"
    people = [person.format(f"u{number}", suffix) + "\n" for number in range(2000)]
    members = "".join(f"member: uid=u{number},{suffix}\n" for number in range(30_000))
    group = f"dn: cn=all,{suffix}\nobjectClass: groupOfNames\ncn: all\n{members}\n"
    random = Random(1)
    images = (base64.b64encode(random.randbytes(random.randrange(50_000))).decode() for _ in range(200))
    photos = [f"{person.format(f'p{n}', suffix)}jpegPhoto:: {image}\n\n" for n, image in enumerate(images)]
    top = f"dn: {suffix}\nobjectClass: domain\ndc: example\n\n"
    made = {"tiny": people[:3], "group": [*people, group], "photos": [*people, *photos], "photos only": photos}
    return "".join([top, *made[kind]])


@pytest.mark.parametrize("kind", ["tiny", "group", "photos", "photos only"])
def test_a_few_large_entries_count_for_themselves(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sampling, "_LARGE", 512 << 10)
    monkeypatch.setattr(sizing, "_OF_FILES", SampleSize(200, 0.0))
    indexes = ("objectClass,entryUUID,entryCSN,member eq", "cn,sn eq,sub")
    ldif = tmp_path / "all.ldif"
    with closing(Slapd(Settings(indexes=indexes, maxsize=1 << 30))) as made:
        ldif.write_text(_skewed(kind, made.suffix))
        ditseed("build", ldif, "--config", made.config_path).ok()
        used = meta.read_meta(made.database_dir).used
        with opened(made.config_path) as target:
            build = native.sample_target(target.config, target.config.database(None))
        found = sizing.of_files(build, LdifFiles((ldif,)), Meter("sample"))
    assert found.entries == ldif.read_bytes().count(b"dn: ")
    assert found.bytes == pytest.approx(used, rel=0.15)


def test_entries_of_another_tree_are_no_sample(server: Slapd, tmp_path: Path) -> None:
    other = tmp_path / "other.ldif"
    other.write_text("dn: dc=else\nobjectClass: domain\ndc: else\n\n")
    done = ditseed("tune", "maxsize", "--config", server.config_path, "--for", other)
    assert done.status == EmptyInput.exit_status
    assert f"the sample, {server.suffix} and below: no entries" in done.err
    done = ditseed("tune", "maxsize", "--config", server.config_path, "--growth", "10%")
    assert (done.status, "--growth is only for --for" in done.err) == (3, True)


FEWER = 20_000
ENTRIES = FEWER + 2  # with the suffix and the container
NO_PASSWORDS = """dn: olcDatabase={3}mdb,cn=config
changetype: modify
add: olcLimits
olcLimits: {0}* size=unlimited
-
add: olcAccess
olcAccess: {0}to attrs=userPassword by * auth
olcAccess: {1}to * by * read
"""


PLACE = Settings(indexes=INDEXES, maxsize=1 << 30)


@pytest.fixture(scope="module")
def fewer(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("people") / "people.ldif"
    path.write_bytes(generating.text_of(generating.people(FEWER), jobs=2))
    return path


@pytest.fixture(scope="module")
def provider(fewer: Path) -> Iterator[Slapd]:
    with closing(Slapd(PLACE)) as made:
        ditseed("build", fewer, "--config", made.config_path, "--verify", "none").ok()
        made.start().configure(NO_PASSWORDS)
        yield made


@pytest.fixture(scope="module")
def clustered() -> Iterator[Slapd]:
    """Its entryUUIDs are slapd's own: they lie within a small part of all, for they were made at once."""
    text = generating.text_of(generating.people(FEWER, operational=False), jobs=2)
    with closing(Slapd(Settings(maxsize=1 << 30))) as made:
        made.slapadd(text.decode())
        yield made.start()


@pytest.fixture(scope="module")
def consumer() -> Iterator[Slapd]:
    with closing(Slapd(PLACE, form="conf")) as made:
        yield made


def _asked(provider: Slapd, consumer: Slapd, *words: object) -> Done:
    return ditseed("tune", "maxsize", "--config", consumer.config_path, "--for", provider.uri, *words)


def _reading(server: Slapd) -> Connection:
    return Connection(server.uri, server.root_dn, password_file=str(server.password_file), base=server.suffix)


def test_few_entries_are_all_read(provider: Slapd, consumer: Slapd) -> None:
    account = ("-D", provider.root_dn, "-y", provider.password_file)
    load = _asked(provider, consumer, *account, "--json").ok().facts["load"]["load"]
    assert "all of it was read" in load["how"]
    assert (load["is_counted"], load["entries"]) == (True, ENTRIES)
    assert load["sampled"] == pytest.approx(ENTRIES // 2, rel=0.05)
    assert load["bytes"] == pytest.approx(meta.read_meta(provider.database_dir).used, rel=0.15)


@pytest.mark.parametrize("expected", [None, ENTRIES])
def test_of_many_a_part_is_read_however_their_uuids_lie(
    provider: Slapd, clustered: Slapd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, expected: int | None
) -> None:
    monkeypatch.setattr(export, "_READ_WHOLE", 1000)
    monkeypatch.setattr(planner, "expected", lambda *_: expected)
    for server in (provider, clustered):
        found = export.of_server(_reading(server), SampleSize(2000, 0.0), tmp_path, Meter("sample"))
        assert (found.total, found.is_counted) == (ENTRIES, True)
        assert 500 <= len(found.names) <= 5000, found.how


def test_a_range_of_entryuuids_counts_the_entries_if_they_are_even(
    provider: Slapd, clustered: Slapd, monkeypatch: pytest.MonkeyPatch
) -> None:
    with session(_reading(provider)) as even, session(_reading(clustered)) as bulk:
        found = questions.sample_of_tree(even, provider.suffix, ["*", "entryUUID"])
        assert found.total == pytest.approx(ENTRIES, rel=0.2)
        assert all("mail" in entry for _, entry in found.entries if b"person" in entry["objectclass"])
        assert questions.sample_of_tree(bulk, clustered.suffix, ["entryUUID"]).total is None
        monkeypatch.setattr(questions, "_MOST", 50)
        found = questions.sample_of_tree(even, provider.suffix, ["entryUUID"])
        assert (found.total, found.is_cut, len(found.entries)) == (None, True, 50)


@pytest.fixture(scope="module")
def silent(fewer: Path) -> Iterator[Slapd]:
    """Its monitor does not show how many entries there are."""
    with closing(replication.provider(PLACE)) as source:
        ditseed("build", fewer, "--config", source.config_path, "--verify", "none").ok()
        yield source.start()


@contextmanager
def _seeded(source: Slapd, mib: int) -> Iterator[Slapd]:
    """Yields a consumer with a map of so many MiB, of which it needs about 50."""
    with closing(replication.consumer(source, replication.as_consumer(source.settings, maxsize=mib << 20))) as target:
        yield target


@pytest.mark.parametrize(("mib", "error"), [(150, None), (10, MaxsizeTooSmall)])
def test_a_seeding_reads_few_entries_to_judge_the_room(silent: Slapd, mib: int, error: type[LoaderError]) -> None:
    with _seeded(silent, mib) as target:
        where = ("--config", target.config_path, "-b", silent.suffix)
        command = ("replica", "seed", "--strategy", "search", *where, *bind(silent))
        mark = silent.log_size()
        done = ditseed(*command, env={KILL_AT: "preflight.recorded"})
        assert done.status == (error.exit_status if error else -9), done
        lines = silent.log_lines("SEARCH RESULT.* nentries=", mark)
        sent = sum(int(found[1]) for each in lines if (found := re.search(r"nentries=(\d+)", each)))
        assert (sent < FEWER // 5) == (error is None)


def test_a_large_tree_is_judged_while_it_is_read(silent: Slapd, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(questions, "_MOST", 50)  # so the tree is large
    monkeypatch.setattr(seed, "_SPARSE", 9)
    who = Connection(silent.uri, REPLICATOR, password_file=str(silent.replicator_password_file), base=silent.suffix)
    with _seeded(silent, 150) as target:
        options = SeedOptions(strategy="search", config_path=target.config_path, connection=who, jobs=1)
        strategy = seed.STRATEGIES["search"](options)
        assert isinstance(strategy, Search)
        assert not seed.preflight(strategy).is_judged
        judge = seed.judgement(who, strategy.building(), strategy.place)
        judge(Meter("check"))
        database = structs.replace(strategy.place.database, maxsize=10 << 20)
        small = structs.replace(strategy.place, database=database)
        refusal = seed.judgement(who, strategy.building(), small)
        with pytest.raises(MaxsizeTooSmall):
            refusal(Meter("check"))

        def refuse(meter: Meter) -> None:
            raise MaxsizeTooSmall(maxsize="10 MiB", suffix=silent.suffix, needed="50 MiB", enough="1G")

        judgements = iter([refuse, judge])
        monkeypatch.setattr(seed, "judgement", lambda *_: next(judgements))
        with pytest.raises(MaxsizeTooSmall):
            seed.seed(options, Progress("none"), {})
        assert not (target.database_dir / "data.mdb").exists()
        assert seed.seed(options, Progress("none"), {})["entries"] == ENTRIES


def test_a_count_that_takes_too_long_is_none(clustered: Slapd, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(export, "_READ_WHOLE", 0)
    monkeypatch.setattr(export, "_COUNT_FOR", 0.0)
    monkeypatch.setattr(planner, "expected", lambda *_: None)
    found = export.of_server(_reading(clustered), SampleSize(2000, 0.0), tmp_path, Meter("sample"))
    assert found.total >= len(found.names) > 0
    assert found.is_counted == (found.how.endswith("all of it was read"))
    assert not [*tmp_path.glob("*names*")]


def test_its_account_is_for_the_server(provider: Slapd, consumer: Slapd, tmp_path: Path) -> None:
    """A target that is a server has an account of its own."""
    account = ("-D", provider.root_dn, "-y", provider.password_file)
    done = ditseed("tune", "maxsize", "-H", provider.uri, *account, "--for", consumer.uri)
    assert (done.status, "is for --config" in done.err) == (3, True), done
    wrong = tmp_path / "pw"
    wrong.write_text("no such password")
    refused = _asked(provider, consumer, "-D", provider.root_dn, "-y", wrong)
    assert refused.status == 31, refused
    anonymous = _asked(provider, consumer).ok()
    assert "give it with -H" not in anonymous.err
    assert "userPassword" in anonymous.out  # the server hides it
    assert "note: " in anonymous.out
