"""What overlays show, held against what is stored: the table of loader/overlays.py row by row, with a real slapd."""

from __future__ import annotations

import dataclasses
from contextlib import closing
from pathlib import Path

import ldap
import pytest

from fixtures import partial, replication
from fixtures.chroots import Chroot, chroot, missing_chroot
from fixtures.compat.modules import OVERLAYS
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader import overlays
from loader.errors import NotAsStored
from loader.overlays import Shows
from tests.compat import building
from tests.support.command import Done, ditseed
from tests.support.dumped import text_of_export
from tests.support.require import require
from tests.support.seeding import bind, verifying

pytestmark = pytest.mark.slapd

SUFFIX = "dc=example,dc=com"
ROWS = {row.name: row for row in OVERLAYS if row.name in row.modules}
ELSEWHERE = {"syncprov": "every provider here has it", "pcache": "a proxy's cache, not a database"}


def test_the_table_is_of_all_overlays() -> None:
    """Of all modules: tests/compat/test_page.py."""
    assert {one.name for one in overlays.OVERLAYS if one.debian} == ROWS.keys()


@pytest.fixture(scope="module", params=["this", "trixie"])
def release(request: pytest.FixtureRequest) -> Chroot | None:
    """None, the slapd of this host; and that of Debian 13 (2.6)."""
    if request.param == "this":
        return None
    require(missing_chroot())
    return chroot(request.param)


@pytest.mark.rows(5, "trixie-collect")
@pytest.mark.parametrize("name", sorted(ROWS.keys() - ELSEWHERE.keys()))
def test_what_is_exported_is_what_is_stored(name: str, short_tmp: Path, release: Chroot | None) -> None:
    known, out = overlays.BY_NAME[name], short_tmp / "out"
    with building.provider(ROWS[name], short_tmp, release) as server:
        ditseed("export", *bind(server), "-b", SUFFIX, "-o", out).ok()
        exported = partial.parsed(text_of_export(out))
        found = partial.differences(exported, partial.stored(server), ("contextCSN",))
    if known.shows is Shows.OTHER:
        assert found, "the table says that a search does not show what is stored"
    else:
        moving = [one for one in found if known.shows is Shows.MOVING and known.attributes[0] in one]
        assert found == moving


def seed(server: Slapd, target: Slapd, *more: object, by_root: bool = False) -> Done:
    """by_root: by an account that cn=Monitor tells of the overlays."""
    words = ("replica", "seed", "--strategy", "search", "--config", target.config_path)
    who = ("-H", server.ldapi_uri, "-Y", "EXTERNAL") if by_root else bind(server)
    return ditseed(*words, *who, *more)


@pytest.mark.rows(0, "rwm-the overlay rwm ")
@pytest.mark.parametrize(("name", "said"), [("collect", "computes l "), ("rwm", "the overlay rwm ")])
def test_a_replica_of_what_is_not_shown_as_stored_is_refused(name: str, said: str, short_tmp: Path) -> None:
    """No sample shows that rwm maps an attribute: filters are mapped, too. cn=Monitor tells of it."""
    with building.provider(ROWS[name], short_tmp) as server:
        plain = replication.as_consumer(server.settings)
        with closing(replication.consumer(server, plain)) as target:
            for words in ((), ("--dry-run",)):
                seed(server, target, *words, by_root=name == "rwm").refused(NotAsStored, said)
            assert not list(target.database_dir.glob("*.mdb"))
            if name == "collect":  # with the other one, the entries are not valid
                seed(server, target, "--allow-hidden").ok()


@pytest.mark.long
def test_the_replicas_overlays_speak_for_a_provider_that_does_not_tell() -> None:
    settings = Settings(modules=("back_mdb", "syncprov", "collect"))
    overlay = f'overlay collect\ncollectinfo "ou=nowhere,{SUFFIX}" description'
    with (
        partial.provider(settings=settings) as server,
        closing(replication.consumer(server, dataclasses.replace(settings, overlays=(overlay,)))) as target,
    ):
        server.describe("once")
        seed(server, target, "--dry-run").refused(NotAsStored, "if the provider has it as well")
        seed(server, target, "--dry-run", by_root=True).ok()


def test_what_a_replica_notes_for_itself_is_no_difference() -> None:
    """A bind at the replica leaves authTimestamp there and nowhere else; another difference is still one."""
    noting = Settings(modules=("back_mdb", "syncprov", "lastbind"), overlays=("overlay lastbind",))
    with partial.provider(settings=noting) as server, closing(replication.consumer(server, noting)) as target:
        server.describe("once")
        seed(server, target, "-b", SUFFIX).ok()
        target.start()
        replication.wait_in_sync(server, target)
        words = verifying(server, target)
        assert not ditseed(*words, "--json").ok().facts["local"]
        handle = ldap.initialize(target.uri)
        handle.simple_bind_s(partial.person_dn(0, SUFFIX), "secret0")
        handle.unbind_s()
        noted = ditseed(*words).ok()
        assert "authTimestamp" in noted.out
        assert "equal" in noted.out
        target.stop()
        partial.lose(target, partial.person_dn(1, SUFFIX))
        target.start()
        assert ditseed(*words).status == 1
