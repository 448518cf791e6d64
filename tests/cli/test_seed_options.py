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
        said = f"{option[0]} is only for --strategy {', '.join(takers)}"
        ditseed(*words, *NEEDED[strategy], *how).refused(UsageProblem, said)
        assert not list(state.iterdir())


AGAIN = (*PROVIDER, "-H", "ldap://127.0.0.1:3")


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (NEEDED["search"], "give --strategy"),
        (("--strategy", "search", *PROVIDER), "--strategy search needs the configuration of the stopped consumer"),
        (("--strategy", "online", *PROVIDER), "--strategy online needs the running consumer: --consumer URI"),
        (("--strategy", "online", *RUNNING), "takes the entries either from a provider (-H) or from LDIF (--from)"),
        *(
            (("--strategy", "online", *RUNNING, *FROM, option, "2"), f"{option} is only for reading a provider (-H)")
            for option in ("-j", "--pieces", "--page")
        ),
        *(
            (("--strategy", one, *needed, *AGAIN), "-H several times is only for --strategy search")
            for one, needed in (("ldif", NEEDED["ldif"]), ("clone", NEEDED["clone"]), ("online", RUNNING))
        ),
        *(
            (("--strategy", one, *NEEDED[one], "--timeout", f"{step}=5"), f"--timeout {step}=5: the steps are")
            for one, step in (("search", "copy"), ("ldif", "stream"), ("clone", "load"), ("online", "copy"))
        ),
    ],
)
def test_what_does_not_go_together(words: tuple[str, ...], said: str) -> None:
    ditseed("replica", "seed", *words).refused(UsageProblem, said)


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
