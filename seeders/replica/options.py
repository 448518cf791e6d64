"""The options of `replica seed`, `refresh` and `verify`. No operation is imported here, because --help needs none."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from loader import declared, defaults
from loader.server.options import Connection

STRATEGY_NAMES = ("search", "ldif", "clone", "online")


@dataclass(frozen=True)
class RefreshOptions:
    """Options of `replica refresh`. `connection`: the connection to the provider."""

    config_path: declared.Config
    connection: Connection = field(default_factory=Connection)
    suffix: declared.ConsumerSuffix = None
    allow_hidden: declared.AllowHidden = False
    run_dir: declared.RunDir = None


_READ = "search, online: number of"


@dataclass(frozen=True, kw_only=True)
class SeedOptions(declared.Placing, declared.Reading):
    """Options of `replica seed`. `strategy`: empty if a dry run tries all strategies. `config_path`: the configuration
    of a stopped consumer. `consumer`: a running consumer. `connection`: the provider. `source`: paths of --from (LDIF,
    an export or a database directory). `admin`: for --prepare-provider, two connections to the provider; the first may
    change cn=config, the second may write to the tree."""

    strategy: str = ""
    config_path: declared.OptionalConfig = None
    suffix: declared.ConsumerSuffix = None
    consumer: Connection | None = None
    connection: Connection | None = None
    source: tuple[Path, ...] = ()
    admin: tuple[Connection, Connection] | None = None
    replicas: tuple[Connection, ...] = ()  # more providers of the same tree
    engine: declared.Engine = defaults.ENGINES[0]
    verify: declared.VerifyNew = "quick"
    write_context: Annotated[
        declared.WriteContextCsn,
        "ldif: compute contextCSN from the entries, as slapadd -w (for the output of slapcat only).",
    ] = False
    allow_hidden: declared.AllowHidden = False
    jobs: Annotated[
        declared.Jobs, f"{_READ} parallel connections to each provider (default: one per processor, at most 4)."
    ] = None
    pieces: Annotated[
        declared.Pieces,
        f"{_READ} searches into which the tree is divided; 0: as many as jobs. If a connection breaks, one of them is "
        "repeated.",
    ] = 0
    page: Annotated[declared.Page, "search, online: entries per page; 0: no paging unless a limit requires it."] = 0
    prepare_consumer: Annotated[
        bool,
        "search, ldif, clone: write into the slapd.d of the consumer what it lacks as a replica: a syncrepl with the "
        "provider, account and password given here, and the indexes that syncrepl searches by.",
    ] = False
    nosync: Annotated[bool, "online: switch nosync on during the load, as `ditseed add --nosync`."] = False
    run_dir: declared.RunDir = None


@dataclass(frozen=True)
class VerifyOptions:
    """Options of `replica verify`. `wait`: seconds that the replica may take to catch up; None: derived from what the
    provider has to send. `config_path`: the consumer's configuration; None: its cn=config is read over LDAP."""

    provider: Connection = field(default_factory=Connection)
    consumer: Connection = field(default_factory=Connection)
    config_path: declared.OptionalConfig = None
    wait: Annotated[
        float | None,
        "--wait SECONDS",
        declared.Duration(),
        "How long to wait for the replica to catch up (default: derived from what the provider has to send).",
    ] = None
    quick: Annotated[
        bool, "Only wait until the replica's contextCSN covers the provider's; with --wait 0, only look."
    ] = False
    limit: Annotated[declared.Limit, "Number of differing entries to name."] = defaults.DIFFERENCES
