"""Fixtures for all tests, and the rule about missing parts. The parts themselves are in fixtures/."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from fixtures import replication
from fixtures.slapd import Form, Slapd, missing_slapd
from fixtures.trees import write_people
from tests.support.require import require

SUFFIX = "dc=example,dc=com"


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("slapd"):
        require(missing_slapd())


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption(
        "--alone",
        choices=["with", "without", "only"],
        default="with",
        help="The tests that must run beside nothing: with the others, not, or only they.",
    )


def _of_this_phase(item: pytest.Item, phase: str) -> bool:
    return phase == "with" or (item.get_closest_marker("alone") is None) == (phase == "without")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of --alone, what is wanted; `heavy` runs only when it is named."""
    phase = config.getoption("--alone")
    left = [item for item in items if not _of_this_phase(item, phase)]
    if left:
        config.hook.pytest_deselected(items=left)
        items[:] = [item for item in items if _of_this_phase(item, phase)]
    if "heavy" in (config.option.markexpr or ""):
        return
    for item in items:
        if item.get_closest_marker("heavy"):
            item.add_marker(pytest.mark.skip(reason="heavy: run with -m heavy"))


@pytest.fixture
def short_tmp() -> Iterator[Path]:
    """A temporary directory with a short path: the path of a Unix socket ends at 108 bytes."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/tmp") as name:
        yield Path(name)


@pytest.fixture(scope="session")
def people_ldif(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,029 entries: 1,000 people, their containers and groups. Read it only."""
    path = tmp_path_factory.mktemp("people") / "people.ldif"
    write_people(path, SUFFIX, 1000)
    return path


@pytest.fixture(params=["conf", "config"])
def form(request: pytest.FixtureRequest) -> Form:
    """Both ways to configure slapd."""
    value: Form = request.param
    return value


@pytest.fixture
def slapd_instance() -> Iterator[Slapd]:
    """A server with cn=config, running, its database empty."""
    require(missing_slapd())
    with Slapd() as server:
        yield server


@pytest.fixture
def provider(people_ldif: Path) -> Iterator[Slapd]:
    """A provider with `people_ldif`, running."""
    require(missing_slapd())
    server = replication.provider()
    server.slapadd(people_ldif)
    with server:
        yield server
