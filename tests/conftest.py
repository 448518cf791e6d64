"""Fixtures for all tests, and the rule about missing parts. The parts themselves are in fixtures/."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path

import hypothesis
import pytest
from _pytest.fixtures import reorder_items

from fixtures import replication
from fixtures.slapd import Form, Slapd, missing_slapd
from fixtures.slapd_config import Settings
from fixtures.tls import Authority
from fixtures.trees import write_people
from tests.support import costs, order, preloaded, tiers
from tests.support.require import require

SUFFIX = "dc=example,dc=com"

# On a busy machine an example may take any time.
hypothesis.settings.register_profile("ditseed", deadline=None)
hypothesis.settings.load_profile("ditseed")


def pytest_configure(config: pytest.Config) -> None:
    """A shell's background job ignores Ctrl-C, and one under nohup hang-ups; what it starts would too, for only what is
    ignored is inherited. Tests send both: so a handler takes them and does nothing."""
    for number in (signal.SIGINT, signal.SIGHUP):
        if signal.getsignal(number) == signal.SIG_IGN:
            signal.signal(number, lambda *_: None)
    _leave_home(config)
    preloaded.fork_what_is_isolated()
    if place := config.getoption(costs.OPTION):
        config.pluginmanager.register(costs.Costs(place, hasattr(config, "workerinput")))


def _leave_home(config: pytest.Config) -> None:
    """Leases that are open on this host, a profile or an ldaprc of whoever runs the tests are none of theirs. What is
    kept from run to run (builds, Debian's releases, the Rust toolchain) stays where it is."""
    before, home = Path.home(), tempfile.mkdtemp(prefix="ditseed-home-")
    config.add_cleanup(lambda: shutil.rmtree(home, ignore_errors=True))
    kept = {"DITSEED_CACHE": ".cache/ditseed", "CARGO_HOME": ".cargo", "RUSTUP_HOME": ".rustup"}
    for name, place in kept.items():
        os.environ.setdefault(name, str(before / place))
    for name in ("XDG_STATE_HOME", "XDG_CACHE_HOME", "XDG_DATA_HOME"):
        os.environ.pop(name, None)
    os.environ.update(HOME=home, XDG_CONFIG_HOME=home, DITSEED_STATE_DIR=home)


def pytest_runtest_setup(item: pytest.Item) -> None:
    if item.get_closest_marker("slapd"):
        require(missing_slapd())


def pytest_addoption(parser: pytest.Parser) -> None:
    alone = "The tests that must run beside nothing: with the others, not, or only they."
    parser.addoption("--alone", choices=["with", "without", "only"], default="with", help=alone)
    tier = "main: without what only `bin/test --all` runs; quick: without long unit tests (tests/support/tiers.py)."
    parser.addoption(tiers.OPTION, choices=[tiers.QUICK, tiers.MAIN, tiers.ALL], default=tiers.ALL, help=tier)
    measured = "Write what each test took to FILE, and print the sums by folder."
    parser.addoption(costs.OPTION, type=Path, metavar="FILE", help=measured)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> Generator[None, None, None]:
    """pytest-randomly shuffles. Modules stay in another order, the tests of a module go back to theirs: some go on with
    a server that those before them have changed."""
    place = {item: number for number, item in enumerate(items)}
    config.stash[tiers.COLLECTED] = tuple(items)
    yield
    modules = {item.nodeid.split("::")[0]: None for item in items}
    shuffled = {name: number for number, name in enumerate(modules)}
    items.sort(key=lambda item: (shuffled[item.nodeid.split("::")[0]], place[item]))
    items[:] = reorder_items(items)  # what shares a fixture stands together again
    _keep_what_is_wanted(config, items)


def _keep_what_is_wanted(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Of --tier and --alone, what is wanted; `heavy` runs only when it is named."""
    other_phase = {"with": None, "without": True, "only": False}[config.getoption("--alone")]
    later = tiers.left_out(config.getoption(tiers.OPTION), items)
    left = [item for item in items if item in later or bool(item.get_closest_marker("alone")) is other_phase]
    if left:
        config.hook.pytest_deselected(items=left)
        gone = set(left)
        items[:] = [item for item in items if item not in gone]
    workers = int(os.environ.get("PYTEST_XDIST_WORKER_COUNT", 1))
    items[:] = order.begun_first(items, [item.nodeid for item in items], workers)
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


@pytest.fixture
def var_tmp() -> Iterator[Path]:
    """A temporary directory where only root can rename things, and that any account can enter."""
    with tempfile.TemporaryDirectory(prefix="t-", dir="/var/tmp") as name:
        Path(name).chmod(0o755)
        yield Path(name)


@pytest.fixture(scope="session")
def people_ldif(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """1,029 entries: 1,000 people, their containers and groups. Read it only."""
    path = tmp_path_factory.mktemp("people") / "people.ldif"
    write_people(path, SUFFIX, 1000)
    return path


@pytest.fixture
def scratch() -> Iterator[Path]:
    """That any account reaches."""
    with tempfile.TemporaryDirectory(dir="/tmp") as made:
        Path(made).chmod(0o711)
        yield Path(made)


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("ca"))


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("DITSEED_STATE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """The time that meters see, to be set by the test."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    return now


@pytest.fixture(params=["conf", "config"])
def form(request: pytest.FixtureRequest) -> Form:
    return request.param  # type: ignore[no-any-return]


@pytest.fixture
def target() -> Iterator[Slapd]:
    with closing(Slapd()) as server:
        yield server


@pytest.fixture
def slapd_instance() -> Iterator[Slapd]:
    """A server with cn=config, running, its database empty."""
    require(missing_slapd())
    with Slapd() as server:
        yield server


@pytest.fixture
def provider(people_ldif: Path) -> Iterator[Slapd]:
    require(missing_slapd())
    server = replication.provider()
    server.slapadd(people_ldif)
    with server:
        yield server


@pytest.fixture(scope="session")
def stopped(people_ldif: Path) -> Iterator[Slapd]:
    """A stopped server with `people_ldif` in a file that looks 10 GiB large. Read it only."""
    require(missing_slapd())
    with closing(Slapd(Settings(maxsize=10 << 30))) as server:
        server.slapadd(people_ldif, "-w")
        yield server


@pytest.fixture
def other(stopped: Slapd) -> Iterator[Slapd]:
    """A stopped server of the same suffix, empty."""
    with closing(Slapd(stopped.settings)) as server:
        yield server


@pytest.fixture(scope="module")
def backed_up(stopped: Slapd, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one backup of `stopped`. Read it only."""
    from tests.support.backups import take

    place = tmp_path_factory.mktemp("backups") / "repo"
    take(stopped, place)
    return place


@pytest.fixture
def repo(backed_up: Path, tmp_path: Path) -> Path:
    """A copy of it, to change."""
    return shutil.copytree(backed_up, tmp_path / "repo")
