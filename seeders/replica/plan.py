"""The plan of a seeding: the results of `replica seed --dry-run`, and the file that -o writes and --plan reads.

Before a plan file is used, its types and its owner are checked, and that provider and consumer are still the same."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from loader import dn, typed
from loader.config import Config
from loader.errors import NoSuchPath, UsageProblem
from loader.server import configuration
from loader.server.options import Connection
from loader.server.session import session
from loader.typed import Count, Digest64, Seconds, Unfit
from seeders.replica.strategies import SeedOptions

FORMAT = 1
CATCH_UP = "catch-up"  # planned step that ditseed does not run: syncrepl does, after slapd has started
_IGNORED = "olcdbmaxsize"  # ditseed itself may set it between the plan and the seeding
_AGAIN = "make the plan again with `ditseed replica seed --dry-run -o`"

StrategyName = Literal["search", "ldif", "clone", "online"]
Text = Annotated[str, msgspec.Meta(max_length=1 << 16)]
Step = Annotated[str, msgspec.Meta(pattern=r"^[a-z-]{1,32}\Z")]


@dataclass(frozen=True)
class PlannedStep:
    """`why`: how the seconds were predicted, in words."""

    name: Step
    seconds: Seconds
    why: Text


@dataclass(frozen=True)
class StrategyPlan:
    """`refused`: code of the error with which a seeding would end; None if the strategy is feasible. `catch_up`: what
    the provider sends once the consumer is started, in words. `seconds`: total of all steps, catch-up included; None if
    unknown. `disk`: bytes on the consumer; None if unknown, or if the consumer is running."""

    strategy: StrategyName
    refused: Text | None = None
    reason: Text = ""
    advice: Text = ""
    steps: tuple[PlannedStep, ...] = ()
    catch_up: Text = ""
    only_changes: bool = False
    loses_deletions: bool = False
    seconds: Seconds | None = None
    disk: Count | None = None
    source: tuple[Text, ...] = ()
    notes: tuple[Text, ...] = ()

    @property
    def feasible(self) -> bool:
        return self.refused is None


@dataclass(frozen=True)
class SeedPlan:
    """The plan for one provider and one consumer. `chosen`: None if no strategy is feasible. `provider_uuid`: entryUUID
    of the provider's base entry. `configuration`: SHA-256 of the consumer's configuration."""

    suffix: Text
    provider: Text | None
    provider_uuid: Text
    configuration: Digest64
    made: Text
    entries: Count | None
    measured: dict[Text, Text]
    strategies: tuple[StrategyPlan, ...]
    chosen: StrategyName | None
    why: Text
    format: int = FORMAT

    def strategy(self, name: str | None) -> StrategyPlan | None:
        return next((row for row in self.strategies if row.strategy == name), None)

    def require_same(self, options: SeedOptions, path: Path) -> None:
        """Raises UsageProblem if the provider or the consumer is not that of the plan in the file `path`."""
        provider, reason = options.connection, None
        config = configuration.read(options.config_path) if options.config_path else None
        suffix = config.database(options.suffix).suffix if config else options.suffix
        if suffix is not None and dn.key(suffix) != dn.key(self.suffix):
            reason = f"it is for {self.suffix}, not {suffix}"
        elif config is not None and fingerprint(config) != self.configuration:
            reason = f"the consumer's configuration {config.where} is not that of the plan"
        elif provider is None:
            return  # no error: the plan may have used a provider only to predict the catch-up
        elif provider.uri != self.provider:
            reason = f"it is for the provider {self.provider}, not {provider.uri}"
        elif base_uuid(provider, self.suffix) != self.provider_uuid:
            reason = f"{provider.uri} holds another tree than when the plan was made"
        if reason:
            raise UsageProblem(reason=f"--plan {path}: {reason}; {_AGAIN}")


def fingerprint(config: Config | None) -> str:
    if config is None:
        return "0" * 64
    settings = [setting for setting in sorted(config.settings.items()) if setting[0][1] != _IGNORED]
    return hashlib.sha256(repr(settings).encode()).hexdigest()


def base_uuid(provider: Connection, suffix: str) -> str:
    """Returns the entryUUID of the provider's base entry; empty if it cannot be read."""
    with session(provider) as server:
        values = server.read(provider.base or suffix, ["entryUUID"]).get("entryuuid", [])
    return values[0].decode("utf-8", "replace") if values else ""


def read(path: Path, name: str | None) -> tuple[SeedPlan, StrategyPlan]:
    """Reads a plan file. Returns the plan, and the strategy to carry out: `name`, else the plan's choice. Raises
    NoSuchPath; UsageProblem if the file is no plan, if another account may have written it, or if the plan calls the
    strategy infeasible."""
    try:
        plan = typed.parse(typed.content(path, own=True), SeedPlan, FORMAT)
        choice = plan.strategy(plan.chosen)
        if len({row.strategy for row in plan.strategies}) != len(plan.strategies):
            raise Unfit("names a strategy twice")
        if plan.chosen is not None and not (choice and choice.feasible):
            raise Unfit(f"chooses {plan.chosen}, which is not feasible by it")
    except FileNotFoundError:
        raise NoSuchPath(path=path) from None
    except Unfit as error:
        reason = str(error).replace("a manifest", "a plan of `ditseed replica seed --dry-run -o`")
        raise UsageProblem(reason=f"--plan {path}: {reason}") from error
    row = plan.strategy(name) if name else choice
    if row is None:
        raise UsageProblem(reason=f"--plan {path}: by it, no strategy can be carried out")
    if not row.feasible:
        reason = f"by it, --strategy {row.strategy} cannot be taken: {row.reason}"
        raise UsageProblem(reason=f"--plan {path}: {reason}")
    return plan, row
