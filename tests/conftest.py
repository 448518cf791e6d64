"""Fixtures for all tests, and the rule about missing parts. The parts themselves are in fixtures/."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
from collections.abc import Generator, Iterator
from contextlib import closing
from pathlib import Path

import hypothesis
import pytest
from _pytest.fixtures import reorder_items

from fixtures import replication
from fixtures.slapd import Form, Slapd, missing_slapd
from fixtures.slapd_config import Settings
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
    parser.addoption(
        "--alone",
        choices=["with", "without", "only"],
        default="with",
        help="The tests that must run beside nothing: with the others, not, or only they.",
    )
    parser.addoption(
        tiers.OPTION,
        choices=[tiers.QUICK, tiers.MAIN, tiers.ALL],
        default=tiers.ALL,
        help="main: without what only `bin/test --all` runs; quick: without long unit tests (tests/support/tiers.py).",
    )
    parser.addoption(
        costs.OPTION, type=Path, metavar="FILE", help="Write what each test took to FILE, and print the sums by folder."
    )


def _of_this_phase(item: pytest.Item, phase: str) -> bool:
    return phase == "with" or (item.get_closest_marker("alone") is None) == (phase == "without")


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
    phase = config.getoption("--alone")
    later = tiers.left_out(config.getoption(tiers.OPTION), items)
    left = [item for item in items if item in later or not _of_this_phase(item, phase)]
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


@pytest.fixture
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A state directory of the test's own."""
    monkeypatch.setenv("DITSEED_STATE_DIR", str(tmp_path))
    return tmp_path


@pytest.fixture(params=["conf", "config"])
def form(request: pytest.FixtureRequest) -> Form:
    """Both ways to configure slapd."""
    value: Form = request.param
    return value


@pytest.fixture
def target() -> Iterator[Slapd]:
    """A stopped server, its database empty."""
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
    """A provider with `people_ldif`, running."""
    require(missing_slapd())
    server = replication.provider()
    server.slapadd(people_ldif)
    with server:
        yield server


@pytest.fixture(scope="session")
def stopped(people_ldif: Path) -> Iterator[Slapd]:
    """A stopped server with `people_ldif` in a file that looks 10 GiB large. Read it only."""
    require(missing_slapd())
    server = Slapd(Settings(maxsize=10 << 30))
    server.slapadd(people_ldif, "-w")
    yield server
    server.close()


@pytest.fixture
def other(stopped: Slapd) -> Iterator[Slapd]:
    """A stopped server of the same suffix, empty."""
    server = Slapd(stopped.settings)
    yield server
    server.close()
