"""What a seeding fails of is told before it reads, and by `--dry-run` as well."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from typing import Any

import pytest

from fixtures import replication
from fixtures.slapd import Slapd
from fixtures.slapd_config import Settings
from loader.server import configuration
from loader.server.options import Connection
from loader.server.session import session
from loader.sinks.mdb import schema_of
from seeders.replica import seed
from tests.support.command import Done, ditseed
from tests.support.seeding import Pair

pytestmark = pytest.mark.slapd

SUFFIX = Settings.suffix
PEOPLE = 1000
DRY = pytest.mark.parametrize("dry", [("--dry-run",), ()], ids=["dry", "run"])
LAST = f"""dn: cn=last,{SUFFIX}
objectClass: posixGroup
objectClass: dynamicObject
cn: last
gidNumber: 7
"""


@pytest.fixture(scope="module")
def provider() -> Iterator[Slapd]:
    """Among many devices, behind the sample, one dynamic entry."""
    settings = Settings(
        indexes=("objectClass,entryUUID,entryCSN eq",),
        modules=("back_mdb", "syncprov", "dds"),
        overlays=("overlay dds",),
        limits=(*Settings().limits, "limits anonymous size.unchecked=disabled"),
    )
    with closing(replication.provider(settings)) as server:
        device = "dn: cn={0},{1}\nobjectClass: device\ncn: {0}\ndescription: {2}\n\n"
        devices = "".join(device.format(number, SUFFIX, "x" * 1000) for number in range(PEOPLE))
        server.slapadd(f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n\n{devices}", "-w")
        with server:
            server.ldapadd(LAST)
            yield server


def seeded(provider: Slapd, consumer: Slapd, strategy: str, *more: object) -> Done:
    both = Pair(provider, consumer, consumer.home)
    both.prepare(strategy)
    return ditseed(*both.seed(strategy, *more))


@contextmanager
def consumer_of(provider: Slapd, **changed: Any) -> Iterator[Slapd]:
    settings = replication.as_consumer(provider.settings, **changed)
    with closing(replication.consumer(provider, settings)) as server:
        yield server


def assert_nothing_was_read(consumer: Slapd, done: Done, code: str) -> None:
    assert f"[{code}]" in done.err, done.err
    assert not (consumer.database_dir / "data.mdb").exists()
    assert not list(consumer.database_dir.glob(".ditseed-seed/parts"))
    assert not list(consumer.database_dir.glob(".ditseed-seed/environment/*"))


@DRY
@pytest.mark.parametrize("strategy", ["search", "slapcat", "clone"])
def test_a_schema_that_the_consumer_lacks(provider: Slapd, strategy: str, dry: tuple[str, ...]) -> None:
    with consumer_of(provider, base_schemas=("core", "cosine", "inetorgperson")) as consumer:
        done = seeded(provider, consumer, strategy, *dry)
        assert_nothing_was_read(consumer, done, "config.schema_missing")
        assert "posixgroup" in done.err.lower()


def test_what_the_provider_does_not_say(provider: Slapd, caplog: pytest.LogCaptureFixture) -> None:
    """Its limits forbid to look for the entries of an object class, as long as the index does not hold them."""
    with consumer_of(provider, base_schemas=("core", "cosine", "inetorgperson")) as consumer:
        config = configuration.read(consumer.config_path)
        known = schema_of(config, config.database(SUFFIX))
        with session(Connection(provider.uri)) as anonymous:
            assert seed.unknown_classes(anonymous, SUFFIX, known) == []
    assert "posixGroup" in caplog.text
    assert f"{provider.uri} did not say whether any entry has them" in caplog.text


@DRY
def test_a_map_that_is_too_small(provider: Slapd, dry: tuple[str, ...]) -> None:
    """The first entries do not tell: an account that is not shown how many there are needs a count."""
    with consumer_of(provider, maxsize=1 << 20) as consumer:
        done = seeded(provider, consumer, "search", *dry)
        assert_nothing_was_read(consumer, done, "config.maxsize_too_small")
        assert seeded(provider, consumer, "search", "--maxsize", "auto", *dry).status == 0


@pytest.mark.long
def test_dynamic_objects_need_no_overlay_in_a_consumer(provider: Slapd) -> None:
    """As slapd's own consumer fills itself; the module alone has to be there, for its schema."""
    with consumer_of(provider) as consumer:
        seeded(provider, consumer, "search", "--dry-run").ok()
        seeded(provider, consumer, "search").ok()
        verify = ("verify", "--config", consumer.config_path, "-b", SUFFIX, "--verify", "indexes")
        ditseed(*verify).ok()
        with consumer:
            replication.wait_in_sync(provider, consumer)
            assert consumer.search("(objectClass=dynamicObject)", ("cn",))
