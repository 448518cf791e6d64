"""`replica seed` refuses, by name and before any work, an option that its strategy does not take."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from loader.errors import UsageProblem
from seeders.replica.seed import STRATEGIES
from tests.support.command import Done, ditseed

# Neither the files nor the servers exist: work that was begun would fail with another error.
PROVIDER = ("-H", "ldap://127.0.0.1:1")
STOPPED = ("--config", "/nowhere")
RUNNING = ("--consumer", "ldap://127.0.0.1:2", "-b", "o=x")
FROM = ("--from", "/nowhere")
NEEDED: Mapping[str, tuple[str, ...]] = {
    "search": (*PROVIDER, *STOPPED),
    "ldif": (*FROM, *STOPPED),
    "clone": (*FROM, *STOPPED),
    "online": (*PROVIDER, *RUNNING),
}
OFFLINE = ("search", "ldif", "clone")
# Option and value -> the strategies that take it.
OPTIONS: Mapping[tuple[str, ...], tuple[str, ...]] = {
    STOPPED: OFFLINE,
    ("--replace",): OFFLINE,
    ("--maxsize", "1G"): OFFLINE,
    ("--verify", "pages"): OFFLINE,
    ("--engine", "native"): ("search", "ldif"),
    FROM: ("ldif", "clone", "online"),
    ("-w",): ("ldif",),
    ("--allow-hidden",): ("search", "ldif", "online"),
    ("-j", "2"): ("search", "online"),
    ("--pieces", "2"): ("search", "online"),
    ("--page", "50"): ("search", "online"),
    ("--consumer", "ldap://127.0.0.1:2"): ("online",),
    ("--consumer-bind-dn", "o=x"): ("online",),
    ("--consumer-password-file", "/nowhere"): ("online",),
    ("--consumer-mechanism", "EXTERNAL"): ("online",),
    ("--nosync",): ("online",),
}
UNFIT = [(one, option) for option, takers in OPTIONS.items() for one in STRATEGIES if one not in takers]
FIT = [(one, option) for option, takers in OPTIONS.items() for one in takers]
USAGE = UsageProblem.exit_status


def seed(strategy: str, *words: object, home: Path) -> Done:
    where = {"DITSEED_STATE_DIR": str(home)}
    return ditseed("replica", "seed", "--strategy", strategy, *words, env=where)


@pytest.mark.parametrize("how", [(), ("--dry-run",)], ids=["run", "dry run"])
@pytest.mark.parametrize(("strategy", "option"), UNFIT)
def test_what_a_strategy_does_not_take_is_refused(
    strategy: str, option: tuple[str, ...], how: tuple[str, ...], tmp_path: Path
) -> None:
    done = seed(strategy, *NEEDED[strategy], *option, *how, home=tmp_path)
    assert done.status == USAGE, done
    takers = ", ".join(OPTIONS[option])
    assert f"{option[0]} is only for --strategy {takers}" in done.err, done
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(("strategy", "option"), FIT)
def test_what_a_strategy_takes_is_not(strategy: str, option: tuple[str, ...], tmp_path: Path) -> None:
    needed = () if option[0] in NEEDED[strategy] else NEEDED[strategy]
    if strategy == "online" and option == FROM:
        needed = RUNNING
    done = seed(strategy, *needed, *option, home=tmp_path)
    assert " is only for " not in done.err, done


@pytest.mark.parametrize("option", [("-j", "2"), ("--pieces", "2"), ("--page", "50")])
def test_how_to_read_a_provider_is_refused_for_ldif(option: tuple[str, ...], tmp_path: Path) -> None:
    done = seed("online", *RUNNING, *FROM, *option, home=tmp_path)
    assert done.status == USAGE, done
    assert f"{option[0]} is only for reading a provider (-H)" in done.err, done


@pytest.mark.parametrize("strategy", ["ldif", "clone", "online"])
def test_several_providers_are_for_search(strategy: str, tmp_path: Path) -> None:
    more = (*PROVIDER, "-H", "ldap://127.0.0.1:3")
    done = seed(strategy, *NEEDED[strategy], *more, home=tmp_path)
    assert done.status == USAGE, done
    assert "-H several times is only for --strategy search" in done.err, done


@pytest.mark.parametrize(
    ("strategy", "step"), [("search", "copy"), ("ldif", "stream"), ("clone", "load"), ("online", "copy")]
)
def test_the_timeout_of_a_step_that_the_strategy_does_not_have(strategy: str, step: str, tmp_path: Path) -> None:
    done = seed(strategy, *NEEDED[strategy], "--timeout", f"{step}=5", home=tmp_path)
    assert done.status == USAGE, done
    assert f"--timeout {step}=5: the steps are preflight" in done.err, done


def test_a_profile_serves_all_strategies(tmp_path: Path) -> None:
    """What it says for another strategy is passed over."""
    home = tmp_path / "ditseed"
    home.mkdir()
    said = 'engine = "slapadd"\nwrite-context-csn = true\ntimeout = ["copy=5"]\n'
    (home / "config.toml").write_text(f"[default]\n{said}")
    env = {"XDG_CONFIG_HOME": str(tmp_path)}
    for strategy in ("search", "clone"):
        words = ("replica", "seed", "--strategy", strategy, *NEEDED[strategy])
        done = ditseed(*words, env=env)
        assert "[storage.no_such_path]" in done.err, done


def test_only_a_dry_run_takes_no_strategy() -> None:
    done = ditseed("replica", "seed", *NEEDED["search"])
    assert done.status == USAGE, done
    assert "give --strategy" in done.err, done


def test_every_option_of_a_strategy_is_looked_at() -> None:
    taken = {field for one in STRATEGIES.values() for field in one.takes}
    named = {"config_path", "source", "write_context", "jobs", "replicas"}
    shown = {option[0].lstrip("-").replace("-", "_") for option in OPTIONS}
    assert taken - named <= shown
