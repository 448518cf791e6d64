"""The runbook "Upgrade without downtime" of docs/migrate.md, walked through with a real 2.7 while a writer changes the
provider; and the way back. Only names and paths are those of the test."""

from __future__ import annotations

import re
import shlex
import textwrap
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import pytest

from fixtures import openldap_27
from fixtures.churn import Churn
from fixtures.replication import SESSION_LOG, refresh_report, wait_in_sync
from fixtures.slapd import ServerError, Slapd
from fixtures.slapd_config import Settings
from loader.mdb import meta
from tests.support.command import Done, ditseed
from tests.support.require import require_2_7
from tests.support.seeding import Pair, pair
from tests.support.trees import assert_same

pytestmark = [pytest.mark.slapd, pytest.mark.long]

PAGE = (Path(__file__).parents[2] / "docs/migrate.md").read_text()
RUNBOOK = PAGE.partition("## Upgrade without downtime")[2].partition("\n## ")[0]
UP, BACK = RUNBOOK.split("### The way back")
SYNCPROV = f"overlay syncprov\nsyncprov-checkpoint 100 1\nsyncprov-sessionlog {SESSION_LOG}"
A_CHANGE = "dn: {}\nchangetype: modify\nreplace: o\no: changed\n"


@dataclass(frozen=True)
class Busy:
    """A provider of so many people; rate: changes a second, `least` at least. settings: of both. prefix: of the
    commands, which run on the provider's own processors."""

    people: int
    rate: float
    least: float = 0.0
    settings: Settings | None = None
    prefix: tuple[str, ...] = ()


class Walk:
    """Through one of the two ways: from the provider of `both` to its consumer."""

    def __init__(self, text: str, both: Pair, env: Mapping[str, str], prefix: tuple[str, ...] = ()) -> None:
        """prefix: of the commands of ditseed."""
        self.text, self.both, self.prefix = text, both, prefix
        self.old, self.new = both.provider, both.consumer
        if text is BACK:
            self.old, self.new = self.new, self.old
        password = both.consumer.replicator_password_file
        self.env = {**env, "DITSEED_CONSUMER_PASSWORD_FILE": str(password)}

    def run(self, number: int) -> Done:
        """That command of ditseed."""
        text = textwrap.dedent(self.text).replace("\\\n", " ")
        lines = re.findall(r"^ *(?:env -u DITSEED_TOOLS )?ditseed (.*)", text, re.MULTILINE)
        words = shlex.split(self._here(lines[number]))
        return ditseed(*words, env=self.env, prefix=self.prefix)

    def change(self, number: int) -> str:
        """Those change records for cn=config."""
        blocks = re.findall(r"<<'END'\n(.*?)END\n", self.text, re.DOTALL)
        return self._here(textwrap.dedent(blocks[number]))

    def _here(self, text: str) -> str:
        """With what the test has in the place of the example's names."""
        provider, consumer = self.both.provider, self.both.consumer
        names = {
            "ldap://localhost:3890": consumer.uri,
            "ldap://localhost": provider.uri,
            "cn=replicator,dc=example,dc=com": "cn=replicator",
            "/root/replicator.pw": provider.replicator_password_file,
            "SECRET": provider.replicator_password_file.read_text(),
            "/opt/openldap/etc/slapd.d": self.new.config_path,
            "/etc/ldap/slapd.d": self.old.config_path,
            "/var/lib/ldap": self.old.database_dir,
            "/srv/ldap-2.7": self.new.database_dir,
            "{1}mdb": _number(consumer),
        }
        for name, mine in names.items():
            text = text.replace(name, str(mine))
        return text


def _number(server: Slapd) -> str:
    (found,) = server.config_path.glob("cn=config/olcDatabase={*}mdb.ldif")
    return found.stem.partition("=")[2]


def _seed_and_follow(walk: Walk, seeding: int, wanted: int, busy: Busy) -> None:
    """Beside a writer; in the end both are equal."""
    provider, consumer = walk.both.provider, walk.both.consumer
    a_while = int(0.4 * busy.rate)
    with Churn(provider, rate=busy.rate, seed=seeding + 1) as churn:
        churn.wait_for(a_while)
        began, before = time.monotonic(), churn.changes()
        done = walk.run(seeding).ok()
        assert re.search(r"^converted +data format", done.out, re.MULTILINE), done
        assert meta.read_meta(consumer.database_dir).format == wanted
        consumer.start()
        churn.wait_for(churn.changes() + a_while)
        made, seconds = churn.changes() - before, time.monotonic() - began
    wait_in_sync(provider, consumer)
    assert_same(provider, consumer)
    refreshes = refresh_report(consumer)
    assert refreshes
    assert all(one.cookie and one.sent <= busy.people // 2 for one in refreshes), refreshes
    assert made >= seconds * busy.least, f"{made} in {seconds} s"
    print(f"{made} changes in {seconds:.1f} s ({made / seconds:.0f}/s), then {refreshes}")


def _take_over(walk: Walk, up: Walk) -> None:
    """Step 6, as `up` has it: the provider refuses writes, and both are equal before the consumer accepts them."""
    provider, consumer = walk.both.provider, walk.both.consumer
    provider.configure(up.change(0))
    with pytest.raises(ServerError, match=r"read-only|restricted"):
        provider.ldapmodify(A_CHANGE.format(provider.suffix))
    assert "equal" in up.run(2).ok().out
    consumer.configure(up.change(1))
    provider.stop()
    consumer.ldapmodify(A_CHANGE.format(consumer.suffix))


@pytest.mark.parametrize(
    "busy",
    [
        pytest.param(Busy(2000, 50.0), id="short"),
        pytest.param(
            # A disk that 500 changes a second can be waited for is not everywhere.
            Busy(
                *(100_000, 1000.0, 500.0),
                settings=Settings(database_lines=("dbnosync",), loglevel="sync"),
                prefix=("nice", "-n", "19"),
            ),
            marks=[pytest.mark.heavy, pytest.mark.timeout(0)],
            id="heavy",
        ),
    ],
)
def test_up_and_back(busy: Busy, short_tmp: Path) -> None:
    require_2_7()
    newer = openldap_27.installation()
    with pair(short_tmp, busy.people, overlays=(SYNCPROV,), after=newer, wanted=busy.settings) as both:
        up = Walk(UP, both, {"DITSEED_TOOLS": openldap_27.tools()}, busy.prefix)
        assert "converted" in up.run(0).ok().out
        assert not list(both.consumer.database_dir.iterdir())
        _seed_and_follow(up, 1, 3, busy)
        _take_over(up, up)
        both = replace(both, provider=both.consumer, consumer=both.provider)
        back = Walk(BACK, both, {}, busy.prefix)
        place = both.consumer.config_arguments
        both.consumer.tool("slapmodify", "-n0", *place, stdin=back.change(0).encode())
        _seed_and_follow(back, 0, 1, busy)
        _take_over(back, Walk(UP, both, {}))
