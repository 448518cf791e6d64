"""What a consumer's configuration alone forbids is refused in the preflight, before an entry is read."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from fixtures import glued, replication
from fixtures.glued import GROUPS, SUFFIX, SubordinateDatabase
from fixtures.slapd import Slapd
from fixtures.slapd_config import INDEXES, Settings
from loader.errors import NotProven, TargetNotEmpty, UsageProblem
from tests.support.command import Done, ditseed
from tests.support.seeding import bind

pytestmark = pytest.mark.slapd

# An index on an attribute of a syntax of assertions; and keys that are longer than any that were compared.
UNPROVEN = {
    "odd, which": ("attributetype ( 1.3.6.1.4.1.99999.1 NAME 'odd' SYNTAX 1.3.6.1.1.15.1 )", "odd pres"),
    "index_intlen is 9": ("index_intlen 9", "ou eq"),
}


@pytest.fixture(scope="module")
def provider() -> Iterator[Slapd]:
    with replication.provider(Settings(suffix=SUFFIX)) as source:
        source.ldapadd(f"dn: {SUFFIX}\nobjectClass: domain\ndc: example\n")
        yield source


@contextmanager
def consumer(source: Slapd, kind: str, home: Path, line: str = "", index: str = "ou eq") -> Iterator[Slapd]:
    lines = (line,) if line else ()
    settings = Settings(suffix=SUFFIX, global_lines=lines, indexes=(*INDEXES, index))
    if "glued" in kind:
        settings = glued.settings(home, [SubordinateDatabase(GROUPS)], settings)
    options = 'filter="(objectClass=domain)"' if "partial" in kind else ""
    with closing(replication.consumer(source, settings, options=options)) as target:
        yield target


def refused(source: Slapd, target: Slapd, strategy: str, ldif: Path, *more: str) -> Done:
    """Before an entry was read; a dry run makes the provider's checks all the same."""
    given = bind(source) if strategy == "search" else ("-w", "--from", ldif)
    where = ("--config", target.config_path, "--suffix", SUFFIX)
    mark = source.log_size()
    done = ditseed("replica", "seed", "--strategy", strategy, *given, *where, *more)
    assert "--dry-run" in more or not source.log_lines(r"SRCH base=", mark)
    for step in (*(() if "--dry-run" in more else ("plan:",)), "read:", "select:", "claim:", "scan:", "split:"):
        assert step not in done.err, done
    return done


@pytest.fixture
def ldif(provider: Slapd, tmp_path: Path) -> Path:
    path = tmp_path / "in.ldif"
    path.write_text(provider.slapcat())
    return path


@pytest.mark.parametrize("strategy", ["search", "ldif", "clone"])
def test_a_context_csn_that_the_consumer_would_not_find(provider: Slapd, ldif: Path, strategy: str) -> None:
    """Another engine would not help: only the configuration can be changed."""
    sources = {"search": (), "ldif": ("--from", ldif), "clone": ("--from", provider.database_dir)}
    settings = Settings(suffix=SUFFIX, indexes=(*INDEXES, "ou eq"), database_lines=("sync_use_subentry on",))
    with closing(Slapd(settings)) as target:
        where = (*sources[strategy], "--config", target.config_path, "--suffix", SUFFIX)
        done = ditseed("replica", "seed", "--strategy", strategy, *bind(provider), *where)
        done.refused(UsageProblem, "remove sync_use_subentry")
        assert "--engine slapadd" not in done.err


@pytest.mark.long(
    "glued-index_intlen is 9", "glued-odd, which", "partial-glued-odd, which", "partial-odd, which", "whole-odd, which"
)
@pytest.mark.parametrize("words", UNPROVEN)
@pytest.mark.parametrize("kind", ["whole", "partial", "glued", "partial-glued"])
def test_what_is_not_proven(kind: str, words: str, provider: Slapd, ldif: Path, tmp_path: Path) -> None:
    with consumer(provider, kind, tmp_path, *UNPROVEN[words]) as target:
        for strategy in ("search", "ldif"):
            for more in ((), ("--dry-run",)):
                refused(provider, target, strategy, ldif, *more).refused(NotProven, words)


@pytest.mark.long
def test_a_subordinate_database_that_holds_entries(provider: Slapd, ldif: Path, tmp_path: Path) -> None:
    with consumer(provider, "glued", tmp_path) as target:
        target.slapadd(f"dn: {GROUPS}\nobjectClass: organizationalUnit\nou: groups\n", "-b", GROUPS)
        for strategy in ("search", "ldif"):
            refused(provider, target, strategy, ldif).refused(TargetNotEmpty)
