"""`replica seed` refuses, by name and before any work, an option that its strategy does not take."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pytest

from loader.errors import UsageProblem
from seeders.replica.seed import STRATEGIES
from tests.support.command import ditseed

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
    ("--prepare-consumer",): OFFLINE,
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


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("option", OPTIONS)
def test_what_a_strategy_does_not_take_is_refused(strategy: str, option: tuple[str, ...], state: Path) -> None:
    takers, words = OPTIONS[option], ("replica", "seed", "--strategy", strategy, *option)
    if strategy in takers:
        needed = RUNNING if (strategy, option) == ("online", FROM) else NEEDED[strategy]
        done = ditseed(*words, *(() if option[0] in needed else needed))
        assert " is only for " not in done.err, done
        return
    for how in ((), ("--dry-run",)):
        done = ditseed(*words, *NEEDED[strategy], *how)
        assert done.status == UsageProblem.exit_status, done
        assert f"{option[0]} is only for --strategy {', '.join(takers)}" in done.err, done
        assert not list(state.iterdir())


AGAIN = (*PROVIDER, "-H", "ldap://127.0.0.1:3")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (NEEDED["search"], "give --strategy"),
        (("--strategy", "online", *RUNNING, *FROM, "-j", "2"), "-j is only for reading a provider (-H)"),
        (("--strategy", "online", *RUNNING, *FROM, "--pieces", "2"), "--pieces is only for reading a provider (-H)"),
        (("--strategy", "online", *RUNNING, *FROM, "--page", "50"), "--page is only for reading a provider (-H)"),
        (("--strategy", "ldif", *FROM, *STOPPED, *AGAIN), "-H several times is only for --strategy search"),
        (("--strategy", "clone", *FROM, *STOPPED, *AGAIN), "-H several times is only for --strategy search"),
        (("--strategy", "online", *RUNNING, *AGAIN), "-H several times is only for --strategy search"),
        (("--strategy", "search", *PROVIDER, *STOPPED, "--timeout", "copy=5"), "--timeout copy=5: the steps are"),
        (("--strategy", "ldif", *FROM, *STOPPED, "--timeout", "stream=5"), "--timeout stream=5: the steps are"),
        (("--strategy", "clone", *FROM, *STOPPED, "--timeout", "load=5"), "--timeout load=5: the steps are"),
        (("--strategy", "online", *PROVIDER, *RUNNING, "--timeout", "copy=5"), "--timeout copy=5: the steps are"),
    ],
)
def test_what_does_not_go_together(words: tuple[str, ...], said: str) -> None:
    done = ditseed("replica", "seed", *words)
    assert done.status == UsageProblem.exit_status, done
    assert said in done.err, done


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


def test_every_option_of_a_strategy_is_looked_at() -> None:
    taken = {field for one in STRATEGIES.values() for field in one.takes}
    named = {"config_path", "source", "write_context", "jobs", "replicas"}
    shown = {option[0].lstrip("-").replace("-", "_") for option in OPTIONS}
    assert taken - named <= shown
