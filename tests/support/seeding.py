"""A provider, a consumer, and `replica seed` commands for them."""

from __future__ import annotations

import dataclasses
import time
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

from fixtures import replication
from fixtures.slapd import Form, Slapd
from fixtures.slapd_config import DATABASE, Installation, Settings
from fixtures.trees import Load, write_people
from tests.support.command import ditseed

STRATEGIES = ("search", "ldif", "slapcat", "clone")  # slapcat: --strategy ldif from a plain slapcat


def bind(server: Slapd) -> tuple[str, ...]:
    """Connection options of the replicator."""
    return ("-H", server.uri, "-D", "cn=replicator", "-y", str(server.replicator_password_file))


def follow(source: Slapd, target: Slapd) -> None:
    """Makes a running server a consumer, as the operator would."""
    line = replication.syncrepl(source).removeprefix("syncrepl ")
    target.configure(f"dn: {DATABASE}\nchangetype: modify\nadd: olcSyncrepl\nolcSyncrepl: {line}\n")


@dataclass
class Pair:
    """A running provider, and a stopped consumer with an empty database."""

    provider: Slapd
    consumer: Slapd
    scratch: Path
    uri: str | None = None  # the provider's URI, if not its own (a proxy)

    @property
    def bind(self) -> tuple[str, ...]:
        """Connection options of the replicator."""
        _, uri, *account = bind(self.provider)
        return ("-H", self.uri or uri, *account)

    @property
    def where(self) -> tuple[str, ...]:
        """Options that name the consumer's database."""
        return ("--config", str(self.consumer.config_path), "-b", self.consumer.suffix)

    @property
    def export_dir(self) -> Path:
        return self.scratch / "export"

    @property
    def slapcat_file(self) -> Path:
        return self.scratch / "slapcat.ldif"

    def prepare(self, strategy: str) -> None:
        """Makes the input of a strategy: an export, or a slapcat of the running provider."""
        if strategy == "ldif":
            ditseed("export", *self.bind, "-b", self.provider.suffix, "-o", self.export_dir).ok()
        elif strategy == "slapcat":
            self.slapcat_file.write_text(self.provider.slapcat())

    def seed(self, strategy: str, *more: object) -> list[str]:
        """Returns the command."""
        sources: dict[str, tuple[object, ...]] = {
            "search": ("search", *self.bind),
            "ldif": ("ldif", "--from", self.export_dir),
            "slapcat": ("ldif", "--from", self.slapcat_file),
            "clone": ("clone", *self.bind, "--from", self.provider.database_dir),
        }
        given = ("replica", "seed", "--strategy", *sources[strategy], *self.where, *more)
        return [str(one) for one in given]


def verifying(source: Slapd, target: Slapd, *more: object) -> tuple[object, ...]:
    """Returns the command that compares a running replica with its provider; both are read by the replicator."""
    there = ("--consumer", target.uri, "--consumer-password-file", target.replicator_password_file)
    return ("replica", "verify", *bind(source), "-b", source.suffix, *there, *more)


def online(source: Slapd, target: Slapd, *given: object) -> tuple[object, ...]:
    """Returns the command that seeds a running server. `given`: replaces the replicator's options and the base."""
    consumer = ("--consumer", target.ldapi_uri, "--consumer-mechanism", "EXTERNAL")
    return ("replica", "seed", "--strategy", "online", *(given or (*bind(source), "-b", source.suffix)), *consumer)


@contextmanager
def pair(
    scratch: Path,
    people: int,
    session_log: int = replication.SESSION_LOG,
    overlays: tuple[str, ...] = (),
    after: Installation | None = None,
    wanted: Settings | None = None,
    before: Installation | None = None,
) -> Iterator[Pair]:
    """Yields a running provider of `people`, and a stopped, empty consumer (with `overlays`). `before`, `after`: the
    OpenLDAP of the provider and of the consumer, if not the default. `wanted`: settings of both."""
    source = replication.provider(wanted, session_log=session_log, installation=before)
    settings = replication.as_consumer(source.settings, overlays=overlays)
    ldif = scratch / "people.ldif"
    load = Load(time.time() - 1, source.settings.server_id or 0)
    write_people(ldif, source.suffix, people, load=load)
    source.slapadd(ldif)
    made = replication.consumer(source, settings, installation=after)
    with source, closing(made) as target:
        # As of a provider that was in use: syncprov stores its contextCSN when slapd stops.
        source.describe("changed once")
        source.restart()
        yield Pair(source, target, scratch)


@contextmanager
def consumer_of(both: Pair, form: Form = "config") -> Iterator[Pair]:
    """Yields the same provider with another consumer."""
    with closing(replication.consumer(both.provider, form=form)) as target:
        yield dataclasses.replace(both, consumer=target)
